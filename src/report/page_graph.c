/* page_graph.c: a graph with its costs as columns, for the page. An id that may be absent is stored
 * plus one; 0 is none. The page's decode.js reads what is written here. */
#include "report/page_internal.h"

void crn_page_number(cairn_text *text, const char *key, uint64_t value) {
    crn_text_printf(text, ",\"%s\":%llu", key, (unsigned long long)value);
}

static uint64_t or_none(cairn_id id) {
    return id == CAIRN_NONE ? 0 : (uint64_t)id + 1;
}

/* One column over all tensors or ops. */
#define COLUMN(key, count, value)                                                                  \
    do {                                                                                           \
        crn_column column = crn_column_begin(text, key, false);                                    \
        for (cairn_id i = 0; i < (count); i++)                                                     \
            crn_column_put(&column, (value));                                                      \
        crn_column_end(&column);                                                                   \
    } while (0)

#define TENSOR cairn_graph_tensor(graph, i)
#define OP cairn_graph_op(graph, i)

/* The rank and the dimensions of every tensor, one after the other. */
static void write_shapes(cairn_text *text, const cairn_graph *graph) {
    crn_column column = crn_column_begin(text, "shape", false);
    for (cairn_id i = 0; i < cairn_graph_tensor_count(graph); i++) {
        crn_column_put(&column, TENSOR->rank);
        for (uint32_t k = 0; k < TENSOR->rank; k++)
            crn_column_put(&column, TENSOR->shape[k]);
    }
    crn_column_end(&column);
}

static void write_tensors(cairn_text *text, const cairn_graph *graph, const cairn_costs *costs) {
    uint32_t count = cairn_graph_tensor_count(graph);
    crn_text_printf(text, "\"tensors\":{\"names\":[");
    for (cairn_id i = 0; i < count; i++) {
        crn_text_put(text, ",", i > 0);
        crn_text_page_string(text, TENSOR->name);
    }
    crn_text_printf(text, "]");
    COLUMN("role", count, TENSOR->role);
    COLUMN("bytes", count, cairn_costs_bytes(costs)[i]);
    COLUMN("producer", count, or_none(TENSOR->producer));
    COLUMN("alias", count, or_none(TENSOR->alias_of));
    COLUMN("stationary", count, TENSOR->stationary);
    write_shapes(text, graph);
    crn_text_printf(text, "}");
}

/* For every op the number of ids, then the ids. */
static void write_ids(cairn_text *text, const cairn_graph *graph, const char *key, bool outputs) {
    crn_column column = crn_column_begin(text, key, false);
    for (cairn_id i = 0; i < cairn_graph_op_count(graph); i++) {
        uint32_t count = outputs ? OP->output_count : OP->input_count;
        crn_column_put(&column, count);
        for (uint32_t k = 0; k < count; k++)
            crn_column_put(&column, or_none(outputs ? OP->outputs[k] : OP->inputs[k]));
    }
    crn_column_end(&column);
}

static const cairn_implementation *first_choice(const cairn_costs *costs, cairn_id op) {
    uint32_t count;
    return cairn_costs_op(costs, op, &count);
}

static void write_ops(cairn_text *text, const cairn_graph *graph, const cairn_costs *costs) {
    uint32_t count = cairn_graph_op_count(graph);
    crn_text_printf(text, ",\"ops\":{\"kinds\":[");
    for (uint32_t i = 0; i < CAIRN_OP_KINDS; i++) {
        crn_text_put(text, ",", i > 0);
        crn_text_page_string(text, cairn_op_kind_name((cairn_op_kind)i));
    }
    crn_text_printf(text, "],\"names\":[");
    for (cairn_id i = 0; i < count; i++) {
        crn_text_put(text, ",", i > 0);
        crn_text_page_string(text, OP->name);
    }
    crn_text_printf(text, "]");
    COLUMN("kind", count, OP->kind);
    COLUMN("phase", count, OP->phase);
    COLUMN("of", count, or_none(OP->of));
    COLUMN("time", count, (uint64_t)first_choice(costs, i)->time_ns);
    COLUMN("workspace", count, first_choice(costs, i)->workspace_bytes);
    write_ids(text, graph, "inputs", false);
    write_ids(text, graph, "outputs", true);
    crn_text_printf(text, "}");
}

void crn_page_graph(cairn_text *text, const cairn_graph *graph, const cairn_costs *costs) {
    crn_text_printf(text, "{");
    write_tensors(text, graph, costs);
    write_ops(text, graph, costs);
    crn_text_printf(text, "}");
}
