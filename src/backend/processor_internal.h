/* processor_internal.h: shared by the files that implement processor.h. */
#ifndef CRN_PROCESSOR_INTERNAL_H
#define CRN_PROCESSOR_INTERNAL_H

#include "backend/copy_lane.h"
#include "backend/processor.h"

struct crn_device {
    cairn_allocator allocator;
    crn_kernel_list *kernels;
    crn_team *threads;
    crn_copy_lane lanes[2]; /* out, in */
    bool half;              /* with CAIRN_MATH_BF16 */
};

/* The point that a lane had reached when an event was recorded. */
typedef struct crn_recorded {
    crn_lane lane;
    uint64_t copies; /* of a copy lane: how many copies were queued */
    int64_t at_ns;   /* of the compute lane, if events are timed */
} crn_recorded;

struct crn_queue {
    crn_device *device;
    crn_values values;
    crn_results results;
    crn_recorded *events;
    uint32_t event_count;
    bool timed;
    cairn_error failure; /* its status is CAIRN_OK while there is none */
};

#endif
