# eval and predict: the score is the one that training printed, predictions agree with it, and inputs
# are normalised as in training. Numbers that depend on the machine are compared and not shown.
hide() { sed -e 's/[0-9][0-9]*\.[0-9]*%* *[0-9]* of/N of/; s/\(loss  *\)[0-9.]*/\1N/; s/[0-9]\.[0-9e-]*/N/g'; }
data="--data synthetic --samples 120"
"$CAIRN" train convnet --backend ref $data --input 3x8x8 --batch 8 --seed 3 --epochs 2 --out run --save w.safetensors --threads 2 | sed -n '/inputs/,/deviation/p' | hide
"$CAIRN" eval --backend ref --weights w.safetensors $data | hide
"$CAIRN" eval --backend ref --weights w.safetensors $data --json >score
sed 's/\(loss": \)[0-9.e-]*/\1N/; s/\(correct": \)[0-9]*/\1N/; s/\(accuracy": \)[0-9.]*/\1N/; s/[0-9]\.[0-9]*/N/g' score
trained=$(sed -n 's/.*"validation_accuracy": \([0-9.]*\)}.*/\1/p' run/log.jsonl | tail -n 1)
grep -c "\"accuracy\": $trained," score

# A snapshot, the folder of a run, another batch, and the model by name give the same.
for other in "--weights run" "--weights run/snapshot-00000026.safetensors" "--weights w.safetensors --batch 5" \
    "convnet --weights w.safetensors --input 3x8x8 --classes 10"; do
    "$CAIRN" eval --backend ref $other $data --json | sed 's/, "normalise.*//' >other
    sed 's/, "normalise.*//' score | cmp - other && echo the same
done
"$CAIRN" eval --backend ref --weights w.safetensors $data --normalise none --json | sed 's/.*"normalise"/"normalise"/'
"$CAIRN" eval --backend ref --weights w.safetensors $data --normalise 0.5/0.25,0.5,0.75 --json | sed 's/.*"normalise"/"normalise"/'
"$CAIRN" eval --backend ref --weights w.safetensors $data --split all | grep samples

# As many samples are predicted correctly as eval says.
"$CAIRN" predict --backend ref --weights w.safetensors $data --split validation >lines
wc -l <lines
awk -F'[:,]' '{ right += $6 + 0 == $8 + 0 } END { printf "\"correct\": %d,\n", right }' lines >right
grep -c -f right score
"$CAIRN" predict --backend ref --weights w.safetensors $data -o all.jsonl
sed -n '1p; $p' all.jsonl | sed 's/predicted.*//'
"$CAIRN" predict --backend ref --weights w.safetensors $data -o all.safetensors; tail -c +9 all.safetensors | head -c 73; echo
# A run that starts from weights keeps their normalisation.
"$CAIRN" train convnet --backend ref --data synthetic --samples 80 --seed 9 --input 3x8x8 --batch 8 --weights w.safetensors --steps 1 --threads 2 --json | head -n 1 >again
"$CAIRN" eval --backend ref --weights w.safetensors $data --json | sed 's/.*"normalise"/{"normalise"/; s/}}/}}/' | cmp - again && echo the same

# What is refused.
cairn eval convnet --data synthetic
cairn eval --weights nothing.safetensors --data synthetic
mkdir empty
cairn eval --weights empty --data synthetic
cairn eval --weights w.safetensors --data synthetic --split half
cairn eval --weights w.safetensors --data synthetic --normalise 0.5
cairn eval --weights w.safetensors --data synthetic --normalise 0.5/0
cairn eval --weights w.safetensors --data synthetic --normalise 0.5,0.5/1
cairn eval --weights all.safetensors --data synthetic
cairn eval resnet18 --weights w.safetensors --data synthetic --input 3x32x32
cairn train convnet --normalise none
cairn train convnet --data synthetic --normalise weights
cairn predict --backend ref --weights w.safetensors $data -o /proc/no/file

# A network of a file is found where it was, and beside its weights; its size is its own.
mkdir -p a b
printf 'network small\nin1 input shape=batch,3,32,32\nflat flatten\nfc linear features=10\nloss cross_entropy\n' >a/small.net
(cd a && "$CAIRN" train small.net --backend ref --data synthetic --samples 120 --steps 2 --out run --save w.safetensors >/dev/null)
for weights in a/w.safetensors a/run; do
    "$CAIRN" eval --backend ref --weights $weights --data synthetic --samples 120 | tail -n 1 | hide
done
cp a/w.safetensors b
cairn eval --backend ref --weights b/w.safetensors --data synthetic --samples 120

# A network that was edited after training is used, but not without a word. Comments and the
# batch do not count.
printf 'network small\nin1 input shape=batch,3,32,32\nrelu relu\nflat flatten\nfc linear features=10\nloss cross_entropy\n' >b/small.net
cairn eval --backend ref --weights b/w.safetensors --data synthetic --samples 120 | hide
printf '# as before\n' | cat - a/small.net >b/small.net
cairn eval --backend ref --weights b/w.safetensors --data synthetic --samples 120 --batch 7 | tail -n 1 | hide

# A command that fails leaves no new folder.
cairn predict --weights nothing.safetensors --data synthetic -o new/a/lines; [ -e new ] || echo no new folder

# A language model: the loss is the one of training, and sample finds the network by itself.
yes 'one two three ' | head -n 50 >text
gpt=gpt2:layers=1,width=16,heads=2,ffn=32
"$CAIRN" train $gpt --backend ref --data text:text --seq 16 --batch 4 --steps 3 --out words | grep -c tokens/s
"$CAIRN" eval --backend ref --weights words --data text:text --json | sed 's/.*"loss": \([0-9]*\.[0-9]\{4\}\).*/\1/' >said
sed -n 's/.*"validation_loss": \([0-9]*\.[0-9]\{4\}\).*/\1/p' words/log.jsonl | tail -n 1 | cmp - said && echo the same loss
"$CAIRN" eval --backend ref --weights words --data text:text | hide
"$CAIRN" sample --backend ref --weights words --prompt one --tokens 20 >by_itself
"$CAIRN" sample $gpt --backend ref --classes 256 --seq 16 --weights words --prompt one --tokens 20 | cmp - by_itself && echo the same text
"$CAIRN" zoo $gpt --classes 256 --seq 16 --source >words.net
"$CAIRN" eval words.net --backend ref --weights words --data text:text --json | sed 's/.*"loss": \([0-9]*\.[0-9]\{4\}\).*/\1/' | cmp - said && echo the same loss
cairn sample --backend ref --weights w.safetensors
# As numbers: the bytes of the text.
"$CAIRN" sample --backend ref --weights words --prompt one --tokens 20 --json >numbers
tail -c +4 by_itself | head -c 20 | od -An -v -tu1 | xargs | sed 's/ /, /g; s/.*/{"tokens": [&]}/' >expected
cmp expected numbers && echo the same numbers
