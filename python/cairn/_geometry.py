"""How results of ops lie in memory: which share a storage, and with which offsets and strides.

The tensors that a capture remembers are fake. They say what PyTorch's rules for fake tensors say, not what the ops
do, and where a pass joined two nodes they still show the storages of the one that is gone. A plan that believed them
would overwrite what is still read. So they are made again, node by node, and where a real op was seen to return
something else, its results count:

    capture -> passes -> propagate -> measure new ops -> propagate with what was seen -> ... until nothing is new

Views are not measured. Fake and real ones differ only in strides of dimensions of size 1, and the meta device, whose
views are the real ones, says which.

An op that was captured with another shape than it really returns is refused where an op after it, which was captured for
the wrong shape, would compute something else.
"""

import math
import operator

import torch
from torch import fx

from . import _torch
from ._errors import CairnError
from ._real import real_tensors

FIXED = "cairn_fixed"  # key of nodes whose fake results are right and cannot be propagated


def packet(node):
    """The name of a node's op without that of its overload."""
    return str(getattr(node.target, "overloadpacket", ""))


def tensors_of(value):
    if isinstance(value, torch.Tensor):  # most are, and a search takes long
        return [value]
    return [v for v in _torch.pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def planned_of(results, fake):
    """The tensors among real results that the fake ones have too. Some ops make results that nobody asked for."""
    leaves, planned = _torch.pytree.tree_leaves(results), _torch.pytree.tree_leaves(fake)
    if len(leaves) != len(planned):
        return tensors_of(leaves)
    return [r for r, f in zip(leaves, planned) if isinstance(f, torch.Tensor) and isinstance(r, torch.Tensor)]


def key_of(tensor):
    """The identity of a storage; fake storages live as long as the graph that holds their tensors."""
    return _torch.storage_key(tensor)


def is_tangent(node):
    """Whether a node is a gradient that the caller gives to the backward part."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def place_of(tensor):
    """Where the elements of a tensor lie in its storage."""
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def values_of(node):
    """The tensors that a node reads, in the order of its arguments."""
    return tensors_of(fx.node.map_aggregate((node.args, node.kwargs),
                                            lambda a: a.meta.get("val") if isinstance(a, fx.Node) else a))


def is_strided(values):
    return all(v.layout is torch.strided for v in values)


def record(results, operands):
    """Where each result lies, as nested lists: the number of its storage, shape, strides, offset, the storage's bytes
    and the type; None for a result that is not made. Operands' storages have the numbers from 0, new ones from -1 down. None
    as a whole if that cannot be said."""
    leaves = _torch.pytree.tree_leaves(results)
    if not is_strided(tensors_of(leaves) + operands):
        return None
    numbers, rows = {}, []
    for number, value in enumerate(operands):
        numbers.setdefault(key_of(value), number)
    new = 0
    for value in leaves:
        if not isinstance(value, torch.Tensor):
            rows.append(None)
            continue
        key = key_of(value)
        if key not in numbers:
            new -= 1
            numbers[key] = new
        rows.append([numbers[key], list(value.shape), list(value.stride()), value.storage_offset(),
                     value.untyped_storage().nbytes(), str(value.dtype).removeprefix("torch.")])
    return rows


def _reshaped(one, other, wide=True):
    """The tensors that differ in shape, of results of one op; `wide`: in other dimensions than those of size 1. Of real
    results some may not be there."""
    shape = lambda tensor: [n for n in tensor.shape if n != 1 or not wide]
    pairs = zip(_torch.pytree.tree_leaves(one), _torch.pytree.tree_leaves(other))
    return [pair for pair in pairs if all(isinstance(v, torch.Tensor) for v in pair) and shape(pair[0]) != shape(pair[1])]


def _corrected(results, operands, rows):
    """Fake results that lie as `rows` say; the given ones if those have another number of elements."""
    leaves, form = _torch.pytree.tree_flatten(results)
    if len(leaves) != len(rows):
        return results
    storages, corrected = {}, []
    for leaf, row in zip(leaves, rows):
        if not isinstance(leaf, torch.Tensor) or row is None:
            corrected.append(None if isinstance(leaf, torch.Tensor) else leaf)
            continue
        number, shape, stride, offset, size, dtype = row[:5] + [getattr(torch, row[5])]
        if math.prod(shape) != leaf.numel() or (number >= 0 and operands[number].dtype != dtype):
            return results
        if number >= 0:
            storages[number] = operands[number]
        elif number not in storages:
            storages[number] = torch.empty(size // dtype.itemsize, dtype=dtype, device=leaf.device)
        corrected.append(torch.as_strided(storages[number], shape, stride, offset))
    return _torch.pytree.tree_unflatten(corrected, form)


def makes_storage(node):
    """Whether a node is an op that makes a storage; otherwise it only views one, or has an effect."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    return not _only_views(node.meta.get("val"), values_of(node))


def _only_views(results, operands):
    results = tensors_of(results)
    if not is_strided(results + operands):
        return False
    given = {key_of(v) for v in operands}
    return all(key_of(v) in given for v in results)


def _seen_view(node):
    """The record of a view's real results, made without memory."""
    def on_meta(value):
        flat = torch.empty(value.untyped_storage().nbytes() // value.element_size(), dtype=value.dtype, device="meta")
        return torch.as_strided(flat, *place_of(value))
    with real_tensors():
        args, kwargs = _torch.pytree.tree_map_only(fx.Node, lambda n: _torch.pytree.tree_map_only(
            torch.Tensor, on_meta, n.meta.get("val")), (node.args, node.kwargs))
        return record(node.target(*args, **kwargs), tensors_of((args, kwargs)))


class Made:
    """From what and by which op the fake results of a graph were made. After passes over the graph a node whose op and
    operands are still those need not be propagated."""

    def __init__(self, gm):
        self._origins = {id(n.meta["val"]): (n.meta["val"], _origin(n)) for n in gm.graph.nodes
                      if n.op == "call_function" and isinstance(n.meta.get("val"), (torch.Tensor, tuple, list))}

    def is_right(self, node):
        value, origin = self._origins.get(id(node.meta.get("val")), (None, None))
        return value is not None and origin == _origin(node)


def _origin(node):
    """The op of a node with its arguments, the values of other nodes by their identity."""
    return node.target, fx.node.map_aggregate((node.args, node.kwargs),
                                              lambda a: ("val", id(a.meta.get("val"))) if isinstance(a, fx.Node) else a)


class _Propagator(fx.Interpreter):
    def __init__(self, gm, seen, signature_of, wanted, made):
        super().__init__(gm)
        self.seen, self.signature_of, self.wanted, self.made = seen, signature_of, wanted, made
        self.extra_traceback = False  # an error of ours is one sentence
        self._given = set()
        self._first = None  # the first op that really returns another shape, with both shapes

    def run_node(self, node):
        if node.op == "placeholder":
            self._separate(node)
        if node.op == "output" or (node.op in ("placeholder", "get_attr") and "val" in node.meta):
            return node.meta.get("val")
        captured = node.meta.get("val")
        if self.made is not None and self.made.is_right(node):
            result = captured
        elif FIXED in node.meta:
            result = _torch.pytree.tree_map_only(torch.Tensor, self._like, captured)
        else:
            result = self._run(node)
        if node.op == "call_function" and node.target is not operator.getitem:
            result = self._correct(node, result, values_of(node))
        if _reshaped(captured, result):
            self._refuse()
        if node.op != "get_attr" or isinstance(result, torch.Tensor):
            node.meta["val"] = result
        return result

    def _run(self, node):
        try:
            return super().run_node(node)
        except RuntimeError:  # of an operand that has another shape than was captured
            self._refuse()
            raise

    def _correct(self, node, result, operands):
        """The result as it was really seen to lie."""
        rows = self._rows(node, result, operands)
        if rows is None or rows == record(result, operands):
            return result
        corrected = _corrected(result, operands, rows)
        for fake, real in _reshaped(result, corrected, wide=False)[:1]:
            self._first = self._first or (node, list(fake.shape), list(real.shape))
        return corrected

    def _refuse(self):
        if self._first is not None:
            node, captured, real = self._first
            raise CairnError(f"op {node.name} ({node.target}) returns a tensor of shape {real}, but this release of PyTorch "
                             f"captures it as {captured}, so this step cannot be planned")

    def _separate(self, node):
        """A result that is returned twice has two gradients, whose fake tensors may be one. Of a result that is a view the
        fake gradient lies where that does in its storage; a real one has a storage of its own."""
        values = [v for v in tensors_of(node.meta.get("val")) if is_strided([v])]
        keys = {key_of(v) for v in values}
        if is_tangent(node) and (not keys.isdisjoint(self._given) or any(v.storage_offset() for v in values)):
            node.meta["val"] = _torch.pytree.tree_map_only(torch.Tensor, self._like, node.meta["val"])
        self._given |= keys

    def _rows(self, node, result, operands):
        results = tensors_of(result)
        if not results or not _only_views(results, operands):
            return self.seen.get(self.signature_of(node)) if self.seen and self.wanted(node) else None
        schema = _torch.schema_of(node.target)
        thin = any(n == 1 for v in results for n in v.shape)
        return _seen_view(node) if thin and schema is not None and not schema.is_mutable else None

    @staticmethod
    def _like(value):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def any_node(_):
    return True


def propagate(gm, seen, signature_of, wanted=any_node, made=None):
    """Make the fake results of all nodes again, but of those that are right by `made`. `seen` are records of real results,
    by signature; `wanted` says for which nodes they hold."""
    mode = next((v.fake_mode for n in gm.graph.nodes if n.op == "placeholder"
                 for v in [n.meta.get("val")] if hasattr(v, "fake_mode")), None)
    if mode is None:
        return
    inputs = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    with mode, torch.no_grad():
        _Propagator(gm, seen, signature_of, wanted, made).run(*inputs)


def most_at_once(graph):
    """The most bytes that results of a graph take at once, if its nodes run in their order and a storage is freed after its
    last use."""
    def storages(node):
        tensors = [t for t in _torch.pytree.tree_leaves(node.meta.get("val")) if isinstance(t, torch.Tensor)]
        return {key_of(t): t.untyped_storage().nbytes() for t in tensors}
    last, given = {}, set()
    for node in graph.nodes:
        for used in (node, *node.all_input_nodes):
            last.update(dict.fromkeys(storages(used), node))
        if node.op == "placeholder":
            given.update(storages(node))
    live, most = {}, 0
    for node in graph.nodes:
        live.update((key, size) for key, size in storages(node).items() if key not in given)
        most = max(most, sum(live.values()))
        live = {key: size for key, size in live.items() if last[key] is not node}
    return most
