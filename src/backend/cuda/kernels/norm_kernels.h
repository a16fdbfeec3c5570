/* norm_kernels.h: batch normalisation, forward; no guard. See pack.h.
 *
 * Statistics are the mean and M, the sum of squared differences from the mean. A thread subtracts
 * the first value that it reads before summing, so that no precision is lost if values are far from
 * zero. Two sets are merged by the formula of Chan, Golub and LeVeque (1979), along a tree that
 * depends only on shapes:
 *
 *     threads of a block -> partial [tile, strip, 2, lanes * PACK] -> the last block of a tile
 */

#define merge FORM(norm_merge)
#define merge_groups FORM(norm_merge_groups)
#define merge_strips FORM(norm_merge_strips)
#define sum_rows FORM(norm_sum_rows)
#define finish FORM(norm_finish)
#define moments FORM(norm_moments)
#define finish_tile FORM(norm_finish_tile)
#define apply_rows FORM(norm_apply_rows)
#define apply_place FORM(norm_apply_place)
#define statistics_rows (PACK == 8 ? 4 : 8) /* loads in flight */
#define most_rows 16                        /* if a block has few rows */
#define strips_at_once (PACK == 8 ? 2 : 4)
#define rows_to_apply (PACK == 8 ? 3 : 4)

/* In shared memory, one per thread. */
typedef struct moments {
    float count[CRN_COLUMN_THREADS];
    float mean[CRN_COLUMN_THREADS * PACK];
    float squares[CRN_COLUMN_THREADS * PACK];
} moments;

/* Merge another set into entry a. */
CRN_DEVICE void merge(moments *s, uint32_t a, float other_count, pack mean, pack squares) {
    float count = s->count[a], all = count + other_count;
    if (other_count == 0)
        return;
    float share = other_count / all;
    EACH(k) {
        float distance = mean.at[k] - s->mean[a * PACK + k];
        s->mean[a * PACK + k] = crn_fma(distance, share, s->mean[a * PACK + k]);
        s->squares[a * PACK + k] =
            crn_fma(distance * distance, count * share, s->squares[a * PACK + k] + squares.at[k]);
    }
    s->count[a] = all;
}

/* Merge all groups into group 0. */
CRN_DEVICE void merge_groups(const crn_tiling *tiling, crn_grid g, moments *s) {
    for (uint32_t half = crn_tree_top(tiling->groups); half > 0; half /= 2) {
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            uint32_t other = t + half * tiling->lanes;
            if (t >= half * tiling->lanes || other >= tiling->groups * tiling->lanes)
                continue;
            pack mean, squares;
            EACH(k) {
                mean.at[k] = s->mean[other * PACK + k];
                squares.at[k] = s->squares[other * PACK + k];
            }
            merge(s, t, s->count[other], mean, squares);
        }
    }
    CRN_BARRIER();
}

/* Sum a thread's rows of x; at_once is a constant here. */
CRN_DEVICE void sum_rows(const crn_norm_args *CRN_RESTRICT p, crn_place at, moments *s, uint32_t t,
                         uint32_t at_once) {
    pack first = no_pack(), sum = no_pack(), squares = no_pack();
    for (uint32_t row = at.first; row < at.end; row += at_once * p->tiling.groups) {
        raw x[most_rows];
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            uint32_t i =
                row + u * p->tiling.groups; /* beyond the end: any row, which is not counted */
            x[u] = fetch(p->x, (size_t)(i < at.end ? i : row) * p->x_pitch + at.column * PACK);
        }
        if (row == at.first)
            first = open(x[0]);
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            pack value = open(x[u]);
            EACH(k) {
                float distance =
                    row + u * p->tiling.groups < at.end ? value.at[k] - first.at[k] : 0.0f;
                sum.at[k] += distance;
                squares.at[k] = crn_fma(distance, distance, squares.at[k]);
            }
        }
    }
    uint32_t rows = (at.end - at.first + p->tiling.groups - 1) / p->tiling.groups;
    float count = (float)rows, each = rows > 0 ? 1 / count : 0;
    s->count[t] = count;
    EACH(k) {
        float mean = sum.at[k] * each, rest = crn_fma(-sum.at[k], mean, squares.at[k]);
        s->mean[t * PACK + k] = first.at[k] + mean;
        s->squares[t * PACK + k] = rest < 0 ? 0 : rest;
    }
}

/* The last block of a tile merges the results of all its blocks. */
CRN_DEVICE void merge_strips(const crn_tiling *tiling, crn_grid g, const float *partial,
                             moments *s) {
    uint32_t wide = tiling->lanes * PACK;
    CRN_EACH_THREAD(t) {
        uint32_t group = t / tiling->lanes, lane = t % tiling->lanes;
        s->count[t] = 0;
        EACH(k) {
            s->mean[t * PACK + k] = s->squares[t * PACK + k] = 0;
        }
        for (uint32_t strip = group; group < tiling->groups && strip < tiling->strips;
             strip += strips_at_once * tiling->groups) {
            pack mean[strips_at_once], squares[strips_at_once];
            CRN_UNROLL for (uint32_t u = 0; u < strips_at_once; u++) {
                uint32_t i = strip + u * tiling->groups;
                const float *from = partial + (size_t)(i < tiling->strips ? i : strip) * 2 * wide;
                mean[u] = get_partial(from + lane * PACK);
                squares[u] = get_partial(from + wide + lane * PACK);
            }
            CRN_UNROLL for (uint32_t u = 0; u < strips_at_once; u++) {
                uint32_t i = strip + u * tiling->groups;
                uint32_t end = crn_min_u32((i + 1) * tiling->strip, tiling->rows);
                if (i < tiling->strips)
                    merge(s, t, (float)(end - i * tiling->strip), mean[u], squares[u]);
            }
        }
    }
    merge_groups(tiling, g, s);
}

/* Compute what is kept from mean and M of a channel. */
CRN_DEVICE void finish(const crn_norm_args *CRN_RESTRICT p, uint32_t c, float mean, float squares) {
    float rows = (float)p->tiling.rows, variance = squares / rows;
    if (p->stats) {
        p->stats[c] = mean;
        p->stats[p->tiling.channels + c] = 1 / sqrtf(variance + p->epsilon);
    }
    if (p->kept) {
        p->kept[c] = mean;
        p->kept[p->tiling.channels + c] = 1 / sqrtf(variance + p->epsilon);
    }
    if ((p->flags & CRN_NORM_MOVE) == 0)
        return;
    float unbiased = squares / (rows > 1 ? rows - 1 : 1);
    p->running_mean[c] = crn_fma(p->momentum, mean, p->keep * p->running_mean[c]);
    p->running_var[c] = crn_fma(p->momentum, unbiased, p->keep * p->running_var[c]);
}

/* Finish the channels of a tile, whose moments are in group 0. */
CRN_DEVICE void finish_tile(const crn_norm_args *CRN_RESTRICT p, crn_grid g, uint32_t tile,
                            const moments *s) {
    uint32_t wide = p->tiling.lanes * PACK;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < wide; i += g.threads)
            if (tile * wide + i < p->tiling.channels)
                finish(p, tile * wide + i, s->mean[i], s->squares[i]);
    }
}

/* x -> stats, and updates the running statistics */
CRN_KERNEL_OF(FORM(norm_statistics), crn_norm_args, CRN_COLUMN_THREADS, 2) {
    CRN_SHARED(moments, all, 1);
    CRN_SHARED(uint32_t, last, 1);
    const crn_tiling *tiling = &p->tiling;
    moments *s = all;
    uint32_t tile = g.x % tiling->tiles, strip = g.x / tiling->tiles, wide = tiling->lanes * PACK;
    float *partial = (float *)p->partial + (size_t)tile * tiling->strips * 2 * wide;
    CRN_EACH_THREAD(t) {
        sum_rows(p, crn_place_of(tiling, tile, strip, t), s, t, statistics_rows);
    }
    merge_groups(tiling, g, s);
    if (tiling->strips > 1) {
        CRN_EACH_THREAD(t) {
            for (uint32_t i = t; i < wide; i += g.threads) {
                crn_write_shared_partial(partial + (size_t)strip * 2 * wide + i, s->mean[i]);
                crn_write_shared_partial(partial + ((size_t)strip * 2 + 1) * wide + i,
                                         s->squares[i]);
            }
        }
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            if (t == 0)
                last[0] = crn_take_ticket(p->tickets + tile, tiling->strips);
        }
        CRN_BARRIER();
        if (!last[0])
            return;
        merge_strips(tiling, g, partial, s);
    }
    finish_tile(p, g, tile, s);
}

/* y = (x - mean) * gamma / deviation + beta (+ added), and a ReLU; all but p and at are
 * constants here */
CRN_DEVICE void apply_rows(const crn_norm_args *CRN_RESTRICT p, crn_place at, int relu, int add,
                           uint32_t at_once) {
    uint32_t c = at.column * PACK, end = p->tiling.channels;
    pack mean, scale = get_floats(p->gamma, c, end), beta = get_floats(p->beta, c, end);
    pack inverse;
    if (p->flags & CRN_NORM_RUNNING) {
        mean = get_floats(p->running_mean, c, end);
        inverse = get_floats(p->running_var, c, end);
        EACH(k) {
            inverse.at[k] = 1 / sqrtf(inverse.at[k] + p->epsilon);
        }
    } else {
        const float *stats = p->flags & CRN_NORM_KEPT ? p->kept : p->stats;
        mean = get_floats(stats, c, end);
        inverse = get_floats(stats + end, c, end);
    }
    EACH(k) {
        scale.at[k] *= inverse.at[k];
    }
    for (uint32_t row = at.first; row < at.end; row += at_once * p->tiling.groups) {
        raw x[most_rows], added[most_rows];
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            uint32_t i = row + u * p->tiling.groups;
            if (i >= at.end)
                continue;
            x[u] = fetch(p->x, (size_t)i * p->x_pitch + c);
            if (add)
                added[u] = fetch(p->added, (size_t)i * p->added_pitch + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < at_once; u++) {
            uint32_t i = row + u * p->tiling.groups;
            if (i >= at.end)
                continue;
            pack value = open(x[u]), other = add ? open(added[u]) : no_pack();
            EACH(k) {
                float y = crn_fma(value.at[k] - mean.at[k], scale.at[k], beta.at[k]);
                y = add ? as_stored(y) + other.at[k] : y;
                value.at[k] = relu ? crn_relu(y) : y;
            }
            put(p->y, (size_t)i * p->y_pitch + c, value);
        }
    }
}

CRN_DEVICE void apply_place(const crn_norm_args *CRN_RESTRICT p, crn_place at, int few) {
    if (at.first == at.end)
        return;
    switch (p->flags & (CRN_NORM_RELU | CRN_NORM_ADD)) {
    case 0:
        apply_rows(p, at, 0, 0, few ? most_rows : rows_to_apply);
        break;
    case CRN_NORM_RELU:
        apply_rows(p, at, 1, 0, few ? most_rows : rows_to_apply);
        break;
    case CRN_NORM_ADD:
        apply_rows(p, at, 0, 1, few ? most_rows / 2 : rows_to_apply);
        break;
    default:
        apply_rows(p, at, 1, 1, few ? most_rows / 2 : rows_to_apply);
    }
}

/* The last strips come first: after the statistics the cache still has the end of x. */
CRN_KERNEL_OF(FORM(norm_apply), crn_norm_args, CRN_COLUMN_THREADS, 2) {
    uint32_t tile = g.x % p->tiling.tiles, strip = p->tiling.strips - 1 - g.x / p->tiling.tiles;
    CRN_EACH_THREAD(t) {
        apply_place(p, crn_place_of(&p->tiling, tile, strip, t), 0);
        for (uint32_t i = g.x * g.threads + t;
             p->flags & CRN_NORM_KEPT && i < 2 * p->tiling.channels; i += g.blocks * g.threads)
            p->stats[i] = p->kept[i];
    }
}

/* Both kernels, for tiles with one strip. There are few blocks, so each must have many loads in
 * flight. A thread reads its values again from the first-level cache. */
CRN_KERNEL_OF(FORM(norm_whole), crn_norm_args, CRN_COLUMN_THREADS, 1) {
    CRN_SHARED(moments, s, 1);
    CRN_EACH_THREAD(t) {
        sum_rows(p, crn_place_of(&p->tiling, g.x, 0, t), s, t, most_rows);
    }
    merge_groups(&p->tiling, g, s);
    finish_tile(p, g, g.x, s);
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        apply_place(p, crn_place_of(&p->tiling, g.x, 0, t), 1);
    }
}

#undef merge
#undef merge_groups
#undef merge_strips
#undef sum_rows
#undef finish
#undef moments
#undef finish_tile
#undef apply_rows
#undef apply_place
#undef statistics_rows
#undef strips_at_once
#undef rows_to_apply
#undef most_rows
