# The system refuses memory: the message has the figures, exit code 4. This case is not run under
# sanitizers, because they need the address space.
(
    ulimit -v 2000000
    "$CAIRN" train resnet18 --batch 256 --algorithm none --backend ref --threads 1 2>&1 | sed -E 's/(has|which) [0-9]+/\1 N/g'
)
# Whatever the limit, the command succeeds or says why not.
for limit in 160000 200000 240000 250000 260000 270000 280000; do
    (
        ulimit -v $limit
        status=0
        "$CAIRN" train convnet --batch 64 --steps 1 --threads 2 >out 2>err || status=$?
        case $status in
        0) ;;
        4) grep -q '^cairn: ' err || echo "says nothing at $limit" ;;
        *) echo "exit $status at $limit" ;;
        esac
    )
done
