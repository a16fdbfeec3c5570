/* time_bound.c: moments, their networks, and the search for the best one.
 *
 *     source --price * bytes--> R(o) --time--> sink        a value that is needed after: it is
 *                               R(o) --never--> N(x)       there (this edge is cut), or its
 *                               N(x) --price * bytes--> R(producer of x)        producer o runs
 *                                                                               again
 */
#include "solve/auto/time_bound.h"

#include "base/watch.h"

#include <stdlib.h>

#define SMALL 200u /* up to this many ops every moment is tried */

/* ---- One moment ---- */

static uint64_t most_workspace(const crn_flat *f, uint32_t op) {
    uint32_t count;
    uint64_t most = 0;
    const cairn_implementation *list = cairn_costs_op(f->costs, op, &count);
    for (uint32_t i = 0; i < count; i++)
        most = CRN_MAX(most, crn_align(list[i].workspace_bytes));
    return most;
}

cairn_status crn_bound_create(const crn_flat *flat, bool raw, crn_arena *arena, crn_bound **out) {
    crn_bound *b;
    CRN_TAKE(arena, b, 1);
    b->flat = flat;
    b->arena = arena;
    b->bytes = flat->bytes;
    if (raw) {
        uint64_t *bytes;
        CRN_TAKE(arena, bytes, flat->value_count);
        for (uint32_t v = 0; v < flat->value_count; v++)
            bytes[v] = cairn_costs_bytes(flat->costs)[flat->root[v]];
        b->bytes = bytes;
    }
    uint64_t bytes = 1, workspace = 0;
    for (uint32_t v = 0; v < flat->value_count; v++)
        bytes += flat->bytes[v];
    for (uint32_t o = 0; o < flat->op_count; o++) {
        workspace = CRN_MAX(workspace, most_workspace(flat, o));
        if (flat->needed[o])
            b->base_ns = crn_add_time(b->base_ns, flat->least_time[o]);
    }
    for (b->scale = 20; b->scale > 0 && b->base_ns >> (58 - b->scale) > 0;)
        b->scale--;
    while (b->base_ns >> b->coarse >> 58 > 0)
        b->coarse++;
    b->most_price =
        CRN_MAX(((int64_t)1 << 59) / (int64_t)CRN_MIN(bytes + workspace, 1ull << 62), 1);
    CRN_TAKE(arena, b->side, flat->op_count);
    CRN_TAKE(arena, b->op_node, flat->op_count);
    CRN_TAKE(arena, b->value_node, flat->value_count);
    CRN_TAKE(arena, b->need, flat->value_count);
    CRN_TRY(crn_min_cut_create(arena, flat->op_count + flat->value_count + 2, &b->network));
    *out = b;
    return CAIRN_OK;
}

static void find_sides(crn_bound *b, uint32_t op) {
    const crn_flat *f = b->flat;
    memset(b->side, CRN_BESIDE, f->op_count);
    b->before_ns = b->after_ns = 0;
    b->side[op] = CRN_BEFORE;
    for (uint32_t o = op + 1; o-- > 0;) {
        if (b->side[o] != CRN_BEFORE)
            continue;
        if (o != op)
            b->before_ns = crn_add_time(b->before_ns, f->least_time[o]);
        for (uint32_t k = f->first_input[o]; k < f->first_input[o + 1]; k++)
            if (f->producer[f->inputs[k]] != CRN_NO_OP)
                b->side[f->producer[f->inputs[k]]] = CRN_BEFORE;
    }
    b->side[op] = CRN_AFTER;
    for (uint32_t o = op; o < f->op_count; o++) {
        if (b->side[o] != CRN_AFTER)
            continue;
        b->after_ns = crn_add_time(b->after_ns, f->least_time[o]);
        for (uint32_t k = f->first_output[o]; k < f->first_output[o + 1]; k++)
            for (uint32_t r = f->first_reader[f->outputs[k]];
                 r < f->first_reader[f->outputs[k] + 1]; r++)
                if (f->needed[f->readers[r]])
                    b->side[f->readers[r]] = CRN_AFTER;
    }
}

/* Find the implementations of c. */
static cairn_status find_choices(crn_bound *b) {
    const crn_flat *f = b->flat;
    uint32_t count, first, end;
    const cairn_implementation *list = cairn_costs_op(f->costs, b->op, &count);
    int64_t most = ((int64_t)1 << 57) >> b->scale;
    b->choices.length = 0;
    crn_flat_allowed(f, b->op, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        int64_t time = (list[i].time_ns - f->least_time[b->op]) >> b->coarse;
        uint64_t bytes = crn_align(list[i].workspace_bytes) - f->least_workspace[b->op];
        CRN_PUSH(b->arena, b->choices,
                 ((crn_bound_choice){CRN_MIN(time, most) << b->scale, bytes}));
    }
    return CAIRN_OK;
}

/* The implementation that costs the least at a price; at the price 0 the fastest one, with the
 * least workspace of these. */
static crn_bound_choice best_choice(const crn_bound *b, int64_t price) {
    crn_bound_choice best = {0, 0};
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < b->choices.length; i++) {
        crn_bound_choice choice = b->choices.data[i];
        int64_t cost = choice.time + price * (int64_t)choice.bytes;
        if (cost < least || (cost == least && choice.bytes < best.bytes)) {
            least = cost;
            best = choice;
        }
    }
    return best;
}

/* What c needs besides the values in memory: its outputs, except what may be in place, and its
 * workspace. */
static uint64_t fixed_bytes(const crn_bound *b, uint32_t o) {
    const crn_flat *f = b->flat;
    uint64_t bytes = f->least_workspace[o];
    for (uint32_t k = f->first_output[o]; k < f->first_output[o + 1]; k++)
        bytes += f->bytes[f->outputs[k]];
    return bytes - crn_flat_inplace_bytes(f, o);
}

enum { NOT_NEEDED, NEEDED, THERE };

static void demand(crn_bound *b, uint32_t value, uint8_t need) {
    b->need[value] = CRN_MAX(b->need[value], need);
}

/* Whether an op may run after the moment: again, or for the first time if it is beside. */
static bool may_run_later(const crn_bound *b, uint32_t op) {
    return op != CRN_NO_OP && (!b->flat->never[op] || b->side[op] == CRN_BESIDE);
}

/* Find the values that are read after the moment and not made after it. */
static void find_needs(crn_bound *b) {
    const crn_flat *f = b->flat;
    memset(b->need, NOT_NEEDED, f->value_count);
    for (uint32_t o = b->op; o < f->op_count; o++)
        for (uint32_t k = f->first_input[o]; k < f->first_input[o + 1] && b->side[o] == CRN_AFTER;
             k++) {
            uint32_t v = f->inputs[k], producer = f->producer[v];
            if (producer != CRN_NO_OP && b->side[producer] == CRN_AFTER)
                continue;
            demand(b, v, o != b->op && may_run_later(b, producer) ? NEEDED : THERE);
        }
    for (uint32_t v = 0; v < f->value_count; v++) {
        uint32_t producer = f->producer[v];
        if (f->stays[v] && producer != CRN_NO_OP && b->side[producer] == CRN_BEFORE)
            demand(b, v, f->never[producer] ? THERE : NEEDED);
    }
}

/* ---- Its network ---- */

enum { SOURCE, SINK, FIRST_NODE };

static cairn_status add_edge(crn_bound *b, uint32_t from, uint32_t to, int64_t time,
                             uint64_t bytes) {
    CRN_PUSH(b->arena, b->edge_time, time);
    CRN_PUSH(b->arena, b->edge_bytes, bytes);
    CRN_PUSH(b->arena, b->forced, CRN_FREE);
    return crn_min_cut_add(b->network, from, to, 0, NULL);
}

static cairn_status node_of_op(crn_bound *b, uint32_t op, uint32_t *out) {
    const crn_flat *f = b->flat;
    if (b->op_node[op] == CRN_NO_OP) {
        b->op_node[op] = b->network->node_count++;
        CRN_PUSH(b->arena, b->pending, op);
        int64_t time = b->side[op] == CRN_BEFORE ? f->least_again[op] >> b->coarse << b->scale : 0;
        if (time > 0)
            CRN_TRY(add_edge(b, b->op_node[op], SINK, time, 0));
    }
    *out = b->op_node[op];
    return CAIRN_OK;
}

/* Add a value that is needed to recompute another one. */
static cairn_status add_input(crn_bound *b, uint32_t op_node, uint32_t value) {
    const crn_flat *f = b->flat;
    uint32_t producer = f->producer[value], maker = SINK;
    if (b->need[value] != NOT_NEEDED)
        return CAIRN_OK; /* it is needed anyway and already counted */
    if (b->value_node[value] == CRN_NO_OP) {
        b->value_node[value] = b->network->node_count++;
        if (may_run_later(b, producer))
            CRN_TRY(node_of_op(b, producer, &maker));
        CRN_TRY(add_edge(b, b->value_node[value], maker, 0, b->bytes[value]));
    }
    return add_edge(b, op_node, b->value_node[value], CRN_MIN_CUT_NEVER, 0);
}

static cairn_status build_network(crn_bound *b) {
    const crn_flat *f = b->flat;
    crn_min_cut_reset(b->network, FIRST_NODE, SOURCE, SINK);
    b->edge_time.length = b->edge_bytes.length = b->forced.length = b->pending.length = 0;
    memset(b->op_node, 0xff, f->op_count * sizeof *b->op_node);
    memset(b->value_node, 0xff, f->value_count * sizeof *b->value_node);
    for (uint32_t v = 0; v < f->value_count; v++) {
        uint32_t node;
        if (b->need[v] == NOT_NEEDED)
            continue;
        b->all += b->bytes[v];
        if (b->need[v] == THERE) {
            b->always += b->bytes[v];
            continue;
        }
        CRN_TRY(node_of_op(b, f->producer[v], &node));
        CRN_TRY(add_edge(b, SOURCE, node, 0, b->bytes[v]));
    }
    while (b->pending.length > 0) {
        uint32_t o = b->pending.data[--b->pending.length];
        for (uint32_t k = f->first_input[o]; k < f->first_input[o + 1]; k++)
            CRN_TRY(add_input(b, b->op_node[o], f->inputs[k]));
    }
    return crn_min_cut_freeze(b->network);
}

cairn_status crn_bound_enter(crn_bound *b, uint32_t op) {
    b->op = op;
    b->fixed = fixed_bytes(b, op);
    b->always = b->all = 0;
    find_sides(b, op);
    find_needs(b);
    CRN_TRY(find_choices(b));
    return build_network(b);
}

/* ---- Minimum cuts ---- */

static int64_t capacity_of(const crn_bound *b, uint32_t edge, int64_t price, bool timed) {
    int64_t time = b->edge_time.data[edge];
    if (b->forced.data[edge] != CRN_FREE)
        return b->forced.data[edge] == CRN_GONE ? CRN_MIN_CUT_NEVER : 0;
    if (!timed && time < CRN_MIN_CUT_NEVER)
        time = 0;
    return time + price * (int64_t)b->edge_bytes.data[edge];
}

bool crn_bound_keeps_edge(const crn_bound *b, uint32_t edge) {
    const crn_min_cut_network *n = b->network;
    return b->forced.data[edge] == CRN_KEPT ||
           (crn_min_cut_reached(n, n->tails.data[2 * edge]) &&
            !crn_min_cut_reached(n, n->edges.data[2 * edge].to));
}

/* The set of recomputations with the least time + price * bytes, without the values that are always
 * in memory. If not `timed`, times count as 0. */
static int64_t solve_min_cut(crn_bound *b, int64_t price, bool timed) {
    crn_min_cut_network *n = b->network;
    for (uint32_t e = 0; e < b->edge_time.length; e++)
        crn_min_cut_set_capacity(n, 2 * e, capacity_of(b, e, price, timed));
    int64_t value = crn_min_cut_solve(n);
    b->min_cuts++;
    b->min_cut_time = 0;
    b->min_cut_bytes = b->always;
    for (uint32_t e = 0; e < b->edge_time.length; e++)
        if (crn_bound_keeps_edge(b, e)) {
            b->min_cut_time += b->edge_time.data[e];
            b->min_cut_bytes += b->edge_bytes.data[e];
            if (b->forced.data[e] == CRN_KEPT)
                value += price * (int64_t)b->edge_bytes.data[e];
        }
    return value;
}

int64_t crn_bound_min_cut(crn_bound *b, int64_t price) {
    crn_bound_choice choice = best_choice(b, price);
    int64_t value = solve_min_cut(b, price, true) + price * (int64_t)b->always;
    b->min_cut_time += choice.time;
    b->min_cut_bytes += choice.bytes;
    return value + choice.time + price * (int64_t)choice.bytes;
}

uint64_t crn_bound_least(crn_bound *b) {
    solve_min_cut(b, 1, false);
    return b->min_cut_bytes + b->fixed;
}

void crn_bound_keep(crn_bound *b, int64_t price, bool *keep) {
    const crn_flat *f = b->flat;
    solve_min_cut(b, price, true);
    for (uint32_t v = 0; v < f->value_count; v++) {
        uint32_t producer = f->producer[v], node = b->value_node[v];
        keep[v] = b->need[v] == THERE || producer == CRN_NO_OP;
        if (b->need[v] == NEEDED)
            keep[v] = !crn_min_cut_reached(b->network, b->op_node[producer]);
        else if (b->need[v] == NOT_NEEDED && node != CRN_NO_OP && producer != CRN_NO_OP)
            keep[v] = crn_min_cut_reached(b->network, node) &&
                      (b->op_node[producer] == CRN_NO_OP ||
                       !crn_min_cut_reached(b->network, b->op_node[producer]));
    }
}

/* A line of the concave function: time + price * bytes. There is one on each side of the best
 * price. */
typedef struct line {
    int64_t time;
    uint64_t bytes;
} line;

static int64_t next_price(const line *left, const line *right, bool has_right, int64_t price,
                          int64_t most_price) {
    if (!has_right)
        return price == most_price ? price : CRN_MIN(most_price, price * 8);
    return (right->time - left->time) / (int64_t)(left->bytes - right->bytes);
}

/* The best of the prices up to `most_price`. `*fits`: the values of a minimum cut fit into the
 * budget. */
static int64_t search_price(crn_bound *b, uint64_t budget, uint32_t most_min_cuts,
                            int64_t most_price, int64_t *price, bool *fits) {
    line left = {0, b->all + best_choice(b, 0).bytes}, right = {0, 0};
    bool has_right = false;
    *fits = true;
    if (left.bytes + b->fixed <= budget)
        return 0;
    int64_t best = 0, best_price = 0, tried = *price;
    if (tried <= 0 || tried > most_price)
        tried = (b->before_ns >> b->coarse << b->scale) / (int64_t)(b->all + 1);
    tried = CRN_MIN(CRN_MAX(tried, 1), most_price);
    for (uint32_t k = 0; k < most_min_cuts; k++) {
        int64_t value = crn_bound_min_cut(b, tried);
        value += tried * ((int64_t)b->fixed - (int64_t)budget);
        if (value > best || best_price == 0) {
            best = CRN_MAX(value, best);
            best_price = tried;
        }
        line found = {b->min_cut_time, b->min_cut_bytes};
        if (found.bytes + b->fixed > budget) {
            if (found.bytes >= left.bytes && has_right)
                break;
            left = found;
        } else {
            if (has_right && found.bytes <= right.bytes && found.time >= right.time)
                break;
            right = found;
            has_right = true;
        }
        int64_t next = next_price(&left, &right, has_right, tried, most_price);
        if (next == tried || next < 1)
            break;
        tried = CRN_MIN(next, most_price);
    }
    *price = best_price;
    *fits = has_right;
    return best >> b->scale << b->coarse;
}

int64_t crn_bound_at(crn_bound *b, uint64_t budget, uint32_t most_min_cuts, int64_t *price) {
    bool fits;
    int64_t best = search_price(b, budget, most_min_cuts, b->most_price, price, &fits);
    return !fits && crn_bound_least(b) > budget ? INT64_MAX : best;
}

int64_t crn_bound_at_price(crn_bound *b, uint64_t budget, uint32_t most_min_cuts,
                           uint64_t bytes_per_second) {
    bool fits;
    int64_t price = 0;
    uint64_t most = ((uint64_t)1000000000 << b->scale >> b->coarse) / CRN_MAX(bytes_per_second, 1);
    most = CRN_MIN(most, (uint64_t)b->most_price);
    return most == 0 ? 0 : search_price(b, budget, most_min_cuts, (int64_t)most, &price, &fits);
}

/* ---- The best moment ---- */

typedef struct moments {
    crn_bound *bound;
    uint64_t budget, last_min_cut;
    crn_bound_result best;
} moments;

static cairn_status try_moment(moments *m, int64_t op) {
    crn_bound *b = m->bound;
    if (op < 0 || op >= (int64_t)b->flat->op_count || !b->flat->needed[op])
        return CAIRN_OK;
    CRN_TRY(crn_bound_enter(b, (uint32_t)op));
    int64_t price = m->best.price;
    int64_t extra = crn_bound_at(b, m->budget, 12, &price);
    if (extra > m->best.extra_ns || m->best.op == CRN_NO_OP)
        m->best = (crn_bound_result){extra, (uint32_t)op, price};
    return CAIRN_OK;
}

static bool goes_on(const moments *m) {
    return m->bound->min_cuts < m->last_min_cut && m->best.extra_ns < INT64_MAX &&
           !crn_arena_ended(m->bound->arena);
}

cairn_status crn_bound_search(crn_bound *b, uint64_t budget, uint32_t centre, uint32_t min_cuts,
                              crn_bound_result *out) {
    moments m = {b, budget, b->min_cuts + min_cuts, {0, CRN_NO_OP, 0}};
    int64_t ops = b->flat->op_count, span = ops / 6 + 2, step = 1 + span / 8;
    CRN_TRY(try_moment(&m, centre));
    for (int64_t k = 1; k * step <= 2 * span && goes_on(&m); k++)
        CRN_TRY(try_moment(&m, centre + k * step));
    for (int64_t k = 1; k * step <= span / 2 && goes_on(&m); k++)
        CRN_TRY(try_moment(&m, centre - k * step));
    while (step > 1 && goes_on(&m)) {
        step = (step + 1) / 2;
        int64_t at = m.best.op;
        CRN_TRY(try_moment(&m, at - step));
        CRN_TRY(try_moment(&m, at + step));
    }
    for (int64_t k = 2, at = m.best.op; k <= 8 && goes_on(&m); k++) {
        CRN_TRY(try_moment(&m, at - k));
        CRN_TRY(try_moment(&m, at + k));
    }
    for (int64_t o = 0; ops <= SMALL && o < ops && m.best.extra_ns < INT64_MAX; o++)
        CRN_TRY(try_moment(&m, o));
    *out = m.best;
    return CAIRN_OK;
}

/* ---- The least memory ---- */

/* Whether every plan makes a value once, and keeps it to the end. */
static bool is_final(const crn_flat *f, uint32_t value) {
    uint32_t producer = f->producer[value];
    return f->stays[value] && producer != CRN_NO_OP && f->never[producer] && f->needed[producer];
}

/* An op that makes final values. */
typedef struct final_op {
    uint64_t made, others; /* bytes: of its final values, and whatever else it needs */
} final_op;

static int compare_others(const void *a, const void *b) {
    const final_op *x = a, *y = b;
    return x->others > y->others ? -1 : x->others < y->others;
}

static final_op describe(const crn_bound *b, uint32_t op) {
    const crn_flat *f = b->flat;
    final_op found = {0, fixed_bytes(b, op)};
    for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++)
        found.made += is_final(f, f->outputs[k]) ? f->bytes[f->outputs[k]] : 0;
    for (uint32_t k = f->first_input[op]; k < f->first_input[op + 1]; k++)
        found.others += is_final(f, f->inputs[k]) ? 0 : f->bytes[f->inputs[k]];
    found.others -= CRN_MIN(found.others, found.made);
    return found;
}

/* Take any set of ops that make final values. When the last of them runs, all their final values
 * are in memory, together with what this op needs, which is no less than the smallest of the set
 * needs. The best set has the ops that need the most. */
cairn_status crn_bound_least_at_end(const crn_bound *b, uint64_t *out) {
    CRN_ARRAY(final_op) ops = {0};
    uint64_t made = 0;
    for (uint32_t o = 0; o < b->flat->op_count; o++) {
        final_op found = describe(b, o);
        if (found.made > 0)
            CRN_PUSH(b->arena, ops, found);
    }
    if (ops.length > 0)
        qsort(ops.data, ops.length, sizeof *ops.data, compare_others);
    *out = 0;
    for (uint32_t i = 0; i < ops.length; i++) {
        made += ops.data[i].made;
        *out = CRN_MAX(*out, made + ops.data[i].others);
    }
    return CAIRN_OK;
}

cairn_status crn_bound_least_memory(crn_bound *b, uint32_t most, uint64_t *out) {
    uint32_t stride = b->flat->op_count / most + 1;
    *out = 0;
    for (uint32_t o = 0; o < b->flat->op_count; o += stride) {
        if (!b->flat->needed[o])
            continue;
        CRN_TRY(crn_bound_enter(b, o));
        *out = CRN_MAX(*out, crn_bound_least(b));
    }
    return CAIRN_OK;
}
