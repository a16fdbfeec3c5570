/* weights_forms.c: parameters that files have in another form than networks.
 *
 *     network                                  file, as Hugging Face's models save it
 *     self_attn.qkv_proj.weight [Q+K+V, D]     q_proj.weight [Q, D], k_proj.weight, v_proj.weight
 *     mlp.gate_up_proj.weight [2F, D]          gate_proj.weight [F, D], up_proj.weight
 *     transformer.h.0.mlp.c_fc.weight [O, I]   the same name, [I, O]
 *     class_token [D]                          the same name, [1, 1, D]
 *
 * Which form a parameter has follows from its name alone, so that what is saved can be loaded. How
 * many rows belong to queries is known from the attention that reads the product. */
#include "base/names.h"
#include "graph/crn_graph.h"
#include "weights/weights_internal.h"

#include <stdio.h>

#define MOST_NAME 256

/* ---- Which form ---- */

static const struct packing {
    const char *module;
    const char *names[CRN_MOST_PACKED];
} packings[] = {
    {".qkv_proj.", {"q_proj", "k_proj", "v_proj"}},
    {".gate_up_proj.", {"gate_proj", "up_proj", NULL}},
    {".qkv.", {"query", "key", "value"}}, /* BERT */
};

/* The heads of the attention that reads the product with a parameter; false: there is none. */
static bool find_heads(const cairn_graph *graph, cairn_id parameter, uint64_t *heads,
                       uint64_t *kv_heads) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        bool uses = false;
        for (uint32_t i = 0; i < op->param_count && op->kind == CAIRN_OP_LINEAR; i++)
            uses = uses || op->params[i] == parameter;
        if (!uses)
            continue;
        uint32_t count;
        const cairn_id *readers = crn_graph_readers(graph, op->outputs[0], &count);
        for (uint32_t i = 0; i < count; i++) {
            const cairn_op *reader = cairn_graph_op(graph, readers[i]);
            *heads = (uint64_t)reader->attributes.heads;
            *kv_heads = (uint64_t)reader->attributes.kv_heads;
            if (reader->kind == CAIRN_OP_ROTARY || reader->kind == CAIRN_OP_ATTENTION)
                return true;
        }
    }
    return false;
}

/* The rows of each member. */
static bool split_rows(const cairn_graph *graph, cairn_id tensor, crn_form *form) {
    uint64_t rows = cairn_graph_tensor(graph, tensor)->shape[0], heads, kv_heads;
    if (form->names[2] == NULL) {
        form->count = 2;
        form->rows[0] = form->rows[1] = rows / 2;
        return rows % 2 == 0;
    }
    if (!find_heads(graph, tensor, &heads, &kv_heads))
        return false;
    uint64_t size = rows / (heads + 2 * kv_heads);
    form->count = 3;
    form->rows[0] = heads * size;
    form->rows[1] = form->rows[2] = kv_heads * size;
    return form->rows[0] + 2 * form->rows[1] == rows;
}

/* GPT-2's layers store their weights as inputs by outputs. */
static bool is_transposed(const cairn_tensor *tensor) {
    static const char *const ends[] = {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"};
    for (size_t i = 0; i < CRN_LENGTH(ends); i++)
        if (tensor->rank == 2 && crn_begins(tensor->name, "transformer.h.") &&
            crn_ends(tensor->name, ends[i]))
            return true;
    return false;
}

/* Vision transformers have a class token and positions for every image of a batch alike. */
static uint32_t count_ones(const cairn_tensor *tensor) {
    static const struct {
        const char *end;
        uint32_t rank;
    } known[] = {{"class_token", 1},
                 {"cls_token", 1}, /* torchvision; timm, Hugging Face */
                 {"pos_embedding", 2},
                 {"pos_embed", 2},
                 {"position_embeddings", 2}};
    for (size_t i = 0; i < CRN_LENGTH(known); i++)
        if (tensor->rank == known[i].rank && crn_ends(tensor->name, known[i].end))
            return 3 - tensor->rank;
    return 0;
}

bool crn_form_of(const cairn_graph *graph, cairn_id tensor, crn_form *out) {
    const cairn_tensor *t = cairn_graph_tensor(graph, tensor);
    *out = (crn_form){.count = 1};
    if (t->role != CAIRN_ROLE_PARAMETER || t->dtype != CAIRN_DTYPE_F32 || t->rank < 1 ||
        t->rank > 2 || strlen(t->name) >= MOST_NAME - 8)
        return false;
    out->transposed = is_transposed(t);
    out->ones = count_ones(t);
    for (size_t i = 0; i < CRN_LENGTH(packings); i++) {
        const char *module = strstr(t->name, packings[i].module);
        if (module == NULL)
            continue;
        out->before = (size_t)(module - t->name) + 1;
        out->after = module + strlen(packings[i].module);
        memcpy(out->names, packings[i].names, sizeof out->names);
        return split_rows(graph, tensor, out);
    }
    return out->transposed || out->ones > 0;
}

/* The name that a member has in a file. */
static void name_packed(const cairn_tensor *t, const crn_form *form, uint32_t member,
                        char out[MOST_NAME]) {
    if (form->count == 1)
        snprintf(out, MOST_NAME, "%s", t->name);
    else
        snprintf(out, MOST_NAME, "%.*s%s.%s", (int)form->before, t->name, form->names[member],
                 form->after);
}

/* A member as a file has it, all but its data; `rows` before it in the network's tensor. */
static cairn_named_tensor describe_packed(const cairn_tensor *t, const crn_form *form,
                                          uint32_t member, const char *name) {
    cairn_named_tensor d = crn_weight_described(t);
    d.name = name;
    if (form->count > 1)
        d.shape[0] = form->rows[member];
    d.bytes = d.shape[0] * (t->bytes / t->shape[0]);
    if (form->transposed) {
        d.shape[0] = t->shape[1];
        d.shape[1] = t->shape[0];
    }
    for (uint32_t i = 0; i < form->ones; i++, d.rank++) {
        memmove(d.shape + 1, d.shape, d.rank * sizeof *d.shape);
        d.shape[0] = 1;
    }
    return d;
}

void crn_transpose(const float *from, float *to, uint64_t rows, uint64_t columns) {
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
}

/* ---- Saving ---- */

cairn_status crn_form_saved(const cairn_graph *graph, cairn_id tensor, const crn_form *form,
                            uint32_t member, crn_arena *arena, crn_saved_tensor *out) {
    const cairn_tensor *t = cairn_graph_tensor(graph, tensor);
    char name[MOST_NAME];
    name_packed(t, form, member, name);
    const char *kept = crn_arena_string(arena, name);
    if (kept == NULL)
        return CAIRN_ENOMEM;
    *out = (crn_saved_tensor){.as = describe_packed(t, form, member, kept),
                              .from = tensor,
                              .whole = t->bytes,
                              .columns = form->transposed ? t->shape[1] : 0};
    for (uint32_t i = 0; i < member; i++)
        out->offset += form->rows[i] * (t->bytes / t->shape[0]);
    return CAIRN_OK;
}

/* ---- Loading ---- */

typedef struct gathering {
    const cairn_graph *graph;
    const cairn_named_tensor *given;
    uint32_t count;
    crn_names names; /* of the file */
    bool *used;
    crn_arena *arena;
    cairn_error *err;
} gathering;

/* A tensor of the file, also without the name of GPT-2's outer module. CAIRN_NONE: there is none.
 */
static uint32_t find_given(const gathering *g, const char *name) {
    uint32_t found = crn_names_find(&g->names, name);
    if (found == CRN_NO_NAME && crn_begins(name, "transformer."))
        found = crn_names_find(&g->names, name + strlen("transformer."));
    return found;
}

static cairn_status check_packed(const gathering *g, const cairn_named_tensor *wanted,
                                 const cairn_named_tensor *found) {
    uint32_t ones = 0; /* which a file may leave out */
    while (ones < wanted->rank && wanted->shape[ones] == 1 && found->rank + ones < wanted->rank)
        ones++;
    bool fits = found->rank + ones == wanted->rank &&
                memcmp(found->shape, wanted->shape + ones, found->rank * sizeof *found->shape) == 0;
    if (!fits || !crn_can_convert(found->element, CAIRN_ELEMENT_F32))
        return crn_fail_at(g->err, CAIRN_EINVAL, found->name,
                           "%.120s does not have the shape or the elements that %.60s expects",
                           found->name, cairn_graph_name(g->graph));
    return CAIRN_OK;
}

/* Copy a member into its place of the network's tensor. */
static cairn_status place_packed(const gathering *g, const cairn_tensor *t, const crn_form *form,
                                 const cairn_named_tensor *found, float *to) {
    uint64_t elements = found->bytes / crn_element_bytes(found->element);
    float *plain = to;
    if (form->transposed)
        CRN_TAKE(g->arena, plain, (size_t)elements);
    if (found->element == CAIRN_ELEMENT_F32)
        memcpy(plain, found->data, found->bytes);
    else
        crn_convert(found, plain);
    if (form->transposed)
        crn_transpose(plain, to, t->shape[1], t->shape[0]);
    return CAIRN_OK;
}

/* Make a tensor of the network out of its members; false: the file lacks one. */
static cairn_status gather(gathering *g, cairn_id tensor, const crn_form *form,
                           cairn_named_tensor *out, bool *made) {
    const cairn_tensor *t = cairn_graph_tensor(g->graph, tensor);
    uint32_t at[CRN_MOST_PACKED];
    char name[MOST_NAME];
    *made = false;
    for (uint32_t i = 0; i < form->count; i++) {
        name_packed(t, form, i, name);
        at[i] = find_given(g, name);
        if (at[i] == CRN_NO_NAME)
            return CAIRN_OK;
        cairn_named_tensor wanted = describe_packed(t, form, i, name);
        CRN_TRY(check_packed(g, &wanted, &g->given[at[i]]));
    }
    float *data, *to;
    CRN_TAKE(g->arena, data, (size_t)(t->bytes / sizeof *data));
    to = data;
    for (uint32_t i = 0; i < form->count; i++) {
        CRN_TRY(place_packed(g, t, form, &g->given[at[i]], to));
        to += g->given[at[i]].bytes / crn_element_bytes(g->given[at[i]].element);
        g->used[at[i]] = true;
    }
    *out = crn_weight_described(t);
    out->data = data;
    *made = true;
    return CAIRN_OK;
}

static cairn_status open_names(gathering *g) {
    CRN_TAKE(g->arena, g->used, g->count);
    CRN_TRY(crn_names_init(&g->names, g->arena, g->count));
    for (uint32_t i = 0; i < g->count; i++)
        crn_names_add(&g->names, g->given[i].name, i);
    return CAIRN_OK;
}

cairn_status crn_forms_gather(const cairn_graph *graph, crn_arena *arena,
                              const cairn_named_tensor **tensors, uint32_t *count,
                              cairn_error *err) {
    gathering g = {.graph = graph, .given = *tensors, .count = *count, .arena = arena, .err = err};
    uint32_t weights = cairn_graph_tensor_count(graph), length = 0;
    cairn_named_tensor *list;
    CRN_TRY(open_names(&g));
    CRN_TAKE(arena, list, (size_t)g.count + weights);
    for (cairn_id t = 0; t < weights; t++) {
        crn_form form;
        bool made = false;
        if (crn_form_of(graph, t, &form))
            CRN_TRY(gather(&g, t, &form, &list[length], &made));
        length += made;
    }
    for (uint32_t i = 0; i < g.count; i++)
        if (!g.used[i])
            list[length++] = g.given[i];
    *tensors = list;
    *count = length;
    return CAIRN_OK;
}
