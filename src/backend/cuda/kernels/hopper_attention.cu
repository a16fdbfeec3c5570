/* hopper_attention.cu: the gradient of attention on compute capability 9.0, in bf16 with fp32 sums,
 * for heads of 64 and 128 elements. Compiled for sm_90a into a library of its own.
 *
 * Nothing of the size of the square of the tokens is stored and nothing is added up in memory, so
 * the bits are the same in every run. For that there are two passes, which make seven products
 * where five would do. c = scale * log2(e); `rows` has, for each query, the logarithm of base 2 of
 * the sum of exp of its scores, and along = gy . y.
 *
 *     crn_hopper_rows      rows from stats, y, gy
 *     crn_hopper_keys      for 64 keys a warpgroup, over the queries that see them, and over the
 *                          heads of queries that share them:
 *                              S' = K Q'    P' = exp2(c S' - log)    gV += P' gY
 *                              G' = V gY'   D' = P' (G' - along)     gK += D' Q
 *     crn_hopper_queries   for 64 queries a warpgroup, over the keys that they see:
 *                              S = Q K'     P = exp2(c S - log)
 *                              G = gY V'    D = P (G - along)        gQ += D K
 *
 * P and D stay in registers: what a product adds up in, another one takes as its left operand.
 *
 * A block has one warpgroup that copies and a few that compute:
 *
 *     shared memory                                               waits
 *     +---------------------+                                     -----
 *     | own: K, V  (or Q,gY)|  x OWN    the copier: until all have left the item before the last
 *     |  64 rows a warpgroup|           warpgroups: until own is full
 *     +---------------------+
 *     | met: Q, gY  (or K,V)|  x STAGES the copier: until all have left the stage
 *     |  MET rows           |           warpgroups: until it is full
 *     |  (keys: rows too)   |
 *     +---------------------+
 *     | full, empty of each |  a full barrier counts bytes, an empty one warps
 *     +---------------------+
 *
 * Warpgroups do not wait for each other, so one computes exp while another one's products run. A
 * block takes several items (its rows of one head), and the copier is ahead of the others, also at
 * the end of an item. Items are sorted, longest first; blocks take them in turns, forwards and
 * backwards, which balances their sums. The assignment has no influence on the bits.
 *
 * Rows beyond the last token are read as zeros. Queries there have log = infinity, so P = 0. Keys
 * there are masked where they would be summed over, and not stored where they are rows. */
#include "backend/cuda/hopper_args.h"
#include "backend/cuda/kernels/hopper_instructions.h"

#define LOG2E 1.4426950408889634f
#define BOX 64 /* rows and columns of a box */
#define BOX_BYTES 8192
#define ROW_BYTES 512 /* of `rows` for 64 queries: 64 logs, 64 alongs */

typedef crn_hopper_args args_of;

extern __shared__ __align__(1024) unsigned char shared[];

/* Buffers that are filled and emptied in turn, and their barriers: "full" of each, then "empty". */
template <int COUNT, int BARRIERS> struct ring {
    int at = 0, parity = 0;

    __device__ __forceinline__ uint32_t full() const {
        return shared_address(shared) + BARRIERS + 8 * at;
    }
    __device__ __forceinline__ uint32_t empty() const {
        return shared_address(shared) + BARRIERS + 8 * (COUNT + at);
    }
    __device__ __forceinline__ void next() {
        if (++at == COUNT) {
            at = 0;
            parity ^= 1;
        }
    }
};

/* ---- Shapes of the passes ---- */

template <int D_, int GROUPS_, int MET_, int STAGES_, int OWN_> struct pass_of {
    static constexpr int D = D_;           /* elements of a head */
    static constexpr int GROUPS = GROUPS_; /* warpgroups that compute */
    static constexpr int MET = MET_;       /* rows of a stage */
    static constexpr int STAGES = STAGES_;
    static constexpr int OWN = OWN_;
    static constexpr int ROWS = GROUPS * 64; /* of an item */
    static constexpr int THREADS = GROUPS * 128 + 128;
    static constexpr int OWN_BYTES = ROWS * D * 2; /* of one of the two operands */
    static constexpr int MET_BYTES = MET * D * 2;
    static constexpr int MET_ROWS = MET / BOX * ROW_BYTES;
    /* registers of a thread: all 65536 of a multiprocessor, in units of 8 */
    static constexpr int MANY = GROUPS == 3 ? 160 : 240;
    static constexpr int FEW = GROUPS == 3 ? 32 : 24;
    /* addresses in shared memory */
    static constexpr int MET_AT = OWN * 2 * OWN_BYTES;
    static constexpr int ROWS_AT = MET_AT + STAGES * 2 * MET_BYTES;
    static constexpr int BARRIERS_AT = ROWS_AT + STAGES * MET_ROWS;
    static constexpr int BYTES = BARRIERS_AT + 16 * (STAGES + OWN);
    typedef ring<OWN, BARRIERS_AT> own_ring;
    typedef ring<STAGES, BARRIERS_AT + 16 * OWN> met_ring;
};

template <class P> INLINE void make_barriers(uint32_t base) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < P::OWN; i++) {
            barrier_make(base + P::BARRIERS_AT + 8 * i, 1);
            barrier_make(base + P::BARRIERS_AT + 8 * (P::OWN + i), P::GROUPS * 4);
        }
        for (int i = 0; i < P::STAGES; i++) {
            barrier_make(base + P::BARRIERS_AT + 16 * P::OWN + 8 * i, 1);
            barrier_make(base + P::BARRIERS_AT + 16 * P::OWN + 8 * (P::STAGES + i), P::GROUPS * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    __syncthreads();
}

/* A warp has read what it needs of a buffer. */
INLINE void leave(uint32_t empty) {
    if ((threadIdx.x & 31) == 0)
        barrier_arrive(empty);
}

/* The n-th item of this block. */
INLINE int item_at(int n) {
    int first = n * (int)gridDim.x;
    return first + (n & 1 ? (int)(gridDim.x - 1 - blockIdx.x) : (int)blockIdx.x);
}

/* ROWS rows of one head, in panels of 64 columns. */
template <int D, int ROWS>
INLINE void copy_rows(uint32_t to, const void *map, uint32_t barrier, int row, int head,
                      int sequence) {
#pragma unroll
    for (int column = 0; column < D / BOX; column++)
#pragma unroll
        for (int r = 0; r < ROWS / BOX; r++)
            copy_box(to + column * (ROWS * 128) + r * BOX_BYTES, map, barrier, column * BOX,
                     row + r * BOX, head, sequence);
}

/* ---- Products ---- */

/* sums [64, MET] = own rows from `row` on . met rows; both [rows, D]. */
template <class P>
INLINE void make_scores(float (&sums)[P::MET / 2], uint32_t own, int row, uint32_t met) {
#pragma unroll
    for (int k = 0; k < P::D / 16; k++) {
        uint64_t a = matrix_at(own + (k / 4) * (P::ROWS * 128) + row * 128 + (k % 4) * 32, 16);
        uint64_t b = matrix_at(met + (k / 4) * (P::MET * 128) + (k % 4) * 32, 16);
        if (k == 0)
            mma_first(sums, a, b);
        else
            mma_next(sums, a, b);
    }
}

/* sums [64, D] += weights [64, MET] . met [MET, D] */
template <class P>
INLINE void add_products(float (&sums)[P::D / 2], const uint32_t (&weights)[P::MET / 16][4],
                         uint32_t met) {
#pragma unroll
    for (int k = 0; k < P::MET / 16; k++)
        mma_registers(sums, weights[k], matrix_at(met + k * 2048, P::MET * 128));
}

/* Sums of one product as the left operand of another. */
template <int N> INLINE void pack(uint32_t (&to)[N / 8][4], const float (&from)[N]) {
#pragma unroll
    for (int k = 0; k < N / 8; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[k][i] = pack_of(from[8 * k + 2 * i], from[8 * k + 2 * i + 1]);
}

/* A thread has, of sums [64, N], rows (its own) and + 8, and of every 8 columns two:
 *     sums[4 j], sums[4 j + 1]: row, columns 8 j + column, + 1; the next two: row + 8 */
INLINE int my_row() {
    return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7);
}

INLINE int my_column() {
    return (threadIdx.x & 3) * 2;
}

template <int D>
INLINE void store_rows(void *gx, uint64_t first, uint32_t pitch, int row, int tokens,
                       const float (&sums)[D / 2], float factor) {
    uint16_t *to = (uint16_t *)gx + first + (uint64_t)row * pitch + my_column();
#pragma unroll
    for (int j = 0; j < D / 8; j++) {
        if (row < tokens)
            *(uint32_t *)(to + j * 8) = pack_of(sums[4 * j] * factor, sums[4 * j + 1] * factor);
        if (row + 8 < tokens)
            *(uint32_t *)(to + 8 * (uint64_t)pitch + j * 8) =
                pack_of(sums[4 * j + 2] * factor, sums[4 * j + 3] * factor);
    }
}

/* ---- Rows ---- */

/* `rows` of 64 queries */
INLINE float *rows_of(const args_of &a, int sequence, int head, int query) {
    return a.rows + (((uint64_t)sequence * a.heads + head) * a.padded + query) * 2;
}

INLINE float product_of(uint4 a, uint4 b) {
    const __nv_bfloat162 *x = (const __nv_bfloat162 *)&a, *y = (const __nv_bfloat162 *)&b;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 u = __bfloat1622float2(x[i]), v = __bfloat1622float2(y[i]);
        sum += u.x * v.x + u.y * v.y;
    }
    return sum;
}

/* A block has 64 tokens of one head, of which some are beyond the last one; D / 8 threads have a
 * token. */
template <int D> INLINE void make_rows(const args_of &a) {
    constexpr int LANES = D / 8, EACH = CRN_HOPPER_ROWS_THREADS / LANES, TURNS = 64 / EACH;
    int head = (int)(blockIdx.x % a.heads), tile = (int)(blockIdx.x / a.heads);
    int tiles = (int)a.padded / 64, sequence = tile / tiles;
    int first = tile % tiles * 64 + (int)threadIdx.x / LANES, lane = threadIdx.x % LANES;
    uint64_t from = ((uint64_t)sequence * a.tokens * a.heads + head) * D + lane * 8;
    const float *stats = a.stats + ((uint64_t)sequence * a.heads + head) * a.tokens;
    float *rows = rows_of(a, sequence, head, tile % tiles * 64) + threadIdx.x / LANES;
    uint4 y[TURNS], gy[TURNS];
#pragma unroll
    for (int i = 0; i < TURNS; i++) { /* all are on their way before the first is used */
        uint64_t token = min(first + i * EACH, (int)a.tokens - 1);
        y[i] = *(const uint4 *)((const uint16_t *)a.y + from + token * a.heads * D);
        gy[i] = *(const uint4 *)((const uint16_t *)a.gy + from + token * a.heads * D);
    }
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        bool inside = first + i * EACH < (int)a.tokens;
        float along = product_of(y[i], gy[i]);
#pragma unroll
        for (int k = LANES / 2; k > 0; k /= 2)
            along += __shfl_xor_sync(0xffffffff, along, k);
        if (lane == 0) {
            rows[i * EACH] = inside ? stats[first + i * EACH] * LOG2E : __int_as_float(0x7f800000);
            rows[64 + i * EACH] = inside ? along : 0;
        }
    }
}

/* ---- Keys ---- */

/* ROWS keys of one head, and the queries that it meets: MET at a time from `first` on, of each
 * head that shares the keys. */
template <class P> struct key_item {
    int sequence, head, key, first;

    __device__ key_item(const args_of &a, int item) {
        int heads = (int)(a.batch * a.kv_heads);
        key = item / heads * P::ROWS;
        sequence = item % heads / (int)a.kv_heads;
        head = item % heads % (int)a.kv_heads;
        first = a.causal ? key / P::MET * P::MET : 0;
    }
};

template <class P> INLINE int key_items(const args_of &a) {
    return ((int)a.tokens + P::ROWS - 1) / P::ROWS * (int)(a.batch * a.kv_heads);
}

template <class P> INLINE void copy_for_keys(const args_of &a, uint32_t base) {
    typename P::own_ring own;
    typename P::met_ring met;
    int group = (int)(a.heads / a.kv_heads);
    for (int n = 0; item_at(n) < key_items<P>(a); n++, own.next()) {
        key_item<P> item(a, item_at(n));
        uint32_t k = base + own.at * 2 * P::OWN_BYTES;
        barrier_wait(own.empty(), own.parity ^ 1);
        barrier_expect(own.full(), 2 * P::OWN_BYTES);
        copy_rows<P::D, P::ROWS>(k, &a.x_map, own.full(), item.key, (int)a.heads + item.head,
                                 item.sequence);
        copy_rows<P::D, P::ROWS>(k + P::OWN_BYTES, &a.x_map, own.full(), item.key,
                                 (int)(a.heads + a.kv_heads) + item.head, item.sequence);
        for (int head = item.head * group; head < (item.head + 1) * group; head++)
            for (int query = item.first; query < (int)a.tokens; query += P::MET, met.next()) {
                uint32_t q = base + P::MET_AT + met.at * 2 * P::MET_BYTES;
                barrier_wait(met.empty(), met.parity ^ 1);
                barrier_expect(met.full(), 2 * P::MET_BYTES + P::MET_ROWS);
                copy_rows<P::D, P::MET>(q, &a.x_map, met.full(), query, head, item.sequence);
                copy_rows<P::D, P::MET>(q + P::MET_BYTES, &a.gy_map, met.full(), query, head,
                                        item.sequence);
                copy_bytes(base + P::ROWS_AT + met.at * P::MET_ROWS,
                           rows_of(a, item.sequence, head, query), P::MET_ROWS, met.full());
            }
    }
}

/* From S' and G' of 8 queries: P' and D', in their places. MASKED: query i sees key 0 of the
 * thread's rows if ahead + i >= 0. */
template <bool MASKED>
INLINE void weigh_eight(float *s, float *g, const float *rows, float c, int ahead) {
    float2 log = *(const float2 *)rows, along = *(const float2 *)(rows + 64);
    s[0] = exp2_of(s[0] * c - log.x);
    s[1] = exp2_of(s[1] * c - log.y);
    s[2] = exp2_of(s[2] * c - log.x);
    s[3] = exp2_of(s[3] * c - log.y);
    if (MASKED) {
        s[0] = ahead >= 0 ? s[0] : 0;
        s[1] = ahead + 1 >= 0 ? s[1] : 0;
        s[2] = ahead >= 8 ? s[2] : 0;
        s[3] = ahead + 1 >= 8 ? s[3] : 0;
    }
    g[0] = s[0] * (g[0] - along.x);
    g[1] = s[1] * (g[1] - along.y);
    g[2] = s[2] * (g[2] - along.x);
    g[3] = s[3] * (g[3] - along.y);
}

template <class P, bool MASKED>
INLINE void weigh_stage(float (&scores)[P::MET / 2], float (&gp)[P::MET / 2],
                        uint32_t (&p)[P::MET / 16][4], uint32_t (&d)[P::MET / 16][4],
                        const float *rows, float c, int ahead) {
#pragma unroll
    for (int j = 0; j < P::MET / 8; j++) {
        float *s = scores + 4 * j, *g = gp + 4 * j;
        weigh_eight<MASKED>(s, g, rows + j / 8 * 128 + j % 8 * 8, c, ahead + 8 * j);
        p[j / 2][j % 2 * 2] = pack_of(s[0], s[1]);
        p[j / 2][j % 2 * 2 + 1] = pack_of(s[2], s[3]);
        d[j / 2][j % 2 * 2] = pack_of(g[0], g[1]);
        d[j / 2][j % 2 * 2 + 1] = pack_of(g[2], g[3]);
    }
}

template <class P>
INLINE void store_keys(const args_of &a, int item_index, int row, const float (&gk)[P::D / 2],
                       const float (&gv)[P::D / 2]) {
    key_item<P> item(a, item_index);
    uint32_t pitch = (a.heads + 2 * a.kv_heads) * P::D;
    uint64_t first =
        (uint64_t)item.sequence * a.tokens * pitch + (uint64_t)(a.heads + item.head) * P::D;
    row += item.key + my_row();
    store_rows<P::D>(a.gx, first, pitch, row, (int)a.tokens, gk, a.scale);
    store_rows<P::D>(a.gx, first + (uint64_t)a.kv_heads * P::D, pitch, row, (int)a.tokens, gv, 1);
}

/* Where a warpgroup is in its item. */
template <class P> struct key_walk {
    typename P::met_ring met;
    int ahead; /* the first query of the stage - the first key of the warpgroup */
    int left;  /* heads */

    __device__ __forceinline__ void next(const args_of &a, const key_item<P> &item, int key) {
        met.next();
        ahead += P::MET;
        if (ahead + key >= (int)a.tokens) {
            ahead = item.first - key;
            left--;
        }
    }

    /* Go to the next stage that the warpgroup needs, and leave those that it does not; false: the
     * item ends. */
    __device__ __forceinline__ bool find(const args_of &a, const key_item<P> &item, int key) {
        for (; left > 0; next(a, item, key)) {
            barrier_wait(met.full(), met.parity);
            if (key < (int)a.tokens && (!a.causal || ahead > -P::MET))
                return true;
            leave(met.empty());
        }
        return false;
    }
};

template <class P>
INLINE void start_scores_of_keys(float (&scores)[P::MET / 2], float (&gp)[P::MET / 2], uint32_t k,
                                 int row, uint32_t q) {
    mma_fence();
    make_scores<P>(scores, k, row, q);
    make_scores<P>(gp, k + P::OWN_BYTES, row, q + P::MET_BYTES);
    mma_commit();
}

template <class P>
INLINE void start_sums_of_keys(float (&gk)[P::D / 2], float (&gv)[P::D / 2],
                               const uint32_t (&p)[P::MET / 16][4],
                               const uint32_t (&d)[P::MET / 16][4], uint32_t q) {
    mma_fence();
    add_products<P>(gv, p, q + P::MET_BYTES);
    add_products<P>(gk, d, q);
    mma_commit();
}

template <class P>
INLINE void weigh_keys(const args_of &a, const key_walk<P> &walk, float (&scores)[P::MET / 2],
                       float (&gp)[P::MET / 2], uint32_t (&p)[P::MET / 16][4],
                       uint32_t (&d)[P::MET / 16][4]) {
    const float *rows =
        (const float *)(shared + P::ROWS_AT + walk.met.at * P::MET_ROWS) + my_column();
    int ahead = walk.ahead + my_column() - my_row();
    if (a.causal && walk.ahead < 64)
        weigh_stage<P, true>(scores, gp, p, d, rows, a.scale * LOG2E, ahead);
    else
        weigh_stage<P, false>(scores, gp, p, d, rows, a.scale * LOG2E, ahead);
}

/* The sums of an item: one step after the other. */
template <class P>
INLINE void sum_keys(const args_of &a, const key_item<P> &item, uint32_t base, uint32_t k, int row,
                     key_walk<P> &walk, float (&gk)[P::D / 2], float (&gv)[P::D / 2]) {
    int key = item.key + row;
    for (; walk.find(a, item, key); walk.next(a, item, key)) {
        uint32_t q = base + P::MET_AT + walk.met.at * 2 * P::MET_BYTES;
        float scores[P::MET / 2], gp[P::MET / 2];
        uint32_t p[P::MET / 16][4], d[P::MET / 16][4];
        start_scores_of_keys<P>(scores, gp, k, row, q);
        mma_wait<0>();
        settle(scores);
        settle(gp);
        weigh_keys<P>(a, walk, scores, gp, p, d);
        start_sums_of_keys<P>(gk, gv, p, d, q);
        mma_wait<0>();
        settle(gv);
        settle(gk);
        leave(walk.met.empty());
    }
}

template <class P> INLINE void compute_keys(const args_of &a, uint32_t base, int row) {
    typename P::own_ring own;
    key_walk<P> walk;
    for (int n = 0; item_at(n) < key_items<P>(a); n++, own.next()) {
        float gk[P::D / 2], gv[P::D / 2];
#pragma unroll
        for (int i = 0; i < P::D / 2; i++)
            gk[i] = gv[i] = 0;
        key_item<P> item(a, item_at(n));
        walk.ahead = item.first - item.key - row;
        walk.left = (int)(a.heads / a.kv_heads);
        barrier_wait(own.full(), own.parity);
        sum_keys<P>(a, item, base, base + own.at * 2 * P::OWN_BYTES, row, walk, gk, gv);
        leave(own.empty());
        store_keys<P>(a, item_at(n), row, gk, gv);
    }
}

/* ---- Queries ---- */

/* ROWS queries of one head, and the keys that it meets: MET at a time before `end`. */
template <class P> struct query_item {
    int sequence, head, query, end;

    __device__ query_item(const args_of &a, int item) {
        int heads = (int)(a.batch * a.heads), tokens = (int)a.tokens;
        query = ((tokens - 1) / P::ROWS - item / heads) * P::ROWS; /* the last ones first */
        sequence = item % heads / (int)a.heads;
        head = item % heads % (int)a.heads;
        end = a.causal ? min(query + P::ROWS, tokens) : tokens;
    }
};

template <class P> INLINE int query_items(const args_of &a) {
    return ((int)a.tokens + P::ROWS - 1) / P::ROWS * (int)(a.batch * a.heads);
}

template <class P> INLINE void copy_for_queries(const args_of &a, uint32_t base) {
    typename P::own_ring own;
    typename P::met_ring met;
    int group = (int)(a.heads / a.kv_heads);
    for (int n = 0; item_at(n) < query_items<P>(a); n++, own.next()) {
        query_item<P> item(a, item_at(n));
        uint32_t q = base + own.at * 2 * P::OWN_BYTES;
        barrier_wait(own.empty(), own.parity ^ 1);
        barrier_expect(own.full(), 2 * P::OWN_BYTES);
        copy_rows<P::D, P::ROWS>(q, &a.x_map, own.full(), item.query, item.head, item.sequence);
        copy_rows<P::D, P::ROWS>(q + P::OWN_BYTES, &a.gy_map, own.full(), item.query, item.head,
                                 item.sequence);
        int head = (int)a.heads + item.head / group;
        for (int key = 0; key < item.end; key += P::MET, met.next()) {
            uint32_t k = base + P::MET_AT + met.at * 2 * P::MET_BYTES;
            barrier_wait(met.empty(), met.parity ^ 1);
            barrier_expect(met.full(), 2 * P::MET_BYTES);
            copy_rows<P::D, P::MET>(k, &a.x_map, met.full(), key, head, item.sequence);
            copy_rows<P::D, P::MET>(k + P::MET_BYTES, &a.x_map, met.full(), key,
                                    head + (int)a.kv_heads, item.sequence);
        }
    }
}

/* What a thread has of its two queries. */
struct query_rows {
    float log[2], along[2];
    int last[2]; /* the last key that each sees */
};

/* From S of keys from `key` on: P, in its place. `masked`: not every query sees all of them. */
template <class P>
INLINE void soften_queries(float (&scores)[P::MET / 2], const query_rows &rows, float c,
                           bool masked, int key) {
#pragma unroll
    for (int j = 0; j < P::MET / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            scores[4 * j + i] = exp2_of(scores[4 * j + i] * c - rows.log[i / 2]);
    if (masked) {
#pragma unroll
        for (int j = 0; j < P::MET / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                scores[4 * j + i] =
                    key + my_column() + 8 * j + i % 2 <= rows.last[i / 2] ? scores[4 * j + i] : 0;
    }
}

template <class P>
INLINE query_rows read_rows(const args_of &a, const query_item<P> &item, int query) {
    const float *from = rows_of(a, item.sequence, item.head, query) + my_row();
    int tokens = (int)a.tokens;
    query_rows rows;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rows.log[i] = query < tokens ? from[8 * i] : 0;
        rows.along[i] = query < tokens ? from[8 * i + 64] : 0;
        rows.last[i] = a.causal ? min(query + my_row() + 8 * i, tokens - 1) : tokens - 1;
    }
    return rows;
}

template <class P>
INLINE void start_scores_of_queries(float (&scores)[P::MET / 2], float (&gp)[P::MET / 2],
                                    uint32_t q, int row, uint32_t k) {
    mma_fence();
    make_scores<P>(scores, q, row, k);
    mma_commit();
    make_scores<P>(gp, q + P::OWN_BYTES, row, k + P::MET_BYTES);
    mma_commit();
}

/* From P and G: D, in the place of G. */
template <class P>
INLINE void differentiate_queries(const float (&scores)[P::MET / 2], float (&gp)[P::MET / 2],
                                  const query_rows &rows) {
#pragma unroll
    for (int j = 0; j < P::MET / 2; j++)
        gp[j] = scores[j] * (gp[j] - rows.along[j / 2 % 2]);
}

/* The sum of an item; the product of a step runs while the next one's exp is computed. `whole`: the
 * last key that all queries of the warpgroup see. */
template <class P>
INLINE void sum_queries(const args_of &a, const query_rows &rows, uint32_t base, uint32_t q,
                        int row, int end, int whole, typename P::met_ring &met,
                        float (&gq)[P::D / 2]) {
    uint32_t d[P::MET / 16][4];
    if (end <= 0)
        return;
    barrier_wait(met.full(), met.parity);
    uint32_t k = base + P::MET_AT + met.at * 2 * P::MET_BYTES, held = met.empty();
    {
        float scores[P::MET / 2], gp[P::MET / 2];
        start_scores_of_queries<P>(scores, gp, q, row, k);
        mma_wait<0>();
        settle(scores);
        settle(gp);
        soften_queries<P>(scores, rows, a.scale * LOG2E, P::MET - 1 > whole, 0);
        differentiate_queries<P>(scores, gp, rows);
        pack(d, gp);
    }
    met.next();
    for (int key = P::MET; key < end; key += P::MET, met.next()) {
        uint32_t next = base + P::MET_AT + met.at * 2 * P::MET_BYTES;
        float scores[P::MET / 2], gp[P::MET / 2];
        barrier_wait(met.full(), met.parity);
        start_scores_of_queries<P>(scores, gp, q, row, next);
        mma_fence();
        add_products<P>(gq, d, k);
        mma_commit();
        mma_wait<2>();
        settle(scores);
        soften_queries<P>(scores, rows, a.scale * LOG2E, key + P::MET - 1 > whole, key);
        mma_wait<1>();
        settle(gp);
        differentiate_queries<P>(scores, gp, rows);
        mma_wait<0>(); /* the product that reads d has ended */
        settle(gp);
        pack(d, gp);
        leave(held);
        held = met.empty();
        k = next;
    }
    mma_fence();
    add_products<P>(gq, d, k);
    mma_commit();
    mma_wait<0>();
    settle(gq);
    leave(held);
}

template <class P> INLINE void compute_queries(const args_of &a, uint32_t base, int row) {
    typename P::own_ring own;
    typename P::met_ring met;
    int tokens = (int)a.tokens;
    for (int n = 0; item_at(n) < query_items<P>(a); n++, own.next()) {
        query_item<P> item(a, item_at(n));
        int query = item.query + row;
        int whole = a.causal ? min(query, tokens - 1) : tokens - 1;
        int end = query >= tokens ? 0 : a.causal ? min(query + 64, item.end) : item.end;
        query_rows rows = read_rows<P>(a, item, query);
        float gq[P::D / 2];
#pragma unroll
        for (int i = 0; i < P::D / 2; i++)
            gq[i] = 0;
        uint32_t q = base + own.at * 2 * P::OWN_BYTES;
        barrier_wait(own.full(), own.parity);
        sum_queries<P>(a, rows, base, q, row, end, whole, met, gq);
        for (int key = (end + P::MET - 1) / P::MET * P::MET; key < item.end; key += P::MET) {
            barrier_wait(met.full(), met.parity); /* what only others need */
            leave(met.empty());
            met.next();
        }
        leave(own.empty());
        uint32_t pitch = (a.heads + 2 * a.kv_heads) * P::D;
        uint64_t first = (uint64_t)item.sequence * a.tokens * pitch + (uint64_t)item.head * P::D;
        store_rows<P::D>(a.gx, first, pitch, query + my_row(), tokens, gq, a.scale);
    }
}

/* ---- Entries ---- */

template <class P> INLINE void run_keys(const args_of &a) {
    uint32_t base = shared_address(shared);
    make_barriers<P>(base);
    if (threadIdx.x < 128) {
        give_registers<P::FEW>();
        if (threadIdx.x == 0)
            copy_for_keys<P>(a, base);
    } else {
        take_registers<P::MANY>();
        compute_keys<P>(a, base, (int)(threadIdx.x / 128 - 1) * 64);
    }
}

template <class P> INLINE void run_queries(const args_of &a) {
    uint32_t base = shared_address(shared);
    make_barriers<P>(base);
    if (threadIdx.x < 128) {
        give_registers<P::FEW>();
        if (threadIdx.x == 0)
            copy_for_queries<P>(a, base);
    } else {
        take_registers<P::MANY>();
        compute_queries<P>(a, base, (int)(threadIdx.x / 128 - 1) * 64);
    }
}

#define ROWS(size)                                                                                 \
    extern "C" __global__ void __launch_bounds__(CRN_HOPPER_ROWS_THREADS)                          \
        crn_hopper_rows_##size(const __grid_constant__ args_of a) {                                \
        make_rows<size>(a);                                                                        \
    }
#define PASS(name, size, groups, met, stages, own)                                                 \
    typedef pass_of<size, groups, met, stages, own> name##_##size;                                 \
    static_assert(name##_##size::BYTES == CRN_HOPPER_BYTES(size, groups, met, stages, own) &&      \
                      name##_##size::THREADS == CRN_HOPPER_THREADS(groups),                        \
                  "hopper_args.h says something else");                                            \
    extern "C" __global__ void __launch_bounds__(name##_##size::THREADS, 1)                        \
        crn_hopper_##name##_##size(const __grid_constant__ args_of a) {                            \
        run_##name<name##_##size>(a);                                                              \
    }

ROWS(64)
ROWS(128)
#ifndef VARIANTS
CRN_HOPPER_PASSES(PASS)
#endif
