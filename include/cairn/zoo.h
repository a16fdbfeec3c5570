/* zoo.h: the networks of the papers, exactly, for any batch, input size and number of classes. */
#ifndef CAIRN_ZOO_H
#define CAIRN_ZOO_H

#include "cairn/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start from CAIRN_ZOO_OPTIONS_INIT; zero means the network's default. */
typedef struct cairn_zoo_options {
    uint32_t struct_size;
    uint32_t batch;
    uint32_t input[3];      /* channels, height, width; for recurrent ones features, hidden size, 0;
                             * zeros for networks that read tokens */
    uint32_t classes;       /* the vocabulary of networks that read tokens */
    uint32_t steps;         /* of a recurrent network; tokens of a sequence */
    double label_smoothing; /* of the loss */
} cairn_zoo_options;
#define CAIRN_ZOO_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_zoo_options)

typedef struct cairn_zoo_entry {
    const char *name;
    const char *summary;
    cairn_zoo_options defaults;
    const char *small; /* a small network of the same form, for trials; NULL: give a small input */
} cairn_zoo_entry;

/* Entry `index`, or NULL past the end. */
CAIRN_API const cairn_zoo_entry *cairn_zoo_list(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
