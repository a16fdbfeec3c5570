"""The loss of a language model in chunks of rows.

The logits, one number for every token and word, and their gradient are often the largest tensors of a step. A linear layer
that is only read by cross-entropy runs in chunks: each has its own logits, and a plan keeps or recomputes them chunk by
chunk. The sum over chunks rounds differently than the loss at once, so it is the user's choice.
"""

import math
import operator

import torch
import torch.nn.functional as F
from torch import fx

from . import _torch

_LINEAR = (F.linear, _torch.linear)
_CASTS = ("float", "to")
_SHAPES = ("flatten", "view", "reshape", "contiguous")


def split_losses(gm, count):
    """Rewrite every such loss of a module of Dynamo's; returns how many there were."""
    found = 0
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target is F.cross_entropy:
            linear = _linear_under(node.args[0]) if _is_plain(node) else None
            if linear is not None:
                _rewrite(gm.graph, node, linear, count)
                found += 1
    if found:
        gm.graph.eliminate_dead_code()
        gm.graph.lint()
        gm.recompile()
    return found


def _value(node):
    return node.meta.get("example_value") if isinstance(node, fx.Node) else None


def _is_plain(node):
    """Whether a cross-entropy is a mean over a known number of rows of labels, without weights or smoothing."""
    if len(node.args) != 2 or set(node.kwargs) - {"ignore_index", "reduction", "label_smoothing", "weight"}:
        return False
    given, labels = map(_value, node.args)
    options = node.kwargs
    return (given is not None and labels is not None and given.dim() == 2 and labels.dim() == 1
            and type(given.shape[0]) is int and given.shape[0] > 0
            and options.get("weight") is None and options.get("reduction", "mean") == "mean"
            and options.get("label_smoothing", 0.0) == 0.0)


def _linear_under(node):
    """The linear layer whose result a node is, but for its type and the shape of its rows, if nothing else reads it."""
    words = _value(node).shape[-1]
    while len(node.users) == 1 and _value(node) is not None and _value(node).shape[-1] == words:
        if node.op == "call_function" and node.target in _LINEAR:
            return node
        if node.op != "call_method" or node.target not in _CASTS + _SHAPES or not isinstance(node.args[0], fx.Node):
            return None
        node = node.args[0]
    return None


def _rewrite(graph, loss, linear, count):
    x, *weights = linear.args
    labels, value = loss.args[1], _value(loss)
    ignored = loss.kwargs.get("ignore_index", -100)
    rows = math.prod(_value(x).shape[:-1])
    size = -(-rows // count)
    with graph.inserting_before(loss):
        parts = graph.call_function(torch.split, (graph.call_method("reshape", (x, rows, _value(x).shape[-1])), size))
        chosen = graph.call_function(torch.split, (labels, size))
        total = None
        for i in range(-(-rows // size)):
            part, labels_of = (graph.call_function(operator.getitem, (t, i)) for t in (parts, chosen))
            logits = graph.call_method("float", (graph.call_function(F.linear, (part, *weights), linear.kwargs),))
            one = graph.call_function(F.cross_entropy, (logits, labels_of), dict(ignore_index=ignored, reduction="sum"))
            total = one if total is None else graph.call_function(torch.add, (total, one))
        counted = graph.call_method("sum", (graph.call_function(torch.ne, (labels, ignored)),))
        mean = graph.call_method("to", (graph.call_function(torch.div, (total, counted)), value.dtype))
    mean.meta["example_value"] = value
    loss.replace_all_uses_with(mean)
    graph.erase_node(loss)
