/* cpu_backend.c: the fast backend for processors: kernels of oneDNN and Cairn's own
 * (cpu_kernels.def), else those of the reference. Memory and copies are those of processor.h; loops
 * run on the threads of oneDNN. */
#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/recipe.h"

#include <pthread.h>

extern const crn_backend crn_backend_cpu;

/* ---- Kernels from builders ---- */

#define KERNEL(kind, function, fits, workspace)
#define RECIPE(kind, builder)                                                                      \
    static cairn_status build_##builder(const crn_site *site, const cairn_allocator *allocator,    \
                                        void **out, uint64_t *workspace) {                         \
        return crn_recipe_build(site, allocator, crn_prepare_##builder, out, workspace);           \
    }
#include "backend/cpu/cpu_kernels.def"
#undef RECIPE
#undef KERNEL

/* ---- The list: after the kernels of each kind comes the reference ---- */

#define MOST_OF_A_KIND 3

static const crn_kernel fallback = {.name = "ref",
                                    .last_resort = true,
                                    .fits = crn_cpu_fallback_fits,
                                    .workspace = crn_cpu_fallback_workspace,
                                    .run = crn_cpu_fallback};

static const struct {
    cairn_op_kind kind;
    crn_kernel kernel;
} kernels[] = {
#define KERNEL(k, function, can, wanted)                                                           \
    {CAIRN_OP_##k, {.name = "own", .fits = can, .workspace = wanted, .run = crn_cpu_##function}},
#define RECIPE(k, builder)                                                                         \
    {CAIRN_OP_##k,                                                                                 \
     {.name = "onednn",                                                                            \
      .build = build_##builder,                                                                    \
      .drop = crn_recipe_drop,                                                                     \
      .prepare = crn_recipe_prepare,                                                               \
      .finish = crn_recipe_finish,                                                                 \
      .run = crn_recipe_run}},
#include "backend/cpu/cpu_kernels.def"
#undef RECIPE
#undef KERNEL
};

static crn_kernel of_kind[CAIRN_OP_KINDS][MOST_OF_A_KIND];
static uint32_t counts[CAIRN_OP_KINDS];

static void sort_by_kind(void) {
    for (size_t i = 0; i < CRN_LENGTH(kernels); i++)
        of_kind[kernels[i].kind][counts[kernels[i].kind]++] = kernels[i].kernel;
    for (int kind = 0; kind < CAIRN_OP_KINDS; kind++)
        of_kind[kind][counts[kind]++] = fallback;
}

static const crn_kernel *kernels_of(cairn_op_kind kind, uint32_t *count) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, sort_by_kind);
    if (kind == CAIRN_OP_HEAD_LOSS) {
        *count = CRN_HEAD_CHOICES;
        return crn_cpu_heads;
    }
    *count = counts[kind];
    return of_kind[kind];
}

static cairn_status open_cpu(const crn_device_options *options, crn_device **out,
                             cairn_error *err) {
    crn_device_options granted = *options;
    *out = NULL;
    if (options->math == CAIRN_MATH_BF16 && !crn_cpu_has_bf16())
        return crn_fail(
            err, CAIRN_EINVAL,
            "this processor has no instructions for bf16 (AVX512_BF16) that oneDNN uses; "
            "the backend cpu computes in fp32 here");
    granted.threads = crn_cpu_granted(options->threads);
    return crn_processor_open(&granted, kernels_of, crn_cpu_team, out, err);
}

const crn_backend crn_backend_cpu = {
    .name = "cpu",
    .summary = "oneDNN and vectorised C",
    .open = open_cpu,
    .store = crn_cpu_store,
    CRN_PROCESSOR,
};
