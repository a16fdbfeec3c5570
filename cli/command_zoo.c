/* command_zoo.c: `cairn zoo [NAME]`, the networks that are built in. */
#include "cairn/report.h"
#include "model.h"
#include "picture.h"

#include <stdio.h>
#include <string.h>

static void print_shape(const cairn_tensor *tensor, const char *between) {
    for (uint32_t i = 0; i < tensor->rank; i++)
        printf("%s%u", i > 0 ? between : "", tensor->shape[i]);
}

static void print_json(const cli_model *model) {
    cairn_graph_summary s = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(model->graph, &s);
    printf("{\"name\": \"%s\", \"parameters\": %llu, \"ops\": %u, \"tensors\": %u, "
           "\"forward_ops\": %u, \"backward_ops\": %u, \"activation_bytes\": %llu, "
           "\"parameter_bytes\": %llu, \"input_shape\": [",
           cairn_graph_name(model->graph), (unsigned long long)s.parameters,
           cairn_graph_op_count(model->graph), cairn_graph_tensor_count(model->graph),
           s.forward_ops, s.backward_ops, (unsigned long long)s.activation_bytes,
           (unsigned long long)s.parameter_bytes);
    if (s.input != CAIRN_NONE)
        print_shape(cairn_graph_tensor(model->graph, s.input), ", ");
    printf("], \"output_shape\": [");
    if (s.output != CAIRN_NONE)
        print_shape(cairn_graph_tensor(model->graph, s.output), ", ");
    printf("]}\n");
}

static void print_ops(const cairn_graph *graph) {
    printf("\n%-30s %-19s %-16s %10s\n", "forward op", "kind", "output", "size");
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        if (op->phase != CAIRN_PHASE_FORWARD || op->output_count == 0)
            continue;
        const cairn_tensor *output = cairn_graph_tensor(graph, op->outputs[0]);
        char shape[64] = "";
        size_t used = 0;
        for (uint32_t i = 0; i < output->rank; i++)
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%u", i > 0 ? "x" : "",
                                     output->shape[i]);
        printf("%-30s %-19s %-16s %10s\n", op->name, cairn_op_kind_name(op->kind), shape,
               cli_bytes(output->bytes));
    }
}

static void print_text(const cli_model *model) {
    cairn_graph_summary s = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(model->graph, &s);
    printf("%s: %llu parameters (%s), %u forward and %u backward ops, %s of activations\n",
           cairn_graph_name(model->graph), (unsigned long long)s.parameters,
           cli_bytes(s.parameter_bytes), s.forward_ops, s.backward_ops,
           cli_bytes(s.activation_bytes));
    print_ops(model->graph);
}

static int write_files(const cli_args *args, const cli_model *model) {
    const char *output = cli_value(args, "output"), *picture = cli_value(args, "picture");
    cairn_text text;
    int code = CLI_DONE;
    if (output != NULL) {
        cairn_status status = cairn_graph_to_json(model->graph, &text);
        code = status == CAIRN_OK ? cli_emit(&text, output) : cli_fail(status, NULL);
    }
    if (picture != NULL && code == CLI_DONE) {
        cairn_status status =
            cairn_graph_to_dot(model->graph, NULL, cli_flag(args, "whole"), &text);
        code = status == CAIRN_OK ? cli_draw(&text, picture) : cli_fail(status, NULL);
    }
    return code;
}

/* --source: as a person would write it. */
static int print_source(const cli_args *args, const char *name) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_text text;
    int code = cli_read_sizes(args, name, &size);
    if (code != CLI_DONE)
        return code;
    cairn_status status = cairn_model_source(NULL, name, &size, &text, &err);
    return status == CAIRN_OK ? cli_emit(&text, cli_value(args, "output")) : cli_fail(status, &err);
}

static int show(const cli_args *args, const char *name) {
    cli_model model;
    if (cli_flag(args, "source"))
        return print_source(args, name);
    int code = cli_model_open(args, name, &model);
    if (code != CLI_DONE)
        return code;
    bool to_file = cli_value(args, "output") != NULL || cli_value(args, "picture") != NULL;
    code = write_files(args, &model);
    if (code == CLI_DONE && cli_flag(args, "json"))
        print_json(&model);
    else if (code == CLI_DONE && !to_file)
        print_text(&model);
    cli_model_close(&model);
    return code;
}

static int list(const cli_args *args) {
    const cairn_zoo_entry *entry;
    if (!cli_flag(args, "json"))
        printf("%-12s %-9s %7s %4s %s\n", "network", "input", "classes", "seq", "what it is");
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        if (cli_flag(args, "json")) {
            int code = show(args, entry->name);
            if (code != CLI_DONE)
                return code;
            continue;
        }
        char input[48] = "", steps[16] = "";
        const uint32_t *d = entry->defaults.input;
        size_t used = 0;
        for (int k = 0; k < 3 && d[k] != 0; k++)
            used +=
                (size_t)snprintf(input + used, sizeof input - used, "%s%u", k > 0 ? "x" : "", d[k]);
        if (entry->defaults.steps != 0)
            snprintf(steps, sizeof steps, "%u", entry->defaults.steps);
        printf("%-12s %-9s %7u %4s %s\n", entry->name, input, entry->defaults.classes, steps,
               entry->summary);
    }
    return CLI_DONE;
}

static int run(const cli_args *args) {
    const char *name = cli_positional(args, 0);
    if (name == NULL && cli_flag(args, "source"))
        return cli_usage_error(args, "--source needs NAME");
    return name == NULL ? list(args) : show(args, name);
}

static const cli_option options[] = {
    CLI_MODEL_OPTIONS,
    {"output", 'o', "FILE",
     "write the graph of a training step (docs/graph-format.md); - prints it"},
    {"source", 0, NULL, "print it as a network file (docs/network-format.md), to begin your own"},
    {"picture", 0, "FILE", "draw the network: FILE.svg through graphviz, or FILE.dot"},
    {"whole", 0, NULL, "draw the backward pass as well"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_zoo = {
    .name = "zoo",
    .arguments = "[NAME]",
    .summary = "list the networks that are built in, or show one",
    .details =
        "Without NAME, lists the networks. With NAME (a network or a file of one), shows its\n"
        "size and forward ops; --json prints one line for programs.",
    .examples = "zoo\n"
                "zoo resnet18 --batch 64\n"
                "zoo resnet18 --source >my.net",
    .options = options,
    .run = run,
};
