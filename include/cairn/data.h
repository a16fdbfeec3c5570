/* data.h: samples to train on: files of a few known formats, or a synthetic task.
 *
 * Data is a fixed list of samples, each a tensor with a label, in two splits. Sessions (train.h)
 * and evaluators (evaluate.h) walk over a split in batches, epoch after epoch, and make the next
 * batches on a separate thread. The formats of files are in docs/data-format.md. */
#ifndef CAIRN_DATA_H
#define CAIRN_DATA_H

#include "cairn/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sources ---- */

typedef struct cairn_data_source {
    const char *name;     /* "mnist" */
    const char *argument; /* what follows the name: ":DIR"; "" where nothing does */
    const char *summary;
} cairn_data_source;

/* Source `index`, or NULL past the end. */
CAIRN_API const cairn_data_source *cairn_data_source_list(uint32_t index);

/* ---- Data ---- */

typedef enum cairn_split { CAIRN_SPLIT_TRAIN = 0, CAIRN_SPLIT_VALIDATION = 1 } cairn_split;

/* Start from CAIRN_DATA_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_data_options {
    uint32_t struct_size;
    const cairn_allocator *allocator; /* NULL: the C library's */
    uint64_t seed;                    /* of the synthetic task and of which samples are held out */
    uint32_t input[3]; /* of the synthetic task: channels, height, width; 0: 3, 32, 32 */
    uint32_t classes;  /* of the synthetic task; 0: 10 */
    uint32_t count;    /* of the synthetic task, samples in both splits; 0: 10000 */
    double validation; /* share held out where the source has no validation split, from
                          0 to below 1; of more than one sample at least one stays on each side */
    uint32_t tokens;   /* of a sample of tokens or text; 0: 256 */
} cairn_data_options;
#define CAIRN_DATA_OPTIONS_INIT                                                                    \
    CAIRN_INIT_WITH(cairn_data_options, CAIRN_INIT_FIELD(validation, 0.1))

typedef struct cairn_data cairn_data;

/* Open "synthetic", "mnist:DIR", "cifar10:DIR", "tensors:DIR", "tokens:FILE" or "text:FILE", the
 * last two also with a second file for validation after a comma; `options` may be NULL. Files are
 * checked (sizes, counts, every label) and stay open; of their contents only the labels are kept in
 * memory. The files must not be changed while the data is in use.
 *
 * CAIRN_EUNKNOWN: there is no such source, folder or file; CAIRN_EINVAL, CAIRN_ESYNTAX: a file or
 * an option is wrong; CAIRN_EIO: a file cannot be read. The file is named in `err`. `*out` is NULL
 * unless CAIRN_OK; release with cairn_data_destroy(). O(samples). */
CAIRN_API CAIRN_MUST cairn_status cairn_data_open(const char *source,
                                                  const cairn_data_options *options,
                                                  cairn_data **out, cairn_error *err);

/* Destroy the sessions and evaluators that use it first. */
CAIRN_API void cairn_data_destroy(cairn_data *data);

/* Only the library makes one; fields are only ever added at the end. */
typedef struct cairn_data_info {
    uint32_t rank; /* of a sample; images have 3: channels, height, width */
    uint32_t shape[CAIRN_MAX_RANK];
    uint32_t classes;           /* labels are from 0 to below it */
    uint32_t train, validation; /* samples in each split; validation may have none */
    bool held_out;              /* validation was drawn from the training files, by the seed */
    uint64_t resident_bytes;    /* memory that is held, without that of batches */
    uint64_t fingerprint; /* of shape, split and labels, not of values: a run that is continued can
                             tell that it was given other data */
    bool tokens;          /* samples are sequences of integers, each with the one that follows as
                             its label */
    bool bytes;           /* values are bytes and stand for 0 .. 1: value / 255; else reals */
    bool statistics_set;  /* by cairn_data_set_statistics() */
} cairn_data_info;
CAIRN_API const cairn_data_info *cairn_data_get_info(const cairn_data *data);

/* Mean and standard deviation of each channel (the first dimension of a sample) over the training
 * split, as they are used to normalise: of bytes scaled to 0 .. 1, of reals as they are. A
 * channel that is constant is given a deviation of 1. Read once, then kept: the first call reads
 * the whole split. The arrays, of shape[0] elements, live as long as the data. Threads may call
 * this at once. */
CAIRN_API CAIRN_MUST cairn_status cairn_data_statistics(cairn_data *data, const float **mean,
                                                        const float **deviation, cairn_error *err);

/* Use these instead: what another data set had on which the network was trained. Both arrays have
 * shape[0] elements. Call it before the data is used. CAIRN_EINVAL: a value is not finite,
 * or a deviation is not above 0. */
CAIRN_API CAIRN_MUST cairn_status cairn_data_set_statistics(cairn_data *data, const float *mean,
                                                            const float *deviation,
                                                            cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
