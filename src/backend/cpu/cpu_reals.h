/* cpu_reals.h: operands that are stored as fp32 or as bf16. Kernels compute in fp32, on a few
 * elements at a time:
 *
 *     bf16 operand --load--> room of the thread --formula--> room --store, rounded once--> bf16
 * result fp32 operand ------------------- in their place -----------------------------------> fp32
 * result
 *
 * A room has as many floats as are loaded at a time. */
#ifndef CRN_CPU_REALS_H
#define CRN_CPU_REALS_H

#include "backend/bf16.h"
#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/cpu_math.h"

typedef struct crn_reals {
    void *at; /* NULL: not wanted */
    bool half;
} crn_reals;

static inline bool crn_is_half(const crn_storage *storage, cairn_id tensor) {
    return tensor != CAIRN_NONE && storage[tensor].type == CRN_BF16;
}

static inline crn_reals crn_reals_input(const crn_call *call, uint32_t index) {
    return (crn_reals){(void *)(uintptr_t)call->inputs[index],
                       crn_is_half(call->storage, call->op->inputs[index])};
}

static inline crn_reals crn_reals_output(const crn_call *call, uint32_t index) {
    void *at = crn_ref_out(call, index);
    return (crn_reals){at, at != NULL && crn_is_half(call->storage, call->op->outputs[index])};
}

/* The elements from `first` on as floats: in their place, or in the room. */
CRN_IN_LOOP const float *crn_reals_load(crn_reals from, size_t first, size_t count, float *room) {
    if (!from.half)
        return (const float *)from.at + first;
    const uint16_t *half = (const uint16_t *)from.at + first;
    for (size_t i = 0; i < count; i++)
        room[i] = crn_from_bf16(half[i]);
    return room;
}

/* Where to compute the elements from `first` on; crn_reals_store() brings them to their place. */
CRN_IN_LOOP float *crn_reals_room(crn_reals to, size_t first, float *room) {
    return to.half ? room : (float *)to.at + first;
}

CRN_IN_LOOP void crn_reals_store(crn_reals to, size_t first, size_t count, const float *values) {
    if (!to.half) {
        if (values != (float *)to.at + first)
            memcpy((float *)to.at + first, values, count * sizeof *values);
        return;
    }
    uint16_t *half = (uint16_t *)to.at + first;
    for (size_t i = 0; i < count; i++)
        half[i] = crn_to_bf16(values[i]);
}

#endif
