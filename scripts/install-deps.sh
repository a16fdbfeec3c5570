#!/bin/sh
# install-deps.sh demo|check: see that the tools are there, and install with apt those that are not.
#
# Each tool is looked for by what it does, not by package, so that a compiler from elsewhere counts.
# When nothing is missing this does nothing and prints nothing.
set -eu

missing=""
reasons=""
wanted=""

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

# want PACKAGE TEST...: the same for what tests can be skipped without.
want() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || wanted="$wanted $package"
}

has_browser() {
    [ -z "${CAIRN_BROWSER:-}" ] || return 0
    has chromium || has chromium-browser || has google-chrome || has google-chrome-stable
}

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
    want chromium has_browser
fi
[ -n "$missing$wanted" ] || exit 0

[ -z "$reasons" ] || printf 'Missing here:\n%s' "$reasons"
run=""
[ "$(id -u)" -eq 0 ] || run=sudo
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
install() { # install PACKAGES...
    { $run apt-get update && $run apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1
}

if [ -n "$missing" ]; then
    if ! has apt-get >/dev/null; then
        echo "Please install them; only apt is known to this script, and it is not here." >&2
        exit 1
    fi
    if [ -n "$run" ] && ! has sudo >/dev/null; then
        echo "Please install them as root: apt-get install$missing" >&2
        exit 1
    fi
    echo "Installing them with apt."
    # shellcheck disable=SC2086 # a list of packages
    if ! install $missing; then
        tail -n 20 "$log" >&2
        echo "apt could not install$missing; see above." >&2
        exit 1
    fi
fi

for package in $wanted; do
    echo "Installing $package with apt, for tests that are skipped without it."
    if ! has apt-get >/dev/null || { [ -n "$run" ] && ! has sudo >/dev/null; } ||
        ! install "$package"; then
        echo "$package cannot be installed here: the tests that need it WILL BE SKIPPED." >&2
    fi
done
