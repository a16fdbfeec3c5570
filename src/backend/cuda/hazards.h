/* hazards.h: which earlier actions an action must follow, from the addresses that both touch.
 *
 *     memory      |---- a ----|-- b --|------ c ------|        segments that never overlap
 *     each has    the action that wrote it last, and those that have read it since
 *
 * A read follows the last writer; a write follows the last writer and the readers since. Nothing
 * else orders two actions, so whatever is independent may run at the same time. Of the actions to
 * follow only those are given that no other of them follows already. */
#ifndef HAZARDS_H
#define HAZARDS_H

#include "base/crn_base.h"

typedef struct crn_hazards crn_hazards;

/* Memory comes from `arena` and lives as long. `actions`: how many there will be at most. */
CAIRN_MUST cairn_status crn_hazards_create(crn_arena *arena, uint32_t actions, crn_hazards **out);

typedef struct crn_touch {
    uintptr_t at;
    uint64_t bytes; /* 0: nothing is touched */
    bool write;
} crn_touch;

/* The next action, numbered from 0, touches these ranges. `*after` are the actions it must follow,
 * in ascending order; they stay valid until the next call. CAIRN_ENOMEM. O((touches + segments met)
 * log segments + actions / 64 * follows). */
CAIRN_MUST cairn_status crn_hazards_add(crn_hazards *hazards, const crn_touch *touches,
                                        uint32_t count, const uint32_t **after,
                                        uint32_t *after_count);

/* The same, with one more action to follow; UINT32_MAX: none. Chains the copies of a lane. */
CAIRN_MUST cairn_status crn_hazards_add_after(crn_hazards *hazards, const crn_touch *touches,
                                              uint32_t count, uint32_t also, const uint32_t **after,
                                              uint32_t *after_count);

#endif
