/* test_optimizer.c: the optimisers and schedules against PyTorch (see reference/), and sums over
 * micro-batches. The number of threads changes no bit. Argument: the backend. */
#include "cairn.h"
#include "check.h"
#include "exec/crn_exec.h"
#include "exec/fingerprint.h"
#include "exec/subject.h"
#include "exec/toy_network.h"
#include "graph/layers.h"
#include "train/train_internal.h"
#include "backend/crn_device.h"
#include "import/importer.h"

#include <jansson.h>
#include <math.h>

static const char *backend = "ref";

static subject open_subject(cairn_graph *graph, uint32_t threads,
                            const cairn_exec_options *options) {
    subject s = subject_of(test_device(backend, threads), graph, "none", options);
    CHECK_U64(cairn_exec_get_figures(s.exec)->stationary_bytes,
              cairn_stationary_bytes(graph, s.costs, cairn_optimizer_slots(options)));
    return s;
}

/* One linear layer; the reference updates its weight. */
static cairn_graph *linear(uint32_t features, uint32_t classes) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    uint32_t one = 1;
    CHECK_OK(cairn_builder_create(NULL, "linear", &b), &err);
    cairn_id x = crn_build_input(b, "input", 2, (uint32_t[]){1, features});
    x = crn_build_linear(b, "fc", x, classes);
    crn_build_cross_entropy(b, "loss", x, crn_build_label(b, "label", 1, &one));
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    cairn_builder_destroy(b);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

static cairn_id gradient_of(const subject *s, cairn_id parameter) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s->graph); t++)
        if (cairn_graph_tensor(s->graph, t)->gradient_of == parameter)
            return t;
    return CAIRN_NONE;
}

static void write_tensor(subject *s, cairn_id tensor, const void *data) {
    cairn_error err = {0};
    CHECK_OK(cairn_exec_write(s->exec, tensor, data, &err), &err);
}

static void read_into(subject *s, cairn_id tensor, void *data) {
    cairn_error err = {0};
    CHECK_OK(cairn_exec_read(s->exec, tensor, data, &err), &err);
}

/* ---- Against PyTorch ---- */

static double real(const json_t *object, const char *key, double fallback) {
    const json_t *value = json_object_get(object, key);
    return value == NULL ? fallback : json_number_value(value);
}

static double at(const json_t *array, size_t i) {
    return json_number_value(json_array_get(array, i));
}

static cairn_exec_options options_of(const json_t *given) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    const char *name = json_string_value(json_object_get(given, "optimizer"));
    while (strcmp(crn_optimizer_name(options.optimizer), name) != 0)
        options.optimizer++;
    options.momentum = (float)real(given, "momentum", 0.9);
    options.nesterov = json_is_true(json_object_get(given, "nesterov"));
    options.weight_decay = real(given, "weight_decay", 0);
    options.beta1 = real(given, "beta1", 0.9);
    options.beta2 = real(given, "beta2", 0.999);
    options.epsilon = real(given, "epsilon", 1e-8);
    return options;
}

static void test_reference(const json_t *root, const json_t *given) {
    cairn_exec_options options = options_of(given);
    const json_t *start = json_object_get(given, "start"),
                 *values = json_object_get(given, "values");
    size_t elements = json_array_size(start);
    subject s = open_subject(linear((uint32_t)elements / 2, 2), 1, &options);
    cairn_id weight = cairn_graph_find_tensor(s.graph, "fc.weight");
    cairn_id gradient = gradient_of(&s, weight);
    float p[64], g[64];
    CHECK(elements <= 64);
    for (size_t i = 0; i < elements; i++)
        p[i] = (float)at(start, i);
    write_tensor(&s, weight, p);
    for (size_t step = 0; step < json_array_size(values); step++) {
        const json_t *expected = json_array_get(values, step);
        for (size_t i = 0; i < elements; i++)
            g[i] = (float)at(json_array_get(json_object_get(root, "gradients"), step), i);
        write_tensor(&s, gradient, g);
        cairn_exec_set_rate(s.exec, at(json_object_get(root, "rates"), step));
        cairn_exec_update(s.exec);
        read_into(&s, weight, p);
        for (size_t i = 0; i < elements; i++) {
            double off = fabs((double)p[i] - at(expected, i));
            CHECK(off <=
                  3e-7 * fmax(fabs(at(expected, i)), 2)); /* intermediate values are larger */
        }
    }
    CHECK_U64(crn_exec_updates(s.exec), json_array_size(values));
    close_subject(&s);
}

static void test_schedule(const json_t *given) {
    const char *name = json_string_value(json_object_get(given, "schedule"));
    cairn_schedule s = {.rate = 0.4, .every = 4, .factor = 0.25, .total = 12, .least = 0.04};
    const json_t *rates = json_object_get(given, "rates");
    while (strcmp(crn_schedule_name(s.kind), name) != 0)
        s.kind++;
    for (size_t i = 0; i < json_array_size(rates); i++)
        CHECK(fabs(crn_schedule_rate(&s, i) - at(rates, i)) < 1e-12);
    /* with a warm-up before it */
    s.warmup = 5;
    s.total = 17;
    for (size_t i = 0; i < 5; i++)
        CHECK(fabs(crn_schedule_rate(&s, i) - 0.4 * (double)(i + 1) / 5) < 1e-12);
    for (size_t i = 0; i < json_array_size(rates); i++)
        CHECK(fabs(crn_schedule_rate(&s, i + 5) - at(rates, i)) < 1e-12);
}

/* ---- Slots ---- */

static void test_slots(void) {
    static const struct {
        cairn_optimizer optimizer;
        float momentum;
        uint32_t micro_batches, slots;
        const char *first;
    } cases[] = {
        {CAIRN_OPTIMIZER_SGD, 0, 0, 0, NULL},
        {CAIRN_OPTIMIZER_SGD, 0.9f, 1, 1, "momentum_buffer"},
        {CAIRN_OPTIMIZER_SGD, 0, 4, 1, NULL},
        {CAIRN_OPTIMIZER_ADAM, 0, 1, 2, "exp_avg"},
        {CAIRN_OPTIMIZER_ADAMW, 0, 2, 3, "exp_avg"},
    };
    for (size_t i = 0; i < CRN_LENGTH(cases); i++) {
        cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
        cairn_error err = {0};
        const float data[] = {1, 2, 3, 4, 5, 6};
        float back[6];
        options.optimizer = cases[i].optimizer;
        options.momentum = cases[i].momentum;
        options.micro_batches = cases[i].micro_batches;
        CHECK_U64(cairn_optimizer_slots(&options), cases[i].slots);
        subject s = open_subject(linear(3, 2), 2, &options);
        cairn_id weight = cairn_graph_find_tensor(s.graph, "fc.weight");
        const char *name = crn_exec_slot_name(s.exec, 0);
        CHECK((name != NULL) == (cases[i].first != NULL));
        if (name != NULL) {
            CHECK_STRING(name, cases[i].first);
            CHECK_OK(crn_exec_write_slot(s.exec, weight, 0, data, &err), &err);
            CHECK_OK(crn_exec_read_slot(s.exec, weight, 0, back, &err), &err);
            CHECK(memcmp(data, back, sizeof data) == 0);
        }
        CHECK(crn_exec_slot_name(s.exec, 2) == NULL);
        CHECK(crn_exec_read_slot(s.exec, weight, 2, back, &err) == CAIRN_EINVAL);
        CHECK(crn_exec_read_slot(s.exec, cairn_graph_find_tensor(s.graph, "fc"), 0, back, &err) ==
              CAIRN_EINVAL);
        close_subject(&s);
    }
    CHECK(crn_optimizer_name((cairn_optimizer)3) == NULL);
}

/* ---- Decay ---- */

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), more = strlen(end);
    return length >= more && strcmp(name + length - more, end) == 0;
}

/* Without a gradient an update only decays. Returns whether the parameter, all ones, changes. */
static bool decays(subject *s, cairn_id parameter) {
    uint64_t count = cairn_graph_tensor(s->graph, parameter)->bytes / sizeof(float);
    float *data = calloc(count, sizeof *data);
    write_tensor(s, gradient_of(s, parameter), data);
    for (uint64_t i = 0; i < count; i++)
        data[i] = 1;
    write_tensor(s, parameter, data);
    cairn_exec_update(s->exec);
    read_into(s, parameter, data);
    bool changed = data[0] != 1;
    for (uint64_t i = 0; i < count; i++)
        CHECK(data[i] == (changed ? 0.75f : 1));
    free(data);
    return changed;
}

static cairn_graph *small_gpt(void) {
    cairn_zoo_options small = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    small.batch = 1, small.steps = 4, small.classes = 8;
    CHECK_OK(crn_zoo_build(NULL, "gpt2:layers=1,width=8,heads=2,ffn=16", &small, &forward, &err),
             &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

static void test_decay(cairn_graph *graph, cairn_optimizer optimizer, cairn_decay decay_on) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.optimizer = optimizer;
    options.decay_on = decay_on;
    options.momentum = 0;
    options.learning_rate = 0.5f;
    options.weight_decay = 0.5;
    subject s = open_subject(graph, 1, &options);
    uint32_t bare = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER)
            continue;
        bool is_bare = decay_on == CAIRN_DECAY_MATRICES &&
                       (tensor->rank < 2 || ends_with(tensor->name, "wpe.weight"));
        CHECK(decays(&s, t) == !is_bare);
        bare += is_bare;
    }
    CHECK((bare > 1) == (decay_on == CAIRN_DECAY_MATRICES));
    close_subject(&s);
}

/* ---- Threads ---- */

/* One parameter has many chunks, others have a few elements. */
static void train_some(uint32_t threads, cairn_optimizer optimizer, char hash[65]) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.optimizer = optimizer;
    options.weight_decay = 0.01;
    options.micro_batches = 2;
    options.learning_rate = 0.01f;
    subject s = open_subject(linear(50021, 3), threads, &options);
    cairn_error err = {0};
    for (uint64_t step = 0; step < 6; step++) {
        run_step(s.exec, step, step);
        cairn_exec_update(s.exec);
    }
    CHECK_OK(cairn_exec_sha256(s.exec, CAIRN_EXEC_PARAMETERS, hash, &err), &err);
    close_subject(&s);
}

static void test_threads(void) {
    for (cairn_optimizer o = CAIRN_OPTIMIZER_SGD; crn_optimizer_name(o) != NULL; o++) {
        char one[65], several[65];
        train_some(1, o, one);
        train_some(3, o, several);
        CHECK_STRING(several, one);
    }
}

/* ---- Micro-batches ---- */

/* Three runs and one update change the parameters by the mean of the three gradients. */
static void test_accumulation(void) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.momentum = 0;
    options.micro_batches = 3;
    options.learning_rate = 0.5f;
    subject s = open_subject(toy_network(NULL, 2, 8), 2, &options);
    cairn_id weight = cairn_graph_find_tensor(s.graph, "conv2.weight");
    uint64_t count = cairn_graph_tensor(s.graph, weight)->bytes / sizeof(float);
    float *sum = calloc(count, sizeof *sum), *before = calloc(count, sizeof *before);
    float *p = calloc(count, sizeof *p), *g = calloc(count, sizeof *g);
    for (int round = 0; round < 2; round++) {
        read_into(&s, weight, before);
        for (uint64_t i = 0; i < 3; i++) {
            run_step(s.exec, i, i);
            read_into(&s, gradient_of(&s, weight), g);
            for (uint64_t k = 0; k < count; k++)
                sum[k] = i == 0 ? g[k] : sum[k] + g[k];
            read_into(&s, weight, p);
            CHECK(memcmp(p, before, count * sizeof *p) == 0);
            cairn_exec_update(s.exec);
        }
        read_into(&s, weight, p);
        for (uint64_t k = 0; k < count; k++)
            CHECK(p[k] == before[k] - 0.5f * (sum[k] / 3));
    }
    free(p);
    free(g);
    free(sum);
    free(before);
    close_subject(&s);
}

/* ---- Updates as part of a run ---- */

/* Seven runs with another rate each, updates asked for or part of the runs. */
static void train_in_run(const cairn_exec_options *with, bool in_run, char hash[65]) {
    cairn_exec_options options = *with;
    cairn_error err = {0};
    options.update_in_run = in_run;
    subject s = open_subject(toy_network(NULL, 2, 8), 2, &options);
    for (uint64_t i = 0; i < 7; i++) {
        cairn_exec_set_rate(s.exec, 0.01 / (double)(i / options.micro_batches + 1));
        run_step(s.exec, i, i);
        cairn_exec_update(s.exec);
        CHECK_U64(crn_exec_updates(s.exec), (i + 1) / options.micro_batches);
    }
    CHECK_OK(cairn_exec_sha256(s.exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_GRADIENTS, hash, &err),
             &err);
    close_subject(&s);
}

static void test_update_in_run(void) {
    char asked[65], in_run[65];
    for (cairn_optimizer o = CAIRN_OPTIMIZER_SGD; crn_optimizer_name(o) != NULL; o++)
        for (uint32_t micro_batches = 1; micro_batches <= 3; micro_batches++) {
            cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
            options.optimizer = o;
            options.weight_decay = 0.01;
            options.micro_batches = micro_batches;
            train_in_run(&options, false, asked);
            train_in_run(&options, true, in_run);
            CHECK_STRING(in_run, asked);
        }
}

/* ---- Predictions ---- */

static void test_correct(void) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    subject s = open_subject(linear(4, 3), 0, &options);
    cairn_error err = {0};
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_id weight = cairn_graph_find_tensor(s.graph, "fc.weight");
    const float x[] = {1, 1, 1, 1};
    float w[12];
    for (int32_t likeliest = 0; likeliest < 3; likeliest++)
        for (int32_t given = -1; given < 4; given++) {
            for (int i = 0; i < 12; i++)
                w[i] = i / 4 == likeliest ? 1.0f : 0.0f;
            write_tensor(&s, weight, w);
            write_tensor(&s, cairn_graph_find_tensor(s.graph, "input"), x);
            write_tensor(&s, cairn_graph_find_tensor(s.graph, "label"), &given);
            CHECK_OK(cairn_exec_run(s.exec, 1, &result, &err), &err);
            CHECK_U64(result.predictions, 1);
            CHECK_U64(result.correct, likeliest == given);
        }
    close_subject(&s);
}

int main(int argc, char **argv) {
    json_error_t error;
    if (argc > 1)
        backend = argv[1];
    json_t *root = json_load_file(CAIRN_TEST_DATA "/optimizer_reference.json", 0, &error);
    const json_t *optimizers = json_object_get(root, "optimizers"),
                 *schedules = json_object_get(root, "schedules");
    CHECK(json_array_size(optimizers) >= 7 && json_array_size(schedules) == 2);
    for (size_t i = 0; i < json_array_size(optimizers); i++)
        test_reference(root, json_array_get(optimizers, i));
    for (size_t i = 0; i < json_array_size(schedules); i++)
        test_schedule(json_array_get(schedules, i));
    json_decref(root);
    test_slots();
    for (int on = CAIRN_DECAY_ALL; crn_decay_name((cairn_decay)on) != NULL; on++) {
        bool has_embeddings = strcmp(backend, "cuda-host") != 0;
        test_decay(toy_network(NULL, 2, 8), CAIRN_OPTIMIZER_SGD, (cairn_decay)on);
        if (has_embeddings)
            test_decay(small_gpt(), CAIRN_OPTIMIZER_ADAMW, (cairn_decay)on);
    }
    test_threads();
    test_accumulation();
    test_update_in_run();
    test_correct();
    return check_result();
}
