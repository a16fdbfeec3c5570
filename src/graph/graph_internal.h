/* graph_internal.h: what the files of graph/ share. Other folders may not include it. */
#ifndef CRN_GRAPH_INTERNAL_H
#define CRN_GRAPH_INTERNAL_H

#include "base/crn_base.h"
#include "base/names.h"
#include "cairn/graph.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"
#include "graph/op_kinds.h"

/* The graph owns the arena that it is itself allocated in. */
struct cairn_graph {
    crn_arena arena;
    const char *name;
    CRN_ARRAY(cairn_tensor) tensors;
    CRN_ARRAY(cairn_op) ops;
    crn_names tensor_names, op_names;
    uint32_t *reader_first; /* readers of t: readers[reader_first[t] .. reader_first[t + 1]) */
    cairn_id *readers;
    uint64_t hash;
};

/* A builder holds a graph that still grows, and the first error. */
struct cairn_builder {
    cairn_allocator allocator;
    cairn_graph *graph; /* NULL after finish */
    cairn_status status;
    cairn_error err;
};

/* ---- builder.c ---- */

cairn_status crn_builder_add_tensor(cairn_builder *builder, const cairn_tensor *tensor,
                                    cairn_id *out);
cairn_status crn_builder_add_op(cairn_builder *builder, const cairn_op *op, cairn_id *out);

/* ---- shapes.c ---- */

#define CRN_MAX_FORWARD_OUTPUTS 2

/* Infer the outputs of a forward op from its inputs and parameters: role, dtype and shape of each,
 * and whether it is an alias (alias_of is then the storage of input 0). The error message names the
 * op. Not for opaque and backward ops. */

CAIRN_MUST cairn_status crn_infer_outputs(const cairn_graph *graph, const cairn_op *op,
                                          cairn_tensor out[CRN_MAX_FORWARD_OUTPUTS],
                                          cairn_error *err);

/* ---- check_derivative.c ---- */

/* Check a backward op against the rule that it must follow. */
CAIRN_MUST cairn_status crn_check_derivative(const cairn_graph *graph, const cairn_op *op,
                                             cairn_error *err);

/* ---- validate.c ---- */

/* Check everything, and fill in producers, name tables, readers and hash. */
CAIRN_MUST cairn_status crn_validate(cairn_graph *graph, cairn_error *err);

static inline bool crn_same_shape(const cairn_tensor *a, const cairn_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

#endif
