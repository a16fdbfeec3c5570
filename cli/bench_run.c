/* bench_run.c: `cairn-bench table2 --run`: the networks of the zoo really trained for a step, at a
 * small size, under every algorithm and under budgets: is the measured peak the predicted one, and
 * are loss, parameters, gradients and running statistics bitwise those of `none`? */
#include "bench.h"
#include "planning.h"

#include <stdio.h>
#include <string.h>

/* One network and the results of `none`. */
typedef struct trial {
    cli_bench_setup setup;
    cli_model model;
    bool has_none;
    float none_loss;
    char none_hash[65];
    uint64_t none_arena;
    uint32_t plans, wrong_peaks, wrong_bits;
} trial;

/* ---- Small networks ---- */

static cairn_zoo_options small_options(const cairn_zoo_entry *entry) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    bool sequence = entry->defaults.steps > 0, tokens = sequence && entry->small != NULL;
    uint32_t side = 32;
    if (strcmp(entry->name, "alexnet") == 0)
        side = 63; /* the least size that its pooling does not reduce to nothing */
    if (strcmp(entry->name, "inception_v3") == 0)
        side = 75;
    options.batch = 2;
    options.classes = 10;
    options.steps = sequence ? 10 : 0;
    if (tokens)
        return options;
    options.input[0] = sequence ? 32 : 3;
    options.input[1] = sequence ? 64 : side;
    options.input[2] = sequence ? 0 : side;
    return options;
}

static cairn_status open_network(const trial *t, const cairn_zoo_entry *entry, cli_model *out,
                                 cairn_error *err) {
    cairn_zoo_options options = small_options(entry);
    cairn_graph *forward = NULL;
    *out = (cli_model){0};
    snprintf(out->header.model, sizeof out->header.model, "%s", entry->name);
    out->header.batch = options.batch;
    memcpy(out->header.input, options.input, sizeof options.input);
    const char *name = entry->small != NULL ? entry->small : entry->name;
    cairn_status status = cairn_model_open(NULL, name, &options, &forward, err);
    if (status == CAIRN_OK)
        status = cairn_graph_differentiate(forward, NULL, &out->graph, err);
    if (status == CAIRN_OK)
        status = cli_bench_bind(&t->setup, out, err);
    cairn_graph_destroy(forward);
    return status;
}

/* ---- Comparing ---- */

/* One step: its loss, and the hash of parameters, state and gradients after it. */
static cairn_status run_step(cairn_exec *exec, cairn_exec_result *result, char hash[65],
                             cairn_error *err) {
    cairn_status status = cairn_exec_fill(exec, 1, err);
    if (status == CAIRN_OK)
        status = cairn_exec_run(exec, 1, result, err);
    if (status == CAIRN_OK)
        status = cairn_exec_sha256(
            exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE | CAIRN_EXEC_GRADIENTS, hash, err);
    return status;
}

static bool same_bits(const trial *t, float loss, const char *hash) {
    return memcmp(&loss, &t->none_loss, sizeof loss) == 0 && strcmp(hash, t->none_hash) == 0;
}

/* ---- Rows ---- */

static void print_row(const trial *t, const char *algorithm, const char *budget,
                      uint64_t budget_bytes, const cairn_exec_figures *f,
                      const cairn_exec_result *r, bool equal) {
    bool peaks = r->measured_peak_bytes == f->predicted_peak_bytes;
    if (!cli_flag(t->setup.args, "json")) {
        printf("  %-14s %7s %11llu %11llu %7s %6s %11s\n", algorithm, budget,
               (unsigned long long)f->predicted_peak_bytes,
               (unsigned long long)r->measured_peak_bytes, peaks ? "yes" : "NO",
               equal ? "yes" : "NO", cli_time(r->time_ns));
        fflush(stdout);
        return;
    }
    cli_bench_line("table2-run");
    printf(", \"network\": \"%s\", \"backend\": \"%s\", \"batch\": %u, \"algorithm\": \"%s\", "
           "\"budget\": \"%s\", "
           "\"budget_bytes\": %llu, \"predicted_peak_bytes\": %llu, \"measured_peak_bytes\": %llu, "
           "\"arena_bytes\": %llu, \"equal_to_none\": %s, \"step_ms\": %.3f}\n",
           t->model.header.model, t->setup.backend, t->model.header.batch, algorithm, budget,
           (unsigned long long)budget_bytes, (unsigned long long)f->predicted_peak_bytes,
           (unsigned long long)r->measured_peak_bytes, (unsigned long long)f->arena_bytes,
           equal ? "true" : "false", (double)r->time_ns / 1e6);
    fflush(stdout);
}

/* Train one step by a plan. What `none`, the first, gave is kept to compare with. */
static cairn_status run_plan(trial *t, const cairn_solution *solution, const char *budget,
                             uint64_t budget_bytes, cairn_error *err) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_exec *exec;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    char hash[65];
    options.budget_bytes = budget_bytes;
    options.seed = 1;
    options.update_in_run = true;
    cairn_status status = cairn_exec_create(t->model.graph, t->model.device, t->model.costs,
                                            solution, &options, &exec, err);
    if (status != CAIRN_OK)
        return status;
    cairn_exec_figures figures = *cairn_exec_get_figures(exec);
    status = run_step(exec, &result, hash, err);
    cairn_exec_destroy(exec);
    if (status != CAIRN_OK)
        return status;
    if (!t->has_none) {
        t->has_none = true;
        t->none_loss = result.loss;
        t->none_arena = figures.arena_bytes;
        memcpy(t->none_hash, hash, sizeof hash);
    }
    bool equal = same_bits(t, result.loss, hash);
    t->plans++;
    t->wrong_peaks += result.measured_peak_bytes != figures.predicted_peak_bytes;
    t->wrong_bits += !equal;
    print_row(t, solution->plan->header->algorithm, budget, budget_bytes, &figures, &result, equal);
    return CAIRN_OK;
}

/* One algorithm without a budget; one that does not apply gives no row. */
static cairn_status run_algorithm(trial *t, const char *name, cairn_error *err) {
    cairn_solution *solution;
    cairn_status status = cli_solve(&t->model, name, 0, 1, &solution, err);
    if (status == CAIRN_EINVAL)
        return CAIRN_OK;
    if (status == CAIRN_OK)
        status = run_plan(t, solution, "-", 0, err);
    cairn_solution_destroy(solution);
    return status;
}

/* The best plan of all algorithms, or of the one that is named, under a share of what `none` needs;
 * `*least` where that is not enough, and the smallest that is was taken instead. */
static cairn_status run_budget(trial *t, const char *algorithm, uint32_t percent, bool *least,
                               cairn_error *err) {
    char words[16];
    cairn_solution *solution;
    uint64_t budget = t->none_arena * percent / 100;
    snprintf(words, sizeof words, "%u%%", percent);
    cairn_status status = cli_solve(&t->model, algorithm, budget, 1, &solution, err);
    if (status == CAIRN_INFEASIBLE) {
        *least = true;
        budget = err->smallest_budget;
        snprintf(words, sizeof words, "least");
        status = cli_solve(&t->model, algorithm, budget, 1, &solution, err);
    }
    if (status == CAIRN_OK)
        status = run_plan(t, solution, words, budget, err);
    cairn_solution_destroy(solution);
    return status;
}

/* The algorithms that the table has rows for: not the random baseline, nor what a more general one
 * repeats on chains, nor those that are for budgets. */
static bool has_row(const cairn_solver *solver) {
    return solver->goal == CAIRN_GOAL_TRAIN && !solver->budgeted &&
           strcmp(solver->name, "random") != 0 && strcmp(solver->name, "feng-linear") != 0;
}

static cairn_status run_network(trial *t, cairn_error *err) {
    static const uint32_t percents[] = {75, 50, 30};
    static const char *const within_half[] = {"precise", "offload-best"};
    const cairn_solver *solver;
    cairn_status status = run_algorithm(t, "none", err);
    for (uint32_t i = 0; status == CAIRN_OK && (solver = cairn_solver_list(i)) != NULL; i++)
        if (has_row(solver) && strcmp(solver->name, "none") != 0)
            status = run_algorithm(t, solver->name, err);
    bool least = false;
    for (size_t i = 0; i < 3 && !least && status == CAIRN_OK; i++)
        status = run_budget(t, NULL, percents[i], &least, err);
    for (size_t i = 0; i < 2 && status == CAIRN_OK; i++)
        status = run_budget(t, within_half[i], 50, &least, err);
    return status == CAIRN_EINVAL ? CAIRN_OK : status; /* it does not apply */
}

static void print_head(const trial *t) {
    const cairn_plan_header *h = &t->model.header;
    printf("%s, batch %u, input %u", h->model, h->batch, h->input[0]);
    for (int i = 1; i < 3 && h->input[i] > 0; i++)
        printf("x%u", h->input[i]);
    printf(", backend %s\n  %-14s %7s %11s %11s %7s %6s %11s\n", t->setup.backend, "algorithm",
           "budget", "predicted", "measured", "equal", "bits", "step");
}

int cli_bench_table2_run(const cli_args *args) {
    const cairn_zoo_entry *entry;
    trial t = {0};
    if (!cli_bench_read(args, 0, 0, &t.setup))
        return CLI_USAGE;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        cairn_error err = {0};
        if (t.setup.only != NULL && strcmp(t.setup.only, entry->name) != 0)
            continue;
        cairn_status status = open_network(&t, entry, &t.model, &err);
        if (status == CAIRN_OK && !cli_flag(args, "json"))
            print_head(&t);
        if (status == CAIRN_OK)
            status = run_network(&t, &err);
        t.has_none = false;
        cli_model_close(&t.model);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
    }
    if (!cli_flag(args, "json"))
        printf("%u plans were run; %u peaks were not as predicted, %u results not bitwise those of "
               "none\n",
               t.plans, t.wrong_peaks, t.wrong_bits);
    return t.wrong_peaks + t.wrong_bits == 0 ? CLI_DONE : CLI_WRONG_INPUT;
}
