#!/bin/sh
# tokens_bf16.sh CAIRN: a GPT on a .bin token file in bf16 on a processor. A budget, and a run that
# is stopped and resumed, give the same bits; its weights, under the names of Hugging Face, are read
# back, and are fp32.
set -eu
cairn=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 - <<'PYTHON'
import struct
count = 8000
words = [(i * 7 + i * i % 11) % 97 for i in range(count)]
header = [20240520, 1, count] + [0] * 253
with open("train.bin", "wb") as file:
    file.write(struct.pack("<256i", *header) + struct.pack(f"<{count}H", *words))
PYTHON

train() {
    "$cairn" train gpt2:layers=2,width=64,heads=4 --backend cpu --math bf16 --same-bits --batch 4 \
        --seq 32 --data tokens:train.bin --optimizer adamw "$@"
}
hash_of() { sed -n 's/.*parameters sha256 //p' "$1"; }

if ! train --steps 1 >first 2>&1; then
    grep -q '^cairn: .*bf16' first || { cat first; exit 1; }
    echo "skipped: $(cat first)"
    exit 77
fi
train --steps 6 --save whole.safetensors >whole
train --steps 6 --activation-budget 85% >half
train --steps 3 -o run >/dev/null
"$cairn" train --steps 6 --resume run >resumed
wanted=$(hash_of whole)
test -n "$wanted"
for run in half resumed; do
    test "$(hash_of $run)" = "$wanted" || { echo "$run has other bits"; cat $run; exit 1; }
done
train --steps 1 --weights whole.safetensors >again
python3 - <<'PYTHON'
import json, struct
with open("whole.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
header.pop("__metadata__", None)
assert "transformer.h.1.attn.c_attn.weight" in header, sorted(header)
assert {entry["dtype"] for entry in header.values()} == {"F32"}
PYTHON
