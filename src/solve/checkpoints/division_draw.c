/* division_draw.c: a division tree as indented text and as a picture. In the picture each segment
 * is a box above the boxes of its children. Its width is the number of edges inside it.
 *
 *     +--------------------------------+
 *     |          linear 0 - 9          |
 *     +------+------------------+------+
 *     | 0-3  |   branch 3 - 7   | 7-9  |
 *     +------+------+-----+-----+------+
 */
#include "solve/checkpoints/division.h"

enum { DEEPEST_INDENT = 100, LEAF_WIDTH = 14, ROW_HEIGHT = 26, LETTER_WIDTH = 7 };

static const char *const kind_names[] = {
    [CRN_DIVISION_EDGE] = "edge",
    [CRN_DIVISION_LINEAR] = "linear",
    [CRN_DIVISION_BRANCH] = "branch",
    [CRN_DIVISION_COMPLICATED] = "complicated",
};

static const char *const kind_colours[] = {
    [CRN_DIVISION_EDGE] = "#eeeeee",
    [CRN_DIVISION_LINEAR] = "#a6cee3",
    [CRN_DIVISION_BRANCH] = "#b2df8a",
    [CRN_DIVISION_COMPLICATED] = "#fdbf6f",
};

/* A tree, with the place of each node in the drawing. */
typedef struct drawing {
    crn_acg problem;
    crn_division tree;
    uint32_t *depth;
    uint32_t *left, *width; /* in leaves */
    uint32_t deepest;
} drawing;

static void describe(const drawing *d, uint32_t id, const char *arrow, cairn_text *text) {
    const crn_division_node *node = &d->tree.nodes[id];
    crn_text_printf(text, "%s %u %s %u", kind_names[node->kind],
                    crn_acg_name(&d->problem, node->from), arrow,
                    crn_acg_name(&d->problem, node->to));
    if (node->kind == CRN_DIVISION_EDGE)
        return;
    crn_text_printf(text, ", cost %llu", (unsigned long long)node->cost);
    for (uint32_t i = 0; i < node->vertex_count; i++)
        crn_text_printf(text, "%s %u", i == 0 ? ", at" : "",
                        crn_acg_name(&d->problem, d->tree.vertices[node->first_vertex + i]));
}

/* Write the children of a node before its next sibling, without recursion. */
static cairn_status write_text(const drawing *d, crn_arena *arena, cairn_text *text) {
    uint32_t *stack, height = 0;
    CRN_TAKE(arena, stack, d->tree.node_count);
    stack[height++] = 0;
    while (height > 0) {
        uint32_t id = stack[--height];
        const crn_division_node *node = &d->tree.nodes[id];
        crn_text_printf(text, "%*s", 2 * (int)CRN_MIN(d->depth[id], DEEPEST_INDENT), "");
        describe(d, id, "->", text);
        crn_text_put(text, "\n", 1);
        for (uint32_t i = node->child_count; i-- > 0;)
            stack[height++] = node->first_child + i;
    }
    return CAIRN_OK;
}

static uint32_t digits(uint32_t number) {
    uint32_t count = 1;
    while (number >= 10) {
        number /= 10;
        count++;
    }
    return count;
}

static void write_box(const drawing *d, uint32_t id, cairn_text *text) {
    const crn_division_node *node = &d->tree.nodes[id];
    uint32_t x = LEAF_WIDTH * d->left[id], y = ROW_HEIGHT * d->depth[id];
    uint32_t width = LEAF_WIDTH * d->width[id];
    uint32_t from = crn_acg_name(&d->problem, node->from);
    uint32_t to = crn_acg_name(&d->problem, node->to);
    crn_text_printf(text, "<g><title>");
    describe(d, id, "-&gt;", text);
    crn_text_printf(text,
                    "</title><rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%d\" fill=\"%s\"/>", x,
                    y, width, (int)ROW_HEIGHT, kind_colours[node->kind]);
    if ((digits(from) + digits(to) + 2) * LETTER_WIDTH <= width)
        crn_text_printf(text, "<text x=\"%u\" y=\"%u\">%u - %u</text>", x + width / 2, y + 17, from,
                        to);
    crn_text_printf(text, "</g>\n");
}

static void write_svg(const drawing *d, cairn_text *text) {
    crn_text_printf(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\">\n"
        "<style>rect{stroke:#555}text{font:12px sans-serif;text-anchor:middle}</style>\n",
        LEAF_WIDTH * d->width[0] + 1, ROW_HEIGHT * (d->deepest + 1) + 1);
    for (uint32_t id = 0; id < d->tree.node_count; id++)
        write_box(d, id, text);
    crn_text_printf(text, "</svg>\n");
}

static cairn_status prepare(crn_arena *arena, const cairn_dag *dag, const uint32_t *names,
                            drawing *d, cairn_error *err) {
    CRN_TRY(crn_acg_prepare(arena, dag, names, &d->problem, err));
    if (dag->vertex_count < 2)
        return crn_fail(err, CAIRN_EINVAL, "a graph of one vertex has no division tree");
    CRN_TRY(crn_division_build(arena, &d->problem, &d->tree));
    uint32_t count = d->tree.node_count;
    CRN_TAKE(arena, d->depth, count);
    CRN_TAKE(arena, d->left, count);
    CRN_TAKE(arena, d->width, count);
    for (uint32_t id = count; id-- > 0;) {
        const crn_division_node *node = &d->tree.nodes[id];
        d->width[id] += node->kind == CRN_DIVISION_EDGE;
        if (id > 0)
            d->width[node->parent] += d->width[id];
    }
    for (uint32_t id = 0; id < count; id++) {
        const crn_division_node *node = &d->tree.nodes[id];
        uint32_t left = d->left[id];
        d->deepest = CRN_MAX(d->deepest, d->depth[id]);
        for (uint32_t c = node->first_child; c < node->first_child + node->child_count; c++) {
            d->depth[c] = d->depth[id] + 1;
            d->left[c] = left;
            left += d->width[c];
        }
    }
    return CAIRN_OK;
}

static cairn_status draw(const cairn_allocator *allocator, const cairn_dag *dag,
                         const uint32_t *names, bool as_svg, cairn_text *out, cairn_error *err) {
    crn_arena arena;
    drawing d = {0};
    crn_error_clear(err);
    crn_text_init(out, allocator);
    crn_arena_init(&arena, allocator);
    cairn_status status = prepare(&arena, dag, names, &d, err);
    if (status == CAIRN_OK && as_svg)
        write_svg(&d, out);
    else if (status == CAIRN_OK)
        status = write_text(&d, &arena, out);
    crn_arena_release(&arena);
    if (status == CAIRN_OK)
        status = crn_text_finish(out);
    else
        cairn_text_release(out);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status cairn_acg_tree_text(const cairn_allocator *allocator, const cairn_dag *dag,
                                 const uint32_t *names, cairn_text *out, cairn_error *err) {
    return draw(allocator, dag, names, false, out, err);
}

cairn_status cairn_acg_tree_svg(const cairn_allocator *allocator, const cairn_dag *dag,
                                const uint32_t *names, cairn_text *out, cairn_error *err) {
    return draw(allocator, dag, names, true, out, err);
}
