/* graph_dot.c: a graph for graphviz, tensors as nodes and ops as edges, as the papers draw them. */
#include "base/crn_base.h"
#include "cairn/report.h"

static bool is_drawn(const cairn_tensor *tensor, bool whole) {
    switch (tensor->role) {
    case CAIRN_INPUT:
    case CAIRN_ACTIVATION:
    case CAIRN_LOSS:
        return true;
    case CAIRN_LABEL:
    case CAIRN_INTERNAL:
    case CAIRN_GRADIENT:
        return whole;
    case CAIRN_PARAMETER:
    case CAIRN_STATE:
        return false;
    }
    return false;
}

static void write_node(cairn_text *text, const cairn_graph *graph, cairn_id t, const char *color) {
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    crn_text_printf(text, "  t%u [label=", t);
    cairn_text label;
    crn_text_init(&label, &text->allocator);
    crn_text_printf(&label, "%s\n", tensor->name);
    for (uint32_t i = 0; i < tensor->rank; i++)
        crn_text_printf(&label, "%s%u", i > 0 ? "x" : "", tensor->shape[i]);
    if (crn_text_finish(&label) == CAIRN_OK) {
        /* Graphviz strings escape quotes and backslashes as JSON does, and read \n as a new line.
         */
        crn_text_put(text, "\"", 1);
        for (const char *c = label.data; *c != '\0'; c++)
            crn_text_printf(text, *c == '\n' ? "\\n" : *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        crn_text_put(text, "\"", 1);
        cairn_text_release(&label);
    } else {
        crn_text_put(text, "\"\"", 2);
    }
    if (color != NULL)
        crn_text_printf(text, ", style=filled, fillcolor=%s", color);
    crn_text_printf(text, "];\n");
}

cairn_status cairn_graph_to_dot(const cairn_graph *graph, const char *const *colors, bool whole,
                                cairn_text *out) {
    cairn_allocator allocator = cairn_graph_allocator(graph);
    crn_text_init(out, &allocator);
    crn_text_printf(out, "digraph cairn {\n  node [shape=ellipse, fontname=Helvetica, "
                         "fontsize=10];\n  edge [fontname=Helvetica, fontsize=8];\n");
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
