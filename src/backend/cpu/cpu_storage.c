/* cpu_storage.c: which tensors are stored in blocks of channels.
 *
 *     [N, C, H, W]  ->  [N, C/B, H, W, B]     B = 16 with 512-bit registers, else 8
 *
 * Tensors that share memory must be stored alike: aliases, and operands with the outputs that may
 * be made in place of them. They are joined into groups, and one member that must be plain makes
 * its group plain. */
#include "backend/cpu/cpu_internal.h"

#include <oneapi/dnnl/dnnl.h>

uint32_t crn_cpu_block(void) {
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core
               ? 16
               : 8;
}

static cairn_id find_root(cairn_id *parent, cairn_id t) {
    while (parent[t] != t) {
        parent[t] = parent[parent[t]];
        t = parent[t];
    }
    return t;
}

static void join(cairn_id *parent, cairn_id a, cairn_id b) {
    a = find_root(parent, a);
    b = find_root(parent, b);
    parent[CRN_MAX(a, b)] = CRN_MIN(a, b);
}

static void join_sharers(const cairn_graph *graph, cairn_id *parent) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        parent[t] = t;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        join(parent, t, cairn_graph_storage(graph, t));
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        for (uint32_t i = 0; i < op->inplace_count; i++)
            if (op->outputs[op->inplace[i].output] != CAIRN_NONE)
                join(parent, op->inputs[op->inplace[i].input], op->outputs[op->inplace[i].output]);
    }
}

/* What others read or write in plain layout, and what blocks would not help. */
static bool is_plain(const cairn_tensor *t, uint32_t block) {
    if (t->rank != 4 || t->stationary || t->shape[1] < block || t->shape[2] * t->shape[3] == 1)
        return true;
    return t->role == CAIRN_INPUT || t->role == CAIRN_LABEL || t->role == CAIRN_LOSS;
}

static void mark_plain(const cairn_graph *graph, cairn_id *parent, uint32_t block, bool *plain) {
    cairn_graph_summary summary;
    cairn_graph_summarize(graph, &summary);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        if (t == summary.output || is_plain(cairn_graph_tensor(graph, t), block))
            plain[find_root(parent, t)] = true;
}

static void block_images(const cairn_graph *graph, cairn_id *parent, const bool *plain,
                         uint32_t block, crn_storage *out) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        if (plain[find_root(parent, t)])
            continue;
        uint64_t per_channel = tensor->bytes / tensor->shape[1];
        uint64_t channels = (tensor->shape[1] + block - 1) / block * block;
        out[t] = (crn_storage){per_channel * channels, block};
    }
}

cairn_status crn_cpu_store(const cairn_graph *graph, crn_storage *out) {
    crn_arena scratch;
    cairn_allocator allocator = cairn_graph_allocator(graph);
    crn_arena_init(&scratch, &allocator);
    uint32_t tensors = cairn_graph_tensor_count(graph), block = crn_cpu_block();
    cairn_id *parent = crn_arena_take(&scratch, tensors, sizeof *parent);
    bool *plain = crn_arena_take(&scratch, tensors, sizeof *plain);
    cairn_status status = parent == NULL || plain == NULL ? CAIRN_ENOMEM : CAIRN_OK;
    if (status == CAIRN_OK) {
        join_sharers(graph, parent);
        mark_plain(graph, parent, block, plain);
        block_images(graph, parent, plain, block, out);
    }
    crn_arena_release(&scratch);
    return status;
}

/* Calls see() for every operand that is an image, until it says no. */
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

static bool is_like_first(crn_storage image, crn_storage first) {
    return image.block == first.block;
}

bool crn_cpu_all_blocked(const crn_site *site) {
    return all_images(site, is_blocked);
}

bool crn_cpu_all_alike(const crn_site *site) {
    return all_images(site, is_like_first);
}
