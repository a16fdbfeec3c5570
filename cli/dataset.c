/* dataset.c: see dataset.h. */
#include "dataset.h"

#include "model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_SHOWN 4 /* channels whose mean and deviation are printed */

void cli_print_notices(cairn_text *notices) {
    const char *line = notices->data;
    while (line != NULL && *line != '\0') {
        size_t length = strcspn(line, "\n");
        fprintf(stderr, "cairn: %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    cairn_text_release(notices);
}

/* ---- Weights ---- */

/* The name of the newest snapshot in a folder; empty: there is none. */
static void newest_snapshot(DIR *folder, char *name, size_t size) {
    const struct dirent *entry;
    name[0] = '\0';
    while ((entry = readdir(folder)) != NULL) {
        const char *suffix = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "snapshot-", 9) == 0 && suffix != NULL &&
            strcmp(suffix, ".safetensors") == 0 && strcmp(entry->d_name, name) > 0)
            snprintf(name, size, "%s", entry->d_name);
    }
}

int cli_load_weights(const char *given, char *path, cairn_safetensors **out) {
    cairn_error err = {0};
    DIR *folder = opendir(given);
    *out = NULL;
    snprintf(path, 4096, "%s", given);
    if (folder != NULL) {
        char name[256];
        newest_snapshot(folder, name, sizeof name);
        closedir(folder);
        snprintf(path, 4096, "%.3800s/%s", given, name);
        if (name[0] == '\0') {
            fprintf(stderr, "cairn: there is no snapshot in %s\n", given);
            return CLI_WRONG_INPUT;
        }
    }
    cairn_status status = cairn_safetensors_load(cli_allocator(), path, out, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

cli_origin cli_weights_origin(const cairn_safetensors *weights) {
    cli_origin origin = {.model = cairn_safetensors_value(weights, "cairn.model")};
    const char *input = cairn_safetensors_value(weights, "cairn.input");
    const char *classes = cairn_safetensors_value(weights, "cairn.classes");
    const char *seed = cairn_safetensors_value(weights, "cairn.with.seed");
    const char *network = cairn_safetensors_value(weights, "cairn.network");
    char *end = (char *)(uintptr_t)input;
    for (int i = 0; i < 3 && end != NULL && *end != '\0'; i++)
        origin.input[i] = (uint32_t)strtoul(end + (i > 0), &end, 10);
    if (classes != NULL)
        origin.classes = (uint32_t)strtoul(classes, NULL, 10);
    if (seed != NULL)
        origin.seed = strtoull(seed, NULL, 10);
    if (network != NULL)
        origin.network = strtoull(network, NULL, 16);
    return origin;
}

static bool is_file_name(const char *model) {
    const char *suffix = strrchr(model, '.');
    return suffix != NULL && (strcmp(suffix, ".net") == 0 || strcmp(suffix, ".json") == 0);
}

int cli_weights_model(const cli_args *args, const char *path, const cli_origin *origin,
                      char *name) {
    /* beside the weights, and beside the folder of the run, with or without the folders before it
     */
    static const char *const places[] = {"", "../"};
    const char *given = cli_positional(args, 0), *model = given != NULL ? given : origin->model;
    if (model == NULL)
        return cli_usage_error(args, "%s does not name its network; give MODEL", path);
    snprintf(name, 4096, "%s", model);
    if (given != NULL || !is_file_name(model) || access(model, F_OK) == 0)
        return CLI_DONE;
    const char *slash = strrchr(path, '/'), *last = strrchr(model, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - path);
    for (uint32_t i = 0; i < 4; i++) {
        const char *tail = i < 2 || last == NULL ? model : last + 1;
        snprintf(name, 4096, "%.*s%s%s", folder, path, places[i % 2], tail);
        if (access(name, F_OK) == 0)
            return CLI_DONE;
    }
    fprintf(stderr, "cairn: the network of %s is the file %s, which is not here; give MODEL\n",
            path, model);
    return CLI_WRONG_INPUT;
}

void cli_compare_network(const cairn_graph *graph, const char *name, const char *path,
                         const cli_origin *origin) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    if (origin->network != 0 && is_file_name(name) && summary.network_hash != origin->network)
        fprintf(stderr,
                "cairn: %s is not the network that %s was trained with: it computes something "
                "else\n",
                name, path);
}

/* ---- Data ---- */

int cli_open_data(const cli_args *args, uint64_t seed, const cli_origin *size, cairn_data **out) {
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    cairn_error err = {0};
    uint64_t samples;
    uint32_t classes;
    if (!cli_real(args, "validation", 0, 1, options.validation, &options.validation) ||
        !cli_number(args, "samples", 2, UINT32_MAX, 0, &samples))
        return CLI_USAGE;
    int code = cli_read_size(args, options.input, &classes);
    if (code != CLI_DONE)
        return code;
    if (options.input[0] > 0 && options.input[2] == 0)
        return cli_usage_error(args, "--input must be CHANNELSxHEIGHTxWIDTH, not \"%s\"",
                               cli_value(args, "input"));
    if (options.input[0] == 0)
        memcpy(options.input, size->input, sizeof options.input);
    options.tokens = size->tokens;
    options.allocator = cli_allocator();
    options.seed = seed;
    options.classes = classes > 0 ? classes : size->classes;
    options.count = (uint32_t)samples;
    cairn_status status = cairn_data_open(cli_value(args, "data"), &options, out, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

bool cli_list_sources(uint32_t index, cli_named *out) {
    static char name[64];
    const cairn_data_source *source = cairn_data_source_list(index);
    if (source == NULL)
        return false;
    snprintf(name, sizeof name, "%s%s", source->name, source->argument);
    *out = (cli_named){name, source->summary};
    return true;
}

/* ---- Normalisation ---- */

/* Numbers between commas up to `end`; a single one is for all channels. */
static bool read_numbers(const char *text, char end, float *out, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char *after;
        out[i] = strtof(text, &after);
        if (after == text)
            return false;
        if (i == 0 && *after == end) {
            for (uint32_t k = 1; k < count; k++)
                out[k] = out[0];
            return true;
        }
        if (*after != (i + 1 < count ? ',' : end))
            return false;
        text = after + 1;
    }
    return true;
}

/* Set them from two texts; `said` names their origin in what is printed if they are wrong. */
static int set_statistics(cairn_data *data, const char *mean, char mean_end, const char *deviation,
                          const char *said) {
    uint32_t channels = cairn_data_get_info(data)->shape[0];
    float *values = calloc((size_t)channels * 2, sizeof *values);
    cairn_error err = {0};
    if (values == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    bool good = deviation != NULL && read_numbers(mean, mean_end, values, channels) &&
                read_numbers(deviation, '\0', values + channels, channels);
    cairn_status status =
        good ? cairn_data_set_statistics(data, values, values + channels, &err) : CAIRN_OK;
    free(values);
    if (!good)
        fprintf(stderr,
                "cairn: %s must be means and deviations for %u channel%s, MEAN,.../DEVIATION,...\n",
                said, channels, channels == 1 ? "" : "s");
    return !good ? CLI_WRONG_INPUT : status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

/* As the weights say. `*known`: they do. */
static int set_from_weights(cairn_data *data, const cairn_safetensors *weights, bool *normalise,
                            bool *known) {
    const char *mean = cairn_safetensors_value(weights, "cairn.normalise.mean");
    const char *deviation = cairn_safetensors_value(weights, "cairn.normalise.deviation");
    *known = cairn_safetensors_value(weights, "cairn.normalise.scale") != NULL || mean != NULL;
    *normalise = mean != NULL || !*known;
    return mean == NULL ? CLI_DONE
                        : set_statistics(data, mean, '\0', deviation,
                                         "the normalisation that the weights name");
}

int cli_set_normalisation(const cli_args *args, cairn_data *data, const cairn_safetensors *weights,
                          bool *normalise) {
    const char *how = cli_value(args, "normalise");
    bool known = false;
    if (how != NULL && cairn_data_get_info(data)->tokens)
        return cli_usage_error(args, "--normalise is not for tokens");
    *normalise = how == NULL || strcmp(how, "none") != 0;
    if (cairn_data_get_info(data)->tokens)
        return CLI_DONE;
    if (how == NULL && weights != NULL)
        return set_from_weights(data, weights, normalise, &known);
    if (how == NULL || strcmp(how, "none") == 0 || strcmp(how, "data") == 0)
        return CLI_DONE;
    if (strcmp(how, "weights") != 0) {
        const char *slash = strchr(how, '/');
        return set_statistics(data, how, '/', slash == NULL ? NULL : slash + 1, "--normalise");
    }
    if (weights == NULL)
        return cli_usage_error(args, "--normalise weights needs --weights FILE");
    int code = set_from_weights(data, weights, normalise, &known);
    if (code == CLI_DONE && !known) {
        fprintf(stderr, "cairn: the weights do not say how inputs were normalised\n");
        return CLI_WRONG_INPUT;
    }
    return code;
}

static void print_numbers(const char *what, const float *values, uint32_t count) {
    printf("    %-14s", what);
    for (uint32_t i = 0; i < count && i < MOST_SHOWN; i++)
        printf(" %.6g", (double)values[i]);
    if (count > MOST_SHOWN)
        printf(" ... of %u channels", count);
    printf("\n");
}

void cli_print_normalisation(cairn_data *data, bool normalise) {
    const float *mean, *deviation;
    cairn_data_info info = *cairn_data_get_info(data);
    if (info.tokens)
        return;
    const char *value = info.bytes ? "value / 255" : "value";
    if (!normalise || cairn_data_statistics(data, &mean, &deviation, NULL) != CAIRN_OK) {
        printf("  %-16s %s, not normalised\n", "inputs", value);
        return;
    }
    printf("  %-16s (%s - mean) / deviation, per channel\n", "inputs", value);
    print_numbers("mean", mean, info.shape[0]);
    print_numbers("deviation", deviation, info.shape[0]);
}

void cli_print_normalisation_json(cairn_data *data, bool normalise) {
    const float *mean, *deviation;
    cairn_data_info info = *cairn_data_get_info(data);
    printf("\"normalise\": {\"scale\": %s", info.bytes ? "0.00392156863" : "1");
    if (normalise && !info.tokens &&
        cairn_data_statistics(data, &mean, &deviation, NULL) == CAIRN_OK) {
        printf(", \"mean\": [");
        for (uint32_t c = 0; c < info.shape[0]; c++)
            printf("%s%.9g", c > 0 ? ", " : "", (double)mean[c]);
        printf("], \"deviation\": [");
        for (uint32_t c = 0; c < info.shape[0]; c++)
            printf("%s%.9g", c > 0 ? ", " : "", (double)deviation[c]);
        printf("]");
    }
    printf("}");
}
