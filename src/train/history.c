/* history.c: the results of every step and every evaluation, and the log of them.
 *
 * The log is made from the history alone, so a run that is continued can write it anew up to the
 * step it continues from, and ends with the same bytes as one that was never interrupted. */
#include "train/train_internal.h"

#include <math.h>

cairn_status crn_history_reserve(cairn_train *train, uint64_t steps, uint32_t score_count) {
    crn_history *h = &train->history;
    const cairn_allocator *from = &train->memory.allocator;
    if (steps > h->capacity) {
        uint64_t capacity = CRN_MAX(steps, 2 * h->capacity + 256);
        void *grown = crn_resize(from, h->records, (size_t)h->capacity * sizeof *h->records,
                                 (size_t)capacity * sizeof *h->records);
        if (grown == NULL)
            return CAIRN_ENOMEM;
        h->records = grown;
        h->capacity = capacity;
    }
    if (score_count > h->score_capacity) {
        uint32_t capacity = CRN_MAX(score_count, 2 * h->score_capacity + 16);
        void *grown = crn_resize(from, h->scores, h->score_capacity * sizeof *h->scores,
                                 capacity * sizeof *h->scores);
        if (grown == NULL)
            return CAIRN_ENOMEM;
        h->scores = grown;
        h->score_capacity = capacity;
    }
    return CAIRN_OK;
}

void crn_history_release(cairn_train *train) {
    crn_history *h = &train->history;
    const cairn_allocator *from = &train->memory.allocator;
    if (h->records != NULL)
        crn_resize(from, h->records, (size_t)h->capacity * sizeof *h->records, 0);
    if (h->scores != NULL)
        crn_resize(from, h->scores, h->score_capacity * sizeof *h->scores, 0);
    *h = (crn_history){0};
}

void crn_history_add_step(crn_history *history, float loss, uint64_t correct) {
    history->records[history->steps++] = (cairn_train_record){loss, (uint32_t)correct};
}

void crn_history_add_score(crn_history *history, const cairn_train_score *score) {
    history->scores[history->score_count++] = *score;
    if (history->best_step == 0 || score->correct > history->best_correct) {
        history->best_step = score->step;
        history->best_correct = score->correct;
    }
}

void cairn_train_get_history(const cairn_train *train, cairn_train_history *out) {
    const crn_history *h = &train->history;
    cairn_train_history made = {.steps = h->steps,
                                .records = h->records,
                                .predictions = train->predictions,
                                .score_count = h->score_count,
                                .scores = h->scores,
                                .best_step = h->best_step,
                                .epoch_steps = crn_train_epoch_steps(train)};
    crn_write_output(out, &made, sizeof made);
}

/* ---- The log ---- */

static void put_real(cairn_text *text, const char *name, double value) {
    crn_text_printf(text, ", \"%s\": ", name);
    if (isfinite(value))
        crn_text_real(text, value);
    else
        crn_text_printf(text, "null"); /* JSON has no infinities */
}

static void put_share(cairn_text *text, const char *name, uint64_t some, uint64_t whole) {
    if (whole > 0)
        crn_text_printf(text, ", \"%s\": %.6f", name, (double)some / (double)whole);
}

/* A float with enough digits to distinguish it from its neighbours. */
static void put_float(cairn_text *text, const char *name, float value) {
    if (isfinite(value))
        crn_text_printf(text, ", \"%s\": %.9g", name, (double)value);
    else
        crn_text_printf(text, ", \"%s\": null", name);
}

static void put_step(const cairn_train *train, uint64_t step, cairn_text *text) {
    const cairn_train_record *record = &train->history.records[step - 1];
    crn_text_printf(text, "{\"step\": %llu", (unsigned long long)step);
    if (train->loader != NULL)
        crn_text_printf(text, ", \"epoch\": %llu",
                        (unsigned long long)((step * train->micro_batches - 1) /
                                                 crn_loader_batches(train->loader) +
                                             1));
    put_float(text, "loss", record->loss);
    put_share(text, "accuracy", record->correct, train->predictions);
    put_real(text, "learning_rate", crn_schedule_rate(&train->options.schedule, step - 1));
    crn_text_printf(text, "}\n");
}

static void put_score(const cairn_train_score *score, cairn_text *text) {
    crn_text_printf(text, "{\"step\": %llu", (unsigned long long)score->step);
    put_real(text, "validation_loss", score->loss);
    put_share(text, "validation_accuracy", score->correct, score->predictions);
    crn_text_printf(text, "}\n");
}

cairn_status cairn_train_log(const cairn_train *train, uint64_t steps, uint32_t scores,
                             cairn_text *out) {
    const crn_history *h = &train->history;
    crn_text_init(out, &train->memory.allocator);
    for (uint64_t step = steps; step <= h->steps; step++) {
        if (step > steps)
            put_step(train, step, out);
        for (; scores < h->score_count && h->scores[scores].step <= step; scores++)
            put_score(&h->scores[scores], out);
    }
    return crn_text_finish(out);
}
