/* picture.c: runs graphviz's dot on a text and keeps its drawing. */
#include "picture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int complain(const char *what) {
    fprintf(stderr, "cairn: cannot draw: %s\n", what);
    return CLI_SYSTEM;
}

/* In the child: dot reads the text on standard input and writes to `path`. */
static void become_dot(int input, const char *path) {
    dup2(input, STDIN_FILENO);
    close(input);
    execlp("dot", "dot", "-Tsvg", "-o", path, (char *)NULL);
    _exit(127);
}

static bool feed(int fd, const cairn_text *text) {
    size_t done = 0;
    while (done < text->length) {
        ssize_t wrote = write(fd, text->data + done, text->length - done);
        if (wrote < 0 && errno != EINTR)
            return false;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

static int run_dot(const cairn_text *text, const char *path) {
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0)
        return complain(strerror(errno));
    signal(SIGPIPE, SIG_IGN); /* a dot that is missing closes the pipe */
    pid_t child = fork();
    if (child == 0) {
        close(pipe_ends[1]);
        become_dot(pipe_ends[0], path);
    }
    close(pipe_ends[0]);
    bool fed = child > 0 && feed(pipe_ends[1], text);
    close(pipe_ends[1]);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return complain(strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return complain("graphviz's 'dot' is not installed; give a name ending in .dot instead");
    if (!fed || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return complain("graphviz's 'dot' failed");
    return CLI_DONE;
}

/* Create an empty file first, so that this command reports it if that is not possible. */
static int make_file(const char *path, const char *wanted) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0 && close(fd) == 0)
        return CLI_DONE;
    fprintf(stderr, "cairn: cannot write %s: %s\n", wanted, strerror(errno));
    return CLI_SYSTEM;
}

int cli_draw(cairn_text *dot, const char *path) {
    size_t length = strlen(path);
    if (length < 4 || strcmp(path + length - 4, ".svg") != 0)
        return cli_emit(dot, path);
    /* Drawn into a temporary file and renamed, so that no incomplete picture is left. */
    char temporary[4096];
    int size = snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path, (long)getpid());
    int code = size > 0 && (size_t)size < sizeof temporary ? make_file(temporary, path)
                                                           : complain("the name is too long");
    if (code == CLI_DONE)
        code = run_dot(dot, temporary);
    if (code == CLI_DONE && rename(temporary, path) != 0)
        code = complain(strerror(errno));
    if (code != CLI_DONE)
        unlink(temporary);
    cairn_text_release(dot);
    return code;
}
