/* fuzz_plan.c: the reader of plans, against one small network. A text that is accepted is the text
 * that would be written, and the simulator must handle any list of steps. */
#include "cairn/report.h"
#include "fuzz.h"
#include "graph/layers.h"

/* Convolution, batch-norm, two branches, a flattening alias, a loss: every rule can be broken. It
 * is made once and kept. */
static cairn_graph *network(void) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    crn_conv conv = {.channels = 4, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    FUZZ_CHECK(cairn_builder_create(NULL, "small", &b) == CAIRN_OK);
    cairn_id x = crn_build_input(b, "x", 4, (uint32_t[]){1, 4, 4, 4});
    cairn_id stem = crn_build_conv2d(b, "c", x, &conv);
    cairn_id y = crn_build_batch_norm(b, "n", stem, 1e-5);
    y = crn_build_relu(b, "r", y);
    y = crn_build_add(b, "a", y, stem);
    y = crn_build_max_pool(b, "p", y, 2, 2, 0);
    y = crn_build_flatten(b, "f", y);
    y = crn_build_linear(b, "l", y, 3);
    cairn_id label = crn_build_label(b, "y", 1, (uint32_t[]){1});
    crn_build_cross_entropy(b, "loss", y, label);
    FUZZ_CHECK(cairn_builder_finish(b, &forward, &err) == CAIRN_OK);
    cairn_builder_destroy(b);
    FUZZ_CHECK(cairn_graph_differentiate(forward, NULL, &graph, &err) == CAIRN_OK);
    cairn_graph_destroy(forward);
    return graph;
}

static void check_plan(const cairn_graph *graph, const cairn_costs *costs, const cairn_plan *plan,
                       const cairn_machine *machine) {
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    cairn_sim *sim;
    cairn_layout *layout;
    cairn_error err = {0};
    options.machine = machine;
    cairn_status status = cairn_simulate(graph, costs, plan, &options, &sim, &err);
    FUZZ_CHECK(sim != NULL);
    FUZZ_CHECK((status == CAIRN_OK) == (sim->summary->rule == CAIRN_RULE_NONE));
    if (status == CAIRN_OK) {
        const cairn_lifetime *lifetimes = sim->lifetimes;
        uint32_t count = sim->lifetime_count;
        FUZZ_CHECK(cairn_layout_create(NULL, lifetimes, count, &layout, &err) == CAIRN_OK);
        FUZZ_CHECK(layout->arena_bytes >= sim->summary->peak_bytes);
        cairn_layout_destroy(layout);
    } else {
        fuzz_check_error(status, &err);
    }
    cairn_sim_destroy(sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static cairn_graph *graph;
    static cairn_costs *costs;
    static cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_error err = {0};
    if (graph == NULL) {
        graph = network();
        FUZZ_CHECK(cairn_machine_find("cpu", &machine, &err) == CAIRN_OK);
        FUZZ_CHECK(cairn_costs_analytic(graph, &machine, &costs, &err) == CAIRN_OK);
    }
    cairn_plan *plan;
    cairn_status status = cairn_plan_from_text(graph, (const char *)data, size, "f", &plan, &err);
    if (status != CAIRN_OK) {
        FUZZ_CHECK(plan == NULL);
        fuzz_check_error(status, &err);
        return 0;
    }
    cairn_text text;
    FUZZ_CHECK(cairn_plan_to_text(plan, graph, &text) == CAIRN_OK);
    FUZZ_CHECK(text.length == size && memcmp(text.data, data, size) == 0);
    cairn_text_release(&text);
    FUZZ_CHECK(cairn_plan_to_json(plan, graph, &text) == CAIRN_OK);
    cairn_text_release(&text);
    check_plan(graph, costs, plan, &machine);
    cairn_plan_destroy(plan);
    return 0;
}
