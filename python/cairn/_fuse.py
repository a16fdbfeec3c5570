"""Fuses ops of a written graph that one kernel can do: a norm, a sum and a relu that follow each other.

Only neighbours are fused, so that no tensor lives longer than in the plan: the fused op has its result at the place
of the last op, and it reads what the first op read."""

import operator

import torch
from torch import fx

from . import _check
from . import _kernels
from . import _norms

aten = torch.ops.aten
_ADDS = {aten.add.Tensor, aten.add_.Tensor, aten.add.out}
_RELUS = {aten.relu.default, aten.relu_.default}
_GATES = {aten.threshold_backward.default, aten.threshold_backward.grad_input}


def enabled():
    return _norms.Switches.fuse and _kernels.available()


def is_free(node):
    """Whether an op of a captured step takes no time: a relu that the kernel before it does too."""
    if node.target is not aten.relu.default or not _plain(node) or not enabled():
        return False
    before = node.args[0]
    ours = before.target is _norms.APPLY and before.args[6] != _norms.ATEN
    return (ours or before.target is aten.add.Tensor) and set(before.users) == {node}


def fuse(graph):
    """Fuse in place; returns how many ops were removed."""
    gone = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _RELUS | _GATES or not _plain(node) or not enabled():
            continue
        add = _before(node, node.args[0], _ADDS)
        if add is not None and not _is_sum(add):
            continue
        if node.target in _GATES:
            gone += add is not None and _like(node.args[1], node) and node.args[2] == 0 and _fuse_gate(graph, add, node)
        elif add is not None:
            norm = _norm_under(add)
            gone += _fuse_norm(graph, [norm, add, node]) if norm is not None else _fuse_add(graph, add, node)
        else:
            norm = _before(node, node.args[0], {_norms.APPLY})
            gone += norm is not None and _fuse_norm(graph, [norm, node])
    return gone


def _plain(node):
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and _kernels.takes(value)


def _like(node, other):
    return isinstance(node, fx.Node) and _plain(node) and node.meta["val"].shape == other.meta["val"].shape


def _is_sum(node):
    return all(_like(operand, node) for operand in node.args[:2]) and not set(node.kwargs) - {"out"} and _plain(node)


def _before(node, operand, targets):
    """`operand` if it is one of `targets`, only `node` reads it, and nothing runs between them."""
    if not isinstance(operand, fx.Node) or operand.target not in targets or set(operand.users) != {node}:
        return None
    between = node.prev
    while between is not operand and _only_looks(between):
        between = between.prev
    return operand if between is operand else None


def _only_looks(node):
    return node.target is operator.getitem or (node.op == "call_function" and getattr(node.target, "is_view", False))


def _norm_under(add):
    for operand in add.args[:2]:
        norm = _before(add, operand, {_norms.APPLY})
        if norm is not None and add.args[0] is not add.args[1]:
            return norm
    return None


def _place(node):
    """The tensor into which a node writes, or None."""
    if node.target is aten.add_.Tensor:
        return node.args[0]
    return node.kwargs.get("out", node.kwargs.get("grad_input"))


def _replace(graph, nodes, target, arguments):
    last = nodes[-1]
    with graph.inserting_before(last):
        new = graph.call_function(target, arguments)
    new.meta.update(last.meta)
    _check.join(new, nodes)
    last.replace_all_uses_with(new)
    for node in reversed(nodes):
        graph.erase_node(node)
    return len(nodes) - 1


def _fuse_add(graph, add, node):
    return _replace(graph, [add, node], add_relu, (*add.args[:2], _place(add)))


def _fuse_gate(graph, add, node):
    return _replace(graph, [add, node], add_gate, (*add.args[:2], node.args[1], _place(add)))


def _fuse_norm(graph, nodes):
    norm, formula = nodes[0], nodes[0].args[6]
    if formula == _norms.ATEN:
        return 0
    other, place = None, None
    if len(nodes) == 3:
        add = nodes[1]
        other = add.args[1] if add.args[0] is norm else add.args[0]
        place = other if _place(add) is other else None
    return _replace(graph, nodes, norm_relu, (*norm.args[:5], formula, other, place))


# ---- what the graphs call ----

def _into(place, like):
    return torch.empty_like(like) if place is None else place


def _dense(*tensors):
    """Whether the layout is the one that was captured."""
    return all(t is None or t.is_contiguous() for t in tensors)


def add_relu(a, b, out):
    if not _dense(a, b, out):
        return _into(out, a).copy_(torch.relu_(a + b))
    return _kernels.add_relu(a, b, _into(out, a))


def add_gate(a, b, y, out):
    if not _dense(a, b, y, out):
        return _into(out, a).copy_(aten.threshold_backward(a + b, y, 0))
    return _kernels.add_gate(a, b, y, _into(out, a))


def norm_relu(x, weight, bias, mean, invstd, formula, other, out):
    if not _dense(x, other, out):
        y = aten.batch_norm_elemt(x, weight, bias, mean, invstd, 0.0)
        return _into(out, x).copy_(torch.relu_(y if other is None else y.add_(other)))
    others = [] if other is None else [other]
    name = "norm_add_relu" if others else "norm_relu"
    return _kernels.norm(name, x, weight, bias, mean, invstd, _into(out, x), formula, *others)
