"""Mode "compiled" with all tensors of a step in one allocation. test_arena.py has the same for mode "exact"."""

import copy
import functools
import types
import unittest
import unittest.mock

import torch

import cairn
from cairn import _arena, _backend, _code, _compiled, _library, _plan, _slices
from common import allocator_peak, arenas, compiled, matrices_in, same, train, with_cairn
from compiled_networks import LAYERS, MODE, STEPS, budgets, prepared


class Arena(unittest.TestCase):
    """One allocation with every tensor at its planned address."""
    OPTIONS = dict(arena=True, **MODE)

    def check(self, name):
        model, inputs, _, expected = prepared(name)
        planner = _backend.planner_of(model, inputs, _backend.Options(**self.OPTIONS))
        for budget in budgets(planner, 3):
            with self.subTest(budget=budget):
                backend, mine = cairn.backend(budget, **self.OPTIONS), copy.deepcopy(model)
                call = compiled(mine, backend)
                with arenas() as found:
                    self.assertTrue(same(expected, train(mine, call, inputs, steps=STEPS)))
                    plan = backend.plans[0]
                    self.assertLessEqual(plan.peak, budget)
                    self.check_memory(mine, call, inputs, plan, found)

    def check_memory(self, model, call, inputs, plan, found):
        model.zero_grad(set_to_none=True)
        peak = allocator_peak(lambda: call(*inputs).backward())
        self.assertLessEqual(peak, plan.peak)
        self.assertGreater(peak, 0.995 * plan.peak)
        # Matrix products write their gradients into the arena; convolutions and batch norms insist on allocating.
        matrices, inside = matrices_in(found[-1], model)
        self.assertGreaterEqual(2 * inside, matrices)

    def test_gpt(self):
        self.check("gpt")

    def test_resnet(self):
        self.check("resnet")

    def test_copies(self):
        """Results of ops that allocate, copied into the arena: equal bits, and everything fits."""
        model, inputs, planner, expected = prepared("gpt")
        copying = functools.partial(_arena.Layout, sliced=_arena.EVERYTHING)
        with unittest.mock.patch.object(_arena, "Layout", copying), arenas() as found, \
                unittest.mock.patch.object(_slices, "second_of", lambda op, table: None):
            backend, mine = cairn.backend(budgets(planner, 3)[1], **self.OPTIONS), copy.deepcopy(model)
            call = compiled(mine, backend)
            self.assertTrue(same(expected, train(mine, call, inputs, steps=STEPS)))
            self.assertGreater(len(backend.plans[0].layout.copied), LAYERS)
            self.check_memory(mine, call, inputs, backend.plans[0], found)

    def test_copies_of_gradients(self):
        """Convolutions allocate gradients of weights, which may be copied into the arena: equal bits, memory as planned."""
        model, inputs, _, expected = prepared("resnet")
        for copies in _arena.GRADIENTS, _arena.SOME:
            copying = functools.partial(_arena.Layout, copies=copies)
            with unittest.mock.patch.object(_arena, "Layout", copying):
                backend, mine = cairn.backend(**self.OPTIONS), copy.deepcopy(model)
                call = compiled(mine, backend)
                self.assertTrue(same(expected, train(mine, call, inputs, steps=STEPS)))
                copied, plan = {s for _, s in backend.plans[0].layout.copied}, backend.plans[0]
                gradients = {s for op in plan.joint.ops if op.kind == "node" and "convolution_backward" in op.name
                             for s in op.beside}
                self.assertGreater(len(gradients), 3)
                self.assertLessEqual(gradients, copied)
                mine.zero_grad(set_to_none=True)
                peak = allocator_peak(lambda: call(*inputs).backward())
                self.assertLessEqual(peak, plan.peak)
                self.assertGreater(peak, 0.995 * plan.peak)

    def test_temporaries(self):
        """A kernel that allocates its result when it has freed a larger temporary needs all of that beside an arena."""
        class Form:
            name = "late"

            def onto(self, destinations, arguments):
                twice = torch.cat([arguments[0], arguments[0]])
                total = twice.sum()
                del twice
                return [(torch.empty(64) if where is None else where).fill_(total) for where in destinations]
        kernel = types.SimpleNamespace(given=[torch.empty(4096)], placeable=lambda: {0}, form=Form(),
                                       outputs=lambda: [types.SimpleNamespace(meta=dict(val=torch.empty(64)))] * 2)
        kernel.onto = lambda destinations, *arguments: kernel.form.onto(destinations, arguments)
        self.assertEqual(_compiled.peak_beside(kernel), 2 * 4096 * 4 + 4 - 64 * 4)  # and the sum
        planner = _backend.planner_of(*prepared("gpt")[:2], _backend.Options(**self.OPTIONS))
        with unittest.mock.patch.object(_compiled.Kernel, "beside", lambda kernel, workspace, table: workspace + (1 << 20)):
            layout = planner.none().layout
        runs = [planner.joint.ops[number] for kind, number, _ in layout.solution.steps if kind == _library.RUN]
        self.assertGreater(layout.beside, 1 << 20)
        self.assertEqual(sum(w >= 1 << 20 for w in layout.workspace), sum(map(_compiled.is_kernel, runs)))

    def test_results_of_allocations(self):
        """Read from code as Inductor writes it."""
        code = ("def call(args):\n  a, b = args\n  buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
                "  with guard():\n    buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n    kernel(a, buf0, buf1)\n"
                "    buf2 = reinterpret_tensor(buf1, (2, 2), (2, 1), 0); del buf1  # reuse\n"
                "    buf3 = reinterpret_tensor(buf0, (2, ), (1, ), 2)\n  return (buf3, a, buf2, )\n")
        self.assertEqual((_code.Code(code).result_of, _code.Code(code).bytes), ({1: 2}, 32))
        inside = code.replace("kernel(a, buf0", "kernel(empty_strided_cpu(), buf0")
        self.assertEqual(_code.Code(inside).result_of, {})
        self.assertEqual(_code.Code("").result_of, {})

    def test_reads_after_writes(self):
        """What a result may be written over, from code as Inductor writes it."""
        code = ("def call(args):\n  a, b, c = args\n  args.clear()\n  assert_size_stride(a, (4, ), (1, ))\n"
                "  buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
                "  buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n  first(a, buf1)\n  second(buf1, b, buf0)\n"
                "  third(reinterpret_tensor(c, (4, ), (1, ), 0), buf0)\n  return (buf0, )\n")
        text = "void kernel(float* in_ptr0, float* in_ptr1, float* out_ptr0)\n{\n    out_ptr0[0] = in_ptr1[0];\n}\n"
        text = f"second = async_compile.cpp_pybinding([], {text!r})\n"
        for known, expected in (("", [True, False, False]), (text, [True, True, False])):
            found = _code.Code(known + code)
            self.assertEqual([found.may_be_over(0, place) for place in range(3)], expected)
        self.assertFalse(_code.Code("").may_be_over(0, 0))

    @unittest.mock.patch.object(_plan.Switches, "simulate_host", True)
    def test_offload(self):
        model, inputs, planner, expected = prepared("gpt")
        budget = budgets(planner, 3)[1]
        backend = cairn.backend(budget, offload=True, algorithm="offload-best", **self.OPTIONS)
        self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=2)))
        self.assertGreater(backend.plans[0].offloads, 0)

    def test_refused(self):
        """What would read overwritten memory."""
        model, inputs, *_ = prepared("gpt")
        loss = compiled(copy.deepcopy(model), cairn.backend(**self.OPTIONS))(*inputs)
        with self.assertRaisesRegex(cairn.CairnError, "one backward pass"):
            loss.backward(retain_graph=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
