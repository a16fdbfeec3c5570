/* cost_table.c: reads and writes files of measured costs, docs/cost-format.md. */
#include "base/json.h"
#include "base/names.h"
#include "cairn/cost.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "graph/op_kinds.h"

#define FORMAT "cairn-costs"
#define VERSION 1
#define LONGEST_TIME 1000000000000000000
#define FASTEST_RATE 1000000000000000000
#define MACHINE_LINK "link_bytes_per_second"
#define MACHINE_LATENCY "link_latency_ns"
#define MACHINE_UPDATE "update_bytes_per_second"

/* ---- Signatures: "conv2d kernel=3,3 stride=1,1 ... [32,64,56,56] [64,64,3,3] -> [32,64,56,56]"
 * ---- */

static void write_shapes(cairn_text *text, const cairn_graph *graph, const cairn_id *ids,
                         uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == CAIRN_NONE) {
            crn_text_printf(text, " -");
            continue;
        }
        const cairn_tensor *tensor = cairn_graph_tensor(graph, ids[i]);
        crn_text_printf(text, " %s[",
                        tensor->dtype == CAIRN_DTYPE_F32 ? "" : crn_dtype_names[tensor->dtype]);
        for (uint32_t d = 0; d < tensor->rank; d++)
            crn_text_printf(text, "%s%u", d > 0 ? "," : "", tensor->shape[d]);
        crn_text_put(text, "]", 1);
    }
}

static void write_attributes(cairn_text *text, const cairn_op *op) {
    for (size_t k = 0; k < crn_attribute_count; k++) {
        const crn_attribute *a = &crn_attribute_list[k];
        /* Attributes that are doubles do not change the cost of an op. */
        if ((crn_op_kinds[op->kind].attributes & a->bit) == 0 || a->count == 0)
            continue;
        int32_t values[4];
        memcpy(values, (const char *)&op->attributes + a->offset, a->count * sizeof *values);
        crn_text_printf(text, " %s=", a->name);
        for (uint32_t i = 0; i < a->count; i++)
            crn_text_printf(text, "%s%d", i > 0 ? "," : "", values[i]);
    }
}

static void write_signature(cairn_text *text, const cairn_graph *graph, cairn_id id) {
    const cairn_op *op = cairn_graph_op(graph, id);
    crn_text_printf(text, "%s", cairn_op_kind_name(op->kind));
    if (op->kind == CAIRN_OP_OPAQUE) {
        crn_text_printf(text, " %s", op->name);
        return;
    }
    write_attributes(text, op);
    write_shapes(text, graph, op->inputs, op->input_count);
    write_shapes(text, graph, op->params, op->param_count);
    crn_text_printf(text, " ->");
    write_shapes(text, graph, op->outputs, op->output_count);
}

cairn_status cairn_op_signature(const cairn_graph *graph, cairn_id op, cairn_text *out) {
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_text_init(out, &allocator);
    write_signature(out, graph, op);
    return crn_text_finish(out);
}

/* Call `each` with the signature of every op. */
static cairn_status for_signatures(const cairn_graph *graph, void *context,
                                   cairn_status (*each)(void *context, cairn_id op,
                                                        const char *signature)) {
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_text text;
    crn_text_init(&text, &allocator);
    cairn_status status = CAIRN_OK;
    for (cairn_id o = 0; o < cairn_graph_op_count(graph) && status == CAIRN_OK; o++) {
        text.length = 0;
        write_signature(&text, graph, o);
        status = crn_text_finish(&text);
        if (status == CAIRN_OK)
            status = each(context, o, text.data);
    }
    cairn_text_release(&text);
    return status;
}

/* ---- Writing ---- */

typedef struct table_writer {
    cairn_text *out;
    const cairn_costs *costs;
    crn_arena scratch;
    crn_names seen;
    bool any;
} table_writer;

static cairn_status write_entry(void *context, cairn_id op, const char *signature) {
    table_writer *w = context;
    char *copy = crn_arena_string(&w->scratch, signature);
    if (copy == NULL)
        return CAIRN_ENOMEM;
    if (crn_names_add(&w->seen, copy, op) != CRN_NO_NAME)
        return CAIRN_OK;
    crn_text_printf(w->out, "%s\n{\"signature\": ", w->any ? "," : "");
    crn_text_json_string(w->out, signature);
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(w->costs, op, &count);
    int64_t saving = count > 0 ? list[0].time_ns - crn_costs_again_ns(w->costs, op, 0) : 0;
    if (saving > 0)
        crn_text_printf(w->out, ", \"again_saves_ns\": %lld", (long long)saving);
    crn_text_printf(w->out, ", \"implementations\": [");
    for (uint32_t i = 0; i < count; i++) {
        crn_text_printf(w->out, "%s{\"name\": ", i > 0 ? ", " : "");
        crn_text_json_string(w->out, list[i].name);
        crn_text_printf(w->out, ", \"time_ns\": %lld, \"workspace_bytes\": %llu",
                        (long long)list[i].time_ns, (unsigned long long)list[i].workspace_bytes);
        if (list[i].high_ns > 0)
            crn_text_printf(w->out, ", \"low_ns\": %lld, \"high_ns\": %lld",
                            (long long)list[i].low_ns, (long long)list[i].high_ns);
        crn_text_put(w->out, "}", 1);
    }
    crn_text_printf(w->out, "]}");
    w->any = true;
    return CAIRN_OK;
}

static void write_origin(cairn_text *out, const cairn_costs_origin *origin) {
    crn_text_printf(out, ", \"source\": ");
    crn_text_json_string(out, origin->source);
    if (origin->backend[0] != '\0') {
        crn_text_printf(out, ", \"backend\": ");
        crn_text_json_string(out, origin->backend);
        crn_text_printf(out, ", \"threads\": %u", origin->threads);
    }
    const struct {
        const char *name;
        uint64_t value;
    } measured[] = {{MACHINE_LINK, origin->link_bytes_per_second},
                    {MACHINE_LATENCY, (uint64_t)origin->link_latency_ns},
                    {MACHINE_UPDATE, origin->update_bytes_per_second}};
    bool any = false;
    for (size_t i = 0; i < CRN_LENGTH(measured); i++)
        if (measured[i].value > 0) {
            crn_text_printf(out, "%s\"%s\": %llu", any ? ", " : ",\n\"machine\": {",
                            measured[i].name, (unsigned long long)measured[i].value);
            any = true;
        }
    if (any)
        crn_text_put(out, "}", 1);
}

cairn_status cairn_costs_to_json(const cairn_costs *costs, const cairn_graph *graph,
                                 const cairn_costs_origin *given, cairn_text *out) {
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    crn_text_init(out, &allocator);
    CRN_READ_OPTIONS(cairn_costs_origin, origin, given, NULL);
    table_writer w = {.out = out, .costs = costs};
    crn_arena_init(&w.scratch, &allocator);
    crn_text_printf(out, "{\"format\": \"" FORMAT "\", \"version\": %d", VERSION);
    if (given != NULL)
        write_origin(out, &origin);
    crn_text_printf(out, ",\n\"ops\": [");
    cairn_status status = crn_names_init(&w.seen, &w.scratch, cairn_graph_op_count(graph));
    if (status == CAIRN_OK)
        status = for_signatures(graph, &w, write_entry);
    crn_text_printf(out, "\n]}\n");
    crn_arena_release(&w.scratch);
    if (status == CAIRN_OK)
        return crn_text_finish(out);
    cairn_text_release(out);
    return status;
}

/* ---- Reading ---- */

typedef struct table_entry {
    cairn_implementation list[CRN_MOST_IMPLEMENTATIONS];
    uint32_t count;
    int64_t saving_ns;
} table_entry;

typedef struct table_reader {
    cairn_costs *costs;
    crn_arena scratch;
    crn_names signatures;
    table_entry *entries;
    bool times_only;
    uint32_t matched;
    cairn_error *err;
} table_reader;

static cairn_status read_implementation(const crn_json *at, cairn_implementation *out,
                                        cairn_error *err) {
    static const char *const keys[] = {"name",   "time_ns", "workspace_bytes",
                                       "low_ns", "high_ns", NULL};
    CRN_TRY(crn_json_object(at, err));
    CRN_TRY(crn_json_only(at, keys, err));
    crn_json name = crn_json_member(at, "name"), time = crn_json_member(at, "time_ns");
    crn_json workspace = crn_json_member(at, "workspace_bytes");
    crn_json low = crn_json_member(at, "low_ns"), high = crn_json_member(at, "high_ns");
    int64_t bytes = 0;
    CRN_TRY(crn_json_string(&name, &out->name, err));
    CRN_TRY(crn_json_integer(&time, 0, LONGEST_TIME, &out->time_ns, err));
    CRN_TRY(crn_json_integer(&workspace, 0, INT64_MAX / 8, &bytes, err));
    out->workspace_bytes = (uint64_t)bytes;
    if (low.value == NULL && high.value == NULL)
        return CAIRN_OK;
    CRN_TRY(crn_json_integer(&low, 0, out->time_ns, &out->low_ns, err));
    return crn_json_integer(&high, out->time_ns, LONGEST_TIME, &out->high_ns, err);
}

static cairn_status read_entry(table_reader *r, const crn_json *at, uint32_t index) {
    static const char *const keys[] = {"signature", "again_saves_ns", "implementations", NULL};
    table_entry *entry = &r->entries[index];
    CRN_TRY(crn_json_object(at, r->err));
    CRN_TRY(crn_json_only(at, keys, r->err));
    crn_json signature = crn_json_member(at, "signature");
    crn_json list = crn_json_member(at, "implementations");
    crn_json saving = crn_json_member(at, "again_saves_ns");
    const char *string = "";
    size_t count = 0;
    CRN_TRY(crn_json_string(&signature, &string, r->err));
    if (crn_names_add(&r->signatures, string, index) != CRN_NO_NAME)
        return crn_json_fail(&signature, r->err, CAIRN_EINVAL, "is in the table twice");
    CRN_TRY(crn_json_array(&list, &count, r->err));
    if (count < 1 || count > CRN_MOST_IMPLEMENTATIONS)
        return crn_json_fail(&list, r->err, CAIRN_EINVAL, "must have 1 to %d elements",
                             CRN_MOST_IMPLEMENTATIONS);
    entry->count = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(&list, i);
        CRN_TRY(read_implementation(&element, &entry->list[i], r->err));
    }
    return saving.value == NULL
               ? CAIRN_OK
               : crn_json_integer(&saving, 0, entry->list[0].time_ns, &entry->saving_ns, r->err);
}

static cairn_status set_op(table_reader *r, cairn_id op, const cairn_implementation *list,
                           uint32_t count, int64_t saving_ns) {
    CRN_TRY(cairn_costs_set_op(r->costs, op, list, count));
    crn_costs_set_again(r->costs, op, saving_ns);
    return CAIRN_OK;
}

/* Set the times of the op's implementations to those that the table has under their names. */
static cairn_status merge_times(table_reader *r, cairn_id op, const table_entry *entry) {
    uint32_t count, found = 0;
    const cairn_implementation *known = cairn_costs_op(r->costs, op, &count);
    cairn_implementation *list;
    CRN_TAKE(&r->scratch, list, count);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = known[i];
        for (uint32_t k = 0; k < entry->count; k++)
            if (strcmp(entry->list[k].name, list[i].name) == 0) {
                list[i].time_ns = entry->list[k].time_ns;
                list[i].low_ns = entry->list[k].low_ns;
                list[i].high_ns = entry->list[k].high_ns;
                found++;
                break;
            }
    }
    r->matched += found == count;
    return found == 0 ? CAIRN_OK : set_op(r, op, list, count, entry->saving_ns);
}

static cairn_status merge_op(void *context, cairn_id op, const char *signature) {
    table_reader *r = context;
    uint32_t entry = crn_names_find(&r->signatures, signature);
    if (entry == CRN_NO_NAME)
        return CAIRN_OK;
    const table_entry *known = &r->entries[entry];
    if (r->times_only)
        return merge_times(r, op, known);
    r->matched++;
    return set_op(r, op, known->list, known->count, known->saving_ns);
}

static cairn_status read_rate(const crn_json *object, const char *key, int64_t low, int64_t *out,
                              cairn_error *err) {
    crn_json member = crn_json_member(object, key);
    return member.value == NULL ? CAIRN_OK : crn_json_integer(&member, low, FASTEST_RATE, out, err);
}

static cairn_status read_name(const crn_json *object, const char *key, char *out, size_t size,
                              cairn_error *err) {
    crn_json member = crn_json_member(object, key);
    const char *string = "";
    if (member.value != NULL)
        CRN_TRY(crn_json_string(&member, &string, err));
    crn_copy_string(out, size, string);
    return CAIRN_OK;
}

/* Everything but the ops. */
static cairn_status read_origin(const crn_json *root, cairn_costs_origin *out, cairn_error *err) {
    static const char *const keys[] = {"format",  "version", "source", "backend",
                                       "threads", "machine", "ops",    NULL};
    static const char *const rates[] = {MACHINE_LINK, MACHINE_LATENCY, MACHINE_UPDATE, NULL};
    int64_t threads = 0, link = 0, update = 0;
    CRN_TRY(crn_json_format(root, FORMAT, VERSION, err));
    CRN_TRY(crn_json_only(root, keys, err));
    CRN_TRY(read_name(root, "source", out->source, sizeof out->source, err));
    CRN_TRY(read_name(root, "backend", out->backend, sizeof out->backend, err));
    CRN_TRY(read_rate(root, "threads", 1, &threads, err));
    out->threads = (uint32_t)CRN_MIN(threads, UINT32_MAX);
    crn_json machine = crn_json_member(root, "machine");
    if (machine.value == NULL)
        return CAIRN_OK;
    CRN_TRY(crn_json_object(&machine, err));
    CRN_TRY(crn_json_only(&machine, rates, err));
    CRN_TRY(read_rate(&machine, MACHINE_LINK, 1, &link, err));
    CRN_TRY(read_rate(&machine, MACHINE_LATENCY, 0, &out->link_latency_ns, err));
    CRN_TRY(read_rate(&machine, MACHINE_UPDATE, 1, &update, err));
    out->link_bytes_per_second = (uint64_t)link;
    out->update_bytes_per_second = (uint64_t)update;
    return CAIRN_OK;
}

cairn_status crn_costs_origin_from_json(const char *text, size_t length, const char *file,
                                        cairn_costs_origin *out, cairn_error *err) {
    crn_json_document document;
    cairn_costs_origin made = CAIRN_COSTS_ORIGIN_INIT;
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_costs_origin, out, err);
    CRN_TRY(crn_json_parse(text, length, file, &document, err));
    crn_json root = crn_json_root(&document);
    cairn_status status = read_origin(&root, &made, err);
    crn_json_release(&document);
    if (status == CAIRN_OK)
        crn_write_output(out, &made, sizeof made);
    return status;
}

int64_t crn_costs_update_ns(const cairn_costs_origin *given, const cairn_graph *graph) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    if (crn_read_options(&origin, sizeof origin, given, "cairn_costs_origin", NULL) != CAIRN_OK ||
        origin.update_bytes_per_second == 0)
        return 0;
    cairn_graph_summarize(graph, &summary);
    uint64_t time =
        crn_mul_div_up(summary.parameter_bytes, 1000000000u, origin.update_bytes_per_second);
    return (int64_t)CRN_MIN(time, (uint64_t)1 << 60);
}

static cairn_status merge(table_reader *r, const cairn_graph *graph, const crn_json *root) {
    size_t count = 0;
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    CRN_TRY(read_origin(root, &origin, r->err));
    crn_json ops = crn_json_member(root, "ops");
    CRN_TRY(crn_json_array(&ops, &count, r->err));
    CRN_TRY(crn_names_init(&r->signatures, &r->scratch, (uint32_t)CRN_MIN(count, UINT32_MAX)));
    CRN_TAKE(&r->scratch, r->entries, count);
    for (uint32_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(&ops, i);
        CRN_TRY(read_entry(r, &element, i));
    }
    return for_signatures(graph, r, merge_op);
}

static cairn_status merge_text(cairn_costs *costs, const cairn_graph *graph, const char *text,
                               size_t length, const char *file, bool times_only, uint32_t *matched,
                               cairn_error *err) {
    crn_json_document document;
    CRN_TRY(crn_json_parse(text, length, file, &document, err));
    crn_json root = crn_json_root(&document);
    table_reader r = {.costs = costs, .times_only = times_only, .err = err};
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_arena_init(&r.scratch, &allocator);
    cairn_status status = merge(&r, graph, &root);
    crn_arena_release(&r.scratch);
    crn_json_release(&document);
    if (matched != NULL)
        *matched = r.matched;
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_costs_merge_json(cairn_costs *costs, const cairn_graph *graph, const char *text,
                                  size_t length, const char *file, uint32_t *matched,
                                  cairn_error *err) {
    return merge_text(costs, graph, text, length, file, false, matched, err);
}

cairn_status crn_costs_merge_times_json(cairn_costs *costs, const cairn_graph *graph,
                                        const char *text, size_t length, const char *file,
                                        uint32_t *matched, cairn_error *err) {
    return merge_text(costs, graph, text, length, file, true, matched, err);
}
