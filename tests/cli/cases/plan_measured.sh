# A table that was measured on a GPU, away from it. The table does not say whether the GPU has memory of its own, but a
# machine that is named has a link.
root=$(dirname "$case_file")/../../..
ln -s "$root/bench/gpu/results/h200-resnet50.costs.json" h200.json
cairn plan resnet50 --batch 64 --costs h200.json --activation-budget 50% --top 0
cairn plan resnet50 --batch 64 --costs h200.json --machine h200 --activation-budget 50% --top 0
