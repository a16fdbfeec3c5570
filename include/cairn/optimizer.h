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
typedef enum cairn_optimizer {
    CAIRN_OPTIMIZER_SGD = 0,
    CAIRN_OPTIMIZER_ADAM = 1,
    CAIRN_OPTIMIZER_ADAMW = 2
} cairn_optimizer;

/* Which parameters have weight decay. Matrices are parameters of rank 2 or more, tables of
 * embeddings too, but not positions and class tokens; biases and the scales of norms have rank 1.
 */
typedef enum cairn_decay { CAIRN_DECAY_ALL = 0, CAIRN_DECAY_MATRICES = 1 } cairn_decay;

/* "all", "matrices"; NULL past the end of the list. */
CAIRN_API const char *cairn_decay_name(cairn_decay decay);

/* "sgd", "adam", "adamw"; NULL past the end of the list. */
CAIRN_API const char *cairn_optimizer_name(cairn_optimizer optimizer);

#ifdef __cplusplus
}
#endif
#endif
