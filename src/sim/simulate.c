/* simulate.c: the one judge. It walks a plan step by step over a small state:
 *
 *     per tensor   is it resident, in which storage; is a copy of it under way; is it on the host
 *     per storage  bytes, and how many tensors (aliases) use it
 *     lanes        when compute, copies out and copies in are next free
 *
 * Memory is counted in list order: outputs and workspace are taken while the inputs are still
 * there. Time follows: a copy starts when the compute lane has reached it and its lane is free;
 * only a wait makes the compute lane stand still. The walk ends at the first broken rule. */
#include "base/crn_base.h"
#include "cairn/sim.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum flight { AT_REST, GOING_OUT, COMING_IN } flight;
typedef enum absence { NEVER_MADE, FREED, OVERWRITTEN } absence;

#define NO_STORAGE UINT32_MAX

typedef struct place {
    uint32_t storage; /* NO_STORAGE: not resident, or stationary */
    bool resident, on_host;
    uint8_t flight;
    uint8_t absence;  /* why it is not resident */
    int64_t copy_end; /* of the copy in flight */
} place;

typedef struct storage {
    uint64_t bytes;
    uint32_t users;    /* tensors resident in it; 0: the slot is free */
    uint32_t copied;   /* those of them that are being copied */
    uint32_t lifetime; /* its record */
} storage;

struct cairn_sim {
    crn_arena arena;
    cairn_sim_summary summary;
    cairn_sim_step *steps;
    uint32_t step_count;
    CRN_ARRAY(cairn_lifetime) lifetimes;
    CRN_ARRAY(cairn_holder) holders;
};

typedef struct walker {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_plan *plan;
    const cairn_machine *machine;
    uint64_t budget;
    cairn_goal goal;

    crn_arena scratch;
    place *places;
    CRN_ARRAY(storage) storages;
    CRN_ARRAY(uint32_t) free_slots;
    bool *has_run; /* per op */

    uint64_t live;
    int64_t now, out_free, in_free; /* of the compute, copy-out and copy-in lanes */
    uint32_t step;
    cairn_sim *sim;
    bool find_holders; /* the second walk, which stops at the peak */
    bool found;
} walker;

static cairn_status break_rule(walker *w, cairn_rule rule, cairn_id culprit) {
    w->sim->summary.rule = rule;
    w->sim->summary.broken_step = w->step;
    w->sim->summary.culprit = culprit;
    return CAIRN_EINVAL;
}

/* ---- Memory ---- */

/* A storage is named after the first tensor that is in it; the one it was taken for may have been
 * freed while an alias stays. */
static cairn_status capture_holders(walker *w, uint64_t workspace) {
    cairn_sim *sim = w->sim;
    bool *named;
    CRN_TAKE(&w->scratch, named, w->storages.length);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(w->graph); t++) {
        uint32_t s = w->places[t].storage;
        if (s == NO_STORAGE || named[s])
            continue;
        named[s] = true;
        cairn_holder holder = {t, w->storages.data[s].bytes};
        CRN_PUSH(&sim->arena, sim->holders, holder);
    }
    cairn_holder holder = {CAIRN_NONE, workspace};
    if (workspace > 0)
        CRN_PUSH(&sim->arena, sim->holders, holder);
    w->found = true;
    return CAIRN_OK;
}

/* The memory of this moment, with what a run takes beside the storages. */
static cairn_status count(walker *w, uint64_t workspace, cairn_id culprit) {
    uint64_t bytes = w->live + workspace;
    cairn_sim_summary *summary = &w->sim->summary;
    if (w->find_holders)
        return w->step == summary->peak_step && bytes == summary->peak_bytes && !w->found
                   ? capture_holders(w, workspace)
                   : CAIRN_OK;
    if (bytes > summary->peak_bytes) {
        summary->peak_bytes = bytes;
        summary->peak_step = w->step;
    }
    if (w->step < w->sim->step_count)
        w->sim->steps[w->step].bytes = bytes;
    return bytes > w->budget ? break_rule(w, CAIRN_RULE_OVER_BUDGET, culprit) : CAIRN_OK;
}

static cairn_status record_lifetime(walker *w, cairn_id tensor, uint64_t bytes, uint32_t last,
                                    uint32_t *out) {
    cairn_lifetime lifetime = {.bytes = bytes, .first = w->step, .last = last, .tensor = tensor};
    *out = w->sim->lifetimes.length;
    if (!w->find_holders)
        CRN_PUSH(&w->sim->arena, w->sim->lifetimes, lifetime);
    return CAIRN_OK;
}

/* A new storage for a tensor that is not resident. */
static cairn_status take_storage(walker *w, cairn_id tensor) {
    place *p = &w->places[tensor];
    p->resident = true;
    p->storage = NO_STORAGE;
    if (cairn_graph_tensor(w->graph, tensor)->stationary)
        return CAIRN_OK;
    storage fresh = {.bytes = crn_align(cairn_costs_bytes(w->costs, tensor)), .users = 1};
    CRN_TRY(record_lifetime(w, tensor, fresh.bytes, UINT32_MAX, &fresh.lifetime));
    if (w->free_slots.length > 0) {
        p->storage = w->free_slots.data[--w->free_slots.length];
        w->storages.data[p->storage] = fresh;
    } else {
        p->storage = w->storages.length;
        CRN_PUSH(&w->scratch, w->storages, fresh);
    }
    w->live += fresh.bytes;
    return CAIRN_OK;
}

/* A tensor leaves its storage, which is given back with its last user. Steps up to `last` still had
 * it. */
static cairn_status leave_storage(walker *w, cairn_id tensor, absence why, uint32_t last) {
    place *p = &w->places[tensor];
    p->resident = false;
    p->absence = (uint8_t)why;
    if (p->storage == NO_STORAGE)
        return CAIRN_OK;
    storage *s = &w->storages.data[p->storage];
    if (--s->users == 0) {
        w->live -= s->bytes;
        if (!w->find_holders)
            w->sim->lifetimes.data[s->lifetime].last = last;
        CRN_PUSH(&w->scratch, w->free_slots, p->storage);
    }
    p->storage = NO_STORAGE;
    return CAIRN_OK;
}

/* ---- Running ---- */

static cairn_status check_inputs(walker *w, const cairn_op *op) {
    static const cairn_rule why[] = {CAIRN_RULE_INPUT_NEVER_MADE, CAIRN_RULE_READ_AFTER_FREE,
                                     CAIRN_RULE_READ_OVERWRITTEN};
    for (uint32_t i = 0; i < op->input_count; i++) {
        const place *p = &w->places[op->inputs[i]];
        if (!p->resident)
            return break_rule(w, why[p->absence], op->inputs[i]);
        if (p->flight == COMING_IN)
            return break_rule(w, CAIRN_RULE_READ_BEFORE_WAIT, op->inputs[i]);
    }
    return CAIRN_OK;
}

static cairn_status check_again(walker *w, cairn_id id, const cairn_op *op) {
    if (w->goal == CAIRN_INFER && op->phase != CAIRN_FORWARD)
        return break_rule(w, CAIRN_RULE_NOT_OF_GOAL, id);
    if (!w->has_run[id])
        return CAIRN_OK;
    if (op->flags & CAIRN_OP_NEVER_AGAIN)
        return break_rule(w, CAIRN_RULE_NEVER_AGAIN, id);
    /* Run again, an op leaves out its `once` effect; if that is all it does, it cannot be. */
    if ((op->flags & CAIRN_OP_ONCE) && (op->output_count == 0 || op->phase == CAIRN_UPDATE))
        return break_rule(w, CAIRN_RULE_ONCE_TWICE, id);
    return CAIRN_OK;
}

/* The storage of an alias is that of the input it is an alias of. */
static uint32_t aliased_storage(const walker *w, const cairn_op *op, cairn_id output) {
    cairn_id root = cairn_graph_storage(w->graph, output);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (cairn_graph_storage(w->graph, op->inputs[i]) == root)
            return w->places[op->inputs[i]].storage;
    return NO_STORAGE;
}

static bool is_alias(const walker *w, cairn_id tensor) {
    return cairn_graph_tensor(w->graph, tensor)->alias_of != CAIRN_NONE;
}

/* Make one output that is not made in place. One that is resident is rewritten with equal bits, and
 * with it its aliases; making an alias writes nothing. */
static cairn_status make_output(walker *w, const cairn_op *op, cairn_id output) {
    place *p = &w->places[output];
    if (p->resident) {
        bool copied = p->flight != AT_REST;
        if (p->storage != NO_STORAGE && !is_alias(w, output))
            copied = w->storages.data[p->storage].copied > 0;
        return copied ? break_rule(w, CAIRN_RULE_WRITE_IN_FLIGHT, output) : CAIRN_OK;
    }
    if (!is_alias(w, output))
        return take_storage(w, output);
    p->resident = true;
    p->storage = aliased_storage(w, op, output);
    if (p->storage != NO_STORAGE)
        w->storages.data[p->storage].users++;
    return CAIRN_OK;
}

static bool both_stationary(const walker *w, const cairn_op *op, cairn_inplace pair) {
    return cairn_graph_tensor(w->graph, op->inputs[pair.input])->stationary &&
           cairn_graph_tensor(w->graph, op->outputs[pair.output])->stationary;
}

/* May the operand's storage be taken over? */
static cairn_status check_inplace(walker *w, const cairn_op *op, uint8_t inplace) {
    for (uint32_t i = 0; i < op->inplace_count && inplace == 0; i++)
        if (both_stationary(w, op, op->inplace[i]))
            return break_rule(w, CAIRN_RULE_INPLACE_MISSING, op->outputs[op->inplace[i].output]);
    if (inplace == 0)
        return CAIRN_OK;
    cairn_inplace pair = op->inplace[inplace - 1];
    cairn_id input = op->inputs[pair.input], output = op->outputs[pair.output];
    uint32_t s = w->places[input].storage; /* as stored, one may be larger than the other */
    bool fits = s == NO_STORAGE ||
                crn_align(cairn_costs_bytes(w->costs, output)) <= w->storages.data[s].bytes;
    if (w->places[output].resident || !fits)
        return break_rule(w, CAIRN_RULE_INPLACE_FORBIDDEN, output);
    if (w->places[input].flight != AT_REST)
        return break_rule(w, CAIRN_RULE_WRITE_IN_FLIGHT, input);
    if (s != NO_STORAGE && w->storages.data[s].users > 1)
        return break_rule(w, CAIRN_RULE_INPLACE_SHARED, input);
    cairn_id root = cairn_graph_storage(w->graph, input);
    for (uint32_t i = 0; i < op->output_count; i++) /* an alias that the op itself makes */
        if (op->outputs[i] != CAIRN_NONE && cairn_graph_storage(w->graph, op->outputs[i]) == root)
            return break_rule(w, CAIRN_RULE_INPLACE_SHARED, input);
    return CAIRN_OK;
}

/* The output takes over the operand's storage, and the operand is gone. */
static void take_over(walker *w, const cairn_op *op, cairn_inplace pair) {
    place *from = &w->places[op->inputs[pair.input]];
    place *to = &w->places[op->outputs[pair.output]];
    to->resident = true;
    to->storage = from->storage;
    from->resident = false;
    from->absence = OVERWRITTEN;
    from->storage = NO_STORAGE;
}

static cairn_status run(walker *w, const cairn_step *step) {
    const cairn_op *op = cairn_graph_op(w->graph, step->id);
    CRN_TRY(check_again(w, step->id, op));
    CRN_TRY(check_inputs(w, op));
    CRN_TRY(check_inplace(w, op, step->inplace));

    cairn_inplace pair = {UINT32_MAX, 0};
    if (step->inplace > 0)
        pair = op->inplace[step->inplace - 1];
    cairn_id first_made = op->output_count > 0 ? op->outputs[0] : CAIRN_NONE;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && i != pair.output)
            CRN_TRY(make_output(w, op, op->outputs[i]));
    if (step->inplace > 0)
        take_over(w, op, pair);

    uint32_t implementations;
    const cairn_implementation *list = cairn_costs_op(w->costs, step->id, &implementations);
    if (step->implementation >= implementations)
        return break_rule(w, CAIRN_RULE_NO_IMPLEMENTATION, step->id);
    const cairn_implementation *chosen = &list[step->implementation];
    uint64_t workspace = crn_align(chosen->workspace_bytes);
    uint32_t unused;
    if (workspace > 0)
        CRN_TRY(record_lifetime(w, CAIRN_NONE, workspace, w->step, &unused));
    CRN_TRY(count(w, workspace, first_made));

    w->now = crn_add_time(w->now, chosen->time_ns);
    cairn_sim_summary *summary = &w->sim->summary;
    summary->compute_ns = crn_add_time(summary->compute_ns, chosen->time_ns);
    summary->runs++;
    if (w->has_run[step->id]) {
        summary->reruns++;
        summary->rerun_ns = crn_add_time(summary->rerun_ns, chosen->time_ns);
    }
    w->has_run[step->id] = true;
    return CAIRN_OK;
}

/* ---- Moving ---- */

static cairn_status free_tensor(walker *w, cairn_id tensor) {
    const place *p = &w->places[tensor];
    if (!p->resident)
        return break_rule(
            w, p->absence == NEVER_MADE ? CAIRN_RULE_FREE_NEVER_MADE : CAIRN_RULE_FREED_TWICE,
            tensor);
    if (p->flight != AT_REST)
        return break_rule(w, CAIRN_RULE_FREE_IN_FLIGHT, tensor);
    CRN_TRY(leave_storage(w, tensor, FREED, w->step == 0 ? 0 : w->step - 1));
    return count(w, 0, tensor);
}

/* A copy on a lane; on a half-duplex link both directions share one. Fills the step's times. */
static int64_t copy(walker *w, cairn_id tensor, bool out) {
    int64_t *lane = out ? &w->out_free : &w->in_free;
    bool shared = w->machine != NULL && !w->machine->full_duplex;
    int64_t start = CRN_MAX(w->now, *lane);
    if (shared)
        start = CRN_MAX(start, CRN_MAX(w->out_free, w->in_free));
    int64_t length = 0;
    if (w->machine != NULL)
        length = cairn_machine_copy_ns(w->machine, cairn_costs_bytes(w->costs, tensor));
    *lane = crn_add_time(start, length);
    int64_t *busy = out ? &w->sim->summary.copy_out_ns : &w->sim->summary.copy_in_ns;
    *busy = crn_add_time(*busy, length);
    w->sim->steps[w->step].start_ns = start;
    w->sim->steps[w->step].end_ns = *lane;
    return *lane;
}

static cairn_status offload(walker *w, cairn_id tensor) {
    place *p = &w->places[tensor];
    if (!p->resident)
        return break_rule(w, CAIRN_RULE_OFFLOAD_ABSENT, tensor);
    if (p->flight != AT_REST)
        return break_rule(w, CAIRN_RULE_OFFLOAD_IN_FLIGHT, tensor);
    if (!p->on_host)
        w->sim->summary.host_bytes += crn_align(cairn_costs_bytes(w->costs, tensor));
    if (w->machine != NULL && w->sim->summary.host_bytes > w->machine->host_memory_bytes)
        return break_rule(w, CAIRN_RULE_HOST_FULL, tensor);
    p->on_host = true;
    p->flight = GOING_OUT;
    w->storages.data[p->storage].copied++;
    p->copy_end = copy(w, tensor, true);
    w->sim->summary.offloads++;
    return count(w, 0, tensor);
}

static cairn_status fetch(walker *w, cairn_id tensor) {
    place *p = &w->places[tensor];
    if (p->resident)
        return break_rule(w, CAIRN_RULE_FETCH_RESIDENT, tensor);
    if (!p->on_host)
        return break_rule(w, CAIRN_RULE_FETCH_WITHOUT_COPY, tensor);
    CRN_TRY(take_storage(w, tensor));
    p->flight = COMING_IN;
    w->storages.data[p->storage].copied++;
    p->copy_end = copy(w, tensor, false);
    w->sim->summary.fetches++;
    return count(w, 0, tensor);
}

static cairn_status wait_for(walker *w, cairn_id tensor) {
    place *p = &w->places[tensor];
    if (p->flight == AT_REST)
        return break_rule(w, CAIRN_RULE_WAIT_FOR_NOTHING, tensor);
    if (p->copy_end > w->now) {
        w->sim->summary.idle_ns = crn_add_time(w->sim->summary.idle_ns, p->copy_end - w->now);
        w->now = p->copy_end;
    }
    p->flight = AT_REST;
    w->storages.data[p->storage].copied--;
    return count(w, 0, tensor);
}

static cairn_status take_step(walker *w, const cairn_step *step) {
    cairn_sim_step *record = &w->sim->steps[w->step];
    record->start_ns = w->now;
    cairn_status status;
    bool stationary = step->kind != CAIRN_RUN && cairn_graph_tensor(w->graph, step->id)->stationary;
    if (stationary)
        return break_rule(w, CAIRN_RULE_FREE_STATIONARY, step->id);
    switch ((cairn_step_kind)step->kind) {
    case CAIRN_RUN:
        status = run(w, step);
        break;
    case CAIRN_FREE:
        status = free_tensor(w, step->id);
        break;
    case CAIRN_WAIT:
        status = wait_for(w, step->id);
        break;
    case CAIRN_OFFLOAD:
        return offload(w, step->id);
    default:
        return fetch(w, step->id);
    }
    record->end_ns = w->now;
    return status;
}

/* ---- The two ends ---- */

/* Inputs are there from the start; labels too, where there is a loss to compute. */
static cairn_status begin(walker *w) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(w->graph); t++) {
        cairn_role role = cairn_graph_tensor(w->graph, t)->role;
        w->places[t].storage = NO_STORAGE;
        if (role == CAIRN_INPUT || (role == CAIRN_LABEL && w->goal == CAIRN_TRAIN))
            CRN_TRY(take_storage(w, t));
    }
    return count(w, 0, CAIRN_NONE);
}

/* What must be there at the end: the loss and the gradients of parameters, or the output. */
static bool is_result(const walker *w, cairn_id t, cairn_id output) {
    return w->goal == CAIRN_INFER ? t == output : cairn_graph_is_result(w->graph, t);
}

/* A gradient that was overwritten in place is in the sum that did so. */
static bool is_kept(const walker *w, cairn_id t) {
    const place *p = &w->places[t];
    return p->resident ||
           (cairn_graph_tensor(w->graph, t)->stationary && p->absence == OVERWRITTEN);
}

static cairn_status end(walker *w) {
    cairn_graph_summary summary;
    cairn_graph_summarize(w->graph, &summary);
    uint32_t tensors = cairn_graph_tensor_count(w->graph);
    for (cairn_id t = 0; t < tensors; t++)
        if (is_result(w, t, summary.output) && !is_kept(w, t))
            return break_rule(w, CAIRN_RULE_NEVER_MADE, t);
    for (cairn_id o = 0; o < cairn_graph_op_count(w->graph) && w->goal == CAIRN_TRAIN; o++)
        if ((cairn_graph_op(w->graph, o)->flags & CAIRN_OP_ONCE) && !w->has_run[o])
            return break_rule(w, CAIRN_RULE_EFFECT_MISSING, o);
    for (cairn_id t = 0; t < tensors; t++)
        if (w->places[t].resident && !cairn_graph_tensor(w->graph, t)->stationary &&
            !is_result(w, t, summary.output))
            return break_rule(w, CAIRN_RULE_LEFT_AT_END, t);
    return CAIRN_OK;
}

static cairn_status walk(walker *w) {
    uint32_t step_count;
    const cairn_step *steps = cairn_plan_steps(w->plan, &step_count);
    crn_arena_release(&w->scratch);
    w->storages.data = NULL;
    w->storages.length = w->storages.capacity = 0;
    w->free_slots.data = NULL;
    w->free_slots.length = w->free_slots.capacity = 0;
    w->live = 0;
    w->now = w->out_free = w->in_free = 0;
    w->step = 0;
    CRN_TAKE(&w->scratch, w->places, cairn_graph_tensor_count(w->graph));
    CRN_TAKE(&w->scratch, w->has_run, cairn_graph_op_count(w->graph));
    CRN_TRY(begin(w));
    for (; w->step < step_count; w->step++) {
        CRN_TRY(take_step(w, &steps[w->step]));
        if (w->found)
            return CAIRN_OK;
    }
    w->sim->summary.time_ns = CRN_MAX(w->now, CRN_MAX(w->out_free, w->in_free));
    return end(w);
}

/* ---- Reporting ---- */

static int compare_holders(const void *a, const void *b) {
    const cairn_holder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Walk again to the peak and note who is there; sums of the first walk are kept. The second starts
 * from nothing: host memory that is counted twice would seem full. */
static cairn_status find_holders(walker *w) {
    cairn_sim_summary kept = w->sim->summary;
    w->sim->summary =
        (cairn_sim_summary){.peak_bytes = kept.peak_bytes, .peak_step = kept.peak_step};
    w->find_holders = true;
    cairn_status status = walk(w);
    w->sim->summary = kept;
    if (status == CAIRN_ENOMEM)
        return status;
    if (w->sim->holders.length > 0)
        qsort(w->sim->holders.data, w->sim->holders.length, sizeof *w->sim->holders.data,
              compare_holders);
    return CAIRN_OK;
}

const char *cairn_rule_name(cairn_rule rule) {
    static const char *const names[] = {
#define X(name, words) #name,
        CAIRN_RULE_LIST(X)
#undef X
    };
    return (unsigned)rule < CRN_LENGTH(names) ? names[rule] : NULL;
}

/* "step 12 (run conv1) reads "x" after it was freed". */
static cairn_status describe(const walker *w, cairn_error *err) {
    static const char *const sentences[] = {
#define X(name, words) words,
        CAIRN_RULE_LIST(X)
#undef X
    };
    const cairn_sim_summary *s = &w->sim->summary;
    bool is_op = s->rule == CAIRN_RULE_ONCE_TWICE || s->rule == CAIRN_RULE_NEVER_AGAIN ||
                 s->rule == CAIRN_RULE_NO_IMPLEMENTATION || s->rule == CAIRN_RULE_NOT_OF_GOAL ||
                 s->rule == CAIRN_RULE_EFFECT_MISSING;
    const char *name = "nothing";
    if (s->culprit != CAIRN_NONE)
        name = is_op ? cairn_graph_op(w->graph, s->culprit)->name
                     : cairn_graph_tensor(w->graph, s->culprit)->name;
    char where[300] = "at the end", words[300];
    uint32_t step_count;
    const cairn_step *steps = cairn_plan_steps(w->plan, &step_count);
    if (s->broken_step < step_count) {
        const cairn_step *step = &steps[s->broken_step];
        snprintf(where, sizeof where, "step %u (%s %s)", s->broken_step,
                 cairn_step_kind_name((cairn_step_kind)step->kind),
                 step->kind == CAIRN_RUN ? cairn_graph_op(w->graph, step->id)->name
                                         : cairn_graph_tensor(w->graph, step->id)->name);
    }
    const char *hole = strstr(sentences[s->rule], "%s");
    snprintf(words, sizeof words, "%.*s\"%s\"%s", (int)(hole - sentences[s->rule]),
             sentences[s->rule], name, hole + 2);
    if (s->rule == CAIRN_RULE_OVER_BUDGET)
        return crn_fail_at(err, CAIRN_EINVAL, name, "%s %s: %llu bytes against %llu", where, words,
                           (unsigned long long)s->peak_bytes, (unsigned long long)w->budget);
    return crn_fail_at(err, CAIRN_EINVAL, name, "%s %s", where, words);
}

static cairn_status judge(walker *w) {
    CRN_TAKE(&w->sim->arena, w->sim->steps, CRN_MAX(w->sim->step_count, 1));
    cairn_status status = walk(w);
    if (status == CAIRN_OK)
        status = find_holders(w);
    return status;
}

cairn_status cairn_simulate(const cairn_graph *graph, const cairn_costs *costs,
                            const cairn_plan *plan, const cairn_sim_options *options,
                            cairn_sim **out, cairn_error *err) {
    if (out != NULL)
        *out = NULL;
    crn_error_clear(err);
    if (cairn_plan_get_header(plan)->graph_hash != cairn_graph_hash(graph))
        return crn_fail(err, CAIRN_EINVAL, "the plan was made for another graph than \"%s\"",
                        cairn_graph_name(graph));
    crn_arena arena;
    cairn_allocator allocator = cairn_graph_allocator(graph);
    crn_arena_init(&arena, &allocator);
    cairn_sim *sim = crn_arena_take(&arena, 1, sizeof *sim);
    if (sim == NULL) {
        crn_arena_release(&arena);
        return crn_fail_memory(err);
    }
    sim->arena = arena;
    sim->summary.culprit = CAIRN_NONE;
    cairn_plan_steps(plan, &sim->step_count);
    walker w = {.graph = graph, .costs = costs, .plan = plan, .budget = UINT64_MAX, .sim = sim};
    w.goal = cairn_plan_get_header(plan)->goal;
    if (options != NULL && options->budget_bytes > 0)
        w.budget = options->budget_bytes;
    if (options != NULL)
        w.machine = options->machine;
    crn_arena_init(&w.scratch, &allocator);
    cairn_status status = judge(&w);
    crn_arena_release(&w.scratch);
    if (status == CAIRN_ENOMEM) {
        cairn_sim_destroy(sim);
        return crn_fail_memory(err);
    }
    if (status != CAIRN_OK)
        describe(&w, err);
    if (out != NULL)
        *out = sim;
    else
        cairn_sim_destroy(sim);
    return status;
}

void cairn_sim_destroy(cairn_sim *sim) {
    if (sim == NULL)
        return;
    crn_arena arena = sim->arena;
    crn_arena_release(&arena);
}

const cairn_sim_summary *cairn_sim_result(const cairn_sim *sim) {
    return &sim->summary;
}

const cairn_sim_step *cairn_sim_steps(const cairn_sim *sim, uint32_t *step_count) {
    *step_count = sim->step_count;
    return sim->steps;
}

const cairn_lifetime *cairn_sim_lifetimes(const cairn_sim *sim, uint32_t *lifetimes) {
    *lifetimes = sim->lifetimes.length;
    return sim->lifetimes.data;
}

const cairn_holder *cairn_sim_holders(const cairn_sim *sim, uint32_t *holders) {
    *holders = sim->holders.length;
    return sim->holders.data;
}

uint64_t cairn_stationary_bytes(const cairn_graph *graph, const cairn_costs *costs,
                                uint32_t optimizer_slots) {
    uint64_t sum = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        uint64_t bytes = crn_align(cairn_costs_bytes(costs, t));
        if (tensor->role == CAIRN_PARAMETER)
            sum += bytes * (1 + (uint64_t)optimizer_slots);
        else if (tensor->role == CAIRN_STATE)
            sum += bytes;
        else if (tensor->stationary && !cairn_graph_is_summed(graph, t))
            sum += bytes;
    }
    return sum;
}
