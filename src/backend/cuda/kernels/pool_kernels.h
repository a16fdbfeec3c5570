/* pool_kernels.h: pooling; no guard. See pack.h; the windows are those of pooling_window.h.
 *
 * A block has one row of pixels of one image (x of the grid), and some of its columns and
 * channels (y of the grid). In the backward a pixel gathers from the windows that contain it, in
 * the order of the windows. So no two threads add to the same element. */

#define max_pool_pixel FORM(max_pool_pixel)
#define get_places FORM(get_places)
#define put_places FORM(put_places)
#define places_pack FORM(places_pack)
#define take_larger FORM(max_take_larger)
#define max_of_square FORM(max_of_square)
#define max_pool_patch FORM(max_pool_patch)
#define avg_of_three FORM(avg_of_three)
#define avg_pool_pixel FORM(avg_pool_pixel)
#define avg_gather_three FORM(avg_gather_three)
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

/* The first maximum in the order of rows wins; a NaN is a maximum. Update `best` and `places` with
 * the value of one place. */
CRN_DEVICE void take_larger(pack *best, places_pack *places, pack value, uint32_t place) {
    EACH(k) {
        if (value.at[k] > best->at[k] || crn_is_nan(value.at[k])) {
            best->at[k] = value.at[k];
            places->at[k] = place;
        }
    }
}

/* A square window of `size` (a constant here); all its loads are in flight at once. */
CRN_DEVICE void max_of_square(const crn_pool_args *CRN_RESTRICT p, size_t image, crn_span y,
                              crn_span x, int32_t size, pack *best, places_pack *places) {
    raw values[9];
    CRN_UNROLL for (int32_t i = 0; i < size * size; i++) {
        int32_t row = y.before + i / size, column = x.before + i % size;
        row = row < y.first ? y.first : row >= y.end ? y.end - 1 : row;
        column = column < x.first ? x.first : column >= x.end ? x.end - 1 : column;
        values[i] = fetch(p->from, image + ((size_t)row * p->width + column) * p->from_pitch);
    }
    CRN_UNROLL for (int32_t i = 0; i < size * size; i++) {
        int32_t row = y.before + i / size, column = x.before + i % size;
        if (row >= y.first && row < y.end && column >= x.first && column < x.end)
            take_larger(best, places, open(values[i]), (uint32_t)i);
    }
}

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
    if (p->kernel[0] == 3 && wide == 3) {
        max_of_square(p, image, y, x, 3, &best, &places);
    } else if (p->kernel[0] == 2 && wide == 2) {
        max_of_square(p, image, y, x, 2, &best, &places);
    } else {
        for (int32_t i = y.first; i < y.end; i++)
            for (int32_t j = x.first; j < x.end; j++)
                take_larger(&best, &places,
                            get(p->from, image + ((size_t)i * p->width + j) * p->from_pitch),
                            (uint32_t)(i - y.before) * wide + (uint32_t)(j - x.before));
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

/* Make a patch of side * side pixels, the first at (i, j); `side` is a constant here. Every window
 * that covers one of them is read once. */
CRN_DEVICE void max_pool_patch(const crn_pool_args *CRN_RESTRICT p, uint32_t n, int32_t i,
                               int32_t j, uint32_t c, int32_t side) {
    int32_t last_row = i + side <= (int32_t)p->height ? i + side - 1 : (int32_t)p->height - 1;
    int32_t last_column = j + side <= (int32_t)p->width ? j + side - 1 : (int32_t)p->width - 1;
    crn_span y = crn_windows_of(p, 0, i), x = crn_windows_of(p, 1, j);
    y.end = crn_windows_of(p, 0, last_row).end;
    x.end = crn_windows_of(p, 1, last_column).end;
    pack sums[4];
    CRN_UNROLL for (int32_t u = 0; u < side * side; u++) sums[u] = no_pack();
    for (int32_t a = y.first; a < y.end; a++)
        for (int32_t b = x.first; b < x.end; b++) {
            size_t pixel = ((size_t)n * p->small_height + a) * p->small_width + b;
            places_pack places = get_places(p, pixel * p->places_pitch + c);
            pack gy = get(p->from, pixel * p->from_pitch + c);
            int32_t top = i + p->pad[0] - a * p->stride[0], left = j + p->pad[1] - b * p->stride[1];
            CRN_UNROLL for (int32_t u = 0; u < side * side; u++) {
                int32_t row = top + u / side, column = left + u % side;
                uint32_t place = (uint32_t)(row * p->kernel[1] + column);
                int inside = row >= 0 && row < p->kernel[0] && column >= 0 && column < p->kernel[1];
                EACH(k) {
                    sums[u].at[k] += inside && places.at[k] == place ? gy.at[k] : 0;
                }
            }
        }
    CRN_UNROLL for (int32_t u = 0; u < side * side; u++) {
        int32_t row = i + u / side, column = j + u % side;
        if (row <= last_row && column <= last_column)
            put(p->to, (((size_t)n * p->height + row) * p->width + column) * p->to_pitch + c,
                sums[u]);
    }
}

CRN_KERNEL_OF(FORM(max_pool_bwd), crn_pool_args, 256, PACK == 8 ? 2 : 4) {
    uint32_t side = p->patch, down = (p->height + side - 1) / side;
    uint32_t n = g.x / down, i = g.x % down * side;
    CRN_EACH_THREAD(t) {
        uint32_t k = g.y * g.threads + t, j = k / p->packs * side, c = k % p->packs * PACK;
        if (j >= p->width)
            continue;
        if (side == 2)
            max_pool_patch(p, n, (int32_t)i, (int32_t)j, c, 2);
        else
            max_pool_patch(p, n, (int32_t)i, (int32_t)j, c, 1);
    }
}

/* ---- average ---- */

/* The sum over a window of at most 3 x 3; all its loads are in flight at once. */
CRN_DEVICE pack avg_of_three(const crn_pool_args *CRN_RESTRICT p, size_t image, crn_span y,
                             crn_span x) {
    raw values[9];
    pack sum = no_pack();
    CRN_UNROLL for (int32_t i = 0; i < 9; i++) {
        int32_t row = y.first + i / 3, column = x.first + i % 3;
        if (row < y.end && column < x.end)
            values[i] = fetch(p->from, image + ((size_t)row * p->width + column) * p->from_pitch);
    }
    CRN_UNROLL for (int32_t i = 0; i < 9; i++) {
        if (y.first + i / 3 >= y.end || x.first + i % 3 >= x.end)
            continue;
        pack value = open(values[i]);
        EACH(k) {
            sum.at[k] += value.at[k];
        }
    }
    return sum;
}

CRN_DEVICE void avg_pool_pixel(const crn_pool_args *CRN_RESTRICT p, uint32_t row, uint32_t column,
                               uint32_t c) {
    crn_span y = crn_window_span(p, 0, (int32_t)(row % p->small_height));
    crn_span x = crn_window_span(p, 1, (int32_t)column);
    size_t image = (size_t)(row / p->small_height) * p->height * p->width * p->from_pitch + c;
    float share = crn_window_share(p, y, x);
    pack sum = no_pack();
    if (y.end - y.first <= 3 && x.end - x.first <= 3) {
        sum = avg_of_three(p, image, y, x);
    } else {
        for (int32_t i = y.first; i < y.end; i++)
            CRN_UNROLL_BY(4) for (int32_t j = x.first; j < x.end; j++) {
                pack value = get(p->from, image + ((size_t)i * p->width + j) * p->from_pitch);
                EACH(k) {
                    sum.at[k] += value.at[k];
                }
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

/* The sum for a pixel over at most 3 x 3 windows; all loads are in flight at once. `small` is the
 * start of the image of windows. */
CRN_DEVICE pack avg_gather_three(const crn_pool_args *CRN_RESTRICT p, size_t small, crn_span y,
                                 crn_span x) {
    raw values[9];
    int32_t tall[3] = {1, 1, 1}, wide[3] = {1, 1, 1};
    pack sum = no_pack();
    int alike = p->share != 0;
    float share = p->share;
    if (!alike) {
        CRN_UNROLL for (int32_t i = 0; i < 3; i++) {
            crn_span down = crn_window_span(p, 0, y.first + i);
            crn_span across = crn_window_span(p, 1, x.first + i);
            tall[i] = down.end - down.first;
            wide[i] = across.end - across.first;
        }
        share = (float)(p->kernel[0] * p->kernel[1]);
        alike = !p->adaptive && y.end - y.first == 3 && x.end - x.first == 3 &&
                tall[0] * tall[1] * tall[2] == p->kernel[0] * p->kernel[0] * p->kernel[0] &&
                wide[0] * wide[1] * wide[2] == p->kernel[1] * p->kernel[1] * p->kernel[1];
    }
    CRN_UNROLL for (int32_t i = 0; i < 9; i++) {
        int32_t a = y.first + i / 3, b = x.first + i % 3;
        if (a < y.end && b < x.end)
            values[i] = fetch(p->from, small + ((size_t)a * p->small_width + b) * p->from_pitch);
    }
    CRN_UNROLL for (int32_t i = 0; i < 9; i++) {
        if (y.first + i / 3 >= y.end || x.first + i % 3 >= x.end)
            continue;
        float each = alike ? 1 : 1 / (float)(tall[i / 3] * wide[i % 3]);
        pack gy = open(values[i]);
        EACH(k) {
            sum.at[k] = crn_fma(gy.at[k], each, sum.at[k]);
        }
    }
    EACH(k) {
        sum.at[k] = alike ? sum.at[k] / share : sum.at[k];
    }
    return sum;
}

CRN_DEVICE void avg_pool_gather(const crn_pool_args *CRN_RESTRICT p, uint32_t row, uint32_t column,
                                uint32_t c) {
    uint32_t n = row / p->height;
    crn_span y = crn_windows_of(p, 0, (int32_t)(row % p->height));
    crn_span x = crn_windows_of(p, 1, (int32_t)column);
    size_t small = (size_t)n * p->small_height * p->small_width * p->from_pitch + c;
    pack sum = no_pack();
    if (y.end - y.first <= 3 && x.end - x.first <= 3) {
        sum = avg_gather_three(p, small, y, x);
    } else {
        for (int32_t a = y.first; a < y.end; a++)
            for (int32_t b = x.first; b < x.end; b++) {
                float share = p->share;
                if (share == 0)
                    share = crn_window_share(p, crn_window_span(p, 0, a), crn_window_span(p, 1, b));
                pack gy = get(p->from, small + ((size_t)a * p->small_width + b) * p->from_pitch);
                EACH(k) {
                    sum.at[k] += gy.at[k] / share;
                }
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
#undef take_larger
#undef max_of_square
#undef max_pool_patch
#undef avg_of_three
#undef avg_pool_pixel
#undef avg_gather_three
#undef avg_pool_gather
