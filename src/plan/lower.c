/* lower.c: decisions to steps.
 *
 * Every run, and every fetch, makes new instances of tensors; a read binds to the latest earlier
 * instance. So an instance's life is known before a step is written:
 *
 *     decisions   run A   run B   run C   run A   run D
 *     instances   a1..............|       a2.....|          a1: A's last reader before a2 is C
 *
 * Three passes: bind reads to instances (forwards), drop re-runs nothing wants and find last uses
 * (backwards), write steps (forwards). Two instances of one tensor never overlap. */
#include "plan/lower.h"

#define NO_INSTANCE UINT32_MAX
#define TO_THE_END UINT32_MAX

typedef struct instance {
    cairn_id tensor;
    uint32_t made;     /* the decision that makes it; TO_THE_END: there from the start */
    uint32_t last_use; /* the last decision that reads it; `made` if none does */
    uint32_t source;   /* of a fetched one: the instance that was offloaded */
    uint32_t previous; /* the instance of the same tensor before this */
    bool wanted, read; /* a result is wanted without being read */
    bool stays;        /* to the end */
    bool offloaded;    /* a wanted fetch brings it back */
    /* while writing: */
    bool resident, going, coming;
    uint32_t storage;
} instance;

typedef struct storage {
    uint64_t bytes;
    uint32_t users;
} storage;

typedef struct lowering {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const crn_decision *decisions;
    uint32_t count;
    const uint16_t *implementations; /* per op, or NULL */
    const cairn_id *given, *kept;    /* tensors there at the start, and wanted at the end */
    uint32_t given_count, kept_count;
    uint64_t budget;
    crn_arena *scratch;
    cairn_plan_builder *builder; /* NULL: nothing is written, only measured */

    CRN_ARRAY(instance) instances;
    CRN_ARRAY(uint32_t) reads; /* instances read, decision by decision */
    uint32_t *first_read;      /* per decision, and the end */
    uint32_t *first_made;      /* per decision: its first instance, and the end */
    uint32_t *current;         /* per tensor: its latest instance */
    bool *on_host;             /* per tensor: it was copied out before */
    bool *first_run, *dropped; /* per decision */
    uint32_t *dying;           /* instances by last use, a list per decision: its head */
    uint32_t *next_dying;      /* per instance */
    CRN_ARRAY(storage) storages;
    CRN_ARRAY(uint32_t) leaving; /* offloaded instances still resident, oldest first */
    uint32_t first_leaving;
    uint64_t live, peak;
} lowering;

/* ---- First pass: bind ---- */

static cairn_status add_instance(lowering *l, cairn_id tensor, uint32_t made) {
    instance fresh = {.tensor = tensor, .made = made, .last_use = made, .source = NO_INSTANCE};
    fresh.storage = NO_INSTANCE;
    fresh.previous = l->current[tensor];
    l->current[tensor] = l->instances.length;
    CRN_PUSH(l->scratch, l->instances, fresh);
    return CAIRN_OK;
}

static cairn_status bind_read(lowering *l, cairn_id tensor) {
    CRN_PUSH(l->scratch, l->reads, l->current[tensor]);
    return CAIRN_OK;
}

static cairn_status bind_decision(lowering *l, uint32_t d, bool *has_run) {
    cairn_id id = l->decisions[d].id;
    if (l->decisions[d].kind == CRN_RUN) {
        const cairn_op *op = cairn_graph_op(l->graph, id);
        for (uint32_t i = 0; i < op->input_count; i++)
            CRN_TRY(bind_read(l, op->inputs[i]));
        for (uint32_t i = 0; i < op->output_count; i++)
            if (op->outputs[i] != CAIRN_NONE)
                CRN_TRY(add_instance(l, op->outputs[i], d));
        l->first_run[d] = !has_run[id];
        has_run[id] = true;
        return CAIRN_OK;
    }
    CRN_TRY(bind_read(l, id));
    if (l->decisions[d].kind == CRN_FETCH) {
        uint32_t source = l->current[id];
        CRN_TRY(add_instance(l, id, d));
        l->instances.data[l->instances.length - 1].source = source;
    }
    return CAIRN_OK;
}

static cairn_status bind(lowering *l) {
    bool *has_run;
    uint32_t tensors = cairn_graph_tensor_count(l->graph);
    CRN_TAKE(l->scratch, has_run, cairn_graph_op_count(l->graph));
    CRN_TAKE(l->scratch, l->current, tensors);
    CRN_TAKE(l->scratch, l->on_host, tensors);
    CRN_TAKE(l->scratch, l->first_read, l->count + 1);
    CRN_TAKE(l->scratch, l->first_made, l->count + 1);
    CRN_TAKE(l->scratch, l->first_run, l->count);
    CRN_TAKE(l->scratch, l->dropped, l->count);
    for (cairn_id t = 0; t < tensors; t++)
        l->current[t] = NO_INSTANCE;
    for (uint32_t i = 0; i < l->given_count; i++)
        CRN_TRY(add_instance(l, l->given[i], TO_THE_END));
    for (uint32_t d = 0; d < l->count; d++) {
        l->first_read[d] = l->reads.length;
        l->first_made[d] = l->instances.length;
        CRN_TRY(bind_decision(l, d, has_run));
    }
    l->first_read[l->count] = l->reads.length;
    l->first_made[l->count] = l->instances.length;
    return CAIRN_OK;
}

/* ---- Second pass: what is wanted, and until when ---- */

static void want(lowering *l, uint32_t read, uint32_t d) {
    if (read == NO_INSTANCE)
        return; /* read before it is made: the simulator will say so */
    instance *i = &l->instances.data[read];
    i->wanted = i->read = true;
    if (!i->stays && (i->last_use == i->made || i->last_use < d))
        i->last_use = d;
}

static bool makes_something_wanted(const lowering *l, uint32_t d) {
    for (uint32_t i = l->first_made[d]; i < l->first_made[d + 1]; i++)
        if (l->instances.data[i].wanted)
            return true;
    return false;
}

/* What is wanted at the end stays. */
static void want_kept(lowering *l) {
    for (uint32_t k = 0; k < l->kept_count; k++) {
        uint32_t last = l->current[l->kept[k]];
        if (last == NO_INSTANCE)
            continue;
        l->instances.data[last].wanted = l->instances.data[last].stays = true;
        l->instances.data[last].last_use = TO_THE_END;
    }
}

/* A re-run that is wanted for results only, which nothing reads any more: the results of the run
 * before it will do. */
static bool keep_earlier_results(lowering *l, uint32_t d) {
    for (uint32_t i = l->first_made[d]; i < l->first_made[d + 1]; i++)
        if (l->instances.data[i].read)
            return false;
    for (uint32_t i = l->first_made[d]; i < l->first_made[d + 1]; i++) {
        if (!l->instances.data[i].wanted)
            continue;
        instance *earlier = &l->instances.data[l->instances.data[i].previous];
        earlier->wanted = earlier->stays = true;
        earlier->last_use = TO_THE_END;
    }
    return true;
}

/* What a decision reads first: for one that moves a tensor, that tensor. */
static uint32_t moved(const lowering *l, uint32_t d) {
    return l->decisions[d].kind == CRN_RUN ? NO_INSTANCE : l->reads.data[l->first_read[d]];
}

static void sweep(lowering *l) {
    want_kept(l);
    for (uint32_t d = l->count; d-- > 0;) {
        uint32_t read = moved(l, d);
        switch (l->decisions[d].kind) {
        case CRN_RUN:
            l->dropped[d] =
                !l->first_run[d] && (!makes_something_wanted(l, d) || keep_earlier_results(l, d));
            for (uint32_t r = l->first_read[d]; r < l->first_read[d + 1] && !l->dropped[d]; r++)
                want(l, l->reads.data[r], d);
            break;
        case CRN_FETCH: /* wants its source, not as a reader but through the copy out */
            l->dropped[d] = !makes_something_wanted(l, d) || read == NO_INSTANCE;
            if (!l->dropped[d]) {
                instance *source = &l->instances.data[read];
                source->offloaded = source->wanted = source->read = true;
            }
            break;
        default: /* OFFLOAD and EVICT follow the instance */
            l->dropped[d] = read == NO_INSTANCE || !l->instances.data[read].offloaded;
            break;
        }
    }
}

/* ---- Third pass: write ---- */

/* The fastest implementation that needs no more workspace than the first, by which solvers count
 * memory; of equal ones the first. */
static uint16_t fastest(const lowering *l, cairn_id op) {
    uint32_t count, best = 0;
    const cairn_implementation *list = cairn_costs_op(l->costs, op, &count);
    for (uint32_t k = 1; k < count; k++)
        if (list[k].time_ns < list[best].time_ns &&
            list[k].workspace_bytes <= list[0].workspace_bytes)
            best = k;
    return (uint16_t)best;
}

/* Which implementation runs an op: the solver's choice, or ours. */
static uint16_t implementation(const lowering *l, cairn_id op) {
    return l->implementations == NULL ? fastest(l, op) : l->implementations[op];
}

static cairn_status emit(lowering *l, cairn_step_kind kind, cairn_id id, uint8_t inplace) {
    cairn_step step = {.kind = (uint8_t)kind, .inplace = inplace, .id = id};
    if (kind == CAIRN_RUN)
        step.implementation = implementation(l, id);
    if (l->builder == NULL)
        return CAIRN_OK;
    return cairn_plan_builder_add(l->builder, step);
}

static bool is_stationary(const lowering *l, cairn_id tensor) {
    return cairn_graph_tensor(l->graph, tensor)->stationary;
}

static cairn_status settle(lowering *l, uint32_t id, uint32_t share) {
    instance *i = &l->instances.data[id];
    i->resident = true;
    if (is_stationary(l, i->tensor))
        return CAIRN_OK;
    if (share != NO_INSTANCE) {
        i->storage = share;
        l->storages.data[share].users++;
        return CAIRN_OK;
    }
    storage fresh = {crn_align(cairn_costs_bytes(l->costs, i->tensor)), 1};
    i->storage = l->storages.length;
    l->live += fresh.bytes;
    CRN_PUSH(l->scratch, l->storages, fresh);
    return CAIRN_OK;
}

static void leave(lowering *l, uint32_t id) {
    instance *i = &l->instances.data[id];
    i->resident = false;
    if (i->storage != NO_INSTANCE && --l->storages.data[i->storage].users == 0)
        l->live -= l->storages.data[i->storage].bytes;
}

/* Free an instance, waiting first for a copy of it that is under way. */
static cairn_status release(lowering *l, uint32_t id) {
    instance *i = &l->instances.data[id];
    if (!i->resident || is_stationary(l, i->tensor))
        return CAIRN_OK;
    if (i->going || i->coming)
        CRN_TRY(emit(l, CAIRN_WAIT, i->tensor, 0));
    i->going = i->coming = false;
    CRN_TRY(emit(l, CAIRN_FREE, i->tensor, 0));
    leave(l, id);
    return CAIRN_OK;
}

/* Let offloaded tensors go, oldest first, until `need` more bytes fit. */
static cairn_status make_room(lowering *l, uint64_t need, uint32_t d) {
    for (uint32_t k = l->first_leaving; k < l->leaving.length; k++) {
        if (l->budget == 0 || l->live + need <= l->budget)
            break;
        instance *i = &l->instances.data[l->leaving.data[k]];
        if (i->resident && i->last_use < d)
            CRN_TRY(release(l, l->leaving.data[k]));
        if (!i->resident && k == l->first_leaving)
            l->first_leaving++;
    }
    return CAIRN_OK;
}

/* Whether the op makes an alias of what it reads as `input`. */
static bool makes_alias(const lowering *l, const cairn_op *op, uint32_t input) {
    cairn_id root = cairn_graph_storage(l->graph, op->inputs[input]);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && cairn_graph_storage(l->graph, op->outputs[i]) == root)
            return true;
    return false;
}

/* The permission that a run can use: its operand dies here, alone in its storage, which is large
 * enough. 0: none. */
static uint8_t find_inplace(const lowering *l, const cairn_op *op, uint32_t d) {
    for (uint32_t k = 0; k < op->inplace_count; k++) {
        cairn_inplace pair = op->inplace[k];
        uint32_t read = l->reads.data[l->first_read[d] + pair.input];
        if (read == NO_INSTANCE)
            continue;
        const instance *operand = &l->instances.data[read];
        bool fits = is_stationary(l, operand->tensor);
        if (operand->storage != NO_INSTANCE) {
            const storage *s = &l->storages.data[operand->storage];
            uint64_t bytes = crn_align(cairn_costs_bytes(l->costs, op->outputs[pair.output]));
            fits = s->users == 1 && bytes <= s->bytes;
        }
        if (operand->last_use == d && fits && !operand->going && !operand->offloaded &&
            !makes_alias(l, op, pair.input))
            return (uint8_t)(k + 1);
    }
    return 0;
}

/* The storage that an alias shares. */
static uint32_t shared_storage(const lowering *l, const cairn_op *op, uint32_t d, cairn_id output) {
    cairn_id root = cairn_graph_storage(l->graph, output);
    if (root == output)
        return NO_INSTANCE;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t read = l->reads.data[l->first_read[d] + i];
        if (read != NO_INSTANCE && cairn_graph_storage(l->graph, op->inputs[i]) == root)
            return l->instances.data[read].storage;
    }
    return NO_INSTANCE;
}

static uint64_t bytes_needed(const lowering *l, const cairn_op *op, cairn_id id, uint8_t inplace) {
    uint32_t implementations;
    const cairn_implementation *list = cairn_costs_op(l->costs, id, &implementations);
    uint64_t need =
        implementations > 0 ? crn_align(list[implementation(l, id)].workspace_bytes) : 0;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && !is_stationary(l, op->outputs[i]) &&
            cairn_graph_storage(l->graph, op->outputs[i]) == op->outputs[i])
            need += crn_align(cairn_costs_bytes(l->costs, op->outputs[i]));
    if (inplace > 0 && !is_stationary(l, op->outputs[op->inplace[inplace - 1].output]))
        need -=
            crn_align(cairn_costs_bytes(l->costs, op->outputs[op->inplace[inplace - 1].output]));
    return need;
}

static cairn_status write_run(lowering *l, uint32_t d) {
    cairn_id id = l->decisions[d].id;
    const cairn_op *op = cairn_graph_op(l->graph, id);
    for (uint32_t r = l->first_read[d]; r < l->first_read[d + 1]; r++) {
        if (l->reads.data[r] == NO_INSTANCE)
            continue;
        instance *i = &l->instances.data[l->reads.data[r]];
        if (i->coming)
            CRN_TRY(emit(l, CAIRN_WAIT, i->tensor, 0));
        i->coming = false;
    }
    uint8_t inplace = find_inplace(l, op, d);
    CRN_TRY(make_room(l, bytes_needed(l, op, id, inplace), d));
    if (inplace == 0) /* room was made by what shared an operand's storage */
        inplace = find_inplace(l, op, d);
    cairn_inplace pair = {UINT32_MAX, UINT32_MAX};
    if (inplace > 0)
        pair = op->inplace[inplace - 1];
    l->peak = CRN_MAX(l->peak, l->live + bytes_needed(l, op, id, inplace));
    CRN_TRY(emit(l, CAIRN_RUN, id, inplace));
    uint32_t made = l->first_made[d];
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == CAIRN_NONE)
            continue;
        uint32_t share = shared_storage(l, op, d, op->outputs[i]);
        if (i == pair.output) {
            instance *operand = &l->instances.data[l->reads.data[l->first_read[d] + pair.input]];
            share = operand->storage;
            operand->resident = false;
        }
        CRN_TRY(settle(l, made, share));
        if (i == pair.output && share != NO_INSTANCE)
            l->storages.data[share].users--; /* taken over, not shared */
        made++;
    }
    return CAIRN_OK;
}

static cairn_status write_fetch(lowering *l, uint32_t d) {
    uint32_t id = l->first_made[d];
    instance *i = &l->instances.data[id], *source = &l->instances.data[i->source];
    if (source->resident) { /* its memory was never needed: it need not come back */
        i->resident = true;
        i->storage = source->storage;
        i->going = source->going;
        i->coming = source->coming;
        source->resident = false;
        return CAIRN_OK;
    }
    CRN_TRY(make_room(l, crn_align(cairn_costs_bytes(l->costs, i->tensor)), d));
    CRN_TRY(emit(l, CAIRN_FETCH, i->tensor, 0));
    CRN_TRY(settle(l, id, NO_INSTANCE));
    l->instances.data[id].coming = true;
    return CAIRN_OK;
}

static cairn_status write_decision(lowering *l, uint32_t d) {
    uint32_t read = moved(l, d);
    switch (l->decisions[d].kind) {
    case CRN_RUN:
        return write_run(l, d);
    case CRN_FETCH:
        return write_fetch(l, d);
    case CRN_OFFLOAD:
        if (!l->instances.data[read].resident)
            return CAIRN_OK;
        CRN_PUSH(l->scratch, l->leaving, read);
        if (l->on_host[l->decisions[d].id])
            return CAIRN_OK; /* from an earlier round trip, with equal bits */
        l->on_host[l->decisions[d].id] = true;
        CRN_TRY(emit(l, CAIRN_OFFLOAD, l->decisions[d].id, 0));
        l->instances.data[read].going = true;
        return CAIRN_OK;
    default:
        return release(l, read);
    }
}

/* Lists of instances by the decision after which they die. */
static cairn_status index_deaths(lowering *l) {
    CRN_TAKE(l->scratch, l->dying, l->count + 1);
    CRN_TAKE(l->scratch, l->next_dying, l->instances.length);
    for (uint32_t d = 0; d <= l->count; d++)
        l->dying[d] = NO_INSTANCE;
    for (uint32_t i = l->instances.length; i-- > 0;) {
        uint32_t last = l->instances.data[i].last_use;
        if (l->instances.data[i].stays)
            continue;
        uint32_t slot =
            last == TO_THE_END ? l->count : last; /* slot `count`: dead from the start */
        l->next_dying[i] = l->dying[slot];
        l->dying[slot] = i;
    }
    return CAIRN_OK;
}

static cairn_status bury(lowering *l, uint32_t slot) {
    for (uint32_t i = l->dying[slot]; i != NO_INSTANCE; i = l->next_dying[i])
        if (!l->instances.data[i].offloaded)
            CRN_TRY(release(l, i));
    return CAIRN_OK;
}

static cairn_status write_steps(lowering *l) {
    for (uint32_t i = 0; i < l->first_made[0]; i++)
        CRN_TRY(settle(l, i, NO_INSTANCE));
    l->peak = l->live;
    CRN_TRY(bury(l, l->count));
    for (uint32_t d = 0; d < l->count; d++) {
        if (l->dropped[d])
            continue;
        CRN_TRY(write_decision(l, d));
        CRN_TRY(bury(l, d));
    }
    for (uint32_t k = l->first_leaving; k < l->leaving.length; k++)
        CRN_TRY(release(l, l->leaving.data[k]));
    return CAIRN_OK;
}

static cairn_status lower(lowering *l) {
    CRN_TRY(bind(l));
    sweep(l);
    CRN_TRY(index_deaths(l));
    return write_steps(l);
}

/* What a whole plan starts and ends with. */
static cairn_status find_ends(lowering *l, cairn_goal goal) {
    cairn_graph_summary summary;
    cairn_graph_summarize(l->graph, &summary);
    uint32_t tensors = cairn_graph_tensor_count(l->graph);
    cairn_id *given, *kept;
    CRN_TAKE(l->scratch, given, tensors);
    CRN_TAKE(l->scratch, kept, tensors);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(l->graph, t);
        if (tensor->role == CAIRN_INPUT || (tensor->role == CAIRN_LABEL && goal == CAIRN_TRAIN))
            given[l->given_count++] = t;
        if (goal == CAIRN_TRAIN ? cairn_graph_is_result(l->graph, t) && !tensor->stationary
                                : t == summary.output)
            kept[l->kept_count++] = t;
    }
    l->given = given;
    l->kept = kept;
    return CAIRN_OK;
}

cairn_status crn_lower(const cairn_graph *graph, const cairn_costs *costs,
                       const crn_schedule *schedule, cairn_goal goal, uint64_t budget,
                       cairn_plan **out, cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = cairn_graph_allocator(graph);
    crn_arena scratch;
    crn_arena_init(&scratch, &allocator);
    lowering l = {.graph = graph, .costs = costs, .budget = budget, .scratch = &scratch};
    l.decisions = schedule->decisions.data;
    l.count = schedule->decisions.length;
    l.implementations = schedule->implementations;
    cairn_status status = cairn_plan_builder_create(&allocator, &l.builder);
    if (status == CAIRN_OK)
        status = find_ends(&l, goal);
    if (status == CAIRN_OK)
        status = lower(&l);
    if (status == CAIRN_OK) {
        cairn_plan_header header = {.goal = goal};
        crn_copy_string(header.model, sizeof header.model, cairn_graph_name(graph));
        status = cairn_plan_builder_finish(l.builder, graph, &header, out, err);
    }
    cairn_plan_builder_destroy(l.builder);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_measure_part(const cairn_graph *graph, const cairn_costs *costs,
                              const crn_part *part, crn_arena *scratch, crn_part_cost *out) {
    lowering l = {.graph = graph, .costs = costs, .scratch = scratch};
    l.decisions = part->decisions;
    l.count = part->count;
    l.given = part->given;
    l.given_count = part->given_count;
    l.kept = part->wanted;
    l.kept_count = part->wanted_count;
    CRN_TRY(lower(&l));
    *out = (crn_part_cost){.peak = l.peak, .left = l.live};
    for (uint32_t d = 0; d < part->count; d++) {
        uint32_t implementations;
        const cairn_implementation *list =
            cairn_costs_op(costs, part->decisions[d].id, &implementations);
        if (!l.dropped[d] && implementations > 0)
            out->time =
                crn_add_time(out->time, list[implementation(&l, part->decisions[d].id)].time_ns);
    }
    return CAIRN_OK;
}
