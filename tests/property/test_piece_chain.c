/* test_piece_chain.c: chains of pieces against exhaustive search.
 *
 * Random pieces consist of a few ops with their own tensors, gradients and reads. They are measured
 * alone, which gives the figures of piece_chain.h. Then every nested schedule of a small chain is
 * simulated op by op with all tensors counted. The best costs for every memory must be those of the
 * table. */
#include "base/rng.h"
#include "check.h"
#include "solve/chain/piece_grid.h"
#include "ration.h"

#define OPS 3
#define PIECES 6
#define WAYS 2

static crn_rng rng = {20240607};

static uint64_t below(uint64_t bound) {
    return crn_rng_below(&rng, bound);
}

/* ---- Pieces made of ops ---- */

typedef struct body {
    uint32_t ops;
    uint64_t size[OPS + 1], gradient[OPS + 1]; /* of tensor 0 (the input) .. ops (the output) */
    int64_t forward[OPS + 1], backward[OPS + 1];
    bool reads_input[OPS + 2], reads_output[OPS + 1]; /* whether the backward of an op reads them */
} body;

typedef struct meter {
    uint64_t live, peak;
    int64_t time;
} meter;

static void take(meter *m, uint64_t bytes) {
    m->live += bytes;
    m->peak = CRN_MAX(m->peak, m->live);
}

/* Whether the backward of this piece reads its tensor i. */
static bool needed(const body *p, uint32_t i) {
    return i > 0 && (p->reads_output[i] || (i < p->ops && p->reads_input[i + 1]));
}

static void run_op(const body *p, uint32_t i, meter *m) {
    take(m, p->size[i]);
    m->time += p->forward[i];
}

/* Run the piece and keep only the output. */
static void run_discarding(const body *p, bool owns_input, meter *m) {
    for (uint32_t i = 1; i <= p->ops; i++) {
        run_op(p, i, m);
        if (i > 1 || owns_input)
            m->live -= p->size[i - 1];
    }
}

/* Run the piece and keep what the backward reads, up to tensor `last`, and that tensor. */
static void run_keeping(const body *p, uint32_t last, meter *m) {
    for (uint32_t i = 1; i <= last; i++) {
        run_op(p, i, m);
        if (i > 1 && !needed(p, i - 1))
            m->live -= p->size[i - 1];
    }
}

static void run_again(const body *p, bool have_output, meter *m) {
    uint32_t last = have_output ? p->ops - 1 : p->ops;
    while (last > 0 && !needed(p, last))
        last--;
    run_keeping(p, last, m);
}

/* Run the backward: it frees the gradient of the output and makes that of the input. */
static void run_backward(const body *p, meter *m) {
    for (uint32_t i = p->ops; i > 0; i--) {
        take(m, p->gradient[i - 1]);
        m->time += p->backward[i];
        m->live -= p->gradient[i];
        if (p->reads_output[i])
            m->live -= p->size[i];
        if (needed(p, i - 1) && !p->reads_output[i - 1])
            m->live -= p->size[i - 1];
    }
}

/* Forward and backward of keeping: way 0 keeps all that is read, way 1 only the output. */
static void keep_forward(const body *p, uint32_t way, meter *m) {
    if (way == 0)
        run_keeping(p, p->ops, m);
    else
        run_discarding(p, false, m);
}

static void keep_backward(const body *p, uint32_t way, meter *m) {
    if (!needed(p, p->ops))
        m->live -= p->size[p->ops];
    if (way == 1)
        run_again(p, needed(p, p->ops), m);
    run_backward(p, m);
}

/* ---- Measuring a piece alone ---- */

static crn_piece_way measure_way(const body *p, uint32_t way) {
    meter forward = {0, 0, 0}, backward = {0, 0, 0};
    keep_forward(p, way, &forward);
    backward.live = forward.live + p->gradient[p->ops];
    keep_backward(p, way, &backward);
    return (crn_piece_way){forward.peak, forward.live, backward.peak, forward.time, backward.time};
}

static crn_piece_way measure_again(const body *p) {
    meter forward = {0, 0, 0}, backward = {0, 0, 0};
    run_again(p, false, &forward);
    backward.live = forward.live + p->gradient[p->ops];
    run_backward(p, &backward);
    return (crn_piece_way){forward.peak, 0, backward.peak, forward.time, backward.time};
}

static crn_piece measure(const body *p, crn_piece_way *ways, uint32_t way_count) {
    meter discard = {0, 0, 0}, pass = {p->size[0], p->size[0], 0};
    run_discarding(p, false, &discard);
    run_discarding(p, true, &pass);
    for (uint32_t k = 0; k < way_count; k++)
        ways[k] = measure_way(p, k);
    return (crn_piece){p->size[0], p->gradient[0],   discard.time, discard.peak,
                       pass.peak,  measure_again(p), ways,         way_count};
}

/* ---- A random chain ---- */

typedef struct sample {
    uint32_t count, way_count;
    body bodies[PIECES];
    crn_piece pieces[PIECES];
    crn_piece_way ways[PIECES][WAYS];
    crn_piece_chain chain;
} sample;

static void make_body(body *p, uint64_t size, uint64_t gradient, uint64_t most) {
    p->ops = 1 + (uint32_t)below(OPS);
    p->size[0] = size;
    p->gradient[0] = gradient;
    for (uint32_t i = 1; i <= p->ops; i++) {
        p->size[i] = below(most);
        p->gradient[i] = below(most);
        p->forward[i] = (int64_t)below(9);
        p->backward[i] = (int64_t)below(9);
        p->reads_input[i] = below(2);
        p->reads_output[i] = below(2);
    }
    p->reads_input[p->ops + 1] = false;
}

static void make_sample(sample *s, uint32_t count, bool periodic) {
    uint64_t most = 1 + below(20);
    *s = (sample){.count = count, .way_count = (uint32_t)below(WAYS + 1)};
    for (uint32_t a = 0; a < count; a++) {
        body *p = &s->bodies[a];
        const body *last = a > 0 ? &s->bodies[a - 1] : NULL;
        uint64_t size = last != NULL ? last->size[last->ops] : below(most);
        uint64_t gradient = last != NULL ? last->gradient[last->ops] : 0;
        if (periodic && a > 1 && below(4) > 0) {
            *p = s->bodies[a - 1];
            p->size[p->ops] = p->size[0] = size;
            p->gradient[p->ops] = p->gradient[0] = gradient;
        } else {
            make_body(p, size, gradient, most);
        }
        s->pieces[a] = measure(p, s->ways[a], s->way_count);
    }
    const body *end = &s->bodies[count - 1];
    s->chain = (crn_piece_chain){s->pieces, count, end->gradient[end->ops]};
}

/* ---- Every nested schedule, walked ---- */

/* The number of schedules of `length` pieces; `last`: the last one is the last of the chain. */
static uint64_t schedules(const sample *s, uint32_t length, bool last) {
    if (length == 1)
        return last && s->way_count > 0 ? s->way_count : 1;
    uint64_t count = s->way_count * schedules(s, length - 1, last);
    for (uint32_t j = 1; j < length; j++)
        count += schedules(s, length - j, last) * schedules(s, j, false);
    return count;
}

static void walk(const sample *s, uint32_t a, uint32_t b, uint64_t index, meter *m);

static void walk_leaf(const sample *s, uint32_t a, uint64_t index, meter *m) {
    if (a + 1 == s->count && s->way_count > 0) {
        keep_forward(&s->bodies[a], (uint32_t)index, m);
        keep_backward(&s->bodies[a], (uint32_t)index, m);
    } else {
        run_again(&s->bodies[a], false, m);
        run_backward(&s->bodies[a], m);
    }
}

static void walk_checkpoint(const sample *s, uint32_t a, uint32_t j, uint32_t b, uint64_t index,
                            meter *m) {
    uint64_t left = schedules(s, j - a, false);
    for (uint32_t i = a; i < j; i++)
        run_discarding(&s->bodies[i], i > a, m);
    walk(s, j, b, index / left, m);
    m->live -= s->bodies[j].size[0];
    walk(s, a, j - 1, index % left, m);
}

/* Simulate the schedule with this number over a..b; cut a and the gradient of cut b+1 are live. */
static void walk(const sample *s, uint32_t a, uint32_t b, uint64_t index, meter *m) {
    bool last = b + 1 == s->count;
    if (a == b) {
        walk_leaf(s, a, index, m);
        return;
    }
    uint64_t rest = schedules(s, b - a, last);
    if (index < s->way_count * rest) {
        keep_forward(&s->bodies[a], (uint32_t)(index / rest), m);
        walk(s, a + 1, b, index % rest, m);
        keep_backward(&s->bodies[a], (uint32_t)(index / rest), m);
        return;
    }
    index -= s->way_count * rest;
    for (uint32_t j = a + 1; j <= b; j++) {
        uint64_t here = schedules(s, b + 1 - j, last) * schedules(s, j - a, false);
        if (index < here) {
            walk_checkpoint(s, a, j, b, index, m);
            return;
        }
        index -= here;
    }
}

/* Simulate a schedule of the table. Returns the number of nodes used. */
static uint32_t walk_nodes(const sample *s, const crn_piece_node *node, meter *m) {
    const body *p = &s->bodies[node->first];
    uint32_t used = 1;
    if (node->kind == CRN_PIECE_LEAF) {
        walk_leaf(s, node->first, node->choice, m);
    } else if (node->kind == CRN_PIECE_KEEP) {
        keep_forward(p, node->choice, m);
        used += walk_nodes(s, node + 1, m);
        keep_backward(p, node->choice, m);
    } else {
        for (uint32_t i = node->first; i < node->choice; i++)
            run_discarding(&s->bodies[i], i > node->first, m);
        used += walk_nodes(s, node + used, m);
        m->live -= s->bodies[node->choice].size[0];
        used += walk_nodes(s, node + used, m);
    }
    return used;
}

/* ---- Comparing ---- */

static void check_schedules(const sample *s, const crn_piece_table *table, crn_arena *arena) {
    crn_curve curve = crn_piece_curve(table);
    for (uint32_t i = 0; i < curve.count; i++) {
        crn_piece_nodes nodes = {0};
        meter m = {s->chain.final_gradient, 0, 0};
        CHECK(crn_piece_schedule(table, 0, s->count - 1, curve.points[i].memory, arena, &nodes) ==
              CAIRN_OK);
        CHECK(walk_nodes(s, nodes.data, &m) == nodes.length);
        CHECK(m.time == curve.points[i].cost);
        CHECK(m.peak <= curve.points[i].memory);
        CHECK(m.live == s->bodies[0].gradient[0]);
    }
}

static uint32_t attained, not_attained; /* by tables of short parts */

/* A table of short parts is nowhere above the exact one, and if it has a schedule, that one is
 * optimal. */
static void check_longest(const crn_piece_chain *chain, crn_curve curve, uint64_t memory,
                          uint32_t longest, crn_arena *arena) {
    crn_piece_options options = {.memory = memory, .longest = longest};
    crn_piece_table *table;
    cairn_error err = {0};
    CHECK_OK(crn_piece_solve(chain, &options, arena, &table), &err);
    for (uint32_t i = 0; i < curve.count; i += 1 + curve.count / 64) {
        crn_piece_nodes nodes = {0};
        crn_piece_need need;
        uint64_t at = curve.points[i].memory;
        CHECK(crn_piece_time(table, 0, chain->count - 1, at) <= curve.points[i].cost);
        CHECK_OK(crn_piece_schedule(table, 0, chain->count - 1, at, arena, &nodes), &err);
        *(nodes.length > 0 ? &attained : &not_attained) += 1;
        if (nodes.length == 0) {
            CHECK(longest < chain->count);
            continue;
        }
        CHECK_OK(crn_piece_judge(chain, nodes.data, nodes.length, arena, &need), &err);
        CHECK(need.time == curve.points[i].cost && need.memory <= at);
    }
}

static void check_sample(const sample *s, uint64_t memory, bool whole) {
    crn_arena arena;
    crn_arena_init(&arena, NULL);
    cairn_error err = {0};
    crn_piece_table *table;
    crn_envelope truth;
    crn_piece_options options = {.memory = memory, .whole = whole};
    uint64_t least = UINT64_MAX;
    CHECK_OK(crn_piece_check(&s->chain, &err), &err);
    CHECK_OK(crn_piece_solve(&s->chain, &options, &arena, &table), &err);
    crn_envelope_init(&truth, &arena);
    truth.span.end = memory == UINT64_MAX ? UINT64_MAX : memory + 1;
    for (uint64_t i = 0, count = schedules(s, s->count, true); i < count; i++) {
        meter m = {s->chain.final_gradient, 0, 0};
        walk(s, 0, s->count - 1, i, &m);
        least = CRN_MIN(least, m.peak);
        CHECK_OK(crn_envelope_add_point(&truth, m.peak, m.time), &err);
    }
    crn_curve curve = crn_piece_curve(table);
    CHECK_U64(crn_piece_least_memory(table), least);
    CHECK_U64(curve.count, truth.count);
    CHECK(curve.count == truth.count &&
          (curve.count == 0 ||
           memcmp(curve.points, truth.points, curve.count * sizeof *curve.points) == 0));
    CHECK(!crn_piece_thinned(table));
    check_schedules(s, table, &arena);
    check_longest(&s->chain, curve, memory, 1 + (uint32_t)below(s->count), &arena);
    crn_arena_release(&arena);
}

/* ---- The grid against the table ---- */

/* With slots of one byte the grid is exact; with coarse ones it brackets. */
static void check_grid(const sample *s, const crn_piece_table *table, uint32_t slots,
                       crn_arena *arena) {
    crn_curve curve = crn_piece_curve(table), upper, lower;
    crn_piece_grid *up, *down;
    cairn_error err = {0};
    CHECK_OK(crn_piece_grid_solve(&s->chain, UINT64_MAX, slots, false, arena, &up), &err);
    CHECK_OK(crn_piece_grid_solve(&s->chain, UINT64_MAX, slots, true, arena, &down), &err);
    CHECK_OK(crn_piece_grid_curve(up, arena, &upper), &err);
    CHECK_OK(crn_piece_grid_curve(down, arena, &lower), &err);
    for (uint64_t memory = 0; memory < 150; memory++) {
        int64_t exact = crn_curve_at(curve, memory), time = 0;
        crn_piece_nodes nodes = {0};
        crn_piece_need need;
        bool found;
        CHECK(crn_piece_grid_time(down, memory) <= exact &&
              exact <= crn_piece_grid_time(up, memory));
        CHECK(crn_curve_at(lower, memory) == crn_piece_grid_time(down, memory));
        CHECK(crn_curve_at(upper, memory) == crn_piece_grid_time(up, memory));
        CHECK(slots < 5000 || crn_piece_grid_time(up, memory) == exact);
        CHECK(slots < 5000 || crn_piece_grid_time(down, memory) == exact);
        CHECK_OK(crn_piece_grid_schedule(up, memory, arena, &nodes, &time, &found), &err);
        CHECK(found || crn_piece_grid_time(up, memory) == CRN_CURVE_NEVER);
        if (!found)
            continue;
        CHECK_OK(crn_piece_judge(&s->chain, nodes.data, nodes.length, arena, &need), &err);
        CHECK(need.time == time && need.memory <= memory && time >= exact);
        CHECK(time <= crn_piece_grid_time(up, memory));
    }
}

static void test_grid(void) {
    static sample s;
    cairn_error err = {0};
    for (int round = 0; round < 400; round++) {
        crn_arena arena;
        crn_piece_table *table;
        crn_piece_nodes nodes = {0};
        crn_piece_need need;
        crn_arena_init(&arena, NULL);
        make_sample(&s, 1 + (uint32_t)below(PIECES), round % 3 == 0);
        crn_piece_options options = {.memory = UINT64_MAX};
        CHECK_OK(crn_piece_solve(&s.chain, &options, &arena, &table), &err);
        check_grid(&s, table, 5000, &arena);
        check_grid(&s, table, 3 + (uint32_t)below(40), &arena);
        CHECK_OK(crn_piece_least_schedule(table, &arena, &nodes), &err);
        CHECK_OK(crn_piece_judge(&s.chain, nodes.data, nodes.length, &arena, &need), &err);
        CHECK_U64(need.memory, crn_piece_least_memory(table));
        crn_arena_release(&arena);
    }
}

static void test_against_all_schedules(void) {
    static sample s;
    for (int round = 0; round < 3000; round++) {
        make_sample(&s, 1 + (uint32_t)below(round % 8 == 0 ? 6 : 5), round % 3 == 0);
        check_sample(&s, UINT64_MAX, round % 2 == 0);
        if (round % 4 == 0)
            check_sample(&s, below(60), round % 8 == 0);
    }
}

/* ---- Long chains ---- */

static void make_long(crn_piece *pieces, crn_piece_way *ways, uint32_t count, bool equal) {
    for (uint32_t a = 0; a < count; a++) {
        uint64_t size = equal ? 64 : 1000 + below(100000), time = equal ? 10 : 100 + below(1000);
        pieces[a] = (crn_piece){.input_bytes = size,
                                .gradient_bytes = size,
                                .forward_time = (int64_t)time,
                                .ways = &ways[a],
                                .way_count = 1};
    }
    for (uint32_t a = 0; a < count; a++) {
        crn_piece *p = &pieces[a];
        uint64_t in = p->input_bytes, out = a + 1 < count ? pieces[a + 1].input_bytes : 0;
        p->discard_peak = 2 * out;
        p->pass_peak = in + 2 * out;
        p->again = (crn_piece_way){3 * out, 0, 4 * out + in, p->forward_time, 2 * p->forward_time};
        ways[a] =
            (crn_piece_way){3 * out, 3 * out, 4 * out + in, p->forward_time, 2 * p->forward_time};
    }
}

/* A table for only the whole chain has the same curve, and schedules that agree with it. */
static void check_whole(const crn_piece_chain *chain, crn_curve curve, crn_arena *arena) {
    crn_piece_options options = {.memory = UINT64_MAX, .whole = true};
    crn_piece_table *whole;
    cairn_error err = {0};
    CHECK_OK(crn_piece_solve(chain, &options, arena, &whole), &err);
    CHECK(!crn_piece_thinned(whole));
    CHECK_U64(crn_piece_curve(whole).count, curve.count);
    CHECK(crn_piece_curve(whole).count == curve.count &&
          memcmp(crn_piece_curve(whole).points, curve.points, curve.count * sizeof *curve.points) ==
              0);
    for (uint32_t i = 0; i < curve.count; i += 1 + curve.count / 64) {
        crn_piece_nodes nodes = {0};
        crn_piece_need need;
        CHECK_OK(
            crn_piece_schedule(whole, 0, chain->count - 1, curve.points[i].memory, arena, &nodes),
            &err);
        CHECK_OK(crn_piece_judge(chain, nodes.data, nodes.length, arena, &need), &err);
        CHECK(need.time == curve.points[i].cost && need.memory <= curve.points[i].memory);
    }
}

/* Thinned tables bracket the exact one, and their schedules are real: the times of the pieces of
 * their nodes add up to the time of the table. */
static void test_thinning(void) {
    enum { COUNT = 40 };
    static crn_piece pieces[COUNT];
    static crn_piece_way ways[COUNT];
    crn_piece_chain chain = {pieces, COUNT, 0};
    for (int round = 0; round < 6; round++) {
        crn_arena arena;
        crn_piece_table *exact, *upper, *lower;
        cairn_error err = {0};
        crn_arena_init(&arena, NULL);
        make_long(pieces, ways, COUNT, false);
        CHECK_OK(crn_piece_check(&chain, &err), &err);
        crn_piece_options options = {.memory = UINT64_MAX};
        CHECK_OK(crn_piece_solve(&chain, &options, &arena, &exact), &err);
        options.max_points = 12;
        CHECK_OK(crn_piece_solve(&chain, &options, &arena, &upper), &err);
        options.downwards = true;
        CHECK_OK(crn_piece_solve(&chain, &options, &arena, &lower), &err);
        CHECK(crn_piece_thinned(upper) && crn_piece_thinned(lower) && !crn_piece_thinned(exact));
        CHECK_U64(crn_piece_least_memory(upper), crn_piece_least_memory(exact));
        CHECK_U64(crn_piece_least_memory(lower), crn_piece_least_memory(exact));
        crn_curve curve = crn_piece_curve(exact);
        for (uint32_t i = 0; i < curve.count; i++) {
            uint64_t memory = curve.points[i].memory;
            CHECK(crn_curve_at(crn_piece_curve(lower), memory) <= curve.points[i].cost);
            CHECK(crn_curve_at(crn_piece_curve(upper), memory) >= curve.points[i].cost);
        }
        CHECK(crn_piece_curve(upper).points[crn_piece_curve(upper).count - 1].cost ==
              curve.points[curve.count - 1].cost);
        check_whole(&chain, curve, &arena);
        check_longest(&chain, curve, UINT64_MAX, 1 + (uint32_t)below(COUNT), &arena);
        crn_arena_release(&arena);
    }
}

/* A thousand equal pieces at one budget. */
static void test_equal_pieces(void) {
    enum { COUNT = 1000 };
    static crn_piece pieces[COUNT];
    static crn_piece_way ways[COUNT];
    crn_piece_chain chain = {pieces, COUNT, 0};
    crn_arena arena;
    crn_piece_table *table;
    crn_piece_nodes nodes = {0};
    cairn_error err = {0};
    crn_arena_init(&arena, NULL);
    make_long(pieces, ways, COUNT, true);
    crn_piece_options options = {.memory = 4000};
    CHECK_OK(crn_piece_solve(&chain, &options, &arena, &table), &err);
    CHECK_OK(crn_piece_schedule(table, 0, COUNT - 1, 4000, &arena, &nodes), &err);
    int64_t time = 0;
    for (uint32_t i = 0; i < nodes.length; i++) {
        if (nodes.data[i].kind == CRN_PIECE_CHECKPOINT)
            time += 10 * (nodes.data[i].choice - nodes.data[i].first);
        else
            time += 30;
    }
    CHECK(time == crn_piece_time(table, 0, COUNT - 1, 4000));
    crn_curve_point point = {4000, time};
    for (uint32_t longest = 16; longest < 4 * COUNT; longest *= 8)
        check_longest(&chain, (crn_curve){&point, 1}, 4000, longest, &arena);
    CHECK(attained > 1000 && not_attained > 100);
    crn_arena_release(&arena);
}

/* ---- Allocation failure ---- */

static cairn_status solve_both_ways(const crn_piece_chain *chain, crn_arena *arena) {
    crn_piece_options options = {.memory = UINT64_MAX};
    crn_piece_table *table;
    crn_piece_grid *grid;
    crn_piece_nodes nodes = {0};
    int64_t time;
    bool found;
    CRN_TRY(crn_piece_solve(chain, &options, arena, &table));
    options.whole = true;
    CRN_TRY(crn_piece_solve(chain, &options, arena, &table));
    CRN_TRY(crn_piece_schedule(table, 0, chain->count - 1, crn_piece_least_memory(table), arena,
                               &nodes));
    CRN_TRY(crn_piece_grid_solve(chain, UINT64_MAX, 500, false, arena, &grid));
    return crn_piece_grid_schedule(grid, UINT64_MAX / 2, arena, &nodes, &time, &found);
}

static void test_out_of_memory(void) {
    enum { COUNT = 30 };
    static crn_piece pieces[COUNT];
    static crn_piece_way ways[COUNT];
    crn_piece_chain chain = {pieces, COUNT, 0};
    cairn_status status = CAIRN_ENOMEM;
    make_long(pieces, ways, COUNT, false);
    for (long k = 0; status == CAIRN_ENOMEM && k < 10000; k++) {
        ration c = {k, 0};
        cairn_allocator allocator = {rationed, &c};
        crn_arena arena;
        crn_arena_init(&arena, &allocator);
        status = solve_both_ways(&chain, &arena);
        crn_arena_release(&arena);
        CHECK(c.held == 0);
    }
    CHECK(status == CAIRN_OK);
}

static void test_bad_chains(void) {
    crn_piece pieces[2] = {{.input_bytes = 5}, {.input_bytes = 5}};
    crn_piece_way way = {9, 4, 9, 1, 1};
    crn_piece_chain chain = {pieces, 2, 0};
    cairn_error err = {0};
    CHECK_OK(crn_piece_check(&chain, &err), &err);
    pieces[0].ways = &way;
    pieces[0].way_count = 1;
    CHECK(crn_piece_check(&chain, &err) == CAIRN_EINVAL);
    CHECK_STRING(err.message, "piece 0 keeps less than its output");
    pieces[0].way_count = 0;
    pieces[1].forward_time = -1;
    CHECK(crn_piece_check(&chain, &err) == CAIRN_EINVAL);
    CHECK_STRING(err.message, "piece 1 has a negative time");
    pieces[1].forward_time = INT64_MAX;
    CHECK(crn_piece_check(&chain, &err) == CAIRN_EOVERFLOW);
    chain.count = 0;
    CHECK(crn_piece_check(&chain, &err) == CAIRN_EINVAL);
}

int main(void) {
    test_against_all_schedules();
    test_grid();
    test_thinning();
    test_equal_pieces();
    test_bad_chains();
    test_out_of_memory();
    return check_result();
}
