/* acg_read.c: reads computation graphs from JSON, in the two forms that acg.h describes. The ids of
 * a file become vertices 0 .. n-1 in ascending order, so that sorted vertices have sorted ids. */
#include "solve/checkpoints/acg_internal.h"
#include "solve/case_file.h"

#include <stdlib.h>

typedef struct acg_case {
    cairn_dag dag;
    uint32_t *names; /* per vertex, ascending */
} acg_case;

struct cairn_acg_cases {
    crn_cases all; /* items: acg_case */
};

/* The graph that is being read. */
typedef struct reader {
    crn_arena *arena;
    uint32_t vertex_count, edge_count;
    uint32_t *names;
    uint64_t *costs;
    cairn_dag_edge *edges;
    cairn_error *err;
} reader;

static cairn_status fail_at_case(const crn_json *at, cairn_status status, cairn_error *err) {
    if (err == NULL)
        return status;
    cairn_error inner = *err;
    return crn_json_fail(at, err, status, "%s", inner.message);
}

/* ---- Vertices ---- */

static cairn_status read_cost(const crn_json *at, uint64_t *out, cairn_error *err) {
    int64_t cost;
    CRN_TRY(crn_json_integer(at, 0, INT64_MAX, &cost, err));
    *out = (uint64_t)cost;
    return CAIRN_OK;
}

static cairn_status take_vertices(reader *r, const crn_json *list) {
    size_t count;
    CRN_TRY(crn_json_array(list, &count, r->err));
    if (count == 0 || count > UINT32_MAX / 16)
        return crn_json_fail(list, r->err, CAIRN_EINVAL, "the graph has %s vertices",
                             count == 0 ? "no" : "too many");
    r->vertex_count = (uint32_t)count;
    CRN_TAKE(r->arena, r->names, count);
    CRN_TAKE(r->arena, r->costs, count);
    return CAIRN_OK;
}

/* "costs": [3, 1, 4, 1]. If there is an "n", it must agree. */
static cairn_status read_plain_vertices(reader *r, const crn_json *at) {
    crn_json costs = crn_json_member(at, "costs"), n = crn_json_member(at, "n");
    CRN_TRY(take_vertices(r, &costs));
    if (n.value != NULL) {
        int64_t count;
        CRN_TRY(crn_json_integer(&n, 0, UINT32_MAX, &count, r->err));
        if (count != r->vertex_count)
            return crn_json_fail(&n, r->err, CAIRN_EINVAL, "must be the number of costs, %u",
                                 r->vertex_count);
    }
    for (uint32_t v = 0; v < r->vertex_count; v++) {
        crn_json cost = crn_json_element(&costs, v);
        r->names[v] = v;
        CRN_TRY(read_cost(&cost, &r->costs[v], r->err));
    }
    return CAIRN_OK;
}

typedef struct named_cost {
    uint32_t name, place;
    uint64_t cost;
} named_cost;

static int compare_names(const void *a, const void *b) {
    const named_cost *x = a, *y = b;
    return x->name != y->name ? (x->name > y->name) - (x->name < y->name)
                              : (x->place > y->place) - (x->place < y->place);
}

/* "vertices": [{"id": 7, "cost": 3}, ...] in any order. */
static cairn_status read_named_vertices(reader *r, const crn_json *list) {
    named_cost *found;
    CRN_TRY(take_vertices(r, list));
    CRN_TAKE(r->arena, found, r->vertex_count);
    for (uint32_t i = 0; i < r->vertex_count; i++) {
        crn_json vertex = crn_json_element(list, i);
        CRN_TRY(crn_json_object(&vertex, r->err));
        crn_json id = crn_json_member(&vertex, "id"), cost = crn_json_member(&vertex, "cost");
        int64_t name;
        CRN_TRY(crn_json_integer(&id, 0, UINT32_MAX - 1, &name, r->err));
        found[i].name = (uint32_t)name;
        found[i].place = i;
        CRN_TRY(read_cost(&cost, &found[i].cost, r->err));
    }
    qsort(found, r->vertex_count, sizeof *found, compare_names);
    for (uint32_t v = 0; v < r->vertex_count; v++) {
        crn_json vertex = crn_json_element(list, found[v].place);
        if (v > 0 && found[v].name == found[v - 1].name)
            return crn_json_fail(&vertex, r->err, CAIRN_EINVAL, "the id %u occurs twice",
                                 found[v].name);
        r->names[v] = found[v].name;
        r->costs[v] = found[v].cost;
    }
    return CAIRN_OK;
}

/* The vertex that has an id in the file. */
static cairn_status read_vertex(const reader *r, const crn_json *at, uint32_t *out) {
    int64_t name;
    CRN_TRY(crn_json_integer(at, INT64_MIN, INT64_MAX, &name, r->err));
    uint32_t low = 0, high = r->vertex_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (r->names[middle] < name)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == r->vertex_count || r->names[low] != name)
        return crn_json_fail(at, r->err, CAIRN_EINVAL, "there is no vertex %lld", (long long)name);
    *out = low;
    return CAIRN_OK;
}

/* ---- Edges ---- */

/* [u, v] or {"src": u, "dst": v}. */
static cairn_status read_edge(const reader *r, const crn_json *at, cairn_dag_edge *out) {
    crn_json from, to;
    if (crn_json_is_object(at)) {
        from = crn_json_member(at, "src");
        to = crn_json_member(at, "dst");
    } else {
        size_t count;
        CRN_TRY(crn_json_array(at, &count, r->err));
        if (count != 2)
            return crn_json_fail(at, r->err, CAIRN_EINVAL, "an edge must have two ends, not %zu",
                                 count);
        from = crn_json_element(at, 0);
        to = crn_json_element(at, 1);
    }
    CRN_TRY(read_vertex(r, &from, &out->from));
    return read_vertex(r, &to, &out->to);
}

static int compare_edges(const void *a, const void *b) {
    const cairn_dag_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static cairn_status read_edges(reader *r, const crn_json *list) {
    size_t count;
    CRN_TRY(crn_json_array(list, &count, r->err));
    if (count > UINT32_MAX / 16)
        return crn_json_fail(list, r->err, CAIRN_EOVERFLOW, "the graph has too many edges");
    r->edge_count = (uint32_t)count;
    CRN_TAKE(r->arena, r->edges, count);
    for (uint32_t e = 0; e < r->edge_count; e++) {
        crn_json edge = crn_json_element(list, e);
        CRN_TRY(read_edge(r, &edge, &r->edges[e]));
    }
    if (count > 0)
        qsort(r->edges, count, sizeof *r->edges, compare_edges);
    return CAIRN_OK;
}

/* ---- Cases ---- */

static cairn_status read_case(crn_arena *arena, const crn_json *at, void *item, cairn_error *err) {
    acg_case *out = item;
    reader r = {.arena = arena, .err = err};
    CRN_TRY(crn_json_object(at, err));
    crn_json vertices = crn_json_member(at, "vertices"), edges = crn_json_member(at, "edges");
    crn_json source = crn_json_member(at, "source"), target = crn_json_member(at, "target");
    if (vertices.value != NULL)
        CRN_TRY(read_named_vertices(&r, &vertices));
    else
        CRN_TRY(read_plain_vertices(&r, at));
    CRN_TRY(read_edges(&r, &edges));
    out->names = r.names;
    out->dag = (cairn_dag){.vertex_count = r.vertex_count,
                           .edge_count = r.edge_count,
                           .costs = r.costs,
                           .edges = r.edges};
    CRN_TRY(read_vertex(&r, &source, &out->dag.source));
    CRN_TRY(read_vertex(&r, &target, &out->dag.target));
    cairn_status status = cairn_acg_check(&arena->allocator, &out->dag, out->names, err);
    return status == CAIRN_OK || status == CAIRN_ENOMEM ? status : fail_at_case(at, status, err);
}

cairn_status cairn_acg_cases_read(const cairn_allocator *allocator, const char *text, size_t length,
                                  const char *file, cairn_acg_cases **out, cairn_error *err) {
    crn_cases *all;
    cairn_status status =
        crn_cases_read(allocator, text, length, file, sizeof(acg_case), read_case, &all, err);
    *out = (cairn_acg_cases *)all;
    return status;
}

void cairn_acg_cases_destroy(cairn_acg_cases *cases) {
    crn_cases_destroy((crn_cases *)cases);
}

uint32_t cairn_acg_cases_count(const cairn_acg_cases *cases) {
    return cases->all.count;
}

const cairn_dag *cairn_acg_cases_get(const cairn_acg_cases *cases, uint32_t index) {
    const acg_case *found = crn_cases_get(&cases->all, index);
    return found != NULL ? &found->dag : NULL;
}

const uint32_t *cairn_acg_cases_names(const cairn_acg_cases *cases, uint32_t index) {
    const acg_case *found = crn_cases_get(&cases->all, index);
    return found != NULL ? found->names : NULL;
}
