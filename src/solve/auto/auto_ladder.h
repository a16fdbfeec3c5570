/* auto_ladder.h: plans for less and less memory, which do not depend on the budget.
 *
 *     memory |  none                 A rung is what repair makes of the rung above it. The first
 *            |  ----.                rung that fits a budget shows that there is a plan for it.
 *     budget |..... `----. ......    Where no rung fits, the budget is refused, and the lowest rung
 *            |           `---        names the smallest one.
 *
 * The rungs do not depend on the budget. So a plan for less memory is a plan for more: whatever
 * fits a budget is found for every larger one, and all refusals name the same smallest budget. */
#ifndef CRN_AUTO_LADDER_H
#define CRN_AUTO_LADDER_H

#include "solve/auto/auto_starts.h"
#include "solve/solver.h"

typedef struct crn_rung {
    crn_saved set;
    uint64_t needed; /* the budget that it needs; 0: not simulated */
    uint64_t peak;   /* of the plan, where it is judged; the matrix may count more */
    uint64_t arena;  /* of the whole search for a layout; 0: not known */
} crn_rung;

typedef struct crn_ladder {
    const crn_problem *problem;
    crn_search *search;
    crn_bound *bound;    /* of plans without copies; NULL: there is none */
    crn_copies *results; /* results that every plan offloads; NULL: none */
    uint64_t work;       /* of a search for less where repair ends */
    uint64_t least;      /* that any plan needs; 0: not known yet */
    CRN_ARRAY(crn_rung) rungs;
} crn_ladder;

/* Make rungs until one is within the whole budget of the problem. `*out` is that rung, or the
 * lowest; it is in the matrix too, and lives as long as the scratch of the problem. */
CAIRN_MUST cairn_status crn_ladder_find(crn_ladder *ladder, const crn_rung **out, bool *fits);

/* What `schedule` needs, whatever the budget: the arena, or the live peak if that is to be bounded;
 * with `brief` a short search for its layout. */
CAIRN_MUST cairn_status crn_ladder_judge(const crn_problem *problem, const crn_schedule *schedule,
                                         bool brief, crn_judgement *out);
/* The same, where only a layout within the whole budget of the problem matters: a short search for
 * it, and the whole search only if that finds one. */
CAIRN_MUST cairn_status crn_ladder_judge_within(const crn_problem *problem,
                                                const crn_schedule *schedule, crn_judgement *out);

#endif
