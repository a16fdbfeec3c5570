#!/bin/sh
# readme.sh CAIRN README EXAMPLE: every " $ cairn ..." of the README prints the lines below it, and
# the C program in it is the example from the first #include on.
set -eu
cairn=$1
readme=$2
example=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each example becomes a pair of files: the command, and the lines below it without their indent.
awk -v dir="$work" '
    /^    \$ / { n++; shown = 1; print substr($0, 7) > (dir "/" n ".command"); next }
    shown && /^    / { print substr($0, 5) > (dir "/" n ".expected"); next }
    { shown = 0 }' "$readme"

count=0
for command in "$work"/*.command; do
    [ -e "$command" ] || { echo "the README has no example" >&2; exit 1; }
    sed "s#^cairn #$cairn #" "$command" >"$work/run"
    sh "$work/run" >"$work/actual"
    diff -u "${command%.command}.expected" "$work/actual" || {
        echo "the README's example is not true: $(cat "$command")" >&2
        exit 1
    }
    count=$((count + 1))
done

sed -n '/^```c$/,/^```$/p' "$readme" | sed -e 1d -e '$d' >"$work/shown.c"
sed -n '/^#include/,$p' "$example" | diff -u - "$work/shown.c" || {
    echo "the README shows another program than $example" >&2
    exit 1
}
echo "$count examples of the README are true"
