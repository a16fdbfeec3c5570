"""Captured steps of mode "compiled", kept in PyTorch's cache of compiled steps.

Capturing takes seconds: AOTAutograd traces the step, passes simplify it, and its groups become kernels. PyTorch keeps what
its own compiler makes of a step in a file, under a key of the model's graph, its inputs and all settings; where it finds
the file, it does not trace. Here that file has the graph of kernels, and the kernels as Inductor compiled them:

    model's graph -> key -> file -> graph of kernels -> costs -> plan -> forward and backward graph

Costs have files of their own, and plans are made anew, so one file serves every budget. A step that cannot be kept is
captured in every process: with large constants, or with functions that have no name. So are steps of several processes,
which wait for each other while they capture.
"""

import pickle

import torch
from torch import fx

from . import _chunks, _compiled, _torch
from ._errors import CairnError
from ._real import no_collections

_LARGEST = 1 << 20  # bytes of a constant that is kept
_KEYS = ("desc", "partitioner_tag", "seq_nr")  # of a node's meta, besides those of ours and its value


class Unkept(Exception):
    """A step has something that cannot be in a file."""


# ---- graphs as plain data ----

class _Stand:
    """Stands for something by its number or its name."""

    def __init__(self, what):
        self.what = what


class _Node(_Stand):
    pass


class _Tensor(_Stand):
    pass


class _Kernel(_Stand):
    pass


class _Op(_Stand):
    pass


class _Data:
    """Graphs with their fake tensors as plain data. `tensors` have the number of their storage, `storages` their bytes;
    which tensors share one is so kept. `kernels` are those of the graphs, by name."""

    def __init__(self):
        self.storages, self.tensors, self.kernels = [], [], {}
        self._numbers, self._places = {}, {}

    def graph(self, graph):
        places = {node: place for place, node in enumerate(graph.nodes)}

        def plain(value):
            if isinstance(value, fx.Node):
                return _Node(places[value])
            if isinstance(value, _compiled.Kernel):
                self.kernels[value.__name__] = value
                return _Kernel(value.__name__)
            return _Op(_torch.name_of_op(value)) if isinstance(value, _torch.OpOverload) else value
        return [(node.op, node.name, *fx.node.map_aggregate((node.target, node.args, node.kwargs, _meta_of(node)), plain),
                 self.value(node.meta.get("val"))) for node in graph.nodes]

    def value(self, value):
        leaves, form = _torch.pytree.tree_flatten(value)
        if any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in leaves):
            raise Unkept
        return _torch.pytree.tree_unflatten(
            [self._tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], form)

    def _tensor(self, value):
        if id(value) not in self._numbers:
            if value.layout is not torch.strided or value.is_conj() or value.is_neg():
                raise Unkept
            storage = _torch.storage_key(value)
            if storage not in self._places:
                self._places[storage] = len(self.storages)
                self.storages.append(value.untyped_storage().nbytes())
            self._numbers[id(value)] = len(self.tensors), value  # which so lives as long as its number
            self.tensors.append((self._places[storage], value.storage_offset(), tuple(value.shape), value.stride(),
                                 value.dtype, value.device, value.requires_grad, isinstance(value, torch.nn.Parameter)))
        return _Tensor(self._numbers[id(value)][0])


def _meta_of(node):
    return {key: value for key, value in node.meta.items() if key in _KEYS or key.startswith("cairn_")}


class _Made:
    """Graphs and fake tensors made again from plain data."""

    def __init__(self, storages, tensors):
        mode = _torch.FakeTensorMode()
        with _torch.disable_current_modes(), torch.no_grad():
            storages = [torch.UntypedStorage(size, device="meta") for size in storages]
            self._tensors = [self._fake(mode, storages[place], *rest) for place, *rest in tensors]

    @staticmethod
    def _fake(mode, storage, offset, shape, stride, dtype, device, learned, parameter):
        plain = torch.empty(0, dtype=dtype, device="meta").set_(storage, offset, shape, stride)
        fake = _torch.FakeTensor(mode, plain, device)
        fake._is_param = parameter  # what isinstance(fake, torch.nn.Parameter) asks
        return fake.requires_grad_() if learned else fake

    def graph(self, rows, kernels=None):
        graph, nodes = fx.Graph(), []

        def back(value):
            if isinstance(value, _Node):
                return nodes[value.what]
            if isinstance(value, _Kernel):
                return kernels[value.what]
            return _torch.op_named(value.what) if isinstance(value, _Op) else value
        for op, name, target, args, kwargs, _, _ in rows:
            nodes.append(graph.create_node(op, *fx.node.map_aggregate((target, args, kwargs), back), name=name))
        for node, (*_, meta, value) in zip(nodes, rows):  # which may name later nodes
            node.meta = dict(fx.node.map_aggregate(meta, back), val=self.value(value))
        return graph

    def value(self, value):
        return _torch.pytree.tree_map_only(_Tensor, lambda t: self._tensors[t.what], value)


# ---- a step ----

class Step:
    """What is kept of a captured step: its graph of kernels, with constants, and the number of results of its forward
    part."""

    def __init__(self, gm, num_fwd_outputs):
        data, self.num_fwd_outputs = _Data(), num_fwd_outputs
        rows = data.graph(gm.graph)
        self._kernels = dict(data.kernels)
        kernels = {name: (data.graph(kernel.graph), data.value(kernel.given)) for name, kernel in self._kernels.items()}
        constants = {n.target: _constant(gm, n.target) for n in gm.graph.find_nodes(op="get_attr")}
        self._plain = pickle.dumps((rows, kernels, constants, data.storages, data.tensors))

    def __getstate__(self):
        """Kernels are asked only now for what Inductor has made of them."""
        return {**vars(self), "_kernels": {name: kernel.kept_forms() for name, kernel in self._kernels.items()}}

    def module(self):
        """The graph of kernels as it was."""
        rows, parts, constants, storages, tensors = pickle.loads(self._plain)
        made, kernels, root = _Made(storages, tensors), {}, torch.nn.Module()
        for name, (graph, given) in parts.items():
            kernels[name] = _compiled.kept_kernel(name, made.graph(graph), made.value(given), self._kernels[name])
        for name, value in constants.items():
            root.register_buffer(name, value)
        return fx.GraphModule(root, made.graph(rows, kernels))


def _constant(gm, name):
    value = getattr(gm, name, None)
    if type(value) is not torch.Tensor or value.nbytes > _LARGEST:
        raise Unkept
    return value


# ---- for AOTAutograd ----

def settings():
    """What a capture depends on besides, by which PyTorch chooses ops of attention, and types and precision of others."""
    cuda = torch.backends.cuda
    return [cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled(),
            torch.get_float32_matmul_precision(), torch.get_default_dtype(), torch.backends.mkldnn.enabled]


def overlap_of(tensors):
    """Which tensors share memory, of which PyTorch's key says nothing: each with the number of its storage."""
    numbers: dict = {}
    return [numbers.setdefault(_torch.storage_key(t), len(numbers)) for t in tensors if t.layout is torch.strided]



class Part(_torch.OutputCode):
    """The forward or the backward part of a step, as PyTorch keeps it in its cache. `step` is None if it cannot be kept;
    `metadata` is what PyTorch itself keeps beside it, the same object."""

    def __init__(self, step, backward, call, metadata=None):
        super().__init__()
        self.step, self.backward, self._call, self.metadata = step, backward, call, metadata
        _torch.boxed_call(self)

    def __call__(self, arguments):
        return self._call(arguments)

    def prepare_for_serialization(self):
        if self.step is None or self.metadata is None:
            raise _torch.BypassAOTAutogradCache("this step cannot be kept")
        self._call = None

    def post_compile(self, example_inputs, constants, graph_kwargs):
        """The part was found in the cache."""
        self._call = _keepers[-1].found(self, example_inputs)

    def set_triton_bundle(self, triton_bundle):
        pass


def leave_out(gm):
    """PyTorch would keep the backward graph as well, for its compiled autograd; but kernels have no names that another
    process could import."""
    gm.__reduce__ = lambda: (_left_out, ())


def _left_out():
    raise CairnError("a step in mode compiled cannot run under PyTorch's compiled autograd")


_keepers: list = []  # the one whose step is captured now is the last


class Keeper:
    """One capture that PyTorch may find in its cache. `write` gives the two graphs of a step that was found, which
    `forward` and `backward` compile; `without` compiles a graph without gradients. `missing` is called where a step is not
    found."""

    def __init__(self, write, forward, backward, without, words, missing):
        self._write, self._compile, self._words, self._missing = write, (forward, backward), words, missing
        self._step, self._graphs, self._error = None, None, None
        self.forward, self.backward = (_torch.kept_by(self._compiler(i)) for i in (False, True))
        self.without = _torch.kept_by(lambda gm, inputs: Part(None, False, without(gm, inputs)))

    def keep(self, gm, num_fwd_outputs):
        """Note a step that was captured."""
        try:
            self._step = Step(gm, num_fwd_outputs)
        except (Unkept, pickle.PicklingError, AttributeError, KeyError, RuntimeError, TypeError):
            self._step = None  # a local function, a node that is gone, an object of C++

    def _compiler(self, backward):
        def compile_part(gm, inputs):
            return Part(self._step, backward, self._compile[backward](gm, inputs), _torch.runtime_metadata())
        return compile_part

    def found(self, part, inputs):
        """A callable for a part of a step that is in the cache."""
        try:
            with no_collections():
                if self._graphs is None:
                    self._graphs = self._write(part.step.module(), part.step.num_fwd_outputs)
                    _torch.note_saved(part.metadata, self._graphs[0], part.step.num_fwd_outputs)
                return self._compile[part.backward](self._graphs[part.backward], inputs)
        except CairnError as error:  # PyTorch takes every error for a reason to capture
            self._error = error
            raise

    def refuse(self):
        """Raise the error that a step in the cache has met, before it is captured for nothing."""
        if self._error is not None:
            raise self._error

    def __enter__(self):
        _keepers.append(self)
        self._open = _torch.cached_captures(self._words, _chunks.loss_in_chunks, self._missing)
        self._open.__enter__()

    def __exit__(self, *error):
        self._open.__exit__(*error)
        _keepers.pop()
