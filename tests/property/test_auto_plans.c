/* test_auto_plans.c: the plans of `auto` are these, to the byte, whatever the compiler, its options
 * and the machine. Where the algorithm changes, the test prints the new hashes. */
#include "base/sha256.h"
#include "cairn.h"
#include "check.h"
#include "import/importer.h"

typedef struct expected {
    const char *network;
    uint32_t batch, steps, percent;
    bool copies;
    const char *hash; /* the first 16 digits of that of the plan's text */
} expected;

static const expected plans[] = {
    {"resnet18", 4, 0, 60, false, "058505363b492761"},
    {"resnet18", 4, 0, 45, true, "439ccd75951ec1c6"},
    {"unet", 1, 0, 45, false, "3a6739d7aff60589"},
    {"inception_v3", 2, 0, 50, true, "ba157db646d578b3"},
    {"lstm", 8, 20, 80, false, "1b6ff5e44db45263"},
    {"vgg16", 4, 0, 70, true, "0041cfc58d898ebf"},
    {"alexnet", 8, 0, 80, false, "c7af16d89a3dd89d"},
};

static void check_plan(const expected *e) {
    cairn_error err = {0};
    cairn_zoo_options zoo = CAIRN_ZOO_OPTIONS_INIT;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_graph *forward, *graph;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_costs *costs;
    cairn_solution *none, *solution;
    cairn_text text;
    crn_sha256 hash;
    char digits[65];
    zoo.batch = e->batch;
    zoo.steps = e->steps;
    CHECK_OK(crn_zoo_build(NULL, e->network, &zoo, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(graph, &machine, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    options.budget_bytes = none->layout->arena_bytes / 100 * e->percent;
    options.machine = &machine;
    options.no_offload = !e->copies;
    CHECK_OK(cairn_solve(graph, costs, "auto", &options, &solution, &err), &err);
    CHECK_OK(cairn_plan_to_text(solution->plan, graph, &text), &err);
    crn_sha256_init(&hash);
    crn_sha256_add(&hash, text.data, text.length);
    crn_sha256_finish(&hash, digits);
    digits[16] = '\0';
    printf("%s, %u%%%s: %s\n", e->network, e->percent, e->copies ? " with copies" : "", digits);
    CHECK_STRING(digits, e->hash);
    cairn_text_release(&text);
    cairn_solution_destroy(solution);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_graph_destroy(forward);
}

int main(void) {
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        check_plan(&plans[i]);
    return check_result();
}
