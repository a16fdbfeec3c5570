/* costs.c: bytes of tensors and implementations of ops, filled in with analytic estimates. */
#include "base/crn_base.h"
#include "base/names.h"
#include "cairn/cost.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "graph/head_chunks.h"

typedef struct op_costs {
    const cairn_implementation *list;
    uint32_t count;
    int64_t saving_ns; /* of a recomputation */
    cairn_id fused;    /* the op before it that it is fused with, or CAIRN_NONE */
} op_costs;

struct cairn_costs {
    crn_arena arena;
    uint32_t tensor_count, op_count;
    uint64_t *bytes, *unread;
    op_costs *ops;
    uint32_t copy_slowdown; /* percent */
    bool same_bits;
};

void cairn_costs_destroy(cairn_costs *costs) {
    if (costs == NULL)
        return;
    crn_arena_destroy(&costs->arena);
}

void crn_costs_set_fused(cairn_costs *costs, cairn_id op, cairn_id before) {
    costs->ops[op].fused = before;
}

cairn_id crn_costs_fused(const cairn_costs *costs, cairn_id op) {
    return costs->ops[op].fused;
}

void crn_costs_set_copy_slowdown(cairn_costs *costs, uint32_t percent) {
    costs->copy_slowdown = percent;
}

uint32_t crn_costs_copy_slowdown(const cairn_costs *costs) {
    return costs->copy_slowdown;
}

void cairn_costs_set_same_bits(cairn_costs *costs, bool same_bits) {
    costs->same_bits = same_bits;
}

bool crn_op_has_chunks(const cairn_op *op) {
    return op->kind == CAIRN_OP_HEAD_LOSS || op->kind == CAIRN_OP_OPAQUE;
}

bool crn_costs_same_bits(const cairn_costs *costs) {
    return costs->same_bits;
}

void cairn_costs_set_bytes(cairn_costs *costs, cairn_id tensor, uint64_t bytes) {
    costs->bytes[tensor] = bytes;
}

void crn_costs_set_unread(cairn_costs *costs, cairn_id tensor, uint64_t bytes) {
    costs->unread[tensor] = bytes;
}

uint64_t crn_costs_unread(const cairn_costs *costs, cairn_id tensor) {
    return costs->unread[tensor];
}

cairn_status cairn_costs_set_op(cairn_costs *costs, cairn_id op, const cairn_implementation *list,
                                uint32_t count) {
    cairn_implementation *copy;
    CRN_TAKE(&costs->arena, copy, count);
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = list[i];
        copy[i].name = crn_arena_string(&costs->arena, list[i].name);
        if (copy[i].name == NULL)
            return CAIRN_ENOMEM;
    }
    costs->ops[op] = (op_costs){copy, count, 0, costs->ops[op].fused};
    return CAIRN_OK;
}

void crn_costs_set_again(cairn_costs *costs, cairn_id op, int64_t saving_ns) {
    costs->ops[op].saving_ns = saving_ns;
}

const uint64_t *cairn_costs_bytes(const cairn_costs *costs) {
    return costs->bytes;
}

const cairn_implementation *cairn_costs_op(const cairn_costs *costs, cairn_id op, uint32_t *count) {
    *count = costs->ops[op].count;
    return costs->ops[op].list;
}

int64_t crn_costs_again_ns(const cairn_costs *costs, cairn_id op, uint32_t k) {
    const op_costs *costs_of = &costs->ops[op];
    return CRN_MAX(costs_of->list[k].time_ns - costs_of->saving_ns, 0);
}

static uint64_t hash_number(uint64_t hash, uint64_t number) {
    unsigned char bytes[8];
    for (uint32_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    return crn_hash_bytes(hash, bytes, sizeof bytes);
}

uint64_t crn_costs_memory_hash(const cairn_costs *costs) {
    uint64_t hash = CRN_HASH_START;
    for (cairn_id t = 0; t < costs->tensor_count; t++)
        hash = hash_number(hash, costs->bytes[t]);
    for (cairn_id o = 0; o < costs->op_count; o++) {
        hash = hash_number(hash, costs->ops[o].count);
        for (uint32_t i = 0; i < costs->ops[o].count; i++)
            hash = hash_number(hash, costs->ops[o].list[i].workspace_bytes);
    }
    return hash;
}

/* The implementations of a head_loss, in 1, 2, 4, ... chunks: with more of them the weight is read
 * and its gradient read and written more often. */
static cairn_status fill_head(cairn_costs *costs, const cairn_graph *graph, cairn_id o,
                              const cairn_machine *machine) {
    static const char *const names[CRN_HEAD_CHOICES] = {"analytic", "chunks.2",  "chunks.4",
                                                        "chunks.8", "chunks.16", "chunks.32"};
    const cairn_op *op = cairn_graph_op(graph, o);
    cairn_implementation *list;
    CRN_TAKE(&costs->arena, list, CRN_HEAD_CHOICES);
    list[0] = costs->ops[o].list[0];
    uint64_t again = 4 * cairn_graph_tensor(graph, op->params[0])->bytes;
    uint64_t each = crn_mul_div_up(again, 1000000000u, machine->memory_bytes_per_second) +
                    (uint64_t)machine->launch_ns;
    uint32_t count = 0;
    for (uint32_t k = 0; k < CRN_HEAD_CHOICES && crn_head_can_have_chunks(graph, op, 1u << k);
         k++) {
        list[k] = list[0];
        list[k].name = names[k];
        list[k].time_ns = crn_add_time(list[0].time_ns, (int64_t)(each * ((1u << k) - 1)));
        list[k].workspace_bytes = crn_head_logits(graph, op, 1u << k) * sizeof(float);
        count++;
    }
    costs->ops[o].list = list;
    costs->ops[o].count = count;
    return CAIRN_OK;
}

/* Fill a new object: the bytes of the tensors, and one implementation per op. Its time is estimated
 * if there is a machine. */
static cairn_status fill(cairn_costs *costs, const cairn_graph *graph,
                         const cairn_machine *machine) {
    costs->tensor_count = cairn_graph_tensor_count(graph);
    costs->op_count = cairn_graph_op_count(graph);
    CRN_TAKE(&costs->arena, costs->bytes, costs->tensor_count);
    CRN_TAKE(&costs->arena, costs->unread, costs->tensor_count);
    CRN_TAKE(&costs->arena, costs->ops, costs->op_count);
    for (cairn_id t = 0; t < costs->tensor_count; t++)
        costs->bytes[t] = cairn_graph_tensor(graph, t)->bytes;
    cairn_implementation *list;
    CRN_TAKE(&costs->arena, list, costs->op_count);
    for (cairn_id o = 0; o < costs->op_count; o++) {
        costs->ops[o] = (op_costs){&list[o], 1, 0, CAIRN_NONE};
        list[o].name = machine == NULL ? "given" : "analytic";
        uint64_t flops, bytes, limit = (uint64_t)1 << 60;
        crn_op_work(graph, o, &flops, &bytes);
        if (machine == NULL || bytes == 0)
            continue;
        uint64_t compute = crn_mul_div_up(flops, 1000000000u, machine->flops_per_second);
        uint64_t traffic = crn_mul_div_up(bytes, 1000000000u, machine->memory_bytes_per_second);
        uint64_t time = CRN_MIN(CRN_MAX(compute, traffic), limit);
        list[o].time_ns = (int64_t)(time + CRN_MIN((uint64_t)machine->launch_ns, limit));
        if (cairn_graph_op(graph, o)->kind == CAIRN_OP_HEAD_LOSS)
            CRN_TRY(fill_head(costs, graph, o, machine));
    }
    return CAIRN_OK;
}

static cairn_status create(const cairn_graph *graph, const cairn_machine *machine,
                           cairn_costs **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_costs *costs = CRN_OBJECT(&allocator, cairn_costs, arena);
    if (costs == NULL)
        return crn_fail_memory(err);
    if (fill(costs, graph, machine) != CAIRN_OK) {
        cairn_costs_destroy(costs);
        return crn_fail_memory(err);
    }
    *out = costs;
    return CAIRN_OK;
}

cairn_status cairn_costs_create(const cairn_graph *graph, cairn_costs **out, cairn_error *err) {
    return create(graph, NULL, out, err);
}

cairn_status cairn_costs_analytic(const cairn_graph *graph, const cairn_machine *given,
                                  cairn_costs **out, cairn_error *err) {
    cairn_machine machine = CAIRN_MACHINE_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_machine, machine, given, err);
    return create(graph, &machine, out, err);
}
