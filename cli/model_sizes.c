/* model_sizes.c: the sizes of a model: --batch, --input, --classes, --seq. */
#include "model_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "3x224x224": one to three numbers; those that are missing stay 0. */
static bool parse_input(const cli_args *args, uint32_t out[3]) {
    const char *text = cli_value(args, "input");
    if (text == NULL)
        return true;
    const char *c = text;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long value = strtoul(c, &end, 10);
        bool good = *c >= '0' && *c <= '9' && value >= 1 && value <= 1000000;
        if (good && *end == '\0') {
            out[i] = (uint32_t)value;
            return true;
        }
        if (!good || *end != 'x')
            break;
        out[i] = (uint32_t)value;
        c = end + 1;
    }
    cli_usage_error(
        args, "--input must be a size such as 3x224x224, each number at most 1000000, not \"%s\"",
        text);
    return false;
}

/* Batch 0 and the like are wrong input rather than wrong usage: exit 1. */
static int read_options(const cli_args *args, cairn_plan_header *h) {
    static const struct {
        const char *name;
        size_t offset;
    } options[] = {
        {"batch", offsetof(cairn_plan_header, batch)},
        {"classes", offsetof(cairn_plan_header, classes)},
        {"seq", offsetof(cairn_plan_header, steps)},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        uint64_t value;
        const char *text = cli_value(args, options[i].name);
        if (text != NULL && text[0] == '0' && text[strspn(text, "0")] == '\0') {
            fprintf(stderr, "cairn: --%s must be at least 1\n", options[i].name);
            return CLI_WRONG_INPUT;
        }
        if (!cli_number(args, options[i].name, 1, UINT32_MAX, 0, &value))
            return CLI_USAGE;
        uint32_t narrow = (uint32_t)value;
        memcpy((char *)h + options[i].offset, &narrow, sizeof narrow);
    }
    return parse_input(args, h->input) ? CLI_DONE : CLI_USAGE;
}

int cli_read_size(const cli_args *args, uint32_t input[3], uint32_t *classes) {
    cairn_plan_header header = {0};
    int code = read_options(args, &header);
    memcpy(input, header.input, sizeof header.input);
    *classes = header.classes;
    return code;
}

/* Sizes may follow a name: gpt2:355M. */
static const cairn_zoo_entry *in_zoo(const char *name) {
    const cairn_zoo_entry *entry;
    size_t length = strcspn(name, ":");
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++)
        if (strlen(entry->name) == length && strncmp(entry->name, name, length) == 0)
            return entry;
    return NULL;
}

static uint32_t numbers_of(const uint32_t input[3]) {
    return (input[0] > 0) + (input[1] > 0) + (input[2] > 0);
}

/* A network of the zoo takes three numbers, or two if it is recurrent. */
static int check_input(const cli_args *args, const cairn_zoo_entry *entry,
                       const uint32_t given[3]) {
    if (cli_value(args, "input") == NULL || entry == NULL ||
        numbers_of(given) == numbers_of(entry->defaults.input))
        return CLI_DONE;
    if (entry->defaults.input[0] == 0)
        return cli_usage_error(
            args, "%s reads tokens: give their number with --seq instead of --input", entry->name);
    return cli_usage_error(args, "--input must be %s for %s, not \"%s\"",
                           entry->defaults.input[2] > 0 ? "CHANNELSxHEIGHTxWIDTH"
                                                        : "FEATURESxHIDDEN",
                           entry->name, cli_value(args, "input"));
}

/* A graph file has one size. The synthetic task still takes an input and a number of classes. */
static int refuse_sizes(const cli_args *args, const char *name) {
    static const char *const options[] = {"batch", "seq", "input", "classes"};
    const char *data = cli_value(args, "data");
    bool synthetic = data != NULL && strcmp(data, "synthetic") == 0;
    if (cairn_model_importer(name)->sized)
        return CLI_DONE;
    for (int i = 0; i < (synthetic ? 2 : 4); i++)
        if (cli_value(args, options[i]) != NULL)
            return cli_usage_error(args, "%s is a graph of one size, which --%s cannot change",
                                   name, options[i]);
    return CLI_DONE;
}

int cli_read_header(const cli_args *args, const char *name, cairn_plan_header *out) {
    int code = read_options(args, out);
    if (code == CLI_DONE)
        code = check_input(args, in_zoo(name), out->input);
    return code == CLI_DONE ? refuse_sizes(args, name) : code;
}

int cli_read_sizes(const cli_args *args, const char *name, cairn_zoo_options *out) {
    cairn_plan_header header = {0};
    int code = cli_read_header(args, name, &header);
    out->batch = header.batch;
    out->classes = header.classes;
    out->steps = header.steps;
    memcpy(out->input, header.input, sizeof out->input);
    return code;
}

/* Whether the network of a file has this size as it is written. */
static bool has_size(const char *name, const uint32_t input[3], uint32_t classes) {
    cairn_error ignored = {0};
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph *graph;
    if (cairn_model_open(cli_allocator(), name, NULL, &graph, &ignored) != CAIRN_OK)
        return false;
    cairn_graph_summarize(graph, &summary);
    bool same = summary.input != CAIRN_NONE && summary.output != CAIRN_NONE;
    if (same) {
        const cairn_tensor *in = cairn_graph_tensor(graph, summary.input);
        const cairn_tensor *out = cairn_graph_tensor(graph, summary.output);
        for (uint32_t i = 0; i < 3; i++)
            same &= input[i] == (i + 1 < in->rank ? in->shape[i + 1] : 0);
        same &= classes == out->shape[out->rank - 1];
    }
    cairn_graph_destroy(graph);
    return same;
}

void cli_fill_size(const char *name, const uint32_t input[3], uint32_t classes,
                   cairn_plan_header *header) {
    const cairn_zoo_entry *entry = in_zoo(name);
    bool tokens = entry != NULL && entry->defaults.input[0] == 0;
    if (entry == NULL && input[0] > 0 && has_size(name, input, classes))
        return;
    if (tokens && header->steps == 0)
        header->steps = input[0];
    if (!tokens && header->input[0] == 0)
        memcpy(header->input, input, sizeof header->input);
    if (header->classes == 0)
        header->classes = classes;
}
