# A longer search gives no slower plan. The plans themselves are not shown.
for budget in 90% 75% 60%; do
    for effort in 1 4 16; do
        "$CAIRN" plan convnet --machine cpu --budget $budget --effort $effort --json | sed 's/.*"time_ns": \([0-9]*\).*/\1/'
    done >times
    sort -rnc times && echo no slower
done
