"""Which nodes of a joint graph one kernel computes.

    value     a node that makes a storage; other nodes view one
    anchor    a node that runs as it is: matrix products, convolutions, attention
    realised  a value that exists in memory; the others are computed inside every group that reads them
    group     realised values that are made together, with the nodes that lead to them from other realised values

A group is what Inductor compiles at once, and need not be one kernel of the device: what it needs inside is measured as
workspace. The rules below are therefore rough. They keep apart what a plan wants to recompute apart, and put together
what reads the same memory.
"""

import heapq
import operator

import torch
from torch import fx

from . import _rows, _torch
from ._absent import ADDED
from ._geometry import key_of, packet, tensors_of
from ._joint import EARLY

# Besides the ops that PyTorch itself calls pointwise. Scatters into constants are gone before.
_FUSIBLE = {"prims.convert_element_type", "prims.iota", "prims.fma", "prims.inductor_random",
            "prims._low_memory_max_pool_offsets_to_indices",
            "aten.full", "aten.full_like", "aten.scalar_tensor", "aten.where", "aten.clone", "aten._to_copy", "aten.cat",
            "aten.embedding", "aten.gather", "aten.index", "aten._unsafe_index", "aten.constant_pad_nd",
            "aten.slice_scatter", "aten.select_scatter", "aten.arange", "aten.zeros_like", "aten.ones_like", "aten.triu",
            "aten.tril", "aten.copy", "aten.empty_strided"}
_REDUCTIONS = {"aten.sum", "aten.mean", "aten.amax", "aten.amin", "aten.var_mean", "aten.var", "aten.any", "aten.prod",
               "aten.argmax", "aten.argmin", "aten.max", "aten.min", "prims.prepare_softmax_online"}
# Every element is read many times: alone in a group, so that what they read is computed once.
_SOLO = {"prims._low_memory_max_pool_with_offsets", "aten.max_pool2d_with_indices_backward", "aten.avg_pool2d",
         "aten.avg_pool2d_backward"}

_INSIDE = {"prims._low_memory_max_pool_offsets_to_indices", "aten.empty_strided"}  # what such a group computes itself

WIDE, WIDEST = 4, 5  # the most large tensors that a merged group reads and writes; where a kernel of ours makes it
SMALL = 16  # a tensor this many times smaller than another counts as nothing beside it
UNROLLED = 8  # Inductor computes a sum of fewer elements as it computes other elements
_UNROLLS = {"aten.sum", "aten.mean", "aten.amax", "aten.amin"}
LAUNCH = {"cuda": 1 << 20, "cpu": 4 << 10}  # bytes that memory moves in about the time that one more kernel takes
DRAWING = {"cpu": 64}  # bytes that memory moves in about the time in which one random number is drawn; else none
ASKED = {"cuda": 8 << 20, "cpu": 128 << 10}  # bytes that a tensor must have for the question whether merging pays


def is_reduction(node):
    if packet(node) in _UNROLLS and _is_short(node):
        return False
    return packet(node) in _REDUCTIONS and (packet(node) not in ("aten.max", "aten.min") or len(node.args) > 1)


def _is_short(node):
    """Whether every element of the result is made of few elements: the gradients of keys that several heads share."""
    read, made = node.args[0].meta["val"].numel(), node.meta["val"].numel()
    return 1 < made and read < UNROLLED * made


def is_fusible(node, device):
    """Whether Inductor can compute a node inside a kernel of other nodes."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, _torch.OpOverload) or node.meta.get("cairn_once"):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or _torch.schema_of(target).is_mutable:
        return packet(node) in _FUSIBLE
    if any(v.device != device or v.dtype.is_complex for v in tensors_of(node.meta.get("val"))):
        return False
    return torch.Tag.pointwise in target.tags or packet(node) in _FUSIBLE | _SOLO | _UNROLLS or is_reduction(node)


def _draws(node):
    return packet(node) == "prims.inductor_random"


def source_of(node):
    """The node that makes a value: of one result among several, the call."""
    return node.args[0] if node.target is operator.getitem else node


class Group:
    """`outs` are realised values, `cone` the nodes that compute them, in order, `leaves` the realised values that they
    read; `domain` is the number of elements of its largest loop. `made` are the outs before those that nothing else reads
    were dropped. `halves`: where it is a question whether merging pays, the outs of the two groups that it was last made
    of; several pairs if it was then merged with others."""

    def __init__(self, backward, solo):
        self.backward, self.solo = backward, solo
        self.outs, self.cone, self.leaves, self.domain = [], [], [], 0
        self.made, self.halves = frozenset(), []


class Grouping:
    """The units of a graph: groups and anchors. `units` has them in an order in which they can run. `apart` are pairs of
    sets of values: no value of the one is made together with one of the other (_merges.py)."""

    def __init__(self, gm, num_fwd_outputs, device, apart=()):
        self.device, self.nodes, self.results = device, list(gm.graph.nodes), num_fwd_outputs
        self._sides = {}  # by value: the pairs that it is in, by their numbers, and its side of each
        for number, pair in enumerate(apart):
            for side, values in enumerate(pair):
                for n in values:
                    self._sides.setdefault(n, set()).add((number, side))
        self._has_rows = _rows.available(device)
        self.units = self._found(True) or self._found(False)  # merged groups may depend on each other
        assert self.units is not None, "groups depend on each other"

    def _found(self, merged):
        """The units; None if they depend on each other."""
        self.place = {n: i for i, n in enumerate(self.nodes)}
        self.output = self.nodes[-1]
        self._find_owners()
        self._find_backward(self.output.args[0][:self.results])
        self._fuses = {n: is_fusible(source_of(n), self.device) for n in self.nodes}
        self._returned = set(self.operands(self.output))
        self._choose()
        self._form()
        self._order_units()
        if merged:
            self._merge()
        self._drop_unread()
        return self._sorted()

    # ---- the graph ----

    def _find_owners(self):
        made, self.owner, self._bytes = {}, {}, {}
        for node in self.nodes:
            value = node.meta.get("val")
            self._bytes[node] = sum(v.numel() * v.element_size() for v in tensors_of(value))
            if node.op != "output" and isinstance(value, torch.Tensor):
                first = made.setdefault(key_of(value), node)
                self.owner[node] = node if node.op == "placeholder" else first  # inputs may share memory

    def _find_backward(self, results):
        needed, todo = {n for n in self.nodes if EARLY in n.meta}, [n for n in results if isinstance(n, fx.Node)]
        while todo:
            node = todo.pop()
            if node not in needed:
                needed.add(node)
                todo += node.all_input_nodes
        self.backward = {n for n in self.nodes if n not in needed}

    def is_view(self, node):
        if node in self.owner:
            return self.owner[node] is not node
        return node.op == "call_function" and getattr(node.target, "is_view", False)  # split

    def is_argument(self, node):
        """Whether a view is made outside of the groups that read it, so that groups are equal although they read other
        values: the seeds of random ops, and slices of the step's inputs, which are aligned as Inductor expects."""
        if node.meta.get("cairn_seed", False):
            return True
        value, source = node.meta.get("val"), source_of(node)
        return (source is not node and self.is_view(source) and self.owner[source.args[0]].op == "placeholder"
                and value.is_contiguous() and value.storage_offset() * value.element_size() % 64 == 0)

    def is_anchor(self, node):
        return (node.op == "call_function" and node.target is not operator.getitem and not self.is_view(node)
                and not self._fuses[node])

    def operands(self, node):
        """The values that a node reads, through views and tuples."""
        found, todo, seen = {}, list(reversed(node.all_input_nodes)), set()
        while todo:
            n = todo.pop()
            if n in seen:
                continue
            seen.add(n)
            if self.owner.get(n) is n:
                found[n] = True
            else:
                todo += reversed(n.all_input_nodes)
        return list(found)

    def large(self, nodes, beside):
        """Those of `nodes` that matter beside one of `beside` bytes."""
        return {n for n in nodes if self._bytes[n] * SMALL > beside}

    # ---- what is realised ----

    def _reduces(self, n):
        return is_reduction(source_of(n))

    def _solo(self, n):
        return packet(source_of(n)) in _SOLO or n in self._alone

    def _choose(self):
        values, self._alone = [n for n in self.nodes if self.owner.get(n) is n], set()
        self.reads = {n: self.operands(n) for n in values}
        self.fused = {n for n in values if n.op == "call_function" and self._fuses[n]}
        self.realised = {n for n in values if n not in self.fused} | {n for n in self.fused if self._reduces(n)}
        for node in self.nodes:
            if node.op == "output" or self.is_anchor(node):
                self.realised.update(self.operands(node))
        for n in self.fused:
            if self._solo(n):
                self.realised |= {n} | {r for r in self.reads[n] if packet(r) not in _INSIDE}
        self._added = self._find_added() & self.fused
        self.realised |= self._added
        self._alone = self._joined(values)
        self.realised |= self._alone
        self._realise_where_cheaper(values)

    def _find_added(self):
        """Values to which a gradient is added if it arrives. What reads them must neither compute them again nor be in one
        group with them."""
        return {self.owner[value] for node in self.nodes for value, *_ in node.meta.get(ADDED, ())}

    def _joined(self, values):
        """Gradients that are made of a concatenation and that several kernels read, the last ones before their ways part, or
        the smallest of what leads to them alone: a cast to float32 is made by its readers. With sums Inductor would write
        them down inside of every kernel, in float32."""
        kernels, smallest, last = self._kernels_that_read(values), {}, set()
        for n in values:
            if n in self.fused and n in self.backward and n not in self.realised:
                before = [r for r in self.reads[n] if r in smallest and kernels[r] == kernels[n]]
                if before or packet(n) == "aten.cat":
                    last.add(n)
                    last.difference_update(before)
                    beside = self.large(set(self.reads[n]) - set(before), self._bytes[n])
                    alone = before if len(before) == 1 and not beside else []
                    smallest[n] = min([n, *(smallest[r] for r in alone)], key=self._bytes.get)
        return {smallest[n] for n in last if len(kernels[n]) > 1}

    def _realise_where_cheaper(self, values):
        """A value that k kernels read is realised if reading its leaves k times costs more than making it once and
        reading it k times. This keeps the residual stream, and computes casts, activations and normalised inputs again.
        A kernel more must pay too. Drawing random numbers costs as much as reading so many bytes."""
        launch, added, self._leaves, self._drawing = LAUNCH.get(self.device.type, 0), [], {}, {}
        kernels, users = self._kernels_that_read(values), {}
        for n in values:
            for r in self.reads[n]:
                users.setdefault(r, []).append(n)
        for n in values:
            if n not in self.fused:
                continue
            leaves, drawing = self._leaves_of(n), self._drawing_of(n)
            self._leaves[n], self._drawing[n] = leaves, drawing
            size, k = self._bytes[n], len(kernels[n])
            if k > 1 and self._is_candidate(n, users.get(n, ())) and (
                    (k - 1) * (drawing + sum(self._bytes[x] for x in self.large(leaves, size))) > k * size + launch):
                if n not in self.realised:
                    added.append(n)
                self.realised.add(n)
        kernels = self._kernels_that_read(values)
        self.realised -= {n for n in added if len(kernels[n]) < 2}  # others that were realised read it in its place
        for n in values:
            if n in self.fused:
                self._leaves[n], self._drawing[n] = self._leaves_of(n), self._drawing_of(n)

    def _kernels_that_read(self, values):
        """The kernels that read each value, or would read it if it were realised."""
        kernels = {n: set() for n in values}
        for n in reversed(values):
            if n in self.fused:
                mine = {self._kernel(n)} if n in self.realised else kernels[n]
                for r in self.reads[n]:
                    kernels[r] |= mine
        return kernels

    def _leaves_of(self, value):
        """The realised values that a value is made of; those of what it reads are known."""
        leaves = set()
        for r in self.reads[value]:
            leaves |= {r} if r in self.realised else self._leaves[r]
        return leaves

    def _drawing_of(self, value):
        """The bytes that stand for the random numbers that must be drawn to make a value of its leaves."""
        mine = value.meta["val"].numel() * DRAWING.get(self.device.type, 0) if _draws(value) else 0
        return mine + sum(self._drawing.get(r, 0) for r in self.reads[value] if r not in self.realised)

    def _is_candidate(self, value, users):
        """Whether a value may be realised, not one that it is made of or that is made of it. Where all that is read of it is
        a value that is no larger, only that; but of a dropout its random numbers and not its mask: Inductor's code for a
        processor writes bools one by one."""
        if self._drawing[value] and _draws(value):
            return True
        leaves = self._leaves[value] if self.device.type in DRAWING else ()
        seen_through = (len(users) == 1 and users[0] in self.fused and self._bytes[users[0]] <= self._bytes[value]
                        and not self._reduces(users[0]) and not self._solo(users[0]))
        return not seen_through and not (leaves and all(map(_draws, leaves)))

    def _kernel(self, n):
        """What stands for the kernel that makes a realised value: reductions of one kind are one kernel."""
        if not self._reduces(n):
            return n
        read = source_of(n).all_input_nodes[0].meta["val"]
        return tuple(read.shape), tuple(n.meta["val"].shape), n in self.backward

    # ---- one group for every realised value ----

    def _form(self):
        self.group_of, together = {}, {}
        for n in self.nodes:
            if n in self.fused and n in self.realised:
                together.setdefault(source_of(n), []).append(n)
        for outs in together.values():
            self._close(Group(outs[0] in self.backward, self._solo(outs[0])), outs)

    def _trace(self, outs, inlined):
        """The nodes that lead to `outs` from realised values other than `inlined`, and those values."""
        cone, leaves, todo, through = set(), set(), list(outs), inlined | set(outs)
        while todo:
            n = todo.pop()
            if n in cone:
                continue
            cone.add(n)
            for i in n.all_input_nodes:
                if i in self.realised and i not in through:
                    leaves.add(i)
                elif not self.is_argument(i):
                    todo.append(i)
                else:
                    leaves.update(self.operands(i))
        return cone, leaves

    def _close(self, group, outs):
        """Set what a group makes, with its cone and its leaves. A realised value is computed again rather than read if the
        group reads everything large that it is made of anyway: relu(norm(x)) in the backward part of the norm. Where that
        relu was 0 is computed again too, unless Inductor makes sums of it, which then writes down more."""
        cone, leaves = self._traced_again(outs, 2 if self._has_rows else 1)
        if self._has_rows and any(map(is_reduction, cone)) \
                and _rows.describe(sorted(cone, key=self.place.get), outs) is None:
            cone, leaves = self._traced_again(outs, 1)
        group.outs = sorted(outs, key=lambda n: (-self._bytes[n], self.place[n]))
        group.cone = sorted(cone, key=self.place.get)
        group.leaves = sorted(leaves, key=self.place.get)
        group.domain = max(v.numel() for n in group.cone for v in self._looped(n))
        group.columns = any(is_reduction(n) and _over_slow_dimensions(n) for n in group.cone)
        group.plain = not any(is_reduction(n) for n in group.cone)
        for n in group.outs:
            self.group_of[n] = group

    def _traced_again(self, outs, depth):
        """The cone and the leaves of `outs`, where values are computed again rather than read."""
        inlined = set()
        cone, leaves = self._trace(outs, inlined)
        while True:
            more = {v for v in leaves if self._follows(v, leaves - {v}, depth)}
            if not more:
                return cone, leaves
            inlined |= more
            cone, leaves = self._trace(outs, inlined)

    def _follows(self, value, leaves, depth):
        """Whether a value can be computed again from `leaves`, or from what can, `depth` times."""
        return (value in self.fused and not self._reduces(value) and not self._solo(value) and value not in self._added
                and not self._drawing[value] and all(n in leaves or depth > 1 and self._follows(n, leaves, depth - 1)
                        for n in self.large(self._leaves[value], self._bytes[value])))

    @staticmethod
    def _looped(node):
        """The tensors over which a node loops."""
        inputs = node.all_input_nodes if is_reduction(node) else ()
        return tensors_of([node.meta["val"]] + [i.meta["val"] for i in inputs])

    # ---- the order of units, kept while groups are merged ----

    def maker(self, value):
        return self.group_of.get(value) or source_of(value)

    def read_by(self, unit):
        """The realised values that a unit reads."""
        return unit.leaves if isinstance(unit, Group) else self._anchors[unit]

    def makers(self, unit):
        """The units that make what a unit reads."""
        return {self.maker(n) for n in self.read_by(unit)}

    def _order_units(self):
        self._anchors = {n: self.operands(n) for n in self.nodes if self.is_anchor(n)}
        begin = {n: self.place[n] for n in self._anchors}
        begin.update((g, self.place[source_of(n)]) for n, g in self.group_of.items())
        self.order = sorted(begin, key=begin.get)
        self.at = {u: i for i, u in enumerate(self.order)}
        self.readers = {}
        for u in self.order:
            self._enter(u)

    def _enter(self, unit):
        for n in self.read_by(unit):
            self.readers.setdefault(n, {})[unit] = True

    def _forget(self, group):
        for n in group.leaves:
            self.readers[n].pop(group, None)

    def _join(self, a, b):
        """Make one group of two, unless something else must run after one of them and before the other. Only what is
        between the two in the order can be such a thing; afterwards what depends on the first comes after both."""
        if self.at[a] > self.at[b]:
            a, b = b, a
        first, last = self.at[a], self.at[b]
        between = self.order[first + 1:last]
        depends = {a}
        for u in between:
            if u is not None and not depends.isdisjoint(self.makers(u)):
                depends.add(u)
        if any(m in depends for m in self.makers(b) if m is not a):
            return None
        self._forget(a)
        self._forget(b)
        self._close(a, a.outs + b.outs)
        a.halves = a.halves + b.halves
        self._enter(a)
        kept = [u for u in between if u not in depends] + [a] + [u for u in between if u in depends]
        self.order[first:last + 1] = [*kept, None]  # the empty place keeps all others where they are
        del self.at[b]
        self.at.update((u, first + i) for i, u in enumerate(kept) if u is not None)
        return a

    # ---- merging ----

    def _big(self, group):
        return [n for n in group.outs if n.meta["val"].numel() * SMALL > group.domain]

    def _narrow(self, a, b, most):
        """Whether one group of both makes at most one large tensor, and needs at most `most` large ones at a time."""
        outs, domain = [n for n in self._big(a) + self._big(b) if self._is_read_beside(n, a, b)], max(a.domain, b.domain)
        read = {n for n in a.leaves + b.leaves if n.meta["val"].dtype != torch.bool} - set(a.outs + b.outs)
        wide = sum(min(n.meta["val"].numel(), domain) for n in read
                   if n.meta["val"].numel() * SMALL > domain)
        return len(outs) <= 1 and wide <= (most - len(outs)) * domain

    def _twins(self, a, b):
        """Whether two groups without sums make one large tensor each, both of the same two or three: the gradients of a gate
        and of what it gates. In one kernel these are read once."""
        one, other = ({n for n in g.leaves if n.meta["val"].numel() * SMALL > g.domain} for g in (a, b))
        return (a.plain and b.plain and a.domain == b.domain and len(one & other) >= 2 and len(one | other) <= 3
                and (one <= other or other <= one) and len(self._big(a)) == len(self._big(b)) == 1)

    def _is_read_beside(self, n, a, b):
        return n in self._returned or any(r is not a and r is not b for r in self.readers.get(n, ()))

    def _over_rows(self, a, b):
        """Whether one kernel of ours can make what two groups make."""
        outs = [n for n in a.outs + b.outs if self._is_read_beside(n, a, b)]
        cone, _ = self._trace(outs, set(a.outs + b.outs))
        return bool(outs) and _rows.describe(sorted(cone, key=self.place.get), outs) is not None

    def _rules(self):
        """Functions of two groups that say whether they become one; the second reads the first, or both read the same.
        Inductor makes sums over slow dimensions in two stages, and badly together with sums over the fast ones; a kernel of
        ours makes both at once."""
        small = lambda g: not self._big(g)
        reads = lambda c, p: any(self.group_of.get(n) is p for n in c.leaves)
        alike = lambda p, c: p.domain == c.domain and p.columns == c.columns

        def shares(a, b):
            others = set(b.leaves)
            return any(n in others for n in a.leaves if n.meta["val"].numel() * SMALL > a.domain)
        rules = [
            # statistics of one kind that read the same: amax and sum, the sums of a norm's backward
            lambda p, c: small(p) and small(c) and alike(p, c) and (shares(p, c) or reads(c, p)),
            # small results of statistics: new running statistics; but the statistics must not wait for anything else
            lambda p, c: small(p) and reads(c, p) and c.domain * SMALL <= p.domain
            and all(self.at.get(self.maker(n), -1) <= self.at[p] for n in c.leaves),
            # statistics of a value, with the value. Forward, what reads the statistics stays apart: it is recomputed alone.
            lambda p, c: not small(p) and small(c) and reads(c, p) and p.domain == c.domain and (p.plain or alike(p, c)),
            # in the backward part, which is not recomputed: what follows sums over the fast dimensions
            lambda p, c: c.backward and small(p) and (alike(p, c) or c.plain and not p.columns) and reads(c, p)
            and p.domain == c.domain,
            lambda p, c: c.backward and (small(p) or small(c)) and alike(p, c) and not p.columns and shares(p, c),
        ]
        rules = [lambda p, c, rule=rule: rule(p, c) and self._narrow(p, c, WIDE) for rule in rules]
        rules.append(lambda p, c: c.backward and self._twins(p, c))
        if self._has_rows:
            rules.append(lambda p, c: c.backward and p.domain == c.domain and (p.columns or c.columns)
                         and (reads(c, p) or shares(p, c)) and self._narrow(p, c, WIDEST) and self._over_rows(p, c))
        return rules

    def _is_question(self, a, b):
        """Whether two groups that a rule merges may be faster apart: both are large, and no large value is made in memory
        only because they are apart."""
        large = ASKED.get(self.device.type, ASKED["cuda"])
        return (a.domain == b.domain and all(self._is_read_beside(n, a, b) for n in self._big(a) + self._big(b))
                and all(any(self._bytes[n] >= large for n in g.leaves + g.outs) for g in (a, b)))

    def _are_apart(self, a, b):
        one, other = ({pair for n in g.outs for pair in self._sides.get(n, ())} for g in (a, b))
        return any((number, 1 - side) in other for number, side in one)

    def _merge(self):
        for rule in self._rules():
            todo = [g for g in self.order if isinstance(g, Group)]
            while todo:
                todo = self._merge_once(rule, todo)

    def _merge_once(self, rule, groups):
        """Apply a rule to groups and what is near them; returns the groups that have grown."""
        grown = {}
        for p in groups:
            shared = [n for n in p.leaves if n.meta["val"].numel() * SMALL > p.domain]
            near = {g: True for n in p.outs + shared for g in self.readers.get(n, ()) if isinstance(g, Group)}
            for c in sorted(near, key=self.at.get) if p in self.at else ():
                apart = c is p or c.backward != p.backward or c.solo or p.solo or self._adds_between(p, c)
                if apart or p not in self.at or c not in self.at or not rule(p, c) or self._are_apart(p, c):
                    continue
                halves = [(frozenset(p.outs), frozenset(c.outs))] if self._is_question(p, c) else []
                joined = self._join(p, c)
                if joined is not None:
                    joined.halves = halves or joined.halves
                    grown[joined] = True
        return [g for g in grown if g in self.at]

    def _adds_between(self, a, b):
        """Whether one group reads a value of the other to which a gradient is added."""
        return any(n in self._added and self.group_of.get(n) in (a, b) for n in a.leaves + b.leaves)

    def _drop_unread(self):
        """Values that only their own group reads are not realised; a group without results is gone."""
        for g in reversed([u for u in self.order if isinstance(u, Group)]):
            g.made = frozenset(g.outs)
            outs = [n for n in g.outs if n in self._returned or any(r is not g for r in self.readers.get(n, ()))]
            if len(outs) == len(g.outs):
                continue
            for n in set(g.outs) - set(outs):
                self.realised.discard(n)
                del self.group_of[n]
            self._forget(g)
            g.outs = []
            if outs:
                self._close(g, outs)
                self._enter(g)

    def _when(self, unit):
        """Where a unit is in the graph. Sums that are made apart come as soon as what they read exists, as far as the same
        part of the step makes it: another group may then write over it."""
        if not isinstance(unit, Group):
            return self.place[unit]
        early = not self._sides.keys().isdisjoint(unit.made) and not self._big(unit)
        read = [self.place[n] for n in unit.leaves
                if early and (n in self.backward) == unit.backward and n.op != "placeholder"]
        return max(read, default=self.place[unit.outs[0]])

    def _sorted(self):
        """The units in an order in which they can run, as near to that of the graph as possible; None: there is none."""
        units = [u for u in self.order if u is not None and (not isinstance(u, Group) or u.outs)]
        when = {u: self._when(u) for u in units}
        later, missing = {}, {}
        for u in units:
            needs = [m for m in self.makers(u) if m in when]
            missing[u] = len(needs)
            for m in needs:
                later.setdefault(m, []).append(u)
        ready = [(when[u], self.at[u], u) for u in units if not missing[u]]
        heapq.heapify(ready)
        found = []
        while ready:
            found.append(heapq.heappop(ready)[2])
            for u in later.get(found[-1], ()):
                missing[u] -= 1
                if not missing[u]:
                    heapq.heappush(ready, (when[u], self.at[u], u))
        return found if len(found) == len(units) else None


def _over_slow_dimensions(node):
    """Whether a reduction leaves the fastest dimension of its operand."""
    read = node.all_input_nodes[0].meta["val"]
    dims = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], (list, tuple)) else range(read.dim())
    dims = {d % read.dim() for d in dims} if read.dim() else set()
    fastest = min((d for d in range(read.dim()) if read.shape[d] > 1), key=read.stride, default=None)
    return fastest is not None and fastest not in dims
