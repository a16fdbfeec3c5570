/* dnnl_v3.c: dnnl_interface.h with oneDNN 3. Layouts are objects, and each kind of op has a
 * function that makes its primitive descriptor. */
#include "backend/cpu/dnnl_interface.h"

/* ---- Layouts ---- */

bool crn_dnnl_layout_by_tag(crn_layout *out, int rank, const dnnl_dims_t dims,
                            dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(&out->of, rank, dims, type, tag) == dnnl_success;
}

bool crn_dnnl_layout_by_strides(crn_layout *out, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(&out->of, rank, dims, type, strides) ==
           dnnl_success;
}

bool crn_dnnl_layout_of(crn_layout *out, dnnl_primitive_desc_t primitive, dnnl_query_t query) {
    const_dnnl_memory_desc_t found = dnnl_primitive_desc_query_md(primitive, query, 0);
    return found != NULL && dnnl_memory_desc_clone(&out->of, found) == dnnl_success;
}

void crn_dnnl_layout_destroy(crn_layout *layout) {
    dnnl_memory_desc_destroy(layout->of);
}

bool crn_dnnl_layout_equal(const crn_layout *a, const crn_layout *b) {
    return dnnl_memory_desc_equal(a->of, b->of) != 0;
}

size_t crn_dnnl_layout_bytes(const crn_layout *layout) {
    return dnnl_memory_desc_get_size(layout->of);
}

bool crn_dnnl_memory_create(dnnl_memory_t *out, const crn_layout *layout, dnnl_engine_t engine,
                            void *address) {
    return dnnl_memory_create(out, layout->of, engine, address) == dnnl_success;
}

/* ---- Primitives ---- */

static const_dnnl_memory_desc_t bias_of(const crn_dnnl_operands *operands) {
    return operands->bias != NULL ? operands->bias->of : NULL;
}

/* oneDNN has the same functions for convolutions and for transposed ones, which it calls
 * deconvolutions. */
#define DEFINE_CREATE(kind)                                                                        \
    static dnnl_status_t create_##kind(dnnl_primitive_desc_t *out, const crn_dnnl_setting *s,      \
                                       crn_dnnl_pass pass, const crn_dnnl_operands *o,             \
                                       const crn_dnnl_window *w) {                                 \
        const_dnnl_memory_desc_t src = o->source->of, weights = o->weights->of,                    \
                                 dst = o->result->of;                                              \
        switch (pass) {                                                                            \
        case CRN_PASS_FORWARD:                                                                     \
            return dnnl_##kind##_forward_primitive_desc_create(                                    \
                out, s->engine, dnnl_forward_training, dnnl_##kind##_direct, src, weights,         \
                bias_of(o), dst, w->strides, w->dilates, w->pad_before, w->pad_after,              \
                s->attributes);                                                                    \
        case CRN_PASS_WEIGHTS:                                                                     \
            return dnnl_##kind##_backward_weights_primitive_desc_create(                           \
                out, s->engine, dnnl_##kind##_direct, src, weights, bias_of(o), dst, w->strides,   \
                w->dilates, w->pad_before, w->pad_after, s->forward, s->attributes);               \
        default:                                                                                   \
            return dnnl_##kind##_backward_data_primitive_desc_create(                              \
                out, s->engine, dnnl_##kind##_direct, src, weights, dst, w->strides, w->dilates,   \
                w->pad_before, w->pad_after, s->forward, s->attributes);                           \
        }                                                                                          \
    }

DEFINE_CREATE(convolution)
DEFINE_CREATE(deconvolution)

bool crn_dnnl_convolution(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                          crn_dnnl_pass pass, const crn_dnnl_operands *operands,
                          const crn_dnnl_window *window) {
    return (window->transposed ? create_deconvolution : create_convolution)(
               out, setting, pass, operands, window) == dnnl_success;
}

bool crn_dnnl_linear(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                     crn_dnnl_pass pass, const crn_dnnl_operands *operands) {
    const crn_dnnl_setting *s = setting;
    const_dnnl_memory_desc_t src = operands->source->of, weights = operands->weights->of,
                             dst = operands->result->of;
    switch (pass) {
    case CRN_PASS_FORWARD:
        return dnnl_inner_product_forward_primitive_desc_create(
                   out, s->engine, dnnl_forward_training, src, weights, bias_of(operands), dst,
                   s->attributes) == dnnl_success;
    case CRN_PASS_WEIGHTS:
        return dnnl_inner_product_backward_weights_primitive_desc_create(
                   out, s->engine, src, weights, bias_of(operands), dst, s->forward,
                   s->attributes) == dnnl_success;
    default:
        return dnnl_inner_product_backward_data_primitive_desc_create(
                   out, s->engine, src, weights, dst, s->forward, s->attributes) == dnnl_success;
    }
}

/* Attributes that add to the result. */
static bool create_adding(dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t ops;
    if (dnnl_primitive_attr_create(out) != dnnl_success)
        return false;
    bool made = dnnl_post_ops_create(&ops) == dnnl_success;
    if (made) {
        made = dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef) == dnnl_success &&
               dnnl_primitive_attr_set_post_ops(*out, ops) == dnnl_success;
        dnnl_post_ops_destroy(ops);
    }
    if (!made)
        dnnl_primitive_attr_destroy(*out);
    return made;
}

bool crn_dnnl_product(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const crn_layout *a,
                      const crn_layout *b, const crn_layout *c, bool add) {
    dnnl_primitive_attr_t attributes = NULL;
    if (add && !create_adding(&attributes))
        return false;
    bool made = dnnl_matmul_primitive_desc_create(out, engine, a->of, b->of, NULL, c->of,
                                                  attributes) == dnnl_success;
    if (add)
        dnnl_primitive_attr_destroy(attributes);
    return made;
}

bool crn_dnnl_reorder(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                      const crn_layout *from, const crn_layout *to) {
    return dnnl_reorder_primitive_desc_create(out, from->of, setting->engine, to->of,
                                              setting->engine, setting->attributes) == dnnl_success;
}
