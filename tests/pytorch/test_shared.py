"""Attention whose heads share keys and values: it reads them without copies where that is measured to be faster, with the
same bits for every budget."""

import copy
import types
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import cairn
from cairn import _backend, _costs, _shared, _slices
from common import same, with_cairn
from compiled_networks import fixed_times

MODE = dict(mode="compiled")
aten = torch.ops.aten
FORWARD, BACKWARD = next(reversed(_shared._OPS.items()))
HEADS, SHARED, SIZE = 8, 2, 16


def repeated(x):
    return x.repeat_interleave(HEADS // SHARED, 1)


def expanded(x):
    b, h, t, d = x.shape
    return x[:, :, None].expand(b, h, HEADS // SHARED, t, d).reshape(b, HEADS, t, d)


def tiled(x):
    """The heads in another order: those that share are not neighbours."""
    return x.repeat(1, HEADS // SHARED, 1, 1)


class Attention(nn.Module):
    """Layers of attention in which heads share keys and values, which `copied` copies."""

    def __init__(self, copied=repeated, layers=2, width=HEADS * SIZE, beside=False, mask=None):
        super().__init__()
        self.copied, self.beside, self.mask = copied, beside, mask
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(width, n * SIZE) for n in (HEADS, SHARED, SHARED, HEADS))
                                    for _ in range(layers))

    def forward(self, x):
        for q, k, v, last in self.layers:
            q, k, v = (f(x).view(*x.shape[:2], -1, SIZE).transpose(1, 2) for f in (q, k, v))
            k, v = self.copied(torch.tanh(k)), self.copied(v)
            y = F.scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.mask is None)
            y = y + k if self.beside else y
            x = x + last(y.transpose(1, 2).reshape(x.shape))
        return x.square().mean()


def made(copied=repeated, **options):
    torch.manual_seed(0)
    return Attention(copied, **options), (torch.randn(4, 64, HEADS * SIZE),)


def planner_of(model, inputs, **options):
    return _backend.planner_of(model, inputs, _backend.Options(**MODE, **options))


def attentions(planner):
    return [op for op in planner.joint.ops if op.kind == "node" and op.node.target in (FORWARD, BACKWARD)]


def heads_of(op):
    return {op.node.args[place].meta["val"].shape[1] for place in ((1, 2) if op.node.target is FORWARD else (2, 3))}


def always():
    """The form without copies, however fast it is."""
    return mock.patch.object(_shared, "GAIN", float("inf"))


class Steps(unittest.TestCase):
    def test_bits_and_numbers(self):
        """The same bits for all budgets, near those of eager execution; in an arena and without."""
        model, inputs = made()
        eager = copy.deepcopy(model)
        eager(*inputs).backward()
        with always():
            expected = with_cairn(model, inputs, cairn.backend(**MODE), steps=2)
            planner = planner_of(model, inputs)
            self.assertTrue(all(heads_of(op) == {SHARED} for op in attentions(planner)))
            self.assertEqual(len(attentions(planner)), 4)
            least, most = planner.smallest()[0], planner.enough()
            for arena in (False, True):
                for share in (0, 1, 2):
                    budget = least + (most - least) * share // 3 + planner.reserve
                    backend = cairn.backend(budget if not arena else int(1.1 * budget), arena=arena, check=not arena, **MODE)
                    self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=2)))
            mine = copy.deepcopy(model)
            torch._dynamo.reset()
            torch.compile(mine, backend=cairn.backend(**MODE))(*inputs).backward()
        for p, q in zip(mine.parameters(), eager.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)

    def test_memory(self):
        """Copies need memory, in the smallest budget too."""
        model, inputs = made()
        with fixed_times(), always():
            shared = planner_of(model, inputs)
        with fixed_times(), mock.patch.object(_shared, "GAIN", 0.0):
            copied = planner_of(model, inputs)
        self.assertTrue(all(heads_of(op) == {HEADS} for op in attentions(copied)))
        self.assertLess(shared.enough(), copied.enough())
        self.assertLess(shared.smallest()[0], copied.smallest()[0])
        self.assertTrue(all(op.second is not None for op in attentions(shared)))

    def test_measured(self):
        """The faster form is taken; one that could not be measured is not."""
        for copied, shared, guessed, expected in ((100, 90, (), True), (100, 99, (), False), (100, 90, ("shared",), False),
                                                  (100, 90, ("copied",), False)):
            figures = dict(copied=(copied,), shared=(shared,))
            table = types.SimpleNamespace(figures=figures, guesses=dict.fromkeys(guessed))
            self.assertEqual(_shared._is_faster("copied", "shared", table), expected)

    def test_mask(self):
        """Both forms get the same mask."""
        model, inputs = made(layers=1, mask=torch.randn(64, 64))
        with always():
            planner = planner_of(model, inputs)
        self.assertEqual([heads_of(op) for op in attentions(planner)], [{SHARED}] * 2)

    def test_disagreement(self):
        """A form whose results are other ones is never measured."""
        model, inputs = made()
        call = _shared.Whole.__call__
        wrong = lambda whole, *given: tuple(t * (1.001 if whole.copies else 1) for t in call(whole, *given))
        with always(), mock.patch.object(_shared.Whole, "__call__", wrong), mock.patch.dict(_costs._trials, clear=True), \
                mock.patch.object(_costs, "default_file", lambda device: None):
            planner = planner_of(model, inputs)
        self.assertTrue(all(heads_of(op) == {HEADS} for op in attentions(planner)))


class Graphs(unittest.TestCase):
    def found(self, *arguments, **options):
        """How many calls of attention are found in a step."""
        model, inputs = made(*arguments, **options)
        find, counts = _shared.find, []
        with mock.patch.object(_shared, "find", lambda graph: counts.append(len(find(graph))) or []):
            planner_of(model, inputs)
        return counts

    def test_found(self):
        self.assertEqual(self.found(repeated), [2])
        self.assertEqual(self.found(expanded), [2])

    def test_other_copies(self):
        """Heads in another order, and copies that something else reads, are left as they are."""
        self.assertEqual(self.found(tiled), [0])
        self.assertEqual(self.found(beside=True), [0])

    def test_gradients_are_not_copied(self):
        """The gradient of values lies as the product that reads it wants it: no kernel is between."""
        model, inputs = made(layers=1)
        with always():
            planner = planner_of(model, inputs)
        backward = next(op for op in attentions(planner) if op.node.target is BACKWARD)
        readers = [op for op in planner.joint.ops if backward.outs[2] in op.reads]
        self.assertTrue(readers)
        self.assertTrue(all(op.node.target in (aten.mm.default, aten.addmm.default) or
                            any(n.target is aten.sum.dim_IntList for n in op.node.target.graph.nodes)  # of a bias
                            for op in readers), [op.node.target for op in readers])

    def test_slices(self):
        """Heads that share keys stay in one slice."""
        torch.manual_seed(0)
        q, g = (torch.randn(2, HEADS, 32, SIZE) for _ in range(2))
        k, v = (torch.randn(2, SHARED, 32, SIZE) for _ in range(2))
        out, sums = FORWARD(q, k, v, 0.0, True)
        arguments = g, q, k, v, out, sums, 0.0, True
        expected = BACKWARD(*arguments)
        graph = torch.fx.Graph()
        nodes = []
        for at, value in enumerate(arguments[:6]):
            nodes.append(graph.placeholder(f"a{at}"))
            nodes[-1].meta["val"] = value
        call = graph.call_function(BACKWARD, (*nodes, 0.0, True))
        call.meta["val"] = expected
        form = _slices.form_of(call)
        self.assertEqual(form._slices, (2, 2))
        self.assertTrue(same(list(expected), list(form([None] * 3, *arguments))))
        nodes[2].meta["val"] = torch.randn(2, 3, 32, SIZE)  # eight heads cannot share three
        self.assertIsNone(_slices.form_of(call))


if __name__ == "__main__":
    unittest.main()
