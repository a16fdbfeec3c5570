/* cpu_linear.c: linear layers by oneDNN. In fp32 weights stay plain: they are read once a pass, and
 * reordering them would cost more than the product.
 *
 * If x or y is a sequence in bf16, the product is one of bf16, with sums in fp32. The weight is
 * rounded to bf16 in the workspace, in the layout that oneDNN chooses; so are an x or gy that are
 * fp32. The result is stored as it is; the gradients of weight and bias are fp32. */
#include "backend/cpu/cpu_reals.h"
#include "backend/cpu/recipe.h"

/* x [N, F], weight [O, F], bias [O] or NULL, y [N, O] */
typedef struct linear {
    crn_dnnl_operands stored, product; /* as they are stored, and as the product has them */
    crn_dnnl_operands hint;            /* the forward pass that a backward pass belongs to */
} linear;

static const crn_layout *describe_rows(crn_recipe *r, cairn_id tensor, uint32_t width, bool half) {
    const crn_site *site = r->site;
    const cairn_tensor *rows = cairn_graph_tensor(site->graph, site->op->inputs[0]);
    const uint32_t shape[] = {(uint32_t)crn_ref_rows(rows), width};
    half = half || crn_is_half(site->storage, tensor);
    return crn_recipe_typed(r, shape, 2, half ? dnnl_bf16 : dnnl_f32);
}

/* A pass of the layer whose x and y, or their gradients, are these tensors. */
static linear describe(crn_recipe *r, crn_dnnl_pass pass, cairn_id x, cairn_id y, cairn_id weight,
                       bool bias) {
    const crn_storage *storage = r->site->storage;
    const uint32_t *w = cairn_graph_tensor(r->site->graph, weight)->shape;
    linear l;
    l.stored = (crn_dnnl_operands){.source = describe_rows(r, x, w[1], false),
                                   .weights = crn_recipe_plain(r, w, 2),
                                   .bias = bias ? crn_recipe_plain(r, w, 1) : NULL,
                                   .result = describe_rows(r, y, w[0], false)};
    l.product = l.hint = l.stored;
    if (!crn_is_half(storage, x) && !crn_is_half(storage, y))
        return l;
    l.hint.source = describe_rows(r, x, w[1], true);
    l.hint.weights = crn_recipe_any(r, 2, (dnnl_dims_t){w[0], w[1]}, dnnl_bf16);
    l.hint.result = describe_rows(r, y, w[0], true);
    l.product.source = pass == CRN_PASS_DATA ? l.stored.source : l.hint.source;
    l.product.weights = pass == CRN_PASS_WEIGHTS ? l.stored.weights : l.hint.weights;
    l.product.result = pass == CRN_PASS_FORWARD ? l.stored.result : l.hint.result;
    return l;
}

/* Make a pass of the layer. If oneDNN has none, the recipe has failed and the result is false. */
static bool make(crn_recipe *r, crn_dnnl_pass pass, const linear *l, dnnl_primitive_desc_t *out) {
    crn_dnnl_setting setting = crn_recipe_setting(NULL);
    bool made = !r->failed;
    if (made && pass == CRN_PASS_FORWARD)
        made = crn_dnnl_linear(out, &setting, CRN_PASS_FORWARD, &l->product);
    if (made && pass != CRN_PASS_FORWARD) {
        made = crn_dnnl_linear(&setting.forward, &setting, CRN_PASS_FORWARD, &l->hint);
        if (made) {
            made = crn_dnnl_linear(out, &setting, pass, &l->product);
            dnnl_primitive_desc_destroy(setting.forward);
        }
    }
    r->failed |= !made;
    return made;
}

/* The buffer of an operand in the layout that the product reads. */
static uint32_t operand(crn_recipe *r, crn_recipe_source source, uint32_t index,
                        const crn_layout *stored, const crn_layout *read) {
    return crn_recipe_read_as(r, crn_recipe_operand(r, source, index, stored), read);
}

static uint32_t weight_of(crn_recipe *r, const linear *l, dnnl_primitive_desc_t what) {
    return operand(r, CRN_PARAM_BUFFER, 0, l->stored.weights,
                   crn_recipe_wanted(r, what, dnnl_query_weights_md));
}

/* x [N, F] -> y [N, O] = x W' + b */
void crn_prepare_linear(crn_recipe *r) {
    const cairn_op *op = r->site->op;
    bool bias = op->param_count > 1;
    linear l = describe(r, CRN_PASS_FORWARD, op->inputs[0], op->outputs[0], op->params[0], bias);
    dnnl_primitive_desc_t what;
    if (!make(r, CRN_PASS_FORWARD, &l, &what))
        return;
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_SRC, operand(r, CRN_INPUT_BUFFER, 0, l.stored.source, l.product.source)},
        {DNNL_ARG_WEIGHTS, weight_of(r, &l, what)},
        {DNNL_ARG_DST, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, l.stored.result)}};
    crn_recipe_add_biased(r, what, arguments, DNNL_ARG_BIAS, CRN_PARAM_BUFFER, l.stored.bias);
}

/* x [N, F], gy [N, O] -> gradients of weight [O, F] = gy' x and bias [O] */
void crn_prepare_linear_bwd_weight(crn_recipe *r) {
    const cairn_op *op = r->site->op;
    bool bias = op->output_count > 1 && op->outputs[1] != CAIRN_NONE;
    linear l = describe(r, CRN_PASS_WEIGHTS, op->inputs[0], op->inputs[1], op->outputs[0], bias);
    dnnl_primitive_desc_t what;
    if (!make(r, CRN_PASS_WEIGHTS, &l, &what))
        return;
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_SRC, operand(r, CRN_INPUT_BUFFER, 0, l.stored.source, l.product.source)},
        {DNNL_ARG_DIFF_DST, operand(r, CRN_INPUT_BUFFER, 1, l.stored.result, l.product.result)},
        {DNNL_ARG_DIFF_WEIGHTS, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, l.stored.weights)}};
    crn_recipe_add_biased(r, what, arguments, DNNL_ARG_DIFF_BIAS, CRN_OUTPUT_BUFFER, l.stored.bias);
}

/* gy [N, O] -> gx [N, F] = gy W */
void crn_prepare_linear_bwd_data(crn_recipe *r) {
    const cairn_op *op = r->site->op;
    linear l = describe(r, CRN_PASS_DATA, op->outputs[0], op->inputs[0], op->params[0], false);
    dnnl_primitive_desc_t what;
    if (!make(r, CRN_PASS_DATA, &l, &what))
        return;
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_DIFF_DST, operand(r, CRN_INPUT_BUFFER, 0, l.stored.result, l.product.result)},
        {DNNL_ARG_WEIGHTS, weight_of(r, &l, what)},
        {DNNL_ARG_DIFF_SRC, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, l.stored.source)}};
    crn_recipe_add(r, what, arguments, CRN_LENGTH(arguments));
}
