/* command_train.c: `cairn train MODEL`: plan, then train. */
#include "interrupt.h"
#include "outputs.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- A step and what follows it ---- */

/* The step, or with `scored` the evaluation, that the history ends with. */
static int log_line(cli_training *t, bool scored) {
    cairn_text text = {0};
    cairn_train_history h = CAIRN_TRAIN_HISTORY_INIT;
    if (t->log == NULL)
        return CLI_DONE;
    cairn_train_get_history(t->train, &h);
    cairn_status status =
        cairn_train_log(t->train, h.steps - !scored, h.score_count - scored, &text);
    return status == CAIRN_OK ? cli_train_log(t, &text) : cli_fail(status, NULL);
}

/* At the end of an epoch and of the run, where there is something to validate with. */
static int evaluate(cli_training *t, const cairn_train_result *r) {
    cairn_train_score score;
    cairn_error err = {0};
    if (cairn_data_get_info(t->data)->validation == 0) {
        cli_train_print_score(t, r, NULL);
        return CLI_DONE;
    }
    cairn_status status = cairn_train_evaluate(t->train, &score, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    cli_train_print_score(t, r, &score);
    return log_line(t, true);
}

static int take_snapshot(cli_training *t) {
    cairn_error err = {0};
    cairn_status status = cairn_train_snapshot(t->train, t->folder, &err);
    if (status == CAIRN_OK)
        return CLI_DONE;
    cli_train_clear_progress(t);
    return cli_fail(status, &err);
}

/* A loss that is no number stays one: say so once, and stop unless told otherwise. */
static int check_loss(cli_training *t, const cairn_train_result *r) {
    if (isfinite(r->loss) || t->warned)
        return CLI_DONE;
    t->warned = true;
    cli_train_clear_progress(t);
    fprintf(stderr,
            "cairn: the loss of step %llu is not finite; a smaller --lr, --warmup or --normalise "
            "data may help%s\n",
            (unsigned long long)r->step,
            t->stop_on_nan ? "; with --stop-on-nan no the run continues" : "");
    return t->stop_on_nan ? CLI_WRONG_INPUT : CLI_DONE;
}

static int one_step(cli_training *t) {
    cairn_train_result r = CAIRN_TRAIN_RESULT_INIT;
    cairn_error err = {0};
    cairn_status status = cairn_train_step(t->train, &r, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    cli_watch_step(&t->watch, r.time_ns);
    bool last = r.step == t->steps;
    bool scored = t->data != NULL && (r.epoch_end || last);
    bool due = t->snapshot_every > 0 && r.step % t->snapshot_every == 0;
    t->samples += r.samples;
    t->measured_peak = r.measured_peak_bytes;
    cli_train_print_step(t, &r);
    int code = log_line(t, false);
    if (code == CLI_DONE)
        code = check_loss(t, &r);
    if (code == CLI_DONE && scored)
        code = evaluate(t, &r);
    if (code == CLI_DONE && t->folder != NULL && (due || scored || last || cli_is_interrupted()))
        code = take_snapshot(t);
    return code;
}

/* ---- The whole run ---- */

static int save_weights(const cli_training *t) {
    const char *path = cli_value(t->args, "save");
    cairn_error err = {0};
    if (path == NULL)
        return CLI_DONE;
    cairn_status status = cairn_train_save_weights(t->train, path, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

static int say_interrupted(const cli_training *t) {
    fprintf(stderr, "cairn: interrupted after step %llu", (unsigned long long)cli_train_steps(t));
    if (t->folder != NULL)
        fprintf(stderr, "; continue with cairn train --resume %s", t->folder);
    fprintf(stderr, "\n");
    return CLI_INTERRUPTED;
}

static int train(cli_training *t) {
    int code = CLI_DONE;
    t->start_ns = cli_clock();
    t->first_step = cli_train_steps(t);
    cli_watch_init(&t->watch, &t->model, t->solution, t->exec.micro_batches);
    cli_train_print_head(t);
    while (code == CLI_DONE && !cli_is_interrupted() && cli_train_steps(t) < t->steps)
        code = one_step(t);
    bool whole = cli_train_steps(t) >= t->steps;
    if (code == CLI_DONE)
        code = cli_train_print_summary(t);
    if (code == CLI_DONE && t->folder != NULL && t->data != NULL)
        code = cli_train_draw(t);
    if (code == CLI_DONE)
        code = cli_train_write_page(t);
    if (code == CLI_DONE && whole)
        code = save_weights(t);
    return code == CLI_DONE && !whole ? say_interrupted(t) : code;
}

static int resume(cli_training *t) {
    cairn_text notices = {0};
    cairn_error err = {0};
    cairn_status status = cairn_train_resume(t->train, t->folder, &notices, &err);
    cli_print_notices(&notices);
    if (status == CAIRN_EUNKNOWN) /* it ended before its first snapshot */
        return CLI_DONE;
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

static int run_with(const cli_args *args) {
    cli_training t = {.args = args, .lock = -1};
    bool resumed = cli_value(args, "resume") != NULL;
    if (!cli_train_read_options(&t))
        return CLI_USAGE;
    cli_catch_interrupts();
    int code = cli_train_set_up(&t);
    if (code == CLI_DONE && t.folder != NULL)
        code = cli_train_open_folder(&t, resumed);
    if (code == CLI_DONE && resumed)
        code = resume(&t);
    if (code == CLI_DONE && t.folder != NULL)
        code = cli_train_write_options(&t);
    if (code == CLI_DONE)
        code = cli_train_open_log(&t);
    if (code == CLI_DONE)
        code = train(&t);
    if (t.log != NULL && fclose(t.log) != 0 && code == CLI_DONE)
        code = CLI_SYSTEM;
    if (t.lock >= 0)
        close(t.lock);
    cli_train_take_down(&t);
    return code;
}

static int run(const cli_args *args) {
    const char *folder = cli_value(args, "resume");
    char *lines = NULL;
    cli_args *recalled = NULL;
    if (folder == NULL)
        return run_with(args);
    if (cli_value(args, "out") != NULL)
        return cli_usage_error(args, "--out and --resume exclude each other");
    int code = cli_train_recall(args, folder, &lines, &recalled);
    if (code == CLI_DONE)
        code = cli_check_outputs(recalled);
    if (code == CLI_DONE)
        code = run_with(recalled);
    free(recalled);
    free(lines);
    return code;
}

static const cli_option options[] = {
    {"data", 'd', "SOURCE", "training data; without it random numbers (see above)"},
    {"epochs", 'e', "N", "passes over the data (default 1)"},
    {"steps", 'n', "N", "the number of steps, instead of --epochs (default 10 without --data)"},
    CLI_DATA_OPTIONS,
    {"augment", 0, "LIST", "flip, crop or crop:PIXELS (default 4), separated by commas"},
    {"optimizer", 0, "NAME", "sgd (default), adam or adamw"},
    {"lr", 0, "RATE", "learning rate (default 0.01; adam and adamw: 0.001)"},
    {"momentum", 0, "M", "sgd: momentum (default 0.9)"},
    {"nesterov", 0, NULL, "sgd: Nesterov momentum"},
    {"weight-decay", 0, "D", "weight decay (default 0; adamw: 0.01)"},
    {"decay-on", 0, "WHICH",
     "parameters that decay: all, or matrices, the default for transformers: no biases, norms and "
     "positions"},
    {"clip-norm", 0, "X", "the largest norm of all gradients; a larger one is reduced to it"},
    {"beta1", 0, "B", "adam, adamw: decay of the mean of gradients (default 0.9)"},
    {"beta2", 0, "B", "adam, adamw: decay of the mean of their squares (default 0.999)"},
    {"epsilon", 0, "E", "adam, adamw: added to the denominator (default 1e-8)"},
    {"schedule", 0, "NAME", "how the learning rate changes: constant (default), step or cosine"},
    {"warmup", 0, "N", "steps over which the learning rate rises to its full value"},
    {"decay-every", 0, "N",
     "--schedule step: steps between two decays (default: a third of all steps)"},
    {"decay-factor", 0, "F", "--schedule step: what a decay multiplies the rate by (default 0.1)"},
    {"lr-least", 0, "RATE", "--schedule cosine: the last learning rate (default 0)"},
    {"stop-on-nan", 0, "WHEN", "yes (default) or no: end when the loss is not finite"},
    {"label-smoothing", 0, "S", "share of the target that is spread over all classes"},
    {"accumulate", 0, "K", "micro-batches whose gradients are averaged for a step (default 1)"},
    {"weights", 'w', "FILE", "start from these weights (safetensors), or a run's folder"},
    {"save", 0, "FILE", "write the weights at the end (safetensors)"},
    {"out", 'o', "FOLDER", "write snapshots, a log and a picture there"},
    {"snapshot-every", 0, "N", "also write a snapshot every N steps, not only after each epoch"},
    {"resume", 0, "FOLDER",
     "continue the run in this folder; options given now override those of the run"},
    {"log", 0, "FILE", "one line of JSON per step (default FOLDER/log.jsonl)"},
    CLI_PAGE_OPTIONS,
    CLI_PLANNING_OPTIONS,
    CLI_SEARCH_OPTIONS,
    {"plan", 'p', "FILE", "use this plan instead of making one"},
    CLI_MODEL_OPTIONS,
    CLI_MEASURED_OPTION,
    CLI_RUN_OPTIONS,
    {"link-bandwidth", 0, "SIZE", "simulate a link to the host with this many bytes per second"},
    {"seed", 0, "N", "seed of all random numbers: parameters, data, dropout, algorithms"},
    {"check", 0, NULL, "overwrite freed memory with NaNs and make its pages inaccessible"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_train = {
    .name = "train",
    .arguments = "[MODEL]",
    .summary = "train inside a memory budget",
    .details =
        "MODEL is a network of 'cairn zoo', your own (NAME.net) or a graph file; it may be left "
        "out with --plan, whose\n"
        "file names one, and with --resume. SOURCE is synthetic, mnist:FOLDER, cifar10:FOLDER,\n"
        "tensors:FOLDER, text:FILE or tokens:FILE (docs/data-format.md); a network of the zoo is "
        "built for the size of its\n"
        "images. Without --data, inputs and labels are random numbers, and every step prints a\n"
        "line.\n\n" CLI_NORMALISE_DETAILS "\n\n"
        "At the end a hash of all parameters is printed. For one model, data, seed, backend and\n"
        "number of steps, plans give the same hash, unless they run an op by another\n"
        "implementation, which --same-bits forbids (docs/limits.md). A run that was interrupted "
        "or\n"
        "killed and continued with --resume gives it too. Ctrl-C ends a run after the current\n"
        "step, with a snapshot; so do SIGTERM and SIGHUP. See docs/training.md and docs/guide.md.",
    .options = options,
    .lists = {{"Algorithms", cli_list_algorithms},
              {"Data sources", cli_list_sources},
              {"Backends", cli_list_backends}},
    .examples = "train convnet --data synthetic --epochs 3 --out run\n"
                "train my.net --data tensors:FOLDER --budget 50% --save my.safetensors\n"
                "train resnet18 --data cifar10:FOLDER --augment flip,crop --lr 0.1\n"
                "train --resume run",
    .run = run,
    .computes = true,
    .runs = true,
};
