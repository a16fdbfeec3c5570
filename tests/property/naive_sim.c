/* naive_sim.c: see naive_sim.h. The order of the functions is that of docs/plan-format.md. */
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "property/naive_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a tensor is. */
typedef enum presence { NEVER_THERE, THERE, FREED, OVERWRITTEN } presence;
typedef enum flight { RESTING, GOING_OUT, COMING_IN } flight;

/* A storage is a number; stationary tensors have none. */
#define NO_STORAGE UINT32_MAX

typedef struct tensor_state {
    presence presence;
    flight flight;
    bool on_host;
    bool homed;   /* stationary, and fetched by the plan: at home on the host */
    bool updated; /* by an update of the graph */
    uint32_t storage;
    int64_t copied_ns; /* when the copy in flight ends */
} tensor_state;

typedef struct world {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_sim_options *options;
    cairn_goal goal;
    uint32_t tensors, ops;
    tensor_state *state;
    uint32_t *times_run; /* per op */
    uint32_t *run_by;    /* per op: the implementation of its last run */
    uint64_t *storages;  /* per storage: bytes, rounded up */
    uint32_t storage_count;
    uint32_t *counted; /* per storage: the query in which it was counted last */
    uint32_t questions;
    int64_t compute_ns, out_ns, in_ns; /* where the lanes are */
    naive_sim *out;
} world;

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static uint64_t rounded_up(uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static void broken(world *w, cairn_rule rule, cairn_id culprit) {
    if (w->out->broken_count < NAIVE_MOST_BROKEN)
        w->out->broken[w->out->broken_count++] = (naive_broken){rule, culprit};
}

static bool is_there(const world *w, cairn_id t) {
    return w->state[t].presence == THERE;
}

static bool is_stationary(const world *w, cairn_id t) {
    return cairn_graph_tensor(w->graph, t)->stationary && !w->state[t].homed;
}

/* ---- Storage ---- */

static uint64_t bytes_of(const world *w, cairn_id t) {
    return rounded_up(cairn_costs_bytes(w->costs)[t]);
}

static uint32_t new_storage(world *w, cairn_id t) {
    w->storages[w->storage_count] = bytes_of(w, t);
    return w->storage_count++;
}

/* `t` appears in memory, in its own storage. */
static void appear(world *w, cairn_id t) {
    if (is_there(w, t))
        return;
    w->state[t].presence = THERE;
    w->state[t].storage = is_stationary(w, t) ? NO_STORAGE : new_storage(w, t);
}

/* Whether two tensors that are there share a storage. */
static bool share(const world *w, cairn_id a, cairn_id b) {
    return is_there(w, a) && is_there(w, b) && w->state[a].storage != NO_STORAGE &&
           w->state[a].storage == w->state[b].storage;
}

/* The sum of all storages that hold a tensor, and the workspace of the op that runs. */
static uint64_t memory(world *w, uint64_t workspace) {
    uint64_t sum = workspace;
    w->questions++;
    for (cairn_id t = 0; t < w->tensors; t++) {
        uint32_t storage = w->state[t].storage;
        if (is_there(w, t) && storage != NO_STORAGE && w->counted[storage] != w->questions) {
            w->counted[storage] = w->questions;
            sum += w->storages[storage];
        }
    }
    return sum;
}

static int larger_first(const void *a, const void *b) {
    const naive_holder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void note_holders(world *w, uint64_t workspace) {
    naive_sim *out = w->out;
    out->holder_count = 0;
    w->questions++;
    for (cairn_id t = 0; t < w->tensors; t++) {
        uint32_t storage = w->state[t].storage;
        if (is_there(w, t) && storage != NO_STORAGE && w->counted[storage] != w->questions) {
            w->counted[storage] = w->questions;
            out->holders[out->holder_count++] = (naive_holder){t, w->storages[storage]};
        }
    }
    if (workspace > 0)
        out->holders[out->holder_count++] = (naive_holder){CAIRN_NONE, workspace};
    qsort(out->holders, out->holder_count, sizeof *out->holders, larger_first);
}

/* Count the current memory for `step`. `culprit` is what was added. */
static uint64_t count_memory(world *w, uint32_t step, uint64_t workspace, cairn_id culprit) {
    uint64_t bytes = memory(w, workspace);
    uint64_t budget = w->options->budget_bytes;
    if (budget > 0 && bytes > budget)
        broken(w, CAIRN_RULE_OVER_BUDGET, culprit);
    if (bytes > w->out->peak_bytes) {
        w->out->peak_bytes = bytes;
        w->out->peak_step = step;
        note_holders(w, workspace);
    }
    return bytes;
}

/* All that is on the host, homes and copies. */
static uint64_t host_bytes(const world *w) {
    uint64_t sum = 0;
    for (cairn_id t = 0; t < w->tensors; t++)
        if (w->state[t].on_host || w->state[t].homed)
            sum += bytes_of(w, t);
    return sum;
}

/* ---- Start and end ---- */

/* Parameters and slots that the plan fetches begin on the host. */
static void find_homes(world *w, const cairn_step *steps, uint32_t count) {
    const cairn_machine *machine = w->options->machine;
    for (uint32_t i = 0; i < count; i++) {
        cairn_id t = steps[i].id;
        if (steps[i].kind != CAIRN_STEP_FETCH || w->state[t].homed)
            continue;
        cairn_role role = cairn_graph_tensor(w->graph, t)->role;
        w->state[t].homed = role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_SLOT;
        w->state[t].on_host = w->state[t].homed;
        if (w->state[t].homed && machine != NULL && host_bytes(w) > machine->host_memory_bytes &&
            w->out->broken_count == 0)
            broken(w, CAIRN_RULE_HOST_FULL, t);
    }
}

static void start(world *w, const cairn_step *steps, uint32_t count) {
    find_homes(w, steps, count);
    if (w->out->broken_count > 0)
        return;
    for (cairn_id t = 0; t < w->tensors; t++) {
        cairn_role role = cairn_graph_tensor(w->graph, t)->role;
        bool stays =
            is_stationary(w, t) && (role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_STATE);
        if (role == CAIRN_ROLE_INPUT || stays ||
            (role == CAIRN_ROLE_LABEL && w->goal == CAIRN_GOAL_TRAIN))
            appear(w, t);
    }
    w->out->start_bytes = count_memory(w, 0, 0, CAIRN_NONE);
}

static bool is_result(const world *w, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(w->graph, t);
    if (w->goal == CAIRN_GOAL_TRAIN)
        return tensor->role == CAIRN_ROLE_LOSS || tensor->result ||
               (tensor->role == CAIRN_ROLE_GRADIENT && tensor->stationary);
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(w->graph, &summary);
    return t == summary.output;
}

static void check_end(world *w) {
    for (cairn_id t = 0; t < w->tensors; t++) {
        /* A sum of gradients that a later sum has overwritten is part of that sum. */
        bool summed = is_stationary(w, t) && w->state[t].presence == OVERWRITTEN;
        if (is_result(w, t) && !is_there(w, t) && !summed)
            broken(w, CAIRN_RULE_NEVER_MADE, t);
    }
    for (cairn_id o = 0; o < w->ops && w->goal == CAIRN_GOAL_TRAIN; o++)
        if ((cairn_graph_op(w->graph, o)->flags & CAIRN_OP_FLAG_ONCE) && w->times_run[o] == 0)
            broken(w, CAIRN_RULE_EFFECT_MISSING, o);
    for (cairn_id t = 0; t < w->tensors; t++)
        if (is_there(w, t) && !is_stationary(w, t) && !is_result(w, t))
            broken(w, CAIRN_RULE_LEFT_AT_END, t);
}

/* ---- Run ---- */

static void check_op(world *w, cairn_id o) {
    const cairn_op *op = cairn_graph_op(w->graph, o);
    if (w->goal == CAIRN_GOAL_INFER && op->phase != CAIRN_PHASE_FORWARD)
        broken(w, CAIRN_RULE_NOT_OF_GOAL, o);
    if (w->times_run[o] > 0 && (op->flags & CAIRN_OP_FLAG_NEVER_AGAIN))
        broken(w, CAIRN_RULE_NEVER_AGAIN, o);
    if (w->times_run[o] > 0 && (op->flags & CAIRN_OP_FLAG_ONCE) &&
        (op->output_count == 0 || op->phase == CAIRN_PHASE_UPDATE))
        broken(w, CAIRN_RULE_ONCE_TWICE, o);
}

static void check_reads(world *w, const cairn_op *op) {
    for (uint32_t i = 0; i < op->input_count; i++) {
        cairn_id t = op->inputs[i];
        switch (w->state[t].presence) {
        case NEVER_THERE:
            broken(w, CAIRN_RULE_INPUT_NEVER_MADE, t);
            break;
        case FREED:
            broken(w, CAIRN_RULE_READ_AFTER_FREE, t);
            break;
        case OVERWRITTEN:
            broken(w, CAIRN_RULE_READ_OVERWRITTEN, t);
            break;
        case THERE:
            if (w->state[t].flight == COMING_IN)
                broken(w, CAIRN_RULE_READ_BEFORE_WAIT, t);
            break;
        }
    }
}

static bool changes_params(const cairn_op *op) {
    return op->kind == CAIRN_OP_UPDATE || op->phase == CAIRN_PHASE_UPDATE;
}

static void check_params(world *w, const cairn_op *op) {
    for (uint32_t i = 0; i < op->param_count; i++) {
        cairn_id t = op->params[i];
        const tensor_state *s = &w->state[t];
        if (s->updated && op->kind != CAIRN_OP_UPDATE)
            broken(w, CAIRN_RULE_READ_UPDATED, t);
        if (s->homed && s->presence != THERE)
            broken(w,
                   s->presence == FREED ? CAIRN_RULE_READ_AFTER_FREE : CAIRN_RULE_READ_BEFORE_FETCH,
                   t);
        if (s->flight == COMING_IN)
            broken(w, CAIRN_RULE_READ_BEFORE_WAIT, t);
        if (s->flight == GOING_OUT && changes_params(op))
            broken(w, CAIRN_RULE_WRITE_IN_FLIGHT, t);
    }
}

/* Whether the op makes an alias of `t` now. */
static bool makes_alias_of(const world *w, const cairn_op *op, cairn_id t) {
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && op->outputs[i] != t &&
            crn_graph_storage(w->graph, op->outputs[i]) == crn_graph_storage(w->graph, t))
            return true;
    return false;
}

static void check_missing(world *w, const cairn_op *op) {
    for (uint32_t i = 0; i < op->inplace_count; i++)
        if (is_stationary(w, op->outputs[op->inplace[i].output]) &&
            is_stationary(w, op->inputs[op->inplace[i].input]))
            broken(w, CAIRN_RULE_INPLACE_MISSING, op->outputs[op->inplace[i].output]);
}

static void check_inplace(world *w, const cairn_op *op, uint32_t inplace) {
    cairn_id output = op->outputs[op->inplace[inplace - 1].output];
    cairn_id operand = op->inputs[op->inplace[inplace - 1].input];
    uint32_t storage = w->state[operand].storage;
    bool fits = storage == NO_STORAGE || bytes_of(w, output) <= w->storages[storage];
    if (is_there(w, output) || !fits)
        broken(w, CAIRN_RULE_INPLACE_FORBIDDEN, output);
    if (w->state[operand].flight != RESTING)
        broken(w, CAIRN_RULE_WRITE_IN_FLIGHT, operand);
    bool shared = makes_alias_of(w, op, operand);
    for (cairn_id t = 0; t < w->tensors; t++)
        shared = shared || (t != operand && share(w, t, operand));
    if (shared)
        broken(w, CAIRN_RULE_INPLACE_SHARED, operand);
}

/* An output that is there already is overwritten, together with everything that shares its storage.
 * Making an alias writes nothing. */
static void check_writes(world *w, const cairn_op *op) {
    for (uint32_t i = 0; i < op->output_count; i++) {
        cairn_id made = op->outputs[i];
        if (made == CAIRN_NONE)
            continue;
        bool copied = is_there(w, made) && w->state[made].flight != RESTING;
        for (cairn_id t = 0; t < w->tensors; t++)
            copied = copied || (cairn_graph_tensor(w->graph, made)->alias_of == CAIRN_NONE &&
                                share(w, t, made) && w->state[t].flight != RESTING);
        if (copied)
            broken(w, CAIRN_RULE_WRITE_IN_FLIGHT, made);
    }
}

static void check_implementation(world *w, cairn_id o, uint32_t implementation) {
    uint32_t implementations;
    cairn_costs_op(w->costs, o, &implementations);
    if (implementation >= implementations)
        broken(w, CAIRN_RULE_NO_IMPLEMENTATION, o);
    else if (w->times_run[o] > 0 && w->run_by[o] != implementation)
        broken(w, CAIRN_RULE_OTHER_IMPLEMENTATION, o);
}

/* An alias gets the storage of the input that it is an alias of. */
static void appear_as_alias(world *w, const cairn_op *op, cairn_id t) {
    cairn_id root = cairn_graph_tensor(w->graph, t)->alias_of;
    for (uint32_t i = 0; i < op->input_count && !is_there(w, t); i++)
        if (crn_graph_storage(w->graph, op->inputs[i]) == root) {
            w->state[t].presence = THERE;
            w->state[t].storage = w->state[op->inputs[i]].storage;
        }
}

static void overwrite(world *w, const cairn_op *op, uint32_t inplace) {
    cairn_id output = op->outputs[op->inplace[inplace - 1].output];
    cairn_id operand = op->inputs[op->inplace[inplace - 1].input];
    w->state[output].presence = THERE;
    w->state[output].storage = w->state[operand].storage;
    w->state[operand].presence = OVERWRITTEN;
}

static void run(world *w, uint32_t number, cairn_step step) {
    naive_sim *out = w->out;
    const cairn_op *op = cairn_graph_op(w->graph, step.id);
    check_op(w, step.id);
    check_reads(w, op);
    check_params(w, op);
    if (step.inplace == 0)
        check_missing(w, op);
    if (step.inplace > 0)
        check_inplace(w, op, step.inplace);
    if (step.also > 0)
        check_inplace(w, op, step.also);
    check_writes(w, op);
    check_implementation(w, step.id, step.implementation);
    if (out->broken_count > 0)
        return;
    uint32_t unused;
    cairn_implementation how = cairn_costs_op(w->costs, step.id, &unused)[step.implementation];
    if (step.inplace > 0)
        overwrite(w, op, step.inplace);
    if (step.also > 0)
        overwrite(w, op, step.also);
    for (uint32_t i = 0; i < op->output_count; i++) {
        cairn_id made = op->outputs[i];
        if (made != CAIRN_NONE && cairn_graph_tensor(w->graph, made)->alias_of != CAIRN_NONE)
            appear_as_alias(w, op, made);
        else if (made != CAIRN_NONE)
            appear(w, made);
    }
    for (uint32_t i = 0; i < op->param_count && changes_params(op); i++) {
        w->state[op->params[i]].updated = op->kind == CAIRN_OP_UPDATE;
        w->state[op->params[i]].on_host = false;
    }
    cairn_id first_made = op->output_count > 0 ? op->outputs[0] : CAIRN_NONE;
    uint64_t bytes = count_memory(w, number, rounded_up(how.workspace_bytes), first_made);
    int64_t time = w->times_run[step.id] == 0
                       ? how.time_ns
                       : crn_costs_again_ns(w->costs, step.id, step.implementation);
    out->steps[number] = (cairn_sim_step){bytes, w->compute_ns, w->compute_ns + time};
    w->compute_ns += time;
    out->compute_ns += time;
    out->runs++;
    w->run_by[step.id] = step.implementation;
    if (w->times_run[step.id]++ > 0) {
        out->reruns++;
        out->rerun_ns += time;
    }
}

/* ---- Free and copies ---- */

static bool refuse_stationary(world *w, cairn_id t) {
    if (is_stationary(w, t))
        broken(w, CAIRN_RULE_FREE_STATIONARY, t);
    return is_stationary(w, t);
}

static void end_step(world *w, uint32_t number, cairn_id culprit, int64_t from, int64_t to) {
    if (w->out->broken_count == 0)
        w->out->steps[number] = (cairn_sim_step){count_memory(w, number, 0, culprit), from, to};
}

static void free_tensor(world *w, uint32_t number, cairn_id t) {
    tensor_state *s = &w->state[t];
    if (refuse_stationary(w, t))
        return;
    if (s->presence == NEVER_THERE)
        broken(w, CAIRN_RULE_FREE_NEVER_MADE, t);
    else if (s->presence != THERE)
        broken(w, CAIRN_RULE_FREED_TWICE, t);
    else if (s->flight != RESTING)
        broken(w, CAIRN_RULE_FREE_IN_FLIGHT, t);
    else if (s->homed && !s->on_host)
        broken(w, CAIRN_RULE_CHANGE_LOST, t);
    else
        s->presence = FREED;
    end_step(w, number, t, w->compute_ns, w->compute_ns);
}

/* Queue a copy on its lane; returns its start and end. */
static void copy(world *w, cairn_id t, flight direction, int64_t *from, int64_t *to) {
    const cairn_machine *machine = w->options->machine;
    int64_t *lane = direction == GOING_OUT ? &w->out_ns : &w->in_ns;
    int64_t free_at = *lane;
    if (machine != NULL && !machine->full_duplex)
        free_at = w->out_ns > w->in_ns ? w->out_ns : w->in_ns;
    *from = w->compute_ns > free_at ? w->compute_ns : free_at;
    uint64_t bytes = cairn_costs_bytes(w->costs)[t];
    int64_t takes = 0;
    if (machine != NULL) {
        __extension__ typedef unsigned __int128 wide;
        wide rate = machine->link_bytes_per_second;
        takes = machine->link_latency_ns + (int64_t)(((wide)bytes * 1000000000u + rate - 1) / rate);
    }
    *to = *from + takes;
    *lane = *to;
    *(direction == GOING_OUT ? &w->out->copy_out_ns : &w->out->copy_in_ns) += takes;
    w->state[t].flight = direction;
    w->state[t].copied_ns = *to;
}

static void offload(world *w, uint32_t number, cairn_id t) {
    tensor_state *s = &w->state[t];
    int64_t from = 0, to = 0;
    if (refuse_stationary(w, t))
        return;
    if (s->presence != THERE)
        broken(w, CAIRN_RULE_OFFLOAD_ABSENT, t);
    else if (s->flight != RESTING)
        broken(w, CAIRN_RULE_OFFLOAD_IN_FLIGHT, t);
    s->on_host = true;
    const cairn_machine *machine = w->options->machine;
    if (machine != NULL && host_bytes(w) > machine->host_memory_bytes)
        broken(w, CAIRN_RULE_HOST_FULL, t);
    if (w->out->broken_count > 0)
        return;
    copy(w, t, GOING_OUT, &from, &to);
    w->out->offloads++;
    end_step(w, number, t, from, to);
}

static void fetch(world *w, uint32_t number, cairn_id t) {
    tensor_state *s = &w->state[t];
    int64_t from = 0, to = 0;
    if (refuse_stationary(w, t))
        return;
    if (s->presence == THERE)
        broken(w, CAIRN_RULE_FETCH_RESIDENT, t);
    if (!s->on_host)
        broken(w, CAIRN_RULE_FETCH_WITHOUT_COPY, t);
    if (w->out->broken_count > 0)
        return;
    appear(w, t);
    copy(w, t, COMING_IN, &from, &to);
    w->out->fetches++;
    end_step(w, number, t, from, to);
}

static void wait_for(world *w, uint32_t number, cairn_id t) {
    tensor_state *s = &w->state[t];
    if (refuse_stationary(w, t))
        return;
    if (s->flight == RESTING) {
        broken(w, CAIRN_RULE_WAIT_FOR_NOTHING, t);
        return;
    }
    int64_t from = w->compute_ns;
    if (s->copied_ns > w->compute_ns)
        w->compute_ns = s->copied_ns;
    w->out->idle_ns += w->compute_ns - from;
    s->flight = RESTING;
    end_step(w, number, t, from, w->compute_ns);
}

/* ---- The walk ---- */

static void walk(world *w, const cairn_step *steps, uint32_t count) {
    start(w, steps, count);
    for (uint32_t i = 0; i < count && w->out->broken_count == 0; i++) {
        w->out->broken_step = i;
        switch ((cairn_step_kind)steps[i].kind) {
        case CAIRN_STEP_RUN:
            run(w, i, steps[i]);
            break;
        case CAIRN_STEP_FREE:
            free_tensor(w, i, steps[i].id);
            break;
        case CAIRN_STEP_OFFLOAD:
            offload(w, i, steps[i].id);
            break;
        case CAIRN_STEP_FETCH:
            fetch(w, i, steps[i].id);
            break;
        case CAIRN_STEP_WAIT:
            wait_for(w, i, steps[i].id);
            break;
        }
        w->out->step_count += w->out->broken_count == 0;
    }
    if (w->out->broken_count > 0)
        return;
    w->out->broken_step = count;
    check_end(w);
}

void naive_simulate(const cairn_graph *graph, const cairn_costs *costs, const cairn_step *steps,
                    uint32_t count, cairn_goal goal, const cairn_sim_options *options,
                    naive_sim *out) {
    world w = {.graph = graph, .costs = costs, .options = options, .goal = goal, .out = out};
    *out = (naive_sim){0};
    w.tensors = cairn_graph_tensor_count(graph);
    w.ops = cairn_graph_op_count(graph);
    w.state = zeroed(w.tensors, sizeof *w.state);
    w.times_run = zeroed(w.ops, sizeof *w.times_run);
    w.run_by = zeroed(w.ops, sizeof *w.run_by);
    uint32_t most = w.tensors; /* storages: those at the start, and those that steps allocate */
    for (uint32_t i = 0; i < count; i++)
        most +=
            steps[i].kind == CAIRN_STEP_RUN ? cairn_graph_op(graph, steps[i].id)->output_count : 1;
    w.storages = zeroed(most, sizeof *w.storages);
    w.counted = zeroed(most, sizeof *w.counted);
    out->holders = zeroed(w.tensors + 1, sizeof *out->holders);
    out->steps = zeroed(count, sizeof *out->steps);
    for (cairn_id t = 0; t < w.tensors; t++)
        w.state[t].storage = NO_STORAGE;
    walk(&w, steps, count);
    out->host_bytes = host_bytes(&w);
    out->time_ns = w.compute_ns;
    if (w.out_ns > out->time_ns)
        out->time_ns = w.out_ns;
    if (w.in_ns > out->time_ns)
        out->time_ns = w.in_ns;
    free(w.counted);
    free(w.storages);
    free(w.times_run);
    free(w.run_by);
    free(w.state);
}

void naive_release(naive_sim *sim) {
    free(sim->holders);
    free(sim->steps);
    *sim = (naive_sim){0};
}
