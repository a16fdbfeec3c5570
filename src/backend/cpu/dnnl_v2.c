/* dnnl_v2.c: dnnl_interface.h with oneDNN 2.6 or a later 2.x. An op is described in a structure of
 * its kind; dnnl_primitive_desc_create() makes a primitive descriptor of any of them. */
#include "backend/cpu/dnnl_interface.h"

/* ---- Layouts ---- */

bool crn_dnnl_layout_by_tag(crn_layout *out, int rank, const dnnl_dims_t dims,
                            dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(&out->of, rank, dims, type, tag) == dnnl_success;
}

bool crn_dnnl_layout_by_strides(crn_layout *out, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(&out->of, rank, dims, type, strides) == dnnl_success;
}

bool crn_dnnl_layout_of(crn_layout *out, dnnl_primitive_desc_t primitive, dnnl_query_t query) {
    const dnnl_memory_desc_t *found = dnnl_primitive_desc_query_md(primitive, query, 0);
    if (found != NULL)
        out->of = *found;
    return found != NULL;
}

void crn_dnnl_layout_destroy(crn_layout *layout) {
    (void)layout;
}

bool crn_dnnl_layout_equal(const crn_layout *a, const crn_layout *b) {
    return dnnl_memory_desc_equal(&a->of, &b->of) != 0;
}

size_t crn_dnnl_layout_bytes(const crn_layout *layout) {
    return dnnl_memory_desc_get_size(&layout->of);
}

bool crn_dnnl_memory_create(dnnl_memory_t *out, const crn_layout *layout, dnnl_engine_t engine,
                            void *address) {
    return dnnl_memory_create(out, &layout->of, engine, address) == dnnl_success;
}

/* ---- Primitives ---- */

static bool create(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                   dnnl_status_t described, const void *description) {
    return described == dnnl_success &&
           dnnl_primitive_desc_create(out, description, setting->attributes, setting->engine,
                                      setting->forward) == dnnl_success;
}

static const dnnl_memory_desc_t *bias_of(const crn_dnnl_operands *operands) {
    return operands->bias != NULL ? &operands->bias->of : NULL;
}

/* A convolution and a transposed one are described by the same structure, each by its own
 * functions. */
static const struct functions {
    dnnl_alg_kind_t algorithm;
    dnnl_status_t (*forward)(dnnl_convolution_desc_t *out, dnnl_prop_kind_t kind,
                             dnnl_alg_kind_t algorithm, const dnnl_memory_desc_t *source,
                             const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *bias,
                             const dnnl_memory_desc_t *result, const dnnl_dims_t strides,
                             const dnnl_dims_t dilates, const dnnl_dims_t before,
                             const dnnl_dims_t after);
    dnnl_status_t (*weights)(dnnl_convolution_desc_t *out, dnnl_alg_kind_t algorithm,
                             const dnnl_memory_desc_t *source, const dnnl_memory_desc_t *weights,
                             const dnnl_memory_desc_t *bias, const dnnl_memory_desc_t *result,
                             const dnnl_dims_t strides, const dnnl_dims_t dilates,
                             const dnnl_dims_t before, const dnnl_dims_t after);
    dnnl_status_t (*data)(dnnl_convolution_desc_t *out, dnnl_alg_kind_t algorithm,
                          const dnnl_memory_desc_t *source, const dnnl_memory_desc_t *weights,
                          const dnnl_memory_desc_t *result, const dnnl_dims_t strides,
                          const dnnl_dims_t dilates, const dnnl_dims_t before,
                          const dnnl_dims_t after);
} plain = {dnnl_convolution_direct, dnnl_dilated_convolution_forward_desc_init,
           dnnl_dilated_convolution_backward_weights_desc_init,
           dnnl_dilated_convolution_backward_data_desc_init},
  transposed = {dnnl_deconvolution_direct, dnnl_dilated_deconvolution_forward_desc_init,
                dnnl_dilated_deconvolution_backward_weights_desc_init,
                dnnl_dilated_deconvolution_backward_data_desc_init};

static dnnl_status_t describe_convolution(dnnl_convolution_desc_t *out, crn_dnnl_pass pass,
                                          const crn_dnnl_operands *o, const crn_dnnl_window *w) {
    const struct functions *by = w->transposed ? &transposed : &plain;
    const dnnl_memory_desc_t *src = &o->source->of, *weights = &o->weights->of,
                             *dst = &o->result->of;
    switch (pass) {
    case CRN_PASS_FORWARD:
        return by->forward(out, dnnl_forward_training, by->algorithm, src, weights, bias_of(o), dst,
                           w->strides, w->dilates, w->pad_before, w->pad_after);
    case CRN_PASS_WEIGHTS:
        return by->weights(out, by->algorithm, src, weights, bias_of(o), dst, w->strides,
                           w->dilates, w->pad_before, w->pad_after);
    default:
        return by->data(out, by->algorithm, src, weights, dst, w->strides, w->dilates,
                        w->pad_before, w->pad_after);
    }
}

bool crn_dnnl_convolution(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                          crn_dnnl_pass pass, const crn_dnnl_operands *operands,
                          const crn_dnnl_window *window) {
    dnnl_convolution_desc_t description;
    return create(out, setting, describe_convolution(&description, pass, operands, window),
                  &description);
}

static dnnl_status_t describe_linear(dnnl_inner_product_desc_t *out, crn_dnnl_pass pass,
                                     const crn_dnnl_operands *o) {
    const dnnl_memory_desc_t *src = &o->source->of, *weights = &o->weights->of,
                             *dst = &o->result->of;
    switch (pass) {
    case CRN_PASS_FORWARD:
        return dnnl_inner_product_forward_desc_init(out, dnnl_forward_training, src, weights,
                                                    bias_of(o), dst);
    case CRN_PASS_WEIGHTS:
        return dnnl_inner_product_backward_weights_desc_init(out, src, weights, bias_of(o), dst);
    default:
        return dnnl_inner_product_backward_data_desc_init(out, src, weights, dst);
    }
}

bool crn_dnnl_linear(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                     crn_dnnl_pass pass, const crn_dnnl_operands *operands) {
    dnnl_inner_product_desc_t description;
    return create(out, setting, describe_linear(&description, pass, operands), &description);
}

/* Attributes that add to the result. */
static bool create_adding(dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t ops;
    if (dnnl_primitive_attr_create(out) != dnnl_success)
        return false;
    bool made = dnnl_post_ops_create(&ops) == dnnl_success;
    if (made) {
        made = dnnl_post_ops_append_sum(ops, 1) == dnnl_success &&
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
    dnnl_matmul_desc_t description;
    if (dnnl_matmul_desc_init(&description, &a->of, &b->of, NULL, &c->of) != dnnl_success ||
        (add && !create_adding(&attributes)))
        return false;
    bool made =
        dnnl_primitive_desc_create(out, &description, attributes, engine, NULL) == dnnl_success;
    if (add)
        dnnl_primitive_attr_destroy(attributes);
    return made;
}

bool crn_dnnl_reorder(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                      const crn_layout *from, const crn_layout *to) {
    return dnnl_reorder_primitive_desc_create(out, &from->of, setting->engine, &to->of,
                                              setting->engine, setting->attributes) == dnnl_success;
}
