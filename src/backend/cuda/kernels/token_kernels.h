/* token_kernels.h: how sequences begin: embeddings and positions; no guard. See pack.h and
 * ref_sequence.c. */

#define put_floats FORM(put_floats)
#define sum_list FORM(sum_list)
#define put_gradient FORM(put_gradient)
#define list_rows_at_once 4

CRN_DEVICE void put_floats(float *to, pack value) {
#if defined(__CUDACC__) && PACK >= 4
    if ((uintptr_t)to % 16 == 0) {
        CRN_UNROLL for (uint32_t k = 0; k < PACK; k += 4) * (float4 *)(to + k) =
            make_float4(value.at[k], value.at[k + 1], value.at[k + 2], value.at[k + 3]);
        return;
    }
#endif
    EACH(k) {
        to[k] = value.at[k];
    }
}

/* tokens, table -> y */
CRN_KERNEL(FORM(embedding), crn_embedding_args) {
    uint32_t packs = p->width / PACK;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->rows * packs; i += g.blocks * g.threads) {
            uint32_t row = i / packs, c = (i - row * packs) * PACK;
            int64_t token = p->tokens[row];
            int known = token >= 0 && token < (int64_t)p->words;
            pack value =
                known ? get_floats(p->table + (size_t)token * p->width, c, p->width) : no_pack();
            EACH(k) {
                value.at[k] = known ? value.at[k] : crn_from_bits(0x7fffffffu);
            }
            put(p->y, (size_t)row * p->width + c, value);
        }
    }
}

/* ---- The gradient of the table: a warp has a word, a block a word with many rows ---- */

/* The sum of rows `first`, first + step, ... of the list, before `end`. */
CRN_DEVICE pack sum_list(const crn_embedding_args *CRN_RESTRICT p, uint32_t first, uint32_t end,
                         uint32_t step, uint32_t c) {
    pack sum = no_pack();
    for (uint32_t i = first; i < end; i += list_rows_at_once * step) {
        raw rows[list_rows_at_once];
        CRN_UNROLL for (uint32_t u = 0; u < list_rows_at_once; u++) {
            if (i + u * step < end)
                rows[u] = fetch(p->gy, (size_t)p->list[i + u * step] * p->width + c);
        }
        CRN_UNROLL for (uint32_t u = 0; u < list_rows_at_once; u++) {
            if (i + u * step >= end)
                continue;
            pack row = open(rows[u]);
            EACH(k) {
                sum.at[k] += row.at[k];
            }
        }
    }
    return sum;
}

/* Write the gradient of a word: its sum, and what that is added to. */
CRN_DEVICE void put_gradient(const crn_embedding_args *CRN_RESTRICT p, uint32_t word, uint32_t c,
                             pack sum) {
    size_t row = (size_t)word * p->width;
    pack before = p->sum ? get_floats(p->sum + row, c, p->width) : no_pack();
    EACH(k) {
        sum.at[k] = before.at[k] + sum.at[k];
    }
    put_floats(p->gradient + row + c, sum);
}

/* gy, starts, list, sum -> gradient */
CRN_KERNEL(FORM(embedding_bwd), crn_embedding_args) {
    CRN_SHARED(float, s, 256 * PACK);
    uint32_t first = g.x * CRN_LIST_WORDS;
    CRN_EACH_THREAD(t) {
        uint32_t word = first + t / 32, c = (g.y * 32 + t % 32) * PACK;
        if (word >= p->words || c >= p->width)
            continue;
        uint32_t begin = p->starts[word], end = p->starts[word + 1];
        if (begin == end && p->sum == p->gradient)
            continue; /* nothing to add */
        if (end - begin <= CRN_LIST_FEW)
            put_gradient(p, word, c, sum_list(p, begin, end, 1, c));
    }
    for (uint32_t word = first; word < first + CRN_LIST_WORDS && word < p->words; word++) {
        uint32_t begin = p->starts[word], end = p->starts[word + 1];
        if (end - begin <= CRN_LIST_FEW)
            continue; /* the same for all threads */
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            uint32_t c = (g.y * 32 + t % 32) * PACK;
            pack sum = c < p->width ? sum_list(p, begin + t / 32, end, 8, c) : no_pack();
            EACH(k) {
                s[t * PACK + k] = sum.at[k];
            }
        }
        CRN_BARRIER();
        CRN_FIRST_THREADS(t, 32) {
            uint32_t c = (g.y * 32 + t) * PACK;
            pack sum = no_pack();
            CRN_UNROLL for (uint32_t group = 0; group < 8; group++) {
                EACH(k) {
                    sum.at[k] += s[(group * 32 + t) * PACK + k];
                }
            }
            if (c < p->width)
                put_gradient(p, word, c, sum);
        }
    }
}

/* ---- Positions ---- */

/* x -> y */
CRN_KERNEL(FORM(positions), crn_positions_args) {
    uint32_t packs = p->width / PACK, rows = p->batch * p->tokens;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < rows * packs; i += g.blocks * g.threads) {
            uint32_t row = i / packs, c = (i - row * packs) * PACK;
            uint32_t from = p->same_row ? 0 : row % p->tokens;
            pack x = get(p->x, (size_t)row * p->width + c);
            pack weight = get_floats(p->weight + (size_t)from * p->width, c, p->width);
            EACH(k) {
                x.at[k] = x.at[k] + weight.at[k];
            }
            put(p->y, (size_t)row * p->width + c, x);
        }
    }
}

/* gy -> gradient, the sum over the sequences in their order */
CRN_KERNEL(FORM(positions_bwd), crn_positions_args) {
    uint32_t packs = p->width / PACK;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->weights * packs; i += g.blocks * g.threads) {
            uint32_t row = i / packs, c = (i - row * packs) * PACK;
            pack sum = no_pack();
            CRN_UNROLL_BY(4) for (uint32_t n = 0; row < p->tokens && n < p->batch; n++) {
                pack gy = get(p->x, ((size_t)n * p->tokens + row) * p->width + c);
                EACH(k) {
                    sum.at[k] += gy.at[k];
                }
            }
            put_floats(p->gradient + (size_t)row * p->width + c, sum);
        }
    }
}

#undef put_floats
#undef sum_list
#undef put_gradient
#undef list_rows_at_once
