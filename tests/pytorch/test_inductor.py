"""Mode "inductor": a plan as Inductor's partition, measured, within its budget."""

import copy
import unittest

import torch

import cairn
from common import allocator_peak, compiled
from small_models import GPT


def step(model, call, inputs):
    loss = call(*inputs)
    loss.backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return loss.detach(), gradients


class Inductor(unittest.TestCase):
    def test_budget(self):
        torch.manual_seed(0)
        model = GPT(layers=2, dropout=0.0)
        inputs = torch.randint(0, 512, (4, 64)), torch.randint(0, 512, (4, 64))
        eager = copy.deepcopy(model)
        expected, gradients = step(eager, eager, inputs)
        backend = cairn.backend("60%", mode="inductor")
        mine = copy.deepcopy(model)
        call = compiled(mine, backend)
        found, mine_gradients = step(mine, call, inputs)
        plan = backend.plans[0]
        self.assertGreater(plan.reruns, 0)
        torch.testing.assert_close(found, expected)
        for a, b in zip(mine_gradients, gradients):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        self.assertLessEqual(plan.measured, plan.limit)

        def again():
            call(*inputs).backward()
        self.assertLessEqual(allocator_peak(again), plan.limit)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
