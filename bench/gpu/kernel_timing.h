/* kernel_timing.h: operands and clock of kernel_times.c.
 *
 * Each case is recorded REPEATS times into a graph, with operands that are together larger than the
 * cache, and the graph is replayed. Printed are the microseconds of one run (the median of several
 * replays), and the bytes that the case must read and write divided by that time. */
#ifndef KERNEL_TIMING_H
#define KERNEL_TIMING_H

#include "gpu_driver.h"

#include <stdarg.h>

#define REPEATS 20
#define REPLAYS 9
#define CACHE ((size_t)256 << 20) /* the operands of a case are together at least this large */
#define MEMORY ((size_t)24 << 30)

static CUdeviceptr memory;
static size_t next; /* free from here */
static size_t rotation, turns;

/* ---- Operands: each turn has its own ---- */

static void *take(size_t bytes) {
    void *at = (void *)(uintptr_t)(memory + next);
    next += (bytes + 255) / 256 * 256;
    if (next > MEMORY) {
        fprintf(stderr, "a case is larger than the memory\n");
        exit(1);
    }
    return at;
}

/* An operand of turn `rotation`; the turns follow each other in memory. */
static char *turn(void *first, size_t bytes) {
    return (char *)first + (rotation % turns) * ((bytes + 255) / 256 * 256);
}

static void begin(size_t bytes) { /* `bytes` is what a run accesses */
    next = 0;
    rotation = 0;
    turns = CACHE / (bytes + 1) + 1;
    turns = turns > REPEATS ? REPEATS : turns;
}

static void *operand(size_t bytes) {
    void *at = take(turns * ((bytes + 255) / 256 * 256));
    return at;
}

static void *small_operand(size_t bytes) {
    return take(bytes);
}

/* ---- Timing ---- */

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

typedef void run_case(void *context);

/* `run` starts the kernels of one run on the stream; `bytes` is what one run must move. */
static void time_case(run_case *run, void *context, size_t bytes, const char *format, ...) {
    CUgraph graph;
    CUgraphExec exec;
    CUevent from, to;
    float ms[REPLAYS];
    char name[120];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    GPU(cuStreamBeginCapture, gpu.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (rotation = 0; rotation < REPEATS; rotation++)
        run(context);
    GPU(cuStreamEndCapture, gpu.stream, &graph);
    GPU(cuGraphInstantiate, &exec, graph, 0);
    GPU(cuEventCreate, &from, CU_EVENT_DEFAULT);
    GPU(cuEventCreate, &to, CU_EVENT_DEFAULT);
    for (int i = -2; i < REPLAYS; i++) {
        float passed;
        GPU(cuEventRecord, from, gpu.stream);
        GPU(cuGraphLaunch, exec, gpu.stream);
        GPU(cuEventRecord, to, gpu.stream);
        GPU(cuEventSynchronize, to);
        GPU(cuEventElapsedTime, &passed, from, to);
        if (i >= 0)
            ms[i] = passed;
    }
    qsort(ms, REPLAYS, sizeof *ms, by_size);
    double microseconds = 1000.0 * ms[REPLAYS / 2] / REPEATS;
    printf("%-58s %9.2f us %8.0f GB/s\n", name, microseconds, (double)bytes / microseconds / 1000);
    fflush(stdout);
    GPU(cuGraphExecDestroy, exec);
    GPU(cuGraphDestroy, graph);
}

static const char *type_name(uint32_t element) {
    return element == CRN_ELEMENT_BF16 ? "bf16" : "f32";
}

#endif
