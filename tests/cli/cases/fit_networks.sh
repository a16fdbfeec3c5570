# The largest batch of a network whose parameters take half of the budget, and where they take all of it:
# only auto, which moves parameters to the host, finds one.
cairn fit vgg16 --budget 2GiB
cairn fit vgg16 --budget 1GiB
