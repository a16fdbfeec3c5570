/* test_op_values.c: every op against the values that PyTorch computed in double precision,
 * tests/data/op_reference.json (made by reference/make_op_reference.py). Argument: the backend;
 * exits with 77 if it is not in this build. */
#include "backend/op_cases.h"
#include "exec/test_backends.h"

static const char *backend = "ref";
static double tolerance = 2e-6; /* of the largest value of the tensor; of the reference */

/* The tensor that the file calls `name`, or, with ".grad", its gradient. */
static cairn_id find(const op_case *c, const char *name) {
    char plain[64];
    snprintf(plain, sizeof plain, "%s", name);
    if (!fill_ends(name, ".grad"))
        return cairn_graph_find_tensor(c->graph, name);
    plain[strlen(plain) - strlen(".grad")] = '\0';
    cairn_id gradient = rig_gradient(c->graph, cairn_graph_find_tensor(c->graph, plain));
    return gradient == CAIRN_NONE
               ? c->gy
               : gradient; /* an op that passes gradients has none of its own for inputs */
}

static void compare(const op_case *c, const rig *r, const char *name, const json_t *expected) {
    cairn_id t = find(c, name);
    CHECK(t != CAIRN_NONE);
    if (t == CAIRN_NONE)
        return;
    size_t count = json_array_size(expected);
    CHECK_U64(fill_count(cairn_graph_tensor(c->graph, t)), count);
    float *plain = rig_block(cairn_graph_tensor(c->graph, t)->bytes);
    rig_get(r, t, plain);
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double wanted = json_number_value(json_array_get(expected, i));
        double off = fabs(plain[i] - wanted);
        largest = fmax(largest, fabs(wanted));
        worst = off <= worst ? worst : off;
    }
    CHECK(largest > 0 && worst <= tolerance * largest);
    if (!(worst <= tolerance * largest))
        fprintf(stderr, "  %s, %s: off by %g of %g\n", c->name, name, worst, largest);
    free(plain);
}

/* Whether the backend has the op under test. Only those of GPUs may lack one. */
static bool has_op(const rig *r, const op_case *c) {
    uint32_t count;
    rig_choices(r, c->op, &count);
    CHECK(count > 0 || strncmp(backend, "cuda", 4) == 0);
    return count > 0;
}

static void test_case(const json_t *given, json_t *reference) {
    op_case c = case_build(given, true);
    rig r;
    rig_open_on(&r, c.graph, test_device(backend, 2));
    rig_place(&r);
    if (!has_op(&r, &c)) {
        rig_close(&r);
        cairn_graph_destroy(c.graph);
        return;
    }
    case_fill(&c, &r);
    rig_run(&r, c.op);
    rig_run_range(&r, c.behind, cairn_graph_op_count(c.graph));
    json_t *expected = json_object_get(reference, c.name), *values;
    CHECK(json_object_size(expected) > 0);
    const char *name;
    json_object_foreach(expected, name, values) compare(&c, &r, name, values);
    rig_close(&r);
    cairn_graph_destroy(c.graph);
}

int main(int argc, char **argv) {
    if (argc > 1)
        backend = argv[1];
    if (test_backend(backend) == NULL)
        return 77;
    if (strcmp(backend, "ref") != 0 && strcmp(backend, "offset") != 0)
        tolerance = 2e-5; /* sums in another order */
    json_t *cases = case_load(CAIRN_TEST_DATA "/op_cases.json");
    json_t *reference = case_load(CAIRN_TEST_DATA "/op_reference.json");
    CHECK_U64(json_object_size(reference), json_array_size(cases));
    for (size_t i = 0; i < json_array_size(cases); i++)
        test_case(json_array_get(cases, i), reference);
    json_decref(reference);
    json_decref(cases);
    return check_result();
}
