#!/bin/sh
# check-pytorch.sh PYTHON BUILD: runs the tests of the PyTorch front with the wheel that users get.
# PYTHON must have torch; BUILD holds libcairn_plan.so. Exits with 77 if torch is missing.
set -eu
python=$1
build=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "check-pytorch: SKIPPED, $python has no torch; set CAIRN_TORCH_PYTHON to one that has" >&2
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wheel=$(python3 python/make_wheel.py "$build" "$folder/dist")
# A new virtual environment with this wheel and the torch of PYTHON, nothing else.
"$python" -m venv --without-pip "$folder/env"
"$python" -m pip --python "$folder/env/bin/python" install --quiet --no-deps --no-index "$wheel"
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
"$python" -c "$purelib" >"$("$folder/env/bin/python" -c "$purelib")/torch.pth"
python=$folder/env/bin/python
[ ! -x "$build/cairn" ] || export CAIRN_COMMAND="$build/cairn" # for the networks that are exported to it
export CAIRN_CACHE="$folder/cache" PYTHONDONTWRITEBYTECODE=1
export OMP_NUM_THREADS=1 TORCHINDUCTOR_CACHE_DIR="$folder/inductor" TORCHINDUCTOR_COMPILE_THREADS=1
export TORCHINDUCTOR_VEC_ISA_OK=0 # else each process tries out the vector instructions of this machine
cd tests/pytorch
# The long ones first.
"$python" run_all.py "${JOBS:-2}" ${CAIRN_PYTORCH_TESTS:- \
    test_exact:resnet50 test_ops test_programs test_processes test_compiled:Steps \
    test_exact:resnet18 test_models test_compiled:Features test_compiled_arena test_arena \
    test_slices test_measured test_memsets test_groups test_merges test_forms test_captures \
    test_rows test_shared test_recipes test_first_call \
    test_trainer:Same test_trainer:Homes test_trainer:FirstCall test_trainer:Refused test_regions \
    test_strangers test_norms test_numbers test_results test_scripts test_features:Training \
    test_features:Planning test_features:Inside test_exact:densenet test_exact:llama \
    test_exact:unet test_exact:gpt test_exact:vit test_features:Refused test_export test_package \
    test_cuda}
