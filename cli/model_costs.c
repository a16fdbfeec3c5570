/* model_costs.c: the costs of a model: of a machine, of a backend, and measured ones. */
#include "model_internal.h"

#include "cairn/report.h"

#include <stdio.h>
#include <string.h>

cairn_status cli_find_machine(const char *name, cairn_machine *out, cairn_error *err) {
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

cairn_status cli_model_set_costs(const cli_args *args, cli_model *model, const char *backend,
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
    cairn_status status = cli_model_set_costs(args, model, backend, threads, &matched, err);
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

int cli_read_cost_model(const cli_args *args, cairn_cost_model *out) {
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
