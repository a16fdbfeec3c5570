/* outputs.c: see outputs.h. */
#include "outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folders that were made, each inside or after those before it. */
static char *new_folders[64];
static size_t new_count;

static bool make_folder(const char *path) {
    if (mkdir(path, 0777) != 0)
        return errno == EEXIST;
    if (new_count < sizeof new_folders / sizeof *new_folders)
        new_folders[new_count++] = strdup(path);
    return true;
}

void cli_remove_new_folders(void) {
    while (new_count > 0) {
        char *path = new_folders[--new_count];
        if (path != NULL)
            rmdir(path); /* it fails if something was written there */
        free(path);
    }
}

bool cli_make_folders(const char *path) {
    char folder[4096];
    struct stat facts;
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *c = folder + 1; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            if (!make_folder(folder))
                return false;
            *c = '/';
        }
    if (!make_folder(folder))
        return false;
    if (stat(folder, &facts) == 0 && !S_ISDIR(facts.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    return true;
}

static int cannot(const char *path, const char *why) {
    fprintf(stderr, "cairn: cannot write %s: %s\n", path, why);
    return CLI_SYSTEM;
}

static int check_output(const char *path) {
    char parent[4096];
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return cannot(path, "it is a folder; name a file in it");
    if (snprintf(parent, sizeof parent, "%s", path) >= (int)sizeof parent)
        return cannot(path, strerror(ENAMETOOLONG));
    char *slash = strrchr(parent, '/');
    if (slash == NULL)
        snprintf(parent, sizeof parent, ".");
    else
        slash[slash == parent] = '\0';
    if (slash != NULL && slash != parent && !cli_make_folders(parent))
        return cannot(path, strerror(errno));
    if (access(parent, W_OK) != 0 || (access(path, F_OK) == 0 && access(path, W_OK) != 0))
        return cannot(path, strerror(errno));
    return CLI_DONE;
}

int cli_check_outputs(const cli_args *args) {
    static const char *const options[] = {"save", "html",   "svg", "trace",
                                          "csv",  "output", "log", "picture"};
    int code = CLI_DONE;
    for (size_t i = 0; code == CLI_DONE && i < sizeof options / sizeof *options; i++) {
        const char *path = cli_value(args, options[i]);
        if (path != NULL && path[0] == '\0')
            code = cli_usage_error(args, "--%s needs the name of a file", options[i]);
        else if (path != NULL && strcmp(path, "-") != 0)
            code = check_output(path);
    }
    return code;
}

int cli_write_file(const char *path, int (*print)(const void *context, FILE *file),
                   const void *context) {
    cairn_error err = {0};
    cairn_text text = {0};
    FILE *file = open_memstream(&text.data, &text.length);
    if (file == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    int code = print(context, file);
    bool whole = ferror(file) == 0;
    if (fclose(file) != 0 || !whole)
        code = cli_fail(CAIRN_ENOMEM, NULL);
    if (code == CLI_DONE && cairn_text_save(&text, path, &err) != CAIRN_OK)
        code = cli_fail(err.status, &err);
    free(text.data);
    return code;
}
