# Exit code 3: nothing fits; the message says which budget would.
cairn plan alexnet --algorithm none --budget 1MiB
cairn plan alexnet --algorithm none --activation-budget 1MiB
cairn plan alexnet --algorithm none --activation-budget 0
cairn plan alexnet --algorithm none --activation-budget 50%
cairn plan alexnet --budget 1MiB
# The smallest budget in the message does fit.
cairn plan alexnet --algorithm none --budget 834225792 --top 0
cairn plan alexnet --algorithm none --budget 834225791
# The host has too little memory for what would be at home there.
cat >narrow.json <<'END'
{"format": "cairn-machine", "version": 1, "name": "narrow", "flops_per_second": 1000000000000,
 "memory_bytes_per_second": 100000000000, "launch_ns": 1000, "link_bytes_per_second": 10000000000,
 "link_latency_ns": 1000, "full_duplex": true, "memory_bytes": 1073741824,
 "host_memory_bytes": 67108864}
END
cairn plan alexnet --batch 8 --budget 400MiB --machine narrow.json --optimizer-slots 2
