"""Mode "compiled": kernels of Inductor as ops of the plan. The bits are those of the same mode without a budget, whatever
the plan; live bytes are as predicted after every op; the allocator stays within the budget."""

import contextlib
import copy
import os
import tempfile
import unittest
import unittest.mock

import torch
from torch import nn
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.exc import CppCompileError

import cairn
from cairn import _chunks, _compiled, _groups, _inductor, _plan
from cairn._real import random_like, real_tensors
from common import allocator_peak, compiled, same, with_cairn
from compiled_networks import MODE, STEPS, WORDS, budgets, fixed_times, make, planner_of, prepared, unmeasured
from small_models import GPT

aten = torch.ops.aten


class Steps(unittest.TestCase):
    def check(self, name, count):
        model, inputs, planner, expected = prepared(name)
        for budget in budgets(planner, count):
            with self.subTest(budget=budget):
                backend = cairn.backend(budget, check=True, **MODE)
                found = with_cairn(model, inputs, backend, steps=STEPS)
                plan, meter = backend.plans[0], backend.meters[0]
                self.assertTrue(same(expected, found))
                self.assertEqual(meter.differences, [])
                self.assertGreater(meter.checked, len(plan.joint.ops))
                self.assertLessEqual(plan.peak, budget)
                self.assertEqual(plan.reruns > 0, budget < planner.none().peak)
        self.check_allocator(model, inputs, budgets(planner, 3)[1])
        with self.assertRaises(cairn.BudgetError):
            planner.plan(planner.smallest()[0] - 1)

    def check_allocator(self, model, inputs, budget):
        backend, mine = cairn.backend(budget, **MODE), copy.deepcopy(model)
        call = compiled(mine, backend)

        def step():
            call(*inputs).backward()
        for _ in range(2):
            step()
            mine.zero_grad(set_to_none=True)
        peak = allocator_peak(step)
        self.assertLessEqual(peak, budget)
        self.assertGreater(peak, 0.995 * backend.plans[0].peak)

    def test_gpt(self):
        self.check("gpt", 10)

    def test_resnet(self):
        self.check("resnet", 3)

    def test_llama(self):
        self.check("llama", 3)

    def test_chunks(self):
        """The loss in chunks: less memory, equal bits on any plan, and but for rounding the result of the loss at once."""
        model, inputs, _, expected_of_whole = prepared("gpt")
        with fixed_times():
            whole, planner = (planner_of(model, inputs, chunks=chunks) for chunks in (1, 4))
        self.assertLess(planner.smallest()[0], 0.7 * whole.smallest()[0])
        self.assertLess(planner.none().peak, 0.8 * whole.none().peak)
        planner = planner_of(model, inputs, chunks=4)
        expected = with_cairn(model, inputs, cairn.backend(chunks=4, **MODE), steps=STEPS)
        for budget in budgets(planner, 3)[1:]:
            backend = cairn.backend(budget, chunks=4, check=True, **MODE)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=STEPS)))
            self.assertEqual(backend.meters[0].differences, [])
        torch.testing.assert_close(expected[:2], expected_of_whole[:2], rtol=1e-3, atol=1e-4)

    def test_gradients_of_chunks(self):
        """The gradient of what the chunks read is one tensor, made by a kernel without sums."""
        for name in "gpt", "llama":
            model, inputs = make(name)
            with unmeasured():
                joint = planner_of(model, inputs, chunks=4).joint
            kernels = [op.node.target.graph for op in joint.ops if _compiled.is_kernel(op) and op.backward]
            joining = [[n for n in graph.nodes if n.op == "call_function"] for graph in kernels
                       if any(len(n.args[0]) == 4 for n in graph.find_nodes(op="call_function", target=aten.cat.default))]
            self.assertEqual(len(joining), 1)
            self.assertFalse(any(map(_groups.is_reduction, joining[0])))

    class Head(nn.Module):
        """A layer with a bias under autocast, and a loss that is scaled, in one of several ways to write it."""

        def __init__(self, write):
            super().__init__()
            self.body, self.head, self.write = nn.Linear(8, 8), nn.Linear(8, 64), write

        def forward(self, x, y):
            with torch.autocast("cpu", torch.bfloat16):
                z = self.head(torch.relu(self.body(x))) if self.write == "layers" else None
            if z is None:
                x = torch.relu(self.body(x)).flatten(0, 1)
                return 3 * nn.functional.linear_cross_entropy(x, self.head.weight, y.flatten(), linear_bias=self.head.bias)
            return 3 * nn.functional.cross_entropy(z.float().flatten(0, 1), y.flatten())

    def test_chosen_chunks(self):
        """A loss with many rows is in chunks unless the user wants it at once; near to eager execution."""
        for write in ("layers", "linear_cross_entropy"):
            if not hasattr(nn.functional, write) and write != "layers":
                continue
            with self.subTest(write), unittest.mock.patch.object(_chunks, "ROWS", 16):
                torch.manual_seed(0)
                model, inputs = self.Head(write), (torch.randn(4, 8, 8), torch.randint(0, 64, (4, 8)))
                inputs[1][0, :3] = -100
                gradients, losses = [], []
                for backend in ("eager", cairn.backend(**MODE), cairn.backend(chunks=1, **MODE)):
                    mine = copy.deepcopy(model)
                    losses.append(compiled(mine, backend)(*inputs))
                    losses[-1].backward()
                    gradients.append([p.grad for p in mine.parameters()])
                torch.testing.assert_close(losses[0], losses[1], rtol=1e-2, atol=1e-2)
                torch.testing.assert_close(gradients[0], gradients[1], rtol=3e-2, atol=1e-2)
                self.assertFalse(same(gradients[1], gradients[2]))

    def test_near_eager(self):
        """Loss, gradients and running statistics are those of eager execution, but for rounding."""
        model, inputs, planner, _ = prepared("resnet")
        model, mine = copy.deepcopy(model), copy.deepcopy(model)
        found = compiled(mine, cairn.backend(budgets(planner, 3)[1], **MODE))(*inputs)
        expected = model(*inputs)
        found.backward()
        expected.backward()
        torch.testing.assert_close(found, expected)
        for a, b in zip(mine.parameters(), model.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)
        for a, b in zip(mine.buffers(), model.buffers()):
            torch.testing.assert_close(a, b)


class Features(unittest.TestCase):
    def setUp(self):
        self.model, self.inputs, self.planner, self.expected = prepared("gpt")
        self.middle = budgets(self.planner, 3)[1]

    def run_with(self, backend):
        return with_cairn(self.model, self.inputs, backend, steps=STEPS)

    def test_not_compiled(self):
        """What Inductor cannot express alone runs op by op."""
        x, w = torch.randn(7, 5, requires_grad=True), torch.randn(5, 7)
        lowering = _inductor.LoweringException(AssertionError(), "op", [], {})
        joining = RuntimeError("Inductor failed")
        joining.inner_exception = AssertionError()  # as InductorError has it
        for arena, error, factor in ((False, lowering, 3), (True, lowering, 3), (False, joining, 5)):
            def f(x, w):
                return ((x @ w).sin().t() * factor).cos().mean()
            with unittest.mock.patch.object(_inductor, "compile_fx_inner", side_effect=error):
                call = compiled(f, cairn.backend(arena=arena, **MODE))
                with self.assertWarnsRegex(UserWarning, "one by one") if not arena else contextlib.nullcontext():
                    found, = torch.autograd.grad(call(x, w), x)
                torch.testing.assert_close(found, torch.autograd.grad(f(x, w), x)[0])

    def test_bad_code(self):
        """Code that Inductor writes and no compiler takes: only the ops of that group run one by one."""
        def f(x, w):
            return ((x @ w).sin() @ (x @ w).cos()).tanh().mean() * 7
        x, w = torch.randn(7, 5, requires_grad=True), torch.randn(5, 7)
        wait, failed = AsyncCompile.wait, []

        def once(compiler, scope):
            if not failed:
                failed.append(scope)
                raise CppCompileError(["c++"], "error")
            wait(compiler, scope)
        with unittest.mock.patch.object(AsyncCompile, "wait", once), \
                unittest.mock.patch.dict(_compiled._kernels, clear=True), self.assertWarnsRegex(UserWarning, "one by one"):
            backend = cairn.backend(**MODE)
            found, = torch.autograd.grad(compiled(f, backend)(x, w), x)
        torch.testing.assert_close(found, torch.autograd.grad(f(x, w), x)[0])
        kernels = [op.node.target for op in backend.planners[0].joint.ops if _compiled.is_kernel(op)]
        apart = [isinstance(k.forms[0].compile(), _inductor.OneByOne) for k in kernels]
        self.assertIn(True, apart)
        self.assertIn(False, apart)

    @unittest.mock.patch.object(_plan.Switches, "simulate_host", True)
    def test_offload(self):
        backend = cairn.backend(self.middle, offload=True, algorithm="offload-best", check=True, **MODE)
        self.assertTrue(same(self.expected, self.run_with(backend)))
        self.assertGreater(backend.plans[0].offloads, 0)
        self.assertEqual(backend.meters[0].differences, [])

    @unittest.mock.patch.object(_plan.Switches, "simulate_host", True)
    def test_parked_gradients(self):
        least = planner_of(self.model, self.inputs, offload=True).smallest()[0]
        self.assertLessEqual(least, self.planner.smallest()[0])
        backend = cairn.backend(least, offload=True, check=True, **MODE)
        self.assertTrue(same(self.expected, self.run_with(backend)))
        self.assertEqual(backend.meters[0].differences, [])

    def test_save_and_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path, picture = os.path.join(folder, "step.plan"), os.path.join(folder, "step.svg")
            first = cairn.backend(self.middle, report=picture, **MODE)
            self.assertTrue(same(self.expected, self.run_with(first)))
            first.plans[0].save(path)
            second = cairn.backend(plan=path, **MODE)
            self.assertTrue(same(self.expected, self.run_with(second)))
            self.assertEqual(first.plans[0].steps, second.plans[0].steps)
            with open(picture) as file:
                self.assertIn("<svg", file.read(200))

    def test_record(self):
        """On the processor a recorded step is the step itself."""
        model = copy.deepcopy(self.model)
        step = cairn.record(model, compiled(model, cairn.backend(self.middle, cudagraphs=True, **MODE)), self.inputs)
        torch.manual_seed(7)
        self.assertTrue(same(step(*self.inputs), self.expected[0][0]))
        self.assertTrue(same([p.grad for p in model.parameters()], self.expected[1][0]))

    def test_retain_graph(self):
        """Two backward passes through one forward pass."""
        def gradients(backend):
            model = copy.deepcopy(self.model)
            torch.manual_seed(3)
            loss = compiled(model, backend)(*self.inputs)
            loss.backward(retain_graph=True)
            loss.backward()
            return [p.grad for p in model.parameters()]
        self.assertTrue(same(gradients(cairn.backend(**MODE)), gradients(cairn.backend(self.middle, **MODE))))

    def test_fits(self):
        self.assertTrue(cairn.fits(self.model, self.inputs, self.middle, **MODE))
        no = cairn.fits(self.model, self.inputs, 1000, **MODE)
        self.assertFalse(no)
        self.assertEqual(no.smallest, self.planner.smallest()[0])

    def test_kernels(self):
        """Equal layers share their kernels, also those with dropout; a step without a budget runs every group once."""
        with unmeasured():
            few, many = (planner_of(GPT(WORDS, 32, 32, layers, 2, 0.1), self.inputs).joint for layers in (3, 5))
        few, many = ([op.node.target for op in joint.ops if _compiled.is_kernel(op)] for joint in (few, many))
        self.assertGreater(len(many), 2 * len(set(many)))
        self.assertEqual(set(many) - set(few), set())

    def test_in_place(self):
        """Kernels that write over an operand: equal bits, at the operand's address, and nothing large is allocated. Among
        them are kernels with sums."""
        seen = {(op.node.target, place): op for op in self.planner.joint.ops if _compiled.is_kernel(op)
                for place, _, out in op.inplace[:1] if op.outs[out].slot == 0}
        self.assertGreater(len(seen), 0)
        for (kernel, place), op in seen.items():
            with real_tensors():
                given = [random_like(n.meta["val"]) for n in op.node.args]
                expected, mine = kernel(*given), [x.clone() for x in given]
                into = lambda given: kernel.onto([given[place]] + [None] * (len(expected) - 1), *given)
                found = into(mine)
                self.assertTrue(same(list(expected), list(found)))
                self.assertEqual(found[0].data_ptr(), mine[place].data_ptr())
                peak = allocator_peak(lambda: into(given))
            rest = sum(s.bytes for s in op.outs[1:] + op.beside)
            self.assertLessEqual(peak, rest + op.workspace + 4096)
        self.assertTrue(any(_groups.is_reduction(n) for kernel, _ in seen for n in kernel.graph.nodes))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
