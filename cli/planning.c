/* planning.c: see planning.h. */
#include "interrupt.h"
#include "planning.h"

#include "refusal.h"
#include "terminal.h"

#include <stdio.h>
#include <time.h>

bool cli_list_algorithms(uint32_t index, cli_named *out) {
    const cairn_solver *solver = cairn_solver_list(index);
    if (solver != NULL)
        *out = (cli_named){solver->name, solver->summary};
    return solver != NULL;
}

bool cli_list_machines(uint32_t index, cli_named *out) {
    const cairn_machine *machine = cairn_machine_list(index);
    if (machine != NULL)
        *out = (cli_named){machine->name, machine->summary};
    return machine != NULL;
}

bool cli_list_backends(uint32_t index, cli_named *out) {
    const cairn_device_entry *backend = cairn_device_list(index);
    if (backend != NULL)
        *out = (cli_named){backend->name, backend->summary};
    return backend != NULL;
}

/* Show on a terminal for how long a plan is being searched for, and of --effort how much is done.
 */
typedef struct search {
    const cli_args *args; /* NULL: nothing is shown */
    time_t began, shown;
    uint64_t done, total; /* of the effort */
} search;

static bool show_search(void *context, uint64_t done, uint64_t total) {
    search *s = context;
    time_t now = time(NULL);
    if (total > 0)
        s->done = done, s->total = total;
    if (s->args != NULL && now > s->shown && s->total > 0)
        cli_progress(s->args, "plan: %.0f s, effort %llu of %llu", difftime(now, s->began),
                     (unsigned long long)s->done, (unsigned long long)s->total);
    else if (s->args != NULL && now > s->shown)
        cli_progress(s->args, "plan: %.0f s", difftime(now, s->began));
    s->shown = now;
    return cli_goes_on(NULL, done, total);
}

cairn_status cli_solve(const cli_model *model, const char *algorithm, uint64_t arena, uint64_t seed,
                       cairn_solution **out, cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    time_t now = time(NULL);
    search shown = {.args = model->args, .began = now, .shown = now};
    if (model->header.updates > 0)
        options.device_bytes = arena;
    else
        options.budget_bytes = arena;
    options.machine = &model->machine;
    options.seed = seed;
    options.cost_model = model->believed;
    options.no_offload = cli_model_stays(model);
    options.effort = model->effort;
    options.micro_batches = model->micro_batches;
    options.memo = model->memo;
    options.progress = show_search;
    options.progress_context = &shown;
    cairn_status status = cairn_solve(model->graph, model->costs, algorithm, &options, out, err);
    if (shown.args != NULL && shown.shown > shown.began)
        cli_progress_clear(shown.args);
    return status;
}

/* ---- Budgets ---- */

int cli_read_limits(const cli_args *args, cli_model *model, uint32_t slots, cairn_budget *out) {
    cairn_budget_options options = CAIRN_BUDGET_OPTIONS_INIT;
    cairn_error err = {0};
    cli_size total, activation;
    *out = (cairn_budget)CAIRN_BUDGET_INIT;
    if (!cli_size_value(args, "budget", &total) ||
        !cli_size_value(args, "activation-budget", &activation))
        return CLI_USAGE;
    if (total.given && activation.given)
        return cli_usage_error(args, "--budget and --activation-budget exclude each other");
    if (!total.given && !activation.given)
        return CLI_DONE;
    const cli_size *given = total.given ? &total : &activation;
    options.amount = given->bytes;
    options.share = given->percent;
    options.total = total.given;
    options.optimizer_slots = slots;
    cairn_status status = CAIRN_OK;
    if (given->percent && model->none == NULL)
        status = cli_solve(model, "none", 0, 0, &model->none, &err);
    options.none = model->none;
    if (status == CAIRN_OK)
        status = cairn_budget_resolve(model->graph, model->costs, &options, out, &err);
    if (status == CAIRN_OK && model->header.updates > 0 && total.given) {
        out->plan_bytes = out->given_bytes > 0 ? out->given_bytes : 1; /* `auto` divides it */
        out->stationary_bytes = 0;
    }
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

/* On a machine with one memory a copy on the host is in the memory that the budget is for. */
static int check_copies(const cli_model *model, const cairn_budget *limit,
                        const cairn_solution *solution) {
    uint64_t copies = solution->sim->summary->host_bytes;
    uint64_t needed = solution->layout->arena_bytes + copies;
    if (!model->one_memory || copies == 0 || limit->plan_bytes == 0 || needed <= limit->plan_bytes)
        return CLI_DONE;
    fprintf(
        stderr,
        "cairn: no plan by \"%s\" fits a budget of %s: its copies take %s of host memory, which "
        "on %s is the same memory\n",
        solution->plan->header->algorithm, cli_bytes(limit->given_bytes), cli_bytes(copies),
        model->machine.name);
    return CLI_NO_FIT;
}

/* ---- Algorithms ---- */

static int name_algorithms(const cairn_error *err) {
    const cairn_solver *solver;
    fprintf(stderr, "cairn: %s; the algorithms are", err->message);
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", solver->name);
    fprintf(stderr, "\n");
    return CLI_WRONG_INPUT;
}

const char *cli_gap_percent(int64_t time_ns, int64_t bound_ns) {
    static char buffer[32];
    if (bound_ns <= 0)
        return "?";
    if (time_ns <= bound_ns)
        return "0%";
    double gap = 100.0 * (double)(time_ns - bound_ns) / (double)bound_ns;
    snprintf(buffer, sizeof buffer, "%.*f%%", gap < 0.1 ? 2 : 1, gap < 0.01 ? 0.01 : gap);
    return buffer;
}

const char *cli_gap(int64_t time_ns, int64_t bound_ns) {
    static char buffer[64];
    if (bound_ns <= 0)
        return "not known";
    if (time_ns <= bound_ns)
        return "optimal";
    snprintf(buffer, sizeof buffer, "at most %s from optimal", cli_gap_percent(time_ns, bound_ns));
    return buffer;
}

/* What stays on the device is known with the plan. */
static void divide_limit(const cli_model *model, const cairn_solution *solution,
                         cairn_budget *limit) {
    if (model->header.updates == 0 || limit->plan_bytes == 0)
        return;
    limit->stationary_bytes =
        cairn_stationary_bytes(model->graph, model->costs, 0) - solution->sim->summary->home_bytes;
    limit->plan_bytes = limit->given_bytes - limit->stationary_bytes;
}

int cli_make_plan(const cli_args *args, const cli_model *model, cairn_budget *limit, uint64_t seed,
                  cairn_solution **out) {
    cairn_error err = {0};
    const char *algorithm = cli_value(args, "algorithm");
    cairn_status status = cli_solve(model, algorithm, limit->plan_bytes, seed, out, &err);
    if (status == CAIRN_EUNKNOWN)
        return name_algorithms(&err);
    if (status == CAIRN_INFEASIBLE)
        return cli_refuse_budget(args, model, limit, algorithm, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    divide_limit(model, *out, limit);
    int code = check_copies(model, limit, *out);
    if (code != CLI_DONE) {
        cairn_solution_destroy(*out);
        *out = NULL;
    }
    return code;
}

/* ---- Files ---- */

int cli_load_plan(const char *path, cairn_text *text, cairn_plan_header *header) {
    cairn_error err = {0};
    *header = (cairn_plan_header)CAIRN_PLAN_HEADER_INIT;
    cairn_status status = cairn_text_load(NULL, path, text, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    status = cairn_plan_header_from_text(text->data, text->length, path, header, &err);
    if (status == CAIRN_OK)
        return CLI_DONE;
    cairn_text_release(text);
    return cli_fail(status, &err);
}

cairn_status cli_judge_plan(const cli_model *model, const char *path, const cairn_text *text,
                            cairn_solution **out, cairn_error *err) {
    cairn_plan *plan;
    *out = NULL;
    cairn_status status =
        cairn_plan_from_text(model->graph, text->data, text->length, path, &plan, err);
    if (status == CAIRN_OK)
        status = cairn_solution_create(model->graph, model->costs, plan, &model->machine, out, err);
    cairn_plan_destroy(plan);
    return status;
}
