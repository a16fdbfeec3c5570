"""The times of ops under load: those that they take in the middle of a step.

An op that is measured alone runs on a cool GPU, at its highest clock, with operands that are in the cache. So after the
ops of a step were measured one by one, they are run in the order of the step, again and again, until the clock has
settled, and these times count. Operands are slices of one tensor, the ring, taken in turns, so that a step of many tensors
needs little memory: the ring and the results of one op.
"""

import time

import torch

from . import _torch
from ._geometry import key_of, makes_storage, tensors_of, values_of
from ._joint import is_collective, is_effect
from ._real import DRAWN, random_like

SETTLE = 0.4  # seconds of running before times are taken
ROUNDS = 4  # in which they are taken
RECORDED = 20_000_000  # nanoseconds that are recorded at least, unless they need more than RUNS
RUNS = 32  # of a step in one graph
RING = 256 << 20  # bytes, several times a cache
MOST_CHANGE = 1.5  # of the time of a form in the step, by what it took alone
ALIGNMENT = 512
SPARE = 3 << 20  # bytes: the allocator may count up to 1 MiB more for a large tensor, and an op has a few


def _rounded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Ring:
    """Operands of many ops in one tensor of random numbers; integers are 0. They have both signs, as those of a step: with
    numbers of one sign products take less power, and the clock is higher."""

    def __init__(self, size, zeros, device):
        self.bytes, self.at = size, 0
        self.drawn = torch.randn(size // 2, dtype=torch.bfloat16, device=device)
        self.zeros = torch.zeros(zeros, dtype=torch.uint8, device=device)

    @staticmethod
    def _bytes(value):
        return _rounded(value.untyped_storage().nbytes()) if value.dtype in DRAWN else 0

    def operand(self, value):
        """A tensor like `value`. Any bits of two small numbers are also one small number of a wider type."""
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype.is_complex or value.device != self.drawn.device:
            return random_like(value)
        base, start = self.zeros, 0
        if value.dtype in DRAWN:
            base, start = self.drawn, self.at if self.at + self._bytes(value) <= self.bytes else 0
            self.at = start + self._bytes(value)
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        return empty.set_(base.untyped_storage(), start // value.element_size() + value.storage_offset(), value.shape,
                          value.stride())


def as_planned(target, arguments, keywords, places):
    """A call as plans make it: a product that is added to a matrix overwrites the matrix. Otherwise it would copy the
    matrix first. `places` has the matrices that are overwritten, by their shape and type; they are no operands of others."""
    if not _adds_to_matrix(target, arguments):
        return target, arguments, keywords
    like = arguments[0].shape, arguments[0].dtype
    if like not in places:
        places[like] = torch.zeros_like(arguments[0])
    return torch.ops.aten.addmm_.default, (places[like], *arguments[1:]), keywords


def _adds_to_matrix(target, arguments):
    return (target is torch.ops.aten.addmm.default
            and arguments[0].shape == (arguments[1].shape[0], arguments[2].shape[1]))


class Sizes:
    """What the ops of a step need to be run in its order. `workspaces` has bytes by node."""

    def __init__(self, nodes, workspaces):
        self.ring = self.zeros = self.made = 0
        places = {}
        for node in nodes:
            given = values_of(node)
            self.ring = max(self.ring, sum(map(_Ring._bytes, given)))
            self.zeros = max([self.zeros, *(v.untyped_storage().nbytes() for v in given if v.dtype not in DRAWN)])
            made = {key_of(v): v.untyped_storage().nbytes() for v in tensors_of(node.meta.get("val"))}
            new = sum(_rounded(size) for key, size in made.items() if key not in set(map(key_of, given)))
            self.made = max(self.made, new + workspaces.get(node, 0))
            if _adds_to_matrix(node.target, given):
                places[given[0].shape, given[0].dtype] = _rounded(given[0].numel() * given[0].element_size())
        self.others = _rounded(self.zeros) + self.made + sum(places.values())

    def ring_within(self, room):
        """The bytes of the ring, several times a cache if `room` permits it; None if there is too little room."""
        if room is None or max(self.ring, RING) + self.others <= room:
            return max(self.ring, RING)
        left = (room - self.others - (SPARE if self.others > SPARE else 0)) // ALIGNMENT * ALIGNMENT
        return left if left >= max(self.ring, ALIGNMENT) else None


class _Step:
    """The ops of a graph as calls in order; `forms` are functions by those nodes that are called in another form, with None
    as destinations of their results."""

    def __init__(self, nodes, ring, forms=()):
        get = lambda a: a.meta.get("val") if isinstance(a, torch.fx.Node) else a
        given, places = [torch.fx.node.map_aggregate((n.args, n.kwargs), get) for n in nodes], {}
        calls = [(n.target, *torch.fx.node.map_aggregate(g, ring.operand)) for n, g in zip(nodes, given)]
        calls = [(forms[n], ([None] * len(n.meta["val"]), *call[1]), call[2]) if n in forms else call
                 for n, call in zip(nodes, calls)]
        self.calls = [as_planned(*call, places) for call in calls]

    def run(self, after=lambda: None):
        for target, arguments, keywords in self.calls:
            target(*arguments, **keywords)
            after()

    def settle(self):
        """Run until the clock has settled; whether Python is fast enough for the GPU never to wait for it."""
        self.run()
        torch.cuda.synchronize()
        start = time.perf_counter()
        self.run()
        python = time.perf_counter() - start
        torch.cuda.synchronize()
        both = time.perf_counter() - start
        for _ in range(int(SETTLE / both) + 1):
            self.run()
        return python < 0.8 * both

    def total_ms(self):
        """The time of the whole step."""
        return _fastest(self.run)

    def recorded_ms(self, runs):
        """The time of the whole step when it is recorded, several times in one graph: a graph takes some microseconds to
        begin, which count only once in the step."""
        torch.cuda.synchronize()
        _torch.clear_cublas_workspaces()  # those of the graph are in its own memory
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(runs):
                self.run()
        graph.replay()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        while time.perf_counter() - begun < SETTLE:
            graph.replay()
            torch.cuda.synchronize()
        found = _fastest(graph.replay) / runs
        graph.reset()
        _torch.clear_cublas_workspaces()
        return found

    def each_ms(self):
        """The time of every op, with that of the events around it."""
        events = [_event()]
        for _ in range(ROUNDS):
            self.run(lambda: events.append(_event()))
        torch.cuda.synchronize()
        times, count = [a.elapsed_time(b) for a, b in zip(events, events[1:])], len(self.calls)
        return [min(times[i::count]) for i in range(count)]


def _fastest(call):
    """The fastest of several runs that follow each other, in milliseconds: others may use the device."""
    events = [_event()]
    for _ in range(2 * ROUNDS):
        call()
        events.append(_event())
    torch.cuda.synchronize()
    return min(a.elapsed_time(b) for a, b in zip(events, events[1:]))


def _event():
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _without_events(times, total):
    """Times that add up to the total: every one without the same share of what events take, at most half of it."""
    extra = max(sum(times) - total, 0) / len(times)
    times = [max(t - extra, t / 2) for t in times]
    factor = total / sum(times)
    return [t * factor for t in times]


def times_of(gm, signature_of, second_of, alone, device, recorded, room):
    """Nanoseconds by signature of the ops of a graph that were measured `alone`, with their time and workspace there, under
    the load of all of them. `recorded`: the step will be a CUDA graph. Otherwise, where the GPU waits for Python, nothing
    better than `alone` is known; nor is it where the ops do not fit into `room` bytes. `second_of` gives the other form of a
    node, with its signature, or None."""
    nodes = [n for n in gm.graph.nodes if n.op == "call_function" and makes_storage(n) and not is_effect(n)
             and not is_collective(n) and signature_of(n) in alone]
    forms = {n: form for n in nodes if (form := second_of(n)) is not None}
    workspaces = {n: alone[signature_of(n)][1] for n in nodes}
    workspaces.update({n: max(workspaces[n], alone[signature][1]) for n, (_, signature) in forms.items()})
    sizes = Sizes(nodes, workspaces)
    size = sizes.ring_within(room)
    if not nodes or size is None:
        return {}
    ring = _Ring(size, sizes.zeros, device)
    step = _Step(nodes, ring)
    fast = step.settle()
    if not (fast or recorded):
        return {}
    each = step.each_ms() if fast else [alone[signature_of(n)][0] / 1e6 for n in nodes]
    runs = min(1 + int(RECORDED / sum(alone[signature_of(n)][0] for n in nodes)), RUNS)
    total = step.recorded_ms(runs) if recorded else step.total_ms()
    found = {}
    for node, t in zip(nodes, _without_events(each, total)):
        found.setdefault(signature_of(node), []).append(t)
    found = {signature: max(int(1e6 * sum(ts) / len(ts)), 1) for signature, ts in found.items()}
    if recorded and forms:
        del step  # it has memory of its own
        step = _Step(nodes, ring, {n: form for n, (form, _) in forms.items()})
        more = int(1e6 * (step.recorded_ms(runs) - total))
        found.update(_in_step([(found[signature_of(n)], signature) for n, (_, signature) in forms.items()], more, alone))
    return found


def _in_step(forms, more, alone):
    """Times of the other forms in a step, in which all together take `more` nanoseconds than the ops, by signature.
    `forms` has for each op its own time and the signature of the form. They add up to what the step tells; it differs from
    `alone`, as such forms take less power than products, which then have a higher clock."""
    known = sum(alone[signature][0] for _, signature in forms)
    share = min(max((sum(time_ns for time_ns, _ in forms) + more) / known, 1 / MOST_CHANGE), MOST_CHANGE)
    return {signature: max(int(share * alone[signature][0]), 1) for _, signature in forms}
