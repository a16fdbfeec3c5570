/* layout.h: from lifetimes to addresses in one arena. */
#ifndef CAIRN_LAYOUT_H
#define CAIRN_LAYOUT_H

#include "cairn/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Only the library makes one; fields are only ever added at the end. */
typedef struct cairn_layout {
    uint64_t arena_bytes;
    const uint64_t *offsets; /* per lifetime, in the order in which they were given */
    uint32_t count;
} cairn_layout;

/* Give every lifetime an offset, a multiple of 64, such that no two that are live at the same step
 * overlap. The arena is at least the live peak and usually equal to it; the search ends when it is
 * at most a hundredth larger. Deterministic; the work is bounded. */
CAIRN_API CAIRN_MUST cairn_status cairn_layout_create(const cairn_allocator *allocator,
                                                      const cairn_lifetime *lifetimes,
                                                      uint32_t count, cairn_layout **out,
                                                      cairn_error *err);
CAIRN_API void cairn_layout_destroy(cairn_layout *layout);

typedef struct cairn_memo cairn_memo; /* what calls of cairn_solve() may share: budget.h */

/* Where operand `operand` of step `step` of a plan lies in the arena, counted from its start: of a
 * run the op's inputs, its outputs and its workspace, of any other step the tensor. The layout is
 * of the lifetimes of `sim`. CAIRN_NO_ADDRESS: it lies elsewhere or nowhere: it is
 * at home on the device, an output that is not wanted, or a workspace of no bytes. This is all that
 * a runtime needs to carry a plan out. O(1). */
#define CAIRN_NO_ADDRESS UINT64_MAX
CAIRN_API uint64_t cairn_layout_address(const cairn_layout *layout, const cairn_sim *sim,
                                        uint32_t step, uint32_t operand);

#ifdef __cplusplus
}
#endif
#endif
