/* acg_problem.c: the computation graph of the checkpoint searches: validation, neighbour lists,
 * topological order. All in O(n + m). */
#include "solve/checkpoints/acg_problem.h"

#define LARGEST_TOTAL ((uint64_t)INT64_MAX)
#define MOST_EDGES (UINT32_MAX / 16) /* so that no count of edges overflows */

/* ---- Validation ---- */

static uint32_t name_of(const uint32_t *names, uint32_t vertex) {
    return names != NULL ? names[vertex] : vertex;
}

static cairn_status check_counts(const cairn_dag *dag, cairn_error *err) {
    if (dag->vertex_count == 0)
        return crn_fail(err, CAIRN_EINVAL, "the graph has no vertices");
    if (dag->vertex_count > MOST_EDGES || dag->edge_count > MOST_EDGES)
        return crn_fail(err, CAIRN_EOVERFLOW, "the graph has more than %u vertices or edges",
                        MOST_EDGES);
    if (dag->source >= dag->vertex_count)
        return crn_fail(err, CAIRN_EINVAL, "the source %u is not a vertex", dag->source);
    if (dag->target >= dag->vertex_count)
        return crn_fail(err, CAIRN_EINVAL, "the target %u is not a vertex", dag->target);
    return CAIRN_OK;
}

static cairn_status check_edges(const cairn_dag *dag, const uint32_t *names, cairn_error *err) {
    for (uint32_t e = 0; e < dag->edge_count; e++) {
        cairn_dag_edge edge = dag->edges[e];
        if (edge.from >= dag->vertex_count || edge.to >= dag->vertex_count)
            return crn_fail(err, CAIRN_EINVAL, "edge %u joins %u and %u, but there are %u vertices",
                            e, edge.from, edge.to, dag->vertex_count);
        uint32_t from = name_of(names, edge.from), to = name_of(names, edge.to);
        if (edge.from == edge.to)
            return crn_fail(err, CAIRN_EINVAL, "vertex %u has an edge to itself", from);
        if (e == 0)
            continue;
        cairn_dag_edge before = dag->edges[e - 1];
        if (before.from == edge.from && before.to == edge.to)
            return crn_fail(err, CAIRN_EINVAL, "the edge from vertex %u to %u occurs twice", from,
                            to);
        if (before.from > edge.from || (before.from == edge.from && before.to > edge.to))
            return crn_fail(err, CAIRN_EINVAL, "the edges are not sorted at that from vertex %u",
                            from);
    }
    return CAIRN_OK;
}

static cairn_status check_costs(const cairn_dag *dag, const uint32_t *names, uint64_t *total,
                                cairn_error *err) {
    *total = 0;
    for (uint32_t v = 0; v < dag->vertex_count; v++)
        if (!crn_add_u64(*total, dag->costs[v], total) || *total > LARGEST_TOTAL)
            return crn_fail(err, CAIRN_EOVERFLOW,
                            "the sum of the costs up to vertex %u does not fit in 63 bits",
                            name_of(names, v));
    return CAIRN_OK;
}

/* Only the source may have no incoming edge, only the target no outgoing edge. */
static cairn_status check_ends(const crn_acg *p, cairn_error *err) {
    const cairn_dag *dag = p->dag;
    for (uint32_t v = 0; v < dag->vertex_count; v++) {
        bool first = p->previous.start[v] == p->previous.start[v + 1];
        bool last = p->next.start[v] == p->next.start[v + 1];
        uint32_t name = crn_acg_name(p, v);
        if (first && last && dag->vertex_count > 1)
            return crn_fail(err, CAIRN_EINVAL, "vertex %u has no edges, so it is on no path", name);
        if (first != (v == dag->source))
            return crn_fail(err, CAIRN_EINVAL,
                            first ? "vertex %u has no incoming edge and is not the source: several "
                                    "sources are not allowed, it would be on no path"
                                  : "vertex %u is the source but has an incoming edge",
                            name);
        if (last != (v == dag->target))
            return crn_fail(err, CAIRN_EINVAL,
                            last ? "vertex %u has no outgoing edge and is not the target: several "
                                   "targets are not allowed, it would be on no path"
                                 : "vertex %u is the target but has an outgoing edge",
                            name);
    }
    return CAIRN_OK;
}

/* ---- Building ---- */

static cairn_status build_neighbours(crn_arena *arena, const cairn_dag *dag, bool forward,
                                     crn_neighbours *out) {
    CRN_TAKE(arena, out->start, (size_t)dag->vertex_count + 2);
    CRN_TAKE(arena, out->items, dag->edge_count);
    for (uint32_t e = 0; e < dag->edge_count; e++)
        out->start[(forward ? dag->edges[e].from : dag->edges[e].to) + 2]++;
    for (uint32_t v = 0; v < dag->vertex_count; v++)
        out->start[v + 2] += out->start[v + 1];
    for (uint32_t e = 0; e < dag->edge_count; e++) {
        cairn_dag_edge edge = dag->edges[e];
        uint32_t at = forward ? edge.from : edge.to;
        out->items[out->start[at + 1]++] = forward ? edge.to : edge.from;
    }
    return CAIRN_OK;
}

/* A vertex was never ready. Going back from it through such vertices leads to a cycle. */
static cairn_status fail_cycle(const crn_acg *p, const uint32_t *waiting, cairn_error *err) {
    uint32_t v = 0;
    while (waiting[v] == 0)
        v++;
    for (uint32_t step = 0; step < p->dag->vertex_count; step++) {
        uint32_t i = p->previous.start[v];
        while (waiting[p->previous.items[i]] == 0)
            i++;
        v = p->previous.items[i];
    }
    return crn_fail(err, CAIRN_EINVAL, "vertex %u lies on a cycle", crn_acg_name(p, v));
}

/* Kahn's algorithm; the vertex that became ready first comes first. */
static cairn_status build_order(crn_arena *arena, crn_acg *p, cairn_error *err) {
    uint32_t n = p->dag->vertex_count, *waiting, ready = 0;
    CRN_TAKE(arena, waiting, n);
    CRN_TAKE(arena, p->order, n);
    CRN_TAKE(arena, p->rank, n);
    for (uint32_t v = 0; v < n; v++)
        if ((waiting[v] = p->previous.start[v + 1] - p->previous.start[v]) == 0)
            p->order[ready++] = v;
    for (uint32_t at = 0; at < ready; at++) {
        uint32_t v = p->order[at];
        p->rank[v] = at;
        for (uint32_t i = p->next.start[v]; i < p->next.start[v + 1]; i++)
            if (--waiting[p->next.items[i]] == 0)
                p->order[ready++] = p->next.items[i];
    }
    return ready == n ? CAIRN_OK : fail_cycle(p, waiting, err);
}

cairn_status crn_acg_prepare(crn_arena *arena, const cairn_dag *dag, const uint32_t *names,
                             crn_acg *out, cairn_error *err) {
    *out = (crn_acg){.dag = dag, .names = names};
    CRN_TRY(check_counts(dag, err));
    CRN_TRY(check_edges(dag, names, err));
    CRN_TRY(check_costs(dag, names, &out->total, err));
    CRN_TRY(build_neighbours(arena, dag, true, &out->next));
    CRN_TRY(build_neighbours(arena, dag, false, &out->previous));
    CRN_TRY(build_order(arena, out, err));
    return check_ends(out, err);
}

bool crn_acg_is_chain(const crn_acg *problem) {
    return problem->dag->edge_count + 1 == problem->dag->vertex_count;
}
