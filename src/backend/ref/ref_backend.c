/* ref_backend.c: the reference: plain C on the processor. Other backends are tested against it.
 * Kernels come from ref_kernels.def; memory and copies are those of processor.h. */
#include "backend/ref/ref_kernels.h"

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

const crn_kernel *crn_ref_kernels(cairn_op_kind kind, uint32_t *count) {
    uint32_t first = 0, end;
    if (kind == CAIRN_OP_HEAD_LOSS) {
        *count = CRN_HEAD_CHOICES;
        return crn_ref_heads;
    }
    while (first < CRN_LENGTH(kinds) && kinds[first] != kind)
        first++;
    for (end = first; end < CRN_LENGTH(kinds) && kinds[end] == kind;)
        end++;
    *count = end - first;
    return *count > 0 ? &kernels[first] : NULL;
}

static cairn_status open_ref(const crn_device_options *options, crn_device **out,
                             cairn_error *err) {
    *out = NULL;
    if (options->math == CAIRN_MATH_BF16)
        return crn_fail(err, CAIRN_EINVAL, "the backend ref computes in fp32, not in bf16");
    return crn_processor_open(options, crn_ref_kernels, NULL, out, err);
}

const crn_backend crn_backend_ref = {
    .name = "ref",
    .summary = "plain C, readable; the truth for tests",
    .open = open_ref,
    CRN_PROCESSOR,
};
