/* occupancy.h: which bytes of an arena are in use, counted only from addresses.
 *
 * There is one bit per 64 bytes, so the count is that of the union of all ranges. Two ranges that
 * overlap by mistake count once, and then the sum differs from the prediction. */
#ifndef CRN_OCCUPANCY_H
#define CRN_OCCUPANCY_H

#include "base/crn_base.h"

/* A range of an arena; both are multiples of 64. */
typedef struct crn_range {
    uint64_t offset, bytes;
} crn_range;

typedef struct crn_occupancy {
    uint64_t *words; /* a bit per 64 bytes, so a word per page of 4 KiB */
    uint64_t word_count;
    uint64_t bytes, peak; /* in use now; the most since the reset */
} crn_occupancy;

CAIRN_MUST cairn_status crn_occupancy_init(crn_occupancy *map, crn_arena *memory,
                                           uint64_t arena_bytes);
void crn_occupancy_reset(crn_occupancy *map);
void crn_occupancy_take(crn_occupancy *map, crn_range range);
void crn_occupancy_give(crn_occupancy *map, crn_range range);

/* Whether nothing in `length` bytes from `offset` is in use; both are multiples of 4 KiB. */
bool crn_occupancy_free(const crn_occupancy *map, uint64_t offset, uint64_t length);

#endif
