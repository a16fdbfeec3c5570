/* cuda_fuse.c: neighbouring actions of a recorded step that one kernel does better.
 *
 *     batch_norm [, add] [, relu]             one pass over the image less for each
 *     [accumulate,] relu_bwd, batch_norm_bwd  likewise
 *     relu_bwd, conv2d_bwd_weight             with a bias, whose gradient is summed on the way
 *     add, relu        conv2d with bias, relu
 *
 * Actions are neighbours where nothing but discarded memory stands between them. What the middle
 * one would have written must be written by the last as well (it works in place), or be dead
 * afterwards. A plan may have given the memory that an earlier one reads to a later one. Where that
 * is for its result, and the fused op would write it too early, the actions stay apart; where it is
 * for its workspace, the recording gives it another. The fused op gives the same bits as its parts.
 */
#include "backend/cuda/cuda_internal.h"

#define NOBODY UINT32_MAX

typedef struct list {
    crn_cuda_action *actions;
    uint32_t count;
} list;

/* ---- Who follows whom ---- */

/* What stands between neighbours without keeping them apart. */
static bool is_nothing(const crn_cuda_action *a) {
    return a->kind == CRN_DO_DISCARD || a->kind == CRN_DO_EVENT || a->kind == CRN_DO_NOTHING;
}

/* The next action, if it is a call of this kind. */
static uint32_t next_call(const list *l, uint32_t from, cairn_op_kind kind) {
    for (uint32_t i = from + 1; i < l->count; i++) {
        const crn_cuda_action *a = &l->actions[i];
        if (is_nothing(a))
            continue;
        return a->kind == CRN_DO_CALL && a->call.op->kind == kind && a->fused[0] == NULL &&
                       a->fused[1] == NULL
                   ? i
                   : NOBODY;
    }
    return NOBODY;
}

static const crn_call *call_at(const list *l, uint32_t i) {
    return &l->actions[i].call;
}

static bool covers(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) {
    return (uintptr_t)a <= (uintptr_t)b && (uintptr_t)b + b_bytes <= (uintptr_t)a + a_bytes;
}

static bool are_apart(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) {
    return (uintptr_t)a + a_bytes <= (uintptr_t)b || (uintptr_t)b + b_bytes <= (uintptr_t)a;
}

/* Whether the bytes are discarded before anything after action `from` can read them. */
static bool is_dead_after(const list *l, uint32_t from, const void *at, uint64_t bytes) {
    for (uint32_t i = from + 1; i < l->count; i++) {
        const crn_cuda_action *a = &l->actions[i];
        if (a->kind == CRN_DO_DISCARD && covers(a->to, a->bytes, at, bytes))
            return true;
        if (!is_nothing(a))
            return false; /* a plan frees what is dead at once */
    }
    return false;
}

/* ---- Whether operands fit together ---- */

static bool are_alike(const crn_call *a, cairn_id x, const crn_call *b, cairn_id y) {
    const crn_storage *s = &a->storage[x], *t = &b->storage[y];
    return s->format == t->format && s->block == t->block && s->bytes == t->bytes;
}

/* An image that needs no staging. */
static bool is_ready(const crn_call *call, cairn_id id) {
    crn_site site = crn_site_of(call);
    return !crn_cuda_view(&site, id).staged;
}

static uint64_t bytes_of(const crn_call *call, cairn_id id) {
    return call->storage[id].bytes;
}

/* What is written may lie on what is read only element by element. */
static bool may_lie_on(const crn_call *a, const void *written, cairn_id x, const crn_call *b,
                       const void *read, cairn_id y) {
    return (written == read && bytes_of(a, x) == bytes_of(b, y)) ||
           are_apart(written, bytes_of(a, x), read, bytes_of(b, y));
}

/* The output of `maker` need not be written: `last`, its reader, makes its result in its place, or
 * the plan gives it up. */
static bool is_spared(const list *l, const crn_call *maker, uint32_t last, const void *result) {
    const void *middle = maker->outputs[0];
    return middle == result ||
           is_dead_after(l, last, middle, bytes_of(maker, maker->op->outputs[0]));
}

static void drop(list *l, uint32_t i) {
    l->actions[i].kind = CRN_DO_NOTHING;
}

/* ---- The patterns ---- */

static bool reads_result(const crn_call *reader, const crn_call *maker) {
    return reader->inputs[0] == maker->outputs[0] &&
           are_alike(reader, reader->op->inputs[0], maker, maker->op->outputs[0]) &&
           are_alike(reader, reader->op->outputs[0], maker, maker->op->outputs[0]);
}

/* A ReLU right behind action `i`, which made `of`; NOBODY: there is none that can be joined. */
static uint32_t relu_behind(const list *l, uint32_t i, const crn_call *of) {
    uint32_t r = next_call(l, i, CAIRN_OP_RELU);
    return r != NOBODY && reads_result(call_at(l, r), of) &&
                   is_spared(l, of, r, call_at(l, r)->outputs[0])
               ? r
               : NOBODY;
}

/* An addition of what batch-norm `i` made to something else. */
static uint32_t add_behind(const list *l, uint32_t i) {
    const crn_call *norm = call_at(l, i);
    uint32_t a = next_call(l, i, CAIRN_OP_ADD);
    if (a == NOBODY)
        return NOBODY;
    const crn_call *add = call_at(l, a);
    bool first = add->inputs[0] == norm->outputs[0], second = add->inputs[1] == norm->outputs[0];
    return first != second && are_alike(add, add->op->inputs[0], norm, norm->op->outputs[0]) &&
                   are_alike(add, add->op->inputs[1], norm, norm->op->outputs[0]) &&
                   are_alike(add, add->op->outputs[0], norm, norm->op->outputs[0]) &&
                   is_spared(l, norm, a, add->outputs[0])
               ? a
               : NOBODY;
}

/* The last result, of `last`, is written while the batch-norm's input and what is added are read.
 */
static bool is_result_apart(const list *l, uint32_t norm, uint32_t add, const crn_call *last) {
    const crn_call *n = call_at(l, norm);
    cairn_id result = last->op->outputs[0];
    if (!may_lie_on(last, last->outputs[0], result, n, n->inputs[0], n->op->inputs[0]))
        return false;
    const crn_call *a = add == NOBODY ? n : call_at(l, add);
    for (uint32_t i = 0; add != NOBODY && i < 2; i++)
        if (!may_lie_on(last, last->outputs[0], result, a, a->inputs[i], a->op->inputs[i]))
            return false;
    return true;
}

static void fuse_norm(list *l, uint32_t i) {
    crn_cuda_action *action = &l->actions[i];
    const cairn_op *op = action->call.op;
    if (!is_ready(&action->call, op->outputs[0]) || !is_ready(&action->call, op->inputs[0]))
        return;
    uint32_t add = add_behind(l, i), last = add == NOBODY ? i : add;
    uint32_t relu = relu_behind(l, last, call_at(l, last));
    if (relu != NOBODY && !is_result_apart(l, i, add, call_at(l, relu)))
        relu = NOBODY;
    if (add != NOBODY && !is_result_apart(l, i, add, call_at(l, add)) && relu == NOBODY)
        return;
    if (add != NOBODY) {
        action->fused[0] = call_at(l, add);
        drop(l, add);
    }
    if (relu != NOBODY) {
        action->fused[1] = call_at(l, relu);
        drop(l, relu);
    }
}

static void fuse_relu(list *l, uint32_t i) {
    crn_cuda_action *action = &l->actions[i];
    uint32_t relu = relu_behind(l, i, &action->call);
    if (relu == NOBODY || !is_ready(&action->call, action->call.op->outputs[0]))
        return;
    action->fused[1] = call_at(l, relu);
    drop(l, relu);
}

/* While the batch-norm's backward adds up in its workspace, it reads what `other` would have. */
static bool is_workspace_apart(const crn_call *norm, const crn_call *other) {
    for (uint32_t i = 0; i < other->op->input_count; i++)
        if (!are_apart(norm->workspace, norm->workspace_bytes, other->inputs[i],
                       bytes_of(other, other->op->inputs[i])))
            return false;
    return true;
}

/* The bias of the batch-norm whose backward is call `n`, where the ReLU behind it read just what it
 * made, and where what relu_bwd `i` makes of the gradient need not be written: then it is read
 * twice, while gx is written. NULL: not so. A step that updates parameters does so at its end. */
static const float *bias_for_mask(const list *l, uint32_t i, uint32_t n) {
    const crn_call *relu = call_at(l, i), *norm = call_at(l, n);
    const cairn_op *forward = cairn_graph_op(relu->graph, relu->op->of);
    bool direct = cairn_graph_tensor(relu->graph, forward->inputs[0])->producer == norm->op->of;
    if (!direct || !norm->training || !is_spared(l, relu, n, norm->outputs[0]) ||
        (norm->outputs[0] != NULL && !may_lie_on(norm, norm->outputs[0], norm->op->outputs[0], relu,
                                                 relu->inputs[1], relu->op->inputs[1])))
        return NULL;
    for (uint32_t k = 0; k < n; k++)
        if (l->actions[k].kind == CRN_DO_CALL && call_at(l, k)->op_id == norm->op->of)
            return call_at(l, k)->params[1];
    return NULL;
}

/* Whether the backward of `norm` can add up the two gradients that accumulate `sum` adds for
 * relu_bwd `i`. */
static bool joins_sum(const list *l, uint32_t sum, uint32_t i, const crn_call *norm) {
    const crn_call *add = call_at(l, sum), *relu = call_at(l, i);
    const void *masked = relu->outputs[0];
    cairn_id gx = relu->op->outputs[0], gy = norm->op->inputs[2];
    return add->outputs[0] == relu->inputs[1] && is_spared(l, add, i, masked) &&
           are_alike(norm, gy, add, add->op->inputs[0]) &&
           are_alike(norm, gy, add, add->op->inputs[1]) &&
           may_lie_on(relu, masked, gx, add, add->inputs[0], add->op->inputs[0]) &&
           may_lie_on(relu, masked, gx, add, add->inputs[1], add->op->inputs[1]);
}

/* relu_bwd `i` before a batch_norm_bwd, and the accumulate before that, `sum`. */
static void fuse_norm_bwd(list *l, uint32_t sum, uint32_t i) {
    const crn_call *relu = call_at(l, i);
    uint32_t n = next_call(l, i, CAIRN_OP_BATCH_NORM_BWD);
    if (n == NOBODY)
        return;
    const crn_call *norm = call_at(l, n);
    cairn_id gy = norm->op->inputs[2];
    if (norm->inputs[2] != relu->outputs[0] || !is_ready(norm, gy) ||
        !is_ready(norm, norm->op->inputs[0]) || !are_alike(norm, gy, relu, relu->op->inputs[0]) ||
        !are_alike(norm, gy, relu, relu->op->inputs[1]))
        return;
    l->actions[n].fused[1] = relu;
    if (!is_workspace_apart(norm, relu))
        l->actions[n].scratch_bytes = norm->workspace_bytes;
    if (sum != NOBODY && joins_sum(l, sum, i, norm)) {
        l->actions[n].fused[0] = call_at(l, sum);
        if (!is_workspace_apart(norm, call_at(l, sum)))
            l->actions[n].scratch_bytes = norm->workspace_bytes;
        drop(l, sum);
    } else {
        l->actions[n].beta = bias_for_mask(l, i, n);
    }
    drop(l, i);
}

/* relu_bwd `i` before the gradients of a convolution's weight and bias. */
static void fuse_bias_bwd(list *l, uint32_t i) {
    const crn_call *relu = call_at(l, i);
    uint32_t n = next_call(l, i, CAIRN_OP_CONV2D_BWD_WEIGHT);
    if (n == NOBODY)
        return;
    const crn_call *conv = call_at(l, n);
    const cairn_op *op = conv->op;
    if (op->output_count < 2 || conv->outputs[1] == NULL || conv->inputs[1] != relu->outputs[0] ||
        !is_ready(conv, op->inputs[1]) ||
        !are_alike(conv, op->inputs[1], relu, relu->op->inputs[0]) ||
        !are_alike(conv, op->inputs[1], relu, relu->op->inputs[1]))
        return;
    crn_site site = crn_site_of(conv);
    crn_view gy = crn_cuda_view(&site, op->inputs[1]);
    l->actions[n].fused[1] = relu;
    if (!is_workspace_apart(conv, relu))
        l->actions[n].scratch_bytes = crn_cuda_column_sums_bytes(gy.rows, gy.channels, gy.pitch);
    drop(l, i);
}

void crn_cuda_fuse(crn_cuda_action *actions, uint32_t count) {
    list l = {actions, count};
    uint32_t before = NOBODY; /* the accumulate right before action i */
    for (uint32_t i = 0; i < count; i++) {
        crn_cuda_action *a = &actions[i];
        if (is_nothing(a))
            continue;
        bool is_call = a->kind == CRN_DO_CALL;
        cairn_op_kind kind = is_call ? a->call.op->kind : CAIRN_OP_OPAQUE;
        if (kind == CAIRN_OP_BATCH_NORM)
            fuse_norm(&l, i);
        else if (kind == CAIRN_OP_ADD || (kind == CAIRN_OP_CONV2D && a->call.op->param_count > 1))
            fuse_relu(&l, i);
        else if (kind == CAIRN_OP_RELU_BWD) {
            fuse_norm_bwd(&l, before, i);
            if (a->kind == CRN_DO_CALL)
                fuse_bias_bwd(&l, i);
        }
        before = kind == CAIRN_OP_ACCUMULATE ? i : NOBODY;
    }
}
