#!/bin/sh
# predictions.sh CAIRN SOURCE: what `cairn train --save` wrote predicts in PyTorch what `cairn
# predict` says, because the file names the normalisation.
#
# It needs a python3 with torch and safetensors, or $CAIRN_TORCH_PYTHON if that is set. Otherwise
# the test is skipped with exit code 77.
set -eu
cairn=$1
script=$2/predictions.py
python=${CAIRN_TORCH_PYTHON:-python3}

if ! "$python" -c "import torch, safetensors.torch, numpy" >/dev/null 2>&1; then
    echo "skipped: $python has no torch, safetensors and numpy; CAIRN_TORCH_PYTHON can name one that has"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$python" "$script" write
"$cairn" train convnet --data tensors:data --batch 8 --epochs 8 --lr 0.05 --save trained.safetensors --out run >train.out
for weights in trained.safetensors run/snapshot-*; do
    "$cairn" predict --weights "$weights" --data tensors:data -o predictions.safetensors
    "$python" "$script" check "$weights"
done
