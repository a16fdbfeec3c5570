# Exit code 3: nothing fits; the message says which budget would.
cairn plan alexnet --algorithm none --budget 1MiB
cairn plan alexnet --algorithm none --activation-budget 1MiB
cairn plan alexnet --algorithm none --activation-budget 0
cairn plan alexnet --algorithm none --activation-budget 50%
cairn plan alexnet --budget 1MiB
# The smallest budget in the message does fit.
cairn plan alexnet --algorithm none --budget 834225792 --top 0
cairn plan alexnet --algorithm none --budget 834225791
