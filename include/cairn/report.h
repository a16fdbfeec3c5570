/* report.h: what is shown of a plan: figures, pictures, traces, all of them from the simulator; and
 * what is shown of a network: its picture and its text. */
#ifndef CAIRN_REPORT_H
#define CAIRN_REPORT_H

#include "cairn/import.h"
#include "cairn/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A solution beside `none` on the same graph. Release with cairn_report_destroy(). It borrows
 * graph, costs, solution and, if it was given, `none`, which must outlive it. Fields are only ever
 * added at the end. */
typedef struct cairn_report {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_solution *solution;
    uint64_t arena_bytes, stationary_bytes;
    uint64_t none_arena_bytes; /* 0 for plans of another goal than training */
    int64_t none_time_ns;
    const cairn_solution *none; /* what it is compared with; NULL: nothing */
    cairn_solution *own_none;   /* the report's own, where none was given */
    uint64_t budget_bytes;      /* of the arena, for pictures; the caller may set it; 0: none */
} cairn_report;

/* `none` is that solution of the same graph and costs; NULL: it is worked out here. */
CAIRN_API CAIRN_MUST cairn_status cairn_report_create(
    const cairn_graph *graph, const cairn_costs *costs, const cairn_solution *solution,
    const cairn_solution *none, uint32_t optimizer_slots, cairn_report **out, cairn_error *err);
CAIRN_API void cairn_report_destroy(cairn_report *report);

/* How much longer than `none`, in millionths of its time; 0 where there is nothing to
 * compare. */
CAIRN_API int64_t cairn_report_overhead_ppm(const cairn_report *report);

/* One line of JSON, with its newline: algorithm, predicted_peak_bytes, arena_bytes,
 * stationary_bytes, time_ns, overhead, recomputed_ops, holders at the peak, and more. */
CAIRN_API CAIRN_MUST cairn_status cairn_report_to_json(const cairn_report *report, cairn_text *out);

/* A picture of memory over time with the peak's largest holders, plain training behind it, and the
 * budget. */
CAIRN_API CAIRN_MUST cairn_status cairn_report_memory_svg(const cairn_report *report,
                                                          cairn_text *out);

/* A trace that Perfetto and Chrome open: compute, copy-out and copy-in lanes, a memory counter. */
CAIRN_API CAIRN_MUST cairn_status cairn_report_trace(const cairn_report *report, cairn_text *out);

/* What a step should take: the plan once for each micro-batch, and one update of the parameters,
 * which takes `update_ns`. If the plan was solved for several micro-batches, only the last one
 * updates. */
CAIRN_API int64_t cairn_solution_step_ns(const cairn_solution *solution, uint32_t micro_batches,
                                         int64_t update_ns);

/* A plan as JSON: docs/plan-format.md. */
CAIRN_API CAIRN_MUST cairn_status cairn_plan_to_json(const cairn_plan *plan,
                                                     const cairn_graph *graph, cairn_text *out);

/* ---- Networks ---- */

/* A network as a person would write it (docs/network-format.md), with named blocks where layers of
 * it repeat. `size`, which may be NULL, is as in cairn_model_open(); where the number of classes
 * and the batch appear, their names are written, so that the text can be built for others. Opening
 * the text with the same sizes gives the same graph. CAIRN_EINVAL: a graph file has an op that the
 * format cannot express: opaque, or of the backward pass. */
CAIRN_API CAIRN_MUST cairn_status cairn_model_source(const cairn_allocator *allocator,
                                                     const char *model,
                                                     const cairn_zoo_options *size, cairn_text *out,
                                                     cairn_error *err);

/* The graph for graphviz: tensors as nodes, ops as edges. `colors` gives per tensor a colour name
 * or NULL; the array may be NULL. Only the forward phase unless `whole`. */
CAIRN_API CAIRN_MUST cairn_status cairn_graph_to_dot(const cairn_graph *graph,
                                                     const char *const *colors, bool whole,
                                                     cairn_text *out);

/* ---- Plots ---- */

/* A plot of several curves, as an SVG picture. Points are in the caller's units; both axes start at
 * 0. A curve with `joined` false is drawn as marks only. Curves with the same points share a line
 * of the legend. */
typedef struct cairn_curve {
    const char *name;
    const double *x, *y;
    uint32_t count;
    bool joined;
    bool shaded;      /* no line: all that is left of and below one of its points, which stand by
                         rising x, is shaded */
    const char *note; /* a second line in the legend, or NULL */
} cairn_curve;

CAIRN_API CAIRN_MUST cairn_status cairn_plot_svg(const cairn_allocator *allocator,
                                                 const char *title, const char *x_label,
                                                 const char *y_label, const cairn_curve *curves,
                                                 uint32_t count, cairn_text *out);

#ifdef __cplusplus
}
#endif
#endif
