"""Ops that may also run in slices, one after the other, with less memory.

The backward op of attention allocates its three results itself and, for sums in float32, a workspace as large as two of
them. Batches and heads do not depend on each other. So it can run for some of them at a time, and each slice is copied to
its place in the results. Then only one slice needs that memory, and results can be where the plan wants them. A plan uses
this form as another implementation of the op, where memory is short. The same holds for attention itself; it has no
workspace, but it allocates its result.

A trial shows whether the form may be used. If the op gives the same bits in every run, its slices must give these bits. Some
ops of libraries do not, because they add up in any order: then the slices must be as close to the op as its own runs are.
"""

import collections

import torch
from torch import fx

from . import _costs, _torch
from ._geometry import FIXED
from ._real import digest, real_tensors

SLICES = 8  # at most: with more the GPU has too little to do in each
_TRIALS = 3  # runs that show whether an op gives the same bits every time
_MORE = 40  # further runs at most, where slices have other bits: an op that adds up in any order may repeat a few times
_CLOSE = 4  # times the distance of two runs that the slices may be away

# The arguments that have batches and heads as their first two dimensions, by place; and those that must be absent.
_SPLIT = {"_scaled_dot_product_cudnn_attention_backward": (range(0, 6), (8, 9, 10)),
          "_scaled_dot_product_flash_attention_backward": (range(0, 6), (6, 7)),
          "_scaled_dot_product_flash_attention_for_cpu_backward": (range(0, 6), ()),
          "_scaled_dot_product_cudnn_attention": (range(0, 3), (3,)),
          "_scaled_dot_product_flash_attention": (range(0, 3), ()),
          "_scaled_dot_product_flash_attention_for_cpu": (range(0, 3), ())}


SECOND = "cairn_second"  # key of a node that has such a form: the form, and a node that calls it
Second = collections.namedtuple("Second", "form time_ns workspace")


class InSlices:
    """An op of attention as a function of the destinations of its results, None for new ones, and of its arguments. `like`
    are its results; those without batches and heads, states of random numbers that it does not use, are the last slice's."""
    __module__ = "cairn_kernels"

    def __init__(self, target, split, slices, like):
        self.__name__ = self.__qualname__ = f"{target.overloadpacket.__name__}_in_{slices[0]}x{slices[1]}"
        self.target, self._split, self._slices = target, split, slices
        self.made = [slot for slot, v in enumerate(like) if isinstance(v, torch.Tensor) and v.dim() >= 3]
        self._like = {slot: (like[slot].shape, like[slot].stride(), like[slot].dtype) for slot in self.made}

    def __str__(self):
        return self.__name__

    def __call__(self, destinations, *arguments, **keywords):
        device = arguments[0].device
        results = {slot: torch.empty_strided(shape, stride, dtype=dtype, device=device) if destinations[slot] is None
                   else destinations[slot] for slot, (shape, stride, dtype) in self._like.items()}
        wholes = [self._divided(arguments[place]) for place in self._split]
        places = {slot: self._divided(result) for slot, result in results.items()}
        for at in range(len(wholes[0])):
            given = list(arguments)
            for place, whole in zip(self._split, wholes):
                given[place] = whole[at]
            made = self.target(*given, **keywords)
            for slot in self.made:
                places[slot][at].copy_(made[slot])
            others = {slot: value for slot, value in enumerate(made) if slot not in results}
            del given, made
        return tuple(results[slot] if slot in results else others[slot] for slot in range(len(results) + len(others)))

    def _divided(self, tensor):
        batches, heads = self._slices
        return [one for some in tensor.chunk(batches) for one in some.chunk(heads, 1)]


def form_of(node):
    """A node's op in slices, or None."""
    packet = getattr(node.target, "overloadpacket", None)
    if getattr(packet, "__name__", None) not in _SPLIT:
        return None
    split, absent = _SPLIT[packet.__name__]
    values = [a.meta.get("val") if isinstance(a, fx.Node) else a for a in node.args]
    like = [v for v in node.meta["val"] if isinstance(v, torch.Tensor) and v.dim() >= 3]
    if any(values[place] is not None for place in absent) or drops(node) or node.kwargs.get("attn_mask") is not None:
        return None
    divided = [values[place] for place in split] + like
    if not all(isinstance(v, torch.Tensor) and v.dim() >= 3 and v.shape[0] == values[0].shape[0] for v in divided):
        return None
    heads = min(v.shape[1] for v in divided)  # several may share keys and values: they stay in one slice
    if any(v.shape[1] % heads for v in divided):
        return None
    slices = _slices_of(values[0].shape[0], heads)
    return InSlices(node.target, split, slices, node.meta["val"]) if slices != (1, 1) else None


def drops(node):
    """Whether it drops numbers, or returns which."""
    names = [argument.name for argument in _torch.schema_of(node.target).arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    return given.get("dropout_p", 0.0) != 0.0 or given.get("return_debug_mask", False)


def _slices_of(batches, heads):
    """Into how many slices to divide batches and heads."""
    def divisor(number, most):
        return max(n for n in range(1, most + 1) if number % n == 0)
    first = divisor(batches, SLICES)
    return first, divisor(heads, SLICES // first)


def is_same(form, arguments, keywords):
    """Whether the slices give what the op gives: see above."""
    def results(of, call):
        found = call()
        return [of(found[slot]) for slot in form.made]

    def whole():
        return form.target(*arguments, **keywords)

    def in_slices():
        return form(dict.fromkeys(form.made), *arguments, **keywords)
    runs, slices = [results(digest, whole) for _ in range(_TRIALS)], results(digest, in_slices)
    if any(a[1:] != b[1:] for a, b in zip(slices, runs[0])):
        return False
    if all(run == runs[0] for run in runs):
        if slices == runs[0]:
            return True
        if all(results(digest, whole) == runs[0] for _ in range(_MORE)):
            return False
    first, own = results(torch.Tensor.cpu, whole), 0.0  # the device may not have room for all of them
    for trial in range(1, _MORE):
        if trial >= _TRIALS and own:
            break
        own = max(own, distance(results(torch.Tensor.cpu, whole), first))
    return distance(results(torch.Tensor.cpu, in_slices), first) <= _CLOSE * own


def distance(some, others):
    """The distance of tensors, each relative to its size, the largest of all."""
    return max(((a.float() - b.float()).norm() / b.float().norm()).item() for a, b in zip(some, others))


def offer(graph, table, learn):
    """Measure the ops of a graph in slices, those of which a trial permits it."""
    calls, found = fx.Graph(), {}
    for node in graph.nodes:
        form = form_of(node) if node.op == "call_function" else None
        if form is None:
            continue
        signature = _costs.signature_of(node)
        if signature not in found:
            tried = table.tried("slices " + signature, lambda: _is_same(form, node))
            found[signature] = _call_of(calls, form, node) if tried else None
        if found[signature] is not None:
            node.meta[SECOND] = form, found[signature]
    if any(found.values()):
        calls.output(())
        learn(fx.GraphModule({}, calls))


def _call_of(graph, form, node):
    """A node of another graph that calls a form with the operands of a node."""
    def given(argument):
        new = graph.placeholder(f"a{len(graph.nodes)}")
        new.meta["val"] = argument.meta.get("val")
        return new
    arguments, keywords = _torch.pytree.tree_map_only(fx.Node, given, (node.args, node.kwargs))
    new = graph.call_function(form, ([None] * len(node.meta["val"]), *arguments), keywords)
    new.meta["val"], new.meta[FIXED] = node.meta["val"], True
    return new


def known_form(node, table):
    """The form in slices of a node with its signature, if it was measured; else None."""
    form, call = node.meta.get(SECOND, (None, None))
    signature = None if form is None else _costs.signature_of(call)
    return None if signature is None or signature in table.guesses else (form, signature)


def second_of(op, table):
    """The form in slices of an op as its second implementation, or None."""
    form, signature = known_form(op.node, table) or (None, None)
    return form and Second(form, *table.figures[signature][:2])


def _is_same(form, node):
    device = node.meta["val"][0].device
    with real_tensors(), torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        try:
            return is_same(form, *_costs.operands_of(node))
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError, TypeError):
            return False
