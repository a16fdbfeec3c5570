/* process.c: what concerns the whole process: its allocator, and the memory that it holds. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const cairn_allocator *chosen;

void cli_use_allocator(const cairn_allocator *allocator) {
    chosen = allocator;
}

const cairn_allocator *cli_allocator(void) {
    return chosen;
}

/* A line of /proc/self/status, which is in KiB, in bytes. */
static uint64_t read_status(const char *name) {
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0 &&
            sscanf(line + strlen(name), "%llu", &kib) == 1)
            break;
    fclose(file);
    return (uint64_t)kib * 1024;
}

uint64_t cli_resident_bytes(void) {
    return read_status("VmRSS:");
}

uint64_t cli_resident_peak_bytes(void) {
    return read_status("VmHWM:");
}
