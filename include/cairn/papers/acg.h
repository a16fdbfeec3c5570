/* acg.h: which tensors to keep, on any computation graph (Feng and Huang, "Optimal Gradient
 * Checkpoint Search for Arbitrary Computation Graphs").
 *
 * Keep a set S of vertices, the checkpoints; source and target always belong to it. The backward
 * pass recomputes what lies between them, one component at a time. The memory needed is what is
 * kept plus the largest component:
 *
 *     value(S) = sum of the costs of S + largest cost of a component (0 if there is none)
 *
 * There are two problems, which differ in what a component is; see cairn_acg_objective. To solve
 * one:
 *
 *     cairn_acg_solution *best;
 *     if (cairn_acg_solve(NULL, dag, "feng", NULL, &best, &err) == CAIRN_OK) {
 *         ... best->value, best->checkpoints[0 .. best->checkpoint_count - 1] ...
 *         cairn_acg_solution_destroy(best);
 *     }
 */
#ifndef CAIRN_ACG_H
#define CAIRN_ACG_H

#include "cairn/papers/dag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a component is. In both, take S away and look at the connected components of the rest, edge
 * directions ignored. */
typedef enum cairn_acg_objective {
    /* The paper's: each component is a segment and must be independent: exactly one checkpoint has
     * an edge into it and exactly one an edge out of it. Other sets are not valid. */
    CAIRN_ACG_OBJECTIVE_SEGMENTS = 0,
    /* Wider: a component may touch any number of checkpoints. Components that depend on each
     * other's results, through checkpoints, count as one. Every set is valid, so the optimum
     * is never above that of CAIRN_ACG_OBJECTIVE_SEGMENTS. */
    CAIRN_ACG_OBJECTIVE_PIECES = 1
} cairn_acg_objective;

/* ---- Algorithms ---- */

typedef struct cairn_acg_algorithm {
    const char *name;    /* as cairn_acg_solve() takes it */
    const char *summary; /* one line */
    cairn_acg_objective objective;
} cairn_acg_algorithm;

/* Algorithm `index`, or NULL past the end. The first is the default. */
CAIRN_API const cairn_acg_algorithm *cairn_acg_algorithm_list(uint32_t index);

/* ---- Solving ---- */

/* Start from CAIRN_ACG_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_acg_options {
    uint32_t struct_size;    /* sizeof as the caller compiled it */
    uint64_t seed;           /* of the algorithms that draw random numbers */
    uint64_t effort;         /* of `pieces`: rounds of its search, 0: the default */
    const uint32_t *names;   /* per vertex, what errors and pictures call it; NULL: its number */
    cairn_progress progress; /* may end the call, or NULL */
    void *progress_context;
} cairn_acg_options;

#define CAIRN_ACG_OPTIONS_INIT                                                                     \
    { sizeof(cairn_acg_options), 1, 0, NULL, NULL, NULL }

/* Read only; lives until cairn_acg_solution_destroy(). */
typedef struct cairn_acg_solution {
    uint64_t value;              /* of the algorithm's objective, ends included */
    const uint32_t *checkpoints; /* ascending; source and target are among them */
    uint32_t checkpoint_count;
} cairn_acg_solution;

/* Solve `dag` with the algorithm called `name`; NULL means the default. `options` may be NULL.
 *
 * The DAG is validated first (see cairn_acg_check). On CAIRN_OK `*out` is the caller's, to be
 * released with cairn_acg_solution_destroy(); otherwise it is NULL. CAIRN_EUNKNOWN: there is no
 * such algorithm. CAIRN_EINVAL: the DAG is not valid, or the algorithm does not apply to it (`chen`
 * and `feng-linear` solve chains only).
 *
 * The same input gives the same result on every machine. Scratch memory comes from `allocator` and
 * is freed before the return. Safe to call concurrently on one DAG.
 *
 * Time, with n vertices, m edges: `feng` O(n + m) for the division tree and O(n) for every max term
 * tried, typically a few dozen; memory O(n + m). */
CAIRN_API CAIRN_MUST cairn_status cairn_acg_solve(const cairn_allocator *allocator,
                                                  const cairn_dag *dag, const char *name,
                                                  const cairn_acg_options *options,
                                                  cairn_acg_solution **out, cairn_error *err);

CAIRN_API void cairn_acg_solution_destroy(cairn_acg_solution *solution);

/* Is this a DAG as dag.h says: in order and without repeated edges, ids in range, no cycle, no
 * vertex but the source without an incoming and none but the target without an outgoing edge (so
 * that every vertex lies on a path), costs whose sum fits in 63 bits. CAIRN_EINVAL or
 * CAIRN_EOVERFLOW with a sentence naming the vertex. `names` as in the options; may be NULL. */
CAIRN_API CAIRN_MUST cairn_status cairn_acg_check(const cairn_allocator *allocator,
                                                  const cairn_dag *dag, const uint32_t *names,
                                                  cairn_error *err);

/* The value of a given set of `count` checkpoints, in any order; source and target are always
 * taken to belong to it. CAIRN_EINVAL with CAIRN_ACG_OBJECTIVE_SEGMENTS: a segment is not
 * independent. O(n + m). */
CAIRN_API CAIRN_MUST cairn_status cairn_acg_value(const cairn_allocator *allocator,
                                                  const cairn_dag *dag,
                                                  cairn_acg_objective objective,
                                                  const uint32_t *checkpoints, uint32_t count,
                                                  uint64_t *value, cairn_error *err);

/* ---- The division tree ---- */

/* The unique tree of independent segments: the root is the whole graph, the children of a segment
 * are its division. As indented text, one segment per line; or as an SVG picture. `names` as above.
 * `*out` is the caller's, to be released with cairn_text_release(). O(n + m). */
CAIRN_API CAIRN_MUST cairn_status cairn_acg_tree_text(const cairn_allocator *allocator,
                                                      const cairn_dag *dag, const uint32_t *names,
                                                      cairn_text *out, cairn_error *err);
CAIRN_API CAIRN_MUST cairn_status cairn_acg_tree_svg(const cairn_allocator *allocator,
                                                     const cairn_dag *dag, const uint32_t *names,
                                                     cairn_text *out, cairn_error *err);

/* ---- Cases from a file ---- */

typedef struct cairn_acg_cases cairn_acg_cases;

/* Read a JSON text: one case, an array of cases, or {"cases": [...]}. A case is either
 *
 *     {"n": 4, "costs": [3, 1, 4, 1], "edges": [[0,1], [1,2], [2,3]], "source": 0, "target": 3}
 *
 * ("n" may be left out), or has vertices with ids, which need not be contiguous:
 *
 *     {"vertices": [{"id": 7, "cost": 3}, ...], "edges": [{"src": 7, "dst": 9}, ...],
 *      "source": 7, "target": 9}
 *
 * Other members are ignored. Every case is validated. `file` is named in errors and may be NULL. On
 * CAIRN_OK `*out` is new and keeps nothing of `text`; release it with cairn_acg_cases_destroy().
 * Otherwise `*out` is NULL. */
CAIRN_API CAIRN_MUST cairn_status cairn_acg_cases_read(const cairn_allocator *allocator,
                                                       const char *text, size_t length,
                                                       const char *file, cairn_acg_cases **out,
                                                       cairn_error *err);

CAIRN_API void cairn_acg_cases_destroy(cairn_acg_cases *cases);

CAIRN_API uint32_t cairn_acg_cases_count(const cairn_acg_cases *cases);

/* The DAG of case `index`, or NULL past the end. Vertices are numbered in the order of their ids in
 * the file. Lives as long as `cases`. */
CAIRN_API const cairn_dag *cairn_acg_cases_get(const cairn_acg_cases *cases, uint32_t index);

/* Per vertex of case `index` its id in the file, ascending; NULL past the end. Lives as long as
 * `cases`. */
CAIRN_API const uint32_t *cairn_acg_cases_names(const cairn_acg_cases *cases, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
