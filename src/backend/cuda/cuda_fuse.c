/* cuda_fuse.c: fuses neighbouring actions of a recorded step into one kernel.
 *
 *     batch_norm [, add] [, relu]             one pass over the image less for each
 *     [accumulate,] [relu_bwd,] batch_norm_bwd [, accumulate]    likewise
 *     relu_bwd, conv2d_bwd_weight             with a bias, whose gradient is summed on the way
 *     gelu_bwd, linear_bwd_weight             likewise
 *     add, relu        conv2d with bias, relu        accumulate, relu_bwd
 *     add, layer_norm or rms_norm             the sum is written too
 *     layer_norm_bwd or rms_norm_bwd [, accumulate] [, linear_bwd_weight]    of the latter only the
 *                                             gradient of the bias, a sum of the result's columns
 *
 * Actions are neighbours if only these are between them: discards of memory, and actions that one
 * of the two can be moved over, because they do not access what it writes and do not write what it
 * reads. Such actions are copies, ops of another branch, and recomputations. What the middle one
 * would have written must also be written by the last one (it works in place), or be dead
 * afterwards. A plan may use the memory that an earlier action reads for a later one. If it is the
 * result of the later one, and the fused op would write it too early, the actions are not fused. If
 * it is its workspace, the recording provides another workspace. The fused op gives the same bits
 * as the separate ops. */
#include "backend/cuda/cuda_internal.h"

#define NOBODY UINT32_MAX
#define FAR 12u /* actions that a call may be moved over */
#define MOST_ACCESSES 128u

typedef struct list {
    crn_cuda_action *actions;
    uint32_t count;
} list;

/* ---- Neighbours ---- */

/* Whether an action may be between neighbours. */
static bool is_nothing(const crn_cuda_action *a) {
    return a->kind == CRN_DO_DISCARD || a->kind == CRN_DO_EVENT || a->kind == CRN_DO_NOTHING;
}

/* The next call of this kind, at most a few actions further on. */
static uint32_t next_call(const list *l, uint32_t from, cairn_op_kind kind) {
    uint32_t passed = 0;
    for (uint32_t i = from + 1; i < l->count && passed <= FAR; i++) {
        const crn_cuda_action *a = &l->actions[i];
        if (a->kind == CRN_DO_CALL && a->call.op->kind == kind)
            return a->fused[0] == NULL && a->fused[1] == NULL && a->fused[2] == NULL ? i : NOBODY;
        passed += !is_nothing(a);
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

/* ---- Actions between neighbours ---- */

static bool call_touches(const crn_call *call, const void *at, uint64_t bytes, bool writes) {
    crn_access all[MOST_ACCESSES];
    uint32_t count = crn_call_accesses(call, all, MOST_ACCESSES);
    if (count > MOST_ACCESSES)
        return true;
    for (uint32_t i = 0; i < count; i++)
        if ((all[i].writes || !writes) && !are_apart(all[i].at, all[i].bytes, at, bytes))
            return true;
    return false;
}

/* The same for an update: of one parameter, or of all. */
static bool update_touches(const crn_update *update, const void *at, uint64_t bytes, bool writes) {
    const crn_parameter *p = update->parameters;
    uint64_t length = p->elements * sizeof(float);
    bool touched = update->count > 1 || !are_apart(p->value, length, at, bytes) ||
                   (p->copy != NULL && !are_apart(p->copy, length / 2, at, bytes)) ||
                   (!writes && !are_apart(p->gradient, length, at, bytes)) ||
                   (!writes && !are_apart(update->squares, sizeof(float), at, bytes)) ||
                   !are_apart(update->squares_out, sizeof(float), at, bytes);
    for (uint32_t slot = 0; slot < update->slot_count && !touched; slot++)
        touched = !are_apart(p->slots[slot], length, at, bytes);
    return touched;
}

/* Whether an action reads or writes some of the bytes; with `writes`, whether it writes some. */
static bool touches(const crn_cuda_action *a, const void *at, uint64_t bytes, bool writes) {
    switch ((crn_action_kind)a->kind) {
    case CRN_DO_CALL:
        for (size_t i = 0; i < CRN_LENGTH(a->fused); i++)
            if (a->fused[i] != NULL && call_touches(a->fused[i], at, bytes, writes))
                return true;
        if (a->column_sums != NULL && !are_apart(a->column_sums, a->bytes, at, bytes))
            return true;
        return call_touches(&a->call, at, bytes, writes);
    case CRN_DO_COPY:
        return !are_apart(a->to, a->bytes, at, bytes) ||
               (!writes && !are_apart(a->from, a->bytes, at, bytes));
    case CRN_DO_ACCUMULATE:
    case CRN_DO_UPDATE:
    case CRN_DO_SQUARES:
        return update_touches(a->update, at, bytes, writes);
    case CRN_DO_EVENT:
    case CRN_DO_DISCARD:
    case CRN_DO_NOTHING:
        return false;
    default:
        return true;
    }
}

/* Whether a call can be moved over all actions between two actions, except action `except`. */
static bool can_move(const list *l, uint32_t from, uint32_t to, const crn_call *call,
                     uint32_t except) {
    crn_access moved[MOST_ACCESSES];
    uint32_t count = crn_call_accesses(call, moved, MOST_ACCESSES);
    for (uint32_t i = from + 1; i < to; i++)
        for (uint32_t k = 0; k < CRN_MIN(count, MOST_ACCESSES); k++)
            if (i != except &&
                touches(&l->actions[i], moved[k].at, moved[k].bytes, !moved[k].writes))
                return false;
    return count <= MOST_ACCESSES;
}

/* Whether no action between two actions, except action `except`, accesses what `maker` makes. */
static bool is_untouched(const list *l, uint32_t from, uint32_t to, const crn_call *maker,
                         uint32_t except) {
    uint64_t bytes = maker->storage[maker->op->outputs[0]].bytes;
    for (uint32_t i = from + 1; i < to; i++)
        if (i != except && touches(&l->actions[i], maker->outputs[0], bytes, false))
            return false;
    return true;
}

/* Whether the bytes are discarded before anything after action `from` can read them. */
static bool is_dead_after(const list *l, uint32_t from, const void *at, uint64_t bytes) {
    uint32_t passed = 0;
    for (uint32_t i = from + 1; i < l->count && passed <= FAR; i++) {
        const crn_cuda_action *a = &l->actions[i];
        if (a->kind == CRN_DO_DISCARD && covers(a->to, a->bytes, at, bytes))
            return true;
        if (touches(a, at, bytes, false))
            return false;
        passed += !is_nothing(a);
    }
    return false;
}

/* ---- Operands ---- */

static bool are_alike(const crn_call *a, cairn_id x, const crn_call *b, cairn_id y) {
    const crn_storage *s = &a->storage[x], *t = &b->storage[y];
    return s->format == t->format && s->block == t->block && s->bytes == t->bytes &&
           s->type == t->type;
}

/* Whether the tensor is an image that needs no staging. */
static bool is_ready(const crn_call *call, cairn_id id) {
    crn_site site = crn_site_of(call);
    return !crn_cuda_view(&site, id).staged;
}

static uint64_t bytes_of(const crn_call *call, cairn_id id) {
    return call->storage[id].bytes;
}

static bool is_row_norm(cairn_op_kind kind) {
    return kind == CAIRN_OP_LAYER_NORM || kind == CAIRN_OP_RMS_NORM;
}

static bool is_row_norm_bwd(cairn_op_kind kind) {
    return kind == CAIRN_OP_LAYER_NORM_BWD || kind == CAIRN_OP_RMS_NORM_BWD;
}

/* Whether a norm reads or writes the tensor where it is: an image, or a matrix if it is one of
 * rows. */
static bool is_used_directly(const crn_call *norm, cairn_id id) {
    return is_row_norm(norm->op->kind) || is_row_norm_bwd(norm->op->kind)
               ? norm->storage[id].format != CRN_CHANNELS_LAST
               : is_ready(norm, id);
}

/* Whether the written tensor is separate from the one that is read, or overlaps it element by
 * element. */
static bool may_lie_on(const crn_call *a, const void *written, cairn_id x, const crn_call *b,
                       const void *read, cairn_id y) {
    return (written == read && bytes_of(a, x) == bytes_of(b, y)) ||
           are_apart(written, bytes_of(a, x), read, bytes_of(b, y));
}

/* Whether the output of `maker` need not be written: `last`, its reader, makes its result in place
 * of it, or the plan discards it. */
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

/* A ReLU after action `i`, which made `of` and is fused with action `first`; NOBODY: there is none
 * that can be fused too. */
static uint32_t relu_behind(const list *l, uint32_t first, uint32_t i, const crn_call *of) {
    uint32_t r = next_call(l, i, CAIRN_OP_RELU);
    return r != NOBODY && reads_result(call_at(l, r), of) &&
                   is_spared(l, of, r, call_at(l, r)->outputs[0]) &&
                   can_move(l, first, r, call_at(l, r), i) && is_untouched(l, first, r, of, i)
               ? r
               : NOBODY;
}

/* An addition of the result of batch-norm `i` and another tensor. */
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
                   is_spared(l, norm, a, add->outputs[0]) && can_move(l, i, a, add, NOBODY) &&
                   is_untouched(l, i, a, norm, NOBODY)
               ? a
               : NOBODY;
}

/* Whether the result of `last` may be written while the batch-norm's input and the added tensor are
 * read. */
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
    uint32_t relu = relu_behind(l, i, last, call_at(l, last));
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
    uint32_t relu = relu_behind(l, i, i, &action->call);
    if (relu == NOBODY || call_at(l, relu)->outputs[0] != action->call.outputs[0] ||
        !is_ready(&action->call, action->call.op->outputs[0]))
        return;
    action->fused[1] = call_at(l, relu);
    drop(l, relu);
}

/* Whether the workspace of the batch-norm's backward is separate from the operands of `other`,
 * which the fused op reads. */
static bool is_workspace_apart(const crn_call *norm, const crn_call *other) {
    for (uint32_t i = 0; i < other->op->input_count; i++)
        if (!are_apart(norm->workspace, norm->workspace_bytes, other->inputs[i],
                       bytes_of(other, other->op->inputs[i])))
            return false;
    return true;
}

/* Whether the memory at this address is discarded between two actions. */
static bool is_discarded(const list *l, uint32_t from, uint32_t to, const void *at) {
    for (uint32_t i = from + 1; i < to; i++)
        if (l->actions[i].kind == CRN_DO_DISCARD &&
            covers(l->actions[i].to, l->actions[i].bytes, at, 1))
            return true;
    return false;
}

/* The bias of the batch-norm whose backward is call `n`, or NULL. It is given if the ReLU after the
 * batch-norm reads exactly its result, and if the output of relu_bwd `i` need not be written: then
 * the gradient is read twice, while gx is written. The bias is still the one of the forward pass:
 * its update comes behind its gradient. If its home is the host, it may have been freed since. */
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
            return is_discarded(l, k, n, call_at(l, k)->params[1]) ? NULL
                                                                   : call_at(l, k)->params[1];
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

/* The accumulate before relu_bwd `i` that makes its gradient, or NOBODY. */
static uint32_t sum_before(const list *l, uint32_t i) {
    uint32_t passed = 0;
    for (uint32_t k = i; k-- > 0 && passed <= FAR;) {
        const crn_cuda_action *a = &l->actions[k];
        if (a->kind == CRN_DO_CALL && a->call.op->kind == CAIRN_OP_ACCUMULATE &&
            a->fused[1] == NULL && a->call.outputs[0] == call_at(l, i)->inputs[1])
            return k;
        passed += !is_nothing(a);
    }
    return NOBODY;
}

/* Fuse relu_bwd `i` with the batch_norm_bwd after it, and with the accumulate before it. */
static void fuse_norm_bwd(list *l, uint32_t i) {
    const crn_call *relu = call_at(l, i);
    uint32_t n = next_call(l, i, CAIRN_OP_BATCH_NORM_BWD);
    if (n == NOBODY)
        return;
    const crn_call *norm = call_at(l, n);
    cairn_id gy = norm->op->inputs[2];
    if (norm->inputs[2] != relu->outputs[0] || !can_move(l, i, n, relu, NOBODY) ||
        !is_ready(norm, gy) || !is_ready(norm, norm->op->inputs[0]) ||
        !are_alike(norm, gy, relu, relu->op->inputs[0]) ||
        !are_alike(norm, gy, relu, relu->op->inputs[1]))
        return;
    l->actions[n].fused[1] = relu;
    if (!is_workspace_apart(norm, relu))
        l->actions[n].scratch_bytes = norm->workspace_bytes;
    uint32_t sum = sum_before(l, i);
    if (sum != NOBODY && joins_sum(l, sum, i, norm) && can_move(l, sum, n, call_at(l, sum), i)) {
        l->actions[n].fused[0] = call_at(l, sum);
        if (!is_workspace_apart(norm, call_at(l, sum)))
            l->actions[n].scratch_bytes = norm->workspace_bytes;
        drop(l, sum);
    } else {
        l->actions[n].beta = bias_for_mask(l, i, n);
    }
    drop(l, i);
}

/* What fuse_norm_bwd() looks for, as a graph says it: solvers keep these next to each other. */
cairn_id crn_cuda_fused_before(const cairn_graph *graph, cairn_id id) {
    const cairn_op *op = cairn_graph_op(graph, id);
    bool norm = op->kind == CAIRN_OP_BATCH_NORM_BWD;
    if (!norm && op->kind != CAIRN_OP_RELU_BWD)
        return CAIRN_NONE;
    cairn_id before = cairn_graph_tensor(graph, op->inputs[norm ? 2 : 1])->producer;
    cairn_op_kind kind = norm ? CAIRN_OP_RELU_BWD : CAIRN_OP_ACCUMULATE;
    return before != CAIRN_NONE && cairn_graph_op(graph, before)->kind == kind ? before
                                                                               : CAIRN_NONE;
}

/* Whether what `writer` writes is separate from the operands of `call`, or overlaps them element by
 * element. */
static bool is_apart_from(const crn_call *writer, const crn_call *call) {
    for (uint32_t i = 0; i < call->op->input_count; i++)
        if (!may_lie_on(writer, writer->outputs[0], writer->op->outputs[0], call, call->inputs[i],
                        call->op->inputs[i]))
            return false;
    return true;
}

/* Fuse the backward of norm `n` with the accumulate after it, which adds another tensor to its
 * result. */
static void fuse_sum_behind(list *l, uint32_t n) {
    crn_cuda_action *action = &l->actions[n];
    const crn_call *norm = &action->call;
    uint32_t s = next_call(l, n, CAIRN_OP_ACCUMULATE);
    if (s == NOBODY || norm->outputs[0] == NULL || !is_used_directly(norm, norm->op->outputs[0]) ||
        !is_used_directly(norm, norm->op->inputs[0]) ||
        !is_used_directly(norm, norm->op->inputs[2]))
        return;
    const crn_call *sum = call_at(l, s);
    bool first = sum->inputs[0] == norm->outputs[0], second = sum->inputs[1] == norm->outputs[0];
    if (first == second || !can_move(l, n, s, sum, NOBODY) ||
        !is_untouched(l, n, s, norm, NOBODY) || !is_spared(l, norm, s, sum->outputs[0]) ||
        !is_apart_from(sum, norm) || !is_apart_from(sum, sum) || !is_workspace_apart(norm, sum) ||
        !are_apart(norm->workspace, norm->workspace_bytes, sum->outputs[0],
                   bytes_of(sum, sum->op->outputs[0])))
        return;
    for (uint32_t i = 0; i < 2; i++) {
        if (!are_alike(norm, norm->op->outputs[0], sum, sum->op->inputs[i]) ||
            (action->fused[i] != NULL && !is_apart_from(sum, action->fused[i])))
            return;
    }
    action->fused[2] = sum;
    drop(l, s);
}

static bool is_made_by_norm(const cairn_graph *graph, cairn_id tensor) {
    cairn_id producer = cairn_graph_tensor(graph, tensor)->producer;
    return producer != CAIRN_NONE && is_row_norm_bwd(cairn_graph_op(graph, producer)->kind);
}

bool crn_cuda_bias_behind_norm(const cairn_graph *graph, const cairn_op *op) {
    cairn_id producer = cairn_graph_tensor(graph, op->inputs[1])->producer;
    if (producer == CAIRN_NONE)
        return false;
    const cairn_op *maker = cairn_graph_op(graph, producer);
    return is_row_norm_bwd(maker->kind) ||
           (maker->kind == CAIRN_OP_ACCUMULATE &&
            (is_made_by_norm(graph, maker->inputs[0]) || is_made_by_norm(graph, maker->inputs[1])));
}

/* Let the backward of norm `n`, with the accumulate that is fused with it, add up the columns of
 * its result for the bias of the linear layer after it. */
static void fuse_bias_sums(list *l, uint32_t n) {
    crn_cuda_action *action = &l->actions[n];
    const crn_call *norm = &action->call, *maker = action->fused[2] ? action->fused[2] : norm;
    uint32_t w = next_call(l, n, CAIRN_OP_LINEAR_BWD_WEIGHT);
    if (w == NOBODY || maker->outputs[0] == NULL || norm->outputs[1] == NULL)
        return;
    const crn_call *layer = call_at(l, w);
    const cairn_op *op = layer->op;
    if (op->output_count < 2 || layer->outputs[1] == NULL ||
        op->inputs[1] != maker->op->outputs[0] || layer->inputs[1] != maker->outputs[0] ||
        !crn_cuda_bias_behind_norm(layer->graph, op) ||
        !are_alike(layer, op->inputs[1], norm, norm->op->inputs[2]))
        return;
    const cairn_tensor *made = cairn_graph_tensor(layer->graph, op->inputs[1]);
    uint32_t element =
        layer->storage[op->inputs[1]].type == CRN_BF16 ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32;
    if (!crn_row_norm_can_sum(element, made->shape[made->rank - 1]))
        return;
    uint64_t bytes = bytes_of(layer, op->outputs[1]);
    for (uint32_t i = n; i < w; i++)
        if (touches(&l->actions[i], layer->outputs[1], bytes, false))
            return;
    action->column_sums = layer->outputs[1];
    action->bytes = bytes;
    l->actions[w].bias_made = true;
}

/* Fuse addition `i` with the norm of rows after it, which reads the sum. It is still written. */
static void fuse_row_norm(list *l, uint32_t i) {
    const crn_call *add = call_at(l, i);
    uint32_t n = next_call(l, i, CAIRN_OP_LAYER_NORM);
    if (n == NOBODY)
        n = next_call(l, i, CAIRN_OP_RMS_NORM);
    if (n == NOBODY)
        return;
    const crn_call *norm = call_at(l, n);
    cairn_id y = norm->op->outputs[0];
    if (norm->inputs[0] != add->outputs[0] || !is_used_directly(norm, y) ||
        !are_alike(norm, y, add, add->op->outputs[0]) || !is_apart_from(norm, add) ||
        !can_move(l, i, n, add, NOBODY))
        return;
    for (uint32_t k = 0; k < 2; k++)
        if (!are_alike(norm, y, add, add->op->inputs[k]) ||
            (norm->outputs[1] != NULL &&
             !are_apart(norm->outputs[1], bytes_of(norm, norm->op->outputs[1]), add->inputs[k],
                        bytes_of(add, add->op->inputs[k]))))
            return;
    l->actions[n].fused[0] = add;
    drop(l, i);
}

/* Fuse relu_bwd `i` with the gradients of a convolution's weight and bias after it, or gelu_bwd `i`
 * with those of a linear layer. */
static void fuse_bias_bwd(list *l, uint32_t i) {
    const crn_call *gate = call_at(l, i);
    bool relu = gate->op->kind == CAIRN_OP_RELU_BWD;
    uint32_t n = next_call(l, i, relu ? CAIRN_OP_CONV2D_BWD_WEIGHT : CAIRN_OP_LINEAR_BWD_WEIGHT);
    if (n == NOBODY)
        return;
    const crn_call *layer = call_at(l, n);
    const cairn_op *op = layer->op;
    if (!can_move(l, i, n, gate, NOBODY) || op->output_count < 2 || layer->outputs[1] == NULL ||
        layer->inputs[1] != gate->outputs[0] || !is_ready(layer, op->inputs[1]))
        return;
    for (uint32_t k = 0; k < 2; k++)
        if (!are_alike(layer, op->inputs[1], gate, gate->op->inputs[k]) ||
            !are_apart(layer->outputs[1], bytes_of(layer, op->outputs[1]), gate->inputs[k],
                       bytes_of(gate, gate->op->inputs[k])))
            return;
    crn_site site = crn_site_of(layer);
    crn_view gy = crn_cuda_view(&site, op->inputs[1]);
    l->actions[n].fused[1] = gate;
    if (!is_workspace_apart(layer, gate))
        l->actions[n].scratch_bytes = crn_cuda_column_sums_bytes(&gy);
    drop(l, i);
}

/* The accumulate before relu_bwd `i`, where nothing behind that can be joined: an op that is run
 * again may have the memory of what the ReLU made. */
static void fuse_sum_relu(list *l, uint32_t i) {
    uint32_t s = sum_before(l, i);
    if (s == NOBODY)
        return;
    const crn_call *relu = call_at(l, i), *sum = call_at(l, s);
    cairn_id gx = relu->op->outputs[0];
    for (uint32_t k = 0; k < 2; k++)
        if (!are_alike(relu, gx, sum, sum->op->inputs[k]) ||
            !are_alike(relu, gx, relu, relu->op->inputs[k]) ||
            !may_lie_on(relu, relu->outputs[0], gx, sum, sum->inputs[k], sum->op->inputs[k]))
            return;
    if (!may_lie_on(relu, relu->outputs[0], gx, relu, relu->inputs[0], relu->op->inputs[0]) ||
        !is_spared(l, sum, i, relu->outputs[0]) || !can_move(l, s, i, sum, NOBODY))
        return;
    l->actions[i].fused[0] = sum;
    drop(l, s);
}

void crn_cuda_fuse(crn_cuda_action *actions, uint32_t count) {
    list l = {actions, count};
    for (uint32_t i = 0; i < count; i++) {
        crn_cuda_action *a = &actions[i];
        if (is_nothing(a))
            continue;
        bool is_call = a->kind == CRN_DO_CALL;
        cairn_op_kind kind = is_call ? a->call.op->kind : CAIRN_OP_OPAQUE;
        if (kind == CAIRN_OP_BATCH_NORM)
            fuse_norm(&l, i);
        else if (kind == CAIRN_OP_ADD || (kind == CAIRN_OP_CONV2D && a->call.op->param_count > 1)) {
            fuse_relu(&l, i);
            if (kind == CAIRN_OP_ADD && a->fused[1] == NULL)
                fuse_row_norm(&l, i);
        } else if (kind == CAIRN_OP_RELU_BWD) {
            fuse_norm_bwd(&l, i);
            if (a->kind == CRN_DO_CALL)
                fuse_bias_bwd(&l, i);
            if (a->kind == CRN_DO_CALL)
                fuse_sum_relu(&l, i);
        } else if (kind == CAIRN_OP_GELU_BWD) {
            fuse_bias_bwd(&l, i);
        } else if (kind == CAIRN_OP_BATCH_NORM_BWD || is_row_norm_bwd(kind)) {
            fuse_sum_behind(&l, i);
            if (is_row_norm_bwd(kind))
                fuse_bias_sums(&l, i);
        }
    }
}
