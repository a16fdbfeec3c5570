# Exit code 2: the command line itself.
cairn nosuch
cairn plan
cairn plan one two
cairn plan alexnet --nosuch
cairn plan alexnet -x
cairn plan alexnet --batch
cairn plan alexnet --json=yes
cairn plan alexnet --batch -1
cairn plan alexnet --batch 4294967296
cairn plan alexnet --batch 1e3
cairn plan alexnet --input 3x
cairn plan alexnet --input 3x224x224x1
cairn plan alexnet --input 3x1000001x1
cairn plan alexnet --top many
cairn plan alexnet --budget 12parsecs
cairn plan alexnet --budget -1
cairn plan alexnet --budget 99999999999GiB
cairn plan alexnet --budget 1GiB --activation-budget 1GiB
cairn solve nosuch file
cairn bench
cairn train alexnet --backend ref --math fp64
cairn train alexnet --backend ref --math bf16
# Spelling, sizes as people type them, values that follow a letter.
cairn pln resnet50
cairn help pln
cairn plan resnet50 --math fp32
"$CAIRN" "$(printf 'pl\033an')"
"$CAIRN" plan resnet50 --batch "$(printf '\033[2J')"
cairn plan resnet50 --bugdet 3GiB
cairn plan resnet50 --normalize data
cairn train convnet --data synthetic --normalize data
cairn plan resnt50
for size in 710M 710m 710mib 710MiB 744MB 744mb; do
    "$CAIRN" plan alexnet -b1 --budget $size --top 0 | sed -n 2p
done
"$CAIRN" plan alexnet -b=1 --top 0 | head -n 1
mkfifo pipe
cairn plan pipe
cairn plan alexnet -m pipe
printf '{"format": "cairn-graph", "version": 1, "name": "a\\u001b[31m", "tensors": [], "ops": []}' >escape.json
cairn plan escape.json
"$CAIRN" train --help | awk 'length > 80'
