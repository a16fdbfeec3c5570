"""Two kernels that follow each other as one, of two kinds.

The sum and the statistics of a norm are a group apart from what the norm makes of them, so that a plan can recompute the
latter alone. Where a plan runs one after the other, a kernel of ours does both, and reads the sum from registers:

    x = a + b, m = mean(x * x)      |      x = a + b, m = mean(x * x), y = x * rsqrt(m) * w
    y = x * rsqrt(m) * w            |

What a plan computes again is often read by the gradient of a weight, right after a kernel that reads the same operands. Then
one kernel does it besides, and only has to write the result:

    sums(dy, x, m)                  |      sums(dy, x, m), y = relu(norm(x, m))
    y = relu(norm(x, m)), again     |
    dw = gradient(dz, y)            |      dw = gradient(dz, y)

The bits must be those of the two, as a plan may also run them apart. So the first has a form of ours, which adds up in the
same order, in the first kind the second too, and a trial compares. Only steps in an arena have pairs: there the results of
the second kernel have their memory before it runs, and nothing lives longer than planned. They must not lie over what the
first kernel reads."""

import itertools
import math
import operator

import torch
from torch import fx

from . import _check, _rows
from ._real import agree, real_tensors

GAIN = 0.97  # of the time of two kernels: a pair that takes more is not used
LOSS = 1.1  # of the time of two kernels: the most that their forms of ours may take where they run apart
LOSS_BESIDE = 1.01  # the same of two of which the second runs elsewhere without a budget
NEAR = 12  # ops of the backward part that may be between the first reader of a value and the kernel that can make it again
FEW = 16  # an operand this many times smaller than a result counts as nothing

_pairs: dict = {}  # by two kernels and how the second reads the first


class Pair:
    """`links`: what an argument of the second kernel is, by its place: the number of a result of the first one, or ~ the
    place of an argument of it. If it reads no result, `beside` is true. `form` computes both, or is None if there is no such
    form, or it is not faster. `share`: of the time of the second kernel, how much longer than the first one it takes."""
    __module__ = "cairn_kernels"

    def __init__(self, first, second, links):
        self.first, self.second, self.links = first, second, dict(links)
        self.__name__ = self.__qualname__ = f"{first.__name__}_{second.__name__}"
        self.beside = all(number < 0 for number in self.links.values())
        self.others = [place for place in range(len(second.given)) if place not in self.links]
        self.given = first.given + [second.given[place] for place in self.others]
        self.made = len(first.outputs())
        self.graph, self.form, self.share, self.times = self._joined(), None, 1.0, {}
        self.forms = self._forms() if self.graph is not None else []

    def _forms(self):
        if self.beside:
            here = _rows.available(self.given[0].device)
            return (_rows.forms_of(self.graph, _rows.BESIDE) or _rows.plain_forms(self.graph)) if here else []
        return _rows.plain_forms(self.graph) if self.first.plain_forms() and self.second.plain_forms() else []

    def outputs(self):
        return self.first.outputs() + self.second.outputs()

    def _joined(self):
        """One graph of both, or None where the second reads something else than whole results and arguments."""
        graph, env = fx.Graph(), {}
        for n in self.first.graph.nodes:
            if n.op != "output":
                env[n] = graph.node_copy(n, env.get)
        outs, arguments = [env[n] for n in self.first.outputs()], [n for n in graph.nodes if n.op == "placeholder"]
        places = [n for n in self.second.graph.nodes if n.op == "placeholder"]
        for place, n in enumerate(places):
            if place in self.links:
                number = self.links[place]
                source = outs[number] if number >= 0 else arguments[~number]
                env[n] = graph.call_function(_rows.stored, (source,)) if number >= 0 else source
                made, read = source.meta["val"], n.meta["val"]
                env[n].meta["val"] = read
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
        rest, given = iter(arguments[len(self.first.given):]), []
        for place in range(len(self.second.given)):
            number = self.links.get(place)
            given.append(next(rest) if number is None else made[number] if number >= 0 else arguments[~number])
        return made + self.second(*given)

    def choose(self, time_of, table, fixed):
        """Use the fastest form, if it pays, together with forms of both kernels that give the same bits. `fixed` has the
        kernels whose form another pair needs."""
        kernels = self.first, self.second
        before, apart = [kernel.form for kernel in kernels], sum(min(map(time_of, kernel.forms)) for kernel in kernels)
        self.times = {form.name: time_of(form) for form in self.forms}
        loss = LOSS_BESIDE if self.beside else LOSS
        for form in sorted(self.forms, key=time_of):
            for ours in self._apart(form, before, time_of):
                if not time_of(form) <= GAIN * apart < math.inf or sum(map(time_of, ours)) > loss * apart \
                        or any(kernel in fixed and kernel.form is not f for kernel, f in zip(kernels, ours)):
                    continue
                self.first.form, self.second.form = ours
                what = f"pair {self.__name__} {form.name}" + (f" {ours[0].name} {ours[1].name}" if self.beside else "")
                if table.tried(what, lambda: self._is_same(form)):
                    self.form = form
                    self.share = min(max(time_of(form) - time_of(ours[0]), 0) / max(time_of(ours[1]), 1), 1.0)
                    fixed.update(kernels)
                    return
                self.first.form, self.second.form = before

    def _apart(self, form, before, time_of):
        """Forms of both kernels that may give the bits of one of the pair's, those `before` and fast ones first: forms that
        add up in the same order. What runs beside sums is computed element by element, so that all its forms may. No form
        may that has another formula for 1 + erf(x): after rounding to half precision the two mostly have the same bits, but
        not always."""
        def may(kernel, one):
            return ((self.beside and kernel is self.second or getattr(one, "order", None) == form.order)
                    and (not _rows.has_erf(kernel.graph) or getattr(one, "short", False) == form.short))

        def allowed(kernel, now):
            return sorted((one for one in kernel.forms if may(kernel, one)), key=lambda one: (one is not now, time_of(one)))
        return list(itertools.product(*map(allowed, (self.first, self.second), before)))

    def _is_same(self, form):
        device = self.given[0].device
        with real_tensors(), torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
            return agree(device, self.given, (), 0, self.apart, form)

    def __call__(self, destinations, *arguments):
        return tuple(self.form.onto(destinations, list(arguments)))


BESIDE = "cairn_beside"  # key of a kernel's node: a pair, by its key, and the node of its first kernel


def find(graph, is_kernel, backward):
    """The new pairs of a graph of kernels, the most frequent first; `backward` has the nodes of the backward part. Kernels
    that were used before keep their form."""
    counts, last, read = {}, None, set()

    def count(key):
        if key not in _pairs and not (key[0].used or key[1].used):
            counts[key] = counts.get(key, 0) + 1
    nodes = [n for n in graph.nodes if n.op == "call_function" and not _shows(n)]
    for at, node in enumerate(nodes):
        if last is not None and is_kernel(last) and is_kernel(node):
            key = last.target, node.target, links_of(node.args, last, last.args)
            if any(number >= 0 for _, number in key[2]):
                count(key)
        for maker in _makers(node) if node in backward else ():
            if maker in backward or maker in read or not is_kernel(maker):
                continue
            read.add(maker)
            near = [n for n in nodes[at - 1:at + NEAR] if n in backward and is_kernel(n)]
            links, first = next(((links, n) for n in near if (links := _all_of(maker, n))), (None, None))
            if first is not None:
                maker.meta[BESIDE] = (first.target, maker.target, links), first
                count(maker.meta[BESIDE][0])
        last = node
    _pairs.update((key, Pair(*key)) for key in counts)
    found = [_pairs[key] for key in sorted(counts, key=lambda key: -counts[key]) if _pairs[key].forms]
    for pair in found:
        for kernel in (pair.first, pair.second):
            kernel.more_forms([form for form in kernel.plain_forms() if form not in kernel.forms])
            kernel.chosen = False  # all forms are measured
    return found


def _shows(node):
    """Whether a node only shows a value."""
    return node.target is operator.getitem or getattr(node.target, "is_view", False) and isinstance(node.args[0], fx.Node)


def _makers(node):
    """The nodes that make what a node reads."""
    for n in node.all_input_nodes:
        while _shows(n):
            n = n.args[0]
        yield n


def _all_of(maker, node):
    """The links of a kernel to another one that reads all that it reads, but for little; None if it does not."""
    links = links_of(maker.args, node, node.args)
    made = max(_elements(value) for value in maker.meta["val"])
    others = [n for place, n in enumerate(maker.args) if place not in dict(links)]
    return links if links and all(FEW * _elements(n.meta["val"]) < made for n in others) else None


def _elements(value):
    return value.numel() if isinstance(value, torch.Tensor) else 0


def links_of(arguments, first, given):
    """What arguments are of a node with arguments `given`, by their places: see Pair."""
    found = []
    for place, n in enumerate(arguments):
        if isinstance(n, fx.Node) and n.target is operator.getitem and n.args[0] is first:
            found.append((place, n.args[1]))
        else:
            found += [(place, ~at) for at, other in enumerate(given) if _is_equal(n, other)][:1]
    return tuple(found)


def _is_equal(a, b):
    """Whether two nodes are the same, or the same view of the same."""
    if a is b:
        return True
    views = all(isinstance(n, fx.Node) and getattr(n.target, "is_view", False) for n in (a, b))
    return views and a.target is b.target and a.kwargs == b.kwargs and len(a.args) == len(b.args) and all(
        _is_equal(x, y) if isinstance(x, fx.Node) else x == y for x, y in zip(a.args, b.args))


def beside(node):
    """The pair that computes a kernel again beside another one, and the node of that one; None if there is none."""
    key, first = node.meta.get(BESIDE, (None, None))
    pair = _pairs.get(key)
    return (pair, first) if pair is not None and pair.form is not None else None


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
    links = links_of(second.args[1:], first, first.args[1:])
    pair = _pairs.get((first.target.kernel, second.target.kernel, links))
    if pair is None or pair.form is None or _overlap(first.meta[WRITES], second.meta[WRITES]) \
            or _overlap(first.meta[READS], second.meta[WRITES]) and not _is_over(pair, first, second):
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


def _is_over(pair, first, second):
    """Whether the second kernel overwrites one argument of the first by its only result, and may do so: a program has read
    its elements then."""
    arguments, (range_, *more) = second.args[1:], second.meta[WRITES]
    over = [(slot, arguments.index(where)) for slot, where in enumerate(second.args[0]) if where in arguments]
    if more or len(over) != 1 or any(_overlap([range_], [read]) and read != range_ for read in first.meta[READS]):
        return False
    (slot, place), = over
    number = pair.links.get(place, 0)
    return number < 0 and pair.form.may_be_over(pair.made + slot, ~number)


def _between(first, second):
    found, n = set(), first.next
    while n is not second:
        found.add(n)
        n = n.next
    return found


def _overlap(some, others):
    return any(a < d and c < b for a, b in some for c, d in others)
