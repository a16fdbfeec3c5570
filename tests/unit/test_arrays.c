/* test_arrays.c: a step as arrays: groups, alignment, translation, refusals; several regions. */
#include "cairn.h"
#include "cairn/arrays.h"
#include "cairn/papers/bounds.h"
#include "check.h"
#include "one_to_one.h"
#include "parked_step.h"

#include <string.h>

/* w --f--> a --g--> b --h--> loss --back--> gb --gw--> dw; the caller owns x. */
enum { X, W, A, B, L, GB, DW, TENSORS };

typedef struct step_arrays {
    uint64_t bytes[TENSORS];
    uint8_t roles[TENSORS], flags[TENSORS];
    uint8_t phases[6], op_flags[6];
    int64_t times[6];
    uint64_t workspaces[6];
    uint32_t groups[6];
    uint32_t first_input[7], first_output[7], first_inplace[7];
    cairn_id inputs[9], outputs[6];
    cairn_inplace inplace[1];
    cairn_arrays arrays;
} step_arrays;

static cairn_status create_and_solve(const cairn_arrays *arrays, const char *name,
                                     const cairn_solve_options *options, cairn_arrays_step **step,
                                     cairn_arrays_solution **out, cairn_error *err) {
    cairn_status status = cairn_arrays_step_create(NULL, arrays, step, err);
    return status == CAIRN_OK ? cairn_arrays_step_solve(*step, name, options, out, err) : status;
}

static void fill(step_arrays *s) {
    *s = (step_arrays){
        .bytes = {100, 1000, 256, 256, 4, 256, 1000},
        .roles = {CAIRN_ROLE_INPUT, CAIRN_ROLE_PARAMETER, CAIRN_ROLE_ACTIVATION,
                  CAIRN_ROLE_ACTIVATION, CAIRN_ROLE_LOSS, CAIRN_ROLE_GRADIENT, CAIRN_ROLE_GRADIENT},
        .flags = {CAIRN_TENSOR_FLAG_STATIONARY, 0, 0, 0, 0, 0, CAIRN_TENSOR_FLAG_RESULT},
        .phases = {0, 0, 0, 1, 1, 1},
        .op_flags = {0, 0, CAIRN_OP_FLAG_NEVER_AGAIN, 0, 0, 0},
        .times = {10, 20, 1, 5, 7, 1},
        .workspaces = {0, 128, 0, 0, 64, 0},
        .first_input = {0, 2, 3, 4, 6, 8, 8},
        .first_output = {0, 1, 2, 3, 4, 5, 5},
        .first_inplace = {0, 0, 1, 1, 1, 1, 1},
        .inputs = {X, W, A, B, L, B, GB, X},
        .outputs = {A, B, L, GB, DW},
        .inplace = {{0, 0}}};
    s->op_flags[5] = CAIRN_OP_FLAG_ONCE;
    cairn_arrays *a = &s->arrays;
    *a = (cairn_arrays)CAIRN_ARRAYS_INIT;
    a->tensor_count = TENSORS;
    a->op_count = 6;
    a->bytes = s->bytes;
    a->roles = s->roles;
    a->tensor_flags = s->flags;
    a->phases = s->phases;
    a->op_flags = s->op_flags;
    a->time_ns = s->times;
    a->workspace_bytes = s->workspaces;
    a->first_input = s->first_input;
    a->inputs = s->inputs;
    a->first_output = s->first_output;
    a->outputs = s->outputs;
    a->first_inplace = s->first_inplace;
    a->inplace = s->inplace;
}

/* All is within the arena, and what is live together does not overlap. */
static void check_layout(const cairn_arrays_solution *solution) {
    const cairn_lifetime *lives = solution->lifetimes;
    for (uint32_t i = 0; i < solution->lifetime_count; i++) {
        uint64_t from = solution->offsets[i], to = from + lives[i].bytes;
        CHECK(to <= solution->arena_bytes);
        for (uint32_t k = 0; k < i; k++)
            CHECK(lives[k].last < lives[i].first || lives[i].last < lives[k].first ||
                  solution->offsets[k] >= to || solution->offsets[k] + lives[k].bytes <= from);
    }
}

static void test_one_call(void) {
    step_arrays s;
    fill(&s);
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    CHECK_OK(create_and_solve(&s.arrays, "none", NULL, &step, &solution, &err), &err);
    /* f allocates a; g makes b in place with 128 of workspace; loss; back allocates gb; gw
     * allocates dw. */
    static const uint64_t runs[] = {256, 384, 320, 576, 256 + 64 + 1024 + 64, 64 + 1024};
    uint32_t run = 0;
    for (uint32_t i = 0; i < solution->step_count; i++) {
        if (solution->steps[i].kind != CAIRN_STEP_RUN)
            continue;
        CHECK_U64(solution->steps[i].id, run);
        CHECK_U64(solution->step_bytes[i], runs[run]);
        run++;
    }
    CHECK_U64(run, 6);
    CHECK_U64(solution->peak_bytes, 1408);
    CHECK(solution->arena_bytes >= solution->peak_bytes);
    CHECK_U64((uint64_t)solution->time_ns, 44);
    uint32_t found = 0;
    for (uint32_t i = 0; i < solution->lifetime_count; i++)
        found += solution->lifetimes[i].tensor == DW && solution->lifetimes[i].bytes == 1024;
    check_layout(solution);
    CHECK_U64(found, 1);

    cairn_text text;
    CHECK_OK(cairn_plan_to_text(solution->solution->plan, step->graph, &text), &err);
    cairn_arrays_solution *again;
    CHECK_OK(cairn_arrays_step_read(step, text.data, text.length, "plan", NULL, &again, &err),
             &err);
    CHECK_U64(again->step_count, solution->step_count);
    CHECK_U64(again->peak_bytes, solution->peak_bytes);
    cairn_arrays_solution_destroy(again);
    cairn_text_release(&text);
    cairn_arrays_solution_destroy(solution);
    cairn_arrays_step_destroy(step);
}

/* A budget of exactly the live peak, with and without a layout in one arena. */
static void test_live_peak(void) {
    step_arrays s;
    fill(&s);
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.live_peak = true;
    options.budget_bytes = 1408;
    CHECK_OK(create_and_solve(&s.arrays, "none", &options, &step, &solution, &err), &err);
    CHECK_U64(solution->peak_bytes, 1408);
    CHECK(solution->arena_bytes >= 1408 && solution->arena_bytes < 2 * 1408);
    check_layout(solution);
    cairn_arrays_solution_destroy(solution);
    options.budget_bytes = 1407;
    CHECK(cairn_arrays_step_solve(step, "none", &options, &solution, &err) == CAIRN_INFEASIBLE);
    CHECK_U64(err.smallest_budget, 1408);
    cairn_arrays_step_destroy(step);
}

/* A plan takes the second implementation of an op, with less workspace, where memory is short, and
 * only there. */
static void test_second_implementation(void) {
    step_arrays s;
    fill(&s);
    static const int64_t times[] = {10, 20, 1, 5, 9, 1};
    static const uint64_t workspaces[] = {0, 128, 0, 0, 0, 0};
    s.arrays.second_time_ns = times;
    s.arrays.second_workspace_bytes = workspaces;
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.live_peak = true;
    for (options.budget_bytes = 1408; options.budget_bytes >= 1344; options.budget_bytes -= 64) {
        bool second = options.budget_bytes < 1408;
        CHECK_OK(create_and_solve(&s.arrays, "auto", &options, &step, &solution, &err), &err);
        CHECK_U64(solution->peak_bytes, options.budget_bytes);
        CHECK_U64((uint64_t)solution->time_ns, second ? 46 : 44);
        for (uint32_t i = 0; i < solution->step_count; i++)
            if (solution->steps[i].kind == CAIRN_STEP_RUN)
                CHECK(solution->steps[i].implementation == (second && solution->steps[i].id == 4));
        cairn_arrays_solution_destroy(solution);
        cairn_arrays_step_destroy(step);
    }
    s.arrays.second_time_ns = (const int64_t[]){10, 20, 1, 5, -9, 1};
    CHECK(cairn_arrays_step_create(NULL, &s.arrays, &step, &err) == CAIRN_EINVAL);
}

/* x --f--> a --g--> b --loss--> l --back--> gb, and dw of gb and a: f runs again where a does not
 * fit beside b and gb, and takes the time that it is given for that. */
static void test_again(void) {
    static const uint64_t bytes[] = {64, 1024, 1024, 4, 1024, 64};
    static const uint8_t roles[] = {CAIRN_ROLE_INPUT, CAIRN_ROLE_ACTIVATION, CAIRN_ROLE_ACTIVATION,
                                    CAIRN_ROLE_LOSS,  CAIRN_ROLE_GRADIENT,   CAIRN_ROLE_GRADIENT};
    static const uint8_t flags[] = {CAIRN_TENSOR_FLAG_STATIONARY, 0, 0, 0, 0,
                                    CAIRN_TENSOR_FLAG_RESULT};
    static const uint8_t phases[] = {0, 0, 0, 1, 1},
                         op_flags[] = {0, 0, CAIRN_OP_FLAG_NEVER_AGAIN, 0, 0};
    static const int64_t times[] = {10, 20, 1, 5, 7}, again[] = {4, 20, 1, 5, 7};
    static const uint32_t first_input[] = {0, 1, 2, 3, 5, 7}, first_output[] = {0, 1, 2, 3, 4, 5};
    static const cairn_id inputs[] = {0, 1, 2, 3, 2, 4, 1}, outputs[] = {1, 2, 3, 4, 5};
    cairn_arrays arrays = CAIRN_ARRAYS_INIT;
    arrays.tensor_count = 6, arrays.op_count = 5;
    arrays.bytes = bytes, arrays.roles = roles, arrays.tensor_flags = flags;
    arrays.phases = phases, arrays.op_flags = op_flags, arrays.time_ns = times;
    arrays.first_input = first_input, arrays.inputs = inputs;
    arrays.first_output = first_output, arrays.outputs = outputs;
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.live_peak = true;
    for (int set = 0; set < 2; set++) {
        arrays.again_time_ns = set ? again : NULL;
        for (options.budget_bytes = 3200; options.budget_bytes >= 2240;
             options.budget_bytes -= 960) {
            int64_t more = options.budget_bytes == 3200 ? 0 : set ? 4 : 10;
            CHECK_OK(create_and_solve(&arrays, "auto", &options, &step, &solution, &err), &err);
            CHECK_U64((uint64_t)solution->time_ns, 43 + (uint64_t)more);
            CHECK(solution->lower_bound_ns <= solution->time_ns);
            cairn_arrays_solution_destroy(solution);
            cairn_arrays_step_destroy(step);
        }
    }
    for (int64_t wrong = -1; wrong <= 11; wrong += 12) {
        arrays.again_time_ns = (const int64_t[]){wrong, 20, 1, 5, 7};
        CHECK(cairn_arrays_step_create(NULL, &arrays, &step, &err) == CAIRN_EINVAL);
    }
}

/* x --f--> a --loss--> l --back--> g, and three gradients of g that stay: when the last of them is
 * made, the others are there. */
static void test_least_memory(void) {
    static const uint64_t bytes[] = {100, 256, 4, 256, 1000, 1000, 1000};
    static const uint8_t roles[] = {CAIRN_ROLE_INPUT,    CAIRN_ROLE_ACTIVATION, CAIRN_ROLE_LOSS,
                                    CAIRN_ROLE_GRADIENT, CAIRN_ROLE_GRADIENT,   CAIRN_ROLE_GRADIENT,
                                    CAIRN_ROLE_GRADIENT};
    static const uint8_t again = CAIRN_OP_FLAG_NEVER_AGAIN, stay = CAIRN_TENSOR_FLAG_RESULT;
    const uint8_t flags[] = {CAIRN_TENSOR_FLAG_STATIONARY, 0, 0, 0, stay, stay, stay};
    const uint8_t phases[] = {0, 0, 1, 1, 1, 1}, op_flags[] = {0, again, 0, again, again, again};
    static const cairn_id inputs[] = {0, 1, 2, 3, 3, 3}, outputs[] = {1, 2, 3, 4, 5, 6};
    cairn_arrays arrays = one_to_one_arrays(
        &(one_to_one){7, 6, bytes, roles, flags, phases, op_flags, inputs, outputs});
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    uint64_t least;
    CHECK_OK(create_and_solve(&arrays, "none", NULL, &step, &solution, &err), &err);
    CHECK_OK(cairn_least_memory(step->graph, step->costs, NULL, &least, &err), &err);
    CHECK_U64(least, 3 * 1024 + 256 + 64); /* the loss stays too */
    CHECK(least <= solution->peak_bytes);
    cairn_arrays_solution_destroy(solution);
    cairn_arrays_step_destroy(step);
}

/* The place of the first or the last step of this kind and id; CAIRN_NONE: there is none. */
static uint32_t place_of(const cairn_arrays_solution *s, uint8_t kind, cairn_id id, bool last) {
    uint32_t found = CAIRN_NONE;
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].kind == kind && s->steps[i].id == id && (last || found == CAIRN_NONE))
            found = i;
    return found;
}

/* Results are parked in host memory, and are back at the end of the step. */
static void test_parked_results(void) {
    cairn_arrays arrays = parked_arrays();
    cairn_machine machine = parked_machine();
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = &machine;
    options.live_peak = true;
    options.budget_bytes = 1;
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    CHECK_OK(cairn_arrays_step_create(NULL, &arrays, &step, &err), &err);
    options.no_offload = true;
    CHECK(cairn_arrays_step_solve(step, "auto", &options, &solution, &err) == CAIRN_INFEASIBLE);
    CHECK_U64(err.smallest_budget, 3 * 256000 + 700032 + 64); /* the loss stays too */
    options.no_offload = false;
    CHECK(cairn_arrays_step_solve(step, "auto", &options, &solution, &err) == CAIRN_INFEASIBLE);
    uint64_t smallest = err.smallest_budget, least;
    CHECK(smallest <= 256000 + 700032 + 1024);
    CHECK_OK(cairn_least_memory(step->graph, step->costs, &options, &least, &err), &err);
    CHECK_U64(least, 256000 + 700032);
    options.budget_bytes = smallest;
    CHECK_OK(cairn_arrays_step_solve(step, "auto", &options, &solution, &err), &err);
    CHECK(solution->peak_bytes <= smallest);
    uint32_t last_run = place_of(solution, CAIRN_STEP_RUN, 6, true);
    for (cairn_id t = PARKED_DW1; t <= PARKED_DW2; t++) {
        CHECK(place_of(solution, CAIRN_STEP_OFFLOAD, t, false) < last_run);
        CHECK(place_of(solution, CAIRN_STEP_FREE, t, true) < last_run);
        uint32_t fetched = place_of(solution, CAIRN_STEP_FETCH, t, true);
        uint32_t waited = place_of(solution, CAIRN_STEP_WAIT, t, true);
        CHECK(last_run < fetched && fetched < waited && waited < solution->step_count);
    }
    cairn_arrays_solution_destroy(solution);
    options.budget_bytes = smallest - 1;
    CHECK(cairn_arrays_step_solve(step, "auto", &options, &solution, &err) == CAIRN_INFEASIBLE);
    CHECK_U64(err.smallest_budget, smallest);
    cairn_arrays_step_destroy(step);
}

/* x --f(w)--> a --loss--> l --back(a, w)--> g --update(w, slot). In all memory w and its slot stay
 * on the device; in little memory they visit it, and the slot only for the update. */
static void test_updates(void) {
    enum { P_X, P_W, P_SLOT, P_A, P_L, P_G, P_TENSORS };
    static const uint64_t bytes[] = {64, 1 << 20, 1 << 20, 1 << 20, 64, 1 << 20};
    static const uint8_t roles[] = {CAIRN_ROLE_STATE, CAIRN_ROLE_PARAMETER,
                                    CAIRN_ROLE_SLOT,  CAIRN_ROLE_ACTIVATION,
                                    CAIRN_ROLE_LOSS,  CAIRN_ROLE_GRADIENT};
    static const uint8_t once = CAIRN_OP_FLAG_ONCE | CAIRN_OP_FLAG_NEVER_AGAIN;
    const uint8_t phases[] = {0, 0, 1, 1}, op_flags[] = {0, 0, 0, once | CAIRN_OP_FLAG_UPDATES};
    static const int64_t times[] = {1000, 1000, 1000, 1000};
    static const cairn_id inputs[] = {P_X, P_W, P_A, P_L, P_A, P_W, P_G, P_W, P_SLOT};
    static const cairn_id outputs[] = {P_A, P_L, P_G};
    static const uint32_t first_input[] = {0, 2, 3, 6, 9}, first_output[] = {0, 1, 2, 3, 3};
    cairn_arrays arrays = CAIRN_ARRAYS_INIT;
    arrays.tensor_count = P_TENSORS;
    arrays.op_count = 4;
    arrays.bytes = bytes;
    arrays.roles = roles;
    arrays.phases = phases;
    arrays.op_flags = op_flags;
    arrays.time_ns = times;
    arrays.first_input = first_input;
    arrays.inputs = inputs;
    arrays.first_output = first_output;
    arrays.outputs = outputs;
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    cairn_machine machine = parked_machine();
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = &machine;
    options.live_peak = true;
    options.device_bytes = (4 << 20) + 1024;
    CHECK_OK(create_and_solve(&arrays, "auto", &options, &step, &solution, &err), &err);
    CHECK_U64(solution->step_count, place_of(solution, CAIRN_STEP_RUN, 3, true) + 2);
    CHECK_U64(place_of(solution, CAIRN_STEP_FETCH, P_W, false), CAIRN_NONE);
    cairn_arrays_solution_destroy(solution);
    options.device_bytes = (3 << 20) + 1024;
    CHECK_OK(cairn_arrays_step_solve(step, "auto", &options, &solution, &err), &err);
    uint32_t update = place_of(solution, CAIRN_STEP_RUN, 3, true);
    CHECK(place_of(solution, CAIRN_STEP_FETCH, P_SLOT, false) < update);
    CHECK(place_of(solution, CAIRN_STEP_OFFLOAD, P_SLOT, false) > update);
    CHECK(place_of(solution, CAIRN_STEP_OFFLOAD, P_SLOT, false) != CAIRN_NONE);
    CHECK(solution->peak_bytes <= options.device_bytes);
    cairn_arrays_solution_destroy(solution);
    options.device_bytes = 1 << 20;
    CHECK(cairn_arrays_step_solve(step, "auto", &options, &solution, &err) == CAIRN_INFEASIBLE);
    CHECK(err.smallest_budget >= 3 << 20 && err.smallest_budget <= (3 << 20) + 1024);
    cairn_arrays_step_destroy(step);
}

/* f and g as one kernel: a is its temporary, and ids are those of the arrays. */
static void test_groups(void) {
    step_arrays s;
    fill(&s);
    s.groups[0] = s.groups[1] = 7;
    s.arrays.groups = s.groups;
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    CHECK_OK(create_and_solve(&s.arrays, "none", NULL, &step, &solution, &err), &err);
    CHECK_U64(cairn_graph_op_count(step->graph), 5);
    CHECK_U64(cairn_graph_tensor_count(step->graph), TENSORS - 1);
    uint32_t count;
    const cairn_implementation *fused = cairn_costs_op(step->costs, 0, &count);
    CHECK(fused->time_ns == 30 && fused->workspace_bytes == 128 + 256);
    CHECK(solution->steps[0].kind == CAIRN_STEP_RUN && solution->steps[0].id == 0);
    CHECK_U64(solution->step_bytes[0], 256 + 384);
    CHECK(step->op_of[1] == 2 && step->tensor_of[2] == B);
    cairn_arrays_solution_destroy(solution);
    cairn_arrays_step_destroy(step);
}

static void test_alignment(void) {
    step_arrays s;
    fill(&s);
    s.arrays.alignment = 512;
    cairn_error err = {0};
    cairn_arrays_step *step;
    cairn_arrays_solution *solution;
    CHECK_OK(create_and_solve(&s.arrays, "none", NULL, &step, &solution, &err), &err);
    CHECK_U64(solution->peak_bytes, 512 + 512 + 1024 + 512); /* gb, loss, dw, workspace */
    for (uint32_t i = 0; i < solution->lifetime_count; i++)
        CHECK_U64(solution->lifetimes[i].bytes % 512, 0);
    cairn_arrays_solution_destroy(solution);
    cairn_arrays_step_destroy(step);
}

static void check_refused(const step_arrays *s, const char *words) {
    cairn_error err = {0};
    cairn_arrays_step *step;
    CHECK(cairn_arrays_step_create(NULL, &s->arrays, &step, &err) == CAIRN_EINVAL);
    CHECK(step == NULL && strstr(err.message, words) != NULL);
}

static void test_refusals(void) {
    step_arrays s;
    fill(&s);
    s.inputs[2] = TENSORS;
    check_refused(&s, "there are 7 tensors");
    fill(&s);
    s.roles[A] = 99;
    check_refused(&s, "role that does not exist");
    fill(&s);
    s.first_input[2] = 1;
    check_refused(&s, "do not begin where");
    fill(&s);
    s.arrays.alignment = 100;
    check_refused(&s, "power of two");
    fill(&s);
    s.inplace[0].input = 3;
    check_refused(&s, "in place on an input that it does not have");
    fill(&s);
    s.groups[2] = s.groups[3] = 1;
    s.arrays.groups = s.groups;
    check_refused(&s, "two phases");
    fill(&s);
    s.outputs[1] = TENSORS + 1;
    check_refused(&s, "there are 7 tensors");
    fill(&s);
    s.inputs[2] = CAIRN_NONE; /* only an output may be unwanted */
    check_refused(&s, "there are 7 tensors");
    fill(&s);
    s.first_output[0] = 1;
    check_refused(&s, "do not begin where");
    fill(&s);
    s.arrays.alignment = (uint64_t)1 << 31;
    check_refused(&s, "power of two");
    fill(&s);
    s.phases[5] = 99;
    check_refused(&s, "phase that does not exist or a negative time");
    fill(&s);
    s.times[1] = -1;
    check_refused(&s, "phase that does not exist or a negative time");
    fill(&s);
    s.inplace[0].output = 3;
    check_refused(&s, "operands that it does not have");
    fill(&s);
    s.inputs[2] = W; /* f's parameter is overwritten by g */
    check_refused(&s, "in place on an input that it does not have");
}

/* What a caller may leave out, and names where it gives them. */
static void test_optional(void) {
    static const char *const tensors[] = {"x", "w", "a", "b", "loss", "gb", "dw"};
    static const char *const ops[] = {"f", "g", "h", "back", "gw", "end"};
    step_arrays s;
    cairn_arrays_step *step;
    cairn_error err = {0};
    fill(&s);
    s.arrays.name = "named";
    s.arrays.tensor_names = tensors;
    s.arrays.op_names = ops;
    s.outputs[4] = CAIRN_NONE; /* the last gradient is not wanted */
    s.flags[DW] = CAIRN_TENSOR_FLAG_STATIONARY;
    s.roles[DW] = CAIRN_ROLE_INPUT;
    CHECK_OK(cairn_arrays_step_create(NULL, &s.arrays, &step, &err), &err);
    CHECK_STRING(cairn_graph_name(step->graph), "named");
    CHECK_STRING(cairn_graph_tensor(step->graph, A)->name, "a");
    CHECK_STRING(cairn_graph_op(step->graph, 3)->name, "back");
    CHECK_U64(cairn_graph_op(step->graph, 4)->outputs[0], CAIRN_NONE);
    cairn_arrays_step_destroy(step);

    fill(&s);
    s.arrays.tensor_flags = NULL;
    s.arrays.op_flags = NULL;
    s.arrays.workspace_bytes = NULL;
    s.arrays.first_inplace = NULL;
    CHECK_OK(cairn_arrays_step_create(NULL, &s.arrays, &step, &err), &err);
    CHECK(!cairn_graph_tensor(step->graph, DW)->result);
    CHECK_U64(cairn_graph_op(step->graph, 1)->inplace_count, 0);
    cairn_arrays_step_destroy(step);
}

/* A group whose temporaries are more than can be addressed. */
static void test_too_large(void) {
    step_arrays s;
    cairn_arrays_step *step;
    cairn_error err = {0};
    fill(&s);
    s.groups[0] = s.groups[1] = s.groups[2] = 1;
    s.arrays.groups = s.groups;
    s.bytes[A] = (uint64_t)1 << 62;
    s.workspaces[1] = (uint64_t)1 << 62;
    cairn_status status = cairn_arrays_step_create(NULL, &s.arrays, &step, &err);
    CHECK(status != CAIRN_OK && status != CAIRN_ENOMEM && step == NULL && err.message[0] != '\0');
}

/* The best choice of ways, by trying all. */
static int64_t best_by_trying(const uint32_t *first, const cairn_region_way *ways, uint32_t regions,
                              uint64_t budget) {
    uint32_t choice[8] = {0};
    int64_t best = INT64_MAX;
    for (;;) {
        uint64_t saved = 0, most = 0;
        int64_t time = 0;
        for (uint32_t r = 0; r < regions; r++) {
            const cairn_region_way *way = &ways[first[r] + choice[r]];
            most = saved + way->peak_bytes > most ? saved + way->peak_bytes : most;
            saved += way->saved_bytes;
            time += way->time_ns;
        }
        if (most <= budget && time < best)
            best = time;
        uint32_t r = 0;
        while (r < regions && ++choice[r] == first[r + 1] - first[r])
            choice[r++] = 0;
        if (r == regions)
            return best;
    }
}

static void test_regions(void) {
    uint32_t seed = 1, fitting = 0, refused = 0;
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t first[6] = {0}, chosen[5], regions = 1 + round % 5;
        cairn_region_way ways[20];
        for (uint32_t r = 0; r < regions; r++) {
            uint32_t count = 1 + (seed = seed * 1664525u + 1013904223u) / (1u << 30);
            first[r + 1] = first[r] + count;
            for (uint32_t w = first[r]; w < first[r + 1]; w++) {
                ways[w].saved_bytes = (seed = seed * 1664525u + 1013904223u) >> 28;
                ways[w].peak_bytes =
                    ways[w].saved_bytes + ((seed = seed * 1664525u + 1013904223u) >> 28);
                ways[w].time_ns = (int64_t)((seed = seed * 1664525u + 1013904223u) >> 26);
            }
        }
        uint64_t budget = 10 + (seed >> 8) % 60;
        cairn_error err = {0};
        int64_t best = best_by_trying(first, ways, regions, budget), time = 0;
        cairn_status status =
            cairn_regions_choose(NULL, first, ways, regions, budget, chosen, &err);
        CHECK((status == CAIRN_OK) == (best < INT64_MAX));
        if (status == CAIRN_INFEASIBLE) {
            refused++;
            CHECK(best_by_trying(first, ways, regions, err.smallest_budget) < INT64_MAX);
            CHECK(best_by_trying(first, ways, regions, err.smallest_budget - 1) == INT64_MAX);
            continue;
        }
        fitting++;
        for (uint32_t r = 0; r < regions; r++)
            time += ways[first[r] + chosen[r]].time_ns;
        CHECK(time == best);
    }
    CHECK(fitting > 100 && refused > 100);
}

int main(void) {
    test_one_call();
    test_live_peak();
    test_second_implementation();
    test_again();
    test_least_memory();
    test_parked_results();
    test_updates();
    test_groups();
    test_alignment();
    test_refusals();
    test_optional();
    test_too_large();
    test_regions();
    return check_result();
}
