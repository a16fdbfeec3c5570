/* hazards.h: the earlier actions that an action must follow, found from the addresses that both
 * access.
 *
 *     memory      |---- a ----|-- b --|------ c ------|        segments that never overlap
 *     each has    the action that wrote it last, and those that have read it since
 *
 * A read follows the last writer; a write follows the last writer and the readers since. Nothing
 * else orders two actions, so independent actions may run at the same time. An action is not listed
 * if another listed one already follows it. */
#ifndef HAZARDS_H
#define HAZARDS_H

#include "base/crn_base.h"

typedef struct crn_hazards crn_hazards;

/* Memory comes from `arena`. `actions` is the largest number of actions. */
CAIRN_MUST cairn_status crn_hazards_create(crn_arena *arena, uint32_t actions, crn_hazards **out);

typedef struct crn_touch {
    uintptr_t at;
    uint64_t bytes; /* 0: no access */
    bool write;
} crn_touch;

/* Add the next action, numbered from 0, which accesses these ranges. `*after` are the actions that
 * it must follow, in ascending order; they stay valid until the next call. The only error is
 * CAIRN_ENOMEM. O((touches + segments met) log segments + actions / 64 * follows). */
CAIRN_MUST cairn_status crn_hazards_add(crn_hazards *hazards, const crn_touch *touches,
                                        uint32_t count, const uint32_t **after,
                                        uint32_t *after_count);

/* The same, with one more action to follow; UINT32_MAX: none. Chains the copies of a lane. */
CAIRN_MUST cairn_status crn_hazards_add_after(crn_hazards *hazards, const crn_touch *touches,
                                              uint32_t count, uint32_t also, const uint32_t **after,
                                              uint32_t *after_count);

#endif
