# Training: the peaks are as predicted, and every plan ends with the same parameters. Losses and
# hashes depend on the mathematical library and are not shown.
model="--batch 2 --input 8x16 --seq 6 --classes 4 --steps 2 --threads 2 --seed 3 --backend ref"
for plan in "--algorithm none" "--algorithm feng --check" "--algorithm precise --budget 97%" "--algorithm none --check"; do
    "$CAIRN" train lstm $model $plan --json >"out$((number += 1))" || echo "[exit $?]"
done
tail -qn 1 out1 out2 out3 out4 | sort -u | wc -l
for i in 1 2 3 4; do
    sed -n 's/.*"step": \(.*\), "loss.*predicted_peak_bytes": \(.*\), "measured_peak_bytes": \(.*\), "arena.*/\1 \2 \3/p' out$i
done
"$CAIRN" train lstm $model | sed 's/ [0-9.]* *[0-9.]* [mu]*s / LOSS TIME /; s/sha256 .*/sha256/; s/at most .* before/at most ... before/; s/, which is slow: this build.*//'

# A plan from a file, for the model it names.
"$CAIRN" plan lstm --batch 2 --input 8x16 --seq 6 --classes 4 --machine cpu --algorithm feng -o feng.plan >/dev/null
"$CAIRN" train --plan feng.plan --backend ref --steps 2 --threads 2 --seed 3 --json >out5
tail -qn 1 out1 out5 | sort -u | wc -l

# What is refused.
cairn train
cairn train lstm --steps 0
cairn train lstm --plan feng.plan --algorithm none
cairn train lstm --backend abacus | sed "s/; the backends are.*//"
cairn train lstm --link-bandwidth 40%
cairn train rnn --plan feng.plan
cairn train --plan feng.plan --backend ref --activation-budget 1kB
sed 's/^run cell.3$/run cell.9/' feng.plan >damaged.plan
cairn train --plan damaged.plan
sed 's/^free x.2$/free x.3/' feng.plan >illegal.plan
cairn train --plan illegal.plan
"$CAIRN" plan lstm --seq 6 --algorithm infer -o infer.plan >/dev/null
cairn train --plan infer.plan
