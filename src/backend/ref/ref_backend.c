/* ref_backend.c: the reference: plain C on the processor, the truth that other backends are tested
 * against. Kernels come from ref_kernels.def; memory and copies are the processor's own. */
#include "backend/processor.h"
#include "backend/ref/ref_internal.h"

extern const crn_backend crn_backend_ref;

static const crn_kernel kernels[] = {
#define X(kind, function, wanted) {.name = "ref", .workspace = wanted, .run = crn_ref_##function},
#include "backend/ref/ref_kernels.def"
#undef X
};

static const cairn_op_kind kinds[] = {
#define X(kind, function, workspace) CAIRN_OP_##kind,
#include "backend/ref/ref_kernels.def"
#undef X
};

static const crn_kernel *ref_kernels(cairn_op_kind kind, uint32_t *count) {
    uint32_t first = 0, end;
    while (first < CRN_LENGTH(kinds) && kinds[first] != kind)
        first++;
    for (end = first; end < CRN_LENGTH(kinds) && kinds[end] == kind;)
        end++;
    *count = end - first;
    return *count > 0 ? &kernels[first] : NULL;
}

const crn_backend crn_backend_ref = {
    .name = "ref",
    .summary = "plain C, readable; the truth for tests",
    .open = crn_processor_open,
    .close = crn_processor_close,
    .threads = crn_processor_threads,
    .reserve = crn_processor_reserve,
    .release = crn_processor_release,
    .copy = crn_processor_copy,
    .wait = crn_processor_wait,
    .kernels = ref_kernels,
};
