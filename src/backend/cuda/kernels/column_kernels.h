/* column_kernels.h: biases: added to every row, and their gradients, the sums over the rows; no
 * guard. See pack.h. */

#define bias_rows FORM(bias_rows)
#define sum_columns FORM(sum_columns)
#define bias_rows_at_once 4

/* relu is a constant here */
CRN_DEVICE void bias_rows(const crn_bias_args *CRN_RESTRICT p, crn_place at, int relu) {
    uint32_t c = at.column * PACK;
    pack bias = get_floats(p->bias, c, p->tiling.channels);
    for (uint32_t row = at.first; row < at.end; row += bias_rows_at_once * p->tiling.groups) {
        raw x[bias_rows_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < bias_rows_at_once; u++) {
            size_t i = row + u * p->tiling.groups;
            if (i < at.end)
                x[u] = fetch(p->x, i * p->x_pitch + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < bias_rows_at_once; u++) {
            size_t i = row + u * p->tiling.groups;
            if (i >= at.end)
                continue;
            pack value = open(x[u]);
            EACH(k) {
                float y = value.at[k] + bias.at[k];
                value.at[k] = relu ? crn_relu(y) : y;
            }
            put(p->y, i * p->y_pitch + c, value);
        }
    }
}

/* x -> x + bias, or max(0, x + bias) */
CRN_KERNEL_OF(FORM(bias), crn_bias_args, CRN_COLUMN_THREADS, 2) {
    uint32_t tile = g.x % p->tiling.tiles, strip = g.x / p->tiling.tiles;
    CRN_EACH_THREAD(t) {
        crn_place at = crn_place_of(&p->tiling, tile, strip, t);
        if (at.first == at.end)
            continue;
        if (p->relu)
            bias_rows(p, at, 1);
        else
            bias_rows(p, at, 0);
    }
}

/* gate is a constant here: 0 for the sums alone, CRN_SUMS_RELU, or one of a gate's gradients. All
 * blocks work on neighbouring rows at a time, the last rows first: these were written last and are
 * still in the cache. */
CRN_DEVICE void sum_columns(const crn_column_sums_args *CRN_RESTRICT p, uint32_t column,
                            uint32_t strip, float *s, uint32_t t, uint32_t gate) {
    uint32_t c = column * PACK, first = strip * p->tiling.groups + t / p->tiling.lanes;
    uint32_t step = p->tiling.strips * p->tiling.groups, left = 0; /* rows of the thread */
    pack sum = no_pack();
    if (t / p->tiling.lanes < p->tiling.groups && column < p->tiling.packs &&
        first < p->tiling.rows)
        left = (p->tiling.rows - 1 - first) / step + 1;
    for (; left > 0; left -= crn_min_u32(left, bias_rows_at_once)) {
        raw gy[bias_rows_at_once], y[bias_rows_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < bias_rows_at_once; u++) {
            if (u >= left)
                continue;
            size_t i = first + (size_t)(left - 1 - u) * step;
            gy[u] = fetch(p->gy, i * p->gy_pitch + c);
            if (gate)
                y[u] = fetch(p->y, i * p->y_pitch + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < bias_rows_at_once; u++) {
            if (u >= left)
                continue;
            size_t i = first + (size_t)(left - 1 - u) * step;
            pack gradient = open(gy[u]), decides = gate ? open(y[u]) : no_pack();
            EACH(k) {
                if (gate == CRN_SUMS_RELU && decides.at[k] <= 0)
                    gradient.at[k] = 0;
            }
            if (gate > CRN_SUMS_RELU)
                gradient = FORM(gate_value)(gate, decides, gradient);
            if (gate) {
                raw made = pack_up(gradient);
                store(p->masked, i * p->masked_pitch + c, made);
                gradient = open(made);
            }
            EACH(k) {
                sum.at[k] += gradient.at[k];
            }
        }
    }
    EACH(k) {
        sum_at(s, 0, t, k) = sum.at[k];
    }
}

/* gy -> sums, masked */
CRN_KERNEL_OF(FORM(column_sums), crn_column_sums_args, CRN_COLUMN_THREADS, 2) {
    CRN_SHARED(float, s, CRN_COLUMN_THREADS *PACK);
    CRN_SHARED(uint32_t, last, 1);
    const crn_tiling *tiling = &p->tiling;
    uint32_t tile = g.x % tiling->tiles, strip = g.x / tiling->tiles, wide = tiling->lanes * PACK;
    CRN_EACH_THREAD(t) {
        uint32_t column = tile * tiling->lanes + t % tiling->lanes;
        if (p->gate == CRN_SUMS_RELU)
            sum_columns(p, column, strip, s, t, CRN_SUMS_RELU);
        else if (p->gate == CRN_GELU_BWD)
            sum_columns(p, column, strip, s, t, CRN_GELU_BWD);
        else if (p->gate == CRN_GELU_TANH_BWD)
            sum_columns(p, column, strip, s, t, CRN_GELU_TANH_BWD);
        else
            sum_columns(p, column, strip, s, t, 0);
    }
    float *partial = (float *)p->partial + (size_t)tile * tiling->strips * wide;
    if (!add_up(tiling, g, strip, s, 1, partial, p->tickets + tile, last))
        return;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < wide && tile * wide + i < tiling->channels; i += g.threads)
            p->sums[tile * wide + i] = sum_at(s, 0, 0, i);
    }
}

#undef bias_rows
#undef sum_columns
#undef bias_rows_at_once
