/* step_watch.h: what is shown of training steps beside losses and peaks: their time against what
 * was predicted, and the memory that the system says the process holds. */
#ifndef CLI_STEP_WATCH_H
#define CLI_STEP_WATCH_H

#include "model.h"

#define CLI_WATCHED_STEPS 256

typedef struct cli_step_watch {
    int64_t predicted_ns;            /* 0: the costs are not measured ones */
    int64_t last[CLI_WATCHED_STEPS]; /* times of the last steps, in a ring; the first is left out */
    uint64_t count;                  /* of all steps */
    uint64_t before_bytes;           /* that the process held before the first step */
} cli_step_watch;

void cli_watch_init(cli_step_watch *watch, const cli_model *model, const cairn_solution *solution,
                    uint32_t micro_batches);

/* After each step. */
void cli_watch_step(cli_step_watch *watch, int64_t time_ns);

/* Members for the JSON of a step, each after a comma; the sentences after the last one. */
void cli_watch_print_json(const cli_step_watch *watch);
void cli_watch_print_text(const cli_step_watch *watch);

#endif
