/* pool_kernels.h: pooling; no guard. See pack.h and pooling_window.h, whose windows these are.
 *
 * A block has one row of pixels of one image, x of the grid, and a part of its columns and
 * channels, y of the grid. Backward, a pixel gathers from the windows that hold it, in the order of
 * the windows: nothing is added by two threads. */

#define max_pool_pixel FORM(max_pool_pixel)
#define get_places FORM(get_places)
#define put_places FORM(put_places)
#define places_pack FORM(places_pack)
#define max_pool_gather FORM(max_pool_gather)
#define avg_pool_pixel FORM(avg_pool_pixel)
#define avg_pool_gather FORM(avg_pool_gather)

typedef struct places_pack {
    uint32_t at[PACK];
} places_pack;

CRN_DEVICE void put_places(const crn_pool_args *CRN_RESTRICT p, size_t index, places_pack places) {
    if (p->place_bytes == 1) {
#if defined(__CUDACC__) && PACK == 4
        *(uint32_t *)((uint8_t *)p->places + index) =
            places.at[0] | places.at[1] << 8 | places.at[2] << 16 | places.at[3] << 24;
#else
        EACH(k) {
            ((uint8_t *)p->places)[index + k] = (uint8_t)places.at[k];
        }
#endif
    } else {
        EACH(k) {
            ((uint32_t *)p->places)[index + k] = places.at[k];
        }
    }
}

CRN_DEVICE places_pack get_places(const crn_pool_args *CRN_RESTRICT p, size_t index) {
    places_pack places;
    if (p->place_bytes == 1) {
#if defined(__CUDACC__) && PACK == 4
        uint32_t word = *(const uint32_t *)((const uint8_t *)p->places + index);
        EACH(k) {
            places.at[k] = word >> (8 * k) & 0xff;
        }
#else
        EACH(k) {
            places.at[k] = ((const uint8_t *)p->places)[index + k];
        }
#endif
    } else {
        EACH(k) {
            places.at[k] = ((const uint32_t *)p->places)[index + k];
        }
    }
    return places;
}

/* ---- maximum ---- */

/* The first maximum in the order of rows wins; a NaN is a maximum. */
CRN_DEVICE void max_pool_pixel(const crn_pool_args *CRN_RESTRICT p, uint32_t row, uint32_t column,
                               uint32_t c) {
    uint32_t n = row / p->small_height, wide = (uint32_t)p->kernel[1];
    crn_span y = crn_window_span(p, 0, (int32_t)(row % p->small_height));
    crn_span x = crn_window_span(p, 1, (int32_t)column);
    const size_t image = (size_t)n * p->height * p->width * p->from_pitch + c;
    pack best;
    places_pack places;
    EACH(k) {
        best.at[k] = crn_from_bits(0xff800000u); /* minus infinity */
        places.at[k] = (uint32_t)(y.first - y.before) * wide + (uint32_t)(x.first - x.before);
    }
    for (int32_t i = y.first; i < y.end; i++)
        for (int32_t j = x.first; j < x.end; j++) {
            pack value = get(p->from, image + ((size_t)i * p->width + j) * p->from_pitch);
            uint32_t place = (uint32_t)(i - y.before) * wide + (uint32_t)(j - x.before);
            EACH(k) {
                if (value.at[k] > best.at[k] || crn_is_nan(value.at[k])) {
                    best.at[k] = value.at[k];
                    places.at[k] = place;
                }
            }
        }
    size_t pixel = (size_t)row * p->small_width + column;
    put(p->to, pixel * p->to_pitch + c, best);
    if (p->places)
        put_places(p, pixel * p->places_pitch + c, places);
}

CRN_KERNEL(FORM(max_pool), crn_pool_args) {
    CRN_EACH_THREAD(t) {
        uint32_t i = g.y * g.threads + t, column = i / p->packs;
        if (column < p->small_width)
            max_pool_pixel(p, g.x, column, (i - column * p->packs) * PACK);
    }
}

CRN_DEVICE void max_pool_gather(const crn_pool_args *CRN_RESTRICT p, uint32_t row, uint32_t column,
                                uint32_t c) {
    uint32_t n = row / p->height, wide = (uint32_t)p->kernel[1];
    int32_t i = (int32_t)(row % p->height), j = (int32_t)column;
    crn_span y = crn_windows_of(p, 0, i), x = crn_windows_of(p, 1, j);
    pack sum = no_pack();
    for (int32_t a = y.first; a < y.end; a++)
        for (int32_t b = x.first; b < x.end; b++) {
            size_t pixel = ((size_t)n * p->small_height + a) * p->small_width + b;
            uint32_t place = (uint32_t)(i + p->pad[0] - a * p->stride[0]) * wide +
                             (uint32_t)(j + p->pad[1] - b * p->stride[1]);
            places_pack places = get_places(p, pixel * p->places_pitch + c);
            pack gy = get(p->from, pixel * p->from_pitch + c);
            EACH(k) {
                sum.at[k] += places.at[k] == place ? gy.at[k] : 0;
            }
        }
    put(p->to, ((size_t)row * p->width + column) * p->to_pitch + c, sum);
}

CRN_KERNEL(FORM(max_pool_bwd), crn_pool_args) {
    CRN_EACH_THREAD(t) {
        uint32_t i = g.y * g.threads + t, column = i / p->packs;
        if (column < p->width)
            max_pool_gather(p, g.x, column, (i - column * p->packs) * PACK);
    }
}

/* ---- average ---- */

CRN_DEVICE void avg_pool_pixel(const crn_pool_args *CRN_RESTRICT p, uint32_t row, uint32_t column,
                               uint32_t c) {
    crn_span y = crn_window_span(p, 0, (int32_t)(row % p->small_height));
    crn_span x = crn_window_span(p, 1, (int32_t)column);
    size_t image = (size_t)(row / p->small_height) * p->height * p->width * p->from_pitch + c;
    float share = crn_window_share(p, y, x);
    pack sum = no_pack();
    for (int32_t i = y.first; i < y.end; i++)
        for (int32_t j = x.first; j < x.end; j++) {
            pack value = get(p->from, image + ((size_t)i * p->width + j) * p->from_pitch);
            EACH(k) {
                sum.at[k] += value.at[k];
            }
        }
    EACH(k) {
        sum.at[k] /= share;
    }
    put(p->to, ((size_t)row * p->small_width + column) * p->to_pitch + c, sum);
}

CRN_KERNEL(FORM(avg_pool), crn_pool_args) {
    CRN_EACH_THREAD(t) {
        uint32_t i = g.y * g.threads + t, column = i / p->packs;
        if (column < p->small_width)
            avg_pool_pixel(p, g.x, column, (i - column * p->packs) * PACK);
    }
}

CRN_DEVICE void avg_pool_gather(const crn_pool_args *CRN_RESTRICT p, uint32_t row, uint32_t column,
                                uint32_t c) {
    uint32_t n = row / p->height;
    crn_span y = crn_windows_of(p, 0, (int32_t)(row % p->height));
    crn_span x = crn_windows_of(p, 1, (int32_t)column);
    pack sum = no_pack();
    for (int32_t a = y.first; a < y.end; a++)
        for (int32_t b = x.first; b < x.end; b++) {
            size_t pixel = ((size_t)n * p->small_height + a) * p->small_width + b;
            float share = crn_window_share(p, crn_window_span(p, 0, a), crn_window_span(p, 1, b));
            pack gy = get(p->from, pixel * p->from_pitch + c);
            EACH(k) {
                sum.at[k] += gy.at[k] / share;
            }
        }
    put(p->to, ((size_t)row * p->width + column) * p->to_pitch + c, sum);
}

CRN_KERNEL(FORM(avg_pool_bwd), crn_pool_args) {
    CRN_EACH_THREAD(t) {
        uint32_t i = g.y * g.threads + t, column = i / p->packs;
        if (column < p->width)
            avg_pool_gather(p, g.x, column, (i - column * p->packs) * PACK);
    }
}

#undef max_pool_pixel
#undef get_places
#undef put_places
#undef places_pack
#undef max_pool_gather
#undef avg_pool_pixel
#undef avg_pool_gather
