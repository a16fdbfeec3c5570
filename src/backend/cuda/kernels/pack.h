/* pack.h: what one thread reads and writes at a time. It is included once for each form and has no
 * guard.
 *
 * Define before it: FORM_SUFFIX (f32, bf16, f32_narrow, bf16_narrow), FORM_BF16 (0 or 1) and PACK,
 * the number of elements of a pack: 16 bytes of them, or 1. Values are floats for every element
 * type. */
#define CRN_PASTE_AGAIN(a, b, c) a##b##_##c
#define CRN_PASTE(a, b, c) CRN_PASTE_AGAIN(a, b, c)
#define FORM(name) CRN_PASTE(crn_, name, FORM_SUFFIX)

#define stored FORM(stored)
#define pack FORM(pack)
#define raw FORM(raw)
#define fetch FORM(fetch)
#define fetch_ahead FORM(fetch_ahead)
#define open FORM(open)
#define pack_up FORM(pack_up)
#define add_stored FORM(add_stored)
#define store FORM(store)
#define get FORM(get)
#define get_one FORM(get_one)
#define put FORM(put)
#define put_one FORM(put_one)
#define get_floats FORM(get_floats)
#define get_partial FORM(get_partial)
#define no_pack FORM(no_pack)
#define as_stored FORM(as_stored)

#define EACH(k) CRN_UNROLL for (uint32_t k = 0; k < PACK; k++)

/* In a loop: where pack `number` of p->rows rows of p->packs packs lies, as `row` and `at`, an
 * element of the row; nothing is done past the end. The launch makes sure that the product does not
 * overflow. */
#define PLACE(number)                                                                              \
    uint32_t i = (number);                                                                         \
    if (i >= p->rows * p->packs)                                                                   \
        continue;                                                                                  \
    size_t row = p->rows == 1 ? 0 : i / p->packs, at = (size_t)(i - row * p->packs) * PACK

/* A case of a switch over p->op: `packs` gets the op as a constant, so that the compiler leaves out
 * what the other ops do. */
#define OP_CASE(packs, op)                                                                         \
    case op:                                                                                       \
        packs(p, op, first, g.threads);                                                            \
        break

#if FORM_BF16
typedef uint16_t stored;
#else
typedef float stored;
#endif

typedef struct pack {
    float at[PACK];
} pack;

CRN_DEVICE float get_one(const void *from, size_t index) {
#if FORM_BF16
    return crn_from_bf16(((const stored *)from)[index]);
#else
    return ((const stored *)from)[index];
#endif
}

CRN_DEVICE void put_one(void *to, size_t index, float value) {
#if FORM_BF16
    ((stored *)to)[index] = crn_to_bf16(value);
#else
    ((stored *)to)[index] = value;
#endif
}

/* The value as it would be read back after it was stored. Fused kernels so round what
 * separate ones would have stored in between, so that both give the same bits. */
CRN_DEVICE float as_stored(float value) {
#if FORM_BF16
    return crn_from_bf16(crn_to_bf16(value));
#else
    return value;
#endif
}

/* A pack as it is stored. Values that were loaded but not used yet need no more registers than
 * that. */
#if defined(__CUDACC__) && PACK == 4
typedef float4 raw;
#elif defined(__CUDACC__) && PACK == 8
typedef uint4 raw;
#else
typedef struct raw {
    stored at[PACK];
} raw;
#endif

CRN_DEVICE raw fetch(const void *from, size_t index) {
    return *(const raw *)((const stored *)from + index);
}

/* Fetch to shared memory, in the background if packs have 16 bytes: see CRN_COPIES_END. */
CRN_DEVICE void fetch_ahead(raw *to, const void *from, size_t index) {
#if PACK > 1
    crn_copy_ahead(to, (const stored *)from + index);
#else
    *to = fetch(from, index);
#endif
}

CRN_DEVICE pack open(raw packed) {
    pack value;
#if defined(__CUDACC__) && PACK == 4
    value.at[0] = packed.x;
    value.at[1] = packed.y;
    value.at[2] = packed.z;
    value.at[3] = packed.w;
#elif defined(__CUDACC__) && PACK == 8
    uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
    CRN_UNROLL for (uint32_t k = 0; k < 4; k++) {
        value.at[2 * k] = crn_from_bits(words[k] << 16);
        value.at[2 * k + 1] = crn_from_bits(words[k] & 0xffff0000u);
    }
#else
    EACH(k) {
        value.at[k] = get_one(packed.at, k);
    }
#endif
    return value;
}

CRN_DEVICE pack get(const void *from, size_t index) {
    return open(fetch(from, index));
}

/* The pack as it is stored, rounded. */
CRN_DEVICE raw pack_up(pack value) {
#if defined(__CUDACC__) && PACK == 4
    return make_float4(value.at[0], value.at[1], value.at[2], value.at[3]);
#elif defined(__CUDACC__) && PACK == 8
    uint32_t words[4];
    CRN_UNROLL for (uint32_t k = 0; k < 4; k++) words[k] =
        crn_to_bf16_pair(value.at[2 * k], value.at[2 * k + 1]);
    return make_uint4(words[0], words[1], words[2], words[3]);
#else
    raw packed;
    EACH(k) {
        put_one(packed.at, k, value.at[k]);
    }
    return packed;
#endif
}

/* The sum of two packs, rounded as it is stored. */
CRN_DEVICE raw add_stored(raw a, raw b) {
#if defined(__CUDACC__) && PACK == 8
    return make_uint4(crn_add_bf16_pair(a.x, b.x), crn_add_bf16_pair(a.y, b.y),
                      crn_add_bf16_pair(a.z, b.z), crn_add_bf16_pair(a.w, b.w));
#else
    pack sum = open(a), more = open(b);
    EACH(k) {
        sum.at[k] += more.at[k];
    }
    return pack_up(sum);
#endif
}

CRN_DEVICE void store(void *to, size_t index, raw packed) {
    *(raw *)((stored *)to + index) = packed;
}

CRN_DEVICE void put(void *to, size_t index, pack value) {
    store(to, index, pack_up(value));
}

/* Read an array of floats per channel, from channel `first` on; channels from `end` on are 0. */
CRN_DEVICE pack get_floats(const float *from, uint32_t first, uint32_t end) {
    pack value;
#if defined(__CUDACC__) && PACK >= 4
    if (first + PACK <= end && (uintptr_t)(from + first) % 16 == 0) {
        CRN_UNROLL for (uint32_t k = 0; k < PACK; k += 4) {
            float4 four = *(const float4 *)(from + first + k);
            value.at[k] = four.x;
            value.at[k + 1] = four.y;
            value.at[k + 2] = four.z;
            value.at[k + 3] = four.w;
        }
        return value;
    }
#endif
    EACH(k) {
        value.at[k] = first + k < end ? from[first + k] : 0;
    }
    return value;
}

/* Read what another block of this launch has written, without the first-level cache. `from` is a
 * multiple of 16 bytes if packs are. */
CRN_DEVICE pack get_partial(const float *from) {
    pack value;
#if defined(__CUDACC__) && PACK >= 4
    CRN_UNROLL for (uint32_t k = 0; k < PACK; k += 4) {
        float4 four = __ldcg((const float4 *)(from + k));
        value.at[k] = four.x;
        value.at[k + 1] = four.y;
        value.at[k + 2] = four.z;
        value.at[k + 3] = four.w;
    }
#else
    EACH(k) {
        value.at[k] = crn_read_shared_partial(from + k);
    }
#endif
    return value;
}

CRN_DEVICE pack no_pack(void) {
    pack value;
    EACH(k) {
        value.at[k] = 0;
    }
    return value;
}
