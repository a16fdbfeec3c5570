/* test_backends.h: devices for tests: those of the library, and four more.
 *
 *     mixing     The outputs of every op are a hash of everything that it reads. So a single bit
 *                that is read from the wrong place, at the wrong time or after it was freed changes
 *                everything downstream. It runs any network without its arithmetic; its cost is
 *                reading the operands once.
 *     offset     Another backend with addresses that fault when the host uses them, and with lanes
 *                that run as late as events allow, copies last. Nothing runs before a join.
 *                "offset" is over ref, "offset-cpu" over cpu, "mixing-late" over mixing.
 *     early      The same with copies as early as events allow: "offset-early", "mixing-early".
 *     cuda-host  The backend cuda on a driver that runs its kernels on the processor. */
#ifndef TEST_BACKENDS_H
#define TEST_BACKENDS_H

#include "backend/processor.h"
#include "check.h"

/* Find a backend by name, including those of the library. NULL: it does not exist in this build. */
const crn_backend *test_backend(const char *name);

/* Open one, or end the test. */
cairn_device *test_device(const char *name, uint32_t threads);
cairn_device *test_device_with(const char *name, uint32_t threads, cairn_math math);

extern const crn_backend mixing_backend;
crn_kernel_list mixing_kernels;

#endif
