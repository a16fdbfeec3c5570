#!/bin/sh
# without_onednn.sh SOURCE: where oneDNN is missing or too old, Cairn is built without it. CMake and
# the first line of `cairn train` say so. With CAIRN_ONEDNN=ON CMake fails.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$1" >&2
    cat "$work/said" >&2
    exit 1
}

# configure FOLDER OPTION...: prints only standard error, as the Makefile does.
configure() {
    folder=$1
    shift
    cmake -S "$source" -B "$work/$folder" -D CAIRN_TESTS=OFF -D CAIRN_CUDA=OFF "$@" 2>"$work/said" >"$work/out"
}

# An old oneDNN: only its version is read.
mkdir -p "$work/old/oneapi/dnnl"
echo >"$work/old/oneapi/dnnl/dnnl.h"
printf '#define DNNL_VERSION_MAJOR 2\n#define DNNL_VERSION_MINOR 5\n#define DNNL_VERSION_PATCH 0\n' \
    >"$work/old/oneapi/dnnl/dnnl_version.h"
set -- -D ONEDNN_INCLUDE="$work/old" -D ONEDNN_LIBRARY=/nowhere/libdnnl.so
configure old "$@" || fail "an old oneDNN stops the build"
grep -q 'its version is 2.5.0' "$work/said" || fail "an old oneDNN is not named"
if configure on "$@" -D CAIRN_ONEDNN=ON; then
    fail "CAIRN_ONEDNN=ON is satisfied with an old oneDNN"
fi

configure none -D ONEDNN_INCLUDE=ONEDNN_INCLUDE-NOTFOUND -D CMAKE_FIND_ROOT_PATH="$work/old" \
    -D CMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -D CMAKE_BUILD_TYPE=Debug -D CMAKE_C_FLAGS_DEBUG=-O0 ||
    fail "a missing oneDNN stops the build"
grep -q 'libdnnl-dev' "$work/said" || fail "a missing oneDNN is not named"
cmake --build "$work/none" -j 2 --target cairn_command >"$work/said" 2>&1 || fail "it does not build"
"$work/none/cairn" train lstm --batch 1 --input 4x4 --seq 2 --steps 1 >"$work/said"
head -n 1 "$work/said" | grep -q 'backend ref, which is slow: this build has no oneDNN' ||
    fail "cairn train does not say it"
