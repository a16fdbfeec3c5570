/* origin.c: what a reader of weights must know to use them: which network they are of, and what was
 * done to its inputs.
 *
 *     cairn.model, cairn.input, cairn.classes           "convnet", "3x16x16", "10"
 *     cairn.network                                     a hash of what the network computes
 *     cairn.normalise.scale, .mean, .deviation          input = (value * scale - mean) / deviation
 *     cairn.with.seed                                   of the run, by which samples were held out
 *
 * Without the second line a network that was trained here predicts something else elsewhere. */
#include "graph/crn_graph.h"
#include "train/train_internal.h"

#include <stdio.h>

static cairn_status keep_text(crn_arena *scratch, cairn_text *text, const char **out) {
    CRN_TRY(crn_text_finish(text));
    *out = crn_arena_string(scratch, text->data);
    cairn_text_release(text);
    return *out == NULL ? CAIRN_ENOMEM : CAIRN_OK;
}

static cairn_status add_numbers(crn_origin *o, const char *key, const float *values,
                                uint32_t count) {
    cairn_text text;
    cairn_pair pair = {key, NULL};
    crn_text_init(&text, &o->scratch->allocator);
    for (uint32_t i = 0; i < count; i++)
        crn_text_printf(&text, "%s%.9g", i > 0 ? "," : "", (double)values[i]);
    CRN_TRY(keep_text(o->scratch, &text, &pair.value));
    o->pairs[o->count++] = pair;
    return CAIRN_OK;
}

static cairn_named_tensor row_of(const char *name, const float *values, uint32_t count) {
    return (cairn_named_tensor){.name = name,
                                .element = CAIRN_ELEMENT_F32,
                                .rank = 1,
                                .shape = {count},
                                .data = values,
                                .bytes = count * sizeof *values};
}

static cairn_status add_normalisation(cairn_train *train, crn_origin *o, cairn_error *err) {
    const float *mean = NULL, *deviation = NULL;
    cairn_data_info info = *cairn_data_get_info(train->options.data);
    float scale = info.bytes ? 1.0f / 255 : 1;
    CRN_TRY(add_numbers(o, "cairn.normalise.scale", &scale, 1));
    if (!train->options.normalise)
        return CAIRN_OK;
    CRN_TRY(cairn_data_statistics(train->options.data, &mean, &deviation, err));
    CRN_TRY(add_numbers(o, "cairn.normalise.mean", mean, info.shape[0]));
    CRN_TRY(add_numbers(o, "cairn.normalise.deviation", deviation, info.shape[0]));
    o->tensors[o->tensor_count++] = row_of("cairn.normalise.mean", mean, info.shape[0]);
    o->tensors[o->tensor_count++] = row_of("cairn.normalise.deviation", deviation, info.shape[0]);
    return CAIRN_OK;
}

/* "3x16x16", of a sample. */
static cairn_status add_input(const cairn_train *train, crn_origin *o) {
    const cairn_tensor *input = cairn_graph_tensor(train->graph, train->ends.input);
    cairn_text text;
    cairn_pair pair = {"cairn.input", NULL};
    crn_text_init(&text, &o->scratch->allocator);
    for (uint32_t i = 1; i < input->rank; i++)
        crn_text_printf(&text, "%s%u", i > 1 ? "x" : "", input->shape[i]);
    CRN_TRY(keep_text(o->scratch, &text, &pair.value));
    o->pairs[o->count++] = pair;
    return CAIRN_OK;
}

cairn_status crn_origin_of(cairn_train *train, crn_arena *scratch, crn_origin *out,
                           cairn_error *err) {
    *out = (crn_origin){.scratch = scratch};
    if (train->options.model != NULL)
        out->pairs[out->count++] = (cairn_pair){"cairn.model", train->options.model};
    if (train->ends.input != CAIRN_NONE)
        CRN_TRY(add_input(train, out));
    snprintf(out->classes, sizeof out->classes, "%u", train->ends.classes);
    if (train->ends.classes > 0)
        out->pairs[out->count++] = (cairn_pair){"cairn.classes", out->classes};
    snprintf(out->network, sizeof out->network, "%016llx",
             (unsigned long long)crn_network_hash(train->graph));
    out->pairs[out->count++] = (cairn_pair){"cairn.network", out->network};
    if (train->options.data == NULL || cairn_data_get_info(train->options.data)->tokens)
        return CAIRN_OK;
    return add_normalisation(train, out, err);
}

/* The seed, on which the split of the data depends. Snapshots have it among their conditions. */
static void add_seed(const cairn_train *train, crn_origin *o) {
    for (uint32_t i = 0; i < train->condition_count; i++)
        if (strcmp(train->conditions[i].name, "seed") == 0)
            o->pairs[o->count++] = (cairn_pair){"cairn.with.seed", train->conditions[i].value};
}

/* The tensors of the normalisation are not in it: PyTorch refuses a file with tensors that are no
 * weights. */
cairn_status cairn_train_save_weights(cairn_train *train, const char *path, cairn_error *err) {
    cairn_weights_save_options options = CAIRN_WEIGHTS_SAVE_OPTIONS_INIT;
    crn_arena scratch;
    crn_origin origin;
    crn_error_clear(err);
    crn_arena_init(&scratch, &train->memory.allocator);
    cairn_status status = crn_origin_of(train, &scratch, &origin, err);
    add_seed(train, &origin);
    options.steps = train->position;
    options.metadata = origin.pairs;
    options.metadata_count = origin.count;
    if (status == CAIRN_OK)
        status = cairn_weights_save(train->exec, train->graph, path, &options, err);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
