/* command_fit.c: `cairn fit MODEL --budget SIZE`: will it fit, and how large may the batch be?
 * Every answer is a plan that was made and laid out at that batch; the batch after it was tried as
 * well, and did not fit. */
#include "cairn/budget.h"
#include "interrupt.h"
#include "planning.h"
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ANSWERS 32

typedef struct answer {
    const char *algorithm;
    cairn_fit_result is;
} answer;

typedef struct fitting {
    const cli_args *args;
    const cli_model *model;
    uint64_t budget, stationary, seed;
    answer answers[MOST_ANSWERS];
    uint32_t count;
    uint32_t done, total; /* algorithms that are tried */
} fitting;

/* The model at one batch. */
static cairn_status open_batch(void *context, uint32_t batch, cairn_graph **graph,
                               cairn_costs **costs, cairn_error *err) {
    const fitting *f = context;
    cli_model model;
    cli_progress(f->args, "%u of %u: %s, batch %u", f->done + 1, f->total,
                 f->answers[f->count].algorithm, batch);
    cairn_status status = cli_model_with_batch(f->args, f->model, batch, &model, err);
    if (status == CAIRN_OK) {
        *graph = model.graph;
        *costs = model.costs;
        model.graph = NULL;
        model.costs = NULL;
    }
    cli_model_close(&model);
    return status;
}

/* Whether the limit of the whole device is the algorithm's to divide. */
static bool divides(const fitting *f, const answer *a) {
    return f->model->header.updates > 0 && cli_plans_all(a->algorithm);
}

static cairn_status find_largest(fitting *f, uint32_t hint, answer *a, cairn_error *err) {
    cairn_fit_options options = CAIRN_FIT_OPTIONS_INIT;
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    if (divides(f, a))
        solve.device_bytes = f->budget;
    else
        solve.budget_bytes = f->budget > f->stationary ? f->budget - f->stationary : 1;
    solve.machine = &f->model->machine;
    solve.seed = f->seed;
    solve.no_offload = cli_model_stays(f->model);
    solve.effort = f->model->effort;
    solve.progress = cli_goes_on;
    options.algorithm = a->algorithm;
    options.solve = &solve;
    options.open = open_batch;
    options.context = f;
    options.hint = hint;
    return cairn_fit(&options, &a->is, err);
}

/* Whether an algorithm is tried: not those that offload where that frees nothing. */
static bool is_tried(const fitting *f, const cairn_solver *solver) {
    const char *only = cli_value(f->args, "algorithm");
    if (solver->goal != CAIRN_GOAL_TRAIN)
        return false;
    if (only != NULL)
        return strcmp(solver->name, "none") == 0 || strcmp(only, solver->name) == 0;
    return !(solver->offloads && cli_model_stays(f->model));
}

/* Algorithms that do not apply to the network are left out. */
static cairn_status find_all(fitting *f, cairn_error *err) {
    const cairn_solver *solver;
    uint32_t hint = 1;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++)
        f->total += is_tried(f, solver);
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL && f->count < MOST_ANSWERS; i++) {
        bool none = strcmp(solver->name, "none") == 0;
        if (!is_tried(f, solver))
            continue;
        answer *a = &f->answers[f->count];
        *a = (answer){.algorithm = solver->name, .is = CAIRN_FIT_RESULT_INIT};
        cairn_status status = find_largest(f, hint, a, err);
        f->done++;
        if (status == CAIRN_EINVAL && !none)
            continue;
        if (status != CAIRN_OK)
            return status;
        hint = a->is.batch > hint ? a->is.batch : hint;
        f->count++;
    }
    return CAIRN_OK;
}

/* ---- Saying it ---- */

static double speed(const answer *a) {
    return a->is.time_ns > 0 ? (double)a->is.batch * 1e9 / (double)a->is.time_ns : 0;
}

/* Bytes that one image more would take, stationary ones included. */
static uint64_t next_bytes(const fitting *f, const answer *a) {
    return a->is.next_bytes == UINT64_MAX || a->is.next_bytes == 0 || divides(f, a)
               ? a->is.next_bytes
               : a->is.next_bytes + f->stationary;
}

static uint64_t memory_of(const fitting *f, const answer *a) {
    return f->model->header.updates > 0 ? a->is.device_bytes : a->is.arena_bytes + f->stationary;
}

static void print_table(const fitting *f) {
    printf("%s in %s on %s, ", f->model->header.model, cli_bytes(f->budget),
           f->model->machine.name);
    if (f->model->header.updates > 0)
        printf("with %s of parameters and optimiser state\n", cli_bytes(f->stationary));
    else
        printf("with %s of parameters, gradients and optimiser state\n", cli_bytes(f->stationary));
    printf("%-15s %5s %9s %10s %6s %s\n", "algorithm", "batch", "samples/s", "memory", "gap",
           "one more is stopped by");
    for (uint32_t i = 0; i < f->count; i++) {
        const answer *a = &f->answers[i];
        if (a->is.batch == 0)
            printf("%-15s %5s not one; the smallest budget is %s, set by %s\n", a->algorithm, "-",
                   cli_bytes(next_bytes(f, a)), a->is.stopped_by);
        else
            printf("%-15s %5u %9.1f %10s %6s %s\n", a->algorithm, a->is.batch, speed(a),
                   cli_bytes(memory_of(f, a)), cli_gap_percent(a->is.time_ns, a->is.lower_bound_ns),
                   a->is.stopped_by);
    }
}

static double gap_of(const answer *a) {
    double bound = (double)a->is.lower_bound_ns;
    return bound > 0 ? ((double)a->is.time_ns - bound) / bound : 0;
}

static void print_json(const fitting *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        const answer *a = &f->answers[i];
        printf("{\"model\": \"%s\", \"machine\": \"%s\", \"budget_bytes\": %llu, "
               "\"algorithm\": \"%s\", \"batch\": %u, ",
               cairn_graph_name(f->model->graph), f->model->machine.name,
               (unsigned long long)f->budget, a->algorithm, a->is.batch);
        if (a->is.batch > 0)
            printf("\"images_per_second\": %.3f, \"time_ns\": %lld, \"bound_ns\": %lld, "
                   "\"gap\": %.6f, \"memory_bytes\": %llu, ",
                   speed(a), (long long)a->is.time_ns, (long long)a->is.lower_bound_ns, gap_of(a),
                   (unsigned long long)memory_of(f, a));
        printf("\"next_bytes\": %llu, \"stopped_by\": \"%s\"}\n",
               (unsigned long long)next_bytes(f, a), a->is.stopped_by);
    }
}

/* No algorithm fits: exit 3, with the smallest possible budget. */
static int no_fit(const fitting *f, uint64_t smallest) {
    fprintf(stderr,
            "cairn: not one sample of %s fits a budget of %s; the smallest possible budget is %s, "
            "%llu bytes",
            f->model->header.model, cli_bytes(f->budget), cli_bytes(smallest),
            (unsigned long long)smallest);
    if (f->model->header.updates == 0)
        fprintf(stderr, ", of which %llu are parameters, gradients and optimiser state",
                (unsigned long long)f->stationary);
    fprintf(stderr, "\n");
    return CLI_NO_FIT;
}

static int show(const fitting *f) {
    uint64_t smallest = UINT64_MAX;
    bool any = false;
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t bytes = next_bytes(f, &f->answers[i]);
        any |= f->answers[i].is.batch > 0;
        smallest = bytes < smallest ? bytes : smallest;
    }
    if (cli_flag(f->args, "json"))
        print_json(f);
    else if (any)
        print_table(f);
    return any ? CLI_DONE : no_fit(f, smallest);
}

/* ---- The command ---- */

static int fit(fitting *f, uint32_t slots) {
    cairn_error err = {0};
    f->stationary = cairn_stationary_bytes(f->model->graph, f->model->costs, slots);
    cairn_status status = find_all(f, &err);
    cli_progress_clear(f->args);
    return status == CAIRN_OK ? show(f) : cli_fail(status, &err);
}

static bool known(const char *algorithm) {
    const cairn_solver *solver;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++)
        if (solver->goal == CAIRN_GOAL_TRAIN && strcmp(solver->name, algorithm) == 0)
            return true;
    return false;
}

static int run(const cli_args *args) {
    cli_size budget;
    cli_model model;
    uint64_t slots, seed;
    const char *algorithm = cli_value(args, "algorithm");
    if (!cli_size_value(args, "budget", &budget) ||
        !cli_number(args, "optimizer-slots", 0, 8, 1, &slots) ||
        !cli_number(args, "seed", 0, UINT64_MAX, 1, &seed))
        return CLI_USAGE;
    if (!budget.given || budget.percent || budget.bytes == 0)
        return cli_usage_error(args, "it needs --budget SIZE, such as 8GiB");
    if (algorithm != NULL && !known(algorithm))
        return cli_usage_error(args, "there is no algorithm \"%s\" to train by", algorithm);
    cli_catch_interrupts();
    int code = cli_model_open(args, cli_positional(args, 0), &model);
    if (code != CLI_DONE)
        return code;
    fitting *f = calloc(1, sizeof *f);
    if (f != NULL) {
        *f = (fitting){.args = args, .model = &model, .budget = budget.bytes, .seed = seed};
        code = fit(f, (uint32_t)slots);
    } else {
        code = cli_fail(CAIRN_ENOMEM, NULL);
    }
    free(f);
    cli_model_close(&model);
    return code;
}

static const cli_option options[] = {
    {"budget", 0, "SIZE", "limit for all memory: 8GiB, 500MB"},
    {"algorithm", 'a', "NAME", "only this algorithm, and none"},
    {"input", 0, "CxHxW", "input size; for rnn and lstm FEATURESxHIDDEN"},
    {"classes", 0, "N", "number of classes"},
    {"seq", 0, "N", "steps of a recurrent network; tokens of a sequence"},
    CLI_COST_OPTIONS,
    CLI_SLOTS_OPTION,
    {"seed", 0, "N", "seed of algorithms that use random numbers (default 1)"},
    CLI_SEARCH_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_fit = {
    .name = "fit",
    .arguments = "MODEL",
    .summary = "the largest batch that fits a budget, by every algorithm",
    .details =
        "MODEL is a network of 'cairn zoo' or your own (NAME.net). Prints, for none and for every "
        "algorithm that\n"
        "applies, the largest batch whose plan fits, the predicted samples per second, how\n"
        "far from the fastest plan it is at most (gap), and the op that prevents a larger batch.\n"
        "Measured costs (--costs) are used only for batches that\n"
        "were measured.",
    .options = options,
    .lists = {{"Algorithms", cli_list_algorithms}, {"Machines", cli_list_machines}},
    .examples = "fit resnet50 --budget 8GiB\n"
                "fit my.net --machine cpu --budget 500MB --optimizer-slots 2",
    .run = run,
};
