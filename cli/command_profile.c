/* command_profile.c: `cairn profile MODEL`: run training steps with a clock between the ops, and
 * write what each costs as a table for `--costs`. */
#include "interrupt.h"
#include "model.h"
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Ops of one signature. */
typedef struct group {
    cairn_text signature;
    cairn_id first;
    uint32_t count;
    cairn_implementation cost;
} group;

typedef struct profile {
    const cli_args *args;
    cli_model model;
    cairn_costs_origin origin;
    uint64_t threads, repetitions, seconds, top;
    group *groups; /* most expensive first */
    uint32_t group_count;
    int64_t total_ns; /* of all ops */
} profile;

/* ---- Measuring ---- */

static bool show_progress(void *context, uint64_t done, uint64_t total) {
    const profile *p = context;
    if (done < total && !cli_is_interrupted())
        cli_progress(p->args, "profile: step %u of %u, %u%%", (unsigned)done, (unsigned)total,
                     (unsigned)(100 * done / total));
    else
        cli_progress_clear(p->args);
    return !cli_is_interrupted();
}

static bool read_options(profile *p) {
    return cli_number(p->args, "threads", 0, 256, 0, &p->threads) &&
           cli_number(p->args, "repeat", 1, 100000, 10, &p->repetitions) &&
           cli_number(p->args, "seconds", 0, 1000000, 0, &p->seconds) &&
           cli_number(p->args, "top", 0, 1000000, 12, &p->top);
}

static cairn_status measure(profile *p, cairn_error *err) {
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    struct utsname system;
    options.repetitions = (uint32_t)p->repetitions;
    options.seconds = (double)p->seconds;
    options.every_implementation = cli_flag(p->args, "every-implementation");
    options.progress = show_progress;
    options.progress_context = p;
    cairn_status status =
        cairn_profile(p->model.graph, p->model.device, &options, p->model.costs, &p->origin, err);
    if (uname(&system) != 0)
        memset(&system, 0, sizeof system);
    snprintf(p->origin.source, sizeof p->origin.source, "cairn profile %.60s on %.40s %.40s",
             p->model.header.model, system.sysname, system.machine);
    return status;
}

/* ---- Gathering ---- */

static int by_signature(const void *a, const void *b) {
    const group *x = a, *y = b;
    int order = strcmp(x->signature.data, y->signature.data);
    return order != 0 ? order : (x->first > y->first) - (x->first < y->first);
}

static int by_cost(const void *a, const void *b) {
    const group *x = a, *y = b;
    int64_t cost_x = x->cost.time_ns * x->count, cost_y = y->cost.time_ns * y->count;
    return cost_x != cost_y ? (cost_x < cost_y) - (cost_x > cost_y)
                            : (x->first > y->first) - (x->first < y->first);
}

/* The implementation that plans use: the fastest that needs no more workspace than the first. */
static cairn_implementation usual(const cairn_costs *costs, cairn_id op) {
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(costs, op, &count), *best = list;
    for (uint32_t k = 1; k < count; k++) {
        if (list[k].workspace_bytes <= list->workspace_bytes && list[k].time_ns < best->time_ns)
            best = &list[k];
    }
    return *best;
}

/* One group per op, which equal neighbours then join. */
static cairn_status gather(profile *p) {
    uint32_t ops = cairn_graph_op_count(p->model.graph);
    p->groups = calloc(ops + 1, sizeof *p->groups);
    if (p->groups == NULL)
        return CAIRN_ENOMEM;
    for (cairn_id o = 0; o < ops; o++) {
        cairn_text text;
        cairn_status status = cairn_op_signature(p->model.graph, o, &text);
        if (status != CAIRN_OK)
            return status;
        p->groups[p->group_count++] = (group){text, o, 1, usual(p->model.costs, o)};
        p->total_ns += p->groups[o].cost.time_ns;
    }
    qsort(p->groups, ops, sizeof *p->groups, by_signature);
    uint32_t kept = 0;
    for (uint32_t i = 1; i < ops; i++) {
        if (strcmp(p->groups[kept].signature.data, p->groups[i].signature.data) != 0) {
            p->groups[++kept] = p->groups[i];
            continue;
        }
        p->groups[kept].count++;
        cairn_text_release(&p->groups[i].signature);
    }
    p->group_count = ops > 0 ? kept + 1 : 0;
    qsort(p->groups, p->group_count, sizeof *p->groups, by_cost);
    return CAIRN_OK;
}

/* ---- Showing ---- */

static double share_of(const profile *p, const group *g) {
    return p->total_ns > 0 ? (double)(g->cost.time_ns * g->count) / (double)p->total_ns : 0;
}

static void print_json(const profile *p) {
    for (uint32_t i = 0; i < p->group_count; i++) {
        const group *g = &p->groups[i];
        printf("{\"signature\": \"%s\", \"op\": \"%s\", \"count\": %u, \"time_ns\": %lld, "
               "\"low_ns\": %lld, \"high_ns\": %lld, \"share\": %.6f}\n",
               g->signature.data, cairn_graph_op(p->model.graph, g->first)->name, g->count,
               (long long)g->cost.time_ns, (long long)g->cost.low_ns, (long long)g->cost.high_ns,
               share_of(p, g));
    }
    printf("{\"model\": \"%s\", \"backend\": \"%s\", \"threads\": %u, \"ops\": %u, "
           "\"signatures\": %u, \"step_ns\": %lld, \"update_ns\": %lld, "
           "\"link_bytes_per_second\": %llu, \"link_latency_ns\": %lld}\n",
           p->model.header.model, p->origin.backend, p->origin.threads,
           cairn_graph_op_count(p->model.graph), p->group_count, (long long)p->total_ns,
           (long long)cli_update_ns(&p->origin, p->model.graph),
           (unsigned long long)p->origin.link_bytes_per_second,
           (long long)p->origin.link_latency_ns);
}

static void print_text(const profile *p) {
    printf("%s, backend %s with %u thread%s: %u ops of %u signatures\n", p->model.header.model,
           p->origin.backend, p->origin.threads, p->origin.threads == 1 ? "" : "s",
           cairn_graph_op_count(p->model.graph), p->group_count);
    printf("a step takes %s, and %s to update the parameters\n", cli_time(p->total_ns),
           cli_time(cli_update_ns(&p->origin, p->model.graph)));
    printf("a copy takes %s and a second for every %s\n", cli_time(p->origin.link_latency_ns),
           cli_bytes(p->origin.link_bytes_per_second));
    if (p->top > 0)
        printf("  %-17s %-15s %4s %9s %22s %6s\n", "op", "such as", "runs", "median", "quartiles",
               "share");
    for (uint32_t i = 0; i < p->group_count && i < p->top; i++) {
        const group *g = &p->groups[i];
        const cairn_op *op = cairn_graph_op(p->model.graph, g->first);
        char spread[48];
        snprintf(spread, sizeof spread, "%s .. %s", cli_time(g->cost.low_ns),
                 cli_time(g->cost.high_ns));
        printf("  %-17s %-15.15s %4u %9s %22s %5.1f%%\n", cairn_op_kind_name(op->kind), op->name,
               g->count, cli_time(g->cost.time_ns), spread, 100.0 * share_of(p, g));
    }
    if (p->group_count > p->top && p->top > 0)
        printf("  and %u more\n", p->group_count - (uint32_t)p->top);
}

static int show(const profile *p) {
    const char *output = cli_value(p->args, "output");
    bool to_stdout = output != NULL && strcmp(output, "-") == 0; /* then nothing else goes there */
    if (!to_stdout && cli_flag(p->args, "json"))
        print_json(p);
    else if (!to_stdout)
        print_text(p);
    if (output == NULL)
        return CLI_DONE;
    cairn_text text;
    cairn_status status = cairn_costs_to_json(p->model.costs, p->model.graph, &p->origin, &text);
    return status == CAIRN_OK ? cli_emit(&text, output) : cli_fail(status, NULL);
}

static int run(const cli_args *args) {
    profile p = {.args = args, .origin = CAIRN_COSTS_ORIGIN_INIT};
    cairn_error err = {0};
    if (!read_options(&p))
        return CLI_USAGE;
    cli_catch_interrupts();
    int code = cli_model_open(args, cli_positional(args, 0), &p.model);
    if (code != CLI_DONE)
        return code;
    cairn_status status = measure(&p, &err);
    if (status == CAIRN_OK)
        status = gather(&p);
    code = status == CAIRN_OK ? show(&p) : cli_fail(status, &err);
    for (uint32_t i = 0; i < p.group_count; i++)
        cairn_text_release(&p.groups[i].signature);
    free(p.groups);
    cli_model_close(&p.model);
    return code;
}

static const cli_option options[] = {
    CLI_MODEL_OPTIONS,
    CLI_RUN_OPTIONS,
    {"repeat", 0, "N", "steps that are measured, after two to warm up (default 10)"},
    {"seconds", 0, "N", "stop after N seconds, but not before three steps (default: no limit)"},
    {"every-implementation", 0, NULL,
     "measure all implementations of each op, not only the one in use"},
    {"output", 'o', "FILE", "write the table that --costs of other commands reads; - prints it"},
    {"top", 0, "N", "how many ops to list, most expensive first (default 12)"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_profile = {
    .name = "profile",
    .arguments = "MODEL",
    .summary = "measure what the ops of a network cost on a backend",
    .details =
        "MODEL is a network of 'cairn zoo', your own (NAME.net) or a graph file. Runs training "
        "steps and measures how\n"
        "long each op takes; the cost of an op is the median over the steps. 'cairn plan',\n"
        "'train', 'simulate' and 'sweep' read the table that -o writes (--costs); their batch and\n"
        "input must be those of the table.",
    .examples = "profile resnet18 --batch 16 -o costs.json\n"
                "plan resnet18 --batch 16 --backend cpu --costs costs.json --budget 50%",
    .options = options,
    .run = run,
    .computes = true,
    .runs = true,
};
