# Near the smallest budget a plan comes from a long random search. It is the same with every compiler.
cairn plan lstm --batch 64 --no-offload --activation-budget 1
"$CAIRN" plan lstm --batch 64 --no-offload --activation-budget 3814341 -o a.plan >table
grep 'time of a step' table
sha256sum a.plan
cairn plan resnet34 --batch 4 --no-offload --activation-budget 1
"$CAIRN" plan resnet34 --batch 4 --no-offload --activation-budget 28380644 -o b.plan >table
grep 'time of a step' table
sha256sum b.plan
