#!/bin/sh
# install-deps.sh demo|check: see that the tools are there, and install with apt those that are not.
#
# Each tool is looked for by what it does, not by package, so that a compiler from elsewhere counts.
# When nothing is missing this does nothing and prints nothing.
set -eu

missing=""
reasons=""

# need PACKAGES REASON TEST...: note the packages unless the test succeeds.
need() {
    packages=$1
    reason=$2
    shift 2
    if "$@" >/dev/null 2>&1; then
        return
    fi
    missing="$missing $packages"
    reasons="$reasons    $packages: $reason
"
}

has() { command -v "$1"; }

compiles() { # compiles COMPILER [FLAGS]: can it make a program that runs?
    directory=$(mktemp -d)
    echo '#include <stdio.h>
int main(void) { return puts("") < 0; }' >"$directory/try.c"
    status=0
    "$@" -o "$directory/try" "$directory/try.c" || status=1
    rm -rf "$directory"
    return $status
}

need "gcc libc6-dev" "compiles the library and the command" compiles cc
need cmake "builds them" has cmake
need pkg-config "finds the libraries they use" has pkg-config
need libjansson-dev "reads JSON" pkg-config --exists jansson
need libdnnl-dev "oneDNN: fast kernels for the processor" \
    compiles cc -include oneapi/dnnl/dnnl.h -ldnnl
if [ "${1:-demo}" = check ]; then
    need g++ "tests that the headers serve C++" has g++
    need clang "compiles everything a second time" has clang
    need libclang-rt-dev "address, undefined-behaviour and thread sanitizers" \
        compiles clang -fsanitize=address
    need clang-format "checks the form of the sources" has clang-format
    need python3-venv "exchanges weight files with the safetensors package" \
        python3 -c "import venv, ensurepip"
    need graphviz "draws the pictures that tests look at" has dot
fi
[ -n "$missing" ] || exit 0

printf 'Missing here:\n%s' "$reasons"
if ! has apt-get >/dev/null; then
    echo "Please install them; only apt is known to this script, and it is not here." >&2
    exit 1
fi
run=""
if [ "$(id -u)" -ne 0 ]; then
    if ! has sudo >/dev/null; then
        echo "Please install them as root: apt-get install$missing" >&2
        exit 1
    fi
    run=sudo
fi
echo "Installing them with apt."
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of packages
if ! { $run apt-get update && $run apt-get install -y --no-install-recommends $missing; } \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt could not install$missing; see above." >&2
    rm -f "$log"
    exit 1
fi
rm -f "$log"
