# A budget: the plan is the same every time, legal, and within the budget. Without --algorithm it is
# the plan of auto.
"$CAIRN" plan resnet50 --budget 50% -o a.plan >table
grep -c 'of a budget of 1.4 GiB' table
"$CAIRN" plan resnet50 --budget 50% -o b.plan >/dev/null
cmp a.plan b.plan
"$CAIRN" verify a.plan --activation-budget 1254734848 | cut -d : -f 1
cairn plan alexnet --batch 8 --algorithm precise --activation-budget 80% --top 1
cairn plan vgg16 --algorithm feng --top 0
cairn plan vgg16 --algorithm chen --budget 40% --top 0 --json
