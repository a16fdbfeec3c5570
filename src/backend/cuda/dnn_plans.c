/* dnn_plans.c: see dnn_plans.h. */
#include "backend/cuda/dnn_graphs.h"

typedef cudnnBackendDescriptor_t descriptor;

#define MOST_NOTES 16
#define ALIGNMENT 16 /* of addresses other than that of x, bytes */

/* Engines of convolutions, by the global index that cuDNN 9 gives them. NVIDIA documents none of
 * them; this is what was measured on an H200. */
enum {
    ENGINE_GW_WRONG = 1,     /* its gradients of channels-last weights are wrong */
    ENGINE_GW_SLOW = 48,     /* 113 us where engine 34 takes 83: see reluctance() */
    ENGINE_GW_SLOW_TOO = 23, /* likewise tried last */
    ENGINE_BLAS = 58,        /* these three call cuBLASLt */
    ENGINE_BLAS_TOO = 62,
    ENGINE_BLAS_LAST = 63
};

/* ---- The operation ---- */

static descriptor make_tensor(crn_dnn_work *w, const crn_dnn_shape *s, int64_t id,
                              const int64_t sizes[4], const int64_t strides[4], int64_t alignment) {
    const int type = s->half ? CRN_DNN_DATA_BF16 : CRN_DNN_DATA_FLOAT;
    descriptor out = crn_dnn_make(w, CRN_DNN_TENSOR);
    crn_dnn_set(w, out, CRN_DNN_TENSOR_TYPE, CRN_DNN_DATA_TYPE, 1, &type);
    crn_dnn_set(w, out, CRN_DNN_TENSOR_DIMENSIONS, CRN_DNN_INT64, 4, sizes);
    crn_dnn_set(w, out, CRN_DNN_TENSOR_STRIDES, CRN_DNN_INT64, 4, strides);
    crn_dnn_set(w, out, CRN_DNN_TENSOR_ID, CRN_DNN_INT64, 1, &id);
    crn_dnn_set(w, out, CRN_DNN_TENSOR_ALIGNMENT, CRN_DNN_INT64, 1, &alignment);
    crn_dnn_finish(w, out);
    return out;
}

/* Sizes are in the order N, C, H, W; channels are contiguous. */
static descriptor make_image(crn_dnn_work *w, const crn_dnn_shape *s, int64_t id, int64_t n,
                             int64_t c, const int64_t plane[2]) {
    const int64_t sizes[4] = {n, c, plane[0], plane[1]};
    const int64_t strides[4] = {c * plane[0] * plane[1], 1, c * plane[1], c};
    return make_tensor(w, s, id, sizes, strides, ALIGNMENT);
}

static descriptor make_x(crn_dnn_work *w, const crn_dnn_shape *s) {
    const int64_t sizes[4] = {s->batch, s->channels, s->x[0], s->x[1]};
    const int64_t strides[4] = {s->x_strides[0], 1, s->x_strides[1], s->x_strides[2]};
    return make_tensor(w, s, 1, sizes, strides, s->alignment);
}

static descriptor make_convolution(crn_dnn_work *w, const crn_dnn_shape *s) {
    static const int compute = CRN_DNN_DATA_FLOAT, mode = CRN_DNN_CROSS_CORRELATION;
    static const int64_t dimensions = 2;
    descriptor out = crn_dnn_make(w, CRN_DNN_CONVOLUTION);
    crn_dnn_set(w, out, CRN_DNN_CONV_DIMENSIONS, CRN_DNN_INT64, 1, &dimensions);
    crn_dnn_set(w, out, CRN_DNN_CONV_COMPUTE, CRN_DNN_DATA_TYPE, 1, &compute);
    crn_dnn_set(w, out, CRN_DNN_CONV_MODE, CRN_DNN_MODE_TYPE, 1, &mode);
    crn_dnn_set(w, out, CRN_DNN_CONV_PRE_PADDINGS, CRN_DNN_INT64, 2, s->before);
    crn_dnn_set(w, out, CRN_DNN_CONV_POST_PADDINGS, CRN_DNN_INT64, 2, s->after);
    crn_dnn_set(w, out, CRN_DNN_CONV_STRIDES, CRN_DNN_INT64, 2, s->stride);
    crn_dnn_set(w, out, CRN_DNN_CONV_DILATIONS, CRN_DNN_INT64, 2, s->dilation);
    crn_dnn_finish(w, out);
    return out;
}

/* The operation's kind, and the names of its attributes. */
static const struct {
    int kind, alpha, beta, convolution, w, x, y;
} passes[] = {
#define PASS(kind, w, x, y)                                                                        \
    { kind, kind##_ALPHA, kind##_BETA, kind##_CONVOLUTION, kind##_##w, kind##_##x, kind##_##y }
    [CRN_DNN_Y] = PASS(CRN_DNN_FORWARD, W, X, Y),
    [CRN_DNN_GX] = PASS(CRN_DNN_BACKWARD_DATA, W, GX, GY),
    [CRN_DNN_GW] = PASS(CRN_DNN_BACKWARD_FILTER, GW, X, GY),
#undef PASS
};

static descriptor make_graph(crn_dnn_work *w, const crn_dnn_shape *s) {
    static const float one = 1, zero = 0;
    descriptor x = make_x(w, s);
    descriptor weight = make_image(w, s, 2, s->filters, s->channels / s->groups, s->kernel);
    descriptor y = make_image(w, s, 3, s->batch, s->filters, s->y);
    descriptor convolution = make_convolution(w, s);
    descriptor op = crn_dnn_make(w, passes[s->pass].kind);
    crn_dnn_set(w, op, passes[s->pass].x, CRN_DNN_DESCRIPTOR, 1, &x);
    crn_dnn_set(w, op, passes[s->pass].w, CRN_DNN_DESCRIPTOR, 1, &weight);
    crn_dnn_set(w, op, passes[s->pass].y, CRN_DNN_DESCRIPTOR, 1, &y);
    crn_dnn_set(w, op, passes[s->pass].convolution, CRN_DNN_DESCRIPTOR, 1, &convolution);
    crn_dnn_set(w, op, passes[s->pass].alpha, CRN_DNN_FLOAT, 1, &one);
    crn_dnn_set(w, op, passes[s->pass].beta, CRN_DNN_FLOAT, 1, &zero);
    crn_dnn_finish(w, op);
    return crn_dnn_graph(w, &op, 1);
}

/* ---- Configurations ---- */

static bool is_good(int note, bool exact) {
    switch (note) {
    case CRN_DNN_NOTE_NONDETERMINISTIC:
    case CRN_DNN_NOTE_REDUCED_SUMS:
        return false;
    case CRN_DNN_NOTE_DOWN_CONVERT:
    case CRN_DNN_NOTE_TENSOR_CORE:
    case CRN_DNN_NOTE_FFT:
        return !exact;
    default:
        return !exact || note < CRN_DNN_NOTE_WINOGRAD || note > CRN_DNN_NOTE_WINOGRAD_LAST;
    }
}

/* Whether a configuration is deterministic and uses the required arithmetic; `*engine` is its
 * engine. */
static bool is_wanted(const crn_dnn *dnn, const crn_dnn_shape *s, descriptor config,
                      int64_t *engine) {
    int notes[MOST_NOTES];
    int64_t count = 0;
    bool wanted = crn_dnn_engine(dnn, config, engine, notes, MOST_NOTES, &count);
    for (int64_t i = 0; i < count; i++)
        wanted = wanted && is_good(notes[i], s->exact);
    return wanted && (s->pass != CRN_DNN_GW || *engine != ENGINE_GW_WRONG);
}

cairn_status crn_dnn_propose(const crn_dnn *dnn, const crn_dnn_shape *shape, crn_dnn_plan *out,
                             uint32_t most, uint32_t *count, cairn_error *err) {
    crn_dnn_work w = {.dnn = dnn};
    descriptor configs[CRN_DNN_MOST_CONFIGS];
    *count = 0;
    descriptor graph = make_graph(&w, shape);
    if (w.failed != 0) { /* a shape that cuDNN refuses is not an error */
        crn_dnn_release(&w);
        return CAIRN_OK;
    }
    int64_t proposals = crn_dnn_configs(&w, graph, configs);
    cairn_status status =
        w.failed == 0 ? CAIRN_OK : crn_dnn_fail(dnn, w.failed, "propose convolutions", err);
    for (int64_t i = 0; i < proposals; i++) {
        crn_dnn_plan *to = &out[*count];
        if (*count < most && is_wanted(dnn, shape, configs[i], &to->engine) &&
            crn_dnn_finish_plan(dnn, configs[i], to)) {
            to->rank = (uint32_t)i;
            ++*count;
        }
        crn_dnn_drop(dnn, configs[i]);
    }
    crn_dnn_release(&w);
    return status;
}

/* ---- Which plan is first ---- */

/* Engines that use cuBLASLt. */
static bool is_product(int64_t engine) {
    return engine == ENGINE_BLAS || engine == ENGINE_BLAS_TOO || engine == ENGINE_BLAS_LAST;
}

/* Whether the convolution is a product of matrices. */
static bool is_pointwise(const crn_dnn_shape *s) {
    return s->kernel[0] * s->kernel[1] == 1 && s->stride[0] * s->stride[1] == 1 &&
           s->before[0] + s->before[1] + s->after[0] + s->after[1] == 0;
}

/* A penalty; 0: keep cuDNN's order, always for bf16; larger: use it later.
 *
 *     products of matrices   19.9 us by cuBLASLt, 22.3 by others     768 -> 160 channels
 *     other data gradients   57.9 us by cuBLASLt, 26.8 by others     7x1, 192 -> 192
 *     weight gradients       113 us by engine 48, 83 by engine 34    the same */
static int reluctance(const crn_dnn_shape *s, int64_t engine) {
    if (s->half)
        return 0;
    if (s->pass == CRN_DNN_GW && (engine == ENGINE_GW_SLOW || engine == ENGINE_GW_SLOW_TOO))
        return 2;
    return is_product(engine) == is_pointwise(s) ? 0 : 1;
}

void crn_dnn_prefer(const crn_dnn_shape *shape, crn_dnn_plan *plans, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        crn_dnn_plan plan = plans[i];
        uint32_t at = i;
        for (; at > 0 && reluctance(shape, plans[at - 1].engine) > reluctance(shape, plan.engine);
             at--)
            plans[at] = plans[at - 1];
        plans[at] = plan;
    }
}

cairn_status crn_dnn_describe(crn_dnn *dnn, const char *json, cairn_error *err) {
    crn_dnn_work w = {.dnn = dnn};
    descriptor device = crn_dnn_make(&w, CRN_DNN_DEVICE);
    crn_dnn_set(&w, device, CRN_DNN_DEVICE_JSON, CRN_DNN_CHAR, (int64_t)strlen(json), json);
    crn_dnn_finish(&w, device);
    if (w.failed != 0) {
        cairn_status status = crn_dnn_fail(dnn, w.failed, "read the description of a device", err);
        crn_dnn_release(&w);
        return status;
    }
    dnn->device = device;
    return CAIRN_OK;
}

/* ---- Running ---- */

int crn_dnn_run(const crn_dnn *dnn, const crn_dnn_plan *plan, const void *x, const void *weight,
                const void *y, void *workspace) {
    static const int64_t ids[3] = {1, 2, 3};
    const void *at[3] = {x, weight, y};
    return crn_dnn_execute(dnn, plan, 3, ids, at, workspace);
}
