"""Cases in which storages are shared or lie otherwise than a capture says: bitwise equal to aot_eager. And the check of
the first step: with a broken rule for in-place work it raises an error that names the op."""

import os
import tempfile
import unittest
import warnings
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import cairn
from cairn import _backend, _check, _costs, _plan, _torch, _write
from cairn import _library as lib
from common import compiled, reference, same, with_cairn
from replay import Captured
from small_models import Basic, ResNet


class Between(nn.Module):
    """A function of a square matrix between two products."""

    def __init__(self, function, width=8):
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.randn(width, width) / 3)

    def forward(self, x):
        return (self.function(x @ self.weight) @ self.weight).square().mean()


class Upsampled(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.conv, self.mode = nn.Conv2d(3, 4, 3, padding=1), mode

    def forward(self, x):
        return F.interpolate(self.conv(x), scale_factor=2, mode=self.mode).square().mean()


def solved(h):
    return torch.cholesky_solve(h, torch.linalg.cholesky(h @ h.t() + 9 * torch.eye(8)))


FUNCTIONS = {
    "written twice": lambda h: torch.cos(h) + torch.cos(h).view(-1).view(8, 8) * torch.cos(h).t(),
    "minus its column": lambda h: h - h[:, :1],
    "plus its column": lambda h: h + h[:, 5],
    "plus its diagonal": lambda h: h + h.diagonal(),
    "column minus all": lambda h: h[:, 0:1] - h,
    "plus its transpose": lambda h: h + h.t(),
    "minus its row": lambda h: h - h[:1],
    "slices of one": lambda h: torch.cat((h[:4] + h[4:], h[4:] * h[:4])),
    "in place": lambda h: h.clone().mul_(h).add_(h[0]).relu_(),
    "cholesky_solve": solved,
    "overlapping": lambda h: h.unfold(0, 3, 1).sum(-1) @ h.t() @ torch.ones(8, 8),
    "noise on a device": lambda h: (torch.rand(8, 8, device=h.device) * torch.sigmoid(h)).sin().exp(),
    "two views of one result": lambda h: torch.linalg.qr(h)[0] + torch.linalg.svdvals(h),
}


class Numbers(unittest.TestCase):
    def check(self, model, inputs):
        expected = reference(model, inputs, steps=3)
        backend = cairn.backend(check=True)
        self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=3)))
        self.assertEqual(backend.meters[0].differences, [])
        smallest = _plan.Planner(backend.plans[0].joint, _backend.Options()).smallest()[0]
        tight = cairn.backend(smallest, check=True)
        self.assertTrue(same(expected, with_cairn(model, inputs, tight, steps=3)))
        self.assertEqual(tight.meters[0].differences, [])

    def test_functions(self):
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                torch.manual_seed(1)
                self.check(Between(function), (torch.randn(8, 8),))

    def test_upsampled(self):
        for mode in ("bilinear", "bicubic", "nearest"):
            with self.subTest(mode):
                torch.manual_seed(1)
                self.check(Upsampled(mode), (torch.randn(2, 3, 8, 8),))

    def test_orthogonal(self):
        torch.manual_seed(1)
        layer = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8))
        self.check(Between(layer), (torch.randn(8, 8),))

    def test_images_of_one_pixel(self):
        """Fake strides of dimensions of size 1 are not the real ones."""
        torch.manual_seed(1)
        model = ResNet(Basic, (1, 1, 1, 1), width=8).to(memory_format=torch.channels_last)
        x = torch.randn(4, 3, 32, 32).to(memory_format=torch.channels_last)
        self.check(model, (x, torch.randint(0, 10, (4,))))


class Random(unittest.TestCase):
    """AOTAutograd joins some equal random ops, with every backend, before torch 2.15; docs/pytorch.md names them."""
    JOINS = tuple(map(int, _torch.release(torch.__version__).split("."))) < (2, 15)
    JOINED = {"gumbel_softmax": F.gumbel_softmax, "rrelu": lambda x: F.rrelu(x, training=True),
              "randn_like": lambda x: torch.randn_like(x) * x, "uniform_": lambda x: torch.empty_like(x).uniform_() * x}
    APART = {"dropout": lambda x: F.dropout(x, 0.5), "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
             "randn": lambda x: torch.randn(x.shape) * x, "rand_like": lambda x: torch.rand_like(x) * x}

    def test_equal_random_ops(self):
        for name, op in {**self.JOINED, **self.APART}.items():
            with self.subTest(name):
                seen = []
                for backend in ("aot_eager", cairn.backend()):
                    torch.manual_seed(2)
                    x = torch.randn(6, 20, requires_grad=True)
                    difference = compiled(lambda x: (op(x) - op(x)).abs().sum(), backend)(x)
                    difference.backward()
                    seen.append([difference.detach(), x.grad])
                self.assertTrue(same(*seen))
                self.assertEqual(bool(seen[0][0] == 0), self.JOINS and name in self.JOINED)


class Order(unittest.TestCase):
    def test_random_numbers(self):
        """They are drawn in the order of the program, although nobody reads some of them."""
        def function(x):
            torch.rand(3)
            return F.dropout(x.sin(), 0.5).square().sum()
        seen = []
        for call in (function, Captured(function).call):
            torch.manual_seed(2)
            x = torch.ones(6, 20, requires_grad=True)
            loss = call(x)
            loss.backward()
            seen.append([loss.detach(), x.grad])
        self.assertTrue(same(*seen))

    def test_norm_of_one(self):
        """torch 2.11 captures the norm of one element, and its gradient, with a dimension more than it has."""
        def function(x):
            h = (x * 2)[:, :1].clone()
            return (h * h).mean(), torch.linalg.vector_norm(h, dim=-1)
        gradients = []
        for call in (function, Captured(function).call):
            x = torch.arange(1.0, 7.0).reshape(1, 6).requires_grad_()
            loss, norm = call(x)
            (loss + norm.sum()).backward()
            gradients.append(x.grad)
        self.assertTrue(same(*gradients))

    def test_added_losses(self):
        """Gradients of results that are added are one tensor; a gradient may also be an input."""
        def function(x, w):
            h = (x @ w).sin()
            return h.square().mean(), (h * 3).cos().mean(), h.sum(0)
        uses = (lambda a, b, h, x: (a + b).backward(), lambda a, b, h, x: (a + b + h.sum()).backward(),
                lambda a, b, h, x: h.backward(x), lambda a, b, h, x: h.backward(h.detach()))
        gradients = []
        for call in (function, compiled(function, cairn.backend(check=True))):
            for use in uses:
                torch.manual_seed(0)
                x, w = torch.randn(8), torch.randn(8, 8, requires_grad=True)
                use(*call(x[None].expand(8, 8), w), x)
                gradients.append(w.grad)
                torch._dynamo.reset()
        self.assertTrue(same(gradients[:len(uses)], gradients[len(uses):]))

    def test_gradient_that_lies_otherwise(self):
        """A gradient that may be absent is not added in place where that would change how the sum lies, which only the
        measured op says: the sums over it would add up in another order."""
        def function(x):
            mean = F.adaptive_avg_pool2d(x * 1.5, 1)
            twice = mean.to(memory_format=torch.channels_last) * 2
            h, other = mean * x + twice, mean * x + twice
            h.lerp_(other, 0.2)
            return F.softplus(h).square().mean() + mean.square().mean(), twice, h
        gradients = []
        with tempfile.TemporaryDirectory() as folder:
            for backend in ("aot_eager", cairn.backend(costs=os.path.join(folder, "new.json"))):
                torch.manual_seed(305435)
                x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last).requires_grad_()
                sum(r.abs().sum() for r in compiled(function, backend)(x)).backward()
                gradients.append(x.grad)
        self.assertTrue(same(*gradients))

    def test_two_gradients(self):
        """A result that is returned twice has two gradients."""
        def function(x):
            h = torch.cos(x * 1.5)
            return h, h.sum(), h
        gradients = []
        for call in (function, Captured(function).call):
            x = torch.arange(6.0).requires_grad_()
            first, loss, second = call(x)
            (loss + (first * 2).sum() + (second * 3).sum()).backward()
            gradients.append(x.grad)
        self.assertTrue(torch.equal(*gradients))

    def test_detached(self):
        """A result that is returned without its gradient too still has one."""
        def function(x):
            h = torch.cos(x * 1.5)
            return h.sum(), h.detach(), h[:2]
        gradients = []
        for call in (function, compiled(function, cairn.backend(mode="compiled"))):
            x = torch.arange(6.0).requires_grad_()
            loss, _, part = call(x)
            gradients += torch.autograd.grad(loss, x, retain_graph=True) + torch.autograd.grad(part.sum(), x)
        for expected, found in zip(gradients[:2], gradients[2:]):
            torch.testing.assert_close(found, expected)


class Normed(nn.Module):
    """A batch norm whose weight and bias are its running statistics."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("s", torch.rand(6) + 1)
        self.register_buffer("u", torch.rand(6) + 1)

    def forward(self, x):
        h = F.batch_norm((x @ self.weight).cos(), self.s, self.u, self.u, self.s, training=True)
        return h.sin().cos().square().mean()


class Statistics(unittest.TestCase):
    def test_weight_and_statistic(self):
        """A batch norm that would read a changed weight is not recomputed."""
        torch.manual_seed(1)
        model, inputs = Normed(), (torch.randn(64, 6),)
        expected = reference(model, inputs, steps=3)
        captured = cairn.backend()
        with_cairn(model, inputs, captured, steps=1)
        joint = captured.plans[0].joint
        norms = [op for op in joint.ops if op.kind == "node" and "batch_norm" in str(op.node.target) and not op.backward]
        self.assertTrue(norms and all(op.flags & lib.NEVER_AGAIN for op in norms))
        smallest = _plan.Planner(joint, _backend.Options()).smallest()[0]
        self.assertTrue(same(expected, with_cairn(model, inputs, cairn.backend(smallest), steps=3)))


class Given(unittest.TestCase):
    def test_strides_of_gradients(self):
        """Dimensions of size 1 of a gradient that the caller makes have any strides."""
        def function(x):
            h = torch.cumsum(x * 1.5, 0)
            return h.square().mean(), h.t().clone()
        seen = []
        for call in (function, *(compiled(function, cairn.backend(check=True)) for _ in range(3))):
            seen.append([])
            for stride in (len(seen), 24, 100):
                x = torch.arange(24.0).view(24, 1).requires_grad_()
                gradient = torch.arange(24.0).as_strided((1, 24), (stride, 1))
                torch.autograd.backward(call(x), [torch.ones(()), gradient])
                seen[-1].append(x.grad)
        self.assertTrue(all(same(seen[0], found) for found in seen))


class Checked(unittest.TestCase):
    """The check sees what a wrong plan would do."""

    def run_broken(self, function):
        torch.manual_seed(1)
        model, inputs = Between(function), (torch.randn(8, 8),)
        with self.assertRaises(cairn.CairnError) as raised:
            with_cairn(model, inputs, cairn.backend(), steps=1)
        return str(raised.exception)

    def test_stale_storages(self):
        """Without fake tensors made again after equal ops were joined."""
        function = FUNCTIONS["written twice"]
        with mock.patch.object(_backend, "propagate"), mock.patch.object(_costs, "propagate"):
            self.assertRegex(self.run_broken(function), r"op \w+ (reads|returns) ")

    def test_overwritten_operand(self):
        """An op that overwrites what the next one reads."""
        steps = _plan.Plan.__init__

        def overwrite(plan, *arguments):
            steps(plan, *arguments)
            plan.steps = [(kind, number, (1,) if kind == lib.RUN and plan.joint.ops[number].inplace else extra)
                          for kind, number, extra in plan.steps]
        with mock.patch.object(_plan.Plan, "__init__", overwrite):
            message = self.run_broken(lambda h: torch.sigmoid(h) + torch.tanh(h))
        self.assertRegex(message, r"op \w+ reads \w+, but its memory holds \w+")

    def test_freed_memory_is_read(self):
        """A value is freed as soon as it is made."""
        finish = _write.Writer._finish

        def free_early(writer):
            finish(writer)
            node = next(n for n in writer.graph.nodes if n.op == "call_function" and n.meta.get(_check.HOLDS))
            node.meta[_check.FREES] = set(node.meta[_check.HOLDS])
        with mock.patch.object(_write.Writer, "_finish", free_early):
            message = self.run_broken(lambda h: torch.sigmoid(h) + torch.tanh(h))
        self.assertRegex(message, r"op \w+ reads mm after the plan freed it")

    def test_freed_memory_stays(self):
        """Somebody outside holds what the step saved: right numbers, more memory, one warning."""
        torch.manual_seed(1)
        model, inputs, kept = Between(FUNCTIONS["written twice"]), (torch.randn(8, 8),), []
        expected = reference(model, inputs, steps=2)

        def keep(tensor):
            kept.append(tensor)
            return tensor
        with warnings.catch_warnings(record=True) as seen, torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            warnings.simplefilter("always")
            self.assertTrue(same(expected, with_cairn(model, inputs, cairn.backend(), steps=2)))
        found = [str(w.message) for w in seen if "cairn" in str(w.message)]
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], r"the plan frees \w+ after op \w+, but its memory is still in use .* [0-9]+ bytes more")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
