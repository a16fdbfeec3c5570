/* test_homes.c: parameters and slots at home on the host: fetched, updated and copied back, with
 * the bits of a step that has everything on the device; in evaluation; under a limit for
 * everything; in check mode. Argument: the backend. */
#include "cost/crn_cost.h"
#include "cuda/fake_driver.h"
#include "exec/whole_step.h"
#include "solve/place_homes.h"

#include <math.h>

static cairn_math math = CAIRN_MATH_TF32;

static subject usual_step(const row *r, const cairn_exec_options *options) {
    cairn_device *device = test_device_with(backend, 2, math);
    return subject_of(device, with_updates(r->make(), options), "none", options);
}

/* The plan of a solution with these homes on the host, and `spare` bytes more than the plan has. */
static cairn_solution *with_homes(const subject *s, const bool *on_host, uint64_t spare) {
    cairn_machine machine = v100();
    cairn_error err = {0};
    cairn_plan *plan;
    cairn_solution *out;
    crn_homes homes = {.graph = s->graph, .costs = s->costs, .machine = &machine};
    homes.on_host = on_host;
    homes.room = s->solution->sim->summary->peak_bytes + spare;
    CHECK_OK(crn_place_homes(&homes, s->solution->plan, &plan, &err), &err);
    CHECK_OK(cairn_solution_create(s->graph, s->costs, plan, &machine, &out, &err), &err);
    cairn_plan_destroy(plan);
    return out;
}

static bool is_movable(const subject *s, cairn_id tensor) {
    cairn_role role = cairn_graph_tensor(s->graph, tensor)->role;
    return role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_SLOT;
}

/* The same with every `every`-th parameter and slot at home on the host. */
static cairn_solution *visiting(const subject *s, uint32_t every, uint64_t spare) {
    uint32_t tensors = cairn_graph_tensor_count(s->graph), seen = 0;
    bool *on_host = calloc(tensors, sizeof *on_host);
    for (cairn_id t = 0; t < tensors; t++)
        on_host[t] = is_movable(s, t) && seen++ % every == 0;
    cairn_solution *out = with_homes(s, on_host, spare);
    free(on_host);
    return out;
}

static void test_same_bits(const row *r, uint32_t every, uint64_t spare) {
    cairn_exec_options options = options_of(r);
    subject usual = usual_step(r, &options), s = usual;
    outcome expected = train(&usual, r->micro_batches);
    s.solution = visiting(&usual, every, spare);
    s.exec = create(&s, s.solution, &options);
    outcome made = train(&s, r->micro_batches);
    CHECK(same(&expected, &made));
    const cairn_exec_figures *f = cairn_exec_get_figures(s.exec);
    CHECK_U64(f->stationary_bytes + f->home_bytes, cairn_stationary_bytes(s.graph, s.costs, 0));
    CHECK(f->home_bytes > 0 && f->home_bytes <= f->host_bytes);
    cairn_exec_destroy(s.exec);
    cairn_solution_destroy(s.solution);
    close_subject(&usual);
}

/* ---- Evaluation ---- */

static void refused(const subject *s, const cairn_solution *solution,
                    const cairn_exec_options *options, const char *message) {
    cairn_exec *exec;
    cairn_error err = {0};
    CHECK(cairn_exec_create(s->graph, s->device, s->costs, solution, options, &exec, &err) ==
          CAIRN_EINVAL);
    CHECK(strstr(err.message, message) != NULL);
}

/* It fetches the parameters that training has on the host, and gives the same output. A plan that
 * has them elsewhere is refused. */
static void test_evaluation(void) {
    cairn_exec_options options = options_of(&rows[0]);
    subject s = usual_step(&rows[0], &options);
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_error err = {0};
    cairn_graph_summarize(s.graph, &summary);
    cairn_solution *homes = visiting(&s, 2, 4096), *plans[2];
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_exec *trains[2] = {s.exec, create(&s, homes, &options)};
    for (int i = 0; i < 2; i++) {
        solve.homes = i == 0 ? NULL : homes->plan;
        CHECK_OK(cairn_solve(s.graph, s.costs, "infer", &solve, &plans[i], &err), &err);
    }
    options.share_with = trains[1];
    refused(&s, plans[0], &options, "is at home on the host, and the plan has it on the device");
    options.share_with = trains[0];
    refused(&s, plans[1], &options, "is at home on the device, and the plan has it on the host");
    void *outputs[2];
    for (int i = 0; i < 2; i++) {
        options.share_with = trains[i];
        cairn_exec *evaluates = create(&s, plans[i], &options);
        run_step(trains[i], 1, 1);
        run_step(evaluates, 2, 2);
        outputs[i] = read_tensor(evaluates, summary.output);
        cairn_exec_destroy(evaluates);
        cairn_solution_destroy(plans[i]);
    }
    CHECK(memcmp(outputs[0], outputs[1], cairn_graph_tensor(s.graph, summary.output)->bytes) == 0);
    free(outputs[0]);
    free(outputs[1]);
    cairn_exec_destroy(trains[1]);
    cairn_solution_destroy(homes);
    close_subject(&s);
}

/* ---- Check mode ---- */

/* An op that reads a weight before its fetch has ended is detected: lanes of `offset` run as late
 * as events allow, and the memory holds NaNs until the copy. */
static void test_read_before_fetch(void) {
    cairn_exec_options options = options_of(&rows[1]);
    subject s =
        subject_of(test_device("offset", 1), with_updates(toy(), &options), "none", &options);
    cairn_solution *homes = visiting(&s, 1, 4096);
    for (int wrong = 0; wrong < 2; wrong++) {
        cairn_exec *exec = create(&s, homes, &options);
        bool found = wrong == 0;
        const cairn_step *steps = homes->plan->steps;
        uint32_t count = homes->plan->step_count;
        cairn_id weight = cairn_graph_find_tensor(s.graph, "conv2.weight");
        for (uint32_t i = 0; i < count && !found; i++)
            if (steps[i].kind == CAIRN_STEP_WAIT && steps[i].id == weight) {
                exec->program.actions[i].kind = CAIRN_STEP_FREE; /* an action that does nothing */
                found = true;
            }
        CHECK(found);
        CHECK(!isfinite(run_step(exec, 0, 0).loss) == (wrong == 1));
        cairn_exec_destroy(exec);
    }
    cairn_solution_destroy(homes);
    close_subject(&s);
}

/* ---- A limit for everything on the device ---- */

/* `auto` divides three quarters of what the usual step takes, and then the least; a byte less is
 * refused. */
static void test_device_limit(void) {
    cairn_exec_options options = options_of(&rows[7]);
    subject usual = usual_step(&rows[7], &options), s = usual;
    outcome expected = train(&usual, 1);
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = v100();
    cairn_error err = {0};
    solve.machine = &machine;
    solve.device_bytes = 1;
    CHECK(cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err) == CAIRN_INFEASIBLE);
    uint64_t least = err.smallest_budget;
    CHECK(least < expected.bytes / 4 * 3);
    solve.device_bytes = expected.bytes / 4 * 3;
    train_within(&s, &solve, &options, &expected);
    solve.device_bytes = least;
    train_within(&s, &solve, &options, &expected);
    solve.device_bytes = least - 1;
    CHECK(cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err) == CAIRN_INFEASIBLE);
    CHECK_U64(err.smallest_budget, least);
    solve.device_bytes = expected.bytes / 4 * 3;
    solve.no_offload = true; /* then nothing can be at home elsewhere */
    CHECK(cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err) == CAIRN_INFEASIBLE);
    machine.host_memory_bytes = 1000;
    solve.no_offload = false; /* the host is too small */
    CHECK(cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err) == CAIRN_INFEASIBLE);
    unsigned long long device = 0, needed = 0, there = 0;
    const char *bytes = strstr(err.message, "into ");
    CHECK(bytes != NULL && sscanf(bytes,
                                  "into %llu bytes of device memory: parameters and what the "
                                  "optimiser keeps would take %llu bytes of host memory, "
                                  "and the host has %llu",
                                  &device, &needed, &there) == 3);
    CHECK_U64(device, solve.device_bytes);
    CHECK_U64(there, 1000);
    machine.host_memory_bytes = needed; /* so much is enough */
    CHECK_OK(cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err), &err);
    CHECK(s.solution->sim->summary->home_bytes <= needed);
    cairn_solution_destroy(s.solution);
    close_subject(&usual);
}

/* Where a weight is only read, its copy of 16 bits alone is fetched: a third of the bytes. The
 * simulator knows it. */
static void test_reads_copy(void) {
    math = CAIRN_MATH_BF16;
    cairn_exec_options options = options_of(&rows[10]);
    subject usual = usual_step(&rows[10], &options), s = usual;
    s.solution = visiting(&usual, 1, 0);
    s.exec = create(&s, s.solution, &options);
    uint32_t parts = 0, wholes = 0;
    for (uint32_t i = 0; i < s.exec->program.count; i++) {
        const cairn_step *step = &s.solution->plan->steps[i];
        const crn_action *action = &s.exec->program.actions[i];
        if (step->kind != CAIRN_STEP_FETCH || s.exec->storage[step->id].unread == 0)
            continue;
        uint64_t bytes = cairn_costs_bytes(s.costs)[step->id];
        const cairn_sim_step *timed = &s.solution->sim->steps[i];
        cairn_machine machine = v100();
        wholes += action->bytes == bytes;
        parts += action->bytes * 3 < bytes + 3 * CRN_ALIGNMENT;
        CHECK_U64((uint64_t)(timed->end_ns - timed->start_ns),
                  (uint64_t)crn_machine_copy_ns(&machine, action->bytes));
    }
    CHECK(parts > 0 && wholes > 0);
    cairn_exec_destroy(s.exec);
    cairn_solution_destroy(s.solution);
    close_subject(&usual);
    math = CAIRN_MATH_TF32;
}

#define ROOM ((uint64_t)8 << 30)
#define OUTSIDE ((uint64_t)24 << 20) /* counters, conversions, tables of updates */

/* What the driver has handed out is within the limit, besides what backend-cuda.md lists. Pinned
 * memory that the driver refuses is an error that says how much it was. */
static void test_driver_count(void) {
    cairn_exec_options options = options_of(&rows[7]);
    subject usual = usual_step(&rows[7], &options), s = usual;
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = v100();
    cairn_error err = {0};
    char bytes[64];
    solve.machine = &machine;
    solve.device_bytes = train(&usual, 1).bytes / 4 * 3;
    CHECK_OK(cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err), &err);
    cairn_exec_destroy(usual.exec);
    usual.exec = NULL;
    uint64_t before = fake_driver_counts().device_bytes;
    s.exec = create(&s, s.solution, &options);
    (void)train(&s, 1);
    CHECK(solve.device_bytes > OUTSIDE);
    CHECK(fake_driver_counts().device_bytes - before <= solve.device_bytes + OUTSIDE);
    uint64_t homes = cairn_exec_get_figures(s.exec)->home_bytes;
    cairn_exec_destroy(s.exec);
    fake_driver_most(ROOM, homes - 1);
    CHECK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &s.exec, &err) ==
          CAIRN_ESYSTEM);
    snprintf(bytes, sizeof bytes, "cannot reserve %llu bytes of pinned memory",
             (unsigned long long)homes);
    CHECK(strstr(err.message, bytes) != NULL);
    fake_driver_most(ROOM, ROOM);
    cairn_solution_destroy(s.solution);
    close_subject(&usual);
}

/* Weights of a transformer in bf16 are 32-bit floats with a copy of 16 bits, which travels with
 * them. */
static void test_bf16(void) {
    math = CAIRN_MATH_BF16;
    for (size_t i = 0; i < CRN_LENGTH(rows); i++)
        if (rows[i].make == tokens)
            test_same_bits(&rows[i], i % 2 + 1, i % 3 * 100000);
    math = CAIRN_MATH_TF32;
}

/* Updates that are one launch, here those of a norm, do not wait for the copies of other tensors in
 * a recorded step. If they did, fewer than half of all updates could run at the same time as some
 * copy. */
static void test_updates_beside_copies(void) {
    cairn_exec_options options = options_of(&rows[10]);
    subject usual = usual_step(&rows[10], &options), s = usual;
    uint32_t tensors = cairn_graph_tensor_count(s.graph);
    bool *on_host = calloc(tensors, sizeof *on_host);
    for (cairn_id t = 0; t < tensors; t++)
        on_host[t] = is_movable(&s, t) && cairn_graph_tensor(s.graph, t)->rank > 1;
    s.solution = with_homes(&usual, on_host, 0);
    s.exec = create(&s, s.solution, &options);
    fake_counts counts = fake_driver_counts();
    CHECK(counts.updates > 0 && counts.free_updates * 2 > counts.updates);
    cairn_exec_destroy(s.exec);
    cairn_solution_destroy(s.solution);
    free(on_host);
    close_subject(&usual);
}

int main(int count, char **arguments) {
    if (count > 1)
        backend = arguments[1];
    if (strcmp(backend, "cuda-host") == 0) {
        test_updates_beside_copies();
        test_reads_copy();
        test_driver_count();
        test_bf16();
    }
    for (size_t i = 0; i < CRN_LENGTH(rows); i++)
        test_same_bits(&rows[i], i % 2 + 1, i % 3 * 100000);
    for (size_t i = 0; i < CRN_LENGTH(clipped_rows); i++)
        test_same_bits(&clipped_rows[i], i % 2 + 1, i % 3 * 100000);
    test_evaluation();
    test_read_before_fetch();
    test_device_limit();
    return check_result();
}
