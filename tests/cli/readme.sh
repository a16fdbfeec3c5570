#!/bin/sh
# readme.sh CAIRN README: every "    $ cairn ..." of the README prints what stands below it.
set -eu
cairn=$1
readme=$2
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
echo "$count examples of the README are true"
