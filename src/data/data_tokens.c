/* data_tokens.c: sequences of tokens: files in the layout of llm.c's scripts, and plain text whose
 * bytes are the tokens.
 *
 *     tokens of a file:   0 1 2 3 4 5 6 7 8 9 ...      windows of three:  [0 1 2][3 4 5][6 7 8]
 *     of a window:        inputs 0 1 2, labels 1 2 3
 *
 * A sample is a window; its labels are the tokens that follow. A .bin file has a header of 1,024
 * bytes, 256 little-endian integers of which the first three are 20240520, 1 and the number of
 * tokens, and then 16 bits a token. "A,B" names a file to train on and one for validation; without
 * B the last windows are held out. Both may be patterns, as data in several files needs:
 * "train_*.bin" are all such files in alphabetical order. No window reaches over the end of a file.
 */
#include "base/names.h"
#include "data/data_internal.h"

#include <glob.h>
#include <stdio.h>

#define HEADER 1024u
#define MAGIC 20240520u
#define VERSION 1u
#define DEFAULT_WINDOW 256u
#define CHUNK 65536u

/* Where the tokens of an open file begin, and how many there are. */
static cairn_status find_tokens(const crn_data_file *file, uint32_t width, uint64_t *offset,
                                uint64_t *count, cairn_error *err) {
    uint8_t header[12];
    *offset = 0;
    *count = file->bytes;
    if (width == 1)
        return CAIRN_OK;
    if (file->bytes < HEADER)
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "is %llu bytes long, shorter than a header of %u bytes",
                        (unsigned long long)file->bytes, HEADER);
    CRN_TRY(crn_data_file_read(file, 0, header, sizeof header, err));
    if (crn_read_u32(header) != MAGIC || crn_read_u32(header + 4) != VERSION)
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "does not begin with %u and %u, as files of 16-bit tokens do", MAGIC,
                        VERSION);
    *offset = HEADER;
    *count = crn_read_u32(header + 8);
    if (file->bytes != HEADER + 2 * *count)
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "is %llu bytes long; %llu tokens by its header would have %llu",
                        (unsigned long long)file->bytes, (unsigned long long)*count,
                        (unsigned long long)(HEADER + 2 * *count));
    return CAIRN_OK;
}

/* Read all tokens once: the largest one, and a fingerprint. */
static cairn_status scan(cairn_data *data, const crn_data_file *file, uint64_t offset,
                         uint32_t *largest, cairn_error *err) {
    uint8_t chunk[CHUNK];
    for (uint64_t at = offset; at < file->bytes; at += CHUNK) {
        size_t now = (size_t)CRN_MIN(CHUNK, file->bytes - at);
        CRN_TRY(crn_data_file_read(file, at, chunk, now, err));
        data->content = crn_hash_bytes(data->content, chunk, now);
        for (size_t i = 0; i + 1 < now; i += 2)
            *largest = CRN_MAX(*largest, (uint32_t)chunk[i] | (uint32_t)chunk[i + 1] << 8);
    }
    return CAIRN_OK;
}

static cairn_status open_file(cairn_data *data, const char *path, cairn_split split,
                              uint32_t *largest, cairn_error *err) {
    crn_data_file *file = &data->files[data->file_count];
    uint32_t width = data->token_bytes, window = data->info.shape[0];
    uint64_t offset, count;
    CRN_TRY(crn_data_file_open(file, path, err));
    data->file_count++;
    CRN_TRY(find_tokens(file, width, &offset, &count, err));
    if (count <= window)
        return crn_fail(crn_in_file(err, path), CAIRN_EINVAL,
                        "has %llu tokens; a sample needs %u and the one after them",
                        (unsigned long long)count, window);
    CRN_TRY(scan(data, file, offset, largest, err));
    return crn_data_add_samples(data, file, split, offset, (uint64_t)window * width,
                                (count - 1) / window, err);
}

/* The files that a pattern names; one that names none is the file of that name. The caller calls
 * globfree(). */
static cairn_status find_files(const char *pattern, glob_t *out, cairn_error *err) {
    int result = glob(pattern, GLOB_NOCHECK | GLOB_NOESCAPE, NULL, out);
    if (result == GLOB_NOSPACE)
        return CAIRN_ENOMEM;
    return result == 0 ? CAIRN_OK
                       : crn_fail(crn_in_file(err, pattern), CAIRN_EIO, "cannot be searched");
}

/* Of every file that `files` names, the tokens become samples of the split. */
static cairn_status open_split(cairn_data *data, const glob_t *files, cairn_split split,
                               uint32_t *largest, cairn_error *err) {
    for (size_t i = 0; i < files->gl_pathc; i++) {
        const char *path = crn_arena_string(&data->arena, files->gl_pathv[i]);
        if (path == NULL)
            return CAIRN_ENOMEM;
        CRN_TRY(open_file(data, path, split, largest, err));
    }
    return CAIRN_OK;
}

static cairn_status open_both(cairn_data *data, const glob_t *train, const glob_t *validation,
                              uint32_t *largest, cairn_error *err) {
    CRN_TAKE(&data->arena, data->files, train->gl_pathc + validation->gl_pathc);
    CRN_TRY(open_split(data, train, CAIRN_SPLIT_TRAIN, largest, err));
    return open_split(data, validation, CAIRN_SPLIT_VALIDATION, largest, err);
}

/* "A" or "A,B". */
static cairn_status open_files(cairn_data *data, const char *paths, uint32_t *largest,
                               cairn_error *err) {
    char *first = crn_arena_string(&data->arena, paths);
    glob_t train = {0}, validation = {0};
    if (first == NULL)
        return CAIRN_ENOMEM;
    char *comma = strchr(first, ',');
    if (comma == first || (comma != NULL && comma[1] == '\0'))
        return crn_fail(err, CAIRN_EINVAL, "\"%.120s\" lacks a file before or after its comma",
                        paths);
    if (comma != NULL)
        *comma = '\0';
    cairn_status status = find_files(first, &train, err);
    if (status == CAIRN_OK && comma != NULL)
        status = find_files(comma + 1, &validation, err);
    if (status == CAIRN_OK)
        status = open_both(data, &train, &validation, largest, err);
    globfree(&train);
    globfree(&validation);
    return status;
}

static cairn_status open_tokens(cairn_data *data, const char *paths, uint32_t width,
                                uint32_t *largest, cairn_error *err) {
    uint32_t window = data->options.tokens > 0 ? data->options.tokens : DEFAULT_WINDOW;
    CRN_TRY(crn_data_set_shape(data, 1, &window, CAIRN_DTYPE_U8, 256, err));
    data->token_bytes = width;
    data->sample_bytes = ((uint64_t)window + 1) * width;
    data->info.tokens = true;
    data->content = CRN_HASH_START;
    return open_files(data, paths, largest, err);
}

cairn_status crn_data_open_tokens(cairn_data *data, const char *paths, cairn_error *err) {
    uint32_t largest = 0;
    CRN_TRY(open_tokens(data, paths, 2, &largest, err));
    data->info.classes = largest + 1;
    return CAIRN_OK;
}

cairn_status crn_data_open_text(cairn_data *data, const char *paths, cairn_error *err) {
    uint32_t ignored = 0;
    return open_tokens(data, paths, 1, &ignored, err);
}

cairn_status crn_data_window(const cairn_data *data, uint32_t place, uint32_t shift, uint8_t *raw,
                             int32_t *inputs, int32_t *labels, cairn_error *err) {
    uint32_t number = crn_data_number(data, place), window = data->info.shape[0];
    const crn_data_file *file = crn_data_file_of(data, number);
    uint64_t offset = file->offset + (number - file->first) * file->stride;
    /* The last window of a file, and that of training, is not shifted: it would reach over the end,
     * or into validation. */
    if (number + 1 < CRN_MIN(data->info.train, file->first + file->count))
        offset += (uint64_t)shift * data->token_bytes;
    CRN_TRY(crn_data_file_read(file, offset, raw, data->sample_bytes, err));
    for (uint32_t i = 0; i <= window; i++) {
        int32_t token = data->token_bytes == 1 ? raw[i] : raw[2 * i] | raw[2 * i + 1] << 8;
        if (i < window)
            inputs[i] = token;
        if (i > 0)
            labels[i - 1] = token;
    }
    return CAIRN_OK;
}
