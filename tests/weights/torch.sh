#!/bin/sh
# torch.sh TOOL SOURCE: a ResNet-18 exported from PyTorch gives the same logits here, and what is
# saved here loads there.
#
# It needs a python3 with torch and safetensors, or $CAIRN_TORCH_PYTHON if that is set. Otherwise
# the test is skipped with exit code 77. (test_weights_logits.c checks stored logits everywhere.)
set -eu
tool=$1
script=$2/torch_resnet18.py
python=${CAIRN_TORCH_PYTHON:-python3}

if ! "$python" -c "import torch, safetensors.torch, numpy" >/dev/null 2>&1; then
    echo "skipped: $python has no torch, safetensors and numpy; CAIRN_TORCH_PYTHON can name one that has"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$script" export "$folder"
"$tool" logits "$folder/weights.safetensors" "$folder/data.safetensors" "$folder/back.safetensors"
"$python" "$script" check "$folder"
