# Exit code 2: the command line itself.
cairn nosuch
cairn plan
cairn plan one two
cairn plan alexnet --nosuch
cairn plan alexnet -x
cairn plan alexnet --batch
cairn plan alexnet --json=yes
cairn plan alexnet --batch -1
cairn plan alexnet --batch 4294967296
cairn plan alexnet --batch 1e3
cairn plan alexnet --input 3x
cairn plan alexnet --input 3x224x224x1
cairn plan alexnet --input 3x1000001x1
cairn plan alexnet --top many
cairn plan alexnet --budget 12parsecs
cairn plan alexnet --budget -1
cairn plan alexnet --budget 99999999999GiB
cairn plan alexnet --budget 1GiB --activation-budget 1GiB
cairn solve nosuch file
cairn bench
cairn train alexnet --backend ref --math fp64
cairn train alexnet --backend ref --math bf16
