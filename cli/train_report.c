/* train_report.c: what `cairn train` says: a head, lines, a progress line on a terminal, a summary
 * and a picture. All figures of memory are measured. */
#include "cairn/report.h"
#include "terminal.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_POINTS 80 /* of a curve in the picture */

static double share(uint64_t some, uint64_t whole) {
    return whole > 0 ? 100.0 * (double)some / (double)whole : 0;
}

static bool reads_tokens(const cli_training *t) {
    return t->data != NULL && cairn_data_get_info(t->data)->tokens;
}

/* Images or tokens a second since this run began. */
static double speed(const cli_training *t) {
    int64_t passed = cli_clock() - t->start_ns;
    double each = reads_tokens(t) ? cairn_data_get_info(t->data)->shape[0] : 1;
    return passed > 0 ? each * (double)t->samples * 1e9 / (double)passed : 0;
}

static const char *unit_of(const cli_training *t) {
    return reads_tokens(t) ? "tokens/s" : "images/s";
}

/* ---- Head ---- */

/* Whether this build has the backend. */
static bool has_backend(const char *name) {
    const cairn_device_entry *at;
    for (uint32_t i = 0; (at = cairn_device_list(i)) != NULL; i++)
        if (strcmp(at->name, name) == 0)
            return true;
    return false;
}

/* What a GPU's driver and libraries have taken for themselves. */
static void print_outside(const cairn_device *device) {
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(device, &facts);
    for (uint32_t i = 0; i < facts.stage_count; i++)
        printf("%s%s %s", i == 0 ? "  device memory outside the arena, after each stage: " : ", ",
               facts.stages[i].name, cli_bytes(facts.stages[i].outside_bytes));
    if (facts.stage_count > 0)
        printf("\n");
}

static void print_text_head(const cli_training *t) {
    cairn_exec_figures f = *cairn_exec_get_figures(cairn_train_exec(t->train));
    const cairn_plan_header *h = t->solution->plan->header;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(t->model.graph, &summary);
    printf("%s", h->model);
    if (h->batch > 0)
        printf(", batch %u", h->batch);
    printf(", algorithm %s, backend %s%s\n", h->algorithm, t->model.backend,
           strcmp(t->model.backend, "ref") != 0 || has_backend("cpu")
               ? ""
               : ", which is slow: this build has no oneDNN");
    uint64_t total = f.arena_bytes + f.stationary_bytes;
    bool of_all = t->limit.stationary_bytes > 0;
    printf("  memory          %12s", cli_bytes(total));
    if (of_all)
        printf("   of a budget of %s", cli_bytes(t->limit.given_bytes));
    printf("\n    arena         %12s   ", cli_bytes(f.arena_bytes));
    if (t->limit.plan_bytes > 0 && !of_all)
        printf("of a budget of %s; ", cli_bytes(t->limit.given_bytes));
    printf("predicted peak %llu bytes", (unsigned long long)f.predicted_peak_bytes);
    printf("\n    stationary    %12s   parameters, %sstate, %s\n", cli_bytes(f.stationary_bytes),
           summary.has_updates ? "" : "gradients, ",
           t->exec.optimizer == CAIRN_OPTIMIZER_SGD ? "momenta" : "moments");
    if (f.host_bytes > 0)
        printf("  host memory     %12s   %s\n", cli_bytes(f.host_bytes),
               f.home_bytes > 0 ? "with parameters and what the optimiser keeps" : "copies");
    if (t->data == NULL) {
        printf("  %6s %12s %12s %16s\n", "step", "loss", "time", "counted peak");
        return;
    }
    cairn_data_info info = *cairn_data_get_info(t->data);
    printf("  data            %12u samples to learn, %u to validate, %u classes\n", info.train,
           info.validation, info.classes);
    cli_print_normalisation(t->data, t->normalise);
    if (t->first_step > 0)
        printf("  continued after step %llu\n", (unsigned long long)t->first_step);
    printf("  %6s %8s %10s %9s %11s %11s\n", "epoch", "step", "loss", "accuracy", "validation",
           unit_of(t));
}

void cli_train_print_head(const cli_training *t) {
    if (!cli_flag(t->args, "json")) {
        print_text_head(t);
    } else if (t->data != NULL) {
        printf("{");
        cli_print_normalisation_json(t->data, t->normalise);
        printf("}\n");
    }
}

/* ---- Progress ---- */

void cli_train_clear_progress(const cli_training *t) {
    if (t->data != NULL)
        cli_progress_clear(t->args);
}

static void show_progress(cli_training *t, const cairn_train_result *r) {
    int64_t now = cli_clock();
    if (now - t->shown_ns < 100000000)
        return;
    t->shown_ns = now;
    int64_t each = (now - t->start_ns) / (int64_t)(r->step - t->first_step);
    int64_t seconds = each * (int64_t)(t->steps - r->step) / 1000000000;
    uint64_t used = r->measured_peak_bytes +
                    cairn_exec_get_figures(cairn_train_exec(t->train))->stationary_bytes;
    /* what matters most comes first: the line ends where the terminal does */
    cli_progress(t->args,
                 "%llu%%  %lld:%02lld left  step %llu/%llu  loss %s  accuracy %.1f%%  "
                 "%.0f %s  %s",
                 (unsigned long long)(100 * r->step / t->steps), (long long)(seconds / 60),
                 (long long)(seconds % 60), (unsigned long long)r->step,
                 (unsigned long long)t->steps, cli_loss((double)r->loss),
                 share(r->correct, r->predictions), speed(t), unit_of(t), cli_bytes(used));
}

/* ---- Lines ---- */

static void print_json(const cli_training *t, const cairn_train_result *r) {
    cairn_exec_figures f = *cairn_exec_get_figures(cairn_train_exec(t->train));
    printf("{\"step\": %llu, \"loss\": %s, \"step_ms\": %.3f, \"predicted_peak_bytes\": %llu, "
           "\"measured_peak_bytes\": %llu, \"arena_bytes\": %llu",
           (unsigned long long)r->step, cli_json_real((double)r->loss), (double)r->time_ns / 1e6,
           (unsigned long long)f.predicted_peak_bytes, (unsigned long long)r->measured_peak_bytes,
           (unsigned long long)f.arena_bytes);
    if (t->data != NULL)
        printf(", \"epoch\": %llu, \"data_ms\": %.3f", (unsigned long long)r->epoch,
               (double)r->data_ns / 1e6);
    if (r->predictions > 0)
        printf(", \"accuracy\": %.6f", share(r->correct, r->predictions) / 100);
    cli_watch_print_json(&t->watch);
    printf(", \"learning_rate\": %.9g}\n", r->rate);
}

void cli_train_print_step(cli_training *t, const cairn_train_result *r) {
    if (cli_flag(t->args, "json"))
        print_json(t, r);
    else if (t->data == NULL)
        printf("  %6llu %12.6f %12s %16s   %llu bytes\n", (unsigned long long)r->step,
               isnan(r->loss) ? fabs((double)r->loss) : (double)r->loss, cli_time(r->time_ns),
               cli_bytes(r->measured_peak_bytes), (unsigned long long)r->measured_peak_bytes);
    else
        show_progress(t, r);
    if (t->data == NULL || cli_flag(t->args, "json"))
        fflush(stdout);
}

/* Mean loss and accuracy of the last steps, as many as an epoch has. */
static void recent(const cli_training *t, double *loss, double *accuracy) {
    cairn_train_history h = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_get_history(t->train, &h);
    uint64_t count = h.epoch_steps > 0 && h.epoch_steps < h.steps ? h.epoch_steps : h.steps;
    uint64_t correct = 0;
    *loss = 0;
    for (uint64_t i = h.steps - count; i < h.steps; i++) {
        *loss += (double)h.records[i].loss / (double)count;
        correct += h.records[i].correct;
    }
    *accuracy = share(correct, count * h.predictions);
}

void cli_train_print_score(cli_training *t, const cairn_train_result *r,
                           const cairn_train_score *score) {
    double loss, accuracy;
    recent(t, &loss, &accuracy);
    if (cli_flag(t->args, "json")) {
        if (score != NULL)
            printf("{\"step\": %llu, \"validation_loss\": %s, \"validation_accuracy\": %.6f}\n",
                   (unsigned long long)score->step, cli_json_real(score->loss),
                   share(score->correct, score->predictions) / 100);
    } else {
        char validation[16] = "";
        if (score != NULL)
            snprintf(validation, sizeof validation, "%.2f%%",
                     share(score->correct, score->predictions));
        cli_train_clear_progress(t);
        printf("  %6llu %8llu %10s %8.2f%% %11s %11.0f\n", (unsigned long long)r->epoch,
               (unsigned long long)r->step, cli_loss(loss), accuracy, validation, speed(t));
    }
    fflush(stdout);
}

/* ---- The end ---- */

static void print_results(const cli_training *t) {
    cairn_train_history h = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_get_history(t->train, &h);
    uint64_t done = h.steps - t->first_step;
    double loss, accuracy;
    recent(t, &loss, &accuracy);
    printf("  %llu step%s in %s, %.0f %s; loss %s, accuracy %.2f%%\n", (unsigned long long)done,
           done == 1 ? "" : "s", cli_time(cli_clock() - t->start_ns), speed(t), unit_of(t),
           cli_loss(loss), accuracy);
    for (uint32_t i = 0; i < h.score_count; i++)
        if (h.scores[i].step == h.best_step)
            printf("  best validation accuracy %.2f%%, after step %llu\n",
                   share(h.scores[i].correct, h.scores[i].predictions),
                   (unsigned long long)h.best_step);
    cairn_exec_figures figures = *cairn_exec_get_figures(cairn_train_exec(t->train));
    if (t->measured_peak > 0)
        printf("  counted peak %llu bytes, %s; with the stationary memory %s\n",
               (unsigned long long)t->measured_peak,
               t->measured_peak == figures.predicted_peak_bytes ? "as predicted"
                                                                : "not as predicted",
               cli_bytes(t->measured_peak + figures.stationary_bytes));
}

int cli_train_print_summary(cli_training *t) {
    char hash[65];
    cairn_error err = {0};
    cairn_status status =
        cairn_exec_sha256(cairn_train_exec(t->train), CAIRN_EXEC_PARAMETERS, hash, &err);
    cli_train_clear_progress(t);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    if (cli_flag(t->args, "json")) {
        printf("{\"parameters_sha256\": \"%s\"}\n", hash);
        return CLI_DONE;
    }
    if (t->data != NULL)
        print_results(t);
    cli_watch_print_text(&t->watch);
    print_outside(t->model.device);
    printf("  parameters sha256 %s\n", hash);
    return CLI_DONE;
}

/* ---- The picture ---- */

typedef struct points {
    double x[MOST_POINTS], loss[MOST_POINTS], accuracy[MOST_POINTS];
    uint32_t count;
} points;

/* The means of as many neighbouring steps as it takes to have few points. */
static void gather_points(const cairn_train_history *h, points *out) {
    uint64_t width = (h->steps + MOST_POINTS - 1) / MOST_POINTS;
    for (uint64_t first = 0; first < h->steps; first += width) {
        uint64_t count = h->steps - first < width ? h->steps - first : width, correct = 0;
        double loss = 0;
        for (uint64_t i = first; i < first + count; i++) {
            loss += (double)h->records[i].loss / (double)count;
            correct += h->records[i].correct;
        }
        if (!isfinite(loss))
            continue;
        out->x[out->count] = (double)(first + count);
        out->loss[out->count] = loss;
        out->accuracy[out->count++] = share(correct, count * h->predictions) / 100;
    }
}

int cli_train_draw(const cli_training *t) {
    cairn_train_history h = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_get_history(t->train, &h);
    points *steps = calloc(1, sizeof *steps);
    double *x = calloc(h.score_count + 1, sizeof *x), *y = calloc(h.score_count + 1, sizeof *y);
    char title[128], path[4200];
    cairn_text text;
    cairn_status status = CAIRN_ENOMEM;
    if (steps != NULL && x != NULL && y != NULL) {
        gather_points(&h, steps);
        for (uint32_t i = 0; i < h.score_count; i++) {
            x[i] = (double)h.scores[i].step;
            y[i] = share(h.scores[i].correct, h.scores[i].predictions) / 100;
        }
        cairn_curve curves[] = {
            {.name = "loss",
             .x = steps->x,
             .y = steps->loss,
             .count = steps->count,
             .joined = true},
            {.name = "accuracy",
             .x = steps->x,
             .y = steps->accuracy,
             .count = steps->count,
             .joined = true},
            {.name = "validation accuracy", .x = x, .y = y, .count = h.score_count, .joined = true},
        };
        snprintf(title, sizeof title, "%.60s: training", cairn_graph_name(t->model.graph));
        status = cairn_plot_svg(NULL, title, "step", "loss, and accuracy from 0 to 1", curves,
                                h.score_count > 0 ? 3 : 2, &text);
    }
    free(steps);
    free(x);
    free(y);
    snprintf(path, sizeof path, "%.4095s/training.svg", t->folder);
    return status == CAIRN_OK ? cli_emit(&text, path) : cli_fail(status, NULL);
}
