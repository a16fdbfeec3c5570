/* accesses.c: the ranges of memory that a call reads and writes. A backend can find with them which
 * calls may run at the same time. */
#include "backend/backend.h"

typedef struct listing {
    crn_access *out;
    uint32_t count, most;
} listing;

static void add(listing *l, const void *at, uint64_t bytes, bool writes) {
    if (at == NULL || bytes == 0)
        return;
    if (l->count < l->most)
        l->out[l->count] = (crn_access){at, bytes, writes};
    l->count++;
}

uint32_t crn_call_accesses(const crn_call *call, crn_access *out, uint32_t most) {
    const cairn_op *op = call->op;
    listing l = {.out = out, .most = most};
    bool moves_state = (op->flags & CAIRN_OP_FLAG_ONCE) && call->training && !call->again;
    for (uint32_t i = 0; i < op->input_count; i++)
        add(&l, call->inputs[i], call->storage[op->inputs[i]].bytes, false);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE)
            add(&l, call->outputs[i], call->storage[op->outputs[i]].bytes, true);
    for (uint32_t i = 0; i < op->param_count; i++) {
        const cairn_tensor *param = cairn_graph_tensor(call->graph, op->params[i]);
        add(&l, call->params[i], call->storage[op->params[i]].bytes,
            moves_state && param->role == CAIRN_ROLE_STATE);
    }
    add(&l, call->workspace, call->workspace_bytes, true);
    return l.count;
}
