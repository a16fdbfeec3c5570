/* training.h: what the files of `cairn train` share.
 *
 *     options -> data -> model -> plan -> session -> loop: step, log, evaluate, snapshot -> summary
 *     train_options.c    train_setup.c               command_train.c, train_folder.c,
 *                                                    train_report.c */
#ifndef CLI_TRAINING_H
#define CLI_TRAINING_H

#include "cairn/budget.h"
#include "dataset.h"
#include "plan_page.h"
#include "planning.h"
#include "step_watch.h"

#include <stdio.h>

typedef struct cli_training {
    const cli_args *args;

    cairn_exec_options exec;
    uint64_t link_bytes_per_second; /* that the device imitates; 0: none */
    cairn_schedule schedule;
    uint64_t steps, epochs; /* one of them 0: not given */
    uint64_t decay_every;   /* 0: not given */
    uint64_t snapshot_every;
    uint32_t crop;
    bool flip;

    cairn_data *data;
    bool normalise;             /* its values */
    cairn_safetensors *weights; /* to start from; NULL: none */
    char weights_path[4096];
    cli_model model;
    cairn_solution *solution;
    cairn_budget limit;
    cairn_train *train;

    const char *folder, *log_path; /* NULL: none */
    char default_log[4096];
    int lock; /* of the folder; -1: none */
    FILE *log;

    int64_t start_ns;
    uint64_t first_step; /* steps that were done before this run */
    uint64_t samples;    /* of this run */
    int64_t shown_ns;    /* when the progress was shown last */
    uint64_t measured_peak;
    cli_step_watch watch;
    bool stop_on_nan, warned; /* about a loss that is not finite */
} cli_training;

/* ---- train_options.c ---- */

bool cli_train_read_options(cli_training *t);

/* ---- train_setup.c ---- */

/* From options to a session. Returns an exit code, after saying what is wrong. */
int cli_train_set_up(cli_training *t);
void cli_train_take_down(cli_training *t);

/* The steps that are done, those of earlier runs included. */
uint64_t cli_train_steps(const cli_training *t);

/* ---- train_folder.c: exit codes, likewise ---- */

/* The arguments of the run in a folder, overridden by those given now; `*lines` and the result are
 * to be released with free(). */
int cli_train_recall(const cli_args *given, const char *folder, char **lines, cli_args **out);

/* Create the folder if necessary and lock it. With `resume` it must hold a run, otherwise it must
 * not. */
int cli_train_open_folder(cli_training *t, bool resume);
int cli_train_write_options(const cli_training *t);

/* Start the log with what is known already. */
int cli_train_open_log(cli_training *t);
int cli_train_log(cli_training *t, cairn_text *text);

/* ---- train_report.c ---- */

void cli_train_print_head(const cli_training *t);
void cli_train_print_step(cli_training *t, const cairn_train_result *r);
void cli_train_print_score(cli_training *t, const cairn_train_result *r,
                           const cairn_train_score *score);
void cli_train_clear_progress(const cli_training *t);
int cli_train_print_summary(cli_training *t);
/* The page of --html, with the times of the last step. */
int cli_train_write_page(const cli_training *t);
/* Loss and accuracy into the folder. */
int cli_train_draw(const cli_training *t);

#endif
