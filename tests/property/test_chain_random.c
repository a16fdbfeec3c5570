/* test_chain_random.c: the chain solvers on random chains, against a direct evaluation of the
 * nested recurrence and an independent search over all schedules, for every budget. */
#include "base/rng.h"
#include "cairn/papers/chain.h"
#include "check.h"

#define MOST 140   /* layers */
#define BUDGETS 90 /* budgets 0 .. BUDGETS-1 are tried on small chains */
#define NEVER (INT64_MAX / 4)
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))

static crn_rng rng = {77};

static uint64_t below(uint64_t bound) {
    return crn_rng_below(&rng, bound);
}

typedef struct sample {
    int64_t alpha_f[MOST + 1], alpha_b[MOST + 2];
    uint64_t beta_f[MOST + 1], beta_b[MOST + 2];
    cairn_chain_problem problem;
} sample;

/* A random chain within these limits. Numbers are drawn in separate statements, so that every
 * compiler makes the same samples. */
static void make_sample(sample *s, uint64_t least_layers, uint64_t most_layers, uint64_t cost_range,
                        uint64_t size_range) {
    uint32_t layers = (uint32_t)(least_layers + below(most_layers - least_layers + 1));
    uint64_t most_cost = 1 + below(cost_range), most_size = 1 + below(size_range);
    uint64_t least = below(2);
    for (uint32_t l = 0; l <= layers + 1; l++) {
        s->alpha_b[l] = (int64_t)(least + below(most_cost));
        s->beta_b[l] = below(most_size);
        if (l <= layers) {
            s->alpha_f[l] = (int64_t)(least + below(most_cost));
            s->beta_f[l] = least + below(most_size);
        }
    }
    s->problem = (cairn_chain_problem){layers, s->alpha_f, s->alpha_b, s->beta_f, s->beta_b, 0};
}

static cairn_chain_solution *solve(const sample *s, const char *algorithm, uint64_t budget,
                                   const cairn_chain_options *options) {
    cairn_error err = {0};
    cairn_chain_solution *out;
    cairn_chain_problem p = s->problem;
    cairn_chain_verdict verdict;
    p.budget = budget;
    cairn_status status = cairn_chain_solve(NULL, &p, algorithm, options, &out, &err);
    CHECK(out->feasible == (out->min_budget <= budget));
    CHECK(status == (out->feasible ? CAIRN_OK : CAIRN_INFEASIBLE));
    if (out->feasible) {
        CHECK_OK(cairn_chain_judge(&p, out->steps, out->step_count, &verdict, &err), &err);
        CHECK(verdict.cost == out->cost && verdict.peak == out->peak && out->peak <= budget);
    }
    return out;
}

/* ---- The recurrence, as it is written, one memory at a time ---- */

static int64_t nested[12][13][BUDGETS];

static int64_t nested_cost(const sample *s, uint32_t i, uint32_t j, int64_t m) {
    if (m < 0)
        return NEVER;
    if (nested[i][j][m] >= 0)
        return nested[i][j][m];
    int64_t best = NEVER, elapsed = 0;
    uint64_t peak = 0;
    if (j == i + 1 && s->beta_b[i] + s->beta_b[j] <= (uint64_t)m)
        best = s->alpha_b[i];
    for (uint32_t k = i + 1; k < j; k++) {
        elapsed += s->alpha_f[k];
        peak = MAX(peak, s->beta_f[k] + (k > i + 1 ? s->beta_f[k - 1] : 0));
        if (s->beta_b[j] + peak > (uint64_t)m)
            break;
        int64_t low = nested_cost(s, k, j, m - (int64_t)s->beta_f[k]);
        int64_t high = nested_cost(s, i, k, m);
        best = MIN(best, elapsed + low + high);
    }
    return nested[i][j][m] = MIN(best, NEVER);
}

static void check_precise(const sample *s) {
    cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
    options.curve = true;
    memset(nested, -1, sizeof nested);
    cairn_chain_solution *whole = solve(s, "precise", 0, &options);
    size_t at = 0;
    for (uint64_t budget = s->beta_f[0]; budget < BUDGETS; budget++) {
        int64_t cost = nested_cost(s, 0, s->problem.layers + 1, (int64_t)(budget - s->beta_f[0]));
        cairn_chain_solution *one = solve(s, "precise", budget, NULL);
        CHECK((one->feasible ? one->cost : NEVER) == cost);
        CHECK(one->min_budget == whole->min_budget && !one->bracketed);
        while (at < whole->curve_count && whole->curve[at].budget <= budget)
            at++;
        CHECK((at > 0 ? whole->curve[at - 1].cost : NEVER) == cost);
        cairn_chain_solution_destroy(one);
    }
    cairn_chain_solution_destroy(whole);
}

/* ---- All schedules, by relaxing until nothing changes ---- */

#define STATES (1u << 8)

/* Least cost from "b_j there, `set` resident" for each set, given that of j-1. */
static void relax_phase(const sample *s, uint32_t j, uint64_t budget, const int64_t *after,
                        int64_t *cost) {
    uint64_t fixed = s->beta_f[0] + s->beta_b[j];
    bool changed = true;
    for (uint32_t set = 0; set < STATES; set++)
        cost[set] = NEVER;
    while (changed) {
        changed = false;
        for (uint32_t set = 0; set < STATES; set++) {
            uint64_t memory = fixed;
            int64_t best = cost[set];
            for (uint32_t l = 1; l < 8; l++)
                memory += set >> l & 1 ? s->beta_f[l] : 0;
            if ((j == 1 || set >> (j - 1) & 1) && memory + s->beta_b[j - 1] <= budget)
                best = MIN(best, s->alpha_b[j - 1] + after[j == 1 ? set : set & ~(1u << (j - 1))]);
            for (uint32_t l = 1; l < j; l++) {
                if (set >> l & 1)
                    best = MIN(best, cost[set & ~(1u << l)]);
                else if ((l == 1 || set >> (l - 1) & 1) && memory + s->beta_f[l] <= budget)
                    best = MIN(best, s->alpha_f[l] + cost[set | 1u << l]);
            }
            changed = changed || best < cost[set];
            cost[set] = best;
        }
    }
}

static int64_t true_cost(const sample *s, uint64_t budget) {
    static int64_t cost[2][STATES];
    memset(cost, 0, sizeof cost);
    for (uint32_t j = 1; j <= s->problem.layers + 1; j++)
        relax_phase(s, j, budget, cost[(j - 1) % 2], cost[j % 2]);
    return MIN(cost[(s->problem.layers + 1) % 2][0], NEVER);
}

static void check_exact(const sample *s) {
    uint64_t least = UINT64_MAX;
    int64_t before = NEVER;
    for (uint64_t budget = 0; budget < BUDGETS; budget += 1) {
        int64_t cost = true_cost(s, budget);
        cairn_chain_solution *one = solve(s, "exact", budget, NULL);
        CHECK((one->feasible ? one->cost : NEVER) == cost);
        CHECK(cost <= before && !one->bracketed);
        before = cost;
        if (least == UINT64_MAX && cost < NEVER)
            least = budget;
        CHECK(least == UINT64_MAX ? one->min_budget > budget : one->min_budget == least);
        cairn_chain_solution_destroy(one);
    }
}

/* ---- All algorithms together ---- */

static bool same_answer(const cairn_chain_solution *x, const cairn_chain_solution *y) {
    return x->feasible == y->feasible && x->min_budget == y->min_budget &&
           x->step_count == y->step_count &&
           (x->step_count == 0 ||
            memcmp(x->steps, y->steps, x->step_count * sizeof *x->steps) == 0);
}

/* Each algorithm gives the same bytes twice; none is below exact, and beam is not above precise. */
static void check_all(const sample *s, uint64_t budget) {
    int64_t cost[16] = {0};
    uint64_t least[16] = {0};
    uint32_t count = 0;
    for (const cairn_chain_algorithm *a; (a = cairn_chain_algorithm_list(count)) != NULL; count++) {
        cairn_chain_solution *one = solve(s, a->name, budget, NULL);
        cairn_chain_solution *two = solve(s, a->name, budget, NULL);
        CHECK(same_answer(one, two));
        cost[count] = one->feasible ? one->cost : NEVER;
        least[count] = one->min_budget;
        cairn_chain_solution_destroy(one);
        cairn_chain_solution_destroy(two);
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(i == 0 || cost[1] <= cost[i]); /* precise, exact, beam, ... */
        CHECK(i < 3 || cost[0] <= cost[i]);  /* the baselines are nested schedules */
        CHECK(least[1] <= least[i]);
    }
    CHECK(cost[1] <= cost[2] && cost[2] <= cost[0] && least[2] <= least[0]);
}

/* ---- Searches cut short ---- */

static void check_brackets(const sample *s, uint64_t budget) {
    cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
    cairn_chain_solution *exact = solve(s, "precise", budget, NULL);
    options.max_points = 3 + (uint32_t)below(12);
    cairn_chain_solution *thin = solve(s, "precise", budget, &options);
    CHECK(thin->min_budget == exact->min_budget && thin->feasible == exact->feasible);
    if (thin->feasible) {
        CHECK(thin->cost >= exact->cost && thin->lower_bound <= exact->cost);
        CHECK(thin->bracketed || thin->cost == exact->cost);
    }
    cairn_chain_solution_destroy(thin);
    cairn_chain_solution_destroy(exact);
}

static void check_cut_search(const sample *s, uint64_t budget) {
    cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
    cairn_chain_solution *full = solve(s, "exact", budget, NULL);
    options.max_states = 1 + (uint32_t)below(200);
    cairn_chain_solution *cut = solve(s, "exact", budget, &options);
    if (cut->feasible) {
        CHECK(full->feasible && cut->cost >= full->cost && cut->lower_bound <= full->cost);
        CHECK(cut->bracketed || cut->cost == full->cost);
    }
    cairn_chain_solution_destroy(cut);
    cairn_chain_solution_destroy(full);
}

/* A chain that is so long that a grid replaces the step functions. */
static void check_long(sample *s) {
    make_sample(s, MOST, MOST, 1, 1);
    for (uint32_t l = 0; l <= MOST; l++) {
        s->alpha_f[l] = (int64_t)(100000 + below(10000000));
        s->beta_f[l] = 1 + below(50000000);
    }
    cairn_chain_solution *least = solve(s, "precise", 0, NULL);
    for (uint64_t percent = 100; percent <= 600; percent += 500) {
        cairn_chain_solution *one = solve(s, "precise", least->min_budget * percent / 100, NULL);
        CHECK(one->feasible && one->min_budget == least->min_budget);
        CHECK(one->lower_bound <= one->cost);
        CHECK(one->cost - one->lower_bound <= one->cost / 50);
        cairn_chain_solution_destroy(one);
    }
    cairn_chain_solution_destroy(least);
}

static uint64_t random_budget(const sample *s) {
    cairn_chain_solution *one = solve(s, "none", 0, NULL);
    uint64_t budget = one->min_budget;
    cairn_chain_solution_destroy(one);
    return budget / 4 + below(budget + 1);
}

int main(void) {
    static sample s;
    for (int round = 0; round < CHECK_ROUNDS(400); round++) {
        make_sample(&s, 0, 10, 12, 12);
        check_precise(&s);
    }
    for (int round = 0; round < CHECK_ROUNDS(100); round++) {
        make_sample(&s, 0, 7, 9, 12);
        check_exact(&s);
    }
    for (int round = 0; round < CHECK_ROUNDS(300); round++) {
        make_sample(&s, 0, 14, 1000, round % 2 ? 12 : 100000);
        check_all(&s, random_budget(&s));
        check_cut_search(&s, random_budget(&s));
    }
    for (int round = 0; round < CHECK_ROUNDS(100); round++) {
        make_sample(&s, 20, 60, 1000, 1000000);
        check_brackets(&s, random_budget(&s));
    }
    check_long(&s);
    return check_result();
}
