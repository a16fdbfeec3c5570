/* fill.h: values for parameters, inputs and labels that depend on a name and an index alone, so
 * that the reference script (reference/make_reference.py) makes exactly the same.
 *
 *   hash(name)         FNV-1a, 64 bits
 *   bits(name, i)      the finaliser of SplitMix64 over hash(name) + (i + 1) * 0x9e3779b97f4a7c15
 *   unit(name, i)      2 * (bits >> 40) / 2^24 - 1: in [-1, 1), exact in float
 *   value              offset + scale * unit, in float
 *
 * Scale and offset by what a tensor is, F being the product of its dimensions after the first:
 *
 *   NAME.weight of rank above 1                      sqrt(6 / F)      (float of the double)
 *   NAME.weight of rank 1 (batch-norm)               1 + 0.1 * unit
 *   rnn.weight_*                                     1 / sqrt(F)
 *   NAME.bias                                        1 + 0.1 * unit
 *   rnn.bias_*                                       0.1
 *   running_mean, running_var                        0 and 1
 *   inputs                                           1; the name is NAME.stepK in step K
 *   labels                                           bits % classes; likewise
 *
 * With biases near 1 most ReLUs are open after a batch-norm. With biases around 0 the gradients of
 * a deep network explode and cannot be compared in single precision. */
#ifndef FILL_H
#define FILL_H

#include "cairn/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static inline uint64_t fill_hash(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

static inline uint64_t fill_bits(uint64_t hash, uint64_t index) {
    uint64_t z = hash + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline float fill_unit(uint64_t hash, uint64_t index) {
    return 2 * ((float)(fill_bits(hash, index) >> 40) / 16777216.0f) - 1;
}

static inline uint64_t fill_count(const cairn_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

static inline void fill_values(float *to, uint64_t count, const char *name, float offset,
                               float scale) {
    uint64_t hash = fill_hash(name);
    for (uint64_t i = 0; i < count; i++)
        to[i] = offset + scale * fill_unit(hash, i);
}

static inline bool fill_ends(const char *name, const char *end) {
    size_t length = strlen(name), want = strlen(end);
    return length >= want && strcmp(name + length - want, end) == 0;
}

/* A parameter or state tensor. */
static inline void fill_parameter(float *to, const cairn_tensor *tensor) {
    uint64_t count = fill_count(tensor);
    double fan = (double)(count / tensor->shape[0]);
    float offset = 0, scale = 0.1f;
    if (strstr(tensor->name, "rnn.weight_") != NULL)
        scale = (float)(1 / sqrt(fan));
    else if (fill_ends(tensor->name, "weight") && tensor->rank > 1)
        scale = (float)sqrt(6 / fan);
    else if (fill_ends(tensor->name, "weight") || fill_ends(tensor->name, "bias"))
        offset = 1;
    else if (fill_ends(tensor->name, "running_mean"))
        scale = 0;
    else if (fill_ends(tensor->name, "running_var"))
        offset = 1, scale = 0;
    fill_values(to, count, tensor->name, offset, scale);
}

/* An input or label of step `step`. */
static inline void fill_input(float *to, const cairn_tensor *tensor, unsigned step) {
    char name[200];
    snprintf(name, sizeof name, "%s.step%u", tensor->name, step);
    fill_values(to, fill_count(tensor), name, 0, 1);
}

static inline void fill_labels(int32_t *to, const cairn_tensor *tensor, unsigned step,
                               uint32_t classes) {
    char name[200];
    snprintf(name, sizeof name, "%s.step%u", tensor->name, step);
    for (uint64_t i = 0; i < fill_count(tensor); i++)
        to[i] = (int32_t)(fill_bits(fill_hash(name), i) % classes);
}

#endif
