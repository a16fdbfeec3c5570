/* one_to_one.h: a step as arrays in which each op has one input and one output, no workspace, and
 * takes the same time. */
#ifndef ONE_TO_ONE_H
#define ONE_TO_ONE_H

#include "cairn/arrays.h"

#define ONE_TO_ONE_OPS 7u /* the most */

/* What differs from step to step. The arrays must outlive the result. */
typedef struct one_to_one {
    uint32_t tensors, ops;
    const uint64_t *bytes;
    const uint8_t *roles, *flags, *phases, *op_flags;
    const cairn_id *inputs, *outputs;
} one_to_one;

static inline cairn_arrays one_to_one_arrays(const one_to_one *s) {
    static const int64_t times[ONE_TO_ONE_OPS] = {100000, 100000, 100000, 100000,
                                                  100000, 100000, 100000};
    static const uint64_t workspaces[ONE_TO_ONE_OPS] = {0};
    static const uint32_t first[] = {0, 1, 2, 3, 4, 5, 6, 7}, first_inplace[8] = {0};
    cairn_arrays arrays = CAIRN_ARRAYS_INIT;
    arrays.tensor_count = s->tensors;
    arrays.op_count = s->ops;
    arrays.bytes = s->bytes;
    arrays.roles = s->roles;
    arrays.tensor_flags = s->flags;
    arrays.phases = s->phases;
    arrays.op_flags = s->op_flags;
    arrays.time_ns = times;
    arrays.workspace_bytes = workspaces;
    arrays.first_input = arrays.first_output = first;
    arrays.inputs = s->inputs;
    arrays.outputs = s->outputs;
    arrays.first_inplace = first_inplace;
    return arrays;
}

#endif
