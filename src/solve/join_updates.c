/* join_updates.c: see join_updates.h. A gradient stays until its updates run:
 *
 *     before   conv2.bwd_weight  conv2.update  conv1.bwd_weight  conv1.update
 *     after    conv2.bwd_weight  conv1.bwd_weight  conv2.update  conv1.update
 *
 * Gradients are looked at from the last to the first. One that cannot stay up to the place where
 * the later ones are updated is updated where it was, and earlier ones may join it there. */
#include "solve/join_updates.h"

#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"

/* What a plan does with a gradient that only updates read. */
typedef struct use {
    uint32_t first, last; /* its updates; UINT32_MAX: none so far */
    uint32_t freed;       /* UINT32_MAX: never */
    bool fixed;           /* something else happens to it */
} use;

typedef struct work {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_step *steps;
    uint32_t step_count;
    crn_arena *scratch;
    uint64_t *live, peak;
    use *uses;       /* per tensor */
    uint32_t *to;    /* per step: before which it goes; itself: it stays */
    uint32_t *first; /* per place: the first step that goes there, or UINT32_MAX */
    uint32_t *next;  /* per step that moves: the next one for the same place */
} work;

static const cairn_op *update_at(const work *at, uint32_t step) {
    if (at->steps[step].kind != CAIRN_STEP_RUN)
        return NULL;
    const cairn_op *op = cairn_graph_op(at->graph, at->steps[step].id);
    return op->kind == CAIRN_OP_UPDATE && op->input_count == 1 ? op : NULL;
}

static void read_run(work *at, uint32_t step) {
    const cairn_op *op = cairn_graph_op(at->graph, at->steps[step].id);
    const cairn_op *update = update_at(at, step);
    for (uint32_t i = 0; i < op->input_count; i++) {
        use *u = &at->uses[crn_graph_storage(at->graph, op->inputs[i])];
        u->fixed = u->fixed || update == NULL || u->freed != UINT32_MAX;
        u->first = CRN_MIN(u->first, step);
        u->last = step;
    }
}

static void read_uses(work *at) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(at->graph); t++)
        at->uses[t] = (use){.first = UINT32_MAX, .freed = UINT32_MAX};
    for (uint32_t i = 0; i < at->step_count; i++) {
        const cairn_step *step = &at->steps[i];
        if (step->kind == CAIRN_STEP_RUN)
            read_run(at, i);
        else if (step->kind == CAIRN_STEP_FREE && at->uses[step->id].freed == UINT32_MAX)
            at->uses[step->id].freed = i;
        else
            at->uses[step->id].fixed = true; /* a copy, or freed twice */
    }
}

/* Whether the gradient can stay from its updates to `place`. */
static bool can_stay(const work *at, const use *u, uint64_t bytes, uint32_t place) {
    for (uint32_t i = u->freed; i < place; i++)
        if (at->live[i] + bytes > at->peak)
            return false;
    return true;
}

static void move(work *at, const use *u, uint64_t bytes, uint32_t place) {
    for (uint32_t i = u->first; i <= u->last; i++) {
        const cairn_op *op = update_at(at, i);
        if (op != NULL && &at->uses[op->inputs[0]] == u)
            at->to[i] = place;
    }
    at->to[u->freed] = place;
    for (uint32_t i = u->freed; i < place; i++)
        at->live[i] += bytes;
}

/* Find the places of all updates. Returns whether one moves. */
static bool find_places(work *at) {
    uint32_t place = at->step_count;
    bool any = false;
    for (uint32_t i = 0; i < at->step_count; i++)
        at->to[i] = i;
    for (uint32_t i = at->step_count; i-- > 0;) {
        const cairn_op *op = update_at(at, i);
        const use *u = op == NULL ? NULL : &at->uses[op->inputs[0]];
        if (u == NULL || u->last != i || u->fixed || u->freed == UINT32_MAX)
            continue;
        uint64_t bytes = crn_align(cairn_costs_bytes(at->costs)[op->inputs[0]]);
        bool stays = can_stay(at, u, bytes, place);
        if (stays)
            move(at, u, bytes, place);
        else
            place = u->first;
        any = any || stays;
    }
    return any;
}

static cairn_status add_steps(const work *at, uint32_t from, crn_plan_builder *builder) {
    for (uint32_t i = from; i != UINT32_MAX; i = at->next[i])
        CRN_TRY(crn_plan_builder_add(builder, at->steps[i]));
    return CAIRN_OK;
}

static cairn_status emit(work *at, crn_plan_builder *builder) {
    CRN_TAKE(at->scratch, at->first, at->step_count + 1);
    CRN_TAKE(at->scratch, at->next, at->step_count);
    memset(at->first, 0xff, (at->step_count + 1) * sizeof *at->first);
    for (uint32_t i = at->step_count; i-- > 0;)
        if (at->to[i] != i) {
            at->next[i] = at->first[at->to[i]];
            at->first[at->to[i]] = i;
        }
    for (uint32_t i = 0; i < at->step_count; i++) {
        CRN_TRY(add_steps(at, at->first[i], builder));
        if (at->to[i] == i)
            CRN_TRY(crn_plan_builder_add(builder, at->steps[i]));
    }
    return add_steps(at, at->first[at->step_count], builder);
}

static cairn_status join(work *at, const cairn_solution *solution, cairn_plan **out,
                         cairn_error *err) {
    cairn_allocator allocator = crn_graph_allocator(at->graph);
    crn_plan_builder *builder;
    CRN_TAKE(at->scratch, at->uses, cairn_graph_tensor_count(at->graph));
    CRN_TAKE(at->scratch, at->live, at->step_count);
    CRN_TAKE(at->scratch, at->to, at->step_count);
    for (uint32_t i = 0; i < at->step_count; i++)
        at->live[i] = solution->sim->steps[i].bytes;
    read_uses(at);
    if (!find_places(at))
        return CAIRN_OK;
    CRN_TRY(crn_plan_builder_create(&allocator, &builder));
    cairn_status status = emit(at, builder);
    if (status == CAIRN_OK)
        status = crn_plan_builder_finish(builder, at->graph, solution->plan->header, out, err);
    crn_plan_builder_destroy(builder);
    return status;
}

cairn_status crn_join_updates(const cairn_graph *graph, const cairn_costs *costs,
                              const cairn_solution *solution, cairn_plan **out, cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_arena_init(&scratch, &allocator);
    work at = {.graph = graph,
               .costs = costs,
               .steps = solution->plan->steps,
               .step_count = solution->plan->step_count,
               .scratch = &scratch,
               .peak = solution->sim->summary->peak_bytes};
    *out = NULL;
    cairn_status status = join(&at, solution, out, err);
    crn_arena_release(&scratch);
    return status;
}
