/* model.h: MODEL on the command line: a network of the zoo, a network file or a graph file, with
 * costs. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli.h"

/* Rows for the option tables of commands that take a model. */
#define CLI_MODEL_OPTIONS                                                                          \
    {"batch", 'b', "N", "images or sequences per step (default 32)"},                              \
        {"input", 0, "CxHxW", "input size; for rnn and lstm FEATURESxHIDDEN"},                     \
        {"classes", 0, "N", "number of classes"}, {                                                \
        "seq", 0, "N", "steps of a recurrent network; tokens of a sequence"                        \
    }

#define CLI_THREADS_OPTION                                                                         \
    { "threads", 't', "N", "threads of the backend (default: OMP_NUM_THREADS, or all processors)" }

#define CLI_MATH_OPTION                                                                            \
    { "math", 0, "NAME", "tf32 (default; fp32 on a processor), fp32 or bf16" }

#define CLI_COST_OPTIONS                                                                           \
    {"machine", 'm', "NAME|FILE", "the device: v100 (default), h200, cpu, or a description"},      \
        CLI_MEASURED_OPTION,                                                                       \
        {"backend", 0, "NAME", "plan for this backend's memory, implementations and machine"},     \
        CLI_THREADS_OPTION, CLI_MATH_OPTION

/* And of those that run it. */
#define CLI_RUN_OPTIONS                                                                            \
    {"backend", 0, "NAME", "the backend (default: the best of this build)"}, CLI_THREADS_OPTION,   \
        CLI_MATH_OPTION

#define CLI_SLOTS_OPTION                                                                           \
    { "optimizer-slots", 0, "N", "tensors per parameter that the optimiser keeps (default 1)" }

#define CLI_MEASURED_OPTION                                                                        \
    { "costs", 0, "FILE", "measured costs of 'cairn profile'; they replace the analytic ones" }

typedef struct cli_model {
    const cli_args *args; /* what it was opened with; NULL: nothing */
    cairn_graph *graph;   /* of the whole training step */
    cairn_costs *costs;
    cairn_machine machine;
    cairn_cost_model believed; /* what `precise` goes by: --cost-model */
    cairn_plan_header header;  /* model, batch, input: what a plan's file says of it */
    cairn_device *device;      /* that the costs are bound for; NULL: none */
    bool borrowed;             /* the device is another model's */
    const char *backend;       /* the device's; NULL: none */
    uint32_t threads;          /* of the backend; 0: one per processor */
    bool one_memory; /* the device's memory is the host's: offloading a tensor frees nothing */
    bool no_offload; /* nothing is to be copied to the host: --no-offload */
    uint32_t effort; /* of a search: --effort */
    uint32_t micro_batches; /* of a step: --accumulate */
    cairn_memo *memo;       /* what all plans share; NULL: nothing */
    bool measured;          /* the times of all ops are of a table: --costs */
    int64_t update_ns;      /* what the table says that updating the parameters takes */
    double smoothing;       /* of labels: --label-smoothing */
    cairn_solution *none;   /* what a budget is a share of; NULL: not needed so far */
} cli_model;

/* Open what `name` and the options say. CLI_DONE, or an exit code after saying what is wrong. */
int cli_model_open(const cli_args *args, const char *name, cli_model *out);

/* The same for this image size and number of classes, unless the options override them; with
 * `updates` as in cairn_plan_header. */
int cli_model_open_for(const cli_args *args, const char *name, const uint32_t input[3],
                       uint32_t classes, uint32_t updates, cli_model *out);

/* The same with a batch of one. */
int cli_model_open_one(const cli_args *args, const char *name, const uint32_t input[3],
                       uint32_t classes, cli_model *out);

/* Whether an algorithm divides a limit for everything on the device, with the updates in its graph:
 * `auto`, which NULL means too. The others plan activations only. */
bool cli_plans_all(const char *algorithm);

/* Whether the limit that was asked for is one of everything on the device, which `auto` divides:
 * the graph then has updates. Named algorithms of others plan activations only. */
bool cli_counts_all(const cli_args *args);

/* The same model with another batch than the options say; costs of a file count for the ops that it
 * has, which may be none. CAIRN_EUNKNOWN: it is a graph file, which has one batch. The caller
 * closes the model in any case. */
CAIRN_MUST cairn_status cli_model_with_batch(const cli_args *args, const cli_model *like,
                                             uint32_t batch, cli_model *out, cairn_error *err);

/* All sizes that the options say for a model, 0 where they are absent. Returns an exit code. */
int cli_read_sizes(const cli_args *args, const char *name, cairn_zoo_options *out);

/* What --input and --classes say, 0 where they are absent. Returns an exit code. */
int cli_read_size(const cli_args *args, uint32_t input[3], uint32_t *classes);

/* The model that a plan's header names, where the command line has none, in the size that the
 * options say, else in the header's. */
int cli_model_of_plan(const cli_args *args, const cairn_plan_header *header, cli_model *out);

/* A network of the zoo on the V100, for benches; images of `size` by `size`, 0: its default. To be
 * closed whatever is returned. */
CAIRN_MUST cairn_status cli_model_network(const char *name, uint32_t batch, uint32_t size,
                                          cli_model *out, cairn_error *err);

/* The same for a recurrent network with that number of steps. */
CAIRN_MUST cairn_status cli_model_sequence(const char *name, uint32_t batch, uint32_t steps,
                                           cli_model *out, cairn_error *err);

/* The model's costs become those of a backend on `threads` threads, and its machine the device's
 * unless --machine names one. NULL: the costs stay, or are analytic if there are none yet. Times of
 * --costs replace them where that is given. */
CAIRN_MUST cairn_status cli_model_bind(const cli_args *args, cli_model *model, const char *backend,
                                       uint32_t threads, cairn_error *err);

/* The time of a step by this solution, over `micro_batches` and with one update; 0: not all ops are
 * measured. */
int64_t cli_predicted_ns(const cli_model *model, const cairn_solution *solution,
                         uint32_t micro_batches);

void cli_model_close(cli_model *model);

/* Whether plans are to copy nothing to the host. */
bool cli_model_stays(const cli_model *model);

/* Put the model's description into a plan's header. */
void cli_model_sign(const cli_model *model, cairn_plan *plan);

/* How long updating all parameters takes by a table of costs; 0: it does not say. */
int64_t cli_update_ns(const cairn_costs_origin *origin, const cairn_graph *graph);

#endif
