#!/bin/sh
# test_install.sh SOURCE BUILD: install into an empty prefix, then use the library from there as
# another project would: from C and C++, shared and static, through pkg-config.
set -eu
source=$1
build=$2
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
fail() {
    echo "$1" >&2
    exit 1
}
there() { # print the path of the file with that name below the prefix
    found=$(find "$prefix" -name "$1" | head -n 1)
    [ -n "$found" ] || fail "$1 was not installed"
    echo "$found"
}

cmake --install "$build" --prefix "$prefix" >/dev/null
pc=$(there cairn.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
library=$(dirname "$(there libcairn.so)")
[ "$(readlink "$library/libcairn.so")" = libcairn.so.0 ] || fail "libcairn.so is not version 0"
for header in "$source"/include/cairn/*; do
    there "$(basename "$header")" >/dev/null
done

# The versions of the pkg-config file, the header and the command agree.
version=$(pkg-config --modversion cairn)
[ "$("$prefix/bin/cairn" --version)" = "cairn $version" ] || fail "the versions differ"

# Another project, through the CMake package, in C99 and C++11. Every _INIT macro makes an object of
# the type that it is named after.
project=$prefix/project
mkdir "$project"
cp "$source/tests/install/project/"* "$project"
cp "$source/tests/install/use.cpp" "$prefix"
cat "$source"/include/cairn/*.h "$source"/include/cairn/*/*.h 2>/dev/null |
    sed -n -e 's/^#define CAIRN_\([A-Z0-9_]*\)_INIT\( .*\)*$/\1/p' | sort -u >"$prefix/inits"
[ "$(wc -l <"$prefix/inits")" -gt 30 ] || fail "the _INIT macros were not found"
while read -r name; do
    lower=$(echo "$name" | tr '[:upper:]' '[:lower:]')
    echo "{ cairn_$lower made_it = CAIRN_${name}_INIT; (void)made_it; }"
done <"$prefix/inits" >"$project/every_init.inc"
cmake -S "$project" -B "$project/build" -D CMAKE_PREFIX_PATH="$prefix" \
    -D CMAKE_CXX_FLAGS="-DEVERY_INIT=\\\"$project/every_init.inc\\\"" >"$project/log" 2>&1 &&
    cmake --build "$project/build" >>"$project/log" 2>&1 ||
    fail "the CMake package does not work: $(cat "$project/log")"
for target in cairn static plan; do
    said=$("$project/build/c99_$target")
    [ "$said" = "$version v100" ] || fail "the program with cairn::$target said: $said"
done
if ldd "$project/build/c99_plan" | grep -q -e dnnl -e gomp; then
    fail "the planner brings a backend's libraries"
fi
pkg-config --exists cairn-plan || fail "cairn-plan.pc was not installed"

# Both examples, against the shared and the static library. pkg-config's flags are lists of words.
# shellcheck disable=SC2046
{
    strict="-std=c11 -Wall -Wextra -pedantic -Werror"
    for example in train_in_budget plan_own_graph; do
        cc $strict "$source/examples/$example.c" $(pkg-config --cflags --libs cairn) \
            -o "$prefix/$example-shared"
        cc $strict "$source/examples/$example.c" $(pkg-config --cflags cairn) \
            $(pkg-config --static --libs cairn | sed -e 's/-lcairn/-l:libcairn.a/') \
            -o "$prefix/$example-static"
    done
    g++ -std=c++11 -Wall -Wextra -pedantic -Werror "$source/tests/install/use.cpp" \
        $(pkg-config --cflags --libs cairn) -o "$prefix/use"
}
export OMP_WAIT_POLICY=passive
for example in train_in_budget plan_own_graph; do
    LD_LIBRARY_PATH=$library "$prefix/$example-shared" >"$prefix/shared"
    "$prefix/$example-static" >"$prefix/static"
    cmp "$prefix/shared" "$prefix/static" || fail "$example: the two libraries differ"
    if ldd "$prefix/$example-static" | grep -q libcairn; then
        fail "the static program needs the shared library"
    fi
done

# Ten steps, inside 24 MiB, with the peak that was predicted.
said=$(LD_LIBRARY_PATH=$library "$prefix/train_in_budget-shared")
[ "$(echo "$said" | grep -c '^step .* loss [0-9.]*$')" -eq 10 ] || fail "the example said: $said"
echo "$said" | awk '/^predicted peak/ { exit !($3 == $7 && $3 > 0 && $3 <= 24 * 1048576) }' ||
    fail "the example said: $said"
LD_LIBRARY_PATH=$library "$prefix/use" | grep -q '^23 ops$' || fail "the C++ program failed"

# Only public symbols are exported.
if nm -D --defined-only "$library/libcairn.so.0" | grep -v ' cairn_' | grep ' [TDBR] '; then
    fail "libcairn.so shows symbols that are not cairn_"
fi

# The man page names every command, option and exit code.
page=$(there cairn.1)
for word in zoo plan simulate verify solve 'EXIT STATUS' EXAMPLES ENVIRONMENT; do
    grep -q "$word" "$page" || fail "the man page does not have $word"
done

# Both completions are scripts, and the one for bash completes words.
completion=$(find "$prefix" -path '*bash-completion*' -name cairn)
bash -n "$completion" || fail "bash does not read its completion"
zsh_completion=$(there _cairn)
if command -v zsh >/dev/null; then
    zsh -n "$zsh_completion" || fail "zsh does not read its completion"
fi
completes() { # completes EXPECTED WORD...: the last word is at the cursor
    expected=$1
    shift
    said=$(cd "$prefix" && bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cairn
        printf "%s\n" "${COMPREPLY[@]}"' "$completion" "$@")
    printf '%s\n' "$said" | grep -q -x -e "$expected" ||
        fail "completing '$*' gives: $said; not $expected"
}
completes simulate cairn si
completes resnet152 cairn plan resnet1
completes --activation-budget cairn plan alexnet --act
completes none cairn plan alexnet --algorithm n
completes h200 cairn plan alexnet -m h
completes shared cairn simulate sh
completes shared cairn plan alexnet -o sh

# `make install` into folders with spaces in their names: its last command, on this build.
command -v make >/dev/null || exit 0
last=$(make -n -C "$source" install DESTDIR="$prefix/a stage" PREFIX="/our own" | grep 'cmake --install')
(cd "$build" && eval "$(echo "$last" | sed 's/--install build/--install ./')" >/dev/null)
"$prefix/a stage/our own/bin/cairn" --version >/dev/null || fail "make install cannot have spaces in DESTDIR and PREFIX"
