/* train_internal.h: what the files of train/ share: a session. */
#ifndef CRN_TRAIN_INTERNAL_H
#define CRN_TRAIN_INTERNAL_H

#include "base/crn_base.h"
#include "cairn/evaluate.h"
#include "cairn/train.h"
#include "data/loader.h"
#include "exec/crn_exec.h"
#include "train/network_ends.h"

/* What a snapshot must agree with, as words: "learning rate", "0.1". */
#define CRN_MOST_CONDITIONS 26
typedef struct crn_condition {
    const char *name;
    char value[80];
    bool of_device; /* it differs between backends; a run may continue on another one */
} crn_condition;

typedef struct crn_history {
    cairn_train_record *records;
    uint64_t steps, capacity;
    cairn_train_score *scores;
    uint32_t score_count, score_capacity;
    uint64_t best_step, best_correct;
} crn_history;

/* The learning rate of an update, counted from 0. */
/* Steps of an epoch; 0 where there is no data. */
uint64_t crn_train_epoch_steps(const cairn_train *train);

const char *crn_schedule_name(cairn_schedule_kind kind); /* NULL past the end */
double crn_schedule_rate(const cairn_schedule *schedule, uint64_t update);

struct cairn_train {
    crn_arena memory; /* in which the session lies */
    const cairn_graph *graph;
    cairn_device *device;
    cairn_train_options options;
    cairn_exec *exec;
    cairn_evaluator *evaluator; /* NULL: nothing to validate with */
    crn_loader *loader;
    crn_network_ends ends;
    uint32_t micro_batches;
    uint64_t predictions; /* a step */
    uint64_t position;    /* micro-batches done */
    crn_history history;  /* its `steps` are the steps done */
    crn_condition conditions[CRN_MOST_CONDITIONS];
    uint32_t condition_count;
};

/* ---- train.c ---- */

/* Go to the state after `steps` steps, the tensors being there already. */
void crn_train_go_to(cairn_train *train, uint64_t steps);

/* ---- history.c ---- */

/* Make room for this number of steps, and for one more evaluation. */
CAIRN_MUST cairn_status crn_history_reserve(cairn_train *train, uint64_t steps,
                                            uint32_t score_count);
void crn_history_add_step(crn_history *history, float loss, uint64_t correct);
/* Also remembers the best. */
void crn_history_add_score(crn_history *history, const cairn_train_score *score);
void crn_history_release(cairn_train *train);

/* ---- conditions.c ---- */

CAIRN_MUST cairn_status crn_conditions_init(cairn_train *train, const cairn_exec_options *exec);

/* ---- origin.c ---- */

/* What a file of weights says about the network and its inputs: words for its metadata, and the
 * normalisation as tensors. */
#define CRN_MOST_ORIGINS 8
typedef struct crn_origin {
    crn_arena *scratch; /* in which the words are */
    cairn_pair pairs[CRN_MOST_ORIGINS];
    uint32_t count;
    cairn_named_tensor tensors[2];
    uint32_t tensor_count;
    char classes[16], network[17];
} crn_origin;
CAIRN_MUST cairn_status crn_origin_of(cairn_train *train, crn_arena *scratch, crn_origin *out,
                                      cairn_error *err);

/* ---- snapshot_file.c ---- */

CAIRN_MUST cairn_status crn_snapshot_write(cairn_train *train, const char *path, cairn_error *err);

/* Take everything from a file. CAIRN_ESYNTAX: it is damaged or no snapshot; CAIRN_EINVAL: it is of
 * another run. In both cases the session is unchanged. */
CAIRN_MUST cairn_status crn_snapshot_read(cairn_train *train, const char *path, cairn_text *notices,
                                          cairn_error *err);

#endif
