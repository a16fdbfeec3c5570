/* test_cuda_networks.c: networks of the zoo on the backend cuda against the reference. Every plan,
 * recorded and replayed, is bitwise equal to `none`; so is a run without recording, where nothing
 * is fused.
 *
 * Without arguments the kernels run on the processor (fake_driver.h), the nodes of a recorded step
 * run in random legal orders, and failures of the device are tested. With "device" as the first
 * argument the test runs on a GPU; it exits with 77 if there is none. Names of networks may
 * follow. */
#include "backend/narrow.h"
#include "cairn.h"
#include "check.h"
#include "cost/crn_cost.h"
#include "exec/toy_network.h"
#include "fake_driver.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"
#include "backend/crn_device.h"

#include <math.h>

extern const crn_backend crn_backend_ref, crn_backend_cuda;

static const crn_backend *subject = &fake_backend_cuda_host;

#define STEPS 2

/* Networks with all their widths divided, so that they run quickly. */
typedef struct network {
    const char *name;
    uint32_t batch, input[3], steps, divisor;
    bool thorough; /* also plans that recompute and plans that offload */
    bool half;     /* also with images of bf16 */
    /* Kernels of a recorded step in bf16: more would be ops that are fused no longer. 0: not
     * compared. */
    uint32_t kernels;
} network;

static const network networks[] = {
    {"toy", 2, {3, 16, 16}, 0, 1, true, true, 0},
    {"joined", 2, {3, 48, 48}, 0, 1, true, true, 0},
    {"rnn", 4, {11, 13, 0}, 7, 1, true, false, 0},
    {"lstm", 4, {11, 13, 0}, 7, 1, true, false, 0},
    {"alexnet", 4, {3, 64, 64}, 0, 16, false, false, 0},
    {"vgg11", 4, {3, 32, 40}, 0, 16, true, true, 0},
    {"resnet18", 4, {3, 48, 48}, 0, 16, true, true, 0},
    {"resnet50", 4, {3, 64, 56}, 0, 16, true, false, 0},
    {"densenet121", 4, {3, 64, 64}, 0, 16, false, false, 0},
    {"inception_v3", 2, {3, 107, 107}, 0, 16, false, false, 0},
    {"nasnet", 8, {3, 16, 16}, 0, 12, true, false, 0},
    {"amoebanet", 8, {3, 16, 16}, 0, 12, false, false, 0},
    {"darts", 8, {3, 16, 16}, 0, 12, false, false, 0},
    {"unet", 2, {3, 32, 32}, 0, 16, true, true, 0},
    {"gpt2", 2, {0}, 40, 2, true, true, 74},
    {"llama", 2, {0}, 40, 2, true, true, 66},
    {"bert_base", 2, {0}, 12, 2, false, true, 0},
    {"vit_b_16", 2, {3, 32, 32}, 0, 2, true, true, 0},
};

/* One of every neighbourhood that cuda_fuse.c joins: ReLU behind a convolution with bias, behind a
 * batch-norm, behind a sum, behind a batch-norm and a sum of either; gradients that are added up
 * before and behind a batch-norm. Its first images have more rows than one block sums. */
static cairn_graph *joined_network(uint32_t batch, uint32_t side) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    crn_conv plain = {.channels = 4, .kernel = {3, 3}, .pad = {1, 1, 1, 1}}, biased = plain;
    biased.bias = true;
    CHECK_OK(cairn_builder_create(NULL, "joined", &b), &err);
    cairn_id x = crn_build_input(b, "input", 4, (uint32_t[]){batch, 3, side, side});
    cairn_id label = crn_build_label(b, "label", 1, &batch);
    x = crn_build_relu(b, "relu1", crn_build_conv2d(b, "conv1", x, &biased));
    cairn_id y = crn_build_batch_norm(b, "bn2", crn_build_conv2d(b, "conv2", x, &plain), 1e-5);
    x = crn_build_relu(b, "relu2", crn_build_add(b, "add2", y, x));
    y = crn_build_batch_norm(b, "bn3", crn_build_conv2d(b, "conv3", x, &plain), 1e-5);
    cairn_id z = crn_build_batch_norm(b, "bn4", crn_build_conv2d(b, "conv4", x, &plain), 1e-5);
    x = crn_build_relu(b, "relu4", crn_build_add(b, "add4", y, z));
    x = crn_build_max_pool(b, "pool", x, 4, 4, 0);
    y = crn_build_relu(b, "relu5", crn_build_batch_norm(b, "bn5", x, 1e-5));
    y = crn_build_conv2d(b, "conv5", y, &biased);
    x = crn_build_add(b, "add5", x, y); /* no ReLU: the gradients of x meet behind bn5 */
    y = crn_build_relu(b, "relu6", crn_build_batch_norm(b, "bn6", x, 1e-5));
    x = crn_build_add(b, "add6", crn_build_conv2d(b, "conv6", y, &plain), y);
    z = crn_build_batch_norm(b, "bn7", crn_build_conv2d(b, "conv7", x, &plain), 1e-5);
    x = crn_build_add(b, "add7", x, z);
    x = crn_build_relu(b, "relu8", crn_build_add(b, "add8", x, y));
    x = crn_build_flatten(b, "flat", crn_build_adaptive_avg_pool(b, "global", x, 1, 1));
    crn_build_cross_entropy(b, "loss", crn_build_linear(b, "fc", x, 5), label);
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_builder_destroy(b);
    cairn_graph_destroy(forward);
    return graph;
}

static cairn_graph *build(const network *n) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_graph *graph;
    if (strcmp(n->name, "toy") == 0)
        return toy_network(NULL, n->batch, n->input[1]);
    if (strcmp(n->name, "joined") == 0)
        return joined_network(n->batch, n->input[1]);
    options.batch = n->batch;
    options.classes = 5;
    options.steps = n->steps;
    memcpy(options.input, n->input, sizeof n->input);
    cairn_graph *forward = narrow_build(n->name, &options, n->divisor);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

typedef struct outcome {
    float losses[STEPS];
    uint64_t correct;
    int64_t time_ns; /* of the last step */
    char hashes[STEPS][65];
    cairn_exec_figures figures;
} outcome;

static cairn_device *open_device(const crn_backend *backend, cairn_math math) {
    cairn_error err = {0};
    cairn_device *device;
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    options.threads = 2;
    options.math = math;
    CHECK_OK(crn_device_open(backend, &options, &device, &err), &err);
    return device;
}

/* Run a plan for some steps with updates: as part of the run, which is then one launch, or, in
 * check mode, asked for after it. */
static outcome run(cairn_device *device, const cairn_graph *graph, const cairn_costs *costs,
                   const cairn_solution *solution, bool check) {
    outcome o;
    memset(&o, 0, sizeof o);
    cairn_error err = {0};
    cairn_exec *exec;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.check = check;
    options.update_in_run = !check;
    options.learning_rate = 0.001f;
    CHECK_OK(cairn_exec_create(graph, device, costs, solution, &options, &exec, &err), &err);
    o.figures = *cairn_exec_get_figures(exec);
    for (uint64_t step = 0; step < STEPS; step++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        CHECK_OK(cairn_exec_fill(exec, step, &err), &err);
        fake_counts before = fake_driver_counts();
        CHECK_OK(cairn_exec_run(exec, step, &result, &err), &err);
        fake_counts after = fake_driver_counts();
        if (subject == &fake_backend_cuda_host && !check) {
            CHECK_U64(after.launches, before.launches + 1);
            CHECK_U64(after.direct, before.direct);
        }
        cairn_exec_update(exec);
        o.losses[step] = result.loss;
        o.correct += result.correct;
        o.time_ns = result.time_ns;
        CHECK_U64(result.measured_peak_bytes, o.figures.predicted_peak_bytes);
        CHECK_OK(cairn_exec_sha256(exec,
                                   CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE | CAIRN_EXEC_GRADIENTS,
                                   o.hashes[step], &err),
                 &err);
    }
    cairn_exec_destroy(exec);
    return o;
}

static bool are_same(const outcome *a, const outcome *b) {
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 && a->correct == b->correct &&
           memcmp(a->hashes, b->hashes, sizeof a->hashes) == 0;
}

static cairn_solution *solve(const cairn_graph *graph, const cairn_costs *costs, const char *name,
                             uint64_t budget, const cairn_machine *machine) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_solution *solution;
    options.budget_bytes = budget;
    options.machine = machine;
    cairn_status status = cairn_solve(graph, costs, name, &options, &solution, &err);
    if (status == CAIRN_INFEASIBLE) {
        options.budget_bytes = err.smallest_budget;
        status = cairn_solve(graph, costs, name, &options, &solution, &err);
    }
    CHECK_OK(status, &err);
    return solution;
}

/* Change every parameter by about one unit in its last place, up and down in turns. */
static void nudge(cairn_exec *exec, const cairn_graph *graph) {
    cairn_error err = {0};
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER)
            continue;
        float *values = malloc((size_t)tensor->bytes);
        CHECK_OK(cairn_exec_read(exec, t, values, &err), &err);
        for (uint64_t i = 0; i < tensor->bytes / sizeof *values; i++)
            values[i] *= i % 2 == 0 ? 1 + 1.2e-7f : 1 - 0.6e-7f;
        CHECK_OK(cairn_exec_write(exec, t, values, &err), &err);
        free(values);
    }
}

/* The gradients of the first step, one after the other. */
static float *gradients_of(cairn_device *device, const cairn_graph *graph, const cairn_costs *costs,
                           const cairn_solution *solution, bool nudged, uint64_t *count,
                           float *loss) {
    cairn_error err = {0};
    cairn_exec *exec;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    CHECK_OK(cairn_exec_create(graph, device, costs, solution, &options, &exec, &err), &err);
    if (nudged)
        nudge(exec, graph);
    CHECK_OK(cairn_exec_fill(exec, 0, &err), &err);
    CHECK_OK(cairn_exec_run(exec, 0, &result, &err), &err);
    *loss = result.loss;
    float *all = NULL;
    *count = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        if (tensor->role != CAIRN_ROLE_GRADIENT || !tensor->stationary ||
            crn_graph_is_summed(graph, t))
            continue;
        uint64_t more = tensor->bytes / sizeof(float);
        all = realloc(all, (size_t)(*count + more) * sizeof *all);
        CHECK_OK(cairn_exec_read(exec, t, all + *count, &err), &err);
        *count += more;
    }
    cairn_exec_destroy(exec);
    return all;
}

/* |a - b| / |b| */
static double distance(const float *a, const float *b, uint64_t count) {
    double difference = 0, size = 0;
    for (uint64_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        difference += d * d;
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

static void check_reference(const char *name, cairn_device *device, const cairn_graph *graph,
                            const cairn_costs *costs, const cairn_solution *none) {
    cairn_error err = {0};
    cairn_device *ref = open_device(&crn_backend_ref, CAIRN_MATH_FP32);
    cairn_costs *ref_costs;
    CHECK_OK(cairn_bind(graph, ref, &ref_costs, &err), &err);
    cairn_solution *ref_none = solve(graph, ref_costs, "none", 0, NULL);
    uint64_t count, ref_count;
    float loss, ref_loss, nudged_loss;
    float *ours = gradients_of(device, graph, costs, none, false, &count, &loss);
    float *theirs = gradients_of(ref, graph, ref_costs, ref_none, false, &ref_count, &ref_loss);
    float *nudged = gradients_of(ref, graph, ref_costs, ref_none, true, &ref_count, &nudged_loss);
    CHECK_U64(count, ref_count);
    double far = distance(ours, theirs, count), rounding = distance(nudged, theirs, count);
    printf("%-14s loss %.6f, by the reference %.6f; gradients differ by %.1e, by rounding alone "
           "%.1e\n",
           name, (double)loss, (double)ref_loss, far, rounding);
    fflush(stdout);
    CHECK(fabs((double)loss - (double)ref_loss) < 1e-4 * (double)ref_loss);
    /* A value within rounding errors of zero before a ReLU decides whether the gradient passes. The
     * nudged reference shows what that does; which values they are differs. */
    CHECK(far < CRN_MAX(5e-2, 5 * rounding));
    free(ours);
    free(theirs);
    free(nudged);
    cairn_solution_destroy(ref_none);
    cairn_costs_destroy(ref_costs);
    cairn_device_close(ref);
}

/* Whether every run has the implementation that the op has in `none`. Only `auto` uses others,
 * where nothing else fits. */
static bool has_usual_implementations(const cairn_graph *graph, const cairn_costs *costs,
                                      const cairn_solution *solution) {
    cairn_solution *none = solve(graph, costs, "none", 0, NULL);
    const cairn_step *usual = none->plan->steps;
    uint32_t usual_count = none->plan->step_count;
    const cairn_step *steps = solution->plan->steps;
    uint32_t count = solution->plan->step_count;
    bool same = true;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < usual_count && steps[i].kind == CAIRN_STEP_RUN; k++)
            if (usual[k].kind == CAIRN_STEP_RUN && usual[k].id == steps[i].id)
                same = same && usual[k].implementation == steps[i].implementation;
    cairn_solution_destroy(none);
    return same;
}

static void check_plan(const char *name, cairn_device *device, const cairn_graph *graph,
                       const cairn_costs *costs, const char *algorithm, uint64_t budget,
                       const outcome *none) {
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_error err = {0};
    CHECK_OK(cairn_machine_find("h200", &machine, &err), &err);
    cairn_solution *solution = solve(graph, costs, algorithm, budget, &machine);
    if (!has_usual_implementations(graph, costs, solution)) {
        CHECK(strcmp(algorithm, "auto") == 0 && subject == &crn_backend_cuda);
        printf("%-14s by %s: other implementations than none's\n", name, algorithm);
        cairn_solution_destroy(solution);
        return;
    }
    for (uint64_t seed = 0; seed < 2; seed++) {
        fake_driver_at_random(seed);
        outcome o = run(device, graph, costs, solution, seed == 1);
        CHECK(are_same(&o, none));
        if (!are_same(&o, none))
            fprintf(stderr, "%s by %s: other bits than none%s\n", name, algorithm,
                    seed == 1 ? ", in check mode" : "");
    }
    cairn_solution_destroy(solution);
}

/* In full precision the results agree with the reference up to rounding. */
static void compare_network(const network *n, const cairn_graph *graph) {
    cairn_error err = {0};
    cairn_device *device = open_device(subject, CAIRN_MATH_FP32);
    cairn_costs *costs;
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    cairn_solution *none = solve(graph, costs, "none", 0, NULL);
    fake_driver_in_order();
    check_reference(n->name, device, graph, costs, none);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
}

/* Every plan has the bits of `none`. Returns its outcome. */
static outcome check_plans(const network *n, const cairn_graph *graph, cairn_math math) {
    cairn_error err = {0};
    cairn_device *device = open_device(subject, math);
    cairn_costs *costs;
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    cairn_solution *none = solve(graph, costs, "none", 0, NULL);
    fake_driver_in_order();
    outcome first = run(device, graph, costs, none, false);
    fake_counts counts = fake_driver_counts();
    if (subject == &fake_backend_cuda_host)
        printf("%-14s %" PRIu64 " nodes, %" PRIu64 " edges\n", n->name, counts.nodes, counts.edges);
    if (subject == &fake_backend_cuda_host && math == CAIRN_MATH_BF16 && n->kernels > 0)
        CHECK_U64(counts.kernel_nodes, n->kernels);
    uint64_t half = first.figures.arena_bytes / 2;
    check_plan(n->name, device, graph, costs, "none", 0, &first);
    if (n->thorough) {
        check_plan(n->name, device, graph, costs, "precise", half, &first);
        check_plan(n->name, device, graph, costs, "offload-greedy", half, &first);
        if (subject == &fake_backend_cuda_host) /* copies keep few ops from being fused */
            CHECK(fake_driver_counts().kernel_nodes <= counts.kernel_nodes * 11 / 10);
        check_plan(n->name, device, graph, costs, "auto", half, &first);
    }
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    return first;
}

/* With images of bf16 the loss is near that of fp32, in less memory. Deep networks of so few
 * channels make much of a rounding; they are tried on a GPU, for the bits alone. */
static void check_network(const network *n) {
    cairn_graph *graph = build(n);
    compare_network(n, graph);
    outcome full = check_plans(n, graph, CAIRN_MATH_TF32);
    if (!n->half && subject == &crn_backend_cuda && n->input[2] > 0)
        (void)check_plans(n, graph, CAIRN_MATH_BF16);
    if (n->half) {
        outcome half = check_plans(n, graph, CAIRN_MATH_BF16);
        double far = fabs((double)half.losses[0] / (double)full.losses[0] - 1);
        printf("%-14s with bf16: loss %.4f instead of %.4f, arena %.2f of that\n", n->name,
               (double)half.losses[0], (double)full.losses[0],
               (double)half.figures.arena_bytes / (double)full.figures.arena_bytes);
        CHECK(far > 0 && far < 0.02);
        if (subject == &fake_backend_cuda_host) /* on a GPU, workspaces of cuDNN are most of it */
            CHECK(half.figures.arena_bytes < full.figures.arena_bytes * 7 / 8); /* unfolded: vit */
    }
    cairn_graph_destroy(graph);
    CHECK_U64(fake_driver_counts().allocated, 0);
    CHECK_U64(fake_driver_counts().pinned, 0);
    CHECK_U64(fake_driver_counts().graphs, 0);
}

/* A profile times recorded steps: every implementation has a time, and they add up to a step. */
static void check_profile(void) {
    cairn_error err = {0};
    cairn_graph *graph = build(&networks[0]);
    cairn_device *device = open_device(subject, CAIRN_MATH_TF32);
    cairn_costs *costs;
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    options.repetitions = 3;
    options.every_implementation = true;
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_profile(graph, device, &options, costs, &origin, &err), &err);
    bool timed = true;
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        uint32_t count;
        const cairn_implementation *list = cairn_costs_op(costs, o, &count);
        for (uint32_t k = 0; k < count; k++)
            timed = timed && list[k].time_ns > 0 && list[k].low_ns <= list[k].high_ns;
    }
    CHECK(timed);
    uint32_t faster = 0; /* ops whose recomputations were measured and took less time */
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        uint32_t count;
        const cairn_implementation *list = cairn_costs_op(costs, o, &count);
        CHECK(crn_costs_again_ns(costs, o, 0) <= list[0].time_ns);
        faster += crn_costs_again_ns(costs, o, 0) < list[0].time_ns;
    }
    CHECK(faster > 0);
    cairn_solution *none = solve(graph, costs, "none", 0, NULL);
    outcome o = run(device, graph, costs, none, false);
    printf("%-14s predicted %.3f ms, measured %.3f ms\n", networks[0].name,
           (double)none->sim->summary->time_ns / 1e6, (double)o.time_ns / 1e6);
    CHECK(none->sim->summary->time_ns < 4 * o.time_ns &&
          none->sim->summary->time_ns > o.time_ns / 4);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_device_close(device);
}

/* The facts of a device. */
static void check_facts(void) {
    cairn_device *device = open_device(subject, CAIRN_MATH_TF32);
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(device, &facts);
    CHECK(facts.separate_memory && facts.memory_bytes > 0 && facts.name[0] != '\0');
    CHECK(facts.machine->host_memory_bytes > 0 && facts.machine->link_bytes_per_second > 0);
    CHECK_U64(facts.stage_count, 5);
    CHECK_STRING(crn_math_name(CAIRN_MATH_FP32), "fp32");
    CHECK_STRING(crn_math_name(CAIRN_MATH_BF16), "bf16");
    CHECK(crn_math_name((cairn_math)3) == NULL);
    cairn_device_close(device);
}

/* A kernel fails: the run reports it with a message, and everything can be destroyed. */
static void check_failure(void) {
    cairn_error err = {0};
    cairn_graph *graph = build(&networks[0]);
    cairn_device *device = open_device(&fake_backend_cuda_host, CAIRN_MATH_TF32);
    cairn_costs *costs;
    cairn_exec *exec;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    cairn_solution *none = solve(graph, costs, "none", 0, NULL);
    CHECK_OK(cairn_exec_create(graph, device, costs, none, &options, &exec, &err), &err);
    CHECK_OK(cairn_exec_fill(exec, 0, &err), &err);
    fake_driver_fail_at(5);
    CHECK(cairn_exec_run(exec, 0, &result, &err) == CAIRN_ESYSTEM);
    CHECK(strstr(err.message, "the GPU fails in a step") != NULL);
    cairn_exec_destroy(exec);
    fake_driver_fail_at(0);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_device_close(device);
}

/* ---- Sizes that kernels cannot count ---- */

static void check_refused(cairn_builder *b, const char *sentence) {
    cairn_error err = {0};
    cairn_graph *graph;
    cairn_costs *costs;
    CHECK_OK(cairn_builder_finish(b, &graph, &err), &err);
    cairn_device *device = open_device(&fake_backend_cuda_host, CAIRN_MATH_TF32);
    CHECK(cairn_bind(graph, device, &costs, &err) == CAIRN_EINVAL && costs == NULL);
    CHECK_STRING(err.message, sentence);
    CHECK_STRING(err.name, "op");
    cairn_graph_destroy(graph);
    cairn_device_close(device);
    cairn_builder_destroy(b);
}

static void check_sizes(void) {
    cairn_error err = {0};
    cairn_builder *b;
    uint32_t rows = 1u << 16;
    CHECK_OK(cairn_builder_create(NULL, "large", &b), &err);
    cairn_id x = crn_build_input(b, "x", 2, (uint32_t[]){rows, rows});
    cairn_id y = crn_build_relu(b, "op", x);
    crn_build_cross_entropy(b, "loss", y, crn_build_label(b, "label", 1, &rows));
    check_refused(b, "tensor \"x\" of op \"op\" has more elements than the kernels of the backend "
                     "cuda can count");
    rows = 1;
    CHECK_OK(cairn_builder_create(NULL, "long", &b), &err);
    x = crn_build_input(b, "x", 4, (uint32_t[]){1, 2, 1, 60000});
    y = crn_build_flatten(b, "flat", crn_build_adaptive_avg_pool(b, "op", x, 1, 1));
    crn_build_cross_entropy(b, "loss", y, crn_build_label(b, "label", 1, &rows));
    check_refused(b, "op \"op\" pools images of more than 46339 rows or columns, which the backend "
                     "cuda cannot do");
}

int main(int argc, char **argv) {
    int names = 1;
    if (argc > 1 && strcmp(argv[1], "device") == 0) {
        names = 2;
        subject = &crn_backend_cuda;
        if (subject->devices() == 0)
            return 77;
    }
    for (size_t i = 0; i < CRN_LENGTH(networks); i++) {
        bool wanted = argc == names;
        for (int k = names; k < argc; k++)
            wanted = wanted || strcmp(argv[k], networks[i].name) == 0;
        if (wanted)
            check_network(&networks[i]);
    }
    check_facts();
    check_profile();
    if (subject != &crn_backend_cuda) {
        check_failure();
        check_sizes();
    }
    return check_result();
}
