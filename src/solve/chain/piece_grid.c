/* piece_grid.c: the recurrence over pieces with memory in slots.
 *
 * Opt(a,b) is an array over slots. It begins at the first feasible slot and ends where it reaches
 * its least value, so that short sub-chains have short arrays. A candidate is base + A[s - shift] +
 * B[s]. The minimum of all candidates is taken slot by slot, in a loop that processors run with
 * vectors of eight; this is why the grid is fast. Candidates are not written beyond the slot where
 * they stop falling; a running minimum at the end fills in the rest.
 *
 *     slots     0 . . . . . . . . . . . . . . .
 *     A                [.......]~~~~~~~~~~~       ~ last value goes on
 *     B             [...............]~~~~~~
 *     both vary        xxxxxxxxx
 *     B varies                  xxxxxx
 *
 * After the ways of keeping have been added, a checkpoint can only help up to the slot where they
 * reach its least possible value. */
#include "solve/chain/piece_grid.h"

#include "base/watch.h"
#include "solve/chain/piece_rules.h"

#define NEVER (INT64_MAX / 4)

typedef struct cell {
    uint32_t from, count; /* first feasible slot, and number of slots; 0: never feasible */
    int64_t least;        /* the last value */
    const int64_t *time;
} cell;

struct crn_piece_grid {
    const crn_piece_chain *chain;
    uint32_t count;
    uint32_t slots; /* 0 .. slots */
    uint64_t unit;  /* bytes of a slot */
    bool downwards;
    cell *cells;      /* [a * n + b] */
    int64_t *elapsed; /* [a]: forward time of pieces 0 .. a-1 */
    uint32_t *inputs; /* [a]: slots of the input of a */
    const uint32_t *home;
};

/* ---- The inner loops, compiled for several kinds of processors ---- */

#define LOOPS(name, attribute)                                                                     \
    attribute static void name##_two(int64_t *restrict e, const int64_t *restrict x,               \
                                     const int64_t *restrict y, int64_t base, size_t count) {      \
        for (size_t i = 0; i < count; i++) {                                                       \
            int64_t v = base + x[i] + y[i];                                                        \
            e[i] = v < e[i] ? v : e[i];                                                            \
        }                                                                                          \
    }                                                                                              \
    attribute static void name##_one(int64_t *restrict e, const int64_t *restrict x, int64_t base, \
                                     size_t count) {                                               \
        for (size_t i = 0; i < count; i++) {                                                       \
            int64_t v = base + x[i];                                                               \
            e[i] = v < e[i] ? v : e[i];                                                            \
        }                                                                                          \
    }

LOOPS(plain, )
#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_WIDE 1
#include <cpuid.h>
LOOPS(wide256, __attribute__((target("avx2"))))
LOOPS(wide512, __attribute__((target("avx512f"))))
#endif

typedef struct loops {
    void (*two)(int64_t *e, const int64_t *x, const int64_t *y, int64_t base, size_t count);
    void (*one)(int64_t *e, const int64_t *x, int64_t base, size_t count);
} loops;

#ifdef HAVE_WIDE
/* The widest vectors of processor and operating system. __builtin_cpu_supports() says the same, but
 * needs a variable of libgcc, which some compilers for x86-64 do not have. */
static unsigned vector_bytes(void) {
    enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xe6 }; /* bits of the register that xgetbv reads */
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
        return 16;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 16;
    if ((b & bit_AVX512F) != 0 && (saved & SAVES_ZMM) == SAVES_ZMM)
        return 64;
    return (b & bit_AVX2) != 0 && (saved & SAVES_YMM) == SAVES_YMM ? 32 : 16;
}
#endif

static loops choose_loops(void) {
#ifdef HAVE_WIDE
    switch (vector_bytes()) {
    case 64:
        return (loops){wide512_two, wide512_one};
    case 32:
        return (loops){wide256_two, wide256_one};
    default:
        break;
    }
#endif
    return (loops){plain_two, plain_one};
}

/* ---- Building a cell ---- */

typedef struct builder {
    crn_piece_grid *grid;
    crn_arena *arena;
    loops loops;
    cell *column;   /* [j]: Opt(j,b) of the column being filled */
    int64_t *best;  /* per slot, NEVER outside low .. high */
    int64_t *keeps; /* per slot: the least time of the ways of keeping, falling */
    uint32_t low, high, keeps_low, keeps_high; /* ranges of best and keeps; low > high: empty */
    int64_t least;                             /* of all candidates */
} builder;

/* Bytes in slots, rounded up or down as the grid does, and limited to more than the grid has. */
static uint32_t slots_of(const crn_piece_grid *grid, uint64_t bytes) {
    uint64_t slots = bytes / grid->unit + (!grid->downwards && bytes % grid->unit != 0);
    return (uint32_t)CRN_MIN(slots, (uint64_t)grid->slots + 1);
}

static void touch(builder *b, uint32_t low, uint32_t high, int64_t least) {
    b->low = CRN_MIN(b->low, low);
    b->high = CRN_MAX(b->high, high);
    b->least = CRN_MIN(b->least, least);
}

static void add_point(builder *b, uint32_t slot, int64_t time) {
    if (slot > b->grid->slots)
        return;
    b->best[slot] = CRN_MIN(b->best[slot], time);
    touch(b, slot, slot, time);
}

static cell zero_cell(void) {
    static const int64_t zero = 0;
    return (cell){0, 1, 0, &zero};
}

/* The first slot where keeping costs no more than `least`. The search starts from a guess, because
 * the slot changes little from one checkpoint to the next. */
static uint32_t useful_end(const builder *b, int64_t least, uint32_t guess) {
    if (b->keeps_low > b->keeps_high || b->keeps[b->keeps_high] > least)
        return b->grid->slots + 1;
    guess = CRN_MIN(CRN_MAX(guess, b->keeps_low), b->keeps_high);
    while (guess > b->keeps_low && b->keeps[guess - 1] <= least)
        guess--;
    while (b->keeps[guess] > least)
        guess++;
    return guess;
}

/* The candidate base + x[s - shift] + y[s] for from <= s < end. */
static void add_sum(builder *b, cell x, uint32_t shift, cell y, int64_t base, uint32_t from,
                    uint32_t end) {
    if (x.count == 0 || y.count == 0)
        return;
    uint64_t first = crn_max3(from, (uint64_t)x.from + shift, y.from);
    if (first >= end)
        return;
    uint32_t s = (uint32_t)first, x_end = x.from + shift + x.count, y_end = y.from + y.count;
    uint32_t both = CRN_MIN(CRN_MIN(x_end, y_end), end), any = CRN_MIN(CRN_MAX(x_end, y_end), end);
    if (s < both) {
        b->loops.two(b->best + s, x.time + (s - shift - x.from), y.time + (s - y.from), base,
                     both - s);
        s = both;
    }
    if (s < any && x_end > y_end)
        b->loops.one(b->best + s, x.time + (s - shift - x.from), base + y.least, any - s);
    else if (s < any)
        b->loops.one(b->best + s, y.time + (s - y.from), base + x.least, any - s);
    else if (first >= CRN_MAX(x_end, y_end))
        b->best[first] = CRN_MIN(b->best[first], base + x.least + y.least);
    touch(b, (uint32_t)first, CRN_MAX((uint32_t)first, any - 1), base + x.least + y.least);
}

/* Store what the ways of keeping reach. */
static void note_keeps(builder *b) {
    int64_t running = NEVER;
    for (uint32_t s = b->low; s <= b->high; s++)
        b->keeps[s] = running = CRN_MIN(running, b->best[s]);
    b->keeps_low = b->low;
    b->keeps_high = b->high;
}

static void add_keeps(builder *b, uint32_t a, uint32_t last) {
    const crn_piece_chain *chain = b->grid->chain;
    for (uint32_t k = 0; k < chain->pieces[a].way_count; k++) {
        const crn_piece_way *way = &chain->pieces[a].ways[k];
        add_sum(b, b->column[a + 1], slots_of(b->grid, way->kept), zero_cell(),
                crn_piece_way_time(way), slots_of(b->grid, crn_piece_way_memory(chain, way, last)),
                b->grid->slots + 1);
    }
}

static void add_checkpoints(builder *b, uint32_t a, uint32_t last) {
    const crn_piece_grid *grid = b->grid;
    const cell *row = grid->cells + (size_t)a * grid->count;
    uint64_t gradient = crn_piece_gradient_after(grid->chain, last), peak = 0;
    uint32_t from = 0, end = b->keeps_high;
    for (uint32_t j = a + 1; j <= last; j++) {
        cell x = b->column[j], y = row[j - 1];
        int64_t base = grid->elapsed[j] - grid->elapsed[a];
        uint64_t before = peak;
        peak = crn_piece_sweep_peak(grid->chain, a, j, peak);
        if (peak != before || j == a + 1)
            from = slots_of(grid, gradient + peak);
        if (x.count == 0 || y.count == 0)
            continue;
        end = useful_end(b, base + x.least + y.least, end);
        add_sum(b, x, grid->inputs[j], y, base, from, end);
        if (j == a + 1 && grid->chain->pieces[a].way_count == 0)
            note_keeps(b);
    }
}

/* Copy out the running minimum, up to where it is least, and empty the buffers. */
static cairn_status take_cell(builder *b, cell *out) {
    *out = (cell){0, 0, NEVER, NULL};
    if (b->low > b->high)
        return CAIRN_OK;
    int64_t running = NEVER;
    uint32_t s = b->low;
    for (; s <= b->high; s++) {
        b->best[s] = running = CRN_MIN(running, b->best[s]);
        if (running == b->least)
            break;
    }
    s = CRN_MIN(s, b->high);
    uint32_t count = s - b->low + 1;
    int64_t *time;
    CRN_TAKE(b->arena, time, count);
    memcpy(time, b->best + b->low, count * sizeof *time);
    *out = (cell){b->low, count, time[count - 1], time};
    for (s = b->low; s <= b->high; s++)
        b->best[s] = NEVER;
    return CAIRN_OK;
}

static cairn_status fill_cell(builder *b, uint32_t a, uint32_t last) {
    crn_piece_grid *grid = b->grid;
    size_t n = grid->count;
    uint32_t home = grid->home[a * n + (last - a)];
    cell *out = &grid->cells[a * n + last];
    if (home != a) {
        *out = grid->cells[home * n + (home + last - a)];
        b->column[a] = *out;
        return CAIRN_OK;
    }
    b->low = b->keeps_low = grid->slots + 1;
    b->high = b->keeps_high = 0;
    b->least = NEVER;
    if (a == last) {
        const crn_piece_way *ways;
        uint32_t count = crn_piece_leaf_ways(grid->chain, a, &ways);
        for (uint32_t k = 0; k < count; k++)
            add_point(b, slots_of(grid, crn_piece_way_memory(grid->chain, &ways[k], a)),
                      crn_piece_way_time(&ways[k]));
    } else {
        add_keeps(b, a, last);
        if (grid->chain->pieces[a].way_count > 0)
            note_keeps(b);
        add_checkpoints(b, a, last);
    }
    CRN_TRY(take_cell(b, out));
    b->column[a] = *out;
    return CAIRN_OK;
}

/* The memory beyond which nothing gets faster: everything is kept, plus the largest peak of a
 * step. */
static uint64_t most_memory(const crn_piece_chain *chain) {
    uint64_t sum = 0, peak = 0;
    for (uint32_t a = 0; a < chain->count; a++) {
        const crn_piece *p = &chain->pieces[a];
        uint64_t kept = p->input_bytes, gradient = crn_piece_gradient_after(chain, a);
        peak = CRN_MAX(peak, gradient + crn_max3(p->discard_peak, p->pass_peak,
                                                 crn_piece_way_memory(chain, &p->again, a)));
        for (uint32_t k = 0; k < p->way_count; k++) {
            kept = CRN_MAX(kept, p->ways[k].kept);
            peak = CRN_MAX(peak, crn_piece_way_memory(chain, &p->ways[k], a));
        }
        sum += kept;
    }
    return sum + peak;
}

cairn_status crn_piece_grid_solve(const crn_piece_chain *chain, uint64_t memory, uint32_t slots,
                                  bool downwards, crn_arena *arena, crn_piece_grid **out) {
    crn_piece_grid *grid;
    CRN_TAKE(arena, grid, 1);
    size_t n = grid->count = chain->count;
    uint64_t largest = CRN_MIN(memory, most_memory(chain));
    grid->chain = chain;
    grid->downwards = downwards;
    grid->unit = largest / CRN_MAX(slots, 1) + 1;
    /* Rounding up may waste a slot for each piece that is kept. */
    grid->slots = (uint32_t)(largest / grid->unit) + 1 + (downwards ? 0 : (uint32_t)n);
    CRN_TAKE(arena, grid->cells, n * n);
    CRN_TAKE(arena, grid->elapsed, n + 1);
    for (size_t a = 0; a < n; a++)
        grid->elapsed[a + 1] = grid->elapsed[a] + chain->pieces[a].forward_time;
    CRN_TAKE(arena, grid->inputs, n);
    for (size_t a = 0; a < n; a++)
        grid->inputs[a] = slots_of(grid, chain->pieces[a].input_bytes);
    CRN_TRY(crn_piece_homes(chain, arena, &grid->home));
    builder b = {.grid = grid, .arena = arena, .loops = choose_loops()};
    CRN_TAKE(arena, b.column, n);
    CRN_TAKE(arena, b.best, grid->slots + 1);
    CRN_TAKE(arena, b.keeps, grid->slots + 1);
    for (uint32_t s = 0; s <= grid->slots; s++)
        b.best[s] = NEVER;
    for (uint32_t last = 0; last < n; last++)
        for (uint32_t a = last + 1; a-- > 0;) {
            if (crn_arena_ended(arena))
                return CAIRN_ENOMEM;
            CRN_TRY(fill_cell(&b, a, last));
        }
    *out = grid;
    return CAIRN_OK;
}

/* ---- Asking ---- */

static int64_t time_at(const crn_piece_grid *grid, uint32_t a, uint32_t b, uint64_t slot) {
    const cell *c = &grid->cells[(size_t)a * grid->count + b];
    if (c->count == 0 || slot < c->from)
        return NEVER;
    return c->time[CRN_MIN(slot - c->from, (uint64_t)c->count - 1)];
}

/* The number of slots in an amount of memory: whole slots, or for a lower bound rounded up. */
static uint64_t worth(const crn_piece_grid *grid, uint64_t memory) {
    uint64_t slots = memory / grid->unit + (grid->downwards && memory % grid->unit != 0);
    return CRN_MIN(slots, grid->slots);
}

int64_t crn_piece_grid_time(const crn_piece_grid *grid, uint64_t memory) {
    int64_t time = time_at(grid, 0, grid->count - 1, worth(grid, memory));
    return time == NEVER ? CRN_CURVE_NEVER : time;
}

cairn_status crn_piece_grid_curve(const crn_piece_grid *grid, crn_arena *arena, crn_curve *out) {
    const cell *c = &grid->cells[grid->count - 1];
    crn_curve_point *points;
    uint32_t count = 0;
    CRN_TAKE(arena, points, c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        uint64_t slot =
            (uint64_t)c->from + i; /* a lower bound holds for any memory above slot - 1 */
        uint64_t memory =
            slot == 0 || !grid->downwards ? slot * grid->unit : (slot - 1) * grid->unit + 1;
        if (count == 0 || c->time[i] < points[count - 1].cost)
            points[count++] = (crn_curve_point){memory, c->time[i]};
    }
    *out = (crn_curve){points, count};
    return CAIRN_OK;
}

/* The first decision for a..b with `slot` slots. */
static crn_piece_node find_node(const crn_piece_grid *grid, uint32_t a, uint32_t b, uint64_t slot) {
    const crn_piece_chain *chain = grid->chain;
    int64_t time = time_at(grid, a, b, slot);
    crn_piece_node node = {CRN_PIECE_LEAF, a, b, 0};
    const crn_piece_way *ways = chain->pieces[a].ways;
    uint32_t count = a == b ? crn_piece_leaf_ways(chain, a, &ways) : chain->pieces[a].way_count;
    if (a < b)
        node.kind = CRN_PIECE_KEEP;
    for (; node.choice < count; node.choice++) {
        const crn_piece_way *way = &ways[node.choice];
        uint64_t kept = a < b ? slots_of(grid, way->kept) : 0;
        if (slot < slots_of(grid, crn_piece_way_memory(chain, way, b)) || slot < kept)
            continue;
        int64_t rest = a < b ? time_at(grid, a + 1, b, slot - kept) : 0;
        if (crn_piece_way_time(way) + rest <= time)
            return node;
    }
    node.kind = CRN_PIECE_CHECKPOINT;
    uint64_t peak = 0, gradient = crn_piece_gradient_after(chain, b);
    for (node.choice = a + 1; node.choice < b; node.choice++) {
        peak = crn_piece_sweep_peak(chain, a, node.choice, peak);
        uint64_t input = grid->inputs[node.choice];
        if (slot >= slots_of(grid, gradient + peak) && slot >= input &&
            grid->elapsed[node.choice] - grid->elapsed[a] +
                    time_at(grid, node.choice, b, slot - input) +
                    time_at(grid, a, node.choice - 1, slot) <=
                time)
            break;
    }
    return node;
}

typedef struct task {
    uint32_t first, last;
    uint64_t slot;
} task;

static cairn_status trace(const crn_piece_grid *grid, uint64_t slot, crn_arena *arena,
                          crn_piece_nodes *out) {
    CRN_ARRAY(task) tasks = {0};
    CRN_PUSH(arena, tasks, ((task){0, grid->count - 1, slot}));
    out->length = 0;
    while (tasks.length > 0) {
        task at = tasks.data[--tasks.length];
        crn_piece_node node = find_node(grid, at.first, at.last, at.slot);
        CRN_PUSH(arena, *out, node);
        if (node.kind == CRN_PIECE_KEEP) {
            uint64_t kept = grid->chain->pieces[at.first].ways[node.choice].kept;
            CRN_PUSH(arena, tasks, ((task){at.first + 1, at.last, at.slot - slots_of(grid, kept)}));
        } else if (node.kind == CRN_PIECE_CHECKPOINT) {
            uint64_t input = grid->inputs[node.choice];
            CRN_PUSH(arena, tasks, ((task){at.first, node.choice - 1, at.slot}));
            CRN_PUSH(arena, tasks, ((task){node.choice, at.last, at.slot - input}));
        }
    }
    return CAIRN_OK;
}

/* Bisect between the number of slots that surely fits and the one that would fit if rounding wasted
 * a slot everywhere. */
cairn_status crn_piece_grid_schedule(const crn_piece_grid *grid, uint64_t memory, crn_arena *arena,
                                     crn_piece_nodes *out, int64_t *time, bool *found) {
    uint64_t low = memory / grid->unit, high = low + grid->count;
    crn_piece_nodes nodes = {0}, spare;
    *found = false;
    low = CRN_MIN(low, grid->slots);
    high = CRN_MIN(high, grid->slots);
    for (uint64_t slot = low; low <= high; slot = low + (high - low) / 2) {
        crn_piece_need need = {UINT64_MAX, 0};
        if (time_at(grid, 0, grid->count - 1, slot) != NEVER) {
            CRN_TRY(trace(grid, slot, arena, &nodes));
            CRN_TRY(crn_piece_judge(grid->chain, nodes.data, nodes.length, arena, &need));
        }
        bool fits = need.memory <= memory;
        if (fits || need.memory == UINT64_MAX)
            low = slot + 1; /* too few slots for the grid may still be enough memory */
        else if (slot > 0)
            high = slot - 1;
        else
            break;
        if (fits && (!*found || need.time < *time)) {
            spare = *out;
            *out = nodes;
            nodes = spare;
            *time = need.time;
            *found = true;
        }
    }
    return CAIRN_OK;
}
