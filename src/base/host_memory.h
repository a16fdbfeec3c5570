/* host_memory.h: the memory of the machine that this program runs on. */
#ifndef CRN_HOST_MEMORY_H
#define CRN_HOST_MEMORY_H

#include "base/crn_base.h"

uint64_t crn_host_memory(void);      /* all of it in bytes; 0: not known */
uint64_t crn_host_memory_free(void); /* what programs can still get; 0: not known */

#endif
