/* test_train.c: sessions. A resumed run is bitwise equal to one that was not interrupted. An
 * evaluation is equal to that of a separate executor. Snapshots are complete, are kept by the rule,
 * and are refused where they do not belong. Argument: the backend. */
#define _DEFAULT_SOURCE
#include "cairn.h"
#include "cairn/safetensors.h"
#include "check.h"
#include "cuda/fake_driver.h"
#include "data/loader.h"
#include "exec/fingerprint.h"
#include "exec/toy_network.h"
#include "graph/layers.h"
#include "weights/crn_weights.h"
#include "import/importer.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 4
#define SIDE 8

static const char *backend = "ref";

typedef struct setting {
    uint32_t threads;
    cairn_exec_options exec;
    cairn_schedule schedule;
    const char *algorithm;
    uint64_t data_seed;
    bool drawn, flip, raw;
} setting;

typedef struct subject {
    cairn_device *device;
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_data *data;
    cairn_train *train;
} subject;

static setting plain(void) {
    setting s = {.exec = CAIRN_EXEC_OPTIONS_INIT, .algorithm = "none"};
    s.threads = 2;
    s.schedule = (cairn_schedule){.rate = 0.05};
    s.flip = true;
    return s;
}

static cairn_status create(subject *s, const setting *with, cairn_error *err) {
    cairn_train_options options = CAIRN_TRAIN_OPTIONS_INIT;
    options.exec = &with->exec;
    options.schedule = with->schedule;
    options.data = s->data;
    options.flip = with->flip && s->data != NULL;
    options.normalise = !with->raw;
    options.model = "toy";
    return cairn_train_create(s->graph, s->device, s->costs, s->solution, &options, &s->train, err);
}

/* The toy network has batch-norm and dropout, so that running statistics and random numbers must be
 * restored as well. */
static subject open_subject(const setting *with) {
    subject s = {.graph = toy_network(NULL, BATCH, SIDE),
                 .device = test_device(backend, with->threads)};
    cairn_error err = {0};
    cairn_data_options data = CAIRN_DATA_OPTIONS_INIT;
    data.input[0] = 3;
    data.input[1] = data.input[2] = SIDE;
    data.count = 30; /* 27 for training: 6 batches; 3 for validation: one batch that is not full */
    data.seed = with->data_seed;
    if (!with->drawn)
        CHECK_OK(cairn_data_open("synthetic", &data, &s.data, &err), &err);
    CHECK_OK(cairn_bind(s.graph, s.device, &s.costs, &err), &err);
    CHECK_OK(cairn_solve(s.graph, s.costs, with->algorithm, NULL, &s.solution, &err), &err);
    CHECK_OK(create(&s, with, &err), &err);
    return s;
}

static void close_subject(subject *s) {
    cairn_train_destroy(s->train);
    cairn_data_destroy(s->data);
    cairn_solution_destroy(s->solution);
    cairn_costs_destroy(s->costs);
    cairn_device_close(s->device);
    cairn_graph_destroy(s->graph);
}

/* ---- Folders ---- */

static char folder[256];

static void new_folder(void) {
    snprintf(folder, sizeof folder, "%s/cairn-train-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
}

static const char *in_folder(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The names in the folder, sorted, with a space after each. */
static const char *list_folder(void) {
    static char text[2000];
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            strcat(text, entries[i]->d_name);
            strcat(text, " ");
        }
        free(entries[i]);
    }
    free(entries);
    return text;
}

static void remove_folder(void) {
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            unlink(in_folder(entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    CHECK(rmdir(folder) == 0);
}

/* ---- What is compared ---- */

typedef struct outcome {
    char hash[65];
    cairn_text log;
} outcome;

static uint64_t steps_of(const cairn_train *train) {
    cairn_train_history history = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_get_history(train, &history);
    return history.steps;
}

static void take_steps(subject *s, uint64_t until) {
    cairn_error err = {0};
    while (steps_of(s->train) < until) {
        cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
        cairn_train_score score;
        CHECK_OK(cairn_train_step(s->train, &result, &err), &err);
        if (result.epoch_end)
            CHECK_OK(cairn_train_evaluate(s->train, &score, &err), &err);
    }
}

static outcome outcome_of(subject *s) {
    outcome o = {0};
    cairn_error err = {0};
    CHECK_OK(cairn_exec_sha256(cairn_train_exec(s->train), CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE,
                               o.hash, &err),
             &err);
    CHECK_OK(cairn_train_log(s->train, 0, 0, &o.log), &err);
    return o;
}

static void check_same(outcome *actual, const outcome *expected) {
    CHECK_STRING(actual->hash, expected->hash);
    CHECK_STRING(actual->log.data, expected->log.data);
    cairn_text_release(&actual->log);
}

/* ---- Resuming ---- */

/* Stop after each number of steps, and resume in a new session with another plan. */
static void test_resume(setting with) {
    enum { STEPS = 8 };
    cairn_error err = {0};
    subject whole = open_subject(&with);
    take_steps(&whole, STEPS);
    outcome expected = outcome_of(&whole);
    close_subject(&whole);
    for (uint64_t stop = 0; stop < STEPS; stop += 3) {
        new_folder();
        subject first = open_subject(&with);
        take_steps(&first, stop);
        CHECK_OK(cairn_train_snapshot(first.train, folder, &err), &err);
        take_steps(&first, stop + 1); /* steps after the snapshot are lost */
        close_subject(&first);
        with.algorithm = "feng";
        subject second = open_subject(&with);
        with.algorithm = "none";
        CHECK_OK(cairn_train_resume(second.train, folder, NULL, &err), &err);
        CHECK_U64(steps_of(second.train), stop);
        take_steps(&second, STEPS);
        outcome actual = outcome_of(&second);
        check_same(&actual, &expected);
        close_subject(&second);
        remove_folder();
    }
    cairn_text_release(&expected.log);
}

static void test_resumes(void) {
    setting with = plain();
    test_resume(with);
    with.exec.optimizer = CAIRN_OPTIMIZER_ADAMW;
    with.exec.weight_decay = 0.01;
    with.schedule = (cairn_schedule){CAIRN_SCHEDULE_COSINE, 0.01, 3, 0, 0, 8, 0.001};
    test_resume(with);
    with = plain();
    with.exec.micro_batches = 4; /* does not divide an epoch */
    with.exec.nesterov = true;
    test_resume(with);
    with = plain();
    with.exec.momentum = 0;
    with.drawn = true;
    test_resume(with);
    with = plain(); /* numbers that need all their digits */
    with.exec.momentum = 0.3f + 1e-7f;
    with.schedule = (cairn_schedule){CAIRN_SCHEDULE_STEP, 0.1 / 3, 2, 3, 1.0 / 3, 0, 0};
    with.raw = true;
    test_resume(with);
}

/* Without data there are no epochs and no evaluation. A loss that is not a number is null in the
 * log, and the session goes on. */
static void test_drawn(void) {
    setting with = plain();
    with.drawn = true;
    with.schedule.rate = 1e30;
    subject s = open_subject(&with);
    cairn_error err = {0};
    cairn_train_score score;
    cairn_train_history h = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_get_history(s.train, &h);
    CHECK_U64(h.epoch_steps, 0);
    CHECK(cairn_train_evaluate(s.train, &score, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "no validation samples") != NULL);
    take_steps(&s, 4);
    outcome o = outcome_of(&s);
    CHECK(strstr(o.log.data, "\"step\": 1, \"loss\": null") == NULL);
    CHECK(strstr(o.log.data, "\"step\": 4, \"loss\": null") != NULL);
    cairn_text_release(&o.log);
    close_subject(&s);
}

/* A run goes on on another backend, from the same bits; a notice says so. */
static void test_other_backend(void) {
    const char *usual = backend;
    setting with = plain();
    cairn_error err = {0};
    cairn_text notices;
    char before[65], after[65];
    subject first = open_subject(&with);
    new_folder();
    take_steps(&first, 2);
    CHECK_OK(cairn_train_snapshot(first.train, folder, &err), &err);
    CHECK_OK(cairn_exec_sha256(cairn_train_exec(first.train),
                               CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, before, &err),
             &err);
    close_subject(&first);
    backend = strcmp(usual, "cuda-host") == 0 ? "ref" : "cuda-host";
    with.threads = 1;
    subject second = open_subject(&with);
    CHECK_OK(cairn_train_resume(second.train, folder, &notices, &err), &err);
    CHECK(strstr(notices.data, "is of a run on backend") != NULL);
    cairn_text_release(&notices);
    CHECK_OK(cairn_exec_sha256(cairn_train_exec(second.train),
                               CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, after, &err),
             &err);
    CHECK_STRING(after, before);
    CHECK_U64(steps_of(second.train), 2);
    take_steps(&second, 3);
    close_subject(&second);
    backend = usual;
    remove_folder();
}

/* A GPU fails in a step, and in every call after it: the step says so, and so does a snapshot,
 * which leaves the older one as it is. A new session resumes from that one. */
static void test_failing_gpu(void) {
    setting with = plain();
    cairn_error err = {0};
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    subject s = open_subject(&with);
    take_steps(&s, 4);
    outcome expected = outcome_of(&s);
    close_subject(&s);
    new_folder();
    s = open_subject(&with);
    take_steps(&s, 2);
    CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
    fake_driver_fail_at(5);
    CHECK(cairn_train_step(s.train, &result, &err) == CAIRN_ESYSTEM);
    CHECK_STRING(err.message, "the GPU fails in a step: an illegal memory access was encountered");
    CHECK_U64(steps_of(s.train), 2);
    CHECK(cairn_train_snapshot(s.train, folder, &err) == CAIRN_ESYSTEM);
    CHECK(strstr(err.message, "an illegal memory access was encountered") != NULL);
    CHECK_STRING(list_folder(), "snapshot-00000002.safetensors ");
    close_subject(&s);
    fake_driver_fail_at(0);
    s = open_subject(&with);
    CHECK_OK(cairn_train_resume(s.train, folder, NULL, &err), &err);
    take_steps(&s, 4);
    outcome actual = outcome_of(&s);
    check_same(&actual, &expected);
    cairn_text_release(&expected.log);
    close_subject(&s);
    remove_folder();
}

/* The loss and everything that depends on it are the same with any plan. */
static void test_plans(void) {
    setting with = plain();
    subject none = open_subject(&with);
    take_steps(&none, 7);
    outcome expected = outcome_of(&none), actual;
    with.algorithm = "feng";
    subject feng = open_subject(&with);
    take_steps(&feng, 7);
    actual = outcome_of(&feng);
    check_same(&actual, &expected);
    cairn_text_release(&expected.log);
    close_subject(&none);
    close_subject(&feng);
}

/* ---- Evaluation ---- */

/* The session's score against a separate executor with the same parameters. */
static void test_evaluation(void) {
    setting with = plain();
    subject s = open_subject(&with);
    cairn_error err = {0};
    cairn_train_score score;
    take_steps(&s, 7);
    char before[65], after[65];
    cairn_exec *exec = cairn_train_exec(s.train);
    CHECK_OK(cairn_exec_sha256(exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, before, &err), &err);
    CHECK_OK(cairn_train_evaluate(s.train, &score, &err), &err);
    CHECK_OK(cairn_exec_sha256(exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, after, &err), &err);
    CHECK_STRING(after, before);
    CHECK_U64(score.step, 7);
    CHECK_U64(score.predictions, cairn_data_get_info(s.data)->validation);

    cairn_solution *infer;
    cairn_exec *own;
    crn_loader *loader;
    crn_batch batch = {0};
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    crn_loader_options loading = CRN_LOADER_OPTIONS_INIT;
    loading.split = CAIRN_SPLIT_VALIDATION;
    loading.batch = BATCH;
    CHECK_OK(cairn_solve(s.graph, s.costs, "infer", NULL, &infer, &err), &err);
    CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, infer, &with.exec, &own, &err), &err);
    CHECK_OK(crn_loader_create(s.data, &loading, &loader, &err), &err);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s.graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s.graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER && tensor->role != CAIRN_ROLE_STATE)
            continue;
        void *data = read_tensor(exec, t);
        CHECK_OK(cairn_exec_write(own, t, data, &err), &err);
        free(data);
    }
    double loss = 0;
    uint64_t correct = 0, count = 0;
    for (uint64_t i = 0; i < crn_loader_batches(loader); i++) {
        CHECK_OK(crn_loader_next(loader, &batch, &err), &err);
        cairn_id input = cairn_graph_find_tensor(s.graph, "input");
        CHECK_OK(cairn_exec_write(own, input, batch.inputs, &err), &err);
        CHECK_OK(cairn_exec_run(own, 0, &result, &err), &err);
        float *logits = read_tensor(own, cairn_graph_find_tensor(s.graph, "fc2"));
        for (uint32_t n = 0; n < batch.count; n++, count++) {
            const float *x = logits + 10 * n;
            double sum = 0;
            int likeliest = 0;
            for (int c = 0; c < 10; c++) {
                sum += exp((double)x[c]);
                likeliest = x[c] > x[likeliest] ? c : likeliest;
            }
            loss += log(sum) - (double)x[batch.labels[n]];
            correct += likeliest == batch.labels[n];
        }
        free(logits);
    }
    CHECK_U64(score.correct, correct);
    CHECK(fabs(score.loss - loss / (double)count) < 1e-5);
    crn_loader_destroy(loader);
    cairn_exec_destroy(own);
    cairn_solution_destroy(infer);
    close_subject(&s);
}

/* Only an evaluation may share memory, and only with an executor of the same kind. */
static void test_sharing(void) {
    setting with = plain();
    subject s = open_subject(&with);
    cairn_error err = {0};
    cairn_exec *own;
    cairn_exec_options options = with.exec;
    options.share_with = cairn_train_exec(s.train);
    CHECK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &own, &err) ==
          CAIRN_EINVAL);
    CHECK(own == NULL && strstr(err.message, "share") != NULL);
    close_subject(&s);
}

/* ---- Weights in a file, and a network made of them ---- */

typedef struct seen {
    uint32_t samples, correct;
    double loss;
} seen;

static cairn_status see(void *context, const cairn_prediction *p, cairn_error *err) {
    seen *s = context;
    (void)err;
    CHECK_U64(p->place, s->samples++);
    CHECK(p->predicted >= 0 && p->logits[p->predicted] >= p->logits[p->label]);
    s->correct += p->predicted == p->label;
    s->loss += p->loss;
    return CAIRN_OK;
}

/* What is saved evaluates elsewhere as it does in the session, and says how it is normalised. */
static void test_saved(void) {
    setting with = plain();
    subject s = open_subject(&with);
    cairn_error err = {0};
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    cairn_train_score score;
    cairn_evaluator *evaluator;
    cairn_evaluation evaluation = CAIRN_EVALUATION_INIT;
    cairn_safetensors *file;
    seen all = {0};
    new_folder();
    for (int i = 0; i < 3; i++)
        CHECK_OK(cairn_train_step(s.train, &result, &err), &err);
    CHECK_OK(cairn_train_evaluate(s.train, &score, &err), &err);
    CHECK_OK(cairn_train_save_weights(s.train, in_folder("w"), &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, in_folder("w"), &file, &err), &err);
    CHECK(cairn_safetensors_value(file, "cairn.normalise.mean") != NULL);
    CHECK_STRING(cairn_safetensors_value(file, "cairn.normalise.scale"), "0.00392156886");
    CHECK(crn_safetensors_find(file, "cairn.normalise.mean") == NULL); /* PyTorch is strict */
    CHECK_OK(cairn_evaluator_create(s.graph, s.device, s.costs, s.data, NULL, &evaluator, &err),
             &err);
    CHECK_OK(
        cairn_weights_load(cairn_evaluator_exec(evaluator), s.graph, in_folder("w"), NULL, &err),
        &err);
    CHECK_OK(cairn_evaluator_run(evaluator, see, &all, &evaluation, &err), &err);
    CHECK(evaluation.loss == score.loss && evaluation.correct == score.correct);
    CHECK(evaluation.predictions == score.predictions && all.samples == score.predictions);
    CHECK(all.correct == score.correct && all.loss == score.loss * all.samples);
    cairn_evaluator_destroy(evaluator);
    cairn_safetensors_destroy(file);
    CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, in_folder("snapshot-00000003.safetensors"), &file, &err),
             &err);
    CHECK(crn_safetensors_find(file, "cairn.normalise.deviation") != NULL);
    cairn_safetensors_destroy(file);
    close_subject(&s);
}

/* ---- Snapshots ---- */

static void test_kept(void) {
    setting with = plain();
    subject s = open_subject(&with);
    cairn_error err = {0};
    new_folder();
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    cairn_train_history history = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_score score;
    for (int i = 1; i <= 7; i++) {
        CHECK_OK(cairn_train_step(s.train, &result, &err), &err);
        if (i == 2)
            CHECK_OK(cairn_train_evaluate(s.train, &score, &err), &err);
        CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
    }
    cairn_train_get_history(s.train, &history);
    CHECK_U64(history.best_step, 2);
    CHECK_STRING(list_folder(), "snapshot-00000002.safetensors snapshot-00000005.safetensors "
                                "snapshot-00000006.safetensors snapshot-00000007.safetensors ");
    /* files of others are neither removed nor used, and a name that is too long is refused */
    static const char *const others[] = {"snapshot-12.safetensors", "snapshot-00000012.text",
                                         "snapshot-0000000000000000000012.safetensors"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        FILE *file = fopen(in_folder(others[i]), "w");
        CHECK(file != NULL && fclose(file) == 0);
    }
    CHECK_OK(cairn_train_resume(s.train, folder, NULL, &err), &err);
    CHECK_U64(steps_of(s.train), 7);
    CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
    CHECK(strstr(list_folder(), others[0]) != NULL && strstr(list_folder(), others[1]) != NULL);
    CHECK(strstr(list_folder(), others[2]) != NULL);
    char deep[6000];
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    CHECK(cairn_train_snapshot(s.train, deep, &err) == CAIRN_EIO);
    CHECK(strstr(err.message, "too long") != NULL);
    /* its weights can be loaded like a weight file */
    CHECK_OK(cairn_weights_load(cairn_train_exec(s.train), s.graph,
                                in_folder("snapshot-00000002.safetensors"), NULL, &err),
             &err);
    close_subject(&s);
    remove_folder();
}

static void change_byte(const char *path, long from_end) {
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL && fseek(file, -from_end, SEEK_END) == 0);
    int byte = fgetc(file);
    CHECK(fseek(file, -from_end, SEEK_END) == 0 && fputc(byte ^ 1, file) != EOF);
    CHECK(fclose(file) == 0);
}

/* A snapshot that is cut, changed, empty or another file: an older one is used, and a notice says
 * so. */
static void test_damaged(void) {
    setting with = plain();
    cairn_error err = {0};
    cairn_text notices;
    for (int damage = 0; damage < 5; damage++) {
        subject s = open_subject(&with);
        new_folder();
        take_steps(&s, 1);
        CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
        take_steps(&s, 2);
        CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
        const char *newest = in_folder("snapshot-00000002.safetensors");
        struct stat info;
        CHECK(stat(newest, &info) == 0);
        if (damage == 0)
            CHECK(truncate(newest, info.st_size / 2) == 0);
        else if (damage == 1)
            change_byte(newest, 5); /* of a tensor: only the hash detects it */
        else if (damage == 2)
            CHECK(truncate(newest, 0) == 0);
        else if (damage == 3)
            CHECK_OK(cairn_weights_save(cairn_train_exec(s.train), s.graph, newest, NULL, &err),
                     &err);
        else
            change_byte(newest, info.st_size - 40); /* of the header */
        FILE *left = fopen(in_folder("snapshot-00000003.safetensors.tmp.12"), "w");
        CHECK(left != NULL && fclose(left) == 0);
        close_subject(&s);
        s = open_subject(&with);
        cairn_status status = cairn_train_resume(s.train, folder, &notices, &err);
        CHECK_OK(status, &err);
        CHECK_U64(steps_of(s.train), 1);
        CHECK(strstr(notices.data, "older") != NULL && strstr(notices.data, ".tmp.12") != NULL);
        CHECK_STRING(list_folder(), "snapshot-00000001.safetensors snapshot-00000002.safetensors ");
        cairn_text_release(&notices);
        /* without an older one it is an error, and the session does not change */
        CHECK(unlink(in_folder("snapshot-00000001.safetensors")) == 0);
        close_subject(&s);
        s = open_subject(&with);
        status = cairn_train_resume(s.train, folder, NULL, &err);
        char text[1024];
        CHECK(status == CAIRN_ESYNTAX);
        CHECK(strstr(cairn_error_text(&err, text, sizeof text), "snapshot-00000002") != NULL);
        CHECK(cairn_train_resume(s.train, folder, NULL, NULL) == CAIRN_ESYNTAX);
        CHECK_U64(steps_of(s.train), 0);
        close_subject(&s);
        remove_folder();
    }
}

static void check_refused(const setting *other, const char *word) {
    subject s = open_subject(other);
    cairn_error err = {0};
    char before[65], after[65];
    CHECK_OK(cairn_exec_sha256(cairn_train_exec(s.train), CAIRN_EXEC_PARAMETERS, before, &err),
             &err);
    CHECK(cairn_train_resume(s.train, folder, NULL, &err) == CAIRN_EINVAL);
    if (strstr(err.message, word) == NULL)
        fprintf(stderr, "\"%s\" is not in: %s\n", word, err.message);
    CHECK(strstr(err.message, word) != NULL);
    CHECK_OK(cairn_exec_sha256(cairn_train_exec(s.train), CAIRN_EXEC_PARAMETERS, after, &err),
             &err);
    CHECK_STRING(after, before);
    CHECK_U64(steps_of(s.train), 0);
    close_subject(&s);
}

static void test_mismatch(void) {
    setting with = plain(), other;
    cairn_error err = {0};
    subject s = open_subject(&with);
    new_folder();
    take_steps(&s, 1);
    CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
    close_subject(&s);
    other = with;
    other.exec.seed = 5;
    check_refused(&other, "seed 0, and this one 5");
    other = with;
    other.threads = 3;
    if (strcmp(backend, "cuda-host") != 0) /* whose units are what they are */
        check_refused(&other, "threads 2, and this one 3");
    other = with;
    other.schedule.rate = 0.1;
    check_refused(&other, "learning rate 0.05, and this one 0.1");
    other = with;
    other.raw = true;
    check_refused(&other, "normalisation yes, and this one no");
    other = with;
    other.exec.optimizer = CAIRN_OPTIMIZER_ADAM;
    check_refused(&other, "optimizer sgd, and this one adam");
    other = with;
    other.exec.momentum = 0.5f;
    check_refused(&other, "momentum");
    other = with;
    other.exec.micro_batches = 2;
    check_refused(&other, "micro-batches");
    other = with;
    other.data_seed = 3;
    check_refused(&other, "data");
    other = with;
    other.drawn = true;
    check_refused(&other, "data");
    other = with;
    other.flip = false;
    check_refused(&other, "augmentation");
    remove_folder();
    s = open_subject(&with);
    CHECK(cairn_train_resume(s.train, folder, NULL, &err) == CAIRN_EUNKNOWN);
    new_folder();
    CHECK(cairn_train_resume(s.train, folder, NULL, &err) == CAIRN_EUNKNOWN);
    close_subject(&s);
    remove_folder();
}

/* A full disk, simulated by a limit on the size of files. Old files stay, no half-written file is
 * left, and the session can go on. */
static void test_full_disk(void) {
    setting with = plain();
    subject s = open_subject(&with);
    cairn_error err = {0};
    struct rlimit usual, small;
    new_folder();
    take_steps(&s, 1);
    CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
    take_steps(&s, 2);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &usual) == 0);
    small = (struct rlimit){.rlim_cur = 20000, .rlim_max = usual.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    cairn_status status = cairn_train_snapshot(s.train, folder, &err);
    CHECK(setrlimit(RLIMIT_FSIZE, &usual) == 0);
    CHECK(status == CAIRN_EIO && strstr(err.message, "File too large") != NULL);
    CHECK_STRING(list_folder(), "snapshot-00000001.safetensors ");
    CHECK_OK(cairn_train_snapshot(s.train, folder, &err), &err);
    close_subject(&s);
    s = open_subject(&with);
    CHECK_OK(cairn_train_resume(s.train, folder, NULL, &err), &err);
    CHECK_U64(steps_of(s.train), 2);
    CHECK(cairn_train_snapshot(s.train, "/no/such/folder", &err) == CAIRN_EIO);
    close_subject(&s);
    remove_folder();
}

/* ---- What does not fit ---- */

static void check_data_refused(const uint32_t input[3], uint32_t classes, const char *word) {
    setting with = plain();
    subject s = {.graph = toy_network(NULL, BATCH, SIDE),
                 .device = test_device(backend, with.threads)};
    cairn_error err = {0};
    cairn_data_options data = CAIRN_DATA_OPTIONS_INIT;
    memcpy(data.input, input, sizeof data.input);
    data.classes = classes;
    data.count = 30;
    CHECK_OK(cairn_data_open("synthetic", &data, &s.data, &err), &err);
    CHECK_OK(cairn_bind(s.graph, s.device, &s.costs, &err), &err);
    CHECK_OK(cairn_solve(s.graph, s.costs, "none", NULL, &s.solution, &err), &err);
    CHECK(create(&s, &with, &err) == CAIRN_EINVAL && s.train == NULL);
    CHECK(strstr(err.message, word) != NULL);
    close_subject(&s);
}

static void test_wrong_data(void) {
    check_data_refused((uint32_t[]){3, 8, 12}, 10, "3x8x12");
    check_data_refused((uint32_t[]){1, SIDE, SIDE}, 10, "1x8x8");
    check_data_refused((uint32_t[]){3, SIDE, SIDE}, 11, "11 classes");
}

/* Networks that do not take one image and one label for it. */
static void check_network_refused(cairn_graph *forward, const char *word) {
    setting with = plain();
    subject s = {.device = test_device(backend, with.threads)};
    cairn_error err = {0};
    cairn_data_options data = CAIRN_DATA_OPTIONS_INIT;
    data.input[0] = 3;
    data.input[1] = data.input[2] = SIDE;
    data.classes = 4;
    data.count = 30;
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &s.graph, &err), &err);
    cairn_graph_destroy(forward);
    CHECK_OK(cairn_data_open("synthetic", &data, &s.data, &err), &err);
    CHECK_OK(cairn_bind(s.graph, s.device, &s.costs, &err), &err);
    CHECK_OK(cairn_solve(s.graph, s.costs, "none", NULL, &s.solution, &err), &err);
    CHECK(create(&s, &with, &err) == CAIRN_EINVAL && s.train == NULL);
    if (strstr(err.message, word) == NULL)
        fprintf(stderr, "\"%s\" is not in: %s\n", word, err.message);
    CHECK(strstr(err.message, word) != NULL);
    close_subject(&s);
}

/* `inputs` images that are added up, one label per sample or per pixel. */
static cairn_graph *odd_network(uint32_t inputs, bool pixels) {
    cairn_builder *b;
    cairn_graph *forward;
    cairn_error err = {0};
    const uint32_t image[] = {BATCH, 3, SIDE, SIDE}, places[] = {BATCH, SIDE, SIDE};
    crn_conv conv = {.channels = 4, .kernel = {1, 1}};
    CHECK_OK(cairn_builder_create(NULL, "odd", &b), &err);
    cairn_id x = crn_build_input(b, "x0", 4, image);
    if (inputs > 1)
        x = crn_build_add(b, "add", x, crn_build_input(b, "x1", 4, image));
    x = crn_build_conv2d(b, "conv", x, &conv);
    if (!pixels)
        x = crn_build_linear(b, "fc", crn_build_flatten(b, "flat", x), 4);
    crn_build_cross_entropy(b, "loss", x, crn_build_label(b, "label", pixels ? 3 : 1, places));
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    cairn_builder_destroy(b);
    return forward;
}

static void test_wrong_networks(void) {
    cairn_zoo_options zoo = CAIRN_ZOO_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_graph *words;
    zoo.batch = BATCH;
    zoo.steps = 3;
    CHECK_OK(crn_zoo_build(NULL, "rnn", &zoo, &words, &err), &err);
    check_network_refused(words, "take");
    check_network_refused(odd_network(2, false), "does not take just these");
    check_network_refused(odd_network(1, true), "does not take one label a sample");
}

static void test_wrong_plan(void) {
    setting with = plain();
    subject s = {.graph = toy_network(NULL, BATCH, SIDE), .device = test_device(backend, 2)};
    cairn_error err = {0};
    CHECK_OK(cairn_bind(s.graph, s.device, &s.costs, &err), &err);
    CHECK_OK(cairn_solve(s.graph, s.costs, "infer", NULL, &s.solution, &err), &err);
    CHECK(create(&s, &with, &err) == CAIRN_EINVAL && s.train == NULL);
    close_subject(&s);
}

int main(int argc, char **argv) {
    if (argc > 1)
        backend = argv[1];
    test_resumes();
    test_other_backend();
    if (strcmp(backend, "cuda-host") == 0)
        test_failing_gpu();
    test_drawn();
    test_plans();
    test_evaluation();
    test_sharing();
    test_saved();
    test_kept();
    test_damaged();
    test_mismatch();
    test_full_disk();
    test_wrong_data();
    test_wrong_networks();
    test_wrong_plan();
    return check_result();
}
