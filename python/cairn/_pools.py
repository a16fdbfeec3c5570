"""Gradients of max pools.

An op that needs the shape of the pool's operand alone gets it without the operand, which then need not be kept. And over
images whose channels are the fastest dimension there is a kernel of ours, written in Triton: every pixel of the result looks
at the windows that it is in, and adds up the gradients of those of which it was the largest pixel. Inductor's kernel does
the same, but computes divisions for every element; here they are made once for a pixel.
"""

import torch

from . import _inductor
from ._geometry import packet

STEP, TILE = 32, 64  # pixels and channels of a program

_SOURCE = """
import triton
import triton.language as tl


@triton.jit
def pool(offsets, slopes, out, PIXELS, CHANNELS, HIGH, WIDE, POOLED_HIGH, POOLED_WIDE, KERNEL_H: tl.constexpr,
         KERNEL_W: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
         STEP: tl.constexpr, TILE: tl.constexpr):
    p = tl.program_id(0) * STEP + tl.arange(0, STEP)[:, None]
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    mask = (p < PIXELS) & (c < CHANNELS)
    image = p // (HIGH * WIDE)
    y = (p // WIDE) % HIGH + PAD_H
    x = p % WIDE + PAD_W
    found = tl.zeros([STEP, TILE], tl.float32)
    for i in tl.static_range((KERNEL_H + STRIDE_H - 1) // STRIDE_H):
        for j in tl.static_range((KERNEL_W + STRIDE_W - 1) // STRIDE_W):
            row = y // STRIDE_H - i
            column = x // STRIDE_W - j
            inside_y = y - row * STRIDE_H
            inside_x = x - column * STRIDE_W
            seen = (row >= 0) & (row < POOLED_HIGH) & (inside_y < KERNEL_H)
            seen = seen & (column >= 0) & (column < POOLED_WIDE) & (inside_x < KERNEL_W) & mask
            at = ((image * POOLED_HIGH + row) * POOLED_WIDE + column) * CHANNELS + c
            largest = tl.load(offsets + at, seen, other=-1)
            slope = tl.load(slopes + at, seen, other=0.0).to(tl.float32)
            found += tl.where(largest == inside_y * KERNEL_W + inside_x, slope, 0.0)
    tl.store(out + p * CHANNELS + c, found.to(out.dtype.element_ty), mask)
"""


def forget_operands(graph):
    """Replace the operands of max pools that their gradients read. Only the shapes and strides of these count, and kernels
    do not make what they do not read."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.max_pool2d_with_indices_backward.default):
        value = node.args[1].meta["val"]
        with graph.inserting_before(node):
            like = graph.call_function(torch.ops.aten.empty_strided.default, (list(value.shape), list(value.stride())),
                                       dict(dtype=value.dtype, device=value.device))
        like.meta = dict(node.args[1].meta, val=torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                                                    device=value.device))
        node.update_arg(1, like)


class Form:
    """A group that is such a gradient. The same interface as _inductor.Form."""
    name = "pool"

    def __init__(self, places, like, sizes):
        self._places, self._like, self._sizes = places, like, sizes

    def compile(self):
        return _inductor.module_of(_SOURCE)

    def __call__(self, arguments):
        return self.onto([None], arguments)

    def placeable(self):
        return {0}

    def may_be_over(self, result, argument):
        return False

    def onto(self, destinations, arguments):
        offsets, slopes = (arguments[place] for place in self._places)
        like, where = self._like, destinations[0]
        if where is None:
            out = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=slopes.device)
        else:
            out = _inductor.placed(where, like.shape, like.stride(), like.dtype)
        images, channels, high, wide = like.shape
        grid = -(-images * high * wide // STEP), -(-channels // TILE)
        with torch.cuda.device_of(out):
            self.compile().pool[grid](offsets, slopes, out, PIXELS=images * high * wide, CHANNELS=channels, HIGH=high,
                                      WIDE=wide, POOLED_HIGH=slopes.shape[2], POOLED_WIDE=slopes.shape[3], **self._sizes,
                                      STEP=STEP, TILE=TILE)
        return [out]


def forms_of(graph):
    """The form of the graph of a kernel, if it is the gradient of a max pool."""
    given = [n for n in graph.nodes if n.op == "placeholder"]
    results = next(n for n in reversed(graph.nodes) if n.op == "output").args[0]
    made = results[0]
    if len(results) != 1 or packet(made) != "aten.max_pool2d_with_indices_backward" or made.kwargs:
        return []
    slopes, _, kernel, stride, padding, dilation, _, indices = made.args
    if packet(indices) != "prims._low_memory_max_pool_offsets_to_indices" or slopes not in given \
            or indices.args[0] not in given or set(dilation) != {1}:
        return []
    offsets, like = indices.args[0], made.meta["val"]
    values = [n.meta["val"] for n in (offsets, slopes, made)]
    if not all(v.dim() == 4 and v.is_contiguous(memory_format=torch.channels_last) and v.numel() < 1 << 31 for v in values):
        return []
    sizes = {f"{name}_{axis}": value for name, values in (("KERNEL", kernel), ("STRIDE", stride or kernel), ("PAD", padding))
             for axis, value in zip("HW", values)}
    return [Form([given.index(offsets), given.index(slopes)], like, sizes)]
