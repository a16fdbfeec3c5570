/* held_row_kernels.h: layer norm and RMS norm of rows that fit into the registers of a block, which
 * reads them once; no guard. See pack.h and ref_row_norm.c.
 *
 * `lanes` threads have a row: one warp, or several if the row is long. Thread `lane` has packs
 * lane, lane + lanes, ... of it, four at most. lanes is a constant in these functions, or the
 * columns need registers too. */

#define held_prefetch FORM(held_prefetch)
#define held_row FORM(held_row)
#define held_gradient FORM(held_gradient)
#define held_sum FORM(held_sum)
#define held_store FORM(held_store)
#define held_add FORM(held_add)
#define held_strip FORM(held_strip)
#define held_barrier FORM(held_barrier)
#define held_load FORM(held_load)
#define held_part FORM(held_part)
#define held_apply FORM(held_apply)
#define held_norms FORM(held_norms)

/* Where pack u of a thread begins. */
#define HELD_COLUMN(u) (((u)*lanes + lane) * PACK)

/* Call `function` with the constant that p->cut.lanes is, as its last argument. */
#define HELD_CASES(function, ...)                                                                  \
    switch (p->cut.lanes) {                                                                        \
    case 32:                                                                                       \
        function(__VA_ARGS__, 32);                                                                 \
        break;                                                                                     \
    case 64:                                                                                       \
        function(__VA_ARGS__, 64);                                                                 \
        break;                                                                                     \
    case 128:                                                                                      \
        function(__VA_ARGS__, 128);                                                                \
        break;                                                                                     \
    default:                                                                                       \
        function(__VA_ARGS__, 256);                                                                \
    }

/* The sum of what the threads of a row wrote, warp by warp. */
CRN_DEVICE float held_sum(const float *s, uint32_t lanes, uint32_t t) {
    uint32_t first = t / lanes * lanes + t % 32;
    float sum = crn_add_warp(s, first);
    for (uint32_t warp = 32; warp < lanes; warp += 32)
        sum += crn_add_warp(s, first + warp);
    return sum;
}

/* Between phases in which the threads of a row work together. */
CRN_DEVICE void held_barrier(uint32_t lanes) {
    if (lanes > 32)
        CRN_BARRIER();
    else
        CRN_WARP_BARRIER();
}

/* Load the packs of a row, or make them: sums are written at once. */
CRN_DEVICE void held_load(const crn_row_norm_args *CRN_RESTRICT p, uint32_t row, uint32_t lane,
                          raw *x, int two, uint32_t lanes) {
    size_t at = (size_t)row * p->cut.channels;
    raw more[CRN_ROW_HELD];
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= p->cut.channels)
            continue;
        x[u] = fetch(p->x, at + HELD_COLUMN(u));
        if (two)
            more[u] = fetch(p->added, at + HELD_COLUMN(u));
    }
    CRN_UNROLL for (uint32_t u = 0; two && u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= p->cut.channels)
            continue;
        pack value = open(x[u]), added = open(more[u]);
        EACH(k) {
            value.at[k] += added.at[k];
        }
        x[u] = pack_up(value);
        if (p->sum)
            store(p->sum, at + HELD_COLUMN(u), x[u]);
    }
}

/* The sum of a thread's values, or of the squares of their distances from `mean`. */
CRN_DEVICE float held_part(const crn_row_norm_args *CRN_RESTRICT p, uint32_t lane, const raw *x,
                           float mean, int squares, uint32_t lanes) {
    float sum = 0;
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= p->cut.channels)
            continue;
        pack value = open(x[u]);
        EACH(k) {
            float distance = value.at[k] - mean;
            sum = squares ? crn_fma(distance, distance, sum) : sum + value.at[k];
        }
    }
    return sum;
}

CRN_DEVICE void held_apply(const crn_row_norm_args *CRN_RESTRICT p, uint32_t row, uint32_t lane,
                           const raw *x, float mean, float inverse, uint32_t lanes) {
    uint32_t width = p->cut.channels;
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= width)
            continue;
        pack value = open(x[u]), gamma = get_floats(p->gamma, HELD_COLUMN(u), width);
        pack beta = p->beta ? get_floats(p->beta, HELD_COLUMN(u), width) : no_pack();
        EACH(k) {
            value.at[k] = (value.at[k] - mean) * inverse * gamma.at[k] + beta.at[k];
        }
        put(p->y, (size_t)row * width + HELD_COLUMN(u), value);
    }
    if (lane == 0 && p->mean)
        p->mean[row] = mean;
    if (lane == 0 && p->inverse)
        p->inverse[row] = inverse;
}

CRN_DEVICE void held_norms(const crn_row_norm_args *CRN_RESTRICT p, crn_grid g, float *sums,
                           float *squares, uint32_t lanes) {
    CRN_KEPT(raw, x, CRN_ROW_HELD);
    CRN_KEPT(float, mean, 1);
    float count = (float)p->cut.channels;
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * (256 / lanes) + t / lanes;
        if (row >= p->cut.rows)
            continue;
        if (p->added)
            held_load(p, row, t % lanes, CRN_OWN(x, t), 1, lanes);
        else
            held_load(p, row, t % lanes, CRN_OWN(x, t), 0, lanes);
        if (p->centred)
            sums[t] = held_part(p, t % lanes, CRN_OWN(x, t), 0, 0, lanes);
    }
    held_barrier(lanes);
    CRN_EACH_THREAD(t) {
        if (g.x * (256 / lanes) + t / lanes >= p->cut.rows)
            continue;
        CRN_OWN(mean, t)[0] = p->centred ? held_sum(sums, lanes, t) / count : 0;
        squares[t] = held_part(p, t % lanes, CRN_OWN(x, t), CRN_OWN(mean, t)[0], 1, lanes);
    }
    held_barrier(lanes);
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * (256 / lanes) + t / lanes;
        if (row >= p->cut.rows)
            continue;
        float inverse = 1 / sqrtf(held_sum(squares, lanes, t) / count + p->epsilon);
        held_apply(p, row, t % lanes, CRN_OWN(x, t), CRN_OWN(mean, t)[0], inverse, lanes);
    }
}

/* x (, added) -> y, mean, inverse (, sum) */
CRN_KERNEL(FORM(row_norm), crn_row_norm_args) {
    CRN_SHARED(float, sums, 256);
    CRN_SHARED(float, squares, 256);
    HELD_CASES(held_norms, p, g, sums, squares)
}

/* ---- backward: see row_kernels.h. A thread has the same columns in all its rows, and a sum for
 * each of them ---- */

/* Ask for the packs of a row that is read soon. */
CRN_DEVICE void held_prefetch(const void *from, uint32_t row, uint32_t width, uint32_t lane,
                              uint32_t lanes) {
    const stored *at = (const stored *)from + (size_t)row * width + lane * PACK;
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) < width)
            crn_prefetch(at + u * lanes * PACK);
    }
}

/* Load the packs of a row; add to the sums of the columns; the parts of the sums over the row. */
CRN_DEVICE void held_row(const crn_row_norm_args *CRN_RESTRICT p, uint32_t row, uint32_t lane,
                         uint32_t lanes, raw *x, raw *gy, float *columns, float *products,
                         float *total, float *along) {
    uint32_t width = p->cut.channels;
    size_t at = (size_t)row * width;
    float mean = p->centred ? p->mean[row] : 0, inverse = p->inverse[row];
    float sum = 0, product = 0;
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= width)
            continue;
        x[u] = fetch(p->x, at + HELD_COLUMN(u));
        gy[u] = fetch(p->gy, at + HELD_COLUMN(u));
    }
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= width)
            continue;
        pack value = open(x[u]), gradient = open(gy[u]);
        pack gamma = get_floats(p->gamma, HELD_COLUMN(u), width);
        EACH(k) {
            float away = (value.at[k] - mean) * inverse;
            float weighted = gradient.at[k] * gamma.at[k];
            columns[u * PACK + k] += gradient.at[k];
            products[u * PACK + k] = crn_fma(gradient.at[k], away, products[u * PACK + k]);
            sum += weighted;
            product = crn_fma(weighted, away, product);
        }
    }
    *total = sum;
    *along = product;
}

/* other is a constant here: whether p->other is added. */
CRN_DEVICE void held_gradient(const crn_row_norm_args *CRN_RESTRICT p, uint32_t row, uint32_t lane,
                              uint32_t lanes, const raw *x, const raw *gy, float shift, float slope,
                              int other) {
    uint32_t width = p->cut.channels;
    size_t at = (size_t)row * width;
    float mean = p->centred ? p->mean[row] : 0, inverse = p->inverse[row];
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= width)
            continue;
        pack value = open(x[u]), gradient = open(gy[u]);
        pack gamma = get_floats(p->gamma, HELD_COLUMN(u), width);
        pack added = other ? get(p->other, at + HELD_COLUMN(u)) : no_pack();
        EACH(k) {
            float away = (value.at[k] - mean) * inverse;
            float gx = inverse * (gradient.at[k] * gamma.at[k] - shift - away * slope);
            value.at[k] = other ? as_stored(gx) + added.at[k] : gx;
        }
        put(p->gx, at + HELD_COLUMN(u), value);
    }
}

/* Sums of columns, `held_apart` floats apart in shared memory, so that neither side has conflicts.
 */
#define held_apart (256 + 32 / PACK)

CRN_DEVICE void held_store(float *s, uint32_t t, const float *sums) {
    CRN_UNROLL for (uint32_t i = 0; i < CRN_ROW_HELD * PACK; i++) s[i * held_apart + t] = sums[i];
}

/* Add up those of the rows that the block has at a time. */
CRN_DEVICE void held_add(const crn_row_norm_args *CRN_RESTRICT p, const float *s, uint32_t t,
                         uint32_t lanes, float *to) {
    for (uint32_t c = t; c < p->cut.channels; c += 256) {
        uint32_t lane = c / PACK % lanes, i = c / PACK / lanes * PACK + c % PACK;
        float sum = 0;
        CRN_UNROLL for (uint32_t first = 0; first < 256; first += lanes) sum +=
            s[i * held_apart + first + lane];
        to[c] = sum;
    }
}

CRN_DEVICE void held_strip(const crn_row_norm_args *CRN_RESTRICT p, crn_grid g, float *s,
                           float *sums, float *products, uint32_t lanes) {
    CRN_KEPT(raw, x, CRN_ROW_HELD);
    CRN_KEPT(raw, gy, CRN_ROW_HELD);
    CRN_KEPT(float, of_beta, CRN_ROW_HELD *PACK);
    CRN_KEPT(float, of_gamma, CRN_ROW_HELD *PACK);
    uint32_t begin = g.x * p->cut.strip, end = crn_min_u32(begin + p->cut.strip, p->cut.rows);
    float count = (float)p->cut.channels;
    float *part = (float *)p->part + (size_t)g.x * 2 * p->cut.channels;
    CRN_EACH_THREAD(t) {
        CRN_UNROLL for (uint32_t i = 0; i < CRN_ROW_HELD * PACK; i++) CRN_OWN(of_beta, t)[i] =
            CRN_OWN(of_gamma, t)[i] = 0;
    }
    for (uint32_t from = begin; from < end; from += 256 / lanes) {
        CRN_EACH_THREAD(t) {
            uint32_t row = from + t / lanes;
            if (row < end && p->other)
                held_prefetch(p->other, row, p->cut.channels, t % lanes, lanes);
            if (row + 256 / lanes < end) {
                held_prefetch(p->x, row + 256 / lanes, p->cut.channels, t % lanes, lanes);
                held_prefetch(p->gy, row + 256 / lanes, p->cut.channels, t % lanes, lanes);
            }
            if (row < end)
                held_row(p, row, t % lanes, lanes, CRN_OWN(x, t), CRN_OWN(gy, t),
                         CRN_OWN(of_beta, t), CRN_OWN(of_gamma, t), &sums[t], &products[t]);
        }
        held_barrier(lanes);
        CRN_EACH_THREAD(t) {
            uint32_t row = from + t / lanes;
            if (row >= end || !p->gx)
                continue;
            float shift = p->centred ? held_sum(sums, lanes, t) / count : 0;
            float slope = held_sum(products, lanes, t) / count;
            if (p->other)
                held_gradient(p, row, t % lanes, lanes, CRN_OWN(x, t), CRN_OWN(gy, t), shift, slope,
                              1);
            else
                held_gradient(p, row, t % lanes, lanes, CRN_OWN(x, t), CRN_OWN(gy, t), shift, slope,
                              0);
        }
        held_barrier(lanes);
    }
    if (!p->part)
        return;
    CRN_EACH_THREAD(t) {
        held_store(s, t, CRN_OWN(of_gamma, t));
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        held_add(p, s, t, lanes, part);
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        held_store(s, t, CRN_OWN(of_beta, t));
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        held_add(p, s, t, lanes, part + p->cut.channels);
    }
}

/* x, gy, mean, inverse (, other) -> gx, part. A block has a strip of rows. */
CRN_KERNEL_OF(FORM(row_norm_bwd), crn_row_norm_args, 256, 2) {
    CRN_SHARED(float, s, CRN_ROW_HELD *PACK *held_apart);
    CRN_SHARED(float, sums, 256);
    CRN_SHARED(float, products, 256);
    HELD_CASES(held_strip, p, g, s, sums, products)
}

#undef HELD_CASES
#undef HELD_COLUMN
#undef held_apart

#undef held_prefetch
#undef held_row
#undef held_gradient
#undef held_sum
#undef held_store
#undef held_add
#undef held_strip
#undef held_barrier
#undef held_load
#undef held_part
#undef held_apply
#undef held_norms
