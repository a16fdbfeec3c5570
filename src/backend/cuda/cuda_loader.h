/* cuda_loader.h: opening NVIDIA's libraries. */
#ifndef CUDA_LOADER_H
#define CUDA_LOADER_H

#include "backend/cuda/cuda_abi.h"
#include "base/crn_base.h"

/* Open all three and find every entry. CAIRN_ESYSTEM: one sentence says which library or entry is
 * missing or too old. */
CAIRN_MUST cairn_status crn_cuda_load(crn_cuda_api *out, cairn_error *err);

/* cuDNN and what it needs alone: its lists can be asked for without a GPU. */
CAIRN_MUST cairn_status crn_cuda_load_cudnn(crn_cuda_api *out, cairn_error *err);

#endif
