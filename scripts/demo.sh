#!/bin/sh
# demo.sh CAIRN: plan the training of a network and say in words what is shown.
set -eu
cairn=$1

cat <<'WORDS'
A training step of ResNet-50 with 32 images, planned without changing anything: every tensor that
the backward pass reads is kept until it has been read, and freed at once. The peak is what the
activations need at the worst moment; the arena is one block in which every one of them has its
address; the list at the end names who holds the memory at that moment.

WORDS
"$cairn" plan resnet50 --batch 32
