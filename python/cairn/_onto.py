"""Ops of ATen that write their results to given addresses: forms with out= of the same op.

Not every such form is one: some only copy what they have made, and some round otherwise. So a form is used only where a
trial with the shapes at hand gives the same bits, leaves the given tensors where they are, and allocates no more than the
op itself. A trial is made once per signature, and its outcome is kept with the costs.
"""

import functools

import torch

from . import _kernels, _norms, _torch
from ._costs import operands_of
from ._geometry import tensors_of
from ._peak import peak_of
from ._real import outcomes, real_tensors

aten = torch.ops.aten


def convolution_out(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out):
    """cuDNN's, which is what a convolution on a GPU uses; whether it is for these operands shows in its bits."""
    cudnn = torch.backends.cudnn
    if bias is not None or transposed or not x.is_cuda:
        raise NotImplementedError
    deterministic = cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
    return aten.cudnn_convolution.out(x, weight, padding, stride, dilation, groups, cudnn.benchmark, deterministic,
                                      cudnn.allow_tf32, out=out)


def apply_norm_out(x, weight, bias, mean, invstd, eps, formula, out):
    if formula == _norms.ATEN or not x.is_contiguous():
        raise NotImplementedError
    return _kernels.norm("norm", x, weight, bias, mean, invstd, out, formula)


_OURS = {aten.convolution.default: convolution_out, _norms.APPLY: apply_norm_out}


class Form:
    """A function like an op, with the names of the arguments that take its results."""

    def __init__(self, target, names):
        self.target, self.names = target, names

    def keywords(self, destinations):
        return dict(zip(self.names, destinations))


@functools.cache
def _find(target):
    """The form of an op, or None."""
    if target in _OURS:
        return Form(_OURS[target], ("out",))
    schema = _torch.schema_of(target)
    if schema is None or schema.is_mutable:
        return None
    wanted = [(a.name, str(a.type)) for a in schema.arguments]
    for name in target.overloadpacket.overloads():
        other = getattr(target.overloadpacket, name)
        given = _torch.schema_of(other).arguments
        outs = [a.name for a in given if a.is_out]
        if len(outs) == len(schema.returns) and [(a.name, str(a.type)) for a in given if not a.is_out] == wanted:
            return Form(other, outs)
    return None


def form_of(op, table):
    """The form of an op of a step with which all of its results can be written to given addresses, or None."""
    form = _find(op.node.target)
    if form is None:
        return None
    made = [s for s in op.outs + op.beside if s.like is not None]
    whole = len(form.names) == len(made) == len(tensors_of(op.node.meta["val"]))
    return form if whole and table.tried("onto " + op.signature, lambda: _is_same(op, form)) else None


def _is_same(op, form):
    node, device = op.node, tensors_of(op.node.meta["val"])[0].device
    with real_tensors(), torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        likes, stays = [], []

        def plain(given):
            expected = tensors_of(node.target(*given[0], **given[1]))
            likes.extend(torch.empty_like(t, device="meta") for t in expected)
            return expected

        def onto(given):
            places = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device) for t in likes]
            before = [(t.data_ptr(), t.stride()) for t in places]
            call = lambda: form.target(*given[0], **given[1], **form.keywords(places))
            call()
            extra = peak_of(call, device)
            stays.append(before == [(t.data_ptr(), t.stride()) for t in places] and extra <= op.workspace)
            return places
        try:
            expected, found = outcomes(device, lambda: operands_of(node), plain, onto)
            return stays == [True] and expected == found
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError, TypeError):
            return False
