/* delay_gradients.c: another order of the ops of a step with updates.
 *
 * A large layer whose input is small, such as the first of VGG-16's last three, makes a gradient
 * that is many times as large as what it is made of. It does so where the backward pass begins and
 * all activations are in memory. Its op can wait, with its updates, until some of them are freed:
 *
 *     before   fc.bwd_weight  fc.bwd_data  fc.weight.update  pool.bwd  conv.bwd_data ...
 *     after    fc.bwd_data  pool.bwd  conv.bwd_data  fc.bwd_weight  fc.weight.update ...
 *
 * An op moves as little as it must for the peak of a step that keeps everything. Nothing moves if
 * gradients do not set the peak. The results do not depend on it: no sum changes its order. What a
 * delayed op reads cannot be recomputed there, because parameters that this takes may have been
 * updated. So the ops that make it run only once.
 * O(ops * moved ops). */
#include "graph/graph_internal.h"

#define LEAST_RATIO 4  /* of a gradient to what must wait with it */
#define LEAST_SHARE 32 /* of the peak: a smaller gradient is not worth it */

typedef struct storage {
    uint64_t bytes;       /* 0: not a tensor of the plan */
    uint32_t first, last; /* places of the ops that make it and that read it last */
} storage;

typedef struct work {
    const cairn_graph *step;
    crn_arena *scratch;
    storage *storages; /* per tensor */
    uint64_t *live;    /* per op, in memory while it runs; gradients that may wait do not count */
    uint64_t *between; /* per op, in memory before it runs; the same */
    bool *moves;       /* per op: it may wait */
    uint32_t *to;      /* per op: the one that it comes before; itself: it stays */
    uint64_t limit;
} work;

static const cairn_op *op_at(const work *at, uint32_t place) {
    return &at->step->ops.data[place];
}

static cairn_id storage_of(const work *at, cairn_id tensor) {
    return crn_graph_storage(at->step, tensor);
}

/* Whether updates read the tensor, and nothing else. */
static bool is_final_gradient(const work *at, cairn_id tensor) {
    if (tensor == CAIRN_NONE)
        return false;
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(at->step, tensor, &count);
    for (uint32_t i = 0; i < count; i++)
        if (op_at(at, readers[i])->kind != CAIRN_OP_UPDATE)
            return false;
    return count > 0 && storage_of(at, tensor) == tensor;
}

/* The bytes that op `place` makes, all of them gradients that only updates read; else 0. */
static uint64_t gradients_of(const work *at, uint32_t place) {
    const cairn_op *op = op_at(at, place);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (!is_final_gradient(at, op->outputs[i]))
            return 0;
        bytes += crn_align(at->step->tensors.data[op->outputs[i]].bytes);
    }
    return op->phase == CAIRN_PHASE_BACKWARD && op->inplace_count == 0 ? bytes : 0;
}

/* What the op reads that nothing else reads at `place` or later. */
static uint64_t held_for(const work *at, const cairn_op *op, uint32_t place) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const storage *s = &at->storages[storage_of(at, op->inputs[i])];
        bytes += s->last < place ? s->bytes : 0;
    }
    return bytes;
}

/* ---- Memory ---- */

static void find_storages(work *at) {
    const cairn_graph *g = at->step;
    for (uint32_t place = 0; place < g->ops.length; place++) {
        const cairn_op *op = op_at(at, place);
        for (uint32_t i = 0; i < op->input_count; i++)
            at->storages[storage_of(at, op->inputs[i])].last = place;
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (op->outputs[i] == CAIRN_NONE)
                continue;
            storage *s = &at->storages[storage_of(at, op->outputs[i])];
            s->last = place;
            if (storage_of(at, op->outputs[i]) == op->outputs[i])
                s->first = place;
        }
    }
    for (cairn_id t = 0; t < g->tensors.length; t++)
        if (!g->tensors.data[t].stationary && storage_of(at, t) == t)
            at->storages[t].bytes = crn_align(g->tensors.data[t].bytes);
}

static void hold(work *at, uint32_t first, uint32_t last, uint64_t bytes) {
    for (uint32_t i = first; i <= last; i++) {
        at->live[i] += bytes;
        at->between[i] += i > first ? bytes : 0;
    }
}

/* The last update that reads what an op makes. */
static uint32_t last_use(const work *at, uint32_t place) {
    const cairn_op *op = op_at(at, place);
    uint32_t last = place;
    for (uint32_t i = 0; i < op->output_count; i++)
        last = CRN_MAX(last, at->storages[op->outputs[i]].last);
    return last;
}

/* The memory of the step without gradients that may wait. */
static void add_up(work *at) {
    const cairn_graph *g = at->step;
    for (uint32_t place = 0; place < g->ops.length; place++) {
        uint64_t made = gradients_of(at, place);
        at->moves[place] =
            made > 0 && made >= LEAST_RATIO * held_for(at, op_at(at, place), UINT32_MAX);
        for (uint32_t i = 0; i < op_at(at, place)->output_count && at->moves[place]; i++)
            at->storages[op_at(at, place)->outputs[i]].bytes = 0;
    }
    for (cairn_id t = 0; t < g->tensors.length; t++)
        if (at->storages[t].bytes > 0)
            hold(at, at->storages[t].first, at->storages[t].last, at->storages[t].bytes);
}

static void find_limit(work *at) {
    for (uint32_t place = 0; place < at->step->ops.length; place++)
        at->limit = CRN_MAX(at->limit, at->live[place]);
}

/* Small gradients stay where they are. */
static void leave_small(work *at) {
    for (uint32_t place = 0; place < at->step->ops.length; place++) {
        uint64_t made = at->moves[place] ? gradients_of(at, place) : 0;
        if (made == 0 || made >= at->limit / LEAST_SHARE)
            continue;
        at->moves[place] = false;
        hold(at, place, last_use(at, place), made);
    }
}

/* ---- Places ---- */

/* The memory if the op runs where it is. */
static uint64_t memory_here(const work *at, uint32_t place) {
    uint64_t most = 0;
    for (uint32_t i = place; i <= last_use(at, place); i++)
        most = CRN_MAX(most, at->live[i]);
    return most + gradients_of(at, place);
}

/* The memory if the op runs before op `to`. */
static uint64_t memory_before(const work *at, uint32_t place, uint32_t to) {
    uint64_t rest = to < at->step->ops.length ? at->between[to] : 0;
    return rest + held_for(at, op_at(at, place), to) + gradients_of(at, place);
}

/* No order needs less for this op. */
static uint64_t least_memory(const work *at, uint32_t place) {
    uint64_t least = memory_here(at, place);
    for (uint32_t to = last_use(at, place) + 1; to <= at->step->ops.length; to++)
        least = CRN_MIN(least, memory_before(at, place, to));
    return least;
}

/* The first place within the limit; `place` itself: it stays. */
static uint32_t find_place(const work *at, uint32_t place) {
    if (memory_here(at, place) <= at->limit)
        return place;
    for (uint32_t to = last_use(at, place) + 1; to <= at->step->ops.length; to++)
        if (memory_before(at, place, to) <= at->limit)
            return to;
    return place;
}

/* What the op reads stays in memory up to op `to`. */
static void wait_until(work *at, uint32_t place, uint32_t to) {
    const cairn_op *op = op_at(at, place);
    for (uint32_t i = 0; i < op->input_count; i++) {
        storage *s = &at->storages[storage_of(at, op->inputs[i])];
        uint32_t last = CRN_MIN(to, at->step->ops.length - 1);
        if (s->last >= last)
            continue;
        for (uint32_t k = s->last + 1; k <= last; k++) {
            at->live[k] += s->bytes;
            at->between[k] += s->bytes;
        }
        s->last = last;
    }
}

/* The op goes before op `to`, and its updates with it. */
static void move(work *at, uint32_t place, uint32_t to) {
    const cairn_op *op = op_at(at, place);
    uint32_t count;
    at->to[place] = to;
    for (uint32_t i = 0; i < op->output_count; i++) {
        const cairn_id *readers = crn_graph_readers(at->step, op->outputs[i], &count);
        for (uint32_t k = 0; k < count; k++)
            at->to[readers[k]] = to;
    }
    wait_until(at, place, to);
}

/* Find the places. Returns whether any op moves. */
static bool find_places(work *at) {
    bool any = false;
    for (uint32_t place = 0; place < at->step->ops.length; place++)
        at->to[place] = place;
    for (uint32_t place = 0; place < at->step->ops.length; place++)
        if (at->moves[place])
            at->limit = CRN_MAX(at->limit, least_memory(at, place));
    for (uint32_t place = 0; place < at->step->ops.length; place++) {
        uint32_t to = at->moves[place] ? find_place(at, place) : place;
        any = any || to != place;
        if (to != place)
            move(at, place, to);
        else if (at->moves[place])
            hold(at, place, last_use(at, place), gradients_of(at, place));
    }
    return any;
}

/* ---- The new graph ---- */

/* List the ops, each behind those that waited for its place. */
static cairn_status list_order(const work *at, cairn_id *order) {
    uint32_t count = at->step->ops.length, next = 0;
    cairn_id *first, *after; /* per place: who waited for it */
    CRN_TAKE(at->scratch, first, count + 1);
    CRN_TAKE(at->scratch, after, count);
    memset(first, 0xff, (count + 1) * sizeof *first);
    for (cairn_id o = count; o-- > 0;)
        if (at->to[o] != o) {
            after[o] = first[at->to[o]];
            first[at->to[o]] = o;
        }
    for (uint32_t place = 0; place <= count; place++) {
        for (cairn_id o = first[place]; o != CAIRN_NONE; o = after[o])
            order[next++] = o;
        if (place < count && at->to[place] == place)
            order[next++] = place;
    }
    return CAIRN_OK;
}

/* Mark the ops that make what delayed ops read. */
static cairn_status find_read_late(const work *at, bool **out) {
    CRN_TAKE(at->scratch, *out, at->step->ops.length);
    for (uint32_t place = 0; place < at->step->ops.length; place++) {
        const cairn_op *op = op_at(at, place);
        for (uint32_t i = 0; i < op->input_count && at->to[place] != place; i++) {
            cairn_id made = at->step->tensors.data[op->inputs[i]].producer;
            cairn_id stored = at->step->tensors.data[storage_of(at, op->inputs[i])].producer;
            if (made != CAIRN_NONE)
                (*out)[made] = true;
            if (stored != CAIRN_NONE)
                (*out)[stored] = true;
        }
    }
    return CAIRN_OK;
}

static cairn_status copy_in_order(const work *at, const cairn_id *order, cairn_builder *builder) {
    bool *read_late;
    CRN_TRY(find_read_late(at, &read_late));
    for (cairn_id t = 0; t < at->step->tensors.length; t++)
        CRN_TRY(crn_builder_add_tensor(builder, &at->step->tensors.data[t], &(cairn_id){0}));
    for (uint32_t i = 0; i < at->step->ops.length; i++) {
        cairn_op op = at->step->ops.data[order[i]];
        if (read_late[order[i]] && op.phase == CAIRN_PHASE_FORWARD)
            op.flags |= CAIRN_OP_FLAG_NEVER_AGAIN;
        CRN_TRY(crn_builder_add_op(builder, &op, &(cairn_id){0}));
    }
    return CAIRN_OK;
}

static cairn_status build(const work *at, const cairn_id *order, cairn_graph **out,
                          cairn_error *err) {
    cairn_builder *builder;
    CRN_TRY(cairn_builder_create(&at->step->arena.allocator, at->step->name, &builder));
    cairn_status status = copy_in_order(at, order, builder);
    if (status == CAIRN_OK)
        status = cairn_builder_finish(builder, out, err);
    cairn_builder_destroy(builder);
    return status;
}

cairn_status crn_graph_delay(const cairn_graph *step, crn_arena *scratch, cairn_id *order,
                             cairn_graph **out, cairn_error *err) {
    work at = {.step = step, .scratch = scratch};
    *out = NULL;
    CRN_TAKE(scratch, at.storages, step->tensors.length);
    CRN_TAKE(scratch, at.live, step->ops.length);
    CRN_TAKE(scratch, at.between, step->ops.length);
    CRN_TAKE(scratch, at.moves, step->ops.length);
    CRN_TAKE(scratch, at.to, step->ops.length);
    find_storages(&at);
    add_up(&at);
    find_limit(&at);
    leave_small(&at);
    find_limit(&at);
    if (!find_places(&at))
        return CAIRN_OK;
    CRN_TRY(list_order(&at, order));
    return build(&at, order, out, err);
}
