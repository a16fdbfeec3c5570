/* loader.h: batches of samples, made ahead.
 *
 *     data --crn_loader_create--> loader --next, next, next ...-->
 *
 * A loader walks over one split in batches, epoch after epoch, and makes them on a separate
 * thread. Every batch is a function of the data, the options and the batch's number, counted from
 * the very beginning: where training stands in its data is one number. One thread at a time uses a
 * loader; data may have several loaders, each used by another thread. */
#ifndef CRN_LOADER_H
#define CRN_LOADER_H

#include "cairn/data.h"

/* Start from CRN_LOADER_OPTIONS_INIT. */
typedef struct crn_loader_options {
    cairn_split split;
    uint32_t batch; /* samples */
    uint64_t seed;  /* of order, flips and crops */
    bool shuffle;   /* a new order each epoch; else that of the source */
    bool flip;      /* mirror every other image left to right, by chance */
    bool normalise; /* subtract the mean, divide by the deviation: cairn_data_statistics() */
    uint32_t crop;  /* images: pad with this many black pixels and crop to the original size again
                       anywhere; 0: as they are */
    uint32_t prefetch;    /* batches a thread makes ahead; 0: no thread, made when asked for */
    cairn_device *device; /* borrowed: batches are made in host memory from which it copies fastest;
                             NULL: in memory of the data's allocator */
    bool complete;        /* training: also the incomplete last batch, filled up as in validation */
} crn_loader_options;
#define CRN_LOADER_OPTIONS_INIT                                                                    \
    { .batch = 32, .normalise = true, .prefetch = 2 }

typedef struct crn_loader crn_loader;

/* Walk over a split, from batch 0 on. The loader borrows `data`, which must outlive it. All memory
 * is taken here.
 *
 * CAIRN_EINVAL: the split is smaller than a batch of training, or empty, or the samples are no
 * images that could be flipped or cropped. With `normalise` the statistics may have to be read
 * first and can fail as cairn_data_statistics() does. CAIRN_ESYSTEM: no thread could be started.
 * Release with crn_loader_destroy(), at any moment. */
CAIRN_MUST cairn_status crn_loader_create(cairn_data *data, const crn_loader_options *options,
                                          crn_loader **out, cairn_error *err);
void crn_loader_destroy(crn_loader *loader);

/* Batches of an epoch. Training leaves the incomplete last batch out unless it is to be complete;
 * validation fills it up with samples from the beginning of the split. */
uint64_t crn_loader_batches(const crn_loader *loader);

/* The number of a sample of a split, counted over all files of the source: the place at which a
 * user has it. `place` is below the number of samples of the split. */
uint32_t crn_data_split_number(const cairn_data *data, cairn_split split, uint32_t place);

/* Memory the loader holds. */
uint64_t crn_loader_bytes(const crn_loader *loader);

/* Go to batch `number`, counted from the very beginning: of epoch number / batches. */
void crn_loader_seek(crn_loader *loader, uint64_t number);

typedef struct crn_batch {
    uint32_t count;        /* samples that are counted; the rest repeat others */
    const float *inputs;   /* batch x the shape of a sample, row by row */
    const int32_t *labels; /* batch; of sequences batch x tokens */
    uint64_t number;       /* of this batch */
    const int32_t *tokens; /* of sequences instead of `inputs`: batch x tokens, as labels are; else
                              NULL */
} crn_batch;

/* The next batch; what it points at is valid until the next call with this loader. CAIRN_EIO,
 * CAIRN_EINVAL: a file could not be read, or has a value that is not finite; `*out` is then
 * zero, and the loader stays where it is and says so again until it is sent elsewhere. */
CAIRN_MUST cairn_status crn_loader_next(crn_loader *loader, crn_batch *out, cairn_error *err);

#endif
