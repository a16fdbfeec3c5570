"""From PyTorch to Cairn's own engine: a network as a file that `cairn train` takes, with its weights.

    cairn.export(model, (images,), "net.json")        # and net.safetensors
    $ cairn train net.json --weights net.safetensors --data ...

The network is captured by torch.export and translated op by op into the graph format (docs/graph-format.md), or into
the format that people write (docs/network-format.md) if the file ends in .net; that one can be built for any batch.
Ops that Cairn does not have are named, all of them.
"""

import json
import math
import pathlib
import struct

import torch

from ._errors import CairnError
from ._export_capture import capture


def export(model: torch.nn.Module, inputs: tuple, path: str, weights: str | None = None) -> str:
    """Write the network of `model`, called with `inputs`, to `path`, and its weights as safetensors.

    model    gives one tensor of logits [N, classes], or [N, tokens, classes] of a language model; the mean
             cross-entropy with labels is added as its loss
    inputs   what it is called with: one tensor [N, ...] of numbers, or [N, tokens] of whole numbers
    path     a file that ends in .json (the exact graph, for the batch of `inputs`) or .net (for any batch)
    weights  the file of the weights; by default `path` with the suffix .safetensors

    Returns the file of the weights. Raises CairnError and names every op that Cairn does not have.
    """
    target = pathlib.Path(path)
    if target.suffix not in (".json", ".net"):
        raise CairnError(f"a network is written to a file that ends in .json or .net, not {path}")
    network = capture(model, tuple(inputs))
    text = _as_json(network) if target.suffix == ".json" else _as_lines(network)
    kept = pathlib.Path(weights) if weights is not None else target.with_suffix(".safetensors")
    for file in (target, kept):
        file.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    _save(kept, network.saved(), network.name)
    return str(kept)


# ---- Writing ----

_INPLACE = {**dict.fromkeys(("batch_norm", "relu", "dropout", "layer_norm", "rms_norm", "gelu", "silu", "rotary",
                             "add_positions"), [[0, 0]]),
            **dict.fromkeys(("add", "multiply"), [[0, 0], [0, 1]]),
            **dict.fromkeys(("cross_entropy", "token_cross_entropy"), [[1, 0]])}
_LOSSES = {"cross_entropy", "token_cross_entropy"}


def _internal(layer, shape_of):
    """What an op makes for its own backward: name, dtype and shape; None: nothing."""
    rows = math.prod(layer.shape[:-1])
    if layer.kind == "batch_norm":
        return layer.name + ".stats", "f32", [2, layer.shape[1]]
    if layer.kind in ("layer_norm", "rms_norm"):
        return layer.name + ".stats", "f32", [2, rows] if layer.kind == "layer_norm" else [rows]
    if layer.kind == "attention":
        return layer.name + ".stats", "f32", [layer.shape[0], layer.attributes["heads"], layer.shape[1]]
    if layer.kind == "max_pool":
        height, width = layer.attributes["kernel"]
        return layer.name + ".indices", "u8" if height * width <= 256 else "i32", layer.shape
    if layer.kind in _LOSSES:
        return layer.name + ".probabilities", "f32", shape_of[layer.inputs[0]]
    return None


def _as_json(network):
    tensors, place, shape_of, ops = [], {}, {}, []

    def tensor(name, role, shape, dtype="f32", **more):
        place[name], shape_of[name] = len(tensors), list(shape)
        kind = {} if dtype == "f32" else {"dtype": dtype}
        tensors.append({"name": name, "role": role, **kind, "shape": list(shape), **more})

    for name, shape in network.inputs.items():
        tensor(name, "input", shape, "i32" if network.tokens else "f32")
    storage = {}
    for layer in network.layers:
        for name in layer.params:
            if name not in place:
                tensor(name, network.tensors[name][0], network.tensors[name][1].shape)
        if layer.kind in _LOSSES:
            logits = shape_of[layer.inputs[0]]
            tensor("label", "label", logits[:-1] if layer.kind == "token_cross_entropy" else logits[:1], "i32")
        alias = {}
        if layer.kind == "flatten":
            storage[layer.name] = storage.get(layer.inputs[0], layer.inputs[0])
            alias = {"alias_of": place[storage[layer.name]]}
        tensor(layer.name, "loss" if layer.kind in _LOSSES else "activation", layer.shape, **alias)
        outputs = [place[layer.name]]
        made = _internal(layer, shape_of)
        if made is not None:
            tensor(made[0], "internal", made[2], made[1])
            outputs.append(place[made[0]])
        op = {"name": layer.name, "kind": layer.kind, "phase": "forward", "inputs": [place[x] for x in layer.inputs],
              "outputs": outputs}
        if layer.params:
            op["params"] = [place[name] for name in layer.params]
        if layer.kind in _INPLACE:
            op["inplace"] = _INPLACE[layer.kind]
        if layer.attributes:
            op["attributes"] = layer.attributes
        ops.append(op)
    lines = [",\n".join(json.dumps(entry) for entry in entries) for entries in (tensors, ops)]
    return (f'{{"format": "cairn-graph", "version": 1, "name": {json.dumps(network.name)},\n'
            f'"tensors": [\n{lines[0]}\n],\n"ops": [\n{lines[1]}\n]}}\n')


# Keys of sizes, and the dimension of the first parameter that each is.
_SIZES = {"conv2d": {"channels": 0}, "conv_transpose2d": {"channels": 1}, "linear": {"features": 0},
          "embedding": {"rows": 0, "features": 1}, "add_positions": {"rows": 0}}
_BIASED = {"conv2d", "conv_transpose2d", "linear", "layer_norm"}


def _sizes(network, layer, classes):
    """The words of a line that say the sizes of a layer's own parameters, or whose parameters it has."""
    if not layer.own:
        return ["params=" + ",".join(layer.params)]
    shape = network.tensors[layer.params[0]][1].shape if layer.params else []
    final = layer is network.layers[-2] and layer.kind == "linear"
    words = []
    for key, dimension in _SIZES.get(layer.kind, {}).items():
        vocabulary = layer.kind == "embedding" and key == "rows" and shape[dimension] == classes
        words.append(f"{key}={'classes' if final or vocabulary else shape[dimension]}")
    return words + (["bias=no"] if layer.kind in _BIASED and len(layer.params) == 1 else [])


# What an attribute is without its word; docs/network-format.md. A stride of a pooling is its kernel.
_DEFAULTS = {"stride": [1, 1], "pad": [0, 0, 0, 0], "dilation": [1, 1], "groups": 1, "epsilon": 1e-5, "momentum": 0.1,
             "count_padding": 1, "causal": 0, "tanh": 0, "scaling": 0, "smoothing": 0}


def _attributes(layer):
    """The words of a line that say what is not the default, equal numbers once."""
    given = layer.attributes
    pools = layer.kind in ("max_pool", "avg_pool", "conv_transpose2d")
    for key, value in given.items():
        default = given["kernel"] if key == "stride" and pools else _DEFAULTS.get(key)
        if value == default or (key == "kv_heads" and value == given["heads"]):
            continue
        if isinstance(value, list) and len(set(value)) == 1:
            value = value[:1]
        yield f"{key}=" + (",".join(map(str, value)) if isinstance(value, list) else str(value))


def _as_lines(network):
    (name, shape), = network.inputs.items()
    classes = network.layers[-2].shape[-1] if len(network.layers) > 1 else shape[-1]
    lines = [f"network {network.name}"]
    if network.tokens:
        sizes = ",".join(map(str, ["batch", *shape[1:]]))
        lines += [f"classes {classes}", "", f"{name:16} input shape={sizes} dtype=i32"]
    else:
        lines += ["input " + "x".join(map(str, shape[1:])), f"classes {classes}", ""]
    last, owned = name, {param for layer in network.layers if layer.own for param in layer.params}
    for layer in network.layers:
        for param in layer.params:
            if param not in owned:
                owned.add(param)
                lines.append(f"{param:16} parameter shape={','.join(map(str, network.tensors[param][1].shape))}")
        words = [f"{layer.name:16}", layer.kind]
        reads = [x for x in layer.inputs if x != "label"]
        if reads != [last]:
            words.append("from=" + ",".join(reads))
        words += _sizes(network, layer, classes) + list(_attributes(layer))
        lines.append(" ".join(words))
        last = layer.name
    return "\n".join(lines) + "\n"


_ELEMENTS = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16"}


def _save(path, tensors, network):
    """Write a safetensors file: the length of the header, the header in JSON, the tensors."""
    header, offset, blocks = {"__metadata__": {"format": "pt", "network": network}}, 0, []
    for name in sorted(tensors):
        tensor = tensors[name].contiguous().cpu()
        if tensor.dtype not in _ELEMENTS:
            raise CairnError(f"{name} has elements of {tensor.dtype}, which are no weights")
        data = tensor.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        header[name] = {"dtype": _ELEMENTS[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        blocks.append(data)
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    path.write_bytes(struct.pack("<Q", len(words)) + words + b"".join(blocks))
