"""Files of the safetensors package and Cairn's, each read by the other.

    python3 interop.py TOOL FOLDER        (safetensors, numpy)

TOOL is weights_tool.c's program. The package writes a file, the tool reads and writes it again, and
the package reads that. Every name, type, shape, value and metadata entry must be as it was. Bit
patterns are compared, so that NaNs and signed zeros count.
"""

import pathlib
import subprocess
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

DIVISOR, WIDTHS, CLASSES, STEPS = 16, [4, 8, 16, 32], 10, 7
KINDS = [np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.float16, np.int32, np.uint32, np.float32,
         np.float64, np.int64, np.uint64]


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def metadata(path):
    with safe_open(path, "np") as file:
        return file.metadata()


def check_copy(tool, folder):
    """Every element type of numpy, odd sizes, empty tensors, single elements, odd names."""
    random = np.random.default_rng(1)
    tensors = {}
    for kind in KINDS:
        size = np.dtype(kind).itemsize
        for shape in [(), (3,), (2, 0, 5), (1, 7, 3)]:
            count = int(np.prod(shape))
            raw = random.integers(0, 2 if kind is np.bool_ else 256, count * size, dtype=np.uint8)
            tensors[f"{np.dtype(kind).name}.{len(shape)}"] = raw.view(kind).reshape(shape)
    tensors["a \"quoted\"\\\n\u00fc\u6c34\U0001f5ff"] = np.arange(5, dtype=np.float32)
    tensors[""] = np.array([-0.0, np.nan, np.inf], dtype=np.float32)
    for number, words in enumerate([None, {"a": "b\n\u00fc \"x\""}, {"k": "", "\u6c34": "2", "a": "3"}]):
        given, back = folder / f"given{number}.safetensors", folder / f"back{number}.safetensors"
        save_file(tensors, given, metadata=words)
        run(tool, "copy", given, back)
        loaded = load_file(back)
        assert loaded.keys() == tensors.keys()
        for name, value in tensors.items():
            assert same(loaded[name], value), name
        assert metadata(back) == words, metadata(back)
    given, back = folder / "plain.safetensors", folder / "plain_back.safetensors"
    plain = {name: value for name, value in tensors.items() if name.isascii() and name.isprintable()}
    save_file(plain, given, metadata={"format": "np"})
    run(tool, "copy", given, back)
    assert given.read_bytes() == back.read_bytes(), "the bytes differ"
    save_file({}, given)
    run(tool, "copy", given, back)
    assert load_file(back) == {}


def network_shapes():
    """Names and shapes of a ResNet-18 with all widths divided."""
    shapes = {}

    def conv(name, after, before, kernel):
        shapes[name + ".weight"] = (after, before, kernel, kernel)

    def norm(name, channels):
        for end in ["weight", "bias", "running_mean", "running_var"]:
            shapes[f"{name}.{end}"] = (channels,)
        shapes[name + ".num_batches_tracked"] = ()

    conv("conv1", WIDTHS[0], 3, 7)
    norm("bn1", WIDTHS[0])
    before = WIDTHS[0]
    for stage, width in enumerate(WIDTHS, 1):
        for block in range(2):
            name = f"layer{stage}.{block}"
            conv(name + ".conv1", width, before, 3)
            norm(name + ".bn1", width)
            conv(name + ".conv2", width, width, 3)
            norm(name + ".bn2", width)
            if width != before:
                conv(name + ".downsample.0", width, before, 1)
                norm(name + ".downsample.1", width)
            before = width
    shapes["fc.weight"], shapes["fc.bias"] = (CLASSES, before), (CLASSES,)
    return shapes


def check_network(tool, folder, kind, prefix):
    """Through an executor: other precisions become F32, num_batches_tracked is written."""
    random = np.random.default_rng(2)
    given, back = folder / "network.safetensors", folder / "network_back.safetensors"
    shapes, tensors = network_shapes(), {}
    for name, shape in shapes.items():
        counter = name.endswith("num_batches_tracked")
        tensors[name] = np.array(3) if counter else random.standard_normal(shape).astype(kind)
    save_file({prefix + name: value for name, value in tensors.items()}, given)
    said = run(tool, "network", DIVISOR, given, back)
    assert ("become F32" in said) == (kind is not np.float32), said
    assert ("in front" in said) == (prefix != ""), said
    loaded = load_file(back)
    assert loaded.keys() == shapes.keys()
    for name, value in tensors.items():
        if name.endswith("num_batches_tracked"):
            assert same(loaded[name], np.array(STEPS, dtype=np.int64)), name
        else:
            assert same(loaded[name], value.astype(np.float32)), name
    assert metadata(back) == {"format": "pt", "network": "resnet18"}, metadata(back)


if __name__ == "__main__":
    tool, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    check_copy(tool, folder)
    for kind in [np.float32, np.float16, np.float64]:
        for prefix in ["", "module."]:
            check_network(tool, folder, kind, prefix)
    print("the package and Cairn read each other's files")
