/* test_system_faults.c: every call of the system fails once, in whatever reads and writes files,
 * maps memory or starts threads: then the caller is told, or nothing was lost. A call that a signal
 * interrupts is made again. Files are replaced as a whole or not at all.
 *
 * The calls are wrapped by the linker: see CMakeLists.txt. */
#include "data/loader.h"
#include "data_folder.h"
#include "exec/test_backends.h"
#include "exec/toy_network.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The calls ---- */

static atomic_long calls_left; /* before the one that fails; 0: none does */
static int failure;            /* as errno has it; EINTR: only reading and writing fail */
static atomic_bool failed;

static bool fails(bool transfers) {
    long left = calls_left;
    if (failure == EINTR && !transfers)
        return false;
    while (left > 0 && !atomic_compare_exchange_weak(&calls_left, &left, left - 1))
        continue;
    if (left != 1)
        return false;
    failed = true;
    errno = failure;
    return true;
}

#define WRAP(type, name, parameters, arguments, transfers, otherwise)                              \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return fails(transfers) ? (otherwise) : __real_##name arguments;                           \
    }

WRAP(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), true, -1)
WRAP(ssize_t, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at), true, -1)
WRAP(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), true, -1)
WRAP(int, fsync, (int fd), (fd), false, -1)
WRAP(int, fstat, (int fd, struct stat *out), (fd, out), false, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), false, -1)
WRAP(DIR *, opendir, (const char *path), (path), false, NULL)
WRAP(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset), false, MAP_FAILED)
WRAP(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *context),
     (thread, how, run, context), false, EAGAIN)
WRAP(int, pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t *how),
     (mutex, how), false, ENOMEM)
WRAP(int, pthread_cond_init, (pthread_cond_t * condition, const pthread_condattr_t *how),
     (condition, how), false, ENOMEM)

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) { /* it is closed all the same */
    int result = __real_close(fd);
    return fails(false) ? -1 : result;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    unsigned mode = flags & O_CREAT ? va_arg(list, unsigned) : 0;
    va_end(list);
    return fails(false) ? -1 : __real_open(path, flags, mode);
}

/* ---- What calls them ---- */

typedef struct subject {
    char folder[32], path[64], source[300];
    cairn_graph *graph;
    cairn_device *device;
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_data *data;
    cairn_exec *exec;
    cairn_train *train;
    cairn_text old, new;
} subject;

static cairn_status save_text(subject *s, cairn_error *err) {
    cairn_status status = cairn_text_save(&s->new, s->path, err);
    long left = calls_left;
    cairn_text now;
    cairn_error none = {0};
    calls_left = 0;
    CHECK_OK(cairn_text_load(NULL, s->path, &now, &none), &none);
    CHECK(strcmp(now.data, s->new.data) == 0 ||
          (status != CAIRN_OK && strcmp(now.data, s->old.data) == 0));
    cairn_text_release(&now);
    CHECK_OK(cairn_text_save(&s->old, s->path, &none), &none);
    calls_left = left;
    return status;
}

static cairn_status load_text(subject *s, cairn_error *err) {
    cairn_text text;
    cairn_status status = cairn_text_load(NULL, s->path, &text, err);
    CHECK(status != CAIRN_OK || strcmp(text.data, s->old.data) == 0);
    cairn_text_release(&text);
    return status;
}

static cairn_status save_weights(subject *s, cairn_error *err) {
    char path[100];
    snprintf(path, sizeof path, "%s/weights", s->folder);
    return cairn_weights_save(s->exec, s->graph, path, NULL, err);
}

static cairn_status load_weights(subject *s, cairn_error *err) {
    char path[100];
    snprintf(path, sizeof path, "%s/weights", s->folder);
    return cairn_weights_load(s->exec, s->graph, path, NULL, err);
}

static cairn_status run_step(subject *s, cairn_error *err) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_device *device = NULL;
    cairn_device_options how = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_exec *exec = NULL;
    how.threads = 2;
    options.check = true;
    cairn_status status = cairn_device_open("ref", &how, &device, err);
    if (status == CAIRN_OK)
        status = cairn_exec_create(s->graph, device, s->costs, s->solution, &options, &exec, err);
    if (status == CAIRN_OK)
        status = cairn_exec_fill(exec, 0, err);
    if (status == CAIRN_OK)
        status = cairn_exec_run(exec, 0, &result, err);
    cairn_exec_destroy(exec);
    cairn_device_close(device);
    return status;
}

static cairn_status read_data(subject *s, cairn_error *err) {
    crn_loader_options how = CRN_LOADER_OPTIONS_INIT;
    cairn_data *data = NULL;
    crn_loader *loader = NULL;
    crn_batch batch = {0};
    how.batch = 2;
    cairn_status status = cairn_data_open(s->source, NULL, &data, err);
    if (status == CAIRN_OK)
        status = crn_loader_create(data, &how, &loader, err);
    for (int i = 0; i < 4 && status == CAIRN_OK; i++)
        status = crn_loader_next(loader, &batch, err);
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
    return status;
}

static cairn_status snapshot(subject *s, cairn_error *err) {
    return cairn_train_snapshot(s->train, s->folder, err);
}

static cairn_status resume(subject *s, cairn_error *err) {
    cairn_text notices;
    cairn_status status = cairn_train_resume(s->train, s->folder, &notices, err);
    cairn_text_release(&notices);
    return status;
}

/* ---- Failing the k-th ---- */

static void fail_each(subject *s, const char *name,
                      cairn_status (*run)(subject *s, cairn_error *err)) {
    static const int reasons[] = {EIO, EINTR};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        long k = 0, told = 0;
        do {
            cairn_error err = {0};
            failed = false;
            failure = reasons[i];
            calls_left = ++k;
            cairn_status status = run(s, &err);
            calls_left = 0;
            CHECK(status == CAIRN_OK || (failed && failure != EINTR));
            CHECK(status == CAIRN_OK || (err.status == status && err.message[0] != '\0'));
            told += status != CAIRN_OK;
            if (status != CAIRN_OK && !(failed && failure != EINTR))
                fprintf(stderr, "that was call %ld of %s: %s\n", k, name, err.message);
        } while (failed && k < 100000);
        printf("%-14s %-5s %5ld calls, %5ld failures told\n", name,
               failure == EINTR ? "EINTR" : "EIO", k - 1, told);
        CHECK(failure == EINTR || told > 0);
    }
}

static void set_up(subject *s) {
    cairn_error err = {0};
    cairn_data_options data = CAIRN_DATA_OPTIONS_INIT;
    cairn_exec_options exec = CAIRN_EXEC_OPTIONS_INIT;
    cairn_train_options train = CAIRN_TRAIN_OPTIONS_INIT;
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    s->graph = toy_network(NULL, 2, 8);
    s->device = test_device("ref", 1);
    CHECK_OK(cairn_bind(s->graph, s->device, &s->costs, &err), &err);
    CHECK_OK(cairn_solve(s->graph, s->costs, "none", NULL, &s->solution, &err), &err);
    CHECK_OK(cairn_exec_create(s->graph, s->device, s->costs, s->solution, NULL, &s->exec, &err),
             &err);
    data.input[0] = 3;
    data.input[1] = data.input[2] = 8;
    data.count = 8;
    CHECK_OK(cairn_data_open("synthetic", &data, &s->data, &err), &err);
    train.exec = &exec;
    train.data = s->data;
    CHECK_OK(
        cairn_train_create(s->graph, s->device, s->costs, s->solution, &train, &s->train, &err),
        &err);
    CHECK_OK(cairn_train_step(s->train, &result, &err), &err);
    snprintf(s->folder, sizeof s->folder, "test_system.XXXXXX");
    CHECK(mkdtemp(s->folder) != NULL);
    snprintf(s->path, sizeof s->path, "%s/text", s->folder);
    CHECK_OK(cairn_graph_to_json(s->graph, &s->old), &err);
    CHECK_OK(cairn_plan_to_text(s->solution->plan, s->graph, &s->new), &err);
    CHECK_OK(cairn_text_save(&s->old, s->path, &err), &err);
}

static void tear_down(subject *s) {
    const struct dirent *entry;
    char path[400];
    DIR *list = opendir(s->folder);
    while (list != NULL && (entry = readdir(list)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", s->folder, entry->d_name);
        CHECK(strstr(entry->d_name, ".tmp.") == NULL);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(list);
    CHECK(rmdir(s->folder) == 0);
    cairn_text_release(&s->new);
    cairn_text_release(&s->old);
    cairn_train_destroy(s->train);
    cairn_data_destroy(s->data);
    cairn_exec_destroy(s->exec);
    cairn_solution_destroy(s->solution);
    cairn_costs_destroy(s->costs);
    cairn_device_close(s->device);
    cairn_graph_destroy(s->graph);
}

int main(void) {
    static subject s;
    folder images;
    set_up(&s);
    folder_make(&images, "mnist");
    put_mnist(&images, 8, 2);
    snprintf(s.source, sizeof s.source, "%s", images.source);
    fail_each(&s, "save a text", save_text);
    fail_each(&s, "load a text", load_text);
    fail_each(&s, "save weights", save_weights);
    fail_each(&s, "load weights", load_weights);
    fail_each(&s, "run a step", run_step);
    fail_each(&s, "read data", read_data);
    fail_each(&s, "snapshot", snapshot);
    fail_each(&s, "resume", resume);
    folder_remove(&images);
    tear_down(&s);
    return check_result();
}
