/* safetensors_read.c: safetensors files, read.
 *
 *     | 8 bytes: length of the header | header, JSON | tensors, end to end |
 *
 * The header gives for each name the kind of elements, the shape and [begin, end) among the bytes
 * after it; "__metadata__" is a table of strings. The header is not trusted: a size follows from
 * the shape, the tensors must fill the rest of the file exactly, and only then is memory taken for
 * them, which is thus never more than the file has (except for alignment: each tensor is moved
 * to an aligned address). */
#include "base/json.h"
#include "base/save_file.h"
#include "weights/weights_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct cairn_safetensors {
    crn_arena memory;            /* in which this lies */
    cairn_named_tensor *tensors; /* sorted by name */
    uint32_t count;
    cairn_pair *metadata; /* sorted by key */
    uint32_t metadata_count;
    uint8_t *data;
    size_t data_bytes;
};

/* ---- Where the bytes come from: a file, or memory ---- */

typedef struct source {
    const char *file; /* for errors; may be NULL */
    int fd;           /* -1: memory */
    const uint8_t *bytes;
    uint64_t size, at; /* at: what was got already */
} source;

/* The error to fail with; it names the file. */
static cairn_error *in_file(const source *from, cairn_error *err) {
    crn_error_clear(err);
    if (err != NULL && from->file != NULL)
        crn_copy_string(err->file, sizeof err->file, from->file);
    return err;
}

/* The next bytes; the caller knows that they exist. */
static cairn_status get(source *from, void *to, uint64_t length, cairn_error *err) {
    uint8_t *next = to;
    if (from->fd < 0) {
        if (length > 0)
            memcpy(next, from->bytes + from->at, length);
        from->at += length;
        return CAIRN_OK;
    }
    from->at += length;
    while (length > 0) {
        ssize_t got = read(from->fd, next, CRN_MIN(length, (uint64_t)1 << 30));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return crn_fail_file(err, "read", from->file);
        if (got == 0)
            return crn_fail(in_file(from, err), CAIRN_EIO, "was truncated while it was read");
        next += got;
        length -= (uint64_t)got;
    }
    return CAIRN_OK;
}

/* ---- The header ---- */

/* A tensor's place among the data. */
typedef struct extent {
    uint64_t begin, end;
    uint32_t tensor;
} extent;

typedef struct reading {
    source *from;
    cairn_safetensors *file;
    crn_arena scratch;
    CRN_ARRAY(cairn_named_tensor) tensors;
    CRN_ARRAY(extent) extents; /* of each tensor */
    CRN_ARRAY(cairn_pair) metadata;
    cairn_error *err;
} reading;

static cairn_status read_shape(reading *r, const crn_json *entry, cairn_named_tensor *tensor) {
    crn_json shape = crn_json_member(entry, "shape");
    size_t rank;
    CRN_TRY(crn_json_array(&shape, &rank, r->err));
    if (rank > CAIRN_NAMED_TENSOR_RANK)
        return crn_json_fail(&shape, r->err, CAIRN_EINVAL,
                             "has %zu dimensions; this program reads up to %d", rank,
                             CAIRN_NAMED_TENSOR_RANK);
    tensor->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        crn_json size = crn_json_element(&shape, i);
        int64_t value = 0;
        CRN_TRY(crn_json_integer(&size, 0, INT64_MAX, &value, r->err));
        tensor->shape[i] = (uint64_t)value;
    }
    return CAIRN_OK;
}

static cairn_status read_offsets(reading *r, const crn_json *entry, extent *out) {
    crn_json offsets = crn_json_member(entry, "data_offsets");
    size_t count;
    int64_t value[2] = {0, 0};
    CRN_TRY(crn_json_array(&offsets, &count, r->err));
    if (count != 2)
        return crn_json_fail(&offsets, r->err, CAIRN_EINVAL, "must be two numbers, not %zu", count);
    for (size_t i = 0; i < 2; i++) {
        crn_json offset = crn_json_element(&offsets, i);
        CRN_TRY(crn_json_integer(&offset, 0, INT64_MAX, &value[i], r->err));
    }
    out->begin = (uint64_t)value[0];
    out->end = (uint64_t)value[1];
    if (out->end < out->begin)
        return crn_json_fail(&offsets, r->err, CAIRN_EINVAL, "end before they begin");
    return CAIRN_OK;
}

static cairn_status read_element(reading *r, const crn_json *entry, cairn_named_tensor *tensor) {
    crn_json element = crn_json_member(entry, "dtype");
    const char *name = "";
    CRN_TRY(crn_json_string(&element, &name, r->err));
    tensor->element = crn_element_find(name);
    if (tensor->element == CAIRN_ELEMENTS)
        return crn_json_fail(&element, r->err, CAIRN_EINVAL,
                             "is \"%.32s\", which this program does not know", name);
    return CAIRN_OK;
}

static cairn_status read_tensor(reading *r, const crn_json *entry) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    cairn_named_tensor tensor = {0};
    extent place = {.tensor = r->tensors.length};
    CRN_TRY(crn_json_object(entry, r->err));
    CRN_TRY(crn_json_only(entry, keys, r->err));
    CRN_TRY(read_element(r, entry, &tensor));
    CRN_TRY(read_shape(r, entry, &tensor));
    CRN_TRY(read_offsets(r, entry, &place));
    if (!crn_named_tensor_bytes(&tensor, &tensor.bytes))
        return crn_json_fail(entry, r->err, CAIRN_EOVERFLOW, "is larger than 2^64 bytes");
    if (tensor.bytes != place.end - place.begin)
        return crn_json_fail(entry, r->err, CAIRN_EINVAL,
                             "has %" PRIu64 " bytes by its shape and %" PRIu64 " by its offsets",
                             tensor.bytes, place.end - place.begin);
    tensor.name = crn_arena_string(&r->file->memory, entry->key);
    if (tensor.name == NULL)
        return CAIRN_ENOMEM;
    CRN_PUSH(&r->scratch, r->tensors, tensor);
    CRN_PUSH(&r->scratch, r->extents, place);
    return CAIRN_OK;
}

static cairn_status read_metadata(reading *r, const crn_json *table) {
    void *place = NULL;
    crn_json word;
    CRN_TRY(crn_json_object(table, r->err));
    while (crn_json_next(table, &place, &word)) {
        const char *value = "";
        CRN_TRY(crn_json_string(&word, &value, r->err));
        cairn_pair pair = {crn_arena_string(&r->file->memory, word.key),
                           crn_arena_string(&r->file->memory, value)};
        if (pair.key == NULL || pair.value == NULL)
            return CAIRN_ENOMEM;
        CRN_PUSH(&r->scratch, r->metadata, pair);
    }
    return CAIRN_OK;
}

static cairn_status read_header(reading *r, const crn_json_document *document) {
    crn_json root = crn_json_root(document), entry;
    void *place = NULL;
    CRN_TRY(crn_json_object(&root, r->err));
    while (crn_json_next(&root, &place, &entry))
        CRN_TRY(strcmp(entry.key, CRN_METADATA) == 0 ? read_metadata(r, &entry)
                                                     : read_tensor(r, &entry));
    return CAIRN_OK;
}

/* The text of the header, in scratch memory. */
static cairn_status get_header(reading *r, char **text, size_t *length) {
    uint8_t number[8];
    source *from = r->from;
    uint64_t claimed = 0;
    if (from->size < sizeof number)
        return crn_fail(in_file(from, r->err), CAIRN_ESYNTAX,
                        "is %" PRIu64 " bytes long: no safetensors file, or truncated", from->size);
    CRN_TRY(get(from, number, sizeof number, r->err));
    for (size_t i = sizeof number; i-- > 0;)
        claimed = claimed << 8 | number[i];
    if (claimed > CRN_LARGEST_HEADER || claimed > from->size - sizeof number)
        return crn_fail(in_file(from, r->err), CAIRN_ESYNTAX,
                        "its header would be %" PRIu64 " bytes long, of a file of %" PRIu64
                        ": no safetensors file, or truncated",
                        claimed, from->size);
    CRN_TAKE(&r->scratch, *text, claimed + 1);
    CRN_TRY(get(from, *text, claimed, r->err));
    if ((*text)[0] != '{')
        return crn_fail(in_file(from, r->err), CAIRN_ESYNTAX,
                        "its header does not begin with {: no safetensors file");
    *length = (size_t)claimed;
    return CAIRN_OK;
}

static cairn_status parse_header(reading *r) {
    char *text = NULL;
    size_t length = 0;
    crn_json_document document;
    CRN_TRY(get_header(r, &text, &length));
    CRN_TRY(crn_json_parse(text, length, r->from->file, &document, r->err));
    cairn_status status = read_header(r, &document);
    crn_json_release(&document);
    return status;
}

/* ---- The data ---- */

static int by_place(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->tensor < y->tensor ? -1 : 1;
}

/* The tensors in the order of their places: each begins where the one before it ends, and the last
 * ends with the file. */
static cairn_status check_places(reading *r, uint64_t room) {
    uint64_t at = 0;
    if (r->extents.length > 0)
        qsort(r->extents.data, r->extents.length, sizeof *r->extents.data, by_place);
    for (uint32_t i = 0; i < r->extents.length; i++) {
        const extent *place = &r->extents.data[i];
        const char *name = r->tensors.data[place->tensor].name;
        if (place->begin != at)
            return crn_fail_at(
                in_file(r->from, r->err), CAIRN_EINVAL, name,
                "%.200s begins at byte %" PRIu64 " of the data, %s what ends at %" PRIu64, name,
                place->begin, place->begin < at ? "inside" : "leaving a hole after", at);
        at = place->end;
    }
    if (at != room)
        return crn_fail(in_file(r->from, r->err), CAIRN_EINVAL,
                        "its tensors take %" PRIu64 " bytes, but it has %" PRIu64 "%s", at, room,
                        at > room ? ": it was truncated" : "");
    return CAIRN_OK;
}

/* Aligned for any element. */
static size_t padded(uint64_t bytes) {
    return (size_t)((bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t));
}

static cairn_status take_data(reading *r) {
    cairn_safetensors *file = r->file;
    size_t bytes = 0;
    for (uint32_t i = 0; i < r->tensors.length; i++)
        bytes += padded(r->tensors.data[i].bytes);
    if (bytes == 0)
        return CAIRN_OK;
    file->data = crn_resize(&file->memory.allocator, NULL, 0, bytes);
    if (file->data == NULL)
        return CAIRN_ENOMEM;
    file->data_bytes = bytes;
    return CAIRN_OK;
}

static cairn_status read_data(reading *r) {
    size_t at = 0;
    CRN_TRY(take_data(r));
    for (uint32_t i = 0; i < r->extents.length; i++) {
        cairn_named_tensor *tensor = &r->tensors.data[r->extents.data[i].tensor];
        if (tensor->bytes == 0)
            continue;
        uint8_t *to = r->file->data + at;
        CRN_TRY(get(r->from, to, tensor->bytes, r->err));
        if (!crn_is_little_endian())
            crn_reverse_elements(to, tensor->bytes, crn_element_bytes(tensor->element));
        tensor->data = to;
        at += padded(tensor->bytes);
    }
    return CAIRN_OK;
}

/* ---- Putting it together ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const cairn_named_tensor *)a)->name, ((const cairn_named_tensor *)b)->name);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const cairn_pair *)a)->key, ((const cairn_pair *)b)->key);
}

/* Move the lists into the object, sorted. */
static cairn_status settle(reading *r) {
    cairn_safetensors *file = r->file;
    file->count = r->tensors.length;
    file->metadata_count = r->metadata.length;
    CRN_TAKE(&file->memory, file->tensors, file->count);
    CRN_TAKE(&file->memory, file->metadata, file->metadata_count);
    if (file->count > 0) {
        memcpy(file->tensors, r->tensors.data, file->count * sizeof *file->tensors);
        qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    }
    if (file->metadata_count > 0) {
        memcpy(file->metadata, r->metadata.data, file->metadata_count * sizeof *file->metadata);
        qsort(file->metadata, file->metadata_count, sizeof *file->metadata, by_key);
    }
    return CAIRN_OK;
}

static cairn_status read_all(reading *r) {
    CRN_TRY(parse_header(r));
    CRN_TRY(check_places(r, r->from->size - r->from->at));
    CRN_TRY(read_data(r));
    return settle(r);
}

static cairn_status read_source(const cairn_allocator *allocator, source *from,
                                cairn_safetensors **out, cairn_error *err) {
    reading r = {
        .from = from, .file = CRN_OBJECT(allocator, cairn_safetensors, memory), .err = err};
    *out = NULL;
    if (r.file == NULL)
        return crn_fail_memory(err);
    crn_arena_init(&r.scratch, allocator);
    cairn_status status = read_all(&r);
    crn_arena_release(&r.scratch);
    if (status == CAIRN_OK)
        *out = r.file;
    else
        cairn_safetensors_destroy(r.file);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_safetensors_from_bytes(const cairn_allocator *allocator, const void *bytes,
                                        size_t length, const char *file, cairn_safetensors **out,
                                        cairn_error *err) {
    source from = {.file = file, .fd = -1, .bytes = bytes, .size = length};
    crn_error_clear(err);
    return read_source(allocator, &from, out, err);
}

cairn_status cairn_safetensors_load(const cairn_allocator *allocator, const char *path,
                                    cairn_safetensors **out, cairn_error *err) {
    struct stat info;
    *out = NULL;
    crn_error_clear(err);
    /* Do not wait for a pipe that has no writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no file %s", path);
    if (fd < 0 || fstat(fd, &info) != 0) {
        cairn_status status = crn_fail_file(err, "open", path);
        if (fd >= 0)
            close(fd);
        return status;
    }
    cairn_status status;
    source from = {.file = path, .fd = fd, .size = (uint64_t)info.st_size};
    if (S_ISREG(info.st_mode))
        status = read_source(allocator, &from, out, err);
    else
        status = crn_fail(in_file(&from, err), CAIRN_EINVAL, "is not a regular file");
    close(fd);
    return status;
}

void cairn_safetensors_destroy(cairn_safetensors *file) {
    if (file == NULL)
        return;
    if (file->data != NULL)
        crn_resize(&file->memory.allocator, file->data, file->data_bytes, 0);
    crn_arena_destroy(&file->memory);
}

/* ---- Looking things up ---- */

const cairn_named_tensor *cairn_safetensors_tensors(const cairn_safetensors *file,
                                                    uint32_t *count) {
    *count = file->count;
    return file->tensors;
}

const cairn_named_tensor *crn_safetensors_find(const cairn_safetensors *file, const char *name) {
    cairn_named_tensor wanted = {.name = name};
    return bsearch(&wanted, file->tensors, file->count, sizeof *file->tensors, by_name);
}

const cairn_pair *crn_safetensors_metadata(const cairn_safetensors *file, uint32_t *count) {
    *count = file->metadata_count;
    return file->metadata;
}

const char *cairn_safetensors_value(const cairn_safetensors *file, const char *key) {
    cairn_pair wanted = {key, NULL};
    const cairn_pair *found =
        bsearch(&wanted, file->metadata, file->metadata_count, sizeof *file->metadata, by_key);
    return found == NULL ? NULL : found->value;
}
