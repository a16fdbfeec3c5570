/* auto_copies.h: copies to the host together with re-runs.
 *
 * Only copies that hide behind computing pay: to wait for a link costs more per byte than to
 * recompute. So a set of copies is chosen that the lanes can carry without anyone waiting: out, one
 * after the other, from when a value is made; in, one after the other, as late as its reader
 * allows:
 *
 *     compute   a  b  c  d  ...  loss  ...  d'      c'      b'      a'
 *     out          aaaaabbbbccc                                             each ends before the
 *     in                                    ccc     bbbb    aaaaa           moment, and starts
 * after
 *
 * In the matrix a copy is two pseudo-ops: at the end of the slot in which the copy out has ended
 * the value may go; at the end of the slot before the copy in starts it takes its place again. */
#ifndef CRN_AUTO_COPIES_H
#define CRN_AUTO_COPIES_H

#include "solve/auto/auto_search.h"

typedef struct crn_copy {
    uint32_t value;
    uint32_t last, next; /* slots of its last read before the moment and of the first after it */
    int64_t ns;
    uint32_t gone, back; /* slots at whose ends it may go and takes its place again */
} crn_copy;

typedef struct crn_copies {
    crn_search *search;
    const cairn_machine *machine;
    uint32_t moment;      /* slot between copies out and copies in */
    uint32_t *candidates; /* values that may be copied, as they are made */
    uint32_t candidate_count;
    crn_copy *chosen; /* by the slot of the first read after the moment, last first */
    uint32_t count;
    int64_t *start, *end; /* of each slot, if nobody waits */
    int64_t out_end;      /* of the last copy out, in the order of making */
    bool *wanted;         /* per value: scratch */
} crn_copies;

CAIRN_MUST cairn_status crn_copies_create(crn_search *search, const cairn_machine *machine,
                                          uint32_t moment, crn_arena *arena, crn_copies **out);

/* Choose among the candidates for which `wanted` holds, as they are made, up to `most` bytes, those
 * that the lanes carry without waiting. The matrix holds no copies. */
uint64_t crn_copies_choose(crn_copies *copies, const bool *wanted, uint64_t most);

/* Put the chosen copies into the matrix, or take them out of it. */
void crn_copies_place(crn_copies *copies);
void crn_copies_remove(crn_copies *copies);

/* After the re-runs have changed: new times, new slots. Copies that no longer hide are dropped. */
void crn_copies_settle(crn_copies *copies);

/* Repair with the copies in place; where that fails, the largest copied value at the peak stays and
 * loses its copy. */
bool crn_copies_repair(crn_copies *copies, int64_t limit);

#endif
