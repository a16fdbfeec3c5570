/* dnn_plans.c: see dnn_plans.h. */
#include "backend/cuda/dnn_plans.h"

typedef cudnnBackendDescriptor_t descriptor;

#define MOST_PROPOSALS 64
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

/* Descriptors are created one from the other. After the first failure the other calls do nothing.
 * All descriptors are released at the end, in reverse order. */
typedef struct work {
    const crn_dnn *dnn;
    descriptor made[8];
    uint32_t count;
    int failed; /* a status of cuDNN */
} work;

static descriptor make(work *w, int kind) {
    descriptor out = NULL;
    if (w->failed == 0)
        w->failed = w->dnn->api->cudnnBackendCreateDescriptor(kind, &out);
    if (w->failed == 0)
        w->made[w->count++] = out;
    return out;
}

static void set(work *w, descriptor d, int name, int type, int64_t count, const void *values) {
    if (w->failed == 0)
        w->failed = w->dnn->api->cudnnBackendSetAttribute(d, name, type, count, values);
}

static void finish(work *w, descriptor d) {
    if (w->failed == 0)
        w->failed = w->dnn->api->cudnnBackendFinalize(d);
}

static void drop_all(work *w) {
    while (w->count > 0)
        crn_dnn_drop(w->dnn, w->made[--w->count]);
}

void crn_dnn_drop(const crn_dnn *dnn, descriptor d) {
    if (d != NULL)
        (void)dnn->api->cudnnBackendDestroyDescriptor(d);
}

static cairn_status fail(const crn_dnn *dnn, int status, const char *what, cairn_error *err) {
    char why[256] = "";
    dnn->api->cudnnGetLastErrorString(why, sizeof why);
    return crn_fail(err, CAIRN_ESYSTEM, "cuDNN cannot %s: %s%s%s", what,
                    dnn->api->cudnnGetErrorString(status), why[0] != 0 ? ": " : "", why);
}

/* ---- The operation ---- */

static descriptor make_tensor(work *w, const crn_dnn_shape *s, int64_t id, const int64_t sizes[4],
                              const int64_t strides[4], int64_t alignment) {
    const int type = s->half ? CRN_DNN_DATA_BF16 : CRN_DNN_DATA_FLOAT;
    descriptor out = make(w, CRN_DNN_TENSOR);
    set(w, out, CRN_DNN_TENSOR_TYPE, CRN_DNN_DATA_TYPE, 1, &type);
    set(w, out, CRN_DNN_TENSOR_DIMENSIONS, CRN_DNN_INT64, 4, sizes);
    set(w, out, CRN_DNN_TENSOR_STRIDES, CRN_DNN_INT64, 4, strides);
    set(w, out, CRN_DNN_TENSOR_ID, CRN_DNN_INT64, 1, &id);
    set(w, out, CRN_DNN_TENSOR_ALIGNMENT, CRN_DNN_INT64, 1, &alignment);
    finish(w, out);
    return out;
}

/* Sizes are in the order N, C, H, W; channels are contiguous. */
static descriptor make_image(work *w, const crn_dnn_shape *s, int64_t id, int64_t n, int64_t c,
                             const int64_t plane[2]) {
    const int64_t sizes[4] = {n, c, plane[0], plane[1]};
    const int64_t strides[4] = {c * plane[0] * plane[1], 1, c * plane[1], c};
    return make_tensor(w, s, id, sizes, strides, ALIGNMENT);
}

static descriptor make_x(work *w, const crn_dnn_shape *s) {
    const int64_t sizes[4] = {s->batch, s->channels, s->x[0], s->x[1]};
    const int64_t strides[4] = {s->x_strides[0], 1, s->x_strides[1], s->x_strides[2]};
    return make_tensor(w, s, 1, sizes, strides, s->alignment);
}

static descriptor make_convolution(work *w, const crn_dnn_shape *s) {
    static const int compute = CRN_DNN_DATA_FLOAT, mode = CRN_DNN_CROSS_CORRELATION;
    static const int64_t dimensions = 2;
    descriptor out = make(w, CRN_DNN_CONVOLUTION);
    set(w, out, CRN_DNN_CONV_DIMENSIONS, CRN_DNN_INT64, 1, &dimensions);
    set(w, out, CRN_DNN_CONV_COMPUTE, CRN_DNN_DATA_TYPE, 1, &compute);
    set(w, out, CRN_DNN_CONV_MODE, CRN_DNN_MODE_TYPE, 1, &mode);
    set(w, out, CRN_DNN_CONV_PRE_PADDINGS, CRN_DNN_INT64, 2, s->before);
    set(w, out, CRN_DNN_CONV_POST_PADDINGS, CRN_DNN_INT64, 2, s->after);
    set(w, out, CRN_DNN_CONV_STRIDES, CRN_DNN_INT64, 2, s->stride);
    set(w, out, CRN_DNN_CONV_DILATIONS, CRN_DNN_INT64, 2, s->dilation);
    finish(w, out);
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

static descriptor make_graph(work *w, const crn_dnn_shape *s) {
    static const float one = 1, zero = 0;
    descriptor x = make_x(w, s);
    descriptor weight = make_image(w, s, 2, s->filters, s->channels / s->groups, s->kernel);
    descriptor y = make_image(w, s, 3, s->batch, s->filters, s->y);
    descriptor convolution = make_convolution(w, s);
    descriptor op = make(w, passes[s->pass].kind);
    set(w, op, passes[s->pass].x, CRN_DNN_DESCRIPTOR, 1, &x);
    set(w, op, passes[s->pass].w, CRN_DNN_DESCRIPTOR, 1, &weight);
    set(w, op, passes[s->pass].y, CRN_DNN_DESCRIPTOR, 1, &y);
    set(w, op, passes[s->pass].convolution, CRN_DNN_DESCRIPTOR, 1, &convolution);
    set(w, op, passes[s->pass].alpha, CRN_DNN_FLOAT, 1, &one);
    set(w, op, passes[s->pass].beta, CRN_DNN_FLOAT, 1, &zero);
    finish(w, op);
    descriptor graph = make(w, CRN_DNN_GRAPH);
    set(w, graph, CRN_DNN_GRAPH_OPS, CRN_DNN_DESCRIPTOR, 1, &op);
    if (w->dnn->handle != NULL)
        set(w, graph, CRN_DNN_GRAPH_HANDLE, CRN_DNN_HANDLE_TYPE, 1, &w->dnn->handle);
    finish(w, graph);
    return graph;
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
    work w = {.dnn = dnn};
    descriptor at = make(&w, CRN_DNN_ENGINE);
    int notes[MOST_NOTES];
    int64_t count = 0, one;
    bool wanted = w.failed == 0 &&
                  dnn->api->cudnnBackendGetAttribute(config, CRN_DNN_CONFIG_ENGINE,
                                                     CRN_DNN_DESCRIPTOR, 1, &one, &at) == 0 &&
                  dnn->api->cudnnBackendGetAttribute(at, CRN_DNN_ENGINE_INDEX, CRN_DNN_INT64, 1,
                                                     &one, engine) == 0;
    if (wanted && dnn->api->cudnnBackendGetAttribute(at, CRN_DNN_ENGINE_NOTES, CRN_DNN_NOTE_TYPE,
                                                     MOST_NOTES, &count, notes) != 0)
        count = 0;
    for (int64_t i = 0; i < count; i++)
        wanted = wanted && is_good(notes[i], s->exact);
    if (s->pass == CRN_DNN_GW && *engine == ENGINE_GW_WRONG)
        wanted = false;
    drop_all(&w);
    return wanted;
}

/* Make a plan with its workspace; false: this configuration cannot be used. */
static bool make_plan(const crn_dnn *dnn, descriptor config, crn_dnn_plan *out) {
    work w = {.dnn = dnn};
    int64_t one, workspace = 0;
    descriptor plan = make(&w, CRN_DNN_PLAN);
    set(&w, plan, CRN_DNN_PLAN_CONFIG, CRN_DNN_DESCRIPTOR, 1, &config);
    if (dnn->handle != NULL)
        set(&w, plan, CRN_DNN_PLAN_HANDLE, CRN_DNN_HANDLE_TYPE, 1, &dnn->handle);
    else
        set(&w, plan, CRN_DNN_PLAN_DEVICE, CRN_DNN_DESCRIPTOR, 1, &dnn->device);
    finish(&w, plan);
    if (w.failed == 0)
        w.failed = dnn->api->cudnnBackendGetAttribute(plan, CRN_DNN_PLAN_WORKSPACE, CRN_DNN_INT64,
                                                      1, &one, &workspace);
    if (w.failed != 0 || workspace < 0) {
        drop_all(&w);
        return false;
    }
    out->plan = plan;
    out->workspace = (uint64_t)workspace;
    return true;
}

/* The proposals of heuristic mode A for a graph; the caller releases them. */
static int64_t propose(work *w, descriptor graph, descriptor *out) {
    static const int mode = CRN_DNN_HEURISTIC_A;
    const crn_dnn *dnn = w->dnn;
    descriptor heuristic = make(w, CRN_DNN_HEURISTIC);
    int64_t count = 0, made = 0;
    set(w, heuristic, CRN_DNN_HEUR_GRAPH, CRN_DNN_DESCRIPTOR, 1, &graph);
    set(w, heuristic, CRN_DNN_HEUR_MODE, CRN_DNN_HEURISTIC_TYPE, 1, &mode);
    if (dnn->handle == NULL)
        set(w, heuristic, CRN_DNN_HEUR_DEVICE, CRN_DNN_DESCRIPTOR, 1, &dnn->device);
    finish(w, heuristic);
    while (w->failed == 0 && made < MOST_PROPOSALS &&
           (w->failed = dnn->api->cudnnBackendCreateDescriptor(CRN_DNN_CONFIG, &out[made])) == 0)
        made++;
    if (w->failed == 0)
        w->failed = dnn->api->cudnnBackendGetAttribute(
            heuristic, CRN_DNN_HEUR_RESULTS, CRN_DNN_DESCRIPTOR, MOST_PROPOSALS, &count, out);
    for (int64_t i = w->failed != 0 ? 0 : count; i < made; i++)
        crn_dnn_drop(dnn, out[i]);
    return w->failed != 0 ? 0 : count;
}

cairn_status crn_dnn_propose(const crn_dnn *dnn, const crn_dnn_shape *shape, crn_dnn_plan *out,
                             uint32_t most, uint32_t *count, cairn_error *err) {
    work w = {.dnn = dnn};
    descriptor configs[MOST_PROPOSALS];
    *count = 0;
    descriptor graph = make_graph(&w, shape);
    if (w.failed != 0) { /* a shape that cuDNN refuses is not an error */
        drop_all(&w);
        return CAIRN_OK;
    }
    int64_t proposals = propose(&w, graph, configs);
    cairn_status status =
        w.failed == 0 ? CAIRN_OK : fail(dnn, w.failed, "propose convolutions", err);
    for (int64_t i = 0; i < proposals; i++) {
        crn_dnn_plan *to = &out[*count];
        if (*count < most && is_wanted(dnn, shape, configs[i], &to->engine) &&
            make_plan(dnn, configs[i], to)) {
            to->rank = (uint32_t)i;
            ++*count;
        }
        crn_dnn_drop(dnn, configs[i]);
    }
    drop_all(&w);
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
    work w = {.dnn = dnn};
    descriptor device = make(&w, CRN_DNN_DEVICE);
    set(&w, device, CRN_DNN_DEVICE_JSON, CRN_DNN_CHAR, (int64_t)strlen(json), json);
    finish(&w, device);
    if (w.failed != 0) {
        cairn_status status = fail(dnn, w.failed, "read the description of a device", err);
        drop_all(&w);
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
    work w = {.dnn = dnn};
    descriptor pack = make(&w, CRN_DNN_PACK);
    set(&w, pack, CRN_DNN_PACK_IDS, CRN_DNN_INT64, 3, ids);
    set(&w, pack, CRN_DNN_PACK_POINTERS, CRN_DNN_POINTER, 3, at);
    set(&w, pack, CRN_DNN_PACK_WORKSPACE, CRN_DNN_POINTER, 1, &workspace);
    finish(&w, pack);
    if (w.failed == 0)
        w.failed = dnn->api->cudnnBackendExecute(dnn->handle, plan->plan, pack);
    drop_all(&w);
    return w.failed;
}
