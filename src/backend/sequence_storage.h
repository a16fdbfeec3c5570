/* sequence_storage.h: which tensors --math bf16 stores as bf16 because they are sequences of
 * tokens.
 *
 * These are the activations [N, T, C] of ops on sequences, their gradients and the logits of
 * tokens. Statistics of rows, losses, parameters and gradients of parameters stay fp32.
 * Element-wise ops, norms and attention have operands of one type: if one of them must be fp32,
 * because an op that knows no bf16 sequences reads or makes it, all are. Linear layers and the ops
 * at the ends of a sequence take any mixture. The rule is the same on every backend. */
#ifndef CRN_SEQUENCE_STORAGE_H
#define CRN_SEQUENCE_STORAGE_H

#include "backend/backend.h"

/* Whether the tensor is a parameter, a gradient of one, or a term of such a gradient. */
bool crn_is_weight(const cairn_graph *graph, const cairn_tensor *t);

/* Store all sequences as plain bf16 and count them. `group` is that of storage_groups.h. Tensors
 * that no op on sequences uses are the matrices of other networks and stay as they are.
 * CAIRN_ENOMEM without a message. */
CAIRN_MUST cairn_status crn_halve_sequences(const cairn_graph *graph, const cairn_id *group,
                                            crn_arena *scratch, crn_storage *out, uint32_t *halved);

#endif
