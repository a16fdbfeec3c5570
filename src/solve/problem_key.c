/* problem_key.c: see problem_key.h. */
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "solve/problem_key.h"

static void add_op(crn_key *key, const cairn_costs *costs, cairn_id op) {
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(costs, op, &count);
    crn_key_add(key, count);
    for (uint32_t i = 0; i < count; i++) {
        crn_key_add(key, (uint64_t)list[i].time_ns);
        crn_key_add(key, (uint64_t)crn_costs_again_ns(costs, op, i));
        crn_key_add(key, list[i].workspace_bytes);
    }
}

crn_key crn_problem_key(uint64_t sort, const cairn_graph *graph, const cairn_costs *costs,
                        const cairn_machine *machine) {
    crn_key key = crn_key_of(sort);
    crn_key_add(&key, crn_graph_hash(graph));
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        crn_key_add(&key, cairn_graph_tensor(graph, t)->bytes);
        crn_key_add(&key, cairn_costs_bytes(costs)[t]);
    }
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        add_op(&key, costs, o);
    crn_key_add(&key, crn_costs_same_bits(costs));
    crn_key_add(&key, machine != NULL);
    if (machine != NULL) {
        crn_key_add(&key, machine->link_bytes_per_second);
        crn_key_add(&key, (uint64_t)machine->link_latency_ns);
        crn_key_add(&key, machine->full_duplex);
        crn_key_add(&key, machine->host_memory_bytes);
    }
    return key;
}
