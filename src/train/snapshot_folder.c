/* snapshot_folder.c: the snapshots of a folder: which there are, which to keep, which to continue
 * from.
 *
 * A snapshot is created by a rename, so one that exists is complete; a program that was killed
 * leaves at most a temporary file, which the next run deletes. */
#include "train/train_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEPT 3 /* the newest, besides the best */
#define PREFIX "snapshot-"
#define SUFFIX ".safetensors"
#define LONGEST_PATH 4096

static cairn_status path_of(const char *folder, const char *name, char out[LONGEST_PATH],
                            cairn_error *err) {
    int length = snprintf(out, LONGEST_PATH, "%s/%s", folder, name);
    if (length < 0 || length >= LONGEST_PATH)
        return crn_fail(err, CAIRN_EIO, "cannot write to %.200s: its name is too long", folder);
    return CAIRN_OK;
}

static cairn_status snapshot_path(const char *folder, uint64_t step, char out[LONGEST_PATH],
                                  cairn_error *err) {
    char name[64];
    snprintf(name, sizeof name, PREFIX "%08llu" SUFFIX, (unsigned long long)step);
    return path_of(folder, name, out, err);
}

/* The step in the name of a snapshot; false: it is another file's. */
static bool step_of(const char *name, uint64_t *out) {
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return false;
    const char *digits = name + strlen(PREFIX);
    size_t count = strspn(digits, "0123456789");
    *out = count >= 8 && count <= 18 ? strtoull(digits, NULL, 10) : 0;
    return count >= 8 && count <= 18 && strcmp(digits + count, SUFFIX) == 0;
}

/* "snapshot-00000012.safetensors.tmp.4711" */
static bool is_left_behind(const char *name) {
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strstr(name, SUFFIX ".tmp.") != NULL;
}

static int falling(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

typedef CRN_ARRAY(uint64_t) steps_array;

static cairn_status read_entries(DIR *handle, crn_arena *scratch, steps_array *steps) {
    const struct dirent *entry;
    uint64_t step;
    while ((entry = readdir(handle)) != NULL)
        if (step_of(entry->d_name, &step))
            CRN_PUSH(scratch, *steps, step);
    if (steps->length > 0)
        qsort(steps->data, steps->length, sizeof *steps->data, falling);
    return CAIRN_OK;
}

/* The steps of all snapshots, newest first. */
static cairn_status list_steps(const char *folder, crn_arena *scratch, steps_array *steps,
                               cairn_error *err) {
    DIR *handle = opendir(folder);
    if (handle == NULL && errno == ENOENT)
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no folder %s", folder);
    if (handle == NULL)
        return crn_fail(err, CAIRN_EIO, "cannot open %s: %s", folder, strerror(errno));
    cairn_status status = read_entries(handle, scratch, steps);
    closedir(handle);
    return status;
}

/* ---- Keeping ---- */

/* Delete all but the newest and the best. A file that cannot be deleted does not stop training;
 * deletion is tried again after the next snapshot. */
static cairn_status prune(const cairn_train *train, const char *folder, crn_arena *scratch,
                          cairn_error *err) {
    steps_array steps = {0};
    char path[LONGEST_PATH];
    CRN_TRY(list_steps(folder, scratch, &steps, err));
    for (uint32_t i = KEPT; i < steps.length; i++) {
        if (steps.data[i] == train->history.best_step)
            continue;
        CRN_TRY(snapshot_path(folder, steps.data[i], path, err));
        (void)!unlink(path);
    }
    return CAIRN_OK;
}

cairn_status cairn_train_snapshot(cairn_train *train, const char *folder, cairn_error *err) {
    char path[LONGEST_PATH];
    crn_arena scratch;
    crn_error_clear(err);
    CRN_TRY(snapshot_path(folder, train->history.steps, path, err));
    CRN_TRY(crn_snapshot_write(train, path, err));
    crn_arena_init(&scratch, &train->memory.allocator);
    cairn_status status = prune(train, folder, &scratch, err);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

/* ---- Continuing ---- */

static cairn_status sweep_out(const char *folder, cairn_text *notices, cairn_error *err) {
    char path[LONGEST_PATH];
    const struct dirent *entry;
    cairn_status status = CAIRN_OK;
    DIR *handle = opendir(folder);
    while (handle != NULL && status == CAIRN_OK && (entry = readdir(handle)) != NULL) {
        if (!is_left_behind(entry->d_name))
            continue;
        status = path_of(folder, entry->d_name, path, err);
        if (status == CAIRN_OK && unlink(path) == 0)
            crn_text_printf(notices, "%s was left behind unfinished and has been deleted\n", path);
    }
    if (handle != NULL)
        closedir(handle);
    return status;
}

/* The newest undamaged one; if there is none, the first error. */
static cairn_status resume_newest(cairn_train *train, const char *folder, const steps_array *steps,
                                  cairn_text *notices, cairn_error *err) {
    cairn_error first = {0};
    char path[LONGEST_PATH], why[1024];
    for (uint32_t i = 0; i < steps->length; i++) {
        cairn_error own = {0};
        CRN_TRY(snapshot_path(folder, steps->data[i], path, err));
        CRN_TRY(crn_text_finish(notices)); /* when tensors are taken nothing may fail any more */
        cairn_status status = crn_snapshot_read(train, path, notices, &own);
        if (status != CAIRN_ESYNTAX) {
            if (err != NULL)
                *err = own;
            return status;
        }
        own.status = CAIRN_ESYNTAX;
        crn_text_printf(notices, "%s; an older one is taken\n",
                        cairn_error_text(&own, why, sizeof why));
        first = i == 0 ? own : first;
    }
    if (err != NULL)
        *err = first;
    return CAIRN_ESYNTAX;
}

static cairn_status resume(cairn_train *train, const char *folder, crn_arena *scratch,
                           cairn_text *notices, cairn_error *err) {
    steps_array steps = {0};
    CRN_TRY(list_steps(folder, scratch, &steps, err));
    CRN_TRY(sweep_out(folder, notices, err));
    if (steps.length == 0)
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no snapshot in %s", folder);
    return resume_newest(train, folder, &steps, notices, err);
}

cairn_status cairn_train_resume(cairn_train *train, const char *folder, cairn_text *notices,
                                cairn_error *err) {
    cairn_text text;
    crn_arena scratch;
    crn_error_clear(err);
    crn_text_init(&text, &train->memory.allocator);
    crn_arena_init(&scratch, &train->memory.allocator);
    cairn_status status = resume(train, folder, &scratch, &text, err);
    crn_arena_release(&scratch);
    if (crn_text_finish(&text) != CAIRN_OK && status == CAIRN_OK)
        status = CAIRN_ENOMEM;
    if (notices != NULL)
        *notices = text;
    else
        cairn_text_release(&text);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
