/* data_tensors.c: a folder of raw tensors with an index.json, docs/data-format.md. */
#include "data/data_internal.h"
#include "base/json.h"

#define INDEX "index.json"
#define FORMAT "cairn-tensors"
#define VERSION 1
#define MOST_FILES 256 /* of samples: they stay open */
#define MOST_CLASSES (1 << 24)

typedef struct index_reader {
    cairn_data *data;
    const char *folder;
    cairn_error *err;
} index_reader;

static cairn_status read_shape(index_reader *r, const crn_json *root) {
    crn_json shape = crn_json_member(root, "shape"), dtype = crn_json_member(root, "dtype");
    crn_json classes = crn_json_member(root, "classes");
    size_t rank = 0;
    uint32_t sizes[CAIRN_MAX_RANK] = {0};
    int64_t value = 0;
    const char *type = "";
    CRN_TRY(crn_json_array(&shape, &rank, r->err));
    if (rank < 1 || rank > CAIRN_MAX_RANK - 1) /* the batch is a dimension too */
        return crn_json_fail(&shape, r->err, CAIRN_EINVAL, "must have 1 to %d elements",
                             CAIRN_MAX_RANK - 1);
    for (size_t d = 0; d < rank; d++) {
        crn_json element = crn_json_element(&shape, d);
        CRN_TRY(crn_json_integer(&element, 1, INT32_MAX, &value, r->err));
        sizes[d] = (uint32_t)value;
    }
    CRN_TRY(crn_json_string(&dtype, &type, r->err));
    bool bytes = strcmp(type, "u8") == 0;
    if (!bytes && strcmp(type, "f32") != 0)
        return crn_json_fail(&dtype, r->err, CAIRN_EINVAL, "is \"%.32s\", not \"u8\" or \"f32\"",
                             type);
    CRN_TRY(crn_json_integer(&classes, 1, MOST_CLASSES, &value, r->err));
    return crn_data_set_shape(r->data, (uint32_t)rank, sizes,
                              bytes ? CAIRN_DTYPE_U8 : CAIRN_DTYPE_F32, (uint32_t)value,
                              crn_in_file(r->err, shape.document->file));
}

/* ---- Files ---- */

/* An element of "files". */
typedef struct entry {
    cairn_split split;
    const char *samples, *labels; /* paths */
    uint32_t count;
} entry;

static cairn_status read_name(index_reader *r, const crn_json *at, const char *key,
                              const char **path) {
    crn_json member = crn_json_member(at, key);
    const char *name = "";
    CRN_TRY(crn_json_string(&member, &name, r->err));
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
        return crn_json_fail(&member, r->err, CAIRN_EINVAL,
                             "must be the name of a file in the same folder");
    *path = crn_data_path(r->data, r->folder, name);
    return *path == NULL ? CAIRN_ENOMEM : CAIRN_OK;
}

static cairn_status read_entry(index_reader *r, const crn_json *at, entry *out) {
    static const char *const keys[] = {"split", "samples", "labels", "count", NULL};
    CRN_TRY(crn_json_object(at, r->err));
    CRN_TRY(crn_json_only(at, keys, r->err));
    crn_json split = crn_json_member(at, "split"), count = crn_json_member(at, "count");
    const char *name = "";
    int64_t value = 0;
    CRN_TRY(crn_json_string(&split, &name, r->err));
    bool train = strcmp(name, "train") == 0;
    if (!train && strcmp(name, "validation") != 0)
        return crn_json_fail(&split, r->err, CAIRN_EINVAL,
                             "is \"%.32s\", not \"train\" or \"validation\"", name);
    out->split = train ? CAIRN_SPLIT_TRAIN : CAIRN_SPLIT_VALIDATION;
    CRN_TRY(crn_json_integer(&count, 1, INT32_MAX, &value, r->err));
    out->count = (uint32_t)value;
    CRN_TRY(read_name(r, at, "samples", &out->samples));
    return read_name(r, at, "labels", &out->labels);
}

/* `file` has `count` elements of `size` bytes and nothing else. */
static cairn_status check_length(const crn_data_file *file, uint32_t count, uint64_t size,
                                 cairn_error *err) {
    uint64_t bytes = count * size; /* both below 2^31 */
    if (file->bytes != bytes)
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "is %llu bytes long; %u samples by " INDEX " would have %llu",
                        (unsigned long long)file->bytes, count, (unsigned long long)bytes);
    return CAIRN_OK;
}

static cairn_status open_samples(index_reader *r, const entry *e) {
    cairn_data *data = r->data;
    crn_data_file *file = &data->files[data->file_count];
    CRN_TRY(crn_data_file_open(file, e->samples, r->err));
    data->file_count++;
    CRN_TRY(check_length(file, e->count, data->sample_bytes, r->err));
    return crn_data_add_samples(data, file, e->split, 0, data->sample_bytes, e->count, r->err);
}

static cairn_status read_labels(index_reader *r, const crn_data_file *labels, uint32_t first,
                                uint32_t count) {
    uint8_t buffer[4096];
    const uint32_t most = sizeof buffer / 4;
    CRN_TRY(check_length(labels, count, 4, r->err));
    for (uint32_t i = 0; i < count; i += most) {
        uint32_t now = CRN_MIN(most, count - i);
        CRN_TRY(crn_data_file_read(labels, (uint64_t)i * 4, buffer, (size_t)now * 4, r->err));
        for (uint32_t k = 0; k < now; k++)
            CRN_TRY(crn_data_set_label(r->data, labels->path, first + i + k,
                                       (int32_t)crn_read_u32(buffer + 4 * (size_t)k), r->err));
    }
    return CAIRN_OK;
}

static cairn_status open_labels(index_reader *r, const entry *e, const crn_data_file *samples) {
    crn_data_file file;
    CRN_TRY(crn_data_file_open(&file, e->labels, r->err));
    cairn_status status = read_labels(r, &file, samples->first, samples->count);
    crn_data_file_close(&file);
    return status;
}

/* Samples of training come first, whatever the order in the index. */
static cairn_status open_files(index_reader *r, const entry *entries, uint32_t count) {
    const entry *opened[MOST_FILES];
    for (cairn_split split = CAIRN_SPLIT_TRAIN; split <= CAIRN_SPLIT_VALIDATION; split++)
        for (uint32_t i = 0; i < count; i++)
            if (entries[i].split == split) {
                opened[r->data->file_count] = &entries[i];
                CRN_TRY(open_samples(r, &entries[i]));
            }
    CRN_TRY(crn_data_take_labels(r->data));
    for (uint32_t i = 0; i < count; i++)
        CRN_TRY(open_labels(r, opened[i], &r->data->files[i]));
    return CAIRN_OK;
}

/* ---- The index ---- */

static cairn_status read_index(index_reader *r, const crn_json *root) {
    static const char *const keys[] = {"format",  "version", "shape", "dtype",
                                       "classes", "files",   NULL};
    CRN_TRY(crn_json_format(root, FORMAT, VERSION, r->err));
    CRN_TRY(crn_json_only(root, keys, r->err));
    CRN_TRY(read_shape(r, root));
    crn_json files = crn_json_member(root, "files");
    size_t count = 0;
    CRN_TRY(crn_json_array(&files, &count, r->err));
    if (count < 1 || count > MOST_FILES)
        return crn_json_fail(&files, r->err, CAIRN_EINVAL, "must have 1 to %d elements",
                             MOST_FILES);
    entry *entries = NULL;
    bool train = false;
    CRN_TAKE(&r->data->arena, entries, count);
    CRN_TAKE(&r->data->arena, r->data->files, count);
    for (size_t i = 0; i < count; i++) {
        crn_json element = crn_json_element(&files, i);
        CRN_TRY(read_entry(r, &element, &entries[i]));
        train = train || entries[i].split == CAIRN_SPLIT_TRAIN;
    }
    if (!train)
        return crn_json_fail(&files, r->err, CAIRN_EINVAL, "has none to train on");
    return open_files(r, entries, (uint32_t)count);
}

cairn_status crn_data_open_tensors(cairn_data *data, const char *folder, cairn_error *err) {
    index_reader r = {data, folder, err};
    char *path = crn_data_path(data, folder, INDEX);
    cairn_text text;
    crn_json_document document;
    if (path == NULL)
        return CAIRN_ENOMEM;
    CRN_TRY(cairn_text_load(data->options.allocator, path, &text, err));
    cairn_status status = crn_json_parse(text.data, text.length, path, &document, err);
    cairn_text_release(&text);
    if (status != CAIRN_OK)
        return status;
    crn_json root = crn_json_root(&document);
    status = read_index(&r, &root);
    crn_json_release(&document);
    return status;
}
