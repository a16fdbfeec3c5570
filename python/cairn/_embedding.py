"""The gradient of an embedding whose weight another layer uses too.

PyTorch makes a gradient with a row for every word, and adds it to that of the other layer: a second tensor as large as the
weight, when all gradients are alive. Here only the rows of the words that occur are made, and added in place.
"""

import torch

aten = torch.ops.aten
_library = torch.library.Library("cairn", "FRAGMENT")
_library.define("embedding_add(Tensor a, Tensor gradient, Tensor words) -> Tensor")
_library.define("embedding_add_(Tensor(a!) a, Tensor gradient, Tensor words) -> Tensor(a!)")
ADD = torch.ops.cairn.embedding_add.default


def embedding_add_(a, gradient, words):
    """Add the gradient of every word to its row of `a`. Words are numbered by their order among those that occur; numbers
    that are left over repeat the last word, so that every row is written with one value only."""
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
    """Use this in every sum of such a gradient and another tensor."""
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
