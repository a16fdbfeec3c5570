# Plans for people.
cairn plan alexnet --batch 1
cairn plan resnet50
cairn plan resnet50 --machine h200 --top 2 --optimizer-slots 2
cairn plan lstm --batch 8 --algorithm infer
cairn plan unet --batch 1 --budget 16GiB --machine cpu --top 0
