/* held_row_kernels.h: layer norm and RMS norm of rows that fit into the registers of a block, which
 * reads them once; no guard. See pack.h and ref_row_norm.c.
 *
 * Forward, `lanes` threads have a row: one warp, or several if the row is long. Thread `lane` has
 * packs lane, lane + lanes, ... of it, four at most. lanes is a constant in these functions, or the
 * columns need registers too. */

#define strip_own FORM(strip_own)
#define strip_place FORM(strip_place)
#define strip_load FORM(strip_load)
#define strip_write FORM(strip_write)
#define strip_sum FORM(strip_sum)
#define strip_columns FORM(strip_columns)
#define held_sum FORM(held_sum)
#define held_barrier FORM(held_barrier)
#define held_load FORM(held_load)
#define held_partial FORM(held_partial)
#define held_apply FORM(held_apply)
#define held_norms FORM(held_norms)

/* Where pack u of a thread begins. */
#define HELD_COLUMN(u) (((u)*lanes + lane) * PACK)

/* Call `function` with the constant that p->tiling.lanes is, as its last argument. */
#define HELD_CASES(function, ...)                                                                  \
    switch (p->tiling.lanes) {                                                                     \
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
    size_t at = (size_t)row * p->tiling.channels;
    raw more[CRN_ROW_HELD];
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= p->tiling.channels)
            continue;
        x[u] = fetch(p->x, at + HELD_COLUMN(u));
        if (two)
            more[u] = fetch(p->added, at + HELD_COLUMN(u));
    }
    CRN_UNROLL for (uint32_t u = 0; two && u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= p->tiling.channels)
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
CRN_DEVICE float held_partial(const crn_row_norm_args *CRN_RESTRICT p, uint32_t lane, const raw *x,
                              float mean, int squares, uint32_t lanes) {
    float sum = 0;
    CRN_UNROLL for (uint32_t u = 0; u < CRN_ROW_HELD; u++) {
        if (HELD_COLUMN(u) >= p->tiling.channels)
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
    uint32_t width = p->tiling.channels;
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
    float count = (float)p->tiling.channels;
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * (256 / lanes) + t / lanes;
        if (row >= p->tiling.rows)
            continue;
        if (p->added)
            held_load(p, row, t % lanes, CRN_OWN(x, t), 1, lanes);
        else
            held_load(p, row, t % lanes, CRN_OWN(x, t), 0, lanes);
        if (p->centred)
            sums[t] = held_partial(p, t % lanes, CRN_OWN(x, t), 0, 0, lanes);
    }
    held_barrier(lanes);
    CRN_EACH_THREAD(t) {
        if (g.x * (256 / lanes) + t / lanes >= p->tiling.rows)
            continue;
        CRN_OWN(mean, t)[0] = p->centred ? held_sum(sums, lanes, t) / count : 0;
        squares[t] = held_partial(p, t % lanes, CRN_OWN(x, t), CRN_OWN(mean, t)[0], 1, lanes);
    }
    held_barrier(lanes);
    CRN_EACH_THREAD(t) {
        uint32_t row = g.x * (256 / lanes) + t / lanes;
        if (row >= p->tiling.rows)
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

/* ---- backward: see row_kernels.h. A block has a strip of rows, `groups` at a time. A thread has
 * one pack of a row, the same columns in all its rows, and a sum for each of them ---- */

/* What a thread keeps from row to row, and of its row. */
typedef struct strip_own {
    pack gamma, of_gamma, of_beta;
    pack away; /* xhat */
    raw gy, other;
} strip_own;

/* Whether a thread has a pack of the rows that begin with `from`; where it is. */
CRN_DEVICE int strip_place(const crn_row_norm_args *CRN_RESTRICT p, uint32_t from, uint32_t end,
                           uint32_t t, uint32_t *row, size_t *at) {
    uint32_t group = t / p->tiling.lanes, c = (t - group * p->tiling.lanes) * PACK;
    *row = from + group;
    *at = (size_t)*row * p->tiling.channels + c;
    return group < p->tiling.groups && *row < end && c < p->tiling.channels;
}

/* Load a pack and the next one's lines; add to the sums of the columns; the partial sums over
 * the row. */
CRN_DEVICE void strip_load(const crn_row_norm_args *CRN_RESTRICT p, uint32_t row, size_t at,
                           uint32_t end, strip_own *own, float *total, float *along) {
    float mean = p->centred ? p->mean[row] : 0, inverse = p->inverse[row], sum = 0, product = 0;
    raw x = fetch(p->x, at);
    own->gy = fetch(p->gy, at);
    if (p->other)
        own->other = fetch(p->other, at);
    if (row + p->tiling.groups < end) {
        size_t next = at + (size_t)p->tiling.groups * p->tiling.channels;
        crn_prefetch((const stored *)p->x + next);
        crn_prefetch((const stored *)p->gy + next);
        if (p->other)
            crn_prefetch((const stored *)p->other + next);
    }
    pack value = open(x), gradient = open(own->gy);
    EACH(k) {
        float away = (value.at[k] - mean) * inverse;
        float weighted = gradient.at[k] * own->gamma.at[k];
        own->of_beta.at[k] += gradient.at[k];
        own->of_gamma.at[k] = crn_fma(gradient.at[k], away, own->of_gamma.at[k]);
        sum += weighted;
        product = crn_fma(weighted, away, product);
        own->away.at[k] = away;
    }
    *total = sum;
    *along = product;
}

/* gx = (g - shift - xhat * slope) / deviation, and what is added to it */
CRN_DEVICE void strip_write(const crn_row_norm_args *CRN_RESTRICT p, uint32_t row, size_t at,
                            const strip_own *own, float shift, float slope) {
    float inverse = p->inverse[row];
    pack value, gradient = open(own->gy), added = p->other ? open(own->other) : no_pack();
    EACH(k) {
        float weighted = gradient.at[k] * own->gamma.at[k];
        value.at[k] = inverse * (weighted - shift - own->away.at[k] * slope);
    }
    raw made = pack_up(value);
    if (p->other) {
        value = open(made);
        EACH(k) {
            value.at[k] += added.at[k];
        }
        made = pack_up(value);
    }
    store(p->gx, at, made);
}

/* The sum over a row of what its warps wrote. */
CRN_DEVICE float strip_sum(const crn_row_norm_args *CRN_RESTRICT p, const float *partials,
                           uint32_t t) {
    uint32_t warps = p->tiling.lanes / 32, first = t / p->tiling.lanes * warps;
    float sum = partials[first];
    for (uint32_t warp = 1; warp < warps; warp++)
        sum += partials[first + warp];
    return sum;
}

/* Sums of columns, `strip_apart` floats apart in shared memory, so that neither side has conflicts.
 */
#define strip_apart (CRN_COLUMN_THREADS + 32 / PACK)

CRN_DEVICE void strip_columns(const crn_row_norm_args *CRN_RESTRICT p, const float *s, uint32_t t,
                              float *to) {
    for (uint32_t c = t; c < p->tiling.channels; c += CRN_COLUMN_THREADS) {
        float sum = 0;
        for (uint32_t row = 0; row < p->tiling.groups; row++)
            sum += s[c % PACK * strip_apart + row * p->tiling.lanes + c / PACK];
        to[c] = sum;
    }
}

/* x, gy, mean, inverse (, other) -> gx, partial */
CRN_KERNEL_OF(FORM(row_norm_bwd), crn_row_norm_args, CRN_COLUMN_THREADS, 2) {
    CRN_SHARED(float, s, PACK *strip_apart);
    CRN_SHARED(float, sums, CRN_COLUMN_THREADS);
    CRN_SHARED(float, products, CRN_COLUMN_THREADS);
    CRN_SHARED(float, partials,
               4 * CRN_COLUMN_THREADS / 32); /* of this turn and of the one before */
    CRN_KEPT(strip_own, own, 1);
    uint32_t begin = g.x * p->tiling.strip,
             end = crn_min_u32(begin + p->tiling.strip, p->tiling.rows);
    uint32_t warps = CRN_COLUMN_THREADS / 32, turn = 0;
    float count = (float)p->tiling.channels;
    float *partial =
        p->partial ? (float *)p->partial + (size_t)g.x * 2 * p->tiling.channels : (float *)0;
    CRN_EACH_THREAD(t) {
        CRN_OWN(own, t)->gamma =
            get_floats(p->gamma, t % p->tiling.lanes * PACK, p->tiling.channels);
        CRN_OWN(own, t)->of_gamma = CRN_OWN(own, t)->of_beta = no_pack();
    }
    for (uint32_t from = begin; from < end; from += p->tiling.groups, turn = 2 * warps - turn) {
        CRN_EACH_THREAD(t) {
            uint32_t row;
            size_t at;
            float total = 0, along = 0;
            if (strip_place(p, from, end, t, &row, &at))
                strip_load(p, row, at, end, CRN_OWN(own, t), &total, &along);
            sums[t] = total;
            products[t] = along;
        }
        CRN_WARP_BARRIER();
        CRN_EACH_THREAD(t) {
            float total = crn_add_warp(sums, t), along = crn_add_warp(products, t);
            if (t % 32 == 0) {
                partials[turn + t / 32] = total;
                partials[turn + warps + t / 32] = along;
            }
        }
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            uint32_t row;
            size_t at;
            if (!p->gx || !strip_place(p, from, end, t, &row, &at))
                continue;
            float shift = p->centred ? strip_sum(p, partials + turn, t) / count : 0;
            float slope = strip_sum(p, partials + turn + warps, t) / count;
            strip_write(p, row, at, CRN_OWN(own, t), shift, slope);
        }
    }
    for (uint32_t array = 0; array < 2 && p->partial; array++) {
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            EACH(k) {
                s[k * strip_apart + t] =
                    array == 0 ? CRN_OWN(own, t)->of_gamma.at[k] : CRN_OWN(own, t)->of_beta.at[k];
            }
        }
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            strip_columns(p, s, t, partial + array * p->tiling.channels);
        }
    }
}

#undef HELD_CASES
#undef HELD_COLUMN
#undef strip_apart

#undef strip_own
#undef strip_place
#undef strip_load
#undef strip_write
#undef strip_sum
#undef strip_columns
#undef held_sum
#undef held_barrier
#undef held_load
#undef held_partial
#undef held_apply
#undef held_norms
