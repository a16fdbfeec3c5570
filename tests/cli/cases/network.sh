# An own network: planned at any batch, trained, evaluated, and what is said when it is wrong.
cat >digits.net <<'NET'
network digits
input 1x8x8
classes 10

block stage channels
    conv   conv2d channels=channels kernel=3 pad=1 bias=no
    bn     batch_norm
    relu   relu
    pool   max_pool kernel=2
end

stage1     stage channels=16
stage2     stage channels=32
flatten    flatten
fc         linear features=classes
loss       cross_entropy
NET
"$CAIRN" zoo digits.net | cut -c 1-70
cairn plan digits.net --batch 64 --top 1 --machine cpu
cairn plan digits.net --batch 64 --top 0 --budget 600KB -o digits.plan
"$CAIRN" simulate digits.plan --batch 32 | sed -n '1,3p'
cairn fit digits.net --budget 1MB --algorithm none
"$CAIRN" train digits.net --backend ref --data synthetic --samples 60 --input 1x8x8 --batch 8 --steps 4 --save w.safetensors --label-smoothing 0.1 --threads 1 | sed -n '1p'
"$CAIRN" eval --backend ref --weights w.safetensors --data synthetic --samples 60 | sed -n '1,2p'
"$CAIRN" zoo convnet --source >convnet.net
"$CAIRN" zoo convnet --batch 4 -o a.json
"$CAIRN" zoo convnet.net --batch 4 -o b.json
cmp a.json b.json && echo the same graph
cairn zoo convnet --source --classes 3 --input 1x16x16
cairn plan digits.net --seq 3
sed 's/channels=32/channels=0/' digits.net >wrong.net
cairn plan wrong.net
sed 's/kernel=3/kernel=99/' digits.net >wrong.net
cairn plan wrong.net
sed 's/kernel=2/kernel=2 pad=3/' digits.net >wrong.net
cairn plan wrong.net
cairn plan nothing.net
# Every line that is wrong is named.
wrong() {
    sed "$1" digits.net >wrong.net
    cairn plan wrong.net
}
wrong 's/kernel=3/kernel=3 kernel=5/'
wrong 's/channels=32/channels=32\/5/'
wrong 's/^fc /flatten /'
wrong 's/^classes 10/classes 10\nclasses 11/'
wrong 's/bias=no/bias=no groups=3/'
wrong 's/batch_norm/batch_norm epsilon=-1/'
wrong 's/pool kernel=2/pool kernel=2 ceil=yes/'
wrong 's/^flatten  */a layer_norm epsilon=2\nflatten /'
printf 'network a\n\ntokens input shape=batch,8 dtype=i32 size=3\n' >wrong.net
cairn plan wrong.net
printf 'network a\nclasses 9\n\ntokens input shape=batch,8 dtype=i32\ne embedding rows=classes features=12\na attention heads=2 causal=7\n' >wrong.net
cairn plan wrong.net
sed 's/causal=7/causal=yes/' wrong.net >heads.net
cairn plan heads.net
printf 'a' >few
cairn train heads.net --data text:few
cairn train heads.net --data text:few,
printf '\357\273\277network a\r\ninput 1x8x8\r\nclasses 2\r\nf flatten\r\nl linear features=classes\r\nloss cross_entropy\r\n' >windows.net
"$CAIRN" plan windows.net | head -n 1
