# Everything on the device counts, and auto goes below what the parameters take. Only some rows are
# shown, because the others change with their algorithms.
"$CAIRN" sweep alexnet --batch 8 --whole --optimizer-slots 2 --step 25 >whole
grep -e '^alexnet' -e '^memory' -e '^none' -e '^auto' whole
awk 'length > 80' whole
