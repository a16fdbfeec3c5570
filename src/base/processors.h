/* processors.h: how many processors this process may use. */
#ifndef CRN_PROCESSORS_H
#define CRN_PROCESSORS_H

#include <stdint.h>

/* OMP_NUM_THREADS where that is set; else those that the process may run on (taskset, Slurm), or
 * fewer where its control group has a quota (containers). From 1 to 256. */
uint32_t crn_processors(void);

#endif
