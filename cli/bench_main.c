/* bench_main.c: `cairn-bench [NAME]`, a program for developers, which is not installed. */
#include "allocation_hook.h"
#include "bench.h"
#include "cli_internal.h"

/* The benches are not in commands.def: completions and the manual page do not name them. */
const cli_command *cli_command_at(int index) {
    return index == 0 ? &cli_command_bench : NULL;
}

int main(int argc, char **argv) {
    cli_use_allocator(cli_own_allocator());
    return cli_finish(cli_run(&cli_command_bench, argc - 1, argv + 1, argv));
}
