#!/bin/sh
# check-warnings.sh [COMPILER...]: compile every file, tests and fuzz targets too, with each compiler
# (default: gcc and clang) at -O0 to -O3 with -D_FORTIFY_SOURCE=3. Any warning is an error.
#
# Nothing is kept. It takes about as long as ten builds.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- gcc clang
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for compiler; do
    for level in 0 1 2 3; do
        fortify="-D_FORTIFY_SOURCE=3"
        [ $level -gt 0 ] || fortify="" # the C library warns about it without optimisation
        if ! { cmake -S . -B "$work/build" -D CMAKE_C_COMPILER="$compiler" -D CMAKE_BUILD_TYPE=None \
            -D CMAKE_C_FLAGS="-O$level $fortify" -D CAIRN_WERROR=ON &&
            cmake --build "$work/build" -j "${JOBS:-2}" -- -k; } >"$work/log" 2>&1; then
            grep -E 'warning|error' "$work/log" >&2 || tail "$work/log" >&2
            echo "$compiler -O$level: warnings" >&2
            exit 1
        fi
        echo "$compiler -O$level: no warnings"
        rm -rf "$work/build"
    done
done
