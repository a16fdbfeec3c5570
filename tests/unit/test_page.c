/* test_page.c: the data of a page, decoded as the page's script does it, agrees with the simulator
 * and the layout. Texts in it cannot end the HTML element that contains them. */
#include "cairn.h"
#include "cairn/page.h"
#include "hand.h"
#include "report/page_columns.h"
#include "import/importer.h"

/* ---- Reading ---- */

/* The text between "key":" and the next quote, behind the first `object` after `from`. */
static const char *find_column(const char *from, const char *object, const char *key) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\":{", object);
    const char *at = strstr(from, pattern);
    CHECK(at != NULL);
    snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
    at = at != NULL ? strstr(at, pattern) : NULL;
    CHECK(at != NULL);
    return at != NULL ? at + strlen(pattern) : "\"";
}

static uint32_t digit_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = strchr(digits, c);
    return found != NULL ? (uint32_t)(found - digits) : 0;
}

/* The numbers of a column, at most `most`; returns how many there are. */
static uint32_t read_column(const char *text, uint64_t *out, uint32_t most) {
    uint32_t count = 0, shift = 0, bits = 0, held = 0;
    uint64_t value = 0;
    for (; *text != '"' && *text != '='; text++) {
        bits = bits << 6 | digit_of(*text);
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        uint32_t byte = bits >> held & 255;
        value |= (uint64_t)(byte & 127) << shift;
        shift += 7;
        if (byte < 128 && count < most)
            out[count++] = value;
        if (byte < 128) {
            value = 0;
            shift = 0;
        }
    }
    return count;
}

static int64_t signed_of(uint64_t value) {
    return value % 2 == 0 ? (int64_t)(value / 2) : -(int64_t)(value / 2) - 1;
}

/* ---- Columns and texts ---- */

static void test_columns(void) {
    static const uint64_t values[] = {0, 1, 127, 128, 300, 16384, UINT32_MAX, UINT64_MAX};
    static const int64_t negatives[] = {0, -1, 1, -64, 64, INT64_MIN, INT64_MAX};
    uint64_t back[16];
    cairn_text text;
    crn_text_init(&text, NULL);
    crn_column column = crn_column_begin(&text, "c", true);
    for (size_t i = 0; i < CRN_LENGTH(values); i++)
        crn_column_put(&column, values[i]);
    for (size_t i = 0; i < CRN_LENGTH(negatives); i++)
        crn_column_put_signed(&column, negatives[i]);
    crn_column_end(&column);
    CHECK(crn_text_finish(&text) == CAIRN_OK);
    CHECK_U64(read_column(text.data + strlen("\"c\":\""), back, 16),
              CRN_LENGTH(values) + CRN_LENGTH(negatives));
    for (size_t i = 0; i < CRN_LENGTH(values); i++)
        CHECK_U64(back[i], values[i]);
    for (size_t i = 0; i < CRN_LENGTH(negatives); i++)
        CHECK(signed_of(back[CRN_LENGTH(values) + i]) == negatives[i]);
    cairn_text_release(&text);
}

static void check_string(const char *string, const char *expected) {
    cairn_text text;
    crn_text_init(&text, NULL);
    crn_text_page_string(&text, string);
    CHECK(crn_text_finish(&text) == CAIRN_OK);
    CHECK_STRING(text.data, expected);
    cairn_text_release(&text);
}

static void test_strings(void) {
    check_string("conv1", "\"conv1\"");
    check_string("</script><!--", "\"\\u003c/script\\u003e\\u003c!--\"");
    check_string("a\"b\\c&d'e", "\"a\\\"b\\\\c\\u0026d'e\"");
    check_string("\n\x7f", "\"\\u000a\\u007f\"");
    check_string("\xe2\x80\xa8\xe2\x80\xa9", "\"\\u2028\\u2029\"");
    check_string("\xc3\xa9\xf0\x9f\x92\xbe", "\"\xc3\xa9\xf0\x9f\x92\xbe\"");
    check_string("\xff\xc0\xaf\xed\xa0\x80x\xe2\x82", /* only the x is valid UTF-8 */
                 "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffdx\\ufffd\\ufffd\"");
}

/* ---- A page ---- */

static void check_steps(const char *data, const cairn_costs *costs,
                        const cairn_solution *solution) {
    static uint64_t kind[4096], id[4096], start[4096], length[4096];
    uint32_t implementations;
    const cairn_step *steps = solution->plan->steps;
    uint32_t count = solution->plan->step_count;
    const cairn_sim_step *times = solution->sim->steps;
    CHECK_U64(read_column(find_column(data, "steps", "kind"), kind, 4096), count);
    CHECK_U64(read_column(find_column(data, "steps", "id"), id, 4096), count);
    CHECK_U64(read_column(find_column(data, "steps", "start"), start, 4096), count);
    CHECK_U64(read_column(find_column(data, "steps", "length"), length, 4096), count);
    int64_t last = 0, now = 0;
    for (uint32_t i = 0; i < count; i++) {
        last += signed_of(id[i]);
        CHECK_U64(kind[i], steps[i].kind);
        CHECK_U64((uint64_t)last, steps[i].id);
        int64_t begin = now + signed_of(start[i]), end = begin + signed_of(length[i]);
        if (steps[i].kind == CAIRN_STEP_RUN)
            end += cairn_costs_op(costs, steps[i].id, &implementations)->time_ns;
        CHECK(begin == times[i].start_ns && end == times[i].end_ns);
        if (steps[i].kind != CAIRN_STEP_OFFLOAD && steps[i].kind != CAIRN_STEP_FETCH)
            now = end;
    }
}

static void check_lifetimes(const char *data, const cairn_solution *solution) {
    static uint64_t first[4096], length[4096], tensor[4096], bytes[4096], offset[4096];
    const cairn_lifetime *lives = solution->sim->lifetimes;
    uint32_t count = solution->sim->lifetime_count;
    const uint64_t *offsets = solution->layout->offsets;
    uint32_t steps = solution->plan->step_count;
    CHECK(count > 0);
    CHECK_U64(read_column(find_column(data, "lives", "first"), first, 4096), count);
    CHECK_U64(read_column(find_column(data, "lives", "length"), length, 4096), count);
    CHECK_U64(read_column(find_column(data, "lives", "tensor"), tensor, 4096), count);
    CHECK_U64(read_column(find_column(data, "lives", "bytes"), bytes, 4096), count);
    CHECK_U64(read_column(find_column(data, "lives", "offset"), offset, 4096), count);
    int64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        at += signed_of(first[i]);
        CHECK_U64((uint64_t)at, lives[i].first);
        CHECK_U64((uint64_t)at + length[i], CRN_MIN(lives[i].last, steps - 1));
        CHECK_U64(tensor[i], lives[i].tensor == CAIRN_NONE ? 0 : (uint64_t)lives[i].tensor + 1);
        CHECK_U64(bytes[i] * 64, lives[i].bytes);
        CHECK_U64(offset[i] * 64, offsets[i]);
    }
}

/* The whole file of a network under an algorithm that copies and one that recomputes. */
static void test_network(const char *name, const char *algorithm, uint64_t percent) {
    cairn_zoo_options zoo = CAIRN_ZOO_OPTIONS_INIT;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_graph *forward, *graph;
    cairn_costs *costs;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_solution *none, *solution;
    cairn_page *page;
    cairn_text text;
    zoo.batch = 2;
    CHECK_OK(crn_zoo_build(NULL, name, &zoo, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(graph, &machine, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    options.machine = &machine;
    options.budget_bytes = none->layout->arena_bytes / 100 * percent;
    CHECK_OK(cairn_solve(graph, costs, algorithm, &options, &solution, &err), &err);

    CHECK_OK(cairn_page_create(graph, costs, NULL, &page), &err);
    CHECK_OK(cairn_page_add(page, solution, NULL), &err);
    CHECK_OK(cairn_page_add(page, solution, NULL), &err);
    CHECK_OK(cairn_page_add_none(page, &err), &err);
    CHECK_OK(cairn_page_write(page, &text), &err);
    const char *data = strstr(text.data, "type=\"application/json\">");
    CHECK(data != NULL);
    check_steps(data, costs, solution);
    check_lifetimes(data, solution);
    CHECK(strstr(data, "\"entries\":[{\"plan\":0,") != NULL);
    CHECK(strstr(data, ",{\"plan\":0,") != NULL); /* equal plans are stored once */
    CHECK(strstr(data, ",{\"plan\":1,\"algorithm\":\"none\"") != NULL);
    CHECK(strstr(text.data, "script-src 'sha256-") != NULL);
    CHECK(strstr(text.data, "{{") == NULL);
    cairn_text_release(&text);
    cairn_page_destroy(page);
    cairn_solution_destroy(solution);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_graph_destroy(forward);
}

/* A column must hold these numbers. */
static void check_column(const char *data, const char *object, const char *key, uint32_t count,
                         const uint64_t *expected) {
    uint64_t found[16];
    CHECK_U64(read_column(find_column(data, object, key), found, 16), count);
    for (uint32_t i = 0; i < count; i++)
        CHECK_U64(found[i], expected[i]);
}

/* A tensor made in place of a, and an alias of that, are in the storage of a. Measured times
 * replace the simulated ones. */
static void test_by_hand(void) {
    cairn_error err = {0};
    hand h = hand_begin("by<hand>");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 1);
    hand_tensor(&h, "a", CAIRN_ROLE_ACTIVATION, 2);
    hand_tensor(&h, "b", CAIRN_ROLE_ACTIVATION, 2);
    hand_alias(&h, "c", "b");
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "a");
    hand_permit(&h, 0, 0);
    hand_op(&h, "B", CAIRN_PHASE_FORWARD, "a", "b");
    hand_op(&h, "C", CAIRN_PHASE_FORWARD, "b", "c");
    cairn_graph *graph = hand_finish(&h);
    cairn_costs *costs = hand_costs(graph);
    hand_cost(graph, costs, "A", 10, 3);
    hand_cost(graph, costs, "B", 20, 0);
    cairn_plan *plan =
        hand_plan(graph, CAIRN_GOAL_TRAIN, "run A,free x,run B inplace,run C,free b,free c");
    cairn_solution *solution;
    CHECK_OK(cairn_solution_create(graph, costs, plan, NULL, &solution, &err), &err);

    static const cairn_sim_step measured[] = {{0, 0, 11},  {0, 11, 11}, {0, 12, 31},
                                              {0, 31, 31}, {0, 31, 31}, {0, 31, 31}};
    cairn_page_entry entry = CAIRN_PAGE_ENTRY_INIT;
    cairn_page *page;
    cairn_text text;
    entry.measured = measured;
    entry.budget_bytes = 1000;
    entry.bound_ns = 30;
    CHECK_OK(cairn_page_create(graph, costs, NULL, &page), &err);
    CHECK_OK(cairn_page_add(page, solution, &entry), &err);
    CHECK_OK(cairn_page_write(page, &text), &err);
    const char *data = strstr(text.data, "type=\"application/json\">");
    CHECK(data != NULL);
    CHECK(strstr(data, "\"model\":\"by\\u003chand\\u003e\"") != NULL);
    CHECK(strstr(text.data, "<title>by&lt;hand&gt;") != NULL);
    CHECK(strstr(data, "\"budget\":1000,\"smallest\":0,\"smallest_op\":\"\",\"bound\":30,") !=
          NULL);
    check_column(data, "tenants", "step", 2, (const uint64_t[]){2, 1});
    check_column(data, "tenants", "life", 2, (const uint64_t[]){1, 1});
    check_column(data, "tenants", "tensor", 2, (const uint64_t[]){2, 3});
    check_column(data, "lives", "tensor", 3, (const uint64_t[]){1, 2, 0}); /* x, a, workspace */
    check_column(data, "lives", "bytes", 3, (const uint64_t[]){1, 2, 3});
    check_column(data, "steps", "start", 6, (const uint64_t[]){0, 0, 2, 0, 0, 0});
    check_column(data, "steps", "length", 6, (const uint64_t[]){2, 0, 1, 0, 0, 0}); /* 1, -1 */
    check_column(data, "tensors", "alias", 4, (const uint64_t[]){0, 0, 0, 3});
    check_column(data, "ops", "inputs", 6, (const uint64_t[]){1, 1, 1, 2, 1, 3});
    cairn_text_release(&text);
    cairn_page_destroy(page);
    cairn_solution_destroy(solution);
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

int main(void) {
    test_columns();
    test_strings();
    test_network("resnet18", "precise", 60);
    test_network("alexnet", "offload-best", 80);
    test_by_hand();
    return check_result();
}
