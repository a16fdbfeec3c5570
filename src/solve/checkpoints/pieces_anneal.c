/* pieces_anneal.c: simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) over sets of
 * checkpoints whose components do not exceed a limit. The energy is the cost of what is kept.
 *
 * A step takes a random vertex. If it is kept and the components around it may be joined, it is no
 * longer kept. If they may not be joined, a vertex of one of them, a short random walk away, is
 * kept instead: the border between the components shifts. If the vertex is not kept, it is kept
 * now. A step that raises the cost by d is accepted with probability 2^(-d / temperature). */
#include "solve/checkpoints/pieces_anneal.h"

#include "base/watch.h"

__extension__ typedef unsigned __int128 wide;

enum {
    STAGES = 64,      /* the temperature is constant during a stage ... */
    COOLING = 236,    /* ... and is then multiplied by 236/256: by 1/180 in all */
    LONGEST_WALK = 8, /* each further step is half as likely */
    FRACTION = 1024   /* temperatures and logarithms have ten bits after the point */
};

/* -log2 of a random number between 0 and 1, linear between powers of two. At most 65. */
static uint64_t random_logarithm(crn_rng *rng) {
    uint64_t number = crn_rng_next(rng) | 1;
    uint32_t zeros = 0;
    while (!(number >> 63)) {
        number <<= 1;
        zeros++;
    }
    uint64_t after_point = number << 1 >> 54;
    return (uint64_t)(zeros + 1) * FRACTION - after_point;
}

static bool accepts(wide temperature, uint64_t dearer, crn_rng *rng) {
    return (wide)dearer * FRACTION * FRACTION <= temperature * random_logarithm(rng);
}

/* A vertex that is not kept, a few steps from x through vertices that are not kept; x itself if
 * there is none. */
static uint32_t walk(const crn_pieces_order *o, uint32_t x, crn_rng *rng) {
    const crn_neighbours *next = &o->problem->next, *previous = &o->problem->previous;
    uint64_t coins = crn_rng_next(rng);
    uint32_t at = x;
    for (int length = 0; length < LONGEST_WALK; length++, coins >>= 1) {
        uint32_t before = previous->start[at + 1] - previous->start[at];
        uint32_t all = before + next->start[at + 1] - next->start[at];
        uint32_t pick = (uint32_t)crn_rng_below(rng, all);
        uint32_t to = pick < before ? previous->items[previous->start[at] + pick]
                                    : next->items[next->start[at] + pick - before];
        if (o->chosen[to])
            break;
        at = to;
        if ((coins & 1) == 0)
            break;
    }
    return at;
}

/* The best set, stored as the changes since then: so it need not be copied each time it
 * improves. */
typedef struct memory {
    const crn_pieces_order *order;
    uint64_t least;    /* cost of the best set */
    uint32_t *journal; /* vertices flipped since then */
    uint32_t length;
    bool saved; /* the best has been written out */
    uint8_t *best;
} memory;

static void save(memory *m) {
    memcpy(m->best, m->order->chosen, m->order->problem->dag->vertex_count);
    for (uint32_t i = 0; i < m->length; i++)
        m->best[m->journal[i]] ^= 1;
    m->saved = true;
}

/* x, and y unless it is UINT32_MAX, were flipped. */
static void note(memory *m, uint32_t x, uint32_t y) {
    if (m->order->kept < m->least) {
        m->least = m->order->kept;
        m->length = 0;
        m->saved = false;
    } else if (!m->saved) {
        m->journal[m->length++] = x;
        if (y != UINT32_MAX)
            m->journal[m->length++] = y;
        if (m->length + 2 > m->order->problem->dag->vertex_count)
            save(m);
    }
}

static void step(crn_pieces_order *o, uint64_t limit, wide temperature, crn_rng *rng, memory *m) {
    const uint64_t *costs = o->problem->dag->costs;
    uint32_t n = o->problem->dag->vertex_count;
    uint32_t x = o->problem->order[1 + crn_rng_below(rng, n - 2)], y = UINT32_MAX;
    if (!o->chosen[x]) {
        if (!accepts(temperature, costs[x], rng))
            return;
    } else if (crn_pieces_order_merged(o, x) > limit) {
        y = walk(o, x, rng);
        if (y == x || (costs[y] > costs[x] && !accepts(temperature, costs[y] - costs[x], rng)))
            return;
    }
    if (crn_pieces_order_flip(o, x, y, limit))
        note(m, x, y);
}

/* The mean of the costs, each weighted by itself: a typical cost of the expensive vertices. */
static wide typical_cost(const crn_acg *problem) {
    wide squares = 0; /* cannot overflow: at most the square of the sum */
    for (uint32_t v = 0; v < problem->dag->vertex_count; v++)
        squares += (wide)problem->dag->costs[v] * problem->dag->costs[v];
    return squares / CRN_MAX(problem->total, 1);
}

void crn_pieces_anneal(crn_pieces_order *order, uint64_t limit, uint64_t steps, uint64_t work,
                       uint32_t heat, crn_rng *rng, uint32_t *journal, uint8_t *best) {
    uint64_t start = order->work;
    wide temperature = typical_cost(order->problem) * FRACTION * heat / 64;
    memory m = {order, order->kept, journal, 0, false, best};
    for (int stage = 0; stage < STAGES; stage++) {
        for (uint64_t i = 0;
             i < steps / STAGES && order->work - start < work && !crn_arena_ended(order->arena);
             i++)
            step(order, limit, temperature, rng, &m);
        temperature = temperature * COOLING / 256;
    }
    if (!m.saved)
        save(&m);
}
