/* network_hash.c: a hash of what a network computes, for files of weights: a network that was
 * edited after training is recognised. */
#include "graph/crn_graph.h"
#include "graph/graph_internal.h"

static uint64_t hash_number(uint64_t hash, uint64_t number) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    return crn_hash_bytes(hash, bytes, sizeof bytes);
}

static uint64_t hash_integers(uint64_t hash, const int32_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = hash_number(hash, (uint32_t)numbers[i]);
    return hash;
}

static uint64_t hash_real(uint64_t hash, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return hash_number(hash, bits);
}

/* Not what only training uses: dropout, label smoothing, the momentum of running statistics, the
 * deviation that weights start with. */
static uint64_t hash_attributes(uint64_t hash, const cairn_attributes *a) {
    hash = hash_integers(hash, a->kernel, 2);
    hash = hash_integers(hash, a->stride, 2);
    hash = hash_integers(hash, a->pad, 4);
    hash = hash_integers(hash, a->dilation, 2);
    hash = hash_integers(hash, a->size, 2);
    hash = hash_integers(hash,
                         (int32_t[]){a->groups, a->index, a->count_padding, a->heads, a->kv_heads,
                                     a->causal, a->tanh, a->same_row},
                         8);
    hash = hash_real(hash, a->epsilon);
    hash = hash_real(hash, a->theta);
    return hash_real(hash, a->scaling);
}

/* An input is known by the op that makes it, or by its role. */
static uint64_t hash_input(uint64_t hash, const cairn_tensor *tensor) {
    hash = hash_number(hash, tensor->producer);
    return tensor->producer == CAIRN_NONE ? hash_number(hash, tensor->role) : hash;
}

static bool makes_loss(const cairn_graph *graph, const cairn_op *op) {
    return op->output_count > 0 && op->outputs[0] != CAIRN_NONE &&
           graph->tensors.data[op->outputs[0]].role == CAIRN_ROLE_LOSS;
}

/* A loss is left out. A head that is joined with its loss counts as the linear layer that it was.
 */
uint64_t crn_network_hash(const cairn_graph *graph) {
    uint64_t hash = CRN_HASH_START;
    for (cairn_id o = 0; o < graph->ops.length; o++) {
        const cairn_op *op = &graph->ops.data[o];
        bool head = op->kind == CAIRN_OP_HEAD_LOSS;
        if (op->phase != CAIRN_PHASE_FORWARD || (makes_loss(graph, op) && !head))
            continue;
        const char *kind = crn_op_kinds[head ? CAIRN_OP_LINEAR : op->kind].name;
        hash = crn_hash_bytes(hash, kind, strlen(kind) + 1);
        hash = hash_attributes(hash, &op->attributes);
        for (uint32_t i = 0; i < (head ? 1 : op->input_count); i++)
            hash = hash_input(hash, &graph->tensors.data[op->inputs[i]]);
        for (uint32_t i = 0; i < op->param_count; i++) {
            const char *name = graph->tensors.data[op->params[i]].name;
            hash = crn_hash_bytes(hash, name, strlen(name) + 1);
        }
    }
    return hash;
}
