"""Random programs under random budgets: bitwise equal to aot_eager. CAIRN_PROGRAMS says how many, CAIRN_FIRST_PROGRAM
which is the first, CAIRN_DEVICE where they run."""

import os
import random
import unittest
import warnings

import torch

import cairn
from cairn import _backend, _plan
from common import compiled, same
from random_programs import function, inputs, source

PROGRAMS = int(os.environ.get("CAIRN_PROGRAMS", 300))
FIRST = int(os.environ.get("CAIRN_FIRST_PROGRAM", 0))


def gradients(f, given, backend):
    """Loss and gradients of two steps; the second one runs without checks."""
    results = []
    call = compiled(f, backend)
    for step in range(2):
        torch.manual_seed(step)
        given = [t.detach().requires_grad_() for t in given]
        loss = call(*given)
        if loss.requires_grad:
            loss.backward()
        results.append([loss.detach()] + [t.grad for t in given])
    return results


def limited(rng, plan):
    """A budget between the smallest one and what the plain step needs."""
    planner = _plan.Planner(plan.joint, _backend.Options())
    smallest, most = planner.smallest()[0] + planner.reserve, planner.none().peak + planner.reserve
    return rng.choice((smallest, rng.randint(smallest, most))) if smallest < most else None


class Programs(unittest.TestCase):
    def check(self, number):
        rng = random.Random(number)
        given = inputs(number)
        text = source(rng, given)
        f = function(text)
        given = [t.requires_grad_() for t in given]
        try:
            expected = gradients(f, given, "aot_eager")
        except Exception:
            return False  # nothing to compare with
        with self.subTest(number=number, program=text):
            budget = None
            for _ in range(2):
                backend = cairn.backend(budget, check=True)
                self.assertTrue(same(expected, gradients(f, given, backend)), f"budget {budget}")
                self.assertEqual([m.differences for m in backend.meters], [[]] * len(backend.meters))
                budget = limited(rng, backend.plans[0]) if backend.plans else None
                if budget is None:
                    break
        return True

    def test_programs(self):
        count = sum(self.check(FIRST + i) for i in range(PROGRAMS))
        self.assertGreater(count, 0.6 * PROGRAMS)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_default_device(os.environ.get("CAIRN_DEVICE", "cpu"))
    unittest.main()
