/* storage_groups.h: which tensors must have the same storage format because they share memory:
 * aliases, and operands with the outputs that may be made in place of them. Parameters and their
 * gradients must too, so that an update is a loop over elements. */
#ifndef CRN_STORAGE_GROUPS_H
#define CRN_STORAGE_GROUPS_H

#include "backend/backend.h"

/* Find for each tensor the first tensor of its group; `group` has one element per tensor. O(n). */
void crn_storage_groups(const cairn_graph *graph, cairn_id *group);

#endif
