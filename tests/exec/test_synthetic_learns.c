/* test_synthetic_learns.c: a small convolutional network learns the synthetic task, and a linear
 * model does not. The accuracy is measured on held-out samples. */
#include "cairn/data.h"
#include "cairn/exec.h"
#include "check.h"
#include "data/loader.h"
#include "exec/subject.h"
#include "exec/test_backends.h"
#include "graph/layers.h"
#include "exec/crn_exec.h"

#define BATCH 32u
#define STEPS 300u

typedef struct trial {
    cairn_graph *graph;
    cairn_id input, label, logits;
    cairn_data *data;
    cairn_data_info info;
    cairn_exec *train, *evaluate;
    cairn_device *device;
} trial;

/* ---- Networks ---- */

static cairn_id add_convolution(cairn_builder *b, cairn_id x, uint32_t channels, const char *conv,
                                const char *norm, const char *relu) {
    crn_conv c = {.channels = channels, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
    x = crn_build_conv2d(b, conv, x, &c);
    x = crn_build_batch_norm(b, norm, x, 1e-5);
    return crn_build_relu(b, relu, x);
}

static void build(trial *t, bool convolutions) {
    const uint32_t shape[] = {BATCH, t->info.shape[0], t->info.shape[1], t->info.shape[2]};
    const uint32_t batch = BATCH;
    cairn_builder *b;
    cairn_graph *forward;
    cairn_error err = {0};
    CHECK_OK(cairn_builder_create(NULL, "small", &b), &err);
    cairn_id x = t->input = crn_build_input(b, "input", 4, shape);
    t->label = crn_build_label(b, "label", 1, &batch);
    if (convolutions) {
        x = add_convolution(b, x, 16, "conv1", "norm1", "relu1");
        x = add_convolution(b, x, 32, "conv2", "norm2", "relu2");
        x = add_convolution(b, x, 64, "conv3", "norm3", "relu3");
    }
    x = crn_build_flatten(b, "flat", x);
    t->logits = crn_build_linear(b, "classify", x, t->info.classes);
    crn_build_cross_entropy(b, "loss", t->logits, t->label);
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &t->graph, &err), &err);
    cairn_graph_destroy(forward);
    cairn_builder_destroy(b);
}

static cairn_exec *make_executor(const trial *t, const char *algorithm) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.learning_rate = 0.02f;
    return executor_of(t->device, t->graph, algorithm, &options);
}

/* ---- Training and evaluating ---- */

static crn_batch give_next(const trial *t, cairn_exec *exec, crn_loader *loader) {
    crn_batch batch = {0};
    cairn_error err = {0};
    CHECK_OK(crn_loader_next(loader, &batch, &err), &err);
    CHECK_OK(cairn_exec_feed(exec, t->input, batch.inputs, &err), &err);
    if (crn_exec_takes(exec, t->label))
        CHECK_OK(cairn_exec_feed(exec, t->label, batch.labels, &err), &err);
    return batch;
}

static crn_loader *make_loader(const trial *t, cairn_split split) {
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    crn_loader *loader;
    cairn_error err = {0};
    options.split = split;
    options.batch = BATCH;
    options.shuffle = split == CAIRN_SPLIT_TRAIN;
    CHECK_OK(crn_loader_create(t->data, &options, &loader, &err), &err);
    return loader;
}

static void train(trial *t) {
    crn_loader *loader = make_loader(t, CAIRN_SPLIT_TRAIN);
    for (uint64_t step = 0; step < STEPS; step++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        cairn_error err = {0};
        give_next(t, t->train, loader);
        CHECK_OK(cairn_exec_run(t->train, step, &result, &err), &err);
        cairn_exec_update(t->train);
    }
    crn_loader_destroy(loader);
}

static void copy_stationary(trial *t) {
    for (cairn_id id = 0; id < cairn_graph_tensor_count(t->graph); id++) {
        const cairn_tensor *tensor = cairn_graph_tensor(t->graph, id);
        if (tensor->role != CAIRN_ROLE_PARAMETER && tensor->role != CAIRN_ROLE_STATE)
            continue;
        cairn_error err = {0};
        void *data = malloc(tensor->bytes);
        CHECK_OK(cairn_exec_read(t->train, id, data, &err), &err);
        CHECK_OK(cairn_exec_write(t->evaluate, id, data, &err), &err);
        free(data);
    }
}

static bool is_right(const float *logits, uint32_t classes, int32_t label) {
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        best = logits[c] > logits[best] ? c : best;
    return best == (uint32_t)label;
}

/* The accuracy on held-out samples. */
static double judge(trial *t) {
    crn_loader *loader = make_loader(t, CAIRN_SPLIT_VALIDATION);
    uint32_t right = 0;
    float *logits = malloc(cairn_graph_tensor(t->graph, t->logits)->bytes);
    copy_stationary(t);
    for (uint64_t n = 0; n < crn_loader_batches(loader); n++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        cairn_error err = {0};
        crn_batch batch = give_next(t, t->evaluate, loader);
        CHECK_OK(cairn_exec_run(t->evaluate, n, &result, &err), &err);
        CHECK_OK(cairn_exec_read(t->evaluate, t->logits, logits, &err), &err);
        for (uint32_t i = 0; i < batch.count; i++)
            right += is_right(logits + i * t->info.classes, t->info.classes, batch.labels[i]);
    }
    free(logits);
    crn_loader_destroy(loader);
    return (double)right / t->info.validation;
}

static double try_network(bool convolutions) {
    trial t = {0};
    cairn_error err = {0};
    CHECK_OK(cairn_data_open("synthetic", NULL, &t.data, &err), &err);
    t.info = *cairn_data_get_info(t.data);
    t.device = test_device("offset", 2);
    build(&t, convolutions);
    t.train = make_executor(&t, "none");
    t.evaluate = make_executor(&t, "infer");
    train(&t);
    double accuracy = judge(&t);
    cairn_exec_destroy(t.evaluate);
    cairn_exec_destroy(t.train);
    cairn_device_close(t.device);
    cairn_graph_destroy(t.graph);
    cairn_data_destroy(t.data);
    return accuracy;
}

int main(void) {
    double small = try_network(true), linear = try_network(false);
    printf("right on held-out samples: %.1f%%, by a linear model %.1f%%\n", 100 * small,
           100 * linear);
    CHECK(small > 0.95);
    CHECK(linear < 0.30);
    return check_result();
}
