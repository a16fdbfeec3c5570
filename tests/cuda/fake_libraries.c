/* fake_libraries.c: see fake_libraries.h. */
#include "fake_libraries.h"

#include "backend/cuda/cuda_internal.h"
#include "fake_driver.h"

#include <stdlib.h>
#include <string.h>

#define BAD_PARAMETER 2000
#define NOT_SUPPORTED 3000

static uint64_t objects, convolutions, products;
static bool refusing;

uint64_t fake_libraries_objects(void) {
    return objects;
}

uint64_t fake_convolutions_run(void) {
    return convolutions;
}

uint64_t fake_products_run(void) {
    return products;
}

void fake_libraries_refuse(bool refuse) {
    refusing = refuse;
}

static void *make_object(size_t bytes) {
    objects++;
    return calloc(1, bytes);
}

static void drop_object(void *object) {
    objects--;
    free(object);
}

/* ---- cuDNN: descriptors are lists of attributes ---- */

typedef struct tensor4 {
    int64_t sizes[4], strides[4]; /* N, C, H, W */
    int type;                     /* CRN_DNN_DATA_FLOAT or CRN_DNN_DATA_BF16 */
} tensor4;

typedef struct convolution {
    int kind; /* CRN_DNN_FORWARD, ... */
    tensor4 x, w, y;
    int64_t before[2], stride[2], dilation[2];
    uint64_t engine;
    bool half; /* all operands are bf16 */
} convolution;

typedef struct attribute {
    int name;
    int64_t count;
    union {
        int64_t numbers[4];
        void *pointers[3];
        void *descriptor;
        int value;
    } at;
} attribute;

typedef struct descriptor {
    int kind;
    bool finished;
    attribute attributes[8];
    uint32_t count;
    convolution work; /* of graphs, configurations and plans */
} descriptor;

static const attribute *find(const descriptor *d, int name) {
    for (uint32_t i = 0; i < d->count; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

static const descriptor *find_descriptor(const descriptor *d, int name) {
    const attribute *a = find(d, name);
    const descriptor *found = a != NULL ? a->at.descriptor : NULL;
    return found != NULL && found->finished ? found : NULL;
}

static int fake_dnn_create(cudnnHandle_t *handle) {
    MAY_FAIL();
    *handle = make_object(sizeof(CUstream));
    return 0;
}

static int fake_dnn_destroy(cudnnHandle_t handle) {
    drop_object(handle);
    return fake_driver_answer();
}

static int fake_dnn_set_stream(cudnnHandle_t handle, CUstream stream) {
    MAY_FAIL();
    *(CUstream *)(void *)handle = stream;
    return 0;
}

static int fake_dnn_make(int kind, cudnnBackendDescriptor_t *out) {
    MAY_FAIL();
    descriptor *d = make_object(sizeof *d);
    d->kind = kind;
    *out = d;
    return 0;
}

static int fake_dnn_drop(cudnnBackendDescriptor_t d) {
    drop_object(d);
    return fake_driver_answer();
}

static size_t bytes_of(int type) {
    switch (type) {
    case CRN_DNN_DATA_TYPE:
    case CRN_DNN_MODE_TYPE:
    case CRN_DNN_HEURISTIC_TYPE:
    case CRN_DNN_POINTWISE_TYPE:
    case CRN_DNN_REDUCTION_TYPE:
    case CRN_DNN_FLOAT:
        return 4;
    case CRN_DNN_CHAR:
    case CRN_DNN_BOOLEAN:
        return 1;
    default:
        return 8;
    }
}

static int fake_dnn_set(cudnnBackendDescriptor_t to, int name, int type, int64_t count,
                        const void *values) {
    MAY_FAIL();
    descriptor *d = to;
    attribute *a = &d->attributes[d->count];
    size_t bytes = (size_t)count * bytes_of(type);
    if (d->finished || d->count == sizeof d->attributes / sizeof *d->attributes)
        return BAD_PARAMETER;
    *a = (attribute){.name = name, .count = count};
    memcpy(&a->at, values, bytes < sizeof a->at ? bytes : sizeof a->at);
    d->count++;
    return 0;
}

static bool read_tensor(const descriptor *op, int name, tensor4 *out) {
    const descriptor *d = find_descriptor(op, name);
    const attribute *sizes = d != NULL ? find(d, CRN_DNN_TENSOR_DIMENSIONS) : NULL;
    const attribute *strides = d != NULL ? find(d, CRN_DNN_TENSOR_STRIDES) : NULL;
    const attribute *type = d != NULL ? find(d, CRN_DNN_TENSOR_TYPE) : NULL;
    if (sizes == NULL || strides == NULL || type == NULL ||
        find(d, CRN_DNN_TENSOR_ALIGNMENT) == NULL)
        return false;
    out->type = type->at.value;
    memcpy(out->sizes, sizes->at.numbers, sizeof out->sizes);
    memcpy(out->strides, strides->at.numbers, sizeof out->strides);
    return true;
}

static bool read_pair(const descriptor *conv, int name, int64_t out[2]) {
    const attribute *a = find(conv, name);
    if (a != NULL)
        memcpy(out, a->at.numbers, 2 * sizeof *out);
    return a != NULL && a->count == 2;
}

/* The names that follow each other: alpha, beta, convolution, w, x, y. */
static bool read_graph(descriptor *graph) {
    const descriptor *op = find_descriptor(graph, CRN_DNN_GRAPH_OPS);
    if (op == NULL)
        return false;
    int first = op->kind == CRN_DNN_FORWARD ? 700 : op->kind == CRN_DNN_BACKWARD_DATA ? 706 : 712;
    const descriptor *conv = find_descriptor(op, first + 2);
    convolution *c = &graph->work;
    c->kind = op->kind;
    if (conv == NULL || !read_tensor(op, first + 3, &c->w) || !read_tensor(op, first + 4, &c->x) ||
        !read_tensor(op, first + 5, &c->y))
        return false;
    c->half = c->x.type == CRN_DNN_DATA_BF16;
    return c->w.type == c->x.type && c->y.type == c->x.type &&
           read_pair(conv, CRN_DNN_CONV_PRE_PADDINGS, c->before) &&
           read_pair(conv, CRN_DNN_CONV_STRIDES, c->stride) &&
           read_pair(conv, CRN_DNN_CONV_DILATIONS, c->dilation);
}

static int fake_dnn_finish(cudnnBackendDescriptor_t given) {
    MAY_FAIL();
    descriptor *d = given;
    const descriptor *from = NULL;
    if (d->kind == CRN_DNN_GRAPH && (refusing || !read_graph(d)))
        return refusing ? NOT_SUPPORTED : BAD_PARAMETER;
    if (d->kind == CRN_DNN_HEURISTIC)
        from = find_descriptor(d, CRN_DNN_HEUR_GRAPH);
    if (d->kind == CRN_DNN_PLAN)
        from = find_descriptor(d, CRN_DNN_PLAN_CONFIG);
    if (from != NULL)
        d->work = from->work;
    else if (d->kind == CRN_DNN_HEURISTIC || d->kind == CRN_DNN_PLAN)
        return BAD_PARAMETER;
    d->finished = true;
    return d->kind == CRN_DNN_PLAN && d->work.engine == 3 ? NOT_SUPPORTED : 0;
}

/* What is proposed, best first. Engine 3 makes no plan, 4 needs a negative workspace, 5 says
 * nothing of itself. */
static const struct engine {
    int64_t workspace;
    int notes[2], note_count;
} engines[] = {
    {0, {CRN_DNN_NOTE_TENSOR_CORE, 0}, 1},
    {4096, {CRN_DNN_NOTE_DOWN_CONVERT, 0}, 1},
    {0, {0, CRN_DNN_NOTE_NONDETERMINISTIC}, 2},
    {0, {0, 0}, 0},
    {-1, {0, 0}, 0},
    {1024, {0, 0}, -1},
    {100, {CRN_DNN_NOTE_REDUCED_SUMS, 0}, 1},
    {64, {CRN_DNN_NOTE_FFT, 0}, 1},
    {512, {CRN_DNN_NOTE_WINOGRAD, 0}, 1},
    {32, {CRN_DNN_NOTE_WINOGRAD_LAST + 1, 0}, 1},
};
#define ENGINES ((int64_t)(sizeof engines / sizeof *engines))

static int fake_dnn_get(cudnnBackendDescriptor_t from, int name, int type, int64_t most,
                        int64_t *count, void *values) {
    MAY_FAIL();
    (void)type;
    descriptor *d = from, **list = values;
    const struct engine *engine = &engines[d->work.engine];
    *count = 1;
    switch (name) {
    case CRN_DNN_HEUR_RESULTS:
        for (*count = 0; *count < ENGINES && *count < most; ++*count) {
            list[*count]->work = d->work;
            list[*count]->work.engine = (uint64_t)*count;
            list[*count]->finished = true;
        }
        return 0;
    case CRN_DNN_CONFIG_ENGINE:
        list[0]->work = d->work;
        return 0;
    case CRN_DNN_ENGINE_INDEX:
        *(int64_t *)values = (int64_t)d->work.engine;
        return 0;
    case CRN_DNN_ENGINE_NOTES:
        *count = engine->note_count;
        memcpy(values, engine->notes, sizeof engine->notes);
        return engine->note_count < 0 ? NOT_SUPPORTED : 0;
    case CRN_DNN_PLAN_WORKSPACE:
        *(int64_t *)values = engine->workspace;
        return 0;
    default:
        return BAD_PARAMETER;
    }
}

typedef struct convolution_run {
    convolution work;
    void *x, *w, *y;
} convolution_run;

/* The same with all operands as floats. */
typedef struct convolution_floats {
    const convolution *work;
    float *x, *w, *y;
} convolution_floats;

static int64_t at(const tensor4 *t, int64_t n, int64_t c, int64_t h, int64_t w) {
    return n * t->strides[0] + c * t->strides[1] + h * t->strides[2] + w * t->strides[3];
}

/* Set all elements of a tensor to 0, and none between them. */
static void clear(const tensor4 *t, float *data) {
    for (int64_t n = 0; n < t->sizes[0]; n++)
        for (int64_t c = 0; c < t->sizes[1]; c++)
            for (int64_t h = 0; h < t->sizes[2]; h++)
                for (int64_t w = 0; w < t->sizes[3]; w++)
                    data[at(t, n, c, h, w)] = 0;
}

/* One element of y with all that it is made of. */
static void convolve_element(const convolution_floats *r, int64_t n, int64_t k, int64_t h,
                             int64_t w) {
    const convolution *c = r->work;
    int64_t group = k / (c->w.sizes[0] / (c->x.sizes[1] / c->w.sizes[1]));
    float *y = &r->y[at(&c->y, n, k, h, w)];
    for (int64_t tap = 0; tap < c->w.sizes[2] * c->w.sizes[3]; tap++) {
        int64_t row = tap / c->w.sizes[3], column = tap % c->w.sizes[3];
        int64_t i = h * c->stride[0] - c->before[0] + row * c->dilation[0];
        int64_t j = w * c->stride[1] - c->before[1] + column * c->dilation[1];
        if (i < 0 || j < 0 || i >= c->x.sizes[2] || j >= c->x.sizes[3])
            continue;
        for (int64_t channel = 0; channel < c->w.sizes[1]; channel++) {
            float *x = &r->x[at(&c->x, n, group * c->w.sizes[1] + channel, i, j)];
            float *weight = &r->w[at(&c->w, k, channel, row, column)];
            if (c->kind == CRN_DNN_FORWARD)
                *y += *x * *weight;
            else if (c->kind == CRN_DNN_BACKWARD_DATA)
                *x += *y * *weight;
            else
                *weight += *x * *y;
        }
    }
}

static void convolve(const convolution_floats *r) {
    const convolution *c = r->work;
    if (c->kind == CRN_DNN_FORWARD)
        clear(&c->y, r->y);
    else if (c->kind == CRN_DNN_BACKWARD_DATA)
        clear(&c->x, r->x);
    else
        clear(&c->w, r->w);
    for (int64_t n = 0; n < c->y.sizes[0]; n++)
        for (int64_t k = 0; k < c->y.sizes[1]; k++)
            for (int64_t h = 0; h < c->y.sizes[2]; h++)
                for (int64_t w = 0; w < c->y.sizes[3]; w++)
                    convolve_element(r, n, k, h, w);
}

static float *open_half(const tensor4 *t, const uint16_t *from) {
    int64_t span = 1;
    for (int i = 0; i < 4; i++)
        span += (t->sizes[i] - 1) * t->strides[i];
    float *out = calloc((size_t)span, sizeof *out);
    for (int64_t i = 0; i < span; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
    return out;
}

/* Store the elements of a result, and nothing between them; the sums are numbers. */
static void close_half(const tensor4 *t, const float *from, uint16_t *to) {
    for (int64_t i = 0; i < t->sizes[0] * t->sizes[1] * t->sizes[2] * t->sizes[3]; i++) {
        int64_t row = i / t->sizes[3], plane = row / t->sizes[2];
        int64_t place =
            at(t, plane / t->sizes[1], plane % t->sizes[1], row % t->sizes[2], i % t->sizes[3]);
        uint32_t bits;
        memcpy(&bits, &from[place], sizeof bits);
        to[place] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static void run_convolution(const void *args) {
    const convolution_run *r = args;
    const convolution *c = &r->work;
    convolutions++;
    if (!c->half) {
        convolve(&(convolution_floats){c, r->x, r->w, r->y});
        return;
    }
    convolution_floats floats = {c, open_half(&c->x, r->x), open_half(&c->w, r->w),
                                 open_half(&c->y, r->y)};
    convolve(&floats);
    if (c->kind == CRN_DNN_FORWARD)
        close_half(&c->y, floats.y, r->y);
    else if (c->kind == CRN_DNN_BACKWARD_DATA)
        close_half(&c->x, floats.x, r->x);
    else
        close_half(&c->w, floats.w, r->w);
    free(floats.x);
    free(floats.w);
    free(floats.y);
}

static int fake_dnn_execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                            cudnnBackendDescriptor_t pack) {
    MAY_FAIL();
    const attribute *ids = find(pack, CRN_DNN_PACK_IDS),
                    *at_ids = find(pack, CRN_DNN_PACK_POINTERS);
    convolution_run run = {.work = ((const descriptor *)plan)->work};
    if (ids == NULL || at_ids == NULL || !((const descriptor *)pack)->finished)
        return BAD_PARAMETER;
    run.x = at_ids->at.pointers[0];
    run.w = at_ids->at.pointers[1];
    run.y = at_ids->at.pointers[2];
    return fake_driver_put(*(CUstream *)(void *)handle, run_convolution, &run, sizeof run);
}

static size_t fake_dnn_version(void) {
    return CRN_CUDNN_OLDEST;
}

static const char *fake_dnn_error(int error) {
    return error == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}

static void fake_dnn_last_error(char *out, size_t size) {
    crn_copy_string(out, size, "a description of the failure");
}

/* ---- cuBLASLt ---- */

struct crn_blas_opaque {
    int64_t rows, columns, stride; /* of a layout, by columns */
    int64_t slices, next;          /* likewise; 0 slices is 1 */
    bool half;                     /* likewise: bf16 */
    bool turn_a, turn_b;           /* of a product */
    bool with_bias;                /* likewise */
    const void *bias;              /* likewise */
    uint32_t set;                  /* attributes that a preference was given */
};

static int fake_blas_create(cublasLtHandle_t *handle) {
    MAY_FAIL();
    *handle = make_object(1);
    return 0;
}

static int fake_blas_destroy(cublasLtHandle_t handle) {
    drop_object(handle);
    return fake_driver_answer();
}

static int fake_layout(crn_blas_object *out, int type, uint64_t rows, uint64_t columns,
                       int64_t stride) {
    MAY_FAIL();
    if ((type != CRN_BLAS_FLOAT && type != CRN_BLAS_BF16) || stride < (int64_t)rows)
        return BAD_PARAMETER;
    *out = make_object(sizeof **out);
    **out = (struct crn_blas_opaque){.rows = (int64_t)rows,
                                     .columns = (int64_t)columns,
                                     .stride = stride,
                                     .half = type == CRN_BLAS_BF16};
    return 0;
}

static int fake_set_layout(crn_blas_object layout, int name, const void *value, size_t bytes) {
    MAY_FAIL();
    if (name == CRN_BLAS_BATCH_COUNT && bytes == sizeof(int32_t))
        layout->slices = *(const int32_t *)value;
    else if (name == CRN_BLAS_BATCH_STRIDE && bytes == sizeof(int64_t))
        layout->next = *(const int64_t *)value;
    else
        return BAD_PARAMETER;
    return 0;
}

static int fake_product(crn_blas_object *out, int compute, int scale) {
    MAY_FAIL();
    if ((compute != CRN_BLAS_COMPUTE_FP32 && compute != CRN_BLAS_COMPUTE_TF32) ||
        scale != CRN_BLAS_FLOAT)
        return BAD_PARAMETER;
    *out = make_object(sizeof **out);
    return 0;
}

static int fake_preference(crn_blas_object *out) {
    MAY_FAIL();
    *out = make_object(sizeof **out);
    return 0;
}

static int fake_blas_drop(crn_blas_object object) {
    drop_object(object);
    return fake_driver_answer();
}

static int fake_set_product(crn_blas_object product, int name, const void *value, size_t bytes) {
    MAY_FAIL();
    if (name == CRN_BLAS_BIAS) {
        memcpy(&product->bias, value, bytes);
        return bytes == sizeof product->bias ? 0 : BAD_PARAMETER;
    }
    if (name == CRN_BLAS_EPILOGUE) {
        product->with_bias = *(const int *)value == CRN_BLAS_ADD_BIAS;
        return bytes == sizeof(int) && product->with_bias ? 0 : BAD_PARAMETER;
    }
    if (bytes != sizeof(int) || *(const int *)value != CRN_BLAS_TRANSPOSED)
        return BAD_PARAMETER;
    *(name == CRN_BLAS_TRANSPOSE_A ? &product->turn_a : &product->turn_b) = true;
    return 0;
}

static int fake_set_preference(crn_blas_object preference, int name, const void *value,
                               size_t bytes) {
    MAY_FAIL();
    (void)value;
    preference->set++;
    return bytes == (name == CRN_BLAS_MOST_WORKSPACE ? sizeof(size_t) : 4) ? 0 : BAD_PARAMETER;
}

/* Every second product that is asked for needs a workspace. There are at most three algorithms, and
 * the third fails. */
static int fake_heuristic(cublasLtHandle_t handle, crn_blas_object product, crn_blas_object a,
                          crn_blas_object b, crn_blas_object c, crn_blas_object d,
                          crn_blas_object preference, int most, crn_blas_heuristic *out,
                          int *count) {
    static uint32_t asked;
    MAY_FAIL();
    (void)handle, (void)product, (void)a, (void)b, (void)c, (void)d;
    if (preference->set != 6 || most < 1 || a->half != b->half || (d->half && !a->half))
        return BAD_PARAMETER;
    *count = refusing ? 0 : CRN_MIN(most, 3);
    for (int i = 0; i < *count; i++)
        out[i] = (crn_blas_heuristic){.workspace = ++asked % 2 == 0 ? 300 : 0,
                                      .status = i == 2 ? NOT_SUPPORTED : 0};
    return 0;
}

typedef struct product_run {
    struct crn_blas_opaque product, a, b, d;
    const char *at, *bt;
    char *dt;
    float alpha, beta;
} product_run;

static float read_number(const struct crn_blas_opaque *of, const void *from, int64_t i) {
    uint32_t bits;
    float value;
    if (!of->half)
        return ((const float *)from)[i];
    bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void write_number(const struct crn_blas_opaque *of, void *to, int64_t i, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (of->half)
        ((uint16_t *)to)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    else
        ((float *)to)[i] = value;
}

static void run_slice(const product_run *r) {
    int64_t depth = r->product.turn_a ? r->a.rows : r->a.columns;
    for (int64_t i = 0; i < r->d.rows; i++)
        for (int64_t j = 0; j < r->d.columns; j++) {
            int64_t to = j * r->d.stride + i;
            float sum = 0;
            for (int64_t k = 0; k < depth; k++) {
                int64_t a = r->product.turn_a ? i * r->a.stride + k : k * r->a.stride + i;
                int64_t b = r->product.turn_b ? k * r->b.stride + j : j * r->b.stride + k;
                sum += read_number(&r->a, r->at, a) * read_number(&r->b, r->bt, b);
            }
            sum *= r->alpha;
            if (r->beta != 0)
                sum += r->beta * read_number(&r->d, r->dt, to);
            if (r->product.with_bias)
                sum += read_number(&r->d, r->product.bias, i);
            write_number(&r->d, r->dt, to, sum);
        }
}

static int64_t next_slice(const struct crn_blas_opaque *of) {
    return of->next * (of->half ? 2 : 4);
}

static void run_product(const void *args) {
    product_run slice = *(const product_run *)args;
    products++;
    for (int64_t i = 0; i < CRN_MAX(slice.d.slices, 1); i++) {
        run_slice(&slice);
        slice.at += next_slice(&slice.a);
        slice.bt += next_slice(&slice.b);
        slice.dt += next_slice(&slice.d);
    }
}

static int fake_matmul(cublasLtHandle_t handle, crn_blas_object product, const void *alpha,
                       const void *a_at, crn_blas_object a, const void *b_at, crn_blas_object b,
                       const void *beta, const void *c_at, crn_blas_object c, void *d_at,
                       crn_blas_object d, const crn_blas_algorithm *algorithm, void *workspace,
                       size_t workspace_bytes, CUstream stream) {
    MAY_FAIL();
    (void)handle, (void)algorithm;
    if (c_at != d_at || c != d || (workspace_bytes > 0 && (uintptr_t)workspace % 256 != 0))
        return BAD_PARAMETER;
    product_run run = {.product = *product,
                       .a = *a,
                       .b = *b,
                       .d = *d,
                       .at = a_at,
                       .bt = b_at,
                       .dt = d_at,
                       .alpha = *(const float *)alpha,
                       .beta = *(const float *)beta};
    return fake_driver_put(stream, run_product, &run, sizeof run);
}

static size_t fake_blas_version(void) {
    return 130000;
}

/* ---- The table ---- */

const crn_cuda_api *fake_driver_with_libraries(void) {
    static crn_cuda_api api;
    api = *fake_driver();
    api.cudnnCreate = fake_dnn_create;
    api.cudnnDestroy = fake_dnn_destroy;
    api.cudnnSetStream = fake_dnn_set_stream;
    api.cudnnBackendCreateDescriptor = fake_dnn_make;
    api.cudnnBackendDestroyDescriptor = fake_dnn_drop;
    api.cudnnBackendFinalize = fake_dnn_finish;
    api.cudnnBackendSetAttribute = fake_dnn_set;
    api.cudnnBackendGetAttribute = fake_dnn_get;
    api.cudnnBackendExecute = fake_dnn_execute;
    api.cudnnGetVersion = fake_dnn_version;
    api.cudnnGetErrorString = fake_dnn_error;
    api.cudnnGetLastErrorString = fake_dnn_last_error;
    api.cublasLtCreate = fake_blas_create;
    api.cublasLtDestroy = fake_blas_destroy;
    api.cublasLtMatrixLayoutCreate = fake_layout;
    api.cublasLtMatrixLayoutSetAttribute = fake_set_layout;
    api.cublasLtMatrixLayoutDestroy = fake_blas_drop;
    api.cublasLtMatmulDescCreate = fake_product;
    api.cublasLtMatmulDescDestroy = fake_blas_drop;
    api.cublasLtMatmulDescSetAttribute = fake_set_product;
    api.cublasLtMatmulPreferenceCreate = fake_preference;
    api.cublasLtMatmulPreferenceDestroy = fake_blas_drop;
    api.cublasLtMatmulPreferenceSetAttribute = fake_set_preference;
    api.cublasLtMatmulAlgoGetHeuristic = fake_heuristic;
    api.cublasLtMatmul = fake_matmul;
    api.cublasLtGetVersion = fake_blas_version;
    return &api;
}

static uint32_t one_device(void) {
    return 1;
}

static cairn_status open_host(const crn_device_options *options, crn_device **out,
                              cairn_error *err) {
    return crn_cuda_open_on(fake_driver_with_libraries(), options, out, err);
}

const crn_backend fake_backend_cuda_libraries = {
    .name = "cuda-libraries",
    .summary = "the backend cuda with all that it calls on the processor; for tests",
    .devices = one_device,
    .open = open_host,
    CRN_CUDA_FUNCTIONS,
};
