/* host_memory.c: see host_memory.h. */
#include "base/host_memory.h"

#include <stdio.h>
#include <unistd.h>

uint64_t crn_host_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

uint64_t crn_host_memory_free(void) {
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return (uint64_t)kib * 1024;
}
