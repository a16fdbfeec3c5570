/* report.c: collects the figures of a plan for all kinds of reports. */
#include "base/crn_base.h"
#include "cairn/report.h"
#include "graph/crn_graph.h"
#include "solve/solution.h"

void cairn_report_destroy(cairn_report *report) {
    if (report == NULL)
        return;
    cairn_allocator allocator = crn_graph_allocator(report->graph);
    cairn_solution_destroy(report->own_none);
    crn_resize(&allocator, report, sizeof *report, 0);
}

static void compare(cairn_report *r, const cairn_solution *none) {
    r->none = none;
    r->none_arena_bytes = none->layout->arena_bytes;
    r->none_time_ns = none->sim->summary->time_ns;
}

/* Compare with the plan of `none` for the same graph. */
static cairn_status compare_with_own(cairn_report *r, cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.micro_batches = r->solution->micro_batches;
    CRN_TRY(cairn_solve(r->graph, r->costs, "none", &options, &r->own_none, err));
    compare(r, r->own_none);
    return CAIRN_OK;
}

cairn_status cairn_report_create(const cairn_graph *graph, const cairn_costs *costs,
                                 const cairn_solution *solution, const cairn_solution *none,
                                 uint32_t optimizer_slots, cairn_report **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_report *r = crn_resize(&allocator, NULL, 0, sizeof *r);
    if (r == NULL)
        return crn_fail_memory(err);
    *r = (cairn_report){.graph = graph, .costs = costs, .solution = solution};
    r->stationary_bytes =
        cairn_stationary_bytes(graph, costs, optimizer_slots) - solution->sim->summary->home_bytes;
    r->arena_bytes = solution->layout->arena_bytes;
    cairn_status status = CAIRN_OK;
    if (solution->plan->header->goal != CAIRN_GOAL_TRAIN)
        none = NULL;
    else if (none == NULL)
        status = compare_with_own(r, err);
    if (none != NULL)
        compare(r, none);
    if (status != CAIRN_OK) {
        cairn_report_destroy(r);
        return status;
    }
    *out = r;
    return CAIRN_OK;
}

int64_t cairn_solution_step_ns(const cairn_solution *solution, uint32_t micro_batches,
                               int64_t update_ns) {
    return crn_solution_step_ns(solution, micro_batches, update_ns);
}

int64_t cairn_report_overhead_ppm(const cairn_report *report) {
    uint32_t micro_batches = report->solution->micro_batches;
    if (report->none_time_ns <= 0)
        return 0;
    int64_t time = cairn_solution_step_ns(report->solution, micro_batches, 0);
    int64_t none = cairn_solution_step_ns(report->none, micro_batches, 0);
    int64_t more = time - none;
    uint64_t size = crn_mul_div_up((uint64_t)(more < 0 ? -more : more), 1000000, (uint64_t)none);
    size = CRN_MIN(size, (uint64_t)INT64_MAX);
    return more < 0 ? -(int64_t)size : (int64_t)size;
}

static void write_ppm(cairn_text *text, int64_t ppm) {
    uint64_t size = (uint64_t)(ppm < 0 ? -ppm : ppm);
    crn_text_printf(text, "%s%llu.%06llu", ppm < 0 ? "-" : "", (unsigned long long)(size / 1000000),
                    (unsigned long long)(size % 1000000));
}

static void write_holders(cairn_text *text, const cairn_report *r) {
    const cairn_holder *holders = r->solution->sim->holders;
    uint32_t count = r->solution->sim->holder_count;
    crn_text_printf(text, "\"holders\": [");
    for (uint32_t i = 0; i < count; i++) {
        crn_text_printf(text, "%s{\"tensor\": ", i > 0 ? ", " : "");
        crn_text_json_string(text, holders[i].tensor == CAIRN_NONE
                                       ? "(workspace)"
                                       : cairn_graph_tensor(r->graph, holders[i].tensor)->name);
        crn_text_printf(text, ", \"bytes\": %llu}", (unsigned long long)holders[i].bytes);
    }
    crn_text_printf(text, "]");
}

/* The op that runs at the peak. */
static const char *peak_op(const cairn_report *r) {
    const cairn_step *steps = r->solution->plan->steps;
    uint32_t count = r->solution->plan->step_count;
    uint32_t step = r->solution->sim->summary->peak_step;
    if (step >= count)
        return "";
    return steps[step].kind == CAIRN_STEP_RUN ? cairn_graph_op(r->graph, steps[step].id)->name
                                              : cairn_graph_tensor(r->graph, steps[step].id)->name;
}

cairn_status cairn_report_to_json(const cairn_report *r, cairn_text *out) {
    const cairn_sim_summary *s = r->solution->sim->summary;
    const cairn_plan_header *h = r->solution->plan->header;
    cairn_allocator allocator = crn_graph_allocator(r->graph);
    crn_text_init(out, &allocator);
    crn_text_printf(out, "{\"model\": ");
    crn_text_json_string(out, h->model);
    crn_text_printf(out, ", \"algorithm\": ");
    crn_text_json_string(out, h->algorithm);
#define NUMBER(key, value) crn_text_printf(out, ", \"" key "\": %lld", (long long)(value))
    NUMBER("predicted_peak_bytes", s->peak_bytes);
    NUMBER("arena_bytes", r->arena_bytes);
    NUMBER("stationary_bytes", r->stationary_bytes);
    NUMBER("total_bytes", r->arena_bytes + r->stationary_bytes);
    NUMBER("none_arena_bytes", r->none_arena_bytes);
    NUMBER("time_ns", s->time_ns);
    NUMBER("none_time_ns", r->none_time_ns);
    uint32_t micro_batches = r->solution->micro_batches;
    if (micro_batches > 1) {
        NUMBER("micro_batches", micro_batches);
        NUMBER("step_ns", cairn_solution_step_ns(r->solution, micro_batches, 0));
    }
    crn_text_printf(out, ", \"overhead\": ");
    write_ppm(out, cairn_report_overhead_ppm(r));
    if (r->solution->lower_bound_ns > 0) {
        NUMBER("bound_ns", r->solution->lower_bound_ns);
        crn_text_printf(out, ", \"gap\": ");
        write_ppm(out, crn_solution_gap_ppm(r->solution));
    }
    NUMBER("compute_ns", s->compute_ns);
    NUMBER("idle_ns", s->idle_ns);
    NUMBER("copy_out_ns", s->copy_out_ns);
    NUMBER("copy_in_ns", s->copy_in_ns);
    uint32_t steps = r->solution->plan->step_count;
    NUMBER("steps", steps);
    NUMBER("runs", s->runs);
    NUMBER("recomputed_ops", s->reruns);
    NUMBER("recomputed_ns", s->rerun_ns);
    NUMBER("offloads", s->offloads);
    NUMBER("fetches", s->fetches);
    NUMBER("host_bytes", s->host_bytes);
    NUMBER("peak_step", s->peak_step);
#undef NUMBER
    crn_text_printf(out, ", \"peak_op\": ");
    crn_text_json_string(out, peak_op(r));
    crn_text_printf(out, ", ");
    write_holders(out, r);
    crn_text_printf(out, "}\n");
    return crn_text_finish(out);
}
