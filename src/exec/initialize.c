/* initialize.c: parameters and synthetic data. Every number is a function of the seed, the tensor's
 * name (for data also the step) and the place of the element, and so the same for every plan,
 * backend and number of threads.
 *
 * Weights are uniform in +-sqrt(6 / fan-in) (K. He and others, "Delving deep into rectifiers",
 * 2015), or nearly normal where the op has a deviation; of recurrent cells in +-1/sqrt(hidden size)
 * as in PyTorch; biases are zero. Batch-norm starts as the identity: weight and running variance 1,
 * bias and running mean 0. */
#include "base/team.h"
#include "exec/exec_internal.h"
#include "graph/op_kinds.h"

#include <math.h>

static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    return hash;
}

/* The key of the random numbers of one tensor. */
static uint64_t stream(const cairn_exec *exec, cairn_id tensor, uint64_t step) {
    uint64_t name = hash_name(cairn_graph_tensor(exec->graph, tensor)->name);
    return crn_mix(crn_mix(exec->options.seed, name), step);
}

/* ---- Parameters ---- */

#define SLICE ((uint64_t)64 << 10)          /* bytes that a thread makes at once */
#define FEW_PARAMETERS ((uint64_t)64 << 20) /* bytes for which no threads are started */

typedef struct initializer {
    cairn_exec *exec;
    crn_team *team;
    bool *done; /* per tensor */
    cairn_error *err;
} initializer;

/* How the elements of a parameter are made: all `value`, uniform in +-bound, or nearly normal with
 * a deviation. */
typedef struct filling {
    crn_make_chunk *make;
    float value, bound, deviation;
    uint64_t from;
    crn_team *team;
    uint64_t first, bytes; /* of the chunk that is being made */
    char *to;
} filling;

static void make_slice(void *context, uint32_t index) {
    filling *with = context;
    uint64_t at = index * SLICE;
    with->make(with, with->first + at, CRN_MIN(SLICE, with->bytes - at), with->to + at);
}

/* A chunk, by all threads: an element depends on its place alone. */
static void make_slices(void *context, uint64_t first, uint64_t bytes, void *to) {
    filling *with = context;
    with->first = first;
    with->bytes = bytes;
    with->to = to;
    crn_team_for(with->team, (uint32_t)((bytes + SLICE - 1) / SLICE), make_slice, with);
}

static void make_constant(void *context, uint64_t first, uint64_t bytes, void *to) {
    const filling *with = context;
    float *element = to;
    (void)first;
    for (uint64_t i = 0; i < bytes / sizeof *element; i++)
        element[i] = with->value;
}

static void make_uniform(void *context, uint64_t first, uint64_t bytes, void *to) {
    const filling *with = context;
    float *element = to;
    first /= sizeof *element;
    for (uint64_t i = 0; i < bytes / sizeof *element; i++) {
        float unit = (float)(crn_mix(with->from, first + i) >> 40) / 16777216.0f; /* 24 bits */
        element[i] = with->bound * (2.0f * unit - 1.0f);
    }
}

/* The sum of four uniform numbers of 16 bits, scaled to mean 0 and variance 1. */
static float nearly_normal(uint64_t bits) {
    uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

static void make_normal(void *context, uint64_t first, uint64_t bytes, void *to) {
    const filling *with = context;
    float *element = to;
    first /= sizeof *element;
    for (uint64_t i = 0; i < bytes / sizeof *element; i++)
        element[i] = with->deviation * nearly_normal(crn_mix(with->from, first + i));
}

static cairn_status fill(const initializer *s, cairn_id tensor, filling with) {
    with.from = stream(s->exec, tensor, 0);
    with.team = s->team;
    return crn_transfer_made(s->exec, tensor, s->exec->stationary.at[tensor], make_slices, &with,
                             s->err);
}

/* The number of products that an output element of the op sums. */
static uint64_t fan_in(crn_start start, const cairn_tensor *weight) {
    uint64_t count = 1;
    if (start == S_FAN_IN_FIRST)
        return weight->shape[0];
    for (uint32_t i = 1; i < weight->rank; i++)
        count *= weight->shape[i];
    return count;
}

/* How parameter `i` begins, as op_kinds.def says for the kind. */
static filling start_of(const cairn_graph *graph, const cairn_op *op, uint32_t i) {
    const cairn_tensor *param = cairn_graph_tensor(graph, op->params[i]);
    crn_start start = crn_op_kinds[op->kind].start;
    if (start == S_IDENTITY)
        return (filling){.make = make_constant, .value = i == 0 || i == 3 ? 1.0f : 0.0f};
    if (start == S_HIDDEN) {
        uint32_t hidden = cairn_graph_tensor(graph, op->params[1])->shape[1];
        return (filling){.make = make_uniform, .bound = 1.0f / sqrtf((float)hidden)};
    }
    if (param->rank > 1 && op->attributes.deviation > 0)
        return (filling){.make = make_normal, .deviation = (float)op->attributes.deviation};
    if (param->role == CAIRN_ROLE_PARAMETER && param->rank > 1)
        return (filling){.make = make_uniform, .bound = sqrtf(6.0f / (float)fan_in(start, param))};
    return (filling){.make = make_constant};
}

/* The first op that uses a parameter says how it begins. */
static cairn_status initialize_op(const initializer *s, const cairn_op *op) {
    for (uint32_t i = 0; i < op->param_count; i++)
        if (!s->done[op->params[i]]) {
            CRN_TRY(fill(s, op->params[i], start_of(s->exec->graph, op, i)));
            s->done[op->params[i]] = true;
        }
    return CAIRN_OK;
}

static uint32_t threads_for(const cairn_graph *graph) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    return summary.parameter_bytes < FEW_PARAMETERS ? 1 : 0;
}

/* The memory is zeroed when it is reserved. */
cairn_status crn_initialize(cairn_exec *exec, cairn_error *err) {
    cairn_allocator allocator = crn_graph_allocator(exec->graph);
    uint32_t tensors = cairn_graph_tensor_count(exec->graph);
    initializer s = {.exec = exec, .err = err};
    CRN_TRY(crn_team_create(&allocator, threads_for(exec->graph), &s.team, err));
    s.done = crn_resize(&allocator, NULL, 0, tensors * sizeof *s.done);
    cairn_status status = s.done == NULL ? crn_fail_memory(err) : CAIRN_OK;
    if (s.done != NULL)
        memset(s.done, 0, tensors * sizeof *s.done);
    for (cairn_id o = 0; status == CAIRN_OK && o < cairn_graph_op_count(exec->graph); o++) {
        const cairn_op *op = cairn_graph_op(exec->graph, o);
        if (op->phase == CAIRN_PHASE_FORWARD || op->kind == CAIRN_OP_HEAD_LOSS)
            status = initialize_op(&s, op);
    }
    if (s.done != NULL)
        crn_resize(&allocator, s.done, tensors * sizeof *s.done, 0);
    crn_team_destroy(s.team);
    return status;
}

/* ---- Data ---- */

/* The number of values that an integer input may have: the classes of the logits that a label is
 * used with, or the rows of the table that a token selects from. */
static uint32_t classes_of(const cairn_exec *exec, cairn_id input) {
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(exec->graph, input, &count);
    for (uint32_t i = 0; i < count; i++) {
        const cairn_op *op = cairn_graph_op(exec->graph, readers[i]);
        const cairn_tensor *read = cairn_graph_tensor(exec->graph, op->inputs[0]);
        if (op->kind == CAIRN_OP_CROSS_ENTROPY)
            return read->shape[1];
        if (op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY)
            return read->shape[read->rank - 1];
        if (op->kind == CAIRN_OP_EMBEDDING || op->kind == CAIRN_OP_HEAD_LOSS)
            return cairn_graph_tensor(exec->graph, op->params[0])->shape[0];
    }
    return 1;
}

/* How the elements of an input are drawn. */
typedef struct drawing {
    cairn_dtype dtype;
    uint32_t classes;
    uint64_t from;
} drawing;

static void draw_chunk(void *context, uint64_t first, uint64_t bytes, void *to) {
    const drawing *with = context;
    memset(to, 0, bytes); /* without a shape the bytes need not be whole elements */
    first /= 4;
    if (with->dtype == CAIRN_DTYPE_F32)
        for (uint64_t i = 0; i < bytes / sizeof(float); i++)
            ((float *)to)[i] = nearly_normal(crn_mix(with->from, first + i));
    else if (with->dtype == CAIRN_DTYPE_I32)
        for (uint64_t i = 0; i < bytes / sizeof(int32_t); i++)
            ((int32_t *)to)[i] = (int32_t)(crn_mix(with->from, first + i) % with->classes);
}

cairn_status cairn_exec_fill(cairn_exec *exec, uint64_t step, cairn_error *err) {
    crn_error_clear(err);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(exec->graph); t++) {
        void *place = exec->program.input_at[t];
        if (place == NULL)
            continue;
        drawing with = {.dtype = cairn_graph_tensor(exec->graph, t)->dtype,
                        .classes = classes_of(exec, t),
                        .from = stream(exec, t, step + 1)};
        CRN_TRY(crn_transfer_made(exec, t, place, draw_chunk, &with, err));
    }
    return CAIRN_OK;
}
