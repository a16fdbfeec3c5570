/* cuda_loader.h: opening NVIDIA's libraries. */
#ifndef CUDA_LOADER_H
#define CUDA_LOADER_H

#include "backend/cuda/cuda_abi.h"
#include "base/crn_base.h"

/* Open all three libraries and find every function. CAIRN_ESYSTEM: the message says which library
 * or function is missing or too old. */
CAIRN_MUST cairn_status crn_cuda_load(crn_cuda_api *out, cairn_error *err);

/* Open only cuDNN and what it needs: its lists of plans work without a GPU. */
CAIRN_MUST cairn_status crn_cuda_load_cudnn(crn_cuda_api *out, cairn_error *err);

#endif
