/* data_synthetic.c: a task that can be learnt: which of several small figures is in the picture?
 *
 *     # # . . . . # #      A figure is 6 x 8 cells, mirrored left to right, so that flipping a
 *     . . . # # . . .      picture does not change its class. It stands anywhere, light on dark as
 *     . . # # # # . .      often as dark on light, in channels of any contrast, under noise.
 *     # # . . . . # #
 *     . # # # # # # .      So the mean picture of every class is flat: no linear model learns
 *     # . . # # . . #      this, and a small convolutional network does.
 *
 * The 24 cells of the left half are words of the extended binary Golay code (Golay, 1949), those of
 * messages below 2^11, among which no two are complements: any two figures, and a figure and any
 * other one inverted, differ in at least 8 of them.
 *
 * A sample is a function of the seed and its number alone, in whole numbers: the same on every
 * machine. */
#include "data/data_internal.h"

#define ROWS 6u
#define COLUMNS 8u
#define HALF (COLUMNS / 2)
#define CELLS (ROWS * HALF)
#define MOST_CLASSES 2048u

#define LEAST_SIDE 8u
#define MOST_SIDE 4096u
#define MOST_CHANNELS 256u

#define DEFAULT_CLASSES 10u
#define DEFAULT_COUNT 10000u

#define NOISE 96u /* is added to a pixel, uniform from 0 to below it; of 255 */
#define LEAST_CONTRAST 32u
#define MOST_CONTRAST 144u

/* ---- Figures ---- */

/* The product of two polynomials over the field of two elements, and a bit that makes the number of
 * ones even. */
static uint32_t golay_word(uint32_t message) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 12; i++)
        if (message >> i & 1)
            word ^= 0xc75u << i;
    uint32_t ones = 0;
    for (uint32_t i = 0; i < CELLS; i++)
        ones += word >> i & 1;
    return word | (ones & 1) << 23;
}

/* The cells of the left half that have ink, one bit each. The same word is added to all figures, so
 * that none is empty, and neighbours in the word are spread, so that figures differ everywhere. */
static uint32_t figure_of(uint32_t class) {
    uint32_t word = golay_word(class) ^ 0x5a3c96u, cells = 0;
    for (uint32_t i = 0; i < CELLS; i++)
        cells |= (word >> i * 7 % CELLS & 1) << i;
    return cells;
}

/* ---- A sample ---- */

typedef struct picture {
    uint32_t channels, height, width;
    uint32_t class, figure;
    uint32_t cell, top, left; /* how large a cell is, and where the figure stands */
    bool inverted;            /* dark on light */
} picture;

static picture compose(const cairn_data *data, crn_rng *rng) {
    const uint32_t *shape = data->info.shape;
    picture p = {.channels = shape[0], .height = shape[1], .width = shape[2]};
    p.class = (uint32_t)crn_rng_below(rng, data->info.classes);
    p.figure = figure_of(p.class);
    p.cell = CRN_MAX(1, CRN_MIN(p.width * 3 / 4 / COLUMNS, p.height * 3 / 4 / ROWS));
    p.top = (uint32_t)crn_rng_below(rng, p.height - p.cell * ROWS + 1);
    p.left = (uint32_t)crn_rng_below(rng, p.width - p.cell * COLUMNS + 1);
    p.inverted = crn_rng_next(rng) >> 63 != 0;
    return p;
}

static bool has_ink(const picture *p, uint32_t y, uint32_t x) {
    uint32_t row = (y - p->top) / p->cell, column = (x - p->left) / p->cell;
    if (y < p->top || x < p->left || row >= ROWS || column >= COLUMNS)
        return false;
    return p->figure >> (row * HALF + CRN_MIN(column, COLUMNS - 1 - column)) & 1;
}

/* One channel: its two colours, and noise. */
static void draw_plane(const picture *p, crn_rng *rng, uint8_t *to) {
    uint32_t contrast =
        LEAST_CONTRAST + (uint32_t)crn_rng_below(rng, MOST_CONTRAST - LEAST_CONTRAST);
    uint32_t dark = (uint32_t)crn_rng_below(rng, 256 - NOISE - contrast), light = dark + contrast;
    uint64_t bits = 0;
    for (uint32_t y = 0, i = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++, i++) {
            bits = i % 8 == 0 ? crn_rng_next(rng) : bits >> 8;
            uint32_t noise = (uint32_t)(bits & 255) * NOISE >> 8;
            to[i] = (uint8_t)((has_ink(p, y, x) != p->inverted ? light : dark) + noise);
        }
}

static int32_t draw(const cairn_data *data, uint32_t number, uint8_t *to) {
    uint64_t key = crn_mix(data->options.seed, CRN_STREAM_SAMPLES);
    crn_rng rng = {crn_mix(key, number)};
    picture p = compose(data, &rng);
    for (uint32_t c = 0; c < p.channels; c++)
        draw_plane(&p, &rng, to + c * (size_t)p.height * p.width);
    return (int32_t)p.class;
}

/* ---- Opening ---- */

static cairn_status check_shape(const uint32_t *shape, uint32_t classes, uint64_t count,
                                cairn_error *err) {
    for (uint32_t d = 1; d < 3; d++)
        if (shape[d] < LEAST_SIDE || shape[d] > MOST_SIDE)
            return crn_fail(err, CAIRN_EINVAL,
                            "synthetic pictures of %u x %u cannot be drawn; a side has %u to %u "
                            "pixels",
                            shape[1], shape[2], LEAST_SIDE, MOST_SIDE);
    if (shape[0] > MOST_CHANNELS)
        return crn_fail(err, CAIRN_EINVAL, "synthetic pictures have 1 to %u channels, not %u",
                        MOST_CHANNELS, shape[0]);
    if (classes > MOST_CLASSES)
        return crn_fail(err, CAIRN_EINVAL, "the synthetic task has at most %u classes, not %u",
                        MOST_CLASSES, classes);
    if (count > CRN_MOST_SAMPLES)
        return crn_fail(err, CAIRN_EINVAL, "the synthetic task has at most %llu samples",
                        (unsigned long long)CRN_MOST_SAMPLES);
    return CAIRN_OK;
}

cairn_status crn_data_open_synthetic(cairn_data *data, const char *folder, cairn_error *err) {
    (void)folder;
    static const uint32_t usual[] = {3, 32, 32};
    const cairn_data_options *o = &data->options;
    uint32_t shape[3], classes = o->classes == 0 ? DEFAULT_CLASSES : o->classes;
    uint32_t count = o->count == 0 ? DEFAULT_COUNT : o->count;
    for (uint32_t d = 0; d < 3; d++)
        shape[d] = o->input[d] == 0 ? usual[d] : o->input[d];
    CRN_TRY(check_shape(shape, classes, count, err));
    CRN_TRY(crn_data_set_shape(data, 3, shape, CAIRN_DTYPE_U8, classes, err));
    data->info.train = count;
    data->draw = draw;
    return CAIRN_OK;
}
