/* trace.c: the simulated training step as a Chrome trace, with three lanes and a memory counter.
 * Times are in microseconds, with the nanoseconds as decimals. */
#include "base/crn_base.h"
#include "cairn/report.h"
#include "graph/crn_graph.h"

enum { LANE_COMPUTE = 1, LANE_OUT = 2, LANE_IN = 3 };

static void write_time(cairn_text *text, const char *key, int64_t ns) {
    crn_text_printf(text, "\"%s\": %lld.%03lld", key, (long long)(ns / 1000),
                    (long long)(ns % 1000));
}

static void write_lane(cairn_text *text, int lane, const char *name) {
    crn_text_printf(text,
                    "{\"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"name\": \"thread_name\", \"args\": "
                    "{\"name\": \"%s\"}},\n",
                    lane, name);
}

static void write_slice(cairn_text *text, int lane, const char *verb, const char *name,
                        const cairn_sim_step *step) {
    crn_text_printf(text, "{\"ph\": \"X\", \"pid\": 1, \"tid\": %d, ", lane);
    write_time(text, "ts", step->start_ns);
    crn_text_printf(text, ", ");
    write_time(text, "dur", step->end_ns - step->start_ns);
    crn_text_printf(text, ", \"cat\": \"%s\", \"name\": ", verb);
    crn_text_json_string(text, name);
    crn_text_printf(text, "},\n");
}

static void write_memory(cairn_text *text, int64_t ns, uint64_t bytes) {
    crn_text_printf(text, "{\"ph\": \"C\", \"pid\": 1, \"name\": \"memory\", ");
    write_time(text, "ts", ns);
    crn_text_printf(text, ", \"args\": {\"bytes\": %llu}},\n", (unsigned long long)bytes);
}

cairn_status cairn_report_trace(const cairn_report *r, cairn_text *out) {
    cairn_allocator allocator = crn_graph_allocator(r->graph);
    crn_text_init(out, &allocator);
    const cairn_step *steps = r->solution->plan->steps;
    uint32_t count = r->solution->plan->step_count;
    const cairn_sim_step *records = r->solution->sim->steps;
    crn_text_printf(out, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    write_lane(out, LANE_COMPUTE, "compute");
    write_lane(out, LANE_OUT, "copy out");
    write_lane(out, LANE_IN, "copy in");
    int64_t now = 0; /* time on the compute lane; memory is counted there */
    for (uint32_t i = 0; i < count; i++) {
        const char *name = steps[i].kind == CAIRN_STEP_RUN
                               ? cairn_graph_op(r->graph, steps[i].id)->name
                               : cairn_graph_tensor(r->graph, steps[i].id)->name;
        const char *verb = cairn_step_kind_name((cairn_step_kind)steps[i].kind);
        bool copies = steps[i].kind == CAIRN_STEP_OFFLOAD || steps[i].kind == CAIRN_STEP_FETCH;
        if (copies)
            write_slice(out, steps[i].kind == CAIRN_STEP_OFFLOAD ? LANE_OUT : LANE_IN, verb, name,
                        &records[i]);
        else if (records[i].end_ns > records[i].start_ns)
            write_slice(out, LANE_COMPUTE, verb, name, &records[i]);
        write_memory(out, copies ? now : records[i].start_ns, records[i].bytes);
        if (!copies)
            now = records[i].end_ns;
    }
    write_memory(out, now, count > 0 ? records[count - 1].bytes : 0);
    out->length -= out->length > 2 ? 2 : 0; /* the last comma */
    crn_text_printf(out, "\n]}\n");
    return crn_text_finish(out);
}
