/* sha256.h: the hash of FIPS 180-4, for fingerprints of results. */
#ifndef CRN_SHA256_H
#define CRN_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* Changes the state by a block. */
typedef void crn_sha256_stir(uint32_t state[8], const uint8_t block[64]);
crn_sha256_stir crn_sha256_stir_plain; /* for any processor */

typedef struct crn_sha256 {
    crn_sha256_stir *stir; /* the fastest that this processor has */
    uint32_t state[8];
    uint64_t length;   /* bytes so far */
    uint8_t block[64]; /* of which length % 64 are filled */
} crn_sha256;

void crn_sha256_init(crn_sha256 *hash);
void crn_sha256_add(crn_sha256 *hash, const void *bytes, size_t length);

/* 64 hexadecimal digits and a NUL. The hash is used up. */
void crn_sha256_finish(crn_sha256 *hash, char out[65]);

#endif
