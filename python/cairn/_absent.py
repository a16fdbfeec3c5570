"""Gradients that may be absent.

A model that returns its logits beside the loss has a gradient for both, and seldom does anybody use the second. PyTorch
would make zeros for it. Here autograd is told to pass None instead, and the plan has no memory for it:

    captured   add(x, gradient) -> rest        x is what the loss gives to the logits
    planned    x -> rest
    run        x; where a gradient arrives, it is added to x in place; then the rest

So nothing need be known about the use of a result. If its gradient arrives, the bits are those of the captured step, and
it is memory that the caller's own ops allocated outside of the step. This is done where one result is a number, the loss,
and the gradient is added to something that only this addition reads. Other gradients are planned, and are zeros if
nobody gives them.

In mode "compiled" x is a result of its group (_groups.py), and what follows is in other groups, which read it from memory,
where the gradient has been added.
"""

import operator

import torch
from torch import fx

from ._geometry import is_strided, is_tangent, key_of, makes_storage, place_of, tensors_of
from ._joint import ABSENT, Parts, is_effect, is_random

ADDED = "cairn_added"  # key of an op: nodes to which gradients are added after it, with these and the calls that view them

aten = torch.ops.aten


def leave_out(gm, num_fwd_outputs):
    """Take the additions of gradients that may be absent out of a joint graph, and note them at the ops before. Returns
    whether there were any; then the graph must be propagated again."""
    parts = Parts(gm, num_fwd_outputs)
    plain = [p for p in parts.tangents if isinstance(p.meta["val"], torch.Tensor) and is_strided([p.meta["val"]])]
    losses = {p for p in plain if p.meta["val"].dim() == 0}
    if not losses:
        return False
    of_loss = set(losses)
    for node in gm.graph.nodes:
        if any(n in of_loss for n in node.all_input_nodes):
            of_loss.add(node)
    for tangent in plain:
        found = _addition(tangent) if tangent not in losses else None
        if found is None:
            continue
        add, views, other = found
        op = _only_op(other)
        if op is not None and other in of_loss and _fits(other, add.args, add):
            tangent.meta[ABSENT] = True
            later = [(other, *rest) for _, *rest in add.meta.get(ADDED, ())]  # what was to be added to the sum
            calls = tuple((view.target, view.args[1:], view.kwargs) for view in views)
            op.meta[ADDED] = [*op.meta.get(ADDED, ()), (other, tangent, calls), *later]
            add.replace_all_uses_with(other)
            for node in [add, *reversed(views)]:
                gm.graph.erase_node(node)
    return any(ABSENT in p.meta for p in plain)


def _addition(tangent):
    """The addition that is all that reads a gradient, the views of it on the way there, and the other operand."""
    node, views = tangent, []
    while len(node.users) == 1:
        user = next(iter(node.users))
        if user.target is aten.add.Tensor and not user.kwargs and user.args.count(node) == 1 \
                and all(isinstance(a, fx.Node) for a in user.args):
            return user, views, next(a for a in user.args if a is not node)
        if not _is_view(user, node):
            return None
        views.append(user)
        node = user
    return None


def _is_view(node, of):
    """Whether a node only views another one, and reads nothing else."""
    value = node.meta.get("val")
    return node.op == "call_function" and node.args[:1] == (of,) and len(node.all_input_nodes) == 1 and not is_effect(node) \
        and isinstance(value, torch.Tensor) and key_of(value) == key_of(of.meta["val"])


def _only_op(node):
    """The op that makes the storage of a value, if nothing else reads that storage."""
    value = node.meta["val"]
    while len(node.users) == 1 and node.op == "call_function":
        if makes_storage(node):
            return None if is_effect(node) or is_random(node) else node
        before = node.args[0] if node.args else None
        if not isinstance(before, fx.Node):
            return None
        if node.target is operator.getitem:
            shared = [v for v in tensors_of(before.meta.get("val")) if key_of(v) == key_of(value)]
            users = [u for u in before.users if u.args[1:] == node.args[1:]]
            return before if len(shared) == len(users) == 1 and makes_storage(before) and not is_effect(before) else None
        node = before
    return None


def _fits(value, operands, result):
    """Whether the sum may be written over a value: it fills its storage, and all lie as it does."""
    mine = value.meta["val"]
    return mine.numel() * mine.element_size() == mine.untyped_storage().nbytes() and all(
        place_of(v) == place_of(mine) and v.dtype == mine.dtype for v in (n.meta["val"] for n in (*operands, result)))


def adder(views):
    """A function that adds a gradient to a value, if it is there. `views` are the calls that make it one like the value."""
    def add_arrived(value, gradient):
        if gradient is not None:
            for target, arguments, keywords in views:
                gradient = target(gradient, *arguments, **keywords)
            value.add_(gradient)
    return add_arrived


class Arrivals:
    """The gradients among the arguments of a backward part."""

    def __init__(self, gm):
        places = [(place, node) for place, node in enumerate(gm.graph.find_nodes(op="placeholder")) if is_tangent(node)]
        self._planned = [(place, node.meta["val"]) for place, node in places if ABSENT not in node.meta]
        self._others = [place for place, node in places if ABSENT in node.meta]

    def complete(self, arguments):
        """Replace planned gradients that are absent by zeros. Whether one arrived that is not planned."""
        for place, like in self._planned:
            if arguments[place] is None:
                zeros = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
                arguments[place] = zeros.zero_()
        return any(arguments[place] is not None for place in self._others)
