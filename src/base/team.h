/* team.h: a team of threads for loops over an index.
 *
 * The caller works too. Which thread gets which index is not defined, so a body must
 * write only what belongs to its index; then the result is the same for any number of threads. */
#ifndef CRN_TEAM_H
#define CRN_TEAM_H

#include "base/crn_base.h"

typedef struct crn_team crn_team;

/* `threads` in all, the caller's among them; 0: see crn_processors(). */
CAIRN_MUST cairn_status crn_team_create(const cairn_allocator *allocator, uint32_t threads,
                                        crn_team **out, cairn_error *err);

/* Runs a loop as crn_team_for() does, on threads of another owner. */
typedef void crn_team_loop(uint32_t threads, uint32_t count,
                           void (*body)(void *context, uint32_t index), void *context);

/* A team without threads: it uses those of another owner, so that the threads of a library and ours
 * do not compete for the processors. `loop` NULL: as crn_team_create(). */
CAIRN_MUST cairn_status crn_team_create_on(const cairn_allocator *allocator, uint32_t threads,
                                           crn_team_loop *loop, crn_team **out, cairn_error *err);
void crn_team_destroy(crn_team *team);
uint32_t crn_team_threads(const crn_team *team);

/* Call body(context, i) for every i < count and return when all have ended. Not reentrant: a body
 * must not use the team it runs on, nor may two threads use one team at a time. */
void crn_team_for(crn_team *team, uint32_t count, void (*body)(void *context, uint32_t index),
                  void *context);

#endif
