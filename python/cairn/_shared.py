"""Attention whose heads share keys and values, without a copy of them for every head.

Models repeat keys and values for the heads that share them; the gradients of the copies are then added up:

    k [b, shared, s, d] -> expand -> clone -> view [b, heads, s, d] -> attention
    attention's backward -> view [b, shared, heads / shared, s, d] -> sum -> gradient of k

Libraries have kernels that read the shared heads where they are, and return the gradients of these. Both forms are measured
as a whole, once per signature, and must agree: then the graph gets the faster one. It is the same for all plans of a step,
so their bits are the same.
"""

import operator

import torch
from torch import fx

from . import _costs, _slices, _torch
from ._geometry import FIXED, packet
from ._real import given_like, real_tensors

aten = torch.ops.aten
GAIN = 0.98  # of the time with copies: a form without them that takes more is not used
_CLOSE = 8  # times the precision of a type that the forms may differ by

# Ops that may take fewer heads of keys and values than of queries, with those of their gradients. Of both the first
# arguments, after that gradient, are queries, keys and values.
_OPS = {getattr(aten, name).default: getattr(aten, name + "_backward").default
        for name in ("_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention",
                     "_scaled_dot_product_flash_attention_for_cpu")}
_SHAPES = ("aten.view", "aten.reshape", "aten._unsafe_view")


class Attention:
    """A call of attention with its backward one, whose keys and values are copies: `shared` are those that were copied,
    with a dimension of size 1 for the copies."""

    def __init__(self, forward, backward, shared, sums):
        self.forward, self.backward, self.shared, self.sums = forward, backward, shared, sums


def find(graph):
    """The calls of attention that can have shared heads."""
    found = []
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in _OPS or _slices.drops(node):
            continue
        keys, values = node.args[1:3]
        backwards = {u for u in keys.users if u.target is _OPS[node.target] and u.args[2:4] == (keys, values)}
        shared = [_copied(copies, {node, *backwards}) for copies in (keys, values)]
        if len(backwards) != 1 or None in shared:
            continue
        backward = backwards.pop()
        sums = [_sums_of(backward, place, one) for place, one in zip((1, 2), shared)]
        if None not in sums:
            found.append(Attention(node, backward, shared, sums))
    return found


def _copied(copies, readers):
    """What a node shows copies of, if nothing but `readers` reads them."""
    last, made = copies.meta["val"], copies
    while set(made.users) <= readers and packet(made) in (*_SHAPES, "aten.clone"):
        made, readers = made.args[0], {made}
    if packet(made) != "aten.expand" or not set(made.users) <= readers or last.dim() != 4:
        return None
    one, many = made.args[0].meta["val"].shape, made.meta["val"].shape
    if len(one) != 5 or one[2] != 1 or many[2] == 1 or one[:2] + one[3:] != many[:2] + many[3:]:
        return None
    return made.args[0] if last.shape == (many[0], many[1] * many[2], *many[3:]) else None


def _sums_of(backward, place, shared):
    """The sums over the copies of a gradient, if nothing else is made of it; None otherwise."""
    sums, todo = [], [u for u in backward.users if u.target is operator.getitem and u.args[1] == place]
    copies = backward.args[place + 1].meta["val"].shape[1] // shared.meta["val"].shape[1]
    wide = [copies if at == 2 else n for at, n in enumerate(shared.meta["val"].shape)]
    while todo:
        node = todo.pop()
        for user in node.users:
            if packet(user) in _SHAPES:
                todo.append(user)
            elif user.target is aten.sum.dim_IntList and list(user.args[1]) == [2] and not user.kwargs \
                    and list(node.meta["val"].shape) == wide:
                sums.append(user)
            else:
                return None
    return sums


# ---- both forms, to be measured ----

class Whole:
    """Attention and its gradient as a function of queries, keys, values and the gradient of the result. `copies`: whether
    keys and values are copied for every head, and their gradients added up."""
    __module__ = "cairn_kernels"

    def __init__(self, attention, copies):
        self.attention, self.copies = attention, copies
        forward, backward = attention.forward, attention.backward
        made = {u for u in forward.users if u.target is operator.getitem}
        given = _torch.pytree.tree_leaves((forward.args[3:], forward.kwargs, backward.args[4:], backward.kwargs))
        self.others = list(dict.fromkeys(a for a in given if isinstance(a, fx.Node) and a not in made))  # masks
        words = [str(a) for a in given if not isinstance(a, fx.Node)]
        words = [str(forward.target), "copied" if copies else "shared", *words]
        self.__name__ = self.__qualname__ = "_".join(words).replace(" ", "")

    def __str__(self):
        return self.__name__

    def operands(self):
        attention = self.attention
        return [attention.backward.args[0], attention.forward.args[0], *attention.shared, *self.others]

    def __call__(self, gradient, queries, keys, values, *others):
        forward, backward = self.attention.forward, self.attention.backward
        if self.copies:
            copies = queries.shape[1] // keys.shape[1]
            wide = [one.expand(-1, -1, copies, -1, -1).flatten(1, 2) for one in (keys, values)]
        else:
            wide = [keys.squeeze(2), values.squeeze(2)]
        known = dict(zip([*forward.args[:3], *self.others], (queries, *wide, *others)))
        made = self._call(forward, known)
        known.update((u, made[u.args[1]]) for u in forward.users if u.target is operator.getitem)
        known[backward.args[0]] = gradient
        found = list(self._call(backward, known)[:3])
        if self.copies:
            found[1:] = [g.view(g.shape[0], -1, copies, *g.shape[2:]).sum(2) for g in found[1:]]
        return (made[0], *found)

    @staticmethod
    def _call(node, known):
        arguments, keywords = _torch.pytree.tree_map_only(fx.Node, known.__getitem__, (node.args, node.kwargs))
        return node.target(*arguments, **keywords)


def _agree(whole, other):
    """Whether two forms give results that differ only by rounding."""
    device = whole.operands()[0].meta["val"].device
    with real_tensors(), torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        try:
            given = given_like([n.meta["val"] for n in whole.operands()])
            one, another = ([t.cpu() for t in form(*given)] for form in (whole, other))
            precision = torch.finfo(one[0].dtype).eps
            return all(a.shape == b.shape for a, b in zip(one, another)) and \
                _slices.distance(one, another) <= _CLOSE * precision
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError, TypeError):
            return False


def _node_of(graph, whole):
    """A node that calls a form, to measure it."""
    arguments = []
    for operand in whole.operands():
        arguments.append(graph.placeholder(f"a{len(graph.nodes)}"))
        arguments[-1].meta["val"] = operand.meta["val"]
    node = graph.call_function(whole, tuple(arguments))
    queries, keys, values = (a.meta["val"] for a in arguments[1:4])
    with queries.fake_mode:
        results = [torch.empty_like(t) for t in (queries, queries, keys.squeeze(2), values.squeeze(2))]
    node.meta["val"], node.meta[FIXED] = tuple(results), True
    return node


# ---- the graph ----

def share(graph, table, learn):
    """Let attention read shared heads where that is measured to be faster; returns those calls. `learn` measures the nodes
    of a graph."""
    calls, nodes = fx.Graph(), {}
    for attention in find(graph):
        forms = [Whole(attention, copies) for copies in (True, False)]
        pair = [_node_of(calls, form) for form in forms]
        if table.tried("agree " + _costs.signature_of(pair[1]), lambda: _agree(*forms)):
            nodes[attention] = pair
    if not nodes:
        return []
    calls.output(())
    learn(fx.GraphModule({}, calls))
    chosen = [attention for attention, pair in nodes.items() if _is_faster(*map(_costs.signature_of, pair), table)]
    for attention in chosen:
        _rewrite(graph, attention)
    if chosen:
        graph.eliminate_dead_code()
        graph.lint()
    return chosen


def _is_faster(copied, shared, table):
    return not {copied, shared} & table.guesses.keys() and \
        table.figures[shared][0] < GAIN * table.figures[copied][0]


def _rewrite(graph, attention):
    forward, backward = attention.forward, attention.backward
    small = [_without_copies(graph, one) for one in attention.shared]
    forward.args = (forward.args[0], *small, *forward.args[3:])
    backward.args = (*backward.args[:2], *small, *backward.args[4:])
    forward.meta[FIXED] = backward.meta[FIXED] = True
    results = list(backward.meta["val"])
    for place, keys in zip((1, 2), small):
        value = keys.meta["val"]
        with value.fake_mode:
            results[place] = torch.empty_like(value)
    backward.meta["val"] = tuple(results)
    for item in [u for u in backward.users if u.target is operator.getitem]:
        item.meta["val"] = results[item.args[1]]
    for place, sums in zip((1, 2), attention.sums):
        for node in sums:
            _replace_sum(graph, node, next(u for u in backward.users if u.args[1] == place))


def _without_copies(graph, node):
    """What a node shows with a dimension of size 1 more."""
    if packet(node) == "aten.unsqueeze":
        return node.args[0]
    with graph.inserting_after(node):
        new = graph.call_function(aten.squeeze.dim, (node, 2))
    with node.meta["val"].fake_mode:
        new.meta["val"] = node.meta["val"].squeeze(2)
    return new


def _replace_sum(graph, node, gradient):
    new = gradient
    if len(node.args) > 2 and node.args[2]:  # the dimension stays
        with graph.inserting_before(node):
            new = graph.call_function(aten.unsqueeze.default, (gradient, 2))
        with gradient.meta["val"].fake_mode:
            new.meta["val"] = gradient.meta["val"].unsqueeze(2)
    node.replace_all_uses_with(new)


def drop_copies(graph, attentions):
    """Leave out copies of gradients of keys and values that lie as the copies would; whether there were any. Of gradients
    that were added up the sum was such a copy."""
    dropped = False
    for attention in attentions:
        todo = [u for u in attention.backward.users if u.target is operator.getitem and u.args[1] in (1, 2)]
        while todo:
            node = todo.pop()
            for user in list(node.users):
                if getattr(user.target, "is_view", False):
                    todo.append(user)
                elif user.target is aten.clone.default and user.meta["val"].stride() == node.meta["val"].stride() \
                        and all(reader.op != "output" for reader in user.users):
                    user.replace_all_uses_with(node)
                    graph.erase_node(user)
                    dropped = True
    return dropped
