# Memory against time. Only some rows are shown, because the others change with their algorithms.
"$CAIRN" sweep alexnet --batch 8 --csv points.csv --svg points.svg >table
grep -e '^alexnet' -e '^memory' -e 'more (' -e '^algorithm' -e '^none' table
awk 'length > 80' table # nothing: it fits a terminal
grep -e '^algorithm' -e '^none' points.csv
grep -c '</svg>' points.svg
"$CAIRN" sweep alexnet --batch 8 --json --step 25 | grep '"none"'
# Everything on the device counts.
"$CAIRN" sweep convnet --batch 8 --whole --optimizer-slots 2 --step 50 | grep -e '^convnet' -e '^memory' -e '^none'
cairn sweep alexnet --optimizer-slots 2
cairn sweep alexnet --step 0
cairn sweep alexnet --csv /proc/no/points.csv >/dev/null
ls
