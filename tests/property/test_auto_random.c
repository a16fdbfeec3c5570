/* test_auto_random.c: random graphs of any kind. No algorithm ends in an illegal plan; `auto` is as
 * fast as every other algorithm; what fits into a budget fits into every larger one, and every
 * refusal names the same smallest budget, which is solved. */
#include "check.h"
#include "property/random_graph.h"

typedef struct sample {
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_machine machine;
    uint64_t none;
} sample;

static uint32_t compared, slower;

static cairn_status solve(const sample *s, const char *name, uint64_t budget, bool copies,
                          cairn_solution **out, cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.budget_bytes = budget;
    options.machine = &s->machine;
    options.no_offload = !copies;
    return cairn_solve(s->graph, s->costs, name, &options, out, err);
}

static sample open_sample(crn_rng *rng) {
    cairn_error err = {0};
    cairn_solution *none;
    sample s = {.graph = one_in(rng, 4) ? random_network(rng) : random_graph(rng)};
    s.costs = random_costs(rng, s.graph, one_in(rng, 3));
    s.machine = random_machine(rng);
    CHECK_OK(solve(&s, "none", 0, false, &none, &err), &err);
    s.none = none->layout->arena_bytes;
    cairn_solution_destroy(none);
    return s;
}

static void close_sample(sample *s) {
    cairn_costs_destroy(s->costs);
    cairn_graph_destroy(s->graph);
}

/* The simulator names the step at which a plan breaks a rule. */
static bool is_illegal(const cairn_error *err) {
    return strncmp(err->message, "step ", 5) == 0 || strncmp(err->message, "at the end", 10) == 0;
}

static void check_solvers(const sample *s, uint64_t budget, bool copies) {
    const cairn_solver *solver;
    cairn_solution *best, *other;
    cairn_error err = {0};
    cairn_status status = solve(s, "auto", budget, copies, &best, &err);
    CHECK(status == CAIRN_OK || status == CAIRN_INFEASIBLE);
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        if (solver->goal != CAIRN_GOAL_TRAIN || (solver->offloads && !copies) ||
            strcmp(solver->name, "auto") == 0)
            continue;
        cairn_status found = solve(s, solver->name, budget, copies, &other, &err);
        CHECK(found == CAIRN_OK || found == CAIRN_INFEASIBLE || found == CAIRN_EINVAL);
        if (found != CAIRN_OK) {
            CHECK(!is_illegal(&err));
            continue;
        }
        CHECK(status == CAIRN_OK);
        if (status == CAIRN_OK) {
            int64_t time = best->sim->summary->time_ns;
            CHECK(best->lower_bound_ns <= other->sim->summary->time_ns);
            compared++;
            slower += time > other->sim->summary->time_ns;
        }
        cairn_solution_destroy(other);
    }
    if (status == CAIRN_OK)
        CHECK(best->layout->arena_bytes <= budget);
    cairn_solution_destroy(best);
}

/* Whether `budget` is solved; a refusal must name `smallest`. */
static bool is_solved(const sample *s, uint64_t budget, bool copies, uint64_t *smallest) {
    cairn_solution *solution;
    cairn_error err = {0};
    cairn_status status = solve(s, "auto", budget, copies, &solution, &err);
    CHECK(status == CAIRN_OK || status == CAIRN_INFEASIBLE);
    if (status == CAIRN_INFEASIBLE) {
        CHECK(*smallest == 0 || *smallest == err.smallest_budget);
        *smallest = err.smallest_budget;
    }
    cairn_solution_destroy(solution);
    return status == CAIRN_OK;
}

static void check_feasibility(crn_rng *rng, const sample *s, bool copies) {
    uint64_t smallest = 0;
    if (is_solved(s, 1, copies, &smallest))
        return; /* nothing takes memory */
    CHECK(is_solved(s, smallest, copies, &smallest));
    CHECK(!is_solved(s, smallest - 1, copies, &smallest));
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t budget = 1 + crn_rng_below(rng, s->none);
        CHECK(is_solved(s, budget, copies, &smallest) == (budget >= smallest));
    }
    uint64_t near = smallest + crn_rng_below(rng, smallest / 16 + 1);
    CHECK(is_solved(s, near, copies, &smallest));
}

int main(void) {
    for (uint64_t seed = 1; seed <= 300; seed++) {
        crn_rng rng = {seed};
        sample s = open_sample(&rng);
        bool copies = one_in(&rng, 2);
        check_solvers(&s, s.none * (60 + below(&rng, 40)) / 100 + 1, copies);
        if (seed % 4 == 0)
            check_feasibility(&rng, &s, copies);
        close_sample(&s);
    }
    printf("%u plans compared, %u faster than auto's\n", compared, slower);
    CHECK(compared > 100 && slower == 0);
    return check_result();
}
