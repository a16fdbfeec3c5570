/* sha256.c: SHA-256 as FIPS 180-4 writes it: a message is padded to blocks of 64 bytes (a one,
 * zeros, its length in bits), and each block changes eight words of state in 64 rounds. Many
 * processors have instructions for that, which take a tenth of the time. */
#include "base/sha256.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned bits) {
    return x >> bits | x << (32 - bits);
}

/* The 16 words of the block and the 48 that follow from them. */
static void expand(const uint8_t block[64], uint32_t w[64]) {
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

void crn_sha256_stir_plain(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], s[8];
    expand(block, w);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + s1 + choice + constants[i] + w[i];
        uint32_t s0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

static __m128i load_four(const void *words) {
    return _mm_loadu_si128(words);
}

static void store_four(void *words, __m128i four) {
    _mm_storeu_si128(words, four);
}

/* Four rounds at a time. The instructions want the state as two vectors of words, in this order
 * from the highest: A B E F and C D G H. */
__attribute__((target("sha,sse4.1"))) static void stir_by_instructions(uint32_t state[8],
                                                                       const uint8_t block[64]) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i badc = _mm_shuffle_epi32(load_four(state), 0xb1);
    __m128i efgh = _mm_shuffle_epi32(load_four(state + 4), 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, efgh, 8), cdgh = _mm_blend_epi16(efgh, badc, 0xf0);
    __m128i before[2] = {abef, cdgh}, w[4];
    for (int i = 0; i < 16; i++) {
        __m128i *next = &w[i % 4], last = w[(i + 3) % 4];
        if (i < 4)
            *next = _mm_shuffle_epi8(load_four(block + 16 * (size_t)i), swap);
        else
            *next = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*next, w[(i + 1) % 4]),
                                                       _mm_alignr_epi8(last, w[(i + 2) % 4], 4)),
                                         last);
        __m128i sum = _mm_add_epi32(*next, load_four(constants + 4 * (size_t)i));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, before[0]);
    cdgh = _mm_add_epi32(cdgh, before[1]);
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    store_four(state, _mm_blend_epi16(feba, dchg, 0xf0));
    store_four(state + 4, _mm_alignr_epi8(dchg, feba, 8));
}

static crn_sha256_stir *choose_stir(void) {
    unsigned a, b, c, d;
    bool has = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) != 0 &&
               __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
    return has ? stir_by_instructions : crn_sha256_stir_plain;
}
#else
static crn_sha256_stir *choose_stir(void) {
    return crn_sha256_stir_plain;
}
#endif

void crn_sha256_init(crn_sha256 *hash) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    hash->stir = choose_stir();
    memcpy(hash->state, start, sizeof start);
    hash->length = 0;
}

void crn_sha256_add(crn_sha256 *hash, const void *bytes, size_t length) {
    const uint8_t *from = bytes;
    size_t filled = hash->length % 64;
    hash->length += length;
    while (filled + length >= 64) {
        size_t room = 64 - filled;
        if (filled == 0) {
            hash->stir(hash->state, from);
        } else {
            memcpy(hash->block + filled, from, room);
            hash->stir(hash->state, hash->block);
        }
        from += room;
        length -= room;
        filled = 0;
    }
    if (length > 0)
        memcpy(hash->block + filled, from, length);
}

void crn_sha256_finish(crn_sha256 *hash, char out[65]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = 8 * hash->length;
    uint8_t ending[8];
    for (int i = 0; i < 8; i++)
        ending[i] = (uint8_t)(bits >> (56 - 8 * i));
    crn_sha256_add(hash, padding, 1 + (119 - (size_t)(hash->length % 64)) % 64);
    crn_sha256_add(hash, ending, sizeof ending);
    for (int i = 0; i < 8; i++)
        snprintf(out + 8 * i, 9, "%08x", (unsigned)hash->state[i]);
}
