"""The gradient of an embedding, added to a tensor that is there.

PyTorch makes a gradient with a row for every word. Where another layer uses the same weight, that is a second tensor as
large as the weight, when all gradients are alive. Here only the rows of the words that occur are made, and added in place.

On a GPU two kernels of ours do it, written in Triton, which need almost no memory. Words are sorted, so that equal ones
follow each other:

    ordered   2 2 3 5 | 5 5 5 5 | 5 7 7 9        chunks of CHUNK words, here 4

The program of a word's first place adds up its rows to the end of the chunk; of each further chunk in which the word goes
on, another program has added up the rows before. The order of all sums is fixed.
"""

import functools

import torch

from . import _inductor, _rows
from ._real import real_tensors

aten = torch.ops.aten
_library = torch.library.Library("cairn", "FRAGMENT")
_library.define("embedding_add(Tensor a, Tensor gradient, Tensor words) -> Tensor")
_library.define("embedding_add_(Tensor(a!) a, Tensor gradient, Tensor words) -> Tensor(a!)")
ADD = torch.ops.cairn.embedding_add.default
CHUNK, TILE = 32, 1024

_SOURCE = """
import triton
import triton.language as tl


@triton.jit
def add_up(gradient, order, ordered, at, end, word, c, mask, columns, TILE: tl.constexpr):
    total = tl.zeros([TILE], tl.float32)
    now = tl.load(ordered + at, at < end, other=-1)
    while now == word:
        row = tl.load(order + at)
        total += tl.load(gradient + row * columns + c, mask, other=0.0).to(tl.float32)
        at = at + 1
        now = tl.load(ordered + at, at < end, other=-1)
    return total


@triton.jit
def chunks(gradient, order, ordered, partial, count, columns, CHUNK: tl.constexpr, TILE: tl.constexpr):
    chunk = tl.program_id(0) + 1
    at = chunk * CHUNK
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)
    mask = c < columns
    word = tl.load(ordered + at)
    if tl.load(ordered + (at - 1)) == word:
        total = add_up(gradient, order, ordered, at, min(at + CHUNK, count), word, c, mask, columns, TILE)
        tl.store(partial + chunk * columns + c, total, mask)


@triton.jit
def rows(out, gradient, order, ordered, partial, count, columns, CHUNK: tl.constexpr, TILE: tl.constexpr):
    at = tl.program_id(0)
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)
    mask = c < columns
    word = tl.load(ordered + at)
    if tl.load(ordered + (at - 1), at > 0, other=-1) != word:
        chunk = at // CHUNK + 1
        total = add_up(gradient, order, ordered, at, min(chunk * CHUNK, count), word, c, mask, columns, TILE)
        now = tl.load(ordered + chunk * CHUNK, chunk * CHUNK < count, other=-1)
        while now == word:
            total += tl.load(partial + chunk * columns + c, mask, other=0.0)
            chunk = chunk + 1
            now = tl.load(ordered + chunk * CHUNK, chunk * CHUNK < count, other=-1)
        place = out + word.to(tl.int64) * columns + c
        tl.store(place, (tl.load(place, mask, other=0.0).to(tl.float32) + total).to(out.dtype.element_ty), mask)
"""


def _launch(a, gradient, words):
    """The words are at least one, and `gradient` and `a` are contiguous."""
    module, count, columns = _inductor.module_of(_SOURCE), words.numel(), a.shape[-1]
    ordered, order = torch.sort(words.reshape(-1).int(), stable=True)
    partial = torch.empty(-(-count // CHUNK) * columns, device=a.device)
    tile = min(TILE, 1 << max(columns - 1, 0).bit_length())
    tiles = -(-columns // tile)
    with torch.cuda.device_of(a):
        if count > CHUNK:
            grid = -(-count // CHUNK) - 1, tiles
            module.chunks[grid](gradient, order, ordered, partial, count, columns, CHUNK=CHUNK, TILE=tile)
        module.rows[count, tiles](a, gradient, order, ordered, partial, count, columns, CHUNK=CHUNK, TILE=tile)
    return a


@functools.cache
def _works(device):
    """Whether the kernels can be compiled and run here; tried once."""
    with real_tensors():
        try:
            made = _launch(torch.zeros(3, 2, device=device), torch.ones(40, 2, device=device),
                           torch.arange(40, device=device).clamp(max=1))
            return made.tolist() == [[1.0, 1.0], [39.0, 39.0], [0.0, 0.0]]
        except Exception:
            return False


def takes(a):
    """Whether the kernels are there for such a tensor."""
    return _rows.available(a.device) and a.dtype in (torch.float32, torch.bfloat16, torch.float16) and _works(a.device)


def embedding_add_(a, gradient, words):
    """Add the gradient of every word to its row of `a`. Without kernels, words are numbered by their order among those that
    occur; numbers that are left over repeat the last word, so that every row is written with one value only."""
    if a.is_contiguous() and a.dtype == gradient.dtype and takes(a):
        return _launch(a, gradient.contiguous(), words)
    flat = words.reshape(-1)
    ordered, order = torch.sort(flat, stable=True)
    number = torch.cat((ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).cumsum(0)))
    number_of, word_of = torch.empty_like(flat), torch.empty_like(flat)
    number_of[order], word_of[number] = number, ordered
    used = torch.arange(flat.numel(), device=flat.device).clamp(max=number[-1])
    rows = aten.embedding_dense_backward(gradient, number_of.view(words.shape), flat.numel(), -1, False)
    word_of = word_of[used]
    rows = rows[used].add_(a[word_of])
    return a.index_copy_(0, word_of, rows)


_library.impl("embedding_add_", embedding_add_, "CompositeExplicitAutograd")
_library.impl("embedding_add", lambda a, *rest: embedding_add_(a.clone(), *rest), "CompositeExplicitAutograd")
_library.impl("embedding_add", lambda a, *_: torch.empty_like(a), "Meta")


def add_rows(graph):
    """Use this in every sum of such a gradient and another tensor and, where kernels do it, for a gradient alone, which
    begins as zeros."""
    for node in list(graph.nodes):
        if node.target is not aten.add.Tensor or node.kwargs:
            continue
        for other, made in (node.args, node.args[::-1]):
            if is_gradient(made) and isinstance(other, torch.fx.Node) and is_like(other, made) and is_like(node, made):
                with graph.inserting_before(node):
                    new = graph.call_function(ADD, (other, *made.args[:2]))
                new.meta = dict(node.meta)
                node.replace_all_uses_with(new)
                graph.erase_node(node)
                graph.erase_node(made)
                break
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if is_gradient(node) and value.is_contiguous() and takes(value):
            with graph.inserting_before(node), value.fake_mode:
                zeros = graph.call_function(aten.full.default, (list(value.shape), 0.0),
                                            dict(dtype=value.dtype, device=value.device, pin_memory=False))
                zeros.meta["val"] = torch.empty_like(value)
                new = graph.call_function(ADD, (zeros, *node.args[:2]))
            new.meta = dict(node.meta)
            node.replace_all_uses_with(new)
            graph.erase_node(node)


def is_gradient(node):
    """Whether a node is the gradient of an embedding with more rows than words, none of them left out."""
    if not isinstance(node, torch.fx.Node) or node.target is not aten.embedding_dense_backward.default \
            or len(node.users) != 1:
        return False
    words, (rows, padding, by_count) = node.args[1].meta["val"].numel(), node.args[2:]
    return 0 < 2 * words < rows and padding < 0 and not by_count


def is_like(node, other):
    a, b = node.meta["val"], other.meta["val"]
    return a.shape == b.shape and a.dtype == b.dtype
