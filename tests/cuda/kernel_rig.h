/* kernel_rig.h: runs kernels of the backend cuda on the processor, on buffers of the test.
 *
 * Every buffer has exactly the bytes it needs, so that an address sanitizer detects accesses beyond
 * it. Each kernel runs twice, with blocks and threads in both orders, from the same contents of all
 * buffers: a difference in any byte is a race. Tickets must be zero afterwards. */
#ifndef KERNEL_RIG_H
#define KERNEL_RIG_H

#include "backend/cuda/kernels/numbers.h"
#include "backend/cuda/kernels/processor_grid.h"
#include "check.h"

#include <math.h>
#include <stdbool.h>

#define KERNEL_RIG_BUFFERS 64
#define KERNEL_RIG_TICKETS 4096

typedef struct kernel_rig {
    struct {
        void *at, *before, *after;
        size_t bytes;
    } buffers[KERNEL_RIG_BUFFERS];
    uint32_t count;
    uint32_t *tickets;
    uint32_t element; /* of images */
    uint32_t extra;   /* how pitches are padded: see rig_pitch() */
    uint32_t runs[CRN_KERNELS];
} kernel_rig;

/* A buffer full of NaNs. It is valid until kernel_rig_clear(). */
static inline void *kernel_rig_make(kernel_rig *r, size_t bytes) {
    CHECK(r->count < KERNEL_RIG_BUFFERS);
    void *at;
    if (posix_memalign(&at, 64, bytes > 0 ? bytes : 1) != 0)
        abort();
    memset(at, 0xff, bytes);
    r->buffers[r->count].at = at;
    r->buffers[r->count].before = malloc(bytes + 1);
    r->buffers[r->count].after = malloc(bytes + 1);
    r->buffers[r->count].bytes = bytes;
    r->count++;
    return at;
}

static inline void kernel_rig_clear(kernel_rig *r) {
    for (uint32_t i = 0; i < r->count; i++) {
        free(r->buffers[i].at);
        free(r->buffers[i].before);
        free(r->buffers[i].after);
    }
    r->count = 0;
    r->tickets = NULL;
}

/* A buffer with a copy of plain values. */
static inline void *kernel_rig_copy(kernel_rig *r, const void *from, size_t bytes) {
    void *to = kernel_rig_make(r, bytes);
    memcpy(to, from, bytes);
    return to;
}

static inline uint32_t *kernel_rig_tickets(kernel_rig *r) {
    if (r->tickets == NULL) {
        r->tickets = kernel_rig_make(r, KERNEL_RIG_TICKETS * sizeof *r->tickets);
        memset(r->tickets, 0, KERNEL_RIG_TICKETS * sizeof *r->tickets);
    }
    return r->tickets;
}

static inline void kernel_rig_run(kernel_rig *r, crn_launch launch, const void *args) {
    CHECK(launch.tickets <= KERNEL_RIG_TICKETS);
    for (uint32_t i = 0; i < r->count; i++)
        memcpy(r->buffers[i].before, r->buffers[i].at, r->buffers[i].bytes);
    crn_kernel_run(&launch, args, CRN_GRID_BACKWARDS);
    for (uint32_t i = 0; i < r->count; i++) {
        memcpy(r->buffers[i].after, r->buffers[i].at, r->buffers[i].bytes);
        memcpy(r->buffers[i].at, r->buffers[i].before, r->buffers[i].bytes);
    }
    crn_kernel_run(&launch, args, CRN_GRID_FORWARDS);
    bool same = true, zero = true;
    for (uint32_t i = 0; i < r->count; i++)
        same &= memcmp(r->buffers[i].at, r->buffers[i].after, r->buffers[i].bytes) == 0;
    for (uint32_t i = 0; r->tickets != NULL && i < KERNEL_RIG_TICKETS; i++)
        zero &= r->tickets[i] == 0;
    if (!same || !zero)
        fprintf(stderr, "%s: %s\n", crn_kernel_list[launch.kernel].name,
                same ? "tickets are not zero again" : "the result depends on the order of threads");
    CHECK(same && zero);
    r->runs[launch.kernel]++;
}

/* ---- The contents of all buffers ---- */

static inline size_t kernel_rig_bytes(const kernel_rig *r) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < r->count; i++)
        bytes += r->buffers[i].bytes;
    return bytes;
}

/* A copy of them, for free(). */
static inline char *kernel_rig_keep(const kernel_rig *r) {
    char *kept = malloc(kernel_rig_bytes(r) + 1), *to = kept;
    for (uint32_t i = 0; i < r->count; to += r->buffers[i++].bytes)
        memcpy(to, r->buffers[i].at, r->buffers[i].bytes);
    return kept;
}

static inline void kernel_rig_restore(kernel_rig *r, const char *kept) {
    for (uint32_t i = 0; i < r->count; kept += r->buffers[i++].bytes)
        memcpy(r->buffers[i].at, kept, r->buffers[i].bytes);
}

static inline bool kernel_rig_is(const kernel_rig *r, const char *kept) {
    bool same = true;
    for (uint32_t i = 0; i < r->count; kept += r->buffers[i++].bytes)
        same &= memcmp(r->buffers[i].at, kept, r->buffers[i].bytes) == 0;
    return same;
}

/* ---- Images ---- */

typedef struct kernel_image {
    void *at;
    uint32_t batch, channels, plane, pitch;
} kernel_image;

static inline size_t kernel_rig_element(const kernel_rig *r) {
    return r->element == CRN_ELEMENT_BF16 ? 2 : 4;
}

/* The pitch, by `extra`. 0: the number of channels; 1: a multiple of 16 bytes; 2: that plus 16
 * bytes; 3: odd. */
static inline uint32_t kernel_rig_pitch(const kernel_rig *r, uint32_t channels) {
    uint32_t pack = (uint32_t)(16 / kernel_rig_element(r));
    uint32_t full = (channels + pack - 1) / pack * pack;
    return r->extra == 0   ? channels
           : r->extra == 1 ? full
           : r->extra == 2 ? full + pack
                           : channels + 1;
}

/* An image of NaNs. */
static inline kernel_image kernel_rig_image(kernel_rig *r, uint32_t batch, uint32_t channels,
                                            uint32_t plane) {
    kernel_image image = {NULL, batch, channels, plane, kernel_rig_pitch(r, channels)};
    image.at = kernel_rig_make(r, (size_t)batch * plane * image.pitch * kernel_rig_element(r));
    return image;
}

/* A matrix, row by row, without a kernel. */
static inline void kernel_rig_fill(kernel_rig *r, kernel_image image, const float *plain) {
    for (size_t row = 0; row < image.batch; row++)
        for (size_t c = 0; c < image.pitch; c++) {
            float value = c < image.channels ? plain[row * image.channels + c] : 0;
            if (r->element == CRN_ELEMENT_BF16)
                ((uint16_t *)image.at)[row * image.pitch + c] = crn_to_bf16(value);
            else
                ((float *)image.at)[row * image.pitch + c] = value;
        }
}

static inline void kernel_rig_read(kernel_rig *r, kernel_image image, float *plain) {
    for (size_t row = 0; row < image.batch; row++)
        for (size_t c = 0; c < image.channels; c++) {
            size_t at = row * image.pitch + c;
            plain[row * image.channels + c] = r->element == CRN_ELEMENT_BF16
                                                  ? crn_from_bf16(((uint16_t *)image.at)[at])
                                                  : ((float *)image.at)[at];
        }
}

/* An image from plain floats [batch, channels, plane]; `plain` is not a buffer of the rig. */
static inline kernel_image kernel_rig_load(kernel_rig *r, const float *plain, uint32_t batch,
                                           uint32_t channels, uint32_t plane) {
    kernel_image image = kernel_rig_image(r, batch, channels, plane);
    crn_layout_args args = {.element = r->element,
                            .plain_element = CRN_ELEMENT_F32,
                            .batch = batch,
                            .channels = channels,
                            .plane = plane,
                            .pitch = image.pitch,
                            .plain = (void *)plain,
                            .image = image.at};
    kernel_rig_run(r, crn_to_image_launch(&args), &args);
    return image;
}

/* Convert an image to plain floats. The padding between channels and pitch must be zero where the
 * kernel wrote it. */
static inline void kernel_rig_unload(kernel_rig *r, kernel_image image, float *plain) {
    crn_layout_args args = {.element = r->element,
                            .plain_element = CRN_ELEMENT_F32,
                            .batch = image.batch,
                            .channels = image.channels,
                            .plane = image.plane,
                            .pitch = image.pitch,
                            .plain = plain,
                            .image = image.at};
    kernel_rig_run(r, crn_to_plain_launch(&args), &args);
}

/* ---- Comparing ---- */

/* `tolerance` is relative to the largest value; 0: the values must be equal. NaN is equal to
 * NaN. */
static inline bool kernel_rig_equal(const float *got, const float *wanted, size_t count,
                                    double tolerance, const char *what) {
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        if (fabs((double)wanted[i]) > largest)
            largest = fabs((double)wanted[i]);
    for (size_t i = 0; i < count; i++) {
        if (isnan(got[i]) && isnan(wanted[i]))
            continue;
        if (!(fabs((double)got[i] - (double)wanted[i]) <= tolerance * largest)) {
            fprintf(stderr, "%s: element %zu of %zu is %.9g, not %.9g\n", what, i, count,
                    (double)got[i], (double)wanted[i]);
            return false;
        }
    }
    return true;
}

#endif
