/* offload_read.c: reads offloading cases from JSON. Errors name the place of the wrong value.
 *
 *     {"L": 1, "x": [4, 5, 2], "y": [6, 3, 1], "exF": [0, 0], "exB": [0, 5],
 *      "uF": [0, 1], "uB": [6, 5], "beta": 1, "M_gpu": 19}
 *
 * or an array of such objects, or {"cases": [...]}. The result fields of the published examples are
 * ignored; other unknown fields are errors. */
#include "solve/case_file.h"
#include "solve/offload/crn_offload.h"

typedef struct offload_case {
    cairn_offload_problem problem;
    const char *id;
} offload_case;

struct cairn_offload_cases {
    crn_cases all; /* items: offload_case */
};

#define LARGEST_L 100000
#define LARGEST_MEMORY ((int64_t)1 << 62)

static const char *const known_fields[] = {
    /* input */
    "L", "x", "y", "exF", "exB", "uF", "uB", "beta", "M_gpu",
    /* of the published examples */
    "id", "kind", "M_peak", "min_memory", "compute_x_beta", "lower_bound_x_beta", "feasible",
    "fractional_opt_x_beta", "greedy_set", "greedy_p1_x_beta", "greedy_p2_x_beta", "p2_opt_x_beta",
    "p2_opt_set", "p2_num_opt_sets", "p1_ordered_opt_x_beta", "p1_ordered_opt_set",
    "p1_num_opt_sets", "dynprog_p1_best_x_beta", "dynprog_p1_worst_x_beta", "vdnn_p1_x_beta",
    "vdnn_set", "p1_true_opt_x_beta", "brute_force_done", NULL};

static cairn_status read_array(crn_arena *arena, const crn_json *object, const char *key,
                               uint32_t length, const uint64_t **out, cairn_error *err) {
    crn_json array = crn_json_member(object, key);
    size_t count;
    uint64_t *values;
    CRN_TRY(crn_json_array(&array, &count, err));
    if (count != length)
        return crn_json_fail(&array, err, CAIRN_EINVAL, "has %zu values, but L requires %u", count,
                             length);
    CRN_TAKE(arena, values, length);
    for (uint32_t i = 0; i < length; i++) {
        crn_json element = crn_json_element(&array, i);
        int64_t value;
        CRN_TRY(crn_json_integer(&element, 0, CRN_OFFLOAD_LARGEST - 1, &value, err));
        values[i] = (uint64_t)value;
    }
    *out = values;
    return CAIRN_OK;
}

static cairn_status read_number(const crn_json *object, const char *key, int64_t low, int64_t high,
                                int64_t *out, cairn_error *err) {
    crn_json member = crn_json_member(object, key);
    return crn_json_integer(&member, low, high, out, err);
}

static cairn_status read_case(crn_arena *arena, const crn_json *at, void *item, cairn_error *err) {
    offload_case *to = item;
    cairn_offload_problem *out = &to->problem;
    int64_t last, bandwidth, memory;
    CRN_TRY(crn_json_object(at, err));
    CRN_TRY(crn_json_only(at, known_fields, err));
    CRN_TRY(read_number(at, "L", 0, LARGEST_L, &last, err));
    CRN_TRY(read_number(at, "beta", 1, CRN_OFFLOAD_LARGEST - 1, &bandwidth, err));
    CRN_TRY(read_number(at, "M_gpu", 0, LARGEST_MEMORY, &memory, err));
    uint32_t n = (uint32_t)last + 1;
    out->layers = n;
    out->bandwidth = (uint64_t)bandwidth;
    out->memory = (uint64_t)memory;
    CRN_TRY(read_array(arena, at, "x", n + 1, &out->activations, err));
    CRN_TRY(read_array(arena, at, "y", n + 1, &out->gradients, err));
    CRN_TRY(read_array(arena, at, "exF", n, &out->forward_extra, err));
    CRN_TRY(read_array(arena, at, "exB", n, &out->backward_extra, err));
    CRN_TRY(read_array(arena, at, "uF", n, &out->forward_time, err));
    CRN_TRY(read_array(arena, at, "uB", n, &out->backward_time, err));
    cairn_error wrong = {0};
    cairn_status status = crn_offload_check(out, &wrong);
    if (status != CAIRN_OK)
        return crn_json_fail(at, err, status, "%s", wrong.message);
    crn_json name = crn_json_member(at, "id");
    const char *text = "";
    if (crn_json_is_string(&name))
        CRN_TRY(crn_json_string(&name, &text, err));
    to->id = crn_arena_string(arena, text);
    return to->id != NULL ? CAIRN_OK : CAIRN_ENOMEM;
}

cairn_status cairn_offload_cases_read(const cairn_allocator *allocator, const char *text,
                                      size_t length, const char *file, cairn_offload_cases **out,
                                      cairn_error *err) {
    crn_cases *all;
    cairn_status status =
        crn_cases_read(allocator, text, length, file, sizeof(offload_case), read_case, &all, err);
    *out = (cairn_offload_cases *)all;
    return status;
}

void cairn_offload_cases_destroy(cairn_offload_cases *cases) {
    crn_cases_destroy((crn_cases *)cases);
}

uint32_t cairn_offload_cases_count(const cairn_offload_cases *cases) {
    return cases->all.count;
}

const cairn_offload_problem *cairn_offload_cases_get(const cairn_offload_cases *cases,
                                                     uint32_t index) {
    const offload_case *found = crn_cases_get(&cases->all, index);
    return found != NULL ? &found->problem : NULL;
}

const char *cairn_offload_cases_id(const cairn_offload_cases *cases, uint32_t index) {
    const offload_case *found = crn_cases_get(&cases->all, index);
    return found != NULL ? found->id : NULL;
}
