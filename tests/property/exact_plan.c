/* exact_plan.c: Dijkstra's algorithm over states. A state is a word: a bit per value that is there,
 * and a bit per op whose run must be remembered. A step frees a value, which takes no time, or runs
 * an op. */
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "property/exact_plan.h"

#include "base/crn_base.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_OPS 64
#define TABLE (1u << 19)

typedef struct small_op {
    uint64_t inputs, outputs; /* sets of values */
    int64_t time, again;      /* of the first run, of a recomputation */
    uint64_t workspace;
    uint32_t done; /* the bit that remembers it, or UINT32_MAX */
    bool once;     /* it must not run again */
    struct {
        uint32_t input, output; /* values */
    } inplace[4];
    uint32_t inplace_count;
    bool together; /* two of them may be used in one run */
} small_op;

typedef struct small_graph {
    small_op ops[MOST_OPS];
    uint32_t op_count, value_count;
    uint64_t bytes[64];
    uint64_t start, goal;
} small_graph;

typedef struct entry {
    uint64_t state;
    int64_t time; /* -1: an empty place of the table */
} entry;

typedef struct search {
    const small_graph *graph;
    uint64_t budget;
    entry *table;
    uint32_t used;
    entry *heap;
    uint32_t length, room;
} search;

/* ---- A table and a heap ---- */

static entry *find(search *s, uint64_t state) {
    uint32_t at = (uint32_t)((state * 0x9e3779b97f4a7c15u) >> 40) % TABLE;
    while (s->table[at].time >= 0 && s->table[at].state != state)
        at = (at + 1) % TABLE;
    return &s->table[at];
}

static void push(search *s, uint64_t state, int64_t time) {
    if (s->length == s->room) {
        s->room = s->room == 0 ? 1024 : 2 * s->room;
        s->heap = realloc(s->heap, s->room * sizeof *s->heap);
        if (s->heap == NULL)
            exit(1);
    }
    uint32_t at = s->length++;
    for (; at > 0 && s->heap[(at - 1) / 2].time > time; at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = (entry){state, time};
}

static entry pop(search *s) {
    entry top = s->heap[0], last = s->heap[--s->length];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < s->length) {
        child += child + 1 < s->length && s->heap[child + 1].time < s->heap[child].time;
        if (s->heap[child].time >= last.time)
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return top;
}

static void reach(search *s, uint64_t state, int64_t time) {
    entry *e = find(s, state);
    if (e->time >= 0 && e->time <= time)
        return;
    s->used += e->time < 0;
    *e = (entry){state, time};
    push(s, state, time);
}

/* ---- Steps ---- */

static uint64_t bytes_of(const small_graph *g, uint64_t values) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < g->value_count; v++)
        sum += values >> v & 1 ? g->bytes[v] : 0;
    return sum;
}

static void run_op(search *s, entry from, const small_op *op, uint64_t live) {
    const small_graph *g = s->graph;
    uint64_t ran = op->done == UINT32_MAX ? 0 : 1ull << op->done;
    if ((from.state & op->inputs) != op->inputs || (op->once && (from.state & ran)))
        return;
    uint64_t made = op->outputs & ~from.state, to = from.state | made | ran;
    int64_t time = from.time + (from.state & ran ? op->again : op->time);
    uint64_t need = live + bytes_of(g, made) + op->workspace;
    if (need <= s->budget)
        reach(s, to, time);
    for (uint32_t k = 0; k < op->inplace_count; k++) {
        uint32_t in = op->inplace[k].input, out = op->inplace[k].output;
        if (from.state >> out & 1 || g->bytes[in] != g->bytes[out])
            continue;
        if (need - g->bytes[out] <= s->budget)
            reach(s, to & ~(1ull << in), time);
        for (uint32_t j = k + 1; j < op->inplace_count && op->together; j++) {
            uint32_t in2 = op->inplace[j].input, out2 = op->inplace[j].output;
            if (in2 != in && out2 != out && !(from.state >> out2 & 1) &&
                g->bytes[in2] == g->bytes[out2] &&
                need - g->bytes[out] - g->bytes[out2] <= s->budget)
                reach(s, to & ~(1ull << in | 1ull << in2), time);
        }
    }
}

static int64_t least_time(search *s) {
    const small_graph *g = s->graph;
    if (bytes_of(g, g->start) > s->budget)
        return EXACT_NONE;
    reach(s, g->start, 0);
    while (s->length > 0) {
        entry e = pop(s);
        if (find(s, e.state)->time < e.time)
            continue;
        if ((e.state & g->goal) == g->goal)
            return e.time;
        if (s->used > TABLE / 4 * 3)
            return EXACT_TOO_LARGE;
        uint64_t live = bytes_of(g, e.state);
        for (uint32_t v = 0; v < g->value_count; v++)
            if (e.state >> v & 1)
                reach(s, e.state & ~(1ull << v), e.time);
        for (uint32_t o = 0; o < g->op_count; o++)
            run_op(s, e, &g->ops[o], live);
    }
    return EXACT_NONE;
}

/* ---- From the graph ---- */

static uint64_t value_bit(const uint32_t *value_of, cairn_id tensor) {
    return tensor == CAIRN_NONE || value_of[tensor] == UINT32_MAX ? 0 : 1ull << value_of[tensor];
}

static void read_op(const cairn_graph *graph, const cairn_costs *costs, const uint32_t *value_of,
                    cairn_id id, uint32_t *bits, small_graph *g) {
    const cairn_op *op = cairn_graph_op(graph, id);
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(costs, id, &count);
    small_op *o = &g->ops[id];
    *o = (small_op){.time = list[0].time_ns, .done = UINT32_MAX};
    o->again = crn_costs_again_ns(costs, id, 0);
    o->workspace = crn_align(list[0].workspace_bytes);
    o->once = op->flags & CAIRN_OP_FLAG_NEVER_AGAIN;
    o->together = op->flags & CAIRN_OP_FLAG_TOGETHER;
    bool remembered = o->once;
    for (uint32_t i = 0; i < op->input_count; i++)
        o->inputs |= value_bit(value_of, op->inputs[i]);
    for (uint32_t i = 0; i < op->output_count; i++) {
        o->outputs |= value_bit(value_of, op->outputs[i]);
        remembered = remembered || (op->outputs[i] != CAIRN_NONE &&
                                    cairn_graph_tensor(graph, op->outputs[i])->stationary);
    }
    for (uint32_t k = 0; k < op->inplace_count && k < 4; k++) {
        cairn_id in = op->inputs[op->inplace[k].input], out = op->outputs[op->inplace[k].output];
        if (value_of[in] == UINT32_MAX || value_of[out] == UINT32_MAX)
            continue;
        o->inplace[o->inplace_count].input = value_of[in];
        o->inplace[o->inplace_count++].output = value_of[out];
    }
    if (remembered || o->again < o->time)
        o->done = (*bits)++;
    if (remembered)
        g->goal |= 1ull << o->done;
}

static bool read_graph(const cairn_graph *graph, const cairn_costs *costs, small_graph *g) {
    uint32_t value_of[256], tensors = cairn_graph_tensor_count(graph);
    *g = (small_graph){.op_count = cairn_graph_op_count(graph)};
    if (tensors > 256 || g->op_count > MOST_OPS)
        return false;
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        value_of[t] = tensor->stationary ? UINT32_MAX : g->value_count++;
        if (tensor->stationary)
            continue;
        if (g->value_count > 40 || tensor->alias_of != CAIRN_NONE)
            return false;
        g->bytes[value_of[t]] = crn_align(cairn_costs_bytes(costs)[t]);
        if (tensor->producer == CAIRN_NONE)
            g->start |= 1ull << value_of[t];
        if (crn_graph_is_result(graph, t))
            g->goal |= 1ull << value_of[t];
    }
    uint32_t bits = g->value_count;
    for (cairn_id o = 0; o < g->op_count && bits < 62; o++)
        read_op(graph, costs, value_of, o, &bits, g);
    return bits < 62;
}

int64_t exact_least_time(const cairn_graph *graph, const cairn_costs *costs, uint64_t budget) {
    small_graph g;
    if (!read_graph(graph, costs, &g))
        return EXACT_TOO_LARGE;
    search s = {.graph = &g, .budget = budget, .table = malloc(TABLE * sizeof(entry))};
    if (s.table == NULL)
        exit(1);
    for (uint32_t i = 0; i < TABLE; i++)
        s.table[i].time = -1;
    int64_t time = least_time(&s);
    free(s.table);
    free(s.heap);
    return time;
}
