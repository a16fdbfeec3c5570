#!/bin/sh
# run_one.sh PYTHON FILE[:TESTS]: run one file of tests, or those of its tests whose class or name
# is one of TESTS, which commas separate. Prints only failures, and why a test was skipped.
set -eu
python=$1
file=${2%%:*}
only=${2#"$file"}
only=$(printf '%s' "${only#:}" | tr , ' ')
output=$(mktemp)
trap 'rm -f "$output"' EXIT
set -- "$python" "$file.py" -v
for word in $only; do
    case $word in
    [a-z]*) set -- "$@" -k "test_$word" ;;
    *) set -- "$@" "$word" ;;
    esac
done
if "$@" >"$output" 2>&1; then
    echo "passed  $file $only  $(grep '^Ran' "$output")"
    sed -n "s/.*\.\.\. skipped ['\"]\(.*\)['\"]\$/skipped \1/p" "$output"
else
    cat "$output"
    echo "FAILED  $file $only"
    exit 1
fi
