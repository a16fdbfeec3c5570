#!/bin/sh
# interop.sh TOOL BUILD SOURCE: weight files exchanged with the safetensors package.
#
# The package is installed once, in a virtual environment in the build folder. If that is not
# possible (no network), the test is skipped with exit code 77 and says why.
set -eu
tool=$1
environment=$2/python-weights
source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if [ ! -e "$environment/complete" ]; then
    rm -rf "$environment"
    if ! python3 -m venv "$environment" >"$folder/log" 2>&1; then
        tail -n 3 "$folder/log"
        echo "skipped: python3 cannot make a virtual environment (Debian: python3-venv)"
        exit 77
    fi
    if ! "$environment/bin/pip" install -q --retries 0 --timeout 15 safetensors numpy >"$folder/log" 2>&1; then
        tail -n 3 "$folder/log"
        echo "skipped: pip cannot install safetensors and numpy"
        exit 77
    fi
    touch "$environment/complete"
fi
"$environment/bin/python" "$source/interop.py" "$tool" "$folder"
