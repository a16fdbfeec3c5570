/* chain_beam.c: better than nested schedules on long chains, by a beam search over the resident
 * tensors.
 *
 * A state is the backward b_j that is in memory, the resident forwards r_1 < .. < r_t (besides r_0
 * = 0) and the cost so far. If all of them are kept until their own backward, the rest is a row of
 * nested problems. Their optimal costs are in the table of `precise`:
 *
 *     0 ....... r_1 ..... r_2 ............ j
 *     [C(0,r_1)][C(r_1,r_2)][  C(r_2,j)   ]      each with what the residents below leave free
 *
 * So every state has a complete schedule. The search starts with that of `precise`, so it is never
 * worse. It leaves nested schedules by moves that drop a resident early:
 *
 *     sweep r..k       F_{r+1} .. F_k from a resident r, keeping f_k; another resident may be
 *                      dropped before it, or r itself on the way (r moves up to k)
 *     backward         B_{j-1}, with or without dropping one first
 *
 * There is a phase for each j = N+1 .. 1. The states of a phase are expanded best first, a fixed
 * number of times. States that pass the backward compete for the next phase. States whose
 * completion does not fit are ranked by how much memory is missing.
 *
 * The smallest budget is that of chain_least_budget.c for chains that are short enough, else that
 * of `precise`. Where the table of `precise` would be too large, the answer is that of
 * `precise`. */
#include "solve/chain/chain_states.h"

#define WIDTH 24u           /* states that enter the next phase */
#define LISTED 96u          /* states of a phase */
#define TARGETS 6u          /* ends of a sweep that are tried */
#define DEFAULT_WORK 24000u /* expansions in all */
#define LEAST_WORK 12u      /* expansions in a phase */
#define BUDGET_STATES 200000u

typedef struct node {
    uint32_t parent, phase;
    int64_t cost;
    uint64_t memory;        /* f_0, residents and b_phase */
    const uint16_t *layers; /* residents, ascending, without 0 */
    uint32_t count;
    uint32_t from, to, drop; /* the sweep that led here (to = 0: the backward); drop 0: none */
    uint64_t lacking;        /* how much more memory than the budget the completion needs */
    int64_t total;           /* cost with the completion */
    bool expanded;
} node;

typedef struct shortlist {
    uint32_t nodes[LISTED];
    uint32_t count, limit;
} shortlist;

typedef struct beam {
    crn_chain_job *job;
    const cairn_chain_problem *problem;
    crn_chain_nested nested;
    CRN_ARRAY(node) all;
    int64_t *forward_sum, *backward_sum; /* [l]: F_1 .. F_l, B_0 .. B_l */
    uint16_t *scratch;                   /* residents of a state being tried */
    shortlist open, next;
    uint32_t best;
    int64_t best_total; /* CRN_CURVE_NEVER until something fits */
} beam;

/* ---- Evaluating states ---- */

/* Fill in `lacking` and `total` from the nested completion. If memory is missing, the cost is that
 * of a completion with enough memory. */
static void complete(const beam *b, node *n) {
    const uint64_t *f = b->problem->forward_sizes;
    uint64_t budget = b->job->budget, need = 0, below = f[0];
    for (uint32_t s = 0; s <= n->count; s++) {
        uint32_t first = s == 0 ? 0 : n->layers[s - 1];
        uint32_t last = (s == n->count ? n->phase : n->layers[s]) - 1;
        below += s == 0 ? 0 : f[first];
        need = CRN_MAX(need, below + crn_piece_floor(b->nested.table, first, last));
    }
    n->lacking = need > budget ? need - budget : 0;
    n->total = n->cost;
    below = f[0];
    for (uint32_t s = 0; s <= n->count; s++) {
        uint32_t first = s == 0 ? 0 : n->layers[s - 1];
        uint32_t last = (s == n->count ? n->phase : n->layers[s]) - 1;
        below += s == 0 ? 0 : f[first];
        uint64_t memory = CRN_MAX(budget + n->lacking, below) - below;
        memory = CRN_MAX(memory, crn_piece_floor(b->nested.table, first, last));
        int64_t time = crn_piece_time(b->nested.table, first, last, memory);
        n->total +=
            time == CRN_CURVE_NEVER ? 0 : time; /* not in the table only if memory is missing */
    }
}

static bool better(const node *x, const node *y) {
    if (x->lacking != y->lacking)
        return x->lacking < y->lacking;
    if (x->total != y->total)
        return x->total < y->total;
    return x->cost > y->cost; /* prefer the state that is further on */
}

/* A lower bound of the cost of every completion: every missing forward once, and the backwards. */
static int64_t bound(const beam *b, const node *n) {
    int64_t rest = b->forward_sum[n->phase - 1] + b->backward_sum[n->phase - 1];
    for (uint32_t s = 0; s < n->count; s++)
        rest -= b->problem->forward_costs[n->layers[s]];
    return n->cost + rest;
}

/* ---- Pools ---- */

static bool same_state(const node *x, const node *y) {
    return x->count == y->count && x->phase == y->phase &&
           memcmp(x->layers, y->layers, x->count * sizeof *x->layers) == 0;
}

/* The place of the state in the shortlist: that of an equal one that costs more, the end, or that
 * of the worst one. LISTED: it does not enter the shortlist. */
static uint32_t find_place(const beam *b, const shortlist *p, const node *n) {
    uint32_t worst = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const node *other = &b->all.data[p->nodes[i]];
        if (same_state(n, other))
            return n->cost < other->cost ? i : LISTED;
        if (better(&b->all.data[p->nodes[worst]], other))
            worst = i;
    }
    if (p->count < p->limit)
        return p->count;
    return better(n, &b->all.data[p->nodes[worst]]) ? worst : LISTED;
}

/* Offer a state to a shortlist. Its residents are in scratch memory. */
static cairn_status offer(beam *b, shortlist *p, node *n) {
    complete(b, n);
    if (n->phase > 0 && bound(b, n) >= b->best_total)
        return CAIRN_OK;
    uint32_t place = find_place(b, p, n);
    if (place == LISTED)
        return CAIRN_OK;
    uint16_t *layers;
    CRN_TAKE(b->job->arena, layers, n->count);
    memcpy(layers, n->layers, n->count * sizeof *layers);
    n->layers = layers;
    CRN_PUSH(b->job->arena, b->all, *n);
    p->nodes[place] = b->all.length - 1;
    p->count += place == p->count;
    if (n->lacking == 0 && n->total < b->best_total) {
        b->best = b->all.length - 1;
        b->best_total = n->total;
    }
    return CAIRN_OK;
}

/* ---- Moves ---- */

/* The residents of `n` without `drop` and with `add` (0: neither), into scratch memory. */
static uint32_t change(const beam *b, const node *n, uint32_t drop, uint32_t add) {
    uint32_t count = 0;
    bool added = add == 0;
    for (uint32_t s = 0; s < n->count; s++) {
        if (!added && n->layers[s] > add) {
            b->scratch[count++] = (uint16_t)add;
            added = true;
        }
        if (n->layers[s] != drop)
            b->scratch[count++] = n->layers[s];
    }
    if (!added)
        b->scratch[count++] = (uint16_t)add;
    return count;
}

/* The peak of F_{from+1} .. F_to if `memory` is in use before; `leaves`: f_from is dropped after
 * its one reader. */
static uint64_t sweep_peak(const cairn_chain_problem *p, uint64_t memory, uint32_t from,
                           uint32_t to, bool leaves) {
    const uint64_t *f = p->forward_sizes;
    uint64_t peak = memory + f[from + 1];
    if (leaves)
        memory -= f[from];
    for (uint32_t l = from + 2; l <= to; l++)
        peak = CRN_MAX(peak, memory + f[l - 1] + f[l]);
    return peak;
}

static cairn_status try_sweep(beam *b, uint32_t parent, uint32_t from, uint32_t to, uint32_t drop) {
    const node *at = &b->all.data[parent];
    const uint64_t *f = b->problem->forward_sizes;
    uint64_t memory = at->memory - (drop != 0 && drop != from ? f[drop] : 0);
    if (sweep_peak(b->problem, memory, from, to, drop == from && drop != 0) > b->job->budget)
        return CAIRN_OK;
    node n = {.parent = parent, .phase = at->phase, .from = from, .to = to, .drop = drop};
    n.cost = at->cost + b->forward_sum[to] - b->forward_sum[from];
    n.memory = at->memory + f[to] - (drop != 0 ? f[drop] : 0);
    n.count = change(b, at, drop, to);
    n.layers = b->scratch;
    return offer(b, &b->open, &n);
}

static cairn_status try_backward(beam *b, uint32_t parent, uint32_t drop) {
    const node *at = &b->all.data[parent];
    const uint64_t *f = b->problem->forward_sizes, *g = b->problem->backward_sizes;
    uint32_t last = at->phase - 1;
    uint64_t memory = at->memory - (drop != 0 ? f[drop] : 0);
    if (memory + g[last] > b->job->budget)
        return CAIRN_OK;
    node n = {.parent = parent, .phase = last, .drop = drop};
    n.cost = at->cost + b->problem->backward_costs[last];
    n.memory = memory + g[last] - g[at->phase] - (last > 0 ? f[last] : 0);
    n.count = change(b, at, drop, 0);
    n.count -= last > 0; /* its backward has freed f_last, the last resident */
    n.layers = b->scratch;
    return offer(b, &b->next, &n);
}

/* The best ends for a sweep from the last resident: those whose two nested ranges cost least. The
 * next layer and the last one are always among them. */
static uint32_t find_targets(const beam *b, const node *at, uint32_t from, uint32_t *targets) {
    const crn_piece_table *table = b->nested.table;
    uint64_t used = at->memory - b->problem->backward_sizes[at->phase], free_now;
    int64_t costs[TARGETS];
    uint32_t count = 0, last = at->phase - 1;
    free_now = b->job->budget > used ? b->job->budget - used : 0;
    for (uint32_t k = from + 1; k <= last; k++) {
        uint64_t size = b->problem->forward_sizes[k];
        if (size > free_now)
            continue;
        int64_t low = crn_piece_time(table, k, last, free_now - size);
        int64_t high = crn_piece_time(table, from, k - 1, free_now);
        if (low == CRN_CURVE_NEVER || high == CRN_CURVE_NEVER)
            continue;
        int64_t cost = b->forward_sum[k] - b->forward_sum[from] + low + high;
        uint32_t place = count < TARGETS ? count++ : TARGETS;
        for (; place > 0 && costs[place - 1] > cost; place--)
            if (place < TARGETS) {
                costs[place] = costs[place - 1];
                targets[place] = targets[place - 1];
            }
        if (place < TARGETS) {
            costs[place] = cost;
            targets[place] = k;
        }
    }
    targets[count++] = from + 1;
    if (last > from + 1)
        targets[count++] = last;
    return count;
}

static cairn_status expand_sweeps(beam *b, uint32_t parent) {
    node at = b->all.data[parent]; /* a copy: the array may move */
    uint32_t from = at.count == 0 ? 0 : at.layers[at.count - 1], targets[TARGETS + 2];
    uint32_t count = find_targets(b, &at, from, targets);
    for (uint32_t i = 0; i < count; i++) {
        CRN_TRY(try_sweep(b, parent, from, targets[i], 0));
        for (uint32_t s = 0; s < at.count; s++)
            CRN_TRY(try_sweep(b, parent, from, targets[i], at.layers[s]));
    }
    /* A resident further down may move up to a smaller tensor. */
    for (uint32_t s = 0; s + 1 < at.count; s++)
        for (uint32_t to = at.layers[s] + 1u; to <= at.layers[s] + 3u && to < at.layers[s + 1];
             to++)
            CRN_TRY(try_sweep(b, parent, at.layers[s], to, at.layers[s]));
    return CAIRN_OK;
}

static cairn_status expand(beam *b, uint32_t parent) {
    node at = b->all.data[parent];
    bool ready = at.phase == 1 || (at.count > 0 && at.layers[at.count - 1] == at.phase - 1);
    if (!ready)
        return expand_sweeps(b, parent);
    CRN_TRY(try_backward(b, parent, 0));
    for (uint32_t s = 0; s < at.count; s++)
        if (at.layers[s] != at.phase - 1)
            CRN_TRY(try_backward(b, parent, at.layers[s]));
    return CAIRN_OK;
}

/* ---- The search ---- */

static uint32_t pick(const beam *b) {
    uint32_t best = CRN_STATE_NONE;
    for (uint32_t i = 0; i < b->open.count; i++) {
        const node *n = &b->all.data[b->open.nodes[i]];
        if (!n->expanded && (best == CRN_STATE_NONE || better(n, &b->all.data[best])))
            best = b->open.nodes[i];
    }
    return best;
}

static cairn_status search(beam *b, uint32_t work) {
    node start = {.parent = CRN_STATE_NONE, .phase = b->problem->layers + 1, .layers = b->scratch};
    start.memory = b->problem->forward_sizes[0] + b->problem->backward_sizes[start.phase];
    b->next = (shortlist){.limit = WIDTH};
    CRN_TRY(offer(b, &b->next, &start));
    for (uint32_t phase = start.phase; phase > 0 && b->next.count > 0; phase--) {
        b->open = b->next;
        b->open.limit = LISTED;
        b->next = (shortlist){.limit = WIDTH};
        for (uint32_t step = 0, at; step < work && (at = pick(b)) != CRN_STATE_NONE; step++) {
            b->all.data[at].expanded = true;
            CRN_TRY(expand(b, at));
        }
    }
    return CAIRN_OK;
}

/* ---- Writing the best schedule ---- */

static cairn_status write_move(const node *n, crn_arena *arena, crn_chain_steps *out) {
    if (n->drop != 0 && (n->to == 0 || n->drop != n->from))
        CRN_TRY(crn_chain_push(arena, out, CAIRN_CHAIN_STEP_DROP, n->drop));
    if (n->to == 0)
        return crn_chain_push(arena, out, CAIRN_CHAIN_STEP_BACKWARD, n->phase);
    for (uint32_t l = n->from + 1; l <= n->to; l++) {
        CRN_TRY(crn_chain_push(arena, out, CAIRN_CHAIN_STEP_FORWARD, l));
        if (l - 1 > n->from || (n->drop == n->from && n->drop != 0))
            CRN_TRY(crn_chain_push(arena, out, CAIRN_CHAIN_STEP_DROP, l - 1));
    }
    return CAIRN_OK;
}

/* Write the moves that led to the best state, then its nested completion from the top down. */
static cairn_status write_steps(const beam *b, crn_chain_steps *out) {
    CRN_ARRAY(uint32_t) path = {0};
    crn_arena *arena = b->job->arena;
    const node *end = &b->all.data[b->best];
    for (uint32_t at = b->best; at != CRN_STATE_NONE; at = b->all.data[at].parent)
        CRN_PUSH(arena, path, at);
    for (uint32_t i = path.length - 1; i-- > 0;)
        CRN_TRY(write_move(&b->all.data[path.data[i]], arena, out));
    uint64_t used = b->problem->forward_sizes[0];
    for (uint32_t s = 0; s < end->count; s++)
        used += b->problem->forward_sizes[end->layers[s]];
    uint32_t last = end->phase;
    for (uint32_t s = end->count + 1; s-- > 0 && last > 0;) {
        uint32_t first = s == 0 ? 0 : end->layers[s - 1];
        CRN_TRY(
            crn_chain_nested_steps(&b->nested, first, last - 1, b->job->budget - used, arena, out));
        used -= s == 0 ? 0 : b->problem->forward_sizes[first];
        last = first;
    }
    return CAIRN_OK;
}

static cairn_status prepare(beam *b, crn_chain_job *job) {
    const cairn_chain_problem *p = job->problem;
    b->job = job;
    b->problem = p;
    b->best_total = CRN_CURVE_NEVER;
    CRN_TAKE(job->arena, b->scratch, p->layers + 2);
    CRN_TAKE(job->arena, b->forward_sum, p->layers + 1);
    CRN_TAKE(job->arena, b->backward_sum, p->layers + 1);
    b->backward_sum[0] = p->backward_costs[0];
    for (uint32_t l = 1; l <= p->layers; l++) {
        b->forward_sum[l] = b->forward_sum[l - 1] + p->forward_costs[l];
        b->backward_sum[l] = b->backward_sum[l - 1] + p->backward_costs[l];
    }
    return crn_chain_nested_solve(
        job, p->layers <= CRN_STATE_MOST_LAYERS ? UINT64_MAX : job->budget, 0, false, &b->nested);
}

cairn_status crn_chain_beam(crn_chain_job *job, crn_chain_answer *answer) {
    uint32_t layers = job->problem->layers;
    uint32_t work = job->options.max_states > 0 ? job->options.max_states : DEFAULT_WORK;
    beam *b;
    crn_chain_steps steps = {0};
    crn_chain_choice choice;
    CRN_TAKE(job->arena, b, 1);
    CRN_TRY(prepare(b, job));
    if (b->nested.gave_up)
        return crn_chain_nested_on_grid(job, answer);
    crn_chain_choice_init(&choice, job, answer);
    answer->has_curve = false;
    answer->curve = (crn_chain_points){0};
    uint64_t least = b->nested.floor;
    if (layers <= CRN_STATE_MOST_LAYERS) {
        bool proven;
        CRN_TRY(crn_chain_least_budget(job, &b->nested, BUDGET_STATES, &least, &steps, &proven));
        CRN_TRY(crn_chain_offer(&choice, &steps));
    }
    if (least <= job->budget) {
        CRN_TRY(search(b, CRN_MAX(work / (layers + 1), LEAST_WORK)));
        steps.length = 0;
        if (b->best_total != CRN_CURVE_NEVER) {
            CRN_TRY(write_steps(b, &steps));
            CRN_TRY(crn_chain_offer(&choice, &steps));
        }
    }
    answer->min_budget = least;
    return CAIRN_OK;
}
