/* row_kernels.h: layer norm and RMS norm; no guard. See pack.h and ref_row_norm.c.
 *
 * 32 threads, a warp, have a row: thread `lane` has packs lane, lane + 32, ... of it. Their sums
 * meet in shared memory, and every thread adds up all 32 in the same order. A row is read again
 * from the first-level cache for each pass. */

#define row_value FORM(row_value)
#define row_sum FORM(row_sum)
#define row_squares FORM(row_squares)
#define row_apply FORM(row_apply)
#define row_norms FORM(row_norms)
#define row_products FORM(row_products)
#define row_gradient FORM(row_gradient)
#define row_columns FORM(row_columns)
#define row_strip FORM(row_strip)
#define row_gradients FORM(row_gradients)
#define row_packs_at_once (PACK == 8 ? 2 : 4)

/* The values that are normalised; two is a constant here: whether they are sums. */
CRN_DEVICE pack row_value(const crn_row_norm_args *CRN_RESTRICT p, size_t at, int two) {
    pack x = get(p->x, at);
    if (two) {
        pack added = get(p->added, at);
        EACH(k) {
            x.at[k] = as_stored(x.at[k] + added.at[k]);
        }
    }
    return x;
}

CRN_DEVICE float row_sum(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                         int two) {
    float sum = 0;
    CRN_UNROLL_BY(4) for (uint32_t c = lane * PACK; c < p->cut.channels; c += 32 * PACK) {
        pack x = row_value(p, at + c, two);
        EACH(k) {
            sum += x.at[k];
        }
    }
    return sum;
}

CRN_DEVICE float row_squares(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                             float mean, int two) {
    float sum = 0;
    CRN_UNROLL_BY(4) for (uint32_t c = lane * PACK; c < p->cut.channels; c += 32 * PACK) {
        pack x = row_value(p, at + c, two);
        EACH(k) {
            float distance = x.at[k] - mean;
            sum = crn_fma(distance, distance, sum);
        }
    }
    return sum;
}

CRN_DEVICE void row_apply(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                          float mean, float inverse, int two) {
    uint32_t width = p->cut.channels;
    for (uint32_t first = lane * PACK; first < width; first += row_packs_at_once * 32 * PACK) {
        raw x[row_packs_at_once], more[row_packs_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c >= width)
                continue;
            x[u] = fetch(p->x, at + c);
            if (two)
                more[u] = fetch(p->added, at + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c >= width)
                continue;
            pack value = open(x[u]), added = two ? open(more[u]) : no_pack();
            pack gamma = get_floats(p->gamma, c, width);
            pack beta = p->beta ? get_floats(p->beta, c, width) : no_pack();
            EACH(k) {
                value.at[k] = two ? as_stored(value.at[k] + added.at[k]) : value.at[k];
            }
            if (two && p->sum)
                put(p->sum, at + c, value);
            EACH(k) {
                value.at[k] = (value.at[k] - mean) * inverse * gamma.at[k] + beta.at[k];
            }
            put(p->y, at + c, value);
        }
    }
}

CRN_DEVICE void row_norms(const crn_row_norm_args *CRN_RESTRICT p, crn_grid g, float *sums,
                          float *squares, int two) {
    float count = (float)p->cut.channels;
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row < p->cut.rows && p->centred)
            sums[t] = row_sum(p, (size_t)row * p->cut.channels, t % 32, two);
    }
    CRN_WARP_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row >= p->cut.rows)
            continue;
        float mean = p->centred ? crn_add_warp(sums + t / 32 * 32) / count : 0;
        squares[t] = row_squares(p, (size_t)row * p->cut.channels, t % 32, mean, two);
    }
    CRN_WARP_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row >= p->cut.rows)
            continue;
        float mean = p->centred ? crn_add_warp(sums + t / 32 * 32) / count : 0;
        float inverse = 1 / sqrtf(crn_add_warp(squares + t / 32 * 32) / count + p->epsilon);
        row_apply(p, (size_t)row * p->cut.channels, t % 32, mean, inverse, two);
        if (t % 32 == 0 && p->mean)
            p->mean[row] = mean;
        if (t % 32 == 0 && p->inverse)
            p->inverse[row] = inverse;
    }
}

/* x (, added) -> y, mean, inverse (, sum) */
CRN_KERNEL(FORM(row_norm), crn_row_norm_args) {
    CRN_SHARED(float, sums, 256);
    CRN_SHARED(float, squares, 256);
    if (p->added)
        row_norms(p, g, sums, squares, 1);
    else
        row_norms(p, g, sums, squares, 0);
}

/* ---- backward: with g = gamma * gy, gx = (g - mean of g - xhat * mean of g * xhat) / deviation
 * ---- */

/* The sums of g and of g * xhat. */
CRN_DEVICE void row_products(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                             float mean, float inverse, float *sum, float *product) {
    float total = 0, along = 0;
    CRN_UNROLL_BY(4) for (uint32_t c = lane * PACK; c < p->cut.channels; c += 32 * PACK) {
        pack x = get(p->x, at + c), gy = get(p->gy, at + c);
        pack gamma = get_floats(p->gamma, c, p->cut.channels);
        EACH(k) {
            float gradient = gy.at[k] * gamma.at[k];
            total += gradient;
            along = crn_fma(gradient, (x.at[k] - mean) * inverse, along);
        }
    }
    *sum = total;
    *product = along;
}

/* other is a constant here: whether p->other is added. */
CRN_DEVICE void row_gradient(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                             float mean, float inverse, float shift, float slope, int other) {
    uint32_t width = p->cut.channels;
    for (uint32_t first = lane * PACK; first < width; first += row_packs_at_once * 32 * PACK) {
        raw x[row_packs_at_once], gy[row_packs_at_once], more[row_packs_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c >= width)
                continue;
            x[u] = fetch(p->x, at + c);
            gy[u] = fetch(p->gy, at + c);
            if (other)
                more[u] = fetch(p->other, at + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c >= width)
                continue;
            pack value = open(x[u]), gradient = open(gy[u]);
            pack gamma = get_floats(p->gamma, c, width), added = other ? open(more[u]) : no_pack();
            EACH(k) {
                float away = (value.at[k] - mean) * inverse;
                float gx = inverse * (gradient.at[k] * gamma.at[k] - shift - away * slope);
                value.at[k] = other ? as_stored(gx) + added.at[k] : gx;
            }
            put(p->gx, at + c, value);
        }
    }
}

/* The sums over the rows of a chunk for the columns of a thread, added to those of the chunks
 * before it. */
CRN_DEVICE void row_columns(const crn_row_norm_args *CRN_RESTRICT p, crn_place at, float *s,
                            uint32_t t, int first) {
    uint32_t c = at.column * PACK, width = p->cut.channels;
    pack sum = no_pack(), product = no_pack();
    for (uint32_t row = at.first; row < at.end; row += row_packs_at_once * p->cut.groups) {
        raw x[row_packs_at_once], gy[row_packs_at_once];
        float mean[row_packs_at_once], inverse[row_packs_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            size_t i = row + u * p->cut.groups;
            if (i >= at.end)
                continue;
            x[u] = fetch(p->x, i * width + c);
            gy[u] = fetch(p->gy, i * width + c);
            mean[u] = p->centred ? p->mean[i] : 0;
            inverse[u] = p->inverse[i];
        }
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            if (row + u * p->cut.groups >= at.end)
                continue;
            pack value = open(x[u]), gradient = open(gy[u]);
            EACH(k) {
                sum.at[k] += gradient.at[k];
                product.at[k] =
                    crn_fma(gradient.at[k], (value.at[k] - mean[u]) * inverse[u], product.at[k]);
            }
        }
    }
    EACH(k) {
        sum_at(s, 0, t, k) = product.at[k] + (first ? 0 : sum_at(s, 0, t, k));
        sum_at(s, 1, t, k) = sum.at[k] + (first ? 0 : sum_at(s, 1, t, k));
    }
}

/* The sums of all columns over rows from `from` on; the last ones of a strip write its part. */
CRN_DEVICE void row_strip(const crn_row_norm_args *CRN_RESTRICT p, crn_grid g, uint32_t from,
                          uint32_t end, int first, int last, float *s) {
    const crn_cut *cut = &p->cut;
    uint32_t wide = cut->lanes * PACK;
    for (uint32_t tile = 0; tile < cut->tiles; tile++) {
        CRN_EACH_THREAD(t) {
            crn_place at = crn_place_of(cut, tile, 0, t);
            uint32_t begin = at.first < at.end ? from + at.group : end;
            at.first = crn_min_u32(begin, end);
            at.end = end;
            row_columns(p, at, s, t, first);
        }
        if (!last)
            continue;
        add_groups(cut, g, s, 2);
        CRN_EACH_THREAD(t) {
            for (uint32_t i = t; i < 2 * wide; i += g.threads) {
                uint32_t c = tile * wide + i % wide;
                if (c < cut->channels)
                    ((float *)p->part)[((size_t)g.x * 2 + i / wide) * cut->channels + c] =
                        sum_of(s, g.threads, i / wide, 0, i % wide);
            }
        }
        CRN_BARRIER();
    }
}

CRN_DEVICE void row_gradients(const crn_row_norm_args *CRN_RESTRICT p, crn_grid g, uint32_t from,
                              const float *sums, const float *products, int other) {
    float count = (float)p->cut.channels;
    CRN_EACH_THREAD(t) {
        CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_CHUNK / CRN_ROW_WARPS; u++) {
            uint32_t row = from + u * CRN_ROW_WARPS + t / 32;
            if (row >= p->cut.rows)
                continue;
            const float *s = sums + u * g.threads + t / 32 * 32;
            float shift = p->centred ? crn_add_warp(s) / count : 0;
            float slope = crn_add_warp(products + u * g.threads + t / 32 * 32) / count;
            row_gradient(p, (size_t)row * p->cut.channels, t % 32, p->centred ? p->mean[row] : 0,
                         p->inverse[row], shift, slope, other);
        }
    }
}

/* x, gy, mean, inverse (, other) -> gx, part. A block has a strip of rows, in chunks: 32 threads
 * have the sums of a row, then each thread those of its columns, then 32 the gradient of a row. The
 * rows of a chunk stay in the cache. The sums of several tiles do not fit into shared memory: they
 * are made one after the other, over the whole strip. */
CRN_KERNEL_OF(FORM(row_norm_bwd), crn_row_norm_args, CRN_COLUMN_THREADS, 2) {
    CRN_SHARED(float, s, 2 * CRN_COLUMN_THREADS * PACK);
    CRN_SHARED(float, sums, CRN_COLUMN_THREADS *CRN_ROW_CHUNK / CRN_ROW_WARPS);
    CRN_SHARED(float, products, CRN_COLUMN_THREADS *CRN_ROW_CHUNK / CRN_ROW_WARPS);
    uint32_t begin = g.x * p->cut.strip, end = crn_min_u32(begin + p->cut.strip, p->cut.rows);
    if (p->part && p->cut.tiles > 1)
        row_strip(p, g, begin, end, 1, 1, s);
    for (uint32_t from = begin; from < end; from += CRN_ROW_CHUNK) {
        CRN_EACH_THREAD(t) {
            CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_CHUNK / CRN_ROW_WARPS; u++) {
                uint32_t row = from + u * CRN_ROW_WARPS + t / 32;
                if (row < p->cut.rows)
                    row_products(p, (size_t)row * p->cut.channels, t % 32,
                                 p->centred ? p->mean[row] : 0, p->inverse[row],
                                 sums + u * g.threads + t, products + u * g.threads + t);
            }
        }
        if (p->part && p->cut.tiles == 1)
            row_strip(p, g, from, crn_min_u32(from + CRN_ROW_CHUNK, end), from == begin,
                      from + CRN_ROW_CHUNK >= end, s);
        CRN_BARRIER();
        if (p->gx && p->other)
            row_gradients(p, g, from, sums, products, 1);
        else if (p->gx)
            row_gradients(p, g, from, sums, products, 0);
        CRN_WARP_BARRIER();
    }
}

#undef row_value
#undef row_sum
#undef row_squares
#undef row_apply
#undef row_norms
#undef row_products
#undef row_gradient
#undef row_columns
#undef row_strip
#undef row_gradients
#undef row_packs_at_once
