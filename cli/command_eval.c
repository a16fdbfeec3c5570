/* command_eval.c: `cairn eval` and `cairn predict`: a trained network over data: its loss and
 * accuracy, and what it says about every sample. */
#include "cairn/safetensors.h"
#include "dataset.h"
#include "interrupt.h"
#include "model.h"
#include "outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct said {
    int32_t label, predicted; /* predicted -1: an output is NaN */
    double probability;
    char split; /* 't' or 'v'; 0: not asked for */
} said;

typedef struct evaluating {
    const cli_args *args;
    char path[4096]; /* of the weights */
    cairn_safetensors *weights;
    cairn_data *data;
    cli_model model;
    bool normalise;
    cairn_evaluator *evaluators[2]; /* by split; NULL: it is not asked for */
    cairn_evaluation result;
    cairn_split split; /* that is being run */
    uint32_t count, classes;
    said *all;     /* by the number of the sample; NULL: not kept */
    float *logits; /* likewise, `classes` each */
} evaluating;

static uint32_t size_of_split(const evaluating *e, cairn_split split) {
    const cairn_data_info *info = cairn_data_get_info(e->data);
    return split == CAIRN_SPLIT_TRAIN ? info->train : info->validation;
}

/* ---- Setting up ---- */

static const char *split_name(uint32_t index) {
    static const char *const names[] = {"train", "validation", "all"};
    return index < 3 ? names[index] : NULL;
}

/* The size that the weights are for, and else that of the samples. */
static int open_model(evaluating *e, const cli_origin *origin) {
    const cairn_data_info *info = cairn_data_get_info(e->data);
    cli_origin size = *origin;
    char name[4096];
    int code = cli_weights_model(e->args, e->path, origin, name);
    if (code != CLI_DONE)
        return code;
    for (uint32_t i = 0; origin->input[0] == 0 && i < 3 && i < info->rank; i++)
        size.input[i] = info->shape[i];
    if (size.classes == 0)
        size.classes = info->classes;
    code = cli_model_open_for(e->args, name, size.input, size.classes, 0, &e->model);
    if (code == CLI_DONE)
        cli_compare_network(e->model.graph, name, e->path, origin);
    return code;
}

/* The second evaluator works on the memory of the first, which has the weights. */
static cairn_status create_evaluators(evaluating *e, uint32_t splits, cairn_error *err) {
    cairn_evaluator_options options = CAIRN_EVALUATOR_OPTIONS_INIT;
    cairn_status status = CAIRN_OK;
    options.normalise = e->normalise;
    options.progress = cli_goes_on;
    for (uint32_t s = 0; s < 2 && status == CAIRN_OK; s++) {
        options.split = (cairn_split)s;
        if (splits == (s ^ 1) || (splits == 2 && size_of_split(e, options.split) == 0))
            continue;
        status = cairn_evaluator_create(e->model.graph, e->model.device, e->model.costs, e->data,
                                        &options, &e->evaluators[s], err);
        if (status == CAIRN_OK && options.share_with == NULL)
            options.share_with = cairn_evaluator_exec(e->evaluators[s]);
    }
    if (status != CAIRN_OK)
        return status;
    cairn_text notices = {0};
    uint32_t count;
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(e->weights, &count);
    status = cairn_weights_assign(options.share_with, e->model.graph, tensors, count, e->path,
                                  &notices, err);
    cli_print_notices(&notices);
    return status;
}

static int set_up(evaluating *e, uint32_t default_split) {
    uint32_t splits;
    uint64_t seed;
    cairn_error err = {0};
    const char *weights = cli_value(e->args, "weights");
    if (weights == NULL || cli_value(e->args, "data") == NULL)
        return cli_usage_error(e->args, "it needs --weights FILE and --data SOURCE");
    if (!cli_choice_value(e->args, "split", split_name, default_split, &splits))
        return CLI_USAGE;
    int code = cli_load_weights(weights, e->path, &e->weights);
    if (code != CLI_DONE)
        return code;
    cli_origin origin = cli_weights_origin(e->weights);
    if (!cli_number(e->args, "seed", 0, UINT64_MAX, origin.seed, &seed))
        return CLI_USAGE;
    uint64_t tokens;
    if (!cli_number(e->args, "seq", 1, UINT32_MAX, origin.input[0], &tokens))
        return CLI_USAGE;
    origin.tokens = (uint32_t)tokens;
    code = cli_open_data(e->args, seed, &origin, &e->data);
    if (code == CLI_DONE)
        code = open_model(e, &origin);
    if (code == CLI_DONE)
        code = cli_set_normalisation(e->args, e->data, e->weights, &e->normalise);
    if (code != CLI_DONE)
        return code;
    cairn_status status = create_evaluators(e, splits, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

static void take_down(evaluating *e) {
    /* the first to be made is the last to go: the other works on its memory */
    cairn_evaluator_destroy(e->evaluators[CAIRN_SPLIT_VALIDATION]);
    cairn_evaluator_destroy(e->evaluators[CAIRN_SPLIT_TRAIN]);
    cli_model_close(&e->model);
    cairn_data_destroy(e->data);
    cairn_safetensors_destroy(e->weights);
    free(e->all);
    free(e->logits);
    free(e);
}

/* ---- Running ---- */

static cairn_status keep(void *context, const cairn_prediction *p, cairn_error *err) {
    evaluating *e = context;
    uint32_t number = p->number;
    (void)err;
    e->all[number] =
        (said){p->label, p->predicted, p->probability, e->split == CAIRN_SPLIT_TRAIN ? 't' : 'v'};
    memcpy(e->logits + (size_t)number * e->classes, p->logits, e->classes * sizeof *p->logits);
    return CAIRN_OK;
}

static int evaluate(evaluating *e) {
    cairn_error err = {0};
    double loss = 0;
    e->result = (cairn_evaluation)CAIRN_EVALUATION_INIT;
    for (uint32_t s = 0; s < 2; s++) {
        cairn_evaluation one = CAIRN_EVALUATION_INIT;
        if (e->evaluators[s] == NULL)
            continue;
        e->split = (cairn_split)s;
        cairn_status status =
            cairn_evaluator_run(e->evaluators[s], e->all == NULL ? NULL : keep, e, &one, &err);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
        loss += one.loss * (double)one.predictions;
        e->result.correct += one.correct;
        e->result.predictions += one.predictions;
    }
    e->result.loss = loss / (double)e->result.predictions;
    return CLI_DONE;
}

/* Room for what is said about every sample. */
static int make_room(evaluating *e) {
    if (cairn_data_get_info(e->data)->tokens)
        return cli_usage_error(e->args, "it is for samples with one label; see cairn sample");
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(e->model.graph, &summary);
    e->classes = cairn_graph_tensor(e->model.graph, summary.output)->shape[1];
    e->count = size_of_split(e, CAIRN_SPLIT_TRAIN) + size_of_split(e, CAIRN_SPLIT_VALIDATION);
    e->all = calloc(e->count, sizeof *e->all);
    e->logits = calloc((size_t)e->count * e->classes, sizeof *e->logits);
    return e->all != NULL && e->logits != NULL ? CLI_DONE : cli_fail(CAIRN_ENOMEM, NULL);
}

/* ---- cairn eval ---- */

static const char *splits_of(const evaluating *e) {
    return e->evaluators[0] == NULL ? "validation" : e->evaluators[1] == NULL ? "train" : "all";
}

static void print_score(const evaluating *e) {
    const cairn_evaluation *r = &e->result;
    double accuracy = (double)r->correct / (double)r->predictions;
    if (cli_flag(e->args, "json")) {
        printf("{\"split\": \"%s\", \"samples\": %llu, \"loss\": %s, \"correct\": %llu, "
               "\"accuracy\": %.6f, ",
               splits_of(e), (unsigned long long)r->predictions, cli_json_real(r->loss),
               (unsigned long long)r->correct, accuracy);
        cli_print_normalisation_json(e->data, e->normalise);
        printf("}\n");
        return;
    }
    const cairn_data_info *info = cairn_data_get_info(e->data);
    printf("%s by %s, backend %s\n", cairn_graph_name(e->model.graph), e->path, e->model.backend);
    printf("  data            %12llu %s (--split %s%s)\n", (unsigned long long)r->predictions,
           info->tokens ? "tokens" : "samples", splits_of(e),
           info->held_out && strcmp(splits_of(e), "all") != 0 ? ", drawn by --validation and --seed"
                                                              : "");
    cli_print_normalisation(e->data, e->normalise);
    printf("  loss            %12s\n", cli_loss(r->loss));
    printf("  accuracy        %11.2f%% %llu of %llu\n", 100 * accuracy,
           (unsigned long long)r->correct, (unsigned long long)r->predictions);
}

static int run_with(const cli_args *args, uint32_t default_split, int (*then)(evaluating *)) {
    evaluating *e = calloc(1, sizeof *e);
    if (e == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    e->args = args;
    cli_catch_interrupts();
    int code = set_up(e, default_split);
    if (code == CLI_DONE)
        code = then(e);
    take_down(e);
    return code;
}

static int evaluate_and_print(evaluating *e) {
    int code = evaluate(e);
    if (code == CLI_DONE)
        print_score(e);
    return code;
}

static int eval(const cli_args *args) {
    return run_with(args, CAIRN_SPLIT_VALIDATION, evaluate_and_print);
}

/* ---- cairn predict ---- */

static int write_lines(const void *context, FILE *file) {
    const evaluating *e = context;
    for (uint32_t i = 0; i < e->count; i++) {
        const said *s = &e->all[i];
        if (s->split == 0)
            continue;
        fprintf(file, "{\"sample\": %u, \"split\": \"%s\", \"label\": %d, \"predicted\": %d", i,
                s->split == 't' ? "train" : "validation", s->label, s->predicted);
        if (s->predicted >= 0)
            fprintf(file, ", \"probability\": %.6f", s->probability);
        fprintf(file, "}\n");
    }
    return CLI_DONE; /* whether it was written is seen when the file is closed */
}

/* Of all samples those that were asked for, moved together. Returns how many. */
static uint32_t pack(const evaluating *e, int32_t *numbers, int32_t *labels, int32_t *predicted) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->all[i].split == 0)
            continue;
        numbers[count] = (int32_t)i;
        labels[count] = e->all[i].label;
        predicted[count] = e->all[i].predicted;
        memmove(e->logits + (size_t)count++ * e->classes, e->logits + (size_t)i * e->classes,
                e->classes * sizeof *e->logits);
    }
    return count;
}

static int write_tensors(const evaluating *e, const char *path) {
    int32_t *words = calloc((size_t)e->count * 3, sizeof *words);
    cairn_error err = {0};
    if (words == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    int32_t *labels = words + e->count, *predicted = labels + e->count;
    uint32_t n = pack(e, words, labels, predicted);
    cairn_named_tensor tensors[] = {
        {.name = "sample", .element = CAIRN_ELEMENT_I32, .rank = 1, .shape = {n}, .data = words},
        {.name = "label", .element = CAIRN_ELEMENT_I32, .rank = 1, .shape = {n}, .data = labels},
        {.name = "predicted",
         .element = CAIRN_ELEMENT_I32,
         .rank = 1,
         .shape = {n},
         .data = predicted},
        {.name = "logits",
         .element = CAIRN_ELEMENT_F32,
         .rank = 2,
         .shape = {n, e->classes},
         .data = e->logits},
    };
    cairn_status status = cairn_safetensors_save(NULL, path, tensors, 4, NULL, 0, &err);
    free(words);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

static int write_predictions(evaluating *e) {
    const char *path = cli_value(e->args, "output");
    size_t length = path == NULL ? 0 : strlen(path);
    if (path == NULL || strcmp(path, "-") == 0)
        return write_lines(e, stdout);
    if (length > 12 && strcmp(path + length - 12, ".safetensors") == 0)
        return write_tensors(e, path);
    return cli_write_file(path, write_lines, e);
}

static int predict_and_write(evaluating *e) {
    int code = make_room(e);
    if (code == CLI_DONE)
        code = evaluate(e);
    return code == CLI_DONE ? write_predictions(e) : code;
}

static int predict(const cli_args *args) {
    return run_with(args, 2, predict_and_write);
}

/* ---- Tables ---- */

#define OPTIONS                                                                                    \
    {"weights", 'w', "FILE", "weights (safetensors), a snapshot, or the folder of a run"},         \
        {"data", 'd', "SOURCE", "samples with labels, as 'cairn train' takes them"},               \
        CLI_DATA_OPTIONS, {                                                                        \
        "seed", 0, "N", "seed of the split and the synthetic task (default: that of the training)" \
    }

static const cli_option eval_options[] = {
    OPTIONS,
    {"split", 0, "NAME", "validation (default), train or all"},
    CLI_MODEL_OPTIONS,
    CLI_RUN_OPTIONS,
    {NULL, 0, NULL, NULL},
};

static const cli_option predict_options[] = {
    OPTIONS,
    {"split", 0, "NAME", "validation, train or all (default)"},
    {"output", 'o', "FILE", "write tensors if FILE ends in .safetensors, else lines of JSON"},
    CLI_MODEL_OPTIONS,
    CLI_RUN_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_eval = {
    .name = "eval",
    .arguments = "[MODEL]",
    .summary = "loss and accuracy of a trained network on data",
    .details =
        "MODEL may be left out if the weights name their network, as those of 'cairn train'\n"
        "do. The network is evaluated as it is after training: batch-norm by its running\n"
        "statistics, no dropout.\n\n" CLI_NORMALISE_DETAILS,
    .lists = {{"Data sources", cli_list_sources}},
    .examples = "eval --weights my.safetensors --data tensors:FOLDER\n"
                "eval --weights run --data mnist:FOLDER --split train",
    .options = eval_options,
    .run = eval,
    .computes = true,
    .runs = true,
};

const cli_command cli_command_predict = {
    .name = "predict",
    .arguments = "[MODEL]",
    .summary = "what a trained network says about every sample",
    .details = "Prints one line of JSON per sample, in the order of the files: label, predicted\n"
               "class and its probability. A file of tensors has sample [n], label [n],\n"
               "predicted [n] and logits [n, classes].\n\n" CLI_NORMALISE_DETAILS,
    .lists = {{"Data sources", cli_list_sources}},
    .examples = "predict --weights my.safetensors --data tensors:FOLDER >lines.jsonl\n"
                "predict --weights run --data tensors:FOLDER -o predictions.safetensors",
    .options = predict_options,
    .run = predict,
    .computes = true,
    .runs = true,
};
