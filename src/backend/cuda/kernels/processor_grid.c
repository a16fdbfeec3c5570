/* processor_grid.c: a kernel as loops over its blocks; grid.h makes the loops over threads. */
#include "backend/cuda/kernels/processor_grid.h"
#include "backend/cuda/kernels/grid.h"

/* Each kernel has its own argument type; these functions call it. */
#define RUN(name, args)                                                                            \
    void crn_##name##_block(const crn_##args *restrict p, crn_grid g);                             \
    static void run_##name(const void *p, crn_grid g) {                                            \
        crn_##name##_block(p, g);                                                                  \
    }
#define IMAGE(name, args)                                                                          \
    RUN(name##_f32, args)                                                                          \
    RUN(name##_bf16, args) RUN(name##_f32_narrow, args) RUN(name##_bf16_narrow, args)
#define TYPED(name, args) RUN(name##_f32, args) RUN(name##_bf16, args)
#define PLAIN(name, args) RUN(name, args)
#include "backend/cuda/kernels.def"
#undef IMAGE
#undef TYPED
#undef PLAIN

static void (*const functions[CRN_KERNELS])(const void *, crn_grid) = {
#define IMAGE(name, args)                                                                          \
    run_##name##_f32, run_##name##_bf16, run_##name##_f32_narrow, run_##name##_bf16_narrow,
#define TYPED(name, args) run_##name##_f32, run_##name##_bf16,
#define PLAIN(name, args) run_##name,
#include "backend/cuda/kernels.def"
#undef IMAGE
#undef TYPED
#undef PLAIN
};

void crn_kernel_run(const crn_launch *launch, const void *args, crn_grid_order order) {
    uint64_t all = (uint64_t)launch->blocks[0] * launch->blocks[1];
    for (uint64_t i = 0; i < all; i++) {
        uint64_t block = order == CRN_GRID_BACKWARDS ? all - 1 - i : i;
        crn_grid g = {.x = (uint32_t)(block % launch->blocks[0]),
                      .y = (uint32_t)(block / launch->blocks[0]),
                      .blocks = launch->blocks[0],
                      .threads = launch->threads,
                      .backwards = order == CRN_GRID_BACKWARDS};
        functions[launch->kernel](args, g);
    }
}
