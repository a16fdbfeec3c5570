/* test_sim_examples.c: plans that are small enough to compute on paper, with every number written
 * out. */
#include "graph/layers.h"
#include "hand.h"
#include "graph/crn_graph.h"

/* Simulate, and check the memory of every run, in units, and the total time. */
static void trace(const cairn_graph *g, const cairn_costs *costs, const cairn_sim_options *options,
                  const char *text, const uint64_t *units, uint32_t runs, int64_t time_ns) {
    cairn_error err = {0};
    cairn_sim *sim;
    cairn_plan *plan = hand_plan(g, CAIRN_GOAL_TRAIN, text);
    CHECK_OK(cairn_simulate(g, costs, plan, options, &sim, &err), &err);
    uint32_t count, seen = 0;
    const cairn_step *steps = plan->steps;
    count = plan->step_count;
    const cairn_sim_step *recorded = sim->steps;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].kind == CAIRN_STEP_RUN) {
            CHECK(seen < runs);
            CHECK_U64(recorded[i].bytes, units[seen] * UNIT);
            peak = peak < units[seen] ? units[seen] : peak;
            seen++;
        }
    CHECK_U64(seen, runs);
    CHECK_U64(sim->summary->peak_bytes, peak * UNIT);
    CHECK_U64((uint64_t)sim->summary->time_ns, (uint64_t)time_ns);
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
}

#define TRACE(g, costs, options, time_ns, text, ...)                                               \
    do {                                                                                           \
        uint64_t units[] = {__VA_ARGS__};                                                          \
        trace(g, costs, options, text, units, sizeof units / sizeof *units, time_ns);              \
    } while (0)

static const cairn_sim_options plain = CAIRN_SIM_OPTIONS_INIT;

/* The abstract chain of Butt's thesis: F_l reads f_(l-1) and makes f_l; B_l reads f_l and b_(l+1)
 * and makes b_l. f_0 and b_(n+1) are given. All ops take 1. */
static cairn_graph *chain(uint32_t n, const uint64_t *f, const uint64_t *b, cairn_costs **costs) {
    hand h = hand_begin("chain");
    char name[16], in[32], out[16];
    for (uint32_t l = 0; l <= n; l++) {
        snprintf(name, sizeof name, "f%u", l);
        hand_tensor(&h, name, l == 0 ? CAIRN_ROLE_INPUT : CAIRN_ROLE_ACTIVATION, f[l]);
    }
    for (uint32_t l = 0; l <= n + 1; l++) {
        snprintf(name, sizeof name, "b%u", l);
        hand_tensor(&h, name, l == n + 1 ? CAIRN_ROLE_LABEL : CAIRN_ROLE_GRADIENT, b[l]);
    }
    for (uint32_t l = 1; l <= n; l++) {
        snprintf(name, sizeof name, "F%u", l);
        snprintf(in, sizeof in, "f%u", l - 1);
        snprintf(out, sizeof out, "f%u", l);
        hand_op(&h, name, CAIRN_PHASE_FORWARD, in, out);
    }
    for (uint32_t l = n + 1; l-- > 0;) {
        snprintf(name, sizeof name, "B%u", l);
        snprintf(in, sizeof in, "f%u b%u", l, l + 1);
        snprintf(out, sizeof out, "b%u", l);
        hand_op(&h, name, CAIRN_PHASE_BACKWARD, in, out);
    }
    cairn_graph *g = hand_finish(&h);
    *costs = hand_costs(g);
    for (cairn_id o = 0; o < cairn_graph_op_count(g); o++)
        hand_cost(g, *costs, cairn_graph_op(g, o)->name, 1, 0);
    return g;
}

/* N = 3, beta_f = 1 1 2 1, beta_b = 0 0 1 2 1, budget 6: the recurrence needs 10 ops, the true
 * optimum 9, by keeping f1 past F2 and dropping it before its own backward. */
static void test_chain_example(void) {
    cairn_costs *costs;
    cairn_graph *g = chain(3, (uint64_t[]){1, 1, 2, 1}, (uint64_t[]){0, 0, 1, 2, 1}, &costs);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.budget_bytes = 6 * UNIT;
    /* F1 f0+f1+b4 = 3;  F2 +f2 = 5;  F3 +f3 = 6;  B3 f0+f1+f3+b4+b3 = 6;  F2 f0+f1+f2+b3 = 6;
     * B2 f0+f2+b3+b2 = 6;  F1 f0+f1+b2 = 3;  B1 f0+f1+b2+b1 = 3;  B0 f0+b1+b0 = 1 */
    TRACE(g, costs, &options, 9,
          "run F1,run F2,run F3,free f2,run B3,free f3,free b4,run F2,free f1,run B2,free f2,"
          "free b3,run F1,run B1,free f1,free b2,run B0,free b1,free b0,free f0",
          3, 5, 6, 6, 6, 6, 3, 3, 1);
    /* F1 3;  F2 5;  F3 f0+f2+f3+b4 = 5;  B3 f0+f3+b4+b3 = 5;  F1 f0+f1+b3 = 4;
     * F2 f0+f1+f2+b3 = 6;  B2 6;  F1 3;  B1 3;  B0 1 */
    TRACE(g, costs, &options, 10,
          "run F1,run F2,free f1,run F3,free f2,run B3,free f3,free b4,run F1,run F2,free f1,"
          "run B2,free f2,free b3,run F1,run B1,free f1,free b2,run B0,free b1,free b0,free f0",
          3, 5, 5, 5, 4, 6, 6, 3, 3, 1);
    /* One unit less and F3 of the first does not fit. */
    cairn_plan *plan = hand_plan(g, CAIRN_GOAL_TRAIN, "run F1,run F2,run F3");
    cairn_error err = {0};
    cairn_sim *sim;
    options.budget_bytes -= 1;
    CHECK(cairn_simulate(g, costs, plan, &options, &sim, &err) == CAIRN_EINVAL);
    CHECK(sim->summary->rule == CAIRN_RULE_OVER_BUDGET);
    CHECK_U64(sim->summary->broken_step, 2);
    CHECK_STRING(err.name, "f3");
    CHECK(strstr(err.message, "step 2 (run F3) needs more memory than the budget") != NULL);
    CHECK(strstr(err.message, "384 bytes against 383") != NULL);
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* N = 4, beta_f = 1 1 5 1 1, beta_b = 0 0 0 1 5 1: "recompute everything" needs 12 where 9 would
 * do, so its peak is not the smallest budget. */
static void test_recompute_everything(void) {
    cairn_costs *costs;
    cairn_graph *g = chain(4, (uint64_t[]){1, 1, 5, 1, 1}, (uint64_t[]){0, 0, 0, 1, 5, 1}, &costs);
    /* F1 f0+f1+b5 = 3;  F2 +f2 = 8;  F3 f0+f2+f3+b5 = 8;  F4 f0+f3+f4+b5 = 4;
     * B4 f0+f4+b5+b4 = 8;  F1 f0+f1+b4 = 7;  F2 f0+f1+f2+b4 = 12;  F3 f0+f2+f3+b4 = 12;
     * B3 f0+f3+b4+b3 = 8;  F1 3;  F2 f0+f1+f2+b3 = 8;  B2 f0+f2+b3+b2 = 7;  F1 2;  B1 2;  B0 1 */
    TRACE(g, costs, &plain, 15,
          "run F1,run F2,free f1,run F3,free f2,run F4,free f3,run B4,free f4,free b5,"
          "run F1,run F2,free f1,run F3,free f2,run B3,free f3,free b4,"
          "run F1,run F2,free f1,run B2,free f2,free b3,"
          "run F1,run B1,free f1,free b2,run B0,free b1,free b0,free f0",
          3, 8, 8, 4, 8, 7, 12, 12, 8, 3, 8, 7, 2, 2, 1);
    /* Keeping f3: F1 3;  F2 8;  F3 8;  F4 f0+f3+f4+b5 = 4;  B4 f0+f3+f4+b5+b4 = 9;
     * B3 f0+f3+b4+b3 = 8;  F1 f0+f1+b3 = 3;  F2 8;  B2 7;  F1 2;  B1 2;  B0 1 */
    TRACE(g, costs, &plain, 12,
          "run F1,run F2,free f1,run F3,free f2,run F4,run B4,free f4,free b5,run B3,free f3,"
          "free b4,run F1,run F2,free f1,run B2,free f2,free b3,"
          "run F1,run B1,free f1,free b2,run B0,free b1,free b0,free f0",
          3, 8, 8, 4, 9, 8, 3, 8, 7, 2, 2, 1);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* Figure 2 of the supplement of Feng and Huang: vertices 10 8 9 6 7 10, of which the first, third
 * and last are kept: 29 + max(8, 6 + 7) = 42. A backward op reads both ends of its edge; gradients
 * weigh nothing. Figure 3's bound C = 8 forbids the segment 6 7; keeping the 6 as well costs 35 + 8
 * = 43 in the paper's count, which ignores that the last vertex is freed before the first segment
 * is recomputed. */
static void test_linear_figures(void) {
    static const uint64_t cost[] = {10, 8, 9, 6, 7, 10};
    hand h = hand_begin("figure2");
    char name[16], in[48], out[16];
    for (uint32_t v = 0; v < 6; v++) {
        snprintf(name, sizeof name, "v%u", v);
        hand_tensor(&h, name, v == 0 ? CAIRN_ROLE_INPUT : CAIRN_ROLE_ACTIVATION, cost[v]);
    }
    for (uint32_t v = 1; v < 6; v++) {
        snprintf(name, sizeof name, "g%u", v);
        hand_tensor(&h, name, CAIRN_ROLE_GRADIENT, 0);
    }
    for (uint32_t v = 1; v < 6; v++) {
        snprintf(name, sizeof name, "F%u", v);
        snprintf(in, sizeof in, "v%u", v - 1);
        snprintf(out, sizeof out, "v%u", v);
        hand_op(&h, name, CAIRN_PHASE_FORWARD, in, out);
    }
    for (uint32_t v = 6; v-- > 1;) {
        snprintf(name, sizeof name, "B%u", v);
        snprintf(in, sizeof in, "v%u v%u g%u", v - 1, v, v + 1);
        if (v == 5)
            in[5] = '\0'; /* the first reads no gradient */
        snprintf(out, sizeof out, "g%u", v);
        hand_op(&h, name, CAIRN_PHASE_BACKWARD, in, out);
    }
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    /* First pass: 10+8; 10+8+9; 19+6; 19+6+7; 19+7+10. Again: 29+6; 29+6+7 = 42; B5 42; B4 without
     * the last 32; B3 19+6; F1 again 19+8; B2 27; B1 10+8. */
    TRACE(g, costs, &plain, 0,
          "run F1,run F2,free v1,run F3,run F4,free v3,run F5,free v4,run F3,run F4,run B5,free v5,"
          "run B4,free v4,free g5,run B3,free v3,free g4,run F1,run B2,free v2,free g3,run B1,"
          "free v0,free v1,free g2,free g1",
          18, 27, 25, 32, 36, 35, 42, 42, 32, 25, 27, 27, 18);
    /* With the 6 kept: 18; 27; 25; 32; 25+7+10; again only 35+7 = 42; then 42, 32, 25, 27, 27, 18.
     */
    TRACE(g, costs, &plain, 0,
          "run F1,run F2,free v1,run F3,run F4,run F5,free v4,run F4,run B5,free v5,run B4,free v4,"
          "free g5,run B3,free v3,free g4,run F1,run B2,free v2,free g3,run B1,free v0,free v1,"
          "free g2,free g1",
          18, 27, 25, 32, 42, 42, 42, 32, 25, 27, 27, 18);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* Figure 4 of the supplement of Feng and Huang: checkpoints i k t j and between them five
 * independent segments, each of which is recomputed by itself. The numbers are added here:
 *
 *     i(2) --a(4)-- k(3) --c(2)-- t(2)      i --b(1)-- t      k --d(5)-- j(1)      t --e(3)-- j
 */
static void test_segments_figure(void) {
    hand h = hand_begin("figure4");
    static const struct {
        const char *name;
        uint64_t units;
    } vertices[] = {{"i", 2}, {"a", 4}, {"k", 3}, {"b", 1}, {"c", 2},
                    {"t", 2}, {"d", 5}, {"e", 3}, {"j", 1}};
    for (uint32_t v = 0; v < 9; v++)
        hand_tensor(&h, vertices[v].name, v == 0 ? CAIRN_ROLE_INPUT : CAIRN_ROLE_ACTIVATION,
                    vertices[v].units);
    static const char *const gradients[] = {"gj", "ge", "gd", "gt", "gc", "gb", "gk", "ga"};
    for (uint32_t v = 0; v < 8; v++)
        hand_tensor(&h, gradients[v], CAIRN_ROLE_GRADIENT, 0);
    static const char *const forward[][3] = {{"A", "i", "a"}, {"K", "a", "k"},   {"B", "i", "b"},
                                             {"C", "k", "c"}, {"T", "b c", "t"}, {"D", "k", "d"},
                                             {"E", "t", "e"}, {"J", "d e", "j"}};
    for (uint32_t o = 0; o < 8; o++)
        hand_op(&h, forward[o][0], CAIRN_PHASE_FORWARD, forward[o][1], forward[o][2]);
    static const char *const backward[][3] = {
        {"J'", "j", "gj"},    {"E'", "e gj", "ge"}, {"D'", "d gj", "gd"},    {"T'", "t ge", "gt"},
        {"C'", "c gt", "gc"}, {"B'", "b gt", "gb"}, {"K'", "k gc gd", "gk"}, {"A'", "a gk", "ga"}};
    for (uint32_t o = 0; o < 8; o++)
        hand_op(&h, backward[o][0], CAIRN_PHASE_BACKWARD, backward[o][1], backward[o][2]);
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    /* First pass: A 2+4; K 2+4+3; B 2+3+1; C 5+1+2; T 5+1+2+2; D 7+5; E 7+5+3; J 7+5+3+1 = 16;
     * then only i k t j = 8: J' 8; without j 7: E 7+3, E' 10; D 7+5, D' 12; T' 7; without t 5:
     * C 5+2, C' 7; B 5+1, B' 6; K' 5; without k: A 2+4, A' 6. */
    TRACE(g, costs, &plain, 0,
          "run A,run K,free a,run B,run C,run T,free b,free c,run D,run E,run J,free d,free e,"
          "run J',free j,run E,run E',free e,run D,run D',free d,free gj,run T',free t,free ge,"
          "run C,run C',free c,run B,run B',free b,free gt,free gb,run K',free k,free gc,free gd,"
          "run A,run A',free i,free a,free gk,free ga",
          6, 9, 6, 8, 10, 12, 15, 16, 8, 10, 10, 12, 12, 7, 7, 7, 6, 6, 5, 6, 6);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* The worked example of offloading: x = 2 4 4 3 1 1, F3 takes 3, B1 B3 B4 take 2 2 3, F4 has a
 * temporary of 3 and B2 of 4, memory 15; one unit over the link takes 1. Whole-tensor transfers,
 * one at a time. Ordered schedules need 12; interleaving offloads and prefetches 10. */
static void test_offload_example(void) {
    static const uint64_t x[] = {2, 4, 4, 3, 1, 1};
    hand h = hand_begin("offload");
    char name[16], in[48], out[16];
    for (uint32_t i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "x%u", i);
        hand_tensor(&h, name, i == 0 ? CAIRN_ROLE_INPUT : CAIRN_ROLE_ACTIVATION, x[i]);
    }
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "y%u", i);
        hand_tensor(&h, name, CAIRN_ROLE_GRADIENT, 0);
    }
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "F%u", i);
        snprintf(in, sizeof in, "x%u", i);
        snprintf(out, sizeof out, "x%u", i + 1);
        hand_op(&h, name, CAIRN_PHASE_FORWARD, in, out);
    }
    for (uint32_t i = 5; i-- > 0;) {
        snprintf(name, sizeof name, "B%u", i);
        snprintf(in, sizeof in, "x%u x%u y%u", i, i + 1, i + 1);
        if (i == 4)
            in[5] = '\0';
        snprintf(out, sizeof out, "y%u", i);
        hand_op(&h, name, CAIRN_PHASE_BACKWARD, in, out);
    }
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    hand_cost(g, costs, "F3", 3, 0);
    hand_cost(g, costs, "F4", 0, 3);
    hand_cost(g, costs, "B4", 3, 0);
    hand_cost(g, costs, "B3", 2, 0);
    hand_cost(g, costs, "B2", 0, 4);
    hand_cost(g, costs, "B1", 2, 0);
    cairn_machine machine = {.struct_size = sizeof(cairn_machine),
                             .link_bytes_per_second = UNIT * (uint64_t)1000000000,
                             .memory_bytes = 15 * UNIT,
                             .host_memory_bytes = 5 * UNIT};
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = &machine;
    options.budget_bytes = 15 * UNIT;
    /* x3 goes 0-3 during F3 and comes 3-6 during B4; x0 goes 6-8 during B3 and comes 8-10 during
     * B1. F0 2+4; F1 10; F2 13; F3 14; F4 2+4+4+1+1+3 = 15; B4 12+3 = 15; B3 without x5 14;
     * B2 4+4+3+4 = 15; B1 2+4+4 = 10; B0 2+4. */
    TRACE(g, costs, &options, 10,
          "run F0,run F1,run F2,offload x3,run F3,wait x3,free x3,run F4,fetch x3,run B4,free x5,"
          "wait x3,offload x0,run B3,free x4,free y4,wait x0,free x0,run B2,free x3,free y3,"
          "fetch x0,run B1,free x2,free y2,wait x0,run B0,free x0,free x1,free y1,free y0",
          6, 10, 13, 14, 15, 15, 14, 15, 10, 6);
    /* Ordered: x0 0-2, x3 2-5 (compute waits 3-5), x3 back 5-8, B3 8-10, x0 back 10-12.
     * F0 to F3 as before; F4 without x0 and x3 4+4+1+1+3 = 13; B4 10+3; B3 without x5 12;
     * B2 4+4+3+4 = 15; B1 10; B0 6. */
    TRACE(g, costs, &options, 12,
          "run F0,offload x0,run F1,run F2,offload x3,run F3,wait x0,free x0,wait x3,free x3,"
          "run F4,fetch x3,run B4,free x5,wait x3,run B3,free x4,free y4,run B2,free x3,free y3,"
          "fetch x0,run B1,free x2,free y2,wait x0,run B0,free x0,free x1,free y1,free y0",
          6, 10, 13, 14, 13, 13, 12, 15, 10, 6);
    /* The host must hold x0 and x3, which are five units; one byte less is not enough. */
    cairn_plan *plan = hand_plan(g, CAIRN_GOAL_TRAIN, "offload x0,run F0,run F1,run F2,offload x3");
    cairn_error err = {0};
    cairn_sim *sim;
    machine.host_memory_bytes--;
    CHECK(cairn_simulate(g, costs, plan, &options, &sim, &err) == CAIRN_EINVAL);
    CHECK(sim->summary->rule == CAIRN_RULE_HOST_FULL);
    CHECK_STRING(err.name, "x3");
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* Two copy lanes or one: a copy in runs at the same time as the copy out, or after it. Compute goes
 * on until the wait. */
static void test_duplex(void) {
    hand h = hand_begin("duplex");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 4);
    hand_tensor(&h, "z", CAIRN_ROLE_INPUT, 2);
    hand_tensor(&h, "y", CAIRN_ROLE_GRADIENT, 1);
    hand_op(&h, "P", CAIRN_PHASE_BACKWARD, "z", "y");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    hand_cost(g, costs, "P", 3, 0);
    cairn_machine machine = {.struct_size = sizeof(cairn_machine),
                             .link_bytes_per_second = UNIT * (uint64_t)1000000000,
                             .link_latency_ns = 1,
                             .memory_bytes = UNIT,
                             .host_memory_bytes = 64 * UNIT};
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = &machine;
    const char *text = "offload z,wait z,free z,offload x,fetch z,wait z,run P,free y,free z,"
                       "wait x,free x";
    cairn_plan *plan = hand_plan(g, CAIRN_GOAL_TRAIN, text);
    for (int full = 0; full < 2; full++) {
        cairn_error err = {0};
        cairn_sim *sim;
        machine.full_duplex = full == 1;
        CHECK_OK(cairn_simulate(g, costs, plan, &options, &sim, &err), &err);
        const cairn_sim_summary *s = sim->summary;
        const cairn_sim_step *steps = sim->steps;
        /* z out 0-3, x out 3-8. Full: z in 3-6, P 6-9. Half: z in 8-11, P 11-14. */
        CHECK_U64((uint64_t)steps[3].start_ns, 3);
        CHECK_U64((uint64_t)steps[3].end_ns, 8);
        CHECK_U64((uint64_t)steps[4].start_ns, full ? 3 : 8);
        CHECK_U64((uint64_t)steps[6].start_ns, full ? 6 : 11);
        CHECK_U64((uint64_t)s->time_ns, full ? 9 : 14);
        CHECK_U64((uint64_t)s->idle_ns, full ? 3 + 3 : 3 + 8);
        CHECK_U64((uint64_t)s->compute_ns, 3);
        CHECK_U64((uint64_t)s->copy_out_ns, 8);
        CHECK_U64((uint64_t)s->copy_in_ns, 3);
        CHECK_U64(s->host_bytes, 6 * UNIT);
        cairn_sim_destroy(sim);
    }
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* x -> flatten -> in place: the operand must be alone in its storage. */
static void test_alias_and_inplace(void) {
    hand h = hand_begin("alias");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 3);
    hand_tensor(&h, "a", CAIRN_ROLE_ACTIVATION, 3);
    hand_alias(&h, "flat", "a");
    hand_tensor(&h, "y", CAIRN_ROLE_ACTIVATION, 3);
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 1);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "a");
    hand_op(&h, "Flat", CAIRN_PHASE_FORWARD, "a", "flat");
    hand_permit(&h, 0, 0);
    hand_op(&h, "Relu", CAIRN_PHASE_FORWARD, "flat", "y");
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "y", "loss");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    /* A 3+3; the alias adds nothing; x is gone and Relu is in place: 3; Loss 3+1. */
    TRACE(g, costs, &plain, 0, "run A,free x,run Flat,free a,run Relu inplace,run Loss,free y", 6,
          3, 3, 4);
    /* Freeing the root leaves the storage to its alias: Relu beside it 6. */
    TRACE(g, costs, &plain, 0, "run A,free x,run Flat,free a,run Relu,free flat,run Loss,free y", 6,
          3, 6, 4);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A,free x,run Flat,run Relu inplace", INPLACE_SHARED,
               3, "flat");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN,
               "run A,free x,run Flat,free a,run Relu inplace,run Loss,free y,free flat",
               FREED_TWICE, 7, "flat");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A,free x,run Flat,free a,run Relu inplace,run Relu",
               READ_OVERWRITTEN, 5, "flat");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A,run Flat,free a,run Relu,run Relu inplace",
               INPLACE_FORBIDDEN, 4, "y");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A,run Flat,free flat,run Relu", READ_AFTER_FREE, 3,
               "flat");
    /* Evaluation ends with what the loss reads. */
    CHECK_LEGAL(g, costs, CAIRN_GOAL_INFER, "run A,free x,run Flat,free a,run Relu inplace");
    CHECK_RULE(g, costs, CAIRN_GOAL_INFER, "run A,free x,run Flat,free a", NEVER_MADE, 4, "y");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* A weight that is used twice: its gradient has one storage, in which the sum is made. */
static void test_shared_weight(void) {
    hand h = hand_begin("shared");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 1);
    hand_tensor(&h, "w", CAIRN_ROLE_PARAMETER, 9);
    hand_stationary(&h, "g", "w");
    hand_tensor(&h, "part", CAIRN_ROLE_GRADIENT, 9);
    hand_stationary(&h, "sum", "w");
    hand_flag(&h, CAIRN_OP_FLAG_NEVER_AGAIN);
    hand_op(&h, "G", CAIRN_PHASE_BACKWARD, "x", "g");
    hand_op(&h, "Part", CAIRN_PHASE_BACKWARD, "x", "part");
    hand_flag(&h, CAIRN_OP_FLAG_NEVER_AGAIN);
    hand_permit(&h, 0, 0);
    hand_op(&h, "Sum", CAIRN_PHASE_BACKWARD, "g part", "sum");
    hand_flag(&h, CAIRN_OP_FLAG_ONCE);
    hand_op(&h, "Step", CAIRN_PHASE_UPDATE, "sum", "");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    /* G x only: the gradient is stationary; Part 1+9; Sum the same, in place outside; Step 0. */
    TRACE(g, costs, &plain, 0, "run G,run Part,free x,run Sum inplace,free part,run Step", 1, 10, 9,
          0);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run G,run Part,run Sum", INPLACE_MISSING, 2, "sum");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run G,run Part,run Sum inplace,run G", NEVER_AGAIN, 3,
               "G");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run G,run Part,run Sum inplace,free sum",
               FREE_STATIONARY, 3, "sum");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run Part,run Sum inplace", INPUT_NEVER_MADE, 1, "g");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run G,run Part,run Sum inplace,run Step,run Step",
               ONCE_TWICE, 4, "Step");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run G,run Part,free part,free x", NEVER_MADE, 4, "sum");
    /* Outside: the weight, one slot of an optimiser, and one place for the gradient. */
    CHECK_U64(cairn_stationary_bytes(g, costs, 1), (9 + 9 + 9) * UNIT);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* ---- Real layers ---- */

static cairn_graph *differentiated(cairn_builder *b) {
    cairn_error err = {0};
    cairn_graph *forward, *g;
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    cairn_builder_destroy(b);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &g, &err), &err);
    cairn_graph_destroy(forward);
    return g;
}

/* Two linear layers with a ReLU between, batch 4: 16 -> 32 -> 8 features. In units: input 4 x 16
 * floats 4, label 1, fc1 8, fc2 2 (and its probabilities), loss 1. `none` works in place wherever
 * possible. */
static void test_none_by_hand(void) {
    cairn_error err = {0};
    cairn_builder *b;
    CHECK_OK(cairn_builder_create(NULL, "two", &b), &err);
    cairn_id x = crn_build_input(b, "x", 2, (uint32_t[]){4, 16});
    x = crn_build_linear(b, "fc1", x, 32);
    x = crn_build_relu(b, "relu", x);
    x = crn_build_linear(b, "fc2", x, 8);
    cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){4});
    crn_build_cross_entropy(b, "loss", x, label);
    cairn_graph *g = differentiated(b);
    cairn_costs *costs = hand_costs(g);
    /* fc1 4+1+8 = 13; relu in its place; fc2 15; loss 16, the probabilities in place of fc2;
     * their gradient in place again, then the label goes: fc2.bwd_weight 4+8+2+1 = 15;
     * fc2.bwd_data + relu.grad 23; relu.bwd in place, without fc2.grad: 21;
     * fc1.bwd_weight without relu: 4+8+1 = 13. */
    TRACE(g, costs, &plain, 0,
          "run fc1,run relu inplace,run fc2,run loss inplace,run loss.bwd inplace,free label,"
          "run fc2.bwd_weight,run fc2.bwd_data,free fc2.grad,run relu.bwd inplace,free relu,"
          "run fc1.bwd_weight,free x,free fc1.grad",
          13, 13, 15, 16, 16, 15, 23, 21, 13);
    cairn_solution *none;
    cairn_plan *mine;
    CHECK_OK(cairn_solve(g, costs, "none", NULL, &none, &err), &err);
    mine = hand_plan(g, CAIRN_GOAL_TRAIN,
                     "run fc1,run relu inplace,run fc2,run loss inplace,run loss.bwd inplace,"
                     "free label,run fc2.bwd_weight,run fc2.bwd_data,free fc2.grad,"
                     "run relu.bwd inplace,free relu,run fc1.bwd_weight,free x,free fc1.grad");
    const cairn_step *steps = none->plan->steps;
    uint32_t count = none->plan->step_count;
    const cairn_step *my_steps = mine->steps;
    uint32_t my_count = mine->step_count;
    CHECK_U64(count, my_count);
    CHECK(count == my_count && memcmp(steps, my_steps, count * sizeof *steps) == 0);
    CHECK_U64(none->plan->header->predicted_peak_bytes, 23 * UNIT);
    cairn_plan_destroy(mine);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* Batch-norm and dropout run again: running statistics are updated only by the first run and the
 * mask is the same, so only time and memory differ. Batch 2, 3 channels of 4 x 4: a tensor is 96
 * floats, 6 units; statistics 1. */
static void test_once_and_random(void) {
    cairn_error err = {0};
    cairn_builder *b;
    CHECK_OK(cairn_builder_create(NULL, "once", &b), &err);
    cairn_id x = crn_build_input(b, "x", 4, (uint32_t[]){2, 3, 4, 4});
    x = crn_build_batch_norm(b, "bn", x, 1e-5);
    x = crn_build_dropout(b, "drop", x, 0.5);
    x = crn_build_flatten(b, "flat", x);
    x = crn_build_linear(b, "fc", x, 5);
    cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){2});
    crn_build_cross_entropy(b, "loss", x, label);
    cairn_graph *g = differentiated(b);
    cairn_costs *costs = hand_costs(g);
    CHECK(cairn_graph_op(g, crn_graph_find_op(g, "bn"))->flags & CAIRN_OP_FLAG_ONCE);
    CHECK(cairn_graph_op(g, crn_graph_find_op(g, "drop"))->flags & CAIRN_OP_FLAG_RANDOM);
    /* x 6, label 1. bn 6+1+6+1 = 14; drop in place, without the statistics 13; flat, an alias, 13;
     * fc +1 = 14; without flat the loss, its probabilities in place, 6+1+1+1 = 9; its gradient in
     * place 9; bn again, without the label, 8+6+1 = 15; drop, flat again and fc.bwd_weight 15;
     * fc.bwd_data without flat 9+6 = 15; flat.bwd, an alias, without fc.grad 14; drop.bwd in place
     * 14; bn.bwd makes only stationary tensors, because the gradient of x is not computed: 14. */
    TRACE(g, costs, &plain, 0,
          "run bn,free bn.stats,run drop inplace,run flat,free drop,run fc,free flat,"
          "run loss inplace,run loss.bwd inplace,free label,run bn,run drop inplace,run flat,"
          "free drop,run fc.bwd_weight,free flat,run fc.bwd_data,free fc.grad,run flat.bwd,"
          "free flat.grad,run drop.bwd inplace,run bn.bwd,free x,free bn.stats,free bn.grad",
          14, 13, 13, 14, 9, 9, 15, 15, 15, 15, 15, 14, 14, 14);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN,
               "run bn,run drop inplace,run flat,free drop,run fc,run loss inplace,"
               "run loss.bwd inplace,free label,run fc.bwd_weight,run fc.bwd_weight",
               NEVER_AGAIN, 9, "fc.bwd_weight");
    CHECK_RULE(g, costs, CAIRN_GOAL_INFER,
               "run bn,free bn.stats,run drop inplace,run flat,free drop,run fc,run loss",
               INPUT_NEVER_MADE, 6, "label");
    CHECK_RULE(g, costs, CAIRN_GOAL_INFER, "run bn,run loss.bwd", NOT_OF_GOAL, 1, "loss.bwd");
    CHECK_LEGAL(g, costs, CAIRN_GOAL_INFER,
                "run bn,free x,free bn.stats,run drop inplace,run flat,free drop,run fc,free flat");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

int main(void) {
    test_chain_example();
    test_recompute_everything();
    test_linear_figures();
    test_segments_figure();
    test_offload_example();
    test_duplex();
    test_alias_and_inplace();
    test_shared_weight();
    test_none_by_hand();
    test_once_and_random();
    return check_result();
}
