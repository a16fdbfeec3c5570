/* cpu_linear.c: linear layers by oneDNN. Weights stay plain: they are read once a pass, and turning
 * them into another layout would cost more than the product. */
#include "backend/cpu/recipe.h"

typedef struct linear {
    dnnl_memory_desc_t x, weight, bias, y; /* [N, F], [O, F], [O], [N, O] */
} linear;

static bool describe(const crn_site *site, cairn_id weight, uint32_t batch, linear *out) {
    const uint32_t *w = cairn_graph_tensor(site->graph, weight)->shape;
    const uint32_t x[] = {batch, w[1]}, y[] = {batch, w[0]};
    return crn_layout_plain(x, 2, &out->x) && crn_layout_plain(w, 2, &out->weight) &&
           crn_layout_plain(w, 1, &out->bias) && crn_layout_plain(y, 2, &out->y);
}

static uint32_t batch_of(const crn_site *site) {
    return cairn_graph_tensor(site->graph, site->op->inputs[0])->shape[0];
}

static bool make(crn_recipe *r, const void *description, dnnl_primitive_desc_t forward,
                 dnnl_primitive_desc_t *out) {
    bool made = dnnl_primitive_desc_create(out, description, crn_recipe_attributes(),
                                           crn_recipe_engine(), forward) == dnnl_success;
    r->failed |= !made;
    return made;
}

static bool make_forward(crn_recipe *r, const linear *l, bool bias, dnnl_primitive_desc_t *out) {
    dnnl_inner_product_desc_t description;
    if (dnnl_inner_product_forward_desc_init(&description, dnnl_forward_training, &l->x, &l->weight,
                                             bias ? &l->bias : NULL, &l->y) != dnnl_success) {
        r->failed = true;
        return false;
    }
    return make(r, &description, NULL, out);
}

/* x [N, F] -> y [N, O] = x W' + b */
void crn_build_linear(crn_recipe *r) {
    const cairn_op *op = r->site->op;
    bool bias = op->param_count > 1;
    linear l;
    dnnl_primitive_desc_t what;
    r->failed = !describe(r->site, op->params[0], batch_of(r->site), &l);
    if (r->failed || !make_forward(r, &l, bias, &what))
        return;
    crn_recipe_argument arguments[CRN_RECIPE_ARGUMENTS] = {
        {DNNL_ARG_SRC, crn_recipe_operand(r, CRN_INPUT_BUFFER, 0, &l.x)},
        {DNNL_ARG_WEIGHTS, crn_recipe_operand(r, CRN_PARAM_BUFFER, 0, &l.weight)},
        {DNNL_ARG_DST, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, &l.y)}};
    if (bias)
        arguments[3] = (crn_recipe_argument){DNNL_ARG_BIAS,
                                             crn_recipe_operand(r, CRN_PARAM_BUFFER, 1, &l.bias)};
    crn_recipe_add(r, what, arguments, bias ? 4 : 3);
}

/* x [N, F], gy [N, O] -> gradients of weight [O, F] = gy' x and bias [O] */
void crn_build_linear_bwd_weight(crn_recipe *r) {
    const cairn_op *op = r->site->op;
    bool bias = op->output_count > 1 && op->outputs[1] != CAIRN_NONE;
    linear l;
    dnnl_primitive_desc_t forward, what;
    dnnl_inner_product_desc_t description;
    r->failed = !describe(r->site, op->outputs[0], batch_of(r->site), &l);
    if (r->failed || !make_forward(r, &l, bias, &forward))
        return;
    r->failed = dnnl_inner_product_backward_weights_desc_init(
                    &description, &l.x, &l.weight, bias ? &l.bias : NULL, &l.y) != dnnl_success;
    bool made = !r->failed && make(r, &description, forward, &what);
    dnnl_primitive_desc_destroy(forward);
    if (!made)
        return;
    crn_recipe_argument arguments[CRN_RECIPE_ARGUMENTS] = {
        {DNNL_ARG_SRC, crn_recipe_operand(r, CRN_INPUT_BUFFER, 0, &l.x)},
        {DNNL_ARG_DIFF_DST, crn_recipe_operand(r, CRN_INPUT_BUFFER, 1, &l.y)},
        {DNNL_ARG_DIFF_WEIGHTS, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, &l.weight)}};
    if (bias)
        arguments[3] = (crn_recipe_argument){DNNL_ARG_DIFF_BIAS,
                                             crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 1, &l.bias)};
    crn_recipe_add(r, what, arguments, bias ? 4 : 3);
}

/* gy [N, O] -> gx [N, F] = gy W */
void crn_build_linear_bwd_data(crn_recipe *r) {
    linear l;
    dnnl_primitive_desc_t forward, what;
    dnnl_inner_product_desc_t description;
    r->failed = !describe(r->site, r->site->op->params[0], batch_of(r->site), &l);
    if (r->failed || !make_forward(r, &l, false, &forward))
        return;
    r->failed = dnnl_inner_product_backward_data_desc_init(&description, &l.x, &l.weight, &l.y) !=
                dnnl_success;
    bool made = !r->failed && make(r, &description, forward, &what);
    dnnl_primitive_desc_destroy(forward);
    if (!made)
        return;
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_DIFF_DST, crn_recipe_operand(r, CRN_INPUT_BUFFER, 0, &l.y)},
        {DNNL_ARG_WEIGHTS, crn_recipe_operand(r, CRN_PARAM_BUFFER, 0, &l.weight)},
        {DNNL_ARG_DIFF_SRC, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, &l.x)}};
    crn_recipe_add(r, what, arguments, CRN_LENGTH(arguments));
}
