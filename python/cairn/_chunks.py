"""The loss of a language model in chunks of rows.

The logits, one number for every token and word, and their gradient are often the largest tensors of a step. A linear layer
that is only read by cross-entropy is replaced: chunk by chunk the logits are made, then their share of the loss, their
gradient in their place, and what that adds to the gradients of the layer. So no logits are alive when the backward part
begins, and none need be made twice. The backward part only multiplies those gradients by the gradient of the loss.

    logits = x @ w.T      loss += sum(-log softmax(logits)[label])      d = softmax(logits) - one_hot(label)
    dx = d @ w            dw += d.T @ x

The number of chunks depends on shapes alone, not on the budget, so that the bits are the same for every budget. They are
not those of the loss at once, as the sum over chunks rounds otherwise: so mode "exact" has no chunks.

A chunk has as many rows as the layer reads numbers, so that its logits are as large as the weight, and at least ROWS. With
fewer, adding to the gradient of the weight takes as long as the product that is added. The types are those in which sums of
gradients that nothing has scaled cannot overflow.
"""

import math

import torch
import torch.nn.functional as F
from torch import fx

from . import _slopes, _torch
from ._joint import EARLY

ROWS = 1024
WIDE = 4  # the logits are this many times as wide as what the layer reads, or they are left as they are
_LINEAR = (F.linear, _torch.linear)
_CASTS = ("float", "to")
_SHAPES = ("flatten", "view", "reshape", "contiguous")
_TYPES = (torch.float32, torch.float64, torch.bfloat16)

_library = torch.library.Library("cairn", "FRAGMENT")
_library.define("early(Tensor x) -> Tensor")
_library.impl("early", torch.clone, "CompositeExplicitAutograd")
_library.impl("early", torch.empty_like, "Meta")
_EARLY = torch.ops.cairn.early.default


def slope_and_loss(logits, labels, ignored):
    """The gradient of the sum of cross-entropies with respect to logits, and the sum."""
    if _slopes.takes(logits):
        slope, losses = _slopes.SLOPES(logits, labels, ignored)
        return slope, losses.sum()
    shares = torch.log_softmax(logits.float(), -1)
    counted = (labels != ignored)[:, None]
    label = torch.where(counted, labels[:, None], 0)
    hit = torch.arange(logits.shape[-1], device=logits.device) == label
    slope = torch.where(counted, shares.exp() - hit.to(shares.dtype), 0).to(logits.dtype)
    return slope, -torch.where(counted, shares.gather(1, label), 0).sum()


class ChunkedLoss(torch.autograd.Function):
    """The sum of the cross-entropies of x @ weight.T + bias, with its gradients made by the forward part."""

    @staticmethod
    def forward(ctx, x, weight, bias, labels, ignored, count):
        ctx.wanted = ctx.needs_input_grad[:3]
        size, losses, slopes, sums = -(-x.shape[0] // count), [], [], []
        for rows, chosen in zip(x.split(size), labels.split(size)):
            slope, loss = slope_and_loss(F.linear(rows, weight, bias), chosen, ignored)
            losses.append(loss)
            if ctx.wanted[0]:
                slopes.append(_EARLY(slope @ weight))
            more = [slope.t() @ rows] * ctx.wanted[1] + [slope.sum(0)] * ctx.wanted[2]
            sums = [a + b for a, b in zip(sums, more)] or more
        ctx.save_for_backward(*slopes, *map(_EARLY, sums))
        return sum(losses)

    @staticmethod
    def backward(ctx, gradient):
        rest = list(ctx.saved_tensors)
        bias = rest.pop() if ctx.wanted[2] else None
        weight = rest.pop() if ctx.wanted[1] else None
        x = torch.cat(rest) if ctx.wanted[0] else None
        scaled = [None if g is None else (g.float() * gradient).to(g.dtype) for g in (x, weight, bias)]
        return (*scaled, None, None, None)


def loss_in_chunks(x, weight, bias, labels, ignored, count, dtype, result):
    """The mean cross-entropy of a linear layer whose result has the type `dtype`."""
    x, weight = x.reshape(-1, x.shape[-1]).to(dtype), weight.to(dtype)
    total = ChunkedLoss.apply(x, weight, None if bias is None else bias.to(dtype), labels, ignored, count)
    return (total / (labels != ignored).sum()).to(result)


# ---- finding such losses in a module of Dynamo's ----

def split_losses(gm, count):
    """Rewrite every such loss, in `count` chunks or, with None, in as many as pay; returns how many there were."""
    found = 0
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target is F.cross_entropy:
            linear = _linear_under(node.args[0]) if _is_plain(node) else None
            if linear is not None and _chunks_of(linear, count) > 1:
                _rewrite(gm.graph, node, linear, _chunks_of(linear, count))
                found += 1
    if found:
        gm.graph.eliminate_dead_code()
        gm.graph.lint()
        gm.recompile()
    return found


def _chunks_of(linear, count):
    x, made = _value(linear.args[0]), _value(linear)
    if x is None or made.dtype not in _TYPES:
        return 1
    if count is not None:
        return count
    rows = math.prod(x.shape[:-1])
    return rows // max(ROWS, x.shape[-1]) if made.shape[-1] >= WIDE * x.shape[-1] else 1


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
    x, weight, bias = (*linear.args, linear.kwargs.get("bias"))[:3]
    value, ignored = _value(loss), loss.kwargs.get("ignore_index", -100)
    with graph.inserting_before(loss):
        new = graph.call_function(loss_in_chunks, (x, weight, bias, loss.args[1], ignored, count, _value(linear).dtype,
                                                   value.dtype))
    new.meta["example_value"] = value
    loss.replace_all_uses_with(new)
    graph.erase_node(loss)


# ---- in the joint graph ----

def run_early(graph):
    """What leads to an `early` belongs to the forward part, although only the backward part reads it. A plan may still
    recompute it: in the smallest budgets the gradient of the weight is made once more at the end."""
    todo = []
    for node in list(graph.nodes):
        if node.target is _EARLY:
            todo.append(node.args[0])
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    while todo:
        node = todo.pop()
        if EARLY not in node.meta:
            node.meta[EARLY] = True
            todo += node.all_input_nodes
