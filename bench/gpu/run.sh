#!/bin/sh
# Tests and times the backend cuda on a machine with an NVIDIA GPU.
#   bench/gpu/run.sh BUILD OUT [STAGE ...]
# BUILD is a build folder with the command and the tests; OUT a folder for the log. Stages: kernels,
# ops, networks, sanitizer, train, steps, planned, offload, peers; all of them without one. Every
# stage has a time limit and prints how it ended.
build=$1
out=$2
shift 2
stages=${*:-kernels ops networks sanitizer train steps planned offload peers}
mkdir -p "$out"
log=$out/gpu.log
: >"$log"

# If the system does not have the libraries, use those of a Python environment.
if ! ldconfig -p | grep -q libcudnn.so.9; then
    site=$(python3 -c 'import importlib.util as u; print(list(u.find_spec("nvidia").submodule_search_locations)[0])')
    LD_LIBRARY_PATH=$site/cudnn/lib:$site/cu13/lib:$LD_LIBRARY_PATH
fi
if ! ldconfig -p | grep -q libcublasLt.so.13; then
    for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib; do
        [ -e $folder/libcublasLt.so.13 ] && LD_LIBRARY_PATH=$folder:$LD_LIBRARY_PATH
    done
fi
export LD_LIBRARY_PATH

say() {
    echo "$@" | tee -a "$log"
}

# run LIMIT COMMAND ...
run() {
    limit=$1
    shift
    say "\$ $*"
    began=$(date +%s)
    timeout "$limit" "$@" >"$out/last.txt" 2>&1
    status=$?
    cat "$out/last.txt" >>"$log"
    tail -n 12 "$out/last.txt"
    say "  (status $status, $(($(date +%s) - began)) s)"
}

# planned NAME BATCH BUDGET ...: measure the ops, then run the plan that keeps everything and the
# plans of the budgets. Budgets do not count parameters.
planned() {
    name=$1
    batch=$2
    shift 2
    costs=$out/$name.costs.json
    run 200 "$build/cairn" profile "$name" --backend cuda --batch "$batch" --every-implementation \
        -o "$costs"
    run 60 "$build/cairn" train "$name" --backend cuda --batch "$batch" --steps 20 --costs "$costs" \
        --algorithm none
    for budget in "$@"; do
        run 120 "$build/cairn" train "$name" --backend cuda --batch "$batch" --steps 20 \
            --costs "$costs" --algorithm auto --activation-budget "$budget"
    done
}

say "commit ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader | tee -a "$log"
sha256sum "$build/cairn" | tee -a "$log"

for stage in $stages; do
    say "== $stage"
    case $stage in
    kernels) run 120 "$build/tests/test_cuda_kernels" ;;
    ops) run 300 "$build/tests/test_cuda_ops" device ;;
    networks) run 300 "$build/tests/test_cuda_networks" device ;;
    sanitizer) run 200 compute-sanitizer --tool memcheck --error-exitcode 9 \
        "$build/tests/test_cuda_networks" device rnn resnet18 ;;
    train)
        run 120 "$build/cairn" train resnet18 --backend cuda --data synthetic --samples 2000 \
            --input 3x32x32 --classes 10 --batch 64 --epochs 2
        ;;
    steps)
        run 120 "$build/cairn" train resnet50 --backend cuda --algorithm none --batch 64 --steps 20
        run 120 "$build/cairn" train resnet152 --backend cuda --algorithm none --batch 16 --steps 20
        run 120 "$build/cairn" train densenet201 --backend cuda --algorithm none --batch 16 --steps 20
        run 120 "$build/cairn" train vgg16 --backend cuda --algorithm none --batch 64 --steps 20
        run 120 "$build/cairn" train inception_v3 --backend cuda --algorithm none --batch 32 --steps 20
        run 120 "$build/cairn" train nasnet --backend cuda --algorithm none --batch 64 --steps 20
        ;;
    planned)
        planned resnet50 64 1500MiB 2600MiB 50%
        planned resnet152 16 450MiB
        planned densenet201 16 450MiB
        planned vgg16 64 2500MiB
        planned inception_v3 32 800MiB
        planned nasnet 64 600MiB
        ;;
    offload)
        run 120 "$build/cairn" train resnet50 --backend cuda --batch 64 --steps 20 \
            --costs "$out/resnet50.costs.json" --algorithm offload-best --activation-budget 50%
        ;;
    peers)
        run 200 python3 "$(dirname "$0")/torch_peers.py" resnet50:64 resnet152:16 densenet201:16 \
            vgg16:64 inception_v3:32
        ;;
    *) say "there is no stage $stage" ;;
    esac
done
rm -f "$out/last.txt"
