"""Mode "inductor": a plan as Inductor's partition, measured, within its budget."""

import copy
import os
import tempfile
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

    def test_cache_key(self):
        """It follows the contents of files, not their names."""
        from cairn._inductor import Partitioner
        with tempfile.TemporaryDirectory() as folder:
            def key(name, text, **options):
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(text)
                return Partitioner(cairn.backend("1GiB", mode="inductor", costs=path, **options), None).uuid()
            self.assertEqual(key("a", "one"), key("b", "one"))
            self.assertNotEqual(key("a", "one"), key("a", "two"))
            self.assertNotEqual(key("a", "one"), key("a", "one", total=True))
            with open(os.path.join(folder, "plan"), "w") as file:
                file.write("a plan")
            self.assertNotEqual(key("a", "one"), key("a", "one", plan=os.path.join(folder, "plan")))

    def test_saved_plan(self):
        """A plan that was made before is used; with total=True the weights count."""
        torch.manual_seed(0)
        model = GPT(layers=1, dropout=0.0)
        inputs = torch.randint(0, 512, (4, 64)), torch.randint(0, 512, (4, 64))
        size = 64 << 20
        first = cairn.backend(size, mode="inductor", total=True)
        compiled(model, first)(*inputs)
        plan = first.plans[0]
        weights = sum(p.untyped_storage().nbytes() for p in model.parameters())
        self.assertLessEqual(plan.limit, size - weights)
        self.assertGreater(plan.limit, size - 2 * weights)
        second = cairn.backend(mode="inductor", plan=plan)
        compiled(model, second)(*inputs)
        self.assertEqual(second.plans[0].steps, plan.steps)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
