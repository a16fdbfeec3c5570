/* graph_dot.c: a graph for graphviz, with tensors as nodes and ops as edges, as the papers draw
 * it. */
#include "base/crn_base.h"
#include "cairn/papers/views.h"
#include "cairn/report.h"
#include "graph/crn_graph.h"

#define PREAMBLE                                                                                   \
    "digraph cairn {\n  node [shape=ellipse, fontname=Helvetica, fontsize=10];\n"                  \
    "  edge [fontname=Helvetica, fontsize=8];\n"

static bool is_drawn(const cairn_tensor *tensor, bool whole) {
    switch (tensor->role) {
    case CAIRN_ROLE_INPUT:
    case CAIRN_ROLE_ACTIVATION:
    case CAIRN_ROLE_LOSS:
        return true;
    case CAIRN_ROLE_LABEL:
    case CAIRN_ROLE_INTERNAL:
    case CAIRN_ROLE_GRADIENT:
        return whole;
    case CAIRN_ROLE_PARAMETER:
    case CAIRN_ROLE_STATE:
    case CAIRN_ROLE_SLOT:
        return false;
    }
    return false;
}

/* Write a string for graphviz, with quotes and backslashes escaped. */
static void write_escaped(cairn_text *text, const char *string) {
    for (const char *c = string; *c != '\0'; c++)
        crn_text_printf(text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
}

static void write_node(cairn_text *text, const cairn_graph *graph, cairn_id t, const char *color) {
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    crn_text_printf(text, "  t%u [label=\"", t);
    write_escaped(text, tensor->name);
    crn_text_printf(text, "\\n");
    for (uint32_t i = 0; i < tensor->rank; i++)
        crn_text_printf(text, "%s%u", i > 0 ? "x" : "", tensor->shape[i]);
    crn_text_printf(text, "\"");
    if (color != NULL)
        crn_text_printf(text, ", style=%s, fillcolor=\"%s\"",
                        strchr(color, ':') != NULL ? "wedged" : "filled", color);
    crn_text_printf(text, "];\n");
}

cairn_status cairn_graph_to_dot(const cairn_graph *graph, const char *const *colors, bool whole,
                                cairn_text *out) {
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_text_init(out, &allocator);
    crn_text_printf(out, PREAMBLE);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        if (is_drawn(cairn_graph_tensor(graph, t), whole))
            write_node(out, graph, t, colors == NULL ? NULL : colors[t]);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        for (uint32_t k = 0; k < op->output_count; k++)
            for (uint32_t i = 0; i < op->input_count && op->outputs[k] != CAIRN_NONE; i++)
                if (is_drawn(cairn_graph_tensor(graph, op->inputs[i]), whole) &&
                    is_drawn(cairn_graph_tensor(graph, op->outputs[k]), whole))
                    crn_text_printf(out, "  t%u -> t%u [label=\"%s\"];\n", op->inputs[i],
                                    op->outputs[k], cairn_op_kind_name(op->kind));
    }
    crn_text_printf(out, "}\n");
    return crn_text_finish(out);
}

/* The ops that compute a vertex from the one before it: "conv2d+batch_norm". */
static void write_ops(cairn_text *text, const cairn_graph *graph, const cairn_dag_view *view,
                      uint32_t vertex) {
    bool any = false;
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        if (op->phase != CAIRN_PHASE_FORWARD || op->output_count == 0 ||
            op->outputs[0] == CAIRN_NONE || view->vertex_of[op->outputs[0]] != vertex)
            continue;
        crn_text_printf(text, "%s%s", any ? "+" : "", cairn_op_kind_name(op->kind));
        any = true;
    }
}

cairn_status cairn_checkpoints_to_dot(const cairn_graph *graph, const cairn_dag_view *view,
                                      const cairn_acg_solution *green,
                                      const cairn_acg_solution *red, cairn_text *out) {
    static const char *const colors[] = {NULL, "palegreen", "salmon", "palegreen:salmon"};
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_text_init(out, &allocator);
    crn_text_printf(out, PREAMBLE);
    const cairn_dag *dag = &view->dag;
    uint32_t g = 0, r = 0; /* checkpoints are ascending */
    for (uint32_t v = 0; v < dag->vertex_count; v++) {
        bool is_green = green != NULL && g < green->checkpoint_count && green->checkpoints[g] == v;
        bool is_red = red != NULL && r < red->checkpoint_count && red->checkpoints[r] == v;
        g += is_green;
        r += is_red;
        if (view->tensors[v] != CAIRN_NONE)
            write_node(out, graph, view->tensors[v], colors[is_green + 2 * is_red]);
    }
    for (uint32_t e = 0; e < dag->edge_count; e++) {
        cairn_id from = view->tensors[dag->edges[e].from], to = view->tensors[dag->edges[e].to];
        if (from == CAIRN_NONE || to == CAIRN_NONE)
            continue;
        crn_text_printf(out, "  t%u -> t%u [label=\"", from, to);
        write_ops(out, graph, view, dag->edges[e].to);
        crn_text_printf(out, "\"];\n");
    }
    crn_text_printf(out, "}\n");
    return crn_text_finish(out);
}
