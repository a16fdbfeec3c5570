/* cpu_conv.c: convolutions and transposed convolutions by oneDNN.
 *
 * Weights and their gradients are plain outside and in oneDNN's own layout inside: reordered in the
 * workspace. Images stay as they are stored where oneDNN has a good kernel for that, else they are
 * reordered too. A transposed convolution is oneDNN's deconvolution. */
#include "backend/cpu/recipe.h"
#include "backend/cpu/cpu_internal.h"

typedef enum conv_pass { FORWARD, WEIGHTS, DATA } conv_pass;

/* An op as oneDNN wants it described. */
typedef struct conv {
    crn_recipe *recipe;
    bool transposed;
    conv_pass pass;
    cairn_id source, result;     /* the images: x and y, or their gradients */
    const cairn_tensor *weights; /* the parameter, or its gradient */
    bool bias;
    dnnl_memory_desc_t plain_weights, bias_layout;
    dnnl_dims_t strides, dilates, pad_before, pad_after;
} conv;

/* ---- Describing ---- */

/* [O, C/G, KH, KW] as groups [G, O/G, C/G, KH, KW]; of a transposed convolution [C, O, KH, KW] seen
 * as [O, C, KH, KW]. */
static bool describe_weights(conv *c, uint32_t groups) {
    const uint32_t *w = c->weights->shape;
    if (c->transposed) {
        dnnl_dims_t dims = {w[1], w[0], w[2], w[3]};
        dnnl_dim_t area = (dnnl_dim_t)w[2] * w[3];
        dnnl_dims_t strides = {area, area * w[1], w[3], 1};
        return dnnl_memory_desc_init_by_strides(&c->plain_weights, 4, dims, dnnl_f32, strides) ==
               dnnl_success;
    }
    if (groups == 1)
        return crn_layout_plain(w, 4, &c->plain_weights);
    uint32_t grouped[] = {groups, w[0] / groups, w[1], w[2], w[3]};
    return crn_layout_plain(grouped, 5, &c->plain_weights);
}

static bool describe(conv *c) {
    const cairn_attributes *a = &c->recipe->site->op->attributes;
    uint32_t outputs = cairn_graph_tensor(c->recipe->site->graph, c->result)->shape[1];
    for (int i = 0; i < 2; i++) {
        c->strides[i] = a->stride[i];
        c->dilates[i] = c->transposed ? 0 : a->dilation[i] - 1;
        c->pad_before[i] = c->transposed ? 0 : a->pad[i];
        c->pad_after[i] = c->transposed ? 0 : a->pad[2 + i];
        if (c->pad_before[i] < 0 || c->pad_after[i] < 0)
            return false;
    }
    return describe_weights(c, c->transposed ? 1 : (uint32_t)a->groups) &&
           crn_layout_plain(&outputs, 1, &c->bias_layout);
}

/* ---- oneDNN's descriptors ---- */

static dnnl_memory_desc_t any_weights(const conv *c) {
    dnnl_memory_desc_t any;
    dnnl_memory_desc_init_by_tag(&any, c->plain_weights.ndims, c->plain_weights.dims, dnnl_f32,
                                 dnnl_format_tag_any);
    return any;
}

static dnnl_status_t forward_of(const conv *c, const dnnl_memory_desc_t *src,
                                const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t *out) {
    dnnl_memory_desc_t weights = any_weights(c);
    const dnnl_memory_desc_t *bias = c->bias ? &c->bias_layout : NULL;
    dnnl_deconvolution_desc_t transposed;
    dnnl_convolution_desc_t plain;
    dnnl_status_t status =
        c->transposed
            ? dnnl_deconvolution_forward_desc_init(&transposed, dnnl_forward_training,
                                                   dnnl_deconvolution_direct, src, &weights, bias,
                                                   dst, c->strides, c->pad_before, c->pad_after)
            : dnnl_dilated_convolution_forward_desc_init(
                  &plain, dnnl_forward_training, dnnl_convolution_direct, src, &weights, bias, dst,
                  c->strides, c->dilates, c->pad_before, c->pad_after);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, c->transposed ? (void *)&transposed : (void *)&plain,
                                      crn_recipe_attributes(), crn_recipe_engine(), NULL);
}

static dnnl_status_t weights_of(const conv *c, const dnnl_memory_desc_t *src,
                                const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t forward,
                                dnnl_primitive_desc_t *out) {
    dnnl_memory_desc_t weights = any_weights(c);
    const dnnl_memory_desc_t *bias = c->bias ? &c->bias_layout : NULL;
    dnnl_deconvolution_desc_t transposed;
    dnnl_convolution_desc_t plain;
    dnnl_status_t status = c->transposed
                               ? dnnl_deconvolution_backward_weights_desc_init(
                                     &transposed, dnnl_deconvolution_direct, src, &weights, bias,
                                     dst, c->strides, c->pad_before, c->pad_after)
                               : dnnl_dilated_convolution_backward_weights_desc_init(
                                     &plain, dnnl_convolution_direct, src, &weights, bias, dst,
                                     c->strides, c->dilates, c->pad_before, c->pad_after);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, c->transposed ? (void *)&transposed : (void *)&plain,
                                      crn_recipe_attributes(), crn_recipe_engine(), forward);
}

static dnnl_status_t data_of(const conv *c, const dnnl_memory_desc_t *src,
                             const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t forward,
                             dnnl_primitive_desc_t *out) {
    dnnl_memory_desc_t weights = any_weights(c);
    dnnl_deconvolution_desc_t transposed;
    dnnl_convolution_desc_t plain;
    dnnl_status_t status = c->transposed
                               ? dnnl_deconvolution_backward_data_desc_init(
                                     &transposed, dnnl_deconvolution_direct, src, &weights, dst,
                                     c->strides, c->pad_before, c->pad_after)
                               : dnnl_dilated_convolution_backward_data_desc_init(
                                     &plain, dnnl_convolution_direct, src, &weights, dst,
                                     c->strides, c->dilates, c->pad_before, c->pad_after);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, c->transposed ? (void *)&transposed : (void *)&plain,
                                      crn_recipe_attributes(), crn_recipe_engine(), forward);
}

static bool describe_pass(const conv *c, const dnnl_memory_desc_t *src,
                          const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t *out) {
    dnnl_primitive_desc_t forward;
    if (forward_of(c, src, dst, &forward) != dnnl_success)
        return false;
    if (c->pass == FORWARD) {
        *out = forward;
        return true;
    }
    dnnl_status_t status = c->pass == WEIGHTS ? weights_of(c, src, dst, forward, out)
                                              : data_of(c, src, dst, forward, out);
    dnnl_primitive_desc_destroy(forward);
    return status == dnnl_success;
}

/* ---- The best layouts of the images ---- */

/* oneDNN's reference is there for every layout, and slow. */
static bool is_slow(dnnl_primitive_desc_t what) {
    const char *name;
    return dnnl_primitive_desc_query(what, dnnl_query_impl_info_str, 0, &name) != dnnl_success ||
           strncmp(name, "ref", 3) == 0;
}

enum { STORED, BLOCKED, PLAIN, ANY };

static bool layout_of(const conv *c, cairn_id image, int how, dnnl_memory_desc_t *out) {
    const cairn_tensor *t = cairn_graph_tensor(c->recipe->site->graph, image);
    dnnl_dims_t dims = {t->shape[0], t->shape[1], t->shape[2], t->shape[3]};
    switch (how) {
    case STORED:
        return crn_layout_stored(c->recipe->site, image, out);
    case BLOCKED:
        return crn_layout_blocked(t->shape, crn_cpu_block(), out);
    case PLAIN:
        return crn_layout_plain(t->shape, 4, out);
    default:
        return dnnl_memory_desc_init_by_tag(out, 4, dims, dnnl_f32, dnnl_format_tag_any) ==
               dnnl_success;
    }
}

/* As stored, if there is a fast kernel for that; else the first pair of layouts that has one; else
 * whatever works. */
static bool choose(const conv *c, dnnl_primitive_desc_t *out) {
    static const int pairs[][2] = {{STORED, STORED},   {STORED, BLOCKED}, {BLOCKED, STORED},
                                   {BLOCKED, BLOCKED}, {ANY, ANY},        {PLAIN, PLAIN}};
    dnnl_primitive_desc_t slow = NULL;
    for (size_t i = 0; i < CRN_LENGTH(pairs); i++) {
        dnnl_memory_desc_t src, dst;
        if (!layout_of(c, c->source, pairs[i][0], &src) ||
            !layout_of(c, c->result, pairs[i][1], &dst) || !describe_pass(c, &src, &dst, out))
            continue;
        if (!is_slow(*out)) {
            if (slow != NULL)
                dnnl_primitive_desc_destroy(slow);
            return true;
        }
        if (slow == NULL)
            slow = *out;
        else
            dnnl_primitive_desc_destroy(*out);
    }
    *out = slow;
    return slow != NULL;
}

/* ---- Building ---- */

static const dnnl_memory_desc_t *ask(dnnl_primitive_desc_t what, dnnl_query_t query) {
    return dnnl_primitive_desc_query_md(what, query, 0);
}

static uint32_t operand(const conv *c, crn_recipe_source source, uint32_t index, cairn_id tensor) {
    dnnl_memory_desc_t layout;
    if (!crn_layout_stored(c->recipe->site, tensor, &layout))
        c->recipe->failed = true;
    return crn_recipe_operand(c->recipe, source, index, &layout);
}

static void build_forward(conv *c, dnnl_primitive_desc_t what) {
    crn_recipe *r = c->recipe;
    uint32_t x = operand(c, CRN_INPUT_BUFFER, 0, c->source);
    uint32_t y = operand(c, CRN_OUTPUT_BUFFER, 0, c->result);
    uint32_t w = crn_recipe_operand(r, CRN_PARAM_BUFFER, 0, &c->plain_weights);
    uint32_t made = crn_recipe_write_as(r, y, ask(what, dnnl_query_dst_md));
    crn_recipe_argument arguments[CRN_RECIPE_ARGUMENTS] = {
        {DNNL_ARG_SRC, crn_recipe_read_as(r, x, ask(what, dnnl_query_src_md))},
        {DNNL_ARG_WEIGHTS, crn_recipe_read_as(r, w, ask(what, dnnl_query_weights_md))},
        {DNNL_ARG_DST, made}};
    if (c->bias)
        arguments[3] = (crn_recipe_argument){
            DNNL_ARG_BIAS, crn_recipe_operand(r, CRN_PARAM_BUFFER, 1, &c->bias_layout)};
    crn_recipe_add(r, what, arguments, c->bias ? 4 : 3);
    crn_recipe_written(r, made, y);
}

static void build_weights(conv *c, dnnl_primitive_desc_t what) {
    crn_recipe *r = c->recipe;
    uint32_t x = operand(c, CRN_INPUT_BUFFER, 0, c->source);
    uint32_t gy = operand(c, CRN_INPUT_BUFFER, 1, c->result);
    uint32_t gw = crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 0, &c->plain_weights);
    uint32_t made = crn_recipe_write_as(r, gw, ask(what, dnnl_query_diff_weights_md));
    crn_recipe_argument arguments[CRN_RECIPE_ARGUMENTS] = {
        {DNNL_ARG_SRC, crn_recipe_read_as(r, x, ask(what, dnnl_query_src_md))},
        {DNNL_ARG_DIFF_DST, crn_recipe_read_as(r, gy, ask(what, dnnl_query_diff_dst_md))},
        {DNNL_ARG_DIFF_WEIGHTS, made}};
    if (c->bias)
        arguments[3] = (crn_recipe_argument){
            DNNL_ARG_DIFF_BIAS, crn_recipe_operand(r, CRN_OUTPUT_BUFFER, 1, &c->bias_layout)};
    crn_recipe_add(r, what, arguments, c->bias ? 4 : 3);
    crn_recipe_written(r, made, gw);
}

static void build_data(conv *c, dnnl_primitive_desc_t what) {
    crn_recipe *r = c->recipe;
    uint32_t gy = operand(c, CRN_INPUT_BUFFER, 0, c->result);
    uint32_t gx = operand(c, CRN_OUTPUT_BUFFER, 0, c->source);
    uint32_t w = crn_recipe_operand(r, CRN_PARAM_BUFFER, 0, &c->plain_weights);
    uint32_t made = crn_recipe_write_as(r, gx, ask(what, dnnl_query_diff_src_md));
    const crn_recipe_argument arguments[] = {
        {DNNL_ARG_DIFF_DST, crn_recipe_read_as(r, gy, ask(what, dnnl_query_diff_dst_md))},
        {DNNL_ARG_WEIGHTS, crn_recipe_read_as(r, w, ask(what, dnnl_query_weights_md))},
        {DNNL_ARG_DIFF_SRC, made}};
    crn_recipe_add(r, what, arguments, CRN_LENGTH(arguments));
    crn_recipe_written(r, made, gx);
}

static void build(conv *c) {
    static void (*const builders[])(conv *, dnnl_primitive_desc_t) = {
        [FORWARD] = build_forward, [WEIGHTS] = build_weights, [DATA] = build_data};
    dnnl_primitive_desc_t what;
    if (!describe(c) || !choose(c, &what))
        c->recipe->failed = true;
    else
        builders[c->pass](c, what);
}

/* ---- The three passes of both kinds ---- */

static void build_op(crn_recipe *r, bool transposed, conv_pass pass) {
    const cairn_op *op = r->site->op;
    const cairn_graph *graph = r->site->graph;
    conv c = {.recipe = r, .transposed = transposed, .pass = pass};
    c.source = pass == DATA ? op->outputs[0] : op->inputs[0];
    c.result = pass == FORWARD ? op->outputs[0] : op->inputs[pass == WEIGHTS ? 1 : 0];
    c.weights = cairn_graph_tensor(graph, pass == WEIGHTS ? op->outputs[0] : op->params[0]);
    c.bias = pass == FORWARD   ? op->param_count > 1
             : pass == WEIGHTS ? op->output_count > 1 && op->outputs[1] != CAIRN_NONE
                               : false;
    build(&c);
}

/* x -> y */
void crn_build_conv(crn_recipe *r) {
    build_op(r, false, FORWARD);
}

/* x, gy -> gradients of weight and bias */
void crn_build_conv_bwd_weight(crn_recipe *r) {
    build_op(r, false, WEIGHTS);
}

/* gy -> gx */
void crn_build_conv_bwd_data(crn_recipe *r) {
    build_op(r, false, DATA);
}

void crn_build_conv_transpose(crn_recipe *r) {
    build_op(r, true, FORWARD);
}

void crn_build_conv_transpose_bwd_weight(crn_recipe *r) {
    build_op(r, true, WEIGHTS);
}

void crn_build_conv_transpose_bwd_data(crn_recipe *r) {
    build_op(r, true, DATA);
}
