/* stationary.c: the stationary memory: parameters, state, the gradients of parameters and the slots
 * of the optimiser.
 *
 *     device  | parameters and state | slots of the optimiser | gradients: one place per parameter
 * | host    | parameters and slots that the plan fetches |
 *
 * If the graph has updates, slots are tensors of it, and gradients are in the arena.
 *
 * If a parameter is used several times, the sums of its gradient share one place: each sum is made
 * in place of the one before it. */
#include "backend/formats.h"
#include "base/sha256.h"
#include "exec/exec_internal.h"
#include "sim/slot_bytes.h"
#include "graph/crn_graph.h"

#include <stdlib.h>

static bool is_kept(cairn_role role) {
    return role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_STATE;
}

/* An input that the plan does not control has its place beside the parameters. */
static bool is_kept_input(const cairn_tensor *tensor) {
    return tensor->stationary &&
           (tensor->role == CAIRN_ROLE_INPUT || tensor->role == CAIRN_ROLE_LABEL);
}

static bool stays(cairn_role role) {
    return is_kept(role) || role == CAIRN_ROLE_SLOT;
}

/* ---- Layout ---- */

static uint64_t take(uint64_t *used, uint64_t bytes) {
    uint64_t offset = *used;
    *used += crn_align(bytes);
    return offset + 1;
}

/* The stationary operand that output `output` of the op is made in place of, or CAIRN_NONE. */
static cairn_id sum_before(const cairn_graph *graph, const cairn_op *op, uint32_t output) {
    for (uint32_t i = 0; i < op->inplace_count; i++) {
        cairn_id operand = op->inputs[op->inplace[i].input];
        if (op->inplace[i].output == output && cairn_graph_tensor(graph, operand)->stationary)
            return operand;
    }
    return CAIRN_NONE;
}

static void lay_out_gradients(cairn_exec *exec, const cairn_costs *costs, uint64_t *used) {
    uint64_t *offsets = exec->stationary.offsets;
    for (cairn_id o = 0; o < cairn_graph_op_count(exec->graph); o++) {
        const cairn_op *op = cairn_graph_op(exec->graph, o);
        for (uint32_t i = 0; i < op->output_count; i++) {
            cairn_id t = op->outputs[i];
            if (t == CAIRN_NONE || !cairn_graph_tensor(exec->graph, t)->stationary)
                continue;
            cairn_id before = sum_before(exec->graph, op, i);
            offsets[t] =
                before != CAIRN_NONE ? offsets[before] : take(used, cairn_costs_bytes(costs)[t]);
        }
    }
}

static cairn_status take_arrays(cairn_exec *exec) {
    crn_stationary *s = &exec->stationary;
    uint32_t tensors = cairn_graph_tensor_count(exec->graph);
    CRN_TAKE(&exec->memory, s->offsets, tensors);
    CRN_TAKE(&exec->memory, s->slot_offsets, tensors);
    CRN_TAKE(&exec->memory, s->on_host, tensors);
    CRN_TAKE(&exec->memory, s->at, tensors);
    CRN_TAKE(&exec->memory, s->no_decay, tensors);
    CRN_TAKE(&exec->memory, s->parameter_of, tensors);
    CRN_TAKE(&exec->memory, s->by_name, tensors);
    uint32_t parameters = 0;
    for (cairn_id t = 0; t < tensors; t++)
        parameters += cairn_graph_tensor(exec->graph, t)->role == CAIRN_ROLE_PARAMETER;
    CRN_TAKE(&exec->memory, s->parameters, parameters);
    return CAIRN_OK;
}

/* Whether the tensor is the whole gradient of a parameter: the last of its sums. */
static bool is_final_gradient(const cairn_graph *graph, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    return tensor->role == CAIRN_ROLE_GRADIENT && tensor->stationary &&
           !crn_graph_is_summed(graph, t);
}

typedef struct named {
    const char *name;
    cairn_id tensor;
} named;

static int compare_names(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static cairn_status sort_by_name(cairn_exec *exec) {
    crn_stationary *s = &exec->stationary;
    named *list;
    uint32_t tensors = cairn_graph_tensor_count(exec->graph), count = 0;
    CRN_TAKE(&exec->memory, list, tensors);
    for (cairn_id t = 0; t < tensors; t++)
        if (is_kept(cairn_graph_tensor(exec->graph, t)->role) || is_final_gradient(exec->graph, t))
            list[count++] = (named){cairn_graph_tensor(exec->graph, t)->name, t};
    if (count > 0)
        qsort(list, count, sizeof *list, compare_names);
    for (uint32_t i = 0; i < count; i++)
        s->by_name[i] = list[i].tensor;
    s->by_name_count = count;
    return CAIRN_OK;
}

/* Positions and class tokens are added to activations, like biases. */
static void find_decay(cairn_exec *exec) {
    bool *no_decay = exec->stationary.no_decay;
    if (exec->options.decay_on == CAIRN_DECAY_ALL)
        return;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(exec->graph); t++)
        no_decay[t] = cairn_graph_tensor(exec->graph, t)->rank < 2;
    for (cairn_id o = 0; o < cairn_graph_op_count(exec->graph); o++) {
        const cairn_op *op = cairn_graph_op(exec->graph, o);
        if (op->kind == CAIRN_OP_ADD_POSITIONS || op->kind == CAIRN_OP_IMAGE_TOKENS)
            for (uint32_t i = 0; i < op->param_count; i++)
                no_decay[op->params[i]] = true;
    }
}

/* What the plan fetches is at home on the host. */
static void find_homes(cairn_exec *exec, const cairn_plan *plan) {
    const cairn_step *steps = plan->steps;
    uint32_t count = plan->step_count;
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].kind == CAIRN_STEP_FETCH &&
            stays(cairn_graph_tensor(exec->graph, steps[i].id)->role))
            exec->stationary.on_host[steps[i].id] = true;
}

cairn_status crn_stationary_layout(cairn_exec *exec, const cairn_costs *costs,
                                   const cairn_plan *plan) {
    crn_stationary *s = &exec->stationary;
    uint32_t tensors = cairn_graph_tensor_count(exec->graph);
    uint64_t *bytes = &exec->figures.stationary_bytes, host = 0;
    CRN_TRY(take_arrays(exec));
    find_homes(exec, plan);
    find_decay(exec);
    if (!crn_graph_has_updates(exec->graph))
        s->slot_count = cairn_optimizer_slots(&exec->options);
    *bytes = 0;
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(exec->graph, t);
        if (stays(tensor->role) || is_kept_input(tensor))
            s->offsets[t] = take(s->on_host[t] ? &host : bytes, cairn_costs_bytes(costs)[t]);
    }
    for (cairn_id t = 0; t < tensors; t++)
        for (uint32_t slot = 0; slot < s->slot_count; slot++) {
            if (cairn_graph_tensor(exec->graph, t)->role != CAIRN_ROLE_PARAMETER)
                break;
            uint64_t offset = take(bytes, crn_slot_bytes(exec->graph, costs, t));
            s->slot_offsets[t] = slot == 0 ? offset : s->slot_offsets[t];
        }
    lay_out_gradients(exec, costs, bytes);
    return sort_by_name(exec);
}

/* The slots of a parameter follow each other; each is as large as the parameter. */
static void place_slots(const cairn_exec *exec, crn_parameter *p) {
    const crn_stationary *s = &exec->stationary;
    if (s->slot_offsets[p->tensor] == 0) /* the plan fetches them: they have no place that stays */
        return;
    const cairn_tensor *tensor = cairn_graph_tensor(exec->graph, p->tensor);
    uint64_t apart = crn_align(crn_storage_once(tensor, exec->storage[p->tensor]).bytes);
    char *first = (char *)exec->resident.base + s->slot_offsets[p->tensor] - 1;
    for (uint32_t slot = 0; slot < s->slot_count; slot++)
        p->slots[slot] = first + slot * apart;
}

void crn_stationary_share(cairn_exec *exec) {
    exec->stationary = exec->options.share_with->stationary;
}

void crn_stationary_place(cairn_exec *exec) {
    crn_stationary *s = &exec->stationary;
    uint32_t tensors = cairn_graph_tensor_count(exec->graph);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(exec->graph, t);
        char *base = s->on_host[t] ? exec->homes.base : exec->resident.base;
        s->at[t] = s->offsets[t] > 0 ? base + (s->offsets[t] - 1) : NULL;
        if (tensor->role != CAIRN_ROLE_PARAMETER)
            continue;
        crn_parameter *p = &s->parameters[s->parameter_count];
        s->parameter_of[t] = s->parameter_count++;
        p->tensor = t;
        p->value = s->at[t];
        p->copy = crn_copy_of(tensor, exec->storage[t], s->at[t]);
        p->elements = crn_stored_elements(tensor, exec->storage[t]);
        p->no_decay = s->no_decay[t];
        place_slots(exec, p);
    }
    for (cairn_id t = 0; t < tensors; t++) {
        cairn_id of = cairn_graph_tensor(exec->graph, t)->gradient_of;
        if (is_final_gradient(exec->graph, t) && of != CAIRN_NONE &&
            cairn_graph_tensor(exec->graph, of)->role == CAIRN_ROLE_PARAMETER)
            s->parameters[s->parameter_of[of]].gradient = s->at[t];
    }
}

/* ---- A fingerprint ---- */

static uint32_t sort_of(const cairn_tensor *tensor) {
    switch (tensor->role) {
    case CAIRN_ROLE_PARAMETER:
        return CAIRN_EXEC_PARAMETERS;
    case CAIRN_ROLE_STATE:
        return CAIRN_EXEC_STATE;
    default:
        return CAIRN_EXEC_GRADIENTS;
    }
}

/* Hash elements as little-endian bytes. Big-endian machines swap them first. */
static void hash_chunk(void *context, const void *from, uint64_t bytes) {
    crn_sha256 *hash = context;
    const uint8_t *data = from;
    const uint16_t one = 1;
    if (*(const uint8_t *)&one == 1) {
        crn_sha256_add(hash, data, bytes);
        return;
    }
    for (uint64_t i = 0; i + 4 <= bytes; i += 4)
        crn_sha256_add(hash, (uint8_t[]){data[i + 3], data[i + 2], data[i + 1], data[i]}, 4);
}

cairn_status cairn_exec_sha256(cairn_exec *exec, uint32_t sorts, char out[65], cairn_error *err) {
    const crn_stationary *s = &exec->stationary;
    crn_sha256 hash;
    crn_error_clear(err);
    crn_sha256_init(&hash);
    for (uint32_t i = 0; i < s->by_name_count; i++) {
        cairn_id t = s->by_name[i];
        if (sort_of(cairn_graph_tensor(exec->graph, t)) & sorts)
            CRN_TRY(crn_transfer_seen(exec, t, s->at[t], hash_chunk, &hash, err));
    }
    crn_sha256_finish(&hash, out);
    return CAIRN_OK;
}
