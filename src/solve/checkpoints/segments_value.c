/* segments_value.c: the value of a set of checkpoints, if all segments between them are
 * independent. */
#include "solve/checkpoints/acg_internal.h"

/* One connected component of the vertices that are not chosen. */
typedef struct component {
    const crn_acg *problem;
    const uint8_t *chosen;
    uint32_t *seen, *stack; /* seen: per vertex, not 0 if it was visited */
    uint32_t height;
    uint32_t into, out_of; /* the checkpoint on each side, or UINT32_MAX */
    bool independent;
    uint64_t cost;
} component;

static void visit(component *c, uint32_t vertex, uint32_t *side) {
    if (c->chosen[vertex]) {
        c->independent &= *side == UINT32_MAX || *side == vertex;
        *side = vertex;
    } else if (!c->seen[vertex]) {
        c->seen[vertex] = 1;
        c->stack[c->height++] = vertex;
    }
}

static void explore(component *c, uint32_t from) {
    const crn_acg *p = c->problem;
    c->into = c->out_of = UINT32_MAX;
    c->independent = true;
    c->cost = 0;
    c->seen[from] = 1;
    c->stack[c->height++] = from;
    while (c->height > 0) {
        uint32_t v = c->stack[--c->height];
        c->cost += p->dag->costs[v];
        for (uint32_t i = p->previous.start[v]; i < p->previous.start[v + 1]; i++)
            visit(c, p->previous.items[i], &c->into);
        for (uint32_t i = p->next.start[v]; i < p->next.start[v + 1]; i++)
            visit(c, p->next.items[i], &c->out_of);
    }
}

bool crn_acg_segments_value(const crn_acg *problem, const uint8_t *chosen, uint32_t *scratch,
                            uint64_t *value, uint32_t *culprit) {
    uint32_t n = problem->dag->vertex_count;
    component c = {problem, chosen, scratch, scratch + n, 0, 0, 0, true, 0};
    uint64_t kept = 0, largest = 0;
    memset(scratch, 0, n * sizeof *scratch);
    for (uint32_t v = 0; v < n; v++) {
        if (chosen[v]) {
            kept += problem->dag->costs[v];
        } else if (!c.seen[v]) {
            explore(&c, v);
            *culprit = v;
            if (!c.independent)
                return false;
            largest = CRN_MAX(largest, c.cost);
        }
    }
    *value = kept + largest;
    return true;
}
