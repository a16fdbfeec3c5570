/* list_kernels.h: kernels for tokens with one form: which rows have which word, how many labels
 * count, and copies of rows. */
#include "backend/cuda/kernels/block_sums.h"

/* As in sequence_launch.c. */
#define CRN_LIST_CHUNK 64u /* words of a block of token_lists */
#define CRN_LIST_WORDS 8u  /* words of a block of embedding_bwd */
#define CRN_LIST_FEW 64u   /* rows of a word that a warp adds up alone */
#define CRN_LIST_EACH 8u   /* tokens of a thread in a tile */
#define CRN_LIST_TILE (256 * CRN_LIST_EACH)

/* What the second pass of token_lists keeps of a tile: the tokens of the block's words, in the
 * order of their rows. */
typedef struct crn_list_hits {
    uint32_t counts[256];       /* of each thread */
    uint32_t totals[8];         /* of each warp */
    uint32_t at[CRN_LIST_TILE]; /* row of the tile * CRN_LIST_CHUNK + word of the block */
} crn_list_hits;

/* The word of row `i` of a tile, from the first of the block on; CRN_LIST_CHUNK: another one. */
CRN_DEVICE uint32_t crn_list_word(const crn_embedding_args *CRN_RESTRICT p, uint32_t tile,
                                  uint32_t i, uint32_t first, uint32_t mine) {
    uint32_t row = tile * CRN_LIST_TILE + i;
    uint32_t word = row < p->rows ? (uint32_t)p->tokens[row] - first : CRN_LIST_CHUNK;
    return word < mine ? word : CRN_LIST_CHUNK;
}

/* Find the hits of a tile: a thread has the next CRN_LIST_EACH rows. */
CRN_DEVICE void crn_list_tile(const crn_embedding_args *CRN_RESTRICT p, crn_grid g, uint32_t tile,
                              uint32_t first, uint32_t mine, crn_list_hits *hits) {
    CRN_EACH_THREAD(t) {
        uint32_t count = 0;
        CRN_UNROLL for (uint32_t i = 0; i < CRN_LIST_EACH; i++) count +=
            crn_list_word(p, tile, t * CRN_LIST_EACH + i, first, mine) < CRN_LIST_CHUNK;
        hits->counts[t] = count;
    }
    CRN_BARRIER();
    CRN_FIRST_THREADS(t, 8) {
        uint32_t total = 0;
        CRN_UNROLL for (uint32_t i = 0; i < 32; i++) total += hits->counts[t * 32 + i];
        hits->totals[t] = total;
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t to = 0;
        if (hits->counts[t] == 0)
            continue;
        for (uint32_t warp = 0; warp < t / 32; warp++)
            to += hits->totals[warp];
        for (uint32_t i = t / 32 * 32; i < t; i++)
            to += hits->counts[i];
        for (uint32_t i = t * CRN_LIST_EACH; i < (t + 1) * CRN_LIST_EACH; i++) {
            uint32_t word = crn_list_word(p, tile, i, first, mine);
            if (word < CRN_LIST_CHUNK)
                hits->at[to++] = i * CRN_LIST_CHUNK + word;
        }
    }
    CRN_BARRIER();
}

/* tokens -> starts, list. A block reads all tokens: those of words before its own say where its
 * lists begin. Then it takes a tile of them at a time, of which it keeps those of its words, and
 * the thread of a word appends what is of its word. */
CRN_KERNEL(crn_token_lists, crn_embedding_args) {
    CRN_SHARED(uint32_t, before, 256);
    CRN_SHARED(uint32_t, counts, CRN_LIST_CHUNK);
    CRN_SHARED(uint32_t, next, CRN_LIST_CHUNK);
    CRN_SHARED(crn_list_hits, hits, 1);
    uint32_t first = g.x * CRN_LIST_CHUNK;
    uint32_t mine = crn_min_u32(p->words - first, CRN_LIST_CHUNK);
    CRN_EACH_THREAD(t) {
        if (t < CRN_LIST_CHUNK)
            counts[t] = 0;
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t sum = 0;
        CRN_UNROLL_BY(8) for (uint32_t row = t; row < p->rows; row += g.threads) {
            int32_t token = p->tokens[row];
            sum += token >= 0 && (uint32_t)token < first;
            if (token >= 0 && (uint32_t)token - first < mine)
                crn_count_up(&counts[(uint32_t)token - first], 1);
        }
        before[t] = sum;
    }
    crn_count_block(g, before);
    CRN_FIRST_THREADS(t, CRN_LIST_CHUNK) {
        uint32_t start = before[0];
        for (uint32_t w = 0; w < t; w++)
            start += counts[w];
        next[t] = start;
        if (t < mine)
            p->starts[first + t] = start;
        if (t + 1 == mine && first + mine == p->words)
            p->starts[p->words] = start + counts[t];
    }
    for (uint32_t tile = 0; tile * CRN_LIST_TILE < p->rows; tile++) {
        CRN_BARRIER();
        crn_list_tile(p, g, tile, first, mine, hits);
        CRN_FIRST_THREADS(t, CRN_LIST_CHUNK) {
            uint32_t to = next[t], found = 0;
            CRN_UNROLL for (uint32_t warp = 0; warp < 8; warp++) found += hits->totals[warp];
            for (uint32_t i = 0; i < found; i++)
                if (hits->at[i] % CRN_LIST_CHUNK == t)
                    p->list[to++] = tile * CRN_LIST_TILE + hits->at[i] / CRN_LIST_CHUNK;
            next[t] = to;
        }
    }
}

/* labels -> count */
CRN_KERNEL(crn_count_labels, crn_token_loss_args) {
    CRN_SHARED(uint32_t, s, 256);
    CRN_EACH_THREAD(t) {
        uint32_t sum = 0;
        CRN_UNROLL_BY(8)
        for (uint32_t row = t; row < p->rows; row += g.threads)
            sum += p->labels[row] >= 0;
        s[t] = sum;
    }
    crn_count_block(g, s);
    CRN_EACH_THREAD(t) {
        if (t == 0)
            *p->count = (float)(s[0] > 0 ? s[0] : 1);
    }
}

CRN_DEVICE size_t crn_matrix_place(const crn_matrix *m, uint32_t n, uint32_t row, uint32_t c) {
    return n * m->next + row * m->row + c * m->column;
}

CRN_KERNEL(crn_copy_rows, crn_copy_rows_args) {
    CRN_EACH_THREAD(t) {
        uint32_t all = p->batch * p->rows * p->width;
        for (uint32_t i = g.x * g.threads + t; i < all; i += g.blocks * g.threads) {
            uint32_t c = i % p->width, row = i / p->width % p->rows, n = i / p->width / p->rows;
            float value = p->fill ? p->fill[c] : 0;
            if (row - p->first < p->count)
                value = crn_get_as(p->from.element, p->from.at,
                                   crn_matrix_place(&p->from, n, row - p->first, c));
            crn_put_as(p->to.element, p->to.at, crn_matrix_place(&p->to, n, row, c), value);
        }
    }
}

/* ---- The second half of the gradient of a norm of rows: see row_kernels.h ---- */

/* partial -> ggamma, gbeta, gsum: a block has 8 of the columns of all, which are 32 bytes, and 32
 * threads for each of them. */
CRN_KERNEL(crn_row_norm_finish, crn_row_norm_args) {
    CRN_SHARED(float, s, 256);
    uint32_t width = p->tiling.channels, all = (p->alone ? 1 : 3) * width;
    CRN_EACH_THREAD(t) {
        uint32_t column = g.x * 8 + t % 8;
        float sum = 0;
        CRN_UNROLL_BY(9)
        for (uint32_t i = t / 8; i < p->tiling.strips && column < all; i += 32)
            sum += ((const float *)p->partial)[(size_t)i * all + column];
        s[t] = sum;
    }
    for (uint32_t half = 16; half > 0; half /= 2) {
        CRN_BARRIER();
        CRN_FIRST_THREADS(t, half * 8) {
            s[t] += s[t + half * 8];
        }
    }
    CRN_BARRIER();
    CRN_FIRST_THREADS(t, 8) {
        uint32_t column = g.x * 8 + t, array = column / width;
        float *to = p->alone || array == 2 ? p->gsum : array == 0 ? p->ggamma : p->gbeta;
        if (column < all && to)
            to[column - array * width] = s[t];
    }
}
