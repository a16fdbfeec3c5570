/* certify.c: lower bounds for all plans: of the time within a budget, and of the memory. */
#include "base/watch.h"
#include "cairn/papers/bounds.h"
#include "cairn/solve.h"
#include "solve/auto/auto_joint.h"
#include "solve/auto/certify.h"

#define MIN_CUTS 200u
#define FEW_MIN_CUTS 80u
#define CASE_MIN_CUTS 600u
#define SMALL 200u /* ops of a coarse network: cases, and with copies moments around the peak */
#define LARGE 4000u
#define MOMENTS 2000u

uint32_t crn_certify_centre(crn_matrix *m) {
    crn_matrix_clear(m);
    uint32_t slot = crn_matrix_peak_slot(m);
    return CRN_MIN(slot > 0 ? slot - 1 : 0, m->flat->op_count - 1);
}

/* On a coarse network the bound by cases is higher: few values fill the memory. */
static cairn_status try_cases(crn_bound *bound, uint64_t budget, crn_bound_result *found) {
    int64_t extra_ns;
    if (bound->flat->op_count > SMALL || found->op == CRN_NO_OP || found->extra_ns == 0 ||
        found->extra_ns == INT64_MAX)
        return CAIRN_OK;
    CRN_TRY(crn_bound_enter(bound, found->op));
    CRN_TRY(crn_bound_branch(bound, budget, found->price, CASE_MIN_CUTS, &extra_ns));
    found->extra_ns = CRN_MAX(found->extra_ns, extra_ns);
    return CAIRN_OK;
}

cairn_status crn_certify(crn_bound *bound, uint32_t centre, const cairn_machine *machine,
                         uint64_t budget, crn_arena *arena, crn_certificate *out) {
    const crn_flat *f = bound->flat;
    crn_bound *raw;
    int64_t around_peak;
    budget = CRN_MIN(budget, (uint64_t)INT64_MAX / 4);
    CRN_TRY(crn_bound_search(bound, budget, centre, f->op_count > LARGE ? FEW_MIN_CUTS : MIN_CUTS,
                             &out->alone));
    CRN_TRY(try_cases(bound, budget, &out->alone));
    out->extra_ns = out->alone.extra_ns;
    if (machine == NULL || out->extra_ns == 0)
        return CAIRN_OK;
    CRN_TRY(crn_bound_create(f, true, arena, &raw));
    uint32_t best = out->alone.op == CRN_NO_OP ? centre : out->alone.op;
    CRN_TRY(crn_joint_bound(raw, machine, budget, best, &out->extra_ns));
    if (best == centre || f->op_count > SMALL)
        return CAIRN_OK;
    CRN_TRY(crn_joint_bound(raw, machine, budget, centre, &around_peak));
    out->extra_ns = CRN_MAX(out->extra_ns, around_peak);
    return CAIRN_OK;
}

/* The options, and in `machine` the one that they point at. */
static cairn_status read_options(const cairn_solve_options *given, cairn_solve_options *options,
                                 cairn_machine *machine, cairn_error *err) {
    *options = (cairn_solve_options)CAIRN_SOLVE_OPTIONS_INIT;
    *machine = (cairn_machine)CAIRN_MACHINE_INIT;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_solve_options, *options, given, err);
    CRN_READ_LOCAL(cairn_machine, *machine, &options->machine, err);
    return CAIRN_OK;
}

/* The machine for copies; NULL: there are no copies. */
static const cairn_machine *copier(const cairn_solve_options *options) {
    return options->no_offload ? NULL : options->machine;
}

/* `*fits` is false if no plan is within the budget. The time may also be INT64_MAX if the ops take
 * that long. */
static cairn_status find_time(const cairn_graph *graph, const cairn_costs *costs,
                              const cairn_solve_options *options, crn_arena *arena, int64_t *out,
                              bool *fits) {
    crn_flat *flat;
    crn_matrix *matrix;
    crn_bound *bound;
    crn_certificate found = {0};
    CRN_TRY(crn_flat_create(graph, costs, arena, &flat));
    CRN_TRY(crn_matrix_create(flat, arena, &matrix));
    CRN_TRY(crn_bound_create(flat, false, arena, &bound));
    if (options->budget_bytes > 0)
        CRN_TRY(crn_certify(bound, crn_certify_centre(matrix), copier(options),
                            options->budget_bytes, arena, &found));
    *out = crn_add_time(bound->base_ns, found.extra_ns);
    *fits = found.extra_ns < INT64_MAX;
    return CAIRN_OK;
}

cairn_status cairn_time_bound(const cairn_graph *graph, const cairn_costs *costs,
                              const cairn_solve_options *given, int64_t *out, cairn_error *err) {
    cairn_solve_options options;
    cairn_machine machine;
    crn_arena arena;
    cairn_allocator allocator = crn_graph_allocator(graph);
    *out = 0;
    CRN_TRY(read_options(given, &options, &machine, err));
    crn_watch watch;
    crn_arena_init(&arena, &allocator);
    crn_watch_begin(&watch, options.progress, options.progress_context, &arena);
    bool fits = false;
    cairn_status status = find_time(graph, costs, &options, &arena, out, &fits);
    crn_arena_release(&arena);
    CRN_TRY(crn_watch_status(&watch, status, err));
    if (!fits)
        return crn_fail(err, CAIRN_INFEASIBLE, "no plan of \"%s\" fits into %llu bytes",
                        cairn_graph_name(graph), (unsigned long long)options.budget_bytes);
    return CAIRN_OK;
}

/* The memory that an op itself needs. With copies nothing else must be in memory at the same
 * time. */
static uint64_t working_set(const crn_flat *f, uint32_t op) {
    uint64_t bytes = f->least_workspace[op];
    for (uint32_t k = f->first_input[op]; k < f->first_input[op + 1]; k++)
        bytes += f->bytes[f->inputs[k]];
    for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++)
        bytes += f->bytes[f->outputs[k]];
    return bytes - crn_flat_inplace_bytes(f, op);
}

static cairn_status find_memory(const cairn_graph *graph, const cairn_costs *costs, bool copies,
                                crn_arena *arena, uint64_t *out) {
    crn_flat *flat;
    crn_bound *bound;
    CRN_TRY(crn_flat_create(graph, costs, arena, &flat));
    CRN_TRY(crn_bound_create(flat, false, arena, &bound));
    if (!copies) {
        uint64_t at_end;
        CRN_TRY(crn_bound_least_at_end(bound, &at_end));
        CRN_TRY(crn_bound_least_memory(bound, MOMENTS, out));
        *out = CRN_MAX(*out, at_end);
        return CAIRN_OK;
    }
    uint64_t results = 0;
    for (uint32_t v = 0; v < flat->value_count; v++)
        results += flat->stays[v] ? flat->bytes[v] : 0;
    *out = results; /* at the end they are all in memory */
    for (uint32_t o = 0; o < flat->op_count; o++)
        if (flat->needed[o])
            *out = CRN_MAX(*out, working_set(flat, o));
    return CAIRN_OK;
}

cairn_status cairn_least_memory(const cairn_graph *graph, const cairn_costs *costs,
                                const cairn_solve_options *given, uint64_t *out, cairn_error *err) {
    cairn_solve_options options;
    cairn_machine machine;
    crn_arena arena;
    cairn_allocator allocator = crn_graph_allocator(graph);
    *out = 0;
    CRN_TRY(read_options(given, &options, &machine, err));
    crn_arena_init(&arena, &allocator);
    cairn_status status = find_memory(graph, costs, copier(&options) != NULL, &arena, out);
    crn_arena_release(&arena);
    return status == CAIRN_OK ? CAIRN_OK : crn_fail_memory(err);
}
