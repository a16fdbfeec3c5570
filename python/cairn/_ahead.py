"""A step that does not fit, run ahead to its backward pass.

A step of several graphs is known only when its forward pass has ended: until then more graphs may follow. If the first
ones alone would be refused, the next run would be refused for the second one, and so on. So the forward part of a graph
that does not fit runs without keeping anything for the backward part, and so do all that follow in the step:

    forward    | graph 0 | graph 1: does not fit | graph 2 | loss |      graphs 1 and 2 keep only what they return
    backward   refused, with what graphs 0, 1 and 2 need together

What graph 0 has saved is dropped too, because there is no backward part any more that would read it.

This stays inside the budget; where it would not, or where the graph returns the loss and nothing follows, the refusal
comes at once. All values are those of the step. No parameter has been updated when the refusal comes, but buffers, as
running statistics, and the state of random numbers are those after a forward pass.
"""

import torch

from . import _loss_only, _torch


class _Refused(torch.autograd.Function):
    """The results of a call that kept nothing. Their gradient is a refusal. Calls before it are parts of the step as long
    as it is, because it refers to them by its inputs."""

    @staticmethod
    def forward(ctx, call, refusal, learned, *inputs):
        results = [r.data if isinstance(r, torch.Tensor) else r for r in call(*inputs)]  # no views of inputs
        ctx.refusal = refusal
        ctx.mark_non_differentiable(*(r for r, has in zip(results, learned) if isinstance(r, torch.Tensor) and not has))
        return tuple(results)

    @staticmethod
    def backward(ctx, *_):
        raise ctx.refusal()


def run(call, inputs, gm, refusal):
    """The results of a graph, whose gradients are refused with the error that `refusal` makes."""
    learned = [_loss_only.has_gradient(r) for r in gm.graph.output_node().args[0]]
    return list(_Refused.apply(call, refusal, learned, *inputs))


def returns_loss(gm):
    """Whether a graph returns a number with a gradient: then it is the end of a step."""
    return any(_loss_only.has_gradient(r) and r.meta["example_value"].dim() == 0 for r in gm.graph.output_node().args[0])


def memory_of(value):
    """The identity of a value's memory."""
    return _torch.storage_key(value) if isinstance(value, torch.Tensor) else None


class Returned:
    """What a call has returned, without keeping it alive."""

    def __init__(self, results):
        storages = {memory_of(r): r.untyped_storage() for r in results if isinstance(r, torch.Tensor)}
        self._storages = [(_torch.StorageWeakRef(s), s.nbytes()) for s in storages.values()]

    def bytes(self):
        return sum(size for reference, size in self._storages if not reference.expired())
