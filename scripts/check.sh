#!/bin/sh
# check.sh [PRESET]: everything that must pass before a change is accepted. Stops at the first
# failure.
#
#   form     clang-format
#   clang    the tests that use threads, under the thread sanitizer
#   clang    every file with its warnings, under the address and undefined-behaviour sanitizers,
#            every test but the large ones
#   gcc      release build
#   PyTorch  the front's tests, if python3 or $CAIRN_TORCH_PYTHON has torch; else a message says so
#   gcc      every test
#
# The layer check is one of the tests. Warnings are errors. With a preset, only that build and its
# tests run, and warnings are not errors: users run this (`make test`), and their compiler may find
# more to warn about than ours.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-2}

build() { # build PRESET [TARGET]: quiet unless it fails
    echo "==> building: $1"
    log=$(mktemp)
    status=0
    { cmake --preset "$1" -D CAIRN_WERROR=${WERROR:-ON} &&
        cmake --build --preset "$1" -j "$jobs" ${2:+--target "$2"}; } >"$log" 2>&1 || status=1
    [ $status -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return $status
}

if [ $# -gt 0 ]; then
    WERROR=OFF build "$1"
    exec ctest --preset "$1" -j "$jobs"
fi
echo "==> form"
scripts/check-format.sh
build tsan thread_tests
ctest --preset tsan -j "$jobs"
build asan
ctest --preset asan -j "$jobs"
build release
echo "==> PyTorch"
pytorch=0
JOBS=$jobs scripts/check-pytorch.sh "${CAIRN_TORCH_PYTHON:-python3}" build || pytorch=$?
[ $pytorch -eq 0 ] || [ $pytorch -eq 77 ]
ctest --preset release -j "$jobs"
