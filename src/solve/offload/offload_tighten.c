/* offload_tighten.c: with whole release, the bytes that are away are always a sum of some
 * activations. So the need of an op can be rounded up to the smallest such sum that is at least as
 * large.
 *
 *     sizes 5 5 7, need 8:   sums 0 5 7 10 12 17   ->   need 10
 *
 * No schedule with whole release is lost, and every bound that uses needs gets stronger. The
 * fractional optimum of the tightened chain is a lower bound of all schedules with whole release,
 * interleaved or not. (In such a schedule let O(t) be the bytes that have left by t, and R(t) those
 * that are still to come back. Both are at least what is away, so min(O, R, largest need), first
 * bytes first, is an ordered fractional schedule of the same length.)
 *
 * The sums of x_0 .. x_{i-1} are kept as a sorted list without repeats. It can double with every
 * layer. When it exceeds a limit, the needs of later ops stay as they are. O(n * limit). */
#include "solve/offload/crn_offload.h"

#define MOST_SUMS (1u << 14)

/* The smallest sum that is at least `need`; the last sum is. */
static int64_t round_up(const int64_t *sums, uint32_t count, int64_t need) {
    uint32_t low = 0, high = count;
    if (need <= 0)
        return need;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sums[middle] < need)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count ? sums[low] : need;
}

/* Merge `sums` and `sums + size` into `out`. */
static uint32_t add_size(const int64_t *sums, uint32_t count, int64_t size, int64_t *out) {
    uint32_t a = 0, b = 0, length = 0;
    while (b < count) {
        int64_t with = sums[b] + size;
        int64_t value = a < count && sums[a] <= with ? sums[a] : with;
        a += a < count && sums[a] == value;
        b += with == value;
        out[length++] = value;
    }
    return length;
}

cairn_status crn_offload_tighten(crn_arena *arena, const crn_offload_chain *chain,
                                 crn_offload_chain *out) {
    int64_t *sums, *next, *forward_need, *backward_need;
    uint32_t count = 1, n = chain->count;
    bool known = true;
    CRN_TAKE(arena, sums, MOST_SUMS);
    CRN_TAKE(arena, next, MOST_SUMS);
    CRN_TAKE(arena, forward_need, n);
    CRN_TAKE(arena, backward_need, n);
    for (uint32_t i = 0; i < n; i++) {
        forward_need[i] = chain->forward_need[i];
        backward_need[i] = chain->backward_need[i];
        if (known) {
            forward_need[i] = round_up(sums, count, forward_need[i]);
            backward_need[i] = round_up(sums, count, backward_need[i]);
        }
        known = known && count <= MOST_SUMS / 2;
        if (!known || chain->size[i] == 0)
            continue;
        count = add_size(sums, count, chain->size[i], next);
        int64_t *swap = sums;
        sums = next;
        next = swap;
    }
    *out = *chain;
    out->forward_need = forward_need;
    out->backward_need = backward_need;
    return CAIRN_OK;
}
