/* conditions.c: what the numbers of a run depend on, as words: a snapshot is only continued by a
 * run with the same, or by one on another backend. What does not change a bit (the plan, the
 * budget, how many steps there are) is not among them; threads are, because a backend may add in
 * another order on more of them. */
#include "base/rng.h"
#include "base/sha256.h"
#include "graph/crn_graph.h"
#include "train/train_internal.h"
#include "backend/crn_device.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void
add(cairn_train *train, const char *name, const char *format, ...) {
    assert(train->condition_count < CRN_MOST_CONDITIONS);
    crn_condition *condition = &train->conditions[train->condition_count++];
    va_list arguments;
    condition->name = name;
    condition->of_device = false;
    va_start(arguments, format);
    vsnprintf(condition->value, sizeof condition->value, format, arguments);
    va_end(arguments);
}

/* A real number in the fewest digits that read back as the same number. */
static void add_real(cairn_train *train, const char *name, double value) {
    char shorter[40];
    snprintf(shorter, sizeof shorter, "%.15g", value);
    if (strtod(shorter, NULL) == value)
        add(train, name, "%s", shorter);
    else
        add(train, name, "%.17g", value);
}

static void add_float(cairn_train *train, const char *name, float value) {
    char shorter[40];
    snprintf(shorter, sizeof shorter, "%.6g", (double)value);
    if (strtof(shorter, NULL) == value)
        add(train, name, "%s", shorter);
    else
        add(train, name, "%.9g", (double)value);
}

static void add_optimizer(cairn_train *train, const cairn_exec_options *exec) {
    add(train, "optimizer", "%s", crn_optimizer_name(exec->optimizer));
    if (exec->optimizer == CAIRN_OPTIMIZER_SGD) {
        add_float(train, "momentum", exec->momentum);
        add(train, "nesterov", "%s", exec->nesterov ? "yes" : "no");
    } else {
        add_real(train, "beta1", exec->beta1);
        add_real(train, "beta2", exec->beta2);
        add_real(train, "epsilon", exec->epsilon);
    }
    add_real(train, "weight decay", exec->weight_decay);
    if (exec->clip_norm > 0)
        add_real(train, "largest norm", exec->clip_norm);
    if (exec->decay_on != CAIRN_DECAY_ALL)
        add(train, "weight decay on", "%s", crn_decay_name(exec->decay_on));
}

static void add_schedule(cairn_train *train) {
    const cairn_schedule *s = &train->options.schedule;
    add(train, "schedule", "%s", crn_schedule_name(s->kind));
    add_real(train, "learning rate", s->rate);
    add(train, "warm-up", "%llu", (unsigned long long)s->warmup);
    if (s->kind == CAIRN_SCHEDULE_STEP)
        add(train, "decay of the rate", "%g every %llu", s->factor, (unsigned long long)s->every);
    if (s->kind == CAIRN_SCHEDULE_COSINE)
        add(train, "end of the schedule", "%g after %llu", s->least, (unsigned long long)s->total);
}

/* Of statistics that were set: they are there already and cannot fail. */
static uint64_t hash_statistics(cairn_train *train) {
    const float *values[2] = {NULL, NULL};
    uint64_t hash = 0;
    uint32_t channels = cairn_data_get_info(train->options.data)->shape[0], bits;
    if (cairn_data_statistics(train->options.data, &values[0], &values[1], NULL) != CAIRN_OK)
        return 0;
    for (int k = 0; k < 2; k++)
        for (uint32_t c = 0; c < channels; c++) {
            memcpy(&bits, &values[k][c], sizeof bits);
            hash = crn_mix(hash, bits);
        }
    return hash;
}

static void add_data(cairn_train *train) {
    if (train->options.data == NULL) {
        add(train, "data", "drawn");
        return;
    }
    cairn_data_info info = *cairn_data_get_info(train->options.data);
    add(train, "data", "%u samples, %016llx", info.train, (unsigned long long)info.fingerprint);
    add(train, "augmentation", "%s, %u pixels of crop", train->options.flip ? "flip" : "no flip",
        train->options.crop);
    if (train->options.normalise && info.statistics_set)
        add(train, "normalisation", "as given, %016llx",
            (unsigned long long)hash_statistics(train));
    else
        add(train, "normalisation", "%s", train->options.normalise ? "yes" : "no");
}

/* A snapshot does not depend on whether updates are ops of the graph: that is a matter of the
 * plan.
 */
static cairn_status step_to_json(const cairn_graph *graph, cairn_text *out) {
    cairn_graph *step;
    if (!crn_graph_has_updates(graph))
        return cairn_graph_to_json(graph, out);
    CRN_TRY(crn_graph_drop_updates(graph, &step, NULL));
    cairn_status status = cairn_graph_to_json(step, out);
    cairn_graph_destroy(step);
    return status;
}

/* Kinds, shapes, attributes and names: all that the file form of the graph says. */
static cairn_status add_graph(cairn_train *train) {
    cairn_text text;
    crn_sha256 hash;
    char digits[65];
    CRN_TRY(step_to_json(train->graph, &text));
    crn_sha256_init(&hash);
    crn_sha256_add(&hash, text.data, text.length);
    crn_sha256_finish(&hash, digits);
    cairn_text_release(&text);
    add(train, "network", "%s %.32s", cairn_graph_name(train->graph), digits);
    return CAIRN_OK;
}

static double smoothing_of(const cairn_graph *graph) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        if (cairn_graph_op(graph, o)->kind == CAIRN_OP_CROSS_ENTROPY ||
            cairn_graph_op(graph, o)->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY ||
            cairn_graph_op(graph, o)->kind == CAIRN_OP_HEAD_LOSS)
            return cairn_graph_op(graph, o)->attributes.smoothing;
    return 0;
}

cairn_status crn_conditions_init(cairn_train *train, const cairn_exec_options *exec) {
    add(train, "batch", "%u", train->ends.batch);
    add_real(train, "label smoothing", smoothing_of(train->graph));
    CRN_TRY(add_graph(train));
    add(train, "micro-batches", "%u", train->micro_batches);
    add(train, "seed", "%llu", (unsigned long long)exec->seed);
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(train->device, &facts);
    uint32_t first = train->condition_count;
    add(train, "backend", "%s", facts.backend);
    add(train, "threads", "%u", facts.compute_units);
    add(train, "math", "%s", facts.math);
    for (uint32_t i = first; i < train->condition_count; i++)
        train->conditions[i].of_device = true;
    add_optimizer(train, exec);
    add_schedule(train);
    add_data(train);
    return CAIRN_OK;
}
