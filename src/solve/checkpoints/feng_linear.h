/* feng_linear.h: checkpoints on a line of segments under a limit. */
#ifndef CRN_FENG_LINEAR_H
#define CRN_FENG_LINEAR_H

#include "solve/checkpoints/max_term.h"

/*     0 --gap 0-- 1 --gap 1-- 2 ... --gap count-1-- count
 *
 * Vertices 0 and `count` are always checkpoints; a vertex i between them costs costs[i - 1]. A gap
 * that exceeds the limit must be broken: both its ends become checkpoints, and inner[i] is kept
 * inside it. */
typedef struct crn_line {
    uint32_t count;
    const uint64_t *gaps, *inner; /* per gap; inner only where the gap exceeds the limit */
    const uint64_t *costs;        /* of vertices 1 .. count - 1 */
} crn_line;

/* Scratch memory for lines of up to `count` gaps; it can be used many times. */
typedef struct crn_line_room {
    uint64_t *least_sum, *passed;
    uint32_t *previous, *queue;
} crn_line_room;

CAIRN_MUST cairn_status crn_line_room_take(crn_arena *arena, uint32_t count, crn_line_room *out);

/* The least sum of the checkpoints strictly between the ends. The costs of segments raise
 * `step->least` and lower `step->beyond`. Afterwards room->previous[i] is the checkpoint before
 * checkpoint i; start from `count`. O(count). */
uint64_t crn_line_solve(const crn_line *line, uint64_t limit, crn_line_room *room,
                        crn_max_term *step);

#endif
