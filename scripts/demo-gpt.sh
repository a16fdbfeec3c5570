#!/bin/sh
# demo-gpt.sh CAIRN: train a small GPT on the text of this repository's docs, in half of the memory that
# it needs, and let it write.
set -eu
cairn=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat README.md docs/*.md >"$folder/docs.txt"
model="gpt2:layers=4,width=128,heads=4,ffn=512"
learn="--data text:$folder/docs.txt --seq 64 --batch 16 --optimizer adamw --lr 1e-3 --schedule cosine --warmup 20 --weight-decay 0.1 --beta2 0.99"

# figure FILE NAME: its last value in the JSON lines of FILE.
figure() {
    sed -n "s/.*\"$2\": \"\{0,1\}\([0-9a-z.]*\).*/\1/p" "$1" | tail -n 1
}

echo "A GPT of 4 layers reads the docs of this repository, byte by byte: $(wc -c <"$folder/docs.txt") bytes." \
    "Ten steps with all the memory that it needs, and ten steps with half of it:" | fold -s -w 80
echo
# shellcheck disable=SC2086
"$cairn" train $model $learn --steps 10 --algorithm none --json >"$folder/free"
# shellcheck disable=SC2086
"$cairn" train $model $learn --steps 10 --activation-budget 50% --same-bits --json >"$folder/half"
for run in free half; do
    printf '    measured peak %9d bytes    parameters %s\n' "$(figure "$folder/$run" measured_peak_bytes)" \
        "$(figure "$folder/$run" parameters_sha256 | cut -c 1-40)"
done
if [ "$(figure "$folder/free" parameters_sha256)" != "$(figure "$folder/half" parameters_sha256)" ]; then
    echo "The two trainings gave different parameters; that is a bug."
    exit 1
fi
echo
echo "The parameters are the same, bit for bit. Now it learns for five epochs in half"
echo "of the memory:"
echo
# shellcheck disable=SC2086
"$cairn" train $model $learn --epochs 5 --activation-budget 50% --save "$folder/gpt.safetensors"
echo
echo "What it writes after \"The plan \":"
echo
"$cairn" sample --weights "$folder/gpt.safetensors" --prompt "The plan " --tokens 200 --temperature 0.5
