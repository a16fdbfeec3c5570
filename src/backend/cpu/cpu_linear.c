/* cpu_linear.c: linear layers by oneDNN. Weights stay plain: they are read once a pass, and
 * reordering them would cost more than the product. */
#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/recipe.h"

typedef struct linear {
    const crn_layout *x, *weight, *bias, *y; /* [N, F], [O, F], [O] or NULL, [N, O] */
} linear;

static linear describe(crn_recipe *r, cairn_id weight, bool bias) {
    const crn_site *site = r->site;
    const uint32_t *w = cairn_graph_tensor(site->graph, weight)->shape;
    const cairn_tensor *rows = cairn_graph_tensor(site->graph, site->op->inputs[0]);
    uint32_t batch = (uint32_t)crn_ref_rows(rows);
    const uint32_t x[] = {batch, w[1]}, y[] = {batch, w[0]};
    return (linear){crn_recipe_plain(r, x, 2), crn_recipe_plain(r, w, 2),
                    bias ? crn_recipe_plain(r, w, 1) : NULL, crn_recipe_plain(r, y, 2)};
}

/* Make a pass of the layer. If oneDNN has none, the recipe has failed and the result is false. */
static bool make(crn_recipe *r, crn_dnnl_pass pass, const linear *l, dnnl_primitive_desc_t *out) {
    const crn_dnnl_operands operands = {l->x, l->weight, l->bias, l->y};
    crn_dnnl_setting setting = crn_recipe_setting(NULL);
    dnnl_primitive_desc_t forward;
    bool made = !r->failed && crn_dnnl_linear(&forward, &setting, CRN_PASS_FORWARD, &operands);
    if (made && pass == CRN_PASS_FORWARD) {
        *out = forward;
    } else if (made) {
        setting = crn_recipe_setting(forward);
        made = crn_dnnl_linear(out, &setting, pass, &operands);
        dnnl_primitive_desc_destroy(forward);
    }
    r->failed |= !made;
    return made;
}

/* x [N, F] -> y [N, O] = x W' + b */
void crn_prepare_linear(crn_recipe *r) {
    const cairn_op *op = r->site->op;
    bool bias = op->param_count > 1;
    linear l = describe(r, op->params[0], bias);
    dnnl_primitive_desc_t what;
    if (!make(r, CRN_PASS_FORWARD, &l, &what))
        return;
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_SRC, crn_recipe_operand(r, CRN_INPUT_BUFFER, 0, l.x)},
        {DNNL_ARG_WEIGHTS, crn_recipe_operand(r, CRN_PARAM_BUFFER, 0, l.weight)},
        {DNNL_ARG_DST, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, l.y)}};
    crn_recipe_add_biased(r, what, arguments, DNNL_ARG_BIAS, CRN_PARAM_BUFFER, l.bias);
}

/* x [N, F], gy [N, O] -> gradients of weight [O, F] = gy' x and bias [O] */
void crn_prepare_linear_bwd_weight(crn_recipe *r) {
    const cairn_op *op = r->site->op;
    bool bias = op->output_count > 1 && op->outputs[1] != CAIRN_NONE;
    linear l = describe(r, op->outputs[0], bias);
    dnnl_primitive_desc_t what;
    if (!make(r, CRN_PASS_WEIGHTS, &l, &what))
        return;
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_SRC, crn_recipe_operand(r, CRN_INPUT_BUFFER, 0, l.x)},
        {DNNL_ARG_DIFF_DST, crn_recipe_operand(r, CRN_INPUT_BUFFER, 1, l.y)},
        {DNNL_ARG_DIFF_WEIGHTS, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, l.weight)}};
    crn_recipe_add_biased(r, what, arguments, DNNL_ARG_DIFF_BIAS, CRN_OUTPUT_BUFFER, l.bias);
}

/* gy [N, O] -> gx [N, F] = gy W */
void crn_prepare_linear_bwd_data(crn_recipe *r) {
    linear l = describe(r, r->site->op->params[0], false);
    dnnl_primitive_desc_t what;
    if (!make(r, CRN_PASS_DATA, &l, &what))
        return;
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_DIFF_DST, crn_recipe_operand(r, CRN_INPUT_BUFFER, 0, l.y)},
        {DNNL_ARG_WEIGHTS, crn_recipe_operand(r, CRN_PARAM_BUFFER, 0, l.weight)},
        {DNNL_ARG_DIFF_SRC, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, l.x)}};
    crn_recipe_add(r, what, arguments, CRN_LENGTH(arguments));
}
