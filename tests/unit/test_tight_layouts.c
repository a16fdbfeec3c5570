/* test_tight_layouts.c: lifetimes of steps of PyTorch in their smallest budgets, whose arenas are
 * full most of the time, with gradients that stay to the end: tests/data/lifetimes. */
#include "cairn.h"
#include "check.h"

#include <stdio.h>

#define UNIT 512u /* bytes; the files count in these */
#define MOST 2000u

static uint32_t read_lifetimes(const char *name, cairn_lifetime *lives) {
    char path[512];
    snprintf(path, sizeof path, "%s/lifetimes/%s.txt", CAIRN_TEST_DATA, name);
    FILE *file = fopen(path, "r");
    unsigned count = 0;
    CHECK(file != NULL);
    if (file == NULL)
        return 0;
    CHECK(fscanf(file, "%u", &count) == 1 && count <= MOST);
    for (uint32_t i = 0; i < count && i < MOST; i++) {
        unsigned long long units = 0;
        unsigned first = 0, last = 0;
        CHECK(fscanf(file, "%llu %u %u", &units, &first, &last) == 3);
        lives[i] = (cairn_lifetime){.bytes = units * UNIT, .first = first, .last = last};
    }
    fclose(file);
    return count <= MOST ? count : 0;
}

static uint64_t live_peak(const cairn_lifetime *lives, uint32_t count) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t live = 0; /* when lifetime i begins */
        for (uint32_t k = 0; k < count; k++)
            if (lives[k].first <= lives[i].first && lives[k].last >= lives[i].first)
                live += lives[k].bytes;
        peak = live > peak ? live : peak;
    }
    return peak;
}

/* How many pairs that are live together overlap, and how many offsets are not aligned. */
static uint32_t count_faults(const cairn_lifetime *lives, uint32_t count, const uint64_t *offsets) {
    uint32_t faults = 0;
    for (uint32_t i = 0; i < count; i++) {
        faults += offsets[i] % UNIT != 0;
        for (uint32_t k = 0; k < i; k++)
            faults += lives[i].first <= lives[k].last && lives[k].first <= lives[i].last &&
                      offsets[i] < offsets[k] + lives[k].bytes &&
                      offsets[k] < offsets[i] + lives[i].bytes;
    }
    return faults;
}

/* The arena is at most `permille` thousandths larger than the live peak. */
static void test_file(const char *name, uint64_t permille) {
    static cairn_lifetime lives[MOST];
    uint32_t count = read_lifetimes(name, lives);
    uint64_t peak = live_peak(lives, count);
    cairn_layout *layout;
    cairn_error err = {0};
    CHECK_OK(cairn_layout_create(NULL, lives, count, &layout, &err), &err);
    printf("%s: arena %.2f%% over the live peak\n", name,
           100.0 * (double)layout->arena_bytes / (double)peak - 100.0);
    CHECK(layout->arena_bytes >= peak);
    CHECK(layout->arena_bytes <= peak + peak * permille / 1000);
    CHECK_U64(count_faults(lives, count, layout->offsets), 0);
    cairn_layout_destroy(layout);
}

int main(void) {
    test_file("gpt_tight", 10);
    test_file("llama_tight", 10);
    test_file("vit_tight", 10);
    test_file("gpt_full", 10);
    test_file("gpt_moved", 10);
    test_file("vit_full", 10);
    return check_result();
}
