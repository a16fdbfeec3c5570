/* offload_solve.c: solves a problem with the algorithm of a name; the caller owns the solution. The
 * dispatcher checks the problem and whether it fits, gives the algorithm its scratch arena, and
 * releases that on every path. */
#include "solve/offload/crn_offload.h"

#include <inttypes.h>

static const cairn_offload_algorithm algorithms[] = {
#define X(name, function, summary) {name, summary},
#include "solve/offload/offload_algorithms.def"
#undef X
};

typedef cairn_status solve_function(crn_offload_job *job, crn_offload_schedule *best);

static solve_function *const functions[] = {
#define X(name, function, summary) crn_offload_solve_##function,
#include "solve/offload/offload_algorithms.def"
#undef X
};

const cairn_offload_algorithm *cairn_offload_algorithm_list(uint32_t index) {
    return index < CRN_LENGTH(algorithms) ? &algorithms[index] : NULL;
}

static solve_function *find_algorithm(const char *name) {
    if (name == NULL)
        return functions[0];
    for (size_t i = 0; i < CRN_LENGTH(algorithms); i++)
        if (strcmp(algorithms[i].name, name) == 0)
            return functions[i];
    return NULL;
}

/* ---- Solutions ---- */

/* A solution in a new arena. */
typedef struct owned_solution {
    cairn_offload_solution public;
    crn_arena arena;
} owned_solution;

static cairn_status fill_transfers(crn_arena *arena, const crn_offload_schedule *from,
                                   cairn_offload_solution *to) {
    cairn_offload_transfer *transfers;
    CRN_TAKE(arena, transfers, to->layers);
    to->transfers = transfers;
    for (uint32_t i = 0; i < to->layers; i++)
        if (from->moved[i])
            transfers[to->transfer_count++] =
                (cairn_offload_transfer){i, (uint64_t)from->offload[i], (uint64_t)from->fetch[i]};
    return CAIRN_OK;
}

static cairn_status fill_solution(crn_arena *arena, const crn_offload_job *job,
                                  const crn_offload_schedule *from, cairn_offload_solution *to) {
    uint64_t *forward, *backward;
    uint32_t n = job->chain->count;
    CRN_TAKE(arena, forward, n);
    CRN_TAKE(arena, backward, n);
    for (uint32_t i = 0; i < n; i++) {
        forward[i] = (uint64_t)from->forward[i];
        backward[i] = (uint64_t)from->backward[i];
    }
    to->makespan_x_beta = (uint64_t)from->makespan;
    to->bounds = job->bounds;
    to->optimal = from->optimal || from->makespan == job->goal;
    to->layers = n;
    to->forward_start_x_beta = forward;
    to->backward_start_x_beta = backward;
    return fill_transfers(arena, from, to);
}

static cairn_status make_solution(const cairn_allocator *allocator, const crn_offload_job *job,
                                  const crn_offload_schedule *from, cairn_offload_solution **out) {
    owned_solution *owned = CRN_OBJECT(allocator, owned_solution, arena);
    if (owned == NULL)
        return CAIRN_ENOMEM;
    if (fill_solution(&owned->arena, job, from, &owned->public) != CAIRN_OK) {
        crn_arena_destroy(&owned->arena);
        return CAIRN_ENOMEM;
    }
    *out = &owned->public;
    return CAIRN_OK;
}

void cairn_offload_solution_destroy(cairn_offload_solution *solution) {
    if (solution == NULL)
        return;
    crn_arena_destroy(&((owned_solution *)solution)->arena); /* `public` is its first member */
}

/* ---- Solving ---- */

static cairn_status fail_infeasible(const cairn_offload_problem *problem,
                                    const cairn_offload_bounds *bounds, cairn_error *err) {
    crn_fail_at(err, CAIRN_INFEASIBLE, bounds->min_memory_op,
                "%s alone needs %" PRIu64 " of memory and M_gpu is %" PRIu64
                "; offloading cannot reduce that",
                bounds->min_memory_op, bounds->min_memory, problem->memory);
    if (err != NULL)
        err->smallest_budget = bounds->min_memory;
    return CAIRN_INFEASIBLE;
}

/* What to do with a job: run an algorithm, or evaluate a set. */
typedef struct request {
    solve_function *algorithm; /* NULL: evaluate the set */
    const uint32_t *set;
    uint32_t set_count;
} request;

static cairn_status evaluate_set(crn_offload_job *job, const request *ask,
                                 crn_offload_schedule *best, cairn_error *err) {
    uint8_t *moved;
    CRN_TAKE(job->arena, moved, job->chain->count);
    for (uint32_t k = 0; k < ask->set_count; k++) {
        if (ask->set[k] >= job->chain->count || (k > 0 && ask->set[k] <= ask->set[k - 1]))
            return crn_fail(err, CAIRN_EINVAL,
                            "a set lists activations 0 to %" PRIu32 " by increasing index",
                            job->chain->count - 1);
        moved[ask->set[k]] = 1;
    }
    crn_offload_try(job, moved, best);
    if (!best->found)
        return crn_fail(err, CAIRN_INFEASIBLE, "the set leaves an op without memory");
    return CAIRN_OK;
}

static cairn_status run_job(crn_offload_job *job, const request *ask, crn_offload_chain *chain,
                            crn_offload_schedule *best, cairn_error *err) {
    job->chain = chain;
    CRN_TRY(crn_offload_chain_make(job->arena, job->problem, chain));
    CRN_TRY(crn_offload_time_bounds(job->arena, chain, &job->bounds));
    job->goal =
        (int64_t)(job->release == CAIRN_OFFLOAD_RELEASE_WHOLE ? job->bounds.whole_x_beta
                                                              : job->bounds.fractional_x_beta);
    CRN_TRY(crn_offload_ordered_make(job->arena, chain, &job->ordered));
    CRN_TRY(crn_offload_schedule_make(job->arena, chain->count, &job->trial));
    CRN_TRY(crn_offload_schedule_make(job->arena, chain->count, best));
    if (ask->algorithm == NULL)
        return evaluate_set(job, ask, best, err);
    CRN_TRY(ask->algorithm(job, best));
    return best->found ? CAIRN_OK
                       : crn_fail(err, CAIRN_INFEASIBLE, "the algorithm finds no schedule");
}

static cairn_status serve(const cairn_allocator *allocator, crn_offload_job *job,
                          const request *ask, cairn_offload_solution **out, cairn_error *err) {
    crn_offload_memory_bounds(job->problem, &job->bounds);
    if (!job->bounds.feasible)
        return fail_infeasible(job->problem, &job->bounds, err);
    crn_arena scratch;
    crn_offload_chain chain;
    crn_offload_schedule best;
    crn_arena_init(&scratch, allocator);
    job->arena = &scratch;
    cairn_status status = run_job(job, ask, &chain, &best, err);
    if (status == CAIRN_OK)
        status = make_solution(allocator, job, &best, out);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status cairn_offload_solve(const cairn_allocator *allocator,
                                 const cairn_offload_problem *problem, const char *name,
                                 const cairn_offload_options *options, cairn_offload_solution **out,
                                 cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    cairn_offload_options chosen = CAIRN_OFFLOAD_OPTIONS_INIT;
    CRN_READ_OPTIONS(cairn_offload_options, chosen, options, err);
    request ask = {.algorithm = find_algorithm(name)};
    if (ask.algorithm == NULL)
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no offloading algorithm \"%s\"", name);
    CRN_TRY(crn_offload_check(problem, err));
    crn_offload_job job = {.problem = problem,
                           .release = chosen.release,
                           .slots = chosen.slots,
                           .max_work = chosen.max_work};
    return serve(allocator, &job, &ask, out, err);
}

cairn_status cairn_offload_ordered(const cairn_allocator *allocator,
                                   const cairn_offload_problem *problem, const uint32_t *set,
                                   uint32_t count, cairn_offload_release release,
                                   cairn_offload_solution **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    CRN_TRY(crn_offload_check(problem, err));
    crn_offload_job job = {.problem = problem, .release = release};
    request ask = {.set = set, .set_count = count};
    return serve(allocator, &job, &ask, out, err);
}
