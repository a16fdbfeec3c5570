/* profile.c: measures the cost of ops by running whole training steps with a clock between actions.
 *
 * An op that runs alone in a loop finds its operands in the caches and its pages mapped, so it is
 * faster than in a step. So whole steps are run: with the plan that keeps everything or, if memory
 * is short, with one that recomputes. Every op is in both. The time between two ops (freeing
 * memory, counting it) is added to the first, so that the figures add up to the step.
 *
 * Recomputations are measured in steps of their own where the backend does them faster.
 *
 *     step 1:  conv 12.1 | bn 3.0 | relu 1.1 | conv 11.9 | ...
 *     step 2:  conv 12.3 | bn 2.9 | relu 1.0 | conv 12.4 | ...
 *              mean over the equal ops of a step; median and quartiles over the steps */
#include "base/names.h"
#include "base/watch.h"
#include "exec/profile_internal.h"

#define WARMUPS 2
#define REPETITIONS 10
#define LEAST_COUNTED 3

/* The measurement of one implementation of all ops. Ops with the same signature and the same name
 * of the implementation are one group. */
typedef struct profile_round {
    uint32_t implementation;
    bool again;         /* recomputations are measured, not first runs */
    uint32_t *group_of; /* per op */
    uint32_t group_count;
    int64_t *samples; /* per group and counted step */
    int64_t *updates; /* per counted step */
    uint32_t counted;
} profile_round;

/* ---- Groups ---- */

static cairn_status add_to_group(crn_profiler *p, profile_round *r, crn_names *names, cairn_id op,
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

static cairn_status make_groups(crn_profiler *p, profile_round *r) {
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

/* Turn the times of actions into one sample for each group: the mean over its runs in this step. */
static void count_step(profile_round *r, const cairn_exec *exec, uint32_t *runs) {
    int64_t *samples = r->samples + (size_t)r->counted * r->group_count;
    uint32_t group = CRN_NO_NAME;
    memset(runs, 0, r->group_count * sizeof *runs);
    for (uint32_t i = 0; i < exec->program.count; i++) {
        const crn_action *action = &exec->program.actions[i];
        if (action->kind == CAIRN_STEP_RUN) {
            group = r->group_of[action->call.op_id];
            if (action->call.again != r->again)
                group = CRN_NO_NAME;
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

static cairn_status run_steps(crn_profiler *p, profile_round *r, cairn_exec *exec, uint32_t *runs) {
    int64_t start = crn_exec_clock();
    for (uint32_t i = 0; i < WARMUPS + p->options.repetitions; i++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        CRN_TRY(cairn_exec_fill(exec, i, p->err));
        CRN_TRY(cairn_exec_run(exec, i, &result, p->err));
        int64_t before = crn_exec_clock();
        cairn_exec_update(exec);
        CRN_TRY(crn_exec_join(exec, p->err));
        int64_t after = crn_exec_clock();
        if (i >= WARMUPS) {
            r->updates[r->counted] = after - before;
            count_step(r, exec, runs);
        }
        if (p->options.progress != NULL &&
            !p->options.progress(p->options.progress_context, ++p->steps_done, p->steps_total))
            return crn_fail_cancelled(p->err);
        if (p->options.seconds > 0 && r->counted >= LEAST_COUNTED &&
            (double)(after - start) > 1e9 * p->options.seconds)
            break;
    }
    return CAIRN_OK;
}

/* The bytes of parameters that are updated per second, from the time of an update. */
static uint64_t update_rate(const cairn_graph *graph, int64_t time_ns) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    uint64_t time = (uint64_t)CRN_MAX(time_ns, 1);
    return CRN_MIN(crn_mul_div_up(summary.parameter_bytes, 1000000000u, time),
                   UINT64_C(1000000000000000000));
}

/* ---- Rounds ---- */

/* A time that is not measured, if the first implementation takes `measured` instead of `estimated`:
 * as many times that one's as was estimated. */
static int64_t scaled(int64_t time, int64_t estimated, int64_t measured) {
    if (estimated <= 0 || time <= estimated)
        return measured;
    uint64_t more =
        crn_mul_div_up((uint64_t)(time - estimated), (uint64_t)measured, (uint64_t)estimated);
    return crn_add_time(measured, (int64_t)CRN_MIN(more, (uint64_t)INT64_MAX));
}

/* Set what was measured of one implementation. The first one is the fastest. */
static cairn_status set_times(crn_profiler *p, cairn_id op, uint32_t k,
                              const cairn_implementation *found) {
    uint32_t choices;
    const cairn_implementation *known = cairn_costs_op(p->costs, op, &choices);
    cairn_implementation list[CRN_MOST_CHOICES];
    choices = (uint32_t)CRN_MIN(choices, CRN_LENGTH(list));
    memcpy(list, known, choices * sizeof *list);
    list[k].time_ns = found->time_ns;
    list[k].low_ns = found->low_ns;
    list[k].high_ns = found->high_ns;
    for (uint32_t i = 1; k == 0 && i < choices; i++)
        list[i].time_ns = scaled(list[i].time_ns, known->time_ns, found->time_ns);
    return cairn_costs_set_op(p->costs, op, list, choices);
}

/* Store the measured times as the costs of the ops of each group. */
static cairn_status keep_times(crn_profiler *p, const profile_round *r,
                               const cairn_implementation *found) {
    for (cairn_id o = 0; o < cairn_graph_op_count(p->graph); o++) {
        uint32_t group = r->group_of[o], choices;
        if (group == CRN_NO_NAME || found[group].high_ns == 0)
            continue;
        if (r->again)
            crn_costs_set_again(
                p->costs, o,
                CRN_MAX(cairn_costs_op(p->costs, o, &choices)->time_ns - found[group].time_ns, 0));
        else
            CRN_TRY(set_times(p, o, r->implementation, &found[group]));
    }
    return CAIRN_OK;
}

static cairn_status gather(crn_profiler *p, profile_round *r) {
    cairn_implementation *found;
    int64_t *times;
    CRN_TAKE(&p->memory, found, r->group_count);
    CRN_TAKE(&p->memory, times, r->counted);
    for (uint32_t g = 0; g < r->group_count; g++) {
        for (uint32_t i = 0; i < r->counted; i++)
            times[i] = r->samples[(size_t)i * r->group_count + g];
        found[g] = crn_profile_spread(times, r->counted);
    }
    return keep_times(p, r, found);
}

/* Measure with an executor, which exists only for one round. */
static cairn_status measure_with(crn_profiler *p, profile_round *r, cairn_exec *exec) {
    uint32_t *runs;
    CRN_TAKE(&p->memory, runs, r->group_count);
    CRN_TRY(run_steps(p, r, exec, runs));
    if (r->implementation == 0 && !r->again && p->origin != NULL) {
        p->origin->update_bytes_per_second =
            update_rate(p->graph, crn_profile_spread(r->updates, r->counted).time_ns);
        crn_profile_link(exec, p->origin);
    }
    return gather(p, r);
}

static cairn_status measure_round(crn_profiler *p, const cairn_solution *solution,
                                  profile_round *r) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_exec *exec;
    options.learning_rate = 0; /* so that parameters do not change */
    CRN_TRY(make_groups(p, r));
    CRN_TRY(
        crn_exec_create(p->graph, p->device, p->costs, solution, &options, true, &exec, p->err));
    cairn_status status = measure_with(p, r, exec);
    cairn_exec_destroy(exec);
    return status;
}

static cairn_status measure_implementation(crn_profiler *p, const cairn_solution *solution,
                                           uint32_t k) {
    profile_round r = {.implementation = k};
    cairn_solution *varied;
    if (k == 0)
        return measure_round(p, solution, &r);
    CRN_TRY(crn_profile_vary(p, solution->plan, k, &varied));
    cairn_status status = measure_round(p, varied, &r);
    cairn_solution_destroy(varied);
    return status;
}

static cairn_status measure_again(crn_profiler *p, const cairn_solution *solution) {
    profile_round r = {.again = true};
    cairn_solution *tight;
    CRN_TRY(crn_profile_tight_plan(p, solution, &tight));
    if (tight == NULL)
        return CAIRN_OK;
    cairn_status status = measure_round(p, tight, &r);
    cairn_solution_destroy(tight);
    return status;
}

/* ---- The whole step ---- */

/* The median time of a recorded step without a clock in it. It follows as many steps that do not
 * count, in which a GPU becomes warm and slower. */
static cairn_status time_step(const crn_profiler *p, const cairn_solution *solution, int64_t *out) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_exec *exec;
    int64_t times[REPETITIONS];
    options.learning_rate = 0;
    CRN_TRY(
        crn_exec_create(p->graph, p->device, p->costs, solution, &options, false, &exec, p->err));
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; i < 2 * REPETITIONS && status == CAIRN_OK; i++) {
        status = cairn_exec_fill(exec, i, p->err);
        if (status == CAIRN_OK)
            status = cairn_exec_run(exec, i, &result, p->err);
        times[i % REPETITIONS] = result.time_ns;
    }
    *out = crn_profile_spread(times, REPETITIONS).time_ns;
    cairn_exec_destroy(exec);
    return status;
}

static int64_t stretched(int64_t time, int64_t measured, int64_t added_up) {
    return (int64_t)crn_mul_div_up((uint64_t)CRN_MAX(time, 0), (uint64_t)measured,
                                   (uint64_t)added_up);
}

/* Multiply all times of an op by measured / added_up. */
static cairn_status stretch_op(crn_profiler *p, cairn_id op, int64_t measured, int64_t added_up) {
    cairn_implementation list[CRN_MOST_CHOICES];
    uint32_t choices;
    const cairn_implementation *known = cairn_costs_op(p->costs, op, &choices);
    if (choices == 0 || choices > CRN_LENGTH(list))
        return CAIRN_OK;
    int64_t saving = known->time_ns - crn_costs_again_ns(p->costs, op, 0);
    memcpy(list, known, choices * sizeof *list);
    for (uint32_t k = 0; k < choices; k++) {
        list[k].time_ns = stretched(list[k].time_ns, measured, added_up);
        list[k].low_ns = stretched(list[k].low_ns, measured, added_up);
        list[k].high_ns = stretched(list[k].high_ns, measured, added_up);
    }
    CRN_TRY(cairn_costs_set_op(p->costs, op, list, choices));
    crn_costs_set_again(p->costs, op, stretched(saving, measured, added_up));
    return CAIRN_OK;
}

/* Run the implementations that a plan uses together, without a clock, and make the times add up to
 * that step. They come from rounds in which the GPU was not equally warm, with the time that a
 * clock takes, and of several implementations the one that seems fastest is often one whose
 * measurement erred. */
static cairn_status add_up_to_step(crn_profiler *p) {
    cairn_solution *best;
    int64_t measured = 0;
    CRN_TRY(crn_profile_plan(p, &best));
    int64_t added_up = best->sim->summary->time_ns;
    cairn_status status = time_step(p, best, &measured);
    cairn_solution_destroy(best);
    if (added_up <= 0 || measured <= 0)
        return status;
    for (cairn_id o = 0; o < cairn_graph_op_count(p->graph) && status == CAIRN_OK; o++)
        status = stretch_op(p, o, measured, added_up);
    return status;
}

/* The largest number of implementations of an op. */
static uint32_t most_implementations(const crn_profiler *p) {
    uint32_t most = 1, count;
    for (cairn_id o = 0; o < cairn_graph_op_count(p->graph); o++) {
        cairn_costs_op(p->costs, o, &count);
        most = CRN_MAX(most, count);
    }
    return p->options.every_implementation ? CRN_MIN(most, CRN_MOST_CHOICES) : 1;
}

static cairn_status measure(crn_profiler *p) {
    cairn_solution *solution;
    uint32_t rounds = most_implementations(p);
    bool again = p->device->backend->keeps_statistics;
    CRN_TRY(crn_profile_plan(p, &solution));
    p->steps_total = (rounds + again) * (WARMUPS + p->options.repetitions);
    cairn_status status = CAIRN_OK;
    for (uint32_t k = 0; k < rounds && status == CAIRN_OK; k++)
        status = measure_implementation(p, solution, k);
    if (again && status == CAIRN_OK)
        status = measure_again(p, solution);
    if (p->device->backend->times_recordings && status == CAIRN_OK)
        status = add_up_to_step(p);
    cairn_solution_destroy(solution);
    return status;
}

cairn_status cairn_profile(const cairn_graph *graph, cairn_device *device,
                           const cairn_profile_options *given, cairn_costs *costs,
                           cairn_costs_origin *origin, cairn_error *err) {
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    cairn_costs_origin made = {.threads = device->facts.compute_units};
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_profile_options, options, given, err);
    if (options.repetitions == 0)
        options.repetitions = REPETITIONS;
    crn_profiler p = {.device = device,
                      .graph = graph,
                      .options = options,
                      .costs = costs,
                      .origin = origin != NULL ? &made : NULL,
                      .err = err};
    if (origin != NULL)
        CRN_OPEN_OUTPUT(cairn_costs_origin, origin, err);
    crn_copy_string(made.backend, sizeof made.backend, device->facts.backend);
    crn_arena_init(&p.memory, &allocator);
    cairn_status status = measure(&p);
    crn_arena_release(&p.memory);
    if (status == CAIRN_OK && origin != NULL)
        crn_write_output(origin, &made, sizeof made);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
