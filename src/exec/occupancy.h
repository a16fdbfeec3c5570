/* occupancy.h: which bytes of an arena are bound, counted from addresses alone.
 *
 * One bit per 64 bytes, so that what is counted is the union of the ranges: two that overlap by
 * mistake count once, and the sum no longer agrees with what was predicted. */
#ifndef CRN_OCCUPANCY_H
#define CRN_OCCUPANCY_H

#include "base/crn_base.h"

/* A part of an arena; both are multiples of 64. */
typedef struct crn_range {
    uint64_t offset, bytes;
} crn_range;

typedef struct crn_occupancy {
    uint64_t *words; /* a bit per 64 bytes, so a word per page of 4 KiB */
    uint64_t word_count;
    uint64_t bytes, peak; /* bound now; at most since the reset */
} crn_occupancy;

CAIRN_MUST cairn_status crn_occupancy_init(crn_occupancy *map, crn_arena *memory,
                                           uint64_t arena_bytes);
void crn_occupancy_reset(crn_occupancy *map);
void crn_occupancy_take(crn_occupancy *map, crn_range range);
void crn_occupancy_give(crn_occupancy *map, crn_range range);

/* Whether nothing in `length` bytes from `offset` is bound; both are multiples of 4 KiB. */
bool crn_occupancy_free(const crn_occupancy *map, uint64_t offset, uint64_t length);

#endif
