/* feng.c: optimal checkpoints on any computation graph (algorithms 5 and 6 of Feng and Huang).
 *
 * Under a limit C on the cost of a segment, walk through the division tree from the root:
 *
 *     a segment that costs at most C       is left whole: nothing inside is kept;
 *     a branch segment                     is broken: each child by itself;
 *     a complicated segment                is broken: its own vertices are kept, then each child;
 *     a linear segment                     children that cost more than C are broken and their
 *                                          ends kept; over the rest a shortest path as on a chain.
 *
 * This is optimal for two reasons. First, in a valid set every segment touches two checkpoints. If
 * one own vertex of a complicated segment is kept, or a vertex in a child of it, then all its own
 * vertices must be kept: one that is not kept would lie in a component that touches three
 * checkpoints. Second, breaking a segment within the limit only adds checkpoints.
 *
 * Algorithm 5 as printed in the paper loses the tail of a linear segment after its last broken
 * child. Here the whole line is solved in one sweep that cannot cross a broken child. One limit
 * takes O(n); max_term.c searches the limits. Memory O(n + m). */
#include "solve/checkpoints/acg_internal.h"
#include "solve/checkpoints/feng_linear.h"
#include "solve/checkpoints/division.h"

typedef struct feng {
    crn_division tree;
    uint32_t inner_count, *inner_nodes; /* all nodes but edges, parents first */
    uint64_t *costs;                    /* per node */
    uint64_t *kept;      /* per node that exceeds the limit: the cost kept inside it */
    uint64_t *own_costs; /* as tree.vertices */
    crn_line_room room;
} feng;

static crn_line line_of(const feng *f, const crn_division_node *node) {
    return (crn_line){node->child_count, f->costs + node->first_child, f->kept + node->first_child,
                      f->own_costs + node->first_vertex};
}

/* The cost kept in a broken branch or complicated segment: its own vertices and what its children
 * keep. */
static uint64_t break_up(const feng *f, const crn_division_node *node, uint64_t limit,
                         crn_max_term *step) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < node->vertex_count; i++)
        sum += f->own_costs[node->first_vertex + i];
    for (uint32_t c = node->first_child; c < node->first_child + node->child_count; c++) {
        if (f->costs[c] > limit)
            sum += f->kept[c];
        else
            step->least = CRN_MAX(step->least, f->costs[c]);
    }
    return sum;
}

static crn_max_term solve_limit(void *context, uint64_t limit) {
    feng *f = context;
    if (f->costs[0] <= limit)
        return (crn_max_term){.sum = 0, .least = f->costs[0], .beyond = UINT64_MAX};
    crn_max_term step = {.beyond = UINT64_MAX};
    for (uint32_t i = f->inner_count; i-- > 0;) {
        uint32_t id = f->inner_nodes[i];
        if (f->costs[id] <= limit)
            continue;
        const crn_division_node *node = &f->tree.nodes[id];
        crn_line line = line_of(f, node);
        step.beyond = CRN_MIN(step.beyond, f->costs[id]);
        f->kept[id] = node->kind == CRN_DIVISION_LINEAR
                          ? crn_line_solve(&line, limit, &f->room, &step)
                          : break_up(f, node, limit, &step);
    }
    step.sum = f->kept[0];
    return step;
}

/* Mark the checkpoints that solve_limit() has just counted. */
static void mark(feng *f, uint64_t limit, uint8_t *chosen) {
    for (uint32_t i = 0; i < f->inner_count; i++) {
        uint32_t id = f->inner_nodes[i];
        if (f->costs[id] <= limit)
            continue;
        const crn_division_node *node = &f->tree.nodes[id];
        const uint32_t *own = f->tree.vertices + node->first_vertex;
        if (node->kind != CRN_DIVISION_LINEAR) {
            for (uint32_t k = 0; k < node->vertex_count; k++)
                chosen[own[k]] = 1;
            continue;
        }
        crn_line line = line_of(f, node);
        crn_max_term step = {0};
        crn_line_solve(&line, limit, &f->room, &step);
        for (uint32_t at = f->room.previous[line.count]; at > 0; at = f->room.previous[at])
            chosen[own[at - 1]] = 1;
    }
}

static cairn_status prepare(const crn_acg *problem, crn_arena *arena, feng *f) {
    uint32_t longest = 0, owned = problem->dag->vertex_count - 2;
    CRN_TRY(crn_division_build(arena, problem, &f->tree));
    CRN_TAKE(arena, f->inner_nodes, f->tree.node_count);
    CRN_TAKE(arena, f->costs, f->tree.node_count);
    CRN_TAKE(arena, f->kept, f->tree.node_count);
    CRN_TAKE(arena, f->own_costs, owned);
    for (uint32_t id = 0; id < f->tree.node_count; id++) {
        const crn_division_node *node = &f->tree.nodes[id];
        f->costs[id] = node->cost;
        longest = CRN_MAX(longest, node->child_count);
        if (node->kind != CRN_DIVISION_EDGE)
            f->inner_nodes[f->inner_count++] = id;
    }
    for (uint32_t i = 0; i < owned; i++)
        f->own_costs[i] = problem->dag->costs[f->tree.vertices[i]];
    return crn_line_room_take(arena, longest, &f->room);
}

cairn_status crn_acg_run_feng(const crn_acg *problem, const cairn_acg_options *options,
                              crn_arena *arena, uint8_t *chosen, cairn_error *err) {
    (void)options;
    (void)err;
    if (problem->dag->vertex_count <= 2)
        return CAIRN_OK;
    feng f = {0};
    uint64_t limit;
    CRN_TRY(prepare(problem, arena, &f));
    CRN_TRY(crn_max_term_search(arena, solve_limit, &f, f.costs[0], 0, &limit));
    solve_limit(&f, limit);
    mark(&f, limit, chosen);
    return CAIRN_OK;
}
