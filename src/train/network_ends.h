/* network_ends.h: where samples enter a network and where its predictions leave it. */
#ifndef CRN_NETWORK_ENDS_H
#define CRN_NETWORK_ENDS_H

#include "base/crn_base.h"
#include "cairn/data.h"
#include "data/loader.h"

typedef struct crn_network_ends {
    cairn_id input, label; /* CAIRN_NONE: there is none, or several */
    cairn_id output;       /* the logits; CAIRN_NONE: not known */
    uint32_t batch, classes;
} crn_network_ends;

crn_network_ends crn_network_ends_of(const cairn_graph *graph);

/* Whether samples fit. CAIRN_EINVAL, and a sentence that names both shapes: they do not. */
CAIRN_MUST cairn_status crn_network_ends_check(const cairn_graph *graph,
                                               const crn_network_ends *ends,
                                               const cairn_data_info *info, cairn_error *err);

/* What a network reads of a batch: reals, or tokens. */
static inline const void *crn_batch_inputs(const crn_batch *batch) {
    return batch->tokens != NULL ? (const void *)batch->tokens : batch->inputs;
}

#endif
