/* compare_ops.h: the ops of a case on a device against the reference. Both get the same operands;
 * those that are stored as bf16 are rounded for the reference too. Every implementation runs, a
 * second time, and in place where it may. */
#ifndef COMPARE_OPS_H
#define COMPARE_OPS_H

#include "backend/op_cases.h"

static uint32_t kinds_compared[CAIRN_OP_KINDS], permissions_tried, sequences_half, by_hopper,
    by_split;

/* ---- Sequences in bf16 ---- */

static inline bool is_of_sequences(cairn_op_kind kind) {
    return kind >= CAIRN_OP_EMBEDDING && kind < CAIRN_OP_UPDATE;
}

/* Whether --math bf16 stores the operand of such an op as bf16: all but statistics, losses and
 * weights. */
static inline bool is_sequence(const cairn_graph *graph, cairn_id t) {
    if (t == CAIRN_NONE)
        return false;
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    cairn_id of = tensor->gradient_of;
    if (tensor->producer != CAIRN_NONE) {
        const cairn_op *op = cairn_graph_op(graph, tensor->producer);
        if ((op->kind == CAIRN_OP_LAYER_NORM || op->kind == CAIRN_OP_RMS_NORM ||
             op->kind == CAIRN_OP_ATTENTION) &&
            op->outputs[1] == t)
            return false;
    }
    return tensor->dtype == CAIRN_DTYPE_F32 && tensor->rank < 4 && !tensor->stationary &&
           tensor->role != CAIRN_ROLE_LOSS &&
           (of == CAIRN_NONE || !cairn_graph_tensor(graph, of)->stationary);
}

static inline void halve_sequences(rig *r) {
    for (cairn_id o = 0; o < cairn_graph_op_count(r->graph); o++) {
        const cairn_op *op = cairn_graph_op(r->graph, o);
        for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
            cairn_id t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
            if (!is_of_sequences(op->kind) || !is_sequence(r->graph, t))
                continue;
            r->storage[t] = crn_storage_of(cairn_graph_tensor(r->graph, t), CRN_PLAIN, 1, CRN_BF16);
            sequences_half++;
        }
    }
}

/* ---- Comparing ---- */

static double worst_error; /* of the last comparison, relative to the largest element */

static inline bool close_enough(const cairn_tensor *t, const void *ours, const void *theirs,
                                double limit) {
    worst_error = 0;
    if (t->dtype != CAIRN_DTYPE_F32)
        return memcmp(ours, theirs, t->bytes) == 0;
    const float *a = ours, *b = theirs;
    double largest = 0, worst = 0;
    for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) {
        largest = isfinite(b[i]) ? fmax(largest, fabs((double)b[i])) : largest;
        double off =
            a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) ? 0 : fabs((double)a[i] - (double)b[i]);
        worst = off <= worst ? worst : off; /* a NaN counts as the worst */
    }
    worst_error = worst / fmax(largest, 1e-3);
    return worst_error <= limit;
}

/* In bf16 the loss of tokens makes the gradient in the place of the probabilities. Whether operand
 * t of an op is that. */
static inline bool is_gradient(const rig *subject, const cairn_op *op, cairn_id t) {
    bool made = op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY && t == op->outputs[1];
    bool read = op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY_BWD && t == op->inputs[0];
    return (made || read) && subject->storage[t].type == CRN_BF16;
}

/* The gradient from the probabilities of the reference, for free(). */
static inline float *gradient_of(const rig *ref, const cairn_op *op, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(ref->graph, t);
    const int32_t *labels = ref->place[op->inputs[1]];
    uint64_t words = tensor->shape[tensor->rank - 1], rows = tensor->bytes / 4 / words, count = 0;
    double smoothing = op->attributes.smoothing;
    float *gradient = malloc(tensor->bytes);
    memcpy(gradient, ref->place[t], tensor->bytes);
    for (uint64_t row = 0; row < rows; row++)
        count += labels[row] >= 0;
    for (uint64_t i = 0; i < rows * words; i++) {
        double target = smoothing / (double)words;
        if (labels[i / words] == (int64_t)(i % words))
            target += 1 - smoothing;
        gradient[i] = labels[i / words] < 0 ? 0 : (float)((gradient[i] - target) / (double)count);
    }
    return gradient;
}

static inline void compare(const rig *subject, const rig *ref, cairn_id t, const char *what,
                           cairn_id id, uint32_t which, double limit) {
    uint32_t count;
    const cairn_tensor *tensor = cairn_graph_tensor(subject->graph, t);
    void *plain = rig_block(tensor->bytes);
    rig_get(subject, t, plain);
    const cairn_op *op = cairn_graph_op(subject->graph, id);
    float *gradient = is_gradient(subject, op, t) ? gradient_of(ref, op, t) : NULL;
    bool right = close_enough(tensor, plain, gradient != NULL ? gradient : ref->place[t], limit);
    free(gradient);
    CHECK(right);
    if (!right)
        fprintf(stderr, "  %s: %s by %s differs by %.1e\n", what, tensor->name,
                rig_choices(subject, id, &count)[which].name, worst_error);
    free(plain);
}

/* Give both the same operands: what is rounded when it is stored, is so for the reference too. */
static inline void give_operand(rig *subject, rig *ref, const cairn_op *op, cairn_id t) {
    if (is_gradient(subject, op, t)) {
        float *gradient = gradient_of(ref, op, t);
        rig_put(subject, t, gradient);
        free(gradient);
        return;
    }
    rig_put(subject, t, ref->place[t]);
    if (subject->storage[t].type == CRN_BF16)
        rig_get(subject, t, ref->place[t]);
}

/* Compare one op in all its implementations: both get the same operands, then everything that it
 * wrote is compared. */
static inline void compare_op(rig *subject, rig *ref, const op_case *c, cairn_id id, double limit) {
    const cairn_op *op = cairn_graph_op(subject->graph, id);
    void *before[RIG_MOST];
    uint32_t which, count;
    kinds_compared[op->kind]++;
    for (uint32_t i = 0; i < op->input_count; i++)
        give_operand(subject, ref, op, op->inputs[i]);
    for (uint32_t i = 0; i < op->param_count; i++) {
        uint64_t bytes = cairn_graph_tensor(subject->graph, op->params[i])->bytes;
        before[i] = rig_block(bytes);
        memcpy(before[i], ref->place[op->params[i]], bytes);
    }
    rig_run(ref, id);
    for (which = 0; which < CRN_MOST_CHOICES; which++) {
        for (uint32_t i = 0; i < op->param_count; i++)
            rig_put(subject, op->params[i], before[i]);
        if (!rig_run_at(subject, id, which, NULL, NULL))
            break;
        by_hopper += strcmp(rig_choices(subject, id, &count)[which].name, "hopper") == 0;
        by_split += strncmp(rig_choices(subject, id, &count)[which].name, "split.", 6) == 0;
        for (uint32_t i = 0; i < op->output_count; i++)
            if (op->outputs[i] != CAIRN_NONE)
                compare(subject, ref, op->outputs[i], c->name, id, which, limit);
        for (uint32_t i = 0; i < op->param_count; i++)
            compare(subject, ref, op->params[i], c->name, id, which, limit);
        permissions_tried += rig_try_again(subject, id, which);
    }
    CHECK(which > 0);
    for (uint32_t i = 0; i < op->param_count; i++)
        free(before[i]);
}

#endif
