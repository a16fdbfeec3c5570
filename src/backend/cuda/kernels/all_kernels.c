/* all_kernels.c: every kernel in every form. For nvcc (kernels.cu, -fmad=false) these are kernels
 * for a GPU. For a C compiler (-ffp-contract=off) they are functions that run one block, see
 * grid.h. */
#include "backend/cuda/kernels/columns.h"
#include "backend/cuda/kernels/spans.h"
#include "backend/cuda/kernels/block_sums.h"
#include "backend/cuda/kernels/plain_kernels.h"
#include "backend/cuda/kernels/list_kernels.h"
#include "backend/cuda/kernels/split_forms.h"

#define FORM_SUFFIX f32
#define FORM_BF16 0
#define PACK 4
#include "backend/cuda/kernels/forms.h"

#define FORM_SUFFIX bf16
#define FORM_BF16 1
#define PACK 8
#include "backend/cuda/kernels/forms.h"

#define FORM_SUFFIX f32_narrow
#define FORM_BF16 0
#define PACK 1
#include "backend/cuda/kernels/forms.h"

#define FORM_SUFFIX bf16_narrow
#define FORM_BF16 1
#define PACK 1
#include "backend/cuda/kernels/forms.h"
