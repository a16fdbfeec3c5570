/* network_source.c: a forward graph as the text of docs/network-format.md.
 *
 * Three graphs of one network are compared: as asked for, with one class more, and with a batch
 * one larger. A number that differs in the second is written as "classes", in the third as
 * "batch". */
#include "cairn/report.h"
#include "import/importer.h"
#include "import/network_items.h"
#include "import/network_layers.h"

#include <stdio.h>

typedef struct source {
    const cairn_graph *graphs[3]; /* the first is written; the others may be NULL */
    crn_items items;
    const cairn_zoo_options *size;
    bool has_input; /* "input" is a line of its own kind */
    cairn_error *err;
} source;

/* ---- Values ---- */

/* A number of the three graphs. */
static const char *number(source *s, const uint32_t values[3]) {
    char text[16];
    if (values[1] == values[0] + 1)
        return "classes";
    if (values[2] == values[0] + 1)
        return "batch";
    snprintf(text, sizeof text, "%u", values[0]);
    return crn_arena_string(s->items.scratch, text);
}

/* Dimension `d` of a tensor. */
static const char *extent(source *s, cairn_id tensor, uint32_t d) {
    uint32_t values[3] = {0};
    for (int g = 0; g < 3; g++)
        if (s->graphs[g] != NULL)
            values[g] = cairn_graph_tensor(s->graphs[g], tensor)->shape[d];
    return number(s, values);
}

static cairn_status add_pair(source *s, crn_item *item, const char *key, const char *value) {
    (void)s;
    if (value == NULL)
        return CAIRN_ENOMEM;
    if (item->pair_count < CRN_MOST_PAIRS)
        item->pairs[item->pair_count++] = (crn_item_pair){key, value};
    return CAIRN_OK;
}

/* ---- Attributes ---- */

/* In the fewest numbers: 1, 1,2 or 1,2,3,4. */
static const char *whole_numbers(source *s, const crn_attribute *a, const char *field) {
    int32_t v[4];
    char text[64];
    memcpy(v, field, a->count * sizeof *v);
    bool same = true, pairs = a->count == 4;
    for (uint32_t i = 1; i < a->count; i++)
        same &= v[i] == v[0];
    pairs = pairs && v[0] == v[2] && v[1] == v[3];
    uint32_t count = same ? 1 : pairs ? 2 : a->count;
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i > 0 ? "," : "", v[i]);
    return crn_arena_string(s->items.scratch, text);
}

static const char *real_number(source *s, const char *field) {
    double value;
    cairn_text text;
    memcpy(&value, field, sizeof value);
    crn_text_init(&text, &s->items.scratch->allocator);
    crn_text_real(&text, value);
    if (crn_text_finish(&text) != CAIRN_OK)
        return NULL;
    const char *kept = crn_arena_string(s->items.scratch, text.data);
    cairn_text_release(&text);
    return kept;
}

static cairn_status add_attributes(source *s, const cairn_op *op, crn_item *item) {
    const crn_op_kind *kind = &crn_op_kinds[op->kind];
    for (size_t i = 0; i < crn_attribute_count; i++) {
        const crn_attribute *a = &crn_attribute_list[i];
        const char *field = (const char *)&op->attributes + a->offset;
        size_t bytes = a->count == 0 ? sizeof(double) : a->count * sizeof(int32_t);
        cairn_attributes usual = op->attributes;
        if ((kind->attributes & a->bit) == 0)
            continue;
        if (crn_layer_default(kind->name, a, &usual) &&
            memcmp((const char *)&usual + a->offset, field, bytes) == 0)
            continue;
        CRN_TRY(add_pair(s, item, a->name,
                         a->count == 0 ? real_number(s, field) : whole_numbers(s, a, field)));
    }
    return CAIRN_OK;
}

/* ---- Parameters ---- */

/* Whether parameter `i` of the op is the one that its kind says, by name and shape. */
static bool is_usual(const source *s, const cairn_op *op, const crn_layer *layer, uint32_t i) {
    const cairn_graph *g = s->graphs[0];
    const crn_layer_param *p = &layer->params[i];
    const cairn_tensor *param = cairn_graph_tensor(g, op->params[i]);
    const cairn_tensor *x = cairn_graph_tensor(g, op->inputs[0]);
    size_t stem = strlen(op->name);
    uint32_t shape[CAIRN_MAX_RANK];
    if (strncmp(param->name, op->name, stem) != 0 || param->name[stem] != '.' ||
        strcmp(param->name + stem + 1, p->suffix) != 0 || param->role != p->role ||
        param->rank != p->rank)
        return false;
    if (!crn_layer_shape(p, x, &op->attributes, 1, 1, shape))
        return false;
    for (uint32_t d = 0; d < p->rank; d++)
        if (p->shape[d] != CRN_EXTENT_SIZE && p->shape[d] != CRN_EXTENT_ROWS &&
            shape[d] != param->shape[d])
            return false;
    return true;
}

static bool has_usual(const source *s, const cairn_op *op, const crn_layer *layer) {
    uint32_t least = layer->count - (layer->optional ? 1 : 0);
    if (op->param_count < least || op->param_count > layer->count)
        return false;
    for (uint32_t i = 0; i < op->param_count; i++)
        if (!is_usual(s, op, layer, i))
            return false;
    return true;
}

/* The sizes that the shapes of its parameters have. */
static cairn_status add_sizes(source *s, const cairn_op *op, const crn_layer *layer,
                              crn_item *item) {
    bool sized = layer->size == NULL, rowed = !layer->rows;
    for (uint32_t i = 0; i < op->param_count; i++)
        for (uint32_t d = 0; d < layer->params[i].rank; d++) {
            if (layer->params[i].shape[d] == CRN_EXTENT_SIZE && !sized) {
                sized = true;
                CRN_TRY(add_pair(s, item, layer->size, extent(s, op->params[i], d)));
            }
            if (layer->params[i].shape[d] == CRN_EXTENT_ROWS && !rowed) {
                rowed = true;
                CRN_TRY(add_pair(s, item, "rows", extent(s, op->params[i], d)));
            }
        }
    return CAIRN_OK;
}

static cairn_status name_params(source *s, const cairn_op *op, crn_item *item) {
    cairn_text text;
    crn_text_init(&text, &s->items.scratch->allocator);
    for (uint32_t i = 0; i < op->param_count; i++)
        crn_text_printf(&text, "%s%s", i > 0 ? "," : "",
                        cairn_graph_tensor(s->graphs[0], op->params[i])->name);
    CRN_TRY(crn_text_finish(&text));
    item->params = crn_arena_string(s->items.scratch, text.data);
    cairn_text_release(&text);
    return item->params == NULL ? CAIRN_ENOMEM : CAIRN_OK;
}

/* ---- Tensors that no layer makes ---- */

/* Whether the tensor is the label that a loss would make for itself. */
static bool is_usual_label(const source *s, const cairn_op *op, const crn_layer *layer) {
    const cairn_graph *g = s->graphs[0];
    if (layer->label == 0 || op->input_count != 2)
        return false;
    const cairn_tensor *logits = cairn_graph_tensor(g, op->inputs[0]);
    const cairn_tensor *label = cairn_graph_tensor(g, op->inputs[1]);
    uint32_t drop = layer->label < 0 ? logits->rank - 1 : (uint32_t)layer->label, rank = 0;
    for (uint32_t d = 0; d < logits->rank; d++)
        if (d != drop && label->shape[rank++] != logits->shape[d])
            return false;
    /* it is made just before the loss */
    return rank == label->rank && strcmp(label->name, "label") == 0 &&
           label->role == CAIRN_ROLE_LABEL && op->inputs[1] + 1 == op->outputs[0];
}

/* An input, label or parameter as a line. */
static cairn_status add_tensor(source *s, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(s->graphs[0], t);
    crn_item item = {.name = tensor->name, .kind = crn_role_name(tensor->role)};
    cairn_text text;
    crn_text_init(&text, &s->items.scratch->allocator);
    bool whole = true;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        const char *value = extent(s, t, d);
        whole &= value != NULL;
        crn_text_printf(&text, "%s%s", d > 0 ? "," : "", value == NULL ? "" : value);
    }
    CRN_TRY(crn_text_finish(&text));
    const char *shape = whole ? crn_arena_string(s->items.scratch, text.data) : NULL;
    cairn_text_release(&text);
    CRN_TRY(add_pair(s, &item, "shape", shape));
    if (tensor->role == CAIRN_ROLE_INPUT && tensor->dtype == CAIRN_DTYPE_I32)
        CRN_TRY(add_pair(s, &item, "dtype", "i32"));
    CRN_PUSH(s->items.scratch, s->items.list, item);
    return CAIRN_OK;
}

/* ---- Layers ---- */

static cairn_status add_layer(source *s, const cairn_op *op, bool usual, bool own_label) {
    const crn_layer *layer = crn_layer_of(crn_op_kinds[op->kind].name);
    crn_item item = {.name = op->name, .kind = crn_op_kinds[op->kind].name, .chains = true};
    if (usual)
        CRN_TRY(add_sizes(s, op, layer, &item));
    else
        CRN_TRY(name_params(s, op, &item));
    CRN_TRY(add_attributes(s, op, &item));
    if (usual && layer->optional && op->param_count < layer->count)
        CRN_TRY(add_pair(s, &item, layer->params[layer->count - 1].suffix, "no"));
    item.read_count = op->input_count - (own_label ? 1 : 0);
    CRN_TAKE(s->items.scratch, item.reads, item.read_count);
    for (uint32_t i = 0; i < item.read_count; i++)
        item.reads[i] = cairn_graph_tensor(s->graphs[0], op->inputs[i])->name;
    CRN_PUSH(s->items.scratch, s->items.list, item);
    return CAIRN_OK;
}

/* Tensors from `*next` up to the outputs of the op that the op's line does not make. */
static cairn_status add_given(source *s, const cairn_op *op, bool usual, bool own_label,
                              cairn_id *next) {
    for (; *next < op->outputs[0]; (*next)++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s->graphs[0], *next);
        bool mine = false;
        for (uint32_t i = 0; usual && i < op->param_count; i++)
            mine |= op->params[i] == *next;
        mine |= own_label && op->inputs[1] == *next;
        mine |= s->has_input && strcmp(tensor->name, "input") == 0;
        if (!mine && tensor->producer == CAIRN_NONE)
            CRN_TRY(add_tensor(s, *next));
    }
    return CAIRN_OK;
}

static cairn_status add_layers(source *s) {
    const cairn_graph *g = s->graphs[0];
    cairn_id next = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(g); o++) {
        const cairn_op *op = cairn_graph_op(g, o);
        const crn_op_kind *kind = &crn_op_kinds[op->kind];
        const crn_layer *layer = crn_layer_of(kind->name);
        if (op->phase != CAIRN_PHASE_FORWARD || op->kind == CAIRN_OP_OPAQUE)
            return crn_fail_at(s->err, CAIRN_EINVAL, op->name,
                               "op \"%s\" (%s) cannot be written as a layer", op->name, kind->name);
        bool usual = has_usual(s, op, layer), own_label = is_usual_label(s, op, layer);
        CRN_TRY(add_given(s, op, usual, own_label, &next));
        CRN_TRY(add_layer(s, op, usual, own_label));
    }
    return CAIRN_OK;
}

/* ---- The text ---- */

/* "input 3x32x32", where the network begins with images or rows of that name. */
static cairn_status write_input(source *s) {
    const cairn_tensor *input = cairn_graph_tensor(s->graphs[0], 0);
    const char *first = extent(s, 0, 0);
    if (first == NULL)
        return CAIRN_ENOMEM;
    s->has_input = input->role == CAIRN_ROLE_INPUT && strcmp(input->name, "input") == 0 &&
                   input->dtype == CAIRN_DTYPE_F32 && input->rank >= 2 &&
                   strcmp(first, "batch") == 0;
    if (!s->has_input)
        return CAIRN_OK;
    crn_text_printf(s->items.out, "input ");
    for (uint32_t d = 1; d < input->rank; d++)
        crn_text_printf(s->items.out, "%s%u", d > 1 ? "x" : "", input->shape[d]);
    crn_text_printf(s->items.out, "\n");
    return CAIRN_OK;
}

static cairn_status write_source(source *s) {
    crn_text_printf(s->items.out, "network %s\n", cairn_graph_name(s->graphs[0]));
    if (cairn_graph_tensor_count(s->graphs[0]) > 0)
        CRN_TRY(write_input(s));
    if (s->size->classes > 0)
        crn_text_printf(s->items.out, "classes %u\n", s->size->classes);
    crn_text_printf(s->items.out, "\n");
    CRN_TRY(add_layers(s));
    return crn_items_write(&s->items, s->has_input ? "input" : NULL);
}

/* The same network in another size, or NULL: it has only one. */
static cairn_status open_other(const cairn_allocator *allocator, const char *model,
                               cairn_zoo_options size, const cairn_graph *like, cairn_graph **out) {
    cairn_status status = cairn_model_open(allocator, model, &size, out, NULL);
    if (status == CAIRN_OK && (cairn_graph_op_count(*out) != cairn_graph_op_count(like) ||
                               cairn_graph_tensor_count(*out) != cairn_graph_tensor_count(like))) {
        cairn_graph_destroy(*out);
        *out = NULL;
    }
    return status == CAIRN_ENOMEM ? status : CAIRN_OK;
}

cairn_status cairn_model_source(const cairn_allocator *allocator, const char *model,
                                const cairn_zoo_options *given, cairn_text *out, cairn_error *err) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *graphs[3] = {NULL, NULL, NULL};
    crn_arena scratch;
    cairn_allocator from = crn_allocator_or_default(allocator);
    crn_text_init(out, allocator);
    CRN_READ_OPTIONS(cairn_zoo_options, size, given, err);
    CRN_TRY(cairn_model_open(allocator, model, &size, &graphs[0], err));
    cairn_zoo_options classes = size, batch = size;
    classes.classes++;
    batch.batch++;
    cairn_status status = CAIRN_OK;
    if (cairn_model_importer(model)->sized && size.classes > 0)
        status = open_other(allocator, model, classes, graphs[0], &graphs[1]);
    if (status == CAIRN_OK && cairn_model_importer(model)->sized)
        status = open_other(allocator, model, batch, graphs[0], &graphs[2]);
    crn_arena_init(&scratch, &from);
    source s = {.graphs = {graphs[0], graphs[1], graphs[2]},
                .items = {.scratch = &scratch, .out = out},
                .size = &size,
                .err = err};
    if (status == CAIRN_OK)
        status = write_source(&s);
    crn_arena_release(&scratch);
    for (int g = 0; g < 3; g++)
        cairn_graph_destroy(graphs[g]);
    if (status == CAIRN_OK)
        status = crn_text_finish(out);
    else
        cairn_text_release(out);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
