#!/bin/sh
# guide.sh CAIRN GUIDE: a stranger who follows docs/guide.md word for word. Every file that it shows
# ("```KIND NAME") is written, and every "    $ ..." is run, one after the other in one folder, and
# prints what stands below it. Times and speeds are another machine's, and losses, accuracies and
# hashes may be another library's: they are left out on both sides, but among themselves hashes must
# agree. Programs that need PyTorch are run by $CAIRN_TORCH_PYTHON or python3 if that has it, and
# else left out. With CAIRN_UPDATE_GOLDEN set the outputs in the guide are written instead.
set -eu
cairn=$1
guide=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/run"
ln -s "$cairn" "$work/bin/cairn"
export PATH="$work/bin:$PATH"
torch=${CAIRN_TORCH_PYTHON:-python3}
"$torch" -c 'import torch, safetensors.torch' 2>/dev/null || torch=

awk -v dir="$work" '
    /^```[a-z]+ / { file = dir "/run/" $2; inside = 1; next }
    /^```/ { inside = 0; next }
    inside { print > file; next }
    /^    \$ / { n++; shown = 1; file = sprintf("%s/%03d", dir, n)
                 print substr($0, 7) > (file ".command"); printf "" > (file ".expected"); next }
    shown && /^    / { print substr($0, 5) > (file ".expected"); next }
    { shown = 0 }' "$guide"

# A row of an epoch, the summary, what a log says, a hash; which snapshots were the last and the best.
hide() {
    sed -e 's/^\( *[0-9][0-9]* *[0-9][0-9]*\) .*%.*%.*$/\1 .../' -e 's/ in [0-9].* images.*$/ .../' \
        -e 's/^  best validation.*$/  best .../' -e 's/"validation_.*$/.../' \
        -e 's/sha256 .*$/sha256/' -e '/^snapshot-/d' -e '/^  the system says/d' \
        -e 's/^  loss .*$/  loss .../' -e 's/^  accuracy .*$/  accuracy .../' -e 's/"predicted".*/.../' "$1"
}

# Put what a command printed below it in the guide.
update() { # COMMAND OUTPUT
    awk -v command="$1" -v output="$2" '
        BEGIN { getline wanted < command }
        skipping && /^    / && !/^    \$ / { next }
        { skipping = 0; print }
        /^    \$ / && substr($0, 7) == wanted {
            skipping = 1
            while ((getline line < output) > 0)
                print "    " line
        }' "$guide" >"$work/guide" && cp "$work/guide" "$guide"
}

count=0
for command in "$work"/*.command; do
    [ -e "$command" ] || { echo "the guide has no example" >&2; exit 1; }
    program=$(sed -n 's/^python3 \([a-z_]*\.py\).*/\1/p' "$command")
    if [ -n "$program" ] && grep -q '^import torch' "$work/run/$program"; then
        [ -n "$torch" ] || { echo "left out without PyTorch: $(cat "$command")"; continue; }
        printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$torch")" >"$work/bin/python3"
        chmod +x "$work/bin/python3"
    fi
    (cd "$work/run" && sh "$command" >"$work/actual" 2>"$work/errors") || {
        echo "the guide's command fails: $(cat "$command")" >&2
        cat "$work/errors" >&2
        exit 1
    }
    if [ -n "${CAIRN_UPDATE_GOLDEN:-}" ]; then
        update "$command" "$work/actual"
        continue
    fi
    hide "${command%.command}.expected" >"$work/wanted"
    hide "$work/actual" >"$work/got"
    diff -u "$work/wanted" "$work/got" || {
        echo "the guide's example is not true: $(cat "$command")" >&2
        exit 1
    }
    grep 'parameters sha256' "$work/actual" >>"$work/hashes" || true
    count=$((count + 1))
done
[ -z "${CAIRN_UPDATE_GOLDEN:-}" ] || exit 0
[ "$(sort -u "$work/hashes" | wc -l)" -eq 1 ] && [ "$(wc -l <"$work/hashes")" -eq 3 ]
cd "$work/run"
[ -s half/training.svg ] && [ -s trained.safetensors ]
case $(sed -n 's/.*"validation_accuracy": \([0-9.]*\)}.*/\1/p' half/log.jsonl | tail -n 1) in
1.* | 0.9*) ;;
*) echo "the guide's model has not learnt" >&2 && exit 1 ;;
esac
echo "$count examples of the guide are true"
