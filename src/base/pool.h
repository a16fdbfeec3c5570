/* pool.h: a thread pool for loops over an index.
 *
 * The caller takes part in the work. Which thread gets which index is not defined, so a body must
 * write only what belongs to its index; then the result is the same for any number of threads. */
#ifndef CRN_POOL_H
#define CRN_POOL_H

#include "base/crn_base.h"

typedef struct crn_pool crn_pool;

/* `threads` in all, the caller's among them; 0: as many as the machine has processors. */
CAIRN_MUST cairn_status crn_pool_create(const cairn_allocator *allocator, uint32_t threads,
                                        crn_pool **out, cairn_error *err);

/* Runs a loop as crn_pool_for() does, on threads of another owner. */
typedef void crn_pool_team(uint32_t threads, uint32_t count,
                           void (*body)(void *context, uint32_t index), void *context);

/* A pool without threads: it uses those of a team, so that the threads of a library and ours do not
 * compete for the processors. `team` NULL: as crn_pool_create(). */
CAIRN_MUST cairn_status crn_pool_create_on(const cairn_allocator *allocator, uint32_t threads,
                                           crn_pool_team *team, crn_pool **out, cairn_error *err);
void crn_pool_destroy(crn_pool *pool);
uint32_t crn_pool_threads(const crn_pool *pool);

/* Call body(context, i) for every i < count and return when all have ended. Not reentrant: a body
 * must not use the pool it runs on, nor may two threads use one pool at a time. */
void crn_pool_for(crn_pool *pool, uint32_t count, void (*body)(void *context, uint32_t index),
                  void *context);

#endif
