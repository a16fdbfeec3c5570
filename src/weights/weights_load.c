/* weights_load.c: a safetensors file becomes the parameters and state of an executor.
 *
 * First every name of the file is matched with a tensor of the network, then kinds of elements and
 * shapes are compared, and only if all match is anything written. */
#include "base/names.h"
#include "graph/crn_graph.h"
#include "weights/weights_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* How often something was seen, and where first. */
typedef struct sightings {
    uint32_t count;
    const char *first;
} sightings;

static void see(sightings *of, const char *name) {
    if (of->count++ == 0)
        of->first = name;
}

typedef struct loading {
    const cairn_graph *graph;
    const cairn_named_tensor *given;
    uint32_t given_count;
    crn_arena scratch;
    crn_names names;                 /* of the network's parameters and state */
    const cairn_named_tensor **from; /* per tensor of the network */
    float *room;                     /* for the largest whose elements become F32 */
    uint32_t weights;                /* how many there are */
    sightings missing, foreign, auxiliary, prefixed, renamed, converted;
    cairn_error *err;
} loading;

/* ---- Names ---- */

/* What PyTorch's wrappers put in front of a name: DataParallel and compile(). */
static const char *without_prefix(const char *name) {
    for (;;) {
        if (crn_begins(name, "module."))
            name += strlen("module.");
        else if (crn_begins(name, "_orig_mod."))
            name += strlen("_orig_mod.");
        else
            return name;
    }
}

/* Early files of DenseNet have denselayer1.norm.1.weight; the name is denselayer1.norm1.weight now.
 * Returns the additional dot, or NULL. */
static const char *extra_dot(const char *name) {
    const char *layer = strstr(name, "denselayer");
    for (const char *at = layer; at != NULL && *at != '\0'; at++)
        if ((crn_begins(at, ".norm.") || crn_begins(at, ".conv.")) &&
            (at[6] == '1' || at[6] == '2') && at[7] == '.')
            return at + 5;
    return NULL;
}

/* Files of GPT-2 without its head have names without that of the outer module. */
static cairn_id find_inside(const loading *l, const char *name) {
    static const char outer[] = "transformer.";
    char full[256];
    snprintf(full, sizeof full, "%s%.200s", outer, name);
    return crn_names_find(&l->names, full);
}

/* The tensor of the network that a name of the file stands for, or CAIRN_NONE. */
static cairn_status find_weight(loading *l, const char *name, cairn_id *out) {
    *out = crn_names_find(&l->names, name);
    if (*out == CAIRN_NONE)
        *out = find_inside(l, name);
    if (*out != CAIRN_NONE)
        return CAIRN_OK;
    const char *bare = without_prefix(name), *dot = extra_dot(bare);
    if (dot != NULL) {
        char *modern;
        CRN_TAKE(&l->scratch, modern, strlen(bare));
        memcpy(modern, bare, (size_t)(dot - bare));
        memcpy(modern + (dot - bare), dot + 1, strlen(dot + 1));
        *out = crn_names_find(&l->names, modern);
    } else if (bare != name) {
        *out = crn_names_find(&l->names, bare);
    }
    if (*out != CAIRN_NONE && bare != name)
        see(&l->prefixed, name);
    if (*out != CAIRN_NONE && dot != NULL)
        see(&l->renamed, name);
    return CAIRN_OK;
}

/* Whether a tensor is the head of a network whose head is a parameter with another name, and has
 * that parameter's elements. */
static bool is_tied_head(const loading *l, const cairn_named_tensor *tensor) {
    cairn_id head = crn_graph_find_op(l->graph, "lm_head");
    if (strcmp(tensor->name, "lm_head.weight") != 0 || head == CAIRN_NONE)
        return false;
    cairn_id weight = cairn_graph_op(l->graph, head)->params[0];
    const char *name = cairn_graph_tensor(l->graph, weight)->name;
    for (uint32_t i = 0; i < l->given_count; i++)
        if (strcmp(l->given[i].name, name) == 0)
            return l->given[i].bytes == tensor->bytes &&
                   memcmp(l->given[i].data, tensor->data, tensor->bytes) == 0;
    return false;
}

/* What transformers of Hugging Face save although it is no parameter. */
static bool is_constant(const char *name) {
    return crn_ends(name, ".attn.bias") || crn_ends(name, ".attn.masked_bias") ||
           crn_ends(name, ".rotary_emb.inv_freq");
}

/* A name that is no tensor of the network. */
static void pass_over(loading *l, const cairn_named_tensor *tensor) {
    const char *name = tensor->name, *bare = without_prefix(name);
    if (crn_ends(bare, ".num_batches_tracked") || crn_begins(bare, "cairn.") || is_constant(bare) ||
        is_tied_head(l, tensor))
        return;
    bool auxiliary = crn_begins(bare, "aux") || crn_begins(bare, "AuxLogits.");
    see(auxiliary ? &l->auxiliary : &l->foreign, name);
}

static cairn_status list_weights(loading *l) {
    uint32_t tensors = cairn_graph_tensor_count(l->graph);
    CRN_TAKE(&l->scratch, l->from, tensors);
    CRN_TRY(crn_names_init(&l->names, &l->scratch, tensors));
    for (cairn_id t = 0; t < tensors; t++)
        if (crn_is_weight(cairn_graph_tensor(l->graph, t))) {
            crn_names_add(&l->names, cairn_graph_tensor(l->graph, t)->name, t);
            l->weights++;
        }
    return CAIRN_OK;
}

static cairn_status match_names(loading *l) {
    const cairn_named_tensor *tensors = l->given;
    for (uint32_t i = 0; i < l->given_count; i++) {
        cairn_id t;
        CRN_TRY(find_weight(l, tensors[i].name, &t));
        if (t == CAIRN_NONE)
            pass_over(l, &tensors[i]);
        else if (l->from[t] != NULL)
            return crn_fail_at(l->err, CAIRN_EINVAL, tensors[i].name,
                               "has both %.120s and %.120s, which are the same tensor",
                               l->from[t]->name, tensors[i].name);
        else
            l->from[t] = &tensors[i];
    }
    for (cairn_id t = 0; t < cairn_graph_tensor_count(l->graph); t++)
        if (crn_is_weight(cairn_graph_tensor(l->graph, t)) && l->from[t] == NULL)
            see(&l->missing, cairn_graph_tensor(l->graph, t)->name);
    return CAIRN_OK;
}

/* Names that are not the network's are an error, not a notice: the file is of another network, and
 * training from what fits would be wrong without any notice. */
static cairn_status check_names(const loading *l) {
    const char *network = cairn_graph_name(l->graph);
    const sightings *missing = &l->missing, *foreign = &l->foreign;
    if (missing->count > 0 && foreign->count > 0)
        return crn_fail_at(l->err, CAIRN_EINVAL, missing->first,
                           "does not belong to %.60s: it lacks %u of the %u tensors, the first "
                           "%.120s, and has %u of another network, the first %.120s",
                           network, missing->count, l->weights, missing->first, foreign->count,
                           foreign->first);
    if (missing->count > 0)
        return crn_fail_at(l->err, CAIRN_EINVAL, missing->first,
                           "lacks %u of the %u tensors of %.60s, the first %.120s", missing->count,
                           l->weights, network, missing->first);
    if (foreign->count > 0)
        return crn_fail_at(l->err, CAIRN_EINVAL, foreign->first,
                           "has %u tensors that %.60s does not have, the first %.120s",
                           foreign->count, network, foreign->first);
    return CAIRN_OK;
}

/* ---- Elements and shapes ---- */

static cairn_status check_element(loading *l, const cairn_named_tensor *wanted,
                                  const cairn_named_tensor *found) {
    if (!crn_can_convert(found->element, wanted->element))
        return crn_fail_at(
            l->err, CAIRN_EINVAL, found->name, "%.120s has elements of %s, where %s are expected",
            found->name, crn_element_name(found->element),
            wanted->element == CAIRN_ELEMENT_F32 ? "F32, F64, F16 or BF16"
                                                 : crn_element_name(wanted->element));
    if (found->element != wanted->element)
        see(&l->converted, found->name);
    return CAIRN_OK;
}

/* "[64, 3, 7, 7]". A malicious shape is truncated and does not overflow the buffer. */
static const char *shape_text(const cairn_named_tensor *tensor, char *buffer, size_t size) {
    size_t used = (size_t)snprintf(buffer, size, "[");
    for (uint32_t i = 0; i < tensor->rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%" PRIu64, i > 0 ? ", " : "",
                                 tensor->shape[i]);
    if (used < size)
        snprintf(buffer + used, size - used, "]");
    return buffer;
}

/* Whether all that differs is the number of classes: the last layer's first dimension. */
static bool is_class_count(const cairn_graph *graph, cairn_id weight,
                           const cairn_named_tensor *wanted, const cairn_named_tensor *found) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    if (summary.output == CAIRN_NONE || wanted->rank != found->rank)
        return false;
    cairn_id producer = cairn_graph_tensor(graph, summary.output)->producer;
    if (summary.loss != CAIRN_NONE) { /* the last layer and the loss may be one op */
        cairn_id loss = cairn_graph_tensor(graph, summary.loss)->producer;
        if (cairn_graph_op(graph, loss)->kind == CAIRN_OP_HEAD_LOSS)
            producer = loss;
    }
    for (uint32_t i = 1; i < wanted->rank; i++)
        if (wanted->shape[i] != found->shape[i])
            return false;
    const cairn_op *last = producer == CAIRN_NONE ? NULL : cairn_graph_op(graph, producer);
    for (uint32_t i = 0; last != NULL && i < last->param_count; i++)
        if (last->params[i] == weight)
            return true;
    return false;
}

static cairn_status check_shape(const loading *l, cairn_id weight, const cairn_named_tensor *wanted,
                                const cairn_named_tensor *found) {
    if (wanted->rank == found->rank &&
        memcmp(wanted->shape, found->shape, wanted->rank * sizeof *wanted->shape) == 0)
        return CAIRN_OK;
    char there[128], here[128], reason[128] = "";
    if (is_class_count(l->graph, weight, wanted, found))
        snprintf(reason, sizeof reason,
                 ": the file is for %" PRIu64 " classes, the network has %" PRIu64, found->shape[0],
                 wanted->shape[0]);
    return crn_fail_at(l->err, CAIRN_EINVAL, found->name,
                       "%.120s is %s in the file and %s in %.60s%s", found->name,
                       shape_text(found, there, sizeof there),
                       shape_text(wanted, here, sizeof here), cairn_graph_name(l->graph), reason);
}

static cairn_status check_tensors(loading *l) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(l->graph); t++) {
        if (l->from[t] == NULL)
            continue;
        cairn_named_tensor wanted = crn_weight_described(cairn_graph_tensor(l->graph, t));
        CRN_TRY(check_element(l, &wanted, l->from[t]));
        CRN_TRY(check_shape(l, t, &wanted, l->from[t]));
    }
    return CAIRN_OK;
}

/* ---- What a person should know ---- */

static cairn_status put_notices(const loading *l, cairn_text *notices) {
    if (l->auxiliary.count > 0)
        crn_text_printf(
            notices,
            "an auxiliary head is left out: %u tensors that %s does not have, the first %s\n",
            l->auxiliary.count, cairn_graph_name(l->graph), l->auxiliary.first);
    if (l->prefixed.count > 0)
        crn_text_printf(notices, "%u names are read without what stands in front: %s as %s\n",
                        l->prefixed.count, l->prefixed.first, without_prefix(l->prefixed.first));
    if (l->renamed.count > 0)
        crn_text_printf(notices, "%u names are of the old form, with a dot too many: %s\n",
                        l->renamed.count, l->renamed.first);
    if (l->converted.count > 0)
        crn_text_printf(notices, "%u tensors become F32, the first %s\n", l->converted.count,
                        l->converted.first);
    return crn_text_finish(notices);
}

/* ---- Loading ---- */

/* Whether the elements of the file are converted. */
static bool needs_room(const loading *l, cairn_id t) {
    return l->from[t] != NULL &&
           l->from[t]->element != crn_weight_described(cairn_graph_tensor(l->graph, t)).element;
}

static cairn_status take_room(loading *l) {
    uint64_t most = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(l->graph); t++)
        if (needs_room(l, t))
            most = CRN_MAX(most, cairn_graph_tensor(l->graph, t)->bytes);
    CRN_TAKE(&l->scratch, l->room, (size_t)most / sizeof *l->room);
    return CAIRN_OK;
}

static cairn_status prepare(loading *l, cairn_text *notices) {
    CRN_TRY(crn_forms_gather(l->graph, &l->scratch, &l->given, &l->given_count, l->err));
    CRN_TRY(list_weights(l));
    CRN_TRY(match_names(l));
    CRN_TRY(check_names(l));
    CRN_TRY(check_tensors(l));
    CRN_TRY(take_room(l));
    return notices == NULL ? CAIRN_OK : put_notices(l, notices);
}

static cairn_status copy_weights(loading *l, cairn_exec *exec) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(l->graph); t++) {
        const cairn_named_tensor *from = l->from[t];
        if (from == NULL)
            continue;
        if (needs_room(l, t))
            crn_convert(from, l->room);
        CRN_TRY(cairn_exec_write(exec, t, needs_room(l, t) ? l->room : from->data, l->err));
    }
    return CAIRN_OK;
}

cairn_status cairn_weights_assign(cairn_exec *exec, const cairn_graph *graph,
                                  const cairn_named_tensor *tensors, uint32_t count,
                                  const char *path, cairn_text *notices, cairn_error *err) {
    loading l = {.graph = graph, .given = tensors, .given_count = count, .err = err};
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_error_clear(err);
    if (err != NULL && path != NULL)
        crn_copy_string(err->file, sizeof err->file, path);
    if (notices != NULL)
        crn_text_init(notices, &allocator);
    crn_arena_init(&l.scratch, &allocator);
    cairn_status status = prepare(&l, notices);
    if (status == CAIRN_OK)
        status = copy_weights(&l, exec);
    crn_arena_release(&l.scratch);
    if (status != CAIRN_ENOMEM)
        return status;
    crn_error_clear(err);
    return crn_fail_memory(err);
}

cairn_status cairn_weights_load(cairn_exec *exec, const cairn_graph *graph, const char *path,
                                cairn_text *notices, cairn_error *err) {
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_safetensors *file;
    if (notices != NULL)
        crn_text_init(notices, &allocator);
    CRN_TRY(cairn_safetensors_load(&allocator, path, &file, err));
    uint32_t count;
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(file, &count);
    cairn_status status = cairn_weights_assign(exec, graph, tensors, count, path, notices, err);
    cairn_safetensors_destroy(file);
    return status;
}
