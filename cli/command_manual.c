/* command_manual.c: `cairn manual man|bash|zsh`: the man page and the shell completions, written
 * from the same tables that parsing and --help use, so that they always agree. The build calls
 * it; help does not list it. */
#include "cli_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- The man page, for man(7) ---- */

/* Text with what roff would take for its own escaped; a new line begins a line, two a paragraph. */
static void put_roff(const char *text) {
    bool line_start = true;
    for (const char *c = text; *c != '\0'; c++) {
        if (c[0] == '\n' && c[1] == '\n') {
            fputs("\n.PP", stdout);
        } else if (*c == '\\') {
            fputs("\\e", stdout);
        } else if (*c == '-') {
            fputs("\\-", stdout);
        } else {
            if (line_start && (*c == '.' || *c == '\''))
                fputs("\\&", stdout);
            putchar(*c);
        }
        line_start = *c == '\n';
    }
}

static void put_term(const char *name, const char *summary) {
    printf(".TP\n.B ");
    put_roff(name);
    putchar('\n');
    put_roff(summary);
    putchar('\n');
}

static void man_option(const cli_option *option) {
    printf(".TP\n");
    if (option->letter != 0)
        printf("\\fB\\-%c\\fR, ", option->letter);
    printf("\\fB\\-\\-");
    put_roff(option->name);
    printf("\\fR");
    if (option->argument != NULL) {
        printf(" \\fI");
        put_roff(option->argument);
        printf("\\fR");
    }
    putchar('\n');
    put_roff(option->help);
    putchar('\n');
}

/* Examples as they are typed. */
static void man_lines(const char *lines) {
    if (lines == NULL)
        return;
    printf(".PP\nExamples:\n.PP\n.nf\n");
    while (*lines != '\0') {
        size_t length = strcspn(lines, "\n");
        char line[200];
        snprintf(line, sizeof line, "    cairn %.*s\n", (int)length, lines);
        put_roff(line);
        lines += length + (lines[length] == '\n');
    }
    printf(".fi\n");
}

static void man_command(const cli_command *command) {
    printf(".SS cairn %s ", command->name);
    put_roff(command->arguments);
    printf(" [options]\n");
    printf("%c", toupper((unsigned char)command->summary[0]));
    put_roff(command->summary + 1);
    printf(".\n.PP\n");
    put_roff(command->details);
    putchar('\n');
    for (const cli_option *option = command->options; option->name != NULL; option++)
        man_option(option);
    cli_named named;
    for (int k = 0; k < 4 && command->lists[k].title != NULL; k++) {
        printf(".PP\n%s:\n", command->lists[k].title);
        for (uint32_t i = 0; command->lists[k].at(i, &named); i++)
            put_term(named.name, named.summary);
    }
    man_lines(command->examples);
}

static void man_synopsis(void) {
    const cli_command *command;
    printf(".SH SYNOPSIS\n");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        if (command->summary == NULL)
            continue;
        printf("%s\\fBcairn %s\\fR ", i > 0 ? ".br\n" : "", command->name);
        put_roff(command->arguments);
        printf(" [options]\n");
    }
    printf(".br\n\\fBcairn \\-\\-version\\fR\n");
}

static void man_exit_codes(void) {
    static const cli_named codes[] = {
        {"0", "Done."},
        {"1", "The input is wrong: a model, a file, a plan, a value."},
        {"2", "The command line is wrong."},
        {"3", "No plan fits the budget. The message names the smallest possible budget and the\n"
              "op that sets it."},
        {"4", "The system failed: a file cannot be written, memory is out."},
        {"130", "Interrupted."},
    };
    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        put_term(codes[i].name, codes[i].summary);
}

static void man_examples(void) {
    static const cli_named examples[] = {
        {"cairn zoo", "The networks that are built in."},
        {"cairn plan resnet50 --batch 64 --budget 8GiB -o resnet.plan",
         "Plan a training step of 64 images in 8 GiB, parameters and optimiser included, and keep\n"
         "the plan."},
        {"cairn train my.net --data tensors:FOLDER --epochs 10 --budget 50% --save my.safetensors",
         "Train your own network in half of the memory and keep its weights."},
        {"cairn eval my.net --weights my.safetensors --data tensors:FOLDER",
         "Its loss and accuracy on the data that was held out."},
        {"cairn simulate resnet.plan --svg memory.svg --trace step.json",
         "What that plan costs, as a table, a picture and a trace."},
        {"cairn verify resnet.plan && echo legal", "Is the plan legal?"},
        {"cairn zoo densenet121 --picture network.svg", "Draw a network."},
    };
    printf(".SH EXAMPLES\n");
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        put_term(examples[i].name, examples[i].summary);
}

static int write_man(void) {
    const cli_command *command;
    printf(".TH CAIRN 1 \"\" \"cairn %s\" \"User Commands\"\n", cairn_version());
    printf(".SH NAME\ncairn \\- train neural networks inside a memory budget\n");
    man_synopsis();
    printf(".SH DESCRIPTION\n"
           "Training a network needs memory for every tensor that the backward pass will read.\n"
           "Cairn decides which to keep, which to recompute and which to offload to host memory,\n"
           "so that a training step fits a budget and is as fast as possible. The gradients stay\n"
           "the same.\n.PP\n"
           "A \\fIMODEL\\fR is a network of \\fBcairn zoo\\fR, a network that you wrote\n"
           "(\\fINAME\\fR.net) or a graph file. A \\fISIZE\\fR is a\n"
           "number of bytes, or one with a unit, such as 8GiB or 500MB, or a percentage of what\n"
           "training without a plan needs, such as 40%%.\n");
    printf(".SH COMMANDS\n");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++)
        if (command->summary != NULL)
            man_command(command);
    printf(".SS Options of every command\n");
    for (const cli_option *option = cli_common_options; option->name != NULL; option++)
        man_option(option);
    man_exit_codes();
    printf(
        ".SH ENVIRONMENT\n.TP\n.B OMP_NUM_THREADS\n"
        "The number of threads, unless \\-\\-threads says it.\n.TP\n.B NO_COLOR\n"
        "If it is set and not empty, nothing is coloured.\n.TP\n.B COLUMNS\n"
        "The width of the terminal.\n.TP\n.B OMP_WAIT_POLICY, GOMP_SPINCOUNT\n"
        "Commands that compute re-execute themselves with OMP_WAIT_POLICY=passive, unless one of\n"
        "these is set: threads that wait in a busy loop slow down everything else on the "
        "machine.\n");
    man_examples();
    printf(".SH SEE ALSO\n.BR dot (1)\n");
    return CLI_DONE;
}

/* ---- Completions ---- */

/* What can stand as the value of an option, or as a positional argument. */
typedef enum values { VALUES_FREE, VALUES_FILE, VALUES_LIST, VALUES_MACHINE, VALUES_MODEL } values;

static values values_of(const cli_command *command, const cli_option *option) {
    if (strcmp(option->name, "machine") == 0)
        return VALUES_MACHINE;
    if (strcmp(option->name, "algorithm") == 0)
        return command->lists[0].title != NULL ? VALUES_LIST : VALUES_FREE;
    return strstr(option->argument, "FILE") != NULL ? VALUES_FILE : VALUES_FREE;
}

/* A command whose options describe a model takes one. */
static values values_of_arguments(const cli_command *command) {
    for (const cli_option *option = command->options; option->name != NULL; option++)
        if (strcmp(option->name, "batch") == 0)
            return VALUES_MODEL;
    return VALUES_FILE;
}

/* The words themselves, separated by spaces. */
static void put_words(const cli_command *command, values kind) {
    const cairn_zoo_entry *entry;
    const cairn_machine *machine;
    cli_named named;
    for (uint32_t i = 0; kind == VALUES_LIST && command->lists[0].at(i, &named); i++)
        printf("%s%s", i > 0 ? " " : "", named.name);
    for (uint32_t i = 0; kind == VALUES_MACHINE && (machine = cairn_machine_list(i)) != NULL; i++)
        printf("%s%s", i > 0 ? " " : "", machine->name);
    for (uint32_t i = 0; kind == VALUES_MODEL && (entry = cairn_zoo_list(i)) != NULL; i++)
        printf("%s%s", i > 0 ? " " : "", entry->name);
}

/* ---- bash ---- */

/* The reply for a kind of value: words, files, or both. */
static void bash_reply(const cli_command *command, values kind) {
    bool words = kind != VALUES_FREE && kind != VALUES_FILE;
    bool files = kind == VALUES_FILE || kind == VALUES_MACHINE || kind == VALUES_MODEL;
    if (!words && !files) {
        printf("COMPREPLY=() ;;\n");
        return;
    }
    printf("mapfile -t COMPREPLY < <(compgen%s", files ? " -f" : "");
    if (words) {
        printf(" -W '");
        put_words(command, kind);
        printf("'");
    }
    printf(" -- \"$cur\") ;;\n");
}

static void bash_values(const cli_command *command) {
    for (const cli_option *option = command->options; option->name != NULL; option++) {
        if (option->argument == NULL)
            continue;
        printf("    %s:--%s", command->name, option->name);
        if (option->letter != 0)
            printf(" | %s:-%c", command->name, option->letter);
        printf(") ");
        bash_reply(command, values_of(command, option));
    }
}

static void bash_options(const cli_command *command) {
    const cli_option *option;
    printf("    %s:-*) mapfile -t COMPREPLY < <(compgen -W '", command->name);
    for (int place = 0; (option = cli_option_at(command, place)) != NULL; place++)
        printf("%s--%s", place > 0 ? " " : "", option->name);
    printf("' -- \"$cur\") ;;\n    %s:*) ", command->name);
    bash_reply(command, values_of_arguments(command));
}

static int write_bash(void) {
    const cli_command *command;
    printf("# bash completion for cairn; written by 'cairn manual bash'.\n"
           "_cairn() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command=${COMP_WORDS[1]}\n"
           "    compopt -o filenames 2>/dev/null\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        mapfile -t COMPREPLY < <(compgen -W '--help --version");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++)
        if (command->summary != NULL)
            printf(" %s", command->name);
    printf("' -- \"$cur\")\n        return\n    fi\n    case $command:$prev in\n");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++)
        if (command->summary != NULL)
            bash_values(command);
    printf("    *)\n    case $command:$cur in\n");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++)
        if (command->summary != NULL)
            bash_options(command);
    printf("    esac ;;\n    esac\n}\ncomplete -F _cairn cairn\n");
    return CLI_DONE;
}

/* ---- zsh ---- */

/* Inside single quotes, where brackets and colons mean something to _arguments. */
static void put_zsh(const char *text) {
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *c) != NULL)
            printf("\\%c", *c);
        else
            putchar(*c);
    }
}

static void zsh_reply(const cli_command *command, values kind) {
    switch (kind) {
    case VALUES_FREE:
        printf(" ");
        break;
    case VALUES_FILE:
        printf("_files");
        break;
    case VALUES_LIST:
        printf("(");
        put_words(command, kind);
        printf(")");
        break;
    default: /* words or files */
        printf("{compadd -- ");
        put_words(command, kind);
        printf("; _files}");
    }
}

static void zsh_option(const cli_command *command, const cli_option *option) {
    printf(" \\\n            ");
    if (option->letter != 0)
        printf("'(-%c --%s)'{-%c,--%s}'[", option->letter, option->name, option->letter,
               option->name);
    else
        printf("'--%s[", option->name);
    put_zsh(option->help);
    printf("]");
    if (option->argument != NULL) {
        printf(":");
        put_zsh(option->argument);
        printf(":");
        zsh_reply(command, values_of(command, option));
    }
    printf("'");
}

static int write_zsh(void) {
    const cli_command *command;
    const cli_option *option;
    printf("#compdef cairn\n# zsh completion for cairn; written by 'cairn manual zsh'.\n"
           "_cairn() {\n    local -a commands=(");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        if (command->summary == NULL)
            continue;
        printf("\n        '%s:", command->name);
        put_zsh(command->summary);
        printf("'");
    }
    printf("\n    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
           "        return\n    fi\n    local command=$words[2]\n    shift words\n"
           "    ((CURRENT--))\n    case $command in\n");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        if (command->summary == NULL)
            continue;
        printf("    %s)\n        _arguments", command->name);
        for (int place = 0; (option = cli_option_at(command, place)) != NULL; place++)
            zsh_option(command, option);
        printf(" \\\n            '*:");
        put_zsh(command->arguments);
        printf(":");
        zsh_reply(command, values_of_arguments(command));
        printf("' ;;\n");
    }
    printf("    esac\n}\n_cairn \"$@\"\n");
    return CLI_DONE;
}

static int run(const cli_args *args) {
    const char *form = cli_positional(args, 0);
    if (strcmp(form, "man") == 0)
        return write_man();
    if (strcmp(form, "bash") == 0)
        return write_bash();
    if (strcmp(form, "zsh") == 0)
        return write_zsh();
    return cli_usage_error(args, "it writes man, bash or zsh, not \"%s\"", form);
}

static const cli_option options[] = {
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_manual = {
    .name = "manual",
    .arguments = "man|bash|zsh",
    .summary = NULL, /* for the build, not for people */
    .details = "Writes the man page or a shell's completions.",
    .options = options,
    .run = run,
};
