/* row_kernels.h: layer norm and RMS norm; no guard. See pack.h and ref_row_norm.c.
 *
 * 32 threads, a warp, have a row: thread `lane` has packs lane, lane + 32, ... of it. Their sums
 * meet in shared memory, and every thread adds up all 32 in the same order. A row is read again
 * from the first-level cache for each pass. */

#define row_sum FORM(row_sum)
#define row_squares FORM(row_squares)
#define row_apply FORM(row_apply)
#define row_products FORM(row_products)
#define row_gradient FORM(row_gradient)
#define row_columns FORM(row_columns)
#define row_packs_at_once (PACK == 8 ? 2 : 4)

CRN_DEVICE float row_sum(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane) {
    float sum = 0;
    CRN_UNROLL_BY(4) for (uint32_t c = lane * PACK; c < p->cut.channels; c += 32 * PACK) {
        pack x = get(p->x, at + c);
        EACH(k) {
            sum += x.at[k];
        }
    }
    return sum;
}

CRN_DEVICE float row_squares(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                             float mean) {
    float sum = 0;
    CRN_UNROLL_BY(4) for (uint32_t c = lane * PACK; c < p->cut.channels; c += 32 * PACK) {
        pack x = get(p->x, at + c);
        EACH(k) {
            float distance = x.at[k] - mean;
            sum = crn_fma(distance, distance, sum);
        }
    }
    return sum;
}

CRN_DEVICE void row_apply(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                          float mean, float inverse) {
    uint32_t width = p->cut.channels;
    for (uint32_t first = lane * PACK; first < width; first += row_packs_at_once * 32 * PACK) {
        raw x[row_packs_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c < width)
                x[u] = fetch(p->x, at + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c >= width)
                continue;
            pack value = open(x[u]), gamma = get_floats(p->gamma, c, width);
            pack beta = p->beta ? get_floats(p->beta, c, width) : no_pack();
            EACH(k) {
                value.at[k] = (value.at[k] - mean) * inverse * gamma.at[k] + beta.at[k];
            }
            put(p->y, at + c, value);
        }
    }
}

/* x -> y, mean, inverse */
CRN_KERNEL(FORM(row_norm), crn_row_norm_args) {
    CRN_SHARED(float, sums, 256);
    CRN_SHARED(float, squares, 256);
    float count = (float)p->cut.channels;
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row < p->cut.rows && p->centred)
            sums[t] = row_sum(p, (size_t)row * p->cut.channels, t % 32);
    }
    CRN_WARP_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row >= p->cut.rows)
            continue;
        float mean = p->centred ? crn_add_warp(sums + t / 32 * 32) / count : 0;
        squares[t] = row_squares(p, (size_t)row * p->cut.channels, t % 32, mean);
    }
    CRN_WARP_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row >= p->cut.rows)
            continue;
        float mean = p->centred ? crn_add_warp(sums + t / 32 * 32) / count : 0;
        float inverse = 1 / sqrtf(crn_add_warp(squares + t / 32 * 32) / count + p->epsilon);
        row_apply(p, (size_t)row * p->cut.channels, t % 32, mean, inverse);
        if (t % 32 == 0 && p->mean)
            p->mean[row] = mean;
        if (t % 32 == 0 && p->inverse)
            p->inverse[row] = inverse;
    }
}

/* ---- backward: with g = gamma * gy, gx = (g - mean of g - xhat * mean of g * xhat) / deviation
 * ---- */

/* The sums of g and of g * xhat. */
CRN_DEVICE void row_products(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                             float mean, float inverse, float *sum, float *product) {
    float total = 0, along = 0;
    CRN_UNROLL_BY(2) for (uint32_t c = lane * PACK; c < p->cut.channels; c += 32 * PACK) {
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

CRN_DEVICE void row_gradient(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                             float mean, float inverse, float shift, float slope) {
    uint32_t width = p->cut.channels;
    for (uint32_t first = lane * PACK; first < width; first += row_packs_at_once * 32 * PACK) {
        raw x[row_packs_at_once], gy[row_packs_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c >= width)
                continue;
            x[u] = fetch(p->x, at + c);
            gy[u] = fetch(p->gy, at + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < row_packs_at_once; u++) {
            uint32_t c = first + u * 32 * PACK;
            if (c >= width)
                continue;
            pack value = open(x[u]), gradient = open(gy[u]);
            pack gamma = get_floats(p->gamma, c, width);
            EACH(k) {
                float away = (value.at[k] - mean) * inverse;
                value.at[k] = inverse * (gradient.at[k] * gamma.at[k] - shift - away * slope);
            }
            put(p->gx, at + c, value);
        }
    }
}

/* x, gy, mean, inverse -> gx */
CRN_KERNEL(FORM(row_norm_bwd), crn_row_norm_args) {
    CRN_SHARED(float, sums, 256);
    CRN_SHARED(float, products, 256);
    float count = (float)p->cut.channels;
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row < p->cut.rows)
            row_products(p, (size_t)row * p->cut.channels, t % 32, p->centred ? p->mean[row] : 0,
                         p->inverse[row], sums + t, products + t);
    }
    CRN_WARP_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row >= p->cut.rows)
            continue;
        float shift = p->centred ? crn_add_warp(sums + t / 32 * 32) / count : 0;
        float slope = crn_add_warp(products + t / 32 * 32) / count;
        row_gradient(p, (size_t)row * p->cut.channels, t % 32, p->centred ? p->mean[row] : 0,
                     p->inverse[row], shift, slope);
    }
}

/* ---- the gradients of gamma and beta: sums over rows, as in column_kernels.h ---- */

CRN_DEVICE void row_columns(const crn_row_norm_args *CRN_RESTRICT p, crn_place at, float *s,
                            uint32_t t) {
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
        sum_at(s, 0, t, k) = product.at[k];
        sum_at(s, 1, t, k) = sum.at[k];
    }
}

/* x, gy, mean, inverse -> ggamma, gbeta */
CRN_KERNEL_OF(FORM(row_norm_sums), crn_row_norm_args, CRN_COLUMN_THREADS, 2) {
    CRN_SHARED(float, s, 2 * CRN_COLUMN_THREADS * PACK);
    CRN_SHARED(uint32_t, last, 1);
    const crn_cut *cut = &p->cut;
    uint32_t tile = g.x % cut->tiles, strip = g.x / cut->tiles, wide = cut->lanes * PACK;
    CRN_EACH_THREAD(t) {
        row_columns(p, crn_place_of(cut, tile, strip, t), s, t);
    }
    float *part = (float *)p->part + (size_t)tile * cut->strips * 2 * wide;
    if (!add_up(cut, g, strip, s, 2, part, p->tickets + tile, last))
        return;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < wide && tile * wide + i < cut->channels; i += g.threads) {
            if (p->ggamma)
                p->ggamma[tile * wide + i] = sum_at(s, 0, 0, i);
            if (p->gbeta)
                p->gbeta[tile * wide + i] = sum_at(s, 1, 0, i);
        }
    }
}

#undef row_sum
#undef row_squares
#undef row_apply
#undef row_products
#undef row_gradient
#undef row_columns
#undef row_packs_at_once
