/* evaluator.c: a network over all samples of a split, without training it. */
#include "base/watch.h"
#include "cairn/evaluate.h"
#include "graph/crn_graph.h"
#include "train/network_ends.h"
#include "data/loader.h"

#include <math.h>

struct cairn_evaluator {
    crn_arena memory; /* in which the evaluator lies */
    crn_network_ends ends;
    cairn_graph *network; /* of a step that has no logits, with its costs; else NULL */
    cairn_costs *costs;
    cairn_exec *exec;
    const cairn_data *data;
    cairn_split split;
    crn_loader *loader;
    float *logits;   /* of a batch */
    uint32_t labels; /* of a sample: its tokens, or one */
    cairn_progress progress;
    void *progress_context;
};

/* ---- Making one ---- */

static cairn_status create_loader(cairn_evaluator *evaluator, cairn_device *device,
                                  cairn_data *data, const cairn_evaluator_options *given,
                                  cairn_error *err) {
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    evaluator->data = data;
    options.split = evaluator->split = given->split;
    options.batch = evaluator->ends.batch;
    options.normalise = given->normalise;
    options.device = device;
    options.complete = true;
    return crn_loader_create(data, &options, &evaluator->loader, err);
}

static cairn_status create_exec(cairn_evaluator *evaluator, const cairn_graph *graph,
                                cairn_device *device, const cairn_costs *costs,
                                const cairn_evaluator_options *given, cairn_error *err) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_solution *solution;
    options.share_with = given->share_with;
    options.check = given->check;
    options.momentum = 0; /* nothing is kept for an optimiser */
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(device, &facts);
    solve.machine = facts.machine;
    solve.homes = given->homes;
    CRN_TRY(cairn_solve(graph, costs, "infer", &solve, &solution, err));
    cairn_status status =
        cairn_exec_create(graph, device, costs, solution, &options, &evaluator->exec, err);
    cairn_solution_destroy(solution);
    return status;
}

static cairn_status prepare(cairn_evaluator *evaluator, const cairn_graph *graph,
                            cairn_device *device, const cairn_costs *costs, cairn_data *data,
                            const cairn_evaluator_options *options, cairn_error *err) {
    evaluator->progress = options->progress;
    evaluator->progress_context = options->progress_context;
    CRN_TRY(cairn_graph_network(graph, &evaluator->network, err));
    if (evaluator->network != NULL) {
        graph = evaluator->network;
        CRN_TRY(cairn_bind(graph, device, &evaluator->costs, err));
        costs = evaluator->costs;
    }
    evaluator->ends = crn_network_ends_of(graph);
    CRN_TRY(crn_network_ends_check(graph, &evaluator->ends, cairn_data_get_info(data), err));
    const cairn_data_info *info = cairn_data_get_info(data);
    evaluator->labels = info->tokens ? info->shape[0] : 1;
    CRN_TAKE(&evaluator->memory, evaluator->logits,
             cairn_graph_tensor(graph, evaluator->ends.output)->bytes / sizeof(float));
    CRN_TRY(create_loader(evaluator, device, data, options, err));
    return create_exec(evaluator, graph, device, costs, options, err);
}

cairn_status cairn_evaluator_create(const cairn_graph *graph, cairn_device *device,
                                    const cairn_costs *costs, cairn_data *data,
                                    const cairn_evaluator_options *given, cairn_evaluator **out,
                                    cairn_error *err) {
    cairn_evaluator_options options = CAIRN_EVALUATOR_OPTIONS_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_evaluator_options, options, given, err);
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_evaluator *evaluator = CRN_OBJECT(&allocator, cairn_evaluator, memory);
    if (evaluator == NULL)
        return crn_fail_memory(err);
    cairn_status status = prepare(evaluator, graph, device, costs, data, &options, err);
    if (status != CAIRN_OK) {
        cairn_evaluator_destroy(evaluator);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = evaluator;
    return CAIRN_OK;
}

void cairn_evaluator_destroy(cairn_evaluator *evaluator) {
    if (evaluator == NULL)
        return;
    cairn_exec_destroy(evaluator->exec);
    crn_loader_destroy(evaluator->loader);
    cairn_costs_destroy(evaluator->costs);
    cairn_graph_destroy(evaluator->network);
    crn_arena_destroy(&evaluator->memory);
}

cairn_exec *cairn_evaluator_exec(cairn_evaluator *evaluator) {
    return evaluator->exec;
}

/* ---- Running ---- */

/* The loss is log(sum of exp(x - largest)) - (x[label] - largest). Of equal classes the first is
 * predicted; where there is a NaN, none is. */
static void judge(const float *x, cairn_prediction *p) {
    uint32_t best = 0;
    bool valid = true;
    for (uint32_t c = 0; c < p->classes; c++) {
        best = x[c] > x[best] ? c : best;
        valid = valid && !isnan(x[c]);
    }
    double sum = 0;
    for (uint32_t c = 0; c < p->classes; c++)
        sum += exp((double)(x[c] - x[best]));
    p->logits = x;
    p->predicted = valid ? (int32_t)best : -1;
    p->probability = 1 / sum;
    p->loss = log(sum) - (double)(x[p->label] - x[best]);
}

static cairn_status run_batch(cairn_evaluator *evaluator, cairn_predicted predicted, void *context,
                              cairn_evaluation *made, cairn_error *err) {
    const crn_network_ends *ends = &evaluator->ends;
    crn_batch batch = {0};
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    CRN_TRY(crn_loader_next(evaluator->loader, &batch, err));
    CRN_TRY(cairn_exec_feed(evaluator->exec, ends->input, crn_batch_inputs(&batch), err));
    CRN_TRY(cairn_exec_run(evaluator->exec, 0, &result, err));
    CRN_TRY(cairn_exec_read(evaluator->exec, ends->output, evaluator->logits, err));
    for (uint64_t n = 0; n < (uint64_t)batch.count * evaluator->labels; n++) {
        cairn_prediction p = {.place = (uint32_t)(made->predictions / evaluator->labels),
                              .token = (uint32_t)(made->predictions % evaluator->labels),
                              .label = batch.labels[n],
                              .classes = ends->classes};
        p.number = crn_data_split_number(evaluator->data, evaluator->split, p.place);
        judge(evaluator->logits + (size_t)n * ends->classes, &p);
        made->loss += p.loss;
        made->correct += p.predicted == p.label;
        made->predictions++;
        if (predicted != NULL)
            CRN_TRY(predicted(context, &p, err));
    }
    return CAIRN_OK;
}

cairn_status cairn_evaluator_run(cairn_evaluator *evaluator, cairn_predicted predicted,
                                 void *context, cairn_evaluation *out, cairn_error *err) {
    cairn_evaluation made = {0};
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_evaluation, out, err);
    crn_loader_seek(evaluator->loader, 0);
    uint64_t batches = crn_loader_batches(evaluator->loader);
    for (uint64_t i = 0; i < batches; i++) {
        if (evaluator->progress != NULL &&
            !evaluator->progress(evaluator->progress_context, i, batches))
            return crn_fail_cancelled(err);
        CRN_TRY(run_batch(evaluator, predicted, context, &made, err));
    }
    made.loss /= (double)made.predictions;
    crn_write_output(out, &made, sizeof made);
    return CAIRN_OK;
}
