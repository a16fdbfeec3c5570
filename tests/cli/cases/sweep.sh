# Memory against time. Only some rows are shown, because the others change with their algorithms.
"$CAIRN" sweep alexnet --batch 8 --csv points.csv --svg points.svg >table
grep -e '^alexnet' -e '^algorithm' -e '^none' table
awk 'length > 80' table # nothing: it fits a terminal
grep -e '^algorithm' -e '^none' points.csv
grep -c '</svg>' points.svg
"$CAIRN" sweep alexnet --batch 8 --json --step 25 | grep '"none"'
cairn sweep alexnet --step 0
cairn sweep alexnet --csv /proc/no/points.csv >/dev/null
ls
