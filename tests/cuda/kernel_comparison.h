/* kernel_comparison.h: the tensors of an op in the layout of the kernels, and the comparison of
 * what a kernel writes with what `ref` writes. */
#ifndef KERNEL_COMPARISON_H
#define KERNEL_COMPARISON_H

#include "backend/rig.h"
#include "cuda/kernel_rig.h"

#define F32_TOLERANCE 3e-5 /* of the largest element */
#define BF16_TOLERANCE 2e-2

typedef struct comparison {
    rig ref;
    kernel_rig k;
} comparison;

/* ---- Tensors of the reference ---- */

static const cairn_tensor *tensor_of(const comparison *at, cairn_id id) {
    return cairn_graph_tensor(at->ref.graph, id);
}

static uint32_t dimension(const cairn_tensor *t, uint32_t i) {
    return i < t->rank ? t->shape[i] : 1;
}

static uint32_t plane_of(const cairn_tensor *t) {
    return t->rank > 2 ? (uint32_t)(fill_count(t) / t->shape[0] / t->shape[1]) : 1;
}

static kernel_image load(comparison *at, cairn_id id) {
    const cairn_tensor *t = tensor_of(at, id);
    return kernel_rig_load(&at->k, at->ref.place[id], t->shape[0], dimension(t, 1), plane_of(t));
}

static kernel_image make(comparison *at, cairn_id id) {
    const cairn_tensor *t = tensor_of(at, id);
    return kernel_rig_image(&at->k, t->shape[0], dimension(t, 1), plane_of(t));
}

static void *floats(comparison *at, cairn_id id) {
    return kernel_rig_copy(&at->k, at->ref.place[id], fill_count(tensor_of(at, id)) * 4);
}

/* A plain tensor with the elements under test. */
static void *plain(comparison *at, cairn_id id) {
    uint64_t count = fill_count(tensor_of(at, id));
    void *to = kernel_rig_make(&at->k, count * kernel_rig_element(&at->k));
    crn_convert_args args = {
        .to_element = at->k.element, .count = count, .from = at->ref.place[id], .to = to};
    kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
    return to;
}

static void *empty(comparison *at, cairn_id id, size_t element) {
    return kernel_rig_make(&at->k, fill_count(tensor_of(at, id)) * element);
}

static double tolerance_of(const comparison *at, bool exact) {
    return at->k.element == CRN_ELEMENT_BF16 ? BF16_TOLERANCE : exact ? 0 : F32_TOLERANCE;
}

static void compare_floats(comparison *at, const float *got, cairn_id id, double tolerance) {
    const cairn_tensor *t = tensor_of(at, id);
    CHECK(kernel_rig_equal(got, at->ref.place[id], fill_count(t), tolerance, t->name));
}

static void compare_image(comparison *at, kernel_image image, cairn_id id, bool exact) {
    float *got = malloc(fill_count(tensor_of(at, id)) * sizeof *got);
    kernel_rig_unload(&at->k, image, got);
    compare_floats(at, got, id, tolerance_of(at, exact));
    free(got);
}

static void compare_plain(comparison *at, const void *values, cairn_id id, bool exact) {
    uint64_t count = fill_count(tensor_of(at, id));
    float *got = malloc(count * sizeof *got);
    crn_convert_args args = {
        .from_element = at->k.element, .count = count, .from = values, .to = got};
    kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
    compare_floats(at, got, id, tolerance_of(at, exact));
    free(got);
}

static bool wanted(const cairn_op *op, uint32_t output) {
    return output < op->output_count && op->outputs[output] != CAIRN_NONE;
}

#endif
