"""Every network under budgets from what the plain step needs down to the smallest: bitwise equal to aot_eager over
ten steps, live bytes as predicted after every op, the allocator within its budget. One byte below the smallest budget
is refused."""

import copy
import unittest

import torch

import cairn
from cairn import _backend
from common import allocator_peak, compiled, reference, same, with_cairn
from small_models import NETWORKS, make


class Exact(unittest.TestCase):
    pass


def check_network(self, name):
    model, inputs = make(name)
    planner = _backend.planner_of(model, inputs, _backend.Options())
    none, (smallest, op) = planner.none(), planner.smallest()
    self.assertLess(smallest, none.peak)
    with self.assertRaises(cairn.BudgetError) as refused:
        planner.plan(smallest - 1)
    self.assertEqual(refused.exception.smallest, smallest)
    self.assertIn(op, str(refused.exception))
    self.assertNotIn("\n", str(refused.exception))
    expected = reference(model, inputs)
    middle = (none.peak + smallest) // 2
    for budget in (none.peak, middle, smallest):
        with self.subTest(budget=budget):
            backend = cairn.backend(budget, check=True)
            found = with_cairn(model, inputs, backend)
            plan, meter = backend.plans[0], backend.meters[0]
            self.assertLessEqual(plan.peak, budget)
            self.assertTrue(same(expected, found))
            self.assertEqual(meter.differences, [])
            self.assertGreater(meter.checked, len(plan.joint.ops))
            self.assertEqual(plan.reruns > 0, budget < none.peak)
    check_allocator(self, model, inputs, middle)


def check_allocator(self, model, inputs, budget):
    """What the allocator really gave out in a step, including workspaces."""
    backend = cairn.backend(budget)
    mine = copy.deepcopy(model)
    call = compiled(mine, backend)

    def step():
        loss = call(*inputs)
        loss.backward()
        del loss
    for _ in range(2):
        step()
        mine.zero_grad(set_to_none=True)
    peak = allocator_peak(step)
    self.assertLessEqual(peak, budget)
    self.assertGreater(peak, 0.995 * backend.plans[0].peak)


for _name in NETWORKS:
    setattr(Exact, f"test_{_name}", lambda self, name=_name: check_network(self, name))

if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
