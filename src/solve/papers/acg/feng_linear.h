/* feng_linear.h: checkpoints on a line of segments under a limit. */
#ifndef CRN_FENG_LINEAR_H
#define CRN_FENG_LINEAR_H

#include "solve/papers/acg/max_term.h"

/*     0 --gap 0-- 1 --gap 1-- 2 ... --gap count-1-- count
 *
 * Vertices 0 and `count` are checkpoints anyway; vertex i in between costs costs[i - 1]. A gap that
 * exceeds the limit must be broken: both its ends become checkpoints, and inner[i] more is kept
 * inside it. */
typedef struct crn_line {
    uint32_t count;
    const uint64_t *gaps, *inner; /* per gap; inner only where the gap exceeds the limit */
    const uint64_t *costs;        /* of vertices 1 .. count - 1 */
} crn_line;

/* Room for lines of up to `count` gaps, used again and again. */
typedef struct crn_line_room {
    uint64_t *least_sum, *passed;
    uint32_t *previous, *queue;
} crn_line_room;

CAIRN_MUST cairn_status crn_line_room_take(crn_arena *arena, uint32_t count, crn_line_room *out);

/* The least sum of the checkpoints strictly between the ends. `step->least` and `step->beyond` are
 * raised and lowered by the segments met. Afterwards room->previous[i] is the checkpoint before i,
 * for each i as a checkpoint; start from `count`. O(count). */
uint64_t crn_line_solve(const crn_line *line, uint64_t limit, crn_line_room *room,
                        crn_max_term *step);

#endif
