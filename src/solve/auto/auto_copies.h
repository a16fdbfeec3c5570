/* auto_copies.h: copies to the host together with recomputations.
 *
 * Only copies that run at the same time as computing are useful: waiting for a link costs more time
 * per byte than recomputing. So a set of copies is chosen that the lanes can carry without making
 * an op wait. Copies out run one after the other, from the time when a value is made. Copies in run
 * one after the other, as late as their readers allow:
 *
 *     compute   a  b  c  d  ...  loss  ...  d'      c'      b'      a'
 *     out          aaaaabbbbccc                                  (each ends before the moment)
 *     in                                    ccc     bbbb    aaaaa    (each starts after it)
 *
 * Results of the backward pass may be offloaded too: then the moment is the end of the step. They
 * are copied out as soon as they are made, and copied in when the last op has run; the step waits
 * for that.
 *
 * In the matrix a copy is two pseudo-ops. At the end of the slot in which the copy out has ended,
 * the value may be freed. At the end of the slot before the copy in starts, it takes memory
 * again. */
#ifndef CRN_AUTO_COPIES_H
#define CRN_AUTO_COPIES_H

#include "solve/auto/auto_search.h"

typedef struct crn_copy {
    uint32_t value;
    uint32_t last, next; /* slots of its last read before the moment and of the first after it */
    int64_t ns;
    uint32_t gone, back; /* slots at whose ends it may be freed, and takes memory again */
} crn_copy;

typedef struct crn_copies {
    crn_search *search;
    const cairn_machine *machine;
    uint32_t moment;      /* slot between copies out and copies in */
    bool of_results;      /* copies of results */
    uint32_t *candidates; /* values that may be copied, in the order in which they are made */
    uint32_t candidate_count;
    crn_copy *chosen; /* by the slot of the first read after the moment, last first */
    uint32_t count;
    int64_t *start, *end; /* of each slot, if no op waits */
    int64_t out_end;      /* of the last copy out, in the order of making */
    bool *wanted;         /* per value: scratch */
} crn_copies;

CAIRN_MUST cairn_status crn_copies_create(crn_search *search, const cairn_machine *machine,
                                          uint32_t moment, crn_arena *arena, crn_copies **out);
/* For results. Those of the forward pass are not offloaded: they are used before the end. */
CAIRN_MUST cairn_status crn_copies_create_for_results(crn_search *search,
                                                      const cairn_machine *machine,
                                                      crn_arena *arena, crn_copies **out);

/* Choose copies that the lanes carry without making an op wait, up to `most` bytes, among the
 * candidates in `wanted`, in the order in which they are made. The matrix must not contain copies.
 */
uint64_t crn_copies_choose(crn_copies *copies, const bool *wanted, uint64_t most);

/* Add the chosen copies to the matrix, or remove them from it. */
void crn_copies_place(crn_copies *copies);
void crn_copies_remove(crn_copies *copies);

/* Choose none. The matrix may still contain them. */
void crn_copies_forget(crn_copies *copies);

/* Compute new times and slots after the recomputations have changed. Copies that would make an op
 * wait are dropped. */
void crn_copies_settle(crn_copies *copies);

/* Repair with the copies in the matrix. If that fails, the copy of the largest copied value at the
 * peak is dropped. */
bool crn_copies_repair(crn_copies *copies, int64_t limit);

#endif
