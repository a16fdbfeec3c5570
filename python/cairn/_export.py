"""From PyTorch to Cairn's own engine: a network as a file that `cairn train` takes, with its weights.

    cairn.export(model, (images,), "net.json")        # and net.safetensors
    $ cairn train net.json --weights net.safetensors --data ...

The network is captured by torch.export and translated op by op into the graph format (docs/graph-format.md), or into
the format that people write (docs/network-format.md) if the file ends in .net; that one can be built for any batch.
Ops that Cairn does not have are named, all of them.
"""

import json
import pathlib
import struct
from dataclasses import dataclass, field

import torch

from . import _torch
from ._errors import CairnError

aten = torch.ops.aten


@dataclass
class Layer:
    """An op of the file: what it reads and has are names of tensors."""
    name: str
    kind: str
    inputs: list
    shape: list  # of its output
    params: list = field(default_factory=list)
    attributes: dict = field(default_factory=dict)
    own: bool = True  # its parameters are those that a layer of this name has


@dataclass
class Network:
    name: str
    inputs: dict = field(default_factory=dict)  # name: shape
    tensors: dict = field(default_factory=dict)  # parameters and state: name -> (role, torch.Tensor)
    layers: list = field(default_factory=list)
    refused: list = field(default_factory=list)


def export(model: torch.nn.Module, inputs: tuple, path: str, weights: str | None = None) -> str:
    """Write the network of `model`, called with `inputs`, to `path`, and its weights as safetensors.

    model    gives one tensor of logits [N, classes]; the mean cross-entropy with labels is added as its loss
    inputs   what it is called with: one tensor [N, ...]
    path     a file that ends in .json (the exact graph, for the batch of `inputs`) or .net (for any batch)
    weights  the file of the weights; by default `path` with the suffix .safetensors

    Returns the file of the weights. Raises CairnError and names every op that Cairn does not have.
    """
    target = pathlib.Path(path)
    if target.suffix not in (".json", ".net"):
        raise CairnError(f"a network is written to a file that ends in .json or .net, not {path}")
    network = _capture(model, tuple(inputs))
    text = _as_json(network) if target.suffix == ".json" else _as_lines(network)
    target.write_text(text)
    kept = pathlib.Path(weights) if weights is not None else target.with_suffix(".safetensors")
    _save(kept, {name: tensor for name, (_, tensor) in network.tensors.items()}, network.name)
    return str(kept)


# ---- Capturing ----


def _capture(model, inputs):
    mode = model.training
    model.train()  # so that dropout and batch-norm are what they are in training
    try:
        program = torch.export.export(model, inputs)
    except Exception as error:
        raise CairnError(f"torch.export cannot capture the model: {str(error).splitlines()[0]}") from error
    finally:
        model.train(mode)
    network = Network(type(model).__name__.lower())
    _Translator(network, program).run()
    if network.refused:
        raise CairnError("Cairn does not have these ops: " + "; ".join(network.refused))
    return network


class _Translator:
    """Walks over the captured graph; every node becomes the name of a tensor, or is refused."""

    def __init__(self, network, program):
        self.network, self.program = network, program
        self.names, self.taken = {}, set()

    def run(self):
        signature = self.program.graph_signature
        weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        state = self.program.state_dict
        for node in self.program.graph.nodes:
            if node.op == "placeholder" and node.name in weights:
                name = weights[node.name]
                role = "parameter" if node.name in signature.inputs_to_parameters else "state"
                self.names[node] = name
                if not name.endswith("num_batches_tracked"):
                    self.network.tensors[name] = (role, state[name].detach())
            elif node.op == "placeholder":
                self.names[node] = "input" if not self.network.inputs else node.name
                self.network.inputs[self.names[node]] = list(node.meta["val"].shape)
            elif node.op == "call_function":
                self.translate(node)
            elif node.op == "output":
                self.finish(node, signature)

    def refuse(self, node, why=""):
        where = f" in {self.place(node)}" if self.place(node) else ""
        self.network.refused.append(f"{node.target}{where}{': ' + why if why else ''}")

    @staticmethod
    def place(node):
        stack = node.meta.get("nn_module_stack") or {}
        return [path for path, _ in stack.values()][-1] if stack else ""

    def translate(self, node):
        rule = _RULES.get(node.target)
        if rule is None:
            # an update of a counter is read by nothing but the end, and is none of the model's results
            counter = all(user.op == "output" for user in node.users)
            if not counter or node.name in self.program.graph_signature.user_outputs:
                self.refuse(node)
            self.names[node] = None
            return
        try:
            rule(self, node)
        except _Refused as refused:
            self.refuse(node, str(refused))
            self.names[node] = None

    def add(self, node, kind, inputs, params=(), shape=None, name=None, **attributes):
        """A layer; one with parameters is called as their module is."""
        params = [self.names[param] for param in params]
        stem = params[0].rpartition(".")[0] if params else (name or node.name)
        full, again = stem, 1
        while full in self.taken:
            again += 1
            full = f"{stem}_{again}"
        self.taken.add(full)
        reads = [value if isinstance(value, str) else self.names[value] for value in inputs]
        layer = Layer(full, kind, reads, list(node.meta["val"].shape) if shape is None else shape, params, attributes,
                      own=full == stem)
        self.network.layers.append(layer)
        return full

    def finish(self, node, signature):
        wanted = set(signature.user_outputs)
        results = [argument for argument in node.args[0] if getattr(argument, "name", None) in wanted]
        if self.network.refused:
            return
        if len(results) != 1 or len(self.network.inputs) != 1:
            raise CairnError("a network that Cairn trains reads one tensor and gives one, its logits")
        logits = results[0]
        shape = list(logits.meta["val"].shape)
        if len(shape) != 2:
            raise CairnError(f"logits must be [N, classes], not {shape}")
        self.network.layers.append(Layer("loss", "cross_entropy", [self.names[logits], "label"], [1]))


class _Refused(Exception):
    pass


# ---- Rules: one for each op ----


def _argument(node, place, default=None):
    """An argument by its place in the op's schema, however it was given."""
    name = _torch.schema_of(node.target).arguments[place].name
    if len(node.args) > place:
        return node.args[place]
    return node.kwargs.get(name, default)


def _pair(value, otherwise=None):
    value = otherwise if value is None or value == [] else value
    return [value, value] if isinstance(value, int) else [value[0], value[-1]]


def _convolution(to, node):
    weight, bias = _argument(node, 1), _argument(node, 2)
    pad = _argument(node, 4, 0)
    if isinstance(pad, str):
        raise _Refused(f"padding {pad!r}; give numbers")
    pad = _pair(pad)
    to.names[node] = to.add(node, "conv2d", [_argument(node, 0)], [weight] + ([bias] if bias is not None else []),
                            kernel=list(weight.meta["val"].shape[2:]), stride=_pair(_argument(node, 3, 1)),
                            pad=[*pad, *pad], dilation=_pair(_argument(node, 5, 1)), groups=_argument(node, 6, 1))


def _transposed(to, node):
    weight, bias = _argument(node, 1), _argument(node, 2)
    rest = (_pair(_argument(node, 4, 0)), _pair(_argument(node, 5, 0)), _argument(node, 6, 1),
            _pair(_argument(node, 7, 1)))
    if rest != ([0, 0], [0, 0], 1, [1, 1]):
        raise _Refused("padding, output padding, groups or dilation")
    to.names[node] = to.add(node, "conv_transpose2d", [_argument(node, 0)],
                            [weight] + ([bias] if bias is not None else []),
                            kernel=list(weight.meta["val"].shape[2:]), stride=_pair(_argument(node, 3, 1)))


def _linear(to, node):
    x, weight, bias = (_argument(node, place) for place in range(3))
    if x.meta["val"].dim() != 2:
        raise _Refused(f"an input of {x.meta['val'].dim()} dimensions; it must be [N, features]")
    to.names[node] = to.add(node, "linear", [x], [weight] + ([bias] if bias is not None else []))


def _batch_norm(to, node):
    params = [_argument(node, place) for place in range(1, 5)]
    if any(param is None for param in params) or _argument(node, 6) is None:
        raise _Refused("no weight, bias or running statistics, or no momentum")
    if _argument(node, 0).meta["val"].dim() != 4:
        raise _Refused("an input that is no image [N, C, H, W]")
    to.names[node] = to.add(node, "batch_norm", [_argument(node, 0)], params, epsilon=_argument(node, 7),
                            momentum=_argument(node, 6))


def _max_pool(to, node):
    kernel = _pair(_argument(node, 1))
    if _pair(_argument(node, 4, 1)) != [1, 1] or _argument(node, 5, False):
        raise _Refused("dilation or ceil_mode")
    pad = _pair(_argument(node, 3, 0))
    to.names[node] = to.add(node, "max_pool", [_argument(node, 0)], kernel=kernel,
                            stride=_pair(_argument(node, 2), kernel), pad=[*pad, *pad])


def _avg_pool(to, node):
    kernel = _pair(_argument(node, 1))
    if _argument(node, 4, False) or _argument(node, 6) is not None:
        raise _Refused("ceil_mode or a divisor")
    pad = _pair(_argument(node, 3, 0))
    to.names[node] = to.add(node, "avg_pool", [_argument(node, 0)], kernel=kernel,
                            stride=_pair(_argument(node, 2), kernel), pad=[*pad, *pad],
                            count_padding=int(_argument(node, 5, True)))


def _adaptive(to, node):
    to.names[node] = to.add(node, "adaptive_avg_pool", [_argument(node, 0)], size=_pair(_argument(node, 1)))


def _mean(to, node):
    """The mean over height and width, as a pooling."""
    x, dims, keep = _argument(node, 0), _argument(node, 1), _argument(node, 2, False)
    shape = list(x.meta["val"].shape)
    if len(shape) != 4 or sorted(d % 4 for d in dims) != [2, 3]:
        raise _Refused("a mean over other dimensions than height and width")
    pooled = to.add(node, "adaptive_avg_pool", [x], shape=[*shape[:2], 1, 1], size=[1, 1])
    to.names[node] = pooled if keep else to.add(node, "flatten", [pooled], name=node.name + "_flat")


def _flatten(to, node):
    x, made = _argument(node, 0), list(node.meta["val"].shape)
    shape = list(x.meta["val"].shape)
    if made == shape:
        to.names[node] = to.names[x]
        return
    if len(made) != 2 or made[0] != shape[0]:
        raise _Refused(f"it makes {made} of {shape}; only [N, rest] can be made")
    to.names[node] = to.add(node, "flatten", [x])


def _dropout(to, node):
    to.names[node] = to.add(node, "dropout", [_argument(node, 0)], probability=_argument(node, 1))


def _relu(to, node):
    to.names[node] = to.add(node, "relu", [_argument(node, 0)])


def _add(to, node):
    a, b = _argument(node, 0), _argument(node, 1)
    if not isinstance(b, torch.fx.Node) or a.meta["val"].shape != b.meta["val"].shape or _argument(node, 2, 1) != 1:
        raise _Refused("an addition of tensors of different shapes, of a number, or with a factor")
    to.names[node] = to.add(node, "add", [a, b])


def _concat(to, node):
    if _argument(node, 1, 0) % 4 != 1 or node.meta["val"].dim() != 4:
        raise _Refused("a concatenation that is not along the channels of images")
    to.names[node] = to.add(node, "concat", _argument(node, 0))


def _same(to, node):
    to.names[node] = to.names[_argument(node, 0)]


def _count(to, node):
    """num_batches_tracked + 1: Cairn counts itself."""
    if to.names.get(_argument(node, 0), "").endswith("num_batches_tracked"):
        to.names[node] = None
    else:
        _add(to, node)


_RULES = {
    aten.conv2d.default: _convolution,
    aten.conv_transpose2d.input: _transposed,
    aten.linear.default: _linear,
    aten.batch_norm.default: _batch_norm,
    aten.max_pool2d.default: _max_pool,
    aten.avg_pool2d.default: _avg_pool,
    aten.adaptive_avg_pool2d.default: _adaptive,
    aten.mean.dim: _mean,
    aten.flatten.using_ints: _flatten,
    aten.view.default: _flatten,
    aten.reshape.default: _flatten,
    aten.squeeze.dims: _flatten,
    aten.dropout.default: _dropout,
    aten.relu.default: _relu,
    aten.relu_.default: _relu,
    aten.add.Tensor: _count,
    aten.add_.Tensor: _count,
    aten.cat.default: _concat,
    aten.contiguous.default: _same,
}

# ---- Writing ----

_INPLACE = {"batch_norm": [[0, 0]], "relu": [[0, 0]], "dropout": [[0, 0]], "add": [[0, 0], [0, 1]],
            "cross_entropy": [[1, 0]]}


def _internal(layer, shape_of):
    """What an op makes for its own backward: name, dtype and shape; None: nothing."""
    if layer.kind == "batch_norm":
        return layer.name + ".stats", "f32", [2, layer.shape[1]]
    if layer.kind == "max_pool":
        height, width = layer.attributes["kernel"]
        return layer.name + ".indices", "u8" if height * width <= 256 else "i32", layer.shape
    if layer.kind == "cross_entropy":
        return layer.name + ".probabilities", "f32", shape_of[layer.inputs[0]]
    return None


def _as_json(network):
    tensors, place, shape_of, ops = [], {}, {}, []

    def tensor(name, role, shape, dtype="f32", **more):
        place[name], shape_of[name] = len(tensors), list(shape)
        kind = {} if dtype == "f32" else {"dtype": dtype}
        tensors.append({"name": name, "role": role, **kind, "shape": list(shape), **more})

    for name, shape in network.inputs.items():
        tensor(name, "input", shape)
    storage = {}
    for layer in network.layers:
        for name in layer.params:
            if name not in place:
                tensor(name, network.tensors[name][0], network.tensors[name][1].shape)
        if layer.kind == "cross_entropy":
            tensor("label", "label", shape_of[layer.inputs[0]][:1], "i32")
        alias = {}
        if layer.kind == "flatten":
            storage[layer.name] = storage.get(layer.inputs[0], layer.inputs[0])
            alias = {"alias_of": place[storage[layer.name]]}
        tensor(layer.name, "loss" if layer.kind == "cross_entropy" else "activation", layer.shape, **alias)
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


_SIZES = {"conv2d": ("channels", 0), "conv_transpose2d": ("channels", 1), "linear": ("features", 0)}


def _as_lines(network):
    (name, shape), = network.inputs.items()
    classes = network.layers[-2].shape[-1] if len(network.layers) > 1 else shape[-1]
    lines = [f"network {network.name}", "input " + "x".join(map(str, shape[1:])), f"classes {classes}", ""]
    last = name
    for layer in network.layers:
        words = [f"{layer.name:16}", layer.kind]
        reads = [x for x in layer.inputs if x != "label"]
        if reads != [last]:
            words.append("from=" + ",".join(reads))
        if layer.kind in _SIZES:
            key, dimension = _SIZES[layer.kind]
            size = network.tensors[layer.params[0]][1].shape[dimension]
            final = layer is network.layers[-2] and layer.kind == "linear"
            words.append(f"{key}={'classes' if final else size}")
            words += ["bias=no"] if len(layer.params) == 1 else []
        for key, value in layer.attributes.items():
            words.append(f"{key}=" + (",".join(map(str, value)) if isinstance(value, list) else str(value)))
        if not layer.own:
            raise CairnError(f"{layer.name} shares its parameters, which a .net file cannot say; write a .json file")
        lines.append(" ".join(words))
        last = layer.name
    return "\n".join(lines) + "\n"


_ELEMENTS = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16"}


def _save(path, tensors, network):
    """Write a safetensors file: the length of the header, the header in JSON, the tensors."""
    header, offset, parts = {"__metadata__": {"format": "pt", "network": network}}, 0, []
    for name in sorted(tensors):
        tensor = tensors[name].contiguous().cpu()
        if tensor.dtype not in _ELEMENTS:
            raise CairnError(f"{name} has elements of {tensor.dtype}, which are no weights")
        data = tensor.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        header[name] = {"dtype": _ELEMENTS[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    path.write_bytes(struct.pack("<Q", len(words)) + words + b"".join(parts))
