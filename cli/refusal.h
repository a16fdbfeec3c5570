/* refusal.h: what to say where a plan does not fit: which budget and which batch would, as commands
 * that can be typed. */
#ifndef CLI_REFUSAL_H
#define CLI_REFUSAL_H

#include "cairn/budget.h"
#include "model.h"

/* Nothing fits `limit`, as `err` says. Returns the exit code. */
int cli_refuse_budget(const cli_args *args, const cli_model *model, const cairn_budget *limit,
                      const char *algorithm, cairn_error *err);

/* A step by `algorithm` needs more than the memory of the machine; `stationary` bytes of it are no
 * plan's. Returns the exit code. */
int cli_refuse_machine(const cli_args *args, const cli_model *model, const char *algorithm,
                       uint64_t needed, uint64_t stationary, uint64_t memory);

#endif
