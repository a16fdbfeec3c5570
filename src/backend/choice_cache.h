/* choice_cache.h: a cache of the implementations of ops on a device; each is built once.
 *
 * The implementations of an op depend only on its signature (kind, attributes, shapes) and on how
 * its operands are stored. So equal ops share them: in one network, in another network, and in
 * another executor. */
#ifndef CRN_CHOICE_CACHE_H
#define CRN_CHOICE_CACHE_H

#include "backend/backend.h"

CAIRN_MUST cairn_status crn_choice_cache_create(const cairn_allocator *allocator,
                                                crn_choice_cache **out);

/* Release every recipe; `cache` may be NULL. */
void crn_choice_cache_destroy(crn_choice_cache *cache, const crn_backend *backend,
                              crn_device *device);

/* The implementations of the op at a site. The backend is called only the first time. O(1). */
CAIRN_MUST cairn_status crn_choice_cache_get(crn_choice_cache *cache, const crn_backend *backend,
                                             crn_device *device, const crn_site *site, cairn_id op,
                                             const crn_choice **out, uint32_t *count,
                                             cairn_error *err);

#endif
