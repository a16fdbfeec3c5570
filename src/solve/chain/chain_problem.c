/* chain_problem.c: reading and checking problems on abstract chains. */
#include "cairn/papers/chain.h"
#include "solve/case_file.h"
#include "solve/chain/chain_solve.h"

#include <stdio.h>

/* ---- Checking ---- */

/* Messages name a value the way the problem does: "alpha_f[3]". */
static cairn_status fail_entry(cairn_error *err, cairn_status status, const char *array,
                               uint32_t layer, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "%s[%u]", array, layer);
    return crn_fail_at(err, status, name, "layer %u: %s %s", layer, name, what);
}

static cairn_status check_costs(const int64_t *costs, uint32_t first, uint32_t last,
                                const char *array, int64_t limit, int64_t *sum, cairn_error *err) {
    for (uint32_t l = first; l <= last; l++) {
        if (costs[l] < 0)
            return fail_entry(err, CAIRN_EINVAL, array, l, "is negative");
        if (costs[l] > limit - *sum)
            return fail_entry(err, CAIRN_EOVERFLOW, array, l,
                              "is so large that the cost of a schedule could overflow");
        *sum += costs[l];
    }
    return CAIRN_OK;
}

static cairn_status check_sizes(const uint64_t *sizes, uint32_t last, const char *array,
                                uint64_t *sum, cairn_error *err) {
    for (uint32_t l = 0; l <= last; l++) {
        if (sizes[l] > CRN_CHAIN_LIMIT - *sum)
            return fail_entry(err, CAIRN_EOVERFLOW, array, l,
                              "is so large that the memory of all tensors overflows");
        *sum += sizes[l];
    }
    return CAIRN_OK;
}

/* The sums are limited so that a piece of the chain, which counts some sizes up to five times,
 * stays below the limits of piece_chain.h. */
cairn_status cairn_chain_check(const cairn_chain_problem *problem, cairn_error *err) {
    uint32_t n = problem->layers;
    if (n > CAIRN_CHAIN_MOST_LAYERS)
        return crn_fail(err, CAIRN_EINVAL, "the chain has %u layers; at most %u are possible", n,
                        CAIRN_CHAIN_MOST_LAYERS);
    int64_t cost = 0, limit = CRN_CHAIN_LIMIT / 8 / (n + 2);
    uint64_t size = (uint64_t)CRN_CHAIN_LIMIT / 8 * 7;
    CRN_TRY(check_costs(problem->forward_costs, 1, n, "alpha_f", limit, &cost, err));
    CRN_TRY(check_costs(problem->backward_costs, 0, n, "alpha_b", limit, &cost, err));
    CRN_TRY(check_sizes(problem->forward_sizes, n, "beta_f", &size, err));
    return check_sizes(problem->backward_sizes, n + 1, "beta_b", &size, err);
}

/* ---- Reading ---- */

struct cairn_chain_cases {
    crn_cases all; /* items: cairn_chain_problem */
};

/* Read an array of exactly `count` integers that are not negative. */
static cairn_status read_numbers(const crn_json *object, const char *key, uint32_t count,
                                 crn_arena *arena, int64_t **out, cairn_error *err) {
    crn_json array = crn_json_member(object, key);
    size_t length;
    CRN_TRY(crn_json_array(&array, &length, err));
    if (length != count)
        return crn_json_fail(&array, err, CAIRN_EINVAL,
                             "has %zu entries; a chain of %u layers needs %u (%s %u)", length,
                             (unsigned)(count - (key[strlen(key) - 1] == 'b' ? 2 : 1)), count,
                             length < count ? "the first one missing is that of layer"
                                            : "the first one too many is that of layer",
                             (unsigned)CRN_MIN(length, count));
    CRN_TAKE(arena, *out, count);
    for (uint32_t l = 0; l < count; l++) {
        crn_json entry = crn_json_element(&array, l);
        CRN_TRY(crn_json_integer(&entry, INT64_MIN, INT64_MAX, &(*out)[l], err));
        if ((*out)[l] < 0)
            return crn_json_fail(&entry, err, CAIRN_EINVAL,
                                 "is %lld at layer %u; it must not be negative",
                                 (long long)(*out)[l], l);
    }
    return CAIRN_OK;
}

static cairn_status read_case(crn_arena *arena, const crn_json *at, void *item, cairn_error *err) {
    cairn_chain_problem *out = item;
    CRN_TRY(crn_json_object(at, err));
    crn_json layers = crn_json_member(at, "N"), budget = crn_json_member(at, "budget");
    int64_t n, limit, *costs[2], *sizes[2];
    CRN_TRY(crn_json_integer(&layers, 0, CAIRN_CHAIN_MOST_LAYERS, &n, err));
    uint32_t count = (uint32_t)n + 1;
    CRN_TRY(read_numbers(at, "alpha_f", count, arena, &costs[0], err));
    CRN_TRY(read_numbers(at, "alpha_b", count + 1, arena, &costs[1], err));
    CRN_TRY(read_numbers(at, "beta_f", count, arena, &sizes[0], err));
    CRN_TRY(read_numbers(at, "beta_b", count + 1, arena, &sizes[1], err));
    CRN_TRY(crn_json_integer(&budget, 0, INT64_MAX, &limit, err));
    *out = (cairn_chain_problem){
        (uint32_t)n,    costs[0], costs[1], (const uint64_t *)sizes[0], (const uint64_t *)sizes[1],
        (uint64_t)limit};
    cairn_error inner = {0};
    cairn_status status = cairn_chain_check(out, &inner);
    return status == CAIRN_OK ? CAIRN_OK : crn_json_fail(at, err, status, "%s", inner.message);
}

cairn_status cairn_chain_cases_read(const cairn_allocator *allocator, const char *text,
                                    size_t length, const char *file, cairn_chain_cases **out,
                                    cairn_error *err) {
    crn_cases *all;
    cairn_status status = crn_cases_read(allocator, text, length, file, sizeof(cairn_chain_problem),
                                         read_case, &all, err);
    *out = (cairn_chain_cases *)all;
    return status;
}

void cairn_chain_cases_destroy(cairn_chain_cases *cases) {
    crn_cases_destroy((crn_cases *)cases);
}

uint32_t cairn_chain_cases_count(const cairn_chain_cases *cases) {
    return cases->all.count;
}

const cairn_chain_problem *cairn_chain_cases_get(const cairn_chain_cases *cases, uint32_t index) {
    return crn_cases_get(&cases->all, index);
}
