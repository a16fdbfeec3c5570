# A graph written, read and written again has the same bytes; pictures are written whole.
cairn zoo resnet18 --batch 2 -o a.json
cairn zoo a.json -o b.json
cmp a.json b.json
"$CAIRN" zoo a.json -o - | cmp - a.json
cairn zoo a.json --json
cairn zoo alexnet --picture a.dot
head -n 3 a.dot
cairn zoo alexnet --picture a.svg
grep -c '</svg>' a.svg
ls
