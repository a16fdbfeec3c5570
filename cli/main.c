/* main.c: `cairn`, which finds the subcommand and runs it. */
#include "cli_internal.h"

#include <stdio.h>
#include <string.h>

#define X(name) extern const cli_command cli_command_##name;
#include "commands.def"
#undef X

static const cli_command *const commands[] = {
#define X(name) &cli_command_##name,
#include "commands.def"
#undef X
    NULL,
};

const cli_command *cli_command_at(int index) {
    return commands[index];
}

static void print_overview(void) {
    puts("Usage: cairn COMMAND [arguments] [options]\n\n"
         "Trains neural networks inside a memory budget: decides which tensors to keep,\n"
         "which to recompute and which to offload to host memory.\n\nCommands:");
    for (const cli_command *const *c = commands; *c != NULL; c++)
        if ((*c)->summary != NULL)
            printf("  %-10s %s\n", (*c)->name, (*c)->summary);
    puts("\nExamples:\n"
         "  cairn plan resnet50 --batch 64 --budget 3GiB\n"
         "  cairn train my.net --data tensors:FOLDER --budget 50% --out run\n"
         "  cairn eval --weights run --data tensors:FOLDER\n"
         "\n'cairn COMMAND --help' explains a command, 'cairn --version' prints the version.\n\n"
         "Commands that compute re-execute themselves with OMP_WAIT_POLICY=passive,\n"
         "because threads that wait in a busy loop slow down everything else on the\n"
         "machine. Set OMP_WAIT_POLICY or GOMP_SPINCOUNT to prevent it.");
}

static const cli_command *find_command(const char *name) {
    for (const cli_command *const *c = commands; *c != NULL; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

static int refuse_command(const char *name) {
    const char *meant = NULL;
    char word[64];
    for (const cli_command *const *c = commands; *c != NULL; c++)
        meant = (*c)->summary != NULL ? cli_closer(name, meant, (*c)->name) : meant;
    snprintf(word, sizeof word, "%s", name);
    cli_clean(word);
    fprintf(stderr, "cairn: there is no command \"%s\"%s%s%s; see cairn --help\n", word,
            meant != NULL ? " (did you mean \"" : "", meant != NULL ? meant : "",
            meant != NULL ? "\"?)" : "");
    return CLI_USAGE;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_overview();
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_overview();
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("cairn %s\n", cairn_version());
        return CLI_DONE;
    }
    const cli_command *command = find_command(argv[1]);
    if (strcmp(argv[1], "help") == 0) { /* as other programs have it */
        command = argc > 2 ? find_command(argv[2]) : NULL;
        if (argc > 2 && command == NULL)
            return refuse_command(argv[2]);
        if (command != NULL)
            cli_print_help(command);
        else
            print_overview();
        return CLI_DONE;
    }
    if (command == NULL)
        return refuse_command(argv[1]);
    return cli_run(command, argc - 2, argv + 2, argv);
}

int main(int argc, char **argv) {
    return cli_finish(run(argc, argv));
}
