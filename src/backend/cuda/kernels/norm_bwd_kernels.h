/* norm_bwd_kernels.h: the backward of batch normalisation, fused with the ReLU after it and the sum
 * of two gradients; no guard. See pack.h and crn_norm_bwd_args.
 *
 *     reduce    g = mask(gy + gy2); sums of g and of g * (x - mean) / deviation
 *     spread    gx = gamma / deviation * (g - mean of g - xhat * mean of g * xhat) + other
 */

#define lane_values FORM(norm_lane_values)
#define load_lane FORM(norm_load_lane)
#define masked_gradient FORM(norm_masked_gradient)
#define reduce_rows FORM(norm_reduce_rows)
#define reduce_place FORM(norm_reduce_place)
#define finish_sums FORM(norm_finish_sums)
#define spread_rows FORM(norm_spread_rows)
#define spread_place FORM(norm_spread_place)
#define most_rows 8

/* The values of a thread's channels. */
typedef struct lane_values {
    pack mean, inverse, scale, beta;
} lane_values;

CRN_DEVICE lane_values load_lane(const crn_norm_bwd_args *CRN_RESTRICT p, uint32_t c) {
    lane_values of;
    uint32_t end = p->tiling.channels;
    of.mean = get_floats(p->stats, c, end);
    of.inverse = get_floats(p->stats + end, c, end);
    of.scale = get_floats(p->gamma, c, end);
    EACH(k) {
        of.scale.at[k] *= of.inverse.at[k];
    }
    of.beta = p->mask == CRN_MASK_X ? get_floats(p->beta, c, end) : no_pack();
    return of;
}

/* `decides` is y, or x. A NaN lets the gradient through, as in the reference. */
CRN_DEVICE pack masked_gradient(const lane_values *of, pack gradient, pack decides, uint32_t mask) {
    EACH(k) {
        float y = decides.at[k];
        if (mask == CRN_MASK_X)
            y = as_stored(crn_fma(y - of->mean.at[k], of->scale.at[k], of->beta.at[k]));
        if (mask != CRN_MASK_NONE && y <= 0)
            gradient.at[k] = 0;
    }
    return gradient;
}

/* mask, join and at_once are constants here. */
CRN_DEVICE void reduce_rows(const crn_norm_bwd_args *CRN_RESTRICT p, crn_place at, float *s,
                            uint32_t t, uint32_t mask, int join, uint32_t at_once) {
    uint32_t c = at.column * PACK;
    lane_values of = load_lane(p, at.first < at.end ? c : p->tiling.channels);
    pack sum = no_pack(), product = no_pack();
    for (uint32_t row = at.first; row < at.end; row += at_once * p->tiling.groups) {
        raw x[most_rows], gy[most_rows], gy2[most_rows], y[most_rows];
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            size_t i = row + u * p->tiling.groups;
            if (i >= at.end)
                continue;
            x[u] = fetch(p->x, i * p->x_pitch + c);
            gy[u] = fetch(p->gy, i * p->gy_pitch + c);
            if (join)
                gy2[u] = fetch(p->gy2, i * p->gy2_pitch + c);
            if (mask == CRN_MASK_Y)
                y[u] = fetch(p->y, i * p->y_pitch + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            size_t i = row + u * p->tiling.groups;
            if (i >= at.end)
                continue;
            pack value = open(x[u]), gradient = open(gy[u]);
            pack second = join ? open(gy2[u]) : no_pack();
            EACH(k) {
                gradient.at[k] = join ? as_stored(gradient.at[k] + second.at[k]) : gradient.at[k];
            }
            gradient =
                masked_gradient(&of, gradient, mask == CRN_MASK_Y ? open(y[u]) : value, mask);
            if (p->masked)
                put(p->masked, i * p->masked_pitch + c, gradient);
            EACH(k) {
                sum.at[k] += gradient.at[k];
                product.at[k] = crn_fma(gradient.at[k], value.at[k] - of.mean.at[k], product.at[k]);
            }
        }
    }
    EACH(k) {
        sum_at(s, 0, t, k) = sum.at[k];
        sum_at(s, 1, t, k) = product.at[k];
    }
}

/* `few`, a constant, is 1 if a block has few rows: then more loads are in flight. */
CRN_DEVICE void reduce_place(const crn_norm_bwd_args *CRN_RESTRICT p, crn_place at, float *s,
                             uint32_t t, int few) {
    if (p->gy2 && p->mask == CRN_MASK_Y)
        reduce_rows(p, at, s, t, CRN_MASK_Y, 1, few ? 4 : 2);
    else if (p->gy2 && p->mask == CRN_MASK_X)
        reduce_rows(p, at, s, t, CRN_MASK_X, 1, few ? 4 : 2);
    else if (p->gy2)
        reduce_rows(p, at, s, t, CRN_MASK_NONE, 1, few ? 4 : 2);
    else if (p->mask == CRN_MASK_Y)
        reduce_rows(p, at, s, t, CRN_MASK_Y, 0, few ? 5 : 2);
    else if (p->mask == CRN_MASK_X)
        reduce_rows(p, at, s, t, CRN_MASK_X, 0, few ? 7 : 2);
    else
        reduce_rows(p, at, s, t, CRN_MASK_NONE, 0, few ? 7 : 3);
}

/* Finish the channels of a tile, whose sums are in group 0. */
CRN_DEVICE void finish_sums(const crn_norm_bwd_args *CRN_RESTRICT p, crn_grid g, uint32_t tile,
                            const float *s) {
    uint32_t wide = p->tiling.lanes * PACK, channels = p->tiling.channels;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < wide && tile * wide + i < channels; i += g.threads) {
            uint32_t c = tile * wide + i;
            float sum = sum_at(s, 0, 0, i), product = sum_at(s, 1, 0, i) * p->stats[channels + c];
            p->sums[c] = sum;
            p->sums[channels + c] = product;
            if (p->gbeta)
                p->gbeta[c] = sum;
            if (p->ggamma)
                p->ggamma[c] = product;
        }
    }
}

/* x, gy -> sums, ggamma, gbeta, masked */
CRN_KERNEL_OF(FORM(norm_reduce), crn_norm_bwd_args, CRN_COLUMN_THREADS, PACK == 8 ? 1 : 2) {
    CRN_SHARED(float, s, 2 * CRN_COLUMN_THREADS * PACK);
    CRN_SHARED(uint32_t, last, 1);
    const crn_tiling *tiling = &p->tiling;
    uint32_t tile = g.x % tiling->tiles, strip = g.x / tiling->tiles, wide = tiling->lanes * PACK;
    CRN_EACH_THREAD(t) {
        reduce_place(p, crn_place_of(tiling, tile, strip, t), s, t, 0);
    }
    float *partial = (float *)p->partial + (size_t)tile * tiling->strips * 2 * wide;
    if (add_up(tiling, g, strip, s, 2, partial, p->tickets + tile, last))
        finish_sums(p, g, tile, s);
}

/* mask and add are constants here; CRN_MASK_NONE if reduce has written `masked`. */
CRN_DEVICE void spread_rows(const crn_norm_bwd_args *CRN_RESTRICT p, crn_place at, uint32_t mask,
                            int add, uint32_t at_once) {
    uint32_t c = at.column * PACK, end = p->tiling.channels;
    lane_values of = load_lane(p, c);
    pack shift = get_floats(p->sums, c, end), slope = get_floats(p->sums + end, c, end);
    const void *gradient = p->masked ? p->masked : p->gy;
    uint32_t pitch = p->masked ? p->masked_pitch : p->gy_pitch;
    float each = p->fixed ? 0 : 1 / (float)p->tiling.rows;
    EACH(k) {
        shift.at[k] *= each;
        slope.at[k] = slope.at[k] * each * of.inverse.at[k];
    }
    for (uint32_t row = at.first; row < at.end; row += at_once * p->tiling.groups) {
        raw x[most_rows], gy[most_rows], y[most_rows], other[most_rows];
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            size_t i = row + u * p->tiling.groups;
            if (i >= at.end)
                continue;
            x[u] = fetch(p->x, i * p->x_pitch + c);
            gy[u] = fetch(gradient, i * pitch + c);
            if (mask == CRN_MASK_Y)
                y[u] = fetch(p->y, i * p->y_pitch + c);
            if (add)
                other[u] = fetch(p->other, i * p->other_pitch + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            size_t i = row + u * p->tiling.groups;
            if (i >= at.end)
                continue;
            pack value = open(x[u]), g = open(gy[u]), more = add ? open(other[u]) : no_pack();
            g = masked_gradient(&of, g, mask == CRN_MASK_Y ? open(y[u]) : value, mask);
            EACH(k) {
                float rest = g.at[k] - shift.at[k];
                rest = crn_fma(of.mean.at[k] - value.at[k], slope.at[k], rest) * of.scale.at[k];
                g.at[k] = add ? as_stored(rest) + more.at[k] : rest;
            }
            put(p->gx, i * p->gx_pitch + c, g);
        }
    }
}

CRN_DEVICE void spread_place(const crn_norm_bwd_args *CRN_RESTRICT p, crn_place at, int few) {
    uint32_t mask = p->masked ? (uint32_t)CRN_MASK_NONE : p->mask, half = PACK == 8 ? 2 : 1;
    if (at.first == at.end)
        return;
    if (mask == CRN_MASK_Y && p->other)
        spread_rows(p, at, CRN_MASK_Y, 1, few ? 4 : 2 / half);
    else if (mask == CRN_MASK_Y)
        spread_rows(p, at, CRN_MASK_Y, 0, few ? 5 : 2 / half);
    else if (mask == CRN_MASK_X && p->other)
        spread_rows(p, at, CRN_MASK_X, 1, few ? 5 : 2 / half);
    else if (mask == CRN_MASK_X)
        spread_rows(p, at, CRN_MASK_X, 0, few ? 7 : 3 / half);
    else if (p->other)
        spread_rows(p, at, CRN_MASK_NONE, 1, few ? 5 : 2 / half);
    else
        spread_rows(p, at, CRN_MASK_NONE, 0, few ? 7 : 3 / half);
}

/* x, g, sums -> gx; the last strips first, as in norm_apply */
CRN_KERNEL_OF(FORM(norm_spread), crn_norm_bwd_args, CRN_COLUMN_THREADS, 2) {
    uint32_t tile = g.x % p->tiling.tiles, strip = p->tiling.strips - 1 - g.x / p->tiling.tiles;
    CRN_EACH_THREAD(t) {
        spread_place(p, crn_place_of(&p->tiling, tile, strip, t), 0);
    }
}

/* Both kernels, for tiles with one strip. */
CRN_KERNEL_OF(FORM(norm_bwd_whole), crn_norm_bwd_args, CRN_COLUMN_THREADS, 1) {
    CRN_SHARED(float, s, 2 * CRN_COLUMN_THREADS * PACK);
    CRN_EACH_THREAD(t) {
        reduce_place(p, crn_place_of(&p->tiling, g.x, 0, t), s, t, 1);
    }
    add_groups(&p->tiling, g, s, 2);
    finish_sums(p, g, g.x, s);
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        spread_place(p, crn_place_of(&p->tiling, g.x, 0, t), 1);
    }
}

#undef lane_values
#undef load_lane
#undef masked_gradient
#undef reduce_rows
#undef reduce_place
#undef finish_sums
#undef spread_rows
#undef spread_place
#undef most_rows
