#!/bin/sh
# pip_install.sh SOURCE: `pip install .` builds the planner and installs the package, from the working
# tree as it is. Without torch the package says what to install. That torch is a requirement is
# checked, but it is not installed: that would be gigabytes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    echo "$1" >&2
    exit 1
}

python3 -m venv "$folder/env"
python=$folder/env/bin/python
"$python" -m pip install --quiet --disable-pip-version-check --no-deps "$1" ||
    fail "pip could not install $1"
cd "$folder" # so that nothing is imported from the sources

"$python" -m pip show --files cairn-torch >"$folder/shown"
for word in 'Requires: torch' cairn/py.typed cairn/libcairn_plan.so licenses/LICENSE \
    licenses/python/licenses/jansson.txt; do
    grep -q "$word" "$folder/shown" || fail "the installed package lacks $word"
done
if "$python" -c 'import cairn' 2>"$folder/refusal"; then
    fail "cairn was imported without torch"
fi
grep -q '^ImportError: cairn needs PyTorch .*pip install torch' "$folder/refusal" ||
    fail "without torch the package does not say what to install: $(cat "$folder/refusal")"

# The planner as it was installed loads with the jansson beside it, and has no debugging information.
cd "$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/cairn"
"$python" -c 'import ctypes; ctypes.CDLL("./libcairn_plan.so").cairn_version'
case $(ldd ./libcairn_plan.so) in
*"$folder"*libjansson*) ;;
*) fail "the planner does not load the jansson of the package" ;;
esac
! readelf -S libcairn_plan.so | grep -q debug_info || fail "the planner has debugging information"
