# Sizes act or are refused: with graph files, with plans, and where numbers are missing.
"$CAIRN" zoo convnet --batch 8 --input 3x16x16 -o net.json
for command in plan train sweep profile zoo; do
    cairn $command net.json --batch 4
done
cairn plan net.json --input 3x8x8
cairn plan net.json --classes 3
cairn fit net.json --budget 1GiB
cairn train net.json --data synthetic --samples 100 --input 3x16x16 --batch 4
cairn plan convnet --input 3x8
cairn plan lstm --input 3x8x8
cairn train convnet --data synthetic --input 3x8

# A plan of one size can be judged and carried out in another; what is said is of that size.
"$CAIRN" plan convnet --batch 8 --input 3x16x16 -o a.plan >whole
for size in "--batch 8" "--batch 16" "--input 3x32x32"; do
    "$CAIRN" simulate a.plan $size | sed -n '1p; 3p'
done
"$CAIRN" train --plan a.plan --batch 4 --backend ref --steps 1 | sed -n '1,2p'

# The machine's memory, one memory, and a machine where it is the host's.
"$CAIRN" plan resnet50 --batch 512 | grep -A 1 together
"$CAIRN" plan convnet --machine cpu --budget 60% | grep -c 'copies out'
cairn plan convnet --machine cpu --budget 80% --algorithm vdnn
"$CAIRN" fit convnet --input 3x16x16 --machine cpu --budget 2MiB | awk '{ print $1 }'

# A loss that is not finite ends the run, or is said once.
cat >finite <<'SCRIPT'
"$CAIRN" train convnet --backend ref --batch 4 --input 3x8x8 --lr 999999 --optimizer sgd --momentum 0.99 --steps 60 "$@" 2>said >table
grep -c loss table
grep -c -e -nan table
SCRIPT
sh finite; sed 's/step [0-9]*/step N/' said
sh finite --stop-on-nan no; sed 's/step [0-9]*/step N/' said
cairn train convnet --stop-on-nan perhaps
