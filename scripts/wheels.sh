#!/bin/sh
# wheels.sh: build/dist/cairn_torch-*.whl for x86-64 and aarch64 with glibc 2.28 or newer.
#
# zig compiles for both from any machine. jansson comes from the packages of Debian 12, whose builds
# need no newer glibc. auditwheel checks what each wheel needs, and the planner's tests for aarch64
# run under qemu. CAIRN_WHEELS names other architectures; without tests: CAIRN_WHEEL_TESTS=no.
set -eu
cd "$(dirname "$0")/.."
GLIBC=2.28
DEBIAN=bookworm
PLANNER_TESTS="base graph refused_graphs foreign_graph arrays costs solve budget acg chain piece_chain
    offload sim_examples sim_regressions sim_random long_first auto_matrix auto_plans"
root=$PWD
jobs=${JOBS:-2}
work=$root/build/wheels
tools=$work/tools
mkdir -p "$work"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

quiet() { # quiet COMMAND...: its output only if it fails
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        return 1
    }
}

install_tools() {
    [ ! -e "$tools/complete" ] || return 0
    rm -rf "$tools"
    python3 -m venv "$tools"
    quiet "$tools/bin/pip" install --disable-pip-version-check ziglang==0.17.0 auditwheel==6.8.2
    touch "$tools/complete"
}

debian_name() { # debian_name ARCHITECTURE: what Debian calls it
    case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) echo "$1" ;; esac
}

# Debian's packages are unpacked in a folder. apt keeps its lists there too, so that the lists and
# the architectures of this machine stay as they are.
make_sysroot() { # make_sysroot ARCHITECTURE SYSROOT
    [ ! -e "$2/complete" ] || return 0
    rm -rf "$2"
    mkdir -p "$2/apt/lists/partial" "$2/apt/cache/archives/partial" "$2/apt/parts"
    debian=$(debian_name "$1")
    mirror=$(scripts/debian-mirror.sh)
    if [ -z "$mirror" ]; then
        echo "wheels.sh: the apt set-up of this machine names no mirror of Debian" >&2
        return 1
    fi
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $DEBIAN main" \
        >"$2/apt/sources.list"
    cat >"$2/apt/apt.conf" <<END
Dir::State::lists "$2/apt/lists";
Dir::Cache "$2/apt/cache";
Dir::Etc::sourcelist "$2/apt/sources.list";
Dir::Etc::sourceparts "$2/apt/parts";
APT::Architectures { "$(dpkg --print-architecture)"; "$debian"; };
APT::Sandbox::User "root";
END
    quiet env APT_CONFIG="$2/apt/apt.conf" apt-get update
    (cd "$2/apt" && quiet env APT_CONFIG="$2/apt/apt.conf" apt-get download \
        "libjansson4:$debian" "libjansson-dev:$debian" "libc6:$debian")
    for package in "$2"/apt/*.deb; do
        dpkg-deb --extract "$package" "$2"
    done
    touch "$2/complete"
}

make_compiler() { # make_compiler ARCHITECTURE: zig's tools under names that CMake can call
    printf '#!/bin/sh\nexec %s -m ziglang cc -target %s-linux-gnu.%s "$@"\n' \
        "$tools/bin/python" "$1" $GLIBC >"$tools/$1-cc"
    for tool in ar ranlib; do
        printf '#!/bin/sh\nexec %s -m ziglang %s "$@"\n' "$tools/bin/python" $tool >"$tools/zig-$tool"
    done
    chmod +x "$tools/$1-cc" "$tools/zig-ar" "$tools/zig-ranlib"
}

configure() { # configure ARCHITECTURE SYSROOT BUILD
    PKG_CONFIG_SYSROOT_DIR=$2 PKG_CONFIG_LIBDIR=$(echo "$2"/usr/lib/*/pkgconfig) \
        quiet cmake -S . -B "$3" -D CMAKE_BUILD_TYPE=Release -D CMAKE_SYSTEM_NAME=Linux \
        -D CMAKE_SYSTEM_PROCESSOR="$1" -D CMAKE_C_COMPILER="$tools/$1-cc" \
        -D CMAKE_AR="$tools/zig-ar" -D CMAKE_RANLIB="$tools/zig-ranlib" \
        -D CMAKE_C_COMPILER_AR="$tools/zig-ar" -D CMAKE_C_COMPILER_RANLIB="$tools/zig-ranlib" \
        -D CMAKE_CROSSCOMPILING_EMULATOR="qemu-$1-static;-L;$2" \
        -D CMAKE_SHARED_LINKER_FLAGS=-Wl,--strip-debug -D CAIRN_ONEDNN=OFF -D CAIRN_CUDA=OFF
}

test_planner() { # test_planner BUILD
    # shellcheck disable=SC2086 # a list
    quiet cmake --build "$1" -j "$jobs" --target $(printf 'test_%s ' $PLANNER_TESTS)
    # shellcheck disable=SC2086
    quiet ctest --test-dir "$1" -j "$jobs" --no-tests=error \
        -R "^($(echo $PLANNER_TESTS | tr ' ' '|'))\$"
    sed -n '/tests passed/p' "$log"
}

make_wheel() { # make_wheel ARCHITECTURE
    build=$work/$1
    sysroot=$work/$1-debian
    make_sysroot "$1" "$sysroot"
    make_compiler "$1"
    configure "$1" "$sysroot" "$build"
    quiet cmake --build "$build" -j "$jobs" --target cairn_plan
    cp -L "$sysroot"/usr/lib/*/libjansson.so.4 "$build/libjansson.so.4"
    platform=manylinux_$(echo $GLIBC | tr . _)_$1
    wheel=$(python3 python/make_wheel.py "$build" build/dist "$platform")
    quiet "$tools/bin/auditwheel" show "$wheel"
    # It names the oldest platform on which the wheel works.
    tr '\n' ' ' <"$log" | grep -Eq "consistent with the following platform tag: *\"manylinux_2_([0-9]|1[0-9]|2[0-8])_$1\"" || {
        cat "$log" >&2
        echo "wheels.sh: $wheel does not work with glibc $GLIBC" >&2
        return 1
    }
    echo "==> $wheel"
    if [ "${CAIRN_WHEEL_TESTS:-yes}" = yes ] && [ "$1" != "$(uname -m)" ]; then
        test_planner "$build"
    fi
}

install_tools
for architecture in ${CAIRN_WHEELS:-x86_64 aarch64}; do
    make_wheel "$architecture"
done
