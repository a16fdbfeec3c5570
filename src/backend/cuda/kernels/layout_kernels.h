/* layout_kernels.h: converts between plain [batch, channels, plane] and channels-last [batch,
 * plane, pitch], tile by tile through shared memory; and places elements among zeros; no guard. See
 * pack.h. */

#define tile_of FORM(layout_tile_of)
#define layout_tile FORM(layout_tile)

typedef struct layout_tile {
    uint32_t n, c, pixel; /* image, first channel, first pixel */
} layout_tile;

CRN_DEVICE layout_tile tile_of(const crn_layout_args *CRN_RESTRICT p, uint32_t block) {
    uint32_t along = (p->plane + 31) / 32, across = (p->pitch + 31) / 32;
    layout_tile tile;
    tile.pixel = block % along * 32;
    tile.c = block / along % across * 32;
    tile.n = block / along / across;
    return tile;
}

/* plain -> image; thread t has column t % 32 of the tile, and every eighth row */
CRN_KERNEL(FORM(to_image), crn_layout_args) {
    CRN_SHARED(float, s, 32 * 33);
    layout_tile tile = tile_of(p, g.x);
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t / 32; i < 32; i += 8) {
            uint32_t c = tile.c + i, pixel = tile.pixel + t % 32;
            int inside = c < p->channels && pixel < p->plane;
            size_t at = ((size_t)tile.n * p->channels + c) * p->plane + pixel;
            s[i * 33 + t % 32] = inside ? crn_get_as(p->plain_element, p->plain, at) : 0;
        }
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t / 32; i < 32; i += 8) {
            uint32_t c = tile.c + t % 32, pixel = tile.pixel + i;
            if (c < p->pitch && pixel < p->plane)
                put_one(p->image, ((size_t)tile.n * p->plane + pixel) * p->pitch + c,
                        s[(t % 32) * 33 + i]);
        }
    }
}

/* image -> plain */
CRN_KERNEL(FORM(to_plain), crn_layout_args) {
    CRN_SHARED(float, s, 32 * 33);
    layout_tile tile = tile_of(p, g.x);
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t / 32; i < 32; i += 8) {
            uint32_t c = tile.c + t % 32, pixel = tile.pixel + i;
            int inside = c < p->channels && pixel < p->plane;
            size_t at = ((size_t)tile.n * p->plane + pixel) * p->pitch + c;
            s[i * 33 + t % 32] = inside ? get_one(p->image, at) : 0;
        }
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t / 32; i < 32; i += 8) {
            uint32_t c = tile.c + i, pixel = tile.pixel + t % 32;
            if (c < p->channels && pixel < p->plane)
                crn_put_as(p->plain_element, p->plain,
                           ((size_t)tile.n * p->channels + c) * p->plane + pixel,
                           s[(t % 32) * 33 + i]);
        }
    }
}

CRN_KERNEL(FORM(place), crn_place_args) {
    CRN_EACH_THREAD(t) {
        for (uint64_t i = (uint64_t)g.x * g.threads + t; i < p->all;
             i += (uint64_t)g.blocks * g.threads) {
            int inside = i >= p->first && i - p->first < p->count;
            put_one(p->to, i, inside ? get_one(p->from, i - p->first) : 0);
        }
    }
}

#undef tile_of
#undef layout_tile
