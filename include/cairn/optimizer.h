/* optimizer.h: the optimisers that every device has. */
#ifndef CAIRN_OPTIMIZER_H
#define CAIRN_OPTIMIZER_H

#include "cairn/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As in PyTorch, p a parameter, g its gradient, r the learning rate, n the number of the update:
 *
 *     sgd    g += decay p; v = momentum v + g; p -= r v, with nesterov p -= r (g + momentum v)
 *     adam   g += decay p; m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g g;
 *            p -= r / (1 - beta1^n) m / (sqrt(v) / sqrt(1 - beta2^n) + epsilon)
 *     adamw  the same with p *= 1 - r decay in place of the first */
#define CAIRN_OPTIMIZER_LIST(X)                                                                    \
    X(SGD, 0, "sgd")                                                                               \
    X(ADAM, 1, "adam")                                                                             \
    X(ADAMW, 2, "adamw")

typedef enum cairn_optimizer {
#define X(name, number, text) CAIRN_OPTIMIZER_##name = number,
    CAIRN_OPTIMIZER_LIST(X)
#undef X
} cairn_optimizer;

/* Which parameters have weight decay. Matrices are parameters of rank 2 or more, tables of
 * embeddings too, but not positions and class tokens; biases and the scales of norms have rank 1.
 */
#define CAIRN_DECAY_LIST(X)                                                                        \
    X(ALL, 0, "all")                                                                               \
    X(MATRICES, 1, "matrices")

typedef enum cairn_decay {
#define X(name, number, text) CAIRN_DECAY_##name = number,
    CAIRN_DECAY_LIST(X)
#undef X
} cairn_decay;

#ifdef __cplusplus
}
#endif
#endif
