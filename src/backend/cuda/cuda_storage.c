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
 * Sequences [N, T, C] are plain, and bf16 with --math bf16 (sequence_storage.h). Parameters of
 * linear layers on them are stored twice, as fp32 and as bf16. */
#include "backend/cuda/cuda_internal.h"
#include "backend/formats.h"
#include "backend/sequence_storage.h"
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

/* ---- Weights of sequences in bf16 ---- */

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

/* Whether an op reads only the copy of its parameter `index`. */
static bool reads_copy(const cairn_op *op, uint32_t index, const crn_storage *storage) {
    return index == 0 && multiplies_half(op, storage);
}

/* Find the parameters whose fp32 elements only updates use. */
static void find_unread(const cairn_graph *graph, crn_storage *out) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        if (out[t].type == CRN_TWICE)
            out[t].unread = crn_align(cairn_graph_tensor(graph, t)->bytes);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        for (uint32_t i = 0; i < op->param_count && !crn_op_updates(op); i++)
            if (!reads_copy(op, i, out))
                out[op->params[i]].unread = 0;
    }
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
    if (group == NULL || blocks == NULL || plain == NULL) {
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
        bool half = device->half && !crn_is_weight(graph, tensor);
        if (!plain[group[t]] && (is_image(tensor) || blocks[t] > 1))
            out[t] = crn_storage_of(tensor, CRN_CHANNELS_LAST, blocks[t],
                                    half ? CRN_BF16 : CRN_AS_GRAPH);
    }
    cairn_status status = CAIRN_OK;
    if (device->half) {
        uint32_t halved;
        status = crn_halve_sequences(graph, group, &scratch, out, &halved);
        copy_weights(graph, out);
        find_unread(graph, out);
    }
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
