/* initialize.c: parameters and synthetic data. Every number is a function of the seed, the tensor's
 * name (for data also the step) and the place of the element, and so the same for every plan,
 * backend and number of threads.
 *
 * Weights are uniform in +-sqrt(6 / fan-in) (K. He and others, "Delving deep into rectifiers",
 * 2015), of recurrent cells in +-1/sqrt(hidden size) as in PyTorch; biases are zero. Batch-norm
 * starts as the identity: weight and running variance 1, bias and running mean 0. */
#include "exec/exec_internal.h"

#include <math.h>

static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    return hash;
}

/* What the elements of one tensor are drawn from. */
static uint64_t stream(const cairn_exec *exec, cairn_id tensor, uint64_t step) {
    uint64_t name = hash_name(cairn_graph_tensor(exec->graph, tensor)->name);
    return crn_mix(crn_mix(exec->options.seed, name), step);
}

/* ---- Parameters ---- */

static void fill_constant(cairn_exec *exec, cairn_id tensor, float value) {
    float *to = exec->stationary.at[tensor];
    uint64_t count = cairn_graph_tensor(exec->graph, tensor)->bytes / sizeof *to;
    for (uint64_t i = 0; i < count; i++)
        to[i] = value;
}

static void fill_uniform(cairn_exec *exec, cairn_id tensor, float bound) {
    float *to = exec->stationary.at[tensor];
    uint64_t count = cairn_graph_tensor(exec->graph, tensor)->bytes / sizeof *to;
    uint64_t from = stream(exec, tensor, 0);
    for (uint64_t i = 0; i < count; i++) {
        float unit = (float)(crn_mix(from, i) >> 40) / 16777216.0f; /* 0 .. 1, 24 bits */
        to[i] = bound * (2.0f * unit - 1.0f);
    }
}

/* How many products an output element of the op sums. */
static uint64_t fan_in(const cairn_op *op, const cairn_tensor *weight) {
    uint64_t count = 1;
    if (op->kind == CAIRN_OP_CONV_TRANSPOSE2D)
        return weight->shape[0];
    for (uint32_t i = 1; i < weight->rank; i++)
        count *= weight->shape[i];
    return count;
}

static void initialize_op(cairn_exec *exec, const cairn_op *op) {
    if (op->kind == CAIRN_OP_BATCH_NORM) {
        for (uint32_t i = 0; i < op->param_count; i++)
            fill_constant(exec, op->params[i], i == 0 || i == 3 ? 1.0f : 0.0f);
        return;
    }
    bool recurrent = op->kind == CAIRN_OP_RNN_CELL || op->kind == CAIRN_OP_LSTM_CELL;
    for (uint32_t i = 0; i < op->param_count; i++) {
        const cairn_tensor *param = cairn_graph_tensor(exec->graph, op->params[i]);
        if (recurrent) {
            uint32_t hidden = cairn_graph_tensor(exec->graph, op->params[1])->shape[1];
            fill_uniform(exec, op->params[i], 1.0f / sqrtf((float)hidden));
        } else if (param->role == CAIRN_PARAMETER && param->rank > 1) {
            fill_uniform(exec, op->params[i], sqrtf(6.0f / (float)fan_in(op, param)));
        } else {
            fill_constant(exec, op->params[i], 0.0f);
        }
    }
}

void crn_initialize(cairn_exec *exec) {
    memset(exec->resident.base, 0, exec->resident.bytes);
    for (cairn_id o = 0; o < cairn_graph_op_count(exec->graph); o++)
        if (cairn_graph_op(exec->graph, o)->phase == CAIRN_FORWARD)
            initialize_op(exec, cairn_graph_op(exec->graph, o));
}

/* ---- Data ---- */

void *cairn_exec_input(cairn_exec *exec, cairn_id tensor) {
    return exec->program.input_at[tensor];
}

/* The number of classes that a label chooses from: the channels of what it is compared with. */
static uint32_t classes_of(const cairn_exec *exec, cairn_id label) {
    uint32_t count;
    const cairn_id *readers = cairn_graph_readers(exec->graph, label, &count);
    for (uint32_t i = 0; i < count; i++) {
        const cairn_op *op = cairn_graph_op(exec->graph, readers[i]);
        if (op->kind == CAIRN_OP_CROSS_ENTROPY)
            return cairn_graph_tensor(exec->graph, op->inputs[0])->shape[1];
    }
    return 1;
}

/* Four numbers of 16 bits, uniform, added up and scaled to mean 0 and variance 1. */
static float nearly_normal(uint64_t bits) {
    uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

static void fill_input(cairn_exec *exec, cairn_id t, uint64_t step) {
    const cairn_tensor *tensor = cairn_graph_tensor(exec->graph, t);
    uint64_t from = stream(exec, t, step + 1);
    void *to = exec->program.input_at[t];
    memset(to, 0, tensor->bytes); /* bytes without a shape need not be a number of elements */
    if (tensor->dtype == CAIRN_F32) {
        for (uint64_t i = 0; i < tensor->bytes / sizeof(float); i++)
            ((float *)to)[i] = nearly_normal(crn_mix(from, i));
    } else if (tensor->dtype == CAIRN_I32) {
        uint32_t classes = classes_of(exec, t);
        for (uint64_t i = 0; i < tensor->bytes / sizeof(int32_t); i++)
            ((int32_t *)to)[i] = (int32_t)(crn_mix(from, i) % classes);
    }
}

void cairn_exec_fill(cairn_exec *exec, uint64_t step) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(exec->graph); t++)
        if (exec->program.input_at[t] != NULL)
            fill_input(exec, t, step);
}
