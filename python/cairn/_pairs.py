"""Two kernels that follow each other as one.

The sum and the statistics of a norm are a group apart from what the norm makes of them, so that a plan can recompute the
latter alone. Where a plan runs one after the other, a kernel of ours does both, and reads the sum from registers:

    x = a + b, m = mean(x * x)      |      x = a + b, m = mean(x * x), y = x * rsqrt(m) * w
    y = x * rsqrt(m) * w            |

The bits must be those of the two, as a plan may also run them apart. So both have forms of ours, which add up in the same
order, and a trial compares. Only steps in an arena have pairs: there the results of the second kernel have their memory
before it runs, and nothing lives longer than planned. They must not lie over what the first kernel reads."""

import operator

import torch
from torch import fx

from . import _check, _rows
from ._real import given_like, outcomes, real_tensors

GAIN = 0.97  # of the time of two kernels: a pair that takes more is not used
LOSS = 1.1  # of the time of two kernels: the most that their forms of ours may take where they run apart

_pairs: dict = {}  # by two kernels and how the second reads the first


class Pair:
    """`links`: the number of the first kernel's result by the place of the second one's argument. `form` computes both, or
    is None if there is no such form, or it is not faster."""
    __module__ = "cairn_kernels"

    def __init__(self, first, second, links):
        self.first, self.second, self.links = first, second, dict(links)
        self.__name__ = self.__qualname__ = f"{first.__name__}_{second.__name__}"
        self.others = [place for place in range(len(second.given)) if place not in self.links]
        self.given = first.given + [second.given[place] for place in self.others]
        self.made = len(first.outputs())
        self.graph, self.form, self.times = self._joined(), None, {}
        possible = self.graph is not None and first.plain_forms() and second.plain_forms()
        self.forms = _rows.plain_forms(self.graph) if possible else []

    def outputs(self):
        return self.first.outputs() + self.second.outputs()

    def _joined(self):
        """One graph of both, or None where the second reads something else than whole results."""
        graph, env = fx.Graph(), {}
        for n in self.first.graph.nodes:
            if n.op != "output":
                env[n] = graph.node_copy(n, env.get)
        outs = [env[n] for n in self.first.outputs()]
        places = [n for n in self.second.graph.nodes if n.op == "placeholder"]
        for place, n in enumerate(places):
            if place in self.links:
                env[n] = graph.call_function(_rows.stored, (outs[self.links[place]],))
                env[n].meta["val"] = read = n.meta["val"]
                made = outs[self.links[place]].meta["val"]
                if (made.shape, made.stride(), made.dtype) != (read.shape, read.stride(), read.dtype):
                    return None
            else:
                with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
                    env[n] = graph.placeholder(f"b{place}")
                env[n].meta["val"] = n.meta["val"]
        for n in self.second.graph.nodes:
            if n.op == "call_function":
                env[n] = graph.node_copy(n, env.get)
        graph.output(tuple(outs + [env[n] for n in self.second.outputs()]))
        return graph

    def apart(self, arguments):
        """What the two kernels make, one after the other."""
        made = self.first(*arguments[:len(self.first.given)])
        rest = iter(arguments[len(self.first.given):])
        given = [made[self.links[place]] if place in self.links else next(rest) for place in range(len(self.second.given))]
        return made + self.second(*given)

    def choose(self, time_of, table, fixed):
        """Use the fastest form, if it pays, together with the same forms of both kernels. `fixed` has the kernels whose form
        another pair needs."""
        kernels = self.first, self.second
        before, apart = [kernel.form for kernel in kernels], sum(min(map(time_of, kernel.forms)) for kernel in kernels)
        for form in sorted(self.forms, key=time_of):
            ours = [next(f for f in kernel.forms if f.name == form.name) for kernel in kernels]
            if time_of(form) > GAIN * apart or sum(map(time_of, ours)) > LOSS * apart \
                    or any(kernel in fixed and kernel.form is not f for kernel, f in zip(kernels, ours)):
                continue
            self.first.form, self.second.form = ours
            if table.tried(f"pair {self.__name__} {form.name}", lambda: self._is_same(form)):
                self.form = form
                fixed.update(kernels)
                return
            self.first.form, self.second.form = before

    def _is_same(self, form):
        device = self.given[0].device
        with real_tensors(), torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
            apart, both = outcomes(device, lambda: given_like(self.given), self.apart, form)
            return apart == both

    def __call__(self, destinations, *arguments):
        return tuple(self.form.onto(destinations, list(arguments)))


def find(graph, is_kernel):
    """The pairs of a graph of kernels, the most frequent first. Kernels that were used before keep their form."""
    counts, last = {}, None
    for node in graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if last is not None and is_kernel(last) and is_kernel(node):
            key = last.target, node.target, links_of(node.args, last)
            if key[2] and key not in _pairs and not (last.target.used or node.target.used):
                counts[key] = counts.get(key, 0) + 1
        last = node
    _pairs.update((key, Pair(*key)) for key in counts)
    found = [_pairs[key] for key in sorted(counts, key=lambda key: -counts[key]) if _pairs[key].forms]
    for kernel in {kernel: True for pair in found for kernel in (pair.first, pair.second)}:
        kernel.more_forms(kernel.plain_forms())
    return found


def links_of(arguments, first):
    """Which arguments are results of a node, and which: pairs of numbers."""
    return tuple((place, n.args[1]) for place, n in enumerate(arguments)
                 if isinstance(n, fx.Node) and n.target is operator.getitem and n.args[0] is first)


# ---- the written graph ----

READS, WRITES = "cairn_reads", "cairn_writes"  # ranges of addresses of a written node


def join(graph, kernel_call, place_call):
    """Replace pairs of a written graph that follow each other; returns how many. A kernel is a node whose target is a
    `kernel_call`; `place_call` makes a tensor at an address."""
    found, last = 0, None
    for node in list(graph.nodes):
        looks = node.target in (operator.getitem, place_call) or getattr(node.target, "is_view", False)
        if node.op != "call_function" or looks:
            continue
        both = all(n is not None and isinstance(n.target, kernel_call) and WRITES in n.meta for n in (last, node))
        if both and _join(graph, last, node, place_call):
            found, last = found + 1, None
        else:
            last = node
    return found


def _join(graph, first, second, place_call):
    links = links_of(second.args[1:], first)
    pair = _pairs.get((first.target.kernel, second.target.kernel, links))
    if pair is None or pair.form is None or _overlap(first.meta[READS] + first.meta[WRITES], second.meta[WRITES]):
        return False
    arguments = [second.args[1:][place] for place in pair.others]
    late = {n for n in (*arguments, *second.args[0]) if n is not None} & _between(first, second)
    if any(n.target is not place_call for n in late):
        return False
    for n in late:
        first.prepend(n)
    with graph.inserting_before(first):
        new = graph.call_function(pair, ([*first.args[0], *second.args[0]], *first.args[1:], *arguments))
    new.meta = dict(first.meta)
    new.meta["val"] = (*first.meta["val"], *second.meta["val"])
    new.meta[_check.HOLDS] = [*first.meta[_check.HOLDS], *second.meta[_check.HOLDS]]
    for key in (_check.OVER, _check.FREES):
        new.meta[key] = set(first.meta.get(key, ())) | set(second.meta.get(key, ()))
    for node, skipped in ((second, pair.made), (first, 0)):
        for item in list(node.users):
            item.args = (new, item.args[1] + skipped)
        graph.erase_node(node)
    return True


def _between(first, second):
    found, n = set(), first.next
    while n is not second:
        found.add(n)
        n = n.next
    return found


def _overlap(some, others):
    return any(a < d and c < b for a, b in some for c, d in others)
