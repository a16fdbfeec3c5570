/* offload_front.h: the dynamic programme inside DYNPROG. */
#ifndef OFFLOAD_FRONT_H
#define OFFLOAD_FRONT_H

#include "solve/crn_offload.h"

/* A set of activations whose ordered schedule is shortest under fractional release, into `moved`.
 * No front holds more than `width` states; `*complete` says whether none wanted to, and the set is
 * then optimal. The chain must fit. */
CAIRN_MUST cairn_status crn_offload_front(crn_arena *arena, const crn_offload_chain *chain,
                                          uint32_t width, uint8_t *moved, bool *complete);

#endif
