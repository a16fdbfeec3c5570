# The same for programs: one object a line.
cairn plan alexnet --batch 1 --json
cairn plan rnn --batch 2 --seq 3 --json --algorithm none
"$CAIRN" plan resnet50 --json | wc -l
