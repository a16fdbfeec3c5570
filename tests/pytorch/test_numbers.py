"""Cases in which storages are shared or lie otherwise than a capture says: bitwise equal to aot_eager. And the check of
the first step: with a broken rule for in-place work it raises an error that names the op."""

import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import cairn
from cairn import _backend, _costs, _plan
from cairn import _library as lib
from common import reference, same, with_cairn
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
            plan.steps = [(kind, number, 1 if kind == lib.RUN and plan.joint.ops[number].inplace else extra)
                          for kind, number, extra in plan.steps]
        with mock.patch.object(_plan.Plan, "__init__", overwrite):
            message = self.run_broken(lambda h: torch.sigmoid(h) + torch.tanh(h))
        self.assertRegex(message, r"op \w+ reads \w+, but its memory holds \w+")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
