/* chain_revolve.c: binomial checkpointing in closed form (Griewank, Walther 2000).
 *
 * With c slots (f_0 uses one) and every forward computed at most r times, the longest chain that
 * can be reversed has beta(c,r) = binomial(c+r, c) backwards. For `length` backwards let r be the
 * least that suffices. The cost is convex in the length with slope r between beta(c,r-1) and
 * beta(c,r); so advancing by k to the next checkpoint is optimal as long as both ranges lie on
 * segments of that slope:
 *
 *     |---- k ----|------ length - k ------|
 *      c slots     c - 1 slots
 *      beta(c,r-2) <= k <= beta(c,r-1)  and  beta(c-1,r-1) <= length - k <= beta(c-1,r)
 *
 * The least such k is taken. The algorithm does not use sizes. The schedule of each c is simulated
 * with the sizes of the chain, and the cheapest one that fits is taken. */
#include "solve/chain/chain_solve.h"

/* binomial(c + r, r), at most 2^31. */
static uint64_t beta(uint32_t c, uint32_t r) {
    uint64_t value = 1;
    for (uint32_t i = 1; i <= r && value < (uint64_t)1 << 31; i++)
        value = value * (c + i) / i;
    return value;
}

static uint32_t advance(uint32_t length, uint32_t c) {
    uint32_t r = 1;
    while (beta(c, r) < length)
        r++;
    uint64_t least = r >= 2 ? beta(c, r - 2) : 1;
    uint64_t rest = beta(c - 1, r);
    return (uint32_t)(rest < length ? CRN_MAX(least, length - rest) : least);
}

typedef struct range {
    uint32_t first, length, slots;
} range;

/* The ranges still to be reversed are on a stack, the next one last. */
static cairn_status lay_out(crn_arena *arena, uint32_t layers, uint32_t slots, range *stack,
                            crn_chain_steps *steps) {
    uint32_t height = 0;
    stack[height++] = (range){0, layers + 1, slots};
    while (height > 0) {
        range at = stack[--height];
        if (at.length == 1) {
            CRN_TRY(crn_chain_push(arena, steps, CAIRN_CHAIN_STEP_BACKWARD, at.first));
            continue;
        }
        uint32_t k = advance(at.length, at.slots);
        CRN_TRY(crn_chain_sweep(arena, steps, at.first, at.first + k));
        stack[height++] = (range){at.first, k, at.slots};
        stack[height++] = (range){at.first + k, at.length - k, at.slots - 1};
    }
    return CAIRN_OK;
}

cairn_status crn_chain_revolve(crn_chain_job *job, crn_chain_answer *answer) {
    uint32_t layers = job->problem->layers;
    crn_chain_choice choice;
    crn_chain_steps steps = {0};
    range *stack;
    crn_chain_choice_init(&choice, job, answer);
    CRN_TAKE(job->arena, stack, layers + 2);
    for (uint32_t slots = 1; slots <= CRN_MAX(layers, 1); slots++) {
        steps.length = 0;
        CRN_TRY(lay_out(job->arena, layers, slots, stack, &steps));
        CRN_TRY(crn_chain_offer(&choice, &steps));
    }
    return CAIRN_OK;
}
