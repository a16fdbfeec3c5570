"""A model as layers of Cairn: the captured graph, walked over once.

The value of every node is what Cairn has for it:

    str       a tensor of the file, by its name
    Known     a constant, which was computed here: positions, masks, tables of angles
    Moved     elements of a tensor in other places, as views and transpositions leave them
    Formula   arithmetic on one tensor that is no layer yet: a GELU written out
    Table     rows of a parameter, one for each token: positions
    Token     a parameter that is put before the tokens of every image

A rule makes the value of a node from those of its operands. Where an op needs a tensor, plain() makes a layer of what
is none yet, or refuses it.
"""

import operator
from dataclasses import dataclass, field
from typing import Any

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
    tokens: bool = False  # the input is whole numbers
    tensors: dict = field(default_factory=dict)  # parameters and state: name -> (role, torch.Tensor)
    in_file: dict = field(default_factory=dict)  # of a parameter that a file has otherwise: name -> {name: torch.Tensor}
    layers: list = field(default_factory=list)
    refused: list = field(default_factory=list)

    def saved(self):
        """What the file of weights has."""
        out = {}
        for name in {name for layer in self.layers for name in layer.params}:
            out.update(self.in_file.get(name, {name: self.tensors[name][1]}))
        return out


class Refused(Exception):
    """An op that Cairn cannot express; the message says why."""


@dataclass
class Known:
    value: Any


@dataclass
class Moved:
    """Each element is the sum over terms of an element of `source`, by its place there, times a factor (None: 1)."""
    source: str
    terms: list  # (places, factors)

    def map(self, change):
        return Moved(self.source, [(change(i), None if f is None else change(f)) for i, f in self.terms])


@dataclass
class Formula:
    source: str
    node: torch.fx.Node


@dataclass
class Table:
    weight: str
    same_row: bool  # every token has the first row


@dataclass
class Token:
    weight: str


ROWWISE = {"linear", "layer_norm", "rms_norm", "gelu", "silu", "relu", "add", "multiply", "dropout", "embedding",
           "add_positions", "token_cross_entropy"}  # leading dimensions may be merged

OWN = {"weight", "bias", "running_mean", "running_var"}  # what the parameters of a layer are called

# Hugging Face's GPT-2 has weights [in, out], and Cairn's files of weights have them so under these names.
_TRANSPOSED = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")


def is_transposed(name: str) -> bool:
    return name.startswith("transformer.h.") and name.endswith(_TRANSPOSED)


def capture(model: torch.nn.Module, inputs: tuple) -> Network:
    mode = model.training
    config: Any = getattr(model, "config", None)
    cache = getattr(config, "use_cache", None)
    model.train()  # so that dropout and batch-norm are what they are in training
    if cache:
        config.use_cache = False  # or keys and values would be results
    try:
        program = torch.export.export(model, inputs)
    except Exception as error:
        raise CairnError(f"torch.export cannot capture the model: {str(error).splitlines()[0]}") from error
    finally:
        model.train(mode)
        if cache:
            config.use_cache = cache
    network = Network(type(model).__name__.lower())
    Translator(network, program).run()
    if network.refused:
        raise CairnError("Cairn does not have these ops: " + "; ".join(network.refused))
    return network


class Translator:
    """Walks over the captured graph."""

    def __init__(self, network, program):
        self.network, self.program = network, program
        self.values, self.weights, self.taken, self.shape_of = {}, {}, set(), {}
        self.prefix = ""

    def run(self):
        signature = self.program.graph_signature
        weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        state = {**self.program.constants, **self.program.state_dict}
        linear = {node.args[1].name for node in self.program.graph.nodes if node.target is aten.linear.default}
        if any(is_transposed(weights.get(name, "")) for name in linear):
            self.prefix = "net."  # under these names files have the weights transposed
        first = {}  # a tied weight has the first of its names
        for node in self.program.graph.nodes:
            if node.op == "placeholder" and node.name in weights:
                tensor = state[weights[node.name]].detach()
                is_parameter = node.name in signature.inputs_to_parameters
                key = (tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else node
                name = first.setdefault(key, self.prefix + weights[node.name])
                self.weights[node] = name
                self.network.tensors[name] = ("parameter" if is_parameter else "state", tensor)
                self.values[node] = None if is_parameter else Known(tensor)
            elif node.op == "placeholder" and node.name in signature.inputs_to_lifted_tensor_constants:
                self.values[node] = Known(state[signature.inputs_to_lifted_tensor_constants[node.name]])
            elif node.op == "placeholder":
                self.add_input(node)
            elif node.op == "get_attr":
                self.values[node] = Known(operator.attrgetter(node.target)(self.program.graph_module))
            elif node.op == "call_function":
                self.translate(node)
            elif node.op == "output":
                self.finish(node, signature)

    def add_input(self, node):
        name = "input" if not self.network.inputs else node.name
        self.values[node] = name
        self.shape_of[name] = self.network.inputs[name] = list(node.meta["val"].shape)
        self.network.tokens = not node.meta["val"].is_floating_point()

    def refuse(self, node, why=""):
        where = f" in {self.place(node)}" if self.place(node) else ""
        self.network.refused.append(f"{node.target}{where}{': ' + why if why else ''}")

    @staticmethod
    def place(node):
        stack = node.meta.get("nn_module_stack") or {}
        return [path for path, _ in stack.values()][-1] if stack else ""

    def translate(self, node):
        from ._export_rules import RULES  # they use what is above
        operands = node.all_input_nodes
        self.values[node] = None
        try:
            if any(self.values[x] is None and x not in self.weights for x in operands):
                if node.target not in RULES and not self.is_unused(node):
                    self.refuse(node)  # as its operand was
            elif all(isinstance(self.values[x], Known) for x in operands) and self.is_constant(node):
                self.values[node] = Known(self.compute(node, lambda x: self.values[x].value))
            elif node.target in RULES:
                RULES[node.target](self, node)
            elif not self.is_unused(node):
                self.refuse(node)
        except Refused as refused:
            self.refuse(node, str(refused))

    @staticmethod
    def is_constant(node):
        return torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())

    @staticmethod
    def compute(node, value_of):
        """Run an op; what it would change is copied first."""
        schema = _torch.schema_of(node.target)
        changes = schema is not None and schema.is_mutable

        def get(x):
            value = value_of(x)
            return value.clone() if changes and isinstance(value, torch.Tensor) else value

        with torch.no_grad():
            return node.target(*torch.fx.map_arg(node.args, get), **torch.fx.map_arg(node.kwargs, get))

    def is_unused(self, node):
        """A check, or the update of a counter: read by nothing but the end, and none of the model's results."""
        only_end = all(user.op == "output" for user in node.users)
        return only_end and node.name not in self.program.graph_signature.user_outputs

    # ---- For the rules ----

    def weight(self, node):
        """The name of a parameter or a running statistic."""
        if node not in self.weights:
            raise Refused("a weight that is computed")
        return self.weights[node]

    def plain(self, node):
        """The name of the tensor that a node is; a layer is made of what is none yet."""
        from ._export_rules import RESOLVERS
        value = self.values[node]
        resolve = RESOLVERS.get(type(value))
        if resolve is not None:
            value = self.values[node] = resolve(self, node, value)
        if not isinstance(value, str):
            raise Refused("it reads a parameter or a constant, where a tensor of the network is expected")
        return value

    def add(self, node, kind, inputs, params=(), shape=None, name=None, **attributes):
        """A layer; one with parameters is called as their module is. `params` are names; returns its name."""
        reads = [value if isinstance(value, str) else self.plain(value) for value in inputs]
        for given, read in zip(inputs, reads, strict=True):
            if isinstance(given, torch.fx.Node) and kind not in ROWWISE:
                seen = list(given.meta["val"].shape)
                if seen != self.shape_of[read]:
                    raise Refused(f"it reads {self.shape_of[read]} as {seen}")
        own = all(param.rpartition(".")[2] in OWN for param in params)
        stem = params[0].rpartition(".")[0] if params and own else self.prefix + (name or node.name)
        full, again = stem, 1
        if full in self.taken and self.place(node) and self.prefix + self.place(node) not in self.taken:
            full = self.prefix + self.place(node)  # a weight that another module has too
        while full in self.taken:
            again += 1
            full = f"{stem}_{again}"
        self.taken.add(full)
        if shape is None and kind in ROWWISE:
            shape = list(self.shape_of[reads[0]])
        self.shape_of[full] = list(node.meta["val"].shape) if shape is None else shape
        self.network.layers.append(Layer(full, kind, reads, self.shape_of[full], list(params), attributes,
                                         own=own and full == stem))
        return full

    def finish(self, node, signature):
        wanted = set(signature.user_outputs)
        results = [argument for argument in node.args[0] if getattr(argument, "name", None) in wanted]
        if self.network.refused:
            return
        if len(results) != 1 or len(self.network.inputs) != 1:
            raise CairnError("a network that Cairn trains reads one tensor and gives one, its logits")
        shape = list(results[0].meta["val"].shape)
        if len(shape) != (3 if self.network.tokens else 2):
            wished = "[N, tokens, classes]" if self.network.tokens else "[N, classes]"
            raise CairnError(f"logits must be {wished}, not {shape}")
        kind = "token_cross_entropy" if self.network.tokens else "cross_entropy"
        try:
            self.network.layers.append(Layer("loss", kind, [self.plain(results[0]), "label"], [1]))
        except Refused as refused:
            self.refuse(results[0], str(refused))


def argument(node: torch.fx.Node, place: int, default: Any = None) -> Any:
    """An argument by its place in the op's schema, however it was given."""
    if len(node.args) > place:
        return node.args[place]
    if node.target is operator.getitem:
        return default
    return node.kwargs.get(_torch.schema_of(node.target).arguments[place].name, default)
