#!/bin/sh
# check.sh: everything that must hold before a change is kept. Stops at the first failure.
#
#   gcc      release build, every test
#   clang    every file once more with its warnings, under the address and undefined-behaviour
#            sanitizers, every test but the large ones
#   clang    the tests that use threads, under the thread sanitizer
#   form     clang-format
#
# The layer check is one of the tests.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-2}

build() { # build PRESET [TARGET]: quiet unless it fails
    echo "==> building: $1"
    log=$(mktemp)
    status=0
    { cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs" ${2:+--target "$2"}; } \
        >"$log" 2>&1 || status=1
    [ $status -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return $status
}

echo "==> form"
scripts/check-format.sh
build tsan thread_tests
ctest --preset tsan -j "$jobs"
build asan
ctest --preset asan -j "$jobs"
build release
ctest --preset release -j "$jobs"
