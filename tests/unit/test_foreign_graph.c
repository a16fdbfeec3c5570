/* test_foreign_graph.c: a step of another system: opaque ops, inputs that the caller owns, results
 * that appear and stay, a boundary between forward and backward. */
#include "cairn.h"
#include "check.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"

#include <string.h>

/*     x (caller's) --embed--> a --norm--> b, (null) --head--> logits (result), scale (result)
 *     boundary: logits -> tangent (result, as the caller keeps it), workspace 640
 *     head_back: tangent, b -> gb      norm_back: gb, a -> ga in the larger gb      embed_back: ga
 */
static const char step[] =
    "{\"format\": \"cairn-graph\", \"version\": 1, \"name\": \"foreign\",\n"
    "\"tensors\": [\n"
    "{\"name\": \"x\", \"role\": \"input\", \"dtype\": \"i64\", \"shape\": [16], \"stationary\": "
    "true},\n"
    "{\"name\": \"w\", \"role\": \"parameter\", \"dtype\": \"bf16\", \"shape\": [64]},\n"
    "{\"name\": \"a\", \"role\": \"activation\", \"bytes\": 256},\n"
    "{\"name\": \"b\", \"role\": \"activation\", \"bytes\": 512},\n"
    "{\"name\": \"logits\", \"role\": \"activation\", \"bytes\": 128, \"result\": true},\n"
    "{\"name\": \"scale\", \"role\": \"loss\", \"bytes\": 4},\n"
    "{\"name\": \"tangent\", \"role\": \"gradient\", \"bytes\": 128, \"result\": true},\n"
    "{\"name\": \"gb\", \"role\": \"gradient\", \"bytes\": 512},\n"
    "{\"name\": \"ga\", \"role\": \"gradient\", \"bytes\": 256},\n"
    "{\"name\": \"gw\", \"role\": \"gradient\", \"bytes\": 128, \"result\": true}\n"
    "],\n"
    "\"ops\": [\n"
    "{\"name\": \"embed\", \"kind\": \"opaque\", \"phase\": \"forward\", \"inputs\": [0], "
    "\"outputs\": [2], \"params\": [1]},\n"
    "{\"name\": \"norm\", \"kind\": \"opaque\", \"phase\": \"forward\", \"inputs\": [2], "
    "\"outputs\": [3, null]},\n"
    "{\"name\": \"head\", \"kind\": \"opaque\", \"phase\": \"forward\", \"inputs\": [3], "
    "\"outputs\": [4, 5]},\n"
    "{\"name\": \"boundary\", \"kind\": \"opaque\", \"phase\": \"forward\", \"inputs\": [4], "
    "\"outputs\": [6], \"flags\": [\"never-again\"]},\n"
    "{\"name\": \"head_back\", \"kind\": \"opaque\", \"phase\": \"backward\", \"inputs\": [6, 3], "
    "\"outputs\": [7]},\n"
    "{\"name\": \"norm_back\", \"kind\": \"opaque\", \"phase\": \"backward\", \"inputs\": [7, 2], "
    "\"outputs\": [8], \"inplace\": [[0, 0]]},\n"
    "{\"name\": \"embed_back\", \"kind\": \"opaque\", \"phase\": \"backward\", \"inputs\": [8, 0], "
    "\"outputs\": [9]}\n"
    "]}\n";

static cairn_graph *read_step(const char *text) {
    cairn_error err = {0};
    cairn_graph *graph = NULL;
    CHECK_OK(cairn_graph_from_json(NULL, text, strlen(text), "step.json", &graph, &err), &err);
    return graph;
}

static cairn_costs *step_costs(const cairn_graph *graph) {
    cairn_error err = {0};
    cairn_costs *costs = NULL;
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    cairn_implementation loss = {.name = "caller", .time_ns = 5, .workspace_bytes = 640};
    CHECK_OK(cairn_costs_set_op(costs, crn_graph_find_op(graph, "boundary"), &loss, 1), &err);
    return costs;
}

static void test_round_trip(void) {
    cairn_graph *graph = read_step(step);
    cairn_text text;
    CHECK(cairn_graph_to_json(graph, &text) == CAIRN_OK);
    CHECK_STRING(text.data, step);
    CHECK(cairn_graph_tensor(graph, 0)->bytes == 16 * 8);
    CHECK(cairn_graph_tensor(graph, 1)->bytes == 64 * 2);
    CHECK(crn_graph_is_result(graph, cairn_graph_find_tensor(graph, "scale")));
    CHECK(crn_graph_is_result(graph, cairn_graph_find_tensor(graph, "gw")));
    CHECK(!crn_graph_is_result(graph, cairn_graph_find_tensor(graph, "gb")));
    cairn_text_release(&text);
    cairn_graph_destroy(graph);
}

/* The caller's input is neither counted nor freed. Results are counted from when they are made. The
 * workspace of the boundary counts. `ga` is made in place in the larger `gb`. */
static void test_memory(void) {
    cairn_error err = {0};
    cairn_graph *graph = read_step(step);
    cairn_costs *costs = step_costs(graph);
    crn_plan_builder *builder;
    cairn_plan *plan = NULL;
    static const char *const runs[] = {"embed",     "norm",      "head",      "boundary",
                                       "head_back", "norm_back", "embed_back"};
    CHECK_OK(crn_plan_builder_create(NULL, &builder), &err);
    for (uint32_t i = 0; i < 7; i++) {
        cairn_step run = {.kind = CAIRN_STEP_RUN, .id = crn_graph_find_op(graph, runs[i])};
        run.inplace = i == 5;
        CHECK_OK(crn_plan_builder_add(builder, run), &err);
        static const char *const dead[] = {NULL, NULL, NULL, NULL, "b", "a", "ga"};
        cairn_step gone = {.kind = CAIRN_STEP_FREE};
        if (dead[i] != NULL) {
            gone.id = cairn_graph_find_tensor(graph, dead[i]);
            CHECK_OK(crn_plan_builder_add(builder, gone), &err);
        }
    }
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    header.goal = CAIRN_GOAL_TRAIN;
    CHECK_OK(crn_plan_builder_finish(builder, graph, &header, &plan, &err), &err);
    crn_plan_builder_destroy(builder);
    cairn_sim *sim = NULL;
    CHECK_OK(cairn_simulate(graph, costs, plan, NULL, &sim, &err), &err);
    const cairn_sim_step *at = sim->steps;
    uint32_t count = sim->step_count;
    static const uint64_t expected[] = {256,                   /* a */
                                        768,                   /* a b */
                                        960,                   /* a b logits scale */
                                        960 + 128 + 640,       /* tangent, workspace */
                                        960 + 128 + 512,       /* gb */
                                        1088,                  /* b freed */
                                        1088,                  /* ga in gb */
                                        1088 - 256,            /* a freed */
                                        832 + 128,             /* gw */
                                        128 + 64 + 128 + 128}; /* ga freed: results stay */
    CHECK_U64(count, 10);
    for (uint32_t i = 0; i < count && i < 10; i++)
        CHECK_U64(at[i].bytes, expected[i]);
    CHECK_U64(sim->summary->peak_bytes, 1728);
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

/* Plans of solvers keep the results too. */
static void test_solved(void) {
    cairn_error err = {0};
    cairn_graph *graph = read_step(step);
    cairn_costs *costs = step_costs(graph);
    cairn_solution *solution;
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &solution, &err), &err);
    CHECK_U64(solution->sim->summary->peak_bytes, 1728);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

/* Check that the text of `step`, with the first `from` replaced, is refused. */
static void check_refused(const char *from, const char *to, const char *words) {
    char text[4096];
    cairn_error err = {0};
    cairn_graph *graph = NULL;
    const char *place = strstr(step, from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(place - step), step, to, place + strlen(from));
    CHECK(cairn_graph_from_json(NULL, text, strlen(text), "step.json", &graph, &err) ==
          CAIRN_EINVAL);
    CHECK(graph == NULL && strstr(err.message, words) != NULL);
    cairn_graph_destroy(graph);
}

int main(void) {
    test_round_trip();
    test_memory();
    test_solved();
    check_refused("\"stationary\": true", "\"result\": true", "cannot be a result");
    check_refused("\"bytes\": 256},\n{\"name\": \"gw\"", "\"bytes\": 1024},\n{\"name\": \"gw\"",
                  "differ in size");
    check_refused(
        "\"kind\": \"opaque\", \"phase\": \"forward\", \"inputs\": [2]",
        "\"kind\": \"max_pool\", \"attributes\": {\"kernel\": [1, 1], \"stride\": [1, 1], "
        "\"pad\": [0, 0, 0, 0]}, \"phase\": \"forward\", \"inputs\": [2]",
        "no such tensor");
    return check_result();
}
