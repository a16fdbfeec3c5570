/* model_internal.h: what the files that open a model share. */
#ifndef CLI_MODEL_INTERNAL_H
#define CLI_MODEL_INTERNAL_H

#include "model.h"

/* The sizes of the options, 0 where they are absent, if `name` can have them. Returns an exit code.
 */
int cli_read_header(const cli_args *args, const char *name, cairn_plan_header *out);

/* What the options leave out. The size of a sequence of tokens is their number. */
void cli_fill_size(const char *name, const uint32_t input[3], uint32_t classes,
                   cairn_plan_header *header);

/* A machine that is built in or described by a file; NULL: the V100. */
CAIRN_MUST cairn_status cli_find_machine(const char *name, cairn_machine *out, cairn_error *err);

/* As the options say. `*matched` counts the ops that --costs has figures for; all without it. */
CAIRN_MUST cairn_status cli_model_set_costs(const cli_args *args, cli_model *model,
                                            const char *backend, uint32_t threads,
                                            uint32_t *matched, cairn_error *err);

/* What --cost-model says. Returns an exit code. */
int cli_read_cost_model(const cli_args *args, cairn_cost_model *out);

#endif
