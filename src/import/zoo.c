/* zoo.c: the list of networks, their defaults, and what their builders share. */
#include "graph/crn_graph.h"
#include "import/importer.h"
#include "import/zoo_internal.h"

#include <assert.h>
#include <stdio.h>

#define DEFAULT_BATCH 32

static const cairn_zoo_entry entries[] = {
#define X(name, family, depth, channels, height, width, classes, steps, small, summary)            \
    {#name,                                                                                        \
     summary,                                                                                      \
     {sizeof(cairn_zoo_options), DEFAULT_BATCH, {channels, height, width}, classes, steps, 0},     \
     small},
#include "import/networks.def"
#undef X
};

/* How each entry is built, in the same order. */
static const struct recipe {
    void (*build)(crn_zoo *net);
    uint32_t depth;
} recipes[] = {
#define X(name, family, depth, channels, height, width, classes, steps, small, summary)            \
    {crn_zoo_##family, depth},
#include "import/networks.def"
#undef X
};

const cairn_zoo_entry *cairn_zoo_list(uint32_t index) {
    return index < CRN_LENGTH(entries) ? &entries[index] : NULL;
}

/* ---- names ---- */

static size_t append(crn_zoo *net, const char *format, va_list arguments) {
    size_t room = sizeof(net->path) - net->scope;
    int length = vsnprintf(net->path + net->scope, room, format, arguments);
    assert(length >= 0 && (size_t)length < room);
    return net->scope + (size_t)length;
}

size_t crn_zoo_enter(crn_zoo *net, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t outside = net->scope, end = append(net, format, arguments);
    va_end(arguments);
    assert(end + 1 < sizeof(net->path));
    net->path[end] = '.';
    net->scope = end + 1;
    return outside;
}

void crn_zoo_leave(crn_zoo *net, size_t outside) {
    net->scope = outside;
}

const char *crn_zoo_name(crn_zoo *net, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(net, format, arguments);
    va_end(arguments);
    return net->path;
}

void crn_zoo_fail(crn_zoo *net, const char *format, ...) {
    char sentence[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    crn_builder_fail(net->builder, sentence);
}

/* ---- blocks that several networks have ---- */

cairn_id crn_zoo_images(crn_zoo *net) {
    uint32_t shape[4] = {net->batch, net->channels, net->height, net->width};
    return crn_build_input(net->builder, "input", 4, shape);
}

void crn_zoo_loss(crn_zoo *net, cairn_id logits) {
    cairn_id label = crn_build_label(net->builder, "label", 1, &net->batch);
    crn_build_smoothed_cross_entropy(net->builder, "loss", logits, label, net->smoothing);
}

crn_conv crn_zoo_square(uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad) {
    int32_t p = (int32_t)pad;
    return (crn_conv){.channels = channels,
                      .kernel = {kernel, kernel},
                      .stride = {stride, stride},
                      .pad = {p, p, p, p}};
}

cairn_id crn_zoo_conv_norm_relu(crn_zoo *net, crn_zoo_names names, cairn_id x, crn_conv conv,
                                double epsilon) {
    x = crn_build_conv2d(net->builder, crn_zoo_name(net, "%s", names.conv), x, &conv);
    x = crn_build_batch_norm(net->builder, crn_zoo_name(net, "%s", names.norm), x, epsilon);
    if (names.relu != NULL)
        x = crn_build_relu(net->builder, crn_zoo_name(net, "%s", names.relu), x);
    return x;
}

uint32_t crn_zoo_channels(const crn_zoo *net, cairn_id x) {
    return crn_builder_peek(net->builder, x).shape[1];
}

/* ---- building ---- */

uint32_t crn_zoo_find(const char *name) {
    size_t length = strcspn(name, ":");
    for (uint32_t i = 0; i < CRN_LENGTH(entries); i++)
        if (strlen(entries[i].name) == length && strncmp(entries[i].name, name, length) == 0)
            return i;
    return UINT32_MAX;
}

static cairn_status find(const char *name, uint32_t *index, cairn_error *err) {
    char known[400] = "";
    *index = crn_zoo_find(name);
    if (*index != UINT32_MAX)
        return CAIRN_OK;
    for (uint32_t i = 0; i < CRN_LENGTH(entries); i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof(known) - length, "%s%s", i > 0 ? ", " : "",
                 entries[i].name);
    }
    return crn_fail(err, CAIRN_EUNKNOWN, "there is no network called \"%.64s\"; the zoo has %s",
                    name, known);
}

static uint32_t given_or(uint32_t given, uint32_t otherwise) {
    return given != 0 ? given : otherwise;
}

/* The entry's defaults where the caller's options are zero. */
static void fill_in(const cairn_zoo_entry *entry, cairn_zoo_options *options) {
    const cairn_zoo_options *defaults = &entry->defaults;
    options->batch = given_or(options->batch, defaults->batch);
    for (int i = 0; i < 3; i++)
        options->input[i] = given_or(options->input[i], defaults->input[i]);
    options->classes = given_or(options->classes, defaults->classes);
    options->steps = given_or(options->steps, defaults->steps);
}

/* Refuse what would have no effect; `after` is what follows the name. */
static cairn_status check(const cairn_zoo_entry *entry, const char *after,
                          const cairn_zoo_options *options, cairn_error *err) {
    if (entry->small == NULL && *after != '\0')
        return crn_fail(err, CAIRN_EINVAL, "%s has one size only; leave out \"%.64s\"", entry->name,
                        after);
    if (entry->defaults.input[0] == 0 && options->input[0] != 0)
        return crn_fail(err, CAIRN_EINVAL,
                        "%s reads tokens and has no input size; give their number only",
                        entry->name);
    if (entry->defaults.steps == 0 && options->steps != 0)
        return crn_fail(err, CAIRN_EINVAL,
                        "%s is not recurrent and reads no tokens; leave out their number",
                        entry->name);
    if (entry->defaults.input[2] == 0 && options->input[2] != 0)
        return crn_fail(err, CAIRN_EINVAL,
                        "%s reads vectors; give its input as features and hidden size only",
                        entry->name);
    return CAIRN_OK;
}

cairn_status crn_import_zoo(const cairn_allocator *allocator, const char *name,
                            cairn_zoo_options *size, cairn_graph **out, cairn_error *err) {
    uint32_t index = 0;
    CRN_TRY(find(name, &index, err));
    const char *after = name + strlen(entries[index].name), *sizes = after + (*after == ':');
    size->classes = given_or(size->classes, crn_zoo_vocabulary(sizes));
    fill_in(&entries[index], size);
    CRN_TRY(check(&entries[index], after, size, err));

    crn_zoo net = {.batch = size->batch,
                   .channels = size->input[0],
                   .height = size->input[1],
                   .width = size->input[2],
                   .classes = size->classes,
                   .steps = size->steps,
                   .smoothing = size->label_smoothing,
                   .sizes = sizes,
                   .depth = recipes[index].depth};
    if (cairn_builder_create(allocator, name, &net.builder) != CAIRN_OK)
        return crn_fail_memory(err);
    recipes[index].build(&net);
    cairn_status status = cairn_builder_finish(net.builder, out, err);
    cairn_builder_destroy(net.builder);
    return status;
}

cairn_status crn_zoo_build(const cairn_allocator *allocator, const char *name,
                           const cairn_zoo_options *options, cairn_graph **out, cairn_error *err) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_zoo_options, size, options, err);
    return crn_import_zoo(allocator, name, &size, out, err);
}
