/* batch_maker.c: from the number of a batch to its samples and labels.
 *
 *     number = epoch * batches + which          order of the epoch: 3 0 5 2 4 1
 *                                               batches of two:    [   |   |   ]
 *
 * The order of an epoch, and how a sample is flipped and cropped in it, depend on the seed, the
 * epoch and the sample alone, so that any batch can be made at any time. */
#include "data/batch_maker.h"

#include <math.h>

/* ---- Getting ready ---- */

static cairn_status check_options(const crn_batch_maker *m, cairn_error *err) {
    const cairn_data_info *info = &m->data->info;
    const crn_loader_options *o = &m->options;
    bool train = o->split == CAIRN_SPLIT_TRAIN;
    if (o->split != CAIRN_SPLIT_TRAIN && o->split != CAIRN_SPLIT_VALIDATION)
        return crn_fail(err, CAIRN_EINVAL, "there is no split %d", (int)o->split);
    if (o->batch == 0)
        return crn_fail(err, CAIRN_EINVAL, "a batch needs at least one sample");
    if (m->count == 0)
        return crn_fail(err, CAIRN_EINVAL, "there are no samples for validation");
    if (train && !o->complete && m->count < o->batch)
        return crn_fail(err, CAIRN_EINVAL,
                        "there are %u samples to train on, fewer than a batch of %u", m->count,
                        o->batch);
    if ((o->flip || o->crop > 0) && info->rank != 3)
        return crn_fail(err, CAIRN_EINVAL,
                        "only images can be flipped or cropped; samples have %u "
                        "dimensions, not 3",
                        info->rank);
    if (o->crop > 0 && (o->crop >= info->shape[1] || o->crop >= info->shape[2]))
        return crn_fail(err, CAIRN_EINVAL,
                        "a crop of %u pixels leaves nothing of images of %u x %u", o->crop,
                        info->shape[1], info->shape[2]);
    return CAIRN_OK;
}

static void set_view(crn_batch_maker *m) {
    const cairn_data_info *info = &m->data->info;
    m->planes = info->shape[0];
    m->rows = info->rank == 3 ? info->shape[1] : 1;
    m->columns = m->data->elements / m->planes / m->rows;
}

static cairn_status set_normalisation(crn_batch_maker *m, cairn_error *err) {
    const float *mean = NULL, *deviation = NULL;
    if (m->data->info.tokens)
        m->options.normalise = false;
    if (m->options.normalise)
        CRN_TRY(cairn_data_statistics(m->data, &mean, &deviation, err));
    for (uint32_t c = 0; c < m->planes; c++) {
        m->mean[c] = m->options.normalise ? mean[c] : 0.0f;
        m->inverse[c] = m->options.normalise ? 1.0f / deviation[c] : 1.0f;
    }
    for (uint32_t v = 0; v <= UINT8_MAX; v++)
        m->byte_values[v] = crn_byte_value((uint8_t)v);
    return CAIRN_OK;
}

cairn_status crn_batch_maker_init(crn_batch_maker *m, crn_arena *arena, cairn_error *err) {
    const cairn_data_info *info = &m->data->info;
    bool train = m->options.split == CAIRN_SPLIT_TRAIN;
    m->first = train ? 0 : info->train;
    m->count = train ? info->train : info->validation;
    CRN_TRY(check_options(m, err));
    bool whole = !train || m->options.complete;
    m->batches = m->count / m->options.batch + (whole && m->count % m->options.batch != 0);
    set_view(m);
    CRN_TAKE(arena, m->mean, m->planes);
    CRN_TAKE(arena, m->inverse, m->planes);
    CRN_TAKE(arena, m->raw, m->data->sample_bytes);
    if (m->options.shuffle)
        CRN_TAKE(arena, m->order, m->count);
    return set_normalisation(m, err);
}

/* ---- Order ---- */

/* Fisher and Yates's shuffle, from the order of the split. */
static void shuffle(crn_batch_maker *m, uint64_t epoch) {
    crn_rng rng = {crn_mix(crn_mix(m->options.seed, CRN_STREAM_ORDER), epoch)};
    for (uint32_t i = 0; i < m->count; i++)
        m->order[i] = i;
    for (uint32_t i = m->count - 1; i > 0; i--) {
        uint32_t k = (uint32_t)crn_rng_below(&rng, (uint64_t)i + 1), kept = m->order[i];
        m->order[i] = m->order[k];
        m->order[k] = kept;
    }
    m->epoch = epoch;
    m->ordered = true;
}

uint32_t crn_batch_count(const crn_batch_maker *m, uint64_t number) {
    uint64_t before = number % m->batches * m->options.batch;
    return (uint32_t)CRN_MIN(m->options.batch, m->count - before);
}

/* ---- One sample ---- */

/* How an image is changed: read from row y + down and column x + right, with black pixels around
 * it, then mirrored. */
typedef struct change {
    int64_t down, right;
    bool flip;
} change;

static change draw_change(const crn_batch_maker *m, uint64_t epoch, uint32_t number) {
    uint64_t key = crn_mix(crn_mix(m->options.seed, CRN_STREAM_AUGMENT), epoch);
    crn_rng rng = {crn_mix(key, number)};
    uint64_t places = 2 * (uint64_t)m->options.crop + 1;
    change c = {.flip = crn_rng_next(&rng) >> 63 != 0 && m->options.flip};
    c.down = (int64_t)crn_rng_below(&rng, places) - m->options.crop;
    c.right = (int64_t)crn_rng_below(&rng, places) - m->options.crop;
    return c;
}

/* `count` elements of the raw sample from `place` on, of a plane. False: one is not finite. */
static bool decode(const crn_batch_maker *m, uint32_t plane, uint64_t place, uint64_t count,
                   float *to) {
    float mean = m->mean[plane], inverse = m->inverse[plane];
    if (m->data->dtype == CAIRN_DTYPE_U8) {
        for (uint64_t i = 0; i < count; i++)
            to[i] = (m->byte_values[m->raw[place + i]] - mean) * inverse;
        return true;
    }
    bool finite = true;
    for (uint64_t i = 0; i < count; i++) {
        float value = crn_read_f32(m->raw + 4 * (place + i));
        finite = finite && isfinite(value);
        to[i] = (value - mean) * inverse;
    }
    return finite;
}

static void fill(float *to, uint64_t count, float value) {
    for (uint64_t i = 0; i < count; i++)
        to[i] = value;
}

static void mirror(float *row, uint64_t count) {
    for (uint64_t i = 0; i < count / 2; i++) {
        float kept = row[i];
        row[i] = row[count - 1 - i];
        row[count - 1 - i] = kept;
    }
}

/* Row y of a plane, changed:
 *
 *     right > 0:  [ image ......][black]      right < 0:  [black][...... image ]
 */
static bool make_row(const crn_batch_maker *m, uint32_t plane, uint64_t y, change c, float *to) {
    float black = (0.0f - m->mean[plane]) * m->inverse[plane];
    int64_t from = (int64_t)y + c.down;
    if (from < 0 || from >= m->rows) {
        fill(to, m->columns, black);
        return true;
    }
    uint64_t left = c.right < 0 ? (uint64_t)-c.right : 0; /* black columns on each side */
    uint64_t right = c.right > 0 ? (uint64_t)c.right : 0;
    uint64_t inside = m->columns - left - right;
    uint64_t row = (plane * (uint64_t)m->rows + (uint64_t)from) * m->columns;
    fill(to, left, black);
    bool finite = decode(m, plane, row + right, inside, to + left);
    fill(to + left + inside, right, black);
    if (c.flip)
        mirror(to, m->columns);
    return finite;
}

static cairn_status make_sample(crn_batch_maker *m, uint64_t epoch, uint32_t place, float *input,
                                int32_t *label, cairn_error *err) {
    uint32_t number = crn_data_number(m->data, place);
    bool finite = true;
    CRN_TRY(crn_data_sample(m->data, place, m->raw, label, err));
    change c = draw_change(m, epoch, number);
    for (uint32_t plane = 0; plane < m->planes; plane++)
        for (uint64_t y = 0; y < m->rows; y++, input += m->columns)
            finite = make_row(m, plane, y, c, input) && finite;
    return finite ? CAIRN_OK : crn_data_not_finite(m->data, number, err);
}

/* Windows of training begin at another token in every epoch. */
static uint32_t draw_shift(const crn_batch_maker *m, uint64_t epoch) {
    if (!m->options.shuffle)
        return 0;
    crn_rng rng = {crn_mix(crn_mix(m->options.seed, CRN_STREAM_AUGMENT), epoch)};
    return (uint32_t)crn_rng_below(&rng, m->data->info.shape[0]);
}

/* ---- A batch ---- */

cairn_status crn_batch_make(crn_batch_maker *m, uint64_t number, float *inputs, int32_t *labels,
                            cairn_error *err) {
    uint64_t epoch = number / m->batches, before = number % m->batches * m->options.batch;
    if (m->order != NULL && (!m->ordered || m->epoch != epoch))
        shuffle(m, epoch);
    for (uint32_t k = 0; k < m->options.batch; k++) {
        uint32_t at = (uint32_t)((before + k) % m->count); /* past the end: from the beginning */
        uint32_t place = m->first + (m->order == NULL ? at : m->order[at]);
        uint64_t first = k * m->data->elements;
        if (m->data->info.tokens)
            CRN_TRY(crn_data_window(m->data, place, draw_shift(m, epoch), m->raw,
                                    (int32_t *)(void *)inputs + first, labels + first, err));
        else
            CRN_TRY(make_sample(m, epoch, place, inputs + first, &labels[k], err));
    }
    return CAIRN_OK;
}
