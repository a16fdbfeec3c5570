"""Attention and its backward op in slices: the bits of the op, less memory, and only where a plan wants it."""

import copy
import functools
import types
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import cairn
from cairn import _arena, _backend, _slices
from common import allocator_peak, compiled, same, with_cairn
from compiled_networks import fixed_times

MODE = dict(mode="compiled")
OP = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


class Attention(nn.Module):
    """Layers of attention and nothing else, so that it sets the smallest budget."""

    def __init__(self, width=64, heads=4, layers=3):
        super().__init__()
        self.heads = heads
        self.first = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.last = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for first, last in zip(self.first, self.last):
            q, k, v = (u.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for u in first(x).chunk(3, -1))
            x = x + last(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
        return x.square().mean()


def made():
    torch.manual_seed(0)
    return Attention(), (torch.randn(8, 128, 64),)


def operands(batches=4, heads=6):
    torch.manual_seed(0)
    q, k, v, gradient = (torch.randn(batches, 32, heads, 16).transpose(1, 2) for _ in range(4))
    out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    return gradient, q, k, v, out, sums, 0.0, False


class Form(unittest.TestCase):
    def form(self, arguments, target=OP):
        return _slices.InSlices(target, range(6), (2, 3), OP(*arguments))

    def test_bits(self):
        arguments = operands()
        expected, form = OP(*arguments), self.form(arguments)
        places = [torch.full_like(t, 7) for t in expected]
        self.assertTrue(same(list(expected), list(form([None] * 3, *arguments))))
        self.assertTrue(same(list(expected), list(form([places[0], None, places[2]], *arguments))))
        self.assertTrue(torch.equal(places[0], expected[0]) and torch.equal(places[2], expected[2]))
        self.assertTrue(_slices.is_same(form, arguments, {}))

    def test_forward(self):
        """Attention itself: both results, at given places or new ones; what has no batches is there too."""
        target = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
        q, k, v = operands()[1:4]
        expected = target(q, k, v)
        call = lambda *given: (*target(*given), 5)
        call.overloadpacket = types.SimpleNamespace(__name__="op")
        form = _slices.InSlices(call, range(3), (2, 3), (*expected, 5))
        place = torch.full_like(expected[0], 7)
        found = form([place, None, None], q, k, v)
        self.assertTrue(same(list(expected), list(found[:2])))
        self.assertEqual(found[2], 5)
        self.assertEqual(found[0].data_ptr(), place.data_ptr())
        self.assertTrue(_slices.is_same(form, (q, k, v), {}))

    def test_other_bits_are_refused(self):
        """Of an op that repeats its bits, parts must have these bits; of one that does not, they must be close."""
        arguments, noise = operands(), torch.Generator().manual_seed(0)

        def target(*given, scale=1e-3, whole=1.0):
            part = given[0].shape != arguments[0].shape
            return [t * (1 + scale * torch.randn(t.shape, generator=noise)) * (whole if part else 1) for t in OP(*given)]

        def exact(*given):
            return [t * (1 + 1e-6) if given[0].shape != arguments[0].shape else t for t in OP(*given)]

        def rarely(*given):
            """Other bits in every sixth run only, as of an op whose parts mostly come in the same order."""
            runs.append(given[0].shape == arguments[0].shape)
            return target(*given) if not runs[-1] or sum(runs) % 6 == 0 else OP(*given)
        runs: list[bool] = []
        packet = dict(overloadpacket=types.SimpleNamespace(__name__="op"))
        for call, expected in ((exact, False), (target, True), (lambda *given: target(*given, whole=1.1), False),
                               (rarely, True)):
            for name, value in packet.items():
                setattr(call, name, value)
            self.assertEqual(_slices.is_same(self.form(arguments, call), arguments, {}), expected)

    def test_number_of_slices(self):
        shapes = (8, 16), (4, 32), (64, 16), (1, 12), (7, 5), (11, 3), (1, 1)
        self.assertEqual([_slices._slices_of(*shape) for shape in shapes],
                         [(8, 1), (4, 2), (8, 1), (1, 6), (7, 1), (1, 3), (1, 1)])


class Steps(unittest.TestCase):
    def test_arena(self):
        """In a tight arena the results have planned addresses, and one part at a time needs memory beside it."""
        model, inputs = made()
        expected = with_cairn(model, inputs, cairn.backend(**MODE), steps=2)
        backend = cairn.backend(arena=True, **MODE)
        with_cairn(model, inputs, backend, steps=1)
        planner, layout = backend.planners[0], functools.partial(_arena.Layout, sliced=_arena.EVERYTHING)
        self.assertEqual(backend.plans[0].layout.second, set())
        with mock.patch.object(_arena, "Layout", layout):
            backend = cairn.backend(arena=True, **MODE)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=2)))
            plan = backend.plans[0]
            self.assertEqual(len(plan.layout.second), 6)
            mine = copy.deepcopy(model)
            call = compiled(mine, backend)
            call(*inputs).backward()
            mine.zero_grad(set_to_none=True)
            peak = allocator_peak(lambda: call(*inputs).backward())
        self.assertLessEqual(peak, plan.peak)
        self.assertGreater(peak, 0.99 * plan.peak)
        made_by = sum(s.bytes for op in plan.joint.ops if op.second is not None and op.backward for s in op.outs) // 3
        with mock.patch.object(_slices, "second_of", lambda op, table: None):
            for op in planner.joint.ops:
                op.second = None
            whole = layout(planner.joint, planner.step.solve("none"), planner.alignment, planner.kept)
        self.assertLessEqual(max(plan.layout.workspace), max(whole.workspace) + made_by // 8 + 64)
        self.assertEqual(plan.layout.solution.steps, whole.solution.steps)
        for i in plan.layout.second:
            self.assertLess(plan.layout._taken()[i], whole._taken()[i])

    def test_backward(self):
        """Or only the backward part of attention runs in slices, which takes most of the memory."""
        model, inputs = made()
        expected = with_cairn(model, inputs, cairn.backend(**MODE), steps=2)
        with mock.patch.object(_arena, "Layout", functools.partial(_arena.Layout, sliced=_arena.BACKWARD)):
            backend = cairn.backend(arena=True, **MODE)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=2)))
        plan = backend.plans[0]
        in_slices = [plan.joint.ops[plan.steps[i][1]] for i in plan.layout.second]
        self.assertEqual([op.backward for op in in_slices], [True] * 3)
        self.assertEqual(plan.layout.slower_ns - sum(op.second.time_ns - op.time_ns for op in in_slices),
                         sum(plan.layout._copy_ns(plan.layout.placed[key][0]) for key in plan.layout.copied))

    def test_slow_slices(self):
        """In an arena that is not the smallest: a plan without slices is used if those take long, even if a plan with more
        memory would fit with them."""
        model, inputs = made()
        second_of = _slices.second_of

        def slow(op, table):
            second = second_of(op, table)
            return None if second is None else second._replace(time_ns=50 * op.time_ns)
        with fixed_times(), mock.patch.object(_slices, "second_of", slow):
            planner = _backend.planner_of(model, inputs, _backend.Options(arena=True, **MODE))
            most, least = planner.none().peak, planner.smallest()[0]
            layouts = [planner.within(least + (most - least) * share // 8).layout for share in range(1, 8)]
        self.assertTrue(planner._tightest.layout.sliced)
        self.assertFalse(layouts[-1].sliced)
        self.assertLessEqual(sum(layout.sliced > 0 for layout in layouts), 4)

    def test_plan_chooses(self):
        """Without an arena: where the workspace is what does not fit."""
        model, inputs = made()
        expected = with_cairn(model, inputs, cairn.backend(**MODE), steps=2)
        second_of = _slices.second_of

        def large(op, table):
            second = second_of(op, table)
            if second is None or not op.backward:
                return None
            op.workspace = second.workspace + (4 << 20)
            return second._replace(time_ns=2 * op.time_ns)
        with mock.patch.object(_slices, "second_of", large):
            backend = cairn.backend(**MODE)
            with_cairn(model, inputs, backend, steps=1)
            self.assertEqual(backend.plans[0].second, set())
            planner = backend.planners[0]
            backend = cairn.backend(planner.smallest()[0] + planner.reserve, check=True, **MODE)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=2)))
            plan = backend.plans[0]
            self.assertEqual(len(plan.second), 3)
            self.assertEqual(backend.meters[0].differences, [])
            again = planner.read(plan.text())
            self.assertEqual((again.second, again.peak, again.time_ns), (plan.second, plan.peak, plan.time_ns))


if __name__ == "__main__":
    unittest.main()
