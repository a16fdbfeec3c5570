/* command_bench.c: `cairn-bench NAME`: the tables and figures of the papers, and measurements of
 * Cairn. A bench measures and prints; it does not judge. */
#include "bench.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static const struct {
    const char *name, *summary;
    int (*run)(const cli_args *args);
} benches[] = {
#define X(identifier, name, summary) {name, summary, cli_bench_##identifier},
#include "benches.def"
#undef X
};

#define COUNT (sizeof benches / sizeof *benches)

void cli_bench_line(const char *name) {
    struct utsname system;
    if (uname(&system) != 0)
        snprintf(system.machine, sizeof system.machine, "unknown");
    printf("{\"bench\": \"%s\", \"commit\": \"%s\", \"machine\": \"%s %s\"", name, CAIRN_COMMIT,
           system.sysname, system.machine);
}

/* Feng and Huang, table 2. */
static const cli_paper_row table2[] = {
    {"alexnet", 1024, 224, 4955, 4408, 4408, 3287}, {"vgg11", 64, 224, 3577, 2781, 2781, 2781},
    {"vgg13", 64, 224, 5136, 3565, 3565, 3565},     {"vgg16", 64, 224, 5136, 4352, 3957, 3565},
    {"vgg19", 64, 224, 5189, 4548, 3957, 3565},     {"resnet18", 256, 224, 5635, 4069, 0, 3677},
    {"resnet34", 128, 224, 4079, 2231, 0, 1838},    {"resnet50", 64, 224, 5323, 2714, 0, 1973},
    {"resnet101", 32, 224, 3934, 2541, 0, 1024},    {"resnet152", 16, 224, 2767, 1464, 0, 526},
    {"densenet121", 32, 224, 4027, 1629, 0, 898},   {"densenet161", 16, 224, 3751, 1432, 0, 666},
    {"densenet169", 32, 224, 4862, 1774, 0, 897},   {"densenet201", 16, 224, 3146, 1242, 0, 474},
    {"inception_v3", 32, 300, 3074, 1336, 0, 881},  {"nasnet", 64, 32, 5832, 0, 0, 1129},
    {"amoebanet", 64, 32, 4944, 0, 0, 1058},        {"darts", 64, 32, 5627, 0, 0, 1115},
};

const cli_paper_row *cli_paper_table2(uint32_t index) {
    return index < sizeof table2 / sizeof *table2 ? &table2[index] : NULL;
}

static int run(const cli_args *args) {
    const char *name = cli_positional(args, 0);
    for (size_t i = 0; i < COUNT && name != NULL; i++)
        if (strcmp(benches[i].name, name) == 0)
            return benches[i].run(args);
    if (name != NULL)
        return cli_usage_error(args, "there is no bench \"%s\"", name);
    for (size_t i = 0; i < COUNT; i++)
        printf(cli_flag(args, "json") ? "{\"bench\": \"%s\", \"summary\": \"%s\"}\n" : "%-10s %s\n",
               benches[i].name, benches[i].summary);
    return CLI_DONE;
}

static const cli_option options[] = {
    {"data", 0, "DIR", "the graphs that a bench reads (default tests/data/feng)"},
    {"repeat", 0, "N", "repetitions; the median is printed (default 5; step 20; resident 1000)"},
    {"svg", 0, "FILE", "draw the figure, if the bench has one; offload: a folder of figures"},
    {"by", 0, "ops|pieces",
     "offload: what a layer of the chain is (default ops; the paper's are pieces)"},
    {"quick", 0, NULL, "fewer points, for benches that take minutes"},
    {"run", 0, NULL, "table2: train every network for one step, at a small size"},
    {"full", 0, NULL, "table2 --run: at the sizes of the paper, timed, beside other programs"},
    {"only", 0, "NAME", "table2 --run, layout, step, resident, auto: this network only"},
    {"backend", 0, "NAME",
     "table2 --run, step, resident: the backend (default: the best of this build)"},
    {"threads", 't', "N", "threads of the backend (default: one per processor)"},
    {"math", 0, "NAME", "step, resident: as of 'cairn train' (default tf32, on a processor fp32)"},
    {"batch", 'b', "N", "step, resident: images per step (default 16; resident 2)"},
    {"size", 0, "N", "step, resident: height and width of the images (default 224; resident 32)"},
    {"serve", 0, NULL, "step: run one step of --only NAME for each line of standard input"},
    {"half", 0, NULL, "step --serve: by the plan in half of the memory"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_bench = {
    .name = "bench",
    .alone = true,
    .arguments = "[NAME]",
    .summary = "print the tables and figures of the papers, and measure Cairn",
    .details = "Without NAME, lists the benches. With --json every row is a line of JSON with the\n"
               "commit and the machine.",
    .options = options,
    .run = run,
    .computes = true,
};
