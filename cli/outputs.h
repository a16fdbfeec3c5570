/* outputs.h: files that a command will write are checked before it works for hours. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "cli.h"

#include <stdio.h>

/* Make the folders above every file that an option names for output, and see that the file can be
 * written there. Returns an exit code, after saying what is wrong. */
int cli_check_outputs(const cli_args *args);

/* Make a folder and those above it. False: it cannot be made, and errno says why. */
bool cli_make_folders(const char *path);

/* Remove the folders that this process made and that are still empty. */
void cli_remove_new_folders(void);

/* Write what `print` prints to a file, completely or not at all; it returns an exit code. A device
 * or a pipe is written to. */
int cli_write_file(const char *path, int (*print)(const void *context, FILE *file),
                   const void *context);

#endif
