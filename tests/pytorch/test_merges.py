"""Groups that mode "compiled" merges only where one kernel is measured to be faster than several."""

import copy
import functools
import os
import tempfile
import unittest
import unittest.mock

import torch
from torch import nn

import cairn
from cairn import _compiled, _costs, _merges, _pairs, _rows
from common import same, train, with_cairn
from compiled_networks import MODE, planner_of, unmeasured
from test_forms import Biased


def kernels_of(planner):
    return [op.node.target for op in planner.joint.ops if _compiled.is_kernel(op) and op.backward]


def with_sums(planner):
    """The kernels that make a gradient and the sum over its rows."""
    return [k for k in kernels_of(planner) if sorted(n.meta["val"].dim() for n in k.outputs()) == [2, 2]]


def slow(microseconds, results, missing, table):
    """Measure nothing: kernels with so many results take so long, all others 1000 us."""
    for signature, node in missing.items():
        several = isinstance(node.meta["val"], tuple) and len(node.meta["val"]) >= results
        table.set(signature, 1000 * (microseconds if several else 1000), 0)


def measured(microseconds, results=2):
    return unittest.mock.patch.object(_costs, "_measure_cpu", functools.partial(slow, microseconds, results))


@unittest.skipIf(torch.cuda.is_available(), "kernels of a processor")
class Merged(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model, self.x = Biased(), (torch.randn(2048, 64),)
        self.fresh = functools.partial(unittest.mock.patch.dict, _compiled._kernels, clear=True)

    def test_faster(self):
        """A merged kernel is used unless its parts are faster by 5%; another process with the same costs does the same, and
        neither measures nor compiles what it does not use. The smallest budget is the same."""
        smallest = []
        for microseconds, merged in ((1900, True), (2050, True), (2200, False)):
            with tempfile.TemporaryDirectory() as folder:
                options = dict(costs=os.path.join(folder, "costs.json"))
                with self.fresh(), measured(microseconds):
                    first = planner_of(self.model, self.x, **options)
                with self.fresh(), unittest.mock.patch.dict(_costs._known, clear=True), \
                        unittest.mock.patch.object(_costs, "_measure_cpu", side_effect=AssertionError):
                    second = planner_of(self.model, self.x, **options)
                    used = kernels_of(second)
                    others = [k for k in _compiled._kernels.values() if k not in used and k.divided is not None]
            for planner in (first, second):
                self.assertEqual(bool(with_sums(planner)), merged)
                smallest.append(planner.smallest()[0])
            self.assertEqual(bool(others), not merged)
            self.assertTrue(all(k.forms[0]._compiled is None for k in others))
        self.assertLessEqual(max(smallest), 1.01 * min(smallest))

    def test_bits(self):
        """Of divided groups too the bits are the same at every budget, and near to those of eager execution."""
        plain = copy.deepcopy(self.model)
        expected = train(plain, plain, self.x, steps=1)
        with tempfile.TemporaryDirectory() as folder, self.fresh(), measured(2200):
            options = dict(MODE, costs=os.path.join(folder, "costs.json"))
            backend = cairn.backend(**options)
            found = with_cairn(self.model, self.x, backend, steps=1)
            self.assertEqual(with_sums(backend.planners[0]), [])
            torch.testing.assert_close(found[1][0], expected[1][0])
            for more in (dict(budget="85%"), dict(budget="85%", arena=True), dict(arena=True)):
                self.assertTrue(same(found, with_cairn(self.model, self.x, cairn.backend(**options, **more), steps=1)))

    def test_statistics(self):
        """In the forward part too: statistics of a value are made with it, unless that is slower."""
        for microseconds, merged in ((1900, True), (2200, False)):
            with tempfile.TemporaryDirectory() as folder, self.fresh(), measured(microseconds, results=3):
                planner = planner_of(Normed(), (torch.randn(512, 128),), costs=os.path.join(folder, "costs.json"))
            forward = [op.node.target for op in planner.joint.ops if _compiled.is_kernel(op) and not op.backward]
            self.assertEqual(any(len(kernel.outputs()) == 3 for kernel in forward), merged)

    def test_unknown(self):
        """Kernels that cannot be measured stay merged."""
        with self.fresh(), unmeasured():
            self.assertTrue(with_sums(planner_of(self.model, self.x)))


class Loss(nn.Module):
    """In chunks of 16 rows, whose logits are large; but the gradient of the last layer has four times their size, so that
    there is room for ops one by one."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 2048, bias=False)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.head(torch.relu(self.body(x))), y)


@unittest.skipIf(torch.cuda.is_available(), "kernels of a processor")
class Memory(unittest.TestCase):
    def planner(self, merged, apart, one_by_one):
        """With times of kernels that make several values, for each but the first, of others, and of these with ops one by
        one."""
        measure = _costs._measure_cpu

        def fixed(missing, table):
            measure(missing, table)
            for signature, node in missing.items():
                more = len(node.meta["val"]) - 1 if isinstance(node.meta["val"], tuple) else 0
                time = more * merged or (one_by_one if ".aten" in signature else apart)
                table.set(signature, 1000 * time, *table.figures[signature][1:])
        inputs = torch.randn(64, 64), torch.randint(0, 2048, (64,))
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(_compiled._kernels, clear=True), \
                unittest.mock.patch.object(_costs, "_measure_cpu", fixed):
            return planner_of(Loss(), inputs, chunks=4, costs=os.path.join(folder, "costs.json"))

    def test_none_for_time(self):
        """Whatever is faster, a divided group needs no more memory: its sums come before the logits are overwritten, and
        none of its parts has ops that write down what a kernel computes inside."""
        planners = [self.planner(*times) for times in ((100, 100, 100), (300, 100, 100), (300, 100, 10))]
        kernels = [sum(map(_compiled.is_kernel, planner.joint.ops)) for planner in planners]
        self.assertGreater(kernels[1], kernels[0])
        self.assertLess(kernels[2], kernels[1])
        merged = planners[0]
        for planner in planners[1:]:
            self.assertLessEqual(planner.none().peak, merged.none().peak + 4096)  # of statistics
            self.assertLessEqual(planner.smallest()[0], merged.smallest()[0] + 4096)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(128) for _ in range(3))

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x))
        return x.square().mean()


class Order(unittest.TestCase):
    def test_sums_first(self):
        """The sums of a norm's gradient that are made apart come before the gradient, which may overwrite what they read."""
        def apart(divide, kernel_of, measure):
            asked = [u for u in divide(()).units if getattr(u, "halves", ())]
            self.assertGreaterEqual(len(asked), 2)
            return divide(_merges.halves_of(asked))
        with unmeasured(), unittest.mock.patch.object(_rows, "available", lambda device: True), \
                unittest.mock.patch.object(_pairs, "find", lambda *_: []), \
                unittest.mock.patch.dict(_compiled._kernels, clear=True), \
                unittest.mock.patch.object(_merges, "grouped", apart):
            planner = planner_of(Normed(), (torch.randn(512, 128),))
        ops = [op for op in planner.joint.ops if _compiled.is_kernel(op) and op.backward]
        large = 512 * 128 * 4
        sums = [op for op in ops if all(s.bytes < large for s in op.outs)]
        pairs = [(one, other) for one in sums for other in ops if any(s.bytes == large for s in other.outs)
                 and {s for s in one.reads if s.bytes == large} <= set(other.reads) and not set(other.outs) & set(one.reads)]
        self.assertGreaterEqual(len(pairs), 2)
        for one, other in pairs:
            self.assertLess(one.index, other.index)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
