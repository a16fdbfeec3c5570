/* step_watch.c: see step_watch.h. */
#include "step_watch.h"

#include "quantiles.h"

#include <stdio.h>
#include <string.h>

void cli_watch_init(cli_step_watch *watch, const cli_model *model, const cairn_solution *solution,
                    uint32_t micro_batches) {
    *watch = (cli_step_watch){.predicted_ns = cli_predicted_ns(model, solution, micro_batches),
                              .before_bytes = cli_resident_bytes()};
}

void cli_watch_step(cli_step_watch *watch, int64_t time_ns) {
    if (watch->count > 0) /* the first step touches its pages for the first time */
        watch->last[(watch->count - 1) % CLI_WATCHED_STEPS] = time_ns;
    watch->count++;
}

void cli_watch_print_json(const cli_step_watch *watch) {
    if (watch->predicted_ns > 0)
        printf(", \"predicted_ms\": %.3f", (double)watch->predicted_ns / 1e6);
    if (cli_resident_peak_bytes() > 0)
        printf(", \"process_bytes\": %llu", (unsigned long long)cli_resident_peak_bytes());
}

void cli_watch_print_text(const cli_step_watch *watch) {
    int64_t times[CLI_WATCHED_STEPS];
    uint64_t known = watch->count > 0 ? watch->count - 1 : 0;
    uint32_t count = (uint32_t)(known < CLI_WATCHED_STEPS ? known : CLI_WATCHED_STEPS);
    memcpy(times, watch->last, count * sizeof *times);
    if (watch->predicted_ns > 0 && count > 0) {
        int64_t measured = cli_quantiles_of(times, count).median;
        printf("  predicted %s a step, measured %s (%+.1f%%)\n", cli_time(watch->predicted_ns),
               cli_time(measured), 100.0 * (double)measured / (double)watch->predicted_ns - 100.0);
    }
    uint64_t most = cli_resident_peak_bytes();
    if (most > 0)
        printf("  the system says at most %s resident, %s before the first step\n", cli_bytes(most),
               cli_bytes(watch->before_bytes));
}
