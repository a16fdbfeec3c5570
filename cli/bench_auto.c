/* bench_auto.c: what `auto` reaches against what is to be reached: time over plain training, the
 * certified bound and the gap to it, the arena, the time it takes to solve, the smallest budget,
 * and the memory of the solver. Every figure that has a target is counted as met or missed. Costs
 * are those of the V100. The overheads to reach are those of a prototype of the algorithm. */
#include "bench.h"
#include "cairn/papers/bounds.h"

#include "sweeping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUDGETS 7

static const uint32_t percents[BUDGETS] = {90, 70, 60, 50, 40, 30, 25};

/* The prototype's overhead in percent of plain training; a negative one: no figure. */
typedef struct target {
    const char *network;
    uint32_t batch, steps;
    double overhead[BUDGETS];
    double smallest;   /* budget, in percent of what `none` needs; 0: no figure */
    double gap;        /* percent, to be reached */
    uint32_t gap_from; /* from this budget on, in percent */
    double ms;         /* to solve it; 0: that of all networks */
} target;

#define MOST_TIME 1.002      /* of the prototype's, in a cell of the table */
#define MOST_MS 1000.0       /* to solve a network, at any budget */
#define MOST_MEMORY 200.0    /* MB, of the solver */
#define MOST_SWEEP_MS 5000.0 /* for all algorithms and budgets on a network */

static uint32_t met, missed;

/* Count a figure, and say which. */
static const char *judge(bool reached) {
    *(reached ? &met : &missed) += 1;
    return reached ? "met" : "MISSED";
}

#define NONE (-1.0)
static const target targets[] = {
    {"resnet50", 32, 0, {.93, 3.63, NONE, 7.55, 10.34, 13.76, 16.47}, 14.1, .5, 30, 0},
    {"resnet152", 16, 0, {.80, 3.74, NONE, 8.17, 10.57, 13.14, 14.76}, 6.8, .5, 30, 0},
    {"densenet201", 16, 0, {1.23, 3.90, NONE, 8.33, 10.71, 13.40, 14.59}, 6.8, .5, 30, 0},
    {"inception_v3", 32, 0, {.63, 2.60, NONE, 5.46, 7.15, 9.92, 12.71}, 15.8, .5, 30, 0},
    {"unet", 32, 0, {.46, 1.84, NONE, 3.36, 6.56, 18.36, 39.0}, 24.6, 1.5, 40, 0},
    {"nasnet", 64, 0, {1.77, 5.53, NONE, 10.36, 13.56, 16.74, 18.66}, 4.9, .5, 30, 0},
    {"amoebanet", 64, 0, {NONE, NONE, NONE, NONE, NONE, NONE, NONE}, 0, .5, 30, 0},
    {"darts", 64, 0, {1.89, 5.80, NONE, 10.83, 14.01, 17.58, 19.53}, 4.9, .5, 30, 0},
    {"vgg16", 64, 0, {.47, 1.03, NONE, 8.41, NONE, NONE, NONE}, 48.2, 1.5, 60, 0},
    {"lstm", 64, 0, {2.01, 6.04, NONE, 9.72, 11.74, 14.08, 15.76}, 16.8, 1.5, 40, 0},
    {"gpt2:1558M", 16, 1024, {NONE, NONE, NONE, NONE, NONE, NONE, NONE}, 0, .5, 30, 0},
    {"llama:llama-2-7b", 4, 2048, {NONE, NONE, NONE, NONE, NONE, NONE, NONE}, 0, .5, 30, 0},
    {"gpt", 8, 24, {NONE, NONE, NONE, NONE, NONE, NONE, NONE}, 0, .5, 30, 0},
    {"gpt", 8, 256, {NONE, NONE, NONE, NONE, NONE, NONE, NONE}, 0, 0, 0, 1500},
    {"lstm", 64, 1400, {NONE, NONE, NONE, NONE, NONE, NONE, NONE}, 0, 0, 0, 1500},
};

typedef struct link {
    const char *network;
    uint32_t batch, percent;
    uint64_t bytes_per_second;
    bool full_duplex;
    double overhead; /* of the prototype */
    double slack;    /* points that may be added to it */
} link_target;

static const link_target links[] = {
    {"resnet50", 32, 50, 12200000000, false, 5.03, 0},
    {"resnet50", 32, 50, 55000000000, true, .32, .08},
    {"resnet50", 32, 25, 12200000000, false, 11.58, 0},
    {"resnet50", 32, 25, 55000000000, true, 2.87, .13},
    {"densenet201", 16, 50, 12200000000, false, 6.56, 0},
    {"densenet201", 16, 50, 55000000000, true, 1.47, 0},
    {"densenet201", 16, 25, 12200000000, false, 12.25, 0},
    {"densenet201", 16, 25, 55000000000, true, 5.89, 0},
};

/* ---- The memory of the solver ---- */

typedef struct counter {
    size_t now, most;
} counter;

static void *count_resize(void *context, void *block, size_t old_size, size_t new_size) {
    counter *c = context;
    void *result = NULL;
    if (new_size == 0)
        free(block);
    else if ((result = realloc(block, new_size)) == NULL)
        return NULL;
    c->now += new_size - old_size;
    c->most = c->now > c->most ? c->now : c->most;
    return result;
}

static counter used;
static const cairn_allocator counting = {count_resize, &used};

/* ---- A transformer of opaque ops ---- */

#define TOKENS 1024u
#define WIDTH 1024u
#define HEADS 16u
#define WORDS 50304u
#define MOST_OPS 16384u

/* Forward and backward ops of a GPT, with the bytes and times of half precision: a matrix product
 * costs its arithmetic, anything else its traffic. */
typedef struct gpt {
    cairn_builder *builder;
    uint32_t batch, made;
    int64_t times[MOST_OPS];
    uint64_t elements[MOST_OPS]; /* per tensor */
    uint32_t ops;
} gpt;

static cairn_id gpt_tensor(gpt *g, cairn_role role, uint64_t elements, bool stationary) {
    char name[32];
    cairn_tensor t = CAIRN_TENSOR_INIT;
    g->elements[g->made] = elements;
    snprintf(name, sizeof name, "t%u", g->made++);
    t.name = name;
    t.role = role;
    t.bytes = 2 * elements;
    t.stationary = stationary;
    return cairn_builder_tensor(g->builder, &t);
}

static void gpt_op(gpt *g, cairn_phase phase, const cairn_id *inputs, uint32_t count,
                   cairn_id output, double products, double elements) {
    char name[32];
    cairn_op op = {.kind = CAIRN_OP_OPAQUE, .phase = phase, .of = CAIRN_NONE};
    snprintf(name, sizeof name, "op%u", g->ops);
    op.name = name;
    op.inputs = inputs;
    op.input_count = count;
    op.outputs = &output;
    op.output_count = 1;
    g->times[g->ops++] = 2000 + (int64_t)(2 * products / 100e12 * 1e9 + 2 * elements / 800.0);
    cairn_builder_op(g->builder, &op);
}

/* One layer: what it reads, how much it makes, and what its backward reads of the forward pass. */
typedef struct layer {
    cairn_id inputs[3], output;
    uint32_t input_count;
    uint64_t elements;
    double products;
    bool weighted, needs_inputs, needs_output;
} layer;

typedef struct layers {
    layer list[MOST_OPS / 2];
    uint32_t count;
} layers;

static cairn_id add_layer(gpt *g, layers *all, layer l) {
    double traffic = (double)l.elements;
    l.output = gpt_tensor(g, CAIRN_ROLE_ACTIVATION, l.elements, false);
    gpt_op(g, CAIRN_PHASE_FORWARD, l.inputs, l.input_count, l.output, l.products,
           (1 + l.input_count) * traffic);
    all->list[all->count++] = l;
    return l.output;
}

static cairn_id product(gpt *g, layers *all, cairn_id x, uint64_t from, uint64_t to) {
    uint64_t rows = (uint64_t)g->batch * TOKENS;
    return add_layer(g, all,
                     (layer){.inputs = {x},
                             .input_count = 1,
                             .elements = rows * to,
                             .products = (double)rows * (double)from * (double)to,
                             .weighted = true,
                             .needs_inputs = true});
}

static cairn_id block(gpt *g, layers *all, cairn_id x) {
    uint64_t rows = (uint64_t)g->batch * TOKENS, scores = rows * TOKENS * HEADS;
    layer norm = {.inputs = {x},
                  .input_count = 1,
                  .elements = rows * WIDTH,
                  .weighted = true,
                  .needs_inputs = true};
    cairn_id normed = add_layer(g, all, norm);
    cairn_id q = product(g, all, normed, WIDTH, WIDTH), k = product(g, all, normed, WIDTH, WIDTH);
    cairn_id v = product(g, all, normed, WIDTH, WIDTH);
    double pairs = (double)rows * TOKENS * WIDTH;
    cairn_id score = add_layer(g, all,
                               (layer){.inputs = {q, k},
                                       .input_count = 2,
                                       .elements = scores,
                                       .products = pairs,
                                       .needs_inputs = true});
    cairn_id share = add_layer(
        g, all,
        (layer){.inputs = {score}, .input_count = 1, .elements = scores, .needs_output = true});
    cairn_id mixed = add_layer(g, all,
                               (layer){.inputs = {share, v},
                                       .input_count = 2,
                                       .elements = rows * WIDTH,
                                       .products = pairs,
                                       .needs_inputs = true});
    cairn_id out = product(g, all, mixed, WIDTH, WIDTH);
    layer sum = {.inputs = {x, out}, .input_count = 2, .elements = rows * WIDTH};
    cairn_id middle = add_layer(g, all, sum);
    norm.inputs[0] = middle;
    cairn_id wide = product(g, all, add_layer(g, all, norm), WIDTH, 4 * WIDTH);
    cairn_id bent = add_layer(g, all,
                              (layer){.inputs = {wide},
                                      .input_count = 1,
                                      .elements = rows * 4 * WIDTH,
                                      .needs_inputs = true});
    sum.inputs[0] = middle;
    sum.inputs[1] = product(g, all, bent, 4 * WIDTH, WIDTH);
    return add_layer(g, all, sum);
}

/* The gradient of each input of a layer is an op; where a tensor is read twice they are added. */
static void differentiate(gpt *g, const layers *all, cairn_id *gradients) {
    for (uint32_t i = all->count; i-- > 0;) {
        const layer *l = &all->list[i];
        for (uint32_t k = 0; k < l->input_count; k++) {
            cairn_id reads[5] = {gradients[l->output]}, x = l->inputs[k];
            uint32_t count = 1;
            for (uint32_t j = 0; j < l->input_count && l->needs_inputs && l->products > 0; j++)
                if (j != k)
                    reads[count++] = l->inputs[j];
            if (l->needs_inputs && l->products == 0)
                reads[count++] = x;
            if (l->needs_output)
                reads[count++] = l->output;
            if (gradients[x] != CAIRN_NONE)
                reads[count++] = gradients[x];
            uint64_t elements = g->elements[x];
            gradients[x] = gpt_tensor(g, CAIRN_ROLE_GRADIENT, elements, false);
            gpt_op(g, CAIRN_PHASE_BACKWARD, reads, count, gradients[x], l->products,
                   (1 + count) * (double)elements);
        }
        if (l->weighted) {
            cairn_id reads[] = {gradients[l->output], l->inputs[0]};
            cairn_id weight = gpt_tensor(g, CAIRN_ROLE_GRADIENT, (uint64_t)WIDTH * WIDTH, true);
            gpt_op(g, CAIRN_PHASE_BACKWARD, reads, 2, weight, l->products, (double)l->elements);
        }
    }
}

static cairn_status set_times(const gpt *g, cli_model *out, cairn_error *err) {
    cairn_status status = cairn_costs_create(out->graph, &out->costs, err);
    for (uint32_t o = 0; o < g->ops && status == CAIRN_OK; o++) {
        cairn_implementation timed = {.name = "estimate", .time_ns = g->times[o]};
        status = cairn_costs_set_op(out->costs, o, &timed, 1);
    }
    return status;
}

static cairn_status build_gpt(uint32_t batch, uint32_t blocks, cli_model *out, cairn_error *err) {
    static gpt g;
    static layers all;
    static cairn_id gradients[2 * MOST_OPS];
    g = (gpt){.batch = batch};
    all.count = 0;
    memset(gradients, 0xff, sizeof gradients);
    *out = (cli_model){0};
    cairn_status status = cairn_builder_create(&counting, "gpt", &g.builder);
    if (status != CAIRN_OK)
        return status;
    uint64_t rows = (uint64_t)batch * TOKENS;
    cairn_id words = gpt_tensor(&g, CAIRN_ROLE_INPUT, rows, false);
    cairn_id x =
        add_layer(&g, &all, (layer){.inputs = {words}, .input_count = 1, .elements = rows * WIDTH});
    uint32_t first = all.count;
    for (uint32_t k = 0; k < blocks; k++)
        x = block(&g, &all, x);
    cairn_id logits = product(&g, &all, x, WIDTH, WORDS);
    cairn_id loss = gpt_tensor(&g, CAIRN_ROLE_LOSS, 2, false);
    gpt_op(&g, CAIRN_PHASE_FORWARD, &logits, 1, loss, 0, (double)(rows * WORDS));
    cairn_id reads[] = {loss, logits};
    gradients[logits] = gpt_tensor(&g, CAIRN_ROLE_GRADIENT, rows * WORDS, false);
    gpt_op(&g, CAIRN_PHASE_BACKWARD, reads, 2, gradients[logits], 0, 2 * (double)(rows * WORDS));
    memmove(all.list, &all.list[first], (all.count - first) * sizeof *all.list);
    all.count -= first; /* the embedding's own gradient is a parameter's */
    differentiate(&g, &all, gradients);
    status = cairn_builder_finish(g.builder, &out->graph, err);
    cairn_builder_destroy(g.builder);
    out->machine = (cairn_machine)CAIRN_MACHINE_INIT;
    if (status == CAIRN_OK)
        status = cairn_machine_find("v100", &out->machine, err);
    return status == CAIRN_OK ? set_times(&g, out, err) : status;
}

static cairn_status open_model(const target *t, cli_model *out, cairn_error *err) {
    if (strcmp(t->network, "gpt") == 0)
        return build_gpt(t->batch, t->steps, out, err);
    return t->steps > 0 ? cli_model_sequence(t->network, t->batch, t->steps, out, err)
                        : cli_model_network(t->network, t->batch, 0, out, err);
}

/* ---- Measuring ---- */

typedef struct measured {
    cairn_status status;
    double overhead, bound, gap, arena; /* percent; the arena of the budget */
    double ms;                          /* processor time */
    double mb;                          /* most memory of the solver, if it is counted */
} measured;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static measured measure(const cli_model *model, uint64_t budget, bool copies, int64_t none_time) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    cairn_error err = {0};
    options.budget_bytes = budget;
    options.machine = &model->machine;
    options.no_offload = !copies;
    used.most = used.now;
    size_t before = used.now;
    double start = now_ms(), base = (double)none_time;
    measured m = {.status =
                      cairn_solve(model->graph, model->costs, "auto", &options, &solution, &err)};
    m.ms = now_ms() - start;
    m.mb = (double)(used.most - before) / 1e6;
    if (m.status != CAIRN_OK)
        return m;
    const cairn_sim_summary *s = solution->sim->summary;
    m.overhead = 100 * ((double)s->time_ns - base) / base;
    m.bound = 100 * ((double)solution->lower_bound_ns - base) / base;
    m.gap = solution->lower_bound_ns <= 0
                ? 0
                : 100 * ((double)s->time_ns / (double)solution->lower_bound_ns - 1);
    m.arena = 100 * (double)solution->layout->arena_bytes / (double)budget;
    cairn_solution_destroy(solution);
    return m;
}

static cairn_status measure_none(const cli_model *model, uint64_t *arena, int64_t *time,
                                 cairn_error *err) {
    cairn_solution *none;
    cairn_status status = cairn_solve(model->graph, model->costs, "none", NULL, &none, err);
    if (status != CAIRN_OK)
        return status;
    *arena = none->layout->arena_bytes;
    *time = none->sim->summary->time_ns;
    cairn_solution_destroy(none);
    return CAIRN_OK;
}

/* What is to be reached in a row; a negative figure: nothing. */
typedef struct aims {
    double overhead, gap, ms, mb, slack; /* the overhead with `slack` points more */
} aims;

static void print_verdicts(const measured *m, const aims *aim) {
    bool fits = m->status == CAIRN_OK;
    if (aim->overhead >= 0)
        printf(" time %s",
               judge(fits && 100 + m->overhead <= (100 + aim->overhead) * MOST_TIME + aim->slack));
    if (aim->gap > 0)
        printf(" gap %s", judge(fits && m->gap <= aim->gap));
    printf(" solving %s", judge(m->ms <= aim->ms));
    if (aim->mb > 0)
        printf(" memory %s", judge(m->mb < aim->mb));
    printf("\n");
}

static void print_row(const cli_args *args, const char *name, uint32_t percent, const char *how,
                      const measured *m, const aims *aim) {
    if (cli_flag(args, "json")) {
        cli_bench_line("auto");
        printf(", \"network\": \"%s\", \"budget_percent\": %u, \"link\": \"%s\", \"fits\": %s, "
               "\"overhead\": %.3f, \"to_reach\": %.3f, \"bound\": %.3f, \"gap\": %.3f, "
               "\"arena_percent\": %.3f, \"solve_ms\": %.1f, \"solver_mb\": %.1f}\n",
               name, percent, how, m->status == CAIRN_OK ? "true" : "false", m->overhead,
               aim->overhead, m->bound, m->gap, m->arena, m->ms, m->mb);
        return;
    }
    char wanted[16] = "", memory[24] = "";
    if (aim->overhead >= 0)
        snprintf(wanted, sizeof wanted, "%.2f", aim->overhead);
    if (aim->mb > 0)
        snprintf(memory, sizeof memory, " %.0f MB", m->mb);
    printf("%-12s %3u%% %-10s ", name, percent, how);
    if (m->status == CAIRN_OK)
        printf("%7.2f%% %8s %7.2f%% %6.2f%% %6.2f%%", m->overhead, wanted, m->bound, m->gap,
               m->arena);
    else
        printf("%-40s", "no plan");
    printf(" %5.0f ms%s ", m->ms, memory);
    print_verdicts(m, aim);
}

/* The smallest budget that it finds, and the certified one. */
static cairn_status print_smallest(const cli_args *args, const cli_model *model, const target *t,
                                   uint64_t none) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    cairn_error err = {0};
    uint64_t least;
    options.budget_bytes = 1;
    options.no_offload = true;
    double start = now_ms();
    cairn_status status =
        cairn_solve(model->graph, model->costs, "auto", &options, &solution, &err);
    double ms = now_ms() - start, most = t->ms > 0 ? t->ms : MOST_MS;
    cairn_solution_destroy(solution);
    if (status != CAIRN_INFEASIBLE)
        return status;
    double smallest = 100 * (double)err.smallest_budget / (double)none;
    status = cairn_least_memory(model->graph, model->costs, &options, &least, &err);
    if (status != CAIRN_OK)
        return status;
    double certified = 100 * (double)least / (double)none;
    if (cli_flag(args, "json")) {
        cli_bench_line("auto");
        printf(", \"network\": \"%s\", \"smallest_percent\": %.2f, \"to_reach\": %.1f, "
               "\"certified_percent\": %.2f, \"solve_ms\": %.1f}\n",
               t->network, smallest, t->smallest, certified, ms);
        return CAIRN_OK;
    }
    printf("%-12s smallest budget %.2f%%, certified %.2f%%, %.0f ms  solving %s", t->network,
           smallest, certified, ms, judge(ms <= most));
    if (t->smallest > 0) /* the target has one digit */
        printf(", to reach %.1f%%: %s", t->smallest, judge(smallest < t->smallest + .05));
    printf("\n");
    return CAIRN_OK;
}

static cairn_status run_target(const cli_args *args, const target *t, cairn_error *err) {
    cli_model model;
    uint64_t none = 0;
    int64_t time = 0;
    cairn_status status = open_model(t, &model, err);
    if (status == CAIRN_OK)
        status = measure_none(&model, &none, &time, err);
    if (status == CAIRN_OK && !cli_flag(args, "json"))
        printf("%s, batch %u: %u ops\n", t->network, t->batch, cairn_graph_op_count(model.graph));
    for (uint32_t k = 0; k < BUDGETS && status == CAIRN_OK; k++) {
        measured m = measure(&model, none / 100 * percents[k], false, time);
        aims aim = {.overhead = t->overhead[k], .ms = t->ms > 0 ? t->ms : MOST_MS};
        aim.gap = percents[k] >= t->gap_from ? t->gap : 0;
        aim.mb = m.mb > 0 ? MOST_MEMORY : 0;
        print_row(args, t->network, percents[k], "", &m, &aim);
    }
    if (status == CAIRN_OK)
        status = print_smallest(args, &model, t, none);
    cli_model_close(&model);
    return status;
}

static cairn_status run_link(const cli_args *args, const link_target *l, cairn_error *err) {
    cli_model model;
    uint64_t none = 0;
    int64_t time = 0;
    char how[32];
    cairn_status status = cli_model_network(l->network, l->batch, 0, &model, err);
    if (status == CAIRN_OK)
        status = measure_none(&model, &none, &time, err);
    if (status == CAIRN_OK) {
        model.machine.link_bytes_per_second = l->bytes_per_second;
        model.machine.full_duplex = l->full_duplex;
        measured m = measure(&model, none / 100 * l->percent, true, time);
        snprintf(how, sizeof how, "%.0f GB/s %s", (double)l->bytes_per_second / 1e9,
                 l->full_duplex ? "x2" : "");
        aims aim = {.overhead = l->overhead, .ms = 2 * MOST_MS, .slack = l->slack};
        print_row(args, l->network, l->percent, how, &m, &aim);
    }
    cli_model_close(&model);
    return status;
}

/* What `cairn sweep resnet50` does, on all processors. */
static cairn_status run_sweep(const cli_args *args, cairn_error *err) {
    cli_model model;
    cli_sweep sweep = {.model = &model, .step = 10};
    cairn_status status = cli_model_network("resnet50", 32, 0, &model, err);
    double processor = now_ms();
    int64_t start = cli_clock();
    if (status == CAIRN_OK)
        status = cli_sweep_run(&sweep, err);
    double ms = (double)(cli_clock() - start) / 1e6;
    processor = now_ms() - processor;
    if (status == CAIRN_OK && cli_flag(args, "json")) {
        cli_bench_line("auto");
        printf(", \"network\": \"resnet50\", \"sweep_ms\": %.0f, \"processor_ms\": %.0f}\n", ms,
               processor);
    } else if (status == CAIRN_OK)
        printf("cairn sweep resnet50: %.0f ms, %.0f ms of processor time  %s\n", ms, processor,
               judge(ms <= MOST_SWEEP_MS));
    cli_sweep_release(&sweep);
    cli_model_close(&model);
    return status;
}

int cli_bench_auto(const cli_args *args) {
    const char *only = cli_value(args, "only");
    cairn_error err = {0};
    cairn_status status = CAIRN_OK;
    bool json = cli_flag(args, "json");
    if (!json)
        printf("%-27s %8s %8s %8s %7s %7s %8s\n", "network, budget, link", "overhead", "to reach",
               "bound", "gap", "arena", "solved in");
    for (size_t i = 0; i < sizeof targets / sizeof *targets && status == CAIRN_OK; i++)
        if (only == NULL || strcmp(only, targets[i].network) == 0)
            status = run_target(args, &targets[i], &err);
    for (size_t i = 0; i < sizeof links / sizeof *links && status == CAIRN_OK; i++)
        if (only == NULL || strcmp(only, links[i].network) == 0)
            status = run_link(args, &links[i], &err);
    if (status == CAIRN_OK && only == NULL)
        status = run_sweep(args, &err);
    if (status == CAIRN_OK && !json)
        printf("%u figures met, %u missed\n", met, missed);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}
