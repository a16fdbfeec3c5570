/* piece_narrow.c: finds the spans of memory of each sub-chain that matter to the whole chain.
 *
 * Nearly all points of an exact table are not used by any good schedule of the whole chain: a range
 * that is recomputed after a checkpoint is short and has enough memory, or it is long and then too
 * slow. Two coarse tables, thinned upwards and downwards, show this in advance. Let U be the upper
 * and D the lower one. From the whole chain downwards, the choice "checkpoint j" of a..b can be
 * best only at memory m where
 *
 *     f_a + .. + f_{j-1} + D(j,b)(m - w_j) + D(a,j-1)(m)  <=  U(a,b)(m)
 *
 * So its ranges are needed only there. The same holds for the ways of keeping:
 *
 *     a..b    needed at        |------------------|
 *     a..j-1                       |----|              where checkpoint j may be best
 *     j..b                       |----|                the same, minus w_j
 *
 * If a sub-chain is needed in several spans, they are joined to one span. An optimal choice
 * always satisfies the inequality, also in case of ties, so the exact table needs only these
 * spans.
 *
 * Time O(n^3 p) for coarse step functions of p points; in practice less than making them. */
#include "solve/chain/piece_rules.h"

typedef struct narrowing {
    const crn_piece_chain *chain;
    const crn_piece_table *above, *below;
    const uint32_t *home;
    crn_span *spans;
} narrowing;

/* a..b is needed at the memory of `span` minus `taken`. */
static void ask(narrowing *w, uint32_t a, uint32_t b, crn_span span, uint64_t taken) {
    if (span.end == 0)
        return;
    size_t n = w->chain->count, home = w->home[a * n + (b - a)];
    crn_span *asked = &w->spans[home * n + (home + b - a)];
    uint64_t low = span.low - taken, end = span.end - taken;
    asked->low = asked->end == 0 ? low : CRN_MIN(asked->low, low);
    asked->end = CRN_MAX(asked->end, end);
}

/* The span that is needed of a..b, from `low` on. */
static crn_span span_from(const narrowing *w, uint32_t a, uint32_t b, uint64_t low) {
    crn_span span = w->spans[(size_t)a * w->chain->count + b];
    span.low = CRN_MAX(span.low, low);
    return span;
}

static void ask_keeps(narrowing *w, uint32_t a, uint32_t b) {
    crn_curve limit = crn_piece_range_curve(w->above, a, b);
    crn_curve rest = crn_piece_range_curve(w->below, a + 1, b);
    for (uint32_t k = 0; k < w->chain->pieces[a].way_count; k++) {
        const crn_piece_way *way = &w->chain->pieces[a].ways[k];
        crn_span span = span_from(w, a, b, crn_piece_way_memory(w->chain, way, b));
        span = crn_curve_sum_below(rest, way->kept, NULL, crn_piece_way_time(way), limit, span);
        ask(w, a + 1, b, span, way->kept);
    }
}

static void ask_checkpoints(narrowing *w, uint32_t a, uint32_t b) {
    crn_curve limit = crn_piece_range_curve(w->above, a, b);
    uint64_t gradient = crn_piece_gradient_after(w->chain, b), peak = 0;
    int64_t elapsed = 0;
    for (uint32_t j = a + 1; j <= b; j++) {
        uint64_t input = w->chain->pieces[j].input_bytes;
        crn_curve early = crn_piece_range_curve(w->below, a, j - 1);
        peak = crn_piece_sweep_peak(w->chain, a, j, peak);
        elapsed += w->chain->pieces[j - 1].forward_time;
        crn_span span = crn_curve_sum_below(crn_piece_range_curve(w->below, j, b), input, &early,
                                            elapsed, limit, span_from(w, a, b, gradient + peak));
        ask(w, j, b, span, input);
        ask(w, a, j - 1, span, 0);
    }
}

cairn_status crn_piece_narrow(const crn_piece_chain *chain, const crn_piece_table *above,
                              const crn_piece_table *below, crn_arena *arena,
                              const crn_span **out) {
    narrowing w = {.chain = chain, .above = above, .below = below};
    uint32_t n = chain->count;
    CRN_TRY(crn_piece_homes(chain, arena, &w.home));
    CRN_TAKE(arena, w.spans, (size_t)n * n);
    ask(&w, 0, n - 1, CRN_SPAN_ALL, 0);
    for (uint32_t length = n; length > 1; length--)
        for (uint32_t a = 0; a + length <= n; a++) {
            if (w.home[(size_t)a * n + length - 1] != a ||
                w.spans[(size_t)a * n + (a + length - 1)].end == 0)
                continue;
            ask_keeps(&w, a, a + length - 1);
            ask_checkpoints(&w, a, a + length - 1);
        }
    *out = w.spans;
    return CAIRN_OK;
}
