/* parked_step.h: a step that returns gradients, two of which are made before an op with a large
 * operand; and a machine with a link.
 *
 *     x --> a --> loss --> g --> dw1, dw2, large;  large --> dw3 */
#ifndef PARKED_STEP_H
#define PARKED_STEP_H

#include "cairn/cost.h"
#include "one_to_one.h"

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
    static const cairn_id inputs[] = {PARKED_X, PARKED_A, PARKED_LOSS, PARKED_G,
                                      PARKED_G, PARKED_G, PARKED_LARGE};
    static const cairn_id outputs[] = {PARKED_A,   PARKED_LOSS,  PARKED_G,  PARKED_DW1,
                                       PARKED_DW2, PARKED_LARGE, PARKED_DW3};
    return one_to_one_arrays(
        &(one_to_one){8, 7, bytes, roles, flags, phases, op_flags, inputs, outputs});
}

static inline cairn_machine parked_machine(void) {
    cairn_machine machine = CAIRN_MACHINE_INIT;
    machine.link_bytes_per_second = 10000000000;
    machine.host_memory_bytes = 1 << 30;
    machine.full_duplex = true;
    return machine;
}

#endif
