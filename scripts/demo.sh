#!/bin/sh
# demo.sh CAIRN: plan the training of a network and say in words what is shown.
set -eu
cairn=$1

cat <<'WORDS'
A training step of ResNet-50 with 32 images. First as usual: what the backward pass reads is kept
until it has been read. The peak is what the activations need at the worst moment; the arena is one
block of memory in which each of them has its address; the list names who holds the memory then.

WORDS
"$cairn" plan resnet50 --batch 32 --top 3
cat <<'WORDS'

Now with half of the memory. Some results are dropped and computed again when the backward pass
comes to them; the gradients stay the same, and the step takes a little longer:

WORDS
"$cairn" plan resnet50 --batch 32 --budget 50% --top 3
