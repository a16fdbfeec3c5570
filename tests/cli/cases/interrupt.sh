# A signal ends whatever computes for long: a message, exit code 130, no output half-way.
interrupt() {
    "$CAIRN" "$@" >out 2>err &
    pid=$!
    # the name: not the shell before it became the program; the last digit: a handler for signal 2
    until ! kill -0 $pid || { grep -q '^cairn' "/proc/$pid/comm" &&
        grep -q '^SigCgt:.*[2367abef]$' "/proc/$pid/status"; }; do sleep 0.02; done
    kill -INT $pid
    wait $pid
    echo "$1: [exit $?]"
    cat out err
}
interrupt plan densenet201 --activation-budget 40% --effort 1000
interrupt plan lstm --seq 2000 --activation-budget 10% --algorithm precise
interrupt fit resnet50 --budget 8GiB --effort 1000
interrupt sweep resnet50 --step 2
interrupt profile alexnet --batch 1 --repeat 100000
