/* cli_internal.h: shared by the programs and cli.c only. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

#include "cli.h"

#define CLI_MOST_OPTIONS 64
#define CLI_MOST_POSITIONALS 8

struct cli_args {
    const cli_command *command;
    const char *positionals[CLI_MOST_POSITIONALS];
    int positional_count;
    const char *values[CLI_MOST_OPTIONS]; /* by place in the table; "" for a flag */
};

/* Options every subcommand has. */
extern const cli_option cli_common_options[];

/* Command `index` of commands.def, or NULL past the end. One without a summary is hidden. */
const cli_command *cli_command_at(int index);

/* The option of a command at a place counted over its own table and then the common one; NULL past
 * the end. */
const cli_option *cli_option_at(const cli_command *command, int place);

/* Read argv after the subcommand's name. False after saying what is wrong. */
bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *out);

void cli_print_help(const cli_command *command);

/* How a command is called: "cairn plan", or "cairn-bench" where it is a program itself. */
#define CLI_SPELLED(command) (command)->alone ? "cairn-" : "cairn ", (command)->name

/* Run a command with the arguments after its name; `program` are those of the whole program, which
 * may be executed again. Returns an exit code. */
int cli_run(const cli_command *command, int argc, char **argv, char **program);

/* The exit code of the program, after what was written has been written. */
int cli_finish(int code);

#endif
