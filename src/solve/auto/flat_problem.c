/* flat_problem.c: turns a graph and its costs into arrays. The figures are conservative: a plan
 * that fits by these figures also fits by those of the simulator. */
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "solve/auto/flat_problem.h"

#include "plan/lower.h"

#include <stdlib.h>

/* ---- Values ---- */

static cairn_status number_values(crn_flat *f, crn_arena *arena) {
    uint32_t tensors = cairn_graph_tensor_count(f->graph);
    CRN_TAKE(arena, f->value_of, tensors);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(f->graph, t);
        bool counted = !tensor->stationary && tensor->alias_of == CAIRN_NONE;
        f->value_of[t] = counted ? f->value_count++ : CRN_NO_VALUE;
    }
    CRN_TAKE(arena, f->bytes, f->value_count);
    CRN_TAKE(arena, f->room, f->value_count);
    CRN_TAKE(arena, f->producer, f->value_count);
    CRN_TAKE(arena, f->stays, f->value_count);
    CRN_TAKE(arena, f->aliased, f->value_count);
    CRN_TAKE(arena, f->root, f->value_count);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(f->graph, t);
        if (tensor->alias_of != CAIRN_NONE)
            f->value_of[t] = f->value_of[tensor->alias_of];
        uint32_t v = f->value_of[t];
        if (v == CRN_NO_VALUE)
            continue;
        f->stays[v] = f->stays[v] || crn_graph_is_result(f->graph, t);
        f->aliased[v] = f->aliased[v] || tensor->alias_of != CAIRN_NONE;
        if (tensor->alias_of != CAIRN_NONE)
            continue;
        f->bytes[v] = f->room[v] = crn_align(cairn_costs_bytes(f->costs)[t]);
        f->producer[v] = tensor->producer == CAIRN_NONE ? CRN_NO_OP : tensor->producer;
        f->root[v] = t;
    }
    return CAIRN_OK;
}

/* ---- Operands ---- */

static void add_inputs(crn_flat *f, const cairn_op *op, uint32_t o) {
    uint32_t first = f->first_input[o], end = first;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t v = f->value_of[op->inputs[i]], k = first;
        while (k < end && f->inputs[k] != v)
            k++;
        if (v != CRN_NO_VALUE && k == end)
            f->inputs[end++] = v;
    }
    f->first_input[o + 1] = end;
}

static void add_outputs(crn_flat *f, const cairn_op *op, uint32_t o) {
    uint32_t end = f->first_output[o];
    for (uint32_t i = 0; i < op->output_count; i++) {
        cairn_id t = op->outputs[i];
        if (t != CAIRN_NONE && f->value_of[t] != CRN_NO_VALUE &&
            crn_graph_storage(f->graph, t) == t)
            f->outputs[end++] = f->value_of[t];
    }
    f->first_output[o + 1] = end;
}

/* The in-place pairs that the lowering uses exactly as the matrix does. The lowering uses the first
 * possible pair. So after a pair that the matrix cannot decide, no later pair is counted. */
static void add_pairs(crn_flat *f, const cairn_op *op, uint32_t o) {
    uint32_t end = f->first_pair[o];
    bool sure = true;
    for (uint32_t i = 0; i < op->inplace_count; i++) {
        uint32_t in = f->value_of[op->inputs[op->inplace[i].input]];
        uint32_t out = f->value_of[op->outputs[op->inplace[i].output]];
        sure = sure && in != CRN_NO_VALUE && out != CRN_NO_VALUE && in != out && !f->aliased[in];
        if (in != CRN_NO_VALUE && out != CRN_NO_VALUE)
            f->room[out] = CRN_MAX(f->room[out], f->room[in]);
        if (sure && f->bytes[out] <= f->bytes[in])
            f->pairs[end++] = (crn_flat_pair){in, out, op->flags & CAIRN_OP_FLAG_TOGETHER};
    }
    f->first_pair[o + 1] = end;
}

uint64_t crn_flat_inplace_bytes(const crn_flat *flat, uint32_t op) {
    const cairn_op *at = cairn_graph_op(flat->graph, op);
    uint64_t most = 0, second = 0;
    for (uint32_t o = 0; o < at->output_count; o++) {
        bool may = false;
        for (uint32_t i = 0; i < at->inplace_count; i++)
            may = may || at->inplace[i].output == o;
        uint32_t v = may ? flat->value_of[at->outputs[o]] : CRN_NO_VALUE;
        uint64_t bytes = v == CRN_NO_VALUE ? 0 : flat->bytes[v];
        second = CRN_MAX(second, CRN_MIN(most, bytes));
        most = CRN_MAX(most, bytes);
    }
    return at->flags & CAIRN_OP_FLAG_TOGETHER ? most + second : most;
}

static cairn_status add_operands(crn_flat *f, crn_arena *arena) {
    uint32_t all = f->op_count + 2 * f->value_count;
    size_t inputs = f->value_count, outputs = f->value_count, pairs = 0;
    for (uint32_t o = 0; o < f->op_count; o++) {
        const cairn_op *op = cairn_graph_op(f->graph, o);
        inputs += op->input_count;
        outputs += op->output_count;
        pairs += op->inplace_count;
    }
    CRN_TAKE(arena, f->first_input, all + 1);
    CRN_TAKE(arena, f->first_output, all + 1);
    CRN_TAKE(arena, f->first_pair, all + 1);
    CRN_TAKE(arena, f->inputs, inputs);
    CRN_TAKE(arena, f->outputs, outputs);
    CRN_TAKE(arena, f->pairs, pairs);
    for (uint32_t o = 0; o < f->op_count; o++) {
        const cairn_op *op = cairn_graph_op(f->graph, o);
        add_inputs(f, op, o);
        add_outputs(f, op, o);
        add_pairs(f, op, o);
    }
    for (uint32_t o = f->op_count; o < all; o++) {
        uint32_t value = (o - f->op_count) / 2;
        bool fetch = o == crn_flat_fetch(f, value);
        f->first_input[o + 1] = f->first_input[o] + !fetch;
        f->first_output[o + 1] = f->first_output[o] + fetch;
        f->first_pair[o + 1] = f->first_pair[o];
        if (fetch)
            f->outputs[f->first_output[o]] = value;
        else
            f->inputs[f->first_input[o]] = value;
    }
    return CAIRN_OK;
}

static cairn_status index_readers(crn_flat *f, crn_arena *arena) {
    uint32_t *fill;
    CRN_TAKE(arena, f->first_reader, f->value_count + 1);
    CRN_TAKE(arena, f->readers, f->first_input[f->op_count]);
    CRN_TAKE(arena, fill, f->value_count);
    for (uint32_t k = 0; k < f->first_input[f->op_count]; k++)
        f->first_reader[f->inputs[k] + 1]++;
    for (uint32_t v = 0; v < f->value_count; v++)
        f->first_reader[v + 1] += f->first_reader[v];
    for (uint32_t o = 0; o < f->op_count; o++)
        for (uint32_t k = f->first_input[o]; k < f->first_input[o + 1]; k++) {
            uint32_t v = f->inputs[k];
            f->readers[f->first_reader[v] + fill[v]++] = o;
        }
    return CAIRN_OK;
}

/* ---- Implementations ---- */

static int compare_impls(const void *a, const void *b) {
    const crn_flat_impl *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->workspace != y->workspace)
        return x->workspace < y->workspace ? -1 : 1;
    return (x->implementation > y->implementation) - (x->implementation < y->implementation);
}

/* Scale times so that sums cannot overflow, even with many recomputations. */
static uint32_t choose_time_shift(const crn_flat *f) {
    int64_t sum = 0;
    for (uint32_t o = 0; o < f->op_count; o++) {
        uint32_t count;
        const cairn_implementation *list = cairn_costs_op(f->costs, o, &count);
        int64_t most = 0;
        for (uint32_t i = 0; i < count; i++)
            most = CRN_MAX(most, list[i].time_ns);
        sum = crn_add_time(sum, most);
    }
    uint32_t shift = 0;
    int64_t limit = ((int64_t)1 << 60) / (f->op_count + 1);
    while (sum >> shift > limit)
        shift++;
    return shift;
}

static crn_flat_impl impl_of(const crn_flat *f, uint32_t o, const cairn_implementation *list,
                             uint32_t i) {
    int64_t unit = (int64_t)1 << f->time_shift, again = crn_costs_again_ns(f->costs, o, i);
    return (crn_flat_impl){.time = list[i].time_ns / unit + (list[i].time_ns % unit > 0),
                           .again = again / unit + (again % unit > 0),
                           .workspace = crn_align(list[i].workspace_bytes),
                           .implementation = (uint16_t)i};
}

void crn_flat_allowed(const crn_flat *f, uint32_t op, uint32_t *first, uint32_t *end) {
    cairn_costs_op(f->costs, op, end);
    *first = 0;
    if (crn_costs_same_bits(f->costs) && *end > 0) {
        *first = crn_usual_implementation(f->costs, op);
        *end = *first + 1;
    }
}

/* The usual implementation comes first, then those that need less workspace. An op with another
 * implementation gives other bits than with `none`, so this is the last resort: it counts as slower
 * by `aside`. Chunks, which nearly always save more than they cost, do not. */
static void add_impls(crn_flat *f, uint32_t o, int64_t aside) {
    uint32_t count, first = f->first_impl[o], end = first + 1, from;
    const cairn_implementation *list = cairn_costs_op(f->costs, o, &count);
    f->impls[first] = count == 0 ? (crn_flat_impl){0}
                                 : impl_of(f, o, list, crn_usual_implementation(f->costs, o));
    if (crn_op_has_chunks(cairn_graph_op(f->graph, o)))
        aside = 0;
    crn_flat_allowed(f, o, &from, &count);
    for (uint32_t i = from; i < count && i <= UINT16_MAX; i++) {
        crn_flat_impl impl = impl_of(f, o, list, i);
        int64_t again = crn_costs_again_ns(f->costs, o, i);
        f->least_time[o] = i == from ? list[i].time_ns : CRN_MIN(f->least_time[o], list[i].time_ns);
        f->least_again[o] = i == from ? again : CRN_MIN(f->least_again[o], again);
        f->least_workspace[o] =
            i == from ? impl.workspace : CRN_MIN(f->least_workspace[o], impl.workspace);
        impl.time += aside;
        impl.again += aside;
        if (impl.workspace < f->impls[first].workspace)
            f->impls[end++] = impl;
    }
    qsort(&f->impls[first + 1], end - first - 1, sizeof *f->impls, compare_impls);
    uint32_t kept = first + 1;
    for (uint32_t k = first + 1; k < end; k++)
        if (f->impls[k].workspace < f->impls[kept - 1].workspace)
            f->impls[kept++] = f->impls[k];
    f->first_impl[o + 1] = kept;
    f->base_time += f->impls[first].time;
}

/* The penalty of other implementations: a sixteenth of the time of the step. */
static int64_t time_aside(const crn_flat *f) {
    int64_t sum = 0;
    for (uint32_t o = 0; o < f->op_count; o++) {
        uint32_t count;
        const cairn_implementation *list = cairn_costs_op(f->costs, o, &count);
        if (count > 0)
            sum = crn_add_time(sum, list[crn_usual_implementation(f->costs, o)].time_ns);
    }
    return (sum >> f->time_shift) / 16;
}

static cairn_status add_all_impls(crn_flat *f, crn_arena *arena) {
    uint32_t all = f->op_count + 2 * f->value_count;
    size_t impls = all;
    for (uint32_t o = 0; o < f->op_count; o++) {
        uint32_t count;
        cairn_costs_op(f->costs, o, &count);
        impls += count;
    }
    CRN_TAKE(arena, f->first_impl, all + 1);
    CRN_TAKE(arena, f->impls, impls);
    CRN_TAKE(arena, f->least_time, f->op_count);
    CRN_TAKE(arena, f->least_again, f->op_count);
    CRN_TAKE(arena, f->least_workspace, f->op_count);
    f->time_shift = choose_time_shift(f);
    int64_t aside = time_aside(f);
    for (uint32_t o = 0; o < f->op_count; o++)
        add_impls(f, o, aside);
    for (uint32_t o = f->op_count; o < all; o++) /* a copy takes no time of the compute lane */
        f->first_impl[o + 1] = f->first_impl[o] + 1;
    return CAIRN_OK;
}

/* ---- What may be recomputed ---- */

/* Whether the rules of the simulator forbid recomputing the op. */
static bool is_never(const cairn_op *op) {
    return (op->flags & CAIRN_OP_FLAG_NEVER_AGAIN) ||
           ((op->flags & CAIRN_OP_FLAG_ONCE) &&
            (op->output_count == 0 || op->phase == CAIRN_PHASE_UPDATE));
}

static bool is_sum(const crn_flat *f, cairn_id tensor) {
    return cairn_graph_tensor(f->graph, tensor)->stationary &&
           crn_graph_is_summed(f->graph, tensor);
}

/* Whether the search does not recompute the op: because that would damage a sum in place or read
 * what it overwrote, or because it makes nothing that could be freed. With updates no backward op
 * is recomputed: then nothing needs a forward op again after the update of its parameters, which
 * stands behind its backward ops. */
static bool is_fixed(const crn_flat *f, uint32_t o) {
    const cairn_op *op = cairn_graph_op(f->graph, o);
    bool fixed = true;
    for (uint32_t k = f->first_output[o]; k < f->first_output[o + 1]; k++)
        fixed = fixed && f->stays[f->outputs[k]];
    for (uint32_t i = 0; i < op->output_count; i++)
        fixed = fixed || (op->outputs[i] != CAIRN_NONE && is_sum(f, op->outputs[i]));
    for (uint32_t i = 0; i < op->input_count; i++)
        fixed = fixed || is_sum(f, op->inputs[i]);
    return fixed || op->phase == CAIRN_PHASE_UPDATE ||
           (f->updates && op->phase != CAIRN_PHASE_FORWARD);
}

/* Whether the op only makes aliases. */
static bool is_pure_alias(const crn_flat *f, uint32_t o) {
    if (f->never[o] || f->first_output[o] != f->first_output[o + 1] ||
        f->first_input[o + 1] - f->first_input[o] != 1)
        return false;
    const cairn_op *op = cairn_graph_op(f->graph, o);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE &&
            f->value_of[op->outputs[i]] != f->inputs[f->first_input[o]])
            return false;
    return true;
}

/* List the ops that make aliases, for each value. A storage is not recomputed if an alias of it is
 * a result, which stays in the first storage, or if the alias is made by an op that does other work
 * too. */
static cairn_status index_aliases(crn_flat *f, crn_arena *arena) {
    uint32_t *fill;
    CRN_TAKE(arena, f->first_alias, f->value_count + 1);
    CRN_TAKE(arena, fill, f->value_count);
    uint32_t tensors = cairn_graph_tensor_count(f->graph);
    for (int pass = 0; pass < 2; pass++) {
        for (cairn_id t = 0; t < tensors; t++) {
            const cairn_tensor *tensor = cairn_graph_tensor(f->graph, t);
            uint32_t v = f->value_of[t];
            if (tensor->alias_of == CAIRN_NONE || v == CRN_NO_VALUE)
                continue;
            if (pass == 0)
                f->first_alias[v + 1]++;
            else
                f->alias_ops[f->first_alias[v] + fill[v]++] = tensor->producer;
        }
        for (uint32_t v = 0; v < f->value_count && pass == 0; v++)
            f->first_alias[v + 1] += f->first_alias[v];
        if (pass == 0)
            CRN_TAKE(arena, f->alias_ops, f->first_alias[f->value_count]);
    }
    for (uint32_t v = 0; v < f->value_count; v++)
        for (uint32_t k = f->first_alias[v]; k < f->first_alias[v + 1]; k++) {
            uint32_t o = f->alias_ops[k], producer = f->producer[v];
            if (producer == CRN_NO_OP)
                continue;
            f->fixed[producer] = f->fixed[producer] || f->stays[v] || !is_pure_alias(f, o);
            f->alias_time[producer] += f->impls[f->first_impl[o + 1] - 1].time;
            f->alias_workspace[producer] =
                CRN_MAX(f->alias_workspace[producer], f->impls[f->first_impl[o]].workspace);
        }
    return CAIRN_OK;
}

/* Mark ops that make results or have effects, and all ops that they depend on. */
static void mark_needed(crn_flat *f) {
    for (uint32_t o = f->op_count; o-- > 0;) {
        const cairn_op *op = cairn_graph_op(f->graph, o);
        f->needed[o] = f->needed[o] || (op->flags & CAIRN_OP_FLAG_ONCE);
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (op->outputs[i] == CAIRN_NONE)
                continue;
            f->needed[o] = f->needed[o] || crn_graph_is_result(f->graph, op->outputs[i]);
        }
        for (uint32_t i = 0; i < op->input_count && f->needed[o]; i++) {
            cairn_id producer = cairn_graph_tensor(f->graph, op->inputs[i])->producer;
            if (producer != CAIRN_NONE)
                f->needed[producer] = true;
        }
    }
}

static cairn_status mark_ops(crn_flat *f, crn_arena *arena) {
    uint32_t all = f->op_count + 2 * f->value_count;
    CRN_TAKE(arena, f->never, f->op_count);
    CRN_TAKE(arena, f->needed, f->op_count);
    CRN_TAKE(arena, f->fixed, all);
    CRN_TAKE(arena, f->alias_time, all);
    CRN_TAKE(arena, f->alias_workspace, all);
    f->last_slot = f->op_count;
    for (uint32_t o = f->op_count; o-- > 0;) {
        f->never[o] = is_never(cairn_graph_op(f->graph, o));
        f->fixed[o] = f->never[o] || is_fixed(f, o);
        if (cairn_graph_op(f->graph, o)->phase == CAIRN_PHASE_UPDATE)
            f->last_slot = o + 1;
    }
    for (uint32_t o = f->op_count; o < all; o++)
        f->fixed[o] = true;
    mark_needed(f);
    return index_aliases(f, arena);
}

cairn_status crn_flat_create(const cairn_graph *graph, const cairn_costs *costs, crn_arena *arena,
                             crn_flat **out) {
    crn_flat *f;
    CRN_TAKE(arena, f, 1);
    f->graph = graph;
    f->costs = costs;
    f->op_count = cairn_graph_op_count(graph);
    f->updates = crn_graph_has_updates(graph);
    CRN_TRY(number_values(f, arena));
    CRN_TRY(add_operands(f, arena));
    CRN_TRY(index_readers(f, arena));
    CRN_TRY(add_all_impls(f, arena));
    CRN_TRY(mark_ops(f, arena));
    *out = f;
    return CAIRN_OK;
}
