"""Batch norms as on a GPU: cuDNN's put back, and split in two halves. On the processor kernels of the same names stand in
for those that only a GPU has; their bits are those of the processor's own norm."""

import unittest
from unittest import mock

import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher

import cairn
from cairn import _backend, _kernels, _norms, _write
from cairn._real import real_tensors
from common import reference, same, with_cairn
from small_models import Basic, ResNet

aten = torch.ops.aten


called = []


def norm(x, weight, bias, mean, var, training, momentum, eps):
    called.append(x.shape)
    return (*torch.native_batch_norm(x, weight, bias, mean, var, training, momentum, eps),
            torch.zeros(48, dtype=torch.uint8))


def norm_backward(x, grad, weight, mean, var, save_mean, save_invstd, eps, reserve):
    return aten.native_batch_norm_backward(grad, x, weight, None, None, save_mean, save_invstd, True, eps, [True] * 3)


def apply(x, weight, bias, mean, invstd, eps):
    return torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)[0]


LIBRARY = torch.library.Library("aten", "IMPL")
LIBRARY.impl("cudnn_batch_norm", norm, "CPU")
LIBRARY.impl("cudnn_batch_norm_backward", norm_backward, "CPU")
LIBRARY.impl("batch_norm_elemt", apply, "CPU")
NORMS = torch.library.Library("cairn", "IMPL")
NORMS.impl("apply_norm", lambda *given: _norms.apply_norm(*given), "CPU")


def imitate(name, x, weight, bias, mean, invstd, out, formula, *others):
    """The kernels that fuse, by ATen's ops; one formula has the bits of the norm."""
    y = apply(x, weight, bias, mean, invstd, 1e-5)
    if formula != 2:
        y = torch.nextafter(y, y + 1)
    for other in others:
        y = y + other
    return out.copy_(torch.relu(y) if name.endswith("relu") else y)


def as_on_a_gpu(cudnn=True, split=True):
    return (mock.patch.object(_norms._Norm, "on_device", lambda self: True),
            mock.patch.object(_norms, "chooses_cudnn", lambda *_: True),
            mock.patch.object(_norms, "reserve_bytes", lambda x: 48),
            mock.patch.object(_norms.Switches, "cudnn", cudnn),
            mock.patch.object(_norms.Switches, "split", split))


def with_kernels():
    return (mock.patch.object(_kernels, "takes", lambda x: x.is_contiguous()),
            mock.patch.object(_kernels, "available", lambda: True),
            mock.patch.object(_kernels, "norm", imitate),
            mock.patch.object(_kernels, "add_relu", lambda a, b, out: out.copy_(torch.relu(a + b))),
            mock.patch.object(_kernels, "add_gate", lambda a, b, y, out: out.copy_(aten.threshold_backward(a + b, y, 0))),
            mock.patch.object(_write.Writer, "on_gpu", lambda self: True))


def residual():
    """A network with norms before a ReLU, before a sum, and on both sides of one; and its inputs."""
    torch.manual_seed(0)
    return ResNet(Basic, (1, 1, 1), width=8), (torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,)))


class Norms(unittest.TestCase):
    def check(self, model, inputs, targets, share=0.3, **switches):
        expected = reference(model, inputs, steps=3)
        for patch in as_on_a_gpu(**switches):
            patch.start()
            self.addCleanup(patch.stop)
        planner = _backend.planner_of(model, inputs, _backend.Options())
        smallest, most = planner.smallest()[0], planner.none().peak
        found = {op.node.target for op in planner.joint.ops if op.node is not None}
        self.assertTrue(targets <= found)
        for budget in (most, int(smallest + share * (most - smallest)), smallest):
            backend = cairn.backend(budget, check=True)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=3)))
            self.assertEqual(backend.meters[0].differences, [])
        return backend

    def test_cudnn(self):
        self.check(*residual(), {aten.cudnn_batch_norm.default, aten.cudnn_batch_norm_backward.default}, split=False)

    def test_real(self):
        """In the middle of a capture the kernel itself is tried and measured, not what it decomposes into."""
        x, w = torch.randn(2, 3, 4, 4), torch.ones(3)
        with enable_python_dispatcher():
            called.clear()
            aten.cudnn_batch_norm.default(x, w, w, None, None, True, 0.1, 1e-5)
            self.assertEqual(len(called), 0)
            with real_tensors():
                aten.cudnn_batch_norm.default(x, w, w, None, None, True, 0.1, 1e-5)
            self.assertEqual(len(called), 1)

    def test_split(self):
        """The half that is repeated is; the other never."""
        for cudnn in (True, False):
            backend = self.check(*residual(), {_norms.APPLY}, cudnn=cudnn)
            plan, runs = backend.plans[0], {}
            for kind, number, _ in plan.steps:
                if kind == 0 and plan.joint.ops[number].kind == "node":
                    runs[number] = runs.get(number, 0) + 1
            repeated = {plan.joint.ops[n].node.target for n, count in runs.items() if count > 1}
            self.assertIn(_norms.APPLY, repeated)
            self.assertFalse(repeated & {aten.cudnn_batch_norm.default, aten._native_batch_norm_legit_functional.default})

    def test_fused(self):
        """A norm, a sum and a relu in one kernel: the same bits, no more memory, as fast as it gets."""
        model, inputs = residual()
        expected = reference(model, inputs, steps=3)
        for patch in (*as_on_a_gpu(), *with_kernels()):
            patch.start()
            self.addCleanup(patch.stop)
        _norms._found.clear()
        self.addCleanup(_norms._found.clear)
        planner = _backend.planner_of(model, inputs, _backend.Options())
        smallest, most = planner.smallest()[0], planner.none().peak
        for budget in (most, (most + smallest) // 2, smallest):
            backend = cairn.backend(budget)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=3)))
            text = str(backend.writers[0].forward_graph) + str(backend.writers[0].graph)
            self.assertGreater(backend.writers[0].fused, 4)
            self.assertNotIn("clone", text)
            self.assertIn("add_relu", text)
            self.assertIn("add_gate", text)
            self.assertEqual("norm_relu" in text, budget < most)

    def test_formulas(self):
        """Two formulas that differ only in how the shift of a channel is rounded are told apart, or none is used."""
        def fma(a, b, c):
            return (a.double() * b.double() + c.double()).float()

        def kernel(name, x, weight, bias, mean, invstd, out, formula, once=4, twice=3):
            scale = weight * invstd
            shift = {once: bias - mean * scale, twice: fma(-mean, scale, bias)}.get(formula, bias + 1)
            wide = (1, -1, 1, 1)
            return out.copy_(fma(x, scale.view(wide), shift.view(wide)))

        def norm_by(formula):
            def target(x, weight, bias, training, momentum, eps):
                mean, invstd = x.mean((0, 2, 3)), (x.var((0, 2, 3), correction=0) + eps).rsqrt()
                return kernel("norm", x, weight, bias, mean, invstd, torch.empty_like(x), formula), mean, invstd
            return target
        x, w = torch.empty(8, 4, 6, 6), torch.empty(4)
        for patch in with_kernels():
            patch.start()
            self.addCleanup(patch.stop)
        with mock.patch.object(_kernels, "norm", kernel):
            for formula in (3, 4):
                self.assertEqual(_norms._try_formulas(norm_by(formula), x, w, 1e-5), formula)
            self.assertIsNone(_norms._try_formulas(norm_by(1), x, w, 1e-5))  # five formulas are the same here
            self.assertIsNone(_norms._try_formulas(lambda *given: [2 * given[0], *norm_by(3)(*given)[1:]], x, w, 1e-5))

    def test_other_bits(self):
        """Where the halves' bits differ nothing is split."""
        with mock.patch.object(_norms, "_try_formulas", lambda *_: None), mock.patch.dict(_norms._found, clear=True):
            backend = self.check(*residual(), {aten.cudnn_batch_norm.default})
        self.assertNotIn(_norms.APPLY,
                         {op.node.target for op in backend.plans[0].joint.ops if op.node is not None})

    def test_no_statistics(self):
        """Without running statistics, and with channels last."""
        x, w = torch.empty(4, 3, 16, 16), torch.empty(3)
        for statistics in ((w, w), (None, None), (w, None)):
            self.assertFalse(_norms.chooses_cudnn(x, w, w, *statistics, 1e-5))  # on a processor
        torch.manual_seed(0)
        body = nn.Sequential(*(nn.Sequential(nn.Conv2d(3, 3, 3, 1, 1), nn.BatchNorm2d(3, track_running_stats=i % 2 > 0),
                                             nn.ReLU()) for i in range(4)))

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = body

            def forward(self, x):
                return self.body(x).square().mean()
        x = torch.randn(4, 3, 16, 16)
        self.check(Net(), (x,), {aten.cudnn_batch_norm.default})
        self.check(Net().to(memory_format=torch.channels_last), (x.to(memory_format=torch.channels_last),),
                   {aten.cudnn_batch_norm.default})

    def test_twice(self):
        """A norm that is used twice moves its statistics twice: PyTorch's own kernels are kept."""
        torch.manual_seed(0)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.conv = nn.BatchNorm2d(3), nn.Conv2d(3, 3, 3, 1, 1)

            def forward(self, x):
                return self.norm(self.conv(self.norm(x).relu())).relu().square().mean()
        self.check(Net(), (torch.randn(4, 3, 16, 16),), {aten._native_batch_norm_legit_functional.default}, split=False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
