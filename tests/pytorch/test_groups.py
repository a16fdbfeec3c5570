"""How mode "compiled" divides a joint graph into groups, and in which order they run."""

import copy
import functools
import time
import unittest
import unittest.mock

import torch
from torch import nn

import cairn
from cairn import _compiled, _groups, _library
from compiled_networks import LAYERS, MODE, make, planner_of, prepared, unmeasured


class Groups(unittest.TestCase):
    class Chain(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.body = nn.Sequential(*(layer for _ in range(layers)
                                        for layer in (nn.Linear(16, 16), nn.Tanh(), nn.LayerNorm(16))))

        def forward(self, x):
            return self.body(x).square().mean()

    def grouped(self, layers):
        """The seconds that dividing takes, and the number of units."""
        found = []
        grouping = _groups.Grouping

        class Timed(grouping):
            def __init__(self, *given):
                start = time.process_time()
                super().__init__(*given)
                found.append((time.process_time() - start, len(self.units)))
                raise cairn.CairnError("enough")
        _compiled.Grouping = Timed
        try:
            with self.assertRaisesRegex(cairn.CairnError, "enough"):
                planner_of(self.Chain(layers), (torch.randn(64, 16),))
        finally:
            _compiled.Grouping = grouping
        return found[0]

    def test_joined_gradients(self):
        """The gradients of chunks of rows, joined, are written down in their own type, not as the norm before them reads
        them: its kernels cast them."""
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm, self.head = nn.Linear(16, 16), nn.RMSNorm(16), nn.Linear(16, 128)

            def forward(self, x, y):
                return nn.functional.cross_entropy(self.head(self.norm(self.first(x))), y)
        with unmeasured():
            planner = planner_of(Head().bfloat16(), (torch.randn(64, 16, dtype=torch.bfloat16), torch.arange(64)), chunks=4)
        kernels = [op.node.target for op in planner.joint.ops if _compiled.is_kernel(op) and op.backward]
        self.assertTrue(any(n.target is torch.ops.aten.cat.default for kernel in kernels for n in kernel.graph.nodes))
        matrices = [n.meta["val"] for kernel in kernels for n in kernel.outputs() if n.meta["val"].numel() == 64 * 16]
        self.assertEqual({value.dtype for value in matrices}, {torch.bfloat16})

    def test_dropout(self):
        """On a processor the random numbers of a dropout are drawn once, and no kernel writes bools; on a GPU every kernel
        that reads them draws them again, which takes no time there."""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 64)

            def forward(self, x):
                return self.last(nn.functional.dropout(self.first(x), 0.1)).square().mean()

        def drawing():
            with unmeasured():
                planner = planner_of(Net(), (torch.randn(256, 64),))
            kernels = [op.node.target for op in planner.joint.ops if _compiled.is_kernel(op)]
            self.assertNotIn(torch.bool, {n.meta["val"].dtype for kernel in kernels for n in kernel.outputs()})
            return [kernel for kernel in kernels if any("random" in str(n.target) for n in kernel.graph.nodes)]
        self.assertEqual([n.meta["val"].dtype for kernel in drawing() for n in kernel.outputs()], [torch.float32])
        with unittest.mock.patch.dict(_groups.DRAWING, clear=True):
            self.assertEqual(len(drawing()), 2)

    def test_turned_halves(self):
        """The gradient of halves that changed places is one concatenation, without zeros."""
        class Turned(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.randn(16, 16))

            def forward(self, x):
                u = x @ self.w
                u = u * x.cos() + torch.cat((-u.chunk(2, -1)[1], u.chunk(2, -1)[0]), -1) * x.sin()
                return (u @ self.w).square().sum()
        with unmeasured():
            planner = planner_of(Turned(), (torch.randn(64, 16),))
        kernels = [op.node.target for op in planner.joint.ops if _compiled.is_kernel(op) and op.backward]
        nodes = [n for kernel in kernels for n in kernel.graph.nodes]
        self.assertEqual(sum(n.target is torch.ops.aten.cat.default for n in nodes), 1)
        self.assertFalse(any(n.target is torch.ops.aten.full.default for n in nodes))

    def test_products_of_results(self):
        """The gradient of a weight comes before that of the layer's input, which reads the same gradient."""
        ops = prepared("gpt")[2].joint.ops
        products = [op for op in ops if op.kind == "node" and op.node.target is torch.ops.aten.mm.default and op.backward]
        weights = [op for op in products if op.outs[0].flags & _library.RESULT]
        self.assertGreater(len(weights), LAYERS)
        for weight in weights:
            made = {s for s in weight.reads if s.op is not None and s.op.backward}
            for other in products:
                if other not in weights and made & set(other.reads):
                    self.assertLess(weight.index, other.index)

    def test_near_linear(self):
        self.grouped(10)
        (small, few), (large, many) = self.grouped(20), self.grouped(80)
        self.assertGreater(many, 3 * few)
        self.assertLess(large, 8 * small)

    def test_norms(self):
        """In the forward part what a norm makes is a group apart from its statistics, so that it can be recomputed from
        the sum that is kept. It may be recomputed; so may the group of the sum and its statistics."""
        with unmeasured():
            joint = planner_of(*make("gpt")).joint
        kernels = [op for op in joint.ops if _compiled.is_kernel(op) and not op.backward]
        reduces = {op for op in kernels if any(_groups.is_reduction(n) for n in op.node.target.graph.nodes)}
        made = {s: op for op in reduces for s in op.outs}
        applied = [op for op in kernels if op not in reduces and any(s in made for s in op.reads)]
        self.assertEqual(len(applied), 2 * LAYERS + 1)  # two a block, and the last one
        for op in applied:
            statistics = next(made[s] for s in op.reads if s in made)
            self.assertFalse((op.flags | statistics.flags) & _library.NEVER_AGAIN)


class Shared(nn.Module):
    """Linear layers that read the same, of which one's results several heads share."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, n, bias=False) for n in (128, 32, 32))

    def forward(self, x, turn):
        x = torch.tanh(x)
        q, k, v = (f(x).view(4, 8, -1, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
        k = k * turn + torch.cat((-k.chunk(2, -1)[1], k.chunk(2, -1)[0]), -1) * turn.cos()
        k, v = (u.repeat_interleave(4, 1) for u in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).square().sum()


class Sharing(unittest.TestCase):
    @functools.cached_property
    def planner(self):
        x = torch.randn(4, 8, 32, requires_grad=True)
        with unmeasured():
            return planner_of(Shared(), (x, torch.randn(8, 16)))

    def test_added_up(self):
        """Gradients of what several layers read are added up by the products, although views are between them."""
        nodes = [op.node for op in self.planner.joint.ops if op.kind == "node"]
        self.assertEqual(sum(n.target is torch.ops.aten.addmm.default for n in nodes), 2)
        self.assertTrue(all(op.inplace for op in self.planner.joint.ops
                            if op.kind == "node" and op.node.target is torch.ops.aten.addmm.default))

    def test_short_sums(self):
        """A sum of four is no kernel of its own: the gradients of keys and values are made of those of the heads at once."""
        kernels = [op.node.target for op in self.planner.joint.ops if _compiled.is_kernel(op) and op.backward]
        sums = [n for kernel in kernels for n in kernel.graph.nodes if n.target is torch.ops.aten.sum.dim_IntList]
        self.assertEqual(len(sums), 2)
        self.assertTrue(all(n.users and not any(u.op == "output" for u in n.users) for n in sums))

    def test_near_eager(self):
        torch.manual_seed(0)
        model, turn = Shared(), torch.randn(8, 16)
        x = torch.randn(4, 8, 32, requires_grad=True)
        torch._dynamo.reset()
        found = torch.compile(copy.deepcopy(model), backend=cairn.backend(**MODE))
        loss = found(x, turn)
        loss.backward()
        mine, x.grad = x.grad, None
        model(x, turn).backward()
        torch.testing.assert_close(mine, x.grad, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
