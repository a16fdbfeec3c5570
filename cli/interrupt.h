/* interrupt.h: Ctrl-C ends a command that computes cleanly. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "cairn.h"

/* From now on the first SIGINT, SIGTERM or SIGHUP is only noted, for a command that asks; the
 * second one ends the program. */
void cli_catch_interrupts(void);
bool cli_is_interrupted(void);

/* A cairn_progress that ends the call after a signal. */
bool cli_goes_on(void *context, uint64_t done, uint64_t total);

#endif
