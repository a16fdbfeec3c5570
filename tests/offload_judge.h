/* offload_judge.h: an independent check of offloading schedules, for tests. It goes through a
 * schedule moment by moment and adds up what is in memory, tensor by tensor. It uses only the
 * definition of the problem; it is simple and slow. */
#ifndef OFFLOAD_JUDGE_H
#define OFFLOAD_JUDGE_H

#include "cairn/papers/offload.h"
#include "check.h"

enum { JUDGE_MOST = 4096 }; /* moments */

typedef struct judge {
    const cairn_offload_problem *p;
    const cairn_offload_solution *s;
    bool whole;
    const char *wrong; /* first broken rule */
} judge;

static uint64_t judge_forward_end(const judge *j, uint32_t i) {
    return j->s->forward_start_x_beta[i] + j->p->forward_time[i] * j->p->bandwidth;
}

static uint64_t judge_backward_end(const judge *j, uint32_t i) {
    return j->s->backward_start_x_beta[i] + j->p->backward_time[i] * j->p->bandwidth;
}

static const cairn_offload_transfer *judge_transfer(const judge *j, uint32_t i) {
    for (uint32_t k = 0; k < j->s->transfer_count; k++)
        if (j->s->transfers[k].activation == i)
            return &j->s->transfers[k];
    return NULL;
}

static void judge_rule(judge *j, bool holds, const char *rule) {
    if (!holds && j->wrong == NULL)
        j->wrong = rule;
}

/* Ops run in order, one at a time. */
static void judge_ops(judge *j) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < j->p->layers; i++) {
        judge_rule(j, j->s->forward_start_x_beta[i] >= end, "a forward op starts too early");
        end = judge_forward_end(j, i);
    }
    for (uint32_t i = j->p->layers; i-- > 0;) {
        judge_rule(j, j->s->backward_start_x_beta[i] >= end, "a backward op starts too early");
        end = judge_backward_end(j, i);
    }
    judge_rule(j, end == j->s->makespan_x_beta, "the makespan is not the end of B_0");
}

/* Each round trip lies after the activation is made and before it is read; transfers run one at a
 * time. */
static void judge_link(judge *j) {
    uint64_t start[JUDGE_MOST], size[JUDGE_MOST];
    uint32_t count = 0;
    for (uint32_t k = 0; k < j->s->transfer_count; k++) {
        const cairn_offload_transfer *t = &j->s->transfers[k];
        uint64_t bytes = j->p->activations[t->activation];
        judge_rule(j, t->activation < j->p->layers, "an activation that cannot move");
        judge_rule(j, k == 0 || t[-1].activation < t->activation, "transfers are not in order");
        judge_rule(j,
                   t->activation == 0 ||
                       t->offload_start_x_beta >= judge_forward_end(j, t->activation - 1),
                   "an offload starts before its activation is made");
        judge_rule(j, t->fetch_start_x_beta >= t->offload_start_x_beta + bytes,
                   "a fetch starts before the offload has ended");
        judge_rule(j, t->fetch_start_x_beta + bytes <= j->s->backward_start_x_beta[t->activation],
                   "an activation is not back when it is read");
        start[count] = t->offload_start_x_beta, size[count++] = bytes;
        start[count] = t->fetch_start_x_beta, size[count++] = bytes;
    }
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < a; b++)
            judge_rule(j, start[a] + size[a] <= start[b] || start[b] + size[b] <= start[a],
                       "two transfers at once");
}

/* Twice the bytes of x_i that are away at the time `twice` / 2 (so that times between two integers
 * are possible). */
static uint64_t judge_away(const judge *j, uint32_t i, uint64_t twice) {
    const cairn_offload_transfer *t = judge_transfer(j, i);
    uint64_t size = 2 * j->p->activations[i];
    if (t == NULL || twice < 2 * judge_forward_end(j, i))
        return 0;
    uint64_t offload = 2 * t->offload_start_x_beta, fetch = 2 * t->fetch_start_x_beta;
    if (j->whole)
        return twice >= offload + size && twice <= fetch ? size : 0;
    uint64_t out = twice <= offload ? 0 : twice - offload;
    uint64_t back = twice <= fetch ? 0 : twice - fetch;
    return (out < size ? out : size) - (back < size ? back : size);
}

/* Twice the memory in use just after the time `twice` / 2, or at that time for an op that takes no
 * time. Op k runs, or none (k == 2n). */
static uint64_t judge_memory(const judge *j, uint64_t twice, uint32_t k) {
    const cairn_offload_problem *p = j->p;
    uint32_t n = p->layers;
    uint64_t held = 0;
    for (uint32_t i = 0; i <= n; i++) {
        bool made, gone, gradient;
        if (k < 2 * n) { /* by the order of ops: exact even if they take no time */
            made = i == 0 || k >= i - 1;
            gone = i > 0 && k > 2 * n - i;
            gradient = i == n ? k == n : k + i + 1 >= 2 * n && k <= 2 * n - i;
        } else {
            made = i == 0 || twice >= 2 * j->s->forward_start_x_beta[i - 1];
            gone = i > 0 && twice >= 2 * judge_backward_end(j, i - 1);
            uint32_t maker = i < n ? i : n - 1;
            gradient = twice >= 2 * j->s->backward_start_x_beta[maker] && !gone;
        }
        if (made && !gone)
            held += 2 * p->activations[i] - (i < n ? judge_away(j, i, twice) : 0);
        if (gradient)
            held += 2 * p->gradients[i];
    }
    if (k < 2 * n)
        held += 2 * (k < n ? p->forward_extra[k] : p->backward_extra[2 * n - 1 - k]);
    return held;
}

static uint64_t judge_op_start(const judge *j, uint32_t k) {
    uint32_t n = j->p->layers;
    return k < n ? j->s->forward_start_x_beta[k] : j->s->backward_start_x_beta[2 * n - 1 - k];
}

static uint64_t judge_op_end(const judge *j, uint32_t k) {
    uint32_t n = j->p->layers;
    return k < n ? judge_forward_end(j, k) : judge_backward_end(j, 2 * n - 1 - k);
}

/* The op that runs in the middle of the moment, or 2n. */
static uint32_t judge_running(const judge *j, uint64_t twice) {
    for (uint32_t k = 0; k < 2 * j->p->layers; k++)
        if (2 * judge_op_start(j, k) < twice && twice < 2 * judge_op_end(j, k))
            return k;
    return 2 * j->p->layers;
}

static int judge_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Memory is linear between two moments. So it is enough to check just after the first and just
 * before the second (by half a unit; moments are integers). */
static void judge_memory_all(judge *j) {
    static uint64_t moments[8 * JUDGE_MOST];
    uint32_t count = 0, n = j->p->layers;
    for (uint32_t k = 0; k < 2 * n; k++) {
        moments[count++] = judge_op_start(j, k);
        moments[count++] = judge_op_end(j, k);
    }
    for (uint32_t k = 0; k < j->s->transfer_count; k++) {
        const cairn_offload_transfer *t = &j->s->transfers[k];
        uint64_t bytes = j->p->activations[t->activation];
        moments[count++] = t->offload_start_x_beta;
        moments[count++] = t->offload_start_x_beta + bytes;
        moments[count++] = t->fetch_start_x_beta;
        moments[count++] = t->fetch_start_x_beta + bytes;
    }
    qsort(moments, count, sizeof *moments, judge_compare);
    for (uint32_t k = 0; k + 1 < count; k++) {
        if (moments[k] == moments[k + 1])
            continue;
        uint64_t after = 2 * moments[k] + 1, before = 2 * moments[k + 1] - 1;
        uint64_t most = judge_memory(j, after, judge_running(j, after));
        uint64_t other = judge_memory(j, before, judge_running(j, before));
        most = most > other ? most : other;
        /* Half a unit of time changes fractional memory by at most half a unit of size, which is 1
         * in twice-units. The true value at a moment is an integer. */
        judge_rule(j, most <= 2 * j->p->memory + (j->whole ? 0 : 1), "memory is exceeded");
    }
    for (uint32_t k = 0; k < 2 * n; k++)
        if (judge_op_start(j, k) == judge_op_end(j, k))
            judge_rule(j, judge_memory(j, 2 * judge_op_start(j, k), k) <= 2 * j->p->memory,
                       "memory is exceeded by an op that takes no time");
}

/* NULL, or the first rule that the schedule breaks. */
static inline const char *judge_schedule(const cairn_offload_problem *problem,
                                         const cairn_offload_solution *solution,
                                         cairn_offload_release release) {
    judge j = {problem, solution, release == CAIRN_OFFLOAD_RELEASE_WHOLE, NULL};
    judge_ops(&j);
    judge_link(&j);
    judge_memory_all(&j);
    return j.wrong;
}

#endif
