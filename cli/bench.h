/* bench.h: what the benches share. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cairn/papers.h"
#include "model.h"

extern const cli_command cli_command_bench;

/* The benches; each returns an exit code. */
#define X(identifier, name, summary) int cli_bench_##identifier(const cli_args *args);
#include "benches.def"
#undef X

/* The table with networks that are really trained: bench_run.c. */
int cli_bench_table2_run(const cli_args *args);
/* The same at the sizes of the paper, timed: bench_full.c. */
int cli_bench_table2_full(const cli_args *args);

/* Begin a JSON line: {"bench": NAME, "commit": ..., "machine": ..., without its end; the bench
 * itself prints ", ...}". */
void cli_bench_line(const char *name);

/* ---- bench_setup.c: for benches that run networks ---- */

/* What --only, --backend, --threads, --batch and --size say. */
typedef struct cli_bench_setup {
    const cli_args *args;
    const char *only;    /* one network; NULL: all */
    const char *backend; /* by default the best there is */
    uint32_t threads, batch, size;
} cli_bench_setup;

/* `batch` and `size` are the defaults. False after saying what is wrong. */
bool cli_bench_read(const cli_args *args, uint32_t batch, uint32_t size, cli_bench_setup *out);

/* Bind the model to the backend. */
CAIRN_MUST cairn_status cli_bench_bind(const cli_bench_setup *setup, cli_model *model,
                                       cairn_error *err);

/* Measure the costs of a model that is bound. */
CAIRN_MUST cairn_status cli_bench_profile(cli_model *model, cairn_error *err);

/* A network of Feng and Huang with what its table 2 says of it, in MB; 0: not applicable there. */
typedef struct cli_paper_row {
    const char *network;
    uint32_t batch, size; /* of the input, square */
    uint32_t regular, random, chen, feng;
} cli_paper_row;

/* Row `index`, or NULL past the end. */
const cli_paper_row *cli_paper_table2(uint32_t index);

#endif
