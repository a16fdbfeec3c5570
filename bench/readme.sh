#!/bin/sh
# readme.sh BUILD OUT: measure every figure of README.md and docs/results.md again, on the machine at hand, in one run.
#   BUILD   a build folder with the command, the benches and the tests
#   OUT     a folder for the logs; OUT/readme-COMMIT.log has everything, under headings like theirs
# PYTHON (default python3) is compared with if it has PyTorch. What this machine lacks (a GPU, PyTorch)
# is named and left out. Takes about an hour on two cores.
set -u
build=$1
out=$2
python=${PYTHON:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
log=$out/readme-$commit.log
: >"$log"

say() {
    echo "$@" | tee -a "$log"
}
run() { # run COMMAND ...: what it prints goes to the log, and how it ended
    say "\$ $*"
    "$@" >>"$log" 2>&1
    say "  (status $?)"
}

say "commit $commit, $(uname -sm), $(nproc) processors, $(date -u +%Y-%m-%d)"
git -C "$root" diff --quiet HEAD 2>/dev/null || say "with changes that are not committed"

say "== From the command line"
run "$build/cairn" plan resnet50 --batch 64 --budget 3GiB --top 3

say "== From PyTorch: eager, and mode compiled"
if "$python" -c 'import torch, cairn; assert torch.cuda.is_available()' 2>/dev/null; then
    run "$python" "$root/bench/pytorch/budget.py" --device cuda --part step
    run "$python" "$root/bench/pytorch/compiled.py" --limit 3600 --out "$out/compiled"
else
    say "left out: $python has no PyTorch with a GPU, or not the package cairn"
fi

say "== On a GPU: steps inside budgets, PyTorch beside them, table 2"
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    run "$root/bench/gpu/run.sh" "$build" "$out/gpu"
    cat "$out/gpu/gpu.log" >>"$log"
else
    say "left out: there is no NVIDIA GPU"
fi

say "== On the processor: steps against PyTorch"
if "$python" -c 'import torch' 2>/dev/null; then
    run "$python" "$root/bench/pytorch/compare.py" --cairn "$build/cairn"
    tokens="--passive --batch 1 --size 256 --pairs 6 --warmups 1 --cairn $build/cairn"
    # shellcheck disable=SC2086
    run "$python" "$root/bench/pytorch/compare.py" $tokens gpt2
    # shellcheck disable=SC2086
    run "$python" "$root/bench/pytorch/compare.py" $tokens --half --against "$build/cairn" gpt2
    # shellcheck disable=SC2086
    run "$python" "$root/bench/pytorch/compare.py" $tokens --math bf16 --against "$build/cairn" gpt2
else
    say "left out: $python has no PyTorch"
fi

say "== On the processor: steps inside budgets"
run "$build/cairn-bench" step

say "== Simulated: least memory"
run "$build/cairn-bench" table2 --json

say "== Guarantees"
run "$build/cairn-bench" layout
say "everything is in $log"
