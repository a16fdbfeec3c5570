# Memory that the system refuses: both figures in one sentence, exit 4. Sanitizers, which need the
# address space for themselves, leave this case out.
(
    ulimit -v 2000000
    "$CAIRN" train resnet18 --batch 256 --algorithm none --backend ref --threads 1 2>&1 | sed 's/has [0-9]*/has N/'
)
