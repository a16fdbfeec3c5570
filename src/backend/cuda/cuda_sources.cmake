# The host code of the backend cuda. Its kernels are compiled by cmake/CudaKernels.cmake.
list(APPEND CAIRN_SOURCES
    src/backend/cuda/cuda_backend.c src/backend/cuda/cuda_context.c src/backend/cuda/cuda_loader.c src/backend/cuda/cuda_device.c
    src/backend/cuda/cuda_storage.c src/backend/cuda/cuda_choices.c src/backend/cuda/cuda_queue.c
    src/backend/cuda/cuda_update.c src/backend/cuda/cuda_record.c src/backend/cuda/cuda_fuse.c
    src/backend/cuda/hazards.c src/backend/cuda/dnn_plans.c src/backend/cuda/blas_products.c
    src/backend/cuda/work.c src/backend/cuda/conv_ops.c src/backend/cuda/dense_ops.c
    src/backend/cuda/norm_ops.c src/backend/cuda/image_ops.c src/backend/cuda/pointwise_ops.c
    src/backend/cuda/attention_ops.c src/backend/cuda/attention_plans.c src/backend/cuda/dnn_graphs.c
    src/backend/cuda/hopper_ops.c src/backend/cuda/sequence_ops.c src/backend/cuda/kernels/kernel_launch.c
    src/backend/cuda/kernels/attention_launch.c src/backend/cuda/kernels/sequence_launch.c
    src/backend/cuda/kernels/split_launch.c)
if(CAIRN_CUDA_FATBIN)
    list(APPEND CAIRN_SOURCES src/backend/cuda/embedded_kernels.c)
else()
    list(APPEND CAIRN_SOURCES src/backend/cuda/no_kernels.c)
endif()
