/* solve_chain.c: `cairn solve chain FILE`, recomputation on a chain under a budget. */
#include "problems.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct request {
    const char *algorithm;
    bool json, schedule;
    cli_size budget;
    cairn_chain_options options;
} request;

static void print_step(cairn_chain_step step, const char *quote) {
    static const char *const marks[] = {"F", "B", "-f"};
    printf("%s%s%" PRIu32 "%s", quote, marks[step.kind], step.layer, quote);
}

static void print_json(const request *r, uint32_t index, const cairn_chain_solution *s,
                       int64_t spent) {
    printf("{\"case\":%" PRIu32, index);
    if (s->feasible)
        printf(",\"cost\":%" PRId64 ",\"peak\":%" PRIu64, s->cost, s->peak);
    else
        printf(",\"cost\":null,\"peak\":null");
    printf(",\"min_budget\":%" PRIu64 ",\"solve_ns\":%" PRId64, s->min_budget, spent);
    if (s->feasible && s->bracketed)
        printf(",\"lower_bound\":%" PRId64, s->lower_bound);
    if (r->schedule) {
        printf(",\"schedule\":%s", s->feasible ? "[" : "null");
        for (size_t i = 0; i < s->step_count; i++) {
            fputs(i > 0 ? "," : "", stdout);
            print_step(s->steps[i], "\"");
        }
        fputs(s->feasible ? "]" : "", stdout);
    }
    if (r->options.curve) {
        printf(",\"curve\":[");
        for (size_t i = 0; i < s->curve_count; i++)
            printf("%s[%" PRIu64 ",%" PRId64 "]", i > 0 ? "," : "", s->curve[i].budget,
                   s->curve[i].cost);
        putchar(']');
    }
    printf("}\n");
}

static void print_row(uint32_t index, const cairn_chain_problem *p, const cairn_chain_solution *s,
                      int64_t spent) {
    char cost[32] = "-", peak[32] = "-", bound[48] = "";
    if (s->feasible) {
        snprintf(cost, sizeof cost, "%" PRId64, s->cost);
        snprintf(peak, sizeof peak, "%" PRIu64, s->peak);
    }
    if (s->feasible && s->bracketed)
        snprintf(bound, sizeof bound, "  at least %" PRId64, s->lower_bound);
    printf("%5" PRIu32 " %6" PRIu32 " %14" PRIu64 " %14s %14s %14" PRIu64 " %10s%s\n", index,
           p->layers, p->budget, cost, peak, s->min_budget, cli_time(spent), bound);
}

static void print_details(const request *r, const cairn_chain_solution *s) {
    if (r->schedule && s->feasible) {
        printf("  schedule:");
        for (size_t i = 0; i < s->step_count; i++) {
            putchar(' ');
            print_step(s->steps[i], "");
        }
        putchar('\n');
    }
    if (r->options.curve)
        printf("  %14s %14s\n", "from budget", "cost");
    for (size_t i = 0; r->options.curve && i < s->curve_count; i++)
        printf("  %14" PRIu64 " %14" PRId64 "\n", s->curve[i].budget, s->curve[i].cost);
}

static int solve_case(const request *r, const cairn_chain_problem *given, uint32_t index,
                      bool *fits, uint64_t *min_budget) {
    cairn_chain_problem problem = *given;
    if (r->budget.given)
        problem.budget = r->budget.bytes;
    cairn_chain_solution *solution;
    cairn_error err = {0};
    int64_t start = cli_clock();
    cairn_status status =
        cairn_chain_solve(NULL, &problem, r->algorithm, &r->options, &solution, &err);
    int64_t spent = cli_clock() - start;
    if (status != CAIRN_OK && status != CAIRN_INFEASIBLE)
        return cli_fail(status, &err);
    if (r->json) {
        print_json(r, index, solution, spent);
    } else {
        print_row(index, &problem, solution, spent);
        print_details(r, solution);
    }
    *fits = solution->feasible;
    *min_budget = solution->min_budget;
    cairn_chain_solution_destroy(solution);
    return CLI_DONE;
}

/* Exit status 3 where no case at all has a schedule within its budget. */
static int solve_all(const request *r, const cairn_chain_cases *cases) {
    uint32_t count = cairn_chain_cases_count(cases);
    bool any = false;
    uint64_t min_budget = 0;
    if (!r->json)
        printf("%5s %6s %14s %14s %14s %14s %10s\n", "case", "layers", "budget", "cost", "peak",
               "min budget", "time");
    for (uint32_t i = 0; i < count; i++) {
        bool fits = false;
        int code = solve_case(r, cairn_chain_cases_get(cases, i), i, &fits, &min_budget);
        if (code != CLI_DONE)
            return code;
        any = any || fits;
    }
    if (any)
        return CLI_DONE;
    cairn_error err = {.status = CAIRN_INFEASIBLE, .smallest_budget = min_budget};
    if (count == 1)
        snprintf(err.message, sizeof err.message,
                 "nothing fits the budget; the smallest possible one is %" PRIu64, min_budget);
    else
        snprintf(err.message, sizeof err.message, "nothing fits the budget in any of the %u cases",
                 (unsigned)count);
    return cli_fail(CAIRN_INFEASIBLE, &err);
}

static const char *algorithm_name(uint32_t index) {
    const cairn_chain_algorithm *algorithm = cairn_chain_algorithm_list(index);
    return algorithm == NULL ? NULL : algorithm->name;
}

int cli_solve_chain(const cli_args *args, const cairn_text *file) {
    request r = {.json = cli_flag(args, "json"),
                 .schedule = cli_flag(args, "schedule"),
                 .options = CAIRN_CHAIN_OPTIONS_INIT};
    uint32_t algorithm;
    cairn_error err = {0};
    cairn_chain_cases *cases;
    r.options.curve = cli_flag(args, "curve");
    if (!cli_choice_value(args, "algorithm", algorithm_name, 0, &algorithm) ||
        !cli_size_value(args, "budget", &r.budget))
        return CLI_USAGE;
    if (r.budget.percent)
        return cli_usage_error(args, "--budget of a chain is a number, not a percentage");
    r.algorithm = algorithm_name(algorithm);
    cairn_status status =
        cairn_chain_cases_read(NULL, file->data, file->length, cli_case_file(args), &cases, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = solve_all(&r, cases);
    cairn_chain_cases_destroy(cases);
    return code;
}
