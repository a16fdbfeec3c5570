/* model.c: from MODEL and its options to a graph with costs; model_sizes.c and model_costs.c read
 * the options. */
#include "model_internal.h"

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
        status = cli_find_machine(machine, &out->machine, err);
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
        status = cli_model_set_costs(args, out, like->backend, like->threads, &matched, err);
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

static int open_sized(const cli_args *args, const char *name, const uint32_t input[3],
                      uint32_t classes, uint32_t batch, uint32_t updates, cairn_goal goal,
                      cli_model *out) {
    *out = (cli_model){.args = args, .header = {.updates = updates, .goal = goal}};
    int code = cli_read_header(args, name, &out->header);
    if (code == CLI_DONE)
        code = read_clips(args, updates, out);
    if (batch > 0)
        out->header.batch = batch;
    if (code == CLI_DONE)
        code = cli_read_cost_model(args, &out->believed);
    if (code != CLI_DONE)
        return code;
    cli_fill_size(name, input, classes, &out->header);
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

bool cli_plans_all(const char *algorithm) {
    return algorithm == NULL || strcmp(algorithm, "auto") == 0;
}

bool cli_counts_all(const cli_args *args) {
    return cli_value(args, "budget") != NULL && cli_plans_all(cli_value(args, "algorithm"));
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
    int code = cli_read_header(args, header->model, &given);
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
