# The system refuses memory: the message has the figures, exit code 4. This case is not run under
# sanitizers, because they need the address space.
(
    ulimit -v 2000000
    "$CAIRN" train resnet18 --batch 256 --algorithm none --backend ref --threads 1 2>&1 | sed -E 's/(has|which) [0-9]+/\1 N/g'
)
