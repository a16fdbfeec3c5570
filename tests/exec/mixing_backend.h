/* mixing_backend.h: a backend for tests of the executor. Every op's outputs are a hash of all it
 * reads, so a single bit read from the wrong place, at the wrong time or after it was freed changes
 * everything downstream, at the price of reading the operands once. It runs any network without
 * doing its arithmetic.
 *
 * Copies are made as late as is allowed, when they are waited for, or at once. */
#ifndef MIXING_BACKEND_H
#define MIXING_BACKEND_H

#include "backend/backend.h"

extern const crn_backend mixing_backend_late, mixing_backend_early;

#endif
