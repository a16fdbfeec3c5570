/* graph_json.c: reads and writes graph files, docs/graph-format.md.
 *
 * Fields that have their default are left out. Fields have a fixed order, and every tensor and op
 * has one line. So a file that was written, read and written again has the same bytes. */
#include "base/json.h"
#include "graph/graph_internal.h"

#define FORMAT "cairn-graph"
#define VERSION 1

/* ---- Writing ---- */

static void write_ids(cairn_text *text, const char *key, const cairn_id *ids, uint32_t count) {
    crn_text_printf(text, ", \"%s\": [", key);
    for (uint32_t i = 0; i < count; i++) {
        crn_text_put(text, ", ", i > 0 ? 2 : 0);
        if (ids[i] == CAIRN_NONE)
            crn_text_printf(text, "null");
        else
            crn_text_printf(text, "%u", ids[i]);
    }
    crn_text_put(text, "]", 1);
}

static void write_tensor(cairn_text *text, const cairn_tensor *tensor) {
    crn_text_printf(text, "{\"name\": ");
    crn_text_json_string(text, tensor->name);
    crn_text_printf(text, ", \"role\": \"%s\"", crn_role_names[tensor->role]);
    if (tensor->dtype != CAIRN_DTYPE_F32)
        crn_text_printf(text, ", \"dtype\": \"%s\"", crn_dtype_names[tensor->dtype]);
    uint64_t plain = crn_dtype_size(tensor->dtype);
    if (tensor->rank > 0)
        write_ids(text, "shape", tensor->shape, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        plain *= tensor->shape[i];
    if (tensor->rank == 0 || tensor->bytes != plain)
        crn_text_printf(text, ", \"bytes\": %llu", (unsigned long long)tensor->bytes);
    if (tensor->alias_of != CAIRN_NONE)
        crn_text_printf(text, ", \"alias_of\": %u", tensor->alias_of);
    if (tensor->gradient_of != CAIRN_NONE)
        crn_text_printf(text, ", \"gradient_of\": %u", tensor->gradient_of);
    if (tensor->stationary && !crn_role_stays(tensor->role))
        crn_text_printf(text, ", \"stationary\": true");
    if (tensor->result)
        crn_text_printf(text, ", \"result\": true");
    crn_text_put(text, "}", 1);
}

static const char *const flag_names[] = {"once", "random", "never-again", "updates", "together"};

static void write_flags(cairn_text *text, uint32_t flags) {
    const char *before = ", \"flags\": [";
    for (uint32_t i = 0; i < CRN_LENGTH(flag_names); i++) {
        if ((flags & (1u << i)) == 0)
            continue;
        crn_text_printf(text, "%s\"%s\"", before, flag_names[i]);
        before = ", ";
    }
    if (before[1] == ' ' && before[2] == '\0')
        crn_text_put(text, "]", 1);
}

static bool is_zero(const crn_attribute *a, const char *field) {
    static const char zeros[4 * sizeof(int32_t)];
    double value;
    if (a->count > 0)
        return memcmp(field, zeros, a->count * sizeof(int32_t)) == 0;
    memcpy(&value, field, sizeof value);
    return value == 0;
}

static void write_attributes(cairn_text *text, const cairn_op *op) {
    const char *before = ", \"attributes\": {";
    bool any = false;
    for (size_t k = 0; k < crn_attribute_count; k++) {
        const crn_attribute *a = &crn_attribute_list[k];
        if ((crn_op_kinds[op->kind].attributes & a->bit) == 0)
            continue;
        const char *field = (const char *)&op->attributes + a->offset;
        if ((a->bit & A_OPTIONAL) && is_zero(a, field))
            continue;
        crn_text_printf(text, "%s\"%s\": ", any ? ", " : before, a->name);
        any = true;
        if (a->count == 0) {
            double value;
            memcpy(&value, field, sizeof value);
            crn_text_real(text, value);
            continue;
        }
        int32_t values[4];
        memcpy(values, field, a->count * sizeof *values);
        crn_text_put(text, "[", a->count > 1);
        for (uint32_t i = 0; i < a->count; i++)
            crn_text_printf(text, "%s%d", i > 0 ? ", " : "", values[i]);
        crn_text_put(text, "]", a->count > 1);
    }
    crn_text_put(text, "}", any);
}

static void write_op(cairn_text *text, const cairn_op *op) {
    crn_text_printf(text, "{\"name\": ");
    crn_text_json_string(text, op->name);
    crn_text_printf(text, ", \"kind\": \"%s\", \"phase\": \"%s\"", crn_op_kinds[op->kind].name,
                    crn_phase_names[op->phase]);
    if (op->of != CAIRN_NONE)
        crn_text_printf(text, ", \"of\": %u", op->of);
    write_ids(text, "inputs", op->inputs, op->input_count);
    write_ids(text, "outputs", op->outputs, op->output_count);
    if (op->param_count > 0)
        write_ids(text, "params", op->params, op->param_count);
    for (uint32_t i = 0; i < op->inplace_count; i++)
        crn_text_printf(text, "%s[%u, %u]%s", i == 0 ? ", \"inplace\": [" : ", ",
                        op->inplace[i].output, op->inplace[i].input,
                        i + 1 == op->inplace_count ? "]" : "");
    write_flags(text, op->flags);
    write_attributes(text, op);
    crn_text_put(text, "}", 1);
}

cairn_status cairn_graph_to_json(const cairn_graph *graph, cairn_text *out) {
    crn_text_init(out, &graph->arena.allocator);
    crn_text_printf(out, "{\"format\": \"" FORMAT "\", \"version\": %d, \"name\": ", VERSION);
    crn_text_json_string(out, graph->name);
    crn_text_printf(out, ",\n\"tensors\": [\n");
    for (cairn_id t = 0; t < graph->tensors.length; t++) {
        write_tensor(out, &graph->tensors.data[t]);
        crn_text_printf(out, "%s\n", t + 1 < graph->tensors.length ? "," : "");
    }
    crn_text_printf(out, "],\n\"ops\": [\n");
    for (cairn_id o = 0; o < graph->ops.length; o++) {
        write_op(out, &graph->ops.data[o]);
        crn_text_printf(out, "%s\n", o + 1 < graph->ops.length ? "," : "");
    }
    crn_text_printf(out, "]}\n");
    return crn_text_finish(out);
}

/* ---- Reading ---- */

typedef struct reader {
    cairn_builder *builder;
    crn_arena scratch;
    cairn_error *err;
} reader;

/* Read one of a list of names; `*out` is its place in the list. */
static cairn_status read_choice(const crn_json *at, const char *const *names, uint32_t count,
                                uint32_t *out, cairn_error *err) {
    const char *string;
    CRN_TRY(crn_json_string(at, &string, err));
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], string) == 0) {
            *out = i;
            return CAIRN_OK;
        }
    return crn_json_fail(at, err, CAIRN_EINVAL, "\"%.64s\" is not a valid value here", string);
}

static cairn_status read_kind(const crn_json *at, cairn_op_kind *out, cairn_error *err) {
    const char *string;
    CRN_TRY(crn_json_string(at, &string, err));
    for (uint32_t k = 0; k < CAIRN_OP_KINDS; k++)
        if (strcmp(crn_op_kinds[k].name, string) == 0) {
            *out = (cairn_op_kind)k;
            return CAIRN_OK;
        }
    return crn_json_fail(
        at, err, CAIRN_EINVAL,
        "\"%.64s\" is not a kind of op; use \"opaque\" for one that Cairn does not know", string);
}

static cairn_status read_id(const crn_json *at, cairn_id *out, cairn_error *err) {
    int64_t value = 0;
    CRN_TRY(crn_json_integer(at, 0, UINT32_MAX - 1, &value, err));
    *out = (cairn_id)value;
    return CAIRN_OK;
}

/* An id that may be left out. */
static cairn_status read_optional_id(const crn_json *at, cairn_id *out, cairn_error *err) {
    *out = CAIRN_NONE;
    return at->value == NULL ? CAIRN_OK : read_id(at, out, err);
}

/* Read an operand. It is checked here and not by the builder, because its path in the file is known
 * here. */
static cairn_status read_operand(reader *r, const crn_json *at, cairn_id *out) {
    uint32_t tensors = r->builder->graph->tensors.length;
    CRN_TRY(read_id(at, out, r->err));
    if (*out >= tensors)
        return crn_json_fail(at, r->err, CAIRN_EINVAL,
                             "is %u, but there are only %u tensors, numbered from 0", *out,
                             tensors);
    return CAIRN_OK;
}

static cairn_status read_ids(reader *r, const crn_json *at, bool optional, bool null_allowed,
                             const cairn_id **out, uint32_t *count_out) {
    size_t count = 0;
    *count_out = 0;
    if (optional && at->value == NULL)
        return CAIRN_OK;
    CRN_TRY(crn_json_array(at, &count, r->err));
    cairn_id *ids;
    CRN_TAKE(&r->scratch, ids, count);
    for (size_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(at, i);
        if (null_allowed && crn_json_is_null(&element))
            ids[i] = CAIRN_NONE;
        else
            CRN_TRY(read_operand(r, &element, &ids[i]));
    }
    *out = ids;
    *count_out = (uint32_t)count;
    return CAIRN_OK;
}

static cairn_status read_shape(reader *r, const crn_json *at, cairn_tensor *tensor) {
    if (at->value == NULL)
        return CAIRN_OK;
    size_t rank = 0;
    CRN_TRY(crn_json_array(at, &rank, r->err));
    if (rank < 1 || rank > CAIRN_MAX_RANK)
        return crn_json_fail(at, r->err, CAIRN_EINVAL, "must have 1 to %d dimensions",
                             CAIRN_MAX_RANK);
    tensor->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < rank; i++) {
        crn_json element = crn_json_element(at, i);
        int64_t value = 0;
        CRN_TRY(crn_json_integer(&element, 1, UINT32_MAX, &value, r->err));
        tensor->shape[i] = (uint32_t)value;
    }
    return CAIRN_OK;
}

/* Add the place in the file to an error of the builder. */
static cairn_status placed(reader *r, const crn_json *at, cairn_status status) {
    if (status == CAIRN_OK || status == CAIRN_ENOMEM)
        return status;
    return crn_json_fail(at, r->err, status, "%s", r->builder->err.message);
}

static cairn_status read_tensor(reader *r, const crn_json *at) {
    static const char *const keys[] = {"name",     "role",        "dtype",      "shape",  "bytes",
                                       "alias_of", "gradient_of", "stationary", "result", NULL};
    CRN_TRY(crn_json_object(at, r->err));
    CRN_TRY(crn_json_only(at, keys, r->err));
    cairn_tensor tensor = CAIRN_TENSOR_INIT;
    crn_json name = crn_json_member(at, "name"), role = crn_json_member(at, "role");
    crn_json dtype = crn_json_member(at, "dtype"), shape = crn_json_member(at, "shape");
    crn_json bytes = crn_json_member(at, "bytes"), alias = crn_json_member(at, "alias_of");
    crn_json gradient = crn_json_member(at, "gradient_of");
    crn_json stationary = crn_json_member(at, "stationary"), result = crn_json_member(at, "result");
    uint32_t choice = 0;
    int64_t size = 0;
    CRN_TRY(crn_json_string(&name, &tensor.name, r->err));
    CRN_TRY(read_choice(&role, crn_role_names, CRN_LENGTH(crn_role_names), &choice, r->err));
    tensor.role = (cairn_role)choice;
    choice = CAIRN_DTYPE_F32;
    if (dtype.value != NULL)
        CRN_TRY(read_choice(&dtype, crn_dtype_names, CRN_LENGTH(crn_dtype_names), &choice, r->err));
    tensor.dtype = (cairn_dtype)choice;
    CRN_TRY(read_shape(r, &shape, &tensor));
    if (bytes.value != NULL || shape.value == NULL)
        CRN_TRY(crn_json_integer(&bytes, 0, INT64_MAX, &size, r->err));
    tensor.bytes = (uint64_t)size;
    CRN_TRY(read_optional_id(&alias, &tensor.alias_of, r->err));
    CRN_TRY(read_optional_id(&gradient, &tensor.gradient_of, r->err));
    if (stationary.value != NULL)
        CRN_TRY(crn_json_boolean(&stationary, &tensor.stationary, r->err));
    if (result.value != NULL)
        CRN_TRY(crn_json_boolean(&result, &tensor.result, r->err));
    return placed(r, at, crn_builder_add_tensor(r->builder, &tensor, &(cairn_id){0}));
}

static cairn_status read_flags(reader *r, const crn_json *at, uint32_t *out) {
    size_t count = 0;
    if (at->value == NULL)
        return CAIRN_OK;
    CRN_TRY(crn_json_array(at, &count, r->err));
    for (size_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(at, i);
        uint32_t flag = 0;
        CRN_TRY(read_choice(&element, flag_names, CRN_LENGTH(flag_names), &flag, r->err));
        *out |= 1u << flag;
    }
    return CAIRN_OK;
}

static cairn_status read_inplace(reader *r, const crn_json *at, cairn_op *op) {
    size_t count = 0, pair = 0;
    if (at->value == NULL)
        return CAIRN_OK;
    CRN_TRY(crn_json_array(at, &count, r->err));
    cairn_inplace *list;
    CRN_TAKE(&r->scratch, list, count);
    for (size_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(at, i);
        CRN_TRY(crn_json_array(&element, &pair, r->err));
        if (pair != 2)
            return crn_json_fail(&element, r->err, CAIRN_EINVAL, "must be [output, input]");
        crn_json output = crn_json_element(&element, 0), input = crn_json_element(&element, 1);
        CRN_TRY(read_id(&output, &list[i].output, r->err));
        CRN_TRY(read_id(&input, &list[i].input, r->err));
    }
    op->inplace = list;
    op->inplace_count = (uint32_t)count;
    return CAIRN_OK;
}

static cairn_status read_attribute(reader *r, const crn_json *at, const crn_attribute *a,
                                   char *field) {
    if (a->count == 0) {
        double value = 0;
        CRN_TRY(crn_json_real(at, &value, r->err));
        memcpy(field, &value, sizeof value);
        return CAIRN_OK;
    }
    size_t count = 1;
    if (a->count > 1)
        CRN_TRY(crn_json_array(at, &count, r->err));
    if (count != a->count)
        return crn_json_fail(at, r->err, CAIRN_EINVAL, "must have %u elements", a->count);
    for (uint32_t i = 0; i < a->count; i++) {
        crn_json element = a->count > 1 ? crn_json_element(at, i) : *at;
        int64_t value = 0;
        CRN_TRY(crn_json_integer(&element, INT32_MIN, INT32_MAX, &value, r->err));
        int32_t narrow = (int32_t)value;
        memcpy(field + i * sizeof narrow, &narrow, sizeof narrow);
    }
    return CAIRN_OK;
}

static cairn_status read_attributes(reader *r, const crn_json *at, cairn_op *op) {
    const char *keys[16] = {0};
    uint32_t wanted = crn_op_kinds[op->kind].attributes, count = 0;
    bool required = (wanted & ~(uint32_t)A_OPTIONAL) != 0;
    op->attributes.struct_size = sizeof op->attributes;
    for (size_t k = 0; k < crn_attribute_count; k++)
        if (wanted & crn_attribute_list[k].bit)
            keys[count++] = crn_attribute_list[k].name;
    if (at->value == NULL && !required)
        return CAIRN_OK;
    CRN_TRY(crn_json_object(at, r->err));
    CRN_TRY(crn_json_only(at, keys, r->err));
    for (size_t k = 0; k < crn_attribute_count; k++) {
        const crn_attribute *a = &crn_attribute_list[k];
        if ((wanted & a->bit) == 0)
            continue;
        crn_json member = crn_json_member(at, a->name);
        if (member.value == NULL && (a->bit & A_OPTIONAL))
            continue;
        CRN_TRY(read_attribute(r, &member, a, (char *)&op->attributes + a->offset));
    }
    return CAIRN_OK;
}

static cairn_status read_op(reader *r, const crn_json *at) {
    static const char *const keys[] = {"name",   "kind",       "phase",  "of",
                                       "inputs", "outputs",    "params", "inplace",
                                       "flags",  "attributes", NULL};
    CRN_TRY(crn_json_object(at, r->err));
    CRN_TRY(crn_json_only(at, keys, r->err));
    cairn_op op = {0};
    crn_json name = crn_json_member(at, "name"), kind = crn_json_member(at, "kind");
    crn_json phase = crn_json_member(at, "phase"), of = crn_json_member(at, "of");
    crn_json inputs = crn_json_member(at, "inputs"), outputs = crn_json_member(at, "outputs");
    crn_json params = crn_json_member(at, "params"), inplace = crn_json_member(at, "inplace");
    crn_json flags = crn_json_member(at, "flags"), attributes = crn_json_member(at, "attributes");
    uint32_t choice = 0;
    CRN_TRY(crn_json_string(&name, &op.name, r->err));
    CRN_TRY(read_kind(&kind, &op.kind, r->err));
    CRN_TRY(read_choice(&phase, crn_phase_names, CRN_LENGTH(crn_phase_names), &choice, r->err));
    op.phase = (cairn_phase)choice;
    CRN_TRY(read_optional_id(&of, &op.of, r->err));
    CRN_TRY(read_ids(r, &inputs, false, false, &op.inputs, &op.input_count));
    CRN_TRY(read_ids(r, &outputs, false, true, &op.outputs, &op.output_count));
    CRN_TRY(read_ids(r, &params, true, false, &op.params, &op.param_count));
    CRN_TRY(read_inplace(r, &inplace, &op));
    CRN_TRY(read_flags(r, &flags, &op.flags));
    CRN_TRY(read_attributes(r, &attributes, &op));
    return placed(r, at, crn_builder_add_op(r->builder, &op, &(cairn_id){0}));
}

static cairn_status read_graph(reader *r, const crn_json *root) {
    static const char *const keys[] = {"format", "version", "name", "tensors", "ops", NULL};
    size_t count = 0;
    crn_json tensors = crn_json_member(root, "tensors"), ops = crn_json_member(root, "ops");
    CRN_TRY(crn_json_only(root, keys, r->err));
    CRN_TRY(crn_json_array(&tensors, &count, r->err));
    for (size_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(&tensors, i);
        CRN_TRY(read_tensor(r, &element));
    }
    CRN_TRY(crn_json_array(&ops, &count, r->err));
    for (size_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(&ops, i);
        CRN_TRY(read_op(r, &element));
    }
    return CAIRN_OK;
}

static cairn_status read_document(const cairn_allocator *allocator, const crn_json *root,
                                  cairn_graph **out, cairn_error *err) {
    CRN_TRY(crn_json_format(root, FORMAT, VERSION, err));
    crn_json name = crn_json_member(root, "name");
    const char *string = "";
    CRN_TRY(crn_json_string(&name, &string, err));
    reader r = {.err = err};
    CRN_TRY(cairn_builder_create(allocator, string, &r.builder));
    crn_arena_init(&r.scratch, allocator);
    cairn_status status = read_graph(&r, root);
    crn_arena_release(&r.scratch);
    if (status == CAIRN_OK) {
        status = cairn_builder_finish(r.builder, out, err);
        if (status != CAIRN_OK && err != NULL)
            crn_copy_string(err->file, sizeof err->file, root->document->file);
    }
    cairn_builder_destroy(r.builder);
    return status;
}

cairn_status cairn_graph_from_json(const cairn_allocator *allocator, const char *text,
                                   size_t length, const char *file, cairn_graph **out,
                                   cairn_error *err) {
    *out = NULL;
    crn_json_document document;
    CRN_TRY(crn_json_parse(text, length, file, &document, err));
    crn_json root = crn_json_root(&document);
    cairn_status status = read_document(allocator, &root, out, err);
    crn_json_release(&document);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
