#!/bin/sh
# install-deps.sh [--dry-run] build|test|check|package|coverage|wheels: check that the tools and libraries
# for a purpose are there, and install the missing ones with apt.
#
#   build     the library and the command; oneDNN is optional
#   test      also the release build's tests
#   check     also every other check (make check)
#   package   also the Debian package (make package)
#   coverage  also the measurement of coverage (make coverage)
#   wheels    also the Python package for other machines (make wheels)
#
# With --dry-run nothing is installed: missing packages are named, and the exit status is 1 if one
# of them is required. Each tool is searched for by what it does, not by package, so that a compiler
# from another source counts. If nothing is missing, the script prints nothing.
set -eu

dry=""
if [ "${1:-}" = --dry-run ]; then
    dry=yes
    shift
fi
purpose=${1:-build}
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

# want PACKAGE REASON TEST...: the same for optional packages.
want() {
    package=$1
    reason=$2
    shift 2
    if "$@" >/dev/null 2>&1; then
        return
    fi
    wanted="$wanted $package"
    reasons="$reasons    $package (optional): $reason
"
}

has() { command -v "$1"; }

has_browser() {
    has "${CAIRN_BROWSER:-chromium}" || has chromium-browser || has google-chrome
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
want libdnnl-dev "oneDNN: fast kernels for the processor" \
    compiles cc -include oneapi/dnnl/dnnl.h -ldnnl
case $purpose in
test | check | coverage)
    need g++ "tests that C++ programs can use the headers" has g++
    need python3-venv "exchanges weight files with the safetensors package" \
        python3 -c "import venv, ensurepip"
    need graphviz "draws pictures in tests" has dot
    want chromium "shows the page in tests, which are skipped without it" has_browser
    ;;
esac
case $purpose in
check)
    need clang "compiles everything a second time" has clang
    need libclang-rt-dev "address, undefined-behaviour and thread sanitizers" \
        compiles clang -fsanitize=address
    need clang-format "checks the format of the sources" has clang-format
    ;;
package)
    need dpkg-dev "finds what the package depends on" has dpkg-shlibdeps
    need file "tells programs from other files" has file
    ;;
wheels)
    need python3-venv "installs zig and auditwheel" python3 -c "import venv, ensurepip"
    need qemu-user-static "runs the tests of the planner for aarch64" has qemu-aarch64-static
    ;;
coverage) need gcovr "counts the lines and branches that tests reach" has gcovr ;;
esac

if [ -n "$dry" ]; then
    if [ -n "$missing" ]; then
        printf 'Missing here:\n%s' "$reasons" >&2
        echo "Please run 'make deps', or install with apt:$missing$wanted" >&2
        exit 1
    fi
    exit 0 # CMake reports missing optional packages
fi
[ -n "$missing$wanted" ] || exit 0
printf 'Missing here:\n%s' "$reasons"
give_up() { # give_up WHY: stop, unless only optional packages are missing
    echo "$1" >&2
    [ -n "$missing" ] || exit 0
    exit 1
}
has apt-get >/dev/null ||
    give_up "Please install them: only apt is known to this script, and it is not here."
run=""
if [ "$(id -u)" -ne 0 ]; then
    has sudo >/dev/null || give_up "Please install them as root: apt-get install$missing$wanted"
    run=sudo
fi
echo "Installing them with apt."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # lists of packages
if ! { $run apt-get update && $run apt-get install -y --no-install-recommends $missing; } \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    give_up "apt could not install$missing; see above."
fi
for package in $wanted; do # one by one, so that a package that apt does not have does not stop the others
    $run apt-get install -y --no-install-recommends "$package" >"$log" 2>&1 ||
        echo "apt could not install $package: going on without it." >&2
done
