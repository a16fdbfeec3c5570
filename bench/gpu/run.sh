#!/bin/sh
# Tests and times the backend cuda on a machine with an NVIDIA GPU.
#   bench/gpu/run.sh BUILD OUT [STAGE ...]
# BUILD is a build folder with the command and the tests; OUT a folder for the log. Stages: kernels,
# ops, hopper, networks, sanitizer, train, steps, planned (planned:NAME for one network), bf16, fp32, repeat,
# table (table:NAME for one network), offload, peers (peers:WAY:NAME:BATCH for one), compiled, tokens
# (tokens:NAME for one transformer), token_peers (token_peers:ENTRY for one), whole (whole:NAME for one
# network: budgets that count everything); all of them without one. Every stage has a time limit and prints how it ended.
build=$1
out=$2
shift 2
stages=${*:-kernels ops hopper networks sanitizer train steps planned bf16 fp32 repeat table offload peers compiled tokens token_peers whole}
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
PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH PATH

say() {
    echo "$@" | tee -a "$log"
}

# run LIMIT COMMAND ...
run() {
    limit=$1
    shift
    say "\$ $*"
    began=$(date +%s)
    timeout --foreground "$limit" "$@" >>"$log" 2>&1 # straight into the log, which keeps it if the run is cut off
    status=$?
    tail -n 12 "$log"
    say "  (status $status, $(($(date +%s) - began)) s)"
}

# train NAME BATCH OPTION ...: train for twenty steps, or $train_steps. The log keeps the first and
# the last step and the figures.
train() {
    name=$1
    batch=$2
    shift 2
    say "\$ cairn train $name --backend cuda --batch $batch --steps ${train_steps:-20} $*"
    timeout --foreground ${train_limit:-60} "$build/cairn" train "$name" --backend cuda --batch "$batch" --steps ${train_steps:-20} "$@" >"$out/last.txt" 2>&1
    status=$?
    grep -v -E '^ +([2-9]|1[0-9]) ' "$out/last.txt" | tee -a "$log"
    awk '/^ +([2-9]|1[0-9]|20) /{print $4 == "s" ? 1000 * $3 : $3}' "$out/last.txt" | sort -n |
        awk '{t[NR]=$1} END {if (NR) print "  median of all steps but the first: " t[int((NR+1)/2)] " ms"}' | tee -a "$log"
    hash=$(sed -n 's/^ *parameters sha256 //p' "$out/last.txt")
    [ $status = 0 ] || say "  (status $status)"
}

# planned NAME BATCH BUDGET ...: measure the ops, then run the plan that keeps everything and the
# plans of the budgets, which do not count parameters. All runs must end with the same parameters,
# bit for bit.
planned() {
    name=$1
    batch=$2
    shift 2
    costs=$out/$name.$math.costs.json
    run 200 "$build/cairn" profile "$name" --backend cuda --batch "$batch" --math $math \
        --every-implementation -o "$costs"
    budgets=$*
    train "$name" "$batch" --math $math --costs "$costs" --algorithm none
    none=$hash
    for budget in $budgets; do
        train "$name" "$batch" --math $math --costs "$costs" --algorithm auto \
            --activation-budget "$budget"
        same=no
        [ -n "$hash" ] && [ "$hash" = "$none" ] && same=yes
        say "  bits as none: $same"
    done
}
math=tf32

# transformer NAME BATCH "OPTION ..." PROFILED BUDGET ...: the same for a transformer in bf16 with AdamW.
# PROFILED is a network whose ops have the same signatures: the same one, or one with fewer layers.
transformer() {
    name=$1
    batch=$2
    options=$3
    profiled=$4
    shift 4
    costs=$out/$(echo "$name" | tr ':,=' '___').costs.json
    train_limit=120
    # shellcheck disable=SC2086 # the options are several words
    {
        run 120 "$build/cairn" profile "$profiled" --backend cuda --batch "$batch" --math bf16 $options \
            --every-implementation --top 40 -o "$costs"
        train "$name" "$batch" --math bf16 $options --optimizer adamw --costs "$costs" --algorithm none
        none=$hash
        for budget in "$@"; do
            for bits in "" --same-bits; do # with chunks of the head, and without
                train "$name" "$batch" --math bf16 $options --optimizer adamw --costs "$costs" \
                    --algorithm auto --activation-budget "$budget" $bits
                same=no
                [ -n "$hash" ] && [ "$hash" = "$none" ] && same=yes
                say "  ${bits:-chunks of the head allowed}: bits as none: $same"
                "$build/cairn" plan "$name" --backend cuda --batch "$batch" --math bf16 $options \
                    --costs "$costs" --activation-budget "$budget" $bits |
                    grep -E 'time of a step|no plan takes|computed again' | tee -a "$log"
            done
        done
    }
    awk -f "$(dirname "$0")/bounds.awk" "$log" | grep -F "  $name in " | tee -a "$log"
    train_limit=60
}

# The rows of transformers. Words are a multiple of 64, as trainers have them.
transformer_row() {
    case $1 in
    gpt2_355M) transformer gpt2:355M 8 "--seq 1024 --classes 50304" gpt2:355M 1300MiB ;;
    llama)
        llama=llama:llama-2-7b,layers=16,width=2048,heads=32,kv_heads=8,ffn=5632
        transformer $llama 4 "--seq 2048 --classes 32000" $llama 790MiB
        ;;
    gpt2_124M) transformer gpt2 64 "--seq 1024 --classes 50304" gpt2 6056MiB ;;
    gpt2_1558M) transformer gpt2:1558M 16 "--seq 1024 --classes 50304" gpt2:1558M,layers=4 9632MiB ;;
    vit_l_16) transformer vit_l_16 64 "" vit_l_16 50% ;;
    *) say "there is no row for $1" ;;
    esac
}

# The rows of the table of planned steps.
planned_network() {
    case $1 in
    resnet50) planned resnet50 64 1500MiB 2600MiB ;;
    resnet152) planned resnet152 16 450MiB ;;
    densenet201) planned densenet201 16 450MiB ;;
    vgg16) planned vgg16 64 2500MiB ;;
    inception_v3) planned inception_v3 32 800MiB ;;
    nasnet) planned nasnet 64 600MiB ;;
    *) say "there is no row for $1" ;;
    esac
}

# whole NAME BATCH "OPTION ..." "BUDGET ..." [STEPS [PROFILED [ALL]]]: the step with everything on the
# device, and the step in budgets that count everything. All end with the same parameters. PROFILED is
# a network whose ops have the same signatures, for example with fewer layers, which takes less time
# to measure. ALL is the budget of the first step; without it that is a step whose gradients wait for
# the update.
whole() {
    name=$1
    batch=$2
    options=$3
    budgets=$4
    train_steps=${5:-20}
    profiled=${6:-$name}
    everything="--algorithm none"
    [ -n "$7" ] && everything="--budget $7"
    costs=$out/$(echo "$name" | tr ':,=' '___').whole.costs.json
    train_limit=${whole_limit:-240}
    # shellcheck disable=SC2086 # the options are several words
    {
        run 100 "$build/cairn" profile "$profiled" --backend cuda --batch "$batch" ${options%%--optimizer*} \
            --every-implementation --seconds 10 --top 10 -o "$costs"
        train "$name" "$batch" $options --costs "$costs" $everything
        none=$hash
        for budget in $budgets; do
            train "$name" "$batch" $options --costs "$costs" --budget "$budget"
            same=no
            [ -n "$hash" ] && [ "$hash" = "$none" ] && same=yes
            say "  bits as with everything on the device: $same"
        done
    }
    train_limit=60
    train_steps=20
}

# The rows of whole steps: gradients that are freed, state that alone is over the budget, and language
# models with as many tokens in a step as hide the copies.
whole_network() {
    case $1 in
    vgg16) whole vgg16 64 "--math tf32 --optimizer sgd" "6GiB 5000MiB" ;;
    resnet152) whole resnet152 4 "--math tf32 --optimizer adam" 512MiB ;;
    gpt2_1558M) whole gpt2:1558M 24 "--math bf16 --seq 1024 --classes 50304 --optimizer adamw --same-bits" 12GiB 4 \
        gpt2:1558M,layers=12 ;;
    llama_3b)
        sizes=width=3072,heads=24,kv_heads=24,ffn=8192
        whole llama:llama-2-7b,layers=26,$sizes 16 \
            "--math bf16 --seq 2048 --classes 32000 --optimizer adamw --same-bits" 8GiB 3 \
            llama:llama-2-7b,layers=2,$sizes 128GiB
        ;;
    *) say "there is no row for $1" ;;
    esac
}

say "commit ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader | tee -a "$log"
sha256sum "$build/cairn" | tee -a "$log"

for stage in $stages; do
    say "== $stage"
    case $stage in
    kernels) run 120 "$build/tests/test_cuda_kernels" ;;
    ops) run 300 "$build/tests/test_cuda_ops" device ;;
    hopper)
        run 120 "$build/tests/test_cuda_hopper" device
        run 200 compute-sanitizer --tool memcheck --error-exitcode 9 "$build/tests/test_cuda_hopper" device small
        ;;
    networks) run 300 "$build/tests/test_cuda_networks" device ;;
    sanitizer) run 200 compute-sanitizer --tool memcheck --error-exitcode 9 \
        "$build/tests/test_cuda_networks" device toy joined rnn ;;
    train)
        run 120 "$build/cairn" train resnet18 --backend cuda --data synthetic --samples 2000 \
            --input 3x32x32 --classes 10 --batch 64 --epochs 2
        ;;
    steps)
        train resnet50 64 --algorithm none
        train resnet152 16 --algorithm none
        train densenet201 16 --algorithm none
        train vgg16 64 --algorithm none
        train inception_v3 32 --algorithm none
        train nasnet 64 --algorithm none
        ;;
    planned)
        for network in resnet50 resnet152 densenet201 vgg16 inception_v3 nasnet; do
            planned_network $network
        done
        ;;
    planned:*) planned_network "${stage#planned:}" ;;
    bf16)
        math=bf16
        planned resnet50 64 50%
        train resnet152 16 --math bf16 --algorithm none
        train vgg16 64 --math bf16 --algorithm none
        math=tf32
        ;;
    fp32) # a longer step, in which more copies are hidden
        math=fp32
        planned resnet50 64 50%
        math=tf32
        ;;
    repeat) # the same plan, five times in processes of their own
        planned densenet121 32 830MiB 830MiB 830MiB 830MiB 830MiB
        ;;
    table) run 600 "$build/cairn-bench" table2 --run --full --backend cuda --repeat 5 ;;
    table:*) run 90 "$build/cairn-bench" table2 --run --full --backend cuda --repeat 5 --only "${stage#table:}" ;;
    offload)
        train resnet50 64 --costs "$out/resnet50.tf32.costs.json" --algorithm offload-best \
            --activation-budget 50%
        ;;
    peers)
        for way in eager captured; do
            run 200 python3 "$(dirname "$0")/torch_peers.py" $way:resnet50:64 $way:resnet152:16 \
                $way:densenet201:16 $way:vgg16:64 $way:inception_v3:32
        done
        run 60 python3 "$(dirname "$0")/torch_peers.py" captured-bf16:resnet50:64
        ;;
    peers:*) run 60 python3 "$(dirname "$0")/torch_peers.py" "${stage#peers:}" ;;
    compiled) run 130 python3 "$(dirname "$0")/torch_peers.py" --limit 120 compiled:resnet50:64 ;;
    tokens)
        for network in gpt2_355M llama gpt2_124M gpt2_1558M vit_l_16; do
            transformer_row $network
        done
        ;;
    tokens:*) transformer_row "${stage#tokens:}" ;;
    token_peers)
        run 600 python3 "$(dirname "$0")/token_peers.py" compiled:gpt2-24x1024x16:8:1024 \
            compiled+adamw:gpt2-24x1024x16:8:1024 compiled+checkpoint:gpt2-24x1024x16:8:1024 \
            compiled:llama-16x2048x32x8x5632:4:2048 compiled+adamw:llama-16x2048x32x8x5632:4:2048 \
            compiled+checkpoint:llama-16x2048x32x8x5632:4:2048 compiled+adamw:gpt2-12x768x12:64:1024 \
            compiled+adamw:vit_l_16:64
        ;;
    token_peers:*) run 150 python3 "$(dirname "$0")/token_peers.py" "${stage#token_peers:}" ;;
    whole)
        for network in vgg16 resnet152 gpt2_1558M llama_3b; do
            whole_network $network
        done
        ;;
    whole:*) whole_network "${stage#whole:}" ;;
    *) say "there is no stage $stage" ;;
    esac
done
rm -f "$out/last.txt"
