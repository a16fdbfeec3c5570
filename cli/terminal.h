/* terminal.h: what is shown only on a terminal: a line of progress, and colours. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "cli.h"

/* Whether progress is shown: standard error is a terminal, and --json was not given. */
bool cli_shows_progress(const cli_args *args);

/* Replace the line of progress; it is truncated to the width of the terminal, so that it never
 * scrolls. Threads may call this at once. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_progress(const cli_args *args, const char *format, ...);

/* Remove it, before anything else is printed. */
void cli_progress_clear(const cli_args *args);

/* Codes around a text on standard output: bold for headings, green and red for good and bad. Empty
 * where that is no terminal or NO_COLOR is set. */
typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_GOOD, CLI_BAD, CLI_DIM } cli_style;
const char *cli_style_code(cli_style style);

#endif
