/* toy_network.h: a small network with about every kind of op: running statistics, dropout, pooling
 * indices, aliases, sums of gradients, a concatenation, an enlargement. */
#ifndef TOY_NETWORK_H
#define TOY_NETWORK_H

#include "cairn.h"
#include "check.h"
#include "graph/layers.h"

static inline cairn_id toy_block(cairn_builder *b, int number, cairn_id x, uint32_t channels) {
    char name[32];
    crn_conv conv = {.channels = channels, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    snprintf(name, sizeof name, "conv%d", number);
    x = crn_build_conv2d(b, name, x, &conv);
    snprintf(name, sizeof name, "bn%d", number);
    x = crn_build_batch_norm(b, name, x, 1e-5);
    snprintf(name, sizeof name, "relu%d", number);
    return crn_build_relu(b, name, x);
}

/* The network, differentiated; the caller owns it. `side` is that of the square images, a multiple
 * of 4. */
static inline cairn_graph *toy_network(const cairn_allocator *allocator, uint32_t batch,
                                       uint32_t side) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    CHECK_OK(cairn_builder_create(allocator, "toy", &b), &err);
    cairn_id input = crn_build_input(b, "input", 4, (uint32_t[]){batch, 3, side, side});
    cairn_id label = crn_build_label(b, "label", 1, &batch);
    cairn_id x = toy_block(b, 1, input, 8);
    cairn_id small = crn_build_max_pool(b, "pool", x, 2, 2, 0);
    cairn_id y = toy_block(b, 2, small, 16);
    for (int i = 3; i < 7; i++) {
        char name[32];
        snprintf(name, sizeof name, "add%d", i);
        y = crn_build_add(b, name, toy_block(b, i, y, 16), y);
        snprintf(name, sizeof name, "drop%d", i);
        y = crn_build_dropout(b, name, y, 0.3);
    }
    cairn_id large = crn_build_conv_transpose2d(b, "up", y, 8, 2);
    cairn_id both[] = {x, large};
    x = toy_block(b, 7, crn_build_concat(b, "cat", both, 2), 8);
    x = crn_build_avg_pool(b, "avg", x, 3, 1, 1, true);
    x = crn_build_adaptive_avg_pool(b, "global", x, 2, 2);
    x = crn_build_flatten(b, "flat", x);
    x = crn_build_dropout(b, "drop", crn_build_linear(b, "fc1", x, 32), 0.5);
    crn_build_cross_entropy(b, "loss", crn_build_linear(b, "fc2", x, 10), label);
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_builder_destroy(b);
    cairn_graph_destroy(forward);
    return graph;
}

#endif
