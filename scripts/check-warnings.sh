#!/bin/sh
# check-warnings.sh [COMPILER...]: compile every file, tests and fuzz targets too, with each compiler
# (default: gcc and clang) at -O0 to -O3 with -D_FORTIFY_SOURCE=3. Any warning is an error.
#
# CMAKE_ARGS holds further arguments of cmake, for example "-D CAIRN_CUDA=OFF". JOBS is the number of
# files to compile at the same time. Nothing is kept. It takes about as long as ten builds.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- gcc clang
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for compiler; do
    for level in 0 1 2 3; do
        fortify="-D_FORTIFY_SOURCE=3"
        [ $level -gt 0 ] || fortify="" # the C library warns about it without optimisation
        # shellcheck disable=SC2086 # CMAKE_ARGS is a list
        if { cmake -S . -B "$work/build" -D CMAKE_C_COMPILER="$compiler" -D CMAKE_BUILD_TYPE=None \
            -D CMAKE_C_FLAGS="-O$level $fortify" -D CAIRN_WERROR=ON ${CMAKE_ARGS:-} &&
            cmake --build "$work/build" -j "${JOBS:-2}" -- -k; } >"$work/log" 2>&1; then
            echo "$compiler -O$level: no warnings"
        else
            grep -E 'warning|error' "$work/log" >&2 || tail "$work/log" >&2
            echo "$compiler -O$level: warnings" >&2
            failed=1
        fi
        rm -rf "$work/build"
    done
done
exit $failed
