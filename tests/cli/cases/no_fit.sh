# Exit code 3: nothing fits; the sentence says what would.
cairn plan alexnet --algorithm none --budget 1MiB
cairn plan alexnet --algorithm none --activation-budget 1MiB
cairn plan alexnet --algorithm none --activation-budget 0
cairn plan alexnet --algorithm none --activation-budget 50%
cairn plan alexnet --budget 1MiB
# The smallest budget that it names does.
cairn plan alexnet --algorithm none --budget 834225792 --top 0
cairn plan alexnet --algorithm none --budget 834225791
