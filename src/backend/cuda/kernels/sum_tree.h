/* sum_tree.h: sums over the rows of a matrix, for each channel; no guard. See pack.h.
 *
 * Every thread has put its own sums into shared memory: `arrays` arrays, each of `threads` * PACK
 * floats. They are added along a tree that depends only on shapes:
 *
 *     threads of a block -> partial [tile, strip, arrays, lanes * PACK] -> the last block of a tile
 */

#define add_groups FORM(add_groups)
#define add_strips FORM(add_strips)
#define add_up FORM(add_up)
#define sum_of(s, threads, array, t, k) ((s)[((array) * (threads) + (t)) * PACK + (k)])
#define sum_at(s, array, t, k) sum_of(s, CRN_COLUMN_THREADS, array, t, k)

/* Add all groups into group 0. */
CRN_DEVICE void add_groups(const crn_tiling *tiling, crn_grid g, float *s, uint32_t arrays) {
    for (uint32_t half = crn_tree_top(tiling->groups); half > 0; half /= 2) {
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            uint32_t other = t + half * tiling->lanes;
            if (t >= half * tiling->lanes || other >= tiling->groups * tiling->lanes)
                continue;
            for (uint32_t a = 0; a < arrays; a++) {
                EACH(k) {
                    sum_of(s, g.threads, a, t, k) += sum_of(s, g.threads, a, other, k);
                }
            }
        }
    }
    CRN_BARRIER();
}

/* The last block of a tile adds the sums of all its strips, in the order of the strips. */
CRN_DEVICE void add_strips(const crn_tiling *tiling, crn_grid g, const float *partial, float *s,
                           uint32_t arrays) {
    uint32_t wide = tiling->lanes * PACK;
    CRN_EACH_THREAD(t) {
        uint32_t group = t / tiling->lanes, lane = t % tiling->lanes;
        for (uint32_t a = 0; a < arrays; a++) {
            const float *from = partial + a * wide + lane * PACK;
            pack sum = no_pack();
            for (uint32_t strip = group; group < tiling->groups && strip < tiling->strips;
                 strip += 4 * tiling->groups) {
                pack some[4];
                CRN_UNROLL for (uint32_t u = 0; u < 4; u++) {
                    uint32_t i = strip + u * tiling->groups;
                    i = i < tiling->strips ? i : strip;
                    some[u] = get_partial(from + (size_t)i * arrays * wide);
                }
                CRN_UNROLL for (uint32_t u = 0; u < 4; u++) {
                    EACH(k) {
                        sum.at[k] +=
                            strip + u * tiling->groups < tiling->strips ? some[u].at[k] : 0;
                    }
                }
            }
            EACH(k) {
                sum_of(s, g.threads, a, t, k) = sum.at[k];
            }
        }
    }
    add_groups(tiling, g, s, arrays);
}

/* Add up everything. True in the one block of a tile that then has the totals in group 0 of `s`. */
CRN_DEVICE uint32_t add_up(const crn_tiling *tiling, crn_grid g, uint32_t strip, float *s,
                           uint32_t arrays, float *partial, uint32_t *ticket, uint32_t *last) {
    uint32_t wide = tiling->lanes * PACK;
    add_groups(tiling, g, s, arrays);
    if (tiling->strips == 1)
        return 1;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < arrays * wide; i += g.threads)
            crn_write_shared_partial(partial + (size_t)strip * arrays * wide + i,
                                     sum_of(s, g.threads, i / wide, 0, i % wide));
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        if (t == 0)
            last[0] = crn_take_ticket(ticket, tiling->strips);
    }
    CRN_BARRIER();
    if (!last[0])
        return 0;
    add_strips(tiling, g, partial, s, arrays);
    return 1;
}
