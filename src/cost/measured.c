/* measured.c: a table of measured costs taken over whole: times, the link, what updating takes. */
#include "base/crn_base.h"
#include "cairn/cost.h"

#include <stdio.h>

/* What the machine is, as far as the table says. */
static void describe_machine(const cairn_costs_origin *origin, cairn_machine *machine) {
    if (origin->backend[0] != '\0')
        snprintf(machine->name, sizeof machine->name, "%s with %u thread%s", origin->backend,
                 origin->threads, origin->threads == 1 ? "" : "s");
    if (origin->link_bytes_per_second > 0) {
        machine->link_bytes_per_second = origin->link_bytes_per_second;
        machine->link_latency_ns = origin->link_latency_ns;
    }
}

/* A table of another backend, or of another number of threads, says nothing of this one. */
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

cairn_status cairn_costs_measured(cairn_costs *costs, const cairn_graph *graph, const char *text,
                                  size_t length, const char *file,
                                  const cairn_measured_options *given, cairn_measured *out,
                                  cairn_error *err) {
    cairn_measured_options options = CAIRN_MEASURED_OPTIONS_INIT;
    *out = (cairn_measured){0};
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_measured_options, options, given, err);
    CRN_TRY(cairn_costs_origin_from_json(text, length, file, &out->origin, err));
    CRN_TRY(check_origin(&out->origin, file, &options, err));
    CRN_TRY((options.backend == NULL ? cairn_costs_merge_json : cairn_costs_merge_times_json)(
        costs, graph, text, length, file, &out->matched, err));
    out->complete = out->matched == cairn_graph_op_count(graph);
    out->update_ns = cairn_costs_update_ns(&out->origin, graph);
    if (options.machine != NULL)
        describe_machine(&out->origin, options.machine);
    return CAIRN_OK;
}
