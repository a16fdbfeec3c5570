/* test_cpu_bf16.c: transformers on the backend cpu with --math bf16. Every plan has the bits of
 * `none` and the peak that was predicted; the arena is little more than half as large as in fp32;
 * loss and gradients are those of fp32 up to rounding; networks without tokens are
 * refused. Exits with 77 if the processor has no bf16. */
#include "backend/narrow.h"
#include "cairn.h"

#include <math.h>

#define STEPS 2

static const struct network {
    const char *name;
    uint32_t batch, input[3], steps, classes;
    bool join_head;
    double arena; /* at most this part of the arena in fp32 */
} networks[] = {
    {"gpt2:layers=3,width=96,heads=4", 2, {0}, 96, 300, false, 0.58},
    {"gpt2:layers=3,width=96,heads=4", 2, {0}, 96, 300, true, 0.58},
    {"llama:layers=3,width=96,heads=6,kv_heads=2,ffn=256", 2, {0}, 96, 300, true, 0.58},
    {"bert_base:layers=3,width=96,heads=4", 2, {0}, 96, 200, false, 0.58},
    {"vit_b_16:layers=3,width=96,heads=4", 2, {3, 160, 160}, 0, 5, false, 0.58},
};

static cairn_device *open_device(cairn_math math) {
    cairn_device *device;
    cairn_error err = {0};
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    options.threads = 2;
    options.math = math;
    if (cairn_device_open("cpu", &options, &device, &err) == CAIRN_OK)
        return device;
    printf("%s\n", err.message);
    exit(77);
}

static cairn_graph *build(const struct network *n) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_differentiate_options differentiate = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_graph *graph;
    options.batch = n->batch;
    options.classes = n->classes;
    options.steps = n->steps;
    memcpy(options.input, n->input, sizeof n->input);
    differentiate.join_head = n->join_head;
    cairn_graph *forward = narrow_build(n->name, &options, 1);
    CHECK_OK(cairn_graph_differentiate(forward, &differentiate, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

/* ---- Running ---- */

typedef struct subject {
    cairn_device *device;
    cairn_graph *graph;
    cairn_costs *costs;
} subject;

typedef struct outcome {
    float losses[STEPS];
    uint64_t correct, predictions, arena_bytes;
    char hashes[STEPS][65];
    float *gradients; /* of the first step, for free() */
    uint64_t count;
} outcome;

static void read_gradients(cairn_exec *exec, const cairn_graph *graph, outcome *o) {
    cairn_error err = {0};
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        if (tensor->role != CAIRN_ROLE_GRADIENT || !tensor->stationary ||
            crn_graph_is_summed(graph, t))
            continue;
        uint64_t more = tensor->bytes / sizeof(float);
        o->gradients = realloc(o->gradients, (size_t)(o->count + more) * sizeof *o->gradients);
        CHECK_OK(cairn_exec_read(exec, t, o->gradients + o->count, &err), &err);
        o->count += more;
    }
}

static outcome run(const subject *s, const char *algorithm, uint64_t budget) {
    outcome o = {.count = 0};
    cairn_error err = {0};
    cairn_exec *exec;
    cairn_solution *solution;
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    solve.budget_bytes = budget;
    CHECK_OK(cairn_solve(s->graph, s->costs, algorithm, &solve, &solution, &err), &err);
    options.learning_rate = 0.01f;
    CHECK_OK(cairn_exec_create(s->graph, s->device, s->costs, solution, &options, &exec, &err),
             &err);
    o.arena_bytes = cairn_exec_get_figures(exec)->arena_bytes;
    for (uint64_t step = 0; step < STEPS; step++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        CHECK_OK(cairn_exec_fill(exec, step, &err), &err);
        CHECK_OK(cairn_exec_run(exec, step, &result, &err), &err);
        CHECK_U64(result.measured_peak_bytes, solution->sim->summary->peak_bytes);
        o.losses[step] = result.loss;
        o.correct += result.correct;
        o.predictions += result.predictions;
        if (step == 0)
            read_gradients(exec, s->graph, &o);
        cairn_exec_update(exec);
        CHECK_OK(cairn_exec_sha256(exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_GRADIENTS,
                                   o.hashes[step], &err),
                 &err);
    }
    cairn_exec_destroy(exec);
    cairn_solution_destroy(solution);
    return o;
}

static subject open_subject(cairn_math math, const struct network *n) {
    cairn_error err = {0};
    subject s = {.device = open_device(math), .graph = build(n)};
    CHECK_OK(cairn_bind(s.graph, s.device, &s.costs, &err), &err);
    cairn_costs_set_same_bits(s.costs, true);
    return s;
}

static void close_subject(subject *s) {
    cairn_costs_destroy(s->costs);
    cairn_graph_destroy(s->graph);
    cairn_device_close(s->device);
}

/* ---- Comparing ---- */

/* |a - b| / |b| of the gradients */
static double distance(const outcome *a, const outcome *b) {
    double difference = 0, size = 0;
    CHECK_U64(a->count, b->count);
    for (uint64_t i = 0; i < b->count; i++) {
        double d = (double)a->gradients[i] - (double)b->gradients[i];
        difference += d * d;
        size += (double)b->gradients[i] * (double)b->gradients[i];
    }
    return sqrt(difference / size);
}

static void check_plan(const subject *s, const char *algorithm, uint64_t budget,
                       const outcome *none) {
    outcome o = run(s, algorithm, budget);
    CHECK(memcmp(o.losses, none->losses, sizeof o.losses) == 0 && o.correct == none->correct &&
          memcmp(o.hashes, none->hashes, sizeof o.hashes) == 0);
    CHECK(o.arena_bytes <= budget);
    free(o.gradients);
}

static void check_network(const struct network *n) {
    subject half = open_subject(CAIRN_MATH_BF16, n);
    subject full = open_subject(CAIRN_MATH_FP32, n);
    outcome ours = run(&half, "none", 0), theirs = run(&full, "none", 0);
    double part = (double)ours.arena_bytes / (double)theirs.arena_bytes;
    double far = distance(&ours, &theirs);
    double loss = fabs((double)ours.losses[0] / (double)theirs.losses[0] - 1);
    printf("%s: loss differs by %.1e, gradients by %.1e, arena %.2f of that in fp32\n", n->name,
           loss, far, part);
    CHECK(loss > 0 && loss < 5e-3);
    CHECK(far < 3e-2);
    CHECK(part < n->arena);
    CHECK_U64(ours.predictions, theirs.predictions);
    check_plan(&half, "auto", ours.arena_bytes / 2, &ours);
    check_plan(&half, "auto", ours.arena_bytes * 3 / 4, &ours);
    check_plan(&half, "precise", ours.arena_bytes * 3 / 4, &ours);
    free(ours.gradients);
    free(theirs.gradients);
    close_subject(&half);
    close_subject(&full);
}

static void check_refused(void) {
    struct network images = {"resnet18", 1, {3, 32, 32}, 0, 5, false, 0};
    cairn_device *device = open_device(CAIRN_MATH_BF16);
    cairn_graph *graph = build(&images);
    cairn_costs *costs;
    cairn_error err = {0};
    CHECK(cairn_bind(graph, device, &costs, &err) == CAIRN_EINVAL && costs == NULL);
    CHECK(strstr(err.message, "only sequences of tokens can be bf16") != NULL);
    cairn_graph_destroy(graph);
    cairn_device_close(device);
}

int main(void) {
    for (size_t i = 0; i < CRN_LENGTH(networks); i++)
        check_network(&networks[i]);
    check_refused();
    return check_result();
}
