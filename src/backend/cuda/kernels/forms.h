/* forms.h: all kernels with several forms, in one form; no guard. See pack.h. */
#include "backend/cuda/kernels/pack.h"
#include "backend/cuda/kernels/sum_tree.h"
#include "backend/cuda/kernels/norm_kernels.h"
#include "backend/cuda/kernels/norm_bwd_kernels.h"
#include "backend/cuda/kernels/pointwise_kernels.h"
#include "backend/cuda/kernels/column_kernels.h"
#include "backend/cuda/kernels/pool_kernels.h"
#include "backend/cuda/kernels/depthwise_kernels.h"
#if PACK > 1 /* kernels that always take one element at a time have one form per type */
#include "backend/cuda/kernels/direct_kernels.h"
#include "backend/cuda/kernels/layout_kernels.h"
#include "backend/cuda/kernels/loss_kernels.h"
#include "backend/cuda/kernels/cell_kernels.h"
#include "backend/cuda/kernels/attention_kernels.h"
#endif
#include "backend/cuda/kernels/pack_end.h"
