/* choice_cache.h: the implementations of ops that a device was asked for, each built once.
 *
 * What an op's implementations are depends on its signature (kind, attributes, shapes) and on how
 * its operands are stored, and on nothing else: equal ops of a network, of its runs, of another
 * network and of another executor share them. */
#ifndef CRN_CHOICE_CACHE_H
#define CRN_CHOICE_CACHE_H

#include "backend/backend.h"

CAIRN_MUST cairn_status crn_choice_cache_create(const cairn_allocator *allocator,
                                                crn_choice_cache **out);

/* Gives every recipe back to the device; `cache` may be NULL. */
void crn_choice_cache_destroy(crn_choice_cache *cache, const crn_backend *backend,
                              crn_device *device);

/* The implementations of the op at a site, asked of the backend the first time. O(1). */
CAIRN_MUST cairn_status crn_choice_cache_get(crn_choice_cache *cache, const crn_backend *backend,
                                             crn_device *device, const crn_site *site, cairn_id op,
                                             const crn_choice **out, uint32_t *count,
                                             cairn_error *err);

#endif
