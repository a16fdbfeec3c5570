/* test_costs.c: machines, analytic figures worked out by hand, tables of measured costs, and the
 * JSON and views of a graph. */
#include "cairn.h"
#include "cairn/papers.h"
#include "check.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "import/importer.h"

static cairn_graph *network(const char *name, uint32_t batch) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    options.batch = batch;
    CHECK_OK(crn_zoo_build(NULL, name, &options, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

static int64_t time_of(const cairn_graph *graph, const cairn_costs *costs, const char *op) {
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(costs, crn_graph_find_op(graph, op), &count);
    CHECK_U64(count, 1);
    return list[0].time_ns;
}

static void test_machines(void) {
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_error err = {0};
    uint32_t count = 0;
    for (const cairn_machine *listed; (listed = cairn_machine_list(count)) != NULL; count++) {
        CHECK(listed->summary[0] != '\0' && listed->flops_per_second > 0);
        CHECK_OK(cairn_machine_find(listed->name, &machine, &err), &err);
        CHECK(memcmp(&machine, listed, sizeof machine) == 0);
    }
    CHECK_U64(count, 3);
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_U64(machine.link_bytes_per_second, 12200000000);
    CHECK(!machine.full_duplex);
    /* Copying 12.2 GB takes a second plus the latency. */
    CHECK_U64((uint64_t)crn_machine_copy_ns(&machine, 12200000000), 1000000000 + 10000);
    CHECK(cairn_machine_find("abacus", &machine, &err) == CAIRN_EUNKNOWN);
    const char *bad = "{\"format\": \"cairn-machine\", \"version\": 1, \"name\": \"x\", "
                      "\"flops_per_second\": 0}";
    CHECK(cairn_machine_from_json(bad, strlen(bad), "m.json", &machine, &err) == CAIRN_EINVAL);
    CHECK_STRING(err.path, "flops_per_second");
}

static void test_analytic(void) {
    cairn_graph *graph = network("resnet18", 32);
    cairn_machine machine = {.struct_size = sizeof(cairn_machine),
                             .flops_per_second = 1000000000000,
                             .memory_bytes_per_second = 100000000000};
    machine.launch_ns = 7;
    cairn_costs *costs;
    cairn_error err = {0};
    CHECK_OK(cairn_costs_analytic(graph, &machine, &costs, &err), &err);
    uint64_t flops, bytes;
    /* conv1: 32*64*112*112 outputs, each 3*7*7 multiply-adds; two operations each, a thousand a ns.
     */
    crn_op_work(graph, crn_graph_find_op(graph, "conv1"), &flops, &bytes);
    CHECK_U64(flops, 2ull * 32 * 64 * 112 * 112 * 3 * 49);
    CHECK_U64(bytes, 4ull * (32 * 3 * 224 * 224 + 32 * 64 * 112 * 112 + 64 * 3 * 49));
    CHECK_U64((uint64_t)time_of(graph, costs, "conv1"), 7 + (flops + 999) / 1000);
    CHECK_U64((uint64_t)time_of(graph, costs, "conv1.bwd_weight"), 7 + (flops + 999) / 1000);
    /* relu is limited by memory: it reads and writes 32*64*112*112 floats, a hundred bytes a ns. */
    bytes = 2ull * 4 * 32 * 64 * 112 * 112;
    CHECK_U64((uint64_t)time_of(graph, costs, "relu"), 7 + (bytes + 99) / 100);
    /* an alias is free */
    CHECK_U64((uint64_t)time_of(graph, costs, "flatten"), 0);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

static void test_table(void) {
    cairn_graph *graph = network("resnet18", 2);
    cairn_costs *costs, *other;
    cairn_error err = {0};
    cairn_machine machine = CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find("cpu", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(graph, &machine, &costs, &err), &err);
    CHECK_OK(cairn_costs_create(graph, &other, &err), &err);

    cairn_costs_origin origin = {.struct_size = sizeof origin, .source = "a test"};
    cairn_text text, again;
    cairn_id norm = crn_graph_find_op(graph, "bn1");
    int64_t time = time_of(graph, costs, "bn1");
    crn_costs_set_again(costs, norm, time / 3);
    CHECK_OK(cairn_costs_to_json(costs, graph, &origin, &text), &err);
    uint32_t matched = 0;
    CHECK_OK(crn_costs_merge_json(other, graph, text.data, text.length, NULL, &matched, &err),
             &err);
    CHECK_U64(matched, cairn_graph_op_count(graph));
    CHECK_U64((uint64_t)time_of(graph, other, "conv1"), (uint64_t)time_of(graph, costs, "conv1"));
    CHECK(crn_costs_again_ns(other, norm, 0) == time - time / 3);
    CHECK_OK(cairn_costs_to_json(other, graph, &origin, &again), &err);
    CHECK_STRING(again.data, text.data);
    cairn_text_release(&again);
    cairn_text_release(&text);

    const char *two =
        "{\"format\": \"cairn-costs\", \"version\": 1, \"ops\": [{\"signature\": \"relu "
        "[2,64,112,112] -> [2,64,112,112]\", \"implementations\": [{\"name\": \"a\", "
        "\"time_ns\": 5, \"workspace_bytes\": 64}, {\"name\": \"b\", \"time_ns\": 9, "
        "\"workspace_bytes\": 0}]}]}";
    CHECK_OK(crn_costs_merge_json(costs, graph, two, strlen(two), NULL, &matched, &err), &err);
    CHECK_U64(matched, 1);
    uint32_t count;
    const cairn_implementation *list =
        cairn_costs_op(costs, crn_graph_find_op(graph, "relu"), &count);
    CHECK_U64(count, 2);
    CHECK_STRING(list[1].name, "b");
    const char *more = /* saved than it takes */
        "{\"format\": \"cairn-costs\", \"version\": 1, \"ops\": [{\"signature\": \"x\", "
        "\"again_saves_ns\": 6, \"implementations\": [{\"name\": \"a\", \"time_ns\": 5, "
        "\"workspace_bytes\": 0}]}]}";
    CHECK(crn_costs_merge_json(costs, graph, more, strlen(more), NULL, &matched, &err) ==
          CAIRN_EINVAL);
    CHECK_STRING(err.path, "ops[0].again_saves_ns");
    const char *bad =
        "{\"format\": \"cairn-costs\", \"version\": 1, \"ops\": [{\"signature\": \"x\", "
        "\"implementations\": [{\"name\": \"a\", \"time_ns\": -5}]}]}";
    CHECK(crn_costs_merge_json(costs, graph, bad, strlen(bad), NULL, &matched, &err) ==
          CAIRN_EINVAL);
    CHECK_STRING(err.path, "ops[0].implementations[0].time_ns");
    cairn_costs_destroy(other);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

/* A table is applied completely: the ops, the link, the update. A table of another device is
 * refused. */
static void test_measured(void) {
    cairn_graph *graph = network("alexnet", 2);
    cairn_costs *costs, *timed;
    cairn_machine machine = CAIRN_MACHINE_INIT, described = CAIRN_MACHINE_INIT;
    cairn_text table;
    cairn_error err = {0};
    cairn_measured measured = CAIRN_MEASURED_INIT;
    cairn_measured_options options = CAIRN_MEASURED_OPTIONS_INIT;
    cairn_costs_origin origin = {.struct_size = sizeof origin,
                                 .backend = "ref",
                                 .threads = 3,
                                 .link_bytes_per_second = 5000,
                                 .link_latency_ns = 7,
                                 .update_bytes_per_second = 1000000000};
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(graph, &machine, &timed, &err), &err);
    CHECK_OK(cairn_costs_to_json(timed, graph, &origin, &table), &err);
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    described = machine;
    options.machine = &described;
    CHECK_OK(cairn_costs_measured(costs, graph, table.data, table.length, "t", &options, &measured,
                                  &err),
             &err);
    uint32_t count;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    CHECK_U64(measured.matched, cairn_graph_op_count(graph));
    CHECK(measured.complete);
    CHECK(measured.update_ns == (int64_t)summary.parameter_bytes);
    CHECK(cairn_costs_op(costs, 3, &count)->time_ns == cairn_costs_op(timed, 3, &count)->time_ns);
    CHECK_STRING(described.name, "ref with 3 threads");
    CHECK(described.link_bytes_per_second == 5000 && described.link_latency_ns == 7);

    options.backend = "ref"; /* times only */
    options.threads = 3;
    CHECK_OK(cairn_costs_measured(timed, graph, table.data, table.length, "t", &options, &measured,
                                  &err),
             &err);
    CHECK(measured.complete);
    options.threads = 2;
    CHECK(cairn_costs_measured(timed, graph, table.data, table.length, "t", &options, &measured,
                               &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "with 3 threads, not on \"ref\" with 2") != NULL);
    options.threads = 3;
    options.backend = "other";
    CHECK(cairn_costs_measured(timed, graph, table.data, table.length, "t", &options, &measured,
                               &err) == CAIRN_EINVAL);
    cairn_text_release(&table);
    cairn_costs_destroy(timed);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

/* Every network is the same after writing and reading its file: the same bytes, the same
 * fingerprint. */
static void test_json_round_trip(void) {
    const cairn_zoo_entry *entry;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        cairn_graph *graph = network(entry->name, 2), *back;
        cairn_text text, again;
        cairn_error err = {0};
        CHECK_OK(cairn_graph_to_json(graph, &text), &err);
        CHECK_OK(cairn_graph_from_json(NULL, text.data, text.length, NULL, &back, &err), &err);
        CHECK_U64(crn_graph_hash(back), crn_graph_hash(graph));
        CHECK_OK(cairn_graph_to_json(back, &again), &err);
        CHECK(text.length == again.length && memcmp(text.data, again.data, text.length) == 0);
        cairn_text_release(&text);
        cairn_text_release(&again);
        cairn_graph_destroy(back);
        cairn_graph_destroy(graph);
    }
}

/* The fingerprint depends on the structure: it is the same for another batch, but not for another
 * depth. */
static void test_hash(void) {
    cairn_graph *a = network("resnet18", 2), *b = network("resnet18", 64),
                *c = network("resnet34", 2);
    CHECK_U64(crn_graph_hash(a), crn_graph_hash(b));
    CHECK(crn_graph_hash(a) != crn_graph_hash(c));
    cairn_graph_destroy(a);
    cairn_graph_destroy(b);
    cairn_graph_destroy(c);
}

static void test_dag_view(void) {
    /* AlexNet is a row of tensors; a ReLU or a reshape is one vertex with its input. Costs are in
     * elements, as in tests/data/feng/alexnet.json with one exception: the second dropout cannot
     * work in place, because the backward of the ReLU before it needs the ReLU's result. */
    static const uint64_t costs[] = {150528, 193600, 46656, 139968, 32448, 64896, 43264,
                                     43264,  9216,   9216,  4096,   4096,  4096,  1000};
    cairn_graph *graph = network("alexnet", 1);
    cairn_dag_view *view;
    cairn_error err = {0};
    CHECK_OK(cairn_dag_view_create(graph, NULL, &view, &err), &err);
    CHECK_U64(view->dag.vertex_count, 14);
    CHECK_U64(view->dag.edge_count, 13);
    CHECK_U64(view->dag.source, 0);
    CHECK_U64(view->dag.target, 13);
    for (uint32_t v = 0; v < 14 && v < view->dag.vertex_count; v++)
        CHECK_U64(view->dag.costs[v], 4 * costs[v]);
    CHECK_STRING(cairn_graph_tensor(graph, view->tensors[9])->name, "classifier.0");
    cairn_dag_view_destroy(view);
    cairn_graph_destroy(graph);

    /* An unrolled recurrent network is a chain of states; the per-step inputs are left out. */
    graph = network("lstm", 2);
    CHECK_OK(cairn_dag_view_create(graph, NULL, &view, &err), &err);
    CHECK_U64(view->dag.vertex_count, 1 + 50 + 1 + 1);
    CHECK_U64(view->dag.edge_count, view->dag.vertex_count - 1);
    cairn_dag_view_destroy(view);
    cairn_graph_destroy(graph);
}

static void test_chain_view(void) {
    cairn_error err = {0};
    cairn_chain_view *view;
    cairn_graph *graph = network("resnet18", 1);
    CHECK_OK(cairn_chain_view_create(graph, &view, &err), &err);
    /* input | conv1 | bn1 relu | maxpool | eight blocks | pool, fc, loss. A cut is a tensor that a
     * backward reads: conv1's output, the relu's, the pool's, each block's relu; not bn1's output.
     */
    static const char *const cuts[] = {
        "input", "conv1", "relu", "maxpool", "layer1.0.relu2", "layer1.1.relu2", "layer2.0.relu2"};
    for (uint32_t i = 0; i < 4; i++)
        CHECK_STRING(cairn_graph_tensor(graph, view->cuts[i])->name, cuts[i]);
    CHECK_U64(view->piece_count, 4 + 8 + 1);
    CHECK_U64(view->first_op[0], 0);
    cairn_graph_summary s = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &s);
    CHECK_U64(view->first_op[view->piece_count], s.forward_ops);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        if (op->of != CAIRN_NONE)
            CHECK_U64(view->piece_of[o], view->piece_of[op->of]);
    }
    cairn_chain_view_destroy(view);
    cairn_graph_destroy(graph);

    /* U-Net has few cuts because of its long skip connections: only outside of them. */
    graph = network("unet", 1);
    CHECK_OK(cairn_chain_view_create(graph, &view, &err), &err);
    CHECK(view->piece_count < 12);
    cairn_chain_view_destroy(view);
    cairn_graph_destroy(graph);

    graph = network("lstm", 2);
    CHECK_OK(cairn_chain_view_create(graph, &view, &err), &err);
    CHECK_U64(view->piece_count, 50 + 1 + 1);
    cairn_chain_view_destroy(view);
    cairn_graph_destroy(graph);
}

int main(void) {
    test_machines();
    test_analytic();
    test_table();
    test_measured();
    test_json_round_trip();
    test_hash();
    test_dag_view();
    test_chain_view();
    return check_result();
}
