/* command_sweep.c: `cairn sweep MODEL`: memory against time for every algorithm, as table, CSV and
 * picture. */
#include "cairn/page.h"
#include "cairn/papers/bounds.h"
#include "cairn/report.h"
#include "interrupt.h"
#include "outputs.h"
#include "sweeping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OVERHEAD 100.0 /* percent; longer times are in the table but not in the picture */

static double percent_of(double some, double whole) {
    return whole > 0 ? 100.0 * some / whole : 0;
}

static void print_table(const cli_sweep *s) {
    printf("%s: none needs %s and %s a step on %s\n", cairn_graph_name(s->model->graph),
           cli_bytes(s->none_memory), cli_time(s->none_time), s->model->machine.name);
    if (s->stationary > 0)
        printf("memory is everything on the device; all but the arena is %s in all\n",
               cli_bytes(s->stationary));
    else
        printf("memory is that of activations; parameters, gradients and optimiser need\n"
               "%s more (--whole counts them)\n",
               cli_bytes(cairn_stationary_bytes(s->model->graph, s->model->costs, 1)));
    printf("%-16s %8s %12s %8s %12s %9s %8s\n", "algorithm", "budget", "memory", "of none", "time",
           "overhead", "gap");
    for (uint32_t k = 0; k < s->count; k++) {
        const cli_curve *c = &s->curves[k];
        for (uint32_t i = 0; i < c->count; i++) {
            char budget[16] = "";
            if (c->points[i].budget > 0)
                snprintf(budget, sizeof budget, "%.0f%%",
                         percent_of((double)c->points[i].budget, (double)s->none_memory));
            printf("%-16s %8s %12s %7.1f%% %12s %+8.1f%% %8s\n", c->solver->name, budget,
                   cli_bytes(c->points[i].memory),
                   percent_of((double)c->points[i].memory, (double)s->none_memory),
                   cli_time(c->points[i].time),
                   percent_of((double)(c->points[i].time - s->none_time), (double)s->none_time),
                   cli_gap_percent(c->points[i].time, c->points[i].bound));
        }
        if (c->floor > 0)
            printf("%-16s not below %s (%.1f%%): %s\n", c->solver->name, cli_bytes(c->floor),
                   percent_of((double)c->floor, (double)s->none_memory), c->floor_op);
    }
}

static double gap_of(const cli_point *p) {
    return p->bound > 0 ? (double)(p->time - p->bound) / (double)p->bound : 0;
}

static void print_json(const cli_sweep *s) {
    for (uint32_t k = 0; k < s->count; k++) {
        const cli_curve *c = &s->curves[k];
        for (uint32_t i = 0; i < c->count; i++)
            printf("{\"model\": \"%s\", \"algorithm\": \"%s\", \"budget_bytes\": %llu, "
                   "\"predicted_peak_bytes\": %llu, \"arena_bytes\": %llu, "
                   "\"memory_bytes\": %llu, \"time_ns\": %lld, \"bound_ns\": %lld, "
                   "\"gap\": %.6f}\n",
                   cairn_graph_name(s->model->graph), c->solver->name,
                   (unsigned long long)c->points[i].budget, (unsigned long long)c->points[i].peak,
                   (unsigned long long)c->points[i].arena, (unsigned long long)c->points[i].memory,
                   (long long)c->points[i].time, (long long)c->points[i].bound,
                   gap_of(&c->points[i]));
    }
}

static int print_csv(const void *context, FILE *file) {
    const cli_sweep *s = context;
    fprintf(file, "algorithm,budget_bytes,predicted_peak_bytes,arena_bytes,memory_bytes,time_ns,"
                  "bound_ns\n");
    for (uint32_t k = 0; k < s->count; k++)
        for (uint32_t i = 0; i < s->curves[k].count; i++) {
            const cli_point *p = &s->curves[k].points[i];
            fprintf(file, "%s,%llu,%llu,%llu,%llu,%lld,%lld\n", s->curves[k].solver->name,
                    (unsigned long long)p->budget, (unsigned long long)p->peak,
                    (unsigned long long)p->arena, (unsigned long long)p->memory, (long long)p->time,
                    (long long)p->bound);
        }
    return CLI_DONE;
}

/* Where no plan gets: per percent of memory the least overhead of any, by rising memory. Nothing if
 * everything counts: that bound is known for each budget, with its plan. */
static cairn_status find_shade(const cli_sweep *s, double *x, double *y, uint32_t *count,
                               cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = &s->model->machine;
    options.no_offload = cli_model_stays(s->model);
    options.progress = cli_goes_on;
    *count = 0;
    if (s->stationary > 0)
        return CAIRN_OK;
    for (uint32_t percent = 1; percent <= 100; percent++) {
        int64_t bound;
        options.budget_bytes = s->none_memory / 100 * percent;
        cairn_status status =
            cairn_time_bound(s->model->graph, s->model->costs, &options, &bound, err);
        if (status != CAIRN_OK && status != CAIRN_INFEASIBLE)
            return status;
        double overhead = MOST_OVERHEAD;
        if (status == CAIRN_OK)
            overhead = percent_of((double)(bound - s->none_time), (double)s->none_time);
        x[*count] = percent;
        y[(*count)++] = overhead < MOST_OVERHEAD ? overhead : MOST_OVERHEAD;
    }
    for (uint32_t i = *count - 1; i-- > 0;) /* what is not possible with more is not with less */
        y[i] = y[i] > y[i + 1] ? y[i] : y[i + 1];
    return CAIRN_OK;
}

static int write_svg(const cli_sweep *s, const char *path) {
    static double x[CLI_MOST_CURVES][CLI_MOST_POINTS], y[CLI_MOST_CURVES][CLI_MOST_POINTS];
    static double shade_x[100], shade_y[100];
    static char notes[CLI_MOST_CURVES][200];
    cairn_curve curves[CLI_MOST_CURVES + 1];
    cairn_error err = {0};
    uint32_t shaded;
    bool left_out = false;
    for (uint32_t k = 0; k < s->count; k++) {
        const cli_curve *c = &s->curves[k];
        uint32_t drawn = 0;
        for (uint32_t i = 0; i < c->count; i++) {
            double longer = (double)(c->points[i].time - s->none_time);
            double overhead = percent_of(longer, (double)s->none_time);
            if (overhead > MOST_OVERHEAD) {
                left_out = true;
                continue;
            }
            x[k][drawn] = percent_of((double)c->points[i].memory, (double)s->none_memory);
            y[k][drawn++] = overhead;
        }
        curves[k] = (cairn_curve){.name = c->solver->name, .x = x[k], .y = y[k], .count = drawn};
        curves[k].joined = c->solver->budgeted;
        if (c->floor > 0) {
            snprintf(notes[k], sizeof notes[k], "%s: least %.1f%%, set by %s", c->solver->name,
                     percent_of((double)c->floor, (double)s->none_memory), c->floor_op);
            curves[k].note = notes[k];
        }
    }
    cairn_status status = find_shade(s, shade_x, shade_y, &shaded, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    curves[s->count] = (cairn_curve){
        .name = "no plan gets here", .x = shade_x, .y = shade_y, .count = shaded, .shaded = true};
    char title[128];
    snprintf(title, sizeof title, "%.60s: memory against time", cairn_graph_name(s->model->graph));
    cairn_text text;
    status = cairn_plot_svg(NULL, title, "memory, % of plain training",
                            left_out ? "overhead in time, % (above 100 left out)"
                                     : "overhead in time, %",
                            curves, s->count + 1, &text);
    return status == CAIRN_OK ? cli_emit(&text, path) : cli_fail(status, NULL);
}

/* A click on a point shows its plan. */
static cairn_status fill_page(const cli_sweep *s, cairn_page *page) {
    cairn_status status = CAIRN_OK;
    for (uint32_t k = 0; k < s->count; k++)
        for (uint32_t i = 0; i < s->curves[k].count && status == CAIRN_OK; i++) {
            cairn_page_entry entry = CAIRN_PAGE_ENTRY_INIT;
            entry.budget_bytes = s->curves[k].points[i].budget;
            status = cairn_page_add(page, s->curves[k].points[i].solution, &entry);
        }
    return status;
}

static int write_page(const cli_sweep *s, const char *path) {
    cairn_page_options options = CAIRN_PAGE_OPTIONS_INIT;
    cairn_page *page = NULL;
    cairn_text text;
    options.machine = s->model->machine.name;
    options.stationary_bytes = cairn_stationary_bytes(s->model->graph, s->model->costs, 1);
    options.sweep = true;
    cairn_status status = cairn_page_create(s->model->graph, s->model->costs, &options, &page);
    if (status == CAIRN_OK)
        status = fill_page(s, page);
    if (status == CAIRN_OK)
        status = cairn_page_write(page, &text);
    cairn_page_destroy(page);
    return status == CAIRN_OK ? cli_emit(&text, path) : cli_fail(status, NULL);
}

static int show(const cli_args *args, const cli_sweep *s) {
    int code = CLI_DONE;
    if (cli_flag(args, "json"))
        print_json(s);
    else
        print_table(s);
    if (cli_value(args, "csv") != NULL)
        code = cli_write_file(cli_value(args, "csv"), print_csv, s);
    if (code == CLI_DONE && cli_value(args, "svg") != NULL)
        code = write_svg(s, cli_value(args, "svg"));
    if (code == CLI_DONE && cli_value(args, "html") != NULL)
        code = write_page(s, cli_value(args, "html"));
    return code;
}

/* With --whole the step has updates, and everything on the device counts. */
static int open_model(const cli_args *args, cli_model *out) {
    const char *name = cli_positional(args, 0);
    uint64_t slots;
    if (!cli_flag(args, "whole")) {
        if (cli_value(args, "optimizer-slots") != NULL)
            return cli_usage_error(args, "--optimizer-slots needs --whole");
        return cli_model_open(args, name, out);
    }
    if (!cli_number(args, "optimizer-slots", 0, CAIRN_MOST_SLOTS, 1, &slots))
        return CLI_USAGE;
    int code = cli_model_open_for(args, name, (const uint32_t[3]){0}, 0, 1 + (uint32_t)slots, out);
    if (code != CLI_DONE || out->header.updates > 0)
        return code;
    cli_model_close(out);
    return cli_usage_error(args, "--whole needs a network with parameters to update");
}

static int run(const cli_args *args) {
    cli_model model;
    uint64_t step;
    if (!cli_number(args, "step", 2, 50, 10, &step))
        return CLI_USAGE;
    cli_catch_interrupts();
    int code = open_model(args, &model);
    if (code != CLI_DONE)
        return code;
    cairn_error err = {0};
    cli_sweep s = {.model = &model, .step = (uint32_t)step};
    s.keep = cli_value(args, "html") != NULL;
    s.args = args;
    if (cli_flag(args, "whole"))
        s.stationary = cairn_stationary_bytes(model.graph, model.costs, 0);
    cairn_status status = cli_sweep_run(&s, &err);
    code = status == CAIRN_OK ? show(args, &s) : cli_fail(status, &err);
    cli_sweep_release(&s);
    cli_model_close(&model);
    return code;
}

static const cli_option options[] = {
    CLI_MODEL_OPTIONS,
    CLI_COST_OPTIONS,
    CLI_SEARCH_OPTIONS,
    {"whole", 0, NULL, "count everything on the device: parameters and optimiser too"},
    CLI_SLOTS_OPTION,
    {"step", 0, "N", "distance between budgets, in percent of what none needs (default 10)"},
    {"csv", 0, "FILE", "write the points"},
    {"svg", 0, "FILE", "draw memory against time"},
    {"html", 0, "FILE", "write a page for the browser, where a click on a point shows its plan"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_sweep = {
    .name = "sweep",
    .arguments = "MODEL",
    .summary = "memory against time, for every algorithm",
    .details =
        "MODEL is a network of 'cairn zoo', your own (NAME.net) or a graph file. Every algorithm "
        "makes a plan; those\n"
        "that take a budget make one for each of several budgets. Shows the time of each plan,\n"
        "how far it is from the fastest one at most (gap), and the op that sets the smallest\n"
        "budget. Several\n"
        "algorithms run at a time, one per processor.",
    .examples = "sweep resnet50 --batch 64 --html sweep.html\n"
                "sweep my.net --machine cpu --step 5",
    .options = options,
    .run = run,
};
