/* train_setup.c: from options to a session that is ready to train: data, model, plan, executor. */
#include "training.h"

#include "refusal.h"

#include <string.h>

/* ---- Data ---- */

static const cairn_zoo_entry *entry_of(const char *name) {
    const cairn_zoo_entry *entry;
    size_t length = name == NULL ? 0 : strcspn(name, ":");
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++)
        if (strlen(entry->name) == length && strncmp(entry->name, name, length) == 0)
            return entry;
    return NULL;
}

/* The tokens that a network of a file reads; 0: none, or the file is wrong, as will be said. */
static uint32_t tokens_of_file(const char *name) {
    cairn_graph *graph = NULL;
    cairn_error ignored;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    uint32_t tokens = 0;
    if (cairn_model_open(cli_allocator(), name, NULL, &graph, &ignored) != CAIRN_OK)
        return 0;
    cairn_graph_summarize(graph, &summary);
    if (summary.input != CAIRN_NONE) {
        const cairn_tensor *input = cairn_graph_tensor(graph, summary.input);
        tokens = input->dtype == CAIRN_DTYPE_I32 && input->rank == 2 ? input->shape[1] : 0;
    }
    cairn_graph_destroy(graph);
    return tokens;
}

/* Sequences are as long as the network reads them. */
static bool read_tokens(const cli_training *t, uint32_t *out) {
    const char *name = cli_positional(t->args, 0);
    const cairn_zoo_entry *entry = entry_of(name);
    uint32_t usual = entry != NULL ? entry->defaults.steps : 0;
    uint64_t tokens;
    if (entry == NULL && name != NULL)
        usual = tokens_of_file(name);
    if (!cli_number(t->args, "seq", 1, UINT32_MAX, usual, &tokens))
        return false;
    *out = (uint32_t)tokens;
    return true;
}

static int open_data(cli_training *t) {
    cli_origin any = {0};
    const char *path = cli_value(t->args, "weights");
    int code = path == NULL ? CLI_DONE : cli_load_weights(path, t->weights_path, &t->weights);
    if (code != CLI_DONE || cli_value(t->args, "data") == NULL)
        return code;
    if (!read_tokens(t, &any.tokens))
        return CLI_USAGE;
    code = cli_open_data(t->args, t->exec.seed, &any, &t->data);
    return code == CLI_DONE ? cli_set_normalisation(t->args, t->data, t->weights, &t->normalise)
                            : code;
}

/* ---- The model ---- */

/* Whether a network of the zoo reads images; others are recurrent or read tokens. */
static bool reads_images(const char *name) {
    const cairn_zoo_entry *entry = entry_of(name);
    return entry != NULL && entry->defaults.input[2] > 0;
}

/* The vocabulary of text is that of bytes; that of other tokens is the network's own. */
static bool is_text(const cli_training *t) {
    return strncmp(cli_value(t->args, "data"), "text:", 5) == 0;
}

/* Whether updates are ops of the step: unless a plan for activations only is asked for. */
static bool has_updates(const cli_args *args) {
    return cli_value(args, "activation-budget") == NULL &&
           cli_plans_all(cli_value(args, "algorithm"));
}

/* A network of the zoo is built for the samples, and as the plan says. */
static int open_named(cli_training *t, const char *name, const cairn_plan_header *planned) {
    uint32_t input[3] = {0}, classes = 0;
    if (t->data != NULL && reads_images(name)) {
        cairn_data_info info = *cairn_data_get_info(t->data);
        for (uint32_t i = 0; i < 3 && i < info.rank; i++)
            input[i] = info.shape[i];
        classes = info.classes;
    }
    if (t->data != NULL && cairn_data_get_info(t->data)->tokens && is_text(t))
        classes = cairn_data_get_info(t->data)->classes;
    uint32_t updates = planned != NULL ? planned->updates : 0;
    if (planned == NULL && has_updates(t->args))
        updates = 1 + cairn_optimizer_slots(&t->exec);
    return cli_model_open_for(t->args, name, input, classes, updates, &t->model);
}

static int open_model(cli_training *t, const cairn_plan_header *planned) {
    const char *name = cli_positional(t->args, 0);
    if (name == NULL && planned == NULL)
        return cli_usage_error(t->args, "it needs MODEL or --plan FILE");
    int code = name != NULL ? open_named(t, name, planned)
                            : cli_model_of_plan(t->args, planned, &t->model);
    if (t->link_bytes_per_second > 0) /* not that of a table */
        t->model.machine.link_bytes_per_second = t->link_bytes_per_second;
    return code;
}

/* ---- The plan ---- */

static int read_limits(cli_training *t) {
    return cli_read_limits(t->args, &t->model, cairn_optimizer_slots(&t->exec), &t->limit);
}

/* A plan from a file, for the model on the command line or else the one it names. */
static int read_plan(cli_training *t, const char *path) {
    cairn_text text;
    cairn_error err = {0};
    cairn_plan_header header;
    cairn_status status = CAIRN_OK;
    int code = cli_load_plan(path, &text, &header);
    if (code != CLI_DONE)
        return code;
    code = open_model(t, &header);
    if (code == CLI_DONE)
        status = cli_judge_plan(&t->model, path, &text, &t->solution, &err);
    cairn_text_release(&text);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    if (code == CLI_DONE)
        cli_model_sign(&t->model, t->solution->plan);
    return code != CLI_DONE ? code : read_limits(t);
}

static int make_plan(cli_training *t) {
    int code = open_model(t, NULL);
    if (code == CLI_DONE)
        code = read_limits(t);
    if (code == CLI_DONE)
        code = cli_make_plan(t->args, &t->model, &t->limit, t->exec.seed, &t->solution);
    if (code == CLI_DONE)
        cli_model_sign(&t->model, t->solution->plan);
    return code;
}

/* ---- How long ---- */

static uint32_t batch_of(const cairn_graph *graph) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    uint32_t batch = 0; /* an input without a shape has none */
    if (summary.input != CAIRN_NONE)
        batch = cairn_graph_tensor(graph, summary.input)->shape[0];
    return batch > 0 ? batch : 1;
}

/* Epochs become steps; a schedule that ends does so with the last. */
static void count_steps(cli_training *t) {
    if (t->steps == 0 && t->data == NULL)
        t->steps = 10;
    if (t->steps == 0) {
        uint64_t epochs = t->epochs > 0 ? t->epochs : 1;
        uint64_t batches = cairn_data_get_info(t->data)->train / batch_of(t->model.graph);
        t->steps = epochs * batches / t->exec.micro_batches;
        t->steps = t->steps > 0 ? t->steps : 1;
    }
    t->schedule.total = t->steps;
    t->schedule.every = t->decay_every > 0 ? t->decay_every : (t->steps + 2) / 3;
}

/* ---- The session ---- */

static cairn_status assign_weights(cli_training *t, cairn_error *err) {
    cairn_text notices = {0};
    uint32_t count;
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(t->weights, &count);
    cairn_status status = cairn_weights_assign(cairn_train_exec(t->train), t->model.graph, tensors,
                                               count, t->weights_path, &notices, err);
    cli_print_notices(&notices);
    cairn_safetensors_destroy(t->weights); /* as large as the network */
    t->weights = NULL;
    return status;
}

/* Where the device has less memory than the step needs, say what would do. */
static int check_memory(const cli_training *t) {
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(t->model.device, &facts);
    uint64_t stationary =
        cairn_stationary_bytes(t->model.graph, t->model.costs, cairn_optimizer_slots(&t->exec)) -
        t->solution->sim->summary->home_bytes;
    uint64_t needed = t->solution->layout->arena_bytes + stationary +
                      (facts.separate_memory ? 0 : t->solution->sim->summary->host_bytes);
    if (facts.memory_bytes == 0 || needed <= facts.memory_bytes)
        return CLI_DONE;
    return cli_refuse_machine(t->args, &t->model, t->solution->plan->header->algorithm, needed,
                              stationary, facts.memory_bytes);
}

/* The system refused memory: a budget is a way out. */
static int fail_session(const cli_training *t, cairn_status status, const cairn_error *err) {
    int code = cli_fail(status, err);
    if (status == CAIRN_ESYSTEM && t->train == NULL)
        fprintf(stderr, "cairn: --budget SIZE or a smaller --batch needs less memory\n");
    return code;
}

/* Transformers are usually trained without decay of biases, norms and positions. */
static void choose_decay(cli_training *t) {
    for (cairn_id o = 0; o < cairn_graph_op_count(t->model.graph); o++)
        if (cairn_graph_op(t->model.graph, o)->kind == CAIRN_OP_ATTENTION &&
            cli_value(t->args, "decay-on") == NULL)
            t->exec.decay_on = CAIRN_DECAY_MATRICES;
}

static int create_session(cli_training *t) {
    cairn_train_options options = CAIRN_TRAIN_OPTIONS_INIT;
    cairn_error err = {0};
    int code = check_memory(t);
    if (code != CLI_DONE)
        return code;
    t->exec.budget_bytes = t->limit.plan_bytes;
    choose_decay(t);
    options.exec = &t->exec;
    options.schedule = t->schedule;
    options.data = t->data;
    options.flip = t->flip;
    options.crop = t->crop;
    options.normalise = t->normalise;
    options.model = t->solution->plan->header->model;
    cairn_status status = cairn_train_create(t->model.graph, t->model.device, t->model.costs,
                                             t->solution, &options, &t->train, &err);
    if (status == CAIRN_OK && t->weights != NULL)
        status = assign_weights(t, &err);
    return status == CAIRN_OK ? CLI_DONE : fail_session(t, status, &err);
}

int cli_train_set_up(cli_training *t) {
    const char *path = cli_value(t->args, "plan");
    if (path != NULL && cli_value(t->args, "algorithm") != NULL)
        return cli_usage_error(t->args, "--plan and --algorithm exclude each other");
    int code = open_data(t);
    if (code == CLI_DONE)
        code = path != NULL ? read_plan(t, path) : make_plan(t);
    if (code != CLI_DONE)
        return code;
    count_steps(t);
    return create_session(t);
}

uint64_t cli_train_steps(const cli_training *t) {
    cairn_train_history history = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_get_history(t->train, &history);
    return history.steps;
}

void cli_train_take_down(cli_training *t) {
    cairn_train_destroy(t->train);
    cairn_solution_destroy(t->solution);
    cli_model_close(&t->model);
    cairn_data_destroy(t->data);
    cairn_safetensors_destroy(t->weights);
}
