/* offload_view.h: a network as the chain of the offloading problem (offload.h), for programs that
 * want to compare algorithms on it or to know its bounds.
 *
 * Its layers are one of two things:
 *
 * Pieces of the chain view (views.h), as the paper does. x_{i+1} is all that the backward of piece
 * i reads of its forward run, with the cut that the piece ends in; y_i is the gradient at cut i;
 * exF and exB are what the piece takes beside those at its worst, measured with the lowering
 * itself.
 *
 * Single forward ops, each with its backward ops; any graph has that. x_i are the tensors whose
 * last forward reader is op i; all else is temporary memory, taken from the simulated plan `none`.
 *
 * Sizes in bytes, times in whole microseconds, rounded. */
#ifndef CAIRN_OFFLOAD_VIEW_H
#define CAIRN_OFFLOAD_VIEW_H

#include "cairn/cost.h"
#include "cairn/papers/offload.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cairn_offload_layers {
    CAIRN_OFFLOAD_LAYERS_PIECES = 0,
    CAIRN_OFFLOAD_LAYERS_OPS = 1
} cairn_offload_layers;

typedef struct cairn_offload_view {
    cairn_offload_problem problem; /* with no memory: set it in a copy */
    uint64_t constant_bytes; /* labels and further inputs: there besides the problem's memory */
    void *memory;
} cairn_offload_view;

/* On CAIRN_OK `*out` is the caller's, to be released with cairn_offload_view_destroy(); it keeps no
 * reference to what it was made from. Otherwise NULL. O(n) for a network of n ops and a bounded
 * number of pieces. */
CAIRN_API CAIRN_MUST cairn_status cairn_offload_view_create(
    const cairn_graph *graph, const cairn_costs *costs, const cairn_machine *machine,
    cairn_offload_layers layers, cairn_offload_view **out, cairn_error *err);
CAIRN_API void cairn_offload_view_destroy(cairn_offload_view *view);

#ifdef __cplusplus
}
#endif
#endif
