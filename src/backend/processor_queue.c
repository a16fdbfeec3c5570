/* processor_queue.c: queues of processor.h: events, lanes and joining.
 *
 * The compute lane is the calling thread. Everything that it did before a call has ended, so
 * nothing has to wait for its events, and a copy lane never has to follow it. An event of a copy
 * lane is a number of copies; waiting for it on the compute lane blocks. */
#include "backend/processor_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static crn_copy_lane *lane_of(crn_queue *queue, crn_lane lane) {
    return &queue->device->lanes[lane == CRN_COPY_OUT ? 0 : 1];
}

/* ---- Create and finish ---- */

cairn_status crn_processor_queue(crn_device *device, crn_queue **out, cairn_error *err) {
    *out = crn_resize(&device->allocator, NULL, 0, sizeof **out);
    if (*out == NULL)
        return crn_fail_memory(err);
    **out = (crn_queue){.device = device};
    return CAIRN_OK;
}

static void release_events(crn_queue *queue) {
    if (queue->events != NULL)
        crn_resize(&queue->device->allocator, queue->events,
                   queue->event_count * sizeof *queue->events, 0);
    queue->events = NULL;
    queue->event_count = 0;
}

void crn_processor_finish_queue(crn_queue *queue) {
    if (queue == NULL)
        return;
    release_events(queue);
    cairn_allocator allocator = queue->device->allocator;
    crn_resize(&allocator, queue, sizeof *queue, 0);
}

const crn_values *crn_processor_values(crn_queue *queue) {
    return &queue->values;
}

cairn_status crn_processor_events(crn_queue *queue, uint32_t count, bool timed, cairn_error *err) {
    release_events(queue);
    queue->timed = timed;
    if (count == 0)
        return CAIRN_OK;
    queue->events = crn_resize(&queue->device->allocator, NULL, 0, count * sizeof *queue->events);
    if (queue->events == NULL)
        return crn_fail_memory(err);
    memset(queue->events, 0, count * sizeof *queue->events);
    queue->event_count = count;
    return CAIRN_OK;
}

/* ---- Lanes ---- */

void crn_processor_copy(crn_queue *queue, crn_lane lane, void *to, const void *from,
                        uint64_t bytes) {
    crn_copy_lane_copy(lane_of(queue, lane), to, from, bytes);
}

void crn_processor_record(crn_queue *queue, crn_lane lane, crn_event event) {
    crn_recorded *recorded = &queue->events[event];
    recorded->lane = lane;
    if (lane != CRN_COMPUTE)
        recorded->copies = crn_copy_lane_asked(lane_of(queue, lane));
    else if (queue->timed)
        recorded->at_ns = now();
}

void crn_processor_follow(crn_queue *queue, crn_lane lane, crn_event event) {
    const crn_recorded *recorded = &queue->events[event];
    if (recorded->lane == CRN_COMPUTE || recorded->lane == lane)
        return;
    int64_t start = now();
    crn_copy_lane_wait(lane_of(queue, recorded->lane), recorded->copies);
    if (lane == CRN_COMPUTE)
        queue->results.idle_ns += now() - start;
}

int64_t crn_processor_elapsed_ns(crn_queue *queue, crn_event from, crn_event to) {
    return queue->events[to].at_ns - queue->events[from].at_ns;
}

void crn_queue_fail(crn_queue *queue, cairn_status status, const char *format, ...) {
    if (queue->failure.status != CAIRN_OK)
        return;
    va_list arguments;
    queue->failure.status = status;
    va_start(arguments, format);
    vsnprintf(queue->failure.message, sizeof queue->failure.message, format, arguments);
    va_end(arguments);
}

cairn_status crn_processor_join(crn_queue *queue, crn_results *results, cairn_error *err) {
    for (int i = 0; i < 2; i++) {
        crn_copy_lane *lane = &queue->device->lanes[i];
        crn_copy_lane_wait(lane, crn_copy_lane_asked(lane));
    }
    if (results != NULL)
        *results = queue->results;
    cairn_status status = queue->failure.status;
    if (status == CAIRN_OK)
        return CAIRN_OK;
    if (err != NULL)
        *err = queue->failure;
    queue->failure = (cairn_error){.status = CAIRN_OK};
    return status;
}
