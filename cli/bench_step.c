/* bench_step.c: `cairn-bench step`: how long training steps take on a backend, with all the memory
 * and with half of it, against what was predicted from profiled costs. Steps of the two plans are
 * taken in turns, so that other load on the machine affects both. The last column is the overhead
 * in processor time, which other load affects the least.
 *
 * With --serve it does one step of --only NAME for each line that it reads, and prints its time;
 * costs are not profiled. bench/pytorch so compares Cairn with another program. */
#include "bench.h"
#include "planning.h"
#include "quantiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PLANS 2

static const char *const networks[] = {"resnet18", "vgg11", "densenet121", "resnet50",
                                       "inception_v3"};

/* One of the runs that are compared. */
typedef struct contender {
    cairn_solution *solution;
    cairn_exec *exec;
    uint64_t budget; /* of the arena; 0: none */
    int64_t predicted_ns;
    int64_t *times;  /* per repetition */
    int64_t *ratios; /* to the first plan, in millionths */
    int64_t *processor_times, *processor_ratios;
} contender;

typedef struct step_bench {
    cli_bench_setup setup;
    uint64_t repetitions;
    cli_model model;
    contender contenders[PLANS];
} step_bench;

/* Whether a network of the zoo reads tokens; its size is then their number. */
static bool reads_tokens(const char *network) {
    const cairn_zoo_entry *entry;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        size_t length = strlen(entry->name);
        if (strncmp(entry->name, network, length) == 0 &&
            (network[length] == '\0' || network[length] == ':'))
            return entry->defaults.input[0] == 0;
    }
    return false;
}

static cairn_status open_model(step_bench *b, const char *network, cairn_error *err) {
    cairn_status status = (reads_tokens(network) ? cli_model_sequence : cli_model_network)(
        network, b->setup.batch, b->setup.size, &b->model, err);
    return status == CAIRN_OK ? cli_bench_bind(&b->setup, &b->model, err) : status;
}

static void close_bench(step_bench *b) {
    for (size_t i = 0; i < PLANS; i++) {
        contender *c = &b->contenders[i];
        cairn_exec_destroy(c->exec);
        cairn_solution_destroy(c->solution);
        free(c->times);
        free(c->ratios);
        free(c->processor_times);
        free(c->processor_ratios);
        *c = (contender){0};
    }
    cli_model_close(&b->model);
}

/* ---- Getting ready ---- */

static cairn_status create(step_bench *b, contender *c, cairn_error *err) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.budget_bytes = c->budget;
    options.update_in_run = true;
    options.learning_rate = 0.001f; /* some networks diverge with the default rate */
    c->predicted_ns = cli_predicted_ns(&b->model, c->solution, 1);
    c->times = calloc(b->repetitions, sizeof *c->times);
    c->ratios = calloc(b->repetitions, sizeof *c->ratios);
    c->processor_times = calloc(b->repetitions, sizeof *c->processor_times);
    c->processor_ratios = calloc(b->repetitions, sizeof *c->processor_ratios);
    if (c->times == NULL || c->ratios == NULL || c->processor_times == NULL ||
        c->processor_ratios == NULL)
        return CAIRN_ENOMEM;
    return cairn_exec_create(b->model.graph, b->model.device, b->model.costs, c->solution, &options,
                             &c->exec, err);
}

/* The plan that keeps everything, and the fastest without copies in half of its memory, or in the
 * least that is possible. */
static cairn_status make_plans(step_bench *b, cairn_error *err) {
    contender *none = &b->contenders[0], *half = &b->contenders[1];
    cairn_status status = cli_solve(&b->model, "none", 0, 0, &none->solution, err);
    if (status == CAIRN_OK)
        status = create(b, none, err);
    if (status != CAIRN_OK)
        return status;
    half->budget = cairn_exec_get_figures(none->exec)->arena_bytes / 2;
    const char *algorithm = reads_tokens(b->model.header.model) ? "auto" : "precise";
    status = cli_solve(&b->model, algorithm, half->budget, 0, &half->solution, err);
    if (status == CAIRN_INFEASIBLE) {
        half->budget = err->smallest_budget;
        status = cli_solve(&b->model, algorithm, half->budget, 0, &half->solution, err);
    }
    return status == CAIRN_OK ? create(b, half, err) : status;
}

/* ---- Steps ---- */

/* The processor time of all threads so far. */
static int64_t processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

typedef struct timed_step {
    float loss;
    int64_t ns, processor_ns;
} timed_step;

/* A run with its update; the data are there already. */
static cairn_status time_step(cairn_exec *exec, uint64_t step, timed_step *out, cairn_error *err) {
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_status status = cairn_exec_fill(exec, step, err);
    int64_t before = cli_clock(), processor_before = processor_time();
    if (status == CAIRN_OK)
        status = cairn_exec_run(exec, step, &result, err);
    out->loss = result.loss;
    out->ns = cli_clock() - before;
    out->processor_ns = processor_time() - processor_before;
    return status;
}

static cairn_status take_turns(step_bench *b, cairn_error *err) {
    for (uint64_t r = 0; r <= b->repetitions; r++)
        for (size_t i = 0; i < PLANS; i++) {
            contender *c = &b->contenders[i];
            timed_step step;
            cairn_status status = time_step(c->exec, r, &step, err);
            if (status != CAIRN_OK)
                return status;
            if (r == 0) /* to warm up */
                continue;
            c->times[r - 1] = step.ns;
            c->ratios[r - 1] =
                (int64_t)(1e6 * (double)step.ns / (double)b->contenders[0].times[r - 1]);
            c->processor_times[r - 1] = step.processor_ns;
            c->processor_ratios[r - 1] = (int64_t)(1e6 * (double)step.processor_ns /
                                                   (double)b->contenders[0].processor_times[r - 1]);
        }
    return CAIRN_OK;
}

/* ---- Rows ---- */

static void print_row(const step_bench *b, contender *c) {
    cairn_exec_figures figures = *cairn_exec_get_figures(c->exec);
    cli_quantiles q = cli_quantiles_of(c->times, (uint32_t)b->repetitions);
    cli_quantiles ratio = cli_quantiles_of(c->ratios, (uint32_t)b->repetitions);
    cli_quantiles processor = cli_quantiles_of(c->processor_ratios, (uint32_t)b->repetitions);
    double error = (double)c->predicted_ns / (double)q.median - 1.0;
    double share = (double)figures.arena_bytes /
                   (double)cairn_exec_get_figures(b->contenders[0].exec)->arena_bytes;
    const char *algorithm = c->solution->plan->header->algorithm;
    if (!cli_flag(b->setup.args, "json")) {
        printf("%-14s %-9s %5.0f%% %11s %11s %11s %11s %+8.1f%% %+8.1f%% %+9.1f%%\n",
               b->model.header.model, algorithm, 100 * share, cli_time(c->predicted_ns),
               cli_time(q.low), cli_time(q.median), cli_time(q.high), 100 * error,
               (double)ratio.median / 1e4 - 100, (double)processor.median / 1e4 - 100);
    } else {
        cli_bench_line("step");
        printf(", \"network\": \"%s\", \"batch\": %u, \"size\": %u, \"backend\": \"%s\", "
               "\"threads\": %u, \"algorithm\": \"%s\", \"budget_bytes\": %llu, "
               "\"arena_bytes\": %llu, \"predicted_ms\": %.3f, \"low_ms\": %.3f, "
               "\"median_ms\": %.3f, \"high_ms\": %.3f, \"prediction_error\": %.4f, "
               "\"overhead_low\": %.4f, \"overhead\": %.4f, \"overhead_high\": %.4f, "
               "\"processor_overhead\": %.4f, \"pairs\": %llu}\n",
               b->model.header.model, b->model.header.batch, b->setup.size, b->setup.backend,
               cairn_count_threads(b->setup.threads), algorithm, (unsigned long long)c->budget,
               (unsigned long long)figures.arena_bytes, (double)c->predicted_ns / 1e6,
               (double)q.low / 1e6, (double)q.median / 1e6, (double)q.high / 1e6, error,
               (double)ratio.low / 1e6 - 1, (double)ratio.median / 1e6 - 1,
               (double)ratio.high / 1e6 - 1, (double)processor.median / 1e6 - 1,
               (unsigned long long)b->repetitions);
    }
    fflush(stdout);
}

static cairn_status run_network(step_bench *b, const char *network, cairn_error *err) {
    cairn_status status = open_model(b, network, err);
    if (status == CAIRN_OK)
        status = cli_bench_profile(&b->model, err);
    if (status == CAIRN_OK)
        status = make_plans(b, err);
    if (status == CAIRN_OK)
        status = take_turns(b, err);
    if (status != CAIRN_OK)
        return status;
    for (size_t i = 0; i < PLANS; i++)
        print_row(b, &b->contenders[i]);
    return CAIRN_OK;
}

/* ---- Serving ---- */

static cairn_status serve(step_bench *b, const char *network, cairn_error *err) {
    contender *c = &b->contenders[cli_flag(b->setup.args, "half") ? 1 : 0];
    char line[64];
    cairn_status status = open_model(b, network, err);
    if (status == CAIRN_OK)
        status = make_plans(b, err);
    if (status != CAIRN_OK)
        return status;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(b->model.graph, &summary);
    printf("{\"ready\": \"%s\", \"parameters\": %llu}\n", network,
           (unsigned long long)summary.parameters);
    fflush(stdout);
    for (uint64_t step = 0; fgets(line, sizeof line, stdin) != NULL; step++) {
        timed_step done;
        status = time_step(c->exec, step, &done, err);
        if (status != CAIRN_OK)
            return status;
        printf("{\"step_ms\": %.3f, \"cpu_ms\": %.3f, \"loss\": \"%.6g\"}\n", (double)done.ns / 1e6,
               (double)done.processor_ns / 1e6, (double)done.loss);
        fflush(stdout);
    }
    return CAIRN_OK;
}

int cli_bench_step(const cli_args *args) {
    step_bench b = {0};
    if (!cli_bench_read(args, 16, 224, &b.setup) ||
        !cli_number(args, "repeat", 1, 100000, 20, &b.repetitions))
        return CLI_USAGE;
    const char *only = b.setup.only;
    bool serving = cli_flag(args, "serve");
    if (serving && only == NULL)
        return cli_usage_error(args, "--serve needs --only NAME");
    if (!serving && !cli_flag(args, "json"))
        printf("%-14s %-9s %6s %11s %11s %11s %11s %9s %9s %10s\n", "network", "plan", "memory",
               "predicted", "quartile", "median", "quartile", "error", "overhead", "processor");
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        cairn_error err = {0};
        if (only != NULL && i > 0)
            break;
        const char *network = only != NULL ? only : networks[i];
        cairn_status status = serving ? serve(&b, network, &err) : run_network(&b, network, &err);
        close_bench(&b);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
    }
    return CLI_DONE;
}
