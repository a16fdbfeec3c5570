/* occupancy.c: setting, clearing and counting bits by whole words. */
#include "exec/occupancy.h"

cairn_status crn_occupancy_init(crn_occupancy *map, crn_arena *memory, uint64_t arena_bytes) {
    map->word_count = arena_bytes / (64 * CRN_ALIGNMENT) + 1;
    CRN_TAKE(memory, map->words, map->word_count);
    return CAIRN_OK;
}

void crn_occupancy_reset(crn_occupancy *map) {
    memset(map->words, 0, map->word_count * sizeof *map->words);
    map->bytes = map->peak = 0;
}

static uint64_t bits_set(uint64_t word) {
    uint64_t count = 0;
    for (; word != 0; word &= word - 1)
        count++;
    return count;
}

/* Set or clear the bits of a range; returns how many changed. */
static uint64_t mark(crn_occupancy *map, crn_range range, bool set) {
    uint64_t bit = range.offset / CRN_ALIGNMENT, end = bit + range.bytes / CRN_ALIGNMENT;
    uint64_t changed = 0;
    while (bit < end) {
        uint64_t *word = &map->words[bit / 64], low = bit % 64;
        uint64_t count = CRN_MIN(64 - low, end - bit);
        uint64_t mask = (count == 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1) << low;
        uint64_t change = (set ? ~*word : *word) & mask;
        changed += change == UINT64_MAX ? 64 : bits_set(change);
        *word ^= change;
        bit += count;
    }
    return changed;
}

void crn_occupancy_take(crn_occupancy *map, crn_range range) {
    map->bytes += mark(map, range, true) * CRN_ALIGNMENT;
    map->peak = CRN_MAX(map->peak, map->bytes);
}

void crn_occupancy_give(crn_occupancy *map, crn_range range) {
    map->bytes -= mark(map, range, false) * CRN_ALIGNMENT;
}

bool crn_occupancy_free(const crn_occupancy *map, uint64_t offset, uint64_t length) {
    uint64_t from = offset / (64 * CRN_ALIGNMENT), to = (offset + length) / (64 * CRN_ALIGNMENT);
    for (uint64_t i = from; i < to && i < map->word_count; i++)
        if (map->words[i] != 0)
            return false;
    return true;
}
