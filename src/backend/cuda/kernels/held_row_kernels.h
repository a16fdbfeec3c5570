/* held_row_kernels.h: layer norm and RMS norm of rows that fit into the registers of a block, which
 * reads them once; no guard. See pack.h and ref_row_norm.c.
 *
 * Forward, `lanes` threads have a row: one warp, or several if the row is long. Thread `lane` has
 * packs lane, lane + lanes, ... of it, four at most. lanes is a constant in these functions, or the
 * columns need registers too. */

#define strip_own FORM(strip_own)
#define strip_place FORM(strip_place)
#define strip_keep FORM(strip_keep)
#define strip_after FORM(strip_after)
#define strip_slots FORM(strip_slots)
#define strip_ask FORM(strip_ask)
#define strip_statistics FORM(strip_statistics)
#define strip_load FORM(strip_load)
#define strip_write FORM(strip_write)
#define strip_sums FORM(strip_sums)
#define strip_fours FORM(strip_fours)
#define strip_add FORM(strip_add)
#define strip_next FORM(strip_next)
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

/* ---- backward: see row_kernels.h. A block has a strip of rows, `groups` at a time, which is a
 * turn. A thread has one pack of a row, the same columns in all its rows, and a sum for each of
 * them. It copies its packs of the next two turns to shared memory while it works on this one:
 *
 *     stage     0       1       2       0
 *     turn      0 ----- 1 ----- 2 ----- 3     in turn i the packs of turn i + 2 are asked for
 *
 * No other thread reads them, so they need no barrier. In the time that memory takes for a pack, an
 * H200 issues about 250 instructions for it, so each of them counts. ---- */

/* What a thread keeps from row to row, and of its row. */
typedef struct strip_own {
    pack of_gamma, of_beta, of_result;
    pack away, weighted;           /* of its row: xhat and gamma * gy */
    float sums[2];                 /* of weighted, of weighted * away */
    float inverse;                 /* 1 / deviation */
    float next_mean, next_inverse; /* of its row in the next turn */
    uint32_t left;                 /* its rows from this turn on */
    uint32_t row;
    size_t at;                 /* of its pack */
    uint32_t sums_at, sums_to; /* where the sums of its row are, and where its warp writes */
} strip_own;

#ifndef CRN_STRIP_OPERANDS_NAMED
#define CRN_STRIP_OPERANDS_NAMED
enum { STRIP_X, STRIP_GY, STRIP_OTHER, STRIP_OPERANDS };
#endif

#define strip_stage (STRIP_OPERANDS * CRN_COLUMN_THREADS) /* packs */

/* The warps of a row have places for their sums in multiples of four. */
CRN_DEVICE uint32_t strip_fours(const crn_row_norm_args *CRN_RESTRICT p) {
    return (p->tiling.lanes + 127) / 128;
}

/* A pack of floats of thread t in shared memory, without conflicts. */
#define strip_kept(s, t, k)                                                                        \
    (s)[(k) / 4 * 4 * CRN_COLUMN_THREADS + (t) * (PACK < 4 ? PACK : 4) + (k) % 4]

CRN_DEVICE void strip_keep(float *s, uint32_t t, pack value) {
    EACH(k) {
        strip_kept(s, t, k) = value.at[k];
    }
}

CRN_DEVICE uint32_t strip_after(uint32_t stage) {
    return stage == (CRN_STRIP_STAGES - 1) * strip_stage ? 0 : stage + strip_stage;
}

/* The rows and columns of a thread in the strip from `begin` to `end`. */
CRN_DEVICE void strip_place(const crn_row_norm_args *CRN_RESTRICT p, uint32_t begin, uint32_t end,
                            uint32_t t, strip_own *own, float *s) {
    uint32_t group = t / p->tiling.lanes, c = (t - group * p->tiling.lanes) * PACK;
    own->row = begin + group;
    own->at = (size_t)own->row * p->tiling.channels + c;
    own->sums_at = group * strip_fours(p) * 8;
    own->sums_to = own->sums_at + (t - group * p->tiling.lanes) / 16;
    own->left = 0;
    if (group < p->tiling.groups && own->row < end && c < p->tiling.channels)
        own->left = (end - 1 - own->row) / p->tiling.groups + 1;
    if (!p->alone)
        strip_keep(s, t, get_floats(p->gamma, c, p->tiling.channels));
    own->of_gamma = own->of_beta = own->of_result = no_pack();
}

/* Ask for the packs of a thread's row `ahead` turns later. */
CRN_DEVICE void strip_ask(const crn_row_norm_args *CRN_RESTRICT p, const strip_own *own,
                          uint32_t ahead, raw *slot) {
    if (own->left > ahead) {
        size_t at = own->at + (size_t)(ahead * p->tiling.groups) * p->tiling.channels;
        fetch_ahead(slot + STRIP_GY * CRN_COLUMN_THREADS, p->gy, at);
        if (!p->alone)
            fetch_ahead(slot + STRIP_X * CRN_COLUMN_THREADS, p->x, at);
        if (p->other)
            fetch_ahead(slot + STRIP_OTHER * CRN_COLUMN_THREADS, p->other, at);
    }
    CRN_COPIES_END();
}

CRN_DEVICE void strip_statistics(const crn_row_norm_args *CRN_RESTRICT p, uint32_t ahead,
                                 strip_own *own) {
    uint32_t row = own->row + ahead * p->tiling.groups;
    if (own->left <= ahead)
        return;
    own->next_mean = p->centred ? p->mean[row] : 0;
    own->next_inverse = p->inverse[row];
}

/* Add a pack to the sums of the columns, and make its own sums for those over the row. */
CRN_DEVICE void strip_load(const crn_row_norm_args *CRN_RESTRICT p, const raw *slot, const float *s,
                           uint32_t t, strip_own *own) {
    float inverse = own->next_inverse, offset = -own->next_mean * inverse;
    float total = 0, along = 0;
    own->inverse = inverse;
    strip_statistics(p, 1, own);
    pack value = open(slot[STRIP_X * CRN_COLUMN_THREADS]);
    pack gradient = open(slot[STRIP_GY * CRN_COLUMN_THREADS]);
    EACH(k) {
        float away = crn_fma(value.at[k], inverse, offset);
        float weighted = gradient.at[k] * strip_kept(s, t, k);
        own->of_beta.at[k] += gradient.at[k];
        own->of_gamma.at[k] = crn_fma(gradient.at[k], away, own->of_gamma.at[k]);
        total += weighted;
        along = crn_fma(weighted, away, along);
        own->away.at[k] = away;
        own->weighted.at[k] = weighted;
    }
    own->sums[0] = total;
    own->sums[1] = along;
}

/* The same where only the sums of the columns are wanted. */
CRN_DEVICE void strip_add(const raw *slot, strip_own *own) {
    pack gradient = open(slot[STRIP_GY * CRN_COLUMN_THREADS]);
    EACH(k) {
        own->of_result.at[k] += gradient.at[k];
    }
}

/* gx = (weighted - total - away * along) / deviation, and what is added to it; add it to its sums.
 */
CRN_DEVICE void strip_write(const crn_row_norm_args *CRN_RESTRICT p, const raw *slot,
                            strip_own *own, float total, float along) {
    float shift = -own->inverse * total, slope = -own->inverse * along;
    pack value;
    EACH(k) {
        value.at[k] =
            crn_fma(own->weighted.at[k], own->inverse, crn_fma(own->away.at[k], slope, shift));
    }
    raw made = pack_up(value);
    if (p->other)
        made = add_stored(made, slot[STRIP_OTHER * CRN_COLUMN_THREADS]);
    store(p->gx, own->at, made);
    if (p->gsum) {
        value = open(made);
        EACH(k) {
            own->of_result.at[k] += value.at[k];
        }
    }
}

/* Both sums over a row, of what its warps wrote; places without a warp have zeros. */
CRN_DEVICE void strip_sums(const crn_row_norm_args *CRN_RESTRICT p, const float *partials,
                           float *total, float *along) {
    float first = 0, second = 0;
    CRN_UNROLL for (uint32_t warp = 0; warp < 4; warp++) {
        first += partials[2 * warp];
        second += partials[2 * warp + 1];
    }
    CRN_UNROLL_BY(1) for (uint32_t warp = 4; warp < p->tiling.lanes / 32; warp++) {
        first += partials[2 * warp];
        second += partials[2 * warp + 1];
    }
    *total = first;
    *along = second;
}

/* Sums of columns, `strip_apart` floats apart in shared memory, so that neither side has conflicts.
 */
#define strip_apart (CRN_COLUMN_THREADS + 32 / PACK)
#define strip_places 128 /* for the sums over the rows of a turn */

CRN_DEVICE void strip_columns(const crn_row_norm_args *CRN_RESTRICT p, const float *s, uint32_t t,
                              float *to) {
    for (uint32_t c = t; c < p->tiling.channels; c += CRN_COLUMN_THREADS) {
        float sum = 0;
        for (uint32_t row = 0; row < p->tiling.groups; row++)
            sum += s[c % PACK * strip_apart + row * p->tiling.lanes + c / PACK];
        to[c] = sum;
    }
}

/* Go on to the next turn. */
CRN_DEVICE void strip_next(const crn_row_norm_args *CRN_RESTRICT p, strip_own *own) {
    own->left -= own->left > 0;
    own->row += p->tiling.groups;
    own->at += (size_t)p->tiling.groups * p->tiling.channels;
}

/* x, gy, mean, inverse (, other) -> gx, partial */
CRN_KERNEL_OF(FORM(row_norm_bwd), crn_row_norm_args, CRN_COLUMN_THREADS, 2) {
    CRN_SHARED_ALL(raw, strip_slots, CRN_STRIP_STAGES * STRIP_OPERANDS * CRN_COLUMN_THREADS);
    CRN_SHARED(float, s, PACK *strip_apart);
    CRN_SHARED(float, partials, 2 * strip_places); /* of this turn and of the one before */
    CRN_KEPT(strip_own, own, 1);
    uint32_t begin = g.x * p->tiling.strip,
             end = crn_min_u32(begin + p->tiling.strip, p->tiling.rows);
    uint32_t turns = (end - begin + p->tiling.groups - 1) / p->tiling.groups, place = 0;
    uint32_t stage = 0, last = (CRN_STRIP_STAGES - 1) * strip_stage; /* last: the stage before */
    float share = 1 / (float)p->tiling.channels;
    uint32_t arrays = p->alone ? 1 : 3;
    float *partial =
        p->partial ? (float *)p->partial + (size_t)g.x * arrays * p->tiling.channels : (float *)0;
    CRN_EACH_THREAD(t) {
        strip_place(p, begin, end, t, CRN_OWN(own, t), s);
        for (uint32_t i = 0; i + 1 < CRN_STRIP_STAGES; i++)
            strip_ask(p, CRN_OWN(own, t), i, strip_slots + i * strip_stage + t);
        if (!p->alone)
            strip_statistics(p, 0, CRN_OWN(own, t));
        for (uint32_t i = t; i < 2 * strip_places; i += g.threads)
            partials[i] = 0;
    }
    CRN_BARRIER();
    for (; p->alone && turns > 0; turns--) {
        CRN_EACH_THREAD(t) {
            CRN_COPIES_WAIT(CRN_STRIP_STAGES - 2);
            if (CRN_OWN(own, t)->left > 0)
                strip_add(strip_slots + stage + t, CRN_OWN(own, t));
            strip_ask(p, CRN_OWN(own, t), CRN_STRIP_STAGES - 1, strip_slots + last + t);
            strip_next(p, CRN_OWN(own, t));
        }
        last = stage;
        stage = strip_after(stage);
    }
    for (; turns > 0; turns--) {
        CRN_EACH_THREAD(t) {
            strip_own *mine = CRN_OWN(own, t);
            CRN_COPIES_WAIT(CRN_STRIP_STAGES - 2);
            mine->sums[0] = mine->sums[1] = 0;
            if (mine->left > 0)
                strip_load(p, strip_slots + stage + t, s, t, mine);
            strip_ask(p, mine, CRN_STRIP_STAGES - 1, strip_slots + last + t);
        }
        CRN_EACH_THREAD(t) {
            float sum = crn_add_warp_pair(CRN_OWN(own, t)->sums, sizeof(strip_own), t);
            if (t % 16 == 0)
                partials[place + CRN_OWN(own, t)->sums_to] = sum;
        }
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            strip_own *mine = CRN_OWN(own, t);
            float total, along;
            strip_sums(p, partials + place + mine->sums_at, &total, &along);
            if (mine->left > 0 && p->gx)
                strip_write(p, strip_slots + stage + t, mine, p->centred ? total * share : 0,
                            along * share);
            strip_next(p, mine);
        }
        last = stage;
        stage = strip_after(stage);
        place = strip_places - place;
    }
    for (uint32_t array = 0; array < arrays && p->partial; array++) {
        if (array == 2 && !p->gsum)
            break;
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            const strip_own *sums_of = CRN_OWN(own, t);
            EACH(k) {
                float sum = array == 0 ? sums_of->of_gamma.at[k] : sums_of->of_beta.at[k];
                s[k * strip_apart + t] = array + 1 == arrays ? sums_of->of_result.at[k] : sum;
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
#undef strip_stage
#undef strip_kept
#undef strip_places

#undef strip_own
#undef strip_place
#undef strip_keep
#undef strip_after
#undef strip_slots
#undef strip_ask
#undef strip_statistics
#undef strip_load
#undef strip_write
#undef strip_sums
#undef strip_fours
#undef strip_add
#undef strip_next
#undef strip_columns
#undef held_sum
#undef held_barrier
#undef held_load
#undef held_partial
#undef held_apply
#undef held_norms
