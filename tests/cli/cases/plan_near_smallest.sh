# Near the smallest budget a plan comes from a long random search. It is the same with every compiler.
cairn plan resnet18 --batch 4 --no-offload --activation-budget 1
"$CAIRN" plan resnet18 --batch 4 --no-offload --activation-budget 28MiB -o a.plan >table
grep 'time of a step' table
sha256sum a.plan
cairn plan rnn --batch 64 --no-offload --activation-budget 1
"$CAIRN" plan rnn --batch 64 --no-offload --activation-budget 3MiB -o b.plan >table
grep 'time of a step' table
sha256sum b.plan
