/* mixing_backend.c: see test_backends.h. */
#include "backend/processor.h"
#include "exec/test_backends.h"

#include <assert.h>

/* ---- Kernels ---- */

static uint64_t mix(uint64_t h) {
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return h ^ (h >> 31);
}

static uint64_t digest(uint64_t h, const uint8_t *bytes, uint64_t count, uint64_t step) {
    uint64_t word = 0;
    for (uint64_t i = 0; i + 8 <= count; i += 8 * step) {
        memcpy(&word, bytes + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    for (uint64_t i = count / 8 * 8; i < count; i++)
        h = mix(h ^ bytes[i]);
    return mix(h);
}

static float unit(uint64_t bits) { /* -1 .. 1 */
    return (float)((int64_t)(bits >> 40) - (1 << 23)) / (float)(1 << 23);
}

static void write_numbers(uint8_t *to, uint64_t bytes, uint64_t h) {
    for (uint64_t i = 0; i < bytes; i += 4) {
        float value = unit(mix(h + i));
        memcpy(to + i, &value, bytes - i < 4 ? bytes - i : 4);
    }
}

/* It depends on the signature of the op, as all answers of a device must. */
static uint64_t wanted_workspace(const crn_site *site) {
    const cairn_op *op = site->op;
    uint64_t h = mix(op->kind + 1);
    if (op->kind == CAIRN_OP_OPAQUE)
        h = digest(h, (const uint8_t *)op->name, strlen(op->name), 1);
    for (uint32_t i = 0; i < op->input_count; i++)
        h = mix(h ^ cairn_graph_tensor(site->graph, op->inputs[i])->bytes);
    return h % 3 == 0 ? h % 6000 : 0;
}

static void update_state(const crn_call *call, uint64_t h) {
    for (uint32_t i = 2; i < 4; i++) {
        const cairn_tensor *state = cairn_graph_tensor(call->graph, call->op->params[i]);
        float *value = call->params[i];
        for (uint64_t k = 0; k < state->bytes / 4; k++)
            value[k] = 0.9f * value[k] + 0.1f * unit(mix(h + i + k));
    }
}

/* Hash everything that the op reads, but only a sample of the parameters. */
static uint64_t digest_operands(const crn_call *call, uint64_t h) {
    const cairn_op *op = call->op;
    for (uint32_t i = 0; i < op->input_count; i++)
        h = digest(h, call->inputs[i], cairn_graph_tensor(call->graph, op->inputs[i])->bytes, 1);
    for (uint32_t i = 0; i < op->param_count; i++) {
        const cairn_tensor *param = cairn_graph_tensor(call->graph, op->params[i]);
        if (param->role == CAIRN_ROLE_PARAMETER)
            h = digest(h, call->params[i], param->bytes, 1 + param->bytes / 1024);
    }
    return h;
}

static void mix_operands(const crn_call *call) {
    const cairn_op *op = call->op;
    uint64_t h = call->op_id;
    if (op->flags & CAIRN_OP_FLAG_RANDOM)
        h = mix(h ^ mix(call->values->seed + mix(call->values->step)));
    h = digest_operands(call, h);
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (call->outputs[i] == NULL)
            continue;
        assert((uintptr_t)call->outputs[i] % 64 == 0);
        const cairn_tensor *output = cairn_graph_tensor(call->graph, op->outputs[i]);
        if (output->alias_of == CAIRN_NONE) /* making an alias writes nothing */
            write_numbers(call->outputs[i], output->bytes, mix(h + i));
    }
    if (op->kind == CAIRN_OP_BATCH_NORM && call->training && !call->again)
        update_state(call, h);
}

/* Two implementations that differ in their workspace; both write all of it. */
static void run(const crn_call *call) {
    crn_site site = crn_site_of(call);
    uint64_t workspace = wanted_workspace(&site);
    if (workspace > 0)
        memset(call->workspace, 0xff, workspace);
    mix_operands(call);
}

static uint64_t other_workspace(const crn_site *site) {
    return 3000 - wanted_workspace(site) / 2;
}

static void run_other(const crn_call *call) {
    crn_site site = crn_site_of(call);
    memset(call->workspace, 0xff, other_workspace(&site));
    mix_operands(call);
}

static const crn_kernel both[] = {
    {.name = "mixing", .workspace = wanted_workspace, .run = run},
    {.name = "mixing-other", .workspace = other_workspace, .run = run_other},
};

const crn_kernel *mixing_kernels(cairn_op_kind kind, uint32_t *count) {
    (void)kind;
    *count = 2;
    return both;
}

static cairn_status open_mixing(const crn_device_options *options, crn_device **out,
                                cairn_error *err) {
    return crn_processor_open(options, mixing_kernels, NULL, out, err);
}

const crn_backend mixing_backend = {
    .name = "mixing", .summary = "hashes", .open = open_mixing, CRN_PROCESSOR};
