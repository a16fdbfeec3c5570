/* test_offload_random.c: offloading on seeded random chains.
 *
 * Small chains are compared with an exhaustive search by a simple simulation, which is independent
 * of the library: time advances by one unit, and at every moment everything that the rules allow is
 * tried. All states of a moment are kept in a set. This gives
 *
 *     the ordered optimum of a given set, whole and fractional,
 *     the true optimum with whole release over all schedules.
 *
 * On larger chains the algorithms are compared: every schedule passes the check of offload_judge.h,
 * bounds hold, the best is never longer than any other, and two runs agree. */
#include "base/rng.h"
#include "offload_judge.h"

#define NONE UINT64_MAX
enum { MOST_LAYERS = 128 };

static const char *const algorithms[] = {"offload-greedy", "offload-dynprog", "vdnn",
                                         "tflms",          "autoswap",        "offload-best"};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms };

/* ---- Random chains ---- */

typedef struct chain {
    cairn_offload_problem p;
    uint64_t x[MOST_LAYERS + 1], y[MOST_LAYERS + 1], exf[MOST_LAYERS], exb[MOST_LAYERS];
    uint64_t uf[MOST_LAYERS], ub[MOST_LAYERS];
} chain;

static uint64_t some(crn_rng *rng, uint64_t most) {
    return crn_rng_below(rng, most + 1);
}

/* Memory between slightly too little and more than enough. */
static void choose_memory(chain *c, crn_rng *rng) {
    cairn_offload_bounds bounds;
    cairn_error err = {0};
    CHECK_OK(cairn_offload_bound(NULL, &c->p, &bounds, &err), &err);
    uint64_t low = bounds.min_memory - (bounds.min_memory > 0);
    uint64_t parts = some(rng, 3) == 0 ? some(rng, 3) : some(rng, 1000);
    uint64_t span = bounds.peak_memory - low;
    c->p.memory = low + span / 1000 * parts + span % 1000 * parts / 1000 + some(rng, 1);
}

static void make_chain(chain *c, crn_rng *rng, uint32_t layers, uint64_t size, uint64_t time) {
    bool no_gradients = some(rng, 3) == 0, no_extra = some(rng, 3) == 0;
    for (uint32_t i = 0; i <= layers; i++) {
        c->x[i] = some(rng, size);
        c->y[i] = no_gradients ? 0 : some(rng, size);
    }
    for (uint32_t i = 0; i < layers; i++) {
        c->exf[i] = no_extra || some(rng, 1) ? 0 : some(rng, size);
        c->exb[i] = no_extra || some(rng, 1) ? 0 : some(rng, size);
        c->uf[i] = some(rng, 2) == 0 ? 0 : some(rng, time);
        c->ub[i] = some(rng, 3) == 0 ? 0 : some(rng, 2 * time);
    }
    c->p = (cairn_offload_problem){layers,           c->x, c->y, c->exf, c->exb, c->uf, c->ub,
                                   1 + some(rng, 1), 0};
    choose_memory(c, rng);
}

/* ---- The simulation ---- */

/* One moment of a schedule. Fractional: `out` and `in` count bytes; whole: `away` and `back` are
 * sets, and `link` the transfer under way. */
typedef struct moment {
    uint8_t next;            /* op to start next */
    uint8_t running;         /* op next - 1 has not ended */
    uint8_t left;            /* units of it left */
    uint8_t link, link_left; /* 0: idle, 1 + i: offload of x_i, 33 + i: fetch */
    uint8_t out_set, away, back;
    uint8_t out, in; /* bytes */
} moment;

typedef enum style { ANY_ORDER, ORDERED_WHOLE, ORDERED_FRACTIONAL } style;

/* All states of one moment, each once. */
typedef struct moment_set {
    moment *data;
    uint32_t *table; /* place in data + 1, by hash; twice the capacity of data */
    uint32_t count, capacity;
} moment_set;

typedef struct simulation {
    const cairn_offload_problem *p;
    style style;
    uint32_t set;
    uint64_t total; /* bytes of the set */
    moment_set now, then;
    bool finished;
} simulation;

static uint32_t ops(const simulation *s) {
    return 2 * s->p->layers;
}

static uint64_t duration(const simulation *s, uint32_t op) {
    uint32_t n = s->p->layers;
    uint64_t time = op < n ? s->p->forward_time[op] : s->p->backward_time[2 * n - 1 - op];
    return time * s->p->bandwidth;
}

/* Whether F_i has ended. */
static bool forward_over(const moment *m, uint32_t i) {
    return m->next > i + 1 || (m->next == i + 1 && !m->running);
}

/* Bytes of x_i that are away, fractional: offloads take the bytes of the set by increasing index,
 * fetches bring them back by decreasing index. */
static uint64_t bytes_away(const simulation *s, const moment *m, uint32_t i) {
    uint64_t before = 0, size = s->p->activations[i];
    if (!(s->set >> i & 1) || !forward_over(m, i))
        return 0;
    for (uint32_t k = 0; k < i; k++)
        before += s->set >> k & 1 ? s->p->activations[k] : 0;
    uint64_t out = m->out <= before ? 0 : m->out - before;
    uint64_t kept_out = s->total - m->in; /* bytes of the set, in order, not yet fetched */
    uint64_t still = kept_out <= before ? 0 : kept_out - before;
    out = out < size ? out : size;
    still = still < size ? still : size;
    return out < still ? out : still;
}

static uint64_t memory_of(const simulation *s, const moment *m) {
    uint32_t n = s->p->layers, done = m->running ? m->next - 1u : m->next; /* ops over */
    uint64_t held = 0;
    for (uint32_t i = 0; i <= n; i++) {
        bool made = i == 0 || m->next >= i, gone = i > 0 && done > 2 * n - i;
        bool gradient = i == n ? m->next > n && done <= n : m->next > 2 * n - 1 - i && !gone;
        if (made && !gone) {
            held += s->p->activations[i];
            if (i < n && s->style == ORDERED_FRACTIONAL)
                held -= bytes_away(s, m, i);
            else if (i < n && m->away >> i & 1 && forward_over(m, i))
                held -= s->p->activations[i];
        }
        held += gradient ? s->p->gradients[i] : 0;
    }
    if (m->running)
        held +=
            m->next <= n ? s->p->forward_extra[m->next - 1] : s->p->backward_extra[2 * n - m->next];
    return held;
}

static bool fits(const simulation *s, const moment *m) {
    return memory_of(s, m) <= s->p->memory;
}

static uint32_t hash_moment(const moment *m) {
    const uint8_t fields[] = {m->next,    m->running, m->left, m->link, m->link_left,
                              m->out_set, m->away,    m->back, m->out,  m->in};
    uint32_t hash = 2166136261u;
    for (size_t k = 0; k < sizeof fields; k++)
        hash = (hash ^ fields[k]) * 16777619u;
    return hash ^ hash >> 15;
}

static bool equal_moments(const moment *a, const moment *b) {
    return a->next == b->next && a->running == b->running && a->left == b->left &&
           a->link == b->link && a->link_left == b->link_left && a->out_set == b->out_set &&
           a->away == b->away && a->back == b->back && a->out == b->out && a->in == b->in;
}

/* The slot of the moment in the table, or a free slot for it. */
static uint32_t *find_moment(const moment_set *set, const moment *m) {
    uint32_t mask = 2 * set->capacity - 1, at = hash_moment(m) & mask;
    while (set->table[at] != 0 && !equal_moments(&set->data[set->table[at] - 1], m))
        at = (at + 1) & mask;
    return &set->table[at];
}

static void clear_moments(moment_set *set) {
    set->count = 0;
    memset(set->table, 0, 2 * set->capacity * sizeof *set->table);
}

static void resize_moments(moment_set *set, uint32_t capacity) {
    uint32_t count = set->count;
    set->capacity = capacity;
    set->data = realloc(set->data, capacity * sizeof *set->data);
    set->table = realloc(set->table, 2 * capacity * sizeof *set->table);
    for (clear_moments(set); set->count < count; set->count++)
        *find_moment(set, &set->data[set->count]) = set->count + 1;
}

static void add_moment(moment_set *set, const moment *m) {
    uint32_t *place = find_moment(set, m);
    if (*place != 0)
        return;
    set->data[set->count++] = *m;
    *place = set->count;
    if (set->count == set->capacity)
        resize_moments(set, 2 * set->capacity);
}

/* Whether x_i is in memory for B_i. */
static bool is_back(const simulation *s, const moment *m, uint32_t i) {
    if (s->style == ORDERED_FRACTIONAL) {
        uint64_t from = 0; /* bytes of the set from x_i up */
        for (uint32_t k = i; k < s->p->layers; k++)
            from += s->set >> k & 1 ? s->p->activations[k] : 0;
        return !(s->set >> i & 1) || m->in >= from;
    }
    if (s->style == ORDERED_WHOLE && s->set >> i & 1)
        return m->back >> i & 1;
    return !(m->out_set >> i & 1) || m->back >> i & 1;
}

/* Whether x_i may be offloaded now. In order, all of the set before it must have left. */
static bool may_leave(const simulation *s, const moment *m, uint32_t i) {
    uint32_t lower = (1u << i) - 1;
    if (m->out_set >> i & 1 || m->next < i || (i > 0 && !forward_over(m, i - 1)) ||
        m->next > ops(s) - 1 - i || s->p->activations[i] == 0)
        return false;
    return s->style == ANY_ORDER || (s->set >> i & 1 && (s->set & lower) == (m->out_set & lower));
}

/* Whether x_i may be fetched. In order, all must have left and those above it must be back. */
static bool may_return(const simulation *s, const moment *m, uint32_t i) {
    uint32_t upper = ~((2u << i) - 1);
    if (!(m->away >> i & 1))
        return false; /* fetching it while F_i still reads it would be legal but useless */
    return s->style == ANY_ORDER || (m->out_set == s->set && (s->set & upper) == (m->back & upper));
}

/* Start everything that can start at this moment, from every state, including what becomes possible
 * by that. */
static void start_things(simulation *s) {
    for (uint32_t k = 0; k < s->now.count; k++) {
        moment m = s->now.data[k];
        if (!m.running && m.next < ops(s)) {
            moment v = m;
            uint64_t time = duration(s, m.next);
            bool ready = m.next < s->p->layers || is_back(s, &m, ops(s) - 1 - m.next);
            v.next++;
            v.running = 1;
            v.left = (uint8_t)time;
            if (ready && fits(s, &v)) {
                v.running = time > 0;
                add_moment(&s->now, &v);
                s->finished |= v.next == ops(s) && !v.running;
            }
        }
        for (uint32_t i = 0; i < s->p->layers && s->style != ORDERED_FRACTIONAL && m.link == 0;
             i++) {
            moment v = m;
            v.link_left = (uint8_t)s->p->activations[i];
            if (may_leave(s, &m, i)) {
                v.link = (uint8_t)(1 + i);
                v.out_set |= (uint8_t)(1u << i);
                add_moment(&s->now, &v);
            } else if (may_return(s, &m, i)) {
                v.link = (uint8_t)(33 + i);
                v.away &= (uint8_t) ~(1u << i);
                if (fits(s, &v))
                    add_moment(&s->now, &v);
            }
        }
    }
}

static void end_unit(simulation *s, moment v) {
    if (v.link != 0 && --v.link_left == 0) {
        if (v.link < 33)
            v.away |= (uint8_t)(1u << (v.link - 1));
        else
            v.back |= (uint8_t)(1u << (v.link - 33));
        v.link = 0;
    }
    if (v.running && --v.left == 0)
        v.running = 0;
    s->finished |= v.next == ops(s) && !v.running;
    add_moment(&s->then, &v);
}

/* Whether the byte that would leave next has been made. */
static bool byte_is_made(const simulation *s, const moment *m) {
    uint64_t upto = 0;
    for (uint32_t i = 0; i < s->p->layers; i++) {
        upto += s->set >> i & 1 ? s->p->activations[i] : 0;
        if (m->out < upto)
            return i == 0 || forward_over(m, i - 1);
    }
    return false;
}

static void pass_unit(simulation *s) {
    clear_moments(&s->then);
    for (uint32_t k = 0; k < s->now.count; k++) {
        moment m = s->now.data[k];
        end_unit(s, m);
        if (s->style != ORDERED_FRACTIONAL)
            continue;
        moment v = m;
        v.out++;
        if (byte_is_made(s, &m))
            end_unit(s, v);
        v = m;
        v.in++;
        if (m.out == s->total && m.in < s->total && fits(s, &v))
            end_unit(s, v);
    }
    moment_set swap = s->now;
    s->now = s->then;
    s->then = swap;
}

/* The length of the shortest schedule; NONE if there is none shorter than `give_up`. */
static uint64_t simulate(const cairn_offload_problem *p, style how, uint32_t set,
                         uint64_t give_up) {
    simulation s = {.p = p, .style = how, .set = set};
    resize_moments(&s.now, 64);
    resize_moments(&s.then, 64);
    for (uint32_t i = 0; i < p->layers; i++) {
        s.total += set >> i & 1 ? p->activations[i] : 0;
        if (p->activations[i] == 0 && how == ORDERED_WHOLE)
            s.set &= ~(1u << i);
    }
    add_moment(&s.now, &(moment){0});
    uint64_t time = 0;
    for (start_things(&s); !s.finished && time <= give_up; time++) {
        pass_unit(&s);
        if (!s.finished)
            start_things(&s);
    }
    free(s.now.data);
    free(s.now.table);
    free(s.then.data);
    free(s.then.table);
    return s.finished ? time : NONE;
}

/* ---- Calling the library ---- */

typedef struct answer {
    uint64_t makespan; /* NONE: infeasible */
    uint32_t set;      /* of the first 32 */
    bool optimal;
    cairn_offload_bounds bounds;
} answer;

static answer take(const cairn_offload_problem *p, cairn_status status, cairn_offload_solution *s,
                   cairn_offload_release release, const cairn_error *err) {
    answer a = {NONE, 0, false, {0}};
    if (status == CAIRN_INFEASIBLE)
        return a;
    CHECK_OK(status, err);
    const char *wrong = judge_schedule(p, s, release);
    CHECK_STRING(wrong != NULL ? wrong : "", "");
    a.makespan = s->makespan_x_beta;
    a.optimal = s->optimal;
    a.bounds = s->bounds;
    for (uint32_t k = 0; k < s->transfer_count; k++)
        if (s->transfers[k].activation < 32)
            a.set |= 1u << s->transfers[k].activation;
    cairn_offload_solution_destroy(s);
    return a;
}

static answer solve(const cairn_offload_problem *p, const char *name, cairn_offload_release release,
                    uint32_t slots) {
    cairn_offload_options options = CAIRN_OFFLOAD_OPTIONS_INIT;
    cairn_offload_solution *s;
    cairn_error err = {0};
    options.release = release;
    options.slots = slots;
    options.max_work = 2000000;
    cairn_status status = cairn_offload_solve(NULL, p, name, &options, &s, &err);
    return take(p, status, s, release, &err);
}

static uint64_t ordered(const cairn_offload_problem *p, uint32_t bits,
                        cairn_offload_release release) {
    uint32_t set[32], count = 0;
    cairn_offload_solution *s;
    cairn_error err = {0};
    for (uint32_t i = 0; i < p->layers; i++)
        if (bits >> i & 1)
            set[count++] = i;
    cairn_status status = cairn_offload_ordered(NULL, p, set, count, release, &s, &err);
    return take(p, status, s, release, &err).makespan;
}

/* ---- Small chains: everything against the simulation ---- */

/* Relations that always hold, and the place of dynprog among the optimal sets. */
static void check_optima(const cairn_offload_problem *p, const uint64_t *whole,
                         const uint64_t *parts, uint64_t truth) {
    uint64_t whole_best = NONE, parts_best = NONE, low = NONE, high = 0;
    for (uint32_t bits = 0; bits < 1u << p->layers; bits++) {
        whole_best = whole[bits] < whole_best ? whole[bits] : whole_best;
        parts_best = parts[bits] < parts_best ? parts[bits] : parts_best;
    }
    for (uint32_t bits = 0; bits < 1u << p->layers; bits++)
        if (parts[bits] == parts_best) {
            low = whole[bits] < low ? whole[bits] : low;
            high = whole[bits] > high ? whole[bits] : high;
        }
    CHECK_U64(solve(p, "offload-dynprog", CAIRN_OFFLOAD_RELEASE_FRACTIONAL, 0).makespan,
              parts_best);
    answer dynprog =
        solve(p, "offload-dynprog", CAIRN_OFFLOAD_RELEASE_WHOLE, CAIRN_OFFLOAD_SLOTS_EXACT);
    CHECK(dynprog.makespan >= low && dynprog.makespan <= high);
    answer best = solve(p, "offload-best", CAIRN_OFFLOAD_RELEASE_WHOLE, 0);
    CHECK_U64(best.makespan, truth);
    CHECK(best.optimal);
    const cairn_offload_bounds *b = &best.bounds;
    CHECK(b->lower_bound_x_beta <= b->fractional_x_beta);
    CHECK(b->fractional_x_beta <= parts_best && parts_best <= whole_best);
    CHECK(b->fractional_x_beta <= b->whole_x_beta);
    CHECK(b->whole_x_beta <= truth && truth <= whole_best);
    answer greedy = solve(p, "offload-greedy", CAIRN_OFFLOAD_RELEASE_WHOLE, 0);
    CHECK_U64(greedy.makespan, whole[greedy.set]);
    answer vdnn = solve(p, "vdnn", CAIRN_OFFLOAD_RELEASE_FRACTIONAL, 0);
    CHECK_U64(vdnn.makespan, parts[vdnn.set]);
    CHECK(greedy.makespan >= whole_best && vdnn.makespan >= parts_best);
}

static void check_small(crn_rng *rng, uint32_t layers) {
    chain c;
    uint64_t whole[32], parts[32];
    make_chain(&c, rng, layers, 5, 3);
    const cairn_offload_problem *p = &c.p;
    answer greedy = solve(p, "offload-greedy", CAIRN_OFFLOAD_RELEASE_WHOLE, 0);
    if (greedy.makespan == NONE) {
        for (uint32_t k = 0; k < ALGORITHMS; k++)
            CHECK_U64(solve(p, algorithms[k], CAIRN_OFFLOAD_RELEASE_WHOLE, 0).makespan, NONE);
        CHECK_U64(simulate(p, ANY_ORDER, 0, 60), NONE);
        return;
    }
    for (uint32_t bits = 0; bits < 1u << layers; bits++) {
        whole[bits] = ordered(p, bits, CAIRN_OFFLOAD_RELEASE_WHOLE);
        parts[bits] = ordered(p, bits, CAIRN_OFFLOAD_RELEASE_FRACTIONAL);
        uint64_t limit = whole[bits] == NONE ? 60 : whole[bits];
        /* The simulation does not move activations of size 0. Moving them can only make a schedule
         * longer. */
        bool has_empty = false;
        for (uint32_t i = 0; i < layers; i++)
            has_empty |= (bits >> i & 1) && p->activations[i] == 0;
        if (has_empty)
            continue;
        CHECK_U64(simulate(p, ORDERED_WHOLE, bits, limit), whole[bits]);
        CHECK_U64(simulate(p, ORDERED_FRACTIONAL, bits, limit), parts[bits]);
    }
    check_optima(p, whole, parts, simulate(p, ANY_ORDER, 0, greedy.makespan));
}

/* ---- Medium and long chains ---- */

static void check_all_algorithms(const cairn_offload_problem *p, cairn_offload_release release) {
    answer best = solve(p, "offload-best", release, 0);
    for (uint32_t k = 0; k < ALGORITHMS; k++) {
        answer one = solve(p, algorithms[k], release, 0);
        CHECK(best.makespan <= one.makespan);
        if (best.makespan == NONE) {
            CHECK(one.makespan == NONE);
            continue;
        }
        CHECK(one.makespan != NONE && one.makespan >= one.bounds.fractional_x_beta);
        CHECK(release != CAIRN_OFFLOAD_RELEASE_WHOLE || one.makespan >= one.bounds.whole_x_beta);
        answer again = solve(p, algorithms[k], release, 0);
        CHECK(again.makespan == one.makespan && again.set == one.set);
    }
}

/* The exact programme against all sets; slots never give a set that does not fit. */
static void check_medium(crn_rng *rng, uint32_t layers) {
    chain c;
    uint64_t best = NONE;
    make_chain(&c, rng, layers, 40, 30);
    for (uint32_t bits = 0; bits < 1u << layers; bits++) {
        uint64_t value = ordered(&c.p, bits, CAIRN_OFFLOAD_RELEASE_FRACTIONAL);
        best = value < best ? value : best;
    }
    answer exact =
        solve(&c.p, "offload-dynprog", CAIRN_OFFLOAD_RELEASE_FRACTIONAL, CAIRN_OFFLOAD_SLOTS_EXACT);
    CHECK_U64(exact.makespan, best);
    for (uint32_t slots = 1; slots < 40; slots += 6) {
        answer rounded = solve(&c.p, "offload-dynprog", CAIRN_OFFLOAD_RELEASE_FRACTIONAL, slots);
        CHECK((rounded.makespan == NONE) == (best == NONE) && rounded.makespan >= best);
    }
    check_all_algorithms(&c.p, CAIRN_OFFLOAD_RELEASE_WHOLE);
}

/* The argument is a seed. */
int main(int argc, char **argv) {
    crn_rng rng = {argc > 1 ? strtoull(argv[1], NULL, 10) : 20200221};
    for (int round = 0; round < CHECK_ROUNDS(1500); round++)
        check_small(&rng, 1 + (uint32_t)round % 3);
    for (int round = 0; round < CHECK_ROUNDS(200); round++)
        check_small(&rng, round % 20 == 0 ? 5 : 4);
    for (int round = 0; round < CHECK_ROUNDS(60); round++)
        check_medium(&rng, 5 + (uint32_t)round % 5);
    for (int round = 0; round < 12; round++) {
        chain c;
        uint64_t unit = round % 4 == 3 ? (uint64_t)1 << 48 : 100000; /* near the largest allowed */
        make_chain(&c, &rng, 20 + 9 * (uint32_t)round, unit, unit / 2);
        check_all_algorithms(&c.p, round % 2 == 0 ? CAIRN_OFFLOAD_RELEASE_WHOLE
                                                  : CAIRN_OFFLOAD_RELEASE_FRACTIONAL);
    }
    return check_result();
}
