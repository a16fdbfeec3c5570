/* plan_report.c: a plan's figures for people and for programs. */
#include "cairn/report.h"
#include "plan_report.h"
#include "planning.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>

/* One total, and what it consists of: what --budget limits. */
static void print_memory(const cairn_report *r, const cli_model *model, const cairn_budget *limit) {
    const cairn_sim_summary *s = r->solution->sim->summary;
    uint64_t copies = model->one_memory ? s->host_bytes : 0;
    uint64_t total = r->arena_bytes + r->stationary_bytes + copies;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(r->graph, &summary);
    bool of_all = limit->stationary_bytes > 0, of_arena = limit->plan_bytes > 0 && !of_all;
    printf("  %s%-25s %10s%s", cli_style_code(CLI_BOLD), "memory", cli_bytes(total),
           cli_style_code(CLI_PLAIN));
    if (of_all)
        printf("   of a budget of %s", cli_bytes(limit->given_bytes));
    printf("\n    %-23s %10s   ", "arena", cli_bytes(r->arena_bytes));
    if (of_arena)
        printf("of a budget of %s; ", cli_bytes(limit->given_bytes));
    printf("peak %llu bytes", (unsigned long long)s->peak_bytes);
    if (r->none_arena_bytes > 0)
        printf(", %.1f%% of none", 100.0 * (double)s->peak_bytes / (double)r->none_arena_bytes);
    printf("\n    %-23s %10s   parameters, %soptimiser\n", "stationary",
           cli_bytes(r->stationary_bytes), summary.has_updates ? "" : "gradients, ");
    if (s->host_bytes > 0)
        printf("%s%-*s %10s%s\n", copies > 0 ? "    " : "  ", copies > 0 ? 23 : 25,
               copies > 0 ? "copies" : "host memory", cli_bytes(s->host_bytes),
               copies > 0 ? "   on the host, which is the same memory" : "");
    if (s->home_bytes > 0)
        printf("    %-23s %10s   parameters, optimiser\n", "at home there",
               cli_bytes(s->home_bytes));
    if (model->machine.memory_bytes >> 20 > 0 && total > model->machine.memory_bytes)
        printf("  %s%s has only %s%s; see --budget %s\n", cli_style_code(CLI_BAD),
               model->machine.name, cli_bytes(model->machine.memory_bytes),
               cli_style_code(CLI_PLAIN), cli_budget_below(model->machine.memory_bytes));
}

static void print_time(const cairn_report *r, const cli_model *model) {
    const cairn_sim_summary *s = r->solution->sim->summary;
    uint32_t micro_batches = r->solution->micro_batches;
    int64_t time = cairn_solution_step_ns(r->solution, micro_batches, 0);
    printf("  %-25s %10s   on %s", "time of a step", cli_time(time), model->machine.name);
    if (r->none_time_ns > 0)
        printf(", %+.1f%% against none", (double)cairn_report_overhead_ppm(r) / 1e4);
    printf("\n");
    if (micro_batches > 1)
        printf("    %-23s %10s   of %u; the last one %s\n", "a micro-batch",
               cli_time(r->solution->gather_ns), micro_batches, cli_time(s->time_ns));
    int64_t bound = r->solution->lower_bound_ns;
    if (bound > 0)
        printf("    %-23s %10s   %s\n", "no plan takes less than", cli_time(bound),
               cli_gap(time, bound));
    if (s->reruns > 0)
        printf("    %-23s %10s   %u ops\n", "computed again", cli_time(s->rerun_ns), s->reruns);
    if (s->offloads > 0) {
        printf("    %-23s %10s   %u tensors\n", "copies out", cli_time(s->copy_out_ns),
               s->offloads);
        printf("    %-23s %10s   %u tensors\n", "copies in", cli_time(s->copy_in_ns), s->fetches);
        printf("    %-23s %10s\n", "waiting for copies", cli_time(s->idle_ns));
    }
}

static void print_holders(const cairn_report *r, uint64_t top) {
    const cairn_holder *holders = r->solution->sim->holders;
    uint32_t count = r->solution->sim->holder_count;
    const cairn_step *list = r->solution->plan->steps;
    uint32_t steps = r->solution->plan->step_count;
    uint32_t at = r->solution->sim->summary->peak_step;
    if (steps == 0 || top == 0)
        return;
    const char *name = list[at].kind == CAIRN_STEP_RUN
                           ? cairn_graph_op(r->graph, list[at].id)->name
                           : cairn_graph_tensor(r->graph, list[at].id)->name;
    printf("  at the peak (step %u of %u, %s %s) memory is held by\n", at, steps,
           cairn_step_kind_name((cairn_step_kind)list[at].kind), name);
    for (uint32_t i = 0; i < count && i < top; i++)
        printf("    %-40s %12s\n",
               holders[i].tensor == CAIRN_NONE
                   ? "(workspace)"
                   : cairn_graph_tensor(r->graph, holders[i].tensor)->name,
               cli_bytes(holders[i].bytes));
    if (count > top)
        printf("    and %u more\n", (unsigned)(count - top));
}

static int write_pictures(const cli_args *args, const cairn_report *r) {
    const char *svg = cli_value(args, "svg"), *trace = cli_value(args, "trace");
    cairn_text text;
    if (svg != NULL) {
        cairn_status status = cairn_report_memory_svg(r, &text);
        int code = status == CAIRN_OK ? cli_emit(&text, svg) : cli_fail(status, NULL);
        if (code != CLI_DONE)
            return code;
    }
    if (trace != NULL) {
        cairn_status status = cairn_report_trace(r, &text);
        return status == CAIRN_OK ? cli_emit(&text, trace) : cli_fail(status, NULL);
    }
    return CLI_DONE;
}

static void print_text(const cairn_report *r, const cli_model *model, const cairn_budget *limit,
                       uint64_t top) {
    const cairn_plan_header *h = r->solution->plan->header;
    printf("%s%s", cli_style_code(CLI_BOLD), h->model);
    if (h->batch > 0)
        printf(", batch %u", h->batch);
    printf(", algorithm %s%s\n", h->algorithm, cli_style_code(CLI_PLAIN));
    print_memory(r, model, limit);
    print_time(r, model);
    print_holders(r, top);
}

int cli_report_plan(const cli_args *args, const cli_model *model, const cairn_solution *solution,
                    uint32_t slots, const cairn_budget *limit) {
    uint64_t top;
    cairn_error err = {0};
    cairn_report *report;
    if (!cli_number(args, "top", 0, 1000000, 8, &top))
        return CLI_USAGE;
    cairn_status status = cairn_report_create(model->graph, model->costs, solution, model->none,
                                              slots, &report, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    report->budget_bytes = limit->plan_bytes;
    int code = CLI_DONE;
    if (cli_flag(args, "json")) {
        cairn_text text;
        status = cairn_report_to_json(report, &text);
        code = status == CAIRN_OK ? cli_emit(&text, NULL) : cli_fail(status, NULL);
    } else {
        print_text(report, model, limit, top);
    }
    if (code == CLI_DONE)
        code = write_pictures(args, report);
    if (code == CLI_DONE)
        code = cli_write_page(args, model, solution, report->stationary_bytes, limit->plan_bytes,
                              NULL);
    cairn_report_destroy(report);
    return code;
}

int cli_write_plan(const cli_model *model, const cairn_plan *plan, const char *path) {
    cairn_text text;
    size_t length = strlen(path);
    bool json = length >= 5 && strcmp(path + length - 5, ".json") == 0;
    cairn_status status = json ? cairn_plan_to_json(plan, model->graph, &text)
                               : cairn_plan_to_text(plan, model->graph, &text);
    return status == CAIRN_OK ? cli_emit(&text, path) : cli_fail(status, NULL);
}
