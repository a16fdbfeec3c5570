/* random_graph.c: see random_graph.h. Everything here ends the program on failure. */
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"
#include "property/random_graph.h"
#include "base/crn_base.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST 64

static void must(cairn_status status, const cairn_error *err) {
    if (status == CAIRN_OK)
        return;
    fprintf(stderr, "random graph: %s: %s\n", crn_status_name(status), err->message);
    exit(1);
}

/* ---- Opaque ops ---- */

typedef struct maker {
    crn_rng *rng;
    cairn_builder *builder;
    cairn_id pool[MOST]; /* what ops may read */
    uint32_t pool_count;
    uint32_t made; /* tensors and ops, for names */
    cairn_id loss;
} maker;

typedef struct draft {
    cairn_id inputs[4], outputs[4], params[2];
    cairn_inplace inplace[4];
    cairn_op op;
} draft;

static cairn_id add_tensor(maker *m, cairn_role role, uint64_t bytes, cairn_id alias_of,
                           cairn_id gradient_of) {
    char name[32];
    cairn_tensor t = CAIRN_TENSOR_INIT;
    snprintf(name, sizeof name, "t%u", m->made++);
    t.name = name;
    t.role = role;
    t.bytes = bytes;
    t.alias_of = alias_of;
    t.gradient_of = gradient_of;
    t.stationary =
        role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_STATE || gradient_of != CAIRN_NONE;
    t.result = !t.stationary && alias_of == CAIRN_NONE &&
               (role == CAIRN_ROLE_ACTIVATION || role == CAIRN_ROLE_GRADIENT) && one_in(m->rng, 8);
    return cairn_builder_tensor(m->builder, &t);
}

static uint64_t random_bytes(maker *m) {
    static const uint64_t sizes[] = {1, 64, 64, 65, 128, 128, 200, 320, 320, 0};
    return sizes[below(m->rng, sizeof sizes / sizeof *sizes)];
}

static void add_op(maker *m, draft *d, cairn_phase phase) {
    char name[32];
    snprintf(name, sizeof name, "op%u", m->made++);
    d->op.name = name;
    d->op.kind = CAIRN_OP_OPAQUE;
    d->op.phase = phase;
    d->op.of = CAIRN_NONE;
    d->op.inputs = d->inputs;
    d->op.outputs = d->outputs;
    d->op.params = d->params;
    d->op.inplace = d->inplace;
    cairn_builder_op(m->builder, &d->op);
}

/* Choose mostly recent tensors, so that there are chains. */
static void choose_inputs(maker *m, draft *d) {
    uint32_t wanted = 1 + below(m->rng, 3);
    for (uint32_t i = 0; i < wanted && m->pool_count > 0; i++) {
        uint32_t near = m->pool_count < 3 ? m->pool_count : 3;
        uint32_t place = one_in(m->rng, 3) ? below(m->rng, m->pool_count)
                                           : m->pool_count - 1 - below(m->rng, near);
        d->inputs[d->op.input_count++] = m->pool[place];
    }
}

static cairn_id root_of(maker *m, cairn_id t) {
    cairn_tensor tensor = crn_builder_peek(m->builder, t);
    return tensor.alias_of == CAIRN_NONE ? t : tensor.alias_of;
}

static void make_outputs(maker *m, draft *d, cairn_role role) {
    uint32_t wanted = one_in(m->rng, 3) ? 2 : 1;
    for (uint32_t i = 0; i < wanted; i++) {
        uint64_t bytes = random_bytes(m);
        cairn_id alias = CAIRN_NONE, like = CAIRN_NONE;
        if (d->op.input_count > 0)
            like = d->inputs[below(m->rng, d->op.input_count)];
        if (like != CAIRN_NONE && !one_in(m->rng, 3))
            bytes = crn_builder_peek(m->builder, like).bytes;
        if (like != CAIRN_NONE && one_in(m->rng, 6)) {
            alias = root_of(m, like);
            bytes = crn_builder_peek(m->builder, alias).bytes;
        }
        if (role != CAIRN_ROLE_INTERNAL && one_in(m->rng, 10)) {
            d->outputs[d->op.output_count++] = CAIRN_NONE;
            continue;
        }
        d->outputs[d->op.output_count++] = add_tensor(m, role, bytes, alias, CAIRN_NONE);
    }
}

static void permit(maker *m, draft *d) {
    for (uint32_t k = 0; k < 3; k++) {
        if (d->op.output_count == 0 || d->op.input_count == 0)
            return;
        cairn_inplace pair = {below(m->rng, d->op.output_count), below(m->rng, d->op.input_count)};
        if (d->outputs[pair.output] == CAIRN_NONE)
            continue;
        cairn_tensor out = crn_builder_peek(m->builder, d->outputs[pair.output]);
        cairn_tensor in = crn_builder_peek(m->builder, d->inputs[pair.input]);
        if (out.bytes <= in.bytes && out.alias_of == CAIRN_NONE && !out.stationary)
            d->inplace[d->op.inplace_count++] = pair;
    }
    d->op.flags |= d->op.inplace_count > 1 && one_in(m->rng, 2) ? CAIRN_OP_FLAG_TOGETHER : 0;
}

static void add_to_pool(maker *m, const draft *d) {
    for (uint32_t i = 0; i < d->op.output_count; i++)
        if (d->outputs[i] != CAIRN_NONE && m->pool_count < MOST)
            m->pool[m->pool_count++] = d->outputs[i];
}

static void add_plain_op(maker *m, cairn_phase phase) {
    draft d = {0};
    choose_inputs(m, &d);
    if (one_in(m->rng, 12)) { /* an op that has only an effect */
        d.op.flags = CAIRN_OP_FLAG_ONCE;
        add_op(m, &d, phase);
        return;
    }
    make_outputs(m, &d, phase == CAIRN_PHASE_FORWARD ? CAIRN_ROLE_ACTIVATION : CAIRN_ROLE_GRADIENT);
    permit(m, &d);
    d.op.flags |= one_in(m->rng, 8) ? CAIRN_OP_FLAG_ONCE : 0;
    d.op.flags |= one_in(m->rng, 8) ? CAIRN_OP_FLAG_RANDOM : 0;
    d.op.flags |= one_in(m->rng, 8) ? CAIRN_OP_FLAG_NEVER_AGAIN : 0;
    add_op(m, &d, phase);
    add_to_pool(m, &d);
}

static void add_loss(maker *m) {
    draft d = {0};
    choose_inputs(m, &d);
    d.outputs[d.op.output_count++] = add_tensor(m, CAIRN_ROLE_LOSS, 4, CAIRN_NONE, CAIRN_NONE);
    if (one_in(m->rng, 2))
        make_outputs(m, &d, CAIRN_ROLE_INTERNAL);
    permit(m, &d);
    add_op(m, &d, CAIRN_PHASE_FORWARD);
    for (uint32_t i = 1; i < d.op.output_count; i++)
        m->pool[m->pool_count++] = d.outputs[i];
    if (one_in(m->rng, 3))
        m->pool[m->pool_count++] = d.outputs[0];
}

/* The gradient of a parameter. One op makes it; other ops may make parts that are added to it, and
 * an update may read it. `sum` is the latest sum. */
static void add_gradient(maker *m, cairn_id parameter, uint64_t bytes, cairn_id *sum) {
    draft d = {0};
    choose_inputs(m, &d);
    bool first = *sum == CAIRN_NONE;
    cairn_id part =
        add_tensor(m, CAIRN_ROLE_GRADIENT, bytes, CAIRN_NONE, first ? parameter : CAIRN_NONE);
    d.outputs[d.op.output_count++] = part;
    if (one_in(m->rng, 3)) /* a data gradient beside it */
        make_outputs(m, &d, CAIRN_ROLE_GRADIENT);
    d.op.flags = first ? CAIRN_OP_FLAG_NEVER_AGAIN : 0;
    permit(m, &d);
    add_op(m, &d, CAIRN_PHASE_BACKWARD);
    for (uint32_t i = 1; i < d.op.output_count; i++)
        if (d.outputs[i] != CAIRN_NONE)
            m->pool[m->pool_count++] = d.outputs[i];
    if (first) {
        *sum = part;
        return;
    }
    draft add = {.inputs = {*sum, part}, .inplace = {{0, 0}}};
    add.op.input_count = 2;
    add.op.output_count = add.op.inplace_count = 1;
    add.op.flags = CAIRN_OP_FLAG_NEVER_AGAIN;
    *sum = add.outputs[0] = add_tensor(m, CAIRN_ROLE_GRADIENT, bytes, CAIRN_NONE, parameter);
    add_op(m, &add, CAIRN_PHASE_BACKWARD);
}

static void add_update(maker *m, cairn_id parameter, cairn_id sum) {
    draft d = {.inputs = {sum}, .params = {parameter}};
    d.op.input_count = d.op.param_count = 1;
    d.op.flags = one_in(m->rng, 4) ? 0 : CAIRN_OP_FLAG_ONCE;
    add_op(m, &d, CAIRN_PHASE_UPDATE);
}

cairn_graph *random_graph(crn_rng *rng) {
    cairn_error err = {0};
    cairn_graph *graph;
    maker m = {.rng = rng};
    must(cairn_builder_create(NULL, "random", &m.builder), &err);
    uint32_t inputs = 1 + below(rng, 3), parameters = 1 + below(rng, 2);
    for (uint32_t i = 0; i < inputs; i++)
        m.pool[m.pool_count++] =
            add_tensor(&m, CAIRN_ROLE_INPUT, random_bytes(&m), CAIRN_NONE, CAIRN_NONE);
    if (one_in(rng, 8)) /* no op reads it */
        add_tensor(&m, CAIRN_ROLE_INPUT, 64, CAIRN_NONE, CAIRN_NONE);
    cairn_id label = CAIRN_NONE;
    if (one_in(rng, 2))
        label = add_tensor(&m, CAIRN_ROLE_LABEL, 8, CAIRN_NONE, CAIRN_NONE);
    cairn_id parameter[2], sum[2] = {CAIRN_NONE, CAIRN_NONE};
    for (uint32_t i = 0; i < parameters; i++)
        parameter[i] = add_tensor(&m, CAIRN_ROLE_PARAMETER, 100, CAIRN_NONE, CAIRN_NONE);
    for (uint32_t i = 2 + below(rng, 6); i > 0; i--)
        add_plain_op(&m, CAIRN_PHASE_FORWARD);
    if (one_in(rng, 4)) /* an auxiliary loss */
        add_loss(&m);
    if (label != CAIRN_NONE)
        m.pool[m.pool_count++] = label;
    add_loss(&m);
    for (uint32_t i = 1 + below(rng, 6); i > 0; i--) {
        uint32_t which = below(rng, parameters);
        if (one_in(rng, 2))
            add_gradient(&m, parameter[which], 100, &sum[which]);
        else
            add_plain_op(&m, CAIRN_PHASE_BACKWARD);
    }
    for (uint32_t i = 0; i < parameters; i++)
        if (sum[i] != CAIRN_NONE && one_in(rng, 3))
            add_update(&m, parameter[i], sum[i]);
    must(cairn_builder_finish(m.builder, &graph, &err), &err);
    cairn_builder_destroy(m.builder);
    return graph;
}

/* ---- Real networks ---- */

static cairn_graph *differentiated(cairn_builder *b, bool input_gradients) {
    cairn_error err = {0};
    cairn_graph *forward, *graph;
    cairn_differentiate_options options = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    options.input_gradients = input_gradients;
    must(cairn_builder_finish(b, &forward, &err), &err);
    must(cairn_graph_differentiate(forward, &options, &graph, &err), &err);
    cairn_builder_destroy(b);
    cairn_graph_destroy(forward);
    return graph;
}

static cairn_graph *recurrent(crn_rng *rng, cairn_builder *b) {
    bool lstm = one_in(rng, 2);
    uint32_t n = 2, f = 3, h = 4, gates = lstm ? 4 * h : h;
    cairn_id p[4];
    p[0] = crn_build_parameter(b, "w_ih", 2, (uint32_t[]){gates, f});
    p[1] = crn_build_parameter(b, "w_hh", 2, (uint32_t[]){gates, h});
    p[2] = crn_build_parameter(b, "b_ih", 1, (uint32_t[]){gates});
    p[3] = crn_build_parameter(b, "b_hh", 1, (uint32_t[]){gates});
    cairn_id state =
        crn_build_input(b, "h0", lstm ? 3 : 2, lstm ? (uint32_t[]){2, n, h} : (uint32_t[]){n, h});
    for (uint32_t t = 0; t < 2 + below(rng, 2); t++) {
        char name[16];
        snprintf(name, sizeof name, "x%u", t);
        cairn_id x = crn_build_input(b, name, 2, (uint32_t[]){n, f});
        snprintf(name, sizeof name, "cell%u", t);
        state = lstm ? crn_build_lstm_cell(b, name, x, state, p)
                     : crn_build_rnn_cell(b, name, x, state, p);
    }
    if (lstm)
        state = crn_build_select(b, "last", state, 0);
    cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){n});
    crn_build_cross_entropy(b, "loss", state, label);
    return differentiated(b, one_in(rng, 4));
}

static cairn_id layer(crn_rng *rng, cairn_builder *b, uint32_t number, cairn_id x, cairn_id older) {
    char name[16];
    snprintf(name, sizeof name, "l%u", number);
    crn_conv conv = {.channels = 4, .kernel = {3, 3}, .pad = {1, 1, 1, 1}, .bias = true};
    switch (below(rng, 8)) {
    case 0:
    case 1:
        return crn_build_conv2d(b, name, x, &conv);
    case 2:
        return crn_build_batch_norm(b, name, x, 1e-5);
    case 3:
        return crn_build_relu(b, name, x);
    case 4:
        return crn_build_dropout(b, name, x, 0.5);
    case 5:
        return crn_build_add(b, name, x, older);
    case 6:
        return crn_build_max_pool(b, name, x, 3, 1, 1);
    default:
        return crn_build_avg_pool(b, name, x, 3, 1, 1, false);
    }
}

cairn_graph *random_network(crn_rng *rng) {
    cairn_error err = {0};
    cairn_builder *b;
    must(cairn_builder_create(NULL, "network", &b), &err);
    if (one_in(rng, 4))
        return recurrent(rng, b);
    crn_conv conv = {.channels = 4, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    cairn_id x = crn_build_input(b, "input", 4, (uint32_t[]){2, 3, 4, 4});
    x = crn_build_conv2d(b, "stem", x, &conv);
    cairn_id older = x;
    uint32_t layers = 2 + below(rng, 6);
    for (uint32_t i = 0; i < layers; i++) {
        cairn_id next = layer(rng, b, i, x, older);
        if (one_in(rng, 2))
            older = x;
        x = next;
    }
    if (one_in(rng, 2))
        x = crn_build_concat(b, "cat", (cairn_id[]){x, older}, 2);
    x = crn_build_flatten(b, "flat", x);
    x = crn_build_linear(b, "fc", x, 5);
    cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){2});
    crn_build_cross_entropy(b, "loss", x, label);
    return differentiated(b, one_in(rng, 4));
}

/* ---- Costs and machines ---- */

cairn_costs *random_costs(crn_rng *rng, const cairn_graph *graph, bool uneven) {
    cairn_error err = {0};
    cairn_costs *costs;
    must(cairn_costs_create(graph, &costs, &err), &err);
    uint64_t padding = below(rng, 100);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        cairn_id root = crn_graph_storage(graph, t);
        uint64_t more = uneven && root == t && one_in(rng, 4) ? 64 * below(rng, 3) : padding;
        cairn_costs_set_bytes(costs, t,
                              root == t ? cairn_graph_tensor(graph, t)->bytes + more
                                        : cairn_costs_bytes(costs)[root]);
    }
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        cairn_implementation list[3];
        uint32_t count = 1 + below(rng, 3);
        for (uint32_t i = 0; i < count; i++)
            list[i] =
                (cairn_implementation){.name = "given",
                                       .time_ns = (int64_t)below(rng, 100),
                                       .workspace_bytes = one_in(rng, 2) ? below(rng, 300) : 0};
        must(cairn_costs_set_op(costs, o, list, count), &err);
        if (o % 3 == 0) /* this may be more than another implementation takes */
            crn_costs_set_again(costs, o, list[0].time_ns / 2);
    }
    return costs;
}

cairn_machine random_machine(crn_rng *rng) {
    cairn_machine machine = {.struct_size = sizeof(cairn_machine),
                             .name = "random",
                             .flops_per_second = 1,
                             .memory_bytes_per_second = 1};
    machine.link_bytes_per_second = 1000000000u / (1 + below(rng, 8)) + below(rng, 3);
    machine.link_latency_ns = below(rng, 20);
    machine.full_duplex = one_in(rng, 2);
    machine.memory_bytes = 1 << 20;
    machine.host_memory_bytes = one_in(rng, 3) ? below(rng, 1500) : 1 << 20;
    return machine;
}
