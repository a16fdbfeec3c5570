/* fuzz_folder.h: for targets whose reader needs a folder: a temporary folder that is filled for
 * each input, and checks of data that was accepted. */
#ifndef FUZZ_FOLDER_H
#define FUZZ_FOLDER_H

#include "data/loader.h"
#include "fuzz.h"

#include <dirent.h>
#include <unistd.h>

static char fuzz_folder_path[256];

static void fuzz_folder_remove(void) {
    char path[600];
    DIR *dir = opendir(fuzz_folder_path);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", fuzz_folder_path, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(dir);
    rmdir(fuzz_folder_path);
}

static inline void fuzz_folder_make(void) {
    const char *base = getenv("TMPDIR");
    if (fuzz_folder_path[0] != '\0')
        return;
    snprintf(fuzz_folder_path, sizeof fuzz_folder_path, "%s/cairn-fuzz-XXXXXX",
             base == NULL ? "/tmp" : base);
    FUZZ_CHECK(mkdtemp(fuzz_folder_path) != NULL);
    atexit(fuzz_folder_remove);
}

static inline void fuzz_folder_put(const char *name, const uint8_t *bytes, size_t length) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder_path, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL);
    FUZZ_CHECK(length == 0 || fwrite(bytes, 1, length, file) == length);
    FUZZ_CHECK(fclose(file) == 0);
}

/* Read an epoch of a split. Every label must be valid, and real numbers that are not finite must be
 * reported. */
static inline void fuzz_read_split(cairn_data *data, cairn_split split) {
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    cairn_data_info info = *cairn_data_get_info(data);
    crn_loader *loader;
    cairn_error err = {0};
    options.split = split;
    options.batch = split == CAIRN_SPLIT_TRAIN ? 1 : 2;
    options.prefetch = 0; /* a thread for each input would be slow; test_loader.c tests threads */
    options.shuffle = options.flip = info.rank == 3;
    cairn_status status = crn_loader_create(data, &options, &loader, &err);
    if (status != CAIRN_OK) {
        fuzz_check_error(status, &err);
        return;
    }
    for (uint64_t n = 0; n < crn_loader_batches(loader) && status == CAIRN_OK; n++) {
        crn_batch batch = {0};
        status = crn_loader_next(loader, &batch, &err);
        if (status != CAIRN_OK)
            fuzz_check_error(status, &err);
        for (uint32_t k = 0; status == CAIRN_OK && k < options.batch; k++)
            FUZZ_CHECK(batch.labels[k] >= 0 && (uint32_t)batch.labels[k] < info.classes);
    }
    crn_loader_destroy(loader);
}

/* Open the folder as data of `kind`; an error must name a file in it. */
static inline void fuzz_open_folder(const char *kind) {
    char source[300];
    cairn_data *data;
    cairn_error err = {0};
    snprintf(source, sizeof source, "%s:%s", kind, fuzz_folder_path);
    cairn_status status = cairn_data_open(source, NULL, &data, &err);
    if (status != CAIRN_OK) {
        char text[1024];
        fuzz_check_error(status, &err);
        FUZZ_CHECK(strstr(cairn_error_text(&err, text, sizeof text), fuzz_folder_path) != NULL);
        FUZZ_CHECK(data == NULL);
        return;
    }
    cairn_data_info info = *cairn_data_get_info(data);
    FUZZ_CHECK(info.train > 0 && info.classes > 0 && info.rank > 0);
    fuzz_read_split(data, CAIRN_SPLIT_TRAIN);
    if (info.validation > 0)
        fuzz_read_split(data, CAIRN_SPLIT_VALIDATION);
    cairn_data_destroy(data);
}

#endif
