/* updates.c: adds the updates of the parameters to a training step.
 *
 *     ops      ... conv.bwd_weight  conv.bwd_data  conv.weight.update  bn.bwd ...
 *
 * An update stands behind the last op that reads the parameter or adds to its gradient. So
 * in the order of the list every op sees the parameters as they were before the step. */
#include "graph/graph_internal.h"
#include "graph/crn_graph.h"

#include <stdio.h>

/* Slots that are larger have an update for each chunk. All updates together are few: each is an op
 * to plan, and two copies with a latency. */
#define CHUNK_BYTES ((uint64_t)4 << 20)
#define MOST_CHUNKS 1024 /* of all parameters, and one more for each */

typedef struct work {
    const cairn_graph *step;
    cairn_builder *builder;
    uint32_t slots;
    uint64_t chunk_bytes;
    bool clips, sums;    /* updates read the norm of all gradients; the last slot is a sum */
    cairn_id total;      /* the sum of squares so far, or CAIRN_NONE */
    cairn_id *sum_slots; /* if both: sums in the order of their chunks */
    uint32_t sum_count;
    cairn_id *gradient; /* per tensor that is a parameter: the whole gradient, or CAIRN_NONE */
    cairn_id *last;     /* per tensor that is a parameter: the last op that uses it */
    cairn_id *updated;  /* per op: the first parameter to update after it, or CAIRN_NONE */
    cairn_id *next;     /* per parameter: the next one after the same op */
} work;

/* The parameter of which the tensor is a gradient or a term of one, or CAIRN_NONE. */
static cairn_id parameter_of(const cairn_graph *step, cairn_id tensor) {
    cairn_id of = tensor == CAIRN_NONE ? CAIRN_NONE : step->tensors.data[tensor].gradient_of;
    return of != CAIRN_NONE && step->tensors.data[of].role == CAIRN_ROLE_PARAMETER ? of
                                                                                   : CAIRN_NONE;
}

static void find_last_uses(work *at) {
    const cairn_graph *g = at->step;
    for (cairn_id o = 0; o < g->ops.length; o++) {
        const cairn_op *op = &g->ops.data[o];
        for (uint32_t i = 0; i < op->param_count; i++)
            at->last[op->params[i]] = o;
        for (uint32_t i = 0; i < op->output_count; i++) {
            cairn_id of = parameter_of(g, op->outputs[i]);
            if (of == CAIRN_NONE)
                continue;
            at->last[of] = o;
            if (g->tensors.data[op->outputs[i]].stationary)
                at->gradient[of] = op->outputs[i]; /* of several sums the last one */
        }
    }
}

/* List the parameters behind the op after which they are updated. */
static bool list_updates(work *at) {
    bool any = false;
    for (cairn_id t = at->step->tensors.length; t-- > 0;) {
        if (at->gradient[t] == CAIRN_NONE)
            continue;
        at->next[t] = at->updated[at->last[t]];
        at->updated[at->last[t]] = t;
        any = true;
    }
    return any;
}

/* ---- The new graph ---- */

static cairn_status copy_tensors(work *at) {
    for (cairn_id t = 0; t < at->step->tensors.length; t++) {
        cairn_tensor tensor = at->step->tensors.data[t];
        if (parameter_of(at->step, t) != CAIRN_NONE)
            tensor.stationary = false;
        CRN_TRY(crn_builder_add_tensor(at->builder, &tensor, &(cairn_id){0}));
    }
    return CAIRN_OK;
}

static cairn_status add_slot(work *at, const cairn_tensor *parameter, uint32_t rows, uint32_t slot,
                             const char *ending, cairn_id *out) {
    char name[256];
    cairn_tensor tensor = *parameter;
    snprintf(name, sizeof name, "%s.slot%u%s", parameter->name, slot + 1, ending);
    tensor.name = name;
    tensor.role = CAIRN_ROLE_SLOT;
    if (tensor.rank > 0 && rows < tensor.shape[0]) {
        tensor.shape[0] = rows;
        tensor.bytes = 0; /* as the shape says */
    }
    return crn_builder_add_tensor(at->builder, &tensor, out);
}

/* Rows of a parameter. */
typedef struct chunk {
    cairn_id parameter, of; /* of: the op that the update belongs to */
    uint32_t first, rows;
    char suffix[32]; /* of names; empty: all rows */
} chunk;

static cairn_op op_of(const chunk *p, cairn_op_kind kind) {
    cairn_op op = {.kind = kind,
                   .phase = CAIRN_PHASE_BACKWARD,
                   .of = p->of,
                   .flags = CAIRN_OP_FLAG_ONCE | CAIRN_OP_FLAG_NEVER_AGAIN,
                   .attributes = CAIRN_ATTRIBUTES_INIT};
    op.attributes.index = (int32_t)p->first;
    return op;
}

/* The update of a chunk. Where sums are clipped, it does not read the gradient. */
static cairn_status add_update(work *at, const chunk *p) {
    const cairn_tensor *tensor = &at->step->tensors.data[p->parameter];
    cairn_id params[1 + CAIRN_MOST_SLOTS] = {p->parameter}, inputs[2];
    bool has_sum = at->clips && at->sums;
    cairn_op op = op_of(p, CAIRN_OP_UPDATE);
    char name[256];
    snprintf(name, sizeof name, "%s.update%s", tensor->name, p->suffix);
    for (uint32_t slot = 0; slot < at->slots - has_sum; slot++)
        CRN_TRY(add_slot(at, tensor, p->rows, slot, p->suffix, &params[1 + slot]));
    if (has_sum)
        params[at->slots] = at->sum_slots[at->sum_count++];
    else
        inputs[op.input_count++] = at->gradient[p->parameter];
    if (at->clips)
        inputs[op.input_count++] = at->total;
    op.name = name;
    op.inputs = inputs;
    op.param_count = 1 + at->slots;
    op.params = params;
    return crn_builder_add_op(at->builder, &op, &(cairn_id){0});
}

/* Add the squares of a gradient, or of a chunk of a sum, to the total. */
static cairn_status add_squares(work *at, const chunk *p) {
    const cairn_tensor *tensor = &at->step->tensors.data[p->parameter];
    cairn_id inputs[2] = {at->gradient[p->parameter], at->total}, sum;
    cairn_tensor total = CAIRN_TENSOR_INIT;
    cairn_op op = op_of(p, CAIRN_OP_SQUARE_SUM);
    char name[256];
    snprintf(name, sizeof name, "%s.squares%s", tensor->name, p->suffix);
    total.name = name;
    total.role = CAIRN_ROLE_GRADIENT;
    total.rank = 1;
    total.shape[0] = 1;
    op.name = name;
    op.input_count = at->total == CAIRN_NONE ? 1 : 2;
    op.inputs = inputs;
    if (at->sums) {
        CRN_TRY(add_slot(at, tensor, p->rows, at->slots - 1, p->suffix, &sum));
        at->sum_slots[at->sum_count++] = sum;
        op.param_count = 1;
        op.params = &sum;
    }
    CRN_TRY(crn_builder_add_tensor(at->builder, &total, &at->total));
    op.output_count = 1;
    op.outputs = &at->total;
    return crn_builder_add_op(at->builder, &op, &(cairn_id){0});
}

/* For each chunk of a parameter, or for the whole of it. */
static cairn_status for_chunks(work *at, cairn_id parameter, cairn_id of, bool whole,
                               cairn_status (*add)(work *at, const chunk *p)) {
    const cairn_tensor *tensor = &at->step->tensors.data[parameter];
    uint32_t rows = tensor->rank > 0 ? tensor->shape[0] : 1, most = rows;
    if (at->slots > 0 && tensor->bytes > at->chunk_bytes && !whole)
        most = (uint32_t)CRN_MAX(at->chunk_bytes / CRN_MAX(tensor->bytes / rows, 1), 1);
    for (uint32_t first = 0; first < rows; first += most) {
        chunk p = {.parameter = parameter, .of = of, .first = first};
        p.rows = CRN_MIN(most, rows - first);
        if (tensor->rank > 0 && p.rows < tensor->shape[0])
            snprintf(p.suffix, sizeof p.suffix, ".row%u", first);
        CRN_TRY(add(at, &p));
    }
    return CAIRN_OK;
}

/* A power of two. */
static uint64_t find_chunk_bytes(const work *at) {
    uint64_t all = 0, bytes = CHUNK_BYTES;
    for (cairn_id t = 0; t < at->step->tensors.length; t++)
        if (at->gradient[t] != CAIRN_NONE)
            all += at->step->tensors.data[t].bytes;
    while (all / bytes >= MOST_CHUNKS)
        bytes *= 2;
    return bytes;
}

static cairn_status copy_ops(work *at) {
    for (cairn_id o = 0; o < at->step->ops.length; o++) {
        const cairn_op *op = &at->step->ops.data[o];
        CRN_TRY(crn_builder_add_op(at->builder, op, &(cairn_id){0}));
        for (cairn_id p = at->updated[o]; p != CAIRN_NONE; p = at->next[p])
            CRN_TRY(for_chunks(at, p, op->of, at->clips && !at->sums,
                               at->clips ? add_squares : add_update));
    }
    return CAIRN_OK;
}

/* Updates that read the norm of all gradients, in the order in which those are made. */
static cairn_status add_clipped(work *at) {
    at->sum_count = 0;
    for (cairn_id o = 0; o < at->step->ops.length; o++)
        for (cairn_id p = at->updated[o]; p != CAIRN_NONE; p = at->next[p])
            CRN_TRY(for_chunks(at, p, at->step->ops.data[o].of, false, add_update));
    return CAIRN_OK;
}

static cairn_status fill_list(crn_arena *scratch, uint32_t count, cairn_id **out) {
    CRN_TAKE(scratch, *out, count);
    for (uint32_t i = 0; i < count; i++)
        (*out)[i] = CAIRN_NONE;
    return CAIRN_OK;
}

static cairn_status add_all(work *at, crn_arena *scratch, cairn_error *err) {
    const cairn_graph *g = at->step;
    CRN_TRY(fill_list(scratch, g->tensors.length, &at->gradient));
    CRN_TRY(fill_list(scratch, g->tensors.length, &at->last));
    CRN_TRY(fill_list(scratch, g->ops.length, &at->updated));
    CRN_TRY(fill_list(scratch, g->tensors.length, &at->next));
    find_last_uses(at);
    if (!list_updates(at))
        return crn_fail(err, CAIRN_EINVAL, "graph \"%s\" has no gradient to update a parameter by",
                        g->name);
    at->chunk_bytes = find_chunk_bytes(at);
    CRN_TAKE(scratch, at->sum_slots, (size_t)MOST_CHUNKS + g->tensors.length);
    CRN_TRY(copy_tensors(at));
    CRN_TRY(copy_ops(at));
    return at->clips ? add_clipped(at) : CAIRN_OK;
}

/* Make the step, and release what it was made with. */
static cairn_status finish(work *at, crn_arena *scratch, cairn_status status, cairn_graph **out,
                           cairn_error *err) {
    if (status == CAIRN_OK)
        status = cairn_builder_finish(at->builder, out, err);
    else if (at->builder->err.status == status && err != NULL)
        *err = at->builder->err;
    crn_arena_release(scratch);
    cairn_builder_destroy(at->builder);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

bool crn_op_is_of_optimizer(const cairn_op *op) {
    return op->kind == CAIRN_OP_UPDATE || op->kind == CAIRN_OP_SQUARE_SUM;
}

bool crn_op_updates(const cairn_op *op) {
    return crn_op_is_of_optimizer(op) || (op->flags & CAIRN_OP_FLAG_UPDATES);
}

bool crn_graph_is_square_sum(const cairn_graph *graph, cairn_id tensor) {
    cairn_id producer = graph->tensors.data[tensor].producer;
    return producer < graph->ops.length && graph->ops.data[producer].kind == CAIRN_OP_SQUARE_SUM;
}

void crn_graph_mark_last(const cairn_graph *graph, bool *of_last) {
    for (cairn_id o = 0; o < graph->ops.length; o++) {
        const cairn_op *op = &graph->ops.data[o];
        for (uint32_t i = 1; i + 1 < op->param_count && op->kind == CAIRN_OP_UPDATE; i++)
            of_last[op->params[i]] = true;
    }
}

bool crn_graph_has_updates(const cairn_graph *graph) {
    for (cairn_id o = graph->ops.length; o-- > 0;)
        if (graph->ops.data[o].kind != CAIRN_OP_SQUARE_SUM && crn_op_updates(&graph->ops.data[o]))
            return true;
    return false;
}

static cairn_status add_updates(const cairn_graph *step, uint32_t slots, bool clips, bool sums,
                                cairn_graph **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    if (slots > CAIRN_MOST_SLOTS || crn_graph_has_updates(step))
        return crn_fail(err, CAIRN_EINVAL,
                        slots > CAIRN_MOST_SLOTS ? "graph \"%s\" cannot have more than three slots"
                                                 : "graph \"%s\" has updates already",
                        step->name);
    if (sums && slots == 0)
        return crn_fail(err, CAIRN_EINVAL, "graph \"%s\" needs a slot for sums of gradients",
                        step->name);
    work at = {.step = step, .slots = slots, .clips = clips, .sums = sums, .total = CAIRN_NONE};
    if (cairn_builder_create(&step->arena.allocator, step->name, &at.builder) != CAIRN_OK)
        return crn_fail_memory(err);
    crn_arena scratch;
    crn_arena_init(&scratch, &step->arena.allocator);
    return finish(&at, &scratch, add_all(&at, &scratch, err), out, err);
}

cairn_status cairn_graph_add_updates(const cairn_graph *step, const cairn_updates_options *given,
                                     cairn_graph **out, cairn_error *err) {
    cairn_updates_options options = CAIRN_UPDATES_OPTIONS_INIT;
    *out = NULL;
    CRN_READ_OPTIONS(cairn_updates_options, options, given, err);
    return add_updates(step, options.slots, options.clip, options.sums, out, err);
}

/* ---- Removing updates ---- */

/* A tensor that adding updates added. */
static bool is_added(const cairn_graph *whole, const cairn_tensor *tensor) {
    return tensor->role == CAIRN_ROLE_SLOT ||
           (tensor->producer != CAIRN_NONE && crn_op_updates(&whole->ops.data[tensor->producer]));
}

/* The sum so far that `gradient` was made from, or CAIRN_NONE. */
static cairn_id sum_before(const cairn_graph *whole, cairn_id gradient) {
    const cairn_op *maker = &whole->ops.data[whole->tensors.data[gradient].producer];
    for (uint32_t i = 0; i < maker->inplace_count; i++) {
        cairn_id operand = maker->inputs[maker->inplace[i].input];
        if (maker->outputs[maker->inplace[i].output] == gradient &&
            parameter_of(whole, operand) != CAIRN_NONE)
            return operand;
    }
    return CAIRN_NONE;
}

/* Mark the gradient that an op of the optimiser reads, and the sums that it is made of: they were
 * stationary. */
static void mark_sums(const cairn_graph *whole, cairn_id gradient, bool *stationary) {
    if (is_added(whole, &whole->tensors.data[gradient]))
        return;
    for (; gradient != CAIRN_NONE; gradient = sum_before(whole, gradient))
        stationary[gradient] = true;
}

static cairn_status drop_all(work *at, crn_arena *scratch) {
    const cairn_graph *g = at->step;
    bool *stationary;
    CRN_TAKE(scratch, stationary, g->tensors.length);
    for (cairn_id o = 0; o < g->ops.length; o++)
        if (crn_op_updates(&g->ops.data[o]))
            mark_sums(g, g->ops.data[o].inputs[0], stationary);
    for (cairn_id t = 0; t < g->tensors.length; t++) { /* added ones are the last ones */
        cairn_tensor tensor = g->tensors.data[t];
        tensor.stationary = tensor.stationary || stationary[t];
        if (!is_added(g, &tensor))
            CRN_TRY(crn_builder_add_tensor(at->builder, &tensor, &(cairn_id){0}));
    }
    for (cairn_id o = 0; o < g->ops.length; o++)
        if (!crn_op_updates(&g->ops.data[o]))
            CRN_TRY(crn_builder_add_op(at->builder, &g->ops.data[o], &(cairn_id){0}));
    return CAIRN_OK;
}

cairn_status crn_graph_drop_updates(const cairn_graph *whole, cairn_graph **out, cairn_error *err) {
    work at = {.step = whole};
    *out = NULL;
    if (cairn_builder_create(&whole->arena.allocator, whole->name, &at.builder) != CAIRN_OK)
        return crn_fail_memory(err);
    crn_arena scratch;
    crn_arena_init(&scratch, &whole->arena.allocator);
    return finish(&at, &scratch, drop_all(&at, &scratch), out, err);
}
