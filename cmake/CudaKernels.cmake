# The kernels of the backend cuda. If there is an nvcc, it compiles them, and they are embedded in
# the library. CAIRN_CUDA: AUTO (if nvcc is found), ON (nvcc is required) or OFF. Sets
# CAIRN_CUDA_FATBIN to the file that is embedded, or to nothing. No library of CUDA is linked.
set(CAIRN_CUDA AUTO CACHE STRING "compile kernels for NVIDIA GPUs, which needs nvcc: AUTO, ON or OFF")
find_program(CAIRN_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
if(CAIRN_CUDA STREQUAL "ON" AND NOT CAIRN_NVCC)
    message(FATAL_ERROR "CAIRN_CUDA is ON, and nvcc is not found: put it on the PATH or set CAIRN_NVCC")
endif()

if(CAIRN_NVCC AND NOT CAIRN_CUDA STREQUAL "OFF")
    set(kernels ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels)
    set(CAIRN_CUDA_FATBIN ${CMAKE_CURRENT_BINARY_DIR}/generated/cuda/kernels.fatbin)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/generated/cuda)
    file(GLOB kernel_headers CONFIGURE_DEPENDS ${kernels}/*.h)
    add_custom_command(OUTPUT ${CAIRN_CUDA_FATBIN} VERBATIM
        DEPENDS ${kernels}/kernels.cu ${kernels}/all_kernels.c ${kernel_headers}
            ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels.h
            ${PROJECT_SOURCE_DIR}/src/backend/cuda/attention_args.h
            ${PROJECT_SOURCE_DIR}/src/backend/cuda/split_args.h
            ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels.def
        COMMAND ${CAIRN_NVCC} -fatbin -std=c++17 -O3 -fmad=false -Xfatbin -compress-all
            -I${PROJECT_SOURCE_DIR}/src
            -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a
            -gencode arch=compute_90,code=compute_90 ${kernels}/kernels.cu -o ${CAIRN_CUDA_FATBIN}
        COMMENT "Compiling kernels for GPUs")
    # Instructions of sm_90a run on compute capability 9.0 only, so this is a file of its own.
    set(hopper ${CMAKE_CURRENT_BINARY_DIR}/generated/cuda/hopper.fatbin)
    add_custom_command(OUTPUT ${hopper} VERBATIM
        DEPENDS ${kernels}/hopper_attention.cu ${kernels}/hopper_instructions.h
            ${PROJECT_SOURCE_DIR}/src/backend/cuda/hopper_args.h
            ${PROJECT_SOURCE_DIR}/src/backend/cuda/tensor_map.h
        COMMAND ${CAIRN_NVCC} -fatbin -std=c++17 -O3 -Xfatbin -compress-all
            -I${PROJECT_SOURCE_DIR}/src -gencode arch=compute_90a,code=sm_90a
            ${kernels}/hopper_attention.cu -o ${hopper}
        COMMENT "Compiling kernels for compute capability 9.0")
    set_source_files_properties(src/backend/cuda/embedded_kernels.c PROPERTIES
        OBJECT_DEPENDS "${CAIRN_CUDA_FATBIN};${hopper}"
        COMPILE_DEFINITIONS "CRN_CUDA_FATBIN=\"${CAIRN_CUDA_FATBIN}\";CRN_CUDA_HOPPER=\"${hopper}\"")
else()
    if(CAIRN_CUDA STREQUAL "OFF")
        set(why "it was configured with CAIRN_CUDA=OFF")
    else()
        set(why "nvcc was not found when it was configured")
    endif()
    set(CAIRN_CUDA_FATBIN "")
    set_source_files_properties(src/backend/cuda/no_kernels.c PROPERTIES
        COMPILE_DEFINITIONS "CRN_CUDA_WHY=\"${why}\"")
endif()
