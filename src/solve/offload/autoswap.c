/* autoswap.c: AutoSwap (Zhang et al., 2019) as Beaumont et al. compare with it: activations are
 * moved in the order of a weighted average of four scores until the rest fits.
 *
 * If every op runs as early as possible and nothing is moved, x_i is not needed between the end of
 * F_i and the start of B_i. This time minus the two transfers is its absence:
 *
 *     duration    the absence
 *     area        the absence times the size
 *     weighted    the absence weighted by how much memory is over the limit
 *     submodular  the same, but memory that earlier choices freed is no longer over the limit; so
 *                 it is computed one choice at a time
 *
 * Each score is scaled to 0 .. 1000. The original chooses the weights by Bayesian optimisation.
 * Here they are searched: first all weights in quarters, then from the best of these by moving
 * weight from one score to another, in smaller and smaller portions. Deterministic. O(n log n),
 * except for the last score, whose work is limited. */
#include "solve/offload/crn_offload.h"

#include <stdlib.h>

__extension__ typedef __int128 wide;

#define SUBMODULAR_WORK 100000000u

enum { SCORES = 4, DURATION = 0, AREA, WEIGHTED, SUBMODULAR, FULL = 1000, WHOLE = 64 };

typedef struct autoswap {
    crn_offload_job *job;
    uint32_t n;
    int64_t *score[SCORES];
    int64_t *over;     /* per op, memory over the limit */
    int64_t *op_start; /* per op; 2n + 1 */
    wide *value;       /* scores before scaling */
    struct ranked {
        int64_t score;
        uint32_t activation;
    } * ranked;
    uint8_t *moved;
} autoswap;

/* ---- Scores ---- */

static int64_t absence_start(const autoswap *a, uint32_t i) {
    return a->op_start[i + 1] + a->job->chain->size[i];
}

static int64_t absence_end(const autoswap *a, uint32_t i) {
    return a->op_start[2 * a->n - 1 - i] - a->job->chain->size[i];
}

/* Scale values to 0 .. FULL; the largest becomes FULL. */
static void scale(autoswap *a, int64_t *score) {
    wide low = a->value[0], high = a->value[0];
    for (uint32_t i = 1; i < a->n; i++) {
        low = CRN_MIN(low, a->value[i]);
        high = CRN_MAX(high, a->value[i]);
    }
    while (high - low > INT64_MAX / FULL) { /* keep products small */
        for (uint32_t i = 0; i < a->n; i++)
            a->value[i] /= 1024;
        low /= 1024;
        high /= 1024;
    }
    for (uint32_t i = 0; i < a->n; i++)
        score[i] = high > low ? (int64_t)((a->value[i] - low) * FULL / (high - low)) : 0;
}

/* Memory over the limit, summed over the absence. Only ops i+1 .. 2n-2-i can lie in it. */
static wide weighted_absence(const autoswap *a, uint32_t i) {
    int64_t from = absence_start(a, i), to = absence_end(a, i);
    wide sum = 0;
    for (uint32_t k = i + 1; k + i + 1 < 2 * a->n; k++) {
        int64_t begin = CRN_MAX(from, a->op_start[k]), end = CRN_MIN(to, a->op_start[k + 1]);
        if (begin < end && a->over[k] > 0)
            sum += (wide)(end - begin) * a->over[k];
    }
    return sum;
}

/* The same up to a time, from prefix sums before each op. */
static wide over_until(const autoswap *a, const wide *before, int64_t time) {
    uint32_t low = 0, high = 2 * a->n;
    while (high - low > 1) { /* the op that runs at `time` */
        uint32_t middle = low + (high - low) / 2;
        if (a->op_start[middle] <= time)
            low = middle;
        else
            high = middle;
    }
    return before[low] + (wide)CRN_MAX(a->over[low], 0) * (time - a->op_start[low]);
}

static void fill_weighted(autoswap *a, wide *before) {
    for (uint32_t k = 0; k < 2 * a->n; k++)
        before[k + 1] =
            before[k] + (wide)CRN_MAX(a->over[k], 0) * (a->op_start[k + 1] - a->op_start[k]);
    for (uint32_t i = 0; i < a->n; i++) {
        int64_t from = absence_start(a, i), to = absence_end(a, i);
        a->value[i] = from < to ? over_until(a, before, to) - over_until(a, before, from) : 0;
    }
}

static void take_away(autoswap *a, uint32_t i) {
    for (uint32_t k = i + 1; k + i + 1 < 2 * a->n; k++)
        a->over[k] -= a->job->chain->size[i];
}

/* The activation that is chosen first scores FULL, later ones less. Choosing goes on while any
 * memory is over the limit; of equal values the first is chosen. Values only fall with every
 * choice, so only those that were highest are computed again. On very long chains it stops at a
 * limit of work. */
static void score_submodular(autoswap *a) {
    uint32_t chosen = 0;
    memset(a->moved, 0, a->n);
    for (uint64_t work = 0; chosen < a->n && work < SUBMODULAR_WORK; work += 3 * (uint64_t)a->n) {
        uint32_t best = a->n;
        for (uint32_t i = 0; i < a->n; i++)
            if (!a->moved[i] && (best == a->n || a->value[i] > a->value[best]))
                best = i;
        wide fresh = weighted_absence(a, best);
        if (fresh < a->value[best]) {
            a->value[best] = fresh;
            continue;
        }
        if (fresh == 0)
            break;
        a->moved[best] = 1;
        a->score[SUBMODULAR][best] = FULL - (int64_t)FULL * chosen++ / a->n;
        take_away(a, best);
    }
}

static void fill_scores(autoswap *a, wide *before) {
    const crn_offload_chain *c = a->job->chain;
    uint32_t n = a->n;
    for (uint32_t k = 0; k < 2 * n; k++) {
        uint32_t i = k < n ? k : 2 * n - 1 - k;
        a->op_start[k + 1] = a->op_start[k] + (k < n ? c->forward[i] : c->backward[i]);
        a->over[k] = k < n ? c->forward_need[i] : c->backward_need[i];
    }
    for (uint32_t i = 0; i < n; i++)
        a->value[i] = absence_end(a, i) - absence_start(a, i);
    scale(a, a->score[DURATION]);
    for (uint32_t i = 0; i < n; i++) {
        wide absence = absence_end(a, i) - absence_start(a, i);
        a->value[i] = absence > 0 ? absence * c->size[i] : absence;
    }
    scale(a, a->score[AREA]);
    fill_weighted(a, before);
    scale(a, a->score[WEIGHTED]);
    fill_weighted(a, before);
    score_submodular(a);
}

/* ---- From weights to a schedule ---- */

static int by_score(const void *a, const void *b) {
    const struct ranked *s = a, *t = b;
    if (s->score != t->score)
        return s->score > t->score ? -1 : 1;
    return s->activation < t->activation ? -1 : s->activation > t->activation;
}

static bool prefix_fits(autoswap *a, uint32_t count) {
    memset(a->moved, 0, a->n);
    for (uint32_t k = 0; k < count; k++)
        a->moved[a->ranked[k].activation] = 1;
    return crn_offload_set_fits(a->job->chain, a->moved);
}

/* Try the shortest prefix of the ranking that fits. A longer prefix always fits too. */
static void try_weights(autoswap *a, const int64_t *weight, crn_offload_schedule *best) {
    for (uint32_t i = 0; i < a->n; i++) {
        a->ranked[i] = (struct ranked){0, i};
        for (int s = 0; s < SCORES; s++)
            a->ranked[i].score += weight[s] * a->score[s][i];
    }
    qsort(a->ranked, a->n, sizeof *a->ranked, by_score);
    uint32_t low = 0, high = a->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (prefix_fits(a, middle))
            high = middle;
        else
            low = middle + 1;
    }
    if (prefix_fits(a, low))
        crn_offload_try(a->job, a->moved, best);
}

/* ---- Searching the weights ---- */

static void try_better(autoswap *a, const int64_t *weight, int64_t *best_weight,
                       crn_offload_schedule *best) {
    int64_t before = best->found ? best->makespan : INT64_MAX;
    try_weights(a, weight, best);
    if (best->found && best->makespan < before)
        memcpy(best_weight, weight, SCORES * sizeof *weight);
}

static void search_quarters(autoswap *a, int64_t *best_weight, crn_offload_schedule *best) {
    const int64_t step = WHOLE / 4;
    for (int64_t d = 0; d <= WHOLE; d += step)
        for (int64_t e = 0; d + e <= WHOLE; e += step)
            for (int64_t f = 0; d + e + f <= WHOLE; f += step) {
                int64_t weight[SCORES] = {d, e, f, WHOLE - d - e - f};
                try_better(a, weight, best_weight, best);
            }
}

static void search_near(autoswap *a, int64_t portion, int64_t *best_weight,
                        crn_offload_schedule *best) {
    for (int from = 0; from < SCORES; from++)
        for (int to = 0; to < SCORES; to++) {
            int64_t weight[SCORES];
            memcpy(weight, best_weight, sizeof weight);
            if (from == to || weight[from] < portion)
                continue;
            weight[from] -= portion;
            weight[to] += portion;
            try_better(a, weight, best_weight, best);
        }
}

cairn_status crn_offload_solve_autoswap(crn_offload_job *job, crn_offload_schedule *best) {
    autoswap a = {.job = job, .n = job->chain->count};
    int64_t weight[SCORES] = {WHOLE, 0, 0, 0};
    wide *before;
    for (int s = 0; s < SCORES; s++)
        CRN_TAKE(job->arena, a.score[s], a.n);
    CRN_TAKE(job->arena, a.over, 2 * (size_t)a.n);
    CRN_TAKE(job->arena, a.op_start, 2 * (size_t)a.n + 1);
    CRN_TAKE(job->arena, a.value, a.n);
    CRN_TAKE(job->arena, before, 2 * (size_t)a.n + 1);
    CRN_TAKE(job->arena, a.ranked, a.n);
    CRN_TAKE(job->arena, a.moved, a.n);
    fill_scores(&a, before);
    search_quarters(&a, weight, best);
    for (int64_t portion = WHOLE / 8; portion > 0; portion /= 2)
        search_near(&a, portion, weight, best);
    return CAIRN_OK;
}
