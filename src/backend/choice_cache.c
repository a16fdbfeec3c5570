/* choice_cache.c: see choice_cache.h. It is a hash table with lists; entries are never removed. */
#include "backend/choice_cache.h"

#define LISTS 1024u /* a large network has some hundred signatures */

typedef struct entry {
    struct entry *next;
    const char *signature;
    crn_choice *choices;
    uint32_t count;
} entry;

struct crn_choice_cache {
    crn_arena memory; /* the cache itself is allocated in it */
    entry *lists[LISTS];
};

cairn_status crn_choice_cache_create(const cairn_allocator *allocator, crn_choice_cache **out) {
    *out = CRN_OBJECT(allocator, crn_choice_cache, memory);
    return *out == NULL ? CAIRN_ENOMEM : CAIRN_OK;
}

void crn_choice_cache_destroy(crn_choice_cache *cache, const crn_backend *backend,
                              crn_device *device) {
    if (cache == NULL)
        return;
    for (uint32_t l = 0; l < LISTS; l++)
        for (entry *e = cache->lists[l]; e != NULL; e = e->next)
            for (uint32_t i = 0; i < e->count; i++)
                backend->drop(device, &e->choices[i]);
    crn_arena_destroy(&cache->memory);
}

static void put_storage(cairn_text *text, const crn_site *site, const cairn_id *list,
                        uint32_t count) {
    crn_text_put(text, ";", 1);
    for (uint32_t i = 0; i < count; i++) {
        crn_storage s = {.block = 0}; /* a result that is not computed */
        if (list[i] != CAIRN_NONE)
            s = site->storage[list[i]];
        crn_text_printf(text, " %llu.%u.%u.%u", (unsigned long long)s.bytes, s.block,
                        (unsigned)s.format, (unsigned)s.type);
    }
}

/* Everything that the implementations depend on, as a text. */
static cairn_status describe(const crn_site *site, cairn_id op, cairn_text *out) {
    CRN_TRY(cairn_op_signature(site->graph, op, out));
    put_storage(out, site, site->op->inputs, site->op->input_count);
    put_storage(out, site, site->op->params, site->op->param_count);
    put_storage(out, site, site->op->outputs, site->op->output_count);
    return crn_text_finish(out);
}

static uint32_t list_of(const char *signature) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *signature != '\0'; signature++)
        hash = (hash ^ (uint8_t)*signature) * 0x100000001b3u;
    return (uint32_t)((hash ^ hash >> 32) % LISTS);
}

/* Make an entry that is not in the table yet. */
static cairn_status make_entry(crn_choice_cache *cache, const crn_backend *backend,
                               crn_device *device, const crn_site *site, const char *signature,
                               entry **out, cairn_error *err) {
    entry *e;
    CRN_TAKE(&cache->memory, e, 1);
    e->signature = crn_arena_string(&cache->memory, signature);
    e->choices = crn_arena_take(&cache->memory, CRN_MOST_CHOICES, sizeof *e->choices);
    if (e->signature == NULL || e->choices == NULL)
        return CAIRN_ENOMEM;
    CRN_TRY(backend->choices(device, site, e->choices, &e->count, err));
    *out = e;
    return CAIRN_OK;
}

cairn_status crn_choice_cache_get(crn_choice_cache *cache, const crn_backend *backend,
                                  crn_device *device, const crn_site *site, cairn_id op,
                                  const crn_choice **out, uint32_t *count, cairn_error *err) {
    cairn_text signature;
    if (describe(site, op, &signature) != CAIRN_OK)
        return crn_fail_memory(err);
    entry **list = &cache->lists[list_of(signature.data)], *e = *list;
    while (e != NULL && strcmp(e->signature, signature.data) != 0)
        e = e->next;
    cairn_status status = CAIRN_OK;
    if (e == NULL) {
        status = make_entry(cache, backend, device, site, signature.data, &e, err);
        if (status == CAIRN_OK) {
            e->next = *list;
            *list = e;
        }
    }
    cairn_text_release(&signature);
    if (status != CAIRN_OK)
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    *out = e->choices;
    *count = e->count;
    return CAIRN_OK;
}
