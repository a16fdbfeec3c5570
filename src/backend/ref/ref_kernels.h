/* ref_kernels.h: shared by the kernels of the reference; the backend `cpu` uses them too.
 *
 * All kernels have the same form. A kernel puts its shapes and addresses into a small struct and
 * runs one loop over an index that owns some of the result: a plane of an image, a row of a
 * matrix, a channel. No two indices write the same element, and the order of each sum depends only
 * on shapes. So the bits are the same for any number of threads and for every run.
 *
 * An output may have the address of an operand only if the op may work in place (op_kinds.def and
 * docs/ops.md). Pointers to such operands are not `restrict`, and an element is read before it is
 * written. */
#ifndef CRN_REF_KERNELS_H
#define CRN_REF_KERNELS_H

#include "backend/processor.h"
#include "graph/head_chunks.h"

/* The kernels, declared from the list; a function that serves two kinds is declared twice. */
#define X(kind, function, workspace) void crn_ref_##function(const crn_call *call);
#include "backend/ref/ref_kernels.def"
#undef X

/* The kernels of a kind. */
crn_kernel_list crn_ref_kernels;
uint64_t crn_ref_cross_entropy_workspace(const crn_site *site);

/* ---- Shapes ---- */

static inline const cairn_tensor *crn_ref_input(const crn_call *call, uint32_t index) {
    return cairn_graph_tensor(call->graph, call->op->inputs[index]);
}

/* For an output that is computed. */
static inline const cairn_tensor *crn_ref_output(const crn_call *call, uint32_t index) {
    return cairn_graph_tensor(call->graph, call->op->outputs[index]);
}

static inline const cairn_tensor *crn_ref_param(const crn_call *call, uint32_t index) {
    return cairn_graph_tensor(call->graph, call->op->params[index]);
}

/* The address of output `index`; NULL: it is not computed, or the op has fewer outputs. */
static inline float *crn_ref_out(const crn_call *call, uint32_t index) {
    return index < call->op->output_count ? call->outputs[index] : NULL;
}

/* The product of the dimensions from `first` to before `end`. */
static inline size_t crn_ref_size(const cairn_tensor *tensor, uint32_t first, uint32_t end) {
    size_t size = 1;
    for (uint32_t i = first; i < end; i++)
        size *= tensor->shape[i];
    return size;
}

static inline size_t crn_ref_elements(const cairn_tensor *tensor) {
    return crn_ref_size(tensor, 0, tensor->rank);
}

/* The rows along the last dimension. */
static inline size_t crn_ref_rows(const cairn_tensor *tensor) {
    return crn_ref_size(tensor, 0, tensor->rank - 1);
}

/* ---- Sums ----
 *
 * There are eight partial sums, which are added up in a fixed order at the end. So the compiler may
 * use vector registers without changing the order of a sum. */

#define CRN_REF_LANES 8

#define CRN_REF_LANE_TOTAL(lane)                                                                   \
    (((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7])))

/* lanes += a[i] * b[i] */
static inline void crn_ref_dot_lanes(float lane[CRN_REF_LANES], const float *a, const float *b,
                                     size_t count) {
    size_t i = 0;
    for (; i + CRN_REF_LANES <= count; i += CRN_REF_LANES)
        for (size_t l = 0; l < CRN_REF_LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] += a[i + l] * b[i + l];
}

/* sum of a[i] * b[i] */
static inline float crn_ref_dot(const float *a, const float *b, size_t count) {
    float lane[CRN_REF_LANES] = {0};
    crn_ref_dot_lanes(lane, a, b, count);
    return CRN_REF_LANE_TOTAL(lane);
}

/* sum of a[i] */
static inline double crn_ref_sum(const float *a, size_t count) {
    double lane[CRN_REF_LANES] = {0};
    size_t i = 0;
    for (; i + CRN_REF_LANES <= count; i += CRN_REF_LANES)
        for (size_t l = 0; l < CRN_REF_LANES; l++)
            lane[l] += a[i + l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] += a[i + l];
    return CRN_REF_LANE_TOTAL(lane);
}

/* y[i] += factor * x[i] */
static inline void crn_ref_add_scaled(float *restrict y, const float *restrict x, float factor,
                                      size_t count) {
    size_t i = 0;
    for (; i + CRN_REF_LANES <= count; i += CRN_REF_LANES)
        for (size_t l = 0; l < CRN_REF_LANES; l++)
            y[i + l] += factor * x[i + l];
    for (; i < count; i++)
        y[i] += factor * x[i];
}

/* ---- Products with a weight matrix, for linear layers and recurrent cells ----
 *
 * A cell with G gates has G*H rows of weights, and the gradient before its gates' activations is
 * [G, N, H]; a linear layer is a cell of one gate. */
typedef struct crn_ref_product {
    uint32_t gates, batch, hidden, features; /* G, N, H, F */
    const float *gradient;                   /* [G, N, H] */
    const float *weight;                     /* [G*H, F] */
    const float *x;                          /* [N, F] */
    float *x_gradient;                       /* [N, F] */
    float *weight_gradient;                  /* [G*H, F] or NULL */
    float *bias_gradient;                    /* [G*H] or NULL */
    bool add;                                /* to the weight_gradient */
    crn_queue *queue;                        /* receives the failure of a library */
} crn_ref_product;

/* x_gradient[n, f] = sum over rows r of gradient[n, r] * weight[r, f] */
void crn_ref_product_data(crn_team *threads, crn_ref_product *product);

/* weight_gradient[r, f] = sum over n of gradient[n, r] * x[n, f]; bias_gradient[r] = sum over n of
 * gradient[n, r] */
void crn_ref_product_weight(crn_team *threads, crn_ref_product *product);

/* ---- A head with its loss (ref_head.c) ---- */

/* A chunk of its tokens. */
typedef struct crn_head_chunk {
    crn_queue *queue; /* receives the failure of a library */
    crn_team *threads;
    size_t rows, features, words; /* R, D, V */
    const void *x;                /* [R, D] */
    const float *weight;          /* [V, D] */
    const int32_t *labels;        /* [R] */
    void *logits;                 /* [R, V]; then their gradient */
    void *x_gradient;             /* [R, D] */
    float *weight_gradient;       /* [V, D]; `add`: it is added to */
    double *losses;               /* [R] */
    uint8_t *hits;                /* [R]: whether the label is the likeliest word */
    double smoothing, count;      /* labels of all chunks that are not ignored, at least 1 */
    bool add;
    bool half;   /* cpu: x, the logits and the gradients of both are bf16, */
    void *rooms; /* and this follows the logits in the workspace */
} crn_head_chunk;

typedef struct crn_head_steps {
    void (*multiply)(const crn_head_chunk *chunk); /* logits = x weight' */
    void (*lose)(
        const crn_head_chunk *chunk); /* losses, hits; the gradient in place of the logits */
    void (*weigh)(const crn_head_chunk *chunk);               /* the gradient of the weight */
    void (*spread)(const crn_head_chunk *chunk);              /* the gradient of x */
    uint64_t (*rooms)(const crn_site *site, uint32_t chunks); /* bytes; NULL: 0 */
} crn_head_steps;

/* Run a head_loss. Its workspace begins with the losses; then come the hits, the logits and the
 * rooms. */
void crn_ref_head_by(const crn_call *call, uint32_t chunks, const crn_head_steps *steps);
bool crn_ref_head_fits(const crn_site *site, uint32_t chunks);
uint64_t crn_ref_head_workspace(const crn_site *site, uint32_t chunks, const crn_head_steps *steps);

/* The kernels of a head_loss: functions for each number of chunks, and the list of them. */
#define CRN_HEAD_FUNCTIONS(n)                                                                      \
    static bool fits_##n(const crn_site *site) {                                                   \
        return crn_ref_head_fits(site, n);                                                         \
    }                                                                                              \
    static uint64_t workspace_##n(const crn_site *site) {                                          \
        return crn_ref_head_workspace(site, n, &steps);                                            \
    }                                                                                              \
    static void run_##n(const crn_call *call) {                                                    \
        crn_ref_head_by(call, n, &steps);                                                          \
    }
#define CRN_HEAD_KERNEL(called, n)                                                                 \
    { .name = called, .fits = fits_##n, .workspace = workspace_##n, .run = run_##n }
#define CRN_HEAD_KERNELS                                                                           \
    {                                                                                              \
        CRN_HEAD_KERNEL("whole", 1), CRN_HEAD_KERNEL("chunks.2", 2),                               \
            CRN_HEAD_KERNEL("chunks.4", 4), CRN_HEAD_KERNEL("chunks.8", 8),                        \
            CRN_HEAD_KERNEL("chunks.16", 16), CRN_HEAD_KERNEL("chunks.32", 32)                     \
    }
extern const crn_kernel crn_ref_heads[CRN_HEAD_CHOICES];

void crn_ref_head_multiply(const crn_head_chunk *chunk);
void crn_ref_head_lose(const crn_head_chunk *chunk);

/* The backward of cells, with functions for the products that the caller passes. */
typedef void crn_product(crn_team *threads, crn_ref_product *product);
void crn_ref_rnn_cell_bwd_data_by(const crn_call *call, crn_product *data);
void crn_ref_lstm_cell_bwd_data_by(const crn_call *call, crn_product *data);
void crn_ref_cell_bwd_weight_by(const crn_call *call, crn_product *weight);

#endif
