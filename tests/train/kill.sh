#!/bin/sh
# kill.sh CAIRN [MOMENTS] [homes]: a run that is killed many times and resumed ends with the hash and
# the log of a run that was not killed. No snapshot is ever damaged. With `homes` parameters and
# moments are at home on the host, and the run that is not killed has them all on the device.
#
# The times of the kills come from a fixed sequence: from the start of the program until some steps
# later, independent of how long a start takes. So they fall into planning, reading, steps,
# evaluations, writing and deleting snapshots.
set -eu
cairn=$1
moments=${2:-50}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

length="--steps 300"
usual="--backend ref --seed 7 --threads 1"
if [ "${3:-}" = homes ]; then
    yes 'A cairn marks the way down.' | head -n 20 >text
    whole="gpt2:layers=1,width=128,heads=2,ffn=256 --seq 4 --batch 1 --data text:text --optimizer adamw $usual"
    model="$whole --link-bandwidth 10GB --budget 2200KiB"
    length="--steps 40"
    "$cairn" train $model --steps 1 | grep -q 'with parameters and what the optimiser keeps'
else
    whole="convnet --data synthetic --samples 400 --input 3x8x8 --batch 16 $usual"
    model=$whole
fi
snapshots="--snapshot-every 1"
"$cairn" train $whole $length --out whole --json | tail -n 1 >expected

before=$(date +%s%N)
"$cairn" train $model --steps 1 --json >output
start=$((($(date +%s%N) - before) / 1000000))

state=12345
killed=0
round=0
seen() { find . -maxdepth 1 -name 'seen-*' | wc -l; }
while [ $killed -lt "$moments" ] || [ "$(seen)" -lt 5 ]; do
    # A start now takes longer than when it was measured, so kill later.
    [ $killed -lt "$moments" ] || start=$((start + 50))
    [ $killed -lt $((4 * moments)) ] || break
    round=$((round + 1))
    [ $round -le 2000 ] || { echo "it takes too many attempts" >&2; exit 1; }
    state=$(((state * 1103515245 + 12345) % 2147483648))
    milliseconds=$((state / 65536 % (start + 60)))
    if [ -e run/options ]; then
        "$cairn" train --resume run --json >output 2>>errors &
    else
        "$cairn" train $model $length $snapshots --out run --json >output 2>>errors &
    fi
    child=$!
    sleep "$(printf %d.%03d $((milliseconds / 1000)) $((milliseconds % 1000)))"
    if kill -9 $child 2>/dev/null; then
        killed=$((killed + 1))
    fi
    if wait $child 2>/dev/null; then # it finished before the kill; start another run
        tail -n 1 output | cmp expected -
        cmp whole/log.jsonl run/log.jsonl
        rm -rf run
        continue
    fi
    for snapshot in run/snapshot-*.safetensors; do
        [ ! -e "$snapshot" ] || cp "$snapshot" "seen-$(basename "$snapshot")" 2>/dev/null || true
    done
done
resume="--resume run"
[ -e run/options ] || resume="$model $length --out run"
"$cairn" train $resume --json | tail -n 1 | cmp expected -
cmp whole/log.jsonl run/log.jsonl

# No file was ever damaged: resuming would have reported it.
! grep -q damaged errors
[ "$(ls run | grep -c '^snapshot-')" -le 4 ]
! ls run | grep -q '\.tmp\.'
steps=$(seen)
[ "$steps" -ge 5 ] || { echo "only $steps snapshots were seen; the moments are too early" >&2; exit 1; }
echo "killed $killed times, $steps snapshots seen, $(grep -c 'left behind' errors || true) left unfinished"
