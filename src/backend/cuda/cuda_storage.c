/* cuda_storage.c: the storage formats of tensors on a GPU.
 *
 *     images                     [N, H, W, C]     channels last, as tensor cores need them
 *     weights of convolutions    [O, KH, KW, C]   channels last
 *     an input of the network    [N, H, W, 4]     if it has fewer than four channels and only
 *                                                 convolutions read it
 *     weights of these           [O, KH, KW, 4]
 *     everything else            plain
 *
 * If one member of a group is not an image, for example a flattened tensor, the whole group is
 * plain.
 *
 * With --math bf16 images are bf16, and inputs have 8 channels instead of 4. What the loss of
 * images reads and writes is plain and so stays fp32; so do weights and their gradients.
 *
 * Sequences [N, T, C] are plain, and bf16 with --math bf16: activations, their gradients and the
 * logits of tokens. Parameters of linear layers on them are stored twice, as fp32 and as bf16.
 * Statistics of rows and losses stay fp32. Element-wise ops, norms and attention
 * have operands of one type: if one of them must be fp32, because an op that knows no bf16
 * sequences reads or makes it, all are. */
#include "backend/cuda/cuda_internal.h"
#include "backend/formats.h"
#include "backend/storage_groups.h"

#define PADDED(device) ((device)->half ? 8u : 4u) /* 16 bytes */

static bool is_image(const cairn_tensor *t) {
    return t->rank == 4 && t->shape[2] * t->shape[3] > 1;
}

static uint32_t users_of(const cairn_graph *graph, cairn_id parameter) {
    uint32_t users = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        for (uint32_t i = 0; i < op->param_count && op->phase == CAIRN_PHASE_FORWARD; i++)
            users += op->params[i] == parameter;
    }
    return users;
}

/* Whether only convolutions with one group and their own weights read an input of few channels. */
static bool can_be_padded(const cairn_graph *graph, cairn_id input, uint32_t padded) {
    const cairn_tensor *t = cairn_graph_tensor(graph, input);
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(graph, input, &count);
    if (t->role != CAIRN_ROLE_INPUT || t->dtype != CAIRN_DTYPE_F32 || !is_image(t) ||
        t->shape[1] >= padded)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const cairn_op *op = cairn_graph_op(graph, readers[i]);
        bool forward = op->kind == CAIRN_OP_CONV2D;
        if ((!forward && op->kind != CAIRN_OP_CONV2D_BWD_WEIGHT) || op->inputs[0] != input ||
            op->attributes.groups > 1 || (forward && users_of(graph, op->params[0]) > 1))
            return false;
    }
    return count > 0;
}

static void set_block(const cairn_graph *graph, const cairn_id *group, cairn_id of, uint32_t block,
                      uint32_t *blocks) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        if (group[t] == group[of])
            blocks[t] = block;
}

/* Find the block of each image; only inputs and their weights have one. */
static void choose_blocks(const cairn_graph *graph, const cairn_id *group, uint32_t padded,
                          uint32_t *blocks) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        blocks[t] = 1;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        if (!can_be_padded(graph, t, padded))
            continue;
        uint32_t count;
        const cairn_id *readers = crn_graph_readers(graph, t, &count);
        set_block(graph, group, t, padded, blocks);
        for (uint32_t i = 0; i < count; i++) {
            const cairn_op *op = cairn_graph_op(graph, readers[i]);
            if (op->kind == CAIRN_OP_CONV2D)
                set_block(graph, group, op->params[0], padded, blocks);
        }
    }
}

/* Groups that have a tensor of the loss. */
static void find_loss(const cairn_graph *graph, const cairn_id *group, bool *found) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        if (op->kind != CAIRN_OP_CROSS_ENTROPY && op->kind != CAIRN_OP_CROSS_ENTROPY_BWD)
            continue;
        for (uint32_t i = 0; i < op->input_count; i++)
            found[group[op->inputs[i]]] = true;
        for (uint32_t i = 0; i < op->output_count; i++)
            if (op->outputs[i] != CAIRN_NONE)
                found[group[op->outputs[i]]] = true;
    }
}

/* Whether the tensor is a parameter, a gradient of one, or a part of such a gradient. */
static bool is_weight(const cairn_graph *graph, const cairn_tensor *t) {
    return t->stationary || t->role == CAIRN_ROLE_PARAMETER ||
           (t->gradient_of != CAIRN_NONE && cairn_graph_tensor(graph, t->gradient_of)->stationary);
}

/* ---- Sequences in bf16 ---- */

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
            !is_weight(s->graph, cairn_graph_tensor(s->graph, t)))
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
            is_weight(s->graph, tensor))
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

/* Whether an op is a linear layer that multiplies bf16. */
static bool multiplies_half(const cairn_op *op, const crn_storage *storage) {
    if (op->kind == CAIRN_OP_HEAD_LOSS)
        return storage[op->inputs[0]].type == CRN_BF16;
    return (op->kind == CAIRN_OP_LINEAR || op->kind == CAIRN_OP_LINEAR_BWD_DATA) &&
           (storage[op->inputs[0]].type == CRN_BF16 || storage[op->outputs[0]].type == CRN_BF16);
}

/* Store the parameters of linear layers on bf16 sequences twice, so that updates round them once a
 * step. */
static void copy_weights(const cairn_graph *graph, crn_storage *out) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        for (uint32_t i = 0; i < op->param_count && multiplies_half(op, out); i++)
            out[op->params[i]] =
                crn_storage_of(cairn_graph_tensor(graph, op->params[i]), CRN_PLAIN, 1, CRN_TWICE);
    }
}

/* Store sequences as bf16. Those that no op on sequences uses are the matrices of other networks
 * and stay as they are. */
static void halve_sequences(const sequences *s, crn_storage *out) {
    find_full(s);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s->graph); t++)
        if (!s->full[s->group[t]] && s->token[s->group[t]])
            out[t] = crn_storage_of(cairn_graph_tensor(s->graph, t), CRN_PLAIN, 1, CRN_BF16);
    copy_weights(s->graph, out);
}

cairn_status crn_cuda_store(crn_device *device, const cairn_graph *graph, crn_storage *out,
                            cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_arena_init(&scratch, &allocator);
    uint32_t tensors = cairn_graph_tensor_count(graph);
    cairn_id *group = crn_arena_take(&scratch, tensors, sizeof *group);
    uint32_t *blocks = crn_arena_take(&scratch, tensors, sizeof *blocks);
    bool *plain = crn_arena_take(&scratch, tensors, sizeof *plain);
    bool *full = crn_arena_take(&scratch, tensors, sizeof *full);
    bool *token = crn_arena_take(&scratch, tensors, sizeof *token);
    if (group == NULL || blocks == NULL || plain == NULL || full == NULL || token == NULL) {
        crn_arena_release(&scratch);
        return crn_fail_memory(err);
    }
    crn_storage_groups(graph, group);
    choose_blocks(graph, group, PADDED(device), blocks);
    if (device->half)
        find_loss(graph, group, plain);
    for (cairn_id t = 0; t < tensors; t++)
        if (cairn_graph_tensor(graph, t)->rank != 4)
            plain[group[t]] = true;
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        bool half = device->half && !is_weight(graph, tensor);
        if (!plain[group[t]] && (is_image(tensor) || blocks[t] > 1))
            out[t] = crn_storage_of(tensor, CRN_CHANNELS_LAST, blocks[t],
                                    half ? CRN_BF16 : CRN_AS_GRAPH);
    }
    if (device->half)
        halve_sequences(&(sequences){graph, group, full, token}, out);
    crn_arena_release(&scratch);
    return CAIRN_OK;
}
