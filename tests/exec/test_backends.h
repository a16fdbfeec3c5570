/* test_backends.h: devices for tests: those of the library, and four more.
 *
 * mixing: every op's outputs are a hash of all it reads, so a single bit read from the wrong place,
 * at the wrong time or after it was freed changes everything downstream, at the price of reading
 * the operands once; it runs any network without its arithmetic.
 *
 * offset: another backend behind addresses that fault when the host touches them and lanes that run
 * as late as events allow, copies last; nothing at all runs before a join. "offset" is over ref,
 * "offset-cpu" over cpu, "mixing-late" over mixing.
 *
 * early: the same with copies as early as events allow: "offset-early" and "mixing-early".
 *
 * cuda-host: the backend cuda on a driver that runs its kernels on the processor. */
#ifndef TEST_BACKENDS_H
#define TEST_BACKENDS_H

#include "backend/processor.h"
#include "check.h"

/* By name; also those of the library. NULL: there is none here. */
const crn_backend *test_backend(const char *name);

/* Open one, or end the test. */
cairn_device *test_device(const char *name, uint32_t threads);

extern const crn_backend mixing_backend;
crn_kernel_list mixing_kernels;

#endif
