/* remember.c: the arguments of a command as lines of a file, and back; and as a command to type. */
#include "cli_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINES (CLI_MOST_OPTIONS + CLI_MOST_POSITIONALS)

static bool is_listed(const char *name, const char *const *list) {
    for (; *list != NULL; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

static bool write_lines(const cli_args *args, const char *const *without, FILE *file) {
    const cli_option *option;
    bool whole = true;
    for (int i = 0; i < args->positional_count; i++) {
        whole &= strchr(args->positionals[i], '\n') == NULL;
        fprintf(file, "%s\n", args->positionals[i]);
    }
    for (int place = 0; (option = cli_option_at(args->command, place)) != NULL; place++) {
        const char *value = args->values[place];
        if (value == NULL || is_listed(option->name, without))
            continue;
        whole &= strchr(value, '\n') == NULL;
        fprintf(file, "--%s%s%s\n", option->name, option->argument != NULL ? "=" : "", value);
    }
    return whole;
}

char *cli_remember(const cli_args *args, const char *const *without) {
    char *lines = NULL;
    size_t length;
    FILE *file = open_memstream(&lines, &length);
    if (file == NULL)
        return NULL;
    bool whole = write_lines(args, without, file);
    if (fclose(file) == 0 && whole)
        return lines;
    free(lines);
    return NULL;
}

static void print_word(FILE *file, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=./,:%@";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, file);
        return;
    }
    fputc('\'', file);
    for (const char *c = word; *c != '\0'; c++)
        if (*c == '\'')
            fputs("'\\''", file);
        else
            fputc((unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c, file);
    fputc('\'', file);
}

static void print_option(FILE *file, const cli_option *option, const char *value) {
    fprintf(file, " --%s", option->name);
    if (option->argument != NULL) {
        fputc(' ', file);
        print_word(file, value);
    }
}

void cli_print_command(FILE *file, const cli_args *args, const char *const (*changes)[2]) {
    const cli_option *option;
    fprintf(file, "%s%s", CLI_SPELLED(args->command));
    for (int i = 0; i < args->positional_count; i++) {
        fputc(' ', file);
        print_word(file, args->positionals[i]);
    }
    for (int place = 0; (option = cli_option_at(args->command, place)) != NULL; place++) {
        const char *value = args->values[place];
        for (int i = 0; changes[i][0] != NULL; i++)
            if (strcmp(changes[i][0], option->name) == 0)
                value = changes[i][1];
        if (value != NULL)
            print_option(file, option, value);
    }
    fputc('\n', file);
}

/* Split into words; those that do not begin with a dash are left out where `options_only`. */
static int split_words(char *lines, bool options_only, char **words) {
    int count = 0;
    for (char *end; count < MOST_LINES && (end = strchr(lines, '\n')) != NULL; lines = end + 1) {
        *end = '\0';
        if (*lines == '-' || (*lines != '\0' && !options_only))
            words[count++] = lines;
    }
    return count;
}

cli_args *cli_recall(const cli_args *given, char *lines) {
    char *words[MOST_LINES];
    cli_args *args = malloc(sizeof *args);
    int count = split_words(lines, given->positional_count > 0, words);
    if (args == NULL || !cli_parse(given->command, count, words, args)) {
        free(args);
        return NULL;
    }
    for (int i = 0; i < given->positional_count; i++)
        args->positionals[i] = given->positionals[i];
    if (given->positional_count > 0)
        args->positional_count = given->positional_count;
    for (int place = 0; place < CLI_MOST_OPTIONS; place++)
        if (given->values[place] != NULL)
            args->values[place] = given->values[place];
    return args;
}
