/* certify.h: the bound of a budget, with and without copies. */
#ifndef CRN_CERTIFY_H
#define CRN_CERTIFY_H

#include "solve/auto/rerun_matrix.h"
#include "solve/auto/time_bound.h"

typedef struct crn_certificate {
    crn_bound_result alone; /* bound of plans without copies */
    int64_t extra_ns;       /* bound of all plans; INT64_MAX: none fits */
} crn_certificate;

/* The op at the peak of the plan without recomputations: moments around it give the best bounds.
 * Clears the matrix. */
uint32_t crn_certify_centre(crn_matrix *m);

/* `machine` NULL: without copies. */
CAIRN_MUST cairn_status crn_certify(crn_bound *bound, uint32_t centre, const cairn_machine *machine,
                                    uint64_t budget, crn_arena *arena, crn_certificate *out);

#endif
