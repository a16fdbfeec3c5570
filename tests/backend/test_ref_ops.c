/* test_ref_ops.c: every op of the reference by itself. Its gradients are compared with differences
 * of its values. Its results are bitwise the same with another number of threads, in a second run,
 * and in place. */
#include "backend/op_cases.h"
#include "backend/rig.h"

static bool kinds_run[CAIRN_OP_KINDS];

static void note_kinds(const cairn_graph *graph) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        kinds_run[cairn_graph_op(graph, o)->kind] = true;
}

/* The gradient of a tensor; the inputs of an op that passes gradients have that of its result. */
static const float *gradient_of(const rig *r, const op_case *c, cairn_id tensor) {
    cairn_id gradient = rig_gradient(c->graph, tensor);
    if (gradient == CAIRN_NONE && crn_op_kinds[c->kind].passes)
        gradient = c->gy;
    return gradient == CAIRN_NONE ? NULL : r->place[gradient];
}

/* ---- gradients against differences ---- */

/* The loss under test: the op's loss, or the sum of gy * y. */
static double projected(rig *r, const op_case *c) {
    rig_run(r, c->op);
    const float *y = r->place[c->y];
    if (c->gy == CAIRN_NONE)
        return y[0];
    double sum = 0;
    const float *gy = r->place[c->gy];
    for (uint64_t i = 0; i < fill_count(cairn_graph_tensor(c->graph, c->y)); i++)
        sum += (double)gy[i] * y[i];
    return sum;
}

/* The step of the difference: small if the op has kinks, large if it is linear. */
static double step_of(cairn_op_kind kind) {
    switch (kind) {
    case CAIRN_OP_RELU:
    case CAIRN_OP_MAX_POOL:
        return 1.0 / 4096;
    case CAIRN_OP_BATCH_NORM:
    case CAIRN_OP_RNN_CELL:
    case CAIRN_OP_LSTM_CELL:
    case CAIRN_OP_CROSS_ENTROPY:
    case CAIRN_OP_TOKEN_CROSS_ENTROPY:
    case CAIRN_OP_LAYER_NORM:
    case CAIRN_OP_RMS_NORM:
    case CAIRN_OP_ATTENTION:
    case CAIRN_OP_GELU:
    case CAIRN_OP_SILU:
    case CAIRN_OP_SWIGLU:
        return 1.0 / 16;
    default:
        return 0.5;
    }
}

/* A difference of four points; its error is of fourth order. */
static double difference(rig *r, const op_case *c, float *x) {
    double h = step_of(c->kind), value = *x, sum = 0;
    static const struct {
        int at;
        double weight;
    } points[] = {{1, 8}, {-1, -8}, {2, -1}, {-2, 1}};
    for (size_t i = 0; i < CRN_LENGTH(points); i++) {
        *x = (float)(value + points[i].at * h);
        sum += points[i].weight * projected(r, c);
    }
    *x = (float)value;
    return sum / (12 * h);
}

#define TOLERANCE 2e-4 /* of the largest gradient */

static void check_tensor(rig *r, const op_case *c, cairn_id t, const float *gradient) {
    const cairn_tensor *tensor = cairn_graph_tensor(c->graph, t);
    uint64_t count = fill_count(tensor);
    double largest = 0, worst = 0;
    for (uint64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(gradient[i]));
    for (uint64_t i = 0; i < count; i++) {
        double off = fabs(difference(r, c, (float *)r->place[t] + i) - gradient[i]);
        worst = off <= worst ? worst : off; /* a NaN is the worst */
    }
    CHECK(largest > 0);
    CHECK(worst <= TOLERANCE * largest);
    if (!(worst <= TOLERANCE * largest))
        fprintf(stderr, "  %s, %s: off by %g of %g\n", c->name, tensor->name, worst, largest);
}

static void test_gradients(const json_t *given, bool training) {
    op_case c = case_build(given, true);
    rig r;
    rig_open(&r, c.graph, "ref", 2);
    r.training = training;
    case_fill(&c, &r);
    r.again = true; /* do not update the running statistics */
    rig_run(&r, c.op);
    rig_run_range(&r, c.behind, cairn_graph_op_count(c.graph));
    for (cairn_id t = 0; t < cairn_graph_tensor_count(c.graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(c.graph, t);
        if ((tensor->role != CAIRN_ROLE_INPUT && tensor->role != CAIRN_ROLE_PARAMETER) ||
            tensor->dtype != CAIRN_DTYPE_F32)
            continue;
        const float *gradient = gradient_of(&r, &c, t);
        CHECK(gradient != NULL);
        if (gradient != NULL)
            check_tensor(&r, &c, t, gradient);
    }
    rig_close(&r);
    cairn_graph_destroy(c.graph);
}

/* ---- the same bits ---- */

/* Run the whole graph. */
static void run_all(rig *r, const op_case *c) {
    case_fill(c, r);
    rig_run_range(r, 0, cairn_graph_op_count(c->graph));
}

static bool same_tensors(const rig *a, const rig *b) {
    bool same = true;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(a->graph); t++)
        if (memcmp(a->place[t], b->place[t], rig_bytes(a, t)) != 0) {
            same = false;
            fprintf(stderr, "  %s: %s differs\n", cairn_graph_name(a->graph),
                    cairn_graph_tensor(a->graph, t)->name);
        }
    return same;
}

static void test_threads(const op_case *c, const rig *one) {
    for (uint32_t threads = 1; threads <= 4; threads++) {
        rig many;
        rig_open(&many, c->graph, "ref", threads);
        run_all(&many, c);
        CHECK(same_tensors(one, &many));
        many.again = true; /* a second run: states must not change */
        rig_run_range(&many, 0, cairn_graph_op_count(c->graph));
        CHECK(same_tensors(one, &many));
        rig_close(&many);
    }
}

static uint32_t permissions_tried;

static void test_in_place(rig *r) {
    r->again = true;
    for (cairn_id o = 0; o < cairn_graph_op_count(r->graph); o++) {
        const cairn_op *op = cairn_graph_op(r->graph, o);
        for (uint32_t i = 0; i < op->inplace_count; i++, permissions_tried++)
            rig_check_permission(r, o, 0, op->inplace[i]);
    }
}

/* Without the gradients of inputs, which are then missing outputs, the other gradients are the
 * same. */
static void test_unwanted(const json_t *given, const rig *all) {
    op_case c = case_build(given, false);
    rig r;
    rig_open(&r, c.graph, "ref", 1);
    run_all(&r, &c);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(c.graph); t++) {
        cairn_id same = cairn_graph_find_tensor(all->graph, cairn_graph_tensor(c.graph, t)->name);
        CHECK(memcmp(r.place[t], all->place[same], rig_bytes(&r, t)) == 0);
    }
    rig_close(&r);
    cairn_graph_destroy(c.graph);
}

static void test_bits(const json_t *given) {
    op_case c = case_build(given, true);
    rig one;
    rig_open(&one, c.graph, "ref", 1);
    run_all(&one, &c);
    test_threads(&c, &one);
    test_in_place(&one);
    if (json_array_size(json_object_get(given, "params")) > 0)
        test_unwanted(given, &one);
    note_kinds(c.graph);
    rig_close(&one);
    cairn_graph_destroy(c.graph);
}

/* ---- single facts ---- */

static const json_t *find_case(const json_t *cases, const char *name) {
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *given = json_array_get(cases, i);
        if (strcmp(json_string_value(json_object_get(given, "name")), name) == 0)
            return given;
    }
    exit(1);
}

static void test_dropout(const json_t *cases) {
    op_case c = case_build(find_case(cases, "dropout"), true);
    rig r;
    rig_open(&r, c.graph, "ref", 2);
    case_fill(&c, &r);
    uint64_t count = fill_count(cairn_graph_tensor(c.graph, c.y)), dropped = 0, moved = 0;
    const float *x = r.place[cairn_graph_find_tensor(c.graph, "x0")], *y = r.place[c.y];
    float first[150];
    rig_run(&r, c.op);
    memcpy(first, y, count * sizeof *y);
    for (uint64_t i = 0; i < count; i++) {
        dropped += y[i] == 0;
        CHECK(y[i] == 0 || fabsf(y[i] * 0.6f - x[i]) < 1e-6f);
    }
    CHECK(dropped > count / 4 && dropped < count / 2 + count / 10); /* about 0.4 of them */
    r.step = 1;
    rig_run(&r, c.op);
    for (uint64_t i = 0; i < count; i++)
        moved += (y[i] == 0) != (first[i] == 0);
    CHECK(moved > count / 5); /* another step has another mask: about 0.48 of them differ */
    r.training = false;
    rig_run(&r, c.op);
    CHECK(memcmp(x, y, count * sizeof *y) == 0);
    rig_close(&r);
    cairn_graph_destroy(c.graph);
}

/* Running statistics are updated once a step, and only in training. */
static void test_running_statistics(const json_t *cases) {
    op_case c = case_build(find_case(cases, "batch_norm_one"), true);
    rig r;
    rig_open(&r, c.graph, "ref", 1);
    case_fill(&c, &r);
    const float *mean = r.place[cairn_graph_find_tensor(c.graph, "y.running_mean")];
    const float *var = r.place[cairn_graph_find_tensor(c.graph, "y.running_var")];
    const float *stats = r.place[cairn_graph_op(c.graph, c.op)->outputs[1]];
    rig_run(&r, c.op);
    for (int i = 0; i < 3; i++) {
        double variance = 1 / ((double)stats[3 + i] * stats[3 + i]) - 1e-3; /* of 20 elements */
        CHECK(fabs(mean[i] - 0.25 * stats[i]) < 1e-6);
        CHECK(fabs(var[i] - (0.75 + 0.25 * variance * 20 / 19)) < 1e-5);
    }
    float moved = mean[0];
    r.again = true;
    rig_run(&r, c.op);
    CHECK(mean[0] == moved);
    r.again = r.training = false;
    rig_run(&r, c.op);
    CHECK(mean[0] == moved);
    CHECK(stats[0] == moved && fabs(stats[3] - 1 / sqrt(var[0] + 1e-3)) < 1e-6);
    rig_close(&r);
    cairn_graph_destroy(c.graph);
}

/* A label outside the classes is not used as an index; the loss shows it. */
static void test_wrong_label(const json_t *cases) {
    op_case c = case_build(find_case(cases, "cross_entropy"), true);
    rig r;
    rig_open(&r, c.graph, "ref", 1);
    case_fill(&c, &r);
    ((int32_t *)r.place[cairn_graph_find_tensor(c.graph, "labels")])[2] = 7;
    rig_run_range(&r, 0, cairn_graph_op_count(c.graph));
    CHECK(isnan(*(float *)r.place[c.y]));
    rig_close(&r);
    cairn_graph_destroy(c.graph);
}

int main(void) {
    json_t *cases = case_load(CAIRN_TEST_DATA "/op_cases.json");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        test_gradients(json_array_get(cases, i), true);
        test_bits(json_array_get(cases, i));
    }
    test_gradients(find_case(cases, "batch_norm"), false);
    test_gradients(find_case(cases, "dropout"), false);
    test_dropout(cases);
    test_running_statistics(cases);
    test_wrong_label(cases);
    CHECK(permissions_tried > json_array_size(cases));
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++) {
        /* the others: test_optimizer.c, test_head.c */
        bool runs = kind != CAIRN_OP_OPAQUE && kind < CAIRN_OP_UPDATE;
        CHECK(kinds_run[kind] == runs);
        if (!kinds_run[kind] && runs)
            fprintf(stderr, "  %s was not run\n", cairn_op_kind_name(kind));
    }
    json_decref(cases);
    return check_result();
}
