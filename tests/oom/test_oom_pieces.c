/* test_oom_pieces.c: the recurrence on chains of pieces survives running out of memory at any
 * point (see failing.h), and refuses chains whose figures it cannot add up. */
#include "failing.h"
#include "solve/chain/piece_grid.h"

#define PIECES 7u

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    crn_piece pieces[PIECES];
    crn_piece_way ways[PIECES];
    crn_piece_chain chain;
    crn_piece_options options;
    bool downwards; /* of the grid */
} fixture;

/* Costs that differ from piece to piece, so that checkpoints pay. */
static void set_up(fixture *f) {
    for (uint32_t i = 0; i < PIECES; i++) {
        uint64_t size = 3 + i * 5 % 7;
        crn_piece_way again = {size + 2, size, size + 4, 2 + i % 3, 3 + i % 2};
        f->ways[i] = (crn_piece_way){2 * size + 9, 2 * size + 8, size + 4, 2 + i % 3, 3};
        f->pieces[i] = (crn_piece){.input_bytes = size,
                                   .gradient_bytes = size,
                                   .forward_time = 2 + i % 3,
                                   .discard_peak = size + 2,
                                   .pass_peak = size + 8,
                                   .again = again,
                                   .ways = &f->ways[i],
                                   .way_count = 1};
    }
    f->chain = (crn_piece_chain){f->pieces, PIECES, 4};
}

static cairn_status solve_table(fixture *f, crn_arena *arena) {
    crn_piece_table *table;
    crn_piece_nodes nodes = {0}, least = {0};
    crn_piece_need need;
    CRN_TRY(crn_piece_solve(&f->chain, &f->options, arena, &table));
    if (crn_piece_gave_up(table) || f->options.downwards)
        return CAIRN_OK;
    uint64_t budget = f->options.memory;
    CRN_TRY(crn_piece_least_schedule(table, arena, &least));
    CRN_TRY(crn_piece_judge(&f->chain, least.data, least.length, arena, &need));
    CHECK(need.memory <= crn_piece_least_memory(table));
    if (budget < crn_piece_least_memory(table))
        return CAIRN_OK;
    CRN_TRY(crn_piece_schedule(table, 0, PIECES - 1, budget, arena, &nodes));
    if (nodes.length == 0)
        return CAIRN_OK;
    CRN_TRY(crn_piece_judge(&f->chain, nodes.data, nodes.length, arena, &need));
    CHECK(need.memory <= budget);
    return CAIRN_OK;
}

static cairn_status solve_grid(fixture *f, crn_arena *arena) {
    crn_piece_grid *grid;
    crn_curve curve;
    crn_piece_nodes nodes = {0};
    int64_t time;
    bool found;
    CRN_TRY(crn_piece_grid_solve(&f->chain, f->options.memory, 40, f->downwards, arena, &grid));
    CRN_TRY(crn_piece_grid_curve(grid, arena, &curve));
    if (f->downwards)
        return CAIRN_OK;
    CRN_TRY(crn_piece_grid_schedule(grid, f->options.memory, arena, &nodes, &time, &found));
    CHECK(!found || time <= crn_piece_grid_time(grid, f->options.memory));
    return CAIRN_OK;
}

static cairn_status run(fixture *f, cairn_status (*solve)(fixture *f, crn_arena *arena)) {
    crn_arena arena;
    cairn_status status;
    crn_arena_init(&arena, &f->allocator);
    ARMED(&f->memory, status, solve(f, &arena));
    crn_arena_release(&arena);
    return status;
}

static cairn_status run_table(void *context) {
    return run(context, solve_table);
}

static cairn_status run_grid(void *context) {
    return run(context, solve_grid);
}

static void test_failing(fixture *f) {
    static const crn_piece_options options[] = {
        {.memory = 60},
        {.memory = 60, .whole = true},
        {.memory = 60, .max_points = 3},
        {.memory = 60, .max_points = 3, .downwards = true},
        {.memory = 60, .max_points = 8, .longest = 2},
        {.memory = UINT64_MAX, .whole = true, .max_total = 5},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        f->options = options[i];
        fail_every(&f->memory, "table", "pieces", run_table, f);
    }
    f->options = options[0];
    for (int downwards = 0; downwards < 2; downwards++) {
        f->downwards = downwards == 1;
        fail_every(&f->memory, "grid", "pieces", run_grid, f);
    }
    CHECK_U64(f->memory.live, 0);
}

/* One figure of one piece after the other is too large, or a time negative. */
static void test_refusals(fixture *f) {
    const uint64_t large = UINT64_MAX / 2;
    cairn_error err;
    crn_piece *p = &f->pieces[3];
    uint64_t *sizes[] = {&p->input_bytes,         &p->gradient_bytes,
                         &p->discard_peak,        &p->pass_peak,
                         &p->again.forward_peak,  &p->again.kept,
                         &p->again.backward_peak, &f->ways[3].forward_peak,
                         &f->ways[3].kept,        &f->ways[3].backward_peak};
    int64_t *times[] = {&p->forward_time, &p->again.forward_time, &p->again.backward_time,
                        &f->ways[3].forward_time, &f->ways[3].backward_time};
    CHECK_OK(crn_piece_check(&f->chain, &err), &err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int most = 0; most < 2; most++) {
            uint64_t usual = *sizes[i];
            *sizes[i] = most == 1 ? UINT64_MAX : large;
            /* an input so large is more than the piece before keeps */
            CHECK(crn_piece_check(&f->chain, &err) == (i == 0 ? CAIRN_EINVAL : CAIRN_EOVERFLOW));
            CHECK(strstr(err.message, i == 0 ? "piece 2 keeps less" : "0 to 3") != NULL);
            *sizes[i] = usual;
        }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t usual = *times[i];
        *times[i] = INT64_MAX;
        CHECK(crn_piece_check(&f->chain, &err) == CAIRN_EOVERFLOW);
        *times[i] = -1;
        CHECK(crn_piece_check(&f->chain, &err) == CAIRN_EINVAL);
        *times[i] = usual;
    }
    CHECK(crn_piece_check(&(crn_piece_chain){f->pieces, 0, 0}, &err) == CAIRN_EINVAL);
    CHECK(crn_piece_check(&(crn_piece_chain){f->pieces, CRN_PIECE_MOST + 1, 0}, &err) ==
          CAIRN_EINVAL);
    CHECK_OK(crn_piece_check(&f->chain, &err), &err);
}

int main(void) {
    static fixture f;
    f.allocator = (cairn_allocator){resize, &f.memory};
    set_up(&f);
    test_refusals(&f);
    test_failing(&f);
    return check_result();
}
