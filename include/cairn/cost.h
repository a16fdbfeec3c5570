/* cost.h: what a graph's ops and tensors cost: machines, analytic costs, tables of measured ones.
 *
 * Costs are a separate object beside the graph: bytes per tensor as they are stored, and per
 * op one or more implementations with a time and a workspace, best first. */
#ifndef CAIRN_COST_H
#define CAIRN_COST_H

#include "cairn/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Machines ---- */

/* Rates are those attained, not those advertised. Start from CAIRN_MACHINE_INIT; fields are only
 * ever added at the end. */
typedef struct cairn_machine {
    uint32_t struct_size;
    char name[64];
    char summary[160];
    uint64_t flops_per_second;
    uint64_t memory_bytes_per_second;
    int64_t launch_ns; /* to start an op */
    uint64_t link_bytes_per_second;
    int64_t link_latency_ns; /* to start a copy */
    bool full_duplex;        /* copies out and in at once, or one at a time */
    uint64_t memory_bytes, host_memory_bytes;
    bool one_memory; /* its memory is the host's, as on a processor: offloading frees nothing */
} cairn_machine;
#define CAIRN_MACHINE_INIT CAIRN_INIT_SIZED(cairn_machine)

/* The built-in description `index`, in machines/, or NULL past the end. */
CAIRN_API const cairn_machine *cairn_machine_list(uint32_t index);

/* A built-in machine by name. CAIRN_EUNKNOWN: there is none. */
CAIRN_API CAIRN_MUST cairn_status cairn_machine_find(const char *name, cairn_machine *out,
                                                     cairn_error *err);

/* A description like those in machines/. Rates are at least 1 and at most 10^18. */
CAIRN_API CAIRN_MUST cairn_status cairn_machine_from_json(const char *text, size_t length,
                                                          const char *file, cairn_machine *out,
                                                          cairn_error *err);

/* ---- Costs ---- */

typedef struct cairn_costs cairn_costs;

typedef struct cairn_implementation {
    const char *name;
    int64_t time_ns;
    uint64_t workspace_bytes;
    int64_t low_ns, high_ns; /* quartiles, where time_ns is the median of measurements; else 0 */
} cairn_implementation;

/* Times from each op's arithmetic and the bytes it moves: launch + max(flops / rate, bytes /
 * bandwidth), one implementation called "analytic"; bytes as the graph has them. Aliases are free.
 * A head_loss has one for each number of chunks. */
CAIRN_API CAIRN_MUST cairn_status cairn_costs_analytic(const cairn_graph *graph,
                                                       const cairn_machine *machine,
                                                       cairn_costs **out, cairn_error *err);

/* For figures that the caller has: tensors have the sizes of the graph, and every op has one
 * implementation "given" that takes no time. Set the known figures afterwards. */
CAIRN_API CAIRN_MUST cairn_status cairn_costs_create(const cairn_graph *graph, cairn_costs **out,
                                                     cairn_error *err);
CAIRN_API void cairn_costs_set_bytes(cairn_costs *costs, cairn_id tensor, uint64_t bytes);

/* Replace the implementations of an op, best first; names are copied. */
CAIRN_API CAIRN_MUST cairn_status cairn_costs_set_op(cairn_costs *costs, cairn_id op,
                                                     const cairn_implementation *list,
                                                     uint32_t count);
CAIRN_API void cairn_costs_destroy(cairn_costs *costs);

/* Whether plans use only the implementations that `none` uses, so that they give its bits. */
CAIRN_API void cairn_costs_set_same_bits(cairn_costs *costs, bool same_bits);

CAIRN_API const uint64_t *cairn_costs_bytes(const cairn_costs *costs); /* per tensor */
CAIRN_API const cairn_implementation *cairn_costs_op(const cairn_costs *costs, cairn_id op,
                                                     uint32_t *count);

/* ---- Tables of measured costs: docs/cost-format.md ---- */

/* Ops are known by signature: kind, attributes and shapes, so that one measurement serves equal ops
 * of any network. Opaque ops are known by name. */
CAIRN_API CAIRN_MUST cairn_status cairn_op_signature(const cairn_graph *graph, cairn_id op,
                                                     cairn_text *out);

/* Where a table is from, and what was measured beside the ops. Empty and zero: the table does not
 * say. Start from CAIRN_COSTS_ORIGIN_INIT; fields are only ever added at the end. */
typedef struct cairn_costs_origin {
    uint32_t struct_size;
    char source[160];
    char backend[32];
    uint32_t threads;
    uint64_t link_bytes_per_second; /* copying to the host and back */
    int64_t link_latency_ns;
    uint64_t update_bytes_per_second; /* parameters that the optimiser updates */
} cairn_costs_origin;
#define CAIRN_COSTS_ORIGIN_INIT CAIRN_INIT_SIZED(cairn_costs_origin)

/* Start from CAIRN_MEASURED_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_measured_options {
    uint32_t struct_size;
    const char *backend;    /* that the costs are bound for; NULL: they are not bound */
    uint32_t threads;       /* of that backend, counted */
    cairn_machine *machine; /* gets the name and the link of the table; may be NULL */
} cairn_measured_options;
#define CAIRN_MEASURED_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_measured_options)

/* What a table gave. Start from CAIRN_MEASURED_INIT; fields are only ever added at the end. */
typedef struct cairn_measured {
    uint32_t struct_size;
    char backend[32];  /* that it was measured on; empty: it does not say */
    uint32_t matched;  /* ops that it has figures for */
    bool complete;     /* these are all ops: what is simulated with the costs is a prediction */
    int64_t update_ns; /* updating the parameters; 0: the table does not say */
} cairn_measured;
#define CAIRN_MEASURED_INIT CAIRN_INIT_SIZED(cairn_measured)

/* Use a table of measured costs. Costs that a backend has bound get its times; others get its
 * times and workspaces. The machine gets its link. CAIRN_EINVAL: it was measured on another
 * backend, or with another number of threads. */
CAIRN_API CAIRN_MUST cairn_status cairn_costs_measured(cairn_costs *costs, const cairn_graph *graph,
                                                       const char *text, size_t length,
                                                       const char *file,
                                                       const cairn_measured_options *options,
                                                       cairn_measured *out, cairn_error *err);

/* The table of all ops of a graph, each signature once. `origin` may be NULL. CAIRN_EINVAL: it has
 * no struct_size. */
CAIRN_API CAIRN_MUST cairn_status cairn_costs_to_json(const cairn_costs *costs,
                                                      const cairn_graph *graph,
                                                      const cairn_costs_origin *origin,
                                                      cairn_text *out);

#ifdef __cplusplus
}
#endif
#endif
