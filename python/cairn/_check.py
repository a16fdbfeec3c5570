"""The first run of a written graph, checked against its plan.

A plan says which storage every value lies in, where, and when a storage is overwritten or freed. The first run of each
graph compares all of that with the tensors that the ops really return:

    each read      the memory still holds the storage that the plan means: nothing was written over it, and it was not
                   freed
    each result    its storage is new, or the one that the plan lets it overwrite or view; its bytes, offset and strides
                   are the planned ones
    each free      the memory is gone, or holds what the plan wrote over it

A difference is an error that names the op. What the backward part recomputes must also read the inputs that the forward
part has read: if something outside the graphs has changed one in between, that is an error too. So a step never goes on
with wrong numbers. Only memory that somebody else still holds, a hook for example, is a warning: the numbers are right,
but the step needs more than planned.
"""

import ctypes
import operator
import warnings
import zlib

import torch
from torch import fx

from . import _torch
from ._errors import CairnError
from ._geometry import place_of, planned_of, tensors_of

HOLDS = "cairn_holds"  # key of a written node: the storages that its values lie in
OVER = "cairn_over"    # those that it overwrites
FREES = "cairn_frees"  # those that the plan frees after it
COUNTS = "cairn_counts"  # whether it only counts its operands
MAY_BE_NONE = "cairn_may_be_none"  # whether its value may be None, because the first step makes it
AGAIN = "cairn_again"  # of an input from which the backward part recomputes: the Inputs of both graphs


def join(new, nodes):
    """`new` takes the place of `nodes`: what they overwrote and made in between is its own business."""
    between = {s for node in nodes[:-1] for s in node.meta.get(HOLDS, ())}
    new.meta[OVER] = between.union(*(node.meta.get(OVER, ()) for node in nodes))
    new.meta[FREES] = set().union(*(node.meta.get(FREES, ()) for node in nodes))


class _Step:
    """A node of a written graph, and what the plan says about it; values have the numbers of their nodes."""
    __slots__ = ("node", "call", "args", "kwargs", "plain", "reads", "holds", "single", "expected", "over", "frees", "drops")

    def __init__(self, node, numbers, gm):
        meta, fake = node.meta, node.meta.get("val")
        self.node, self.args, self.kwargs = node, node.args, node.kwargs
        self.call = node.target if node.op == "call_function" else None
        if node.op == "get_attr":
            self.call, self.args = (lambda: _attribute(gm, node.target)), ()
        self.plain = all(isinstance(a, (fx.Node, *CONSTANTS)) for a in (*self.args, *self.kwargs.values()))
        if self.plain:  # most arguments are nodes and numbers, and need no search
            self.args = [(numbers[a], None) if isinstance(a, fx.Node) else (-1, a) for a in self.args]
            self.kwargs = [(k, numbers[a], None) if isinstance(a, fx.Node) else (k, -1, a) for k, a in self.kwargs.items()]
        reads = COUNTS not in meta and node.target is not operator.getitem  # which reads no memory
        self.reads = [numbers[n] for n in node.all_input_nodes] if reads else []
        self.holds = meta.get(HOLDS) or ()
        self.single = isinstance(fake, torch.Tensor)
        self.expected = None
        if node.op == "call_function" and HOLDS in meta:
            self.expected = [(*place_of(v), v.dtype, v.untyped_storage().nbytes()) for v in tensors_of(fake)]
        self.over, self.frees, self.drops = meta.get(OVER, ()), meta.get(FREES, ()), []


CONSTANTS = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def _attribute(gm, target):
    value = gm
    for name in target.split("."):
        value = getattr(value, name)
    return value


class Checked:
    """A written graph, prepared for one run with all checks; None if it is not written from a plan."""

    def __init__(self, gm):
        nodes = list(gm.graph.nodes)
        self.numbers = {node: i for i, node in enumerate(nodes)}
        self.steps = [_Step(node, self.numbers, gm) for node in nodes]
        self.given = [i for i, node in enumerate(nodes) if node.op == "placeholder"]
        self.backward = any("autograd_backward" in node.meta for node in nodes)
        seen = set()
        for i in reversed(range(len(nodes))):
            for read in nodes[i].all_input_nodes:
                if read not in seen:
                    seen.add(read)
                    self.steps[i].drops.append(self.numbers[read])
            if nodes[i] not in seen and nodes[i].op != "output":
                self.steps[i].drops.append(i)  # nobody reads it

    @classmethod
    def of(cls, gm):
        return cls(gm) if any(HOLDS in node.meta for node in gm.graph.nodes) else None

    def run(self, arguments):
        """`arguments` is emptied."""
        return _Run(self, arguments).go()


class Inputs:
    """The inputs from which the backward part recomputes, as the forward part has read them. Autograd notices most changes
    in between, but not those by `.data`, and not those of running statistics."""
    TRIES = 4  # forward passes whose backward pass does not come

    def __init__(self):
        self.known, self.tries = {}, self.TRIES

    @staticmethod
    def of(gm):
        """The Inputs of a written graph, and the places of their tensors among its arguments; None if there are none."""
        nodes = gm.graph.find_nodes(op="placeholder")
        places = [(place, node) for place, node in enumerate(nodes) if AGAIN in node.meta]
        return (places[0][1].meta[AGAIN], places) if places else None

    def note(self, places, arguments):
        """Before the forward part."""
        self.tries -= 1
        for place, node in places:
            value = arguments[place]
            self.known[node.meta[HOLDS][0]] = _torch.StorageWeakRef(value.untyped_storage()), _torch.storage_key(value), \
                _digest(value)

    def compare(self, places, arguments):
        """Before the first backward part."""
        for place, node in places:
            value = arguments[place]
            reference, key, digest = self.known.get(node.meta[HOLDS][0], (None, None, None))
            if key == _torch.storage_key(value) and not reference.expired() and digest != _digest(value):
                raise CairnError(f"an input of the graph, {_show(*place_of(value), value.dtype)}, was changed between the "
                                 "forward and the backward part, which recomputes from it; let the model read a clone() of "
                                 "it, which is never recomputed")
        self.known, self.tries = {}, 0


_WHOLE, _RANGE = 1 << 24, 1 << 18  # bytes


def _digest(value):
    """A number that depends on the bytes, computed on the host, where no budget counts them. Of a large tensor it depends
    on three ranges, which an update changes too. None of a tensor with gaps."""
    extent = 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride()))
    if value.is_conj() or value.is_neg() or extent != value.numel():
        return None
    flat = value.detach().as_strided((value.numel(),), (1,), value.storage_offset()).view(torch.uint8)
    middle = len(flat) // 2
    ranges = [flat] if len(flat) <= _WHOLE else [flat[:_RANGE], flat[middle:middle + _RANGE], flat[-_RANGE:]]
    return [_crc(part.cpu()) for part in ranges]


def _crc(flat):
    """Not by way of numpy, after which a storage can no longer be resized, as FSDP does."""
    return zlib.crc32((ctypes.c_char * len(flat)).from_address(flat.data_ptr())) if len(flat) else 0


class _Run:
    def __init__(self, checked, arguments):
        self.checked, self.values = checked, [None] * len(checked.steps)
        self.memory = {}  # the key of a real storage to a reference to it and the storage of the plan that it holds
        self.place = {}  # a storage of the plan to the key of the real one
        self.same = {}  # a storage of the plan that arrived in the memory of another one, to that one
        self.where = [()] * len(checked.steps)  # of each node, the keys of its values' storages with those of the plan
        self.freed = set()
        self.held, self.held_bytes = None, 0
        self.keeps = checked.backward and _torch.runs_backward() and _torch.keeps_graph()  # what was saved stays
        for i, value in zip(checked.given, arguments):
            self.values[i] = value
        arguments.clear()

    def go(self):
        for i in self.checked.given:
            self._check_results(i, self.checked.steps[i], self.values[i])
            if i in self.checked.steps[i].drops:
                self.values[i] = None
        leaving = None
        for i, step in enumerate(self.checked.steps):
            if step.call is None and step.node.op != "output":
                continue
            if leaving is not None and leaving.frees and not self.keeps:
                self._check_frees(leaving)
            for read in step.reads:
                if self.where[read]:
                    self._check_reads(step, self.where[read])
            args, kwargs = self._operands(step)
            if step.call is None:
                self._warn()
                return args[0]
            result = self.values[i] = step.call(*args, **kwargs)
            del args, kwargs
            if step.holds or step.expected is not None:
                self._check_results(i, step, result)
            del result
            for drop in step.drops:
                self.values[drop] = None
            if step.frees:
                self.freed.update(step.frees)
            leaving = step

    def _operands(self, step):
        values = self.values
        if step.plain:
            return ([c if n < 0 else values[n] for n, c in step.args],
                    {k: c if n < 0 else values[n] for k, n, c in step.kwargs} if step.kwargs else {})
        numbers = self.checked.numbers
        return fx.node.map_arg((step.args, step.kwargs), lambda n: values[numbers[n]])

    def _warn(self):
        if self.held is not None:
            warnings.warn(f"cairn: the plan frees {self.held} but its memory is still in use outside the step, which "
                          f"therefore needs up to {self.held_bytes} bytes more than planned", stacklevel=2)

    def _check_frees(self, step):
        """What the plan freed after the op before must be gone now."""
        for storage in step.frees:
            reference, holds = self.memory.get(self.place.get(storage), (None, None))
            if holds is storage and not reference.expired():
                self.held = self.held or f"{storage.name} after op {step.node.name},"
                self.held_bytes += storage.bytes

    def _check_reads(self, step, where):
        for key, storage in where:
            if storage in self.freed:
                raise CairnError(f"op {step.node.name} reads {storage.name} after the plan freed it")
            held = self.memory[key][1]  # its memory is alive, because the value is
            if held is not self.same.get(storage, storage):
                raise CairnError(f"op {step.node.name} reads {storage.name}, but its memory holds {held.name}")

    def _check_results(self, i, step, result):
        if result is None and MAY_BE_NONE in step.node.meta:
            return
        single = step.single and isinstance(result, torch.Tensor)
        values = [result] if single else planned_of(result, step.node.meta.get("val"))
        if step.expected and len(values) != len(step.expected):
            raise CairnError(f"op {step.node.name} returns {len(values)} tensors, {len(step.expected)} were planned")
        if len(values) != len(step.holds):
            return
        memory, where = self.memory, []
        for number, (value, storage) in enumerate(zip(values, step.holds)):
            real = value.untyped_storage()
            key = _torch.storage_key(value)
            reference, held = memory.get(key, (None, None))
            if step.call is None and held is not None and held is not storage and not reference.expired():
                self.same[storage] = held  # as gradients of two losses that are added: a plan overwrites neither
            elif held is not self.same.get(storage, storage) or reference.expired():
                if held is not None and held not in step.over and not reference.expired():
                    raise CairnError(f"op {step.node.name} returns memory that still holds {held.name}")
                memory[key] = _torch.StorageWeakRef(real), storage
                self.place[storage] = key
                if step.expected and real.nbytes() != step.expected[number][4]:
                    raise CairnError(f"op {step.node.name} returns a storage of {real.nbytes()} bytes, "
                                     f"{step.expected[number][4]} were planned")
            self.freed.discard(storage)
            where.append((key, storage))
            if step.expected:
                shape, stride, offset, dtype, _ = step.expected[number]
                if _comes_from_outside(storage):
                    offset = value.storage_offset()
                if value.stride() != stride or value.shape != shape or value.storage_offset() != offset \
                        or value.dtype is not dtype:
                    raise CairnError(f"op {step.node.name} returns {_show(*place_of(value), value.dtype)}, "
                                     f"{_show(shape, stride, offset, dtype)} was planned")
        self.where[i] = where


def _comes_from_outside(storage):
    """Whether a storage is an input or a gradient of a result: no plan overwrites it, and it may begin anywhere in the
    memory of a larger tensor, at another place in every call."""
    return storage.op is None or storage.op.kind == "boundary"


def _show(shape, stride, offset, dtype):
    return f"{str(dtype).replace('torch.', '')}{list(shape)} with strides {list(stride)} at {offset}"
