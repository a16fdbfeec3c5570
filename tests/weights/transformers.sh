#!/bin/sh
# transformers.sh TOOL SOURCE: small GPT-2, Llama and Qwen2 of Hugging Face's transformers give the same logits
# here, and what is saved here loads there.
#
# It needs a python3 with torch, transformers and safetensors, or $CAIRN_TORCH_PYTHON if that is set. Otherwise
# the test is skipped with exit code 77. (test_weights.c checks both forms of weights everywhere.)
set -eu
tool=$1
script=$2/torch_transformers.py
python=${CAIRN_TORCH_PYTHON:-python3}

if ! "$python" -c "import torch, safetensors.torch, transformers" >/dev/null 2>&1; then
    echo "skipped: $python has no torch, safetensors and transformers; CAIRN_TORCH_PYTHON can name one that has"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$script" export "$folder"
for name in gpt2 llama llama3 qwen; do
    "$tool" tokens "$(cat "$folder/$name/zoo")" "$folder/$name/weights" "$folder/$name/data" "$folder/$name/back"
done
"$python" "$script" check "$folder"
