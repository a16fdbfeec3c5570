/* pooling_window.h: the window of an image that an element of the pooled image depends on; the same
 * for every backend. */
#ifndef CRN_POOLING_WINDOW_H
#define CRN_POOLING_WINDOW_H

#include "backend/backend.h"

/* A window clipped to the image: rows top..bottom-1, columns left..right-1. */
typedef struct crn_window {
    int64_t top, left, bottom, right;
    int64_t first_row, first_column; /* before clipping */
} crn_window;

/* For row p, column q of `small` [P, Q], pooled from `large` [H, W]; attributes NULL: adaptive
 * pooling, whose windows go from the floor of their beginning to the ceiling of their end. */
static inline crn_window crn_window_at(const cairn_attributes *a, const int64_t large[2],
                                       const int64_t small[2], int64_t p, int64_t q) {
    if (a == NULL)
        return (crn_window){.top = p * large[0] / small[0],
                            .left = q * large[1] / small[1],
                            .bottom = ((p + 1) * large[0] + small[0] - 1) / small[0],
                            .right = ((q + 1) * large[1] + small[1] - 1) / small[1]};
    int64_t row = p * a->stride[0] - a->pad[0], column = q * a->stride[1] - a->pad[1];
    return (crn_window){.top = CRN_MAX(row, 0),
                        .left = CRN_MAX(column, 0),
                        .bottom = CRN_MIN(row + a->kernel[0], large[0]),
                        .right = CRN_MIN(column + a->kernel[1], large[1]),
                        .first_row = row,
                        .first_column = column};
}

#endif
