/* test_homes_bound.c: the bound of a limit for everything on the device, on seeded random networks
 * with updates: no plan, with any set of parameters and slots at home on the host, is faster. Plans
 * are those of several algorithms at many budgets, with visits placed for every set. */
#include "base/rng.h"
#include "check.h"
#include "cost/crn_cost.h"
#include "property/random_graph.h"
#include "solve/place_homes.h"

#define NETWORKS CHECK_ROUNDS(24)
#define MOST_MOVABLE 6 /* sets of these tensors are tried, all others stay on the device */
#define LIMITS 4

typedef struct problem {
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_machine machine;
    cairn_id movable[MOST_MOVABLE];
    uint32_t movable_count;
    uint64_t stationary, usual; /* bytes: all that is stationary; of the usual step */
    uint64_t limits[LIMITS];
    int64_t bounds[LIMITS];
} problem;

static long plans, refused;

static problem make_problem(uint64_t seed) {
    crn_rng rng = {seed};
    cairn_error err = {0};
    problem p = {.machine = CAIRN_MACHINE_INIT};
    cairn_graph *step = random_network(&rng);
    CHECK_OK(cairn_graph_add_updates(step, UPDATES_OF(.slots = (uint32_t)crn_rng_below(&rng, 3)),
                                     &p.graph, &err),
             &err);
    cairn_graph_destroy(step);
    CHECK_OK(cairn_machine_find("v100", &p.machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(p.graph, &p.machine, &p.costs, &err), &err);
    p.machine.link_bytes_per_second = 1000000u << crn_rng_below(&rng, 14);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(p.graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(p.graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER && tensor->role != CAIRN_ROLE_SLOT)
            continue;
        if (p.movable_count == MOST_MOVABLE || crn_rng_below(&rng, 2) == 0)
            continue;
        /* as large as activations, and large enough to be worth a copy */
        cairn_costs_set_bytes(p.costs, t, 65536 * (1 + crn_rng_below(&rng, 4)));
        if (tensor->role == CAIRN_ROLE_PARAMETER && seed % 2 == 0)
            crn_costs_set_unread(p.costs, t, cairn_costs_bytes(p.costs)[t] / 3 * 2);
        p.movable[p.movable_count++] = t;
    }
    for (cairn_id t = 0; t < cairn_graph_tensor_count(p.graph); t++)
        if (cairn_graph_tensor(p.graph, t)->role == CAIRN_ROLE_ACTIVATION)
            cairn_costs_set_bytes(p.costs, t, 65536 * (1 + crn_rng_below(&rng, 4)));
    p.stationary = cairn_stationary_bytes(p.graph, p.costs, 0);
    return p;
}

/* A plan of the step in an arena of `arena` bytes (0: any), or NULL. */
static cairn_solution *plan_in(const problem *p, uint64_t arena) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *out;
    cairn_error err = {0};
    options.budget_bytes = arena;
    options.machine = &p->machine;
    cairn_status status = cairn_solve(p->graph, p->costs, NULL, &options, &out, &err);
    if (status != CAIRN_INFEASIBLE)
        CHECK_OK(status, &err);
    return out;
}

static void find_bounds(problem *p) {
    cairn_solution *none = plan_in(p, 0);
    p->usual = p->stationary + none->layout->arena_bytes;
    for (uint32_t i = 0; i < LIMITS; i++) {
        cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
        cairn_solution *best;
        cairn_error err = {0};
        p->limits[i] = p->usual / LIMITS * (LIMITS - i);
        options.device_bytes = i == 0 ? p->usual : p->limits[i];
        p->limits[i] = options.device_bytes;
        options.machine = &p->machine;
        cairn_status status = cairn_solve(p->graph, p->costs, NULL, &options, &best, &err);
        p->bounds[i] = 0;
        refused += status == CAIRN_INFEASIBLE;
        if (status != CAIRN_OK)
            continue;
        p->bounds[i] = best->lower_bound_ns;
        const cairn_sim_summary *s = best->sim->summary;
        CHECK(best->lower_bound_ns <= s->time_ns);
        CHECK(best->layout->arena_bytes + p->stationary - s->home_bytes <= options.device_bytes);
        if (i == 0) /* with enough memory nothing is slower than usual */
            CHECK(s->time_ns == none->sim->summary->time_ns && s->home_bytes == 0);
        cairn_solution_destroy(best);
    }
    cairn_solution_destroy(none);
}

/* The plan with a set of homes is no faster than the bound of any limit that it is within. */
static void check_set(const problem *p, const cairn_plan *plan, uint32_t set) {
    bool *on_host = calloc(cairn_graph_tensor_count(p->graph), sizeof *on_host);
    cairn_error err = {0};
    cairn_plan *visited;
    cairn_sim *sim;
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    for (uint32_t i = 0; i < p->movable_count; i++)
        on_host[p->movable[i]] = set >> i & 1;
    crn_homes homes = {p->graph, p->costs, &p->machine, on_host, p->usual};
    CHECK_OK(crn_place_homes(&homes, plan, &visited, &err), &err);
    options.machine = &p->machine;
    CHECK_OK(cairn_simulate(p->graph, p->costs, visited, &options, &sim, &err), &err);
    const cairn_sim_summary *s = sim->summary;
    for (uint32_t i = 0; i < LIMITS; i++)
        if (s->peak_bytes + p->stationary - s->home_bytes <= p->limits[i]) {
            CHECK(p->bounds[i] <= s->time_ns);
            plans++;
        }
    cairn_sim_destroy(sim);
    cairn_plan_destroy(visited);
    free(on_host);
}

int main(void) {
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        problem p = make_problem(seed);
        find_bounds(&p);
        for (uint32_t tenths = 2; tenths <= 10; tenths += 2) {
            cairn_solution *base = plan_in(&p, (p.usual - p.stationary) / 10 * tenths);
            for (uint32_t set = 0; base != NULL && set < 1u << p.movable_count; set++)
                check_set(&p, base->plan, set);
            cairn_solution_destroy(base);
        }
        cairn_costs_destroy(p.costs);
        cairn_graph_destroy(p.graph);
        if (check_failures > 5)
            break;
    }
    printf("%ld plans within a limit, %ld limits refused\n", plans, refused);
    CHECK(plans > CHECK_ROUNDS(1000) && refused > 0);
    return check_result();
}
