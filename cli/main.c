/* main.c: `cairn`, which finds the subcommand and runs it. */
#include "cli_internal.h"
#include "outputs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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
         "Trains neural networks inside a memory budget: decides which tensors to keep, which to\n"
         "recompute and which to offload to host memory.\n\nCommands:");
    for (const cli_command *const *c = commands; *c != NULL; c++)
        if ((*c)->summary != NULL)
            printf("  %-10s %s\n", (*c)->name, (*c)->summary);
    puts("\n'cairn COMMAND --help' explains a command, 'cairn --version' prints the version.\n\n"
         "Commands that compute re-execute themselves with OMP_WAIT_POLICY=passive, because "
         "threads\n"
         "that wait in a busy loop slow down everything else on the machine. Set OMP_WAIT_POLICY "
         "or\n"
         "GOMP_SPINCOUNT to prevent it.");
}

static const cli_command *find_command(const char *name) {
    for (const cli_command *const *c = commands; *c != NULL; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

/* The threads of OpenMP, on which the fast backend runs, wait in a busy loop unless the environment
 * says otherwise when the program is loaded. Beside other programs that makes a step many times
 * slower, and alone it hardly helps. So a command that computes re-executes itself with the
 * variable set; if that fails, it continues without. */
static void calm_threads(char **argv) {
    char path[4096]; /* its real one, after which the process is called */
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
    if (command == NULL) {
        const char *meant = NULL;
        for (const cli_command *const *c = commands; *c != NULL; c++)
            meant = (*c)->summary != NULL ? cli_closer(argv[1], meant, (*c)->name) : meant;
        fprintf(stderr, "cairn: there is no command \"%s\"%s%s%s; see cairn --help\n", argv[1],
                meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
                meant != NULL ? "\"?" : "");
        return CLI_USAGE;
    }
    cli_args args;
    if (!cli_parse(command, argc - 2, argv + 2, &args))
        return CLI_USAGE;
    if (cli_flag(&args, "help")) {
        cli_print_help(command);
        return CLI_DONE;
    }
    int code = cli_check_outputs(&args);
    if (code != CLI_DONE)
        return code;
    if (command->computes) {
        calm_threads(argv);
        watch_limit();
    }
    return command->run(&args);
}

int main(int argc, char **argv) {
    int code = run(argc, argv);
    if (fflush(stdout) != 0 && code == CLI_DONE) {
        fprintf(stderr, "cairn: cannot write to standard output\n");
        code = CLI_SYSTEM;
    }
    return code;
}
