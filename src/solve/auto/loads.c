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
    uint32_t next; /* sums are written up to this slot */
    wide sum;
    uint64_t running;
    int shift; /* to the right, or to the left if negative */
} weighing;

static uint64_t weight(const weighing *w, int64_t memory) {
    return crn_units(w->search, (uint64_t)(memory - w->limit) + (uint64_t)w->limit / 1024) + 1;
}

static void add_up(void *context, uint32_t slot, int64_t memory) {
    weighing *w = context;
    w->sum += weight(w, memory);
    if (w->search->first_over == CRN_NO_OP)
        w->search->first_over = slot;
    w->search->last_over = slot;
}

/* Write loads[i]: the sum over the slots before i. */
static void write_sums(void *context, uint32_t slot, int64_t memory) {
    weighing *w = context;
    while (w->next <= slot)
        w->search->loads[w->next++] = w->running;
    uint64_t load = weight(w, memory);
    load = w->shift >= 0 ? load >> w->shift : load << -w->shift;
    w->running += CRN_MAX(load, 1);
}

void crn_loads_weigh(crn_search *s, int64_t limit) {
    weighing w = {.search = s, .limit = limit};
    s->first_over = CRN_NO_OP;
    s->last_over = 0;
    crn_matrix_over(s->matrix, limit, add_up, &w);
    s->load_total = 0;
    if (s->first_over == CRN_NO_OP)
        return;
    w.shift = (int)bits_of(w.sum) + (int)bits_of(s->all_units) - 61;
    w.shift = CRN_MAX(w.shift, -40);
    w.next = s->first_over;
    crn_matrix_over(s->matrix, limit, write_sums, &w);
    s->load_total = w.running;
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
