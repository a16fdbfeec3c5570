/* train_options.c: the options of `cairn train` that say how to learn. */
#include "training.h"

#include <stdlib.h>
#include <string.h>

CLI_NAMES(optimizer_name, CAIRN_OPTIMIZER_LIST)
CLI_NAMES(decay_name, CAIRN_DECAY_LIST)
CLI_NAMES(schedule_name, CAIRN_SCHEDULE_LIST)

/* An option that another choice makes meaningless. */
static bool refuse_options(const cli_training *t, const char *why, const char *const *names) {
    for (; *names != NULL; names++)
        if (cli_value(t->args, *names) != NULL) {
            cli_usage_error(t->args, "--%s %s", *names, why);
            return false;
        }
    return true;
}

static bool read_sgd(cli_training *t) {
    static const char *const of_adam[] = {"beta1", "beta2", "epsilon", NULL};
    double momentum;
    if (!refuse_options(t, "is for --optimizer adam and adamw", of_adam) ||
        !cli_real(t->args, "momentum", 0, 1, 0.9, &momentum))
        return false;
    t->exec.momentum = (float)momentum;
    t->exec.nesterov = cli_flag(t->args, "nesterov");
    if (t->exec.nesterov && momentum == 0) {
        cli_usage_error(t->args, "--nesterov needs a --momentum above 0");
        return false;
    }
    return true;
}

static bool read_adam(cli_training *t) {
    static const char *const of_sgd[] = {"momentum", "nesterov", NULL};
    return refuse_options(t, "is for --optimizer sgd", of_sgd) &&
           cli_real(t->args, "beta1", 0, 1, 0.9, &t->exec.beta1) &&
           cli_real(t->args, "beta2", 0, 1, 0.999, &t->exec.beta2) &&
           cli_real(t->args, "epsilon", 1e-30, 1, 1e-8, &t->exec.epsilon);
}

/* Defaults are those of PyTorch, except the learning rate and the momentum of sgd. */
static bool read_optimizer(cli_training *t) {
    uint32_t choice, decay_on;
    uint64_t micro_batches;
    if (!cli_choice_value(t->args, "optimizer", optimizer_name, CAIRN_OPTIMIZER_SGD, &choice) ||
        !cli_choice_value(t->args, "decay-on", decay_name, CAIRN_DECAY_ALL, &decay_on) ||
        !cli_number(t->args, "accumulate", 1, 65536, 1, &micro_batches))
        return false;
    t->exec.optimizer = (cairn_optimizer)choice;
    t->exec.decay_on = (cairn_decay)decay_on;
    t->exec.micro_batches = (uint32_t)micro_batches;
    double decay = t->exec.optimizer == CAIRN_OPTIMIZER_ADAMW ? 0.01 : 0;
    double rate = t->exec.optimizer == CAIRN_OPTIMIZER_SGD ? 0.01 : 0.001;
    return cli_real(t->args, "weight-decay", 0, 1e6, decay, &t->exec.weight_decay) &&
           cli_real(t->args, "lr", 0, 1e6, rate, &t->schedule.rate) &&
           cli_real(t->args, "clip-norm", 0, 1e30, 0, &t->exec.clip_norm) &&
           (t->exec.optimizer == CAIRN_OPTIMIZER_SGD ? read_sgd(t) : read_adam(t));
}

static bool read_schedule(cli_training *t) {
    static const char *const of_step[] = {"decay-every", "decay-factor", NULL};
    static const char *const of_cosine[] = {"lr-least", NULL};
    uint32_t choice;
    cairn_schedule *s = &t->schedule;
    if (!cli_choice_value(t->args, "schedule", schedule_name, CAIRN_SCHEDULE_CONSTANT, &choice) ||
        !cli_number(t->args, "warmup", 0, UINT32_MAX, 0, &s->warmup) ||
        !cli_number(t->args, "decay-every", 1, UINT32_MAX, 0, &t->decay_every) ||
        !cli_real(t->args, "decay-factor", 0, 1, 0.1, &s->factor) ||
        !cli_real(t->args, "lr-least", 0, 1e6, 0, &s->least))
        return false;
    s->kind = (cairn_schedule_kind)choice;
    return (s->kind == CAIRN_SCHEDULE_STEP ||
            refuse_options(t, "is for --schedule step", of_step)) &&
           (s->kind == CAIRN_SCHEDULE_COSINE ||
            refuse_options(t, "is for --schedule cosine", of_cosine));
}

/* One word of --augment. */
static bool read_augmentation(cli_training *t, const char *word, size_t length) {
    if (length == 4 && memcmp(word, "flip", 4) == 0) {
        t->flip = true;
        return true;
    }
    if (length < 4 || memcmp(word, "crop", 4) != 0)
        return false;
    t->crop = 4;
    if (length == 4)
        return true;
    char *end;
    unsigned long pixels = strtoul(word + 5, &end, 10);
    t->crop = (uint32_t)pixels;
    return word[4] == ':' && word[5] >= '1' && word[5] <= '9' && end == word + length &&
           pixels <= 1000;
}

static bool read_augmentations(cli_training *t) {
    const char *text = cli_value(t->args, "augment");
    while (text != NULL) {
        size_t length = strcspn(text, ",");
        if (!read_augmentation(t, text, length)) {
            cli_usage_error(t->args,
                            "--augment is flip, crop, crop:PIXELS or flip,crop, not \"%s\"",
                            cli_value(t->args, "augment"));
            return false;
        }
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    return true;
}

static bool read_lengths(cli_training *t) {
    if (cli_value(t->args, "steps") != NULL && cli_value(t->args, "epochs") != NULL) {
        cli_usage_error(t->args, "--steps and --epochs exclude each other");
        return false;
    }
    return cli_number(t->args, "steps", 1, UINT32_MAX, 0, &t->steps) &&
           cli_number(t->args, "epochs", 1, 1000000, 0, &t->epochs) &&
           cli_number(t->args, "snapshot-every", 1, UINT32_MAX, 0, &t->snapshot_every);
}

static const char *yes_or_no(uint32_t index) {
    return index == 0 ? "yes" : index == 1 ? "no" : NULL;
}

static bool read_machine(cli_training *t) {
    uint32_t stop;
    cli_size bandwidth;
    uint64_t threads;
    if (!cli_number(t->args, "seed", 0, UINT64_MAX, 0, &t->exec.seed) ||
        !cli_number(t->args, "threads", 0, 256, 0, &threads) ||
        !cli_choice_value(t->args, "stop-on-nan", yes_or_no, 0, &stop) ||
        !cli_size_value(t->args, "link-bandwidth", &bandwidth))
        return false;
    if (bandwidth.given && (bandwidth.percent || bandwidth.bytes == 0)) {
        cli_usage_error(t->args, "--link-bandwidth must be bytes a second, such as 2GB");
        return false;
    }
    t->link_bytes_per_second = bandwidth.bytes;
    t->stop_on_nan = stop == 0;
    t->exec.check = cli_flag(t->args, "check");
    t->exec.timed = cli_value(t->args, "html") != NULL;
    return true;
}

bool cli_train_read_options(cli_training *t) {
    static const char *const of_data[] = {"epochs",  "validation", "augment",
                                          "samples", "normalise",  NULL};
    static const char *const of_folder[] = {"snapshot-every", NULL};
    static const char *const of_page[] = {"against", NULL};
    t->exec = (cairn_exec_options)CAIRN_EXEC_OPTIONS_INIT;
    t->folder = cli_value(t->args, "resume");
    if (t->folder == NULL)
        t->folder = cli_value(t->args, "out");
    t->log_path = cli_value(t->args, "log");
    return (cli_value(t->args, "data") != NULL || refuse_options(t, "needs --data", of_data)) &&
           (t->folder != NULL || refuse_options(t, "needs --out FOLDER", of_folder)) &&
           (cli_value(t->args, "html") != NULL || refuse_options(t, "needs --html", of_page)) &&
           read_machine(t) && read_lengths(t) && read_optimizer(t) && read_schedule(t) &&
           read_augmentations(t);
}
