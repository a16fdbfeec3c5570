/* chain_gruslys.c: the dynamic programme for equal costs (Gruslys, Munos, Danihelka, Lanctot,
 * Graves 2016, hidden states memorised).
 *
 *     D(t,1) = t(t-1)/2          D(1,m) = 0
 *     D(t,m) = min over 0 < y < t of  y + D(t-y, m-1) + D(y, m)
 *
 * D(t,m) is the cost of t backwards with m slots; y is the place where the next state is kept.
 * D(.,m) is convex, so the sum is unimodal in y and the best y never decreases as t grows: O(N) per
 * m. The algorithm does not use sizes. The schedule of each m is simulated with the sizes of the
 * chain, and the cheapest one that fits is taken. */
#include "solve/chain/chain_solve.h"

typedef struct plan {
    uint32_t length;   /* N + 1 backwards */
    uint64_t *fewer;   /* D(., m-1) */
    uint64_t *current; /* D(., m) */
    uint16_t *split;   /* [m * (length + 1) + t]: the best y */
} plan;

static void fill_first_row(plan *p) {
    for (uint32_t t = 1; t <= p->length; t++) {
        p->current[t] = (uint64_t)t * (t - 1) / 2;
        p->split[(size_t)(p->length + 1) + t] = (uint16_t)(t - 1);
    }
}

static void fill_row(plan *p, uint32_t m) {
    uint64_t *previous = p->fewer;
    p->fewer = p->current;
    p->current = previous;
    p->current[1] = 0;
    uint32_t y = 1;
    for (uint32_t t = 2; t <= p->length; t++) {
        uint64_t best = y + p->fewer[t - y] + p->current[y];
        while (y + 1 < t && y + 1 + p->fewer[t - y - 1] + p->current[y + 1] <= best) {
            y++;
            best = y + p->fewer[t - y] + p->current[y];
        }
        p->current[t] = best;
        p->split[(size_t)m * (p->length + 1) + t] = (uint16_t)y;
    }
}

typedef struct range {
    uint32_t first, length, slots;
} range;

static cairn_status lay_out(const plan *p, crn_arena *arena, uint32_t slots, range *stack,
                            crn_chain_steps *steps) {
    uint32_t height = 0;
    stack[height++] = (range){0, p->length, slots};
    while (height > 0) {
        range at = stack[--height];
        if (at.length == 1) {
            CRN_TRY(crn_chain_push(arena, steps, CAIRN_CHAIN_STEP_BACKWARD, at.first));
            continue;
        }
        uint32_t y = p->split[(size_t)at.slots * (p->length + 1) + at.length];
        CRN_TRY(crn_chain_sweep(arena, steps, at.first, at.first + y));
        stack[height++] = (range){at.first, y, at.slots};
        stack[height++] = (range){at.first + y, at.length - y, at.slots - 1};
    }
    return CAIRN_OK;
}

cairn_status crn_chain_gruslys(crn_chain_job *job, crn_chain_answer *answer) {
    uint32_t most = CRN_MAX(job->problem->layers, 1);
    plan p = {.length = job->problem->layers + 1};
    crn_chain_choice choice;
    crn_chain_steps steps = {0};
    range *stack;
    crn_chain_choice_init(&choice, job, answer);
    CRN_TAKE(job->arena, stack, p.length + 1);
    CRN_TAKE(job->arena, p.fewer, p.length + 1);
    CRN_TAKE(job->arena, p.current, p.length + 1);
    CRN_TAKE(job->arena, p.split, (size_t)(most + 1) * (p.length + 1));
    fill_first_row(&p);
    for (uint32_t m = 1; m <= most; m++) {
        if (m > 1)
            fill_row(&p, m);
        steps.length = 0;
        CRN_TRY(lay_out(&p, job->arena, m, stack, &steps));
        CRN_TRY(crn_chain_offer(&choice, &steps));
    }
    return CAIRN_OK;
}
