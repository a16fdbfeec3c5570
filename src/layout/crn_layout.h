/* crn_layout.h: a layout that need not be the best. */
#ifndef CRN_LAYOUT_H
#define CRN_LAYOUT_H

#include "cairn/layout.h"

/* More lifetimes than that are placed in one order only: `enough` and `brief` mean nothing. */
#define CRN_LAYOUT_LOTS 20000u

/* As cairn_layout_create(), but the search ends once the arena is within `enough`; with `brief` it
 * is short, and for one size only: the promised one, or a larger one that is enough. What that
 * finds within the promised size, the whole search finds too, or better. */
CAIRN_MUST cairn_status crn_layout_search(const cairn_allocator *allocator,
                                          const cairn_lifetime *lifetimes, uint32_t count,
                                          uint64_t enough, bool brief, cairn_layout **out,
                                          cairn_error *err);

/* A layout that is known. */
CAIRN_MUST cairn_status crn_layout_of(const cairn_allocator *allocator, uint64_t arena_bytes,
                                      const uint64_t *offsets, uint32_t count, cairn_layout **out,
                                      cairn_error *err);

/* As crn_layout_search(). A memo, if there is one, is asked first, and then has the answer. */
CAIRN_MUST cairn_status crn_layout_within(const cairn_allocator *allocator,
                                          const cairn_lifetime *lifetimes, uint32_t count,
                                          uint64_t enough, bool brief, cairn_memo *memo,
                                          cairn_layout **out, cairn_error *err);

/* Only the size of the arena of such a layout. */
CAIRN_MUST cairn_status crn_layout_size(const cairn_allocator *allocator,
                                        const cairn_lifetime *lifetimes, uint32_t count,
                                        uint64_t enough, bool brief, cairn_memo *memo,
                                        uint64_t *arena, cairn_error *err);

/* The largest size an arena should have: a hundredth over the live peak. */
uint64_t crn_layout_promise(uint64_t peak);

#endif
