/* names.c: open addressing with linear probing, at most half full. */
#include "base/names.h"

cairn_status crn_names_init(crn_names *table, crn_arena *arena, uint32_t count) {
    if (count > UINT32_MAX / 4)
        return CAIRN_ENOMEM;
    uint32_t slots = 8;
    while (slots < 2 * count)
        slots *= 2;
    CRN_TAKE(arena, table->names, slots);
    CRN_TAKE(arena, table->ids, slots);
    table->mask = slots - 1;
    return CAIRN_OK;
}

/* The slot that holds the name, or the free one where it would go. */
static uint32_t slot_of(const crn_names *table, const char *name) {
    uint32_t slot = (uint32_t)crn_hash_bytes(CRN_HASH_START, name, strlen(name)) & table->mask;
    while (table->names[slot] != NULL && strcmp(table->names[slot], name) != 0)
        slot = (slot + 1) & table->mask;
    return slot;
}

uint32_t crn_names_add(crn_names *table, const char *name, uint32_t id) {
    uint32_t slot = slot_of(table, name);
    if (table->names[slot] != NULL)
        return table->ids[slot];
    table->names[slot] = name;
    table->ids[slot] = id;
    return CRN_NO_NAME;
}

uint32_t crn_names_find(const crn_names *table, const char *name) {
    uint32_t slot = slot_of(table, name);
    return table->names[slot] == NULL ? CRN_NO_NAME : table->ids[slot];
}
