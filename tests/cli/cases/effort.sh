# A longer search gives no slower plan, whatever the numbers, with all memory counted or only that of
# activations; and the largest one here gives a faster plan. The plans themselves are not shown.
falls() { # falls EFFORTS MODEL OPTION...
    efforts=$1
    shift
    for effort in $efforts; do
        "$CAIRN" plan "$@" --machine cpu --effort $effort --json | sed 's/.*"time_ns": \([0-9]*\).*/\1/'
    done >times
    sort -rnc times && echo no slower
    [ "$(head -n 1 times)" -gt "$(tail -n 1 times)" ] && echo faster
}
falls "1 2 3 5 8 16" convnet --budget 60%
falls "1 2 4" inception_v3 --batch 4 --activation-budget 25%
falls "1 3 4" unet --batch 2 --budget 45%
cairn plan convnet --effort 0
cairn plan convnet --effort 1001
