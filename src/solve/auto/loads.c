/* loads.c: how much every slot exceeds the budget, as prefix sums.
 *
 *     memory  |    .  #           a slot over the budget weighs its excess plus a
 *     budget  |----#--##-#--      thousandth of the budget, so that a small excess counts
 *             |  # ## ## ##       a value that leaves slots i .. j relieves bytes * their loads
 */
#include "solve/auto/auto_search.h"

__extension__ typedef unsigned __int128 wide;

static uint32_t bits_of(wide x) {
    uint32_t bits = 0;
    for (; x > 0; x >>= 1)
        bits++;
    return bits;
}

typedef struct weighing {
    crn_search *search;
    int64_t limit;
    uint32_t next; /* weights are written up to this slot */
    wide sum;
} weighing;

/* Write the weight of a slot to its place in the list of sums; slots in between have weight 0. */
static void write_weight(void *context, uint32_t slot, int64_t memory) {
    weighing *w = context;
    crn_search *s = w->search;
    if (s->first_over == CRN_NO_OP)
        s->first_over = w->next = slot;
    while (w->next < slot)
        s->loads[w->next++] = 0;
    s->loads[w->next++] =
        crn_units(s, (uint64_t)(memory - w->limit) + (uint64_t)w->limit / 1024) + 1;
    w->sum += s->loads[slot];
    s->last_over = slot;
}

/* Compute loads[i]: the scaled sum over the slots before i. */
static void add_up(crn_search *s, int shift) {
    uint64_t running = 0;
    for (uint32_t slot = s->first_over; slot <= s->last_over; slot++) {
        uint64_t weight = s->loads[slot];
        s->loads[slot] = running;
        if (weight > 0)
            running += CRN_MAX(shift >= 0 ? weight >> shift : weight << -shift, 1);
    }
    s->load_total = running;
}

void crn_loads_weigh(crn_search *s, int64_t limit) {
    weighing w = {.search = s, .limit = limit};
    s->first_over = CRN_NO_OP;
    s->last_over = 0;
    s->load_total = 0;
    crn_matrix_over(s->matrix, limit, write_weight, &w);
    if (s->first_over == CRN_NO_OP)
        return;
    int shift = (int)bits_of(w.sum) + (int)bits_of(s->all_units) - 61;
    add_up(s, CRN_MAX(shift, -40));
    s->work += (s->last_over - s->first_over) / 8;
}

static uint64_t loads_before(const crn_search *s, uint32_t slot) {
    if (s->load_total == 0 || slot <= s->first_over)
        return 0;
    return slot > s->last_over ? s->load_total : s->loads[slot];
}

uint64_t crn_loads_between(const crn_search *s, uint32_t first, uint32_t last) {
    return first >= last ? 0 : loads_before(s, last) - loads_before(s, first);
}
