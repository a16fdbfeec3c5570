#!/bin/sh
# run_one.sh PYTHON FILE[:TESTS]: run one file of tests, or those of its tests whose class or name
# is TESTS. Prints only failures, and why a test was skipped.
set -eu
file=${2%%:*}
only=${2#"$file"}
only=${only#:}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
case $only in
'') set -- "$1" "$file.py" -v ;;
[a-z]*) set -- "$1" "$file.py" -v -k "test_$only" ;;
*) set -- "$1" "$file.py" -v "$only" ;;
esac
if "$@" >"$output" 2>&1; then
    echo "passed  $file $only  $(grep '^Ran' "$output")"
    sed -n "s/.*\.\.\. skipped ['\"]\(.*\)['\"]\$/skipped \1/p" "$output"
else
    cat "$output"
    echo "FAILED  $file $only"
    exit 1
fi
