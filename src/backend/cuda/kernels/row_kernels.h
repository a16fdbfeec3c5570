/* row_kernels.h: layer norm and RMS norm of rows that do not fit into the registers of a block, see
 * held_row_kernels.h; no guard. See pack.h and ref_row_norm.c.
 *
 * 32 threads, a warp, have a row: thread `lane` has packs lane, lane + 32, ... of it. A row is read
 * again from the first-level cache for each pass. */

#define row_value FORM(row_value)
#define row_sum FORM(row_sum)
#define row_squares FORM(row_squares)
#define row_apply FORM(row_apply)
#define row_norms FORM(row_norms)
#define row_tile FORM(row_tile)
#define row_tile_sums FORM(row_tile_sums)
#define row_gradient FORM(row_gradient)
#define row_gradients FORM(row_gradients)
#define row_packs_at_once (PACK == 8 ? 2 : 4)
#define row_tile_packs 2 /* of a thread */
#define row_each (CRN_ROW_CHUNK / CRN_ROW_WARPS)

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
    CRN_UNROLL_BY(4) for (uint32_t c = lane * PACK; c < p->tiling.channels; c += 32 * PACK) {
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
    CRN_UNROLL_BY(4) for (uint32_t c = lane * PACK; c < p->tiling.channels; c += 32 * PACK) {
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
    uint32_t width = p->tiling.channels;
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
    float count = (float)p->tiling.channels;
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row < p->tiling.rows && p->centred)
            sums[t] = row_sum(p, (size_t)row * p->tiling.channels, t % 32, two);
    }
    CRN_WARP_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row >= p->tiling.rows)
            continue;
        float mean = p->centred ? crn_add_warp(sums, t) / count : 0;
        squares[t] = row_squares(p, (size_t)row * p->tiling.channels, t % 32, mean, two);
    }
    CRN_WARP_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * 8 + t / 32;
        if (row >= p->tiling.rows)
            continue;
        float mean = p->centred ? crn_add_warp(sums, t) / count : 0;
        float inverse = 1 / sqrtf(crn_add_warp(squares, t) / count + p->epsilon);
        row_apply(p, (size_t)row * p->tiling.channels, t % 32, mean, inverse, two);
        if (t % 32 == 0 && p->mean)
            p->mean[row] = mean;
        if (t % 32 == 0 && p->inverse)
            p->inverse[row] = inverse;
    }
}

/* x (, added) -> y, mean, inverse (, sum) */
CRN_KERNEL(FORM(row_norm_wide), crn_row_norm_args) {
    CRN_SHARED(float, sums, 256);
    CRN_SHARED(float, squares, 256);
    if (p->added)
        row_norms(p, g, sums, squares, 1);
    else
        row_norms(p, g, sums, squares, 0);
}

/* ---- backward: with g = gamma * gy, gx = (g - mean of g - xhat * mean of g * xhat) / deviation
 * ---- */

/* One step through a chunk of rows: the columns of a tile. A thread has its packs of that tile in
 * the rows of its warp. The sums of g and of g * xhat in a row go on from tile to tile; those of gy
 * and of gy * xhat in a column are stored for the other warps, one array of `threads` for each. */
CRN_DEVICE void row_tile(const crn_row_norm_args *CRN_RESTRICT p, uint32_t from, uint32_t tile,
                         uint32_t t, uint32_t threads, float *s, float *sums, float *products) {
    uint32_t width = p->tiling.channels, row = from + t / 32;
    for (uint32_t q = 0; q < row_tile_packs; q++) {
        uint32_t c = ((tile * row_tile_packs + q) * 32 + t % 32) * PACK;
        pack column = no_pack(), product = no_pack(), gamma = no_pack();
        raw x[row_each], gy[row_each];
        if (c < width)
            gamma = get_floats(p->gamma, c, width);
        CRN_UNROLL for (uint32_t u = 0; u < row_each; u++) {
            size_t i = row + u * CRN_ROW_WARPS;
            if (c >= width || i >= p->tiling.rows)
                continue;
            x[u] = fetch(p->x, i * width + c);
            gy[u] = fetch(p->gy, i * width + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < row_each; u++) {
            uint32_t i = row + u * CRN_ROW_WARPS;
            float total = 0, along = 0;
            if (c < width && i < p->tiling.rows) {
                float mean = p->centred ? p->mean[i] : 0, inverse = p->inverse[i];
                pack value = open(x[u]), gradient = open(gy[u]);
                EACH(k) {
                    float away = (value.at[k] - mean) * inverse;
                    float weighted = gradient.at[k] * gamma.at[k];
                    column.at[k] += gradient.at[k];
                    product.at[k] = crn_fma(gradient.at[k], away, product.at[k]);
                    total += weighted;
                    along = crn_fma(weighted, away, along);
                }
            }
            sums[u * threads + t] = total + (tile + q > 0 ? sums[u * threads + t] : 0);
            products[u * threads + t] = along + (tile + q > 0 ? products[u * threads + t] : 0);
        }
        EACH(k) {
            s[(q * PACK + k) * threads + t] = product.at[k];
            s[((row_tile_packs + q) * PACK + k) * threads + t] = column.at[k];
        }
    }
}

/* The sums of a tile over all warps become those of the strip, or are added to them. */
CRN_DEVICE void row_tile_sums(const crn_row_norm_args *CRN_RESTRICT p, crn_grid g, uint32_t tile,
                              uint32_t t, int add, const float *s) {
    uint32_t width = p->tiling.channels;
    for (uint32_t i = t; i < 2 * row_tile_packs * PACK * 32; i += g.threads) {
        uint32_t lane = i % 32, k = i / 32 % PACK, q = i / 32 / PACK % row_tile_packs;
        uint32_t array = i / 32 / PACK / row_tile_packs;
        uint32_t c = ((tile * row_tile_packs + q) * 32 + lane) * PACK + k;
        if (c >= width)
            continue;
        float sum = 0, *to = (float *)p->partial + ((size_t)g.x * 3 + array) * width + c;
        CRN_UNROLL for (uint32_t warp = 0; warp < CRN_ROW_WARPS; warp++) sum +=
            s[i / 32 * g.threads + warp * 32 + lane];
        *to = sum + (add ? *to : 0);
    }
}

/* other is a constant here: whether p->other is added. */
CRN_DEVICE void row_gradient(const crn_row_norm_args *CRN_RESTRICT p, size_t at, uint32_t lane,
                             float mean, float inverse, float shift, float slope, int other) {
    uint32_t width = p->tiling.channels;
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

CRN_DEVICE void row_gradients(const crn_row_norm_args *CRN_RESTRICT p, crn_grid g, uint32_t from,
                              const float *sums, const float *products, int other) {
    float count = (float)p->tiling.channels;
    CRN_EACH_THREAD(t) {
        for (uint32_t u = 0; u < row_each; u++) {
            uint32_t row = from + u * CRN_ROW_WARPS + t / 32;
            if (row >= p->tiling.rows)
                continue;
            float shift = p->centred ? crn_add_warp(sums + u * g.threads, t) / count : 0;
            float slope = crn_add_warp(products + u * g.threads, t) / count;
            row_gradient(p, (size_t)row * p->tiling.channels, t % 32, p->centred ? p->mean[row] : 0,
                         p->inverse[row], shift, slope, other);
        }
    }
}

/* x, gy, mean, inverse (, other) -> gx, partial. A block has a strip of rows, in chunks; a warp has
 * a few rows of each. A chunk is read twice, the second time from a cache. */
CRN_KERNEL_OF(FORM(row_norm_bwd_wide), crn_row_norm_args, 256, 2) {
    CRN_SHARED(float, s, 2 * row_tile_packs * PACK * 256);
    CRN_SHARED(float, sums, row_each * 256);
    CRN_SHARED(float, products, row_each * 256);
    uint32_t begin = g.x * p->tiling.strip,
             end = crn_min_u32(begin + p->tiling.strip, p->tiling.rows);
    for (uint32_t from = begin; from < end; from += CRN_ROW_CHUNK) {
        for (uint32_t tile = 0; tile * row_tile_packs * 32 * PACK < p->tiling.channels; tile++) {
            CRN_EACH_THREAD(t) {
                row_tile(p, from, tile, t, g.threads, s, sums, products);
            }
            if (!p->partial)
                continue;
            CRN_BARRIER();
            CRN_EACH_THREAD(t) {
                row_tile_sums(p, g, tile, t, from > begin, s);
            }
            CRN_BARRIER();
        }
        CRN_WARP_BARRIER();
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
#undef row_tile
#undef row_tile_sums
#undef row_gradient
#undef row_gradients
#undef row_packs_at_once
#undef row_tile_packs
#undef row_each
