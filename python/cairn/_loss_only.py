"""Models that return more than their loss.

PyTorch makes a gradient for every result of a captured graph, zeros where none is used: for a language model that
returns its logits beside the loss these are among its largest tensors. With loss_only=True only results that are
numbers have gradients. The others still look as if they had one, and whoever uses it gets an error.
"""

import torch

from ._errors import CairnError


PLACES = "cairn_detached"  # key of a module: the places of its results that are detached


class _Refusing(torch.autograd.Function):
    """The identity, without a gradient."""

    @staticmethod
    def forward(ctx, _, value):
        return value.view_as(value)

    @staticmethod
    def backward(ctx, *_):
        raise CairnError("the gradient of a result that is not the loss is used; leave out loss_only=True")


def has_gradient(node):
    """Whether a result of a module of Dynamo's has a gradient."""
    value = node.meta.get("example_value") if hasattr(node, "meta") else None
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_floating_point()


def detach_others(gm):
    """Detach the results of a module of Dynamo's that are no numbers, unless that was done before; returns their places.
    None if no result is a number."""
    if PLACES in gm.meta:
        return gm.meta[PLACES]
    output = gm.graph.output_node()
    results = list(output.args[0])
    if not any(has_gradient(r) and r.meta["example_value"].dim() == 0 for r in results):
        return None
    places = [i for i, r in enumerate(results) if has_gradient(r) and r.meta["example_value"].dim() > 0]
    with gm.graph.inserting_before(output):
        for i in places:
            results[i] = gm.graph.call_method("detach", (results[i],))
    output.args = (tuple(results),)
    gm.recompile()
    gm.meta[PLACES] = places
    return places


def refusing(call, places):
    """The call with results whose gradients are refused at `places`."""
    def run(*inputs):
        results = list(call(*inputs))
        if torch.is_grad_enabled():
            anchor = torch.zeros((), requires_grad=True)
            for i in places:
                results[i] = _Refusing.apply(anchor, results[i])
        return results
    return run
