/* solve_offload.c: `cairn solve offload FILE`, offloading on a chain (Beaumont et al.). */
#include "problems.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Options ---- */

static const char *algorithm_name(uint32_t index) {
    const cairn_offload_algorithm *algorithm = cairn_offload_algorithm_list(index);
    return algorithm == NULL ? NULL : algorithm->name;
}

static const char *release_name(uint32_t index) {
    static const char *const names[] = {
        [CAIRN_OFFLOAD_RELEASE_WHOLE] = "whole", [CAIRN_OFFLOAD_RELEASE_FRACTIONAL] = "fractional"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

static bool read_slots(const cli_args *args, uint32_t *out) {
    const char *text = cli_value(args, "slots");
    uint64_t slots = 0;
    *out = CAIRN_OFFLOAD_SLOTS_EXACT;
    if (text != NULL && strcmp(text, "exact") == 0)
        return true;
    if (!cli_number(args, "slots", 1, 1000000, 0, &slots))
        return false;
    *out = (uint32_t)slots;
    return true;
}

/* ---- Output ---- */

static void print_set(const cairn_offload_solution *solution, const char *separator) {
    for (uint32_t k = 0; solution != NULL && k < solution->transfer_count; k++)
        printf("%s%" PRIu32, k > 0 ? separator : "", solution->transfers[k].activation);
}

static void print_json(uint32_t index, const cairn_offload_bounds *bounds,
                       const cairn_offload_solution *solution, int64_t solve_ns) {
    printf("{\"case\":%" PRIu32 ",\"makespan_x_beta\":", index);
    if (solution != NULL)
        printf("%" PRIu64, solution->makespan_x_beta);
    else
        printf("null");
    printf(",\"offloaded\":[");
    print_set(solution, ",");
    printf("],\"lower_bound_x_beta\":%" PRIu64 ",\"solve_ns\":%" PRId64 "}\n",
           bounds->lower_bound_x_beta, solve_ns);
}

static void print_header(const char *algorithm, cairn_offload_release release) {
    printf("%s, %s release; times are multiplied by the bandwidth\n\n", algorithm,
           release_name(release));
    printf("%-12s %6s %14s %14s %16s %16s %9s  %s\n", "case", "layers", "memory", "least memory",
           "makespan", "lower bound", "above", "offloaded");
}

/* The distance to the lower bound for all schedules with that release. */
static void print_row(const char *id, uint32_t index, const cairn_offload_problem *problem,
                      uint64_t bound, const cairn_offload_bounds *bounds,
                      const cairn_offload_solution *solution) {
    char name[16];
    snprintf(name, sizeof name, id[0] != '\0' ? "%.12s" : "%.0s%" PRIu32, id, index);
    printf("%-12s %6" PRIu32 " %14" PRIu64 " %14" PRIu64 " ", name, problem->layers,
           problem->memory, bounds->min_memory);
    if (solution == NULL) {
        printf("%16s %16s %9s  %s sets the least memory\n", "does not fit", "", "",
               bounds->min_memory_op);
        return;
    }
    double above = bound > 0 ? (double)solution->makespan_x_beta / (double)bound - 1 : 0;
    printf("%16" PRIu64 " %16" PRIu64 " %8.2f%%%s ", solution->makespan_x_beta, bound, 100 * above,
           solution->optimal ? "*" : " ");
    print_set(solution, " ");
    printf("\n");
}

/* ---- Solving ---- */

typedef struct settings {
    const char *algorithm;
    cairn_offload_options options;
    bool json;
} settings;

/* One case; false after an error that ends the run, `*code` then set. */
static bool solve_case(const settings *s, const cairn_offload_cases *cases, uint32_t index,
                       uint32_t *fitting, int *code) {
    const cairn_offload_problem *problem = cairn_offload_cases_get(cases, index);
    cairn_offload_solution *solution;
    cairn_offload_bounds bounds;
    cairn_error err = {0};
    int64_t start = cli_clock();
    cairn_status status =
        cairn_offload_solve(NULL, problem, s->algorithm, &s->options, &solution, &err);
    int64_t solve_ns = cli_clock() - start;
    bool answered = status == CAIRN_OK || status == CAIRN_INFEASIBLE;
    if (answered && (status = cairn_offload_bound(NULL, problem, &bounds, &err)) == CAIRN_OK) {
        *fitting += solution != NULL;
        if (s->json)
            print_json(index, &bounds, solution, solve_ns);
        else
            print_row(cairn_offload_cases_id(cases, index), index, problem,
                      s->options.release == CAIRN_OFFLOAD_RELEASE_WHOLE ? bounds.whole_x_beta
                                                                        : bounds.fractional_x_beta,
                      &bounds, solution);
    }
    cairn_offload_solution_destroy(solution);
    if (status == CAIRN_OK)
        return true;
    *code = cli_fail(status, &err);
    return false;
}

/* No case fits: say so, with the memory that the first one would need. */
static int say_nothing_fits(const cairn_offload_cases *cases) {
    cairn_offload_solution *solution;
    cairn_error err = {0};
    cairn_status status =
        cairn_offload_solve(NULL, cairn_offload_cases_get(cases, 0), NULL, NULL, &solution, &err);
    cairn_offload_solution_destroy(solution);
    return cli_fail(status, &err);
}

static int solve_all(const settings *s, const cairn_offload_cases *cases) {
    uint32_t fitting = 0;
    int code = CLI_DONE;
    if (!s->json)
        print_header(s->algorithm, s->options.release);
    for (uint32_t i = 0; i < cairn_offload_cases_count(cases); i++)
        if (!solve_case(s, cases, i, &fitting, &code))
            return code;
    if (!s->json)
        printf("\nabove: over the lower bound, which no schedule can reach below; "
               "*: proved optimal\n");
    return fitting > 0 ? CLI_DONE : say_nothing_fits(cases);
}

int cli_solve_offload(const cli_args *args, const cairn_text *file) {
    settings s = {.options = CAIRN_OFFLOAD_OPTIONS_INIT, .json = cli_flag(args, "json")};
    uint32_t algorithm, release;
    cairn_error err = {0};
    cairn_offload_cases *cases;
    if (!cli_choice_value(args, "algorithm", algorithm_name, 0, &algorithm) ||
        !cli_choice_value(args, "release", release_name, CAIRN_OFFLOAD_RELEASE_WHOLE, &release) ||
        !read_slots(args, &s.options.slots))
        return CLI_USAGE;
    s.algorithm = algorithm_name(algorithm);
    s.options.release = (cairn_offload_release)release;
    cairn_status status =
        cairn_offload_cases_read(NULL, file->data, file->length, cli_case_file(args), &cases, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = solve_all(&s, cases);
    cairn_offload_cases_destroy(cases);
    return code;
}
