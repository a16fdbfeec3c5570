/* cli.h: how the subcommands of `cairn` are declared and how they read their arguments.
 *
 * A subcommand is one file with one cli_command and one line in commands.def. Its options are a
 * table, from which parsing, --help, the man page and the shell completions all follow. */
#ifndef CLI_H
#define CLI_H

#include "cairn.h"

#include <stdio.h>

/* Exit codes of the command. */
enum {
    CLI_DONE = 0,
    CLI_WRONG_INPUT = 1,
    CLI_USAGE = 2,
    CLI_NO_FIT = 3,
    CLI_SYSTEM = 4,
    CLI_INTERRUPTED = 130
};

typedef struct cli_option {
    const char *name;     /* without the dashes */
    char letter;          /* short form, or 0 */
    const char *argument; /* "FILE", or NULL for a flag */
    const char *help;
} cli_option;

typedef struct cli_args cli_args;

typedef struct cli_named {
    const char *name, *summary;
} cli_named;

typedef struct cli_command {
    const char *name;
    const char *arguments;     /* positional ones: "PLAN [MODEL]", where MODEL may be left out */
    const char *summary;       /* one line, for the list of commands */
    const char *details;       /* paragraphs for --help and the man page */
    const cli_option *options; /* ends with a NULL name; --help and --json need not be listed */
    /* Things that the command knows by name, from the lists of the library; ends with a NULL title.
     * The first is what --algorithm takes. */
    struct cli_list {
        const char *title;
        bool (*at)(uint32_t index, cli_named *out); /* false past the end */
    } lists[4];
    const char *examples; /* command lines, one a line, without the "cairn" */
    int (*run)(const cli_args *args);
    bool runs;     /* it runs the model that it opens: on the best backend, without --backend */
    bool computes; /* it runs networks, not only plans them */
    bool alone;    /* it is a program itself, cairn-NAME */
} cli_command;

/* ---- What was given ---- */

const char *cli_positional(const cli_args *args, int index); /* NULL: not given */
const char *cli_value(const cli_args *args, const char *option);
bool cli_flag(const cli_args *args, const char *option);

/* Whether the command runs the model that it opens. */
bool cli_runs(const cli_args *args);

/* A whole number from `low` to `high`; `fallback` when the option is absent. On a bad value these
 * print a sentence and return false; the command then exits with CLI_USAGE. */
bool cli_number(const cli_args *args, const char *option, uint64_t low, uint64_t high,
                uint64_t fallback, uint64_t *out);

/* A number from `low` to below `high`, likewise. */
bool cli_real(const cli_args *args, const char *option, double low, double high, double fallback,
              double *out);

/* One of a list of names that `name_of` gives, NULL past its end; as its place. */
bool cli_choice_value(const cli_args *args, const char *option, const char *(*name_of)(uint32_t),
                      uint32_t fallback, uint32_t *out);

/* Define such a function from one of the library's lists of names. */
#define CLI_NAMES(function, LIST)                                                                  \
    static const char *function(uint32_t index) {                                                  \
        static const char *const names[] = {LIST(CLI_NAME_OF)};                                    \
        return index < sizeof names / sizeof *names ? names[index] : NULL;                         \
    }
#define CLI_NAME_OF(name, number, text) [number] = text,

/* "1024", "8GiB", "500MB", "40%". A percentage is given in millionths of something that the
 * caller knows. */
typedef struct cli_size {
    bool given, percent;
    uint64_t bytes; /* or millionths */
} cli_size;
bool cli_size_value(const cli_args *args, const char *option, cli_size *out);

/* The arguments, one per line, except the options in the list, which ends with NULL: for a file
 * from which cli_recall() restores them. Release with free(). NULL: an argument has a line break,
 * or memory is out. */
char *cli_remember(const cli_args *args, const char *const *without);

/* The remembered arguments; those given now override them. `lines` is
 * split into words and must outlive the result, which is to be released with free(). NULL after
 * saying what is wrong. */
cli_args *cli_recall(const cli_args *given, char *lines);

/* The command as it was given, as a line for the shell, with changes: pairs of an option and its
 * value (NULL: without it), which end with NULL. */
void cli_print_command(FILE *file, const cli_args *args, const char *const (*changes)[2]);

/* The allocator that the program gives to the library: NULL, the library's default, unless a bench
 * has set another one before anything was made. */
void cli_use_allocator(const cairn_allocator *allocator);
const cairn_allocator *cli_allocator(void);

/* What the system says that this process holds in memory now, and held at most; 0: it does not
 * say. */
uint64_t cli_resident_bytes(void);
uint64_t cli_resident_peak_bytes(void);

/* ---- What is said ---- */

/* "cairn: SENTENCE" on standard error; returns the exit code that the status calls for. */
int cli_fail(cairn_status status, const cairn_error *err);
int cli_usage_error(const cli_args *args, const char *format, ...);

/* Replace control characters, which a terminal would obey. */
void cli_clean(char *text);

/* Bytes in readable form: "1.5 GiB". The result is in a ring of static buffers, so that several can
 * be used in one call of printf. Times likewise: "12.3 ms". */
const char *cli_bytes(uint64_t bytes);
const char *cli_time(int64_t nanoseconds);

/* A loss with four digits, "nan" whatever its sign; and for JSON, which has no such numbers: all
 * digits, or "null". In the same ring. */
const char *cli_loss(double loss);
const char *cli_json_real(double value);

/* A budget that a user can type, not below or not above these bytes: "694MiB". In the same ring. */
const char *cli_budget_above(uint64_t bytes);
const char *cli_budget_below(uint64_t bytes);

/* For "did you mean": `name` if it is closer to the misspelt `word` than `best`, which is NULL at
 * first; `best` if it is not, or not close at all. */
const char *cli_closer(const char *word, const char *best, const char *name);

/* Nanoseconds of a monotonic clock. */
int64_t cli_clock(void);

/* Write a text to `path`, or to standard output where it is NULL or "-"; releases the text. Returns
 * an exit code. */
int cli_emit(cairn_text *text, const char *path);

#endif
