/* cpu_conv.c: convolutions and transposed convolutions by oneDNN.
 *
 * Weights and their gradients are stored plain and reordered into oneDNN's own layout in the
 * workspace. Images stay as they are stored if oneDNN has a good kernel for that; else they are
 * reordered too. A transposed convolution is oneDNN's deconvolution. */
#include "backend/cpu/recipe.h"
#include "backend/cpu/cpu_internal.h"

/* The description of an op for oneDNN. */
typedef struct conv {
    crn_recipe *recipe;
    crn_dnnl_pass pass;
    cairn_id source, result;     /* the images: x and y, or their gradients */
    const cairn_tensor *weights; /* the parameter, or its gradient */
    const crn_layout *plain_weights, *any_weights;
    const crn_layout *bias; /* NULL: there is none */
    crn_dnnl_window window;
} conv;

/* ---- Describing ---- */

/* [O, C/G, KH, KW] as groups [G, O/G, C/G, KH, KW]; of a transposed convolution [C, O, KH, KW] seen
 * as [O, C, KH, KW]. */
static void describe_weights(conv *c, uint32_t groups) {
    const uint32_t *w = c->weights->shape;
    dnnl_dim_t area = (dnnl_dim_t)w[2] * w[3];
    if (c->window.transposed) {
        dnnl_dims_t dims = {w[1], w[0], w[2], w[3]}, strides = {area, area * w[1], w[3], 1};
        c->plain_weights = crn_recipe_strided(c->recipe, 4, dims, strides);
        c->any_weights = crn_recipe_any(c->recipe, 4, dims, dnnl_f32);
    } else if (groups == 1) {
        dnnl_dims_t dims = {w[0], w[1], w[2], w[3]};
        c->plain_weights = crn_recipe_plain(c->recipe, w, 4);
        c->any_weights = crn_recipe_any(c->recipe, 4, dims, dnnl_f32);
    } else {
        uint32_t grouped[] = {groups, w[0] / groups, w[1], w[2], w[3]};
        dnnl_dims_t dims = {groups, w[0] / groups, w[1], w[2], w[3]};
        c->plain_weights = crn_recipe_plain(c->recipe, grouped, 5);
        c->any_weights = crn_recipe_any(c->recipe, 5, dims, dnnl_f32);
    }
}

/* Whether a window has no tap inside the image, along one dimension. Each of `outputs` windows has
 * `taps` taps that are `dilation` apart. */
static bool has_empty_window(int64_t image, int64_t outputs, int64_t taps, int64_t stride,
                             int64_t dilation, int64_t pad) {
    for (int64_t o = 0; o < outputs; o++) {
        bool inside = false;
        for (int64_t k = 0; k < taps; k++) {
            int64_t at = o * stride - pad + k * dilation;
            inside |= at >= 0 && at < image;
        }
        if (!inside)
            return true;
    }
    return false;
}

/* Strides, dilation and padding; false: oneDNN cannot do it. It refuses negative padding, and
 * version 3.7 crashes if a window lies completely in the padding. */
static bool describe_window(conv *c, const cairn_attributes *a) {
    const cairn_graph *graph = c->recipe->site->graph;
    const uint32_t *x = cairn_graph_tensor(graph, c->source)->shape;
    const uint32_t *y = cairn_graph_tensor(graph, c->result)->shape;
    crn_dnnl_window *w = &c->window;
    for (int i = 0; i < 2; i++) {
        w->strides[i] = a->stride[i];
        w->dilates[i] = w->transposed ? 0 : a->dilation[i] - 1;
        w->pad_before[i] = w->transposed ? 0 : a->pad[i];
        w->pad_after[i] = w->transposed ? 0 : a->pad[2 + i];
        if (w->pad_before[i] < 0 || w->pad_after[i] < 0)
            return false;
        if (!w->transposed && has_empty_window(x[2 + i], y[2 + i], c->weights->shape[2 + i],
                                               a->stride[i], a->dilation[i], a->pad[i]))
            return false;
    }
    return true;
}

static bool describe(conv *c, bool bias) {
    const cairn_attributes *a = &c->recipe->site->op->attributes;
    uint32_t outputs = cairn_graph_tensor(c->recipe->site->graph, c->result)->shape[1];
    if (!describe_window(c, a))
        return false;
    describe_weights(c, c->window.transposed ? 1 : (uint32_t)a->groups);
    if (bias)
        c->bias = crn_recipe_plain(c->recipe, &outputs, 1);
    return !c->recipe->failed;
}

static bool describe_pass(const conv *c, const crn_layout *src, const crn_layout *dst,
                          dnnl_primitive_desc_t *out) {
    const crn_dnnl_operands operands = {src, c->any_weights, c->bias, dst};
    crn_dnnl_setting setting = crn_recipe_setting(NULL);
    dnnl_primitive_desc_t forward;
    if (!crn_dnnl_convolution(&forward, &setting, CRN_PASS_FORWARD, &operands, &c->window))
        return false;
    if (c->pass == CRN_PASS_FORWARD) {
        *out = forward;
        return true;
    }
    setting = crn_recipe_setting(forward);
    bool made = crn_dnnl_convolution(out, &setting, c->pass, &operands, &c->window);
    dnnl_primitive_desc_destroy(forward);
    return made;
}

/* ---- The best layouts of the images ---- */

/* oneDNN's reference kernels exist for every layout and are slow. */
static bool is_slow(dnnl_primitive_desc_t what) {
    const char *name;
    return dnnl_primitive_desc_query(what, dnnl_query_impl_info_str, 0, &name) != dnnl_success ||
           strncmp(name, "ref", 3) == 0;
}

enum { STORED, BLOCKED, PLAIN, ANY, LAYOUTS };

static void describe_image(const conv *c, cairn_id image, const crn_layout *out[LAYOUTS]) {
    const uint32_t *shape = cairn_graph_tensor(c->recipe->site->graph, image)->shape;
    dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    out[STORED] = crn_recipe_stored(c->recipe, image);
    out[BLOCKED] = crn_recipe_blocked(c->recipe, shape, crn_cpu_block());
    out[PLAIN] = crn_recipe_plain(c->recipe, shape, 4);
    out[ANY] = crn_recipe_any(c->recipe, 4, dims, dnnl_f32);
}

/* Choose layouts: as stored, if there is a fast kernel for that; else the first pair of layouts
 * that has one; else any pair that works. */
static bool choose(const conv *c, dnnl_primitive_desc_t *out) {
    static const int pairs[][2] = {{STORED, STORED},   {STORED, BLOCKED}, {BLOCKED, STORED},
                                   {BLOCKED, BLOCKED}, {ANY, ANY},        {PLAIN, PLAIN}};
    const crn_layout *src[LAYOUTS], *dst[LAYOUTS];
    dnnl_primitive_desc_t slow = NULL;
    describe_image(c, c->source, src);
    describe_image(c, c->result, dst);
    for (size_t i = 0; i < CRN_LENGTH(pairs) && !c->recipe->failed; i++) {
        if (!describe_pass(c, src[pairs[i][0]], dst[pairs[i][1]], out))
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

/* An operand: what it is of the convolution, where the call has it, and as which argument and in
 * which layout the primitive takes it. */
typedef struct operand {
    enum { SOURCE, WEIGHTS, RESULT } of;
    crn_recipe_source from;
    uint32_t index;
    int argument;
    dnnl_query_t layout;
} operand;

static const struct {
    operand reads[2], makes;
    int bias; /* its argument */
    crn_recipe_source bias_from;
} passes[] = {
    [CRN_PASS_FORWARD] = {{{SOURCE, CRN_INPUT_BUFFER, 0, DNNL_ARG_SRC, dnnl_query_src_md},
                           {WEIGHTS, CRN_PARAM_BUFFER, 0, DNNL_ARG_WEIGHTS, dnnl_query_weights_md}},
                          {RESULT, CRN_OUTPUT_BUFFER, 0, DNNL_ARG_DST, dnnl_query_dst_md},
                          DNNL_ARG_BIAS,
                          CRN_PARAM_BUFFER},
    [CRN_PASS_WEIGHTS] = {{{SOURCE, CRN_INPUT_BUFFER, 0, DNNL_ARG_SRC, dnnl_query_src_md},
                           {RESULT, CRN_INPUT_BUFFER, 1, DNNL_ARG_DIFF_DST,
                            dnnl_query_diff_dst_md}},
                          {WEIGHTS, CRN_OUTPUT_BUFFER, 0, DNNL_ARG_DIFF_WEIGHTS,
                           dnnl_query_diff_weights_md},
                          DNNL_ARG_DIFF_BIAS,
                          CRN_OUTPUT_BUFFER},
    [CRN_PASS_DATA] = {{{RESULT, CRN_INPUT_BUFFER, 0, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
                        {WEIGHTS, CRN_PARAM_BUFFER, 0, DNNL_ARG_WEIGHTS, dnnl_query_weights_md}},
                       {SOURCE, CRN_OUTPUT_BUFFER, 0, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md},
                       DNNL_ARG_BIAS, /* never: the gradient of data has none */
                       CRN_PARAM_BUFFER},
};

static uint32_t buffer_of(const conv *c, const operand *o) {
    return crn_recipe_operand(
        c->recipe, o->from, o->index,
        o->of == WEIGHTS ? c->plain_weights
                         : crn_recipe_stored(c->recipe, o->of == SOURCE ? c->source : c->result));
}

static void build(conv *c, dnnl_primitive_desc_t what) {
    crn_recipe *r = c->recipe;
    const operand *reads = passes[c->pass].reads, *makes = &passes[c->pass].makes;
    uint32_t to = buffer_of(c, makes);
    uint32_t made = crn_recipe_write_as(r, to, crn_recipe_wanted(r, what, makes->layout));
    crn_recipe_argument arguments[3] = {[2] = {makes->argument, made}};
    for (int i = 0; i < 2; i++) {
        uint32_t from = buffer_of(c, &reads[i]);
        uint32_t read = crn_recipe_read_as(r, from, crn_recipe_wanted(r, what, reads[i].layout));
        arguments[i] = (crn_recipe_argument){reads[i].argument, read};
    }
    crn_recipe_add_biased(r, what, arguments, passes[c->pass].bias, passes[c->pass].bias_from,
                          c->bias);
    crn_recipe_written(r, made, to);
}

/* ---- The three passes of both kinds ---- */

static void build_op(crn_recipe *r, bool transposed, crn_dnnl_pass pass) {
    const cairn_op *op = r->site->op;
    bool weights = pass == CRN_PASS_WEIGHTS, forward = pass == CRN_PASS_FORWARD;
    conv c = {.recipe = r, .pass = pass, .window.transposed = transposed};
    c.source = pass == CRN_PASS_DATA ? op->outputs[0] : op->inputs[0];
    c.result = forward ? op->outputs[0] : op->inputs[weights ? 1 : 0];
    c.weights = cairn_graph_tensor(r->site->graph, weights ? op->outputs[0] : op->params[0]);
    bool bias = forward   ? op->param_count > 1
                : weights ? op->output_count > 1 && op->outputs[1] != CAIRN_NONE
                          : false;
    dnnl_primitive_desc_t what;
    if (!describe(&c, bias) || !choose(&c, &what))
        r->failed = true;
    else
        build(&c, what);
}

/* x -> y */
void crn_prepare_conv(crn_recipe *r) {
    build_op(r, false, CRN_PASS_FORWARD);
}

/* x, gy -> gradients of weight and bias */
void crn_prepare_conv_bwd_weight(crn_recipe *r) {
    build_op(r, false, CRN_PASS_WEIGHTS);
}

/* gy -> gx */
void crn_prepare_conv_bwd_data(crn_recipe *r) {
    build_op(r, false, CRN_PASS_DATA);
}

void crn_prepare_conv_transpose(crn_recipe *r) {
    build_op(r, true, CRN_PASS_FORWARD);
}

void crn_prepare_conv_transpose_bwd_weight(crn_recipe *r) {
    build_op(r, true, CRN_PASS_WEIGHTS);
}

void crn_prepare_conv_transpose_bwd_data(crn_recipe *r) {
    build_op(r, true, CRN_PASS_DATA);
}
