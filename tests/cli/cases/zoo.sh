# The networks, and a few of them in figures.
cairn zoo
for network in alexnet resnet50 densenet121 inception_v3 nasnet lstm unet; do
    cairn zoo "$network" --json
done
cairn zoo alexnet --batch 1
cairn zoo resnet18 --batch 4 --input 3x64x64 --classes 10 --json
cairn zoo rnn --seq 3 --input 8x16 --json
"$CAIRN" zoo --json | wc -l
