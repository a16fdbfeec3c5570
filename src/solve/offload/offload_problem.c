/* offload_problem.c: checks a case, computes the memory that it needs, and converts it into a chain
 * of integers for the algorithms.
 *
 * Invariant: after crn_offload_check() every sum of sizes and every sum of times * bandwidth is
 * below CRN_OFFLOAD_LARGEST, so int64_t arithmetic cannot overflow afterwards. Everything is
 * O(layers). */
#include "solve/offload/crn_offload.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Checking ---- */

static bool sum_fits(const uint64_t *values, uint32_t count, uint64_t *sum) {
    for (uint32_t i = 0; i < count; i++)
        if (!crn_add_u64(*sum, values[i], sum))
            return false;
    return *sum < (uint64_t)CRN_OFFLOAD_LARGEST;
}

cairn_status crn_offload_check(const cairn_offload_problem *p, cairn_error *err) {
    uint64_t sizes = 0, times = 0;
    if (p->layers == 0)
        return crn_fail(err, CAIRN_EINVAL, "a chain has at least one layer");
    if (p->bandwidth == 0)
        return crn_fail(err, CAIRN_EINVAL,
                        "the bandwidth beta is 0; it must be at least 1 size unit per time unit");
    if (!sum_fits(p->activations, p->layers + 1, &sizes) ||
        !sum_fits(p->gradients, p->layers + 1, &sizes) ||
        !sum_fits(p->forward_extra, p->layers, &sizes) ||
        !sum_fits(p->backward_extra, p->layers, &sizes))
        return crn_fail(err, CAIRN_EOVERFLOW,
                        "the sizes add up to 2^58 or more; use a larger unit of memory");
    if (!sum_fits(p->forward_time, p->layers, &times) ||
        !sum_fits(p->backward_time, p->layers, &times) ||
        !crn_mul_u64(times, p->bandwidth, &times) || times >= (uint64_t)CRN_OFFLOAD_LARGEST)
        return crn_fail(err, CAIRN_EOVERFLOW,
                        "the times multiplied by the bandwidth %" PRIu64
                        " add up to 2^58 or more; use larger units",
                        p->bandwidth);
    return CAIRN_OK;
}

/* ---- Memory ---- */

/* The memory that op i of a phase holds beside x_0 .. x_{i+1}. */
static uint64_t forward_own(const cairn_offload_problem *p, uint32_t i) {
    return p->forward_extra[i];
}

static uint64_t backward_own(const cairn_offload_problem *p, uint32_t i) {
    return p->backward_extra[i] + p->gradients[i] + p->gradients[i + 1];
}

static void consider_op(char phase, uint32_t i, uint64_t own, uint64_t before, uint64_t all,
                        cairn_offload_bounds *out) {
    out->peak_memory = CRN_MAX(out->peak_memory, own + all);
    uint64_t least = own + all - before;
    if (least > out->min_memory || out->min_memory_op[0] == '\0') {
        out->min_memory = least;
        snprintf(out->min_memory_op, sizeof out->min_memory_op, "%c_%" PRIu32, phase, i);
    }
}

void crn_offload_memory_bounds(const cairn_offload_problem *p, cairn_offload_bounds *out) {
    uint64_t before = 0, times = 0; /* before: x_0 .. x_{i-1} */
    *out = (cairn_offload_bounds){0};
    for (uint32_t i = 0; i < p->layers; i++) {
        uint64_t all = before + p->activations[i] + p->activations[i + 1];
        consider_op('F', i, forward_own(p, i), before, all, out);
        consider_op('B', i, backward_own(p, i), before, all, out);
        before += p->activations[i];
        times += p->forward_time[i] + p->backward_time[i];
    }
    uint64_t excess = out->peak_memory > p->memory ? out->peak_memory - p->memory : 0;
    out->compute_x_beta = times * p->bandwidth;
    out->lower_bound_x_beta = CRN_MAX(out->compute_x_beta, 2 * excess);
    out->feasible = p->memory >= out->min_memory;
}

/* ---- The chain ---- */

cairn_status crn_offload_chain_make(crn_arena *arena, const cairn_offload_problem *p,
                                    crn_offload_chain *out) {
    uint32_t n = p->layers;
    int64_t *all; /* seven arrays of n */
    CRN_TAKE(arena, all, 7 * (size_t)n);
    int64_t *size = all, *forward = all + n, *backward = forward + n;
    int64_t *forward_need = backward + n, *backward_need = forward_need + n;
    int64_t *forward_rest = backward_need + n, *backward_rest = forward_rest + n;
    int64_t memory = (int64_t)CRN_MIN(p->memory, (uint64_t)CRN_OFFLOAD_LARGEST);
    int64_t before = 0, beta = (int64_t)p->bandwidth;
    for (uint32_t i = 0; i < n; i++) {
        size[i] = (int64_t)p->activations[i];
        forward[i] = beta * (int64_t)p->forward_time[i];
        backward[i] = beta * (int64_t)p->backward_time[i];
        forward_rest[i] = before + size[i] + (int64_t)p->activations[i + 1] - memory;
        forward_need[i] = forward_rest[i] + (int64_t)forward_own(p, i);
        backward_need[i] = forward_rest[i] + (int64_t)backward_own(p, i);
        backward_rest[i] = before + size[i] + (int64_t)p->gradients[i] - memory;
        before += size[i];
    }
    *out = (crn_offload_chain){
        n, size, forward, backward, forward_need, backward_need, forward_rest, backward_rest};
    return CAIRN_OK;
}

static int64_t need_of(const crn_offload_chain *chain, uint32_t i) {
    return CRN_MAX(chain->forward_need[i], chain->backward_need[i]);
}

void crn_offload_eager_set(const crn_offload_chain *chain, uint8_t *moved) {
    int64_t most = 0;
    for (uint32_t i = 0; i < chain->count; i++)
        most = CRN_MAX(most, need_of(chain, i));
    for (uint32_t i = 0; i < chain->count; i++) {
        moved[i] = most > 0;
        most -= chain->size[i];
    }
}

bool crn_offload_set_fits(const crn_offload_chain *chain, const uint8_t *moved) {
    int64_t away = 0;
    for (uint32_t i = 0; i < chain->count; i++) {
        if (need_of(chain, i) > away)
            return false;
        away += moved[i] ? chain->size[i] : 0;
    }
    return true;
}

/* ---- Public bounds ---- */

cairn_status crn_offload_time_bounds(crn_arena *arena, const crn_offload_chain *chain,
                                     cairn_offload_bounds *out) {
    crn_offload_chain tight;
    int64_t fractional, whole;
    CRN_TRY(crn_offload_fractional(arena, chain, &fractional));
    CRN_TRY(crn_offload_tighten(arena, chain, &tight));
    CRN_TRY(crn_offload_fractional(arena, &tight, &whole));
    out->fractional_x_beta = (uint64_t)fractional;
    out->whole_x_beta = (uint64_t)whole;
    return CAIRN_OK;
}

static cairn_status bound_in(crn_arena *arena, const cairn_offload_problem *problem,
                             cairn_offload_bounds *out) {
    crn_offload_chain chain;
    CRN_TRY(crn_offload_chain_make(arena, problem, &chain));
    return crn_offload_time_bounds(arena, &chain, out);
}

cairn_status cairn_offload_bound(const cairn_allocator *allocator,
                                 const cairn_offload_problem *problem, cairn_offload_bounds *out,
                                 cairn_error *err) {
    *out = (cairn_offload_bounds){0};
    crn_error_clear(err);
    CRN_TRY(crn_offload_check(problem, err));
    crn_offload_memory_bounds(problem, out);
    if (!out->feasible)
        return CAIRN_OK;
    crn_arena arena;
    crn_arena_init(&arena, allocator);
    cairn_status status = bound_in(&arena, problem, out);
    crn_arena_release(&arena);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
