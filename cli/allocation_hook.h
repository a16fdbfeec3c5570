/* allocation_hook.h: how much memory libraries take from malloc and similar functions. All
 * allocations of the process are counted, except those that Cairn makes with the allocator declared
 * here. What is counted is what the C library and kernel libraries allocate. */
#ifndef CLI_ALLOCATION_HOOK_H
#define CLI_ALLOCATION_HOOK_H

#include "cairn/base.h"

/* Whether allocations are counted here: with the GNU C library and without sanitizers. */
bool cli_allocations_counted(void);

/* For Cairn's objects; what it gives is not counted. */
const cairn_allocator *cli_own_allocator(void);

/* Bytes that are allocated now. */
uint64_t cli_allocations_live(void);

/* The most bytes that were allocated at any moment since cli_allocations_mark() beyond those that
 * were allocated then. */
void cli_allocations_mark(void);
uint64_t cli_allocations_peak(void);

#endif
