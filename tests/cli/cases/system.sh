# Exit code 4: an error of the system. No half-written file is left.
mkdir folder
touch file
cairn plan alexnet --batch 1 -o file/a.plan --top 0
cairn plan alexnet --batch 1 -o folder --top 0
cairn plan alexnet --batch 1 --svg file/a.svg --top 0
cairn zoo alexnet -o file/a.json
cairn zoo alexnet --picture file/a.svg
cairn plan folder
"$CAIRN" --help >/dev/full; echo "[exit $?]"
"$CAIRN" zoo >/dev/full; echo "[exit $?]"
"$CAIRN" zoo alexnet -o - >/dev/full; echo "[exit $?]"
"$CAIRN" plan alexnet >/dev/full; echo "[exit $?]"
"$CAIRN" plan alexnet --json >/dev/full; echo "[exit $?]"
"$CAIRN" plan alexnet >&-; echo "[exit $?]"
cairn zoo alexnet -o /dev/full
# A file stays as it was if its replacement cannot be written completely.
echo old >kept
(ulimit -f 1; trap '' XFSZ; "$CAIRN" zoo alexnet -o kept) 2>&1 | sed -e 's/kept.tmp.*/kept/'
cat kept
# So do tables of points and predictions, and a device is never removed.
ln -s /dev/full full
"$CAIRN" train convnet --backend ref --input 3x8x8 --data synthetic --samples 2000 --batch 100 --steps 1 --save w.safetensors >/dev/null
"$CAIRN" sweep convnet --step 50 --csv full 2>&1 >/dev/null; echo "[exit $?]"
"$CAIRN" predict --backend ref --weights w.safetensors --data synthetic --samples 2000 -o full; echo "[exit $?]"
(ulimit -f 1; trap '' XFSZ; "$CAIRN" sweep convnet --step 10 --csv kept 2>&1 >/dev/null
    "$CAIRN" predict --backend ref --weights w.safetensors --data synthetic --samples 2000 -o kept 2>&1) | sed -e 's/kept.tmp.*/kept/'
cat kept
find . | sort
"$CAIRN" predict --backend ref --weights w.safetensors --data synthetic --samples 2000 >&-; echo "[exit $?]"
