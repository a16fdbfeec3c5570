# More than 5,000 ops with state that is over the budget: fewer plans are tried.
large="gpt2:124M,layers=145,width=256,heads=4 --batch 4 --seq 128 --classes 512 --machine h200 --optimizer-slots 2 --top 0"
cairn plan $large --budget 1GiB
cairn plan $large --budget 250MiB
