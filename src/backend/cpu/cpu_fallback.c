/* cpu_fallback.c: runs the reference where this backend has no kernel.
 *
 *     blocked operand --> plain copy in the workspace --> reference --> plain --> blocked result
 *
 * Operands that are bf16 are copied too, as fp32. */
#include "backend/cpu/cpu_elements.h"

#define MOST_OPERANDS 64u /* images in one op; only a concatenation has many */

static const crn_kernel *reference_of(const cairn_op *op) {
    uint32_t count;
    return crn_ref_kernels(op->kind, &count);
}

bool crn_cpu_fallback_fits(const crn_site *site) {
    return reference_of(site->op) != NULL && site->op->input_count <= MOST_OPERANDS &&
           site->op->output_count <= MOST_OPERANDS;
}

/* The bytes of the plain copy of an operand; 0: it needs none. */
static uint64_t copy_bytes(const cairn_graph *graph, const crn_storage *storage, cairn_id tensor) {
    if (tensor == CAIRN_NONE || (storage[tensor].block == 1 && !crn_is_half(storage, tensor)))
        return 0;
    return crn_align(cairn_graph_tensor(graph, tensor)->bytes);
}

static uint64_t copies_bytes(const crn_site *site) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < site->op->input_count; i++)
        sum += copy_bytes(site->graph, site->storage, site->op->inputs[i]);
    for (uint32_t i = 0; i < site->op->output_count; i++)
        sum += copy_bytes(site->graph, site->storage, site->op->outputs[i]);
    return sum;
}

uint64_t crn_cpu_fallback_workspace(const crn_site *site) {
    const crn_kernel *reference = reference_of(site->op);
    return copies_bytes(site) + (reference->workspace == NULL ? 0 : reference->workspace(site));
}

/* ---- Layouts: elements of one or four bytes ---- */

typedef struct change_of_layout {
    crn_image image;
    size_t size; /* of an element */
    const char *from;
    char *to;
    bool to_plain;
} change_of_layout;

static void change_block(void *context, uint32_t index) {
    const change_of_layout *at = context;
    const crn_image *image = &at->image;
    size_t n = index / image->blocks, channel = index % image->blocks * image->block;
    for (size_t l = 0; l < image->block; l++)
        for (size_t i = 0; i < image->plane; i++) {
            size_t plain = ((n * image->channels + channel + l) * image->plane + i) * at->size;
            size_t blocked = ((index * image->plane + i) * image->block + l) * at->size;
            if (channel + l >= image->channels) {
                if (!at->to_plain)
                    memset(at->to + blocked, 0, at->size);
            } else if (at->to_plain) {
                memcpy(at->to + plain, at->from + blocked, at->size);
            } else {
                memcpy(at->to + blocked, at->from + plain, at->size);
            }
        }
}

/* ---- Types ---- */

typedef struct change_of_type {
    crn_reals from, to; /* one of them is bf16 */
    size_t count;
} change_of_type;

CRN_VECTORISED static void change_chunk(void *context, uint32_t chunk) {
    const change_of_type *at = context;
    CRN_FOR_STEPS(at, chunk, i, length) {
        float room[CRN_STEP];
        crn_reals_store(at->to, i, length, crn_reals_load(at->from, i, length, room));
    }
}

/* Copy an operand to the workspace, or back. */
static void change(const crn_call *call, cairn_id tensor, const void *from, void *to,
                   bool to_plain) {
    if (crn_is_half(call->storage, tensor)) {
        change_of_type at = {.from = {(void *)(uintptr_t)from, to_plain},
                             .to = {to, !to_plain},
                             .count = call->storage[tensor].bytes / sizeof(uint16_t)};
        crn_for_chunks(call, &at, at.count, change_chunk);
        return;
    }
    change_of_layout at = {
        .image = crn_image_of(call, tensor),
        .size = cairn_graph_tensor(call->graph, tensor)->dtype == CAIRN_DTYPE_U8 ? 1 : 4,
        .from = from,
        .to = to,
        .to_plain = to_plain};
    crn_team_for(call->threads, crn_image_blocks(&at.image), change_block, &at);
}

void crn_cpu_fallback(const crn_call *call) {
    const cairn_op *op = call->op;
    const void *inputs[MOST_OPERANDS];
    void *outputs[MOST_OPERANDS];
    uint64_t used = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint64_t bytes = copy_bytes(call->graph, call->storage, op->inputs[i]);
        void *copy = bytes > 0 ? (char *)call->workspace + used : NULL;
        inputs[i] = bytes > 0 ? copy : call->inputs[i];
        if (bytes > 0)
            change(call, op->inputs[i], call->inputs[i], copy, true);
        used += bytes;
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        uint64_t bytes = copy_bytes(call->graph, call->storage, op->outputs[i]);
        outputs[i] = bytes > 0 ? (char *)call->workspace + used : call->outputs[i];
        used += bytes;
    }
    crn_call plain = *call;
    plain.inputs = inputs;
    plain.outputs = outputs;
    if (call->workspace != NULL) /* NULL: neither copies nor the reference need it */
        plain.workspace = (char *)call->workspace + used;
    reference_of(op)->run(&plain);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (outputs[i] != call->outputs[i])
            change(call, op->outputs[i], outputs[i], call->outputs[i], false);
}
