/* train.h: a training session: an executor with data, an optimiser and a learning-rate schedule. It
 * can be evaluated, written to a file between any two steps, and continued from there bit for bit.
 *
 *     graph, device, costs, solution, data
 *                  | cairn_train_create
 *                  v
 *               session --step, step, evaluate, step ...-->
 *                  |  ^
 *         snapshot v  | resume
 *     FOLDER/snapshot-00000200.safetensors
 *
 * The number of a step decides which samples it sees, what dropout draws and the learning rate. So
 * a snapshot holds little more than tensors. */
#ifndef CAIRN_TRAIN_H
#define CAIRN_TRAIN_H

#include "cairn/data.h"
#include "cairn/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Learning rates ---- */

#define CAIRN_SCHEDULE_LIST(X)                                                                     \
    X(CONSTANT, 0, "constant")                                                                     \
    X(STEP, 1, "step")     /* multiplied by `factor` after each `every` updates */                 \
    X(COSINE, 2, "cosine") /* half a cosine down to `least` at update `total` */

typedef enum cairn_schedule_kind {
#define X(name, number, text) CAIRN_SCHEDULE_##name = number,
    CAIRN_SCHEDULE_LIST(X)
#undef X
} cairn_schedule_kind;

typedef struct cairn_schedule {
    cairn_schedule_kind kind;
    double rate;     /* the highest */
    uint64_t warmup; /* the number of first updates, with rate * 1/warmup, 2/warmup, ...; the
                        numbers below count from their end */
    uint64_t every;
    double factor;
    uint64_t total;
    double least;
} cairn_schedule;

/* ---- A session ---- */

/* Start from CAIRN_TRAIN_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_train_options {
    uint32_t struct_size;
    const cairn_exec_options *exec; /* seed, optimiser, micro-batches; its learning rate is
                                       ignored; NULL: the defaults */
    cairn_schedule schedule;
    cairn_data *data; /* borrowed; NULL: numbers drawn from the seed, and no validation */
    bool flip;        /* training: mirror every other image left to right, by chance */
    uint32_t crop; /* training: pad images with this many black pixels and crop to the original size
                      out again anywhere; 0: as they are */
    bool normalise;    /* subtract the mean, divide by the deviation: cairn_data_statistics() */
    const char *model; /* what the network is called, for the snapshots' readers; may be NULL */
    cairn_progress progress; /* called before every step, and before every batch of an evaluation;
                                a call that it ends leaves the session as it was; may be NULL */
    void *progress_context;
} cairn_train_options;
#define CAIRN_TRAIN_OPTIONS_INIT                                                                   \
    CAIRN_INIT_WITH(cairn_train_options,                                                           \
                    CAIRN_INIT_FIELD(schedule.rate, 0.01) CAIRN_INIT_FIELD(normalise, true))

typedef struct cairn_train cairn_train;

/* Prepare training by `solution`; see cairn_exec_create() for what is checked and reserved.
 * Where the data has validation samples, an executor for evaluation is made as well, which shares
 * the memory of the first. The session borrows `graph`, `device` and the data.
 *
 * CAIRN_EINVAL also: the plan is for evaluation, or the samples do not fit the network's input and
 * classes. */
CAIRN_API CAIRN_MUST cairn_status cairn_train_create(const cairn_graph *graph, cairn_device *device,
                                                     const cairn_costs *costs,
                                                     const cairn_solution *solution,
                                                     const cairn_train_options *options,
                                                     cairn_train **out, cairn_error *err);
CAIRN_API void cairn_train_destroy(cairn_train *train);

/* The executor that trains: its figures, its parameters. */
CAIRN_API cairn_exec *cairn_train_exec(cairn_train *train);

/* The result of a step. Start from CAIRN_TRAIN_RESULT_INIT; fields are only ever added at the
 * end. */
typedef struct cairn_train_result {
    uint32_t struct_size;
    uint64_t step;  /* from 1 */
    uint64_t epoch; /* from 1; 0 where there is no data */
    bool epoch_end; /* the last step of its epoch */
    float loss;     /* mean over the micro-batches */
    double rate;
    uint64_t correct, predictions;
    uint32_t samples; /* of all micro-batches */
    int64_t time_ns;  /* computing; waiting for data is not in it */
    int64_t idle_ns;  /* of it, waiting for copies */
    int64_t data_ns;  /* waiting for data */
    uint64_t measured_peak_bytes;
} cairn_train_result;
#define CAIRN_TRAIN_RESULT_INIT CAIRN_INIT_SIZED(cairn_train_result)

/* One step: for each micro-batch the next samples, forward and backward; then an update. CAIRN_EIO,
 * CAIRN_EINVAL: the data could not be read; CAIRN_ESYSTEM: the device failed; only
 * cairn_train_destroy() may be called then. */
CAIRN_API CAIRN_MUST cairn_status cairn_train_step(cairn_train *train, cairn_train_result *out,
                                                   cairn_error *err);

/* The result of an evaluation. The history is an array of these, so this struct never grows. */
typedef struct cairn_train_score {
    uint64_t step; /* the number of steps before it */
    double loss;   /* mean, without label smoothing */
    uint64_t correct, predictions;
} cairn_train_score;

/* Run over all validation samples with an `infer` plan: batch-norm by its running statistics,
 * dropout off. It changes only the history. CAIRN_EINVAL: there are no validation samples. */
CAIRN_API CAIRN_MUST cairn_status cairn_train_evaluate(cairn_train *train, cairn_train_score *out,
                                                       cairn_error *err);

/* ---- History ---- */

/* A step. This struct never grows. */
typedef struct cairn_train_record {
    float loss;
    uint32_t correct; /* of all `predictions` of a step */
} cairn_train_record;

/* Per step, and per evaluation; valid until the next step or evaluation. Start
 * from CAIRN_TRAIN_HISTORY_INIT; fields are only ever added at the end. */
typedef struct cairn_train_history {
    uint32_t struct_size;
    uint64_t steps;
    const cairn_train_record *records;
    uint64_t predictions;
    uint32_t score_count;
    const cairn_train_score *scores;
    uint64_t best_step;   /* of the best evaluation: most correct, of equals the first; 0: none */
    uint64_t epoch_steps; /* steps of an epoch; 0 where there is no data */
} cairn_train_history;
#define CAIRN_TRAIN_HISTORY_INIT CAIRN_INIT_SIZED(cairn_train_history)

/* Fill as many fields as `out->struct_size` says that the caller knows. */
CAIRN_API void cairn_train_get_history(const cairn_train *train, cairn_train_history *out);

/* The history as lines of a log: JSON, one object a line, with numbers that are the same in every
 * run; docs/training.md. The first `steps` steps and `scores` evaluations are left out. */
CAIRN_API CAIRN_MUST cairn_status cairn_train_log(const cairn_train *train, uint64_t steps,
                                                  uint32_t scores, cairn_text *out);

/* ---- Weights ---- */

/* cairn_weights_save() with what a reader needs in the metadata: cairn.model, cairn.input,
 * cairn.classes, and with data cairn.normalise.scale, .mean and .deviation: the network's inputs
 * are (value * scale - mean) / deviation, with one mean and deviation per channel, separated by
 * commas; these two are missing where inputs are not normalised. */
CAIRN_API CAIRN_MUST cairn_status cairn_train_save_weights(cairn_train *train, const char *path,
                                                           cairn_error *err);

/* ---- Snapshots ---- */

/* Write FOLDER/snapshot-NNNNNNNN.safetensors, numbered by the step: weights by their names, what
 * the optimiser keeps, the history, and in the metadata what the run is made of. It is written
 * completely or not at all. Then older ones are deleted, except the newest three and the one with
 * the best evaluation. CAIRN_EIO: it cannot be written; earlier snapshots are unchanged. */
CAIRN_API CAIRN_MUST cairn_status cairn_train_snapshot(cairn_train *train, const char *folder,
                                                       cairn_error *err);

/* Continue from the newest snapshot of the folder that is whole: what follows has the bits of a run
 * that was never interrupted. For each that is damaged and skipped, and each temporary file
 * that was left behind and is deleted, a line goes into `notices`, which may be NULL; it is
 * initialised here and the caller's to release.
 *
 * A snapshot of a run on another backend is taken too, and a notice says so: what follows is
 * rounded as that of this backend.
 *
 * CAIRN_EUNKNOWN: there is no snapshot, or no folder; the session is as it was. CAIRN_EINVAL: the
 * snapshot is of a run with other options, and `err` says which; the session is as it was. */
CAIRN_API CAIRN_MUST cairn_status cairn_train_resume(cairn_train *train, const char *folder,
                                                     cairn_text *notices, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
