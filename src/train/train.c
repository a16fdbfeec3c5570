/* train.c: a session, and its steps.
 *
 *     micro-batch  0 1 2 | 3 4 5 | 6 7 8 ...    three to a step
 *     step           1   |   2   |   3
 *
 * Micro-batch m sees batch m of the loader, and dropout draws from m + 1, as does the drawn data:
 * so that step 1 of a session without data draws what `cairn train` has always drawn in its first
 * step. */
#include "base/watch.h"
#include "train/train_internal.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Do the samples fit? ---- */

/* The one tensor of a role, or CAIRN_NONE: there is none, or several. */
static cairn_id only_tensor(const cairn_graph *graph, cairn_role role) {
    cairn_id found = CAIRN_NONE;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        if (cairn_graph_tensor(graph, t)->role == role) {
            if (found != CAIRN_NONE)
                return CAIRN_NONE;
            found = t;
        }
    return found;
}

static const char *shape_text(char *buffer, size_t size, uint32_t rank, const uint32_t *shape) {
    size_t used = 0;
    buffer[0] = '\0';
    for (uint32_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%u", i > 0 ? "x" : "", shape[i]);
    return buffer;
}

static cairn_status check_input(const cairn_train *train, const cairn_data_info *info,
                                cairn_error *err) {
    const cairn_tensor *input = cairn_graph_tensor(train->graph, train->input);
    cairn_dtype dtype = info->tokens ? CAIRN_DTYPE_I32 : CAIRN_DTYPE_F32;
    bool same = input->dtype == dtype && input->rank == info->rank + 1;
    for (uint32_t i = 0; same && i < info->rank; i++)
        same = input->shape[i + 1] == info->shape[i];
    if (same)
        return CAIRN_OK;
    char has[80], wants[80];
    return crn_fail(
        err, CAIRN_EINVAL,
        "the samples are %s, and %s takes %s; build it for them, or take other data",
        shape_text(has, sizeof has, info->rank, info->shape), cairn_graph_name(train->graph),
        shape_text(wants, sizeof wants, input->rank > 0 ? input->rank - 1 : 0, input->shape + 1));
}

static cairn_status check_label(const cairn_train *train, const cairn_data_info *info,
                                cairn_error *err) {
    const cairn_tensor *label = cairn_graph_tensor(train->graph, train->label);
    uint32_t rank = info->tokens ? 2 : 1;
    if (label->dtype != CAIRN_DTYPE_I32 || label->rank != rank || label->shape[0] != train->batch ||
        (info->tokens && label->shape[1] != info->shape[0]))
        return crn_fail(err, CAIRN_EINVAL, "%s does not take one label a %s",
                        cairn_graph_name(train->graph), info->tokens ? "token" : "sample");
    if (info->classes > train->classes)
        return crn_fail(err, CAIRN_EINVAL,
                        "the samples are of %u classes, and %s tells only %u apart", info->classes,
                        cairn_graph_name(train->graph), train->classes);
    return CAIRN_OK;
}

/* Labels that the loss compares with, of a micro-batch. */
static uint64_t count_predictions(const cairn_train *train) {
    if (train->label == CAIRN_NONE)
        return 0;
    return cairn_graph_tensor(train->graph, train->label)->bytes / sizeof(int32_t);
}

/* Find the network's ends; with data, see that it fits them. */
static cairn_status find_ends(cairn_train *train, cairn_error *err) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(train->graph, &summary);
    train->input = only_tensor(train->graph, CAIRN_ROLE_INPUT);
    train->label = only_tensor(train->graph, CAIRN_ROLE_LABEL);
    if (summary.input != CAIRN_NONE)
        train->batch = cairn_graph_tensor(train->graph, summary.input)->shape[0];
    if (summary.output != CAIRN_NONE) {
        const cairn_tensor *output = cairn_graph_tensor(train->graph, summary.output);
        bool tokens = output->rank == 3; /* [N, T, V]; pixels are [N, C, H, W] */
        train->classes = output->rank > 1 ? output->shape[tokens ? 2 : 1] : 0;
    }
    train->predictions = count_predictions(train) * train->micro_batches;
    if (train->options.data == NULL)
        return CAIRN_OK;
    if (train->input == CAIRN_NONE || train->label == CAIRN_NONE)
        return crn_fail(err, CAIRN_EINVAL,
                        "%s does not take one input and one label, which the data has",
                        cairn_graph_name(train->graph));
    cairn_data_info info = *cairn_data_get_info(train->options.data);
    CRN_TRY(check_input(train, &info, err));
    return check_label(train, &info, err);
}

/* ---- Making one ---- */

static cairn_status create_loader(cairn_train *train, uint64_t seed, cairn_split split,
                                  cairn_loader **out, cairn_error *err) {
    cairn_loader_options options = CAIRN_LOADER_OPTIONS_INIT;
    bool training = split == CAIRN_SPLIT_TRAIN;
    options.split = split;
    options.batch = train->batch;
    options.seed = seed;
    options.shuffle = training;
    options.flip = training && train->options.flip;
    options.crop = training ? train->options.crop : 0;
    options.normalise = train->options.normalise;
    options.device = train->device;
    return cairn_loader_create(train->options.data, &options, out, err);
}

/* The second executor, in the memory of the first. It fetches what `plan` has on the host. */
static cairn_status create_evaluator(cairn_train *train, const cairn_costs *costs,
                                     const cairn_plan *plan, const cairn_exec_options *given,
                                     cairn_error *err) {
    cairn_exec_options options = *given;
    cairn_solution *solution;
    options.share_with = train->exec;
    options.budget_bytes = 0;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(train->graph, &summary);
    CRN_TAKE(&train->memory, train->logits,
             cairn_graph_tensor(train->graph, summary.output)->bytes / sizeof *train->logits);
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(train->device, &facts);
    solve.machine = facts.machine;
    if (cairn_exec_get_figures(train->exec)->home_bytes > 0)
        solve.homes = plan;
    CRN_TRY(cairn_solve(train->graph, costs, "infer", &solve, &solution, err));
    cairn_status status = cairn_exec_create(train->graph, train->device, costs, solution, &options,
                                            &train->evaluator, err);
    cairn_solution_destroy(solution);
    return status;
}

static cairn_status open_data(cairn_train *train, const cairn_costs *costs, const cairn_plan *plan,
                              const cairn_exec_options *exec, cairn_error *err) {
    CRN_TRY(create_loader(train, exec->seed, CAIRN_SPLIT_TRAIN, &train->loader, err));
    if (cairn_data_get_info(train->options.data)->validation == 0)
        return CAIRN_OK;
    CRN_TRY(create_loader(train, exec->seed, CAIRN_SPLIT_VALIDATION, &train->validation, err));
    return create_evaluator(train, costs, plan, exec, err);
}

static cairn_status prepare(cairn_train *train, const cairn_costs *costs,
                            const cairn_solution *solution, cairn_error *err) {
    cairn_exec_options exec = CAIRN_EXEC_OPTIONS_INIT;
    CRN_READ_OPTIONS(cairn_exec_options, exec, train->options.exec, err);
    exec.micro_batches = CRN_MAX(exec.micro_batches, 1);
    exec.update_in_run = true;
    train->options.exec = NULL; /* the caller's; not kept */
    train->micro_batches = exec.micro_batches;
    if (cairn_plan_get_header(solution->plan)->goal != CAIRN_GOAL_TRAIN)
        return crn_fail(err, CAIRN_EINVAL,
                        "the plan is for evaluation; it computes no gradients to train by");
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
    cairn_allocator allocator = cairn_graph_allocator(graph);
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
    cairn_exec_destroy(train->evaluator);
    cairn_exec_destroy(train->exec);
    cairn_loader_destroy(train->validation);
    cairn_loader_destroy(train->loader);
    crn_history_release(train);
    crn_arena_destroy(&train->memory);
}

cairn_exec *cairn_train_exec(cairn_train *train) {
    return train->exec;
}

uint64_t cairn_train_steps(const cairn_train *train) {
    return train->history.steps;
}

uint64_t cairn_train_epoch_steps(const cairn_train *train) {
    if (train->loader == NULL)
        return 0;
    return CRN_MAX(cairn_loader_batches(train->loader) / train->micro_batches, 1);
}

void crn_train_go_to(cairn_train *train, uint64_t steps) {
    train->position = steps * train->micro_batches;
    cairn_exec_set_updates(train->exec, steps);
    if (train->loader != NULL)
        cairn_loader_seek(train->loader, train->position);
}

/* Whether the caller wants to go on. */
static bool goes_on(const cairn_train *train, uint64_t done, uint64_t total) {
    const cairn_train_options *o = &train->options;
    return o->progress == NULL || o->progress(o->progress_context, done, total);
}

/* ---- Steps ---- */

static const void *inputs_of(const cairn_batch *batch) {
    return batch->tokens != NULL ? (const void *)batch->tokens : batch->inputs;
}

/* The samples of the next micro-batch, into the executor; the loader keeps them until the next. */
static cairn_status feed(cairn_train *train, cairn_train_result *out, cairn_error *err) {
    if (train->loader == NULL)
        return cairn_exec_fill(train->exec, train->position + 1, err);
    cairn_batch batch = CAIRN_BATCH_INIT;
    int64_t start = clock_ns();
    CRN_TRY(cairn_loader_next(train->loader, &batch, err));
    CRN_TRY(cairn_exec_feed(train->exec, train->input, inputs_of(&batch), err));
    CRN_TRY(cairn_exec_feed(train->exec, train->label, batch.labels, err));
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
    out->samples += train->batch;
    out->time_ns += result.time_ns;
    out->idle_ns += result.idle_ns;
    out->measured_peak_bytes = CRN_MAX(out->measured_peak_bytes, result.measured_peak_bytes);
    return CAIRN_OK;
}

/* Which epoch the step just done belongs to, and whether the next begins another. */
static void place_in_epoch(const cairn_train *train, cairn_train_result *out) {
    if (train->loader == NULL)
        return;
    uint64_t batches = cairn_loader_batches(train->loader);
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
    made.rate = cairn_schedule_rate(&train->options.schedule, history->steps);
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

/* The loss of one sample, or one token: log(sum of exp(x - largest)) - (x[label] - largest), and
 * whether the label is the likeliest class; of equals the first is, where there are NaNs none. */
static double sample_loss(const float *x, uint32_t classes, int32_t label, bool *correct) {
    float largest = x[0];
    for (uint32_t c = 1; c < classes; c++)
        largest = x[c] > largest ? x[c] : largest;
    double sum = 0;
    *correct = true;
    for (uint32_t c = 0; c < classes; c++) {
        sum += exp((double)(x[c] - largest));
        *correct &= c < (uint32_t)label ? x[label] > x[c] : x[label] >= x[c];
    }
    return log(sum) - (double)(x[label] - largest);
}

static cairn_status score_batch(cairn_train *train, double *loss, cairn_train_score *out,
                                cairn_error *err) {
    cairn_batch batch = CAIRN_BATCH_INIT;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(train->graph, &summary);
    CRN_TRY(cairn_loader_next(train->validation, &batch, err));
    CRN_TRY(cairn_exec_feed(train->evaluator, train->input, inputs_of(&batch), err));
    CRN_TRY(cairn_exec_run(train->evaluator, 0, &result, err));
    CRN_TRY(cairn_exec_read(train->evaluator, summary.output, train->logits, err));
    const float *logits = train->logits;
    uint64_t labels =
        batch.tokens == NULL
            ? batch.count
            : batch.count * (uint64_t)cairn_data_get_info(train->options.data)->shape[0];
    for (uint64_t n = 0; n < labels; n++) {
        bool correct;
        *loss += sample_loss(logits + (size_t)n * train->classes, train->classes, batch.labels[n],
                             &correct);
        out->correct += correct;
    }
    out->predictions += labels;
    return CAIRN_OK;
}

cairn_status cairn_train_evaluate(cairn_train *train, cairn_train_score *out, cairn_error *err) {
    crn_history *history = &train->history;
    double loss = 0;
    *out = (cairn_train_score){.step = history->steps};
    crn_error_clear(err);
    if (train->evaluator == NULL)
        return crn_fail(err, CAIRN_EINVAL, "there are no validation samples");
    if (crn_history_reserve(train, history->steps, history->score_count + 1) != CAIRN_OK)
        return crn_fail_memory(err);
    cairn_loader_seek(train->validation, 0);
    uint64_t batches = cairn_loader_batches(train->validation);
    for (uint64_t i = 0; i < batches; i++) {
        if (!goes_on(train, i, batches))
            return crn_fail_cancelled(err);
        CRN_TRY(score_batch(train, &loss, out, err));
    }
    out->loss = loss / (double)out->predictions;
    crn_history_add_score(history, out);
    return CAIRN_OK;
}
