/* processor.h: the memory and the copies of backends that run on the processor itself: mapped
 * memory, and two copy lanes that are threads (copy_lane.h). */
#ifndef CRN_PROCESSOR_H
#define CRN_PROCESSOR_H

#include "backend/backend.h"

CAIRN_MUST cairn_status crn_processor_open(const crn_device_options *options, crn_device **out,
                                           cairn_error *err);
void crn_processor_close(crn_device *device);
crn_pool *crn_processor_threads(crn_device *device);
CAIRN_MUST cairn_status crn_processor_reserve(crn_device *device, crn_pool_kind pool,
                                              uint64_t bytes, void **out, cairn_error *err);
void crn_processor_release(crn_device *device, crn_pool_kind pool, void *region, uint64_t bytes);
crn_event crn_processor_copy(crn_device *device, crn_lane lane, void *to, const void *from,
                             uint64_t bytes);
void crn_processor_wait(crn_device *device, crn_event event);

#endif
