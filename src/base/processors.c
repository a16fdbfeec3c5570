/* processors.c: see processors.h. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/processors.h"

#include "base/crn_base.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 256

/* The first number of OMP_NUM_THREADS, which may be a list; 0: not set, or no number. */
static uint32_t asked(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    unsigned long value = text == NULL || text[0] == '-' ? 0 : strtoul(text, NULL, 10);
    return (uint32_t)CRN_MIN(value, MOST);
}

/* Processors that the process may run on. A machine may have more than a cpu_set_t has. */
static uint32_t allowed(void) {
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    return online > 0 ? (uint32_t)online : 1;
}

/* Processors that a file "QUOTA PERIOD" pays for, rounded up; UINT32_MAX: no limit ("max"). */
static uint32_t quota_of(const char *folder) {
    char path[4200];
    unsigned long long quota = 0, period = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    FILE *file = fopen(path, "r");
    bool limited = file != NULL && fscanf(file, "%llu %llu", &quota, &period) == 2;
    if (file != NULL)
        fclose(file);
    if (!limited || quota == 0 || period == 0)
        return UINT32_MAX;
    return (uint32_t)CRN_MIN((quota - 1) / period + 1, MOST);
}

/* The least quota of the process's control group and the groups around it. */
static uint32_t paid(void) {
    char line[4096] = "";
    uint32_t least = UINT32_MAX;
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && strncmp(line, "0::", 3) != 0)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
    if (line[0] == '\0')
        return least;
    char *folder = line + 3;
    folder[strcspn(folder, "\n")] = '\0';
    for (char *slash; (slash = strrchr(folder, '/')) != NULL; *slash = '\0')
        least = CRN_MIN(least, quota_of(folder));
    return CRN_MIN(least, quota_of(""));
}

uint32_t crn_processors(void) {
    uint32_t count = asked();
    if (count > 0)
        return count;
    count = CRN_MIN(allowed(), paid());
    return CRN_MIN(count, MOST);
}
