/* profile.c: what ops cost, measured by running whole training steps with a clock between actions.
 *
 * An op alone in a loop finds its operands in the caches and its pages touched, and is faster than
 * in a step. So the steps themselves are run, by the plan that keeps everything or, where memory is
 * short, by one that recomputes: every op is in either. What lies between two ops (giving memory
 * back, counting it) is put down to the first, so that the figures add up to the step.
 *
 *     step 1:  conv 12.1 | bn 3.0 | relu 1.1 | conv 11.9 | ...
 *     step 2:  conv 12.3 | bn 2.9 | relu 1.0 | conv 12.4 | ...
 *              mean over the equal ops of a step; median and quartiles over the steps */
#include "base/names.h"
#include "exec/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARMUPS 2
#define REPETITIONS 10
#define LEAST_COUNTED 3
#define LINK_BYTES ((uint64_t)64 << 20)
#define LINK_COPIES 16

typedef struct profiler {
    const crn_backend *backend;
    const cairn_graph *graph;
    cairn_profile_options options;
    cairn_costs *costs;
    cairn_costs_origin *origin;
    cairn_error *err;
    crn_arena memory;
    uint32_t steps_done, steps_total; /* for who watches */
} profiler;

/* One implementation of all ops, while it is measured. Ops with the same signature and name of the
 * implementation are one group. */
typedef struct profile_round {
    uint32_t implementation;
    uint32_t *group_of; /* per op */
    uint32_t group_count;
    int64_t *samples; /* per group and counted step */
    int64_t *updates; /* per counted step */
    uint32_t counted;
} profile_round;

/* ---- Medians ---- */

static int compare_times(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Of `count` times, at least one, which are sorted for it. */
static cairn_implementation spread_of(int64_t *times, uint32_t count) {
    qsort(times, count, sizeof *times, compare_times);
    uint32_t quarter = (count - 1) / 4;
    return (cairn_implementation){.time_ns = (times[(count - 1) / 2] + times[count / 2]) / 2,
                                  .low_ns = times[quarter],
                                  .high_ns = times[count - 1 - quarter]};
}

/* ---- A plan that fits ---- */

/* Bytes that the machine has free; UINT64_MAX where it does not say. */
static uint64_t free_memory(void) {
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib == 0 ? UINT64_MAX : (uint64_t)kib * 1024;
}

/* The plan of one algorithm, if it fits `budget`; CAIRN_INFEASIBLE. */
static cairn_status try_algorithm(const profiler *p, const char *name, uint64_t budget,
                                  cairn_solution **out) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.budget_bytes = strcmp(name, "none") == 0 ? 0 : budget;
    CRN_TRY(cairn_solve(p->graph, p->costs, name, &options, out, p->err));
    uint64_t arena = cairn_layout_arena_bytes((*out)->layout);
    if (arena <= budget)
        return CAIRN_OK;
    cairn_solution_destroy(*out);
    *out = NULL;
    return crn_fail(p->err, CAIRN_INFEASIBLE,
                    "a step needs %llu bytes beside the parameters, and %llu are free",
                    (unsigned long long)arena, (unsigned long long)budget);
}

/* Without copies, which would disturb what is measured. */
static cairn_status choose_plan(const profiler *p, cairn_solution **out) {
    static const char *const algorithms[] = {"none", "precise", "pieces", "feng"};
    uint64_t memory = p->options.memory_bytes, stationary;
    cairn_status status = CAIRN_INFEASIBLE;
    if (memory == 0)
        memory = free_memory();
    stationary = cairn_stationary_bytes(p->graph, p->costs, 1);
    uint64_t budget = memory > stationary ? memory - stationary : 1;
    *out = NULL;
    for (size_t i = 0; i < CRN_LENGTH(algorithms); i++) {
        status = try_algorithm(p, algorithms[i], budget, out);
        if (status != CAIRN_INFEASIBLE && (i == 0 || status != CAIRN_EINVAL))
            return status;
    }
    return status == CAIRN_EINVAL ? CAIRN_INFEASIBLE : status;
}

/* The same plan with implementation `k` of every op that has so many. */
static cairn_status vary_plan(const profiler *p, const cairn_plan *plan, uint32_t k,
                              cairn_solution **out) {
    cairn_plan_builder *builder;
    cairn_plan *varied = NULL;
    uint32_t count, choices;
    const cairn_step *steps = cairn_plan_steps(plan, &count);
    *out = NULL;
    cairn_status status = cairn_plan_builder_create(&p->memory.allocator, &builder);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++) {
        cairn_step step = steps[i];
        if (step.kind == CAIRN_RUN) {
            cairn_costs_op(p->costs, step.id, &choices);
            step.implementation = (uint16_t)(k < choices ? k : 0);
        }
        status = cairn_plan_builder_add(builder, step);
    }
    if (status == CAIRN_OK)
        status = cairn_plan_builder_finish(builder, p->graph, cairn_plan_get_header(plan), &varied,
                                           p->err);
    if (status == CAIRN_OK)
        status = cairn_solution_create(p->graph, p->costs, varied, NULL, out, p->err);
    cairn_plan_destroy(varied);
    cairn_plan_builder_destroy(builder);
    return status;
}

/* ---- Groups ---- */

static cairn_status add_to_group(profiler *p, profile_round *r, crn_names *names, cairn_id op,
                                 const char *implementation) {
    cairn_text key;
    CRN_TRY(cairn_op_signature(p->graph, op, &key));
    crn_text_printf(&key, "\n%s", implementation);
    CRN_TRY(crn_text_finish(&key));
    char *name = crn_arena_string(&p->memory, key.data);
    cairn_text_release(&key);
    if (name == NULL)
        return CAIRN_ENOMEM;
    uint32_t known = crn_names_add(names, name, r->group_count);
    r->group_of[op] = known == CRN_NO_NAME ? r->group_count++ : known;
    return CAIRN_OK;
}

static cairn_status make_groups(profiler *p, profile_round *r) {
    uint32_t ops = cairn_graph_op_count(p->graph), choices;
    crn_names names;
    CRN_TAKE(&p->memory, r->group_of, ops);
    CRN_TRY(crn_names_init(&names, &p->memory, ops));
    for (cairn_id o = 0; o < ops; o++) {
        const cairn_implementation *list = cairn_costs_op(p->costs, o, &choices);
        r->group_of[o] = CRN_NO_NAME;
        if (r->implementation < choices)
            CRN_TRY(add_to_group(p, r, &names, o, list[r->implementation].name));
    }
    CRN_TAKE(&p->memory, r->samples, (size_t)r->group_count * p->options.repetitions);
    CRN_TAKE(&p->memory, r->updates, p->options.repetitions);
    return CAIRN_OK;
}

/* ---- Steps ---- */

/* Times of actions become one sample for each group: the mean over its runs in this step. */
static void count_step(profile_round *r, const cairn_exec *exec, uint32_t *runs) {
    int64_t *samples = r->samples + (size_t)r->counted * r->group_count;
    uint32_t group = CRN_NO_NAME;
    memset(runs, 0, r->group_count * sizeof *runs);
    for (uint32_t i = 0; i < exec->program.count; i++) {
        const crn_action *action = &exec->program.actions[i];
        if (action->kind == CAIRN_RUN) {
            group = r->group_of[action->call.op_id];
            if (group != CRN_NO_NAME)
                runs[group]++;
        }
        if (group != CRN_NO_NAME)
            samples[group] += exec->times[i];
    }
    for (group = 0; group < r->group_count; group++)
        samples[group] /= CRN_MAX(runs[group], 1);
    r->counted++;
}

static void run_steps(profiler *p, profile_round *r, cairn_exec *exec, uint32_t *runs) {
    int64_t start = crn_exec_clock();
    for (uint32_t i = 0; i < WARMUPS + p->options.repetitions; i++) {
        cairn_exec_result result;
        cairn_exec_fill(exec, i);
        cairn_exec_run(exec, i, &result);
        int64_t before = crn_exec_clock();
        cairn_exec_update(exec);
        int64_t after = crn_exec_clock();
        if (i >= WARMUPS) {
            r->updates[r->counted] = after - before;
            count_step(r, exec, runs);
        }
        if (p->options.progress != NULL)
            p->options.progress(p->options.context, ++p->steps_done, p->steps_total);
        if (p->options.seconds > 0 && r->counted >= LEAST_COUNTED &&
            (double)(after - start) > 1e9 * p->options.seconds)
            break;
    }
}

/* ---- Copies ---- */

/* The median of several copies, alternately out and in. */
static int64_t time_copies(cairn_exec *exec, char *device, char *host, uint64_t bytes) {
    const crn_backend *backend = exec->backend;
    int64_t times[LINK_COPIES];
    for (uint32_t i = 0; i < LINK_COPIES; i++) {
        int64_t before = crn_exec_clock();
        crn_event event = i % 2 == 0
                              ? backend->copy(exec->device, CRN_LANE_OUT, host, device, bytes)
                              : backend->copy(exec->device, CRN_LANE_IN, device, host, bytes);
        backend->wait(exec->device, event);
        times[i] = crn_exec_clock() - before;
    }
    return spread_of(times, LINK_COPIES).time_ns;
}

/* The link's bandwidth and latency; where there is no memory to copy, they stay unknown. */
static void measure_link(cairn_exec *exec, cairn_costs_origin *out) {
    const crn_backend *backend = exec->backend;
    void *device = NULL, *host = NULL;
    if (backend->reserve(exec->device, CRN_DEVICE, LINK_BYTES, &device, NULL) == CAIRN_OK &&
        backend->reserve(exec->device, CRN_HOST, LINK_BYTES, &host, NULL) == CAIRN_OK) {
        memset(device, 1, LINK_BYTES);
        (void)time_copies(exec, device, host, LINK_BYTES); /* pages */
        int64_t whole = time_copies(exec, device, host, LINK_BYTES);
        out->link_latency_ns = time_copies(exec, device, host, CRN_ALIGNMENT);
        int64_t moving = CRN_MAX(whole - out->link_latency_ns, 1);
        out->link_bytes_per_second = crn_mul_div_up(LINK_BYTES, 1000000000u, (uint64_t)moving);
    }
    if (host != NULL)
        backend->release(exec->device, CRN_HOST, host, LINK_BYTES);
    if (device != NULL)
        backend->release(exec->device, CRN_DEVICE, device, LINK_BYTES);
}

/* How many bytes of parameters are updated a second, from how long it takes. */
static uint64_t update_rate(const cairn_graph *graph, int64_t time_ns) {
    cairn_graph_summary summary;
    cairn_graph_summarize(graph, &summary);
    uint64_t time = (uint64_t)CRN_MAX(time_ns, 1);
    return CRN_MIN(crn_mul_div_up(summary.parameter_bytes, 1000000000u, time),
                   UINT64_C(1000000000000000000));
}

/* ---- Rounds ---- */

/* What was measured becomes the costs of the ops of each group. */
static cairn_status keep_times(profiler *p, const profile_round *r,
                               const cairn_implementation *found) {
    for (cairn_id o = 0; o < cairn_graph_op_count(p->graph); o++) {
        uint32_t choices, k = r->implementation;
        const cairn_implementation *known = cairn_costs_op(p->costs, o, &choices);
        if (r->group_of[o] == CRN_NO_NAME || found[r->group_of[o]].high_ns == 0)
            continue;
        cairn_implementation list[CRN_MOST_CHOICES];
        choices = (uint32_t)CRN_MIN(choices, CRN_LENGTH(list));
        memcpy(list, known, choices * sizeof *list);
        list[k].time_ns = found[r->group_of[o]].time_ns;
        list[k].low_ns = found[r->group_of[o]].low_ns;
        list[k].high_ns = found[r->group_of[o]].high_ns;
        for (uint32_t i = 1; k == 0 && i < choices; i++)
            list[i].time_ns = CRN_MAX(list[i].time_ns, list[0].time_ns);
        CRN_TRY(cairn_costs_set_op(p->costs, o, list, choices));
    }
    return CAIRN_OK;
}

static cairn_status gather(profiler *p, profile_round *r) {
    cairn_implementation *found;
    int64_t *times;
    CRN_TAKE(&p->memory, found, r->group_count);
    CRN_TAKE(&p->memory, times, r->counted);
    for (uint32_t g = 0; g < r->group_count; g++) {
        for (uint32_t i = 0; i < r->counted; i++)
            times[i] = r->samples[(size_t)i * r->group_count + g];
        found[g] = spread_of(times, r->counted);
    }
    return keep_times(p, r, found);
}

/* With the executor at hand; it lives only for one round. */
static cairn_status measure_with(profiler *p, profile_round *r, cairn_exec *exec) {
    uint32_t *runs;
    CRN_TAKE(&p->memory, exec->times, exec->program.count);
    CRN_TAKE(&p->memory, runs, r->group_count);
    run_steps(p, r, exec, runs);
    if (r->implementation == 0 && p->origin != NULL) {
        p->origin->update_bytes_per_second =
            update_rate(p->graph, spread_of(r->updates, r->counted).time_ns);
        measure_link(exec, p->origin);
    }
    return gather(p, r);
}

static cairn_status measure_round(profiler *p, const cairn_solution *solution, uint32_t k) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_exec *exec;
    cairn_solution *varied = NULL;
    profile_round r = {.implementation = k};
    options.threads = p->options.threads;
    options.learning_rate = 0; /* numbers stay what they were drawn as, however many steps */
    CRN_TRY(make_groups(p, &r));
    if (k > 0)
        CRN_TRY(vary_plan(p, solution->plan, k, &varied));
    cairn_status status = crn_exec_create(p->backend, p->graph, p->costs, k > 0 ? varied : solution,
                                          &options, &exec, p->err);
    cairn_solution_destroy(varied);
    CRN_TRY(status);
    status = measure_with(p, &r, exec);
    cairn_exec_destroy(exec);
    return status;
}

/* How many implementations the op with the most of them has. */
static uint32_t most_implementations(const profiler *p) {
    uint32_t most = 1, count;
    for (cairn_id o = 0; o < cairn_graph_op_count(p->graph); o++) {
        cairn_costs_op(p->costs, o, &count);
        most = CRN_MAX(most, count);
    }
    return p->options.every_implementation ? CRN_MIN(most, CRN_MOST_CHOICES) : 1;
}

static cairn_status measure(profiler *p) {
    cairn_solution *solution;
    uint32_t rounds = most_implementations(p);
    CRN_TRY(choose_plan(p, &solution));
    p->steps_total = rounds * (WARMUPS + p->options.repetitions);
    cairn_status status = CAIRN_OK;
    for (uint32_t k = 0; k < rounds && status == CAIRN_OK; k++)
        status = measure_round(p, solution, k);
    cairn_solution_destroy(solution);
    return status;
}

static cairn_profile_options complete(const cairn_profile_options *given) {
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    if (given != NULL)
        memcpy(&options, given, CRN_MIN(given->struct_size, sizeof options));
    if (options.repetitions == 0)
        options.repetitions = REPETITIONS;
    if (options.backend == NULL)
        options.backend = cairn_backend_list(0, NULL);
    return options;
}

cairn_status crn_profile(const crn_backend *backend, const cairn_graph *graph,
                         const cairn_profile_options *options, cairn_costs *costs,
                         cairn_costs_origin *origin, cairn_error *err) {
    profiler p = {.backend = backend,
                  .graph = graph,
                  .options = complete(options),
                  .costs = costs,
                  .origin = origin,
                  .err = err};
    cairn_allocator allocator = cairn_graph_allocator(graph);
    crn_error_clear(err);
    if (origin != NULL) {
        *origin = (cairn_costs_origin){.threads = cairn_count_threads(p.options.threads)};
        crn_copy_string(origin->backend, sizeof origin->backend, backend->name);
    }
    crn_arena_init(&p.memory, &allocator);
    cairn_status status = measure(&p);
    crn_arena_release(&p.memory);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status cairn_profile(const cairn_graph *graph, const cairn_profile_options *options,
                           cairn_costs *costs, cairn_costs_origin *origin, cairn_error *err) {
    const crn_backend *backend;
    crn_error_clear(err);
    CRN_TRY(crn_find_backend(complete(options).backend, &backend, err));
    return crn_profile(backend, graph, options, costs, origin, err);
}
