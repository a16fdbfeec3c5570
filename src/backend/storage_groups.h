/* storage_groups.h: which tensors must be stored alike: those that share memory. They are aliases,
 * and operands with the outputs that may be made in place of them; and, so that an update is a loop
 * over elements, parameters with their gradients. */
#ifndef CRN_STORAGE_GROUPS_H
#define CRN_STORAGE_GROUPS_H

#include "backend/backend.h"

/* Per tensor the first tensor of its group; `group` has room for all. O(n). */
void crn_storage_groups(const cairn_graph *graph, cairn_id *group);

#endif
