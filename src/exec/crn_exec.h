/* crn_exec.h: what sessions and snapshots need of an executor beyond cairn/exec.h. */
#ifndef CRN_EXEC_H
#define CRN_EXEC_H

#include "cairn/exec.h"

/* Wait for all that was asked of the device. */
CAIRN_MUST cairn_status crn_exec_join(cairn_exec *exec, cairn_error *err);

/* Whether cairn_exec_write() has a place for the tensor. */
bool crn_exec_takes(const cairn_exec *exec, cairn_id tensor);

/* What the optimiser keeps, for writing it to a file and reading it back: the name of slot
 * `slot` ("momentum_buffer" of sgd, "exp_avg" and "exp_avg_sq" of adam), or NULL past the end; and
 * its elements, as many as the parameter has. CAIRN_EINVAL: the tensor is no parameter or there is
 * no such slot. A sum of gradients is not among them; it is empty after an update. */
const char *crn_exec_slot_name(const cairn_exec *exec, uint32_t slot);
CAIRN_MUST cairn_status crn_exec_read_slot(cairn_exec *exec, cairn_id parameter, uint32_t slot,
                                           float *data, cairn_error *err);
CAIRN_MUST cairn_status crn_exec_write_slot(cairn_exec *exec, cairn_id parameter, uint32_t slot,
                                            const float *data, cairn_error *err);

/* How many updates there were, on which the optimiser's arithmetic may depend. */
uint64_t crn_exec_updates(const cairn_exec *exec);
void crn_exec_set_updates(cairn_exec *exec, uint64_t updates);

#endif
