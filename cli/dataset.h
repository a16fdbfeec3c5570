/* dataset.h: --data on the command line, and what is done to its values before a network reads
 * them. */
#ifndef CLI_DATASET_H
#define CLI_DATASET_H

#include "cairn/safetensors.h"
#include "cli.h"

#define CLI_DATA_OPTIONS                                                                           \
    {"samples", 0, "N", "samples of the synthetic task, both splits together (default 10000)"},    \
        {"validation", 0, "SHARE",                                                                 \
         "share held out for validation if the data has no such split (default 0.1)"},             \
    {                                                                                              \
        "normalise", 0, "HOW",                                                                     \
            "data, weights, none, or MEAN,.../DEVIATION,... per channel (see above)"               \
    }

/* For the details of commands that have these options. */
#define CLI_NORMALISE_DETAILS                                                                      \
    "Inputs are normalised: (value - mean) / deviation, per channel; bytes are first\n"            \
    "divided by 255. --normalise data takes mean and deviation of the training samples,\n"         \
    "weights those that --weights FILE names; none does nothing. Without the option it is\n"       \
    "weights if FILE names them, else data."

/* What a file of weights says about its network; zero or NULL where it does not. */
typedef struct cli_origin {
    const char *model;
    uint32_t input[3], classes;
    uint64_t seed;    /* of the run */
    uint32_t tokens;  /* of a sample that is a sequence */
    uint64_t network; /* network_hash of cairn_graph_summary */
} cli_origin;

/* Read a file of weights, or of a folder the newest snapshot; `*path`, of at least 4096 bytes,
 * becomes the file's. Returns an exit code, after saying what is wrong. */
int cli_load_weights(const char *given, char *path, cairn_safetensors **out);

cli_origin cli_weights_origin(const cairn_safetensors *weights);

/* The network of the weights in the file `path`: MODEL or, where it is left out, the one that they
 * name. A network file is looked for where it was, and beside the weights. `*name` has 4096 bytes.
 * Returns an exit code, after saying what is wrong. */
int cli_weights_model(const cli_args *args, const char *path, const cli_origin *origin, char *name);

/* Say so if the file `name` has changed since the weights in `path` were made: the shapes of its
 * parameters may still fit. */
void cli_compare_network(const cairn_graph *graph, const char *name, const char *path,
                         const cli_origin *origin);

/* Open --data; the synthetic task is for this size unless the options say otherwise. */
int cli_open_data(const cli_args *args, uint64_t seed, const cli_origin *size, cairn_data **out);

/* Do what --normalise says; `*normalise` is for the options of a loader. `weights` may be NULL. */
int cli_set_normalisation(const cli_args *args, cairn_data *data, const cairn_safetensors *weights,
                          bool *normalise);

/* Lines of text, and a member of a JSON object without the comma. */
void cli_print_normalisation(cairn_data *data, bool normalise);
void cli_print_normalisation_json(cairn_data *data, bool normalise);

/* For the lists under help. */
bool cli_list_sources(uint32_t index, cli_named *out);

/* Notices of the library on standard error, a line each. Releases the text. */
void cli_print_notices(cairn_text *notices);

#endif
