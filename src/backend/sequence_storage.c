/* sequence_storage.c: see sequence_storage.h. */
#include "backend/sequence_storage.h"
#include "backend/formats.h"

bool crn_is_weight(const cairn_graph *graph, const cairn_tensor *t) {
    return t->stationary || t->role == CAIRN_ROLE_PARAMETER ||
           (t->gradient_of != CAIRN_NONE && cairn_graph_tensor(graph, t->gradient_of)->stationary);
}

typedef struct sequences {
    const cairn_graph *graph;
    const cairn_id *group;
    bool *full;  /* per group: fp32 */
    bool *token; /* per group: an op on sequences reads or makes it */
} sequences;

static bool is_of_sequences(cairn_op_kind kind) {
    return (kind >= CAIRN_OP_EMBEDDING && kind < CAIRN_OP_UPDATE) || kind == CAIRN_OP_HEAD_LOSS;
}

/* Kinds that take sequences in bf16, whatever their other operands are. */
static bool takes_any(cairn_op_kind kind) {
    return kind == CAIRN_OP_LINEAR || kind == CAIRN_OP_LINEAR_BWD_DATA ||
           kind == CAIRN_OP_LINEAR_BWD_WEIGHT || kind == CAIRN_OP_IMAGE_TOKENS ||
           kind == CAIRN_OP_IMAGE_TOKENS_BWD || kind == CAIRN_OP_EMBEDDING_BWD ||
           kind == CAIRN_OP_ADD_POSITIONS_BWD;
}

/* Kinds that take them if all their operands are bf16. */
static bool takes_alike(cairn_op_kind kind) {
    return !takes_any(kind) &&
           (is_of_sequences(kind) || kind == CAIRN_OP_RELU || kind == CAIRN_OP_RELU_BWD ||
            kind == CAIRN_OP_ADD || kind == CAIRN_OP_ACCUMULATE || kind == CAIRN_OP_DROPOUT ||
            kind == CAIRN_OP_DROPOUT_BWD);
}

/* Whether an operand is not a sequence but belongs to rows or to the whole: statistics, losses. */
static bool is_aside(const cairn_graph *graph, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    if (tensor->dtype != CAIRN_DTYPE_F32 || tensor->role == CAIRN_ROLE_LOSS)
        return true;
    if (tensor->producer == CAIRN_NONE)
        return false;
    const cairn_op *op = cairn_graph_op(graph, tensor->producer);
    return op->output_count > 1 && op->outputs[1] == t &&
           (op->kind == CAIRN_OP_LAYER_NORM || op->kind == CAIRN_OP_RMS_NORM ||
            op->kind == CAIRN_OP_ATTENTION);
}

/* The first operand, from *index on, that is a sequence, or CAIRN_NONE. */
static cairn_id next_operand(const sequences *s, const cairn_op *op, uint32_t *index) {
    while (*index < op->input_count + op->output_count) {
        uint32_t i = (*index)++;
        cairn_id t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        if (t != CAIRN_NONE && !is_aside(s->graph, t) &&
            !crn_is_weight(s->graph, cairn_graph_tensor(s->graph, t)))
            return t;
    }
    return CAIRN_NONE;
}

static bool any_full(const sequences *s, const cairn_op *op) {
    uint32_t index = 0;
    for (cairn_id t; (t = next_operand(s, op, &index)) != CAIRN_NONE;)
        if (s->full[s->group[t]])
            return true;
    return false;
}

/* Make the operands of an op fp32; returns whether one was not. */
static bool make_full(const sequences *s, const cairn_op *op) {
    bool changed = false;
    uint32_t index = 0;
    for (cairn_id t; (t = next_operand(s, op, &index)) != CAIRN_NONE;) {
        changed = changed || !s->full[s->group[t]];
        s->full[s->group[t]] = true;
    }
    return changed;
}

/* Find the groups that cannot be bf16. Few rounds are enough: the second one changes something only
 * where the first one has. */
static void find_full(const sequences *s) {
    uint32_t ops = cairn_graph_op_count(s->graph), index;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s->graph, t);
        if (tensor->rank < 2 || tensor->rank > 3 || is_aside(s->graph, t) ||
            crn_is_weight(s->graph, tensor))
            s->full[s->group[t]] = true;
    }
    for (cairn_id o = 0; o < ops; o++) {
        const cairn_op *op = cairn_graph_op(s->graph, o);
        index = 0;
        for (cairn_id t; (t = next_operand(s, op, &index)) != CAIRN_NONE;)
            s->token[s->group[t]] = s->token[s->group[t]] || is_of_sequences(op->kind);
        if (!takes_any(op->kind) && !takes_alike(op->kind))
            (void)make_full(s, op);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (cairn_id o = 0; o < ops; o++) {
            const cairn_op *op = cairn_graph_op(s->graph, o);
            if (takes_alike(op->kind) && any_full(s, op))
                changed = make_full(s, op) || changed;
        }
    }
}

cairn_status crn_halve_sequences(const cairn_graph *graph, const cairn_id *group,
                                 crn_arena *scratch, crn_storage *out, uint32_t *halved) {
    uint32_t tensors = cairn_graph_tensor_count(graph);
    sequences s = {.graph = graph, .group = group};
    *halved = 0;
    CRN_TAKE(scratch, s.full, tensors);
    CRN_TAKE(scratch, s.token, tensors);
    find_full(&s);
    for (cairn_id t = 0; t < tensors; t++)
        if (!s.full[group[t]] && s.token[group[t]]) {
            out[t] = crn_storage_of(cairn_graph_tensor(graph, t), CRN_PLAIN, 1, CRN_BF16);
            ++*halved;
        }
    return CAIRN_OK;
}
