/* test_solve_options.c: what the options of a solver promise: a plan that is there already, costs
 * that `precise` believes, the curve of all budgets, the bounds. On a small chain with a branch. */
#include "base/rng.h"
#include "cairn/budget.h"
#include "cairn/papers.h"
#include "cairn/papers/bounds.h"
#include "cairn/papers/budget_curve.h"
#include "cairn/report.h"
#include "check.h"
#include "exec/toy_network.h"
#include "graph/layers.h"
#include "layout/crn_layout.h"
#include "solve/solution.h"

typedef struct subject {
    cairn_graph *graph;
    cairn_machine machine;
    cairn_costs *costs;
    cairn_solution *none;
    uint64_t peak; /* of none's arena */
} subject;

static void set_up(subject *s) {
    cairn_error err = {0};
    s->graph = toy_network(NULL, 2, 16);
    s->machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find("cpu", &s->machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(s->graph, &s->machine, &s->costs, &err), &err);
    CHECK_OK(cairn_solve(s->graph, s->costs, "none", NULL, &s->none, &err), &err);
    s->peak = s->none->layout->arena_bytes;
}

static void tear_down(subject *s) {
    cairn_solution_destroy(s->none);
    cairn_costs_destroy(s->costs);
    cairn_graph_destroy(s->graph);
}

static int64_t time_of(const cairn_solution *solution) {
    return solution->sim->summary->time_ns;
}

static cairn_solution *solve(const subject *s, const char *name,
                             const cairn_solve_options *options) {
    cairn_solution *solution;
    cairn_error err = {0};
    CHECK_OK(cairn_solve(s->graph, s->costs, name, options, &solution, &err), &err);
    if (options->budget_bytes > 0)
        CHECK((options->live_peak ? solution->sim->summary->peak_bytes
                                  : solution->layout->arena_bytes) <= options->budget_bytes);
    return solution;
}

/* The plan that is given is the answer exactly where it fits and is faster. */
static void test_start(const subject *s) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    for (int live = 0; live < 2; live++) {
        options.live_peak = live == 1;
        options.start = NULL;
        options.budget_bytes = s->peak * 7 / 8;
        cairn_solution *small = solve(s, "precise", &options);
        options.start = s->none->plan; /* does not fit */
        cairn_solution *same = solve(s, "precise", &options);
        CHECK(time_of(same) == time_of(small));
        options.budget_bytes = s->peak;
        options.start = small->plan; /* fits, and is slower than none */
        cairn_solution *faster = solve(s, "none", &options);
        CHECK(time_of(faster) == time_of(s->none) || time_of(small) == time_of(s->none));
        options.start = s->none->plan; /* fits, and is faster than recomputing everything */
        cairn_solution *start = solve(s, "feng", &options);
        CHECK(time_of(start) == time_of(s->none));
        cairn_solution_destroy(start);
        cairn_solution_destroy(faster);
        cairn_solution_destroy(same);
        cairn_solution_destroy(small);
    }
    /* of another graph: not legal here, so what was found stays */
    cairn_graph *other = toy_network(NULL, 1, 8);
    cairn_costs *costs;
    cairn_solution *foreign;
    CHECK_OK(cairn_costs_analytic(other, &s->machine, &costs, &err), &err);
    CHECK_OK(cairn_solve(other, costs, "none", NULL, &foreign, &err), &err);
    options.start = foreign->plan;
    options.budget_bytes = 0;
    options.live_peak = false;
    cairn_solution *found = solve(s, "none", &options);
    CHECK(time_of(found) == time_of(s->none));
    cairn_solution_destroy(found);
    /* where nothing fits, a plan that is given does not either */
    options.start = s->none->plan;
    options.budget_bytes = 64;
    CHECK(cairn_solve(s->graph, s->costs, "none", &options, &found, &err) == CAIRN_INFEASIBLE);
    CHECK(found == NULL);
    cairn_solution_destroy(foreign);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(other);
}

/* Whatever `precise` believes, its plan is judged by the costs themselves. */
static void test_cost_models(const subject *s) {
    uint32_t solved = 0;
    for (uint64_t eighths = 8; eighths > 5; eighths--)
        for (int model = CAIRN_COST_MODEL_PRECISE; model <= CAIRN_COST_MODEL_UNIFORM; model++) {
            cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
            cairn_solution *solution;
            cairn_error err = {0};
            options.budget_bytes = s->peak * eighths / 8;
            options.cost_model = (cairn_cost_model)model;
            cairn_status status =
                cairn_solve(s->graph, s->costs, "precise", &options, &solution, &err);
            CHECK(status == CAIRN_OK || status == CAIRN_INFEASIBLE);
            CHECK((status == CAIRN_OK) == (solution != NULL));
            if (status == CAIRN_OK) {
                CHECK(solution->layout->arena_bytes <= options.budget_bytes);
                CHECK(time_of(solution) >= time_of(s->none));
                solved++;
            }
            cairn_solution_destroy(solution);
        }
    CHECK(solved >= 8);
}

/* The curve falls, and `precise` attains its first and its last point. */
static void test_curve(const subject *s) {
    cairn_budget_curve *exact, *thin;
    cairn_error err = {0};
    CHECK_OK(cairn_precise_curve(s->graph, s->costs, 0, false, &exact, &err), &err);
    CHECK(exact->exact && exact->count > 1 && exact->piece_count > 2);
    for (uint32_t i = 0; i < exact->count; i++) {
        CHECK(exact->bounds[i] == exact->points[i].time_ns);
        CHECK(i == 0 || (exact->points[i - 1].budget_bytes < exact->points[i].budget_bytes &&
                         exact->points[i - 1].time_ns > exact->points[i].time_ns));
    }
    CHECK(exact->points[exact->count - 1].time_ns == time_of(s->none));
    CHECK_OK(cairn_precise_curve(s->graph, s->costs, 4, true, &thin, &err), &err);
    for (uint32_t i = 0; i < thin->count; i++) {
        uint32_t k = 0; /* what the optimum is there */
        while (k + 1 < exact->count &&
               exact->points[k + 1].budget_bytes <= thin->points[i].budget_bytes)
            k++;
        CHECK(thin->points[i].time_ns >= exact->points[k].time_ns);
        CHECK(thin->bounds[i] <= exact->points[k].time_ns);
    }
    cairn_budget_curve_destroy(thin);
    cairn_budget_curve_destroy(exact);
    cairn_budget_curve_destroy(NULL);
}

/* No plan is below a bound, and below the least memory there is none. */
static void test_bounds(const subject *s) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    int64_t bound, all;
    uint64_t least, least_with_copies;
    CHECK_OK(cairn_time_bound(s->graph, s->costs, NULL, &all, &err), &err);
    CHECK(all > 0 && all <= time_of(s->none));
    CHECK_OK(cairn_least_memory(s->graph, s->costs, NULL, &least, &err), &err);
    options.machine = &s->machine;
    CHECK_OK(cairn_least_memory(s->graph, s->costs, &options, &least_with_copies, &err), &err);
    CHECK(least_with_copies <= least && least <= s->peak);
    options.budget_bytes = 64;
    options.no_offload = true;
    CHECK(cairn_time_bound(s->graph, s->costs, &options, &bound, &err) == CAIRN_INFEASIBLE);
    CHECK(err.status == CAIRN_INFEASIBLE && err.message[0] != '\0');
    for (int copies = 0; copies < 2; copies++) {
        options.no_offload = copies == 0;
        options.budget_bytes = s->peak * 3 / 4;
        CHECK_OK(cairn_time_bound(s->graph, s->costs, &options, &bound, &err), &err);
        cairn_solution *solution = solve(s, "auto", &options);
        CHECK(bound >= all && bound <= time_of(solution));
        CHECK(solution->lower_bound_ns <= time_of(solution));
        int64_t gap = crn_solution_gap_ppm(solution);
        CHECK(gap >= 0 && (gap == 0) == (time_of(solution) == solution->lower_bound_ns));
        cairn_solution_destroy(solution);
    }
    CHECK(crn_solution_gap_ppm(s->none) == 0);
    CHECK(cairn_solution_step_ns(s->none, 2, 5) == 2 * time_of(s->none) + 5);
    CHECK(cairn_solution_step_ns(s->none, UINT32_MAX, INT64_MAX) == INT64_MAX);
}

/* Pictures of a plan that copies show the copies; names are escaped. */
static void test_pictures(const subject *s) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_report *report;
    cairn_text trace, svg, json;
    options.machine = &s->machine;
    options.budget_bytes = s->peak * 3 / 4;
    cairn_solution *solution = solve(s, "offload-greedy", &options);
    CHECK_OK(cairn_report_create(s->graph, s->costs, solution, s->none, 1, &report, &err), &err);
    CHECK(cairn_report_overhead_ppm(report) >= 0);
    CHECK_OK(cairn_report_trace(report, &trace), &err);
    CHECK_OK(cairn_report_memory_svg(report, &svg), &err);
    CHECK_OK(cairn_report_to_json(report, &json), &err);
    CHECK(strstr(trace.data, "offload") != NULL || strstr(trace.data, "copy") != NULL);
    CHECK(strstr(svg.data, "</svg>") != NULL);
    CHECK(strstr(json.data, "\"algorithm\": \"offload-greedy\"") != NULL);
    cairn_text_release(&json);
    cairn_text_release(&svg);
    cairn_text_release(&trace);
    cairn_report_destroy(report);
    cairn_solution_destroy(solution);
}

/* Graphs for graphviz: escaped names, colours, checkpoints of two algorithms. */
static void test_dot(const subject *s) {
    cairn_error err = {0};
    cairn_text text;
    cairn_builder *b;
    cairn_graph *quoted;
    CHECK_OK(cairn_builder_create(NULL, "quoted", &b), &err);
    cairn_id x = crn_build_input(b, "a\"b\\c", 2, (uint32_t[]){1, 2});
    crn_build_relu(b, "r", x);
    CHECK_OK(cairn_builder_finish(b, &quoted, &err), &err);
    const char *const colors[] = {"red", "red:blue"};
    CHECK_OK(cairn_graph_to_dot(quoted, colors, false, &text), &err);
    CHECK(strstr(text.data, "a\\\"b\\\\c") != NULL);
    CHECK(strstr(text.data, "style=filled, fillcolor=\"red\"") != NULL);
    CHECK(strstr(text.data, "style=wedged, fillcolor=\"red:blue\"") != NULL);
    cairn_text_release(&text);
    cairn_graph_destroy(quoted);
    cairn_builder_destroy(b);

    cairn_dag_view *view;
    cairn_acg_solution *green = NULL, *red = NULL;
    CHECK_OK(cairn_dag_view_create(s->graph, NULL, &view, &err), &err);
    CHECK_OK(cairn_acg_solve(NULL, &view->dag, "feng", NULL, &green, &err), &err);
    CHECK_OK(cairn_acg_solve(NULL, &view->dag, "random", NULL, &red, &err), &err);
    CHECK_OK(cairn_checkpoints_to_dot(s->graph, view, green, red, &text), &err);
    CHECK(strstr(text.data, "palegreen") != NULL && strstr(text.data, "salmon") != NULL);
    cairn_text_release(&text);
    CHECK_OK(cairn_checkpoints_to_dot(s->graph, view, NULL, NULL, &text), &err);
    CHECK(strstr(text.data, "fillcolor") == NULL);
    cairn_text_release(&text);
    cairn_acg_solution_destroy(green);
    cairn_acg_solution_destroy(red);
    cairn_dag_view_destroy(view);
}

/* Curves that are the same share a line of the legend. */
static void test_plot(void) {
    static const double x[] = {1, 2, 3}, y[] = {4, 2, 1}, z[] = {5, 2, 1};
    const cairn_curve curves[] = {
        {.name = "first", .x = x, .y = y, .count = 3, .joined = true},
        {.name = "same", .x = x, .y = y, .count = 3, .joined = true},
        {.name = "higher", .x = x, .y = z, .count = 3, .joined = true},
        {.name = "loose", .x = x, .y = y, .count = 3},
        {.name = "shade", .x = x, .y = y, .count = 3, .shaded = true, .note = "a note"},
        {.name = "nothing", .shaded = true},
    };
    cairn_error err = {0};
    cairn_text text;
    CHECK_OK(cairn_plot_svg(NULL, "t", "x", "y", curves, 6, &text), &err);
    CHECK(strstr(text.data, "first") != NULL && strstr(text.data, "a note") != NULL);
    cairn_text_release(&text);
    CHECK_OK(cairn_plot_svg(NULL, "t", "x", "y", &curves[5], 1, &text), &err);
    CHECK(strstr(text.data, "</svg>") != NULL);
    cairn_text_release(&text);
}

/* Calls that share a memo give the plans and layouts of calls that do not. */
static void test_memo(const subject *s) {
    static const char *const names[] = {"offload-best", "vdnn", "auto", "tflms", "offload-best"};
    cairn_solve_options alone = CAIRN_SOLVE_OPTIONS_INIT, shared = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    CHECK_OK(cairn_memo_create(NULL, &shared.memo, &err), &err);
    alone.machine = shared.machine = &s->machine;
    for (uint32_t i = 0; i < 5 * sizeof names / sizeof *names; i++) {
        cairn_solution *one, *other;
        cairn_error own = {0};
        alone.budget_bytes = shared.budget_bytes = s->peak / 8 * (4 + i % 5);
        const char *name = names[i / 5];
        cairn_status status = cairn_solve(s->graph, s->costs, name, &alone, &one, &err);
        CHECK(cairn_solve(s->graph, s->costs, name, &shared, &other, &own) == status);
        CHECK_U64(own.smallest_budget, err.smallest_budget);
        if (status == CAIRN_OK) {
            CHECK(time_of(one) == time_of(other));
            const uint64_t *offsets = one->layout->offsets;
            uint32_t count = one->layout->count;
            const uint64_t *same = other->layout->offsets;
            uint32_t others = other->layout->count;
            CHECK_U64(one->layout->arena_bytes, other->layout->arena_bytes);
            CHECK(count == others && memcmp(offsets, same, count * sizeof *same) == 0);
            CHECK(one->lower_bound_ns == other->lower_bound_ns);
        }
        cairn_solution_destroy(one);
        cairn_solution_destroy(other);
    }
    cairn_memo_destroy(shared.memo);
    cairn_memo_destroy(NULL);
}

/* A memo that grows still knows every size. */
static void test_memo_growth(void) {
    enum { LIFETIMES = 6, SETS = 300 };
    cairn_error err = {0};
    cairn_memo *memo;
    CHECK_OK(cairn_memo_create(NULL, &memo, &err), &err);
    for (uint64_t i = 0; i < 2 * SETS; i++) {
        cairn_lifetime lifetimes[LIFETIMES];
        crn_rng rng = {i % SETS};
        for (uint32_t k = 0; k < LIFETIMES; k++) {
            uint32_t first = (uint32_t)crn_rng_below(&rng, 8);
            lifetimes[k] = (cairn_lifetime){.bytes = 64 * crn_rng_below(&rng, 9),
                                            .first = first,
                                            .last = first + (uint32_t)crn_rng_below(&rng, 8)};
        }
        uint64_t alone, shared;
        CHECK_OK(crn_layout_size(NULL, lifetimes, LIFETIMES, 0, false, NULL, &alone, &err), &err);
        CHECK_OK(crn_layout_size(NULL, lifetimes, LIFETIMES, 0, false, memo, &shared, &err), &err);
        CHECK_U64(shared, alone);
    }
    cairn_memo_destroy(memo);
}

static void draw_lifetimes(crn_rng *rng, cairn_lifetime *lifetimes, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        uint32_t first = (uint32_t)crn_rng_below(rng, 100);
        lifetimes[k] = (cairn_lifetime){.bytes = 64 * (1 + crn_rng_below(rng, 1000)),
                                        .first = first,
                                        .last = first + (uint32_t)crn_rng_below(rng, 30)};
    }
}

static uint64_t brief_size(const cairn_lifetime *lifetimes, uint32_t count, uint64_t enough,
                           cairn_memo *memo) {
    cairn_error err = {0};
    uint64_t size;
    CHECK_OK(crn_layout_size(NULL, lifetimes, count, enough, true, memo, &size, &err), &err);
    return size;
}

/* A brief search reaches a size that is well above the peak where it does not reach a smaller one.
 * Neither is smaller than what the whole search finds. A memo knows for which size a search was. */
static void test_brief_layouts(void) {
    enum { LIFETIMES = 200, SETS = 24 };
    cairn_error err = {0};
    cairn_memo *memo;
    uint32_t reached = 0;
    CHECK_OK(cairn_memo_create(NULL, &memo, &err), &err);
    for (uint64_t set = 0; set < SETS; set++) {
        cairn_lifetime lifetimes[LIFETIMES];
        crn_rng rng = {set};
        uint64_t whole;
        draw_lifetimes(&rng, lifetimes, LIFETIMES);
        CHECK_OK(crn_layout_size(NULL, lifetimes, LIFETIMES, 0, false, NULL, &whole, &err), &err);
        uint64_t more = whole + whole / 12;
        uint64_t tight = brief_size(lifetimes, LIFETIMES, whole, NULL);
        uint64_t loose = brief_size(lifetimes, LIFETIMES, more, NULL);
        CHECK(tight >= whole && loose >= whole);
        CHECK_U64(brief_size(lifetimes, LIFETIMES, whole, memo), tight);
        CHECK_U64(brief_size(lifetimes, LIFETIMES, more, memo), loose);
        reached += loose < tight && loose <= more;
    }
    CHECK(reached > 0);
    cairn_memo_destroy(memo);
}

int main(void) {
    static subject s;
    set_up(&s);
    test_start(&s);
    test_cost_models(&s);
    test_curve(&s);
    test_bounds(&s);
    test_memo(&s);
    test_memo_growth();
    test_brief_layouts();
    test_pictures(&s);
    test_dot(&s);
    test_plot();
    tear_down(&s);
    return check_result();
}
