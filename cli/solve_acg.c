/* solve_acg.c: `cairn solve acg FILE`: checkpoints on an arbitrary computation graph. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct acg_run {
    const cli_args *args;
    const char *algorithm;
    bool json, tree;
    const char *svg; /* file, or NULL */
    uint64_t seed;
} acg_run;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void print_json(uint32_t index, const cairn_acg_result *result, const uint32_t *names,
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

static void print_row(uint32_t index, const cairn_dag *dag, const cairn_acg_result *result,
                      int64_t ns) {
    uint64_t total = 0;
    for (uint32_t v = 0; v < dag->vertex_count; v++)
        total += dag->costs[v];
    printf("%6" PRIu32 " %9" PRIu32 " %9" PRIu32 " %20" PRIu64 " %20" PRIu64 " %7" PRIu32 " %12s\n",
           index, dag->vertex_count, dag->edge_count, total, result->value,
           result->checkpoint_count, cli_time(ns));
}

/* Checkpoints in lines of a readable length. */
static void print_checkpoints(const cairn_acg_result *result, const uint32_t *names) {
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
    cairn_acg_result result;
    cairn_error err = {0};
    options.names = names;
    options.seed = run->seed;
    int64_t start = now();
    cairn_status status = cairn_acg_solve(NULL, dag, run->algorithm, &options, &result, &err);
    int64_t ns = now() - start;
    if (status != CAIRN_OK) {
        snprintf(err.file, sizeof err.file, "%s", cli_positional(run->args, 1));
        if (cairn_acg_cases_count(cases) > 1)
            snprintf(err.path, sizeof err.path, "case %" PRIu32, index);
        return cli_fail(status, &err);
    }
    if (run->json) {
        print_json(index, &result, names, ns);
    } else {
        if (index == 0)
            print_heading();
        print_row(index, dag, &result, ns);
        print_checkpoints(&result, names);
    }
    cairn_acg_result_release(&result);
    return draw_trees(run, dag, names);
}

static int solve_file(const acg_run *run, const char *path) {
    cairn_error err = {0};
    cairn_text text = {0};
    cairn_acg_cases *cases = NULL;
    cairn_status status = cairn_text_load(NULL, path, &text, &err);
    if (status == CAIRN_OK)
        status = cairn_acg_cases_read(NULL, text.data, text.length, path, &cases, &err);
    cairn_text_release(&text);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = CLI_DONE;
    if (run->svg != NULL && cairn_acg_cases_count(cases) > 1)
        code = cli_usage_error(run->args, "--svg draws one case, and %s holds %" PRIu32, path,
                               cairn_acg_cases_count(cases));
    for (uint32_t i = 0; code == CLI_DONE && i < cairn_acg_cases_count(cases); i++)
        code = solve_case(run, cases, i);
    cairn_acg_cases_destroy(cases);
    return code;
}

static bool is_known(const char *name) {
    const cairn_acg_algorithm *a;
    for (uint32_t i = 0; (a = cairn_acg_algorithm_list(i)) != NULL; i++)
        if (strcmp(a->name, name) == 0)
            return true;
    return false;
}

/* "feng, pieces, ... or random" */
static const char *known_names(char *buffer, size_t size) {
    size_t used = 0;
    const cairn_acg_algorithm *a;
    for (uint32_t i = 0; (a = cairn_acg_algorithm_list(i)) != NULL && used < size; i++) {
        bool last = cairn_acg_algorithm_list(i + 1) == NULL;
        used += (size_t)snprintf(buffer + used, size - used, "%s%s",
                                 i == 0 ? ""
                                 : last ? " or "
                                        : ", ",
                                 a->name);
    }
    return buffer;
}

int cli_solve_acg(const cli_args *args);

int cli_solve_acg(const cli_args *args) {
    char names[256];
    acg_run run = {args,
                   cli_value(args, "algorithm"),
                   cli_flag(args, "json"),
                   cli_flag(args, "tree"),
                   cli_value(args, "svg"),
                   1};
    if (run.algorithm != NULL && !is_known(run.algorithm))
        return cli_usage_error(args, "acg has no algorithm \"%s\"; it has %s", run.algorithm,
                               known_names(names, sizeof names));
    if (run.json && run.tree)
        return cli_usage_error(args, "--tree prints text, so it does not go with --json");
    if (!cli_number(args, "seed", 0, UINT64_MAX, 1, &run.seed))
        return CLI_USAGE;
    return solve_file(&run, cli_positional(args, 1));
}
