#!/bin/sh
# run.sh CAIRN CASE.sh: run a case in an empty folder and compare what it prints with CASE.out.
#
# A case is a list of shell commands. `cairn ARGUMENTS` in it prints the command, what it says on
# both streams, and its exit code if that is not 0; $CAIRN is the program itself, for pipes. With
# CAIRN_UPDATE_GOLDEN set the expected file is written instead.
set -eu
CAIRN=$1
case_file=$2
expected=${case_file%.sh}.out
folder=$(mktemp -d)
actual=$(mktemp)
trap 'rm -rf "$folder" "$actual"' EXIT
export CAIRN LC_ALL=C

cairn() {
    echo "\$ cairn $*"
    status=0
    "$CAIRN" "$@" >stdout.$$ 2>stderr.$$ || status=$?
    cat stdout.$$ stderr.$$
    rm -f stdout.$$ stderr.$$
    [ $status -eq 0 ] || echo "[exit $status]"
}

(cd "$folder" && set +e && . "$case_file") >"$actual" 2>&1

if [ -n "${CAIRN_UPDATE_GOLDEN:-}" ]; then
    cp "$actual" "$expected"
elif ! diff -u "$expected" "$actual"; then
    echo "$case_file: the output differs from the expected (-); if that is right: make update-golden" >&2
    exit 1
fi
