/* safetensors_write.c: safetensors files, written.
 *
 * Tensors stand in the order of the format's own library: the kind of elements, last in the list
 * first, then the name. As larger elements come first and the header is filled up with spaces to a
 * multiple of 8 bytes, every tensor is aligned for its elements in the file. Metadata is sorted by
 * key. So the bytes depend only on the content. */
#include "base/json.h"
#include "base/save_file.h"
#include "exec/crn_exec.h"
#include "weights/weights_internal.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct writing {
    crn_arena scratch;
    cairn_exec *exec; /* that tensors are read from */
    crn_saved_tensor *tensors;
    uint32_t tensor_count;
    void *room; /* for one that is read */
    cairn_pair *metadata;
    uint32_t metadata_count;
    cairn_text header;
    cairn_error *err;
} writing;

/* ---- Checking and sorting ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const crn_saved_tensor *)a)->as.name, ((const crn_saved_tensor *)b)->as.name);
}

static int compare_places(const void *a, const void *b) {
    const crn_saved_tensor *x = a, *y = b;
    if (x->as.element != y->as.element)
        return x->as.element > y->as.element ? -1 : 1;
    return compare_names(a, b);
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(((const cairn_pair *)a)->key, ((const cairn_pair *)b)->key);
}

static cairn_status check_tensor(cairn_named_tensor *tensor, cairn_error *err) {
    if (crn_element_name(tensor->element) == NULL || tensor->rank > CAIRN_NAMED_TENSOR_RANK ||
        strcmp(tensor->name, CRN_METADATA) == 0)
        return crn_fail_at(
            err, CAIRN_EINVAL, tensor->name, "%.200s cannot be written: %s", tensor->name,
            tensor->rank > CAIRN_NAMED_TENSOR_RANK      ? "it has too many dimensions"
            : crn_element_name(tensor->element) == NULL ? "its kind of elements is not in the list"
                                                        : "the name stands for the metadata");
    if (!crn_named_tensor_bytes(tensor, &tensor->bytes) || tensor->bytes > INT64_MAX)
        return crn_fail_at(err, CAIRN_EOVERFLOW, tensor->name, "%.200s is larger than 2^63 bytes",
                           tensor->name);
    return CAIRN_OK;
}

static cairn_status sort_tensors(writing *w, const crn_saved_tensor *tensors) {
    CRN_TAKE(&w->scratch, w->tensors, w->tensor_count);
    if (w->tensor_count == 0)
        return CAIRN_OK;
    memcpy(w->tensors, tensors, w->tensor_count * sizeof *tensors);
    qsort(w->tensors, w->tensor_count, sizeof *tensors, compare_names);
    for (uint32_t i = 0; i < w->tensor_count; i++) {
        const char *name = w->tensors[i].as.name;
        CRN_TRY(check_tensor(&w->tensors[i].as, w->err));
        if (i > 0 && strcmp(w->tensors[i - 1].as.name, name) == 0)
            return crn_fail_at(w->err, CAIRN_EINVAL, name, "two tensors are called %.200s", name);
    }
    qsort(w->tensors, w->tensor_count, sizeof *tensors, compare_places);
    return CAIRN_OK;
}

static cairn_status sort_metadata(writing *w, const cairn_pair *metadata) {
    CRN_TAKE(&w->scratch, w->metadata, w->metadata_count);
    if (w->metadata_count == 0)
        return CAIRN_OK;
    memcpy(w->metadata, metadata, w->metadata_count * sizeof *metadata);
    qsort(w->metadata, w->metadata_count, sizeof *metadata, compare_keys);
    for (uint32_t i = 1; i < w->metadata_count; i++)
        if (strcmp(w->metadata[i - 1].key, w->metadata[i].key) == 0)
            return crn_fail(w->err, CAIRN_EINVAL, "the metadata has %.200s twice",
                            w->metadata[i].key);
    return CAIRN_OK;
}

/* ---- The header ---- */

static void put_metadata(writing *w) {
    for (uint32_t i = 0; i < w->metadata_count; i++) {
        crn_text_printf(&w->header, i == 0 ? "\"" CRN_METADATA "\":{" : ",");
        crn_text_json_string(&w->header, w->metadata[i].key);
        crn_text_put(&w->header, ":", 1);
        crn_text_json_string(&w->header, w->metadata[i].value);
    }
    if (w->metadata_count > 0)
        crn_text_put(&w->header, "}", 1);
}

static void put_tensor(cairn_text *header, const cairn_named_tensor *tensor, uint64_t begin) {
    crn_text_json_string(header, tensor->name);
    crn_text_printf(header, ":{\"dtype\":\"%s\",\"shape\":[", crn_element_name(tensor->element));
    for (uint32_t i = 0; i < tensor->rank; i++)
        crn_text_printf(header, "%s%" PRIu64, i > 0 ? "," : "", tensor->shape[i]);
    crn_text_printf(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                    begin + tensor->bytes);
}

static cairn_status make_header(writing *w) {
    uint64_t begin = 0;
    crn_text_put(&w->header, "{", 1);
    put_metadata(w);
    for (uint32_t i = 0; i < w->tensor_count; i++) {
        const cairn_named_tensor *tensor = &w->tensors[i].as;
        if (begin + tensor->bytes > INT64_MAX)
            return crn_fail(w->err, CAIRN_EOVERFLOW, "all tensors together are too large");
        if (i > 0 || w->metadata_count > 0)
            crn_text_put(&w->header, ",", 1);
        put_tensor(&w->header, tensor, begin);
        begin += tensor->bytes;
    }
    crn_text_put(&w->header, "}", 1);
    while (w->header.length % 8 != 0)
        crn_text_put(&w->header, " ", 1);
    return crn_text_finish(&w->header);
}

/* What cannot be read must not be written: text that is not UTF-8, a header that is too long. */
static cairn_status check_header(const writing *w) {
    crn_json_document document;
    if (w->header.length > CRN_LARGEST_HEADER)
        return crn_fail(w->err, CAIRN_EINVAL,
                        "the header would be %zu bytes long; the format allows %u",
                        w->header.length, CRN_LARGEST_HEADER);
    cairn_status status = crn_json_parse(w->header.data, w->header.length, NULL, &document, w->err);
    if (status == CAIRN_OK)
        crn_json_release(&document);
    if (status != CAIRN_ESYNTAX)
        return status;
    crn_error_clear(w->err);
    return crn_fail(w->err, CAIRN_EINVAL, "a name or a word of the metadata is not UTF-8");
}

/* ---- The file ---- */

cairn_status crn_saved_data(cairn_exec *exec, const crn_saved_tensor *tensor, void *room,
                            const void **out, cairn_error *err) {
    *out = tensor->from == CAIRN_NONE ? tensor->as.data : room;
    if (tensor->from == CAIRN_NONE)
        return CAIRN_OK;
    if (tensor->slot > 0)
        return crn_exec_read_slot(exec, tensor->from, tensor->slot - 1, room, err);
    CRN_TRY(cairn_exec_read(exec, tensor->from, room, err));
    *out = (char *)room + tensor->offset;
    if (tensor->columns > 0) {
        float *turned = (float *)room + tensor->whole / sizeof(float);
        crn_transpose(room, turned, tensor->whole / sizeof(float) / tensor->columns,
                      tensor->columns);
        *out = turned;
    }
    return CAIRN_OK;
}

uint64_t crn_saved_room(const crn_saved_tensor *tensors, uint32_t count) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i].from != CAIRN_NONE)
            most = CRN_MAX(most, CRN_MAX(tensors[i].as.bytes,
                                         tensors[i].whole * (tensors[i].columns > 0 ? 2 : 1)));
    return most;
}

static void put_data(crn_save *save, const cairn_named_tensor *tensor, const uint8_t *from) {
    uint32_t element = crn_element_bytes(tensor->element);
    if (element == 1 || crn_is_little_endian()) {
        crn_save_put(save, from, tensor->bytes);
        return;
    }
    uint8_t turned[4096];
    for (uint64_t at = 0; at < tensor->bytes; at += sizeof turned) {
        size_t length = (size_t)CRN_MIN(tensor->bytes - at, sizeof turned);
        memcpy(turned, from + at, length);
        crn_reverse_elements(turned, length, element);
        crn_save_put(save, turned, length);
    }
}

static cairn_status write_file(const writing *w, const char *path) {
    crn_save save;
    uint8_t length[8];
    cairn_status status = CAIRN_OK;
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (uint8_t)((uint64_t)w->header.length >> 8 * i);
    CRN_TRY(crn_save_begin(&save, path, w->err));
    crn_save_put(&save, length, sizeof length);
    crn_save_put(&save, w->header.data, w->header.length);
    for (uint32_t i = 0; i < w->tensor_count && status == CAIRN_OK; i++) {
        const void *data;
        status = crn_saved_data(w->exec, &w->tensors[i], w->room, &data, w->err);
        if (status == CAIRN_OK)
            put_data(&save, &w->tensors[i].as, data);
    }
    if (status == CAIRN_OK)
        return crn_save_end(&save, w->err);
    crn_save_cancel(&save);
    return status;
}

static cairn_status write_all(writing *w, const char *path, const crn_saved_tensor *tensors,
                              const cairn_pair *metadata) {
    CRN_TRY(sort_tensors(w, tensors));
    w->room = crn_arena_take(&w->scratch, (size_t)crn_saved_room(w->tensors, w->tensor_count), 1);
    if (w->room == NULL)
        return CAIRN_ENOMEM;
    CRN_TRY(sort_metadata(w, metadata));
    CRN_TRY(make_header(w));
    CRN_TRY(check_header(w));
    return write_file(w, path);
}

cairn_status crn_safetensors_save(const cairn_allocator *allocator, const char *path,
                                  cairn_exec *exec, const crn_saved_tensor *tensors,
                                  uint32_t tensor_count, const cairn_pair *metadata,
                                  uint32_t metadata_count, cairn_error *err) {
    writing w = {
        .exec = exec, .tensor_count = tensor_count, .metadata_count = metadata_count, .err = err};
    crn_error_clear(err);
    crn_arena_init(&w.scratch, allocator);
    crn_text_init(&w.header, allocator);
    cairn_status status = write_all(&w, path, tensors, metadata);
    cairn_text_release(&w.header);
    crn_arena_release(&w.scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status cairn_safetensors_save(const cairn_allocator *allocator, const char *path,
                                    const cairn_named_tensor *tensors, uint32_t tensor_count,
                                    const cairn_pair *metadata, uint32_t metadata_count,
                                    cairn_error *err) {
    crn_arena scratch;
    crn_error_clear(err);
    crn_arena_init(&scratch, allocator);
    crn_saved_tensor *list = crn_arena_take(&scratch, tensor_count, sizeof *list);
    cairn_status status = CAIRN_ENOMEM;
    for (uint32_t i = 0; list != NULL && i < tensor_count; i++)
        list[i] = (crn_saved_tensor){.as = tensors[i], .from = CAIRN_NONE};
    if (list != NULL)
        status = crn_safetensors_save(allocator, path, NULL, list, tensor_count, metadata,
                                      metadata_count, err);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
