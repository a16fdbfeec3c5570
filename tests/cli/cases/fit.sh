# The largest batch: a plan for it was made, and one more image was tried and did not fit.
cairn fit convnet --budget 2MiB
cairn fit alexnet --budget 1GiB --machine h200 --optimizer-slots 2 --algorithm precise --json
cairn fit lstm --budget 20MB --seq 6 --algorithm pieces

# The answer is what `cairn plan` says.
for batch in 30 31; do
    cairn plan alexnet --batch $batch --budget 1GiB --machine h200 --optimizer-slots 2 --algorithm none --top 0
done

# What does not fit, and what is refused.
cairn fit vgg16 --budget 100MB
cairn fit vgg16
cairn fit vgg16 --budget 40%
cairn fit vgg16 --budget 2GiB --algorithm magic
cairn fit vgg17 --budget 2GiB
"$CAIRN" zoo convnet --batch 8 -o graph.json
cairn fit graph.json --budget 2GiB
