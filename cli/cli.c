/* cli.c: parsing of arguments and printing of messages, the same for every subcommand. */
#include "cli_internal.h"
#include "outputs.h"
#include "terminal.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const cli_option cli_common_options[] = {
    {"json", 0, NULL, "print JSON for programs, one object per line"},
    {"help", 'h', NULL, "print this and exit"},
    {NULL, 0, NULL, NULL},
};

const cli_option *cli_option_at(const cli_command *command, int place) {
    for (const cli_option *o = command->options; o->name != NULL; o++)
        if (place-- == 0)
            return o;
    for (const cli_option *o = cli_common_options; o->name != NULL; o++)
        if (place-- == 0)
            return o;
    return NULL;
}

static char *next_buffer(void) {
    static char ring[8][32];
    static unsigned turn;
    return ring[turn++ % 8];
}

/* ---- Spelling ---- */

/* Letters to change, insert or remove to make one word of the other (Levenshtein, 1966), or to swap
 * with their neighbours. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][64], n = strlen(b);
    if (n >= 64 || strlen(a) >= 64)
        return SIZE_MAX;
    for (size_t k = 0; k <= n; k++)
        rows[0][k] = k;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= n; k++) {
            size_t least = above[k - 1] + (a[i - 1] != b[k - 1]);
            least = above[k] + 1 < least ? above[k] + 1 : least;
            least = row[k - 1] + 1 < least ? row[k - 1] + 1 : least;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                before[k - 2] + 1 < least)
                least = before[k - 2] + 1;
            row[k] = least;
        }
    }
    return rows[strlen(a) % 3][n];
}

const char *cli_closer(const char *word, const char *best, const char *name) {
    size_t most = strlen(word) < 4 ? 1 : 2;
    size_t found = distance(word, name);
    bool begins = strlen(word) > 2 && strncmp(name, word, strlen(word)) == 0;
    if (!begins && (found > most || word[0] != name[0])) /* few people mistype the first letter */
        return best;
    return best == NULL || found < distance(word, best) ? name : best;
}

/* ---- Parsing ---- */

static int find_option(const cli_command *command, const char *name, size_t length, char letter) {
    const cli_option *option;
    for (int place = 0; (option = cli_option_at(command, place)) != NULL; place++) {
        if (letter != 0 ? option->letter == letter
                        : strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return place;
    }
    return -1;
}

/* The option whose name is closest; NULL: none is close. */
static const char *closest_option(const cli_command *command, const char *name, size_t length) {
    const cli_option *option;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    const char *best = NULL;
    for (int place = 0; (option = cli_option_at(command, place)) != NULL; place++)
        best = cli_closer(word, best, option->name);
    return best;
}

/* One option at argv[*at], with its value if it takes one. */
static bool parse_option(cli_args *args, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const char *equals = is_long ? strchr(name, '=') : NULL;
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    int place = find_option(args->command, name, length, is_long ? 0 : name[0]);
    const cli_option *option = place < 0 ? NULL : cli_option_at(args->command, place);
    const char *attached = !is_long && length > 1 ? name + 1 : NULL; /* -b4 */
    if (option == NULL || (attached != NULL && option->argument == NULL)) {
        const char *meant = is_long ? closest_option(args->command, name, length) : NULL;
        if (meant != NULL)
            cli_usage_error(args, "unknown option %s (did you mean --%s?)", word, meant);
        else
            cli_usage_error(args, "unknown option %s", word);
        return false;
    }
    if (option->argument == NULL) {
        if (equals != NULL) {
            cli_usage_error(args, "--%s takes no value", option->name);
            return false;
        }
        args->values[place] = "";
        return true;
    }
    if (attached != NULL) {
        args->values[place] = attached + (*attached == '=');
        return true;
    }
    if (equals == NULL && *at + 1 >= argc) {
        cli_usage_error(args, "--%s needs a value (%s)", option->name, option->argument);
        return false;
    }
    args->values[place] = equals != NULL ? equals + 1 : argv[++*at];
    return true;
}

/* The number of positional arguments that a command takes, or needs at least. */
static int count_arguments(const cli_command *command, bool needed) {
    int count = 0;
    for (const char *word = command->arguments; *word != '\0'; word += strspn(word, " ")) {
        count += !needed || *word != '[';
        word += strcspn(word, " ");
    }
    return count;
}

bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *out) {
    *out = (cli_args){.command = command};
    bool only_positionals = false;
    for (int at = 0; at < argc; at++) {
        if (!only_positionals && strcmp(argv[at], "--") == 0) {
            only_positionals = true;
        } else if (!only_positionals && argv[at][0] == '-' && argv[at][1] != '\0') {
            if (!parse_option(out, argc, argv, &at))
                return false;
        } else if (out->positional_count >= count_arguments(command, false)) {
            cli_usage_error(out, "unexpected argument %s", argv[at]);
            return false;
        } else {
            out->positionals[out->positional_count++] = argv[at];
        }
    }
    if (!cli_flag(out, "help") && out->positional_count < count_arguments(command, true)) {
        cli_usage_error(out, "it needs %s", command->arguments);
        return false;
    }
    return true;
}

const char *cli_positional(const cli_args *args, int index) {
    return index < args->positional_count ? args->positionals[index] : NULL;
}

const char *cli_value(const cli_args *args, const char *option) {
    int place = find_option(args->command, option, strlen(option), 0);
    return place < 0 ? NULL : args->values[place];
}

bool cli_flag(const cli_args *args, const char *option) {
    return cli_value(args, option) != NULL;
}

bool cli_runs(const cli_args *args) {
    return args->command->runs;
}

bool cli_number(const cli_args *args, const char *option, uint64_t low, uint64_t high,
                uint64_t fallback, uint64_t *out) {
    const char *text = cli_value(args, option);
    *out = fallback;
    if (text == NULL)
        return true;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < low ||
        value > high) {
        cli_usage_error(args, "--%s must be a whole number from %llu to %llu, not \"%s\"", option,
                        (unsigned long long)low, (unsigned long long)high, text);
        return false;
    }
    *out = value;
    return true;
}

bool cli_real(const cli_args *args, const char *option, double low, double high, double fallback,
              double *out) {
    const char *text = cli_value(args, option);
    *out = fallback;
    if (text == NULL)
        return true;
    char *end;
    double value = strtod(text, &end);
    /* strtod() also takes " 1", "inf" and "0x1p3" */
    bool plain = text[0] != '\0' && text[strspn(text, "0123456789.eE+-")] == '\0';
    if (!plain || *end != '\0' || !(value >= low && value < high)) {
        cli_usage_error(args, "--%s must be a number from %g to below %g, not \"%s\"", option, low,
                        high, text);
        return false;
    }
    *out = value;
    return true;
}

bool cli_choice_value(const cli_args *args, const char *option, const char *(*name_of)(uint32_t),
                      uint32_t fallback, uint32_t *out) {
    const char *text = cli_value(args, option), *name;
    char known[200] = "";
    *out = fallback;
    if (text == NULL)
        return true;
    for (uint32_t i = 0; (name = name_of(i)) != NULL; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "", name);
        if (strcmp(name, text) == 0) {
            *out = i;
            return true;
        }
    }
    cli_usage_error(args, "--%s is one of %s, not \"%s\"", option, known, text);
    return false;
}

const char *cli_budget_above(uint64_t bytes) {
    char *buffer = next_buffer();
    uint64_t mib = (uint64_t)1 << 20, unit = bytes < mib ? 1024 : mib;
    snprintf(buffer, 32, "%llu%s", (unsigned long long)((bytes + unit - 1) / unit),
             unit == mib ? "MiB" : "KiB");
    return buffer;
}

const char *cli_budget_below(uint64_t bytes) {
    char *buffer = next_buffer();
    uint64_t mib = (uint64_t)1 << 20, gib = (uint64_t)1 << 30;
    uint64_t unit = bytes % gib == 0 ? gib : bytes < mib ? 1024 : mib;
    snprintf(buffer, 32, "%llu%s", (unsigned long long)(bytes / unit),
             unit == gib   ? "GiB"
             : unit == mib ? "MiB"
                           : "KiB");
    return buffer;
}

/* Bytes of one unit, or 0 for an unknown one: "GB" is 10^9, "GiB" and "G" are 2^30, in any case. */
static uint64_t unit_bytes(const char *unit) {
    static const char prefixes[] = "kmgt";
    char lower[4] = "";
    size_t length = strlen(unit);
    if (length > 3)
        return 0;
    for (size_t i = 0; i < length; i++)
        lower[i] = (char)tolower((unsigned char)unit[i]);
    if (length == 0 || strcmp(lower, "b") == 0)
        return 1;
    const char *prefix = strchr(prefixes, lower[0]);
    bool decimal = strcmp(lower + 1, "b") == 0;
    if (prefix == NULL || !(decimal || lower[1] == '\0' || strcmp(lower + 1, "ib") == 0))
        return 0;
    uint64_t bytes = 1;
    for (const char *p = prefixes; p <= prefix; p++)
        bytes *= decimal ? 1000 : 1024;
    return bytes;
}

/* Decimal digits with up to six after the point, exactly: "1.5" of a unit. */
static bool parse_size(const char *text, cli_size *out) {
    uint64_t whole = 0, millionths = 0, scale = 100000;
    const char *c = text;
    if (*c < '0' || *c > '9')
        return false;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (whole > (UINT64_MAX - 9) / 10)
            return false;
        whole = 10 * whole + (uint64_t)(*c - '0');
    }
    if (*c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++, scale /= 10)
            millionths += scale * (uint64_t)(*c - '0');
    while (*c == ' ')
        c++;
    out->percent = strcmp(c, "%") == 0;
    uint64_t unit = out->percent ? 10000 : unit_bytes(c);
    if (unit == 0 || whole > UINT64_MAX / 2 / unit)
        return false;
    out->bytes =
        whole * unit + (unit / 1000000) * millionths + (unit % 1000000) * millionths / 1000000;
    return !out->percent || out->bytes <= 1000000000;
}

bool cli_size_value(const cli_args *args, const char *option, cli_size *out) {
    const char *text = cli_value(args, option);
    *out = (cli_size){.given = text != NULL};
    if (text == NULL || parse_size(text, out))
        return true;
    cli_usage_error(args, "--%s must be a size such as 8GiB, 8G, 500MB or 40%%, not \"%s\"", option,
                    text);
    return false;
}

/* ---- Speaking ---- */

void cli_clean(char *text) {
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

int cli_usage_error(const cli_args *args, const char *format, ...) {
    char buffer[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    cli_clean(buffer);
    fprintf(stderr, "%s%s: %s; see %s%s --help\n", CLI_SPELLED(args->command), buffer,
            CLI_SPELLED(args->command));
    return CLI_USAGE;
}

int cli_fail(cairn_status status, const cairn_error *err) {
    char buffer[1024];
    if (status == CAIRN_ECANCELED) {
        fprintf(stderr, "cairn: interrupted\n");
        return CLI_INTERRUPTED;
    }
    if (err != NULL && err->status == status && err->message[0] != '\0') {
        cairn_error_text(err, buffer, sizeof buffer);
        cli_clean(buffer);
        fprintf(stderr, "cairn: %s\n", buffer);
    } else {
        fprintf(stderr, "cairn: %s\n", cairn_status_message(status));
    }
    switch (status) {
    case CAIRN_OK:
        return CLI_DONE;
    case CAIRN_INFEASIBLE:
        return CLI_NO_FIT;
    case CAIRN_ENOMEM:
    case CAIRN_EIO:
    case CAIRN_ESYSTEM:
        return CLI_SYSTEM;
    default:
        return CLI_WRONG_INPUT;
    }
}

const char *cli_bytes(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char *buffer = next_buffer();
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(buffer, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}

const char *cli_time(int64_t nanoseconds) {
    char *buffer = next_buffer();
    double value = (double)nanoseconds;
    if (value < 1e3)
        snprintf(buffer, 32, "%.0f ns", value);
    else if (value < 1e6)
        snprintf(buffer, 32, "%.1f us", value / 1e3);
    else if (value < 1e9)
        snprintf(buffer, 32, "%.2f ms", value / 1e6);
    else
        snprintf(buffer, 32, "%.3f s", value / 1e9);
    return buffer;
}

const char *cli_loss(double loss) {
    char *buffer = next_buffer();
    snprintf(buffer, 32, isnan(loss) ? "nan" : "%.4f", loss);
    return buffer;
}

const char *cli_json_real(double value) {
    char *buffer = next_buffer();
    snprintf(buffer, 32, isfinite(value) ? "%.9g" : "null", value);
    return buffer;
}

int64_t cli_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int cli_emit(cairn_text *text, const char *path) {
    cairn_error err = {0};
    cairn_status status = CAIRN_OK;
    if (path == NULL || strcmp(path, "-") == 0) {
        if (fwrite(text->data, 1, text->length, stdout) != text->length) {
            err.status = status = CAIRN_EIO;
            snprintf(err.message, sizeof err.message, "cannot write to standard output");
        }
    } else {
        status = cairn_text_save(text, path, &err);
    }
    cairn_text_release(text);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

/* ---- Help: at most 80 columns ---- */

#define HELP_WIDTH 80
#define HELP_LEFT 28 /* columns of an option and its argument */

/* Words of a paragraph up to `end`, in lines that begin at column `left`; the first is there. */
static void print_words(const char *text, const char *end, int left) {
    int column = left;
    while (text < end) {
        int length = (int)strcspn(text, " \n");
        length = text + length > end ? (int)(end - text) : length;
        if (column > left && column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", left, "");
            column = left;
        }
        printf("%s%.*s", column > left ? " " : "", length, text);
        column += length + (column > left);
        text += length;
        text +=
            strspn(text, " \n") < (size_t)(end - text) ? strspn(text, " \n") : (size_t)(end - text);
    }
    printf("\n");
}

/* A paragraph is filled; one with a list, whose lines begin with spaces, is printed as it is. */
static void print_paragraphs(const char *text) {
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n"), *item = strstr(text, "\n ");
        end = end == NULL ? text + strlen(text) : end;
        if (item != NULL && item < end)
            printf("%.*s\n", (int)(end - text), text);
        else
            print_words(text, end, 0);
        printf("\n");
        text = end + strspn(end, "\n");
    }
}

static void print_row(const char *left, int width, const char *text) {
    if ((int)strlen(left) > width)
        printf("  %s\n%*s", left, width + 3, "");
    else
        printf("  %-*s ", width, left);
    print_words(text, text + strlen(text), width + 3);
}

static void print_examples(const char *lines) {
    if (lines != NULL)
        printf("\n%sExamples:%s\n", cli_style_code(CLI_BOLD), cli_style_code(CLI_PLAIN));
    while (lines != NULL && *lines != '\0') {
        size_t length = strcspn(lines, "\n");
        printf("  cairn %.*s\n", (int)length, lines);
        lines += length + (lines[length] == '\n');
    }
}

void cli_print_help(const cli_command *command) {
    const cli_option *option;
    cli_named named;
    printf("Usage: %s%s%s%s [options]\n\n", CLI_SPELLED(command), command->arguments[0] ? " " : "",
           command->arguments);
    print_paragraphs(command->details);
    printf("%sOptions:%s\n", cli_style_code(CLI_BOLD), cli_style_code(CLI_PLAIN));
    for (int place = 0; (option = cli_option_at(command, place)) != NULL; place++) {
        char left[64], letter[8] = "    ";
        if (option->letter != 0)
            snprintf(letter, sizeof letter, "-%c, ", option->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name,
                 option->argument != NULL ? " " : "",
                 option->argument != NULL ? option->argument : "");
        print_row(left, HELP_LEFT, option->help);
    }
    for (int k = 0; k < 4 && command->lists[k].title != NULL; k++) {
        printf("\n%s%s:%s\n", cli_style_code(CLI_BOLD), command->lists[k].title,
               cli_style_code(CLI_PLAIN));
        for (uint32_t i = 0; command->lists[k].at(i, &named); i++)
            print_row(named.name, 16, named.summary);
    }
    print_examples(command->examples);
}

/* ---- Running ---- */

/* The threads of OpenMP, on which the fast backend runs, wait in a busy loop unless the environment
 * says otherwise when the program is loaded. Beside other programs that makes a step many times
 * slower, and alone it hardly helps. So a command that computes re-executes itself with the
 * variable set; if that fails, it continues without. */
static void calm_threads(char **argv) {
    char path[4096]; /* the program's real one, after which the process is called */
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (length > 0 && getenv("OMP_WAIT_POLICY") == NULL && getenv("GOMP_SPINCOUNT") == NULL &&
        setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv(path, argv);
}

static void say_out_of_memory(int number) {
    static const char sentence[] =
        "cairn: a library ended the program, most likely because the limit of its address space "
        "(ulimit -v) leaves it no memory\n";
    (void)number;
    (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
    _exit(CLI_SYSTEM);
}

/* oneDNN and OpenMP abort, or write where they got no memory, when an allocation fails. Where
 * address space is limited, say so. */
static void watch_limit(void) {
    struct rlimit limit;
    struct sigaction action = {.sa_handler = say_out_of_memory};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

int cli_run(const cli_command *command, int argc, char **argv, char **program) {
    cli_args args;
    if (!cli_parse(command, argc, argv, &args))
        return CLI_USAGE;
    if (cli_flag(&args, "help")) {
        cli_print_help(command);
        return CLI_DONE;
    }
    if (command->computes) {
        calm_threads(program);
        watch_limit();
    }
    int code =
        command->alone ? CLI_DONE : cli_check_outputs(&args); /* a bench may write a folder */
    if (code == CLI_DONE)
        code = command->run(&args);
    if (code != CLI_DONE)
        cli_remove_new_folders();
    return code;
}

int cli_finish(int code) {
    if (fflush(stdout) != 0 && code == CLI_DONE) {
        fprintf(stderr, "cairn: cannot write to standard output\n");
        return CLI_SYSTEM;
    }
    return code;
}
