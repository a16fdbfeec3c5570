/* network_file.c: imports network files, docs/network-format.md.
 *
 *     network digits              lines -> words -> layers of a builder
 *     input 1x8x8
 *     block stage channels        a block is a range of lines; a line that names it builds them
 *         conv conv2d channels=channels kernel=3 pad=1
 *     end
 *     stage.{1..2} stage channels=8
 *
 * A layer reads the one before it unless `from` says otherwise. Names in a block begin with the
 * name of the line that uses it. */
#include "import/network_words.h"
#include "graph/crn_graph.h"

#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_BATCH 32

/* ---- Layers ---- */

static cairn_status check_once(crn_net *n) {
    for (uint32_t i = 2; i < n->at->count; i++) {
        const char *word = n->at->words[i];
        size_t length = strcspn(word, "=") + 1;
        for (uint32_t k = 2; k < i && word[length - 1] == '='; k++)
            if (strncmp(n->at->words[k], word, length) == 0)
                return crn_net_wrong(n, "%.*s is given twice",
                                     (int)CRN_MIN(length - 1, CRN_NET_LONGEST), word);
    }
    return CAIRN_OK;
}

/* A word that nothing reads is a spelling error. */
static cairn_status check_words(crn_net *n, const crn_layer *layer, uint32_t attributes) {
    for (uint32_t i = 2; i < n->at->count; i++) {
        const char *word = n->at->words[i];
        size_t length = strcspn(word, "=");
        bool known = word[length] == '=' && ((length == 4 && memcmp(word, "from", 4) == 0) ||
                                             (length == 6 && memcmp(word, "params", 6) == 0));
        const char *keys[] = {layer->size, layer->rows ? "rows" : NULL,
                              layer->optional ? layer->params[layer->count - 1].suffix : NULL};
        for (size_t k = 0; k < CRN_LENGTH(keys); k++)
            known |= keys[k] != NULL && strlen(keys[k]) == length &&
                     memcmp(keys[k], word, length) == 0 && word[length] == '=';
        for (size_t k = 0; k < crn_attribute_count; k++)
            known |= (attributes & crn_attribute_list[k].bit) != 0 && word[length] == '=' &&
                     strlen(crn_attribute_list[k].name) == length &&
                     memcmp(crn_attribute_list[k].name, word, length) == 0;
        if (!known)
            return crn_net_wrong(n, "\"%s\" means nothing to a %s", word, n->at->words[1]);
    }
    return CAIRN_OK;
}

static cairn_status read_attribute(crn_net *n, const crn_net_scope *s, const crn_attribute *a,
                                   cairn_attributes *out) {
    char *field = (char *)out + a->offset;
    const char *text = crn_net_given(n, s, a->name);
    if (text == NULL) {
        if (crn_layer_default(n->at->words[1], a, out))
            return CAIRN_OK;
        return crn_net_wrong(n, "a %s needs %s=...", n->at->words[1], a->name);
    }
    if (a->count == 0) {
        char *end;
        double real = strtod(text, &end);
        if (end == text || *end != '\0')
            return crn_net_wrong(n, "%s must be a number, not \"%s\"", a->name, text);
        memcpy(field, &real, sizeof real);
        return CAIRN_OK;
    }
    int64_t values[4];
    uint32_t count = crn_net_values(n, s, text, values, a->count);
    bool fits = count == 1 || count == a->count || (a->count == 4 && count == 2);
    static const char *const flags[] = {"causal", "tanh", "same_row", "count_padding"};
    for (size_t i = 0; i < CRN_LENGTH(flags); i++)
        if (strcmp(a->name, flags[i]) == 0 && (count != 1 || values[0] < 0 || values[0] > 1))
            return crn_net_wrong(n, "%s must be yes or no, not \"%s\"", a->name, text);
    for (uint32_t i = 0; i < a->count && fits; i++) {
        int32_t whole = (int32_t)values[i % count]; /* top, left, bottom, right */
        fits = values[i % count] >= INT32_MIN && values[i % count] <= INT32_MAX;
        memcpy(field + i * sizeof whole, &whole, sizeof whole);
    }
    return fits ? CAIRN_OK
                : crn_net_wrong(n, "%s must be %s, not \"%s\"", a->name,
                                a->count == 1   ? "a whole number"
                                : a->count == 2 ? "one or two whole numbers"
                                                : "one, two or four whole numbers",
                                text);
}

static cairn_id add_tensor(crn_net *n, const char *name, cairn_role role, cairn_dtype dtype,
                           uint32_t rank, const uint32_t *shape) {
    cairn_tensor tensor = CAIRN_TENSOR_INIT;
    tensor.name = name;
    tensor.role = role;
    tensor.dtype = dtype;
    tensor.rank = rank;
    memcpy(tensor.shape, shape, rank * sizeof *shape);
    return cairn_builder_tensor(n->builder, &tensor);
}

/* The parameters that the layer's kind says. */
static cairn_status make_params(crn_net *n, const crn_net_scope *s, const crn_layer *layer,
                                const char *name, const cairn_tensor *x,
                                const cairn_attributes *attributes, cairn_id *params,
                                uint32_t *count) {
    uint32_t size = 0, rows = 0;
    int64_t wanted = 1;
    if (layer->size != NULL)
        CRN_TRY(crn_net_size(n, s, layer->size, &size));
    if (layer->rows)
        CRN_TRY(crn_net_size(n, s, "rows", &rows));
    if ((layer->size != NULL && size == 0) || (layer->rows && rows == 0))
        return crn_net_wrong(n, "a %s needs %s=...", n->at->words[1],
                             size == 0 ? layer->size : "rows");
    const char *last = layer->count > 0 ? layer->params[layer->count - 1].suffix : NULL;
    if (layer->optional && crn_net_given(n, s, last) != NULL &&
        crn_net_values(n, s, crn_net_given(n, s, last), &wanted, 1) != 1)
        return crn_net_wrong(n, "%s must be yes or no", last);
    *count = layer->count - (wanted == 0);
    for (uint32_t i = 0; i < *count; i++) {
        const crn_layer_param *p = &layer->params[i];
        uint32_t shape[CAIRN_MAX_RANK];
        const char *stem, *full;
        CRN_TRY(crn_net_join(n, name, ".", &stem));
        CRN_TRY(crn_net_join(n, stem, p->suffix, &full));
        bool made = crn_layer_shape(p, x, attributes, size, rows, shape);
        if (!made && attributes->groups > 1 && x->rank > 1)
            return crn_net_wrong(n, "%s has %d groups, and reads %u channel%s", name,
                                 (int)attributes->groups, x->shape[1], x->shape[1] == 1 ? "" : "s");
        if (!made)
            return crn_net_wrong(n, "%s reads a tensor of %u dimension%s, which has no channels",
                                 name, x->rank, x->rank == 1 ? "" : "s");
        params[i] = add_tensor(n, full, p->role, CAIRN_DTYPE_F32, p->rank, shape);
        CRN_TRY(crn_net_remember(n, full, params[i])); /* another layer may share it */
    }
    return CAIRN_OK;
}

/* A loss without labels gets them: "label", of the logits' shape without the classes. */
static cairn_status make_label(crn_net *n, const crn_layer *layer, cairn_id logits, cairn_id *out) {
    cairn_tensor x = crn_builder_peek(n->builder, logits);
    uint32_t shape[CAIRN_MAX_RANK], rank = 0;
    uint32_t drop = layer->label < 0 ? x.rank - 1 : (uint32_t)layer->label;
    if (x.rank < 2)
        return crn_net_wrong(n, "%s reads [N, classes], not a tensor of %u dimensions",
                             n->at->words[1], x.rank);
    for (uint32_t i = 0; i < x.rank; i++)
        if (i != drop)
            shape[rank++] = x.shape[i];
    *out = add_tensor(n, "label", CAIRN_ROLE_LABEL, CAIRN_DTYPE_I32, rank, shape);
    return crn_net_remember(n, "label", *out);
}

/* What the layer reads. */
static cairn_status find_inputs(crn_net *n, const crn_net_scope *s, const crn_layer *layer,
                                const crn_op_kind *kind, cairn_id *inputs, uint32_t *count) {
    CRN_TRY(crn_net_tensors(n, s, "from", inputs, count));
    if (*count == 0 && s->last == CAIRN_NONE)
        return crn_net_wrong(n,
                             "there is no layer above that this one could read; begin with \"input "
                             "CHANNELSxHEIGHTxWIDTH\"");
    if (*count == 0)
        inputs[(*count)++] = s->last;
    if (layer->label != 0 && *count == 1)
        CRN_TRY(make_label(n, layer, inputs[0], &inputs[(*count)++]));
    if (*count < kind->least_inputs || *count > kind->most_inputs)
        return crn_net_wrong(n, "%s reads %u tensor%s, and here %u; say which with from=A,B",
                             kind->name, kind->least_inputs, kind->least_inputs == 1 ? "" : "s",
                             *count);
    return CAIRN_OK;
}

static cairn_status build_layer(crn_net *n, crn_net_scope *s, cairn_op_kind kind,
                                const char *name) {
    const crn_op_kind *facts = &crn_op_kinds[kind];
    const crn_layer *layer = crn_layer_of(facts->name);
    cairn_attributes attributes = CAIRN_ATTRIBUTES_INIT;
    cairn_id inputs[CRN_NET_MOST_OPERANDS], params[CRN_NET_MOST_OPERANDS];
    uint32_t input_count, param_count;
    CRN_TRY(check_words(n, layer, facts->attributes));
    for (size_t i = 0; i < crn_attribute_count; i++)
        if ((facts->attributes & crn_attribute_list[i].bit) != 0)
            CRN_TRY(read_attribute(n, s, &crn_attribute_list[i], &attributes));
    if (layer->label != 0 && crn_net_given(n, s, "smoothing") == NULL)
        attributes.smoothing = n->size->label_smoothing;
    CRN_TRY(find_inputs(n, s, layer, facts, inputs, &input_count));
    CRN_TRY(crn_net_tensors(n, s, "params", params, &param_count));
    cairn_tensor x = crn_builder_peek(n->builder, inputs[0]);
    if (param_count == 0 && crn_net_given(n, s, "params") == NULL)
        CRN_TRY(make_params(n, s, layer, name, &x, &attributes, params, &param_count));
    if (param_count < facts->least_params || param_count > facts->most_params)
        return crn_net_wrong(n, "a %s has %u parameters, and here %u; say which with params=A,B",
                             facts->name, facts->least_params, param_count);
    s->last =
        crn_build_op(n->builder, kind, name, input_count, inputs, param_count, params, &attributes);
    if (crn_builder_error(n->builder)->status == CAIRN_ENOMEM)
        return CAIRN_ENOMEM;
    if (s->last == CAIRN_NONE)
        return crn_net_wrong(n, "%s",
                             crn_builder_error(n->builder)->message[0] != '\0'
                                 ? crn_builder_error(n->builder)->message
                                 : "the layer cannot be built");
    return crn_net_remember(n, name, s->last);
}

/* NAME input|label|parameter shape=batch,3 dtype=i32 */
static cairn_status build_tensor(crn_net *n, crn_net_scope *s, cairn_role role, const char *name) {
    int64_t values[CAIRN_MAX_RANK];
    uint32_t shape[CAIRN_MAX_RANK];
    const char *text = crn_net_given(n, s, "shape"), *type = crn_net_given(n, s, "dtype");
    uint32_t rank = text == NULL ? 0 : crn_net_values(n, s, text, values, CAIRN_MAX_RANK);
    for (uint32_t i = 2; i < n->at->count; i++)
        if (strncmp(n->at->words[i], "shape=", 6) != 0 &&
            strncmp(n->at->words[i], "dtype=", 6) != 0)
            return crn_net_wrong(n, "\"%s\" means nothing to an %s", n->at->words[i],
                                 n->at->words[1]);
    bool whole = role == CAIRN_ROLE_LABEL || (type != NULL && strcmp(type, "i32") == 0);
    if (rank == 0)
        return crn_net_wrong(n, "an %s needs shape=A,B,... of at most %d numbers", n->at->words[1],
                             CAIRN_MAX_RANK);
    if (type != NULL && strcmp(type, "i32") != 0 && strcmp(type, "f32") != 0)
        return crn_net_wrong(n, "dtype must be f32 or i32, not \"%s\"", type);
    for (uint32_t i = 0; i < rank; i++) {
        if (values[i] < 1 || values[i] > UINT32_MAX)
            return crn_net_wrong(n, "a shape must be of numbers from 1 on, not \"%s\"", text);
        shape[i] = (uint32_t)values[i];
    }
    cairn_id made =
        add_tensor(n, name, role, whole ? CAIRN_DTYPE_I32 : CAIRN_DTYPE_F32, rank, shape);
    if (role == CAIRN_ROLE_INPUT)
        s->last = made;
    return crn_net_remember(n, name, made);
}

static cairn_status build_lines(crn_net *n, crn_net_scope *s, uint32_t first, uint32_t last);

static const crn_net_block *find_block(const crn_net *n, const char *name) {
    for (uint32_t i = 0; i < n->blocks.length; i++)
        if (strcmp(n->blocks.data[i].head->words[1], name) == 0)
            return &n->blocks.data[i];
    return NULL;
}

/* The values of a block's parameters: of this line, or their defaults. */
static cairn_status bind_values(crn_net *n, const crn_net_scope *s, const crn_net_block *b,
                                crn_net_binding *out) {
    const crn_net_line *head = b->head;
    for (uint32_t i = 2; i < head->count; i++) {
        size_t length = strcspn(head->words[i], "=");
        char key[CRN_NET_LONGEST + 1];
        snprintf(key, sizeof key, "%.*s", (int)length, head->words[i]);
        const char *text = crn_net_given(n, s, key);
        if (text == NULL && head->words[i][length] == '=')
            text = head->words[i] + length + 1;
        if (text == NULL)
            return crn_net_wrong(n, "block %s needs %s=...", head->words[1], key);
        const char *c = text;
        int64_t value;
        if (strpbrk(text, ".,") == NULL && crn_net_value(n, s, &c, &value) && *c == '\0') {
            char digits[24];
            snprintf(digits, sizeof digits, "%lld", (long long)value);
            text = crn_arena_string(n->scratch, digits);
        }
        out[i - 2] = (crn_net_binding){crn_arena_string(n->scratch, key), text};
        if (out[i - 2].name == NULL || text == NULL)
            return CAIRN_ENOMEM;
    }
    for (uint32_t i = 2; i < n->at->count; i++) {
        const char *word = n->at->words[i];
        size_t length = strcspn(word, "=");
        bool known = length == 4 && memcmp(word, "from", 4) == 0;
        for (uint32_t k = 2; k < head->count; k++)
            known |=
                strcspn(head->words[k], "=") == length && memcmp(head->words[k], word, length) == 0;
        if (!known || word[length] != '=')
            return crn_net_wrong(n, "\"%s\" means nothing to block %s", word, head->words[1]);
    }
    return CAIRN_OK;
}

static cairn_status build_block(crn_net *n, crn_net_scope *s, const crn_net_block *b,
                                const char *name) {
    crn_net_binding bindings[CRN_NET_MOST_WORDS];
    cairn_id from[CRN_NET_MOST_OPERANDS];
    uint32_t count;
    const crn_net_line *here = n->at;
    CRN_TRY(crn_net_tensors(n, s, "from", from, &count));
    if (count > 1)
        return crn_net_wrong(n, "a block reads one tensor");
    if (count == 0 && s->last == CAIRN_NONE)
        return crn_net_wrong(n, "there is no layer above that the block could read");
    CRN_TRY(bind_values(n, s, b, bindings));
    crn_net_scope inner = {.outer = s,
                           .in = count == 1 ? from[0] : s->last,
                           .bindings = bindings,
                           .count = b->head->count - 2};
    inner.last = inner.in;
    CRN_TRY(crn_net_join(n, name, ".", &inner.prefix));
    CRN_TRY(build_lines(n, &inner, b->first, b->last));
    n->at = here;
    s->last = inner.last;
    return crn_net_remember(n, name, inner.last);
}

/* One layer, tensor or use of a block, under its full name. */
static cairn_status build_one(crn_net *n, crn_net_scope *s, const char *local) {
    static const cairn_role roles[] = {CAIRN_ROLE_INPUT, CAIRN_ROLE_LABEL, CAIRN_ROLE_PARAMETER};
    const char *kind = n->at->words[1], *name;
    CRN_TRY(crn_net_join(n, s->prefix, local, &name));
    for (size_t i = 0; i < CRN_LENGTH(roles); i++)
        if (strcmp(kind, crn_role_names[roles[i]]) == 0)
            return build_tensor(n, s, roles[i], name);
    const crn_net_block *b = find_block(n, kind);
    if (b != NULL && b->last <= (uint32_t)(n->at - n->lines.data))
        return build_block(n, s, b, name);
    for (int k = 0; k < CAIRN_OP_KINDS; k++)
        if (strcmp(kind, crn_op_kinds[k].name) == 0 && strstr(kind, "_bwd") == NULL &&
            k != CAIRN_OP_OPAQUE && k != CAIRN_OP_ACCUMULATE)
            return build_layer(n, s, (cairn_op_kind)k, name);
    return crn_net_wrong(n, "\"%s\" is neither a kind of layer (docs/ops.md) nor a block above",
                         kind);
}

/* NAME, or NAME{1..3}: one for each number. */
static cairn_status build_line(crn_net *n, crn_net_scope *s) {
    const char *name = n->at->words[0], *brace = strchr(name, '{');
    unsigned first = 0, last = 0;
    int end = 0;
    if (n->at->count < 2)
        return crn_net_wrong(n, "\"%s\" is no layer: a line is NAME KIND KEY=VALUE ...", name);
    CRN_TRY(check_once(n));
    if (brace == NULL)
        return build_one(n, s, name);
    if (sscanf(brace, "{%u..%u}%n", &first, &last, &end) != 2 || end == 0 || last < first ||
        last - first >= CRN_NET_MOST_LAYERS)
        return crn_net_wrong(n, "\"%s\" must count as in layer{1..3}", name);
    for (unsigned i = first; i <= last; i++) {
        char local[CRN_NET_LONGEST + 1];
        if (snprintf(local, sizeof local, "%.*s%u%s", (int)(brace - name), name, i, brace + end) >
            CRN_NET_LONGEST)
            return crn_net_wrong(n, "a name is longer than %d characters", CRN_NET_LONGEST);
        CRN_TRY(build_one(n, s, local));
    }
    return CAIRN_OK;
}

/* ---- The file ---- */

/* input 3x32x32: the samples; --input may say another size. */
static cairn_status read_input(crn_net *n, crn_net_scope *s) {
    uint32_t shape[CAIRN_MAX_RANK] = {n->size->batch}, rank = 1;
    const char *text = n->at->count == 2 ? n->at->words[1] : "";
    while (rank < CAIRN_MAX_RANK) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || value < 1 || value > 1000000)
            return crn_net_wrong(n, "input must be a size such as 3x32x32");
        shape[rank++] = (uint32_t)value;
        if (*end == '\0')
            break;
        if (*end != 'x' || rank == CAIRN_MAX_RANK)
            return crn_net_wrong(n, "input must be a size such as 3x32x32");
        text = end + 1;
    }
    n->takes_input = rank <= 4;
    if (n->size->input[0] > 0 && rank <= 4)
        for (uint32_t i = 0; i + 1 < rank; i++)
            shape[i + 1] = n->size->input[i] > 0 ? n->size->input[i] : shape[i + 1];
    for (uint32_t i = 0; i < 3; i++)
        n->size->input[i] = i + 1 < rank ? shape[i + 1] : 0;
    s->last = add_tensor(n, "input", CAIRN_ROLE_INPUT, CAIRN_DTYPE_F32, rank, shape);
    return crn_net_remember(n, "input", s->last);
}

static cairn_status read_classes(crn_net *n) {
    for (const crn_net_line *l = n->lines.data; l < n->at; l++)
        if (strcmp(l->words[0], "classes") == 0 && l->count == 2)
            return crn_net_wrong(n, "there is a line \"classes\" already");
    char *end = NULL;
    unsigned long value = n->at->count == 2 ? strtoul(n->at->words[1], &end, 10) : 0;
    if (end == NULL || *end != '\0' || value < 1 || value > 1000000000)
        return crn_net_wrong(n, "classes must be a number from 1 on");
    n->takes_classes = true;
    if (n->size->classes == 0)
        n->size->classes = (uint32_t)value;
    return CAIRN_OK;
}

/* block NAME ... end: note the lines, which are built where the block is used. */
static cairn_status read_block(crn_net *n, uint32_t *at, uint32_t last) {
    crn_net_block b = {.head = n->at, .first = *at + 1};
    if (n->at->count < 2 || find_block(n, n->at->words[1]) != NULL)
        return crn_net_wrong(n, n->at->count < 2 ? "a block needs a name"
                                                 : "there is a block of that "
                                                   "name already");
    for (b.last = b.first; b.last < last; b.last++) {
        const char *word = n->lines.data[b.last].words[0];
        if (strcmp(word, "block") == 0)
            break;
        if (strcmp(word, "end") == 0) {
            *at = b.last;
            CRN_PUSH(n->scratch, n->blocks, b);
            return CAIRN_OK;
        }
    }
    return crn_net_wrong(n, "the block has no \"end\"");
}

static cairn_status build_lines(crn_net *n, crn_net_scope *s, uint32_t first, uint32_t last) {
    bool top = s->outer == NULL;
    for (uint32_t i = first; i < last; i++) {
        n->at = &n->lines.data[i];
        const char *word = n->at->words[0];
        if (top && strcmp(word, "input") == 0 && n->at->count == 2)
            CRN_TRY(read_input(n, s));
        else if (top && strcmp(word, "classes") == 0)
            CRN_TRY(read_classes(n));
        else if (top && strcmp(word, "block") == 0)
            CRN_TRY(read_block(n, &i, last));
        else
            CRN_TRY(build_line(n, s));
    }
    return CAIRN_OK;
}

/* What was asked for must have been used. */
static cairn_status check_sizes(crn_net *n, const cairn_zoo_options *asked) {
    n->at = NULL;
    if (asked->input[0] > 0 && !n->takes_input)
        return crn_net_wrong(n, "it has no line \"input ...\" whose size could be changed");
    if (asked->classes > 0 && !n->takes_classes)
        return crn_net_wrong(n, "it has no line \"classes N\" that could be changed");
    if (asked->steps > 0)
        return crn_net_wrong(n, "it has no number of steps that could be changed");
    return CAIRN_OK;
}

/* The graph as a whole is checked last: say on which line the name stands that it found wrong. */
static cairn_status finish(crn_net *n, cairn_graph **out) {
    cairn_error *err = n->err;
    cairn_status status = cairn_builder_finish(n->builder, out, err);
    for (uint32_t i = n->named.length; status == CAIRN_EINVAL && err != NULL && i-- > 0;)
        if (err->name[0] != '\0' && strcmp(n->named.data[i].name, err->name) == 0) {
            crn_copy_string(err->file, sizeof err->file, n->file);
            err->line = n->named.data[i].line;
            break;
        }
    return status;
}

static cairn_status build_network(crn_net *n, const cairn_allocator *allocator, char *text,
                                  cairn_graph **out) {
    cairn_zoo_options asked = *n->size;
    crn_net_scope top = {.prefix = "", .in = CAIRN_NONE, .last = CAIRN_NONE};
    CRN_TRY(
        crn_net_split(n, text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0))); /* of Windows */
    n->at = n->lines.length > 0 ? &n->lines.data[0] : NULL;
    if (n->at == NULL || n->at->count != 2 || strcmp(n->at->words[0], "network") != 0)
        return crn_net_wrong(n, "the first line must be \"network NAME\"");
    if (n->size->batch == 0)
        n->size->batch = DEFAULT_BATCH;
    CRN_TRY(cairn_builder_create(allocator, n->at->words[1], &n->builder));
    CRN_TRY(build_lines(n, &top, 1, n->lines.length));
    CRN_TRY(check_sizes(n, &asked));
    return finish(n, out);
}

cairn_status crn_network_from_text(const cairn_allocator *allocator, const char *text,
                                   size_t length, const char *file, cairn_zoo_options *size,
                                   cairn_graph **out, cairn_error *err) {
    crn_arena scratch;
    cairn_allocator from = crn_allocator_or_default(allocator);
    *out = NULL;
    crn_arena_init(&scratch, &from);
    crn_net n = {.scratch = &scratch, .size = size, .file = file, .err = err};
    char *copy = crn_arena_take(&scratch, length + 1, 1);
    cairn_status status = CAIRN_ENOMEM;
    if (copy != NULL) {
        memcpy(copy, text, length);
        status = strlen(copy) == length ? build_network(&n, allocator, copy, out)
                                        : crn_net_wrong(&n, "it has a NUL character");
    }
    cairn_builder_destroy(n.builder);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_import_network(const cairn_allocator *allocator, const char *model,
                                cairn_zoo_options *size, cairn_graph **out, cairn_error *err) {
    cairn_text text;
    CRN_TRY(cairn_text_load(allocator, model, &text, err));
    cairn_status status =
        crn_network_from_text(allocator, text.data, text.length, model, size, out, err);
    cairn_text_release(&text);
    return status;
}
