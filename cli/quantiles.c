/* quantiles.c: see quantiles.h. */
#include "quantiles.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

cli_quantiles cli_quantiles_of(int64_t *values, uint32_t count) {
    if (count == 0)
        return (cli_quantiles){0};
    qsort(values, count, sizeof *values, compare);
    uint32_t quarter = (count - 1) / 4;
    return (cli_quantiles){values[quarter], (values[(count - 1) / 2] + values[count / 2]) / 2,
                           values[count - 1 - quarter]};
}
