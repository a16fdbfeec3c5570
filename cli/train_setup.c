/* train_setup.c: from options to a session that is ready to train: data, model, plan, executor. */
#include "training.h"

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

/* Sequences are as long as the network reads them. */
static bool read_tokens(const cli_training *t, uint32_t *out) {
    const cairn_zoo_entry *entry = entry_of(cli_positional(t->args, 0));
    uint64_t tokens;
    if (!cli_number(t->args, "seq", 1, UINT32_MAX, entry == NULL ? 0 : entry->defaults.steps,
                    &tokens))
        return false;
    *out = (uint32_t)tokens;
    return true;
}

static int open_data(cli_training *t) {
    const char *source = cli_value(t->args, "data");
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    cairn_error err = {0};
    uint64_t samples;
    uint32_t classes;
    if (source == NULL)
        return CLI_DONE;
    if (!cli_real(t->args, "validation", 0, 1, options.validation, &options.validation) ||
        !cli_number(t->args, "samples", 2, UINT32_MAX, 0, &samples) ||
        !read_tokens(t, &options.tokens))
        return CLI_USAGE;
    int code = cli_read_size(t->args, options.input, &classes);
    if (code != CLI_DONE)
        return code;
    options.allocator = cli_allocator();
    options.seed = t->exec.seed;
    options.classes = classes;
    options.count = (uint32_t)samples;
    cairn_status status = cairn_data_open(source, &options, &t->data, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
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
    const char *algorithm = cli_value(args, "algorithm");
    return cli_value(args, "activation-budget") == NULL &&
           (algorithm == NULL || strcmp(algorithm, "auto") == 0);
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

static cairn_status load_weights(cli_training *t, const char *path, cairn_error *err) {
    cairn_text notices = {0};
    cairn_status status =
        cairn_weights_load(cairn_train_exec(t->train), t->model.graph, path, &notices, err);
    cli_train_notices(&notices);
    return status;
}

static int create_session(cli_training *t) {
    cairn_train_options options = CAIRN_TRAIN_OPTIONS_INIT;
    cairn_error err = {0};
    t->exec.budget_bytes = t->limit.plan_bytes;
    options.exec = &t->exec;
    options.schedule = t->schedule;
    options.data = t->data;
    options.flip = t->flip;
    options.crop = t->crop;
    options.model = cairn_plan_get_header(t->solution->plan)->model;
    cairn_status status = cairn_train_create(t->model.graph, t->model.device, t->model.costs,
                                             t->solution, &options, &t->train, &err);
    if (status == CAIRN_OK && cli_value(t->args, "weights") != NULL)
        status = load_weights(t, cli_value(t->args, "weights"), &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
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

void cli_train_take_down(cli_training *t) {
    cairn_train_destroy(t->train);
    cairn_solution_destroy(t->solution);
    cli_model_close(&t->model);
    cairn_data_destroy(t->data);
}
