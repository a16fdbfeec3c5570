/* acg_solve.c: finds the algorithm with a name and gives it a scratch arena. The value of its
 * answer is computed by the objective itself, not taken from the algorithm. */
#include "base/watch.h"
#include "solve/checkpoints/acg_internal.h"
#include "solve/checkpoints/pieces.h"

static const cairn_acg_algorithm algorithms[] = {
#define X(id, name, objective, summary) {name, summary, objective},
#include "solve/checkpoints/acg_algorithms.def"
#undef X
};

static crn_acg_run *const runs[] = {
#define X(id, name, objective, summary) crn_acg_run_##id,
#include "solve/checkpoints/acg_algorithms.def"
#undef X
};

const cairn_acg_algorithm *cairn_acg_algorithm_list(uint32_t index) {
    return index < CRN_LENGTH(algorithms) ? &algorithms[index] : NULL;
}

static size_t find_algorithm(const char *name) {
    size_t i = 0;
    while (name != NULL && i < CRN_LENGTH(algorithms) && strcmp(algorithms[i].name, name) != 0)
        i++;
    return i;
}

static cairn_status value_of(crn_arena *arena, const crn_acg *problem,
                             cairn_acg_objective objective, const uint8_t *chosen, uint64_t *value,
                             cairn_error *err) {
    if (objective == CAIRN_ACG_OBJECTIVE_PIECES) {
        crn_pieces_room room;
        CRN_TRY(crn_pieces_room_take(arena, problem, &room));
        crn_pieces_value found = crn_pieces_evaluate(problem, chosen, &room);
        *value = found.kept + found.largest;
        return CAIRN_OK;
    }
    uint32_t *scratch, culprit;
    CRN_TAKE(arena, scratch, 2 * (size_t)problem->dag->vertex_count);
    if (!crn_acg_segments_value(problem, chosen, scratch, value, &culprit))
        return crn_fail(err, CAIRN_EINVAL,
                        "the segment of vertex %u is not independent: it touches several "
                        "checkpoints on one side",
                        crn_acg_name(problem, culprit));
    return CAIRN_OK;
}

/* The public struct and the memory of what it refers to. */
typedef struct solution {
    cairn_acg_solution public;
    crn_arena arena;
} solution;

static cairn_status list_chosen(const uint8_t *chosen, uint32_t vertex_count, solution *out) {
    uint32_t count = 0, *checkpoints;
    for (uint32_t v = 0; v < vertex_count; v++)
        count += chosen[v];
    CRN_TAKE(&out->arena, checkpoints, count);
    out->public.checkpoints = checkpoints;
    out->public.checkpoint_count = count;
    for (uint32_t v = 0; v < vertex_count; v++)
        if (chosen[v])
            *checkpoints++ = v;
    return CAIRN_OK;
}

static cairn_status solve(crn_arena *arena, const cairn_dag *dag, size_t algorithm,
                          const cairn_acg_options *options, solution *out, cairn_error *err) {
    crn_acg problem;
    uint8_t *chosen;
    CRN_TRY(crn_acg_prepare(arena, dag, options->names, &problem, err));
    CRN_TAKE(arena, chosen, dag->vertex_count);
    chosen[dag->source] = chosen[dag->target] = 1;
    CRN_TRY(runs[algorithm](&problem, options, arena, chosen, err));
    CRN_TRY(value_of(arena, &problem, algorithms[algorithm].objective, chosen, &out->public.value,
                     err));
    return list_chosen(chosen, dag->vertex_count, out);
}

cairn_status cairn_acg_solve(const cairn_allocator *allocator, const cairn_dag *dag,
                             const char *name, const cairn_acg_options *options,
                             cairn_acg_solution **out, cairn_error *err) {
    crn_error_clear(err);
    *out = NULL;
    size_t algorithm = name == NULL ? 0 : find_algorithm(name);
    if (algorithm == CRN_LENGTH(algorithms))
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no algorithm \"%.64s\" for this problem",
                        name);
    cairn_acg_options all = CAIRN_ACG_OPTIONS_INIT;
    CRN_READ_OPTIONS(cairn_acg_options, all, options, err);
    solution *made = CRN_OBJECT(allocator, solution, arena);
    if (made == NULL)
        return crn_fail_memory(err);
    crn_arena arena;
    crn_watch watch;
    crn_arena_init(&arena, allocator);
    crn_watch_begin(&watch, all.progress, all.progress_context, &arena);
    cairn_status status =
        crn_watch_status(&watch, solve(&arena, dag, algorithm, &all, made, err), err);
    crn_arena_release(&arena);
    if (status != CAIRN_OK) {
        cairn_acg_solution_destroy(&made->public);
        return status;
    }
    *out = &made->public;
    return CAIRN_OK;
}

void cairn_acg_solution_destroy(cairn_acg_solution *made) {
    if (made != NULL)
        crn_arena_destroy(&((solution *)made)->arena);
}

cairn_status cairn_acg_check(const cairn_allocator *allocator, const cairn_dag *dag,
                             const uint32_t *names, cairn_error *err) {
    crn_arena arena;
    crn_acg problem;
    crn_error_clear(err);
    crn_arena_init(&arena, allocator);
    cairn_status status = crn_acg_prepare(&arena, dag, names, &problem, err);
    crn_arena_release(&arena);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

static cairn_status value_of_list(crn_arena *arena, const cairn_dag *dag,
                                  cairn_acg_objective objective, const uint32_t *checkpoints,
                                  uint32_t count, uint64_t *value, cairn_error *err) {
    crn_acg problem;
    uint8_t *chosen;
    CRN_TRY(crn_acg_prepare(arena, dag, NULL, &problem, err));
    CRN_TAKE(arena, chosen, dag->vertex_count);
    chosen[dag->source] = chosen[dag->target] = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (checkpoints[i] >= dag->vertex_count)
            return crn_fail(err, CAIRN_EINVAL, "checkpoint %u is not a vertex", checkpoints[i]);
        chosen[checkpoints[i]] = 1;
    }
    return value_of(arena, &problem, objective, chosen, value, err);
}

cairn_status cairn_acg_value(const cairn_allocator *allocator, const cairn_dag *dag,
                             cairn_acg_objective objective, const uint32_t *checkpoints,
                             uint32_t count, uint64_t *value, cairn_error *err) {
    crn_arena arena;
    crn_error_clear(err);
    crn_arena_init(&arena, allocator);
    cairn_status status = value_of_list(&arena, dag, objective, checkpoints, count, value, err);
    crn_arena_release(&arena);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
