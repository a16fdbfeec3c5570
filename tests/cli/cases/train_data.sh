# Training on data: what is printed, what is left on disk, and what is refused. Losses, times and
# hashes depend on the machine and are not shown.
hide() { sed -e 's/ [0-9.]* *[0-9.]*%.*$/ .../; s/ in [0-9].*$/ .../; s/ after step.*$/ .../; s/sha256 .*/sha256/; s/at most .* before/at most ... before/'; }
model="convnet --backend ref --data synthetic --samples 120 --input 3x8x8 --batch 8 --threads 2 --seed 3"
"$CAIRN" train $model --epochs 2 --out run --save a.safetensors | hide
ls run
"$CAIRN" train $model --epochs 2 --budget 85% --json --log b.jsonl >b
cmp run/log.jsonl b.jsonl && wc -l <b.jsonl
tail -n 1 b | sed 's/: ".*"/: .../'
sed -n '1p; 14p' run/log.jsonl | sed 's/: [0-9.]*/: N/g'

# Resume in the same folder: nothing is left to do, unless there are more steps.
"$CAIRN" train --resume run | tail -n 1 >again
"$CAIRN" train $model --epochs 2 | tail -n 1 | cmp - again && echo the same
"$CAIRN" train --resume run --epochs 3 --json | grep -c '"step"'
cairn train --resume run --epochs 3 --optimizer adam
cairn train --resume run --epochs 3 --momentum 0.5
cairn train $model --out run
cairn train --resume nothing
mkdir empty
cairn train --resume empty
cairn train $model --out run --resume run

# Accumulated gradients: a step has several batches.
"$CAIRN" train $model --accumulate 3 --steps 2 --json | grep -c accuracy

# Weights in and out.
"$CAIRN" train $model --weights a.safetensors --steps 1 >/dev/null; echo "[exit $?]"
cairn train resnet18 --data synthetic --samples 120 --batch 8 --weights a.safetensors --steps 1
cairn train convnet --weights nothing.safetensors

# An interrupted run exits with 130 and a snapshot; the rest of the run is the same.
cat >interrupt.sh <<'SCRIPT'
"$CAIRN" train $model --epochs 400 --out stopped >/dev/null 2>said &
until ls stopped/snapshot-* >/dev/null 2>&1; do sleep 0.01; done
child=$!
"$CAIRN" train --resume stopped; echo "[exit $?]"
kill -$1 $child
wait $child
echo "[exit $?]"
sed 's/step [0-9]*/step N/' said
SCRIPT
for signal in INT HUP; do
    model="$model" sh interrupt.sh $signal
    rm -r stopped
done

# What is refused.
cairn train convnet --epochs 2
cairn train convnet --data
cairn train convnet --data cinema:films
cairn train convnet --data mnist:nowhere
cairn train convnet --data synthetic --augment blur
cairn train convnet --data synthetic --steps 3 --epochs 2
cairn train convnet --data synthetic --samples 20
cairn train convnet --data synthetic --classes 5000
cairn train lstm --data synthetic --samples 100
"$CAIRN" zoo convnet --batch 8 -o graph.json
cairn train graph.json --data synthetic --samples 100 --input 3x16x16
cairn train graph.json --label-smoothing 0.1
cairn train convnet --optimizer sdg
cairn train convnet --lr fast
cairn train convnet --lr -1
cairn train convnet --beta1 0.5
cairn train convnet --optimizer adam --momentum 0.5
cairn train convnet --nesterov --momentum 0
cairn train convnet --schedule linear
cairn train convnet --decay-every 3
cairn train convnet --label-smoothing 1
cairn train convnet --snapshot-every 3
"$CAIRN" train $model --steps 1 --out new/folder/run --log new/logs/log --save new/weights/w >/dev/null
ls new new/folder/run
touch file
cairn train $model --out file
cairn train $model --out file/folder
cairn train $model --log file/log
cairn train $model --save file/weights
cairn train $model --save new
cairn train $model --html /proc/no/page.html
(ulimit -f 60; trap '' XFSZ; "$CAIRN" train $model --steps 1 --out full 2>&1 >/dev/null) | sed 's/\.tmp.*: /: /'
ls full

# Continued from another folder: the network and the data are found where the run was started.
mkdir home elsewhere
yes 'one two three ' | head -n 50 >home/text
"$CAIRN" zoo gpt2:layers=1,width=16,heads=2,ffn=32 --classes 256 --seq 8 --source >home/words.net
(cd home && "$CAIRN" train words.net --backend ref --data text:text --batch 4 --steps 4 --log lines --out run | tail -n 1 >whole)
(cd home && "$CAIRN" train words.net --backend ref --data text:text --batch 4 --steps 2 --log other --out half >/dev/null)
(cd elsewhere && "$CAIRN" train --resume ../home/half --steps 4 | tail -n 1 | cmp - ../home/whole && echo the same; ls)
grep -v validation home/lines >steps
grep -v validation home/other | cmp - steps && echo the same log
