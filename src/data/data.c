/* data.c: opening a source by name, its split, and access to samples.
 *
 * Where a source has no validation split, samples are held out by selection sampling (Fan, Muller
 * and Rezucha, 1962; Knuth's algorithm S): of n samples that are left, of which h are still to be
 * held out, the next one is held out with probability h / n. One pass, every subset equally likely,
 * and both splits keep the order of the files, so that reading a split is reading forwards. */
#include "data/data_internal.h"
#include "data/loader.h"

#include <stdio.h>

/* ---- Sources ---- */

typedef struct source {
    cairn_data_source known;
    cairn_status (*open)(cairn_data *data, const char *folder, cairn_error *err);
} source;

static const source sources[] = {
#define X(name, argument, summary) {{#name, argument, summary}, crn_data_open_##name},
#include "data/data_sources.def"
#undef X
};

const cairn_data_source *cairn_data_source_list(uint32_t index) {
    return index < CRN_LENGTH(sources) ? &sources[index].known : NULL;
}

static cairn_status fail_source(cairn_error *err, const char *text) {
    char known[256] = "";
    for (size_t i = 0; i < CRN_LENGTH(sources); i++) {
        size_t used = strlen(known);
        const char *between = i == 0 ? "" : i + 1 < CRN_LENGTH(sources) ? ", " : " and ";
        snprintf(known + used, sizeof known - used, "%s%s%s", between, sources[i].known.name,
                 sources[i].known.argument);
    }
    return crn_fail_at(err, CAIRN_EUNKNOWN, text, "there is no data source \"%.64s\"; there are %s",
                       text, known);
}

static bool in_folder(const cairn_data_source *known) {
    return strcmp(known->argument, ":DIR") == 0;
}

/* The source that `text` names, and its folder or file. */
static cairn_status find_source(const char *text, const source **out, const char **folder,
                                cairn_error *err) {
    size_t length = strcspn(text, ":");
    for (size_t i = 0; i < CRN_LENGTH(sources); i++) {
        const cairn_data_source *known = &sources[i].known;
        if (strlen(known->name) != length || memcmp(known->name, text, length) != 0)
            continue;
        bool wants = known->argument[0] != '\0', given = text[length] == ':';
        if (wants && (!given || text[length + 1] == '\0'))
            return crn_fail_at(err, CAIRN_EINVAL, text, "data source %s needs a %s: %s%s",
                               known->name, in_folder(known) ? "folder" : "file", known->name,
                               known->argument);
        if (!wants && given)
            return crn_fail_at(err, CAIRN_EINVAL, text, "data source %s takes no folder",
                               known->name);
        *out = &sources[i];
        *folder = given ? text + length + 1 : NULL;
        return CAIRN_OK;
    }
    return fail_source(err, text);
}

/* ---- What readers fill in ---- */

cairn_status crn_data_set_shape(cairn_data *data, uint32_t rank, const uint32_t *shape,
                                cairn_dtype dtype, uint32_t classes, cairn_error *err) {
    uint64_t elements = 1, bytes = 0;
    for (uint32_t d = 0; d < rank; d++)
        if (!crn_mul_u64(elements, shape[d], &elements))
            elements = UINT64_MAX;
    if (!crn_mul_u64(elements, dtype == CAIRN_DTYPE_U8 ? 1 : 4, &bytes) || bytes > INT32_MAX)
        return crn_fail(err, CAIRN_EOVERFLOW, "a sample would have more than 2 GiB");
    data->info.rank = rank;
    memcpy(data->info.shape, shape, rank * sizeof *shape);
    data->info.classes = classes;
    data->info.bytes = dtype == CAIRN_DTYPE_U8;
    data->dtype = dtype;
    data->elements = elements;
    data->sample_bytes = bytes;
    return CAIRN_OK;
}

cairn_status crn_data_add_samples(cairn_data *data, crn_data_file *file, cairn_split split,
                                  uint64_t offset, uint64_t stride, uint64_t count,
                                  cairn_error *err) {
    uint64_t before = (uint64_t)data->info.train + data->info.validation;
    if (count > CRN_MOST_SAMPLES - before)
        return crn_fail(crn_in_file(err, file->path), CAIRN_EOVERFLOW,
                        "has too many samples: together there are more than %llu",
                        (unsigned long long)CRN_MOST_SAMPLES);
    file->offset = offset;
    file->stride = stride;
    file->first = (uint32_t)before;
    file->count = (uint32_t)count;
    *(split == CAIRN_SPLIT_TRAIN ? &data->info.train : &data->info.validation) += (uint32_t)count;
    return CAIRN_OK;
}

cairn_status crn_data_take_labels(cairn_data *data) {
    CRN_TAKE(&data->arena, data->labels, (size_t)data->info.train + data->info.validation);
    return CAIRN_OK;
}

cairn_status crn_data_set_label(cairn_data *data, const char *path, uint32_t number, int64_t label,
                                cairn_error *err) {
    if (label < 0 || label >= data->info.classes)
        return crn_fail(crn_in_file(err, path), CAIRN_EINVAL,
                        "sample %u has label %lld; labels are from 0 to %u",
                        number - crn_data_file_of(data, number)->first, (long long)label,
                        data->info.classes - 1);
    data->labels[number] = (int32_t)label;
    return CAIRN_OK;
}

/* ---- The split ---- */

/* How many of `count` samples are held out. */
static uint32_t held_out(uint32_t count, double share) {
    uint32_t held = (uint32_t)((double)count * share + 0.5);
    if (share <= 0 || count < 2)
        return 0;
    return CRN_MIN(CRN_MAX(held, 1), count - 1);
}

static cairn_status hold_out(cairn_data *data) {
    uint32_t count = data->info.train, held = held_out(count, data->options.validation);
    if (held == 0)
        return CAIRN_OK;
    data->info.train = count - held;
    data->info.validation = held;
    data->info.held_out = true;
    if (data->draw != NULL || data->info.tokens)
        return CAIRN_OK; /* hold out the last ones: samples are independent, or windows of a text */
    CRN_TAKE(&data->arena, data->order, count);
    crn_rng rng = {crn_mix(data->options.seed, CRN_STREAM_SPLIT)};
    uint32_t *train = data->order, *validation = data->order + data->info.train;
    for (uint32_t i = 0; i < count; i++) {
        if (crn_rng_below(&rng, count - i) < held) {
            *validation++ = i;
            held--;
        } else {
            *train++ = i;
        }
    }
    return CAIRN_OK;
}

static uint64_t fingerprint(const cairn_data *data) {
    const cairn_data_info *info = &data->info;
    uint64_t hash = crn_mix(data->dtype, info->rank);
    for (uint32_t d = 0; d < info->rank; d++)
        hash = crn_mix(hash, info->shape[d]);
    hash = crn_mix(hash, info->classes);
    hash = crn_mix(hash, info->train);
    hash = crn_mix(hash, info->validation);
    if (data->draw != NULL)
        return crn_mix(hash, data->options.seed);
    if (info->tokens)
        return crn_mix(hash, data->content);
    for (uint32_t place = 0; place < info->train + info->validation; place++) {
        uint32_t number = crn_data_number(data, place);
        hash = crn_mix(crn_mix(hash, number), (uint64_t)data->labels[number]);
    }
    return hash;
}

/* ---- Opening ---- */

static cairn_status check_options(const cairn_data_options *options, cairn_error *err) {
    if (!(options->validation >= 0 && options->validation < 1)) /* nor not a number */
        return crn_fail(err, CAIRN_EINVAL,
                        "the share of samples held out must be from 0 to below 1");
    return CAIRN_OK;
}

static uint64_t count_resident(const cairn_data *data) {
    uint64_t count = (uint64_t)data->info.train + data->info.validation;
    return sizeof *data + data->file_count * sizeof *data->files +
           (data->labels != NULL ? count * sizeof *data->labels : 0) +
           (data->order != NULL ? count * sizeof *data->order : 0);
}

static cairn_status open_source(cairn_data *data, const char *text, cairn_error *err) {
    const source *from = NULL;
    const char *folder = NULL;
    CRN_TRY(check_options(&data->options, err));
    CRN_TRY(find_source(text, &from, &folder, err));
    if (folder != NULL && in_folder(&from->known))
        CRN_TRY(crn_data_check_folder(folder, err));
    CRN_TRY(from->open(data, folder, err));
    if (data->info.validation == 0)
        CRN_TRY(hold_out(data));
    data->info.fingerprint = fingerprint(data);
    data->info.resident_bytes = count_resident(data);
    return CAIRN_OK;
}

cairn_status cairn_data_open(const char *text, const cairn_data_options *given, cairn_data **out,
                             cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    CRN_READ_OPTIONS(cairn_data_options, options, given, err);
    cairn_data *data = CRN_OBJECT(options.allocator, cairn_data, arena);
    if (data == NULL)
        return crn_fail_memory(err);
    data->options = options;
    data->options.allocator = &data->arena.allocator;
    pthread_mutex_init(&data->lock, NULL);
    cairn_status status = open_source(data, text, err);
    if (status != CAIRN_OK) {
        cairn_data_destroy(data);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = data;
    return CAIRN_OK;
}

void cairn_data_destroy(cairn_data *data) {
    if (data == NULL)
        return;
    for (uint32_t i = 0; i < data->file_count; i++)
        crn_data_file_close(&data->files[i]);
    pthread_mutex_destroy(&data->lock);
    crn_arena_destroy(&data->arena);
}

const cairn_data_info *cairn_data_get_info(const cairn_data *data) {
    return &data->info;
}

/* ---- Samples ---- */

uint32_t crn_data_split_number(const cairn_data *data, cairn_split split, uint32_t place) {
    return crn_data_number(data, split == CAIRN_SPLIT_TRAIN ? place : data->info.train + place);
}

/* The last file that begins at or before it: files without samples begin where the next does. */
const crn_data_file *crn_data_file_of(const cairn_data *data, uint32_t number) {
    uint32_t low = 0, high = data->file_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (data->files[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return &data->files[low];
}

cairn_status crn_data_sample(const cairn_data *data, uint32_t place, void *raw, int32_t *label,
                             cairn_error *err) {
    uint32_t number = crn_data_number(data, place);
    if (data->draw != NULL) {
        *label = data->draw(data, number, raw);
        return CAIRN_OK;
    }
    const crn_data_file *file = crn_data_file_of(data, number);
    uint64_t offset = file->offset + (number - file->first) * file->stride;
    *label = data->labels[number];
    return crn_data_file_read(file, offset, raw, data->sample_bytes, err);
}

cairn_status crn_data_not_finite(const cairn_data *data, uint32_t number, cairn_error *err) {
    const crn_data_file *file = crn_data_file_of(data, number);
    return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                    "sample %u has a value that is not finite", number - file->first);
}
