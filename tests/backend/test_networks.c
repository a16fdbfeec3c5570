/* test_networks.c: whole networks on a backend against PyTorch: three steps of SGD with
 * momentum, the losses, the gradients of all parameters and the running statistics.
 *
 * The expected values were computed in double precision (reference/make_network_reference.py) and
 * are in tests/data/network_reference.json together with the sizes. Arguments: the backend and the
 * networks to run; without arguments all run on the reference. */
#include "backend/fill.h"
#include "backend/narrow.h"
#include "backend/rig.h"

#include <jansson.h>

#define STEPS 3
#define MOMENTUM 0.9f

/* The error of single precision, relative to the size of the values. In PyTorch single precision
 * differs from double precision by as much. Some gradients are zero except for rounding (those of a
 * convolution's scale before a batch-norm), so the size of a gradient counts as at least NOISE of
 * the usual size in the network. */
#define LOSS_TOLERANCE 1e-5
#define GRADIENT_TOLERANCE 5e-3
#define STATE_TOLERANCE 1e-4
#define NOISE 0.01

typedef struct network {
    const char *name, *backend;
    const json_t *expected;
    cairn_graph *graph;
    rig rig;
    float **velocity; /* per tensor: of parameters */
    double worst_loss, worst_first, worst_last, worst_state;
} network;

static uint32_t setting(const network *net, const char *name) {
    return (uint32_t)json_integer_value(json_object_get(net->expected, name));
}

static double number(const json_t *list, size_t index) {
    return json_number_value(json_array_get(list, index));
}

static const cairn_tensor *tensor_of(const network *net, cairn_id t) {
    return cairn_graph_tensor(net->graph, t);
}

/* ---- building and filling ---- */

static void build(network *net) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = setting(net, "batch");
    const json_t *input = json_object_get(net->expected, "input");
    for (size_t i = 0; i < json_array_size(input); i++)
        options.input[i] = (uint32_t)number(input, i);
    options.classes = setting(net, "classes");
    options.steps = setting(net, "steps");
    cairn_graph *forward = narrow_build(net->name, &options, setting(net, "divisor"));
    cairn_error err;
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &net->graph, &err), &err);
    cairn_graph_destroy(forward);
    rig_open(&net->rig, net->graph, net->backend, 2);
    uint32_t tensors = cairn_graph_tensor_count(net->graph);
    net->velocity = calloc(tensors, sizeof *net->velocity);
    for (cairn_id t = 0; t < tensors; t++) {
        cairn_role role = tensor_of(net, t)->role;
        if (role == CAIRN_ROLE_PARAMETER)
            net->velocity[t] = calloc(fill_count(tensor_of(net, t)), sizeof(float));
        if (role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_STATE)
            fill_parameter(net->rig.place[t], tensor_of(net, t));
    }
}

static void tear_down(network *net) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(net->graph); t++)
        free(net->velocity[t]);
    free(net->velocity);
    rig_close(&net->rig);
    cairn_graph_destroy(net->graph);
}

static void feed(network *net, unsigned step) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(net->graph); t++) {
        cairn_role role = tensor_of(net, t)->role;
        bool tokens = role == CAIRN_ROLE_INPUT && tensor_of(net, t)->dtype == CAIRN_DTYPE_I32;
        if (role == CAIRN_ROLE_INPUT && !tokens)
            fill_input(net->rig.place[t], tensor_of(net, t), step);
        if (role == CAIRN_ROLE_LABEL || tokens)
            fill_labels(net->rig.place[t], tensor_of(net, t), step, setting(net, "classes"));
    }
}

/* ---- comparing ---- */

static void compare(network *net, const char *what, double actual, double expected, double size,
                    double tolerance, double *worst) {
    double off = fabs(actual - expected) / size;
    *worst = off <= *worst ? *worst : off;
    CHECK(off <= tolerance);
    if (!(off <= tolerance))
        fprintf(stderr, "  %s, %s: %g, not %g (size %g)\n", net->name, what, actual, expected,
                size);
}

static void check_loss(network *net, size_t index) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(net->graph, &summary);
    double expected = number(json_object_get(net->expected, "losses"), index);
    compare(net, "loss", *(float *)net->rig.place[summary.loss], expected, fmax(expected, 1),
            LOSS_TOLERANCE, &net->worst_loss);
}

/* Check the sum of magnitudes and the weighted sum. The expected values are at `at` and after it;
 * errors are relative to `size`. */
static void check_sums(network *net, cairn_id t, const char *what, const json_t *expected,
                       size_t at, double size, double tolerance, double *worst) {
    uint64_t hash = fill_hash("checksum");
    const float *value = net->rig.place[t];
    double magnitude = 0, weighted = 0;
    for (uint64_t i = 0; i < fill_count(tensor_of(net, t)); i++) {
        magnitude += fabs(value[i]);
        weighted += (double)value[i] * fill_unit(hash, i);
    }
    compare(net, what, magnitude, number(expected, at), size, tolerance, worst);
    compare(net, what, weighted, number(expected, at + 1), size, tolerance, worst);
}

/* The mean magnitude of all gradients, expected at `at`. */
static double usual_gradient(const network *net, size_t at) {
    json_t *parameters = json_object_get(net->expected, "parameters"), *expected;
    const char *name;
    double sum = 0, count = 0;
    json_object_foreach(parameters, name, expected) {
        cairn_id t = cairn_graph_find_tensor(net->graph, name);
        CHECK(t != CAIRN_NONE);
        sum += number(expected, at);
        count += (double)fill_count(tensor_of(net, t));
    }
    return sum / count;
}

static void check_gradient(network *net, cairn_id parameter, unsigned step, double usual) {
    const char *name = tensor_of(net, parameter)->name;
    const json_t *expected = json_object_get(json_object_get(net->expected, "parameters"), name);
    cairn_id gradient = rig_gradient(net->graph, parameter);
    CHECK(json_array_size(expected) == 6 && gradient != CAIRN_NONE);
    uint64_t count = fill_count(tensor_of(net, parameter));
    size_t at = step == 0 ? 0 : 4;
    double *worst = step == 0 ? &net->worst_first : &net->worst_last;
    double size = number(expected, at) + NOISE * usual * (double)count;
    check_sums(net, gradient, name, expected, at, size, GRADIENT_TOLERANCE, worst);
    const float *value = net->rig.place[gradient];
    for (size_t i = 0; i < 2 && step == 0; i++) {
        double wanted = number(expected, 2 + i);
        compare(net, name, value[i * (count / 2)], wanted, size / (double)count + fabs(wanted),
                GRADIENT_TOLERANCE, worst);
    }
}

/* Check the gradients in the first and the last step. */
static void check_gradients(network *net, unsigned step) {
    if (step != 0 && step != STEPS - 1)
        return;
    double usual = usual_gradient(net, step == 0 ? 0 : 4);
    size_t checked = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(net->graph); t++)
        if (tensor_of(net, t)->role == CAIRN_ROLE_PARAMETER) {
            check_gradient(net, t, step, usual);
            checked++;
        }
    CHECK_U64(checked, json_object_size(json_object_get(net->expected, "parameters")));
}

static void check_states(network *net) {
    size_t checked = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(net->graph); t++) {
        if (tensor_of(net, t)->role != CAIRN_ROLE_STATE)
            continue;
        char layer[160];
        snprintf(layer, sizeof layer, "%s", tensor_of(net, t)->name);
        *strrchr(layer, '.') = '\0';
        const json_t *states = json_object_get(net->expected, "states");
        const json_t *expected = json_object_get(states, layer);
        CHECK_U64(json_array_size(expected), 4);
        bool mean = fill_ends(tensor_of(net, t)->name, "running_mean");
        size_t at = mean ? 0 : 2;
        check_sums(net, t, tensor_of(net, t)->name, expected, at, number(expected, at),
                   STATE_TOLERANCE, &net->worst_state);
        checked++;
    }
    CHECK_U64(checked, 2 * json_object_size(json_object_get(net->expected, "states")));
}

/* ---- training ---- */

static void update(network *net) {
    float rate = (float)json_number_value(json_object_get(net->expected, "rate"));
    for (cairn_id t = 0; t < cairn_graph_tensor_count(net->graph); t++) {
        if (tensor_of(net, t)->role != CAIRN_ROLE_PARAMETER)
            continue;
        float *p = net->rig.place[t], *v = net->velocity[t];
        const float *g = net->rig.place[rig_gradient(net->graph, t)];
        for (uint64_t i = 0; i < fill_count(tensor_of(net, t)); i++) {
            v[i] = MOMENTUM * v[i] + g[i];
            p[i] -= rate * v[i];
        }
    }
}

static void run_phase(network *net, cairn_phase phase) {
    for (cairn_id o = 0; o < cairn_graph_op_count(net->graph); o++)
        if (cairn_graph_op(net->graph, o)->phase == phase)
            rig_run(&net->rig, o);
}

static void test_network(const char *name, const char *backend, const json_t *expected) {
    network net = {.name = name, .backend = backend, .expected = expected};
    build(&net);
    for (unsigned step = 0; step < STEPS; step++) {
        net.rig.step = step;
        feed(&net, setting(&net, "start") + step);
        run_phase(&net, CAIRN_PHASE_FORWARD);
        check_loss(&net, step);
        run_phase(&net, CAIRN_PHASE_BACKWARD);
        check_gradients(&net, step);
        update(&net);
    }
    check_states(&net);
    net.rig.training = false;
    run_phase(&net, CAIRN_PHASE_FORWARD);
    check_loss(&net, STEPS);
    printf("%-14s worst: loss %.1e, gradients %.1e then %.1e, statistics %.1e\n", name,
           net.worst_loss, net.worst_first, net.worst_last, net.worst_state);
    tear_down(&net);
}

static bool chosen(int argc, char **argv, const char *name) {
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc <= 2;
}

int main(int argc, char **argv) {
    json_error_t error;
    const char *name, *backend = argc > 1 ? argv[1] : "ref";
    if (!rig_has(backend)) {
        printf("there is no backend %s in this build\n", backend);
        return 77;
    }
    json_t *root = json_load_file(CAIRN_TEST_DATA "/network_reference.json", 0, &error), *expected;
    CHECK(root != NULL);
    json_object_foreach(root, name, expected) {
        if (chosen(argc, argv, name))
            test_network(name, backend, expected);
    }
    json_decref(root);
    return check_result();
}
