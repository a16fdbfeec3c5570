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

# quartiles FILE: lower quartile, median and upper quartile of the times of its steps without the first,
# in which memory is touched for the first time.
quartiles() {
    sed -n 's/.*"step_ms": \([0-9.]*\).*/\1/p' "$1" | tail -n +2 | sort -n |
        awk '{ t[NR] = $1 } END { print t[int((NR + 3) / 4)], t[int((NR + 1) / 2)], t[int((3 * NR + 3) / 4)] }'
}

# show FILE: the figures of one training.
show() {
    quartiles "$1" | awk -v predicted="$(figure "$1" predicted_peak_bytes)" \
        -v counted="$(figure "$1" measured_peak_bytes)" -v process="$(figure "$1" process_bytes)" \
        -v should="$(figure "$1" predicted_ms)" -v loss="$(figure "$1" loss)" '{
            printf "    predicted peak  %10d bytes\n    counted peak    %10d bytes\n", predicted, counted
            if (process > 0)
                printf "    whole process   %10d bytes, says the system\n", process
            printf "    predicted time  %10.0f ms a step\n", should
            printf "    measured time   %10.0f ms, half of the steps took %.0f to %.0f\n", $2, $1, $3
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
steps=13

# shellcheck disable=SC2086
"$cairn" profile resnet18 $size --classes 10 --repeat 5 --json -o "$folder/costs" >"$folder/profile"
echo "Every op of ResNet-18 was measured in a few training steps: $(figure "$folder/profile" ops) ops, of which"
echo "$(figure "$folder/profile" signatures) are different. Plans are made with these costs."
echo
echo "The network is now trained for $steps steps on $images, first with" \
    "all the memory it needs: every tensor that the backward pass reads is kept until then." | fold -s -w 80
echo
# shellcheck disable=SC2086
"$cairn" train $model --steps $steps --costs "$folder/costs" --algorithm none --json >"$folder/free"
show "$folder/free"

cat <<'WORDS'

Now the same with half of that memory: some tensors are freed, and recomputed
when the backward pass needs them. The plan says which.

WORDS
# shellcheck disable=SC2086
"$cairn" train $model --steps $steps --costs "$folder/costs" --activation-budget 50% --json >"$folder/half"
show "$folder/half"
echo

for run in free half; do
    if [ "$(figure "$folder/$run" predicted_peak_bytes)" != "$(figure "$folder/$run" measured_peak_bytes)" ]; then
        echo "The counted peak is not the predicted one; that is a bug."
        exit 1
    fi
done
if [ "$(figure "$folder/free" parameters_sha256)" != "$(figure "$folder/half" parameters_sha256)" ]; then
    echo "The two trainings gave different parameters; that is a bug."
    exit 1
fi
echo "$(quartiles "$folder/free") $(quartiles "$folder/half")" |
    awk -v free="$(figure "$folder/free" measured_peak_bytes)" -v half="$(figure "$folder/half" measured_peak_bytes)" '{
    printf "The second training took %.0f%% of the memory and %.0f%% of the time of the first", 100 * half / free, 100 * $5 / $2
    printf " (%.0f%% to %.0f%% by quartiles", 100 * $4 / $3, 100 * $6 / $1
    if ($3 > 1.1 * $1 || $6 > 1.1 * $4)
        printf "; steps of one kind differ by more than a tenth, so other programs are at work here"
    printf "). Both took exactly the memory that was predicted, and both ended with the same"
    printf " parameters, bit for bit.\n" }' | fold -s -w 80
