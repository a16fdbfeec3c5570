"""The values of tests/backend/fill.h, exactly: functions of a name and an index alone."""

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def hash_of(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return np.uint64(h)


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def bits(name, count):
    with np.errstate(over="ignore"):
        return mix(hash_of(name) + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)


def values(name, shape, offset=0.0, scale=1.0):
    """float32, as the C code computes them."""
    count = int(np.prod(shape))
    unit = (bits(name, count) >> np.uint64(40)).astype(np.float32) / np.float32(2**24)
    unit = np.float32(2) * unit - np.float32(1)
    return (np.float32(offset) + np.float32(scale) * unit).reshape(shape)


def parameter(name, shape):
    fan = float(np.prod(shape) // shape[0])
    if "rnn.weight_" in name:
        return values(name, shape, 0, 1 / np.sqrt(fan))
    if name.endswith("weight") and len(shape) > 1:
        return values(name, shape, 0, np.sqrt(6 / fan))
    if name.endswith("weight") or name.endswith("bias"):
        return values(name, shape, 1, 0.1)
    if name.endswith("running_mean"):
        return values(name, shape, 0, 0)
    if name.endswith("running_var"):
        return values(name, shape, 1, 0)
    return values(name, shape, 0, 0.1)


def inputs(name, shape, step):
    return values(f"{name}.step{step}", shape)


def labels(name, shape, step, classes):
    count = int(np.prod(shape))
    return (bits(f"{name}.step{step}", count) % np.uint64(classes)).astype(np.int64).reshape(shape)
