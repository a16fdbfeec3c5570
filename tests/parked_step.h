/* parked_step.h: a step that returns gradients, two of which are made before an op with a large
 * operand; and a machine with a link.
 *
 *     x --> a --> loss --> g --> dw1, dw2, large;  large --> dw3 */
#ifndef PARKED_STEP_H
#define PARKED_STEP_H

#include "cairn/arrays.h"
#include "cairn/cost.h"

enum {
    PARKED_X,
    PARKED_A,
    PARKED_LOSS,
    PARKED_G,
    PARKED_DW1,
    PARKED_DW2,
    PARKED_LARGE,
    PARKED_DW3
};

static inline cairn_arrays parked_arrays(void) {
    static const uint64_t bytes[] = {100, 256, 4, 256, 256000, 256000, 700000, 256000};
    static const uint8_t roles[] = {CAIRN_ROLE_INPUT,    CAIRN_ROLE_ACTIVATION, CAIRN_ROLE_LOSS,
                                    CAIRN_ROLE_GRADIENT, CAIRN_ROLE_GRADIENT,   CAIRN_ROLE_GRADIENT,
                                    CAIRN_ROLE_GRADIENT, CAIRN_ROLE_GRADIENT};
    static const uint8_t flags[] = {[PARKED_X] = CAIRN_TENSOR_FLAG_STATIONARY,
                                    [PARKED_DW1] = CAIRN_TENSOR_FLAG_RESULT,
                                    [PARKED_DW2] = CAIRN_TENSOR_FLAG_RESULT,
                                    [PARKED_DW3] = CAIRN_TENSOR_FLAG_RESULT};
    static const uint8_t phases[] = {0, 0, 1, 1, 1, 1, 1}, op_flags[7] = {0};
    static const int64_t times[] = {100000, 100000, 100000, 100000, 100000, 100000, 100000};
    static const uint64_t workspaces[7] = {0};
    static const uint32_t first[] = {0, 1, 2, 3, 4, 5, 6, 7}, first_inplace[8] = {0};
    static const cairn_id inputs[] = {PARKED_X, PARKED_A, PARKED_LOSS, PARKED_G,
                                      PARKED_G, PARKED_G, PARKED_LARGE};
    static const cairn_id outputs[] = {PARKED_A,   PARKED_LOSS,  PARKED_G,  PARKED_DW1,
                                       PARKED_DW2, PARKED_LARGE, PARKED_DW3};
    cairn_arrays arrays = CAIRN_ARRAYS_INIT;
    arrays.tensor_count = 8;
    arrays.op_count = 7;
    arrays.bytes = bytes;
    arrays.roles = roles;
    arrays.tensor_flags = flags;
    arrays.phases = phases;
    arrays.op_flags = op_flags;
    arrays.time_ns = times;
    arrays.workspace_bytes = workspaces;
    arrays.first_input = arrays.first_output = first;
    arrays.inputs = inputs;
    arrays.outputs = outputs;
    arrays.first_inplace = first_inplace;
    return arrays;
}

static inline cairn_machine parked_machine(void) {
    cairn_machine machine = CAIRN_MACHINE_INIT;
    machine.link_bytes_per_second = 10000000000;
    machine.host_memory_bytes = 1 << 30;
    machine.full_duplex = true;
    return machine;
}

#endif
