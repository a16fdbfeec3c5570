/* test_chain.c: abstract chains: reading, the simulation, every algorithm on the example cases,
 * uniform chains against the formula, bad input, allocation failure. */
#include "base/json.h"
#include "cairn/papers/chain.h"
#include "check.h"
#include "ration.h"

/* There is a solution, and the status and the error say whether it fits. */
static bool is_solved(cairn_status status, cairn_chain_solution *const *made,
                      const cairn_error *err) {
    const cairn_chain_solution *s = *made;
    return s != NULL &&
           (s->feasible ? status == CAIRN_OK
                        : status == CAIRN_INFEASIBLE && err->smallest_budget == s->min_budget);
}

/* ---- The example cases ---- */

typedef struct example {
    cairn_text text;
    crn_json_document document;
    cairn_chain_cases *cases;
} example;

static void load_examples(example *e) {
    cairn_error err = {0};
    CHECK_OK(cairn_text_load(NULL, CAIRN_TEST_DATA "/chain_examples.json", &e->text, &err), &err);
    CHECK_OK(crn_json_parse(e->text.data, e->text.length, NULL, &e->document, &err), &err);
    CHECK_OK(
        cairn_chain_cases_read(NULL, e->text.data, e->text.length, "examples", &e->cases, &err),
        &err);
}

static void release_examples(example *e) {
    cairn_chain_cases_destroy(e->cases);
    crn_json_release(&e->document);
    cairn_text_release(&e->text);
}

/* A number of a case, or -1 for null. */
static int64_t field(const example *e, uint32_t index, const char *key) {
    crn_json root = crn_json_root(&e->document);
    crn_json at = crn_json_element(&root, index), member = crn_json_member(&at, key);
    int64_t value = -1;
    if (!crn_json_is_null(&member)) {
        cairn_error err = {0};
        CHECK_OK(crn_json_integer(&member, 0, INT64_MAX, &value, &err), &err);
    }
    return value;
}

static void check_example(const example *e, uint32_t i, const char *algorithm, const char *cost,
                          const char *budget) {
    cairn_error err = {0};
    cairn_chain_solution *s;
    const cairn_chain_problem *p = cairn_chain_cases_get(e->cases, i);
    CHECK(is_solved(cairn_chain_solve(NULL, p, algorithm, NULL, &s, &err), &s, &err));
    CHECK((s->feasible ? s->cost : -1) == field(e, i, cost));
    CHECK_U64(s->min_budget, (uint64_t)field(e, i, budget));
    CHECK(!s->feasible || s->peak <= p->budget);
    CHECK(!s->bracketed);
    cairn_chain_solution_destroy(s);
}

static void test_examples(void) {
    example e;
    load_examples(&e);
    CHECK_U64(cairn_chain_cases_count(e.cases), 20);
    CHECK(cairn_chain_cases_get(e.cases, 20) == NULL);
    for (uint32_t i = 0; i < cairn_chain_cases_count(e.cases); i++) {
        check_example(&e, i, "precise", "dp_optimal_cost", "min_feasible_budget");
        check_example(&e, i, NULL, "dp_optimal_cost", "min_feasible_budget");
        check_example(&e, i, "exact", "true_optimal_cost", "true_min_feasible_budget");
    }
    release_examples(&e);
}

/* Every algorithm: the simulation agrees, nothing beats the true optimum, and the smallest budget
 * is feasible. */
static void test_all_algorithms(void) {
    example e;
    cairn_error err = {0};
    load_examples(&e);
    const cairn_chain_algorithm *a;
    for (uint32_t i = 0; i < cairn_chain_cases_count(e.cases); i++)
        for (uint32_t k = 0; (a = cairn_chain_algorithm_list(k)) != NULL; k++) {
            cairn_chain_problem p = *cairn_chain_cases_get(e.cases, i);
            cairn_chain_solution *s;
            cairn_chain_verdict verdict;
            CHECK(is_solved(cairn_chain_solve(NULL, &p, a->name, NULL, &s, &err), &s, &err));
            CHECK(s->min_budget >= (uint64_t)field(&e, i, "true_min_feasible_budget"));
            CHECK(s->feasible == (s->min_budget <= p.budget));
            if (s->feasible) {
                CHECK_OK(cairn_chain_judge(&p, s->steps, s->step_count, &verdict, &err), &err);
                CHECK(verdict.cost == s->cost && verdict.peak == s->peak && s->peak <= p.budget);
                CHECK(s->cost >= field(&e, i, "true_optimal_cost"));
            }
            p.budget = s->min_budget;
            cairn_chain_solution_destroy(s);
            CHECK(is_solved(cairn_chain_solve(NULL, &p, a->name, NULL, &s, &err), &s, &err));
            CHECK(s->feasible && s->peak == p.budget);
            cairn_chain_solution_destroy(s);
            p.budget--;
            CHECK(is_solved(cairn_chain_solve(NULL, &p, a->name, NULL, &s, &err), &s, &err));
            CHECK(!s->feasible && s->steps == NULL && s->min_budget == p.budget + 1);
            cairn_chain_solution_destroy(s);
        }
    release_examples(&e);
}

/* The curve of an algorithm agrees with solving at each budget. */
static void test_curves(void) {
    example e;
    cairn_error err = {0};
    load_examples(&e);
    const cairn_chain_algorithm *a;
    for (uint32_t i = 0; i < 14; i++)
        for (uint32_t n = 0; (a = cairn_chain_algorithm_list(n)) != NULL; n++) {
            cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
            options.curve = true;
            cairn_chain_problem p = *cairn_chain_cases_get(e.cases, i);
            cairn_chain_solution *s, *at;
            CHECK(is_solved(cairn_chain_solve(NULL, &p, a->name, &options, &s, &err), &s, &err));
            CHECK(s->curve_count > 0 && s->curve[0].budget == s->min_budget);
            for (size_t k = 0; k < s->curve_count; k++) {
                CHECK(k == 0 || (s->curve[k].budget > s->curve[k - 1].budget &&
                                 s->curve[k].cost < s->curve[k - 1].cost));
                p.budget = s->curve[k].budget;
                CHECK(is_solved(cairn_chain_solve(NULL, &p, a->name, NULL, &at, &err), &at, &err));
                CHECK(at->feasible && at->cost == s->curve[k].cost);
                cairn_chain_solution_destroy(at);
            }
            cairn_chain_solution_destroy(s);
        }
    release_examples(&e);
}

/* ---- Uniform chains ---- */

#define MOST 100

static int64_t one_cost[MOST + 2];
static uint64_t one_size[MOST + 2];

static void fill_ones(void) {
    for (uint32_t l = 0; l < MOST + 2; l++)
        one_size[l] = (uint64_t)(one_cost[l] = 1);
}

static uint64_t binomial(uint64_t n, uint64_t k) {
    uint64_t value = 1;
    for (uint64_t i = 1; i <= k && value < (uint64_t)1 << 40; i++)
        value = value * (n - k + i) / i;
    return value;
}

static uint64_t revolve_cost(uint64_t length, uint64_t slots) {
    uint64_t r = 0;
    if (length == 1)
        return 0;
    while (binomial(slots + r, slots) < length)
        r++;
    return r * length - binomial(slots + r, r - 1);
}

static void test_uniform(uint32_t layers, const char *algorithm) {
    cairn_error err = {0};
    for (uint64_t budget = 3; budget <= layers + 5; budget++) {
        cairn_chain_problem p = {layers, one_cost, one_cost, one_size, one_size, budget};
        cairn_chain_solution *s;
        CHECK(is_solved(cairn_chain_solve(NULL, &p, algorithm, NULL, &s, &err), &s, &err));
        CHECK_U64(s->min_budget, 4);
        CHECK(s->feasible == (budget >= 4));
        if (s->feasible)
            CHECK_U64((uint64_t)s->cost, layers + 1 + revolve_cost(layers + 1, budget - 3));
        cairn_chain_solution_destroy(s);
    }
}

/* ---- The simulation ---- */

#define F(l)                                                                                       \
    { CAIRN_CHAIN_STEP_FORWARD, l }
#define B(l)                                                                                       \
    { CAIRN_CHAIN_STEP_BACKWARD, l }
#define D(l)                                                                                       \
    { CAIRN_CHAIN_STEP_DROP, l }

/* The worked example of the reference, E04. */
static const int64_t e04_forward[] = {0, 1, 1, 1}, e04_backward[] = {1, 1, 1, 1, 0};
static const uint64_t e04_f[] = {1, 1, 2, 1}, e04_b[] = {0, 0, 1, 2, 1};
static const cairn_chain_problem e04 = {3, e04_forward, e04_backward, e04_f, e04_b, 6};

static void test_judge(void) {
    cairn_error err = {0};
    cairn_chain_verdict verdict;
    const cairn_chain_step nested[] = {F(1), F(2), D(1), F(3), D(2), B(3), F(1),
                                       F(2), D(1), B(2), F(1), B(1), B(0)};
    const cairn_chain_step best[] = {F(1), F(2), F(3), D(2), B(3), F(2),
                                     D(1), B(2), F(1), B(1), B(0)};
    CHECK_OK(cairn_chain_judge(&e04, nested, CRN_LENGTH(nested), &verdict, &err), &err);
    CHECK(verdict.cost == 10 && verdict.peak == 6);
    CHECK_OK(cairn_chain_judge(&e04, best, CRN_LENGTH(best), &verdict, &err), &err);
    CHECK(verdict.cost == 9 && verdict.peak == 6);
    CHECK(cairn_chain_judge(&e04, best, CRN_LENGTH(best) - 1, &verdict, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "ends before B0") != NULL);
}

static void test_illegal_steps(void) {
    static const struct {
        cairn_chain_step steps[3];
        size_t count;
        const char *sentence;
    } wrong[] = {
        {{F(2)}, 1, "step 0 (F2) reads a forward that is not resident"},
        {{F(1), F(1)}, 2, "step 1 (F1) makes a forward that is resident already"},
        {{F(0)}, 1, "step 0 (F0) names no forward of the chain"},
        {{F(4)}, 1, "step 0 (F4) names no forward of the chain"},
        {{B(2)}, 1, "step 0 (B2) is not the backward whose turn it is"},
        {{F(1), B(3)}, 2, "step 1 (B3) reads a forward that is not resident"},
        {{D(0)}, 1, "step 0 (-f0) drops what cannot be dropped"},
        {{F(1), D(2)}, 2, "step 1 (-f2) drops a forward that is not resident"},
        {{{7, 1}}, 1, "step 0 (-f1) is of no known kind"},
    };
    for (size_t i = 0; i < CRN_LENGTH(wrong); i++) {
        cairn_error err = {0};
        cairn_chain_verdict verdict;
        CHECK(cairn_chain_judge(&e04, wrong[i].steps, wrong[i].count, &verdict, &err) ==
              CAIRN_EINVAL);
        CHECK_STRING(err.message, wrong[i].sentence);
    }
}

/* ---- Bad input ---- */

static void test_bad_input(void) {
    static const struct {
        const char *text, *expected;
    } wrong[] = {
        {"{", "x.json:1:1: not valid JSON"},
        {"3", "x.json: must be an object"},
        {"[]", "x.json: holds no case"},
        {"{\"cases\": []}", "x.json: cases: holds no case"},
        {"{\"N\": -1}", "x.json: N: is -1; it must be from 0 to 4096"},
        {"{\"N\": 1.5}", "x.json: N: must be a whole number"},
        {"{\"alpha_f\": []}", "x.json: N: is missing"},
        {"[{\"N\": 1}]", "x.json: [0].alpha_f: is missing"},
        {"{\"N\": 1, \"alpha_f\": [0]}",
         "x.json: alpha_f: has 1 entries; a chain of 1 layers needs 2 "
         "(the first one missing is that of layer 1)"},
        {"{\"N\": 1, \"alpha_f\": [0, -3]}",
         "x.json: alpha_f[1]: is -3 at layer 1; it must not be negative"},
        {"{\"N\": 1, \"alpha_f\": [0, 1], \"alpha_b\": [1, 1, 0, 0]}",
         "x.json: alpha_b: has 4 entries; a chain of 1 layers needs 3 "
         "(the first one too many is that of layer 3)"},
        {"{\"N\": 1, \"alpha_f\": [0, 1], \"alpha_b\": [1, 1, 0], \"beta_f\": [1, 1], "
         "\"beta_b\": [1, 1, 1]}",
         "x.json: budget: is missing"},
        {"{\"N\": 1, \"alpha_f\": [0, 1], \"alpha_b\": [1, 9223372036854775807, 0], "
         "\"beta_f\": [1, 1], \"beta_b\": [1, 1, 1], \"budget\": 5}",
         "x.json: layer 1: alpha_b[1] is so large that the cost of a schedule could overflow"},
        {"{\"N\": 1, \"alpha_f\": [0, 1], \"alpha_b\": [1, 1, 0], "
         "\"beta_f\": [1, 9223372036854775807], \"beta_b\": [1, 1, 1], \"budget\": 5}",
         "x.json: layer 1: beta_f[1] is so large that the memory of all tensors overflows"},
    };
    for (size_t i = 0; i < CRN_LENGTH(wrong); i++) {
        cairn_error err = {0};
        char buffer[1024];
        cairn_chain_cases *cases;
        CHECK(cairn_chain_cases_read(NULL, wrong[i].text, strlen(wrong[i].text), "x.json", &cases,
                                     &err) < 0);
        CHECK(cases == NULL);
        cairn_error_text(&err, buffer, sizeof buffer);
        if (strncmp(buffer, wrong[i].expected, strlen(wrong[i].expected)) != 0)
            CHECK_STRING(buffer, wrong[i].expected);
    }
}

static void test_bad_problem(void) {
    cairn_error err = {0};
    cairn_chain_solution *s;
    int64_t costs[] = {0, 1, -2, 1, 0};
    cairn_chain_problem p = e04;
    CHECK(cairn_chain_solve(NULL, &p, "best", NULL, &s, &err) == CAIRN_EUNKNOWN && s == NULL);
    CHECK_STRING(err.message, "there is no algorithm \"best\" for chains");
    p.forward_costs = costs;
    CHECK(cairn_chain_solve(NULL, &p, NULL, NULL, &s, &err) == CAIRN_EINVAL && s == NULL);
    CHECK_STRING(err.message, "layer 2: alpha_f[2] is negative");
    p = e04;
    p.layers = CAIRN_CHAIN_MOST_LAYERS + 1;
    CHECK(cairn_chain_solve(NULL, &p, NULL, NULL, &s, &err) == CAIRN_EINVAL);
    cairn_chain_problem long_one = {MOST, one_cost, one_cost, one_size, one_size, 9};
    CHECK(cairn_chain_solve(NULL, &long_one, "exact", NULL, &s, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "at most 61") != NULL);
    cairn_chain_solution_destroy(NULL);
    cairn_chain_cases_destroy(NULL);
}

/* No layers at all: B_0 alone. */
static void test_empty_chain(void) {
    cairn_error err = {0};
    cairn_chain_problem p = {0, one_cost, one_cost, one_size, one_size, 3};
    const cairn_chain_algorithm *a;
    for (uint32_t k = 0; (a = cairn_chain_algorithm_list(k)) != NULL; k++) {
        cairn_chain_solution *s;
        CHECK(is_solved(cairn_chain_solve(NULL, &p, a->name, NULL, &s, &err), &s, &err));
        CHECK(s->feasible && s->cost == 1 && s->peak == 3 && s->min_budget == 3);
        CHECK_U64(s->step_count, 1);
        cairn_chain_solution_destroy(s);
    }
}

/* ---- Allocation failure ---- */

static void test_out_of_memory(const cairn_chain_problem *p, const char *algorithm, bool curve) {
    ration c = {0, 0};
    cairn_allocator allocator = {rationed, &c};
    cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
    options.curve = curve;
    cairn_status status = CAIRN_ENOMEM;
    long k = 0;
    for (; status == CAIRN_ENOMEM && k < 10000; k++) {
        cairn_error err = {0};
        cairn_chain_solution *s;
        c.left = k;
        status = cairn_chain_solve(&allocator, p, algorithm, &options, &s, &err);
        CHECK(status != CAIRN_ENOMEM ? s != NULL : s == NULL && c.held == 0);
        CHECK(status == CAIRN_OK || err.status == status);
        cairn_chain_solution_destroy(s);
        CHECK(c.held == 0);
    }
    CHECK(status != CAIRN_ENOMEM && k > 1);
}

static void test_out_of_memory_reading(void) {
    ration c = {0, 0};
    cairn_allocator allocator = {rationed, &c};
    const char *text = "[{\"N\": 1, \"alpha_f\": [0, 1], \"alpha_b\": [1, 1, 0], "
                       "\"beta_f\": [1, 1], \"beta_b\": [1, 1, 1], \"budget\": 5}]";
    cairn_error err = {0};
    cairn_chain_cases *cases;
    CHECK(cairn_chain_cases_read(&allocator, text, strlen(text), NULL, &cases, &err) ==
          CAIRN_ENOMEM);
    CHECK(cases == NULL && err.status == CAIRN_ENOMEM);
    c.left = 100;
    CHECK_OK(cairn_chain_cases_read(&allocator, text, strlen(text), NULL, &cases, &err), &err);
    CHECK_U64(cairn_chain_cases_get(cases, 0)->budget, 5);
    cairn_chain_cases_destroy(cases);
    CHECK(c.held == 0);
}

static void test_all_out_of_memory(void) {
    cairn_chain_problem uniform = {30, one_cost, one_cost, one_size, one_size, 8};
    example e;
    load_examples(&e);
    const cairn_chain_algorithm *a;
    for (uint32_t k = 0; (a = cairn_chain_algorithm_list(k)) != NULL; k++) {
        bool slow = strcmp(a->name, "exact") == 0 || strcmp(a->name, "beam") == 0;
        if (!slow)
            test_out_of_memory(&uniform, a->name, true);
        test_out_of_memory(cairn_chain_cases_get(e.cases, 12), a->name, false);
        test_out_of_memory(cairn_chain_cases_get(e.cases, 4), a->name, true);
    }
    release_examples(&e);
    test_out_of_memory_reading();
}

int main(void) {
    static const uint32_t lengths[] = {1, 2, 3, 20, 40, 100};
    fill_ones();
    test_examples();
    test_all_algorithms();
    test_curves();
    for (size_t i = 0; i < CRN_LENGTH(lengths); i++) {
        test_uniform(lengths[i], "precise");
        test_uniform(lengths[i], "revolve");
        test_uniform(lengths[i], "gruslys");
    }
    test_judge();
    test_illegal_steps();
    test_bad_input();
    test_bad_problem();
    test_empty_chain();
    test_all_out_of_memory();
    return check_result();
}
