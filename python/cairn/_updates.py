"""The updates of an optimiser as nodes of a captured step.

    joint graph    ... mm_backward -> grad -> [next layer's backward] ...
    with updates   ... mm_backward -> grad -> update(param, grad, slots) ...

A *slot* is a tensor that the optimiser keeps of a parameter, of the parameter's shape: a moment, a momentum. An update is
the optimiser's own `step` with one parameter in one group, so its bits are the optimiser's, whatever its options. It
stands behind the last op that reads the parameter, or whose operands could be recomputed from it.
"""

import collections
import copy
import inspect
import types
from typing import Any

import torch

from . import _torch
from ._errors import CairnError
from ._geometry import FIXED
from ._joint import Parts
from ._real import real_tensors

# Optimisers that treat each parameter alone, and make what they keep of it at its first update.
SUPPORTED = tuple(getattr(torch.optim, name) for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop",
                                                          "Adadelta"))
SLOT = "cairn_slot"  # key of placeholders that stand for slots: the parameter and the slot's name
UPDATE = "cairn_update"  # key of nodes that change what they read
SUM = "sum of gradients"  # the name of the trainer's own slot
CHUNK = 1 << 24  # elements of a parameter that are updated at once; a power of two, so that chunks begin aligned as it does
FIRST_CHUNK = 1 << 18  # the same at the first update


def _is_slot(value, parameter):
    return getattr(value, "shape", None) == parameter.shape


def _can_be_divided(parameter, state):
    """Whether the elements fill a range of memory, and those of all slots lie in the same order."""
    slots = [value for value in state.values() if _is_slot(value, parameter)]
    return (torch.ops.aten.is_non_overlapping_and_dense(parameter)
            and all(slot.stride() == parameter.stride() for slot in slots))


def _flat(tensor):
    """The elements in the order of memory."""
    return tensor.as_strided((tensor.numel(),), (1,))


class Optimizer:
    """An optimiser, one parameter at a time."""

    def __init__(self, optimizer):
        if type(optimizer) not in SUPPORTED:
            names = ", ".join(kind.__name__ for kind in SUPPORTED)
            raise CairnError("the trainer cannot update one parameter at a time with "
                             f"{type(optimizer).__name__}, only with {names}")
        if any(group.get("differentiable") for group in optimizer.param_groups):
            raise CairnError("the trainer cannot run an optimiser that is differentiable")
        self.optimizer = optimizer
        self._one = copy.copy(optimizer)  # shares its state
        self._step = inspect.unwrap(type(optimizer).step)
        self._kept = {}

    def group_of(self, parameter):
        """The group of a parameter as it is now; None: the optimiser does not have it."""
        for group in self.optimizer.param_groups:
            if any(p is parameter for p in group["params"]):
                return group
        return None

    def step(self, parameter, gradient, group):
        """Update one parameter."""
        self._one.state = self.optimizer.state  # load_state_dict replaces it
        self._run(self._one, parameter, gradient, group)

    def _run(self, one, parameter, gradient, group):
        if gradient.stride() != parameter.stride():  # as autograd stores a gradient
            gradient = torch.empty_like(parameter).copy_(gradient)
        if parameter.numel() > CHUNK and _can_be_divided(parameter, one.state.get(parameter, {})):
            self._run_chunks(one, parameter, gradient, group)
        else:
            self._run_whole(one, parameter, gradient, group)

    def _run_chunks(self, one, parameter, gradient, group):
        """Elements do not depend on each other: what the optimiser makes for a while is no larger than a chunk. The first
        update makes slots of every chunk beside those of the parameter, so its chunks are smaller."""
        state = one.state.get(parameter, {})
        before, rest = dict(state), {}
        size = min(CHUNK, FIRST_CHUNK) if not before and self.kept(group, parameter)[0] else CHUNK
        for first in range(0, parameter.numel(), size):
            rest = self._run_chunk(one, parameter, gradient, group, slice(first, first + size), before, state)
        state.update(rest)
        if state:
            one.state[parameter] = state
        one.param_groups = [{**group, "params": [parameter]}]  # it must not keep the memory of a chunk

    def _run_chunk(self, one, parameter, gradient, group, where, before, state):
        """Update a chunk; slots that it makes are copied into those of `state`. Returns what else is kept."""
        chunk = torch.nn.Parameter(_flat(parameter.data)[where])
        one.state[chunk] = {name: _flat(value)[where] if _is_slot(value, parameter) else copy.deepcopy(value)
                           for name, value in before.items()}
        self._run_whole(one, chunk, _flat(gradient)[where], group)
        made = one.state.pop(chunk, {})
        for name, value in made.items():
            if not _is_slot(value, chunk):
                continue
            if not _is_slot(state.get(name), parameter):  # the first update makes it
                state[name] = torch.empty_like(parameter, dtype=value.dtype)
            here = _flat(state[name])[where]
            if here.data_ptr() != value.data_ptr():
                here.copy_(value)
        return {name: value for name, value in made.items() if not _is_slot(value, chunk)}

    def _run_whole(self, one, parameter, gradient, group):
        one.param_groups = [{**group, "params": [parameter]}]
        parameter.grad = gradient
        try:
            self._step(one)
        finally:
            parameter.grad = None

    def kept(self, group, like):
        """What the optimiser keeps of a parameter: the names of slots with their types, and the other values, after two
        steps with a small parameter of the same type."""
        key = self.describe(group), like.dtype, like.device
        if key not in self._kept:
            one = copy.copy(self._one)
            one.state = collections.defaultdict(dict)
            with real_tensors():
                p = torch.nn.Parameter(torch.zeros(3, dtype=like.dtype, device=like.device))
                for _ in range(2):
                    self._run(one, p, torch.zeros_like(p), group)
            state = one.state[p]
            slots = {name: value.dtype for name, value in state.items() if _is_slot(value, p)}
            self._kept[key] = slots, {name: value for name, value in state.items() if name not in slots}
        return self._kept[key]

    def first_bytes(self, group, parameter):
        """What the first update of a parameter in chunks makes besides the slots: those of a chunk, before it copies them.
        It is not measured, because then there are slots."""
        if parameter.numel() <= CHUNK:
            return 0
        chunk = min(CHUNK, FIRST_CHUNK)
        return sum(-(-chunk * kind.itemsize // 512) * 512 for kind in self.kept(group, parameter)[0].values())

    def numbers_to_come(self, device):
        """How many numbers on the device, such as counts of steps, the first updates of parameters will make."""
        count = 0
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                if not self.optimizer.state.get(p):
                    rest = self.kept(group, p)[1]
                    count += sum(isinstance(value, torch.Tensor) and value.device == device for value in rest.values())
        return count

    def try_step(self, group, parameter, gradient, slots):
        """A step with other tensors, to measure it."""
        names, rest = self.kept(group, parameter)
        one, p = copy.copy(self._one), torch.nn.Parameter(parameter)
        one.state = collections.defaultdict(dict)
        one.state[p] = {**copy.deepcopy(rest), **dict(zip(names, slots))}
        self._run(one, p, gradient, group)

    def groups(self):
        """All of the optimiser that a planned step depends on, as a key. Numbers such as learning rates may change at any
        time. Dynamo of torch 2.11 does not notice by itself that a parameter was frozen."""
        return tuple((self.describe(group), *((id(p), p.requires_grad) for p in group["params"]))
                     for group in self.optimizer.param_groups)

    def describe(self, group):
        """The optimiser and what of its options changes the work of an update."""
        words = [name for name, value in sorted(group.items()) if value is True]
        words += [f"no_{name}" for name in ("foreach", "fused") if group.get(name) is False]
        words += [name for name in ("momentum", "weight_decay") if group.get(name)]
        return ".".join([type(self.optimizer).__name__.lower(), *words])


class Function:
    """A function of a captured graph. Called by itself it does its work on other tensors, to be measured; `real` is what
    a written graph calls."""
    __module__ = "cairn_updates"
    _schema: Any = types.SimpleNamespace(is_mutable=True, returns=(), arguments=())
    least_workspace = 0  # bytes, whatever is measured

    def __init__(self, name, words):
        self.__name__ = self.__qualname__ = name
        self._words = words
        self.real = self._named(self.run)

    def _named(self, method):
        def call(*arguments):
            return method(*arguments)
        call.__name__ = call.__qualname__ = self.__name__
        call.__module__ = self.__module__
        return call

    def __str__(self):
        return "cairn." + self._words


class Update(Function):
    """The update of one parameter: of its gradient, or of the sum of gradients so far and this one, times a coefficient
    where gradients are clipped."""

    def __init__(self, name, optimizer, parameter, summed, clipped):
        self.optimizer, self.parameter, self.summed, self.clipped = optimizer, parameter, summed, clipped
        self.group = optimizer.group_of(parameter)
        self.slots = list(optimizer.kept(self.group, parameter)[0])
        words = ".sum" * summed + ".clip" * clipped + ".parts" * (parameter.numel() > CHUNK)
        super().__init__(name, optimizer.describe(self.group) + words)
        self.least_workspace = optimizer.first_bytes(self.group, parameter)

    def _gradient(self, gradient, rest):
        """The whole gradient, and the slots."""
        rest = list(rest)
        coefficient = rest.pop() if self.clipped else None
        if self.summed:
            gradient = rest.pop().add_(gradient)
        if coefficient is not None:
            gradient = gradient * coefficient.to(gradient.device)
        return gradient, rest

    def __call__(self, parameter, gradient, *rest):
        gradient, slots = self._gradient(gradient, rest)
        self.optimizer.try_step(self.group, parameter, gradient, slots)

    def run(self, value, gradient, *rest):
        """Returns the slots, which the first update makes."""
        p, state = self.parameter, self.optimizer.optimizer.state
        gradient, slots = self._gradient(gradient, rest)
        shell = p.data
        if value is not p:
            p.data = value
        for name, slot in zip(self.slots, slots):
            if slot is not None:
                state[p][name] = slot
        self.optimizer.step(p, gradient, self.optimizer.group_of(p))
        p.data = shell
        return [state[p][name] for name in self.slots]


class Add(Function):
    """Add a gradient to the trainer's sum of those before it."""
    slots = [SUM]

    def __init__(self, name, parameter, trainer):
        super().__init__(name, "add")
        self.parameter, self.trainer = parameter, trainer

    def __call__(self, gradient, total):
        total.add_(gradient)

    def run(self, gradient, total):
        if total is None:
            total = self.trainer.sums[self.parameter] = torch.empty_like(gradient)
        return [total.add_(gradient) if self.trainer.has_sums() else total.copy_(gradient)]


class _Pure(Function):
    _schema = None

    def __call__(self, *arguments):
        return self.run(*arguments)


class Norm(_Pure):
    """The norm of a gradient, as PyTorch's clip_grad_norm_ computes it."""

    def __init__(self, name):
        super().__init__(name, "norm")

    def run(self, gradient, total=None):
        return _torch.foreach_norm([gradient if total is None else total + gradient], 2.0)[0]


class Coefficient(_Pure):
    """By what gradients are multiplied, such that the norm of all of them is at most `most`."""

    def __init__(self, most, note):
        self.most, self.note = float(most), note
        super().__init__("clip", f"clip.{self.most}")

    def __call__(self, *norms):
        return self.run(*norms, note=lambda norm: None)

    def run(self, *norms, note=None):
        norm = torch.linalg.vector_norm(torch.stack([n.to(norms[0].device) for n in norms]), 2.0)
        (note or self.note)(norm)
        return torch.clamp(self.most / (norm + 1e-6), max=1.0)


# ---- in a graph ----

def _last_uses(gm, parts, placeholders):
    """Per placeholder: the last node of the backward part that reads it, or reads what can be recomputed from it."""
    bit = {p: 1 << i for i, p in enumerate(placeholders)}
    made, last = {}, {}
    for node in gm.graph.nodes:
        reads = 0
        for read in node.all_input_nodes:
            reads |= made.get(read, 0) | bit.get(read, 0)
        if node in parts.is_backward and node is not parts.output:
            last[node] = reads
        elif node not in parts.is_backward:
            made[node] = reads
    rest, found = (1 << len(placeholders)) - 1, {}
    for node, reads in reversed(last.items()):
        here, rest = reads & rest, rest & ~reads
        while here:
            low = here & -here
            found[placeholders[low.bit_length() - 1]] = node
            here ^= low
    return found


class Adder:
    """Adds updates to a captured graph. `parameters` are those of the placeholders, in order, or None; `mode` is "step",
    "add" (only sum up gradients) or "last" (of sums)."""

    def __init__(self, trainer, parameters, mode):
        self.trainer, self.parameters, self.mode = trainer, parameters, mode
        self.slots = []  # placeholders

    def __call__(self, gm, num_fwd_outputs):
        parts = Parts(gm, num_fwd_outputs)
        self.gm, self.fake = gm, next(p.meta["val"].fake_mode for p in parts.primals if hasattr(p.meta["val"], "fake_mode"))
        given = list(zip(parts.primals, self.parameters))
        pairs = [(node, p, grad) for (node, p), grad in zip(given, parts.bwd_out)
                 if p is not None and grad is not None and self.trainer.updates(p)]
        if not pairs:
            raise CairnError("no parameter of the optimiser has a gradient in this step")
        self.place = {node: i for i, node in enumerate(gm.graph.nodes)}
        uses = _last_uses(gm, parts, [node for node, _, _ in pairs])
        self.last_input = parts.placeholders[-1]
        ends = {node: max(uses.get(node, grad), grad, key=self.place.get) for node, _, grad in pairs}
        if self.mode == "add":
            self._add(pairs)
        elif self.trainer.clip_norm is None:
            self._update(pairs, ends, None)
        else:
            self._update(pairs, ends, self._clip(pairs))
        parts.output.args = (tuple(parts.fwd_out),)
        gm.graph.lint()
        gm.recompile()

    def _slot(self, parameter, node, name, dtype):
        with self.gm.graph.inserting_after(self.last_input):
            new = self.gm.graph.placeholder(f"slot_{len(self.slots)}")
        like = node.meta["val"]
        with self.fake:
            new.meta["val"] = torch.empty_strided(like.shape, like.stride(), dtype=dtype, device=like.device)
        new.meta[SLOT] = parameter, name
        self.slots.append(new)
        self.last_input = new
        return new

    def _sum(self, parameter, node):
        return self._slot(parameter, node, SUM, node.meta["val"].dtype)

    def _insert(self, after, target, arguments, value=None):
        with self.gm.graph.inserting_after(after):
            new = self.gm.graph.call_function(target, tuple(arguments))
        new.meta[FIXED], new.meta["val"] = True, value
        return new

    def _add(self, pairs):
        for node, p, grad in pairs:
            target = Add(f"add_{node.name}", p, self.trainer)
            self._insert(grad, target, (grad, self._sum(p, node))).meta[UPDATE] = True

    def _clip(self, pairs):
        """The coefficient, and sums by parameter."""
        order, norms = {id(p): i for i, p in enumerate(self.trainer.model.parameters())}, []
        self.sums = {}
        for node, p, grad in sorted(pairs, key=lambda pair: order.get(id(pair[1]), len(order))):
            reads = [grad]
            if self.mode == "last":
                self.sums[node] = self._sum(p, node)
                reads.append(self.sums[node])
            with self.fake:
                value = torch.empty((), dtype=grad.meta["val"].dtype, device=grad.meta["val"].device)
            norms.append(self._insert(grad, Norm(f"norm_{node.name}"), reads, value))
        with self.fake:
            value = torch.empty((), dtype=norms[0].meta["val"].dtype, device=norms[0].meta["val"].device)
        end = next(n for n in reversed(self.gm.graph.nodes) if n.op != "output")
        return self._insert(end, Coefficient(self.trainer.clip_norm, self.trainer.note_norm), norms, value)

    def _update(self, pairs, ends, coefficient):
        optimizer, summed = self.trainer.optimizer_steps, self.mode == "last"
        for node, p, grad in sorted(pairs, key=lambda pair: self.place[ends[pair[0]]], reverse=coefficient is not None):
            target = Update(f"update_{node.name}", optimizer, p, summed, coefficient is not None)
            kinds = optimizer.kept(target.group, p)[0]
            slots = [self._slot(p, node, name, kinds[name]) for name in target.slots]
            if summed:
                slots.append(self.sums[node] if coefficient is not None else self._sum(p, node))
            rest = [] if coefficient is None else [coefficient]
            after = ends[node] if coefficient is None else coefficient
            self._insert(after, target, [node, grad, *slots, *rest]).meta[UPDATE] = True
