/* bench_setup.c: the options of benches that run networks, and a network that is ready to be run.
 */
#include "bench.h"

bool cli_bench_read(const cli_args *args, uint32_t batch, uint32_t size, cli_bench_setup *out) {
    uint64_t threads, batches, sizes;
    const char *backend = cli_value(args, "backend");
    if (!cli_number(args, "threads", 0, 256, 0, &threads) ||
        !cli_number(args, "batch", 1, 65536, batch, &batches) ||
        !cli_number(args, "size", 1, 65536, size, &sizes))
        return false;
    *out = (cli_bench_setup){.args = args,
                             .only = cli_value(args, "only"),
                             .backend = backend == NULL ? cairn_device_list(0)->name : backend,
                             .threads = (uint32_t)threads,
                             .batch = (uint32_t)batches,
                             .size = (uint32_t)sizes};
    return true;
}

cairn_status cli_bench_bind(const cli_bench_setup *setup, cli_model *model, cairn_error *err) {
    return cli_model_bind(setup->args, model, setup->backend, setup->threads, err);
}

cairn_status cli_bench_profile(cli_model *model, cairn_error *err) {
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    cairn_status status =
        cairn_profile(model->graph, model->device, &options, model->costs, &origin, err);
    model->measured = status == CAIRN_OK;
    if (status == CAIRN_OK)
        model->update_ns = cli_update_ns(&origin, model->graph);
    return status;
}
