/* data_statistics.c: mean and deviation of every channel over the training split, in one pass.
 *
 * Bytes are added up as whole numbers, so that nothing is rounded before the end. Reals are added
 * up in the order of the split, after subtracting the first value of their channel, because a sum
 * of squares loses precision where the mean is large. */
#include "data/data_internal.h"

#include <math.h>

/* Sums over one channel. */
typedef struct sums {
    uint64_t bytes, byte_squares;
    double shift, reals, real_squares;
} sums;

static void add_bytes(sums *to, const uint8_t *from, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        to->bytes += from[i];
        to->byte_squares += (uint32_t)from[i] * from[i];
    }
}

/* False: a value is not finite. */
static bool add_reals(sums *to, const uint8_t *from, uint64_t count, bool first) {
    if (first)
        to->shift = (double)crn_read_f32(from);
    for (uint64_t i = 0; i < count; i++) {
        double value = (double)crn_read_f32(from + 4 * i);
        if (!isfinite(value))
            return false;
        double offset = value - to->shift;
        double square = offset * offset; /* apart: no machine may fuse it into the sum */
        to->reals += offset;
        to->real_squares += square;
    }
    return true;
}

static cairn_status add_split(const cairn_data *data, sums *all, uint8_t *raw, cairn_error *err) {
    uint32_t channels = data->info.shape[0];
    uint64_t count = data->elements / channels;
    for (uint32_t place = 0; place < data->info.train; place++) {
        int32_t label;
        CRN_TRY(crn_data_sample(data, place, raw, &label, err));
        for (uint32_t c = 0; c < channels; c++) {
            if (data->dtype == CAIRN_DTYPE_U8)
                add_bytes(&all[c], raw + c * count, count);
            else if (!add_reals(&all[c], raw + 4 * c * count, count, place == 0))
                return crn_data_not_finite(data, crn_data_number(data, place), err);
        }
    }
    return CAIRN_OK;
}

static void conclude(const cairn_data *data, const sums *s, float *mean, float *deviation) {
    __extension__ typedef unsigned __int128 wide;
    uint64_t whole = data->info.train * (data->elements / data->info.shape[0]);
    double n = (double)whole, average, variance;
    if (data->dtype == CAIRN_DTYPE_U8) {
        wide apart = (wide)whole * s->byte_squares - (wide)s->bytes * s->bytes;
        average = (double)s->bytes / n / 255;
        variance = (double)apart / n / n / (255 * 255);
    } else {
        double offset = s->reals / n, square = offset * offset;
        average = s->shift + offset;
        variance = s->real_squares / n - square;
    }
    float spread = variance > 0 ? (float)sqrt(variance) : 0;
    *mean = (float)average;
    *deviation = spread > 0 ? spread : 1;
}

static cairn_status compute(cairn_data *data, crn_arena *scratch, cairn_error *err) {
    uint32_t channels = data->info.shape[0];
    sums *all;
    uint8_t *raw;
    float *mean, *deviation;
    CRN_TAKE(scratch, all, channels);
    CRN_TAKE(scratch, raw, data->sample_bytes);
    CRN_TRY(add_split(data, all, raw, err));
    CRN_TAKE(&data->arena, mean, channels);
    CRN_TAKE(&data->arena, deviation, channels);
    for (uint32_t c = 0; c < channels; c++)
        conclude(data, &all[c], &mean[c], &deviation[c]);
    data->mean = mean;
    data->deviation = deviation;
    return CAIRN_OK;
}

cairn_status cairn_data_statistics(cairn_data *data, const float **mean, const float **deviation,
                                   cairn_error *err) {
    cairn_status status = CAIRN_OK;
    crn_error_clear(err);
    pthread_mutex_lock(&data->lock);
    if (data->mean == NULL) {
        crn_arena scratch;
        crn_arena_init(&scratch, &data->arena.allocator);
        status = compute(data, &scratch, err);
        crn_arena_release(&scratch);
    }
    *mean = data->mean;
    *deviation = data->deviation;
    pthread_mutex_unlock(&data->lock);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

static bool valid(const float *mean, const float *deviation, uint32_t channels) {
    for (uint32_t c = 0; c < channels; c++)
        if (!isfinite(mean[c]) || !isfinite(deviation[c]) || !(deviation[c] > 0))
            return false;
    return true;
}

static cairn_status keep(cairn_data *data, const float *mean, const float *deviation) {
    uint32_t channels = data->info.shape[0];
    float *means, *deviations;
    CRN_TAKE(&data->arena, means, channels);
    CRN_TAKE(&data->arena, deviations, channels);
    memcpy(means, mean, channels * sizeof *mean);
    memcpy(deviations, deviation, channels * sizeof *deviation);
    data->mean = means;
    data->deviation = deviations;
    data->info.statistics_set = true;
    return CAIRN_OK;
}

cairn_status cairn_data_set_statistics(cairn_data *data, const float *mean, const float *deviation,
                                       cairn_error *err) {
    crn_error_clear(err);
    if (!valid(mean, deviation, data->info.shape[0]))
        return crn_fail(err, CAIRN_EINVAL,
                        "means must be finite, and deviations finite and above 0");
    pthread_mutex_lock(&data->lock);
    cairn_status status = keep(data, mean, deviation);
    pthread_mutex_unlock(&data->lock);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
