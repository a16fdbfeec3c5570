#!/bin/sh
# check-pytorch-versions.sh BUILD [VERSION]...: the tests of the PyTorch front with several releases of
# torch, before a release of Cairn: the oldest that it supports, and the newest that pip finds. Each
# is installed in BUILD/torch-VERSION, which takes some gigabytes.
set -eu
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- 2.11.0 newest
cd "$(dirname "$0")/.."
for version; do
    environment=$build/torch-$version
    wanted=torch==$version
    [ "$version" != newest ] || wanted=torch
    [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
    install="$environment/bin/pip install --quiet --disable-pip-version-check"
    $install --upgrade "$wanted" numpy safetensors expecttest
    # As .ci/run does: without these the recipes and other people's models are skipped.
    $install transformers accelerate peft lightning diffusers &&
        $install --no-deps --upgrade --target "$environment/models" timm torchvision ||
        echo "pip cannot install other people's models here: going on without them"
    export CAIRN_MODELS_PATH="$environment/models"
    echo "==> torch $("$environment/bin/python" -c 'import torch; print(torch.__version__)')"
    scripts/check-pytorch.sh "$environment/bin/python" "$build"
done
