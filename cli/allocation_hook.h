/* allocation_hook.h: how much memory the whole process has from malloc and its like, whoever asked:
 * Cairn, the C library or a library for fast kernels. Cairn allocates nothing during a step, so
 * what is counted then is what libraries allocate for themselves. */
#ifndef CLI_ALLOCATION_HOOK_H
#define CLI_ALLOCATION_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Whether allocations are counted here: with the GNU C library and without sanitizers. */
bool cli_allocations_counted(void);

/* Bytes that are allocated now. */
uint64_t cli_allocations_live(void);

/* The most bytes that were allocated at any moment since cli_allocations_mark() beyond those that
 * were allocated then. */
void cli_allocations_mark(void);
uint64_t cli_allocations_peak(void);

#endif
