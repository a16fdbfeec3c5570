"""The times of ops under load: those that they take in the middle of a step.

An op that is measured alone runs on a cool GPU, at its highest clock, with operands that are in the cache. So after the
ops of a step were measured one by one, they are run in the order of the step, again and again, until the clock has
settled, and these times count. Operands are pieces of one tensor, taken in turns, so that a step of many tensors needs
little memory.
"""

import time

import torch

from . import _torch
from ._geometry import makes_storage
from ._joint import is_collective, is_effect
from ._real import DRAWN, random_like

SETTLE_MS = 200  # of running before times are taken
ROUNDS = 4  # in which they are taken
RING = 256 << 20  # bytes, several times a cache
ALIGNMENT = 512
QUEUE = 200  # ops with events that the GPU's queue holds
CYCLES = 2_000_000  # of a GPU in about a millisecond


class _Ring:
    """Operands of many ops in one tensor of random numbers; integers are 0."""

    def __init__(self, values, device):
        sizes = [sum(self._bytes(v) for v in given) for given in values]
        self.bytes, self.at = max(sizes + [RING]), 0
        self.drawn = torch.rand(self.bytes // 2, dtype=torch.bfloat16, device=device)
        zeros = max((v.untyped_storage().nbytes() for given in values for v in given if v.dtype not in DRAWN), default=0)
        self.zeros = torch.zeros(zeros, dtype=torch.uint8, device=device)

    @staticmethod
    def _bytes(value):
        return -(-value.untyped_storage().nbytes() // ALIGNMENT) * ALIGNMENT if value.dtype in DRAWN else 0

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


class _Step:
    """The ops of a graph as calls in order, with their signatures."""

    def __init__(self, nodes, device):
        get = lambda a: a.meta.get("val") if isinstance(a, torch.fx.Node) else a
        given = [torch.fx.node.map_aggregate((n.args, n.kwargs), get) for n in nodes]
        tensors = [[v for v in _torch.pytree.tree_leaves(g) if isinstance(v, torch.Tensor)] for g in given]
        ring = _Ring(tensors, device)
        self.calls = [(n.target, *torch.fx.node.map_aggregate(g, ring.operand)) for n, g in zip(nodes, given)]

        self.parts, self.ahead = [range(len(self.calls))], 0

    def run(self, part, after=lambda: None):
        for i in part:
            target, arguments, keywords = self.calls[i]
            target(*arguments, **keywords)
            after()

    def settle(self):
        """Run until the clock has settled. Where Python is slower than the GPU, the GPU is to wait for it in between, and
        not in the middle of what is measured."""
        whole, = self.parts
        self.run(whole)
        torch.cuda.synchronize()
        start = time.perf_counter()
        self.run(whole)
        python = 1e3 * (time.perf_counter() - start)
        torch.cuda.synchronize()
        both = 1e3 * (time.perf_counter() - start)
        if python > 0.8 * both:
            self.parts = [whole[i:i + QUEUE] for i in range(0, len(whole), QUEUE)]
            self.ahead = int(CYCLES * python / len(self.parts))
        for _ in range(int(SETTLE_MS / both) + 1):
            self.run(whole)

    def _event(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _begin(self):
        if self.ahead:
            _torch.sleep_cuda(self.ahead)
        return self._event()

    def total_ms(self):
        """The mean time of the whole step."""
        ends = []
        for _ in range(ROUNDS):
            for part in self.parts:
                start = self._begin()
                self.run(part)
                ends.append((start, self._event()))
        torch.cuda.synchronize()
        return sum(a.elapsed_time(b) for a, b in ends) / ROUNDS

    def each_ms(self):
        """The mean time of every op, with that of the events around it."""
        times, rounds = [], []
        for _ in range(ROUNDS):
            for part in self.parts:
                events = [self._begin()]
                self.run(part, lambda: events.append(self._event()))
                rounds.append(events)
        torch.cuda.synchronize()
        for events in rounds:
            times += [a.elapsed_time(b) for a, b in zip(events, events[1:])]
        count = len(self.calls)
        return [sum(times[i::count]) / ROUNDS for i in range(count)]


def _without_events(times, total):
    """Times that add up to the total: every one without the same share of what events take, at most half of it."""
    extra = max(sum(times) - total, 0) / max(len(times), 1)
    times = [max(t - extra, t / 2) for t in times]
    factor = total / sum(times)
    return [t * factor for t in times]


def times_of(gm, signature_of, known, device):
    """Nanoseconds by signature of the ops of a graph that are `known`, under the load of all of them."""
    nodes = [n for n in gm.graph.nodes if n.op == "call_function" and makes_storage(n) and not is_effect(n)
             and not is_collective(n) and signature_of(n) in known]
    if not nodes:
        return {}
    step = _Step(nodes, device)
    step.settle()
    total = step.total_ms()
    found = {}
    for node, t in zip(nodes, _without_events(step.each_ms(), total)):
        found.setdefault(signature_of(node), []).append(t)
    return {signature: max(int(1e6 * sum(ts) / len(ts)), 1) for signature, ts in found.items()}
