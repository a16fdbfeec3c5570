/* solve_acg.c: `cairn solve acg FILE`: checkpoints on an arbitrary computation graph. */
#include "problems.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct acg_run {
    const cli_args *args;
    const char *algorithm;
    bool json, tree;
    const char *svg; /* file, or NULL */
    uint64_t seed;
} acg_run;

static void print_json(uint32_t index, const cairn_acg_solution *result, const uint32_t *names,
                       int64_t ns) {
    printf("{\"case\":%" PRIu32 ",\"value\":%" PRIu64 ",\"checkpoints\":[", index, result->value);
    for (uint32_t i = 0; i < result->checkpoint_count; i++)
        printf("%s%" PRIu32, i > 0 ? "," : "", names[result->checkpoints[i]]);
    printf("],\"solve_ns\":%" PRId64 "}\n", ns);
}

static void print_heading(void) {
    printf("%6s %9s %9s %20s %20s %7s %12s\n", "case", "vertices", "edges", "all costs", "value",
           "kept", "time");
}

static void print_row(uint32_t index, const cairn_dag *dag, const cairn_acg_solution *result,
                      int64_t ns) {
    uint64_t total = 0;
    for (uint32_t v = 0; v < dag->vertex_count; v++)
        total += dag->costs[v];
    printf("%6" PRIu32 " %9" PRIu32 " %9" PRIu32 " %20" PRIu64 " %20" PRIu64 " %7" PRIu32 " %12s\n",
           index, dag->vertex_count, dag->edge_count, total, result->value,
           result->checkpoint_count, cli_time(ns));
}

/* Checkpoints in lines of a readable length. */
static void print_checkpoints(const cairn_acg_solution *result, const uint32_t *names) {
    int column = printf("       checkpoints:");
    for (uint32_t i = 0; i < result->checkpoint_count; i++) {
        if (column > 90)
            column = printf("\n                   ") - 1;
        column += printf(" %" PRIu32, names[result->checkpoints[i]]);
    }
    printf("\n");
}

static int draw_trees(const acg_run *run, const cairn_dag *dag, const uint32_t *names) {
    cairn_error err = {0};
    cairn_text text = {0};
    int code = CLI_DONE;
    if (run->tree) {
        cairn_status status = cairn_acg_tree_text(NULL, dag, names, &text, &err);
        code = status == CAIRN_OK ? cli_emit(&text, NULL) : cli_fail(status, &err);
    }
    if (code == CLI_DONE && run->svg != NULL) {
        cairn_status status = cairn_acg_tree_svg(NULL, dag, names, &text, &err);
        code = status == CAIRN_OK ? cli_emit(&text, run->svg) : cli_fail(status, &err);
    }
    return code;
}

static int solve_case(const acg_run *run, const cairn_acg_cases *cases, uint32_t index) {
    const cairn_dag *dag = cairn_acg_cases_get(cases, index);
    const uint32_t *names = cairn_acg_cases_names(cases, index);
    cairn_acg_options options = CAIRN_ACG_OPTIONS_INIT;
    cairn_acg_solution *result;
    cairn_error err = {0};
    options.names = names;
    options.seed = run->seed;
    int64_t start = cli_clock();
    cairn_status status = cairn_acg_solve(NULL, dag, run->algorithm, &options, &result, &err);
    int64_t ns = cli_clock() - start;
    if (status != CAIRN_OK) {
        snprintf(err.file, sizeof err.file, "%s", cli_case_file(run->args));
        if (cairn_acg_cases_count(cases) > 1)
            snprintf(err.path, sizeof err.path, "case %" PRIu32, index);
        return cli_fail(status, &err);
    }
    if (run->json) {
        print_json(index, result, names, ns);
    } else {
        if (index == 0)
            print_heading();
        print_row(index, dag, result, ns);
        print_checkpoints(result, names);
    }
    cairn_acg_solution_destroy(result);
    return draw_trees(run, dag, names);
}

static const char *algorithm_name(uint32_t index) {
    const cairn_acg_algorithm *algorithm = cairn_acg_algorithm_list(index);
    return algorithm == NULL ? NULL : algorithm->name;
}

int cli_solve_acg(const cli_args *args, const cairn_text *file) {
    const char *path = cli_case_file(args);
    acg_run run = {.args = args,
                   .json = cli_flag(args, "json"),
                   .tree = cli_flag(args, "tree"),
                   .svg = cli_value(args, "svg")};
    uint32_t algorithm;
    cairn_error err = {0};
    cairn_acg_cases *cases;
    if (!cli_choice_value(args, "algorithm", algorithm_name, 0, &algorithm) ||
        !cli_number(args, "seed", 0, UINT64_MAX, 1, &run.seed))
        return CLI_USAGE;
    if (run.json && run.tree)
        return cli_usage_error(args, "--tree prints text, so it does not go with --json");
    run.algorithm = algorithm_name(algorithm);
    cairn_status status = cairn_acg_cases_read(NULL, file->data, file->length, path, &cases, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = CLI_DONE;
    if (run.svg != NULL && cairn_acg_cases_count(cases) > 1)
        code = cli_usage_error(args, "--svg draws one case, and %s holds %" PRIu32, path,
                               cairn_acg_cases_count(cases));
    for (uint32_t i = 0; code == CLI_DONE && i < cairn_acg_cases_count(cases); i++)
        code = solve_case(&run, cases, i);
    cairn_acg_cases_destroy(cases);
    return code;
}
