/* replay.c: runs a fuzz target on files, without libFuzzer: on every file that is named, and on
 * every file in a folder that is named. Without any file it fails. */
#include "fuzz.h"

#include <dirent.h>

static long fed;

static void feed(const char *path) {
    cairn_text text;
    cairn_error err = {0};
    if (cairn_text_load(NULL, path, &text, &err) != CAIRN_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    /* A block of exactly its size, so that reading past the end is detected. */
    uint8_t *copy = malloc(text.length + (text.length == 0));
    if (copy == NULL)
        abort();
    memcpy(copy, text.data, text.length);
    size_t length = text.length;
    cairn_text_release(&text);
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
    fed++;
}

static void feed_folder(const char *path, DIR *folder) {
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        feed(file);
    }
    closedir(folder);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder != NULL)
            feed_folder(argv[i], folder);
        else
            feed(argv[i]);
    }
    printf("%ld files\n", fed);
    return fed == 0;
}
