#!/bin/sh
# guide.sh CAIRN GUIDE: every "    $ ..." of docs/guide.md, one after the other in one folder, prints
# what stands below it. Times and speeds are another machine's, and losses, accuracies and hashes may
# be another library's: they are left out on both sides, but among themselves hashes must agree.
set -eu
cairn=$1
guide=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/run"
ln -s "$cairn" "$work/bin/cairn"
export PATH="$work/bin:$PATH"

awk -v dir="$work" '
    /^    \$ / { n++; shown = 1; file = sprintf("%s/%03d", dir, n)
                 print substr($0, 7) > (file ".command"); printf "" > (file ".expected"); next }
    shown && /^    / { print substr($0, 5) > (file ".expected"); next }
    { shown = 0 }' "$guide"

# A row of an epoch, the summary, what a log says, a hash; which snapshots were the last and the best.
hide() {
    sed -e 's/^\( *[0-9][0-9]* *[0-9][0-9]*\) .*%.*%.*$/\1 .../' -e 's/ in [0-9].* images.*$/ .../' \
        -e 's/^  best validation.*$/  best .../' -e 's/"validation_.*$/.../' \
        -e 's/sha256 .*$/sha256/' -e '/^snapshot-/d' -e '/^  the system says/d' "$1"
}

count=0
for command in "$work"/*.command; do
    [ -e "$command" ] || { echo "the guide has no example" >&2; exit 1; }
    (cd "$work/run" && sh "$command" >"$work/actual" 2>"$work/errors") || {
        echo "the guide's command fails: $(cat "$command")" >&2
        cat "$work/errors" >&2
        exit 1
    }
    hide "${command%.command}.expected" >"$work/wanted"
    hide "$work/actual" >"$work/got"
    diff -u "$work/wanted" "$work/got" || {
        echo "the guide's example is not true: $(cat "$command")" >&2
        exit 1
    }
    grep 'parameters sha256' "$work/actual" >>"$work/hashes" || true
    count=$((count + 1))
done
[ "$(sort -u "$work/hashes" | wc -l)" -eq 1 ] && [ "$(wc -l <"$work/hashes")" -eq 3 ]
cd "$work/run"
[ -s half/training.svg ] && [ -s trained.safetensors ]
case $(sed -n 's/.*"validation_accuracy": \([0-9.]*\)}.*/\1/p' half/log.jsonl | tail -n 1) in
1.* | 0.9[5-9]*) ;;
*) echo "the guide's model has not learnt" >&2 && exit 1 ;;
esac
echo "$count examples of the guide are true"
