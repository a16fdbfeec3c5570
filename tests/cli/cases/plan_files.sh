# A plan that is written and read again has the same figures. Also the other files that can be
# written of it.
cairn plan alexnet --batch 2 -o a.plan --json >made
cairn simulate a.plan --json >again
sed -e 1d made >made.figures
sed -e 1d again >again.figures
cmp made.figures again.figures
cairn verify a.plan
cairn verify a.plan --json
cairn verify a.plan alexnet --batch 64
"$CAIRN" plan alexnet --batch 2 -o - | cmp - a.plan
cat a.plan
cairn plan alexnet --batch 2 -o a.json --svg a.svg --trace a.trace >/dev/null
head -n 4 a.json
grep -c '</svg>' a.svg
tail -n 1 a.trace
# A model from a file.
"$CAIRN" zoo alexnet --batch 2 -o model.json
cairn simulate a.plan model.json --top 1
cairn plan model.json -o b.plan --top 1
sed -n 2,3p b.plan
cairn verify b.plan
ls
