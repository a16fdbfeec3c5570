/* command_train.c: `cairn train MODEL`: plan, then really train, on data drawn from a seed. What is
 * printed of memory was measured while it ran. */
#include "planning.h"
#include "step_watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct training {
    const cli_args *args;
    cli_model model;
    cairn_plan *plan;
    cairn_exec *exec;
    cli_limits limit;
    uint64_t steps, seed, threads, bandwidth;
    const char *backend;
    cli_step_watch watch;
} training;

/* ---- Getting ready ---- */

static bool read_options(training *t) {
    cli_size bandwidth;
    const char *backend = cli_value(t->args, "backend");
    t->backend = backend == NULL ? cairn_backend_list(0, NULL) : backend;
    if (!cli_number(t->args, "steps", 1, UINT32_MAX, 10, &t->steps) ||
        !cli_number(t->args, "seed", 0, UINT64_MAX, 0, &t->seed) ||
        !cli_number(t->args, "threads", 0, 256, 0, &t->threads) ||
        !cli_size_value(t->args, "link-bandwidth", &bandwidth))
        return false;
    if (bandwidth.given && (bandwidth.percent || bandwidth.bytes == 0)) {
        cli_usage_error(t->args, "--link-bandwidth must be bytes a second, such as 2GB");
        return false;
    }
    t->bandwidth = bandwidth.bytes;
    return true;
}

/* The costs of the model become those of the backend, on this machine. */
static cairn_status bind_model(training *t, cairn_error *err) {
    cairn_status status = CAIRN_OK;
    if (t->model.backend == NULL)
        status = cli_model_bind(t->args, &t->model, t->backend, (uint32_t)t->threads, err);
    if (t->bandwidth > 0)
        t->model.machine.link_bytes_per_second = t->bandwidth;
    return status;
}

static int open_model(training *t, const cairn_plan_header *planned) {
    const char *name = cli_positional(t->args, 0);
    cairn_error err = {0};
    int code;
    if (name == NULL && planned == NULL)
        return cli_usage_error(t->args, "it needs MODEL or --plan FILE");
    code = name != NULL ? cli_model_open(t->args, name, &t->model)
                        : cli_model_of_plan(t->args, planned, &t->model);
    if (code != CLI_DONE)
        return code;
    cairn_status status = bind_model(t, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

/* A plan from a file, for the model on the command line or else the one it names. */
static int read_plan(training *t, const char *path) {
    cairn_text text;
    cairn_error err = {0};
    cairn_plan_header header;
    cairn_status status = cairn_text_load(NULL, path, &text, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = CLI_DONE;
    status = cairn_plan_header_from_text(text.data, text.length, path, &header, &err);
    if (status == CAIRN_OK) {
        code = open_model(t, &header);
        if (code == CLI_DONE)
            status =
                cairn_plan_from_text(t->model.graph, text.data, text.length, path, &t->plan, &err);
    }
    cairn_text_release(&text);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    return code != CLI_DONE ? code : cli_read_limits(t->args, &t->model, 1, &t->limit);
}

static int make_plan(training *t) {
    int code = open_model(t, NULL);
    if (code == CLI_DONE)
        code = cli_read_limits(t->args, &t->model, 1, &t->limit);
    if (code == CLI_DONE)
        code = cli_make_plan(t->args, &t->model, &t->limit, t->seed, &t->plan);
    if (code == CLI_DONE)
        cli_model_sign(&t->model, t->plan);
    return code;
}

static int create(training *t) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_error err = {0};
    options.backend = t->backend;
    options.threads = (uint32_t)t->threads;
    options.budget_bytes = t->limit.arena;
    options.link_bytes_per_second = t->bandwidth;
    options.seed = t->seed;
    options.check = cli_flag(t->args, "check");
    if (cairn_plan_get_header(t->plan)->goal != CAIRN_TRAIN) {
        fprintf(stderr,
                "cairn: the plan is for evaluation; it computes no gradients to train by\n");
        return CLI_WRONG_INPUT;
    }
    cairn_status status =
        cairn_exec_create(t->model.graph, t->model.costs, t->plan, &options, &t->exec, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

/* ---- Running ---- */

static void print_head(const training *t) {
    cairn_exec_figures f = cairn_exec_get_figures(t->exec);
    const cairn_plan_header *h = cairn_plan_get_header(t->plan);
    printf("%s", h->model);
    if (h->batch > 0)
        printf(", batch %u", h->batch);
    printf(", algorithm %s, backend %s\n", h->algorithm, t->backend);
    printf("  predicted peak  %12s   %llu bytes\n", cli_bytes(f.predicted_peak_bytes),
           (unsigned long long)f.predicted_peak_bytes);
    printf("  arena           %12s", cli_bytes(f.arena_bytes));
    if (t->limit.arena > 0)
        printf("   of a budget of %s", cli_bytes(t->limit.arena));
    printf("\n  stationary      %12s   parameters, gradients, state, momenta\n",
           cli_bytes(f.stationary_bytes));
    if (f.host_bytes > 0)
        printf("  host copies     %12s\n", cli_bytes(f.host_bytes));
    printf("  %6s %12s %12s %16s\n", "step", "loss", "time", "measured peak");
}

static void print_step(const training *t, uint64_t step, const cairn_exec_result *r, int64_t time) {
    cairn_exec_figures f = cairn_exec_get_figures(t->exec);
    if (!cli_flag(t->args, "json")) {
        printf("  %6llu %12.6f %12s %16s   %llu bytes\n", (unsigned long long)step, (double)r->loss,
               cli_time(time), cli_bytes(r->measured_peak_bytes),
               (unsigned long long)r->measured_peak_bytes);
    } else {
        char loss[32] = "null"; /* JSON has no infinities */
        if (isfinite(r->loss))
            snprintf(loss, sizeof loss, "%.9g", (double)r->loss);
        printf("{\"step\": %llu, \"loss\": %s, \"step_ms\": %.3f, \"predicted_peak_bytes\": %llu, "
               "\"measured_peak_bytes\": %llu, \"arena_bytes\": %llu",
               (unsigned long long)step, loss, (double)time / 1e6,
               (unsigned long long)f.predicted_peak_bytes,
               (unsigned long long)r->measured_peak_bytes, (unsigned long long)f.arena_bytes);
        cli_watch_print_json(&t->watch);
        printf("}\n");
    }
    fflush(stdout);
}

static void train(training *t) {
    bool json = cli_flag(t->args, "json");
    char hash[65];
    if (!json)
        print_head(t);
    cli_watch_init(&t->watch, &t->model, t->plan);
    for (uint64_t step = 1; step <= t->steps; step++) {
        cairn_exec_result result;
        cairn_exec_fill(t->exec, step);
        cli_watch_begin(&t->watch);
        cairn_exec_run(t->exec, step, &result);
        int64_t before = cli_clock();
        cairn_exec_update(t->exec);
        int64_t time = result.time_ns + cli_clock() - before;
        cli_watch_end(&t->watch, time);
        print_step(t, step, &result, time);
    }
    if (!json)
        cli_watch_print_text(&t->watch);
    cairn_exec_sha256(t->exec, CAIRN_EXEC_PARAMETERS, hash);
    printf(json ? "{\"parameters_sha256\": \"%s\"}\n" : "  parameters sha256 %s\n", hash);
}

static int run(const cli_args *args) {
    training t = {.args = args};
    if (!read_options(&t))
        return CLI_USAGE;
    const char *path = cli_value(args, "plan");
    if (path != NULL && cli_value(args, "algorithm") != NULL)
        return cli_usage_error(args, "--plan and --algorithm exclude each other");
    int code = path != NULL ? read_plan(&t, path) : make_plan(&t);
    if (code == CLI_DONE)
        code = create(&t);
    if (code == CLI_DONE)
        train(&t);
    cairn_exec_destroy(t.exec);
    cairn_plan_destroy(t.plan);
    cli_model_close(&t.model);
    return code;
}

static const cli_option options[] = {
    {"steps", 'n', "N", "how many training steps (default 10)"},
    CLI_PLANNING_OPTIONS,
    {"plan", 'p', "FILE", "carry out this plan instead of making one"},
    CLI_MODEL_OPTIONS,
    CLI_MEASURED_OPTION,
    {"backend", 0, "NAME", "what runs it (default: the best there is)"},
    {"threads", 't', "N", "threads of the backend (default: one per processor)"},
    {"link-bandwidth", 0, "SIZE", "imitate a link to the host of so many bytes a second"},
    {"seed", 0, "N", "of parameters, data, dropout, and algorithms that draw"},
    {"check", 0, NULL, "turn memory that was given back into NaNs and close its pages"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_train = {
    .name = "train",
    .arguments = "[MODEL]",
    .least = 0,
    .most = 1,
    .summary = "train inside a memory budget, on synthetic data",
    .details =
        "MODEL is a network of 'cairn zoo' or a graph file; it may be left out with --plan, whose\n"
        "file names one. Parameters and data are drawn from the seed; the optimiser is gradient\n"
        "descent with momentum 0.9. Prints a line a step and, at the end, a hash of all\n"
        "parameters: any two plans for one model, seed, backend and number of steps give the same.",
    .options = options,
    .list_title = "Algorithms",
    .list = cli_list_algorithms,
    .run = run,
};
