/* piece_options.c: the ways of running a piece once and keeping tensors for its backward.
 *
 * The first way keeps everything that the backward reads. The next ones keep less and less of it,
 * and give up first what is quickest to recompute for its size. The last one keeps only results of
 * products (convolutions, linear layers, cells), which are slow to recompute. A way is dropped if
 * another one is nowhere worse. */
#include "solve/chain/measuring.h"

#include "graph/op_kinds.h"

#include <stdlib.h>

#define MOST_WAYS 16u

/* The cut at the end of a piece, or CAIRN_NONE. */
static cairn_id output_cut(const crn_measuring *m, uint32_t piece) {
    return piece + 1 < m->view->piece_count ? m->view->cuts[piece + 1] : CAIRN_NONE;
}

static int64_t time_of(const crn_measuring *m, const crn_backward *back) {
    int64_t time = 0;
    for (uint32_t d = 0; d < back->count; d++) {
        uint32_t count;
        const cairn_implementation *list =
            cairn_costs_op(m->problem->costs, back->decisions[d].id, &count);
        time = crn_add_time(time, count > 0 ? list[0].time_ns : 0);
    }
    return time;
}

/* A tensor that the backward reads: its size, and the time to recompute it. */
typedef struct reading {
    cairn_id tensor;
    uint64_t bytes;
    int64_t time;
} reading;

/* Order by time per byte, least first. */
static int compare_readings(const void *a, const void *b) {
    const reading *x = a, *y = b;
    __extension__ typedef unsigned __int128 wide;
    wide left = (wide)(uint64_t)x->time * y->bytes, right = (wide)(uint64_t)y->time * x->bytes;
    if (left != right)
        return left < right ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* The tensors that the backward of a piece reads, best ones to give up first. The output of the
 * piece is not among them, because it is there anyway. */
static cairn_status rank_readings(crn_measuring *m, uint32_t piece, const crn_backward *all,
                                  reading **out, uint32_t *count) {
    CRN_TAKE(m->arena, *out, all->kept_count);
    int64_t plain = time_of(m, all);
    *count = 0;
    for (uint32_t i = 0; i < all->kept_count; i++) {
        cairn_id t = all->kept[i];
        if (t == output_cut(m, piece))
            continue;
        crn_backward without;
        m->keepable[t] = false;
        CRN_TRY(crn_backward_make(m, piece, &without));
        m->keepable[t] = true;
        (*out)[(*count)++] = (reading){t, crn_measured_bytes(m, t), time_of(m, &without) - plain};
    }
    if (*count > 0)
        qsort(*out, *count, sizeof **out, compare_readings);
    return CAIRN_OK;
}

static cairn_status add_way(crn_measuring *m, uint32_t piece, crn_backward *backs,
                            crn_piece_way *ways, uint32_t *count) {
    crn_backward *back = &backs[*count];
    CRN_TRY(crn_backward_make(m, piece, back));
    CRN_TRY(crn_measure_way(m, piece, back, &ways[*count]));
    ++*count;
    return CAIRN_OK;
}

/* Mark the forward results of the piece that may be kept: all, products with their internals, or
 * none. The output is among the first two. */
typedef enum marking { MARK_NONE, MARK_ALL, MARK_PRODUCTS } marking;

static void mark_keepable(crn_measuring *m, uint32_t piece, marking what) {
    for (cairn_id o = m->view->first_op[piece]; o < m->view->first_op[piece + 1]; o++) {
        const cairn_op *op = cairn_graph_op(m->graph, o);
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (op->outputs[i] == CAIRN_NONE)
                continue;
            bool slow =
                i > 0 || crn_op_kinds[op->kind].product || op->outputs[i] == output_cut(m, piece);
            m->keepable[op->outputs[i]] = what == MARK_ALL || (what == MARK_PRODUCTS && slow);
        }
    }
}

/* Whether way `a` is nowhere worse than `b`. */
static bool covers(const crn_piece_way *a, const crn_piece_way *b) {
    return a->kept <= b->kept && a->forward_peak <= b->forward_peak &&
           a->backward_peak <= b->backward_peak &&
           a->forward_time + a->backward_time <= b->forward_time + b->backward_time;
}

/* Drop each way that another one covers; of equal ways the first stays. */
static uint32_t prune_ways(crn_backward *backs, crn_piece_way *ways, uint32_t count) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool covered = false;
        for (uint32_t j = 0; j < count && !covered; j++)
            covered =
                j != i && covers(&ways[j], &ways[i]) && !(j > i && covers(&ways[i], &ways[j]));
        for (uint32_t j = 0; j < left && !covered; j++)
            covered = covers(&ways[j], &ways[i]);
        if (covered)
            continue;
        backs[left] = backs[i];
        ways[left++] = ways[i];
    }
    return left;
}

/* The ways that keep less and less of what is read, then the way that keeps products only. */
static cairn_status other_ways(crn_measuring *m, uint32_t piece, crn_backward *backs,
                               crn_piece_way *ways, uint32_t *count) {
    reading *readings;
    uint32_t given_up = 0, total = 0;
    for (uint32_t i = 0; i < backs[0].kept_count; i++)
        m->keepable[backs[0].kept[i]] = true;
    CRN_TRY(rank_readings(m, piece, &backs[0], &readings, &total));
    for (uint32_t k = 1; k <= MOST_WAYS && given_up < total; k++) {
        uint32_t target = total <= MOST_WAYS ? k : (uint32_t)((uint64_t)total * k / MOST_WAYS);
        for (; given_up < target; given_up++)
            m->keepable[readings[given_up].tensor] = false;
        CRN_TRY(add_way(m, piece, backs, ways, count));
    }
    mark_keepable(m, piece, MARK_PRODUCTS);
    CRN_TRY(add_way(m, piece, backs, ways, count));
    mark_keepable(m, piece, MARK_NONE);
    return CAIRN_OK;
}

cairn_status crn_find_ways(crn_measuring *m, uint32_t piece, crn_backward **out_backs,
                           crn_piece *out) {
    crn_backward *backs;
    crn_piece_way *ways;
    uint32_t count = 0;
    CRN_TAKE(m->arena, backs, MOST_WAYS + 2);
    CRN_TAKE(m->arena, ways, MOST_WAYS + 2);
    mark_keepable(m, piece, MARK_ALL);
    CRN_TRY(add_way(m, piece, backs, ways, &count));
    mark_keepable(m, piece, MARK_NONE);
    if (m->recomputes)
        CRN_TRY(other_ways(m, piece, backs, ways, &count));
    *out_backs = backs;
    out->ways = ways;
    out->way_count = prune_ways(backs, ways, count);
    return CAIRN_OK;
}
