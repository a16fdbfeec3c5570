/* piece_chain.c: the dynamic programme over a chain of pieces, with step functions of memory.
 *
 * Let Opt(a,b) be the least time, as a function of memory m, to go from "cut a and the gradient of
 * cut b+1 are there" to "the gradient of cut a is there". Cut a is not counted in m, the gradient
 * of cut b+1 is. A nested, persistent schedule begins in one of three ways:
 *
 *   leaf (a = b)    run a for its backward, then the backward. During the run g_{b+1} waits:
 *                       m >= max(g_{a+1} + FR, BR)
 *
 *   keep            run a, keeping what its backward reads (c bytes, the output among them);
 *                   a+1..b then has m - c; at its end the gradient of cut a+1 is there and the
 *                   backward of a runs:
 *                       m >= max(g_{b+1} + FK, BK)
 *
 *   checkpoint j    run a .. j-1, each freeing its input except a, whose input is cut a; cut j
 *                   stays while j..b is done with m - w_j; it goes with the backward of j, and
 *                   a..j-1 is done with all of m:
 *                       m >= g_{b+1} + max(FD_a, FX_{a+1}, .., FX_{j-1})
 *
 *        a        j          b
 *        |--------|----------|  g_{b+1}
 *        `-> run `-> Opt(j,b), m - w_j
 *        Opt(a,j-1), m
 *
 * So Opt(a,b) is a lower envelope of sums of two earlier step functions, and one table holds the
 * answer for every memory. The choices are not stored; they are found again along one path.
 *
 * Columns b are filled from left to right, each from a = b down, so that Opt(j,b) lies in the
 * column being filled and Opt(a,j-1) in row a. A sub-chain whose pieces equal those of one further
 * left shares its function.
 *
 * On long chains, a range a..j-1 that is worth recomputing is short, or there is memory to keep all
 * of it. So for ranges beyond a length only a bound is computed, from the bound of the range
 * without its first piece. Let t be the least time of a piece, forward and backward. Piece a is
 * kept, or it runs twice, wherever the checkpoint is:
 *
 *     Opt(a,b)(m) >= min of  keep as above,  f_a + t_a + Opt(a+1,b)(m)       if FD <= FX
 *
 * because what checkpoint j does to a+1..b is one of the choices of a+1..b, and needs at least as
 * much memory. If the best schedule with these bounds only keeps wherever a bound was used, it is
 * the best schedule. */
#include "solve/chain/piece_rules.h"

struct crn_piece_table {
    const crn_piece_chain *chain;
    uint32_t count;
    bool downwards, thinned, gave_up;
    uint64_t total, max_total; /* points of all step functions */
    uint32_t max_points;
    uint32_t longest; /* L, or n */
    uint64_t memory;
    const uint32_t *home; /* [a * n + length - 1]: where the leftmost equal sub-chain begins */
    crn_curve *curves;    /* [a * n + b] */
    uint64_t *floors;     /* [a * n + b]: the smallest feasible memory */
    int64_t *elapsed;     /* [a]: forward time of pieces 0 .. a-1 */
};

#define LIMIT (INT64_MAX / 4)

/* ---- Checking ---- */

static bool add_way(const crn_piece_way *way, uint64_t *bytes, int64_t *time) {
    return crn_add_u64(*bytes, way->forward_peak, bytes) && crn_add_u64(*bytes, way->kept, bytes) &&
           crn_add_u64(*bytes, way->backward_peak, bytes) &&
           !__builtin_add_overflow(*time, way->forward_time, time) &&
           !__builtin_add_overflow(*time, way->backward_time, time);
}

static bool add_piece(const crn_piece *piece, uint64_t *bytes, int64_t *time) {
    bool fits = crn_add_u64(*bytes, piece->input_bytes, bytes) &&
                crn_add_u64(*bytes, piece->gradient_bytes, bytes) &&
                crn_add_u64(*bytes, piece->discard_peak, bytes) &&
                crn_add_u64(*bytes, piece->pass_peak, bytes) &&
                !__builtin_add_overflow(*time, piece->forward_time, time) &&
                add_way(&piece->again, bytes, time);
    for (uint32_t k = 0; fits && k < piece->way_count; k++)
        fits = add_way(&piece->ways[k], bytes, time);
    return fits;
}

static bool negative_time(const crn_piece *piece) {
    bool negative =
        piece->forward_time < 0 || piece->again.forward_time < 0 || piece->again.backward_time < 0;
    for (uint32_t k = 0; k < piece->way_count; k++)
        negative = negative || piece->ways[k].forward_time < 0 || piece->ways[k].backward_time < 0;
    return negative;
}

/* Whether every way keeps at least the output, which the next piece reads. */
static bool keeps_output(const crn_piece_chain *chain, uint32_t a) {
    bool keeps = true;
    for (uint32_t k = 0; a + 1 < chain->count && k < chain->pieces[a].way_count; k++)
        keeps = keeps && chain->pieces[a].ways[k].kept >= chain->pieces[a + 1].input_bytes;
    return keeps;
}

cairn_status crn_piece_check(const crn_piece_chain *chain, cairn_error *err) {
    if (chain->count == 0 || chain->count > CRN_PIECE_MOST)
        return crn_fail(err, CAIRN_EINVAL, "the chain has %u pieces; it must have from 1 to %u",
                        chain->count, CRN_PIECE_MOST);
    uint64_t bytes = chain->final_gradient;
    int64_t time = 0;
    for (uint32_t a = 0; a < chain->count; a++) {
        if (negative_time(&chain->pieces[a]))
            return crn_fail(err, CAIRN_EINVAL, "piece %u has a negative time", a);
        if (!keeps_output(chain, a))
            return crn_fail(err, CAIRN_EINVAL, "piece %u keeps less than its output", a);
        if (!add_piece(&chain->pieces[a], &bytes, &time) || bytes > LIMIT ||
            time > LIMIT / (chain->count + 1))
            return crn_fail(err, CAIRN_EOVERFLOW,
                            "the sizes or times of pieces 0 to %u are too large to add up", a);
    }
    return CAIRN_OK;
}

/* ---- Equal sub-chains ---- */

static bool same_way(const crn_piece_way *x, const crn_piece_way *y) {
    return x->forward_peak == y->forward_peak && x->kept == y->kept &&
           x->backward_peak == y->backward_peak && x->forward_time == y->forward_time &&
           x->backward_time == y->backward_time;
}

/* Whether piece i can replace piece j in every sub-chain. The last piece equals no other, because
 * it has its own rule. */
static bool same_piece(const crn_piece_chain *chain, uint32_t i, uint32_t j) {
    const crn_piece *x = &chain->pieces[i], *y = &chain->pieces[j];
    bool same = i + 1 < chain->count && j + 1 < chain->count && x->way_count == y->way_count &&
                x->input_bytes == y->input_bytes && x->gradient_bytes == y->gradient_bytes &&
                crn_piece_gradient_after(chain, i) == crn_piece_gradient_after(chain, j) &&
                x->forward_time == y->forward_time && x->discard_peak == y->discard_peak &&
                x->pass_peak == y->pass_peak && same_way(&x->again, &y->again);
    for (uint32_t k = 0; same && k < x->way_count; k++)
        same = same_way(&x->ways[k], &y->ways[k]);
    return same;
}

/* kinds[a]: the first piece equal to a. */
static void find_kinds(const crn_piece_chain *chain, uint32_t *kinds) {
    for (uint32_t a = 0; a < chain->count; a++) {
        kinds[a] = a;
        for (uint32_t e = 0; e < a && kinds[a] == a; e++)
            if (kinds[e] == e && same_piece(chain, e, a))
                kinds[a] = e;
    }
}

/* For each a and length, find the leftmost sub-chain of the same kinds. The lengths to which the
 * sub-chains from e and from a agree are computed from the right; then the leftmost e gets all
 * lengths that agree. */
cairn_status crn_piece_homes(const crn_piece_chain *chain, crn_arena *arena, const uint32_t **out) {
    uint32_t n = chain->count, *kinds, *home, *claimed, *agree;
    CRN_TAKE(arena, kinds, n);
    CRN_TAKE(arena, home, (size_t)n * n);
    CRN_TAKE(arena, claimed, n);
    CRN_TAKE(arena, agree, (size_t)(n + 1) * (n + 1));
    find_kinds(chain, kinds);
    for (uint32_t e = n; e-- > 0;)
        for (uint32_t a = n; a-- > e;)
            if (kinds[e] == kinds[a])
                agree[e * (n + 1) + a] = agree[(e + 1) * (n + 1) + a + 1] + 1;
    for (uint32_t e = 0; e < n; e++)
        for (uint32_t a = e; a < n; a++)
            for (; claimed[a] < CRN_MIN(agree[e * (n + 1) + a], n - a); claimed[a]++)
                home[(size_t)a * n + claimed[a]] = e;
    *out = home;
    return CAIRN_OK;
}

/* ---- The table ---- */

/* The smallest feasible memory of a..b. `column[j]` is that of j..b. */
static uint64_t find_floor(const crn_piece_table *table, uint32_t a, uint32_t b,
                           const uint64_t *column) {
    const crn_piece *pieces = table->chain->pieces;
    const uint64_t *row = table->floors + (size_t)a * table->count;
    uint64_t best = UINT64_MAX, gradient = crn_piece_gradient_after(table->chain, b), peak = 0;
    if (a == b) {
        const crn_piece_way *ways;
        uint32_t count = crn_piece_leaf_ways(table->chain, a, &ways);
        for (uint32_t k = 0; k < count; k++)
            best = CRN_MIN(best, crn_piece_way_memory(table->chain, &ways[k], a));
        return best;
    }
    for (uint32_t k = 0; k < pieces[a].way_count; k++) {
        const crn_piece_way *way = &pieces[a].ways[k];
        best = CRN_MIN(
            best, CRN_MAX(crn_piece_way_memory(table->chain, way, b), way->kept + column[a + 1]));
    }
    for (uint32_t j = a + 1; j <= b; j++) {
        peak = crn_piece_sweep_peak(table->chain, a, j, peak);
        best =
            CRN_MIN(best, crn_max3(gradient + peak, pieces[j].input_bytes + column[j], row[j - 1]));
    }
    return best;
}

/* Whether there is only a bound for a..b. */
static bool is_long(const crn_piece_table *table, uint32_t a, uint32_t b) {
    return b + 1 < table->count && b - a >= table->longest;
}

static int64_t least_time(const crn_piece *piece) {
    int64_t least = crn_piece_way_time(&piece->again);
    for (uint32_t k = 0; k < piece->way_count; k++)
        least = CRN_MIN(least, crn_piece_way_time(&piece->ways[k]));
    return least;
}

/* Add every way to begin a..b to the envelope. `column[j]` is the function of j..b. */
static cairn_status fill_envelope(const crn_piece_table *table, uint32_t a, uint32_t b,
                                  const crn_curve *column, crn_envelope *envelope) {
    const crn_piece *pieces = table->chain->pieces;
    const crn_curve *row = table->curves + (size_t)a * table->count;
    uint64_t gradient = crn_piece_gradient_after(table->chain, b), peak = 0;
    if (a == b) {
        const crn_piece_way *ways;
        uint32_t count = crn_piece_leaf_ways(table->chain, a, &ways);
        for (uint32_t k = 0; k < count; k++)
            CRN_TRY(crn_envelope_add_point(envelope,
                                           crn_piece_way_memory(table->chain, &ways[k], a),
                                           crn_piece_way_time(&ways[k])));
        return CAIRN_OK;
    }
    for (uint32_t k = 0; k < pieces[a].way_count; k++) {
        const crn_piece_way *way = &pieces[a].ways[k];
        CRN_TRY(crn_envelope_add_sum(envelope, column[a + 1], way->kept, NULL,
                                     crn_piece_way_time(way),
                                     crn_piece_way_memory(table->chain, way, b)));
    }
    if (is_long(table, a, b))
        return crn_envelope_add_sum(envelope, column[a + 1], 0, NULL,
                                    pieces[a].forward_time + least_time(&pieces[a]),
                                    gradient + pieces[a].discard_peak);
    for (uint32_t j = a + 1; j <= b; j++) {
        peak = crn_piece_sweep_peak(table->chain, a, j, peak);
        CRN_TRY(crn_envelope_add_sum(envelope, column[j], pieces[j].input_bytes, &row[j - 1],
                                     table->elapsed[j] - table->elapsed[a], gradient + peak));
        if (table->max_points > 0 && envelope->count > 8 * (uint64_t)table->max_points)
            crn_envelope_thin(envelope, 4 * table->max_points, table->downwards);
    }
    return CAIRN_OK;
}

typedef struct builder {
    crn_piece_table *table;
    crn_arena *arena;
    const crn_span *spans; /* from crn_piece_narrow(), or NULL */
    crn_envelope envelope;
    uint64_t *floor_column;
    crn_curve *curve_column;
} builder;

/* The span of memory that is needed for a..b. It never gets more than the whole memory minus cut
 * a, which is counted outside of a..b unless a is 0. A bound, however, needs the whole memory. */
static crn_span span_of(const builder *build, uint32_t a, uint32_t b) {
    const crn_piece_table *table = build->table;
    crn_span span =
        build->spans == NULL ? CRN_SPAN_ALL : build->spans[(size_t)a * table->count + b];
    if (table->memory == UINT64_MAX)
        return span;
    bool all = a == 0 || table->longest < table->count;
    uint64_t input = all ? 0 : table->chain->pieces[a].input_bytes;
    uint64_t most = table->memory > input ? table->memory - input : 0;
    span.end = CRN_MIN(span.end, most + 1);
    return span;
}

static cairn_status fill_cell(builder *build, uint32_t a, uint32_t b) {
    crn_piece_table *table = build->table;
    size_t n = table->count, cell = a * n + b;
    uint32_t home = table->home[a * n + (b - a)];
    if (home != a) {
        size_t other = home * n + (home + b - a);
        table->floors[cell] = table->floors[other];
        table->curves[cell] = table->curves[other];
    } else {
        table->floors[cell] = find_floor(table, a, b, build->floor_column);
        build->envelope.span = span_of(build, a, b);
        if (table->floors[cell] < build->envelope.span.end)
            CRN_TRY(fill_envelope(table, a, b, build->curve_column, &build->envelope));
        if (table->max_points > 0 && (a != 0 || b + 1 != table->count) &&
            crn_envelope_thin(&build->envelope, table->max_points, table->downwards))
            table->thinned = true;
        CRN_TRY(crn_envelope_take(&build->envelope, build->arena, &table->curves[cell]));
        table->total += table->curves[cell].count;
    }
    build->floor_column[a] = table->floors[cell];
    build->curve_column[a] = table->curves[cell];
    return CAIRN_OK;
}

/* The longest range that may be recomputed, if the bound holds for longer ones. */
static uint32_t longest_range(const crn_piece_chain *chain, uint32_t longest) {
    bool bounded = longest > 0;
    for (uint32_t a = 0; a < chain->count; a++)
        bounded = bounded && chain->pieces[a].discard_peak <= chain->pieces[a].pass_peak;
    return bounded ? longest : chain->count;
}

static cairn_status solve(const crn_piece_chain *chain, const crn_piece_options *options,
                          const crn_span *spans, crn_arena *arena, crn_piece_table **out) {
    crn_piece_table *table;
    CRN_TAKE(arena, table, 1);
    size_t n = table->count = chain->count;
    table->chain = chain;
    table->downwards = options->downwards;
    table->max_points = options->max_points;
    table->max_total = options->max_total;
    table->longest = longest_range(chain, options->longest);
    table->memory = options->memory;
    CRN_TAKE(arena, table->curves, n * n);
    CRN_TAKE(arena, table->floors, n * n);
    CRN_TAKE(arena, table->elapsed, n + 1);
    for (size_t a = 0; a < n; a++)
        table->elapsed[a + 1] = table->elapsed[a] + chain->pieces[a].forward_time;
    CRN_TRY(crn_piece_homes(chain, arena, &table->home));
    builder build = {.table = table, .arena = arena, .spans = spans};
    CRN_TAKE(arena, build.floor_column, n);
    CRN_TAKE(arena, build.curve_column, n);
    crn_envelope_init(&build.envelope, arena);
    for (uint32_t b = 0; b < n && !table->gave_up; b++) {
        for (uint32_t a = b + 1; a-- > 0;)
            CRN_TRY(fill_cell(&build, a, b));
        table->gave_up = table->max_total > 0 && table->total > table->max_total;
    }
    *out = table;
    return CAIRN_OK;
}

/* Bracket every function with two coarse tables, in `scratch`, and find the spans that matter. */
static cairn_status find_spans(const crn_piece_chain *chain, uint64_t memory, crn_arena *scratch,
                               crn_arena *arena, const crn_span **out) {
    crn_piece_table *above, *below;
    crn_piece_options coarse = {.memory = memory, .max_points = 8 + chain->count / 2};
    CRN_TRY(solve(chain, &coarse, NULL, scratch, &above));
    coarse.downwards = true;
    CRN_TRY(solve(chain, &coarse, NULL, scratch, &below));
    return crn_piece_narrow(chain, above, below, arena, out);
}

cairn_status crn_piece_solve(const crn_piece_chain *chain, const crn_piece_options *options,
                             crn_arena *arena, crn_piece_table **out) {
    const crn_span *spans = NULL;
    if (options->whole && options->max_points == 0 && options->longest == 0) {
        crn_arena scratch;
        crn_arena_init(&scratch, &arena->allocator);
        cairn_status status = find_spans(chain, options->memory, &scratch, arena, &spans);
        crn_arena_release(&scratch);
        CRN_TRY(status);
    }
    return solve(chain, options, spans, arena, out);
}

/* ---- Results ---- */

uint64_t crn_piece_least_memory(const crn_piece_table *table) {
    return table->floors[table->count - 1];
}

bool crn_piece_thinned(const crn_piece_table *table) {
    return table->thinned;
}

bool crn_piece_gave_up(const crn_piece_table *table) {
    return table->gave_up;
}

crn_curve crn_piece_curve(const crn_piece_table *table) {
    return table->curves[table->count - 1];
}

crn_curve crn_piece_range_curve(const crn_piece_table *table, uint32_t first, uint32_t last) {
    return table->curves[(size_t)first * table->count + last];
}

int64_t crn_piece_time(const crn_piece_table *table, uint32_t first, uint32_t last,
                       uint64_t memory) {
    if (last + 1 == first)
        return 0;
    return crn_curve_at(crn_piece_range_curve(table, first, last), memory);
}

uint64_t crn_piece_floor(const crn_piece_table *table, uint32_t first, uint32_t last) {
    return last + 1 == first ? 0 : table->floors[(size_t)first * table->count + last];
}

/* The time of a sum at `memory`, or CRN_CURVE_NEVER. */
static int64_t sum_time(int64_t base, int64_t low, int64_t high) {
    return low == CRN_CURVE_NEVER || high == CRN_CURVE_NEVER ? CRN_CURVE_NEVER : base + low + high;
}

/* The time of a..b if piece a is kept the way `way`. */
static int64_t keep_time(const crn_piece_table *table, const crn_piece_way *way, uint32_t a,
                         uint32_t b, uint64_t memory) {
    if (memory < crn_piece_way_memory(table->chain, way, b) || memory < way->kept)
        return CRN_CURVE_NEVER;
    return sum_time(crn_piece_way_time(way), crn_piece_time(table, a + 1, b, memory - way->kept),
                    0);
}

static int64_t checkpoint_time(const crn_piece_table *table, uint32_t a, uint32_t j, uint32_t b,
                               uint64_t memory) {
    uint64_t input = table->chain->pieces[j].input_bytes;
    if (memory < input)
        return CRN_CURVE_NEVER;
    return sum_time(table->elapsed[j] - table->elapsed[a],
                    crn_piece_time(table, j, b, memory - input),
                    crn_piece_time(table, a, j - 1, memory));
}

/* The first decision for a..b within `memory`, if a..b takes `time`. Keeping is preferred to
 * checkpoints, early checkpoints to late ones. */
static crn_piece_node find_node(const crn_piece_table *table, uint32_t a, uint32_t b,
                                uint64_t memory, int64_t time) {
    const crn_piece *pieces = table->chain->pieces;
    crn_piece_node node = {CRN_PIECE_LEAF, a, b, 0};
    if (a == b) {
        const crn_piece_way *ways;
        uint32_t count = crn_piece_leaf_ways(table->chain, a, &ways);
        while (node.choice + 1 < count &&
               (crn_piece_way_memory(table->chain, &ways[node.choice], a) > memory ||
                crn_piece_way_time(&ways[node.choice]) > time))
            node.choice++;
        return node;
    }
    node.kind = CRN_PIECE_KEEP;
    for (uint32_t k = 0; k < pieces[a].way_count; k++, node.choice++)
        if (keep_time(table, &pieces[a].ways[k], a, b, memory) <= time)
            return node;
    node.kind = CRN_PIECE_CHECKPOINT;
    uint64_t peak = 0, gradient = crn_piece_gradient_after(table->chain, b);
    for (node.choice = a + 1; node.choice < b; node.choice++) {
        peak = crn_piece_sweep_peak(table->chain, a, node.choice, peak);
        if (memory >= gradient + peak && checkpoint_time(table, a, node.choice, b, memory) <= time)
            break;
    }
    return node; /* the only choice that is left: checkpoint b */
}

typedef struct task {
    uint32_t first, last;
    uint64_t memory;
} task;

typedef CRN_ARRAY(task) task_list; /* ranges still to be expanded, the next one last */

/* Add the ranges that a decision for `at` leaves. */
static cairn_status push_ranges(const crn_piece_table *table, crn_arena *arena, task at,
                                crn_piece_node node, task_list *tasks) {
    const crn_piece *pieces = table->chain->pieces;
    if (node.kind == CRN_PIECE_KEEP) {
        uint64_t kept = pieces[at.first].ways[node.choice].kept;
        CRN_PUSH(arena, *tasks, ((task){at.first + 1, at.last, at.memory - kept}));
    } else if (node.kind == CRN_PIECE_CHECKPOINT) {
        uint64_t input = pieces[node.choice].input_bytes;
        CRN_PUSH(arena, *tasks, ((task){at.first, node.choice - 1, at.memory}));
        CRN_PUSH(arena, *tasks, ((task){node.choice, at.last, at.memory - input}));
    }
    return CAIRN_OK;
}

/* The point of the function at or below `memory`. Its choice is as good, and in a thinned table
 * this is the memory at which the point was found. */
static crn_curve_point point_at(const crn_piece_table *table, task at) {
    crn_curve curve = crn_piece_range_curve(table, at.first, at.last);
    uint32_t k = curve.count - 1;
    while (k > 0 && curve.points[k].memory > at.memory)
        k--;
    return curve.points[k];
}

cairn_status crn_piece_schedule(const crn_piece_table *table, uint32_t first, uint32_t last,
                                uint64_t memory, crn_arena *arena, crn_piece_nodes *out) {
    task_list tasks = {0};
    uint32_t before = out->length;
    CRN_PUSH(arena, tasks, ((task){first, last, memory}));
    while (tasks.length > 0) {
        task at = tasks.data[--tasks.length];
        crn_curve_point point = point_at(table, at);
        crn_piece_node node = find_node(table, at.first, at.last, point.memory, point.cost);
        if (node.kind == CRN_PIECE_CHECKPOINT && is_long(table, at.first, at.last)) {
            out->length = before; /* it is only a bound */
            return CAIRN_OK;
        }
        CRN_PUSH(arena, *out, node);
        at.memory = point.memory;
        CRN_TRY(push_ranges(table, arena, at, node, &tasks));
    }
    return CAIRN_OK;
}

/* The first decision found for a..b that fits `memory`, which is at least its floor. */
static crn_piece_node find_least_node(const crn_piece_table *table, task at) {
    const crn_piece_chain *chain = table->chain;
    crn_piece_node node = {at.first < at.last ? CRN_PIECE_KEEP : CRN_PIECE_LEAF, at.first, at.last,
                           0};
    const crn_piece_way *ways = chain->pieces[at.first].ways;
    uint32_t count = chain->pieces[at.first].way_count;
    if (node.kind == CRN_PIECE_LEAF)
        count = crn_piece_leaf_ways(chain, at.first, &ways);
    for (; node.choice < count; node.choice++) {
        uint64_t rest = 0;
        if (node.kind == CRN_PIECE_KEEP)
            rest = ways[node.choice].kept + crn_piece_floor(table, at.first + 1, at.last);
        if (CRN_MAX(rest, crn_piece_way_memory(chain, &ways[node.choice], at.last)) <= at.memory)
            return node;
    }
    node.kind = CRN_PIECE_CHECKPOINT;
    uint64_t peak = 0, gradient = crn_piece_gradient_after(chain, at.last);
    for (node.choice = at.first + 1; node.choice < at.last; node.choice++) {
        uint32_t j = node.choice;
        peak = crn_piece_sweep_peak(chain, at.first, j, peak);
        uint64_t late = chain->pieces[j].input_bytes + crn_piece_floor(table, j, at.last);
        if (crn_max3(gradient + peak, late, crn_piece_floor(table, at.first, j - 1)) <= at.memory)
            break;
    }
    return node;
}

cairn_status crn_piece_least_schedule(const crn_piece_table *table, crn_arena *arena,
                                      crn_piece_nodes *out) {
    task_list tasks = {0};
    CRN_PUSH(arena, tasks, ((task){0, table->count - 1, crn_piece_least_memory(table)}));
    while (tasks.length > 0) {
        task at = tasks.data[--tasks.length];
        crn_piece_node node = find_least_node(table, at);
        CRN_PUSH(arena, *out, node);
        CRN_TRY(push_ranges(table, arena, at, node, &tasks));
    }
    return CAIRN_OK;
}

/* ---- Checking a schedule ---- */

static crn_piece_need judge_way(const crn_piece_chain *chain, const crn_piece_way *way,
                                uint32_t last) {
    return (crn_piece_need){crn_piece_way_memory(chain, way, last), crn_piece_way_time(way)};
}

/* The need of a checkpoint, given the needs of its two ranges: j..last and first..j-1. */
static crn_piece_need judge_checkpoint(const crn_piece_chain *chain, const crn_piece_node *node,
                                       crn_piece_need late, crn_piece_need early) {
    crn_piece_need need = {0, late.time + early.time};
    uint64_t peak = 0;
    for (uint32_t j = node->first + 1; j <= node->choice; j++) {
        peak = crn_piece_sweep_peak(chain, node->first, j, peak);
        need.time += chain->pieces[j - 1].forward_time;
    }
    need.memory = crn_max3(crn_piece_gradient_after(chain, node->last) + peak,
                           chain->pieces[node->choice].input_bytes + late.memory, early.memory);
    return need;
}

/* Nodes come before their children. So, from the end, every node finds the needs of its children on
 * top of the stack, that of the first child uppermost. */
cairn_status crn_piece_judge(const crn_piece_chain *chain, const crn_piece_node *nodes,
                             uint32_t count, crn_arena *arena, crn_piece_need *out) {
    crn_piece_need *stack;
    uint32_t height = 0;
    CRN_TAKE(arena, stack, (size_t)count + 1);
    for (uint32_t i = count; i-- > 0;) {
        const crn_piece_node *node = &nodes[i];
        if (node->kind == CRN_PIECE_LEAF) {
            const crn_piece_way *ways;
            crn_piece_leaf_ways(chain, node->first, &ways);
            stack[height++] = judge_way(chain, &ways[node->choice], node->last);
        } else if (node->kind == CRN_PIECE_KEEP) {
            const crn_piece_way *way = &chain->pieces[node->first].ways[node->choice];
            crn_piece_need own = judge_way(chain, way, node->last), *rest = &stack[height - 1];
            rest->memory = CRN_MAX(own.memory, way->kept + rest->memory);
            rest->time += own.time;
        } else {
            crn_piece_need late = stack[--height];
            stack[height - 1] = judge_checkpoint(chain, node, late, stack[height - 1]);
        }
    }
    *out = stack[0];
    return CAIRN_OK;
}
