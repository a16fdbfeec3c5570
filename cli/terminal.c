/* terminal.c: see terminal.h. */
#define _DEFAULT_SOURCE /* TIOCGWINSZ */
#include "terminal.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    int count = columns != NULL ? atoi(columns) : 0;
    return count > 0 ? count : 80;
}

bool cli_shows_progress(const cli_args *args) {
    return isatty(STDERR_FILENO) && !cli_flag(args, "json");
}

void cli_progress(const cli_args *args, const char *format, ...) {
    char line[256];
    va_list arguments;
    if (!cli_shows_progress(args))
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int most = width() - 1; /* the last column would wrap */
    pthread_mutex_lock(&lock);
    fprintf(stderr, "\r%.*s\033[K", most > 0 ? most : 0, line);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

void cli_progress_clear(const cli_args *args) {
    if (!cli_shows_progress(args))
        return;
    pthread_mutex_lock(&lock);
    fputs("\r\033[K", stderr);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

const char *cli_style_code(cli_style style) {
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[32m", "\033[31m", "\033[2m"};
    static int colours = -1;
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (colours < 0)
        colours = isatty(STDOUT_FILENO) && (no == NULL || no[0] == '\0') &&
                  (term == NULL || strcmp(term, "dumb") != 0);
    return colours ? codes[style] : "";
}
