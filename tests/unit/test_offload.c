/* test_offload.c: the published offloading examples, every field; bad input; running out of memory
 * at every allocation. */
#include "base/json.h"
#include "offload_judge.h"
#include "ration.h"

#define NONE UINT64_MAX

static const char *const algorithms[] = {"offload-greedy", "offload-dynprog", "vdnn",
                                         "tflms",          "autoswap",        "offload-best"};

/* ---- Expected values, from the same file ---- */

static bool field_is_null(const crn_json *at, const char *key) {
    crn_json member = crn_json_member(at, key);
    return crn_json_is_null(&member);
}

static uint64_t field(const crn_json *at, const char *key) {
    crn_json member = crn_json_member(at, key);
    cairn_error err = {0};
    int64_t value;
    if (crn_json_is_null(&member))
        return NONE;
    CHECK_OK(crn_json_integer(&member, 0, INT64_MAX, &value, &err), &err);
    return (uint64_t)value;
}

static uint32_t field_set(const crn_json *at, const char *key) {
    crn_json member = crn_json_member(at, key);
    cairn_error err = {0};
    uint32_t set = 0;
    size_t count;
    CHECK_OK(crn_json_array(&member, &count, &err), &err);
    for (size_t k = 0; k < count; k++) {
        crn_json element = crn_json_element(&member, k);
        int64_t value;
        CHECK_OK(crn_json_integer(&element, 0, 31, &value, &err), &err);
        set |= 1u << value;
    }
    return set;
}

/* ---- Asking the library ---- */

static uint32_t set_of(const cairn_offload_solution *s) {
    uint32_t set = 0;
    for (uint32_t k = 0; k < s->transfer_count; k++)
        set |= 1u << s->transfers[k].activation;
    return set;
}

/* The makespan of an algorithm, whose schedule is checked; NONE if infeasible. */
static uint64_t solve(const cairn_offload_problem *p, const char *name,
                      cairn_offload_release release, uint32_t *set) {
    cairn_offload_options options = CAIRN_OFFLOAD_OPTIONS_INIT;
    cairn_offload_solution *s;
    cairn_error err = {0};
    options.release = release;
    cairn_status status = cairn_offload_solve(NULL, p, name, &options, &s, &err);
    if (status == CAIRN_INFEASIBLE) {
        CHECK(s == NULL && err.smallest_budget > p->memory && err.name[0] != '\0');
        return NONE;
    }
    CHECK_OK(status, &err);
    const char *wrong = judge_schedule(p, s, release);
    CHECK_STRING(wrong != NULL ? wrong : "", "");
    uint64_t makespan = s->makespan_x_beta;
    if (set != NULL)
        *set = set_of(s);
    cairn_offload_solution_destroy(s);
    return makespan;
}

/* The ordered makespan of a set given as bits; NONE if it does not fit. */
static uint64_t ordered(const cairn_offload_problem *p, uint32_t bits,
                        cairn_offload_release release) {
    uint32_t set[32], count = 0;
    cairn_offload_solution *s;
    cairn_error err = {0};
    for (uint32_t i = 0; i < p->layers; i++)
        if (bits >> i & 1)
            set[count++] = i;
    cairn_status status = cairn_offload_ordered(NULL, p, set, count, release, &s, &err);
    if (status == CAIRN_INFEASIBLE)
        return NONE;
    CHECK_OK(status, &err);
    const char *wrong = judge_schedule(p, s, release);
    CHECK_STRING(wrong != NULL ? wrong : "", "");
    uint64_t makespan = s->makespan_x_beta;
    cairn_offload_solution_destroy(s);
    return makespan;
}

/* ---- Examples ---- */

static void check_bounds(const cairn_offload_problem *p, const crn_json *expected) {
    cairn_offload_bounds bounds;
    cairn_error err = {0};
    CHECK_OK(cairn_offload_bound(NULL, p, &bounds, &err), &err);
    CHECK_U64(bounds.peak_memory, field(expected, "M_peak"));
    CHECK_U64(bounds.min_memory, field(expected, "min_memory"));
    CHECK_U64(bounds.compute_x_beta, field(expected, "compute_x_beta"));
    CHECK_U64(bounds.lower_bound_x_beta, field(expected, "lower_bound_x_beta"));
    CHECK(bounds.feasible == !field_is_null(expected, "fractional_opt_x_beta"));
    CHECK_U64(bounds.feasible ? bounds.fractional_x_beta : NONE,
              field(expected, "fractional_opt_x_beta"));
}

/* Optimum over all sets: value and number of optimal sets against the file, and the set named there
 * is one of them. */
static void check_all_sets(const cairn_offload_problem *p, const crn_json *expected,
                           cairn_offload_release release) {
    bool whole = release == CAIRN_OFFLOAD_RELEASE_WHOLE;
    uint64_t best = NONE, count = 0;
    for (uint32_t bits = 0; bits < 1u << p->layers; bits++) {
        uint64_t value = ordered(p, bits, release);
        if (value == NONE || value > best)
            continue;
        count = value == best ? count + 1 : 1;
        best = value;
    }
    CHECK_U64(best, field(expected, whole ? "p1_ordered_opt_x_beta" : "p2_opt_x_beta"));
    CHECK_U64(count, field(expected, whole ? "p1_num_opt_sets" : "p2_num_opt_sets"));
    uint32_t named = field_set(expected, whole ? "p1_ordered_opt_set" : "p2_opt_set");
    CHECK_U64(ordered(p, named, release), best);
}

static void check_algorithms(const cairn_offload_problem *p, const crn_json *expected) {
    const cairn_offload_release whole = CAIRN_OFFLOAD_RELEASE_WHOLE,
                                parts = CAIRN_OFFLOAD_RELEASE_FRACTIONAL;
    uint32_t set = 0;
    CHECK_U64(solve(p, "offload-greedy", whole, &set), field(expected, "greedy_p1_x_beta"));
    CHECK_U64(set, field_set(expected, "greedy_set"));
    CHECK_U64(solve(p, "offload-greedy", parts, NULL), field(expected, "greedy_p2_x_beta"));
    CHECK_U64(solve(p, "vdnn", whole, &set), field(expected, "vdnn_p1_x_beta"));
    CHECK_U64(set, field_set(expected, "vdnn_set"));
    CHECK_U64(solve(p, "offload-dynprog", parts, NULL), field(expected, "p2_opt_x_beta"));
    uint64_t dynprog = solve(p, "offload-dynprog", whole, NULL);
    CHECK(dynprog >= field(expected, "dynprog_p1_best_x_beta"));
    CHECK(dynprog <= field(expected, "dynprog_p1_worst_x_beta"));
    uint64_t best = solve(p, "offload-best", whole, NULL);
    if (!field_is_null(expected, "p1_true_opt_x_beta"))
        CHECK_U64(best, field(expected, "p1_true_opt_x_beta"));
    CHECK(best <= field(expected, "p1_ordered_opt_x_beta"));
    CHECK(best >= field(expected, "fractional_opt_x_beta"));
    CHECK(solve(p, "offload-best", parts, NULL) <= field(expected, "p2_opt_x_beta"));
    CHECK(solve(p, "tflms", whole, NULL) >= best);
    CHECK(solve(p, "autoswap", whole, NULL) >= field(expected, "p1_ordered_opt_x_beta"));
}

static void test_examples(void) {
    cairn_error err = {0};
    cairn_text text;
    cairn_offload_cases *cases;
    crn_json_document document;
    CHECK_OK(cairn_text_load(NULL, CAIRN_TEST_DATA "/offload_examples.json", &text, &err), &err);
    CHECK_OK(cairn_offload_cases_read(NULL, text.data, text.length, "f", &cases, &err), &err);
    CHECK_OK(crn_json_parse(text.data, text.length, "f", &document, &err), &err);
    crn_json root = crn_json_root(&document);
    CHECK_U64(cairn_offload_cases_count(cases), 15);
    CHECK(cairn_offload_cases_get(cases, 15) == NULL && cairn_offload_cases_id(cases, 15) == NULL);
    CHECK_STRING(cairn_offload_cases_id(cases, 13), "E14");
    for (uint32_t i = 0; i < cairn_offload_cases_count(cases); i++) {
        const cairn_offload_problem *p = cairn_offload_cases_get(cases, i);
        crn_json expected = crn_json_element(&root, i);
        check_bounds(p, &expected);
        if (field_is_null(&expected, "fractional_opt_x_beta")) {
            for (size_t k = 0; k < sizeof algorithms / sizeof *algorithms; k++)
                CHECK_U64(solve(p, algorithms[k], CAIRN_OFFLOAD_RELEASE_WHOLE, NULL), NONE);
            continue;
        }
        check_all_sets(p, &expected, CAIRN_OFFLOAD_RELEASE_WHOLE);
        check_all_sets(p, &expected, CAIRN_OFFLOAD_RELEASE_FRACTIONAL);
        check_algorithms(p, &expected);
    }
    crn_json_release(&document);
    cairn_offload_cases_destroy(cases);
    cairn_text_release(&text);
}

/* ---- Bad input ---- */

#define REST "\"y\":[0,0,0],\"exF\":[0,0],\"exB\":[0,0],\"uF\":[1,1],\"uB\":[1,1]"
#define GOOD "{\"L\":1,\"x\":[1,1,1]," REST ",\"beta\":1,\"M_gpu\":9}"

static void check_bad(const char *text, cairn_status status, const char *path, const char *part) {
    cairn_offload_cases *cases = (cairn_offload_cases *)&status;
    cairn_error err = {0};
    CHECK(cairn_offload_cases_read(NULL, text, strlen(text), "f", &cases, &err) == status);
    CHECK(cases == NULL && err.status == status);
    CHECK_STRING(err.path, path);
    if (strstr(err.message, part) == NULL)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, err.message);
    CHECK(strstr(err.message, part) != NULL);
}

static void test_bad_input(void) {
    check_bad("[" GOOD ",\n{]", CAIRN_ESYNTAX, "", "");
    check_bad("[]", CAIRN_EINVAL, "", "holds no case");
    check_bad("{\"cases\":[]}", CAIRN_EINVAL, "cases", "holds no case");
    check_bad("{\"cases\":3}", CAIRN_EINVAL, "cases", "must be");
    check_bad("[7]", CAIRN_EINVAL, "[0]", "must be");
    check_bad("{\"L\":1,\"x\":[1,1,1]," REST ",\"M_gpu\":9}", CAIRN_EINVAL, "beta", "missing");
    check_bad("{\"L\":1,\"x\":[1,1,1]," REST ",\"beta\":0,\"M_gpu\":9}", CAIRN_EINVAL, "beta",
              "is 0");
    check_bad("{\"L\":1,\"x\":[1,1,1]," REST ",\"beta\":-3,\"M_gpu\":9}", CAIRN_EINVAL, "beta",
              "is -3");
    check_bad("{\"L\":1,\"x\":[1,1,1]," REST ",\"beta\":1.5,\"M_gpu\":9}", CAIRN_EINVAL, "beta",
              "must be");
    check_bad("{\"L\":1,\"x\":[1,1,1]," REST ",\"beta\":200000000000000000,\"M_gpu\":9}",
              CAIRN_EOVERFLOW, "", "bandwidth");
    check_bad("{\"L\":1,\"x\":[1,1,1]," REST ",\"beta\":1,\"M_gpu\":-9}", CAIRN_EINVAL, "M_gpu",
              "is -9");
    check_bad("{\"L\":-1,\"x\":[1,1,1]," REST ",\"beta\":1,\"M_gpu\":9}", CAIRN_EINVAL, "L",
              "is -1");
    check_bad("{\"L\":1,\"x\":[1,1]," REST ",\"beta\":1,\"M_gpu\":9}", CAIRN_EINVAL, "x",
              "has 2 values, but L requires 3");
    check_bad("[" GOOD ",{\"L\":1,\"x\":[1,-1,1]," REST ",\"beta\":1,\"M_gpu\":9}]", CAIRN_EINVAL,
              "[1].x[1]", "is -1");
    check_bad("{\"L\":1,\"x\":[1,\"1\",1]," REST ",\"beta\":1,\"M_gpu\":9}", CAIRN_EINVAL, "x[1]",
              "must be");
    check_bad("{\"L\":1,\"x\":[200000000000000000,200000000000000000,1]," REST
              ",\"beta\":1,\"M_gpu\":9}",
              CAIRN_EOVERFLOW, "", "sizes");
    check_bad("{\"L\":1,\"x\":[1,1,1]," REST ",\"beta\":1,\"M_gpu\":9,\"betta\":1}", CAIRN_EINVAL,
              "", "betta");
}

static void test_forms(void) {
    const char *forms[] = {GOOD, "[" GOOD "," GOOD "]", "{\"cases\":[" GOOD "," GOOD "]}"};
    for (uint32_t k = 0; k < 3; k++) {
        cairn_offload_cases *cases;
        cairn_error err = {0};
        CHECK_OK(cairn_offload_cases_read(NULL, forms[k], strlen(forms[k]), NULL, &cases, &err),
                 &err);
        CHECK_U64(cairn_offload_cases_count(cases), k == 0 ? 1 : 2);
        CHECK_U64(cairn_offload_cases_get(cases, 0)->memory, 9);
        CHECK_STRING(cairn_offload_cases_id(cases, 0), "");
        cairn_offload_cases_destroy(cases);
    }
    cairn_offload_cases_destroy(NULL);
    cairn_offload_solution_destroy(NULL);
}

/* A problem made in memory, and wrong calls. */
static void test_asking(void) {
    uint64_t x[] = {4, 5, 2}, y[] = {6, 3, 1}, zero[] = {0, 0}, ex[] = {0, 5}, f[] = {0, 1},
             b[] = {6, 5};
    cairn_offload_problem p = {2, x, y, zero, ex, f, b, 1, 19};
    cairn_offload_solution *s;
    cairn_error err = {0};
    CHECK(cairn_offload_solve(NULL, &p, "nonsense", NULL, &s, &err) == CAIRN_EUNKNOWN && s == NULL);
    uint32_t twice[] = {0, 0}, far[] = {2}, none[] = {1};
    CHECK(cairn_offload_ordered(NULL, &p, twice, 2, CAIRN_OFFLOAD_RELEASE_WHOLE, &s, &err) ==
          CAIRN_EINVAL);
    CHECK(cairn_offload_ordered(NULL, &p, far, 1, CAIRN_OFFLOAD_RELEASE_WHOLE, &s, &err) ==
          CAIRN_EINVAL);
    CHECK(cairn_offload_ordered(NULL, &p, none, 1, CAIRN_OFFLOAD_RELEASE_WHOLE, &s, &err) ==
          CAIRN_INFEASIBLE);
    CHECK_OK(cairn_offload_solve(NULL, &p, NULL, NULL, &s, &err), &err);
    CHECK_U64(s->makespan_x_beta, 19);
    CHECK(s->optimal);
    cairn_offload_solution_destroy(s);
    p.memory = 17;
    CHECK(cairn_offload_solve(NULL, &p, NULL, NULL, &s, &err) == CAIRN_INFEASIBLE);
    CHECK_U64(err.smallest_budget, 18);
    CHECK_STRING(err.name, "B_0");
    CHECK(strstr(err.message, "B_0 alone needs 18") != NULL);
    p.bandwidth = 0;
    CHECK(cairn_offload_solve(NULL, &p, NULL, NULL, &s, &err) == CAIRN_EINVAL);
    p.bandwidth = UINT64_MAX;
    CHECK(cairn_offload_solve(NULL, &p, NULL, NULL, &s, &err) == CAIRN_EOVERFLOW);
    p.layers = 0;
    CHECK(cairn_offload_solve(NULL, &p, NULL, NULL, &s, &err) == CAIRN_EINVAL);
}

/* ---- Out of memory ---- */

/* Read the cases and solve one, with everything from the allocator. */
static cairn_status read_and_solve(const cairn_allocator *allocator, const cairn_text *text,
                                   uint32_t index, const char *name) {
    cairn_offload_cases *cases;
    cairn_offload_solution *s;
    cairn_offload_bounds bounds;
    cairn_error err;
    cairn_status status =
        cairn_offload_cases_read(allocator, text->data, text->length, "f", &cases, &err);
    if (status != CAIRN_OK)
        return status;
    const cairn_offload_problem *p = cairn_offload_cases_get(cases, index);
    status = cairn_offload_bound(allocator, p, &bounds, &err);
    if (status == CAIRN_OK)
        status = cairn_offload_solve(allocator, p, name, NULL, &s, &err);
    if (status == CAIRN_OK)
        cairn_offload_solution_destroy(s);
    CHECK(status == CAIRN_OK || err.status == CAIRN_ENOMEM);
    cairn_offload_cases_destroy(cases);
    return status;
}

static void test_out_of_memory(void) {
    cairn_error err = {0};
    cairn_text text;
    CHECK_OK(cairn_text_load(NULL, CAIRN_TEST_DATA "/offload_examples.json", &text, &err), &err);
    for (size_t k = 0; k < sizeof algorithms / sizeof *algorithms; k++) {
        cairn_status status = CAIRN_ENOMEM;
        for (long allowed = 0; status != CAIRN_OK && allowed < 10000; allowed++) {
            ration f = {allowed, 0};
            cairn_allocator allocator = {rationed, &f};
            status = read_and_solve(&allocator, &text, 4, algorithms[k]);
            CHECK(status == CAIRN_OK || status == CAIRN_ENOMEM);
            CHECK(f.held == 0);
        }
        CHECK(status == CAIRN_OK);
    }
    cairn_text_release(&text);
}

/* These tests know every algorithm of the table. */
static void test_table(void) {
    uint32_t count = 0;
    while (cairn_offload_algorithm_list(count) != NULL)
        count++;
    CHECK_U64(count, sizeof algorithms / sizeof *algorithms);
    CHECK_STRING(cairn_offload_algorithm_list(0)->name, "offload-best");
}

int main(void) {
    test_table();
    test_examples();
    test_bad_input();
    test_forms();
    test_asking();
    test_out_of_memory();
    return check_result();
}
