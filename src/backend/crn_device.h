/* crn_device.h: what the rest of the library asks a device and embedders need not. */
#ifndef CRN_DEVICE_H
#define CRN_DEVICE_H

#include "cairn/device.h"
#include "cairn/optimizer.h"

/* Names as options and files have them; NULL past the end of the list. */
const char *crn_math_name(cairn_math math);
const char *crn_optimizer_name(cairn_optimizer optimizer);
const char *crn_decay_name(cairn_decay decay);

/* Memory of the host from which the device copies fastest (pinned, where that means something), for
 * code that makes its inputs. Zeroed. CAIRN_ESYSTEM: refused. */
CAIRN_MUST cairn_status crn_device_host_reserve(cairn_device *device, uint64_t bytes, void **out,
                                                cairn_error *err);
void crn_device_host_release(cairn_device *device, void *memory, uint64_t bytes);

#endif
