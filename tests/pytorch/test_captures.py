"""Captured steps in PyTorch's cache: a step that is found there has the bits, the plans and the errors of one that was
captured."""

import contextlib
import copy
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import cairn
import torch
import torch.nn.functional as F
from cairn import _captures, _compiled, _costs, _inductor, _pairs
from torch import nn

from common import compiled, same, with_cairn
from compiled_networks import MODE, budgets, prepared

FOUND = _captures.Keeper.found
NETWORKS = ("gpt", "resnet", "llama")


@contextlib.contextmanager
def no_captures(**folders):
    """No step was captured before, and the process knows no kernel; but those that Inductor has compiled are there. The
    folder of costs is a part of the key."""
    kernels, pairs = dict(_compiled._kernels), dict(_pairs._pairs)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CAIRN_CACHE=folder, **folders):
        try:
            forget_kernels()
            yield folder
        finally:
            for known, before in ((_compiled._kernels, kernels), (_pairs._pairs, pairs)):
                known.clear()
                known.update(before)


def forget_kernels():
    """As in a new process."""
    _costs._known.clear()
    _compiled._kernels.clear()
    _pairs._pairs.clear()


@contextlib.contextmanager
def counting():
    """The number of steps that were found, as the only element of a list; each has two parts."""
    count = [0]

    def found(keeper, part, inputs):
        count[0] += not part.backward
        return FOUND(keeper, part, inputs)
    with mock.patch.object(_captures.Keeper, "found", found):
        yield count


class Found(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in NETWORKS:
            prepared(name)

    def check(self, model, inputs, *backends, hits=None):
        """The first backend captures, and all others find the step; results are the same."""
        with no_captures(), counting() as count:
            expected = with_cairn(model, inputs, backends[0], steps=2)
            self.assertEqual(count, [0])
            for backend in backends[1:]:
                forget_kernels()
                self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=2)))
            self.assertEqual(count, [len(backends) - 1 if hits is None else hits])

    def test_networks(self):
        """Other budgets, with and without an arena; dropout, running statistics, tied weights."""
        for name in NETWORKS:
            with self.subTest(name):
                model, inputs, planner, _ = prepared(name)
                half, least = (budgets(planner, 3)[i] for i in (1, 0))
                self.check(model, inputs, *(cairn.backend(budget, **MODE, **more) for budget, more in (
                    (None, {}), (None, {}), (half, {}), (least, {}), (None, dict(arena=True)), (None, dict(check=True)))))

    def test_logits(self):
        """Gradients that may be absent: one arrives, or none does."""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(16, 64)

            def forward(self, x, y):
                logits = self.head(x)
                return F.cross_entropy(logits.flatten(0, 1), y.flatten()), logits
        torch.manual_seed(0)
        model, inputs = Model(), (torch.randn(2, 8, 16), torch.randint(0, 64, (2, 8)))

        def gradients(used):
            mine, backend = copy.deepcopy(model), cairn.backend(**MODE)
            loss, logits = compiled(mine, backend)(*inputs)
            (loss + logits.square().mean() if used else loss).backward()
            self.assertEqual(len(backend.plans[0].joint.absent), 1)
            return [p.grad for p in mine.parameters()]
        with no_captures(), counting() as count:
            captured = [gradients(used) for used in (False, True)]
            forget_kernels()
            found = [gradients(used) for used in (False, True)]
            self.assertEqual(count, [3])
        self.assertTrue(same(captured, found))
        self.assertFalse(same(*captured))

    def test_twice(self):
        """Two backward passes through a step that was found."""
        model, inputs = nn.Linear(8, 1), (torch.randn(4, 8),)

        def gradients():
            mine = copy.deepcopy(model)
            loss = compiled(lambda x: mine(x).square().sum(), cairn.backend(**MODE))(*inputs)
            loss.backward(retain_graph=True)
            loss.backward()
            return [p.grad for p in mine.parameters()]
        with no_captures(), counting() as count:
            self.assertTrue(same(gradients(), gradients()))
            self.assertEqual(count, [1])

    def test_surroundings(self):
        """What a capture depends on is part of the key: autocast, frozen parameters, shapes, options."""
        model, inputs = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1)), (torch.randn(4, 8),)

        def gradients(*given, frozen=False, cast=False, **options):
            mine = copy.deepcopy(model)
            mine[0].requires_grad_(not frozen)
            call = compiled(lambda x: mine(x).sum(), cairn.backend(**MODE, **options))
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
                loss = call(*given)
            loss.backward()
            return loss.detach(), [p.grad for p in mine.parameters()]
        settings = [dict(), dict(frozen=True), dict(cast=True), dict(loss_only=True)]
        with no_captures(), counting() as count:
            before = [gradients(*inputs, **setting) for setting in settings] + [gradients(inputs[0][:3])]
            self.assertEqual(count, [0])
            forget_kernels()
            after = [gradients(*inputs, **setting) for setting in settings] + [gradients(inputs[0][:3])]
            self.assertEqual(count, [5])
        self.assertTrue(same(before, after))
        self.assertFalse(same(before[0][0], before[2][0]))
        self.assertIsNone(before[1][1][0])

    def test_attention(self):
        """Which kernels of attention the user allows is a part of the key."""
        model, x = nn.Linear(8, 24), torch.randn(2, 4, 8)

        def loss(kind):
            mine = copy.deepcopy(model)
            attend = lambda x: F.scaled_dot_product_attention(*mine(x)[:, None].chunk(3, -1)).sum()
            call = compiled(attend, cairn.backend(**MODE))
            with torch.nn.attention.sdpa_kernel(kind):
                return call(x).detach()
        kinds = [torch.nn.attention.SDPBackend.FLASH_ATTENTION, torch.nn.attention.SDPBackend.MATH]
        with no_captures(), counting() as count:
            for kind in kinds:
                loss(kind)
            self.assertEqual(count, [0])
            for kind in kinds:
                loss(kind)
            self.assertEqual(count, [2])

    def test_overlap(self):
        """Inputs that share memory are others than those that do not."""
        model, x = nn.Linear(8, 8), torch.randn(4, 8)

        def loss(y):
            mine = copy.deepcopy(model)
            found = compiled(lambda x, y: (mine(x) * y).sum(), cairn.backend(**MODE))(x, y)
            found.backward()
            return found.detach(), [p.grad for p in mine.parameters()]
        with no_captures(), counting() as count:
            apart, together = loss(x.clone()), loss(x[:])
            self.assertEqual(count, [0])
            self.assertTrue(same(apart, together) and same(loss(x.clone()), loss(x[:])))
            self.assertEqual(count, [2])

    def test_compilers(self):
        """Inductor's processes are started only where a step is captured."""
        model, inputs, *_ = prepared("gpt")
        with no_captures(), mock.patch.object(_inductor, "start_compilers") as start:
            for _ in range(2):
                with_cairn(model, inputs, cairn.backend(**MODE), steps=1)
                self.assertEqual(start.call_count, 1)

    def test_refused(self):
        """A budget that is too small is refused in the same words, without a capture for nothing."""
        model, inputs, *_ = prepared("gpt")

        def refusal():
            with self.assertRaises(cairn.BudgetError) as caught:
                with_cairn(model, inputs, cairn.backend(1000, **MODE), steps=1)
            return str(caught.exception)
        with no_captures():
            captured = refusal()
            with_cairn(model, inputs, cairn.backend(**MODE), steps=1)
            with mock.patch.object(_compiled, "_divided", side_effect=AssertionError("captured")):
                self.assertEqual(captured, refusal())

    def test_new_costs(self):
        """Costs are not kept with a step: without their file ops are measured again."""
        model, inputs, *_ = prepared("gpt")
        with no_captures() as folder, counting() as count:
            with_cairn(model, inputs, cairn.backend(**MODE), steps=1)
            for file in os.listdir(folder):
                os.remove(os.path.join(folder, file))
            backend = cairn.backend(**MODE)
            with mock.patch.dict(_costs._known, clear=True):  # as in a new process
                with_cairn(model, inputs, backend, steps=1)
            self.assertEqual(count, [1])
            self.assertGreater(backend.planners[0].table.measured, 0)

    def test_not_kept(self):
        """What cannot be kept is captured again."""
        model, inputs, *_ = prepared("gpt")
        with mock.patch.object(_captures, "_Data", side_effect=_captures.Unkept):
            self.check(model, inputs, cairn.backend(**MODE), cairn.backend(**MODE), hits=0)

    def test_damaged(self):
        """A file that cannot be read is as none."""
        model, inputs = nn.Linear(8, 1), (torch.randn(4, 8),)

        def loss():
            found = compiled(lambda x: model(x).sum(), cairn.backend(**MODE))(*inputs)
            found.backward()
            return found.detach()
        with tempfile.TemporaryDirectory() as folder, no_captures(TORCHINDUCTOR_CACHE_DIR=folder), counting() as count:
            expected = loss()
            files = [os.path.join(where, name) for where, _, names in os.walk(os.path.join(folder, "aotautograd"))
                     for name in names]
            self.assertTrue(files)
            for file in files:
                os.truncate(file, os.path.getsize(file) // 2)
            self.assertTrue(same(expected, loss()))
            self.assertEqual(count, [0])


class Processes(unittest.TestCase):
    def test_new_process(self):
        """A step of another process, found without tracing; the loss in chunks."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "captured_script.py")
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder, CAIRN_CACHE=folder)
            options = dict(env=environment, capture_output=True, text=True, check=True)
            said = [subprocess.run([sys.executable, script], **options).stdout for _ in range(2)]
        self.assertEqual([text.split()[0] for text in said], ["captured", "found"])
        self.assertEqual(said[0].split()[1], said[1].split()[1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
