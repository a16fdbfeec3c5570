/* cpu_elements.h: ops that compute each element of their result from the elements of one or two
 * operands at the same place, in any storage format and type that all of them have. */
#ifndef CRN_CPU_ELEMENTS_H
#define CRN_CPU_ELEMENTS_H

#include "backend/cpu/cpu_reals.h"

typedef struct crn_elements {
    crn_reals a, b; /* ops of one operand have it twice */
    crn_reals to;
    size_t count;
} crn_elements;

static inline crn_elements crn_elements_of(const crn_call *call) {
    crn_reals a = crn_reals_input(call, 0);
    return (crn_elements){.a = a,
                          .b = crn_reals_input(call, call->op->input_count > 1 ? 1 : 0),
                          .to = crn_reals_output(call, 0),
                          .count = call->storage[call->op->inputs[0]].bytes / (a.half ? 2 : 4)};
}

/* A team computes chunks. Of a chunk a few elements are computed at a time, because the result may
 * have the address of an operand. */
#define CRN_CHUNK 8192u
#define CRN_STEP 64u

static inline void crn_for_chunks(const crn_call *call, void *at, size_t count,
                                  void (*body)(void *, uint32_t)) {
    crn_team_for(call->threads, (uint32_t)((count + CRN_CHUNK - 1) / CRN_CHUNK), body, at);
}

#define CRN_FOR_STEPS(at, chunk, i, length)                                                        \
    for (size_t i = (size_t)(chunk)*CRN_CHUNK,                                                     \
                end_ = CRN_MIN((at)->count, ((size_t)(chunk) + 1) * CRN_CHUNK), length;            \
         i < end_ && (length = CRN_MIN(CRN_STEP, end_ - i)) > 0; i += CRN_STEP)

/* Define name(): it computes a chunk by a formula of the elements a[k] and b[k]. */
#define CRN_ELEMENTS_CHUNK(name, formula)                                                          \
    CRN_VECTORISED static void name(void *context, uint32_t chunk) {                               \
        const crn_elements *at = context;                                                          \
        CRN_FOR_STEPS(at, chunk, i, length) {                                                      \
            float first[CRN_STEP], second[CRN_STEP], value[CRN_STEP];                              \
            const float *a = crn_reals_load(at->a, i, length, first);                              \
            const float *b = crn_reals_load(at->b, i, length, second);                             \
            (void)b;                                                                               \
            for (size_t k = 0; k < length; k++)                                                    \
                value[k] = formula;                                                                \
            crn_reals_store(at->to, i, length, value);                                             \
        }                                                                                          \
    }

static inline void crn_run_elements(const crn_call *call, void (*chunk)(void *, uint32_t)) {
    crn_elements at = crn_elements_of(call);
    crn_for_chunks(call, &at, at.count, chunk);
}

#endif
