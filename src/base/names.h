/* names.h: a hash table from names to ids, filled once and then read. */
#ifndef CRN_NAMES_H
#define CRN_NAMES_H

#include "base/crn_base.h"

#define CRN_NO_NAME UINT32_MAX

typedef struct crn_names {
    const char **names; /* borrowed; NULL: a free slot */
    uint32_t *ids;
    uint32_t mask;
} crn_names;

/* Room for `count` names. */
CAIRN_MUST cairn_status crn_names_init(crn_names *table, crn_arena *arena, uint32_t count);

/* CRN_NO_NAME after adding, or the id that has the name already. */
uint32_t crn_names_add(crn_names *table, const char *name, uint32_t id);
uint32_t crn_names_find(const crn_names *table, const char *name);

/* FNV-1a over bytes, continued from `hash`; start with CRN_HASH_START. */
#define CRN_HASH_START 0xcbf29ce484222325u
static inline uint64_t crn_hash_bytes(uint64_t hash, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

#endif
