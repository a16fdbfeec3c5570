/* evaluate.h: run a trained network over samples: its loss, its accuracy, every prediction.
 *
 *     graph, device, costs, data --cairn_evaluator_create--> evaluator
 *     file --cairn_weights_load--> cairn_evaluator_exec()
 *     evaluator --cairn_evaluator_run--> loss, accuracy, and each prediction to a callback
 *
 * An `infer` plan does it: batch-norm uses its running statistics, and dropout is off. */
#ifndef CAIRN_EVALUATE_H
#define CAIRN_EVALUATE_H

#include "cairn/data.h"
#include "cairn/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start from CAIRN_EVALUATOR_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_evaluator_options {
    uint32_t struct_size;
    cairn_split split;
    bool normalise;          /* subtract the mean, divide by the deviation: data.h */
    cairn_exec *share_with;  /* the executor of training, as in cairn_exec_options; NULL: memory for
                                parameters and state is reserved, and they are drawn from seed 0 */
    bool check;              /* as in cairn_exec_options */
    cairn_progress progress; /* called before every batch; may end the run; may be NULL */
    void *progress_context;
    const cairn_plan *homes; /* that `share_with` carries out, if it has parameters at home on the
                                host; else NULL */
} cairn_evaluator_options;
#define CAIRN_EVALUATOR_OPTIONS_INIT                                                               \
    CAIRN_INIT_WITH(cairn_evaluator_options, CAIRN_INIT_FIELD(split, CAIRN_SPLIT_VALIDATION)       \
                                                 CAIRN_INIT_FIELD(normalise, true))

typedef struct cairn_evaluator cairn_evaluator;

/* Make ready to run over one split. `options` may be NULL. The evaluator borrows graph, device and
 * data. CAIRN_EINVAL: the split is empty, or its samples do not fit the network's input and
 * classes. Otherwise fails as cairn_exec_create() and cairn_data_statistics() do. CAIRN_ESYSTEM
 * also: no thread could be started. */
CAIRN_API CAIRN_MUST cairn_status cairn_evaluator_create(const cairn_graph *graph,
                                                         cairn_device *device,
                                                         const cairn_costs *costs, cairn_data *data,
                                                         const cairn_evaluator_options *options,
                                                         cairn_evaluator **out, cairn_error *err);
CAIRN_API void cairn_evaluator_destroy(cairn_evaluator *evaluator);

/* The executor, for its figures and for weights. */
CAIRN_API cairn_exec *cairn_evaluator_exec(cairn_evaluator *evaluator);

/* What the network says about one sample, or one token of a sequence. Only the library makes one;
 * fields are only ever added at the end. */
typedef struct cairn_prediction {
    uint32_t place; /* of the sample in its split */
    int32_t label;
    int32_t predicted;   /* the likeliest class; of equals the first; -1: an output is NaN */
    double probability;  /* of that class */
    double loss;         /* without label smoothing */
    const float *logits; /* one per class; valid during the call */
    uint32_t classes;
    uint32_t token;  /* of a sequence, from 0 */
    uint32_t number; /* of the sample, counted over all files of the source */
} cairn_prediction;

/* Called with every sample, in the order of the split. Any status but CAIRN_OK ends the run. */
typedef cairn_status (*cairn_predicted)(void *context, const cairn_prediction *prediction,
                                        cairn_error *err);

/* Start from CAIRN_EVALUATION_INIT; fields are only ever added at the end. */
typedef struct cairn_evaluation {
    uint32_t struct_size;
    double loss; /* mean, without label smoothing */
    uint64_t correct, predictions;
} cairn_evaluation;
#define CAIRN_EVALUATION_INIT CAIRN_INIT_SIZED(cairn_evaluation)

/* Run over the whole split. `predicted` may be NULL. CAIRN_EIO, CAIRN_EINVAL: the data could not be
 * read; CAIRN_ESYSTEM: the device failed; CAIRN_ECANCELED: `progress` ended the run. */
CAIRN_API CAIRN_MUST cairn_status cairn_evaluator_run(cairn_evaluator *evaluator,
                                                      cairn_predicted predicted, void *context,
                                                      cairn_evaluation *out, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
