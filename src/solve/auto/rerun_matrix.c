/* rerun_matrix.c: events, the segment tree, flips and their journal. */
#include "solve/auto/rerun_matrix.h"

#define NOTHING (INT64_MIN / 2) /* the most memory of an empty set of runs */
#define SCANNED 16u             /* leaves of the tree */

/* ---- Sorted lists ---- */

static uint32_t find_op(const crn_op_list *list, uint32_t op) {
    uint32_t low = 0, high = list->length;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (list->data[middle] < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Insert a value into a list, which must have room for one more, or remove one. */
#define INSERT(list, at, value)                                                                    \
    do {                                                                                           \
        memmove(&(list)->data[(at) + 1], &(list)->data[at],                                        \
                ((list)->length - (at)) * sizeof *(list)->data);                                   \
        (list)->data[at] = (value);                                                                \
        (list)->length++;                                                                          \
    } while (0)
#define REMOVE(list, at)                                                                           \
    do {                                                                                           \
        (list)->length--;                                                                          \
        memmove(&(list)->data[at], &(list)->data[(at) + 1],                                        \
                ((list)->length - (at)) * sizeof *(list)->data);                                   \
    } while (0)

#define RESERVE(m, array)                                                                          \
    crn_array_grow((m)->arena, &(array).data, (array).length, &(array).capacity,                   \
                   sizeof *(array).data)

/* ---- Scanning a slot ---- */

typedef struct scan {
    int64_t sum, most;
} scan;

/* What a run saves because it works in place: see crn_flat_pair. */
static int64_t saved_in_place(const crn_matrix *m, uint32_t op, crn_event_key key) {
    const crn_flat *f = m->flat;
    const crn_flat_pair *used = NULL;
    int64_t saved = 0;
    for (uint32_t k = f->first_pair[op]; k < f->first_pair[op + 1]; k++) {
        const crn_flat_pair *pair = &f->pairs[k];
        if (used != NULL && !crn_flat_goes_with(*pair, *used))
            continue;
        const crn_event_list *list = &m->events[pair->input];
        if (!crn_event_dies(list, crn_event_find(list, key)))
            continue;
        saved += (int64_t)f->room[pair->output];
        if (used != NULL)
            break;
        used = pair;
    }
    return saved;
}

/* Weigh one run: it adds its outputs, except those that are made in place; then values die. */
static void weigh(const crn_matrix *m, uint32_t slot, uint32_t op, crn_run *run) {
    const crn_flat *f = m->flat;
    crn_event_key key = crn_key(slot, op);
    int64_t add = 0, gone = 0;
    for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++) {
        uint32_t v = f->outputs[k];
        const crn_event_list *list = &m->events[v];
        add += (int64_t)f->room[v];
        if (crn_event_dies(list, crn_event_find(list, key)))
            gone += (int64_t)f->room[v];
    }
    for (uint32_t k = f->first_input[op]; k < f->first_input[op + 1]; k++) {
        uint32_t v = f->inputs[k];
        const crn_event_list *list = &m->events[v];
        if (crn_event_dies(list, crn_event_find(list, key)))
            gone += (int64_t)f->room[v];
    }
    uint64_t workspace = f->impls[f->first_impl[op] + m->impl[op]].workspace;
    if (slot != op + 1)
        workspace = CRN_MAX(workspace, f->alias_workspace[op]);
    run->sum = add - gone;
    run->need = add - saved_in_place(m, op, key) + (int64_t)workspace;
    run->is_stale = false;
}

static void scan_run(const crn_matrix *m, uint32_t slot, uint32_t op, crn_run *run, scan *s) {
    if (run->is_stale)
        weigh(m, slot, op, run);
    s->most = CRN_MAX(s->most, s->sum + run->need);
    s->sum += run->sum;
}

/* The start: add the given values, and remove those that nothing reads. */
static scan scan_start(const crn_matrix *m) {
    const crn_flat *f = m->flat;
    scan s = {0, 0};
    for (uint32_t v = 0; v < f->value_count; v++) {
        if (f->producer[v] != CRN_NO_OP)
            continue;
        s.most += (int64_t)f->room[v];
        if (!crn_event_dies(&m->events[v], 0))
            s.sum += (int64_t)f->room[v];
    }
    return s;
}

static scan scan_slot(const crn_matrix *m, uint32_t slot) {
    if (slot == 0)
        return scan_start(m);
    uint32_t ops = m->flat->op_count, k = 0;
    scan s = {0, NOTHING};
    const crn_op_list *list = &m->slots[slot];
    crn_run *runs = m->runs[slot].data;
    for (; k < list->length && list->data[k] < ops; k++)
        scan_run(m, slot, list->data[k], &runs[k], &s);
    if (slot <= ops)
        scan_run(m, slot, slot - 1, &m->base[slot], &s);
    else /* the end: results stay in memory */
        s.most = 0;
    for (; k < list->length; k++)
        scan_run(m, slot, list->data[k], &runs[k], &s);
    return s;
}

/* ---- The tree ---- */

static void settle_slot(crn_matrix *m, uint32_t slot) {
    uint32_t node = m->leaf_count + slot;
    scan s = scan_slot(m, slot);
    s.most -= m->allowance[slot];
    m->scans += m->slots[slot].length;
    if (m->sum[node] == s.sum && m->most[node] == s.most)
        return;
    m->sum[node] = s.sum;
    m->most[node] = s.most;
    for (node >>= 1; node > 0; node >>= 1) {
        uint32_t left = 2 * node, right = left + 1;
        m->sum[node] = m->sum[left] + m->sum[right];
        m->most[node] = CRN_MAX(m->most[left], m->sum[left] + m->most[right]);
    }
}

static void mark(crn_matrix *m, uint32_t slot) {
    if (m->is_stale[slot])
        return;
    m->is_stale[slot] = true;
    m->stale[m->stale_count++] = slot;
}

/* The run of an op in a slot, or NULL. */
static crn_run *find_run(const crn_matrix *m, uint32_t slot, uint32_t op) {
    if (slot == op + 1 && op < m->flat->op_count)
        return &m->base[slot];
    const crn_op_list *list = &m->slots[slot];
    uint32_t k = find_op(list, op);
    return k < list->length && list->data[k] == op ? &m->runs[slot].data[k] : NULL;
}

/* The deaths or the workspace of a run have changed. */
static void mark_run(crn_matrix *m, uint32_t slot, uint32_t op) {
    crn_run *run = find_run(m, slot, op);
    if (run != NULL)
        run->is_stale = true;
    mark(m, slot);
}

static void settle(crn_matrix *m) {
    for (uint32_t k = 0; k < m->stale_count; k++) {
        m->is_stale[m->stale[k]] = false;
        settle_slot(m, m->stale[k]);
    }
    m->stale_count = 0;
}

void crn_matrix_allow(crn_matrix *m, uint32_t slot, int64_t bytes) {
    if (m->allowance[slot] == bytes)
        return;
    m->allowance[slot] = bytes;
    mark(m, slot);
}

int64_t crn_matrix_peak(crn_matrix *m) {
    settle(m);
    return m->most[1];
}

uint32_t crn_matrix_peak_slot(crn_matrix *m) {
    settle(m);
    uint32_t node = 1;
    while (node < m->leaf_count) {
        uint32_t left = 2 * node, right = left + 1;
        node = m->most[left] >= m->sum[left] + m->most[right] ? left : right;
    }
    return node - m->leaf_count;
}

crn_event_key crn_matrix_peak_run(crn_matrix *m, uint32_t slot) {
    settle(m);
    const crn_op_list *list = &m->slots[slot];
    uint32_t ops = m->flat->op_count;
    int64_t sum = 0, most = NOTHING;
    crn_event_key best = crn_key(slot, 0);
    bool base_done = slot == 0 || slot > ops;
    for (uint32_t k = 0; k < list->length || !base_done;) {
        bool base = !base_done && (k == list->length || list->data[k] >= ops);
        const crn_run *run = base ? &m->base[slot] : &m->runs[slot].data[k];
        if (sum + run->need > most) {
            most = sum + run->need;
            best = crn_key(slot, base ? slot - 1 : list->data[k]);
        }
        sum += run->sum;
        base_done = base_done || base;
        k += !base;
    }
    return best;
}

/* Go from the leaves up: combine the nodes of the range from both ends, and find the memory before
 * it. */
int64_t crn_matrix_most(crn_matrix *m, uint32_t first, uint32_t last) {
    settle(m);
    if (first > last)
        return NOTHING;
    const int64_t *sum = m->sum, *most = m->most;
    int64_t before = 0, left = NOTHING, left_sum = 0, right = NOTHING;
    uint32_t low = m->leaf_count + first, high = m->leaf_count + last + 1;
    for (; low < high; low >>= 1, high >>= 1) {
        if (low & 1) {
            left = CRN_MAX(left, left_sum + most[low]);
            left_sum += sum[low++];
        }
        if (high & 1) {
            high--;
            right = CRN_MAX(most[high], sum[high] + right);
        }
    }
    for (uint32_t node = m->leaf_count + first; node > 1; node >>= 1)
        before += node & 1 ? sum[node - 1] : 0;
    return before + CRN_MAX(left, left_sum + right);
}

/* Below the node are `leaves`; a few of them are scanned one by one. */
static void visit_over(const crn_matrix *m, uint32_t node, uint32_t leaves, int64_t before,
                       int64_t limit, void (*visit)(void *context, uint32_t slot, int64_t memory),
                       void *context) {
    if (before + m->most[node] <= limit)
        return;
    if (leaves > SCANNED) {
        visit_over(m, 2 * node, leaves / 2, before, limit, visit, context);
        before += m->sum[2 * node];
        visit_over(m, 2 * node + 1, leaves / 2, before, limit, visit, context);
        return;
    }
    for (uint32_t leaf = node * leaves; leaf < (node + 1) * leaves; leaf++) {
        if (before + m->most[leaf] > limit)
            visit(context, leaf - m->leaf_count, before + m->most[leaf]);
        before += m->sum[leaf];
    }
}

void crn_matrix_over(crn_matrix *m, int64_t limit,
                     void (*visit)(void *context, uint32_t slot, int64_t memory), void *context) {
    settle(m);
    visit_over(m, 1, m->leaf_count, 0, limit, visit, context);
}

/* ---- Changing the set ---- */

bool crn_matrix_has(const crn_matrix *m, uint32_t slot, uint32_t op) {
    const crn_op_list *list = &m->slots[slot];
    uint32_t k = find_op(list, op);
    return k < list->length && list->data[k] == op;
}

/* Reserve all memory that adding (slot, op) can need, before anything is changed. */
static bool reserve(crn_matrix *m, uint32_t slot, uint32_t op) {
    const crn_flat *f = m->flat;
    bool there = RESERVE(m, m->slots[slot]) && RESERVE(m, m->runs[slot]) && RESERVE(m, m->all);
    for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1] && there; k++)
        there = RESERVE(m, m->events[f->outputs[k]]);
    for (uint32_t k = f->first_input[op]; k < f->first_input[op + 1] && there; k++)
        there = RESERVE(m, m->events[f->inputs[k]]);
    return there;
}

static bool note(crn_matrix *m, crn_change change) {
    if (!m->journaling)
        return true;
    if (!RESERVE(m, m->journal))
        return false;
    m->journal.data[m->journal.length++] = change;
    return true;
}

/* Add or remove an event. The value may then die, or no longer die, at the event before it. */
static void change_event(crn_matrix *m, uint32_t value, crn_event_key key, bool add) {
    crn_event_list *list = &m->events[value];
    uint32_t at = crn_event_find(list, key);
    if (add)
        INSERT(list, at, key);
    else
        REMOVE(list, at);
    if (at > 0)
        mark_run(m, crn_key_slot(list->data[at - 1]), crn_key_op(list->data[at - 1]));
    m->last[value] = list->data[list->length - 1];
}

static void change_list(crn_matrix *m, uint32_t slot, uint32_t op, uint32_t at, bool add) {
    if (add) {
        INSERT(&m->slots[slot], at, op);
        INSERT(&m->runs[slot], at, ((crn_run){.place = m->all.length, .is_stale = true}));
        m->all.data[m->all.length++] = (crn_rerun){slot, op};
        return;
    }
    uint32_t place = m->runs[slot].data[at].place;
    REMOVE(&m->slots[slot], at);
    REMOVE(&m->runs[slot], at);
    crn_rerun moved = m->all.data[--m->all.length];
    if (place == m->all.length)
        return;
    m->all.data[place] = moved;
    find_run(m, moved.slot, moved.op)->place = place;
}

void crn_matrix_flip(crn_matrix *m, uint32_t slot, uint32_t op) {
    const crn_flat *f = m->flat;
    uint32_t at = find_op(&m->slots[slot], op);
    bool add = !(at < m->slots[slot].length && m->slots[slot].data[at] == op);
    m->failed = m->failed || (add && !reserve(m, slot, op)) || !note(m, (crn_change){slot, op, 0});
    if (m->failed)
        return;
    m->flips++;
    change_list(m, slot, op, at, add);
    m->time += add ? crn_rerun_time(m, op) : -crn_rerun_time(m, op);
    mark(m, slot);
    crn_event_key key = crn_key(slot, op);
    for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++)
        change_event(m, f->outputs[k], key | 1, add);
    for (uint32_t k = f->first_input[op]; k < f->first_input[op + 1]; k++)
        change_event(m, f->inputs[k], key, add);
}

void crn_matrix_set_impl(crn_matrix *m, uint32_t op, uint32_t impl) {
    const crn_flat *f = m->flat;
    m->failed = m->failed || !note(m, (crn_change){CRN_NO_OP, op, m->impl[op]});
    if (m->failed || impl == m->impl[op])
        return;
    const crn_flat_impl *before = crn_impl_of(m, op), *after;
    int64_t reruns = 0;
    mark_run(m, op + 1, op);
    if (f->first_output[op] < f->first_output[op + 1]) {
        const crn_event_list *list = &m->events[f->outputs[f->first_output[op]]];
        for (uint32_t k = 1; k < list->length; k++) {
            crn_event_key key = list->data[k];
            if (!crn_key_makes(key) || crn_key_op(key) != op)
                continue;
            mark_run(m, crn_key_slot(key), op);
            reruns++;
        }
    }
    m->impl[op] = impl;
    after = crn_impl_of(m, op);
    m->time += after->time - before->time + reruns * (after->again - before->again);
}

void crn_matrix_undo(crn_matrix *m, uint32_t length) {
    bool journaling = m->journaling;
    m->journaling = false;
    while (m->journal.length > length && !m->failed) {
        crn_change change = m->journal.data[--m->journal.length];
        if (change.slot == CRN_NO_OP)
            crn_matrix_set_impl(m, change.op, change.impl);
        else
            crn_matrix_flip(m, change.slot, change.op);
    }
    m->journaling = journaling;
}

void crn_matrix_clear(crn_matrix *m) {
    bool journaling = m->journaling;
    m->journaling = false;
    while (m->all.length > 0 && !m->failed) {
        crn_rerun last = m->all.data[m->all.length - 1];
        crn_matrix_flip(m, last.slot, last.op);
    }
    for (uint32_t o = 0; o < m->flat->op_count && !m->failed; o++)
        crn_matrix_set_impl(m, o, 0);
    m->journal.length = 0;
    m->journaling = journaling;
}

/* ---- What nothing reads ---- */

/* Whether an op reads what (slot, op) makes. A result at the end does not count: that of the run
 * before is enough, and the lowering keeps it. */
static bool is_useful(const crn_matrix *m, uint32_t slot, uint32_t op) {
    const crn_flat *f = m->flat;
    for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++) {
        const crn_event_list *list = &m->events[f->outputs[k]];
        uint32_t at = crn_event_find(list, crn_key(slot, op));
        if (!crn_event_dies(list, at) && crn_key_slot(list->data[at + 1]) <= f->op_count)
            return true;
    }
    return false;
}

/* Without (slot, op), the recomputations that made its inputs may become useless. */
static void suspect_makers(crn_matrix *m, uint32_t slot, uint32_t op) {
    const crn_flat *f = m->flat;
    for (uint32_t k = f->first_input[op]; k < f->first_input[op + 1]; k++) {
        const crn_event_list *list = &m->events[f->inputs[k]];
        uint32_t at = crn_event_find(list, crn_key(slot, op));
        while (at > 0 && !crn_key_makes(list->data[at - 1]))
            at--;
        if (at == 0)
            continue;
        crn_rerun maker = {crn_key_slot(list->data[at - 1]), crn_key_op(list->data[at - 1])};
        if (maker.slot == 0 || maker.slot == maker.op + 1 || maker.op >= f->op_count)
            continue;
        if (!RESERVE(m, m->pending)) {
            m->failed = true;
            return;
        }
        m->pending.data[m->pending.length++] = maker;
    }
}

static void prune_pending(crn_matrix *m) {
    while (m->pending.length > 0 && !m->failed) {
        crn_rerun r = m->pending.data[--m->pending.length];
        if (!crn_matrix_has(m, r.slot, r.op) || is_useful(m, r.slot, r.op))
            continue;
        suspect_makers(m, r.slot, r.op);
        crn_matrix_flip(m, r.slot, r.op);
    }
    m->pending.length = 0;
}

void crn_matrix_take_out(crn_matrix *m, uint32_t slot, uint32_t op) {
    suspect_makers(m, slot, op);
    crn_matrix_flip(m, slot, op);
    prune_pending(m);
}

void crn_matrix_prune(crn_matrix *m, uint32_t slot, uint32_t op) {
    if (crn_matrix_has(m, slot, op) && !is_useful(m, slot, op))
        crn_matrix_take_out(m, slot, op);
}

/* Go backwards, because inputs are made before they are read. */
void crn_matrix_prune_all(crn_matrix *m) {
    for (uint32_t slot = m->slot_count; slot-- > 0;)
        for (uint32_t k = m->slots[slot].length; k-- > 0;)
            if (k < m->slots[slot].length && m->slots[slot].data[k] < m->flat->op_count)
                crn_matrix_prune(m, slot, m->slots[slot].data[k]);
}

/* ---- Saving a set ---- */

void crn_matrix_save(crn_matrix *m, crn_saved *saved) {
    if (saved->impl == NULL)
        saved->impl = crn_arena_take(m->arena, m->flat->op_count, sizeof *saved->impl);
    m->failed = m->failed || saved->impl == NULL;
    if (!m->failed && saved->reruns.capacity < m->all.length) {
        uint32_t room = m->all.length + m->all.length / 2;
        saved->reruns.data = crn_arena_take(m->arena, room, sizeof *saved->reruns.data);
        saved->reruns.capacity = saved->reruns.data == NULL ? 0 : room;
        m->failed = saved->reruns.data == NULL;
    }
    if (m->failed)
        return;
    saved->reruns.length = m->all.length;
    if (m->all.length > 0)
        memcpy(saved->reruns.data, m->all.data, m->all.length * sizeof *m->all.data);
    memcpy(saved->impl, m->impl, m->flat->op_count * sizeof *m->impl);
    saved->time = m->time;
    saved->peak = crn_matrix_peak(m);
}

void crn_matrix_load(crn_matrix *m, const crn_saved *saved) {
    if (m->failed) /* then the saved set may be incomplete */
        return;
    crn_matrix_clear(m);
    bool journaling = m->journaling;
    m->journaling = false;
    for (uint32_t o = 0; o < m->flat->op_count; o++)
        crn_matrix_set_impl(m, o, saved->impl[o]);
    for (uint32_t k = 0; k < saved->reruns.length; k++)
        crn_matrix_flip(m, saved->reruns.data[k].slot, saved->reruns.data[k].op);
    m->journaling = journaling;
}

/* ---- Creating a matrix ---- */

static cairn_status first_events(crn_matrix *m, uint32_t value) {
    const crn_flat *f = m->flat;
    crn_event_list *list = &m->events[value];
    uint32_t reads = f->first_reader[value + 1] - f->first_reader[value];
    list->capacity = reads + 4;
    CRN_TAKE(m->arena, list->data, list->capacity);
    uint32_t producer = f->producer[value];
    list->data[list->length++] =
        (producer == CRN_NO_OP ? crn_key(0, 0) : crn_key(producer + 1, producer)) | 1;
    for (uint32_t k = f->first_reader[value]; k < f->first_reader[value + 1]; k++)
        list->data[list->length++] = crn_key(f->readers[k] + 1, f->readers[k]);
    if (f->stays[value])
        list->data[list->length++] = crn_key(f->op_count + 1, 0);
    m->first[value] = list->data[0];
    m->last[value] = list->data[list->length - 1];
    return CAIRN_OK;
}

cairn_status crn_matrix_create(const crn_flat *flat, crn_arena *arena, crn_matrix **out) {
    crn_matrix *m;
    CRN_TAKE(arena, m, 1);
    m->flat = flat;
    m->arena = arena;
    m->slot_count = flat->op_count + 2;
    CRN_TAKE(arena, m->slots, m->slot_count);
    CRN_TAKE(arena, m->runs, m->slot_count);
    CRN_TAKE(arena, m->base, m->slot_count);
    CRN_TAKE(arena, m->stale, m->slot_count);
    CRN_TAKE(arena, m->is_stale, m->slot_count);
    CRN_TAKE(arena, m->events, flat->value_count);
    CRN_TAKE(arena, m->first, flat->value_count);
    CRN_TAKE(arena, m->last, flat->value_count);
    CRN_TAKE(arena, m->impl, flat->op_count + 2 * flat->value_count);
    for (m->leaf_count = 1; m->leaf_count < m->slot_count;)
        m->leaf_count *= 2;
    CRN_TAKE(arena, m->sum, 2 * m->leaf_count);
    CRN_TAKE(arena, m->most, 2 * m->leaf_count);
    CRN_TAKE(arena, m->allowance, m->slot_count);
    for (uint32_t k = 0; k < 2 * m->leaf_count; k++)
        m->most[k] = NOTHING;
    for (uint32_t v = 0; v < flat->value_count; v++)
        CRN_TRY(first_events(m, v));
    m->time = flat->base_time;
    for (uint32_t slot = 0; slot < m->slot_count; slot++)
        mark_run(m, slot, slot - 1);
    *out = m;
    return CAIRN_OK;
}
