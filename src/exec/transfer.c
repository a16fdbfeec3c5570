/* transfer.c: copies tensors between host memory, in the plain layout of the graph, and device
 * memory, in its storage format.
 *
 *     computed here   --make--> staging --convert--> device      a chunk of some rows at a time, so
 *     looked at here  <--see--- staging <--convert-- device      that staging stays small
 *     the caller's    <-------convert------> device              whole
 *
 * Staging is host memory that the device has reserved. A tensor whose home is the host is converted
 * there, between runs. */
#include "backend/formats.h"
#include "exec/exec_internal.h"
#include "exec/crn_exec.h"

#define CHUNK ((uint64_t)1 << 20)

/* The number of rows of a tensor that are transferred at once. */
static uint64_t chunk_rows(const cairn_tensor *tensor) {
    uint64_t rows = crn_tensor_rows(tensor), row = tensor->bytes / rows;
    return row == 0 ? rows : CRN_MIN(rows, CRN_MAX(CHUNK / row, 1));
}

uint64_t crn_staging_bytes(const cairn_graph *graph) {
    uint64_t most = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        bool passes = tensor->stationary || tensor->producer == CAIRN_NONE;
        if (passes)
            most = CRN_MAX(most, tensor->bytes / crn_tensor_rows(tensor) * chunk_rows(tensor));
    }
    return most;
}

/* A conversion of the whole tensor. */
static crn_conversion whole(const cairn_exec *exec, cairn_id tensor, void *stored) {
    const cairn_tensor *t = cairn_graph_tensor(exec->graph, tensor);
    return (crn_conversion){.tensor = t,
                            .storage = exec->storage[tensor],
                            .stored = stored,
                            .rows = crn_tensor_rows(t)};
}

static void convert(cairn_exec *exec, cairn_id tensor, const crn_conversion *with) {
    if (exec->stationary.on_host[tensor])
        crn_convert_rows(with);
    else
        exec->backend->convert(exec->queue, with);
}

cairn_status crn_transfer_made(cairn_exec *exec, cairn_id tensor, void *stored,
                               crn_make_chunk *make, void *context, cairn_error *err) {
    crn_conversion chunk = whole(exec, tensor, stored);
    uint64_t rows = chunk.rows, row = chunk.tensor->bytes / rows, most = chunk_rows(chunk.tensor);
    chunk.host = exec->staging.base;
    for (; chunk.first < rows; chunk.first += chunk.rows) {
        chunk.rows = CRN_MIN(most, rows - chunk.first);
        make(context, chunk.first * row, chunk.rows * row, chunk.host);
        convert(exec, tensor, &chunk);
        CRN_TRY(exec->backend->join(exec->queue, NULL, err));
    }
    return CAIRN_OK;
}

cairn_status crn_transfer_seen(cairn_exec *exec, cairn_id tensor, void *stored, crn_see_chunk *see,
                               void *context, cairn_error *err) {
    crn_conversion chunk = whole(exec, tensor, stored);
    uint64_t rows = chunk.rows, row = chunk.tensor->bytes / rows, most = chunk_rows(chunk.tensor);
    chunk.host = exec->staging.base;
    chunk.to_host = true;
    for (; chunk.first < rows; chunk.first += chunk.rows) {
        chunk.rows = CRN_MIN(most, rows - chunk.first);
        convert(exec, tensor, &chunk);
        CRN_TRY(exec->backend->join(exec->queue, NULL, err));
        see(context, chunk.host, chunk.rows * row);
    }
    return CAIRN_OK;
}

/* ---- Whole tensors of the caller ---- */

static cairn_status read_whole(cairn_exec *exec, cairn_id tensor, void *stored, void *data,
                               cairn_error *err) {
    crn_conversion all = whole(exec, tensor, stored);
    all.host = data;
    all.to_host = true;
    convert(exec, tensor, &all);
    return exec->backend->join(exec->queue, NULL, err);
}

static void feed_whole(cairn_exec *exec, cairn_id tensor, void *stored, const void *data) {
    crn_conversion all = whole(exec, tensor, stored);
    all.host = (void *)(uintptr_t)data; /* only read */
    convert(exec, tensor, &all);
}

static cairn_status no_place(const cairn_exec *exec, cairn_id tensor, cairn_error *err) {
    const char *name = cairn_graph_tensor(exec->graph, tensor)->name;
    return crn_fail_at(err, CAIRN_EINVAL, name, "tensor \"%s\" is not in memory between steps",
                       name);
}

static void *place_of(const cairn_exec *exec, cairn_id tensor) {
    void *input = exec->program.input_at[tensor];
    return input != NULL ? input : exec->stationary.at[tensor];
}

cairn_status cairn_exec_feed(cairn_exec *exec, cairn_id tensor, const void *data,
                             cairn_error *err) {
    crn_error_clear(err);
    void *place = place_of(exec, tensor);
    if (place == NULL)
        return no_place(exec, tensor, err);
    feed_whole(exec, tensor, place, data);
    return CAIRN_OK;
}

cairn_status cairn_exec_write(cairn_exec *exec, cairn_id tensor, const void *data,
                              cairn_error *err) {
    CRN_TRY(cairn_exec_feed(exec, tensor, data, err));
    return exec->backend->join(exec->queue, NULL, err);
}

bool crn_exec_takes(const cairn_exec *exec, cairn_id tensor) {
    return place_of(exec, tensor) != NULL;
}

cairn_status cairn_exec_read(cairn_exec *exec, cairn_id tensor, void *data, cairn_error *err) {
    crn_error_clear(err);
    void *place = exec->program.final_at[tensor];
    if (place == NULL)
        place = exec->stationary.at[tensor];
    return place == NULL ? no_place(exec, tensor, err) : read_whole(exec, tensor, place, data, err);
}

/* ---- Slots of the optimiser ---- */

/* Call read_whole() or feed_whole() for a slot or, if it is divided, for each of its chunks. */
static cairn_status transfer_slot(cairn_exec *exec, cairn_id parameter, uint32_t slot, bool read,
                                  char *data, cairn_error *err) {
    const crn_stationary *s = &exec->stationary;
    const cairn_tensor *tensor = cairn_graph_tensor(exec->graph, parameter);
    bool found = false;
    if (tensor->role != CAIRN_ROLE_PARAMETER || crn_exec_slot_name(exec, slot) == NULL)
        return no_place(exec, parameter, err);
    if (s->slot_count > 0) {
        crn_conversion all = whole(exec, parameter, NULL);
        all.storage = crn_storage_once(tensor, all.storage);
        all.stored = s->parameters[s->parameter_of[parameter]].slots[slot];
        all.host = data;
        all.to_host = read;
        convert(exec, parameter, &all);
        return exec->backend->join(exec->queue, NULL, err);
    }
    for (cairn_id o = 0; o < cairn_graph_op_count(exec->graph); o++) {
        const cairn_op *op = cairn_graph_op(exec->graph, o);
        if (op->kind != CAIRN_OP_UPDATE || op->params[0] != parameter)
            continue;
        cairn_id own = op->params[1 + slot];
        char *at = data + tensor->bytes / crn_tensor_rows(tensor) * (uint64_t)op->attributes.index;
        if (read)
            CRN_TRY(read_whole(exec, own, s->at[own], at, err));
        else
            feed_whole(exec, own, s->at[own], at);
        found = true;
    }
    if (!found) /* it has no gradient, and so the optimiser keeps zeros */
        memset(data, 0, read ? tensor->bytes : 0);
    return exec->backend->join(exec->queue, NULL, err);
}

cairn_status crn_exec_read_slot(cairn_exec *exec, cairn_id parameter, uint32_t slot, float *data,
                                cairn_error *err) {
    crn_error_clear(err);
    return transfer_slot(exec, parameter, slot, true, (char *)data, err);
}

cairn_status crn_exec_write_slot(cairn_exec *exec, cairn_id parameter, uint32_t slot,
                                 const float *data, cairn_error *err) {
    crn_error_clear(err);
    return transfer_slot(exec, parameter, slot, false, (char *)(uintptr_t)data, err);
}
