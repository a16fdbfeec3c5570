/* small_networks.h: every network of the zoo at a small size. */
#ifndef SMALL_NETWORKS_H
#define SMALL_NETWORKS_H

#include "backend/narrow.h"
#include "cairn.h"

/* Channels, height and width of the smallest sensible input; batch 2, ten classes. */
static inline cairn_zoo_options small_options(const cairn_zoo_entry *entry) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    bool sequence = entry->defaults.steps > 0, tokens = sequence && entry->small != NULL;
    uint32_t side = 32;
    if (strcmp(entry->name, "alexnet") == 0)
        side = 63;
    if (strcmp(entry->name, "inception_v3") == 0)
        side = 75;
    options.batch = 2;
    options.classes = 10;
    options.steps = sequence ? 10 : 0;
    if (tokens)
        return options;
    options.input[0] = sequence ? 16 : 3;
    options.input[1] = side;
    options.input[2] = sequence ? 0 : side;
    return options;
}

static inline const cairn_zoo_entry *zoo_entry(const char *name) {
    const cairn_zoo_entry *entry;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++)
        if (strcmp(entry->name, name) == 0)
            return entry;
    fprintf(stderr, "no network %s\n", name);
    exit(1);
}

/* The network with its widths divided (see narrow.h), differentiated. The caller owns it. */
static inline cairn_graph *small_network(const char *name, uint32_t divisor) {
    cairn_zoo_options options = small_options(zoo_entry(name));
    cairn_graph *forward = narrow_build(name, &options, divisor), *graph;
    cairn_error err = {0};
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

#endif
