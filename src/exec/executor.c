/* executor.c: makes a plan ready to run, and runs it.
 *
 *     made with the costs bound here? -> within the budget? -> reserve -> bind
 *
 * A step goes through the actions in order. For each action, the memory that it allocates is
 * counted, its kernel or copy is enqueued on the device, and the memory that it frees is
 * subtracted. The update comes last, if the run has one. One join ends the run. With a device
 * that can record a run this is done once.
 *
 *     offload x   compute: record r;  copy out: follow r, copy x, record d
 *     wait x      compute: follow d
 *     fetch x     the same on the lane of copies in
 *
 * So a copy begins when the compute lane has reached it. The op that made its source, or the ops
 * that used its target before, have ended then. */
#include "exec/exec_internal.h"
#include "graph/crn_graph.h"

#include <time.h>

int64_t crn_exec_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- A step, enqueued ---- */

static void take_ranges(cairn_exec *exec, const crn_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        crn_occupancy_take(&exec->occupancy, ranges[i]);
        if (exec->options.check)
            crn_check_take(exec, ranges[i]);
    }
}

static void give_ranges(cairn_exec *exec, const crn_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        crn_occupancy_give(&exec->occupancy, ranges[i]);
        if (exec->options.check)
            crn_check_give(exec, ranges[i]);
        else if (exec->backend->discard != NULL)
            exec->backend->discard(exec->queue, (char *)exec->arena.base + ranges[i].offset,
                                   ranges[i].bytes);
    }
}

static void copy(cairn_exec *exec, const crn_action *a, crn_lane lane) {
    const crn_backend *backend = exec->backend;
    bool out = lane == CRN_COPY_OUT;
    backend->record(exec->queue, CRN_COMPUTE, a->ready);
    backend->follow(exec->queue, lane, a->ready);
    backend->copy(exec->queue, lane, out ? a->host : a->device, out ? a->device : a->host,
                  a->bytes);
    backend->record(exec->queue, lane, a->done);
}

static void act(cairn_exec *exec, const crn_action *a) {
    switch ((cairn_step_kind)a->kind) {
    case CAIRN_STEP_RUN:
        if (a->update != NULL)
            crn_optimizer_act(exec, a->update);
        else
            exec->backend->enqueue(exec->queue, &a->call);
        if (a->counts)
            exec->backend->count_correct(exec->queue, &a->call);
        break;
    case CAIRN_STEP_OFFLOAD:
        copy(exec, a, CRN_COPY_OUT);
        break;
    case CAIRN_STEP_FETCH:
        copy(exec, a, CRN_COPY_IN);
        break;
    case CAIRN_STEP_WAIT:
        exec->backend->follow(exec->queue, CRN_COMPUTE, a->done);
        break;
    case CAIRN_STEP_FREE:
        break;
    }
}

/* Record an event on the compute lane before action `index`, for a profile. */
static void mark_time(cairn_exec *exec, uint32_t index) {
    if (exec->timed)
        exec->backend->record(exec->queue, CRN_COMPUTE, exec->program.event_count + index);
}

/* Enqueue a run; without `last` it only adds gradients up for a later one. */
static void enqueue_all(cairn_exec *exec, bool last) {
    const crn_program *program = &exec->program;
    exec->enqueues_last = last;
    crn_occupancy_reset(&exec->occupancy);
    for (uint32_t i = 0; i < program->input_count; i++)
        crn_occupancy_take(&exec->occupancy, program->ranges[i]);
    if (exec->options.check)
        crn_check_begin(exec);
    for (uint32_t i = 0; i < program->count; i++) {
        const crn_action *action = &program->actions[i];
        mark_time(exec, i);
        take_ranges(exec, action->takes, action->take_count);
        if (last || !action->of_last)
            act(exec, action);
        give_ranges(exec, action->gives, action->give_count);
    }
    mark_time(exec, program->count);
    for (uint32_t i = 0; i < program->unwaited_count; i++)
        exec->backend->follow(exec->queue, CRN_COMPUTE, program->unwaited[i]);
    if (program->loss != NULL)
        exec->backend->take_loss(exec->queue, program->loss);
    crn_optimizer_end_run(exec);
}

/* ---- Creating an executor ---- */

static cairn_status reserve(cairn_exec *exec, crn_space space, uint64_t bytes, crn_reservation *out,
                            cairn_error *err) {
    if (bytes == 0)
        return CAIRN_OK;
    CRN_TRY(exec->backend->reserve(exec->device->state, space, bytes, &out->base, err));
    out->bytes = bytes;
    return CAIRN_OK;
}

static void release(cairn_exec *exec, crn_space space, crn_reservation *reserved) {
    if (reserved->bytes > 0 && !reserved->shared)
        exec->backend->release(exec->device->state, space, reserved->base, reserved->bytes);
    reserved->bytes = 0;
}

/* Refuse a plan that exceeds the budget; the message has the peak that it was planned for. */
static cairn_status check_budget(const cairn_exec *exec, const cairn_plan *plan, cairn_error *err) {
    uint64_t budget = exec->options.budget_bytes;
    const cairn_exec_figures *f = &exec->figures;
    if (budget == 0 || f->arena_bytes <= budget)
        return CAIRN_OK;
    return crn_fail(err, CAIRN_EINVAL,
                    "the plan needs %llu bytes on backend \"%s\" (live peak %llu; it was planned "
                    "for a peak of %llu), which is more than the budget of %llu bytes",
                    (unsigned long long)f->arena_bytes, exec->backend->name,
                    (unsigned long long)f->predicted_peak_bytes,
                    (unsigned long long)plan->header->predicted_peak_bytes,
                    (unsigned long long)budget);
}

/* If the backend stores a tensor in another number of bytes than the costs say, the plan was made
 * for another backend. */
static cairn_status check_storage(const cairn_exec *exec, const cairn_costs *costs,
                                  cairn_error *err) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(exec->graph); t++)
        if (exec->storage[t].bytes != cairn_costs_bytes(costs)[t])
            return crn_fail_at(err, CAIRN_EINVAL, cairn_graph_tensor(exec->graph, t)->name,
                               "tensor \"%s\" takes %llu bytes on backend \"%s\", and the costs "
                               "say %llu; they were not bound for this backend",
                               cairn_graph_tensor(exec->graph, t)->name,
                               (unsigned long long)exec->storage[t].bytes, exec->backend->name,
                               (unsigned long long)cairn_costs_bytes(costs)[t]);
    return CAIRN_OK;
}

/* Reserve the arena, or use the arena of the executor that this one shares with. */
static cairn_status reserve_arena(cairn_exec *exec, cairn_error *err) {
    const cairn_exec *other = exec->options.share_with;
    uint64_t bytes = exec->figures.arena_bytes;
    if (other == NULL || other->arena.bytes < bytes)
        return reserve(exec, CRN_SPACE_DEVICE, bytes, &exec->arena, err);
    exec->arena = (crn_reservation){.base = other->arena.base, .bytes = bytes, .shared = true};
    return CAIRN_OK;
}

static cairn_status reserve_all(cairn_exec *exec, cairn_error *err) {
    const cairn_exec_figures *f = &exec->figures;
    CRN_TRY(reserve_arena(exec, err));
    CRN_TRY(reserve(exec, CRN_SPACE_HOST, f->host_bytes - f->home_bytes, &exec->host, err));
    CRN_TRY(reserve(exec, CRN_SPACE_DEVICE, f->stationary_bytes, &exec->resident, err));
    if (exec->options.share_with == NULL)
        CRN_TRY(reserve(exec, CRN_SPACE_HOST, f->home_bytes, &exec->homes, err));
    return reserve(exec, CRN_SPACE_HOST, crn_staging_bytes(exec->graph), &exec->staging, err);
}

/* Whether all that is stationary in the graph is so in the other one, with the same id and form. */
static bool has_same_parameters(const cairn_exec *exec, const cairn_exec *other) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(exec->graph); t++) {
        const cairn_tensor *ours = cairn_graph_tensor(exec->graph, t);
        if (!ours->stationary)
            continue;
        if (t >= cairn_graph_tensor_count(other->graph) ||
            strcmp(ours->name, cairn_graph_tensor(other->graph, t)->name) != 0 ||
            exec->storage[t].bytes != other->storage[t].bytes ||
            exec->storage[t].block != other->storage[t].block ||
            exec->storage[t].format != other->storage[t].format ||
            exec->storage[t].type != other->storage[t].type)
            return false;
    }
    return true;
}

static cairn_status check_sharing(const cairn_exec *exec, cairn_error *err) {
    const cairn_exec *other = exec->options.share_with;
    if (other == NULL || (!exec->training && other->device == exec->device &&
                          (other->graph == exec->graph || has_same_parameters(exec, other))))
        return CAIRN_OK;
    return crn_fail(err, CAIRN_EINVAL,
                    "only a plan for evaluation, with the same parameters and device, can share "
                    "the stationary memory of another executor");
}

/* Record the step now if the device can. Check mode needs access between the actions, and so does
 * the clock of a profile, unless recordings have timed events. */
static cairn_status record(cairn_exec *exec, cairn_error *err) {
    const crn_backend *backend = exec->backend;
    if (backend->begin_recording == NULL || exec->options.check ||
        (exec->timed && !backend->times_recordings))
        return CAIRN_OK;
    bool has_others = exec->whole && exec->options.micro_batches > 1;
    for (int last = !has_others; last < 2; last++) {
        CRN_TRY(backend->begin_recording(exec->queue, err));
        enqueue_all(exec, last != 0);
        CRN_TRY(backend->end_recording(exec->queue, &exec->recordings[last], err));
    }
    return CAIRN_OK;
}

static cairn_status create_events(cairn_exec *exec, cairn_error *err) {
    const crn_program *program = &exec->program;
    uint32_t count = program->event_count;
    if (exec->timed) {
        CRN_TAKE(&exec->memory, exec->times, program->count);
        exec->figures.times = exec->times;
        exec->figures.time_count = program->count;
        count += program->count + 1;
    }
    return exec->backend->events(exec->queue, count, exec->timed, err);
}

/* Prepare everything that stays in the executor, from lifetimes and offsets. */
static cairn_status prepare(cairn_exec *exec, const crn_binding_input *input, cairn_error *err) {
    CRN_TAKE(&exec->memory, exec->storage, cairn_graph_tensor_count(exec->graph));
    CRN_TRY(crn_device_store(exec->device, exec->graph, exec->storage, err));
    CRN_TRY(check_storage(exec, input->costs, err));
    CRN_TRY(check_budget(exec, input->plan, err));
    bool sharing = exec->options.share_with != NULL;
    CRN_TRY(check_sharing(exec, err));
    if (!sharing)
        CRN_TRY(crn_stationary_layout(exec, input->costs, input->plan));
    CRN_TRY(crn_occupancy_init(&exec->occupancy, &exec->memory, exec->figures.arena_bytes));
    CRN_TRY(reserve_all(exec, err));
    if (sharing)
        crn_stationary_share(exec);
    else
        crn_stationary_place(exec);
    CRN_TRY(exec->backend->queue(exec->device->state, &exec->queue, err));
    CRN_TRY(crn_optimizer_init(exec, err));
    CRN_TRY(crn_bind_steps(exec, input, err));
    CRN_TRY(create_events(exec, err));
    CRN_TRY(crn_optimizer_prepare(exec, err));
    if (!sharing)
        CRN_TRY(crn_initialize(exec, err));
    return record(exec, err);
}

/* The solution must be for this graph, and for costs with the same memory. */
static cairn_status check_solution(const cairn_exec *exec, const cairn_costs *costs,
                                   const cairn_solution *solution, cairn_error *err) {
    if (solution->plan->header->graph_hash != crn_graph_hash(exec->graph))
        return crn_fail(err, CAIRN_EINVAL, "the plan was made for another graph than \"%s\"",
                        cairn_graph_name(exec->graph));
    if (solution->costs_hash != crn_costs_memory_hash(costs))
        return crn_fail(err, CAIRN_EINVAL,
                        "the plan was made with other costs than those bound for backend \"%s\"",
                        exec->backend->name);
    return CAIRN_OK;
}

/* The solution is used only while binding. */
static cairn_status prepare_solution(cairn_exec *exec, const cairn_costs *costs,
                                     const cairn_solution *solution, cairn_error *err) {
    const cairn_sim_summary *summary = solution->sim->summary;
    crn_binding_input input = {costs, solution->plan, solution->sim, solution->layout};
    CRN_TRY(check_solution(exec, costs, solution, err));
    exec->figures.predicted_peak_bytes = summary->peak_bytes;
    exec->figures.arena_bytes = solution->layout->arena_bytes;
    exec->figures.host_bytes = summary->host_bytes;
    exec->figures.home_bytes = summary->home_bytes;
    exec->figures.threads = exec->device->facts.compute_units;
    return prepare(exec, &input, err);
}

cairn_status crn_exec_create(const cairn_graph *graph, cairn_device *device,
                             const cairn_costs *costs, const cairn_solution *solution,
                             const cairn_exec_options *given, bool timed, cairn_exec **out,
                             cairn_error *err) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_exec_options, options, given, err);
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_exec *exec = CRN_OBJECT(&allocator, cairn_exec, memory);
    if (exec == NULL)
        return crn_fail_memory(err);
    exec->graph = graph;
    exec->device = device;
    exec->backend = device->backend;
    exec->options = options;
    exec->options.micro_batches = CRN_MAX(options.micro_batches, 1);
    exec->training = solution->plan->header->goal == CAIRN_GOAL_TRAIN;
    exec->whole = exec->training && crn_graph_has_updates(graph);
    exec->timed = timed || exec->options.timed;
    cairn_status status = prepare_solution(exec, costs, solution, err);
    if (status != CAIRN_OK) {
        cairn_exec_destroy(exec);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = exec;
    return CAIRN_OK;
}

cairn_status cairn_exec_create(const cairn_graph *graph, cairn_device *device,
                               const cairn_costs *costs, const cairn_solution *solution,
                               const cairn_exec_options *options, cairn_exec **out,
                               cairn_error *err) {
    return crn_exec_create(graph, device, costs, solution, options, false, out, err);
}

/* Wait for queued work first, for example an update. */
static void finish_queue(cairn_exec *exec) {
    const crn_backend *backend = exec->backend;
    if (exec->queue == NULL)
        return;
    (void)!backend->join(exec->queue, NULL, NULL);
    for (int i = 0; i < 2; i++)
        if (exec->recordings[i] != NULL)
            backend->forget(exec->queue, exec->recordings[i]);
    crn_unbind_steps(exec);
    crn_optimizer_release(exec);
    backend->finish_queue(exec->queue);
}

void cairn_exec_destroy(cairn_exec *exec) {
    if (exec == NULL)
        return;
    finish_queue(exec);
    release(exec, CRN_SPACE_HOST, &exec->staging);
    release(exec, CRN_SPACE_HOST, &exec->homes);
    release(exec, CRN_SPACE_DEVICE, &exec->resident);
    release(exec, CRN_SPACE_HOST, &exec->host);
    release(exec, CRN_SPACE_DEVICE, &exec->arena);
    crn_arena_destroy(&exec->memory); /* the executor itself is allocated in it */
}

const cairn_exec_figures *cairn_exec_get_figures(const cairn_exec *exec) {
    return &exec->figures;
}

/* ---- Running ---- */

static void read_times(cairn_exec *exec) {
    crn_event first = exec->program.event_count;
    for (uint32_t i = 0; exec->timed && i < exec->program.count; i++)
        exec->times[i] = exec->backend->elapsed_ns(exec->queue, first + i, first + i + 1);
}

cairn_status cairn_exec_run(cairn_exec *exec, uint64_t step, cairn_exec_result *out,
                            cairn_error *err) {
    int64_t start = crn_exec_clock();
    crn_results results;
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_exec_result, out, err);
    crn_values values = {.seed = exec->options.seed, .step = step};
    crn_optimizer_set_values(exec, &values);
    bool last = crn_optimizer_is_last(exec);
    if (exec->recordings[last] != NULL) {
        exec->backend->replay(exec->queue, exec->recordings[last], &values);
    } else {
        exec->backend->begin(exec->queue, &values);
        enqueue_all(exec, last);
    }
    crn_optimizer_after_run(exec);
    cairn_status status = exec->backend->join(exec->queue, &results, err);
    if (exec->options.check)
        crn_check_end(exec);
    CRN_TRY(status);
    read_times(exec);
    cairn_exec_result made = {.loss = results.loss,
                              .correct = results.correct,
                              .predictions = results.predictions,
                              .idle_ns = results.idle_ns,
                              .runs = exec->program.run_count,
                              .measured_peak_bytes = exec->occupancy.peak,
                              .time_ns = crn_exec_clock() - start};
    crn_write_output(out, &made, sizeof made);
    return CAIRN_OK;
}

cairn_status crn_exec_join(cairn_exec *exec, cairn_error *err) {
    crn_error_clear(err);
    return exec->backend->join(exec->queue, NULL, err);
}
