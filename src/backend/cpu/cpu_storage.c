/* cpu_storage.c: which tensors are stored in blocks of channels.
 *
 *     [N, C, H, W]  ->  [N, C/B, H, W, B]     B = 16 with 512-bit registers, else 8
 *
 * Tensors that share memory must have the same format. If one of them must be plain, all are
 * plain. With --math bf16 sequences of tokens are bf16 (sequence_storage.h); images stay fp32. */
#include "backend/cpu/cpu_internal.h"
#include "backend/formats.h"
#include "backend/sequence_storage.h"
#include "backend/storage_groups.h"

#include <oneapi/dnnl/dnnl.h>

uint32_t crn_cpu_block(void) {
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core
               ? 16
               : 8;
}

bool crn_cpu_has_bf16(void) {
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
           dnnl_cpu_isa_avx512_core_bf16;
}

/* Whether the tensor must be plain because others access it in plain layout, or because blocks
 * would not help. */
static bool is_plain(const cairn_tensor *t, uint32_t block) {
    if (t->rank != 4 || t->stationary || t->shape[1] < block || t->shape[2] * t->shape[3] == 1)
        return true;
    return t->role == CAIRN_ROLE_INPUT || t->role == CAIRN_ROLE_LABEL || t->role == CAIRN_ROLE_LOSS;
}

static void mark_plain(const cairn_graph *graph, const cairn_id *group, uint32_t block,
                       bool *plain) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        if (t == summary.output || is_plain(cairn_graph_tensor(graph, t), block))
            plain[group[t]] = true;
}

static cairn_status block_images(const cairn_graph *graph, const cairn_id *group,
                                 crn_arena *scratch, crn_storage *out) {
    uint32_t tensors = cairn_graph_tensor_count(graph), block = crn_cpu_block();
    bool *plain;
    CRN_TAKE(scratch, plain, tensors);
    mark_plain(graph, group, block, plain);
    for (cairn_id t = 0; t < tensors; t++)
        if (!plain[group[t]])
            out[t] = crn_storage_of(cairn_graph_tensor(graph, t), CRN_BLOCKS, block, CRN_AS_GRAPH);
    return CAIRN_OK;
}

static cairn_status store_all(crn_device *device, const cairn_graph *graph, crn_arena *scratch,
                              crn_storage *out, cairn_error *err) {
    cairn_id *group;
    uint32_t halved;
    CRN_TAKE(scratch, group, cairn_graph_tensor_count(graph));
    crn_storage_groups(graph, group);
    CRN_TRY(block_images(graph, group, scratch, out));
    if (!crn_processor_is_half(device))
        return CAIRN_OK;
    CRN_TRY(crn_halve_sequences(graph, group, scratch, out, &halved));
    return halved > 0 ? CAIRN_OK
                      : crn_fail(err, CAIRN_EINVAL,
                                 "on the backend cpu only sequences of tokens can be bf16, and the "
                                 "network has none: images and all other tensors are fp32 there");
}

cairn_status crn_cpu_store(crn_device *device, const cairn_graph *graph, crn_storage *out,
                           cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_arena_init(&scratch, &allocator);
    cairn_status status = store_all(device, graph, &scratch, out, err);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

/* Call see() for every operand that is an image, until it returns false. */
static bool all_images(const crn_site *site, bool (*see)(crn_storage image, crn_storage first)) {
    const cairn_op *op = site->op;
    crn_storage first = site->storage[op->inputs[0]];
    for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
        cairn_id t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        if (t != CAIRN_NONE && cairn_graph_tensor(site->graph, t)->rank == 4 &&
            !see(site->storage[t], first))
            return false;
    }
    return true;
}

static bool is_blocked(crn_storage image, crn_storage first) {
    (void)first;
    return image.block > 1;
}

static bool is_unblocked(crn_storage image, crn_storage first) {
    (void)first;
    return image.block == 1;
}

static bool is_like_first(crn_storage image, crn_storage first) {
    return image.block == first.block;
}

bool crn_cpu_all_blocked(const crn_site *site) {
    return all_images(site, is_blocked);
}

bool crn_cpu_all_plain(const crn_site *site) {
    return all_images(site, is_unblocked);
}

bool crn_cpu_all_alike(const crn_site *site) {
    return all_images(site, is_like_first);
}
