/* problems.h: the problems of `cairn solve`, one file solve_NAME.c each. */
#ifndef CLI_PROBLEMS_H
#define CLI_PROBLEMS_H

#include "cairn/papers.h"
#include "cli.h"

/* Solve the cases of FILE, whose text this is. Each returns an exit code, after saying what is
 * wrong. */
#define X(name) int cli_solve_##name(const cli_args *args, const cairn_text *file);
#include "problems.def"
#undef X

/* FILE, as errors name it. */
static inline const char *cli_case_file(const cli_args *args) {
    return cli_positional(args, 1);
}

#endif
