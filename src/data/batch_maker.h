/* batch_maker.h: makes any batch of a split from its number. Loaders decide which batch is made,
 * and when. */
#ifndef CRN_BATCH_MAKER_H
#define CRN_BATCH_MAKER_H

#include "data/data_internal.h"
#include "data/loader.h"

/* Used by one thread at a time. */
typedef struct crn_batch_maker {
    cairn_data *data;
    crn_loader_options options;
    uint32_t first, count; /* the split: places of data */
    uint64_t batches;      /* of an epoch */
    uint32_t planes, rows; /* a sample seen as an image; others are planes of one row */
    uint64_t columns;
    float *mean, *inverse; /* per plane: out = (value - mean) * inverse */
    uint8_t *raw;          /* a sample as it is in its file */
    uint32_t *order;       /* of samples in the epoch; NULL: not shuffled */
    bool ordered;          /* whether `order` is that of any epoch yet */
    uint64_t epoch;        /* that `order` is of */
    float byte_values[UINT8_MAX + 1];
} crn_batch_maker;

/* With `data` and `options` set, the rest follows. Memory is from the arena. */
CAIRN_MUST cairn_status crn_batch_maker_init(crn_batch_maker *maker, crn_arena *arena,
                                             cairn_error *err);

/* The labels of a sample. */
static inline uint64_t crn_sample_labels(const cairn_data *data) {
    return data->info.tokens ? data->elements : 1;
}

/* How many samples of the batch are counted. */
uint32_t crn_batch_count(const crn_batch_maker *maker, uint64_t number);

/* Of sequences the inputs are integers in the same memory. */
CAIRN_MUST cairn_status crn_batch_make(crn_batch_maker *maker, uint64_t number, float *inputs,
                                       int32_t *labels, cairn_error *err);

#endif
