/* executor.c: makes a plan ready to run, and runs it.
 *
 *     simulate with the costs bound here -> within the budget? -> lay out -> reserve -> bind
 *
 * All that can fail fails here, before the first step. A step walks the actions in order: what an
 * action binds is counted, its kernel runs or its copy starts, what it gives back is counted off.
 */
#include "exec/exec_internal.h"

#include <time.h>

int64_t crn_exec_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Making one ---- */

static cairn_status reserve(cairn_exec *exec, crn_pool_kind pool, uint64_t bytes, crn_region *out,
                            cairn_error *err) {
    if (bytes == 0)
        return CAIRN_OK;
    CRN_TRY(exec->backend->reserve(exec->device, pool, bytes, &out->base, err));
    out->bytes = bytes;
    return CAIRN_OK;
}

static void release(cairn_exec *exec, crn_pool_kind pool, crn_region *region) {
    if (region->bytes > 0 && !region->shared)
        exec->backend->release(exec->device, pool, region->base, region->bytes);
    region->bytes = 0;
}

/* What passes the budget with these costs, with the peak it was planned for. */
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
                    (unsigned long long)cairn_plan_get_header(plan)->predicted_peak_bytes,
                    (unsigned long long)budget);
}

/* A tensor that the backend stores in another number of bytes than the costs say was planned for
 * another backend. */
static cairn_status check_storage(const cairn_exec *exec, const cairn_costs *costs,
                                  cairn_error *err) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(exec->graph); t++)
        if (exec->storage[t].bytes != cairn_costs_bytes(costs, t))
            return crn_fail_at(err, CAIRN_EINVAL, cairn_graph_tensor(exec->graph, t)->name,
                               "tensor \"%s\" takes %llu bytes on backend \"%s\", and the costs "
                               "say %llu; they were not bound for this backend",
                               cairn_graph_tensor(exec->graph, t)->name,
                               (unsigned long long)exec->storage[t].bytes, exec->backend->name,
                               (unsigned long long)cairn_costs_bytes(costs, t));
    return CAIRN_OK;
}

/* The arena, or as much as is needed of that of the executor that this one shares with. */
static cairn_status reserve_arena(cairn_exec *exec, cairn_error *err) {
    const cairn_exec *other = exec->options.share_with;
    uint64_t bytes = exec->figures.arena_bytes;
    if (other == NULL || other->arena.bytes < bytes)
        return reserve(exec, CRN_DEVICE, bytes, &exec->arena, err);
    exec->arena = (crn_region){.base = other->arena.base, .bytes = bytes, .shared = true};
    return CAIRN_OK;
}

static cairn_status reserve_all(cairn_exec *exec, cairn_error *err) {
    const cairn_exec_figures *f = &exec->figures;
    CRN_TRY(reserve_arena(exec, err));
    CRN_TRY(reserve(exec, CRN_HOST, f->host_bytes, &exec->host, err));
    return reserve(exec, CRN_DEVICE, f->stationary_bytes, &exec->resident, err);
}

static cairn_status check_sharing(const cairn_exec *exec, cairn_error *err) {
    const cairn_exec *other = exec->options.share_with;
    if (other == NULL ||
        (!exec->training && other->graph == exec->graph && other->backend == exec->backend))
        return CAIRN_OK;
    return crn_fail(err, CAIRN_EINVAL,
                    "only a plan for evaluation, of the same graph and backend, can share the "
                    "stationary memory of another executor");
}

/* With lifetimes and offsets at hand: everything that stays in the executor. */
static cairn_status prepare(cairn_exec *exec, const crn_binding_input *input, cairn_error *err) {
    CRN_TAKE(&exec->memory, exec->storage, cairn_graph_tensor_count(exec->graph));
    CRN_TRY(crn_backend_store(exec->backend, exec->graph, exec->storage));
    CRN_TRY(check_storage(exec, input->costs, err));
    CRN_TRY(check_budget(exec, input->plan, err));
    bool sharing = exec->options.share_with != NULL;
    CRN_TRY(check_sharing(exec, err));
    if (!sharing)
        CRN_TRY(crn_stationary_layout(exec, input->costs, &exec->figures.stationary_bytes));
    CRN_TRY(crn_occupancy_init(&exec->occupancy, &exec->memory, exec->figures.arena_bytes));
    CRN_TAKE(&exec->memory, exec->events, cairn_graph_tensor_count(exec->graph));
    CRN_TRY(reserve_all(exec, err));
    if (sharing)
        crn_stationary_share(exec);
    else
        crn_stationary_place(exec);
    CRN_TRY(crn_bind_steps(exec, input, err));
    CRN_TRY(crn_optimizer_init(exec));
    if (!sharing)
        crn_initialize(exec);
    return CAIRN_OK;
}

/* What was judged must be of this graph, and of costs that take the same memory as these. */
static cairn_status check_solution(const cairn_exec *exec, const cairn_costs *costs,
                                   const cairn_solution *solution, cairn_error *err) {
    if (cairn_plan_get_header(solution->plan)->graph_hash != cairn_graph_hash(exec->graph))
        return crn_fail(err, CAIRN_EINVAL, "the plan was made for another graph than \"%s\"",
                        cairn_graph_name(exec->graph));
    if (solution->costs_hash != cairn_costs_memory_hash(costs))
        return crn_fail(err, CAIRN_EINVAL,
                        "the plan was judged by other costs than those bound for backend \"%s\"",
                        exec->backend->name);
    return CAIRN_OK;
}

/* The solution is looked at only while binding. */
static cairn_status prepare_solution(cairn_exec *exec, const cairn_costs *costs,
                                     const cairn_solution *solution, cairn_error *err) {
    crn_binding_input input = {.costs = costs, .plan = solution->plan};
    const cairn_sim_summary *summary = cairn_sim_result(solution->sim);
    uint32_t count;
    CRN_TRY(check_solution(exec, costs, solution, err));
    input.lifetimes = cairn_sim_lifetimes(solution->sim, &input.lifetime_count);
    input.offsets = cairn_layout_offsets(solution->layout, &count);
    exec->figures.predicted_peak_bytes = summary->peak_bytes;
    exec->figures.arena_bytes = cairn_layout_arena_bytes(solution->layout);
    exec->figures.host_bytes = summary->host_bytes;
    return prepare(exec, &input, err);
}

static cairn_status open_device(cairn_exec *exec, cairn_error *err) {
    crn_device_options options = {.threads = exec->options.threads,
                                  .link_bytes_per_second = exec->options.link_bytes_per_second,
                                  .allocator = exec->memory.allocator};
    return exec->backend->open(&options, &exec->device, err);
}

static cairn_exec_options complete(const cairn_exec_options *given) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    if (given != NULL)
        memcpy(&options, given, CRN_MIN(given->struct_size, sizeof options));
    options.micro_batches = CRN_MAX(options.micro_batches, 1);
    return options;
}

cairn_status crn_exec_create(const crn_backend *backend, const cairn_graph *graph,
                             const cairn_costs *costs, const cairn_solution *solution,
                             const cairn_exec_options *options, cairn_exec **out,
                             cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    crn_arena memory;
    cairn_allocator allocator = cairn_graph_allocator(graph);
    crn_arena_init(&memory, &allocator);
    cairn_exec *exec = crn_arena_take(&memory, 1, sizeof *exec);
    if (exec == NULL) {
        crn_arena_release(&memory);
        return crn_fail_memory(err);
    }
    exec->memory = memory;
    exec->graph = graph;
    exec->backend = backend;
    exec->options = complete(options);
    exec->training = cairn_plan_get_header(solution->plan)->goal == CAIRN_TRAIN;
    cairn_status status = open_device(exec, err);
    if (status == CAIRN_OK)
        status = prepare_solution(exec, costs, solution, err);
    if (status != CAIRN_OK) {
        cairn_exec_destroy(exec);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = exec;
    return CAIRN_OK;
}

cairn_status cairn_exec_create(const cairn_graph *graph, const cairn_costs *costs,
                               const cairn_solution *solution, const cairn_exec_options *options,
                               cairn_exec **out, cairn_error *err) {
    const crn_backend *backend;
    *out = NULL;
    crn_error_clear(err);
    CRN_TRY(crn_find_backend(complete(options).backend, &backend, err));
    return crn_exec_create(backend, graph, costs, solution, options, out, err);
}

void cairn_exec_destroy(cairn_exec *exec) {
    if (exec == NULL)
        return;
    for (uint32_t i = 0; exec->program.actions != NULL && i < exec->program.count; i++) {
        crn_action *action = &exec->program.actions[i];
        crn_kernel_finish(action->kernel, &action->call, &exec->memory.allocator);
    }
    release(exec, CRN_DEVICE, &exec->resident);
    release(exec, CRN_HOST, &exec->host);
    release(exec, CRN_DEVICE, &exec->arena);
    if (exec->device != NULL)
        exec->backend->close(exec->device);
    crn_arena memory = exec->memory; /* the executor lies in it */
    crn_arena_release(&memory);
}

cairn_exec_figures cairn_exec_get_figures(const cairn_exec *exec) {
    cairn_exec_figures figures = exec->figures;
    figures.threads = crn_pool_threads(exec->backend->threads(exec->device));
    return figures;
}

/* ---- Running ---- */

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
    }
}

static void wait_for(cairn_exec *exec, cairn_id tensor, cairn_exec_result *out) {
    int64_t start = crn_exec_clock();
    exec->backend->wait(exec->device, exec->events[tensor]);
    out->idle_ns += crn_exec_clock() - start;
}

static void act(cairn_exec *exec, crn_action *a, uint64_t step, cairn_exec_result *out) {
    switch ((cairn_step_kind)a->kind) {
    case CAIRN_RUN:
        a->call.step = step;
        a->kernel->run(&a->call);
        out->runs++;
        if (a->call.op->kind == CAIRN_OP_CROSS_ENTROPY && !a->call.again)
            crn_count_correct(&a->call, out);
        break;
    case CAIRN_OFFLOAD:
        exec->events[a->tensor] =
            exec->backend->copy(exec->device, CRN_LANE_OUT, a->host, a->device, a->bytes);
        break;
    case CAIRN_FETCH:
        exec->events[a->tensor] =
            exec->backend->copy(exec->device, CRN_LANE_IN, a->device, a->host, a->bytes);
        break;
    case CAIRN_WAIT:
        wait_for(exec, a->tensor, out);
        break;
    case CAIRN_FREE:
        break;
    }
}

void cairn_exec_run(cairn_exec *exec, uint64_t step, cairn_exec_result *out) {
    crn_program *program = &exec->program;
    int64_t start = crn_exec_clock(), before = start;
    *out = (cairn_exec_result){0};
    crn_occupancy_reset(&exec->occupancy);
    for (uint32_t i = 0; i < program->input_count; i++)
        crn_occupancy_take(&exec->occupancy, program->inputs[i]);
    if (exec->options.check)
        crn_check_begin(exec);
    for (uint32_t i = 0; i < program->count; i++) {
        crn_action *action = &program->actions[i];
        take_ranges(exec, action->takes, action->take_count);
        act(exec, action, step, out);
        give_ranges(exec, action->gives, action->give_count);
        if (exec->times != NULL) {
            int64_t now = crn_exec_clock();
            exec->times[i] = now - before;
            before = now;
        }
    }
    for (uint32_t i = 0; i < program->unwaited_count; i++)
        wait_for(exec, program->unwaited[i], out);
    if (exec->options.check)
        crn_check_end(exec);
    if (program->loss != NULL)
        memcpy(&out->loss, program->loss, sizeof out->loss);
    out->measured_peak_bytes = exec->occupancy.peak;
    out->time_ns = crn_exec_clock() - start;
}
