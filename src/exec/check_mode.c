/* check_mode.c: memory that nobody may read turns into NaNs, and whole pages of it vanish.
 *
 *     arena   | live | dead: 0xff...      | live |     (0xffffffff is a NaN)
 *     pages   |    |    |  X |  X |  X |    |    |     X: any access ends the program
 *
 * A page is closed when nothing on it is bound, and opened when something is. A system that refuses
 * to close one leaves the NaNs. */
#include "exec/exec_internal.h"

#include <sys/mman.h>
#include <unistd.h>

static uint64_t page_size(void) {
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (uint64_t)size : 4096;
}

static void protect(cairn_exec *exec, uint64_t from, uint64_t to, int access) {
    if (from < to)
        (void)!mprotect((char *)exec->arena.base + from, to - from, access);
}

/* Close the pages between two page boundaries on which nothing is bound, in as few calls as there
 * are runs of them. */
static void close_free_pages(cairn_exec *exec, uint64_t from, uint64_t to) {
    uint64_t page = page_size(), start = from;
    for (uint64_t at = from; at < to; at += page) {
        if (crn_occupancy_free(&exec->occupancy, at, page))
            continue;
        protect(exec, start, at, PROT_NONE);
        start = at + page;
    }
    protect(exec, start, to, PROT_NONE);
}

static uint64_t round_down(uint64_t offset, uint64_t page) {
    return offset / page * page;
}

static uint64_t round_up(uint64_t offset, uint64_t page) {
    return (offset + page - 1) / page * page;
}

void crn_check_take(cairn_exec *exec, crn_range range) {
    uint64_t page = page_size();
    protect(exec, round_down(range.offset, page), round_up(range.offset + range.bytes, page),
            PROT_READ | PROT_WRITE);
}

void crn_check_give(cairn_exec *exec, crn_range range) {
    uint64_t page = page_size();
    memset((char *)exec->arena.base + range.offset, 0xff, range.bytes);
    close_free_pages(exec, round_down(range.offset, page),
                     round_up(range.offset + range.bytes, page));
}

/* Everything of the arena that is not bound. */
static void fill_unbound(cairn_exec *exec) {
    const uint64_t *words = exec->occupancy.words;
    for (uint64_t bit = 0; bit < exec->arena.bytes / CRN_ALIGNMENT; bit++)
        if ((words[bit / 64] >> (bit % 64) & 1) == 0)
            memset((char *)exec->arena.base + bit * CRN_ALIGNMENT, 0xff, CRN_ALIGNMENT);
}

void crn_check_begin(cairn_exec *exec) {
    fill_unbound(exec);
    close_free_pages(exec, 0, round_up(exec->arena.bytes, page_size()));
    for (uint32_t i = 0; exec->training && i < exec->stationary.parameter_count; i++) {
        const crn_parameter *p = &exec->stationary.parameters[i];
        if (p->gradient != NULL)
            memset(p->gradient, 0xff, p->elements * sizeof(float));
    }
}

void crn_check_end(cairn_exec *exec) {
    protect(exec, 0, round_up(exec->arena.bytes, page_size()), PROT_READ | PROT_WRITE);
}
