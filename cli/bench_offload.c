/* bench_offload.c: section 6 of Beaumont et al.: offloading on chains of real networks, from the
 * smallest memory possible towards the peak, by every algorithm; ratios to the lower bound and to
 * the fractional optimum, and images per second. Costs are those of the V100 description. Layers
 * are single ops, or the pieces between cuts, which is how the paper groups them (--by pieces). */
#include "bench.h"
#include "cairn/report.h"
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POINTS                                                                                     \
    8 /* of memory, from the smallest possible; the peak itself is trivial and left out */
#define SLOTS 500
#define MOST_CASES 128

static const char *const algorithms[] = {"offload-greedy", "offload-dynprog", "vdnn",
                                         "tflms",          "autoswap",        "offload-best"};
enum { GREEDY, DYNPROG, VDNN, TFLMS, AUTOSWAP, BEST, ALGORITHMS };

static const char *const networks[] = {"resnet18",    "resnet34",    "resnet50",    "resnet101",
                                       "resnet152",   "densenet121", "densenet161", "densenet169",
                                       "densenet201", "inception_v3"};
#define NETWORKS (sizeof networks / sizeof *networks)

/* Image sizes with their batches. */
static const struct {
    uint32_t size, batches[3];
} images[] = {{224, {16, 32, 64}}, {500, {4, 8, 16}}, {1000, {1, 2, 4}}};
#define SIZES (sizeof images / sizeof *images)

typedef struct point {
    uint64_t memory;
    double bound, fractional;   /* seconds */
    double seconds[ALGORITHMS]; /* 0: finds no schedule */
    int64_t solve_ns[ALGORITHMS];
} point;

typedef struct bench_case {
    const char *network;
    uint32_t size, batch, layers;
    uint64_t least, peak; /* memory with what is there besides the chain's */
    point points[POINTS];
} bench_case;

typedef struct bench {
    const cli_args *args;
    bool json, quick;
    cairn_offload_layers layers;
    bench_case *cases;
    uint32_t count;
} bench;

/* ---- Measuring ---- */

static cairn_status open_view(const bench *b, const bench_case *c, cairn_offload_view **out,
                              cairn_error *err) {
    cli_model net;
    cairn_status status = cli_model_network(c->network, c->batch, c->size, &net, err);
    if (status == CAIRN_OK)
        status = cairn_offload_view_create(net.graph, net.costs, &net.machine, b->layers, out, err);
    cli_model_close(&net);
    return status;
}

/* Time is in microseconds, results are multiplied by the bandwidth. */
static double seconds(const cairn_offload_problem *problem, uint64_t x_beta) {
    return (double)x_beta / (double)problem->bandwidth / 1e6;
}

static cairn_status measure_point(const cairn_offload_problem *problem, point *p,
                                  cairn_error *err) {
    cairn_offload_bounds bounds;
    cairn_offload_options options = CAIRN_OFFLOAD_OPTIONS_INIT;
    options.slots = SLOTS;
    cairn_status status = cairn_offload_bound(NULL, problem, &bounds, err);
    p->bound = seconds(problem, bounds.lower_bound_x_beta);
    p->fractional = seconds(problem, bounds.fractional_x_beta);
    for (int a = 0; a < ALGORITHMS && status == CAIRN_OK; a++) {
        cairn_offload_solution *solution;
        int64_t start = cli_clock();
        status = cairn_offload_solve(NULL, problem, algorithms[a], &options, &solution, err);
        p->solve_ns[a] = cli_clock() - start;
        if (status == CAIRN_OK)
            p->seconds[a] = seconds(problem, solution->makespan_x_beta);
        cairn_offload_solution_destroy(solution);
        if (status == CAIRN_INFEASIBLE)
            status = CAIRN_OK;
    }
    return status;
}

static void show_progress(const bench *b, const bench_case *c, uint32_t k) {
    if (isatty(STDERR_FILENO) && !b->json)
        fprintf(stderr, "\r%-14s %4u px, batch %2u, point %u of %u ", c->network, c->size, c->batch,
                k + 1, POINTS);
}

static void clear_progress(const bench *b) {
    if (isatty(STDERR_FILENO) && !b->json)
        fprintf(stderr, "\r%50s\r", "");
}

static cairn_status measure_case(const bench *b, bench_case *c, cairn_error *err) {
    cairn_offload_view *view = NULL;
    cairn_offload_bounds bounds;
    cairn_status status = open_view(b, c, &view, err);
    if (status == CAIRN_OK)
        status = cairn_offload_bound(NULL, &view->problem, &bounds, err);
    for (uint32_t k = 0; k < POINTS && status == CAIRN_OK; k++) {
        cairn_offload_problem problem = view->problem;
        show_progress(b, c, k);
        problem.memory = bounds.min_memory + (bounds.peak_memory - bounds.min_memory) / POINTS * k;
        c->points[k].memory = problem.memory + view->constant_bytes;
        status = measure_point(&problem, &c->points[k], err);
    }
    if (status == CAIRN_OK) {
        c->layers = view->problem.layers;
        c->least = bounds.min_memory + view->constant_bytes;
        c->peak = bounds.peak_memory + view->constant_bytes;
    }
    cairn_offload_view_destroy(view);
    return status;
}

/* ---- Printing ---- */

static double worst(const bench_case *c, int algorithm, bool to_fractional) {
    double most = 0;
    for (uint32_t k = 0; k < POINTS; k++) {
        const point *p = &c->points[k];
        double ratio = p->seconds[algorithm] / (to_fractional ? p->fractional : p->bound);
        most = ratio > most ? ratio : most;
    }
    return most;
}

static void print_head(void) {
    printf("Worst ratio to the lower bound of %d points from the smallest memory to the peak;\n"
           "of offload-best also to the fractional optimum; images a second by offload-best.\n\n"
           "%-13s %5s %5s %6s %9s %9s | %6s %7s %6s %6s %8s %6s %6s | %9s %9s\n",
           POINTS, "network", "image", "batch", "layers", "smallest", "peak", "greedy", "dynprog",
           "vdnn", "tflms", "autoswap", "best", "/frac", "smallest", "halfway");
}

static void print_row(const bench_case *c) {
    printf("%-13s %5u %5u %6u %9s %9s | %6.3f %7.3f %6.3f %6.3f %8.3f %6.3f %6.3f | %9.1f %9.1f\n",
           c->network, c->size, c->batch, c->layers, cli_bytes(c->least), cli_bytes(c->peak),
           worst(c, GREEDY, false), worst(c, DYNPROG, false), worst(c, VDNN, false),
           worst(c, TFLMS, false), worst(c, AUTOSWAP, false), worst(c, BEST, false),
           worst(c, BEST, true), c->batch / c->points[0].seconds[BEST],
           c->batch / c->points[POINTS / 2].seconds[BEST]);
    fflush(stdout);
}

static void print_json(const bench *b, const bench_case *c) {
    for (uint32_t k = 0; k < POINTS; k++) {
        const point *p = &c->points[k];
        cli_bench_line("offload");
        printf(", \"network\": \"%s\", \"image\": %u, \"batch\": %u, \"by\": \"%s\", "
               "\"layers\": %u, \"memory_bytes\": %llu, \"smallest_bytes\": %llu, \"peak_bytes\": "
               "%llu, "
               "\"lower_bound_s\": %.6f, \"fractional_s\": %.6f",
               c->network, c->size, c->batch,
               b->layers == CAIRN_OFFLOAD_LAYERS_OPS ? "ops" : "pieces", c->layers,
               (unsigned long long)p->memory, (unsigned long long)c->least,
               (unsigned long long)c->peak, p->bound, p->fractional);
        for (int a = 0; a < ALGORITHMS; a++) {
            if (p->seconds[a] > 0)
                printf(", \"%s_s\": %.6f, \"%s_images_per_s\": %.3f", algorithms[a], p->seconds[a],
                       algorithms[a], c->batch / p->seconds[a]);
            else
                printf(", \"%s_s\": null, \"%s_images_per_s\": null", algorithms[a], algorithms[a]);
            printf(", \"%s_solve_ns\": %lld", algorithms[a], (long long)p->solve_ns[a]);
        }
        printf("}\n");
        fflush(stdout);
    }
}

/* Points within `limit`; those beyond are listed if there are few enough to read. */
static void print_share(const bench *b, int algorithm, bool to_fractional, double limit) {
    uint32_t within = 0, all = b->count * POINTS;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < b->count; i++)
            for (uint32_t k = 0; k < POINTS; k++) {
                const bench_case *c = &b->cases[i];
                const point *p = &c->points[k];
                double ratio = p->seconds[algorithm] / (to_fractional ? p->fractional : p->bound);
                bool good = p->seconds[algorithm] > 0 && ratio <= limit;
                if (pass == 0)
                    within += good;
                else if (!good)
                    printf("    %s %u px, batch %u, %.1f%% of the range: %.3f\n", c->network,
                           c->size, c->batch, 100.0 * k / POINTS, ratio);
            }
        if (pass == 0)
            printf("%s at most %.2f of the %s: %u of %u points (%.1f%%)%s\n", algorithms[algorithm],
                   limit, to_fractional ? "fractional optimum" : "lower bound", within, all,
                   100.0 * within / all, within < all ? "; the others:" : "");
    }
}

static void print_summary(const bench *b) {
    int64_t slowest = 0;
    for (uint32_t i = 0; i < b->count; i++)
        for (uint32_t k = 0; k < POINTS; k++)
            if (b->cases[i].points[k].solve_ns[DYNPROG] > slowest)
                slowest = b->cases[i].points[k].solve_ns[DYNPROG];
    printf("\n");
    print_share(b, DYNPROG, false, 1.2);
    print_share(b, BEST, true, 1.05);
    printf("slowest point of offload-dynprog with %d slots: %s\n", SLOTS, cli_time(slowest));
}

/* ---- Drawing ---- */

static int draw(const bench_case *c, bool images_per_second, const char *path) {
    double x[ALGORITHMS][POINTS], y[ALGORITHMS][POINTS];
    cairn_curve curves[ALGORITHMS];
    char title[160];
    cairn_text text;
    for (int a = 0; a < ALGORITHMS; a++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < POINTS; k++) {
            const point *p = &c->points[k];
            if (p->seconds[a] <= 0)
                continue;
            x[a][count] = 100.0 * k / POINTS;
            y[a][count++] = images_per_second ? c->batch / p->seconds[a] : p->seconds[a] / p->bound;
        }
        curves[a] = (cairn_curve){
            .name = algorithms[a], .x = x[a], .y = y[a], .count = count, .joined = true};
    }
    snprintf(title, sizeof title, "%s, images of %u pixels, batch %u", c->network, c->size,
             c->batch);
    cairn_status status = cairn_plot_svg(
        NULL, title, "memory, % of the way from the smallest to the peak",
        images_per_second ? "images a second" : "time of a step over the lower bound", curves,
        ALGORITHMS, &text);
    return status == CAIRN_OK ? cli_emit(&text, path) : cli_fail(status, NULL);
}

/* Two pictures of every case in a folder. */
static int draw_all(const bench *b, const char *folder) {
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "cairn: cannot make the folder %s: %s\n", folder, strerror(errno));
        return CLI_SYSTEM;
    }
    for (uint32_t i = 0; i < b->count; i++)
        for (int images_per_second = 0; images_per_second < 2; images_per_second++) {
            char path[1024];
            const bench_case *c = &b->cases[i];
            snprintf(path, sizeof path, "%s/%s-%u-%u-%s.svg", folder, c->network, c->size, c->batch,
                     images_per_second ? "images" : "ratio");
            int code = draw(c, images_per_second != 0, path);
            if (code != CLI_DONE)
                return code;
        }
    return CLI_DONE;
}

/* ---- All of it ---- */

static void list_cases(bench *b) {
    for (size_t n = 0; n < NETWORKS; n++)
        for (size_t s = 0; s < (b->quick ? 1 : SIZES); s++)
            for (uint32_t k = b->quick ? 1 : 0; k < (b->quick ? 2 : 3); k++)
                b->cases[b->count++] = (bench_case){
                    .network = networks[n], .size = images[s].size, .batch = images[s].batches[k]};
}

static int measure_all(bench *b) {
    cairn_error err = {0};
    if (!b->json)
        print_head();
    for (uint32_t i = 0; i < b->count; i++) {
        cairn_status status = measure_case(b, &b->cases[i], &err);
        clear_progress(b);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
        if (b->json)
            print_json(b, &b->cases[i]);
        else
            print_row(&b->cases[i]);
    }
    if (!b->json)
        print_summary(b);
    return cli_value(b->args, "svg") == NULL ? CLI_DONE : draw_all(b, cli_value(b->args, "svg"));
}

int cli_bench_offload(const cli_args *args) {
    bench b = {.args = args, .json = cli_flag(args, "json"), .quick = cli_flag(args, "quick")};
    const char *by = cli_value(args, "by");
    if (by != NULL && strcmp(by, "ops") != 0 && strcmp(by, "pieces") != 0)
        return cli_usage_error(args, "--by is pieces or ops, not \"%s\"", by);
    b.layers = by != NULL && strcmp(by, "pieces") == 0 ? CAIRN_OFFLOAD_LAYERS_PIECES
                                                       : CAIRN_OFFLOAD_LAYERS_OPS;
    b.cases = calloc(MOST_CASES, sizeof *b.cases);
    if (b.cases == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    list_cases(&b);
    int code = measure_all(&b);
    free(b.cases);
    return code;
}
