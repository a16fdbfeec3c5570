/* quantiles.h: median and quartiles of a few measurements. */
#ifndef CLI_QUANTILES_H
#define CLI_QUANTILES_H

#include <stdint.h>

typedef struct cli_quantiles {
    int64_t low, median, high;
} cli_quantiles;

/* Of `count` values, which are sorted for it; all 0 of none. */
cli_quantiles cli_quantiles_of(int64_t *values, uint32_t count);

#endif
