/* measured.c: applies a table of measured costs: times of ops, the link to the host, the cost of
 * the update. */
#include "base/crn_base.h"
#include "cairn/cost.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"

#include <stdio.h>

/* Describe the machine, as far as the table knows it. */
static void describe_machine(const cairn_costs_origin *origin, cairn_machine *machine) {
    if (origin->backend[0] != '\0')
        snprintf(machine->name, sizeof machine->name, "%s with %u thread%s", origin->backend,
                 origin->threads, origin->threads == 1 ? "" : "s");
    if (origin->link_bytes_per_second > 0) {
        machine->link_bytes_per_second = origin->link_bytes_per_second;
        machine->link_latency_ns = origin->link_latency_ns;
    }
}

/* Refuse a table that was measured on another backend or with another number of threads. */
static cairn_status check_origin(const cairn_costs_origin *origin, const char *file,
                                 const cairn_measured_options *options, cairn_error *err) {
    if (origin->backend[0] == '\0' || options->backend == NULL ||
        (strcmp(origin->backend, options->backend) == 0 && origin->threads == options->threads))
        return CAIRN_OK;
    return crn_fail(err, CAIRN_EINVAL,
                    "%.200s was measured on backend \"%s\" with %u threads, not on \"%.64s\" with "
                    "%u",
                    file, origin->backend, origin->threads, options->backend, options->threads);
}

/* The times of updates follow from the bytes that are updated. */
static cairn_status set_updates(cairn_costs *costs, const cairn_graph *graph,
                                const cairn_costs_origin *origin, uint32_t *matched) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        uint32_t count;
        if (op->kind != CAIRN_OP_UPDATE || origin->update_bytes_per_second == 0)
            continue;
        cairn_implementation how = *cairn_costs_op(costs, o, &count);
        uint64_t bytes = cairn_graph_tensor(graph, op->params[op->param_count - 1])->bytes;
        how.time_ns = (int64_t)crn_mul_div_up(bytes, 1000000000u, origin->update_bytes_per_second);
        CRN_TRY(cairn_costs_set_op(costs, o, &how, 1));
        ++*matched;
    }
    return CAIRN_OK;
}

cairn_status cairn_costs_measured(cairn_costs *costs, const cairn_graph *graph, const char *text,
                                  size_t length, const char *file,
                                  const cairn_measured_options *given, cairn_measured *out,
                                  cairn_error *err) {
    cairn_measured_options options = CAIRN_MEASURED_OPTIONS_INIT;
    cairn_measured made = {0};
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_measured, out, err);
    CRN_READ_OPTIONS(cairn_measured_options, options, given, err);
    CRN_TRY(crn_costs_origin_from_json(text, length, file, &origin, err));
    CRN_TRY(check_origin(&origin, file, &options, err));
    CRN_TRY((options.backend == NULL ? crn_costs_merge_json : crn_costs_merge_times_json)(
        costs, graph, text, length, file, &made.matched, err));
    crn_copy_string(made.backend, sizeof made.backend, origin.backend);
    CRN_TRY(set_updates(costs, graph, &origin, &made.matched));
    made.complete = made.matched == cairn_graph_op_count(graph);
    if (!crn_graph_has_updates(graph)) /* else they are ops of it */
        made.update_ns = crn_costs_update_ns(&origin, graph);
    if (options.machine != NULL)
        describe_machine(&origin, options.machine);
    crn_write_output(out, &made, sizeof made);
    return CAIRN_OK;
}
