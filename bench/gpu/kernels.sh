#!/bin/sh
# kernels.sh [FOLDER]: on a machine with an NVIDIA GPU and nvcc: builds the kernels of the backend
# cuda for it, checks each against the processor bit for bit, times them, and prints the errors of
# convolutions in fp32. The files that it builds stay in FOLDER.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
kernels=src/backend/cuda/kernels
include=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")/include
[ -e "$include/cuda.h" ] || include=/usr/local/cuda/include
nvcc -std=c++17 -O3 -fmad=false -Isrc -gencode arch=compute_90a,code=sm_90a -cubin -o "$folder/kernels.cubin" \
    $kernels/kernels.cu
for program in kernel_check kernel_times conv_errors; do
    ${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -ffp-contract=off -Isrc -I"$include" -o "$folder/$program" \
        bench/gpu/$program.c $kernels/all_kernels.c $kernels/processor_grid.c \
        $kernels/kernel_launch.c $kernels/sequence_launch.c $kernels/attention_launch.c \
        $kernels/split_launch.c -ldl -lm
done
[ "${BUILD_ONLY:-}" = "" ] || exit 0
"$folder/kernel_check" "$folder/kernels.cubin"
"$folder/kernel_times" "$folder/kernels.cubin"
"$folder/conv_errors" "$folder/kernels.cubin"
