/* model.c: from MODEL and its options to a graph with costs. */
#include "model.h"

#include "cairn/report.h"

#include "cairn/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_model_close(cli_model *model) {
    cairn_solution_destroy(model->none);
    cairn_memo_destroy(model->memo);
    cairn_costs_destroy(model->costs);
    cairn_graph_destroy(model->graph);
    if (!model->borrowed)
        cairn_device_close(model->device);
    *model = (cli_model){0};
}

bool cli_model_stays(const cli_model *model) {
    return model->one_memory || model->no_offload;
}

void cli_model_sign(const cli_model *model, cairn_plan *plan) {
    cairn_plan_header header = *plan->header;
    memcpy(header.model, model->header.model, sizeof header.model);
    memcpy(header.input, model->header.input, sizeof header.input);
    header.batch = model->header.batch;
    header.classes = model->header.classes;
    header.steps = model->header.steps;
    header.updates = model->header.updates;
    header.clips = model->header.clips;
    (void)!cairn_plan_set_header(plan, &header, NULL); /* its size is set */
}

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

/* ---- Sizes: --batch, --input, --classes, --seq ---- */

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

int cli_read_sizes(const cli_args *args, const char *name, cairn_zoo_options *out) {
    cairn_plan_header header = {0};
    int code = read_options(args, &header);
    if (code == CLI_DONE)
        code = check_input(args, in_zoo(name), header.input);
    if (code == CLI_DONE)
        code = refuse_sizes(args, name);
    out->batch = header.batch;
    out->classes = header.classes;
    out->steps = header.steps;
    memcpy(out->input, header.input, sizeof out->input);
    return code;
}

static void suggest_network(const char *name, cairn_error *err) {
    const cairn_zoo_entry *entry;
    const char *meant = NULL;
    size_t used = strlen(err->message);
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++)
        meant = cli_closer(name, meant, entry->name);
    if (meant != NULL)
        snprintf(err->message + used, sizeof err->message - used, "; did you mean %s?", meant);
    else
        snprintf(err->message + used, sizeof err->message - used,
                 "; 'cairn zoo' lists the networks");
}

/* The plan's file records what the defaults were. */
static cairn_status open_graph(const char *name, double smoothing, cairn_plan_header *h,
                               cairn_graph **out, cairn_error *err) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    size.batch = h->batch;
    size.classes = h->classes;
    size.steps = h->steps;
    size.label_smoothing = smoothing;
    memcpy(size.input, h->input, sizeof size.input);
    cairn_status status = cairn_model_open(cli_allocator(), name, &size, out, err);
    if (status == CAIRN_EUNKNOWN)
        suggest_network(name, err);
    if (status != CAIRN_OK)
        return status;
    h->batch = size.batch;
    h->classes = size.classes;
    h->steps = size.steps;
    memcpy(h->input, size.input, sizeof h->input);
    return CAIRN_OK;
}

static cairn_status find_machine(const char *name, cairn_machine *out, cairn_error *err) {
    *out = (cairn_machine)CAIRN_MACHINE_INIT;
    cairn_status status = cairn_machine_find(name == NULL ? "v100" : name, out, err);
    if (status != CAIRN_EUNKNOWN)
        return status;
    cairn_text text;
    status = cairn_text_load(NULL, name, &text, err);
    if (status == CAIRN_EUNKNOWN)
        snprintf(err->message, sizeof err->message,
                 "\"%.200s\" is neither a machine that is built in (v100, h200, cpu) nor a file",
                 name);
    if (status != CAIRN_OK)
        return status;
    status = cairn_machine_from_json(text.data, text.length, name, out, err);
    cairn_text_release(&text);
    return status;
}

/* ---- Costs of a backend, and measured ones ---- */

static cairn_status merge_table(cli_model *model, const cairn_text *text, const char *path,
                                uint32_t *matched, cairn_error *err) {
    cairn_measured_options options = CAIRN_MEASURED_OPTIONS_INIT;
    cairn_measured measured = CAIRN_MEASURED_INIT;
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    if (model->device != NULL)
        cairn_device_describe(model->device, &facts);
    options.backend = model->backend;
    options.threads = facts.compute_units;
    options.machine = &model->machine;
    cairn_status status = cairn_costs_measured(model->costs, model->graph, text->data, text->length,
                                               path, &options, &measured, err);
    if (status != CAIRN_OK)
        return status;
    *matched = measured.matched;
    model->measured = measured.complete;
    model->update_ns = measured.update_ns;
    model->one_memory |= measured.backend[0] != '\0' && !facts.separate_memory;
    return CAIRN_OK;
}

int64_t cli_update_ns(const cairn_costs_origin *origin, const cairn_graph *graph) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    if (origin->update_bytes_per_second == 0)
        return 0;
    return (int64_t)(1e9 * (double)summary.parameter_bytes /
                     (double)origin->update_bytes_per_second);
}

CLI_NAMES(math_name, CAIRN_MATH_LIST)

static cairn_status open_device(const cli_args *args, cli_model *model, const char *backend,
                                uint32_t threads, cairn_error *err) {
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cli_size bandwidth;
    if (model->device != NULL)
        return CAIRN_OK;
    options.threads = threads;
    if (cli_size_value(args, "link-bandwidth", &bandwidth))
        options.link_bytes_per_second = bandwidth.bytes;
    const char *math = cli_value(args, "math"), *name = NULL;
    while (math != NULL && (name = math_name(options.math)) != NULL && strcmp(name, math) != 0)
        options.math++;
    if (math != NULL && name == NULL) {
        snprintf(err->message, sizeof err->message, "--math must be tf32, fp32 or bf16, not %.32s",
                 math);
        return err->status = CAIRN_EINVAL;
    }
    cairn_status status = cairn_device_open(backend, &options, &model->device, err);
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    if (status == CAIRN_OK)
        cairn_device_describe(model->device, &facts);
    if (facts.compute_units > 0 && facts.compute_units < threads &&
        strcmp(facts.backend, "cpu") == 0)
        fprintf(stderr, "cairn: OpenMP grants %u of the %u threads asked for\n",
                facts.compute_units, threads);
    return status;
}

static cairn_status bind_costs(const cli_args *args, cli_model *model, const char *backend,
                               uint32_t threads, cairn_error *err) {
    cairn_costs *costs;
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_status status = open_device(args, model, backend, threads, err);
    if (status == CAIRN_OK)
        status = cairn_bind(model->graph, model->device, &costs, err);
    if (status != CAIRN_OK)
        return status;
    cairn_device_describe(model->device, &facts);
    cairn_costs_destroy(model->costs);
    model->costs = costs;
    model->backend = backend;
    model->threads = threads;
    if (cli_value(args, "machine") != NULL)
        return CAIRN_OK;
    model->one_memory = !facts.separate_memory;
    model->machine = *facts.machine;
    return CAIRN_OK;
}

/* As the options say. `*matched` counts the ops that --costs has figures for; all without it. */
static cairn_status set_costs(const cli_args *args, cli_model *model, const char *backend,
                              uint32_t threads, uint32_t *matched, cairn_error *err) {
    const char *path = cli_value(args, "costs");
    cairn_status status = CAIRN_OK;
    cairn_text text;
    *matched = cairn_graph_op_count(model->graph);
    if (backend != NULL)
        status = bind_costs(args, model, backend, threads, err);
    else if (model->costs == NULL)
        status = cairn_costs_analytic(model->graph, &model->machine, &model->costs, err);
    if (status == CAIRN_OK)
        cairn_costs_set_same_bits(model->costs, cli_flag(args, "same-bits"));
    if (status != CAIRN_OK || path == NULL)
        return status;
    status = cairn_text_load(NULL, path, &text, err);
    if (status != CAIRN_OK)
        return status;
    status = merge_table(model, &text, path, matched, err);
    cairn_text_release(&text);
    if (backend == NULL && cli_value(args, "machine") != NULL)
        model->one_memory = model->machine.one_memory; /* the table does not say */
    return status;
}

cairn_status cli_model_bind(const cli_args *args, cli_model *model, const char *backend,
                            uint32_t threads, cairn_error *err) {
    const char *path = cli_value(args, "costs");
    uint32_t matched, ops = cairn_graph_op_count(model->graph);
    cairn_status status = set_costs(args, model, backend, threads, &matched, err);
    if (status != CAIRN_OK || matched == ops)
        return status;
    if (matched > 0) {
        fprintf(stderr, "cairn: %s has costs for %u of %u ops; those of the others are analytic\n",
                path, matched, ops);
        return CAIRN_OK;
    }
    err->status = CAIRN_EINVAL; /* a table that has nothing for the model is a mistake */
    snprintf(err->message, sizeof err->message,
             "%.200s has costs for none of the model's ops; was it measured for another batch or "
             "input?",
             path);
    return CAIRN_EINVAL;
}

int64_t cli_predicted_ns(const cli_model *model, const cairn_solution *solution,
                         uint32_t micro_batches) {
    return model->measured ? cairn_solution_step_ns(solution, micro_batches, model->update_ns) : 0;
}

static int read_cost_model(const cli_args *args, cairn_cost_model *out) {
    static const char *const names[] = {"precise", "uniform-time", "uniform-memory", "uniform"};
    const char *given = cli_value(args, "cost-model");
    for (int i = 0; i < 4 && given != NULL; i++)
        if (strcmp(names[i], given) == 0) {
            *out = (cairn_cost_model)i;
            return CLI_DONE;
        }
    return given == NULL ? CLI_DONE
                         : cli_usage_error(args, "--cost-model is precise, uniform-time, "
                                                 "uniform-memory or uniform");
}

/* The training step of a network: one with a loss and without backward ops is differentiated; a
 * graph file may have both already, or neither. */
static cairn_status complete(cli_model *model, cairn_error *err) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_differentiate_options options = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    cairn_graph *step;
    cairn_graph_summarize(model->graph, &summary);
    if (summary.backward_ops > 0 || summary.loss == CAIRN_NONE)
        return CAIRN_OK;
    options.join_head = true;
    cairn_status status = cairn_graph_differentiate(model->graph, &options, &step, err);
    if (status != CAIRN_OK)
        return status;
    cairn_graph_destroy(model->graph);
    model->graph = step;
    return CAIRN_OK;
}

/* A graph file may have nothing to update, or its own updates: it stays as it is. */
static cairn_status add_updates(cli_model *model, cairn_error *err) {
    cairn_graph *whole;
    cairn_updates_options options = CAIRN_UPDATES_OPTIONS_INIT;
    options.slots = model->header.updates - 1;
    options.clip = model->header.clips > 0;
    options.sums = model->header.clips == 2;
    cairn_status status = cairn_graph_add_updates(model->graph, &options, &whole, err);
    if (status == CAIRN_EINVAL) {
        model->header.updates = model->header.clips = 0;
        return CAIRN_OK;
    }
    if (status != CAIRN_OK)
        return status;
    cairn_graph_destroy(model->graph);
    model->graph = whole;
    return CAIRN_OK;
}

/* Plans for evaluation are of the network with its logits, which a training step need not have. */
static cairn_status keep_network(cli_model *model, cairn_error *err) {
    cairn_graph *network;
    cairn_status status = cairn_graph_network(model->graph, &network, err);
    if (status != CAIRN_OK || network == NULL)
        return status;
    cairn_graph_destroy(model->graph);
    model->graph = network;
    return CAIRN_OK;
}

/* The graph of a training step, as the header says, and the machine; without costs. */
static cairn_status load_model(const char *name, const char *machine, cli_model *out,
                               cairn_error *err) {
    snprintf(out->header.model, sizeof out->header.model, "%s", name);
    cairn_status status = open_graph(name, out->smoothing, &out->header, &out->graph, err);
    if (status == CAIRN_OK)
        status = complete(out, err);
    if (status == CAIRN_OK && out->header.updates > 0)
        status = add_updates(out, err);
    if (status == CAIRN_OK && out->header.goal == CAIRN_GOAL_INFER)
        status = keep_network(out, err);
    if (status == CAIRN_OK)
        status = find_machine(machine, &out->machine, err);
    out->one_memory = out->machine.one_memory;
    return status;
}

/* A network on the V100, with analytic costs. */
static cairn_status load_for_bench(const char *name, cli_model *out, cairn_error *err) {
    cairn_status status = load_model(name, "v100", out, err);
    if (status == CAIRN_OK)
        status = cairn_costs_analytic(out->graph, &out->machine, &out->costs, err);
    return status;
}

cairn_status cli_model_network(const char *name, uint32_t batch, uint32_t size, cli_model *out,
                               cairn_error *err) {
    *out = (cli_model){0};
    out->header.batch = batch;
    out->header.input[1] = out->header.input[2] = size;
    return load_for_bench(name, out, err);
}

cairn_status cli_model_with_batch(const cli_args *args, const cli_model *like, uint32_t batch,
                                  cli_model *out, cairn_error *err) {
    uint32_t matched;
    *out = (cli_model){.header = like->header,
                       .smoothing = like->smoothing,
                       .no_offload = like->no_offload,
                       .effort = like->effort,
                       .micro_batches = like->micro_batches,
                       .device = like->device,
                       .borrowed = true};
    out->header.batch = batch;
    if (!cairn_model_importer(like->header.model)->sized) {
        err->status = CAIRN_EUNKNOWN;
        snprintf(err->message, sizeof err->message, "%.200s is a graph, which has one batch only",
                 like->header.model);
        return CAIRN_EUNKNOWN;
    }
    cairn_status status = load_model(like->header.model, cli_value(args, "machine"), out, err);
    if (status == CAIRN_OK)
        status = set_costs(args, out, like->backend, like->threads, &matched, err);
    return status;
}

cairn_status cli_model_sequence(const char *name, uint32_t batch, uint32_t steps, cli_model *out,
                                cairn_error *err) {
    *out = (cli_model){0};
    out->header.batch = batch;
    out->header.steps = steps;
    return load_for_bench(name, out, err);
}

static int open_model(const cli_args *args, const char *name, cli_model *out) {
    cairn_error err = {0};
    uint64_t threads, effort;
    if (!cli_real(args, "label-smoothing", 0, 1, 0, &out->smoothing) ||
        !cli_number(args, "threads", 0, 256, 0, &threads) ||
        !cli_number(args, "effort", 1, 1000, 1, &effort))
        return CLI_USAGE;
    out->effort = (uint32_t)effort;
    out->no_offload = cli_flag(args, "no-offload");
    if (out->smoothing > 0 && !cairn_model_importer(name)->sized) {
        fprintf(stderr,
                "cairn: the graph of %s has its own label smoothing; leave out --label-smoothing\n",
                name);
        return CLI_WRONG_INPUT;
    }
    const char *backend = cli_value(args, "backend");
    if (backend == NULL && cli_runs(args))
        backend = cairn_device_list(0)->name;
    if (backend == NULL && cli_value(args, "math") != NULL)
        return cli_usage_error(args, "--math needs --backend");
    cairn_status status = load_model(name, cli_value(args, "machine"), out, &err);
    if (status == CAIRN_OK)
        status = cli_model_bind(args, out, backend, (uint32_t)threads, &err);
    if (status == CAIRN_OK)
        return CLI_DONE;
    cli_model_close(out);
    return cli_fail(status, &err);
}

/* Whether updates read the norm of gradients, as in cairn_plan_header. */
static int read_clips(const cli_args *args, uint32_t updates, cli_model *model) {
    double norm;
    uint64_t micro_batches;
    if (!cli_real(args, "clip-norm", 0, 1e30, 0, &norm) ||
        !cli_number(args, "accumulate", 1, 65536, 1, &micro_batches))
        return CLI_USAGE;
    model->micro_batches = (uint32_t)micro_batches;
    model->header.clips = norm == 0 ? 0 : micro_batches > 1 ? 2 : 1;
    if (norm > 0 && updates == 0)
        return cli_usage_error(args, "--clip-norm needs updates in the plan: leave out "
                                     "--activation-budget, and any --algorithm but auto");
    return CLI_DONE;
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

/* What the options leave out. The size of a sequence of tokens is their number. */
static void fill_size(const char *name, const uint32_t input[3], uint32_t classes,
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

static int open_sized(const cli_args *args, const char *name, const uint32_t input[3],
                      uint32_t classes, uint32_t batch, uint32_t updates, cairn_goal goal,
                      cli_model *out) {
    *out = (cli_model){.args = args, .header = {.updates = updates, .goal = goal}};
    int code = read_options(args, &out->header);
    if (code == CLI_DONE)
        code = read_clips(args, updates, out);
    if (batch > 0)
        out->header.batch = batch;
    if (code == CLI_DONE)
        code = check_input(args, in_zoo(name), out->header.input);
    if (code == CLI_DONE)
        code = refuse_sizes(args, name);
    if (code == CLI_DONE)
        code = read_cost_model(args, &out->believed);
    if (code != CLI_DONE)
        return code;
    fill_size(name, input, classes, &out->header);
    return open_model(args, name, out);
}

int cli_model_open_for(const cli_args *args, const char *name, const uint32_t input[3],
                       uint32_t classes, uint32_t updates, cli_model *out) {
    const char *algorithm = cli_value(args, "algorithm");
    bool infers = algorithm != NULL && strcmp(algorithm, "infer") == 0;
    return open_sized(args, name, input, classes, 0, updates,
                      infers ? CAIRN_GOAL_INFER : CAIRN_GOAL_TRAIN, out);
}

int cli_model_open_one(const cli_args *args, const char *name, const uint32_t input[3],
                       uint32_t classes, cli_model *out) {
    return open_sized(args, name, input, classes, 1, 0, CAIRN_GOAL_INFER, out);
}

bool cli_counts_all(const cli_args *args) {
    const char *algorithm = cli_value(args, "algorithm");
    return cli_value(args, "budget") != NULL &&
           (algorithm == NULL || strcmp(algorithm, "auto") == 0);
}

int cli_model_open(const cli_args *args, const char *name, cli_model *out) {
    uint64_t slots = 0, micro_batches = 1;
    bool whole = cli_counts_all(args);
    if (whole && (!cli_number(args, "optimizer-slots", 0, CAIRN_MOST_SLOTS, 1, &slots) ||
                  !cli_number(args, "accumulate", 1, 65536, 1, &micro_batches)))
        return CLI_USAGE;
    uint32_t sums = micro_batches > 1; /* one more slot */
    return cli_model_open_for(args, name, (const uint32_t[3]){0}, 0,
                              whole ? 1 + sums + (uint32_t)slots : 0, out);
}

int cli_model_of_plan(const cli_args *args, const cairn_plan_header *header, cli_model *out) {
    cairn_plan_header given = {0};
    *out = (cli_model){.args = args, .header = *header};
    int code = read_options(args, &given);
    if (code == CLI_DONE)
        code = check_input(args, in_zoo(header->model), given.input);
    if (code == CLI_DONE)
        code = refuse_sizes(args, header->model);
    if (code != CLI_DONE)
        return code;
    if (given.batch > 0)
        out->header.batch = given.batch;
    if (given.classes > 0)
        out->header.classes = given.classes;
    if (given.steps > 0)
        out->header.steps = given.steps;
    if (given.input[0] > 0)
        memcpy(out->header.input, given.input, sizeof given.input);
    return open_model(args, header->model, out);
}
