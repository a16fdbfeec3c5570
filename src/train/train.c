/* train.c: a session, and its steps.
 *
 *     micro-batch  0 1 2 | 3 4 5 | 6 7 8 ...    three to a step
 *     step           1   |   2   |   3
 *
 * Micro-batch m sees batch m of the loader, and dropout draws from m + 1, as does the drawn data:
 * so that step 1 of a session without data draws what `cairn train` has always drawn in its first
 * step. */
#include "base/watch.h"
#include "graph/crn_graph.h"
#include "train/train_internal.h"

#include <time.h>

static int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- The ends of the network ---- */

/* Labels that the loss compares with, of a micro-batch. */
static uint64_t count_predictions(const cairn_train *train) {
    if (train->ends.label == CAIRN_NONE)
        return 0;
    return cairn_graph_tensor(train->graph, train->ends.label)->bytes / sizeof(int32_t);
}

/* Find the network's ends; with data, see that it fits them. */
static cairn_status find_ends(cairn_train *train, cairn_error *err) {
    train->ends = crn_network_ends_of(train->graph);
    train->predictions = count_predictions(train) * train->micro_batches;
    if (train->options.data == NULL)
        return CAIRN_OK;
    return crn_network_ends_check(train->graph, &train->ends,
                                  cairn_data_get_info(train->options.data), err);
}

/* ---- Making one ---- */

static cairn_status create_loader(cairn_train *train, uint64_t seed, cairn_error *err) {
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    options.batch = train->ends.batch;
    options.seed = seed;
    options.shuffle = true;
    options.flip = train->options.flip;
    options.crop = train->options.crop;
    options.normalise = train->options.normalise;
    options.device = train->device;
    return crn_loader_create(train->options.data, &options, &train->loader, err);
}

/* The evaluator works in the memory of the executor, and fetches what `plan` has on the host. */
static cairn_status open_data(cairn_train *train, const cairn_costs *costs, const cairn_plan *plan,
                              const cairn_exec_options *exec, cairn_error *err) {
    CRN_TRY(create_loader(train, exec->seed, err));
    if (cairn_data_get_info(train->options.data)->validation == 0)
        return CAIRN_OK;
    cairn_evaluator_options options = CAIRN_EVALUATOR_OPTIONS_INIT;
    options.normalise = train->options.normalise;
    options.share_with = train->exec;
    if (cairn_exec_get_figures(train->exec)->home_bytes > 0)
        options.homes = plan;
    options.check = exec->check;
    options.progress = train->options.progress;
    options.progress_context = train->options.progress_context;
    return cairn_evaluator_create(train->graph, train->device, costs, train->options.data, &options,
                                  &train->evaluator, err);
}

static cairn_status prepare(cairn_train *train, const cairn_costs *costs,
                            const cairn_solution *solution, cairn_error *err) {
    cairn_exec_options exec = CAIRN_EXEC_OPTIONS_INIT;
    CRN_READ_OPTIONS(cairn_exec_options, exec, train->options.exec, err);
    exec.micro_batches = CRN_MAX(exec.micro_batches, 1);
    exec.update_in_run = true;
    train->options.exec = NULL; /* the caller's; not kept */
    train->micro_batches = exec.micro_batches;
    if (solution->plan->header->goal != CAIRN_GOAL_TRAIN)
        return crn_fail(err, CAIRN_EINVAL, "the plan is for evaluation and computes no gradients");
    CRN_TRY(find_ends(train, err));
    CRN_TRY(
        cairn_exec_create(train->graph, train->device, costs, solution, &exec, &train->exec, err));
    if (train->options.data != NULL)
        CRN_TRY(open_data(train, costs, solution->plan, &exec, err));
    return crn_conditions_init(train, &exec);
}

cairn_status cairn_train_create(const cairn_graph *graph, cairn_device *device,
                                const cairn_costs *costs, const cairn_solution *solution,
                                const cairn_train_options *given, cairn_train **out,
                                cairn_error *err) {
    cairn_train_options options = CAIRN_TRAIN_OPTIONS_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_train_options, options, given, err);
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_train *train = CRN_OBJECT(&allocator, cairn_train, memory);
    if (train == NULL)
        return crn_fail_memory(err);
    train->graph = graph;
    train->device = device;
    train->options = options;
    cairn_status status = prepare(train, costs, solution, err);
    if (status == CAIRN_OK && train->options.model != NULL) {
        train->options.model = crn_arena_string(&train->memory, train->options.model);
        status = train->options.model == NULL ? CAIRN_ENOMEM : CAIRN_OK;
    }
    if (status != CAIRN_OK) {
        cairn_train_destroy(train);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = train;
    return CAIRN_OK;
}

void cairn_train_destroy(cairn_train *train) {
    if (train == NULL)
        return;
    cairn_evaluator_destroy(train->evaluator);
    cairn_exec_destroy(train->exec);
    crn_loader_destroy(train->loader);
    crn_history_release(train);
    crn_arena_destroy(&train->memory);
}

cairn_exec *cairn_train_exec(cairn_train *train) {
    return train->exec;
}

uint64_t crn_train_epoch_steps(const cairn_train *train) {
    if (train->loader == NULL)
        return 0;
    return CRN_MAX(crn_loader_batches(train->loader) / train->micro_batches, 1);
}

void crn_train_go_to(cairn_train *train, uint64_t steps) {
    train->position = steps * train->micro_batches;
    crn_exec_set_updates(train->exec, steps);
    if (train->loader != NULL)
        crn_loader_seek(train->loader, train->position);
}

/* Whether the caller wants to go on. */
static bool goes_on(const cairn_train *train, uint64_t done, uint64_t total) {
    const cairn_train_options *o = &train->options;
    return o->progress == NULL || o->progress(o->progress_context, done, total);
}

/* ---- Steps ---- */

/* The samples of the next micro-batch, into the executor; the loader keeps them until the next. */
static cairn_status feed(cairn_train *train, cairn_train_result *out, cairn_error *err) {
    if (train->loader == NULL)
        return cairn_exec_fill(train->exec, train->position + 1, err);
    crn_batch batch = {0};
    int64_t start = clock_ns();
    CRN_TRY(crn_loader_next(train->loader, &batch, err));
    CRN_TRY(cairn_exec_feed(train->exec, train->ends.input, crn_batch_inputs(&batch), err));
    CRN_TRY(cairn_exec_feed(train->exec, train->ends.label, batch.labels, err));
    out->data_ns += clock_ns() - start;
    return CAIRN_OK;
}

static cairn_status run_micro_batch(cairn_train *train, cairn_train_result *out, double *loss,
                                    cairn_error *err) {
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    CRN_TRY(feed(train, out, err));
    CRN_TRY(cairn_exec_run(train->exec, ++train->position, &result, err));
    *loss += (double)result.loss;
    out->correct += result.correct;
    out->predictions += result.predictions;
    out->samples += train->ends.batch;
    out->time_ns += result.time_ns;
    out->idle_ns += result.idle_ns;
    out->measured_peak_bytes = CRN_MAX(out->measured_peak_bytes, result.measured_peak_bytes);
    return CAIRN_OK;
}

/* Which epoch the step just done belongs to, and whether the next begins another. */
static void place_in_epoch(const cairn_train *train, cairn_train_result *out) {
    if (train->loader == NULL)
        return;
    uint64_t batches = crn_loader_batches(train->loader);
    out->epoch = (train->position - 1) / batches + 1;
    out->epoch_end = train->position / batches > (train->position - train->micro_batches) / batches;
}

cairn_status cairn_train_step(cairn_train *train, cairn_train_result *out, cairn_error *err) {
    crn_history *history = &train->history;
    double loss = 0;
    cairn_train_result made = {0};
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_train_result, out, err);
    if (crn_history_reserve(train, history->steps + 1, history->score_count + 1) != CAIRN_OK)
        return crn_fail_memory(err);
    if (!goes_on(train, history->steps, train->options.schedule.total))
        return crn_fail_cancelled(err);
    made.rate = crn_schedule_rate(&train->options.schedule, history->steps);
    cairn_exec_set_rate(train->exec, made.rate);
    for (uint32_t i = 0; i < train->micro_batches; i++)
        CRN_TRY(run_micro_batch(train, &made, &loss, err));
    made.loss = (float)(loss / train->micro_batches);
    crn_history_add_step(history, made.loss, made.correct);
    made.step = history->steps;
    place_in_epoch(train, &made);
    crn_write_output(out, &made, sizeof made);
    return CAIRN_OK;
}

/* ---- Evaluation ---- */

cairn_status cairn_train_evaluate(cairn_train *train, cairn_train_score *out, cairn_error *err) {
    crn_history *history = &train->history;
    cairn_evaluation made = CAIRN_EVALUATION_INIT;
    *out = (cairn_train_score){.step = history->steps};
    crn_error_clear(err);
    if (train->evaluator == NULL)
        return crn_fail(err, CAIRN_EINVAL, "there are no validation samples");
    if (crn_history_reserve(train, history->steps, history->score_count + 1) != CAIRN_OK)
        return crn_fail_memory(err);
    CRN_TRY(cairn_evaluator_run(train->evaluator, NULL, NULL, &made, err));
    out->loss = made.loss;
    out->correct = made.correct;
    out->predictions = made.predictions;
    crn_history_add_score(history, out);
    return CAIRN_OK;
}
