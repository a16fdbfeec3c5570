/* test_hazards.c: actions over random ranges: a chain of edges orders all actions that conflict;
 * every edge stands for a conflict; and no edge follows from the others. */
#include "backend/cuda/hazards.h"
#include "base/rng.h"
#include "check.h"

#define ACTIONS 150u
#define MOST 6u

typedef struct world {
    crn_touch touches[ACTIONS][MOST];
    uint32_t counts[ACTIONS];
    bool edge[ACTIONS][ACTIONS];   /* [later][earlier] */
    bool before[ACTIONS][ACTIONS]; /* its closure */
} world;

static bool conflict(const world *w, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < w->counts[a]; i++)
        for (uint32_t k = 0; k < w->counts[b]; k++) {
            const crn_touch *s = &w->touches[a][i], *t = &w->touches[b][k];
            if ((s->write || t->write) && s->at < t->at + t->bytes && t->at < s->at + s->bytes &&
                s->bytes > 0 && t->bytes > 0)
                return true;
        }
    return false;
}

static void draw(crn_rng *rng, world *w, uint32_t action, uint64_t space) {
    w->counts[action] = (uint32_t)crn_rng_below(rng, MOST + 1);
    for (uint32_t i = 0; i < w->counts[action]; i++)
        w->touches[action][i] =
            (crn_touch){(uintptr_t)(1000 + crn_rng_below(rng, space)),
                        crn_rng_below(rng, space / 8 + 2), crn_rng_below(rng, 3) == 0};
}

static void close_over(world *w, uint32_t action) {
    for (uint32_t e = action; e-- > 0;)
        if (w->edge[action][e] || w->before[action][e]) {
            w->before[action][e] = true;
            for (uint32_t f = 0; f < e; f++)
                w->before[action][f] = w->before[action][f] || w->before[e][f];
        }
}

static void check_world(const world *w) {
    bool ordered = true, needed = true, least = true;
    for (uint32_t a = 0; a < ACTIONS; a++)
        for (uint32_t b = 0; b < a; b++) {
            ordered = ordered && (!conflict(w, a, b) || w->before[a][b]);
            needed = needed && (!w->edge[a][b] || conflict(w, a, b));
            for (uint32_t c = b + 1; c < a && w->edge[a][b]; c++)
                least = least && !(w->edge[a][c] && w->before[c][b]);
        }
    CHECK(ordered);
    CHECK(needed);
    CHECK(least);
}

static void test_random(uint64_t seed, uint64_t space) {
    static world w;
    crn_rng rng = {seed};
    crn_arena arena;
    crn_hazards *hazards;
    cairn_error err = {0};
    memset(&w, 0, sizeof w);
    crn_arena_init(&arena, NULL);
    CHECK_OK(crn_hazards_create(&arena, ACTIONS, &hazards), &err);
    for (uint32_t a = 0; a < ACTIONS; a++) {
        const uint32_t *after;
        uint32_t count;
        draw(&rng, &w, a, space);
        CHECK_OK(crn_hazards_add(hazards, w.touches[a], w.counts[a], &after, &count), &err);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(after[i] < a && (i == 0 || after[i - 1] < after[i]));
            w.edge[a][after[i]] = true;
        }
        close_over(&w, a);
    }
    check_world(&w);
    crn_arena_release(&arena);
}

/* Copies of a lane follow each other even if they access different memory. */
static void test_chain(void) {
    crn_arena arena;
    crn_hazards *hazards;
    cairn_error err = {0};
    const uint32_t *after;
    uint32_t count;
    crn_arena_init(&arena, NULL);
    CHECK_OK(crn_hazards_create(&arena, 3, &hazards), &err);
    crn_touch first = {64, 64, true}, second = {256, 64, true};
    CHECK_OK(crn_hazards_add_after(hazards, &first, 1, UINT32_MAX, &after, &count), &err);
    CHECK(count == 0);
    CHECK_OK(crn_hazards_add_after(hazards, &second, 1, 0, &after, &count), &err);
    CHECK(count == 1 && after[0] == 0);
    /* the second write follows the first, so it is enough to follow the second */
    crn_touch both[] = {{64, 64, false}, {256, 64, false}};
    CHECK_OK(crn_hazards_add(hazards, both, 2, &after, &count), &err);
    CHECK(count == 1 && after[0] == 1);
    crn_arena_release(&arena);
}

int main(void) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        test_random(seed, 16);
        test_random(seed, 300);
        test_random(seed, 100000);
    }
    test_chain();
    return check_result();
}
