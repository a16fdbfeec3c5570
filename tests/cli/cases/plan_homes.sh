# 75 GiB of parameters and optimiser in 24 GiB: most of it is at home on the host.
cairn plan llama:llama-2-7b --batch 2 --seq 1024 --optimizer-slots 2 --budget 24GiB --machine h200 --top 0
