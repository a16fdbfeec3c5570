/* data_internal.h: what the files of data/ share: data, and access to its samples.
 *
 *     samples of the files, one file after another:  0 1 2 3 | 4 5 6 | 7 8 9     (numbers)
 *     in the order of the splits, where some are held out:  0 2 3 4 5 7 8 9 | 1 6
 *                                                           training        validation
 *
 * A source's reader opens its files and fills in all but the split. Samples are read when they are
 * asked for and not kept: the operating system caches them. A file that is truncated while it is
 * in use gives an error; with a mapping it would give a signal. */
#ifndef CRN_DATA_INTERNAL_H
#define CRN_DATA_INTERNAL_H

#include "base/crn_base.h"
#include "base/rng.h"
#include "cairn/data.h"

#include <pthread.h>

/* The purpose of a random number, so that two uses of one seed draw different numbers. */
enum { CRN_STREAM_SPLIT = 1, CRN_STREAM_SAMPLES, CRN_STREAM_ORDER, CRN_STREAM_AUGMENT };

#define CRN_MOST_SAMPLES ((uint64_t)INT32_MAX)

/* A file and the consecutive samples in it, if it holds samples: sample `first` + i begins at byte
 * offset + i * stride. */
typedef struct crn_data_file {
    const char *path;
    int fd; /* -1: closed */
    uint64_t bytes;
    uint64_t offset, stride;
    uint32_t first, count;
} crn_data_file;

struct cairn_data {
    crn_arena arena; /* in which this lies too */
    cairn_data_options options;
    cairn_data_info info;
    cairn_dtype dtype;     /* CAIRN_DTYPE_U8 or CAIRN_DTYPE_F32, little-endian */
    uint64_t elements;     /* of a sample */
    uint64_t sample_bytes; /* of a sample in its file */
    crn_data_file *files;
    uint32_t file_count;
    uint32_t token_bytes; /* of sequences: the bytes of a token; else 0 */
    uint64_t content;     /* of sequences: a fingerprint of all tokens */
    int32_t *labels;      /* by number; NULL: they are drawn, or follow from the sample */
    uint32_t *order;      /* numbers in the order of the splits; NULL: that of the files */
    /* Draw the sample of a number, where there are no files; gives its label. */
    int32_t (*draw)(const cairn_data *data, uint32_t number, uint8_t *to);
    pthread_mutex_t lock;    /* for the following, computed once */
    float *mean, *deviation; /* per channel; NULL: not yet */
};

/* ---- Readers: each sets shape, counts, files and labels, or draw ---- */

#define X(name, argument, summary)                                                                 \
    CAIRN_MUST cairn_status crn_data_open_##name(cairn_data *data, const char *folder,             \
                                                 cairn_error *err);
#include "data/data_sources.def"
#undef X

/* Set the shape and type of a sample and the number of classes. CAIRN_EOVERFLOW: too large. */
CAIRN_MUST cairn_status crn_data_set_shape(cairn_data *data, uint32_t rank, const uint32_t *shape,
                                           cairn_dtype dtype, uint32_t classes, cairn_error *err);

/* After samples were found in `file`, at `offset` and from there every `stride` bytes: add them to
 * a split; training comes first. */
CAIRN_MUST cairn_status crn_data_add_samples(cairn_data *data, crn_data_file *file,
                                             cairn_split split, uint64_t offset, uint64_t stride,
                                             uint64_t count, cairn_error *err);

/* Once all samples are known: room for their labels. */
CAIRN_MUST cairn_status crn_data_take_labels(cairn_data *data);

/* Keep the label of sample `number`, read from `path`, if it is one. */
CAIRN_MUST cairn_status crn_data_set_label(cairn_data *data, const char *path, uint32_t number,
                                           int64_t label, cairn_error *err);

/* ---- Files ---- */

/* `err`, which may be NULL, made to name a file. */
cairn_error *crn_in_file(cairn_error *err, const char *path);

/* "folder/name", from the data's arena; NULL when memory is out. */
char *crn_data_path(cairn_data *data, const char *folder, const char *name);

/* CAIRN_OK if `path` is a folder. */
CAIRN_MUST cairn_status crn_data_check_folder(const char *path, cairn_error *err);

/* Whether there is anything of that name. */
bool crn_data_exists(const char *path);

/* Open a regular file for reading. CAIRN_EUNKNOWN: there is none. */
CAIRN_MUST cairn_status crn_data_file_open(crn_data_file *file, const char *path, cairn_error *err);
void crn_data_file_close(crn_data_file *file);

/* Exactly these bytes. */
CAIRN_MUST cairn_status crn_data_file_read(const crn_data_file *file, uint64_t offset, void *to,
                                           size_t bytes, cairn_error *err);

/* ---- Samples ---- */

/* The sample at a place in the order of the splits: its label and, in `raw`, its bytes as they are
 * in the file. */
CAIRN_MUST cairn_status crn_data_sample(const cairn_data *data, uint32_t place, void *raw,
                                        int32_t *label, cairn_error *err);

/* Of sequences: the window at a place, moved by `shift` tokens, and the token after each. */
CAIRN_MUST cairn_status crn_data_window(const cairn_data *data, uint32_t place, uint32_t shift,
                                        uint8_t *raw, int32_t *inputs, int32_t *labels,
                                        cairn_error *err);

/* The number of the sample at a place, and the file that it is in. */
static inline uint32_t crn_data_number(const cairn_data *data, uint32_t place) {
    return data->order == NULL ? place : data->order[place];
}
const crn_data_file *crn_data_file_of(const cairn_data *data, uint32_t number);

static inline uint32_t crn_read_u32(const uint8_t *bytes) { /* little-endian */
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline float crn_read_f32(const uint8_t *bytes) {
    uint32_t bits = crn_read_u32(bytes);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What a byte of an image stands for: 0 .. 1. */
static inline float crn_byte_value(uint8_t byte) {
    return (float)byte / 255.0f;
}

/* A value that is not finite was met in sample `number`. */
cairn_status crn_data_not_finite(const cairn_data *data, uint32_t number, cairn_error *err);

#endif
