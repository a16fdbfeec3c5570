"""The gradient of a cross-entropy with respect to its logits, and the losses, in one kernel.

A program reads a row of logits twice, the second time from the cache: first for the sum of exponentials, then for the
gradient, which may be written over the logits. It is written in Triton. On a processor the same is computed by PyTorch,
slowly: there Inductor's kernels are used (_chunks.py).
"""

import functools

import torch

from . import _inductor, _rows
from ._real import real_tensors

_library = torch.library.Library("cairn", "FRAGMENT")
_library.define("slopes(Tensor logits, Tensor labels, int ignored) -> (Tensor, Tensor)")
_library.define("slopes_(Tensor(a!) logits, Tensor labels, int ignored) -> (Tensor(a!), Tensor)")
_library.define("slopes.out(Tensor logits, Tensor labels, int ignored, *, Tensor(a!) slopes, Tensor(b!) losses) "
                "-> (Tensor(a!), Tensor(b!))")
SLOPES = torch.ops.cairn.slopes.default

# Of the logits so far `most` is the largest, `total` the sum of exp(logit - most): a new one needs one exponential.
_SOURCE = """
import triton
import triton.language as tl


@triton.jit
def slopes(logits, labels, out, losses, ignored, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    counted = label != ignored
    logits += row * columns
    out += row * columns
    most = tl.full([TILE], -1e30, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, columns, TILE):
        c = start + tl.arange(0, TILE)
        x = tl.load(logits + c, c < columns, other=float("-inf")).to(tl.float32)
        share = tl.exp(-tl.abs(x - most))
        total = tl.where(x > most, total * share + 1, total + share)
        most = tl.where(x > most, x, most)
    highest = tl.max(most, 0)
    whole = tl.log(tl.sum(total * tl.exp(most - highest), 0)) + highest
    hit = tl.load(logits + tl.where(counted, label, 0)).to(tl.float32)
    tl.store(losses + row, tl.where(counted, whole - hit, 0.0))
    for start in range(0, columns, TILE):
        c = start + tl.arange(0, TILE)
        share = tl.exp(tl.load(logits + c, c < columns, other=0.0).to(tl.float32) - whole)
        slope = tl.where(counted, share - tl.where(c == label, 1.0, 0.0), 0.0)
        tl.store(out + c, slope.to(out.dtype.element_ty), c < columns)
"""


@functools.cache
def _works(device):
    """Whether the kernel can be compiled and run here; tried once."""
    with real_tensors():
        try:
            logits, labels = torch.zeros(1, 2, device=device), torch.zeros(1, dtype=torch.int64, device=device)
            _launch(logits, labels, -100, logits, _losses(logits))
            return logits.tolist() == [[-0.5, 0.5]]
        except Exception:
            return False


def takes(logits):
    """Whether the kernel is there for such logits."""
    return (_rows.available(logits.device) and logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
            and _works(logits.device))


def _launch(logits, labels, ignored, slopes, losses):
    with torch.cuda.device_of(logits):
        _inductor.module_of(_SOURCE).slopes[logits.shape[0],](logits, labels, slopes, losses, ignored, logits.shape[1],
                                                             TILE=4096, num_warps=8)


def slopes_out(logits, labels, ignored, *, slopes, losses):
    """Write the slopes, softmax - one_hot(label), and the losses of rows; 0 where the label is `ignored`."""
    if takes(logits) and logits.is_contiguous() and slopes.is_contiguous() and labels.is_contiguous():
        _launch(logits, labels, ignored, slopes, losses)
        return slopes, losses
    shares, counted = torch.log_softmax(logits.float(), -1), labels != ignored
    label = torch.where(counted, labels, 0)[:, None]
    losses.copy_(torch.where(counted, -shares.gather(1, label)[:, 0], 0))
    hit = torch.zeros_like(shares).scatter_(1, label, 1)
    slopes.copy_(torch.where(counted[:, None], shares.exp() - hit, 0))
    return slopes, losses


def _losses(logits):
    return logits.new_empty(logits.shape[0], dtype=torch.float32)


_library.impl("slopes.out", slopes_out, "CompositeExplicitAutograd")
_library.impl("slopes_", lambda logits, *rest: slopes_out(logits, *rest, slopes=logits, losses=_losses(logits)),
              "CompositeExplicitAutograd")
_library.impl("slopes", lambda logits, *rest: slopes_out(logits, *rest, slopes=torch.empty_like(logits),
                                                         losses=_losses(logits)), "CompositeExplicitAutograd")
_library.impl("slopes", lambda logits, *_: (torch.empty_like(logits), _losses(logits)), "Meta")
