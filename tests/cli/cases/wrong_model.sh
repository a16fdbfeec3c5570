# Exit code 1: the model, size or algorithm does not exist or is not possible.
cairn plan resnet51
cairn plan nofile.json
cairn plan alexnet --algorithm nosuch
cairn plan alexnet --machine nosuch
cairn plan alexnet --costs nofile.json
cairn plan alexnet --batch 0
cairn plan alexnet --classes 000
cairn plan alexnet --seq 3
cairn plan alexnet --input 3x5x5
cairn plan rnn --input 1x2x3
cairn plan densenet201 --batch 4294967295
cairn plan vgg19 --batch 4294967295 --input 3x1000000x1000000
cairn simulate nofile
cairn plan resnet50:
