/* bench_resident.c: `cairn-bench resident`: whether a long training grows: the resident memory of
 * the process after ten steps and after a thousand. */
#include "allocation_hook.h"
#include "bench.h"
#include "planning.h"

#include <stdio.h>
#include <string.h>

#define EARLY 10

static cairn_status train(const cli_bench_setup *setup, const char *network, cairn_exec *exec,
                          uint64_t steps, cairn_error *err) {
    uint64_t early = 0, early_live = 0, library = 0;
    for (uint64_t step = 1; step <= steps; step++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        cairn_status status = cairn_exec_fill(exec, step, err);
        cli_allocations_mark();
        if (status == CAIRN_OK)
            status = cairn_exec_run(exec, step, &result, err);
        if (status != CAIRN_OK)
            return status;
        if (cli_allocations_peak() > library)
            library = cli_allocations_peak();
        if (step == EARLY) {
            early = cli_resident_bytes();
            early_live = cli_allocations_live();
        }
    }
    uint64_t late = cli_resident_bytes(), late_live = cli_allocations_live();
    if (!cli_flag(setup->args, "json")) {
        printf("%s on %s: resident %llu bytes after %d steps, %llu after %llu: %+lld\n", network,
               setup->backend, (unsigned long long)early, EARLY, (unsigned long long)late,
               (unsigned long long)steps, (long long)late - (long long)early);
        printf("allocated meanwhile and kept: %+lld bytes; by libraries in a step at most %llu\n",
               (long long)late_live - (long long)early_live, (unsigned long long)library);
        return CAIRN_OK;
    }
    cli_bench_line("resident");
    printf(", \"network\": \"%s\", \"backend\": \"%s\", \"steps\": %llu, "
           "\"resident_bytes_early\": %llu, \"resident_bytes_late\": %llu, "
           "\"allocated_growth_bytes\": %lld, \"library_peak_bytes\": %llu}\n",
           network, setup->backend, (unsigned long long)steps, (unsigned long long)early,
           (unsigned long long)late, (long long)late_live - (long long)early_live,
           (unsigned long long)library);
    return CAIRN_OK;
}

int cli_bench_resident(const cli_args *args) {
    cli_bench_setup setup;
    uint64_t steps;
    if (!cli_bench_read(args, 2, 32, &setup) ||
        !cli_number(args, "repeat", EARLY + 1, 100000000, 1000, &steps))
        return CLI_USAGE;
    const char *network = setup.only == NULL ? "resnet18" : setup.only;
    cli_model model;
    cairn_error err = {0};
    cairn_solution *solution = NULL;
    cairn_exec *exec = NULL;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.update_in_run = true;
    cairn_status status = cli_model_network(network, setup.batch, setup.size, &model, &err);
    if (status == CAIRN_OK)
        status = cli_bench_bind(&setup, &model, &err);
    if (status == CAIRN_OK)
        status = cli_solve(&model, "pieces", 0, 0, &solution, &err);
    if (status == CAIRN_OK)
        status = cairn_exec_create(model.graph, model.device, model.costs, solution, &options,
                                   &exec, &err);
    if (status == CAIRN_OK)
        status = train(&setup, network, exec, steps, &err);
    cairn_exec_destroy(exec);
    cairn_solution_destroy(solution);
    cli_model_close(&model);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}
