/* arrays_solve.c: solutions of a step that was given as arrays, with the ids of the arrays. */
#include "base/crn_base.h"
#include "cairn/arrays.h"
#include "graph/crn_graph.h"

typedef struct solution_memory {
    cairn_arrays_solution out;
    cairn_solution *solution;
    crn_arena arena;
} solution_memory;

static cairn_status translate_steps(const cairn_arrays_step *step, solution_memory *m) {
    const cairn_step *steps = m->solution->plan->steps;
    uint32_t count = m->solution->plan->step_count;
    const cairn_sim_step *sim = m->solution->sim->steps;
    cairn_step *copy;
    uint64_t *bytes;
    CRN_TAKE(&m->arena, copy, count);
    CRN_TAKE(&m->arena, bytes, count);
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = steps[i];
        copy[i].id = steps[i].kind == CAIRN_STEP_RUN ? step->op_of[steps[i].id]
                                                     : step->tensor_of[steps[i].id];
        bytes[i] = sim[i].bytes;
    }
    m->out.steps = copy;
    m->out.step_bytes = bytes;
    m->out.step_count = count;
    return CAIRN_OK;
}

static cairn_status translate_lifetimes(const cairn_arrays_step *step, solution_memory *m) {
    const cairn_lifetime *lifetimes = m->solution->sim->lifetimes;
    uint32_t count = m->solution->sim->lifetime_count;
    cairn_lifetime *copy;
    CRN_TAKE(&m->arena, copy, count);
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = lifetimes[i];
        if (copy[i].tensor != CAIRN_NONE)
            copy[i].tensor = step->tensor_of[copy[i].tensor];
    }
    m->out.lifetimes = copy;
    m->out.lifetime_count = count;
    m->out.offsets = m->solution->layout->offsets;
    return CAIRN_OK;
}

/* Takes over `solution`, even on failure. */
static cairn_status translate(const cairn_arrays_step *step, cairn_solution *solution,
                              cairn_arrays_solution **out, cairn_error *err) {
    cairn_allocator allocator = crn_graph_allocator(step->graph);
    solution_memory *m = CRN_OBJECT(&allocator, solution_memory, arena);
    if (m == NULL) {
        cairn_solution_destroy(solution);
        return crn_fail_memory(err);
    }
    m->solution = solution;
    m->out.memory = m;
    m->out.solution = solution;
    cairn_status status = translate_steps(step, m);
    if (status == CAIRN_OK)
        status = translate_lifetimes(step, m);
    if (status != CAIRN_OK) {
        cairn_arrays_solution_destroy(&m->out);
        return crn_fail_memory(err);
    }
    m->out.peak_bytes = solution->sim->summary->peak_bytes;
    m->out.arena_bytes = solution->layout->arena_bytes;
    m->out.time_ns = solution->sim->summary->time_ns;
    m->out.lower_bound_ns = solution->lower_bound_ns;
    *out = &m->out;
    return CAIRN_OK;
}

void cairn_arrays_solution_destroy(cairn_arrays_solution *solution) {
    if (solution == NULL)
        return;
    solution_memory *m = solution->memory;
    cairn_solution_destroy(m->solution);
    crn_arena_destroy(&m->arena);
}

cairn_status cairn_arrays_step_solve(const cairn_arrays_step *step, const char *name,
                                     const cairn_solve_options *options,
                                     cairn_arrays_solution **out, cairn_error *err) {
    *out = NULL;
    cairn_solution *solution;
    CRN_TRY(cairn_solve(step->graph, step->costs, name, options, &solution, err));
    return translate(step, solution, out, err);
}

cairn_status cairn_arrays_step_read(const cairn_arrays_step *step, const char *text, size_t length,
                                    const char *file, const cairn_machine *machine,
                                    cairn_arrays_solution **out, cairn_error *err) {
    *out = NULL;
    cairn_plan *plan;
    cairn_solution *solution = NULL;
    CRN_TRY(cairn_plan_from_text(step->graph, text, length, file, &plan, err));
    cairn_status status =
        cairn_solution_create(step->graph, step->costs, plan, machine, &solution, err);
    cairn_plan_destroy(plan);
    CRN_TRY(status);
    return translate(step, solution, out, err);
}
