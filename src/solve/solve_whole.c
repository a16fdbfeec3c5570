/* solve_whole.c: a limit for everything on the device: the order of the ops, and homes on the host.
 *
 *     the step in its own order ---> solve_homes.c ---+--> the faster one ---> updates joined
 *     large gradients wait --------> solve_homes.c ---+
 *
 * The second order is that of graph/delay_gradients.c. It is tried if the plan in the first one
 * recomputes or offloads activations only, and there is such an order. The bound is that of both.
 */
#include "solve/solve_whole.h"

#include "graph/crn_graph.h"
#include "plan/crn_plan.h"
#include "solve/copy_costs.h"
#include "solve/join_updates.h"
#include "solve/solution.h"
#include "solve/solve_homes.h"

typedef struct whole {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const char *algorithm;
    const cairn_solve_options *options;
    crn_arena *scratch;
    cairn_error *err;
} whole;

/* A solution with the plan; it is judged as one of the whole step. */
static cairn_status judge(const whole *w, cairn_plan *plan, int64_t bound, cairn_solution **out) {
    CRN_TRY(crn_solution_take(w->graph, w->costs, plan, w->options->machine, false,
                              w->options->memo, out, w->err));
    CRN_TRY(crn_solution_gather(w->graph, w->costs, w->options, *out, w->err));
    (*out)->lower_bound_ns = bound;
    return CAIRN_OK;
}

/* Whether the plan does more than it would with more memory, but has nothing at home on the host:
 * then the moments that a delayed update needs would have less time to be copied. */
static bool does_more(const cairn_solution *solution) {
    const cairn_sim_summary *s = solution->sim->summary;
    return (s->reruns > 0 || s->offloads > 0) && s->home_bytes == 0;
}

static int64_t copies_of(const cairn_solution *solution) {
    return solution->sim->summary->copy_in_ns + solution->sim->summary->copy_out_ns;
}

/* Whether `other` is faster or, where it is not slower, copies less. */
static bool is_better(const cairn_solution *other, const cairn_solution *than) {
    int64_t a = crn_solution_time(other), b = crn_solution_time(than);
    return a < b || (a == b && copies_of(other) < copies_of(than));
}

/* ---- Another order ---- */

/* A plan of the graph in another order as one of the graph itself. */
static cairn_status translate(const whole *w, const cairn_plan *plan, const cairn_id *order,
                              cairn_plan **out) {
    cairn_allocator allocator = crn_graph_allocator(w->graph);
    crn_plan_builder *builder;
    cairn_status status = CAIRN_OK;
    CRN_TRY(crn_plan_builder_create(&allocator, &builder));
    for (uint32_t i = 0; i < plan->step_count && status == CAIRN_OK; i++) {
        cairn_step step = plan->steps[i];
        if (step.kind == CAIRN_STEP_RUN)
            step.id = order[step.id];
        status = crn_plan_builder_add(builder, step);
    }
    if (status == CAIRN_OK)
        status = crn_plan_builder_finish(builder, w->graph, plan->header, out, w->err);
    crn_plan_builder_destroy(builder);
    return status;
}

/* The best solution in the other order; NULL: none fits. */
static cairn_status solve_other(const whole *w, const cairn_graph *graph, const cairn_id *order,
                                cairn_solution **out) {
    crn_costs_change change = {.order = order};
    cairn_solution *found;
    cairn_costs *costs;
    cairn_plan *plan;
    cairn_error own = {0};
    CRN_TRY(crn_costs_copy(graph, w->costs, &change, w->scratch, &costs, w->err));
    cairn_status status = crn_solve_homes(graph, costs, w->algorithm, w->options, &found, &own);
    cairn_costs_destroy(costs);
    if (status != CAIRN_OK)
        return status == CAIRN_ENOMEM || status == CAIRN_ECANCELED ? status : CAIRN_OK;
    int64_t bound = found->lower_bound_ns;
    status = translate(w, found->plan, order, &plan);
    cairn_solution_destroy(found);
    CRN_TRY(status);
    return judge(w, plan, bound, out);
}

static cairn_status try_other_order(const whole *w, cairn_solution **best) {
    cairn_graph *graph;
    cairn_id *order;
    cairn_solution *other = NULL;
    CRN_TAKE(w->scratch, order, cairn_graph_op_count(w->graph));
    CRN_TRY(crn_graph_delay(w->graph, w->scratch, order, &graph, w->err));
    if (graph == NULL)
        return CAIRN_OK;
    cairn_status status = solve_other(w, graph, order, &other);
    cairn_graph_destroy(graph);
    if (status != CAIRN_OK || other == NULL) {
        cairn_solution_destroy(other);
        return status;
    }
    int64_t bound = CRN_MIN((*best)->lower_bound_ns, other->lower_bound_ns);
    bool better = is_better(other, *best);
    cairn_solution_destroy(better ? *best : other);
    *best = better ? other : *best;
    (*best)->lower_bound_ns = bound;
    return CAIRN_OK;
}

/* ---- Updates ---- */

/* Join updates if that needs no more memory and no more time. Where something is at home on the
 * host, copies hide behind what is between updates. */
static cairn_status join(const whole *w, cairn_solution **best) {
    cairn_plan *plan;
    cairn_solution *joined = NULL;
    if ((*best)->sim->summary->home_bytes > 0)
        return CAIRN_OK;
    CRN_TRY(crn_join_updates(w->graph, w->costs, *best, &plan, w->err));
    if (plan == NULL)
        return CAIRN_OK;
    cairn_status status = judge(w, plan, (*best)->lower_bound_ns, &joined);
    bool good = status == CAIRN_OK && joined->layout->arena_bytes <= (*best)->layout->arena_bytes &&
                crn_solution_time(joined) <= crn_solution_time(*best);
    cairn_solution_destroy(good ? *best : joined);
    *best = good ? joined : *best;
    return status;
}

static cairn_status solve_all(const whole *w, cairn_solution **out) {
    CRN_TRY(crn_solve_homes(w->graph, w->costs, w->algorithm, w->options, out, w->err));
    if (does_more(*out))
        CRN_TRY(try_other_order(w, out));
    return join(w, out);
}

cairn_status crn_solve_whole(const cairn_graph *graph, const cairn_costs *costs, const char *name,
                             const cairn_solve_options *options, cairn_solution **out,
                             cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_arena_init(&scratch, &allocator);
    whole w = {graph, costs, name, options, &scratch, err};
    cairn_status status = solve_all(&w, out);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
