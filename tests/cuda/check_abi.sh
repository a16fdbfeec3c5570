#!/bin/sh
# check_abi.sh ROOT: compile check_abi.cpp with NVIDIA's headers, as far as they are found: those of
# the toolkit that nvcc belongs to, and cuDNN's there, in /usr/include, or in the folders that
# CAIRN_NVIDIA_INCLUDE names, separated by colons. Exits with 77 if there are none.
set -eu
root=$1
command -v g++ >/dev/null || { echo "no g++ here"; exit 77; }
places="/usr/local/cuda/include /usr/include $(echo "${CAIRN_NVIDIA_INCLUDE:-}" | tr ':' ' ')"
if command -v nvcc >/dev/null; then
    places="$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")/include $places"
fi
flags=""
found() { # found HEADER: is it in one of the places? Its folder is added to the flags.
    for place in $places; do
        if [ -e "$place/$1" ]; then
            flags="$flags -isystem $place"
            return 0
        fi
    done
    echo "no $1 here"
    return 1
}

# Every constant is in the list.
if grep -n -E 'CRN_(CUDA|DNN|BLAS)_[A-Z0-9_]+ = ' "$root/src/backend/cuda/cuda_abi.h" >&2; then
    echo "a constant that is not in cuda_constants.def" >&2
    exit 1
fi

found cuda.h || exit 77
if found cublasLt.h; then flags="$flags -DHAVE_CUBLAS"; fi
if found cudnn_graph.h; then flags="$flags -DHAVE_CUDNN"; fi
# shellcheck disable=SC2086
g++ -std=c++17 -fsyntax-only -Wall -I"$root/src" $flags "$root/tests/cuda/check_abi.cpp"
# shellcheck disable=SC2086
if sed -e 's/SAME(ours, theirs);/SAME(ours + 1, theirs);/' "$root/tests/cuda/check_abi.cpp" |
    g++ -std=c++17 -fsyntax-only -I"$root/src" $flags -x c++ - 2>/dev/null; then
    echo "a wrong constant is not noticed" >&2
    exit 1
fi
echo "cuda_abi.h agrees with the headers that were found"
