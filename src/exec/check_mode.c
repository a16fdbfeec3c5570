/* check_mode.c: check mode: memory that no op may read is filled with NaNs, and whole pages of it
 * are protected.
 *
 *     arena   | live | dead: 0xff...      | live |     (0xffffffff is a NaN)
 *     pages   |    |    |  X |  X |  X |    |    |     X: any access ends the program
 *
 * A page is protected when nothing on it is in use, and accessible again when something is. This
 * needs a device whose memory has such pages; on other devices there are only the NaNs. */
#include "exec/exec_internal.h"

static char *at(const cairn_exec *exec, uint64_t offset) {
    return (char *)exec->arena.base + offset;
}

static void protect(cairn_exec *exec, uint64_t from, uint64_t to, bool accessible) {
    if (from < to && exec->backend->protect != NULL)
        exec->backend->protect(exec->device->state, at(exec, from), to - from, accessible);
}

static uint64_t page_size(const cairn_exec *exec) {
    return exec->device->facts.alignment;
}

/* Protect the pages between two page boundaries on which nothing is in use, with one call for each
 * run of pages. */
static void close_free_pages(cairn_exec *exec, uint64_t from, uint64_t to) {
    uint64_t page = page_size(exec), start = from;
    for (uint64_t at = from; at < to; at += page) {
        if (crn_occupancy_free(&exec->occupancy, at, page))
            continue;
        protect(exec, start, at, false);
        start = at + page;
    }
    protect(exec, start, to, false);
}

static uint64_t round_down(uint64_t offset, uint64_t page) {
    return offset / page * page;
}

static uint64_t round_up(uint64_t offset, uint64_t page) {
    return (offset + page - 1) / page * page;
}

void crn_check_take(cairn_exec *exec, crn_range range) {
    uint64_t page = page_size(exec);
    protect(exec, round_down(range.offset, page), round_up(range.offset + range.bytes, page), true);
}

void crn_check_give(cairn_exec *exec, crn_range range) {
    uint64_t page = page_size(exec);
    exec->backend->fill(exec->queue, at(exec, range.offset), 0xff, range.bytes);
    close_free_pages(exec, round_down(range.offset, page),
                     round_up(range.offset + range.bytes, page));
}

/* Fill everything in the arena that is not in use, run by run. */
static void fill_unbound(cairn_exec *exec) {
    const uint64_t *words = exec->occupancy.words;
    uint64_t bits = exec->arena.bytes / CRN_ALIGNMENT, start = 0;
    for (uint64_t bit = 0; bit <= bits; bit++) {
        if (bit < bits && (words[bit / 64] >> (bit % 64) & 1) == 0)
            continue;
        if (start < bit)
            exec->backend->fill(exec->queue, at(exec, start * CRN_ALIGNMENT), 0xff,
                                (bit - start) * CRN_ALIGNMENT);
        start = bit + 1;
    }
}

void crn_check_begin(cairn_exec *exec) {
    fill_unbound(exec);
    close_free_pages(exec, 0, round_up(exec->arena.bytes, page_size(exec)));
    for (uint32_t i = 0; exec->training && i < exec->stationary.parameter_count; i++) {
        const crn_parameter *p = &exec->stationary.parameters[i];
        if (p->gradient != NULL)
            exec->backend->fill(exec->queue, (void *)(uintptr_t)p->gradient, 0xff,
                                p->elements * sizeof(float));
    }
}

void crn_check_end(cairn_exec *exec) {
    protect(exec, 0, round_up(exec->arena.bytes, page_size(exec)), true);
}
