/* test_acg.c: reading, validation, the example cases, pictures, and running out of memory. */
#include "check.h"
#include "cairn/papers/acg.h"
#include "ration.h"

#include <jansson.h>

static cairn_acg_cases *read_file(const char *name, cairn_text *text) {
    char path[512];
    cairn_error err;
    cairn_acg_cases *cases;
    snprintf(path, sizeof path, "%s/%s", CAIRN_TEST_DATA, name);
    CHECK_OK(cairn_text_load(NULL, path, text, &err), &err);
    CHECK_OK(cairn_acg_cases_read(NULL, text->data, text->length, path, &cases, &err), &err);
    return cases;
}

static cairn_acg_cases *read_text(const char *text) {
    cairn_error err;
    cairn_acg_cases *cases;
    CHECK_OK(cairn_acg_cases_read(NULL, text, strlen(text), NULL, &cases, &err), &err);
    return cases;
}

/* ---- The examples, whose optima were found by exhaustive search ---- */

static void test_examples(void) {
    cairn_text text;
    cairn_error err;
    cairn_acg_cases *cases = read_file("acg_examples.json", &text);
    json_t *root = json_loadb(text.data, text.length, 0, NULL);
    json_t *list = json_object_get(root, "cases");
    CHECK_U64(cairn_acg_cases_count(cases), json_array_size(list));
    CHECK(cairn_acg_cases_get(cases, cairn_acg_cases_count(cases)) == NULL);
    CHECK(cairn_acg_cases_names(cases, cairn_acg_cases_count(cases)) == NULL);
    for (uint32_t i = 0; i < cairn_acg_cases_count(cases); i++) {
        const cairn_dag *dag = cairn_acg_cases_get(cases, i);
        uint64_t optimal =
            (uint64_t)json_integer_value(json_object_get(json_array_get(list, i), "optimal"));
        cairn_acg_solution *result, *wider;
        CHECK_OK(cairn_acg_solve(NULL, dag, NULL, NULL, &result, &err), &err);
        CHECK_U64(result->value, optimal);
        CHECK_OK(cairn_acg_solve(NULL, dag, "pieces", NULL, &wider, &err), &err);
        CHECK(wider->value <= optimal);
        for (uint32_t k = 1; k < result->checkpoint_count; k++)
            CHECK(result->checkpoints[k - 1] < result->checkpoints[k]);
        cairn_acg_solution_destroy(result);
        cairn_acg_solution_destroy(wider);
    }
    json_decref(root);
    cairn_acg_cases_destroy(cases);
    cairn_text_release(&text);
}

/* ---- Files ---- */

#define DIAMOND                                                                                    \
    "{\"n\": 4, \"costs\": [3, 1, 4, 1], \"edges\": [[0,1],[0,2],[1,3],[2,3]], "                   \
    "\"source\": 0, \"target\": 3, \"optimal\": 8}"

static void test_forms(void) {
    static const char *const forms[] = {DIAMOND, "[" DIAMOND "," DIAMOND "]",
                                        "{\"cases\": [" DIAMOND "]}"};
    static const uint32_t counts[] = {1, 2, 1};
    for (int i = 0; i < 3; i++) {
        cairn_acg_cases *cases = read_text(forms[i]);
        CHECK_U64(cairn_acg_cases_count(cases), counts[i]);
        CHECK_U64(cairn_acg_cases_get(cases, 0)->edge_count, 4);
        cairn_acg_cases_destroy(cases);
    }
}

/* Ids with gaps and not in order; edges as objects. */
static void test_named_vertices(void) {
    cairn_acg_cases *cases = read_text(
        "{\"network\": \"x\", \"vertices\": [{\"id\": 90, \"cost\": 5}, {\"id\": 7, \"cost\": 2},"
        " {\"id\": 30, \"cost\": 9, \"join\": \"Add\"}],"
        " \"edges\": [{\"src\": 90, \"dst\": 30, \"op\": \"x\"}, {\"src\": 30, \"dst\": 7}],"
        " \"source\": 90, \"target\": 7}");
    const cairn_dag *dag = cairn_acg_cases_get(cases, 0);
    const uint32_t *names = cairn_acg_cases_names(cases, 0);
    CHECK_U64(names[0], 7);
    CHECK_U64(names[1], 30);
    CHECK_U64(names[2], 90);
    CHECK_U64(dag->costs[2], 5);
    CHECK_U64(dag->source, 2);
    CHECK_U64(dag->target, 0);
    CHECK(dag->edges[0].from == 1 && dag->edges[0].to == 0);
    cairn_text text;
    cairn_error err;
    CHECK_OK(cairn_acg_tree_text(NULL, dag, names, &text, &err), &err);
    CHECK_STRING(text.data, "linear 90 -> 7, cost 9, at 30\n  edge 90 -> 30\n  edge 30 -> 7\n");
    cairn_text_release(&text);
    cairn_acg_cases_destroy(cases);
}

/* Wrong inputs, and words that the error message must contain. */
static const struct {
    const char *text;
    cairn_status status;
    const char *words;
} bad[] = {
    {"", CAIRN_ESYNTAX, "not valid JSON"},
    {"[]", CAIRN_EINVAL, "holds no case"},
    {"{\"cases\": []}", CAIRN_EINVAL, "cases: holds no case"},
    {"3", CAIRN_EINVAL, "must be an object"},
    {"{\"n\": 0, \"costs\": [], \"edges\": [], \"source\": 0, \"target\": 0}", CAIRN_EINVAL,
     "no vertices"},
    {"{\"n\": 3, \"costs\": [1, 1], \"edges\": [[0,1]], \"source\": 0, \"target\": 1}",
     CAIRN_EINVAL, "n: must be the number of costs, 2"},
    {"{\"costs\": [1, -1], \"edges\": [[0,1]], \"source\": 0, \"target\": 1}", CAIRN_EINVAL,
     "costs[1]: is -1"},
    {"{\"costs\": [1, 1.5], \"edges\": [[0,1]], \"source\": 0, \"target\": 1}", CAIRN_EINVAL,
     "costs[1]: must be a whole number"},
    {"{\"costs\": [9223372036854775807, 1], \"edges\": [[0,1]], \"source\": 0, \"target\": 1}",
     CAIRN_EOVERFLOW, "up to vertex 1 does not fit in 63 bits"},
    {"{\"costs\": [1, 1], \"edges\": [[0,1]], \"target\": 1}", CAIRN_EINVAL, "source: is missing"},
    {"{\"costs\": [1, 1], \"edges\": [[0,1]], \"source\": 0, \"target\": 2}", CAIRN_EINVAL,
     "target: there is no vertex 2"},
    {"{\"costs\": [1, 1], \"edges\": [[0,5]], \"source\": 0, \"target\": 1}", CAIRN_EINVAL,
     "edges[0][1]: there is no vertex 5"},
    {"{\"costs\": [1, 1], \"edges\": [[0,-1]], \"source\": 0, \"target\": 1}", CAIRN_EINVAL,
     "edges[0][1]: there is no vertex -1"},
    {"{\"costs\": [1, 1], \"edges\": [[0,1,1]], \"source\": 0, \"target\": 1}", CAIRN_EINVAL,
     "two ends"},
    {"{\"costs\": [1, 1], \"edges\": [[0,1],[0,1]], \"source\": 0, \"target\": 1}", CAIRN_EINVAL,
     "from vertex 0 to 1 occurs twice"},
    {"{\"costs\": [1, 1], \"edges\": [[0,0],[0,1]], \"source\": 0, \"target\": 1}", CAIRN_EINVAL,
     "vertex 0 has an edge to itself"},
    {"{\"costs\": [1,1,1,1], \"edges\": [[0,1],[1,2],[2,1],[2,3]], \"source\": 0, \"target\": 3}",
     CAIRN_EINVAL, "lies on a cycle"},
    {"{\"costs\": [1, 1, 1], \"edges\": [[0,2],[1,2]], \"source\": 0, \"target\": 2}", CAIRN_EINVAL,
     "vertex 1 has no incoming edge and is not the source"},
    {"{\"costs\": [1, 1, 1], \"edges\": [[0,1],[0,2]], \"source\": 0, \"target\": 2}", CAIRN_EINVAL,
     "vertex 1 has no outgoing edge and is not the target"},
    {"{\"costs\": [1, 1, 1], \"edges\": [[0,2]], \"source\": 0, \"target\": 2}", CAIRN_EINVAL,
     "vertex 1 has no edges, so it is on no path"},
    {"{\"costs\": [1, 1, 1], \"edges\": [[0,1],[1,2]], \"source\": 1, \"target\": 2}", CAIRN_EINVAL,
     "vertex 0 has no incoming edge and is not the source"},
    {"{\"vertices\": [{\"id\": 1, \"cost\": 1}, {\"id\": 1, \"cost\": 1}], \"edges\": [],"
     " \"source\": 1, \"target\": 1}",
     CAIRN_EINVAL, "vertices[1]: the id 1 occurs twice"},
    {"{\"vertices\": [{\"id\": 4, \"cost\": 1}, {\"id\": 9, \"cost\": 1}, {\"id\": 6, \"cost\": "
     "1}],"
     " \"edges\": [{\"src\": 4, \"dst\": 9}], \"source\": 4, \"target\": 9}",
     CAIRN_EINVAL, "vertex 6 has no edges"},
    {"[" DIAMOND ", {\"costs\": [1, 1], \"edges\": [], \"source\": 0, \"target\": 1}]",
     CAIRN_EINVAL, "[1]: vertex 0 has no edges"},
};

static void test_bad_input(void) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cairn_error err;
        cairn_acg_cases *cases;
        char said[1024];
        cairn_status status =
            cairn_acg_cases_read(NULL, bad[i].text, strlen(bad[i].text), NULL, &cases, &err);
        CHECK(cases == NULL);
        CHECK_U64((uint64_t)status, (uint64_t)bad[i].status);
        CHECK(cairn_acg_cases_read(NULL, bad[i].text, strlen(bad[i].text), NULL, &cases, NULL) ==
              status);
        cairn_error_text(&err, said, sizeof said);
        if (strstr(said, bad[i].words) == NULL)
            fprintf(stderr, "\"%s\" should say \"%s\"\n", said, bad[i].words);
        CHECK(strstr(said, bad[i].words) != NULL);
    }
}

/* ---- The interface ---- */

static void test_unknown_and_unfit(void) {
    cairn_acg_cases *cases = read_text(DIAMOND);
    const cairn_dag *dag = cairn_acg_cases_get(cases, 0);
    cairn_acg_solution *result;
    cairn_error err;
    CHECK(cairn_acg_solve(NULL, dag, "nothing", NULL, &result, &err) == CAIRN_EUNKNOWN);
    CHECK(strstr(err.message, "nothing") != NULL);
    CHECK(cairn_acg_solve(NULL, dag, "chen", NULL, &result, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "chains only") != NULL);
    CHECK(cairn_acg_solve(NULL, dag, "feng-linear", NULL, &result, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "chains only") != NULL);
    CHECK(result == NULL);
    cairn_acg_solution_destroy(result);
    cairn_dag unsorted = *dag;
    cairn_dag_edge edges[] = {{0, 2}, {0, 1}, {1, 3}, {2, 3}};
    unsorted.edges = edges;
    CHECK(cairn_acg_check(NULL, &unsorted, NULL, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "not sorted") != NULL);
    cairn_acg_cases_destroy(cases);
}

static void test_value(void) {
    static const cairn_dag_edge edges[] = {{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}};
    static const uint64_t costs[] = {41, 8, 26, 32};
    cairn_dag dag = {4, 5, 0, 3, costs, edges};
    uint32_t one[] = {1}, four[] = {4};
    uint64_t value = 0;
    cairn_error err;
    CHECK(cairn_acg_value(NULL, &dag, CAIRN_ACG_OBJECTIVE_SEGMENTS, one, 1, &value, &err) ==
          CAIRN_EINVAL);
    CHECK(strstr(err.message, "vertex 2 is not independent") != NULL);
    CHECK_OK(cairn_acg_value(NULL, &dag, CAIRN_ACG_OBJECTIVE_PIECES, one, 1, &value, &err), &err);
    CHECK_U64(value, 107);
    CHECK_OK(cairn_acg_value(NULL, &dag, CAIRN_ACG_OBJECTIVE_SEGMENTS, NULL, 0, &value, &err),
             &err);
    CHECK_U64(value, 107);
    CHECK(cairn_acg_value(NULL, &dag, CAIRN_ACG_OBJECTIVE_PIECES, four, 1, &value, &err) ==
          CAIRN_EINVAL);
}

/* One vertex; two vertices; costs of zero; an older, shorter options struct. */
static void test_smallest(void) {
    static const uint64_t costs[] = {7, 4};
    static const cairn_dag_edge edge = {1, 0};
    cairn_dag one = {1, 0, 0, 0, costs, &edge}, two = {2, 1, 1, 0, costs, &edge};
    cairn_acg_options options = CAIRN_ACG_OPTIONS_INIT;
    options.struct_size = offsetof(cairn_acg_options, effort);
    const cairn_acg_algorithm *a;
    for (uint32_t i = 0; (a = cairn_acg_algorithm_list(i)) != NULL; i++) {
        cairn_acg_solution *result;
        cairn_error err;
        CHECK_OK(cairn_acg_solve(NULL, &one, a->name, &options, &result, &err), &err);
        CHECK_U64(result->value, 7);
        CHECK_U64(result->checkpoint_count, 1);
        cairn_acg_solution_destroy(result);
        CHECK_OK(cairn_acg_solve(NULL, &two, a->name, &options, &result, &err), &err);
        CHECK_U64(result->value, 11);
        CHECK_U64(result->checkpoint_count, 2);
        cairn_acg_solution_destroy(result);
    }
}

/* Equal costs on a chain: about 2 sqrt(n), for the greedy algorithm as well as for the optimum. */
static void test_chain(void) {
    enum { LENGTH = 102 };
    uint64_t costs[LENGTH];
    cairn_dag_edge edges[LENGTH - 1];
    for (uint32_t v = 0; v < LENGTH; v++)
        costs[v] = 1;
    for (uint32_t v = 0; v + 1 < LENGTH; v++)
        edges[v] = (cairn_dag_edge){v, v + 1};
    cairn_dag dag = {LENGTH, LENGTH - 1, 0, LENGTH - 1, costs, edges};
    static const char *const names[] = {"feng", "feng-linear", "chen", "pieces"};
    for (int i = 0; i < 4; i++) {
        cairn_acg_solution *result;
        cairn_error err;
        CHECK_OK(cairn_acg_solve(NULL, &dag, names[i], NULL, &result, &err), &err);
        CHECK(i == 2 ? result->value >= 21 && result->value <= 25 : result->value == 21);
        cairn_acg_solution_destroy(result);
    }
}

static void test_picture(void) {
    cairn_acg_cases *cases = read_text(DIAMOND);
    cairn_text text;
    cairn_error err;
    CHECK_OK(cairn_acg_tree_svg(NULL, cairn_acg_cases_get(cases, 0), NULL, &text, &err), &err);
    CHECK(strncmp(text.data, "<svg ", 5) == 0);
    CHECK(strstr(text.data, "<title>branch 0 -&gt; 3, cost 5</title>") != NULL);
    CHECK(strcmp(text.data + text.length - 7, "</svg>\n") == 0);
    cairn_text_release(&text);
    cairn_acg_cases_destroy(cases);
}

/* ---- Running out of memory ---- */

static cairn_status everything(const cairn_allocator *allocator, const char *json,
                               const char *algorithm) {
    cairn_acg_cases *cases;
    cairn_acg_solution *result = NULL;
    cairn_text text = {0};
    cairn_acg_options options = CAIRN_ACG_OPTIONS_INIT;
    uint64_t value;
    cairn_error err;
    options.effort = 1;
    cairn_status status = cairn_acg_cases_read(allocator, json, strlen(json), NULL, &cases, &err);
    if (status != CAIRN_OK)
        return status;
    const cairn_dag *dag = cairn_acg_cases_get(cases, 0);
    status = cairn_acg_solve(allocator, dag, algorithm, &options, &result, &err);
    if (status == CAIRN_OK)
        status = cairn_acg_value(allocator, dag, CAIRN_ACG_OBJECTIVE_PIECES, result->checkpoints,
                                 result->checkpoint_count, &value, &err);
    if (status == CAIRN_OK)
        status = cairn_acg_tree_text(allocator, dag, NULL, &text, &err);
    cairn_text_release(&text);
    if (status == CAIRN_OK)
        status = cairn_acg_tree_svg(allocator, dag, NULL, &text, &err);
    cairn_text_release(&text);
    cairn_acg_solution_destroy(result);
    cairn_acg_cases_destroy(cases);
    return status;
}

/* Fail allocation 0, 1, 2, ... until nothing fails. */
static void test_out_of_memory(const char *json, const char *algorithm) {
    long allowed = 0;
    cairn_status status;
    do {
        ration m = {allowed, 0};
        cairn_allocator allocator = {rationed, &m};
        status = everything(&allocator, json, algorithm);
        CHECK(status == CAIRN_OK || status == CAIRN_ENOMEM);
        CHECK(m.held == 0);
    } while (status == CAIRN_ENOMEM && ++allowed < 1000);
    CHECK(status == CAIRN_OK);
    CHECK(allowed > 5);
}

/* A ladder of 20 vertices, which is more than `pieces` solves exactly. */
static const char *ladder(char *buffer, size_t size) {
    size_t used = (size_t)snprintf(buffer, size, "{\"costs\": [");
    for (int v = 0; v < 20; v++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%d", v > 0 ? "," : "", v + 1);
    used += (size_t)snprintf(buffer + used, size - used, "], \"edges\": [[0,1]");
    for (int v = 2; v < 20; v++)
        used +=
            (size_t)snprintf(buffer + used, size - used, ",[%d,%d],[%d,%d]", v - 2, v, v - 1, v);
    snprintf(buffer + used, size - used, "], \"source\": 0, \"target\": 19}");
    return buffer;
}

int main(void) {
    char buffer[2048];
    const cairn_acg_algorithm *a;
    test_examples();
    test_forms();
    test_named_vertices();
    test_bad_input();
    test_unknown_and_unfit();
    test_value();
    test_smallest();
    test_chain();
    test_picture();
    for (uint32_t i = 0; (a = cairn_acg_algorithm_list(i)) != NULL; i++)
        test_out_of_memory("{\"costs\": [1, 2, 3], \"edges\": [[0,1],[1,2]], \"source\": 0,"
                           " \"target\": 2}",
                           a->name);
    test_out_of_memory(ladder(buffer, sizeof buffer), "feng");
    test_out_of_memory(ladder(buffer, sizeof buffer), "pieces");
    return check_result();
}
