/* train_folder.c: the files of a run, and reading them back.
 *
 *     FOLDER/options            the folder that the run was started in, and its arguments, a word
 *                               a line
 *     FOLDER/log.jsonl          a line a step and evaluation
 *     FOLDER/snapshot-*         see cairn/train.h
 *     FOLDER/training.svg       at the end
 *
 * A run holds a lock on its folder. The system removes the lock when the process ends. */
#define _DEFAULT_SOURCE /* flock */
#include "outputs.h"
#include "training.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot(const char *what, const char *path) {
    fprintf(stderr, "cairn: cannot %s %s: %s\n", what, path, strerror(errno));
    return CLI_SYSTEM;
}

static int options_path(const char *folder, char *out, size_t size) {
    if (snprintf(out, size, "%s/options", folder) < (int)size)
        return CLI_DONE;
    errno = ENAMETOOLONG;
    return cannot("open", folder);
}

/* ---- The options ---- */

#define STARTED_IN "# started in "

static bool is_found(const char *path) {
    return access(path, F_OK) == 0;
}

/* A path of the run. If it is not found from here but from the folder `start`, it is meant there.
 */
static void put_path(FILE *file, const char *start, const char *path, size_t length) {
    char here[4096], there[8192];
    snprintf(here, sizeof here, "%.*s", (int)length, path);
    snprintf(there, sizeof there, "%s/%s", start, here);
    fputs(here[0] != '/' && !is_found(here) && is_found(there) ? there : here, file);
}

/* "mnist:FOLDER", "text:FILE,FILE": the paths in it. */
static void put_data(FILE *file, const char *start, const char *source) {
    const char *path = strchr(source, ':');
    size_t length = path == NULL ? strlen(source) : (size_t)(path + 1 - source);
    fwrite(source, 1, length, file);
    for (source += length; *source != '\0'; source += length) {
        if (*source == ',')
            fputc(*source++, file);
        length = strcspn(source, ",");
        put_path(file, start, source, length);
    }
}

/* Whether an argument is a path, or an option with one; the path begins at `at`. */
static bool has_path(const char *line, size_t at) {
    static const char *const options[] = {
        "--weights=", "--costs=", "--machine=", "--plan=", "--log=", "--save=", "--html=", NULL};
    if (line[0] != '-')
        return strchr(line, '.') != NULL; /* a network of a file */
    for (int i = 0; options[i] != NULL; i++)
        if (at == strlen(options[i]) && strncmp(line, options[i], at) == 0)
            return true;
    return false;
}

/* One argument of a run that was started in the folder `start`. */
static void put_argument(FILE *file, const char *start, const char *line) {
    const char *equals = line[0] == '-' ? strchr(line, '=') : NULL;
    size_t at = equals == NULL ? 0 : (size_t)(equals + 1 - line);
    fwrite(line, 1, at, file);
    if (strncmp(line, "--data=", 7) == 0)
        put_data(file, start, line + at);
    else if (has_path(line, at))
        put_path(file, start, line + at, strlen(line + at));
    else
        fputs(line + at, file);
    fputc('\n', file);
}

/* The arguments in the text of an options file, one a line; NULL: out of memory. */
static char *read_arguments(char *text) {
    char *made = NULL, *start = text, *end = strchr(text, '\n');
    size_t length;
    if (strncmp(text, STARTED_IN, sizeof STARTED_IN - 1) != 0 || end == NULL)
        return strdup(text); /* of an older version */
    FILE *file = open_memstream(&made, &length);
    if (file == NULL)
        return NULL;
    start += sizeof STARTED_IN - 1;
    *end = '\0';
    for (char *line = end + 1; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        put_argument(file, start, line);
    }
    if (fclose(file) == 0)
        return made;
    free(made);
    return NULL;
}

int cli_train_recall(const cli_args *given, const char *folder, char **lines, cli_args **out) {
    char path[4096];
    cairn_text text;
    cairn_error err = {0};
    int code = options_path(folder, path, sizeof path);
    if (code != CLI_DONE)
        return code;
    cairn_status status = cairn_text_load(NULL, path, &text, &err);
    if (status == CAIRN_EUNKNOWN) {
        fprintf(stderr, "cairn: there is no run in %s to continue\n", folder);
        return CLI_WRONG_INPUT;
    }
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    *lines = read_arguments(text.data);
    cairn_text_release(&text);
    if (*lines == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    *out = cli_recall(given, *lines);
    return *out == NULL ? CLI_WRONG_INPUT : CLI_DONE;
}

int cli_train_write_options(const cli_training *t) {
    char path[4096];
    static const char *const without[] = {"out", "resume", "json", "help", NULL};
    cairn_error err = {0};
    int code = options_path(t->folder, path, sizeof path);
    if (code != CLI_DONE)
        return code;
    char *lines = cli_remember(t->args, without), *start = getcwd(NULL, 0);
    if (lines == NULL) {
        free(start);
        return cli_usage_error(t->args, "an argument has a line break");
    }
    cairn_text text = {0};
    FILE *file = open_memstream(&text.data, &text.length);
    if (file != NULL && start != NULL && strchr(start, '\n') == NULL)
        fprintf(file, STARTED_IN "%s\n", start);
    bool whole = file != NULL && fputs(lines, file) >= 0;
    whole = file != NULL && fclose(file) == 0 && whole;
    cairn_status status = whole ? cairn_text_save(&text, path, &err) : CAIRN_ENOMEM;
    free(text.data);
    free(lines);
    free(start);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

/* ---- The folder ---- */

static int lock_folder(cli_training *t) {
    t->lock = open(t->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->lock < 0)
        return cannot("open", t->folder);
    if (flock(t->lock, LOCK_EX | LOCK_NB) == 0)
        return CLI_DONE;
    if (errno != EWOULDBLOCK)
        return CLI_DONE; /* a file system without locks */
    fprintf(stderr, "cairn: another process is training in %s\n", t->folder);
    return CLI_WRONG_INPUT;
}

int cli_train_open_folder(cli_training *t, bool resume) {
    char path[4096];
    if (!cli_make_folders(t->folder))
        return cannot("make", t->folder);
    int code = lock_folder(t);
    if (code == CLI_DONE)
        code = options_path(t->folder, path, sizeof path);
    if (code != CLI_DONE)
        return code;
    if (!resume && access(path, F_OK) == 0) {
        fprintf(stderr,
                "cairn: %s holds a run already; continue it with --resume %s, or choose another "
                "folder\n",
                t->folder, t->folder);
        return CLI_WRONG_INPUT;
    }
    return CLI_DONE;
}

/* ---- The log ---- */

int cli_train_open_log(cli_training *t) {
    cairn_text text = {0};
    cairn_error err = {0};
    if (t->log_path == NULL && t->folder != NULL) {
        if (snprintf(t->default_log, sizeof t->default_log, "%s/log.jsonl", t->folder) >=
            (int)sizeof t->default_log)
            return options_path(t->folder, t->default_log, 0);
        t->log_path = t->default_log;
    }
    if (t->log_path == NULL)
        return CLI_DONE;
    cairn_status status = cairn_train_log(t->train, 0, 0, &text);
    if (status == CAIRN_OK)
        status = cairn_text_save(&text, t->log_path, &err);
    cairn_text_release(&text);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    t->log = fopen(t->log_path, "a");
    return t->log == NULL ? cannot("write", t->log_path) : CLI_DONE;
}

int cli_train_log(cli_training *t, cairn_text *text) {
    bool good = t->log == NULL || (fwrite(text->data, 1, text->length, t->log) == text->length &&
                                   fflush(t->log) == 0);
    int code = good ? CLI_DONE : cannot("write", t->log_path);
    cairn_text_release(text);
    return code;
}
