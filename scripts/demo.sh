#!/bin/sh
# demo.sh CAIRN: measure a network, train it twice, with all the memory it needs and with half of it,
# and explain the results.
set -eu
cairn=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# figure FILE NAME: its last value in the JSON lines of FILE.
figure() {
    sed -n "s/.*\"$2\": \"\{0,1\}\([0-9a-z.]*\).*/\1/p" "$1" | tail -n 1
}

# show FILE: the figures of one training.
show() {
    awk -v predicted="$(figure "$1" predicted_peak_bytes)" \
        -v measured="$(figure "$1" measured_peak_bytes)" \
        -v should="$(figure "$1" predicted_ms)" -v ms="$(figure "$1" step_ms)" \
        -v loss="$(figure "$1" loss)" 'BEGIN {
            printf "    predicted peak  %10d bytes\n    measured peak   %10d bytes\n", predicted, measured
            printf "    predicted time  %10.0f ms a step\n    measured time   %10.0f ms\n", should, ms
            printf "    loss            %10.6f\n", loss }'
    echo "    parameters      $(figure "$1" parameters_sha256)"
}

# The best backend of this build: the one that a small measurement names.
"$cairn" profile lstm --batch 1 --input 4x4 --seq 1 --repeat 1 --json >"$folder/backend"
backend=$(figure "$folder/backend" backend)
images="two small images, by plain C code"
size="--batch 2 --input 3x64x64"
if [ "$backend" != ref ]; then
    images="eight images, by the backend $backend"
    size="--batch 8 --input 3x128x128"
fi
model="resnet18 $size --classes 10 --seed 1"

# shellcheck disable=SC2086
"$cairn" profile resnet18 $size --classes 10 --repeat 5 --json -o "$folder/costs" >"$folder/profile"
echo "Every op of ResNet-18 was measured in a few training steps: $(figure "$folder/profile" ops) ops, of which"
echo "$(figure "$folder/profile" signatures) are different. Plans are made with these costs."
echo
echo "The network is now trained for three steps on $images, first with"
cat <<'WORDS'
all the memory it needs: every tensor that the backward pass reads is kept until then.

WORDS
# shellcheck disable=SC2086
"$cairn" train $model --steps 3 --costs "$folder/costs" --algorithm none --json >"$folder/free"
show "$folder/free"

cat <<'WORDS'

Now the same with half of that memory: some tensors are freed, and recomputed when the backward pass
needs them. The plan says which.

WORDS
# shellcheck disable=SC2086
"$cairn" train $model --steps 3 --costs "$folder/costs" --activation-budget 50% --json >"$folder/half"
show "$folder/half"
echo

for run in free half; do
    if [ "$(figure "$folder/$run" predicted_peak_bytes)" != "$(figure "$folder/$run" measured_peak_bytes)" ]; then
        echo "The measured peak is not the predicted one; that is a bug."
        exit 1
    fi
done
if [ "$(figure "$folder/free" parameters_sha256)" != "$(figure "$folder/half" parameters_sha256)" ]; then
    echo "The two trainings gave different parameters; that is a bug."
    exit 1
fi
awk -v free="$(figure "$folder/free" measured_peak_bytes)" -v half="$(figure "$folder/half" measured_peak_bytes)" \
    -v fast="$(figure "$folder/free" step_ms)" -v slow="$(figure "$folder/half" step_ms)" 'BEGIN {
    printf "The second training took %.0f%% of the memory and %.0f%% of the time of the first. ", 100 * half / free, 100 * slow / fast
    printf "Both took\nexactly the memory that was predicted, and both ended with the same parameters, bit for bit.\n" }'
