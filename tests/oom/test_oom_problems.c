/* test_oom_problems.c: the abstract problems survive running out of memory at any point: see
 * failing.h. */
#include "cairn/papers/acg.h"
#include "cairn/arrays.h"
#include "cairn/papers/chain.h"
#include "cairn/papers/offload.h"
#include "failing.h"
#include "parked_step.h"

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    const char *text;
    const char *algorithm;
    const cairn_dag *dag;
    const cairn_chain_problem *chain;
    const cairn_offload_problem *offload;
    cairn_offload_options how;
} fixture;

/* A branch of three ways, then a chain. */
static const char acg_case[] =
    "{\"costs\": [1, 5, 2, 3, 4, 2, 6, 1, 3], \"edges\": [[0,1],[1,2],[1,3],[1,4],[2,5],[3,5],"
    "[4,5],[3,4],[5,6],[6,7],[7,8]], \"source\": 0, \"target\": 8}";
static const char acg_line[] =
    "{\"costs\": [1, 5, 2, 3, 4, 2], \"edges\": [[0,1],[1,2],[2,3],[3,4],"
    "[4,5]], \"source\": 0, \"target\": 5}";
static const char chain_case[] =
    "{\"N\": 5, \"alpha_f\": [0, 1, 2, 3, 4, 1], \"alpha_b\": [1, 1, 2, 3, 4, 1, 0], "
    "\"beta_f\": [1, 2, 1, 2, 1, 2], \"beta_b\": [1, 1, 2, 1, 2, 1, 1], \"budget\": 8}";

static cairn_status read_acg(void *context) {
    fixture *f = context;
    cairn_acg_cases *cases = NULL;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_acg_cases_read(&f->allocator, f->text, strlen(f->text), "c", &cases, &err));
    check_result_of(status, cases);
    check_error(status, &err);
    cairn_acg_cases_destroy(cases);
    return status;
}

static cairn_status solve_acg(void *context) {
    fixture *f = context;
    cairn_acg_solution *result = NULL;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_acg_solve(&f->allocator, f->dag, f->algorithm, NULL, &result, &err));
    check_result_of(status, result);
    check_error(status, &err);
    cairn_acg_solution_destroy(result);
    return status;
}

static cairn_status tree_text(void *context) {
    fixture *f = context;
    cairn_text text = {0};
    cairn_status status;
    ARMED(&f->memory, status, cairn_acg_tree_text(&f->allocator, f->dag, NULL, &text, NULL));
    check_result_of(status, text.data);
    cairn_text_release(&text);
    return status;
}

static cairn_status tree_svg(void *context) {
    fixture *f = context;
    cairn_text text = {0};
    cairn_status status;
    ARMED(&f->memory, status, cairn_acg_tree_svg(&f->allocator, f->dag, NULL, &text, NULL));
    check_result_of(status, text.data);
    cairn_text_release(&text);
    return status;
}

static cairn_status read_chain(void *context) {
    fixture *f = context;
    cairn_chain_cases *cases = NULL;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_chain_cases_read(&f->allocator, f->text, strlen(f->text), "c", &cases, &err));
    check_result_of(status, cases);
    check_error(status, &err);
    cairn_chain_cases_destroy(cases);
    return status;
}

static cairn_status solve_chain(void *context) {
    fixture *f = context;
    cairn_chain_solution *solution = NULL;
    cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_status status;
    options.curve = true;
    ARMED(&f->memory, status,
          cairn_chain_solve(&f->allocator, f->chain, f->algorithm, &options, &solution, &err));
    check_error(status, &err);
    status = status == CAIRN_INFEASIBLE ? CAIRN_OK : status; /* there is a solution too */
    check_result_of(status, solution);
    cairn_chain_solution_destroy(solution);
    return status;
}

static cairn_status read_offload(void *context) {
    fixture *f = context;
    cairn_offload_cases *cases = NULL;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_offload_cases_read(&f->allocator, f->text, strlen(f->text), "c", &cases, &err));
    check_result_of(status, cases);
    check_error(status, &err);
    cairn_offload_cases_destroy(cases);
    return status;
}

static cairn_status solve_offload(void *context) {
    fixture *f = context;
    cairn_offload_solution *solution = NULL;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_offload_solve(&f->allocator, f->offload, f->algorithm, &f->how, &solution, &err));
    check_result_of(status, solution);
    check_error(status, &err);
    cairn_offload_solution_destroy(solution);
    return status;
}

static cairn_status bound_offload(void *context) {
    fixture *f = context;
    cairn_offload_bounds bounds;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status, cairn_offload_bound(&f->allocator, f->offload, &bounds, &err));
    check_error(status, &err);
    return status;
}

static void test_acg(fixture *f, const char *text, const char *what) {
    cairn_acg_cases *cases;
    cairn_error err = {0};
    f->text = text;
    fail_every(&f->memory, "acg read", what, read_acg, f);
    CHECK_OK(cairn_acg_cases_read(&f->allocator, text, strlen(text), "c", &cases, &err), &err);
    f->dag = cairn_acg_cases_get(cases, 0);
    fail_every(&f->memory, "acg tree", what, tree_text, f);
    fail_every(&f->memory, "acg picture", what, tree_svg, f);
    const cairn_acg_algorithm *a;
    for (uint32_t i = 0; (a = cairn_acg_algorithm_list(i)) != NULL; i++) {
        f->algorithm = a->name;
        fail_every(&f->memory, f->algorithm, what, solve_acg, f);
    }
    cairn_acg_cases_destroy(cases);
    CHECK_U64(f->memory.live, 0);
}

static void test_chain(fixture *f) {
    cairn_chain_cases *cases;
    cairn_error err = {0};
    f->text = chain_case;
    fail_every(&f->memory, "chain read", "chain", read_chain, f);
    CHECK_OK(cairn_chain_cases_read(&f->allocator, f->text, strlen(f->text), "c", &cases, &err),
             &err);
    f->chain = cairn_chain_cases_get(cases, 0);
    const cairn_chain_algorithm *a;
    for (uint32_t k = 0; (a = cairn_chain_algorithm_list(k)) != NULL; k++) {
        f->algorithm = a->name;
        fail_every(&f->memory, f->algorithm, "chain", solve_chain, f);
    }
    cairn_chain_cases_destroy(cases);
    CHECK_U64(f->memory.live, 0);
}

/* The published examples: in some of them only a search finds the optimum. */
static void test_offload(fixture *f) {
    static const cairn_offload_options ways[] = {
        {sizeof *ways, CAIRN_OFFLOAD_RELEASE_WHOLE, 0, 2000},
        {sizeof *ways, CAIRN_OFFLOAD_RELEASE_FRACTIONAL, 0, 2000},
        {sizeof *ways, CAIRN_OFFLOAD_RELEASE_WHOLE, 6, 0},
    };
    cairn_offload_cases *cases;
    cairn_text text;
    cairn_error err = {0};
    CHECK_OK(cairn_text_load(NULL, CAIRN_TEST_DATA "/offload_examples.json", &text, &err), &err);
    f->text = text.data;
    fail_every(&f->memory, "offload read", "offload", read_offload, f);
    CHECK_OK(cairn_offload_cases_read(&f->allocator, f->text, strlen(f->text), "c", &cases, &err),
             &err);
    for (uint32_t c = 9; c < 14; c++) {
        f->offload = cairn_offload_cases_get(cases, c);
        const cairn_offload_algorithm *a;
        fail_every(&f->memory, "offload bound", "offload", bound_offload, f);
        for (uint32_t k = 0; (a = cairn_offload_algorithm_list(k)) != NULL; k++)
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                f->algorithm = a->name;
                f->how = ways[w];
                fail_every(&f->memory, f->algorithm, "offload", solve_offload, f);
            }
    }
    cairn_offload_cases_destroy(cases);
    cairn_text_release(&text);
    CHECK_U64(f->memory.live, 0);
}

/* Create a step and solve it. */
static cairn_status create_and_solve(fixture *f, const cairn_arrays *arrays, const char *name,
                                     const cairn_solve_options *options) {
    cairn_arrays_step *step = NULL;
    cairn_arrays_solution *solution = NULL;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status, cairn_arrays_step_create(&f->allocator, arrays, &step, &err));
    check_result_of(status, step);
    if (status == CAIRN_OK) {
        ARMED(&f->memory, status, cairn_arrays_step_solve(step, name, options, &solution, &err));
        check_result_of(status, solution);
    }
    check_error(status, &err);
    cairn_arrays_solution_destroy(solution);
    cairn_arrays_step_destroy(step);
    return status;
}

/* x --f--> t --g--> loss --back--> dx; f and g are one kernel. */
static cairn_status solve_arrays(void *context) {
    fixture *f = context;
    static const uint64_t bytes[] = {100, 200, 4, 100};
    static const uint8_t roles[] = {CAIRN_ROLE_INPUT, CAIRN_ROLE_ACTIVATION, CAIRN_ROLE_LOSS,
                                    CAIRN_ROLE_GRADIENT};
    static const uint8_t flags[] = {CAIRN_TENSOR_FLAG_STATIONARY, 0, 0, CAIRN_TENSOR_FLAG_RESULT};
    static const uint8_t phases[] = {CAIRN_PHASE_FORWARD, CAIRN_PHASE_FORWARD,
                                     CAIRN_PHASE_BACKWARD};
    static const int64_t times[] = {1, 2, 3};
    static const uint32_t groups[] = {1, 1, 0}, first_input[] = {0, 1, 2, 4};
    static const uint32_t first_output[] = {0, 1, 2, 3}, first_inplace[] = {0, 0, 0, 0};
    static const cairn_id inputs[] = {0, 1, 2, 0}, outputs[] = {1, 2, 3};
    cairn_arrays arrays = CAIRN_ARRAYS_INIT;
    arrays.tensor_count = 4;
    arrays.op_count = 3;
    arrays.bytes = bytes;
    arrays.roles = roles;
    arrays.tensor_flags = flags;
    arrays.phases = phases;
    arrays.time_ns = times;
    arrays.groups = groups;
    arrays.first_input = first_input;
    arrays.inputs = inputs;
    arrays.first_output = first_output;
    arrays.outputs = outputs;
    arrays.first_inplace = first_inplace;
    return create_and_solve(f, &arrays, "none", NULL);
}

/* A budget that only plans with parked results fit. */
static cairn_status solve_parked(void *context) {
    fixture *f = context;
    cairn_arrays arrays = parked_arrays();
    cairn_machine machine = parked_machine();
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = &machine;
    options.live_peak = true;
    options.budget_bytes = 256000 + 700032 + 1024;
    cairn_status status = create_and_solve(f, &arrays, "auto", &options);
    CHECK(status == CAIRN_OK || status == CAIRN_ENOMEM);
    return status;
}

static cairn_status choose_regions(void *context) {
    fixture *f = context;
    static const uint32_t first[] = {0, 2, 4};
    static const cairn_region_way ways[] = {{9, 5, 1}, {6, 2, 3}, {9, 5, 1}, {6, 2, 3}};
    uint32_t chosen[2];
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_regions_choose(&f->allocator, first, ways, 2, 11, chosen, &err));
    check_error(status, &err);
    return status;
}

static void test_arrays(fixture *f) {
    fail_every(&f->memory, "arrays solve", "arrays", solve_arrays, f);
    fail_every(&f->memory, "arrays solve", "parked", solve_parked, f);
    fail_every(&f->memory, "regions choose", "arrays", choose_regions, f);
    CHECK_U64(f->memory.live, 0);
}

int main(void) {
    static fixture f;
    f.allocator = (cairn_allocator){resize, &f.memory};
    test_acg(&f, acg_case, "branches");
    test_acg(&f, acg_line, "line");
    test_chain(&f);
    test_offload(&f);
    test_arrays(&f);
    return check_result();
}
