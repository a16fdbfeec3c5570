/* attention_kernels.h: attention in fp32 arithmetic, for any size of heads; no guard. See pack.h
 * and attention_args.h. It is for what cuDNN refuses and for full precision.
 *
 * A block has a tile of rows (queries, or keys and their values) of one head, and meets the rows of
 * the other side WIDE at a time. Operands come through shared memory in chunks of DEEP elements of
 * a head; scores are made where they are used.
 *
 *     scores   s[row][column] = sum over the chunk of own[row] * met[column]      32 columns wide
 *     sums     sum[row][element] += sum over columns of s[row][column] * met[column][element]
 *
 * A thread has the same few elements of either in every phase, so sums need no atomics. */

#define tile_at FORM(attention_tile_at)
#define head_of FORM(attention_head_of)
#define load_chunk FORM(attention_load)
#define add_scores FORM(attention_scores)
#define make_scores FORM(attention_make_scores)
#define clear_floats FORM(attention_clear)
#define add_products FORM(attention_products)
#define add_rows FORM(attention_add_rows)
#define soften FORM(attention_soften)
#define differentiate_scores FORM(attention_differentiate)
#define store_rows FORM(attention_store)

#define WIDE 32u   /* rows of the other side */
#define DEEP 16u   /* elements of a chunk */
#define CHUNK 17u  /* its pitch: columns of a chunk are in different banks */
#define MOST 4096u /* elements of a tile of sums */
#define SCORES 1024u

/* Rows of one head of an operand; rows from `count` on are zero. */
typedef struct tile_at {
    const void *from;
    size_t first;   /* element 0 of row 0 of the tile */
    uint32_t pitch; /* elements from row to row */
    uint32_t count;
} tile_at;

/* Rows from `row` on of head `head`, of a tensor with `heads` heads in a row. */
CRN_DEVICE tile_at head_of(const crn_attention_args *CRN_RESTRICT p, const void *from,
                           uint32_t heads, uint32_t n, uint32_t head, uint32_t row) {
    tile_at at;
    at.from = from;
    at.pitch = heads * p->size;
    at.first = ((size_t)n * p->tokens + row) * at.pitch + (size_t)head * p->size;
    at.count = row < p->tokens ? p->tokens - row : 0;
    return at;
}

/* One phase: chunk [rows][CHUNK] = elements from `first` on. */
CRN_DEVICE void load_chunk(crn_grid g, tile_at at, uint32_t rows, uint32_t first, uint32_t size,
                           float *chunk) {
    CRN_EACH_THREAD(t) {
        for (uint32_t e = t; e < rows * DEEP; e += g.threads) {
            uint32_t row = e / DEEP, k = first + e % DEEP;
            int inside = row < at.count && k < size;
            chunk[row * CHUNK + e % DEEP] =
                inside ? get_one(at.from, at.first + (size_t)row * at.pitch + k) : 0;
        }
    }
}

CRN_DEVICE void clear_floats(crn_grid g, float *at, uint32_t count) {
    CRN_EACH_THREAD(t) {
        for (uint32_t e = t; e < count; e += g.threads)
            at[e] = 0;
    }
}

/* One phase: add to scores [rows][WIDE] the products of two chunks. */
CRN_DEVICE void add_scores(crn_grid g, const float *own, const float *met, uint32_t rows,
                           float *scores) {
    CRN_EACH_THREAD(t) {
        for (uint32_t e = t; e < rows * WIDE; e += g.threads) {
            const float *a = own + e / WIDE * CHUNK, *b = met + e % WIDE * CHUNK;
            float sum = scores[e];
            CRN_UNROLL for (uint32_t k = 0; k < DEEP; k++) sum = crn_fma(a[k], b[k], sum);
            scores[e] = sum;
        }
    }
}

/* scores [rows][WIDE] = own . met, over whole heads; ends with a barrier. */
CRN_DEVICE void make_scores(const crn_attention_args *CRN_RESTRICT p, crn_grid g, tile_at own,
                            tile_at met, uint32_t rows, float *chunks, float *scores) {
    clear_floats(g, scores, rows * WIDE);
    for (uint32_t first = 0; first < p->size; first += DEEP) {
        load_chunk(g, own, rows, first, p->size, chunks);
        load_chunk(g, met, WIDE, first, p->size, chunks + WIDE * CHUNK);
        CRN_BARRIER();
        add_scores(g, chunks, chunks + WIDE * CHUNK, rows, scores);
        CRN_BARRIER();
    }
}

/* One phase: add to columns `first` .. of sums [rows][size] the weighted rows of a chunk. */
CRN_DEVICE void add_products(const crn_attention_args *CRN_RESTRICT p, crn_grid g,
                             const float *weights, const float *met, uint32_t rows, uint32_t first,
                             float *sums) {
    uint32_t deep = crn_min_u32(DEEP, p->size - first);
    CRN_EACH_THREAD(t) {
        for (uint32_t e = t; e < rows * DEEP; e += g.threads) {
            uint32_t row = e / DEEP, k = e % DEEP;
            if (k >= deep)
                continue;
            float sum = sums[row * p->size + first + k];
            CRN_UNROLL for (uint32_t j = 0; j < WIDE; j++) sum =
                crn_fma(weights[row * WIDE + j], met[j * CHUNK + k], sum);
            sums[row * p->size + first + k] = sum;
        }
    }
}

/* sums [rows][size] += weights [rows][WIDE] . met; begins and ends with a barrier. */
CRN_DEVICE void add_rows(const crn_attention_args *CRN_RESTRICT p, crn_grid g, const float *weights,
                         tile_at met, uint32_t rows, float *chunk, float *sums) {
    for (uint32_t first = 0; first < p->size; first += DEEP) {
        load_chunk(g, met, WIDE, first, p->size, chunk);
        CRN_BARRIER();
        add_products(p, g, weights, chunk, rows, first, sums);
        CRN_BARRIER();
    }
}

/* Write sums [rows][size], each times its factor, to rows of gx or y. */
CRN_DEVICE void store_rows(const crn_attention_args *CRN_RESTRICT p, crn_grid g, const float *sums,
                           const float *divisors, uint32_t rows, tile_at at, void *to) {
    CRN_EACH_THREAD(t) {
        for (uint32_t e = t; e < rows * p->size; e += g.threads) {
            uint32_t row = e / p->size, k = e % p->size;
            if (row < at.count)
                put_one(to, at.first + (size_t)row * at.pitch + k,
                        divisors ? sums[e] / divisors[row] : sums[e]);
        }
    }
}

/* Scores of a tile become exp(score - largest so far); the sums so far are scaled to that. Eight
 * threads have a row, WIDE / 8 columns each. Begins after a barrier and ends with one. */
CRN_DEVICE void soften(const crn_attention_args *CRN_RESTRICT p, crn_grid g, uint32_t first_row,
                       uint32_t first_column, float *scores, float *partial, float *largest,
                       float *total, float *factor, float *sums) {
    CRN_EACH_THREAD(t) {
        uint32_t row = t / 8, each = WIDE / 8;
        float most = crn_from_bits(0xff800000u); /* minus infinity */
        for (uint32_t j = t % 8 * each; row < p->tile && j < (t % 8 + 1) * each; j++) {
            uint32_t column = first_column + j;
            int seen = column < p->tokens && (!p->causal || column <= first_row + row);
            float s = seen ? scores[row * WIDE + j] * p->scale : crn_from_bits(0xff800000u);
            scores[row * WIDE + j] = s;
            most = s > most ? s : most;
        }
        partial[t] = most;
    }
    CRN_BARRIER();
    CRN_FIRST_THREADS(t, p->tile) {
        float most = largest[t];
        for (uint32_t i = 0; i < 8; i++)
            most = partial[8 * t + i] > most ? partial[8 * t + i] : most;
        factor[t] = crn_exp(largest[t] - most);
        largest[t] = most;
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        uint32_t row = t / 8, each = WIDE / 8;
        float sum = 0;
        for (uint32_t j = t % 8 * each; row < p->tile && j < (t % 8 + 1) * each; j++) {
            float value = crn_exp(scores[row * WIDE + j] - largest[row]);
            scores[row * WIDE + j] = value;
            sum += value;
        }
        partial[t] = sum;
        for (uint32_t e = t; e < p->tile * p->size; e += g.threads)
            sums[e] *= factor[e / p->size];
    }
    CRN_BARRIER();
    CRN_FIRST_THREADS(t, p->tile) {
        float sum = total[t] * factor[t];
        for (uint32_t i = 0; i < 8; i++)
            sum += partial[8 * t + i];
        total[t] = sum;
    }
    CRN_BARRIER();
}

/* x of the grid: tile of queries and head; y: n */
CRN_KERNEL_OF(FORM(attention), crn_attention_args, 256, 2) {
    CRN_SHARED(float, sums, MOST);
    CRN_SHARED(float, scores, SCORES);
    CRN_SHARED(float, chunks, 2 * WIDE * CHUNK);
    CRN_SHARED(float, partial, 256);
    CRN_SHARED(float, rows, 3 * WIDE);
    float *largest = rows, *total = rows + WIDE, *factor = rows + 2 * WIDE;
    uint32_t head = g.x % p->heads, first = g.x / p->heads * p->tile;
    uint32_t all = p->heads + 2 * p->kv_heads, key = p->heads + head / (p->heads / p->kv_heads);
    tile_at queries = head_of(p, p->x, all, g.y, head, first);
    CRN_EACH_THREAD(t) {
        if (t < p->tile) {
            largest[t] = crn_from_bits(0xff800000u);
            total[t] = 0;
        }
    }
    clear_floats(g, sums, p->tile * p->size);
    uint32_t end = p->causal ? crn_min_u32(first + p->tile, p->tokens) : p->tokens;
    for (uint32_t column = 0; column < end; column += WIDE) {
        CRN_BARRIER();
        make_scores(p, g, queries, head_of(p, p->x, all, g.y, key, column), p->tile, chunks,
                    scores);
        soften(p, g, first, column, scores, partial, largest, total, factor, sums);
        add_rows(p, g, scores, head_of(p, p->x, all, g.y, key + p->kv_heads, column), p->tile,
                 chunks, sums);
    }
    CRN_BARRIER();
    tile_at to = head_of(p, 0, p->heads, g.y, head, first);
    store_rows(p, g, sums, total, p->tile, to, p->y);
    CRN_EACH_THREAD(t) {
        if (p->stats && t < p->tile && first + t < p->tokens)
            p->stats[((size_t)g.y * p->heads + head) * p->tokens + first + t] =
                largest[t] + crn_log(total[t]);
    }
}

/* ---- Backward ---- */

/* y, gy -> along: a thread has one head of one token */
CRN_KERNEL(FORM(attention_along), crn_attention_args) {
    size_t count = (size_t)p->batch * p->tokens * p->heads;
    CRN_EACH_THREAD(t) {
        size_t i = (size_t)g.x * g.threads + t;
        if (i >= count)
            continue;
        float sum = 0;
        for (uint32_t k = 0; k < p->size; k++)
            sum = crn_fma(get_one(p->gy, i * p->size + k), get_one(p->y, i * p->size + k), sum);
        uint32_t head = (uint32_t)(i % p->heads);
        size_t token = i / p->heads, n = token / p->tokens;
        p->along[(n * p->heads + head) * p->tokens + token % p->tokens] = sum;
    }
}

/* One phase: from scores s and gy . v of rows x WIDE columns, the probabilities and the gradients
 * of the scores, in their places. The query is the row, or the column if `turned`. */
CRN_DEVICE void differentiate_scores(const crn_attention_args *CRN_RESTRICT p, crn_grid g,
                                     uint32_t n, uint32_t head, uint32_t first_row,
                                     uint32_t first_column, int turned, float *scores, float *gp) {
    size_t base = ((size_t)n * p->heads + head) * p->tokens;
    CRN_EACH_THREAD(t) {
        for (uint32_t e = t; e < p->tile * WIDE; e += g.threads) {
            uint32_t row = first_row + e / WIDE, column = first_column + e % WIDE;
            uint32_t query = turned ? column : row, key = turned ? row : column;
            float probability = 0, gradient = 0;
            if (query < p->tokens && key < p->tokens && (!p->causal || key <= query)) {
                probability = crn_exp(scores[e] * p->scale - p->stats[base + query]);
                gradient = probability * (gp[e] - p->along[base + query]) * p->scale;
            }
            scores[e] = probability;
            gp[e] = gradient;
        }
    }
}

/* x of the grid: tile of keys and head of keys; y: n */
CRN_KERNEL_OF(FORM(attention_keys), crn_attention_args, 256, 2) {
    CRN_SHARED(float, gk, MOST);
    CRN_SHARED(float, gv, MOST);
    CRN_SHARED(float, scores, SCORES);
    CRN_SHARED(float, gp, SCORES);
    CRN_SHARED(float, chunks, 2 * WIDE * CHUNK);
    uint32_t kv = g.x % p->kv_heads, first = g.x / p->kv_heads * p->tile;
    uint32_t all = p->heads + 2 * p->kv_heads, group = p->heads / p->kv_heads;
    tile_at keys = head_of(p, p->x, all, g.y, p->heads + kv, first);
    tile_at values = head_of(p, p->x, all, g.y, p->heads + p->kv_heads + kv, first);
    clear_floats(g, gk, p->tile * p->size);
    clear_floats(g, gv, p->tile * p->size);
    CRN_BARRIER();
    for (uint32_t head = kv * group; head < (kv + 1) * group; head++)
        for (uint32_t query = p->causal ? first / WIDE * WIDE : 0; query < p->tokens;
             query += WIDE) {
            tile_at queries = head_of(p, p->x, all, g.y, head, query);
            tile_at gradients = head_of(p, p->gy, p->heads, g.y, head, query);
            make_scores(p, g, keys, queries, p->tile, chunks, scores);
            make_scores(p, g, values, gradients, p->tile, chunks, gp);
            differentiate_scores(p, g, g.y, head, first, query, 1, scores, gp);
            CRN_BARRIER();
            add_rows(p, g, scores, gradients, p->tile, chunks, gv);
            add_rows(p, g, gp, queries, p->tile, chunks, gk);
        }
    store_rows(p, g, gk, 0, p->tile, keys, p->gx);
    store_rows(p, g, gv, 0, p->tile, values, p->gx);
}

/* x of the grid: tile of queries and head; y: n */
CRN_KERNEL_OF(FORM(attention_queries), crn_attention_args, 256, 2) {
    CRN_SHARED(float, gq, MOST);
    CRN_SHARED(float, scores, SCORES);
    CRN_SHARED(float, gp, SCORES);
    CRN_SHARED(float, chunks, 2 * WIDE * CHUNK);
    uint32_t head = g.x % p->heads, first = g.x / p->heads * p->tile;
    uint32_t all = p->heads + 2 * p->kv_heads, key = p->heads + head / (p->heads / p->kv_heads);
    tile_at queries = head_of(p, p->x, all, g.y, head, first);
    tile_at gradients = head_of(p, p->gy, p->heads, g.y, head, first);
    uint32_t end = p->causal ? crn_min_u32(first + p->tile, p->tokens) : p->tokens;
    clear_floats(g, gq, p->tile * p->size);
    CRN_BARRIER();
    for (uint32_t column = 0; column < end; column += WIDE) {
        tile_at keys = head_of(p, p->x, all, g.y, key, column);
        make_scores(p, g, queries, keys, p->tile, chunks, scores);
        make_scores(p, g, gradients, head_of(p, p->x, all, g.y, key + p->kv_heads, column), p->tile,
                    chunks, gp);
        differentiate_scores(p, g, g.y, head, first, column, 0, scores, gp);
        CRN_BARRIER();
        add_rows(p, g, gp, keys, p->tile, chunks, gq);
    }
    store_rows(p, g, gq, 0, p->tile, queries, p->gx);
}

#undef tile_at
#undef head_of
#undef load_chunk
#undef add_scores
#undef make_scores
#undef clear_floats
#undef add_products
#undef add_rows
#undef soften
#undef differentiate_scores
#undef store_rows
#undef WIDE
#undef DEEP
#undef CHUNK
#undef MOST
#undef SCORES
