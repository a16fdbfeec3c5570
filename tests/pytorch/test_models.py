"""Models that other people wrote, from timm, transformers, diffusers and torchvision, and small ones of many kinds
(everyday.py, buffers.py): at no budget, at 60% and at the smallest budget they train bitwise as eager execution does, or
as aot_eager where the two differ, inside the budget, or are refused in one sentence.

In mode "compiled" the bits are compared with those of the same mode without a budget, and the numbers with eager
execution's. Compilers take long, so of these two are tried, or CAIRN_MODELS_COMPILED.

CAIRN_MODELS says how many are tried (ten; 0: all), or which, as a regular expression. CAIRN_MODELS_PATH is a folder
with packages that are for this test only. One line each."""

import copy
import importlib.util
import os
import re
import sys
import unittest
import warnings

import torch

import cairn
import buffers
import everyday
from cairn import _steps
from common import allocator_peak, same
from ecosystem import MODELS, TEN, declare_torchvision, make

WANTED = os.environ.get("CAIRN_MODELS", str(TEN))
COMPILED = os.environ.get("CAIRN_MODELS_COMPILED", "2")
STEPS = 4  # of several graphs the fourth is the first that is wholly planned
MORE = 8  # steps of several graphs in a budget, because what runs outside differs from step to step


def chosen(wanted):
    names = list(MODELS)
    if wanted.isdigit():
        return names[:int(wanted)] if int(wanted) else names
    return [name for name in names if re.search(wanted, name)]


def varied(inputs, number):
    """The data of a step: tokens in another order, and other floats."""
    if isinstance(inputs, dict):
        return {name: varied(value, number) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(varied(value, number) for value in inputs)
    if not isinstance(inputs, torch.Tensor) or inputs.numel() < 4:
        return inputs
    if inputs.is_floating_point():
        return inputs.flip(0) * (1 + number / 16) if number % 2 else inputs * (1 + number / 16)
    return inputs.roll(number, -1)


def train(model, inputs, backend=None, seed=7, steps=STEPS):
    """Losses, gradients and buffers of a few steps with other data each, and the allocator's peak in every second one from
    the fourth on; without a backend, eager."""
    torch._dynamo.reset()
    torch.manual_seed(seed)
    model = copy.deepcopy(model)
    call = torch.compile(model, backend=backend, dynamic=False) if backend is not None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    results, peak = [], 0
    for number in range(steps):
        given = varied(inputs, number)

        def step():
            loss = call(**given) if isinstance(given, dict) else call(*given)
            loss.backward()
            results.append([loss.detach()])
        if number >= STEPS - 1 and number % 2:
            peak = max(peak, allocator_peak(step))
        else:
            step()
        results[-1] += [p.grad for p in model.parameters()] + [b.clone() for b in model.buffers()]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return results, peak


class LeftOut(Exception):
    """A model that PyTorch itself does not compile, or not with the same results twice."""


class Expected:
    """Eager execution's results, and aot_eager's where something differs from those."""
    REFERENCE = "aot_eager"

    def __init__(self, model, inputs):
        self.model, self.inputs = model, inputs
        self.eager, self.compiled = train(model, inputs, steps=MORE)[0], None

    def equals(self, found):
        if same(self.eager[:len(found)], found):
            return True
        if self.compiled is None:
            self.compile()
        return same(self.compiled[:len(found)], found)

    def compile(self):
        """Compute aot_eager's results; LeftOut if it has none."""
        try:
            self.compiled, again = (train(self.model, self.inputs, self.REFERENCE, steps=MORE)[0] for _ in range(2))
        except Exception as error:
            raise LeftOut(f"left out: aot_eager raises {type(error).__name__}") from None
        if not same(self.compiled, again):
            raise LeftOut("left out: aot_eager does not repeat itself")


class Unrepeated(Expected):
    """Instead of aot_eager, which recomputes from buffers that have changed and is wrong then, PyTorch's backend that
    recomputes nothing."""
    REFERENCE = "aot_eager_default_partitioner"


class Near(Expected):
    """In the first step without a budget, and without dropout, whose random numbers are others: a loss near eager
    execution's, and gradients that point the same way. Later steps start from other weights. Then the bits of that."""
    OPTIONS = dict(mode="compiled")

    def equals(self, found):
        if self.compiled is not None:
            return same(self.compiled, found[:STEPS])
        self.compiled = found
        if same(self.eager[:STEPS], train(self.model, self.inputs, seed=8)[0]):
            return self._is_near(self.eager[0], found[0])
        model = copy.deepcopy(self.model).eval()
        expected, found = (train(model, self.inputs, backend, steps=1)[0][0]
                           for backend in (None, cairn.backend(**self.OPTIONS)))
        return self._is_near(expected, found)

    def _is_near(self, expected, found):
        learned = 1 + len(list(self.model.parameters()))
        pairs = [(a.double().flatten(), b.double().flatten()) for a, b in zip(expected[:learned], found) if a is not None]
        (loss, mine), *gradients = pairs
        a, b = (torch.cat(side) for side in zip(*gradients))
        alike = torch.nn.functional.cosine_similarity(a, b, 0)
        return bool(torch.isclose(mine, loss, rtol=1e-2, atol=1e-3)) and bool(alike > 0.99)


def limits(backend):
    """60% of what the step needs, and the smallest budget, for one graph or several."""
    variants = backend.steps.calls or [v for region in backend.regions for v in region.variants.values() if v.plan]
    most = _steps.needed([_steps.way_of(v, v.planner.none()) for v in variants])
    least = _steps.needed([_steps.way_of(v, v.planner.within(v.planner.smallest()[0])) for v in variants])
    return max(least, most * 6 // 10), least


sys.path += filter(None, [os.environ.get("CAIRN_MODELS_PATH")])


class Models(unittest.TestCase):
    EXPECTED: type[Expected] = Expected
    OPTIONS: dict = {}

    def check(self, name, make=make):
        try:
            model, inputs = make(name)
            expected = self.EXPECTED(model, inputs)
        except ImportError as error:
            return f"skipped: {error}"
        free = cairn.backend(**self.OPTIONS)
        try:
            found = self.trained(model, inputs, free, expected)
            self.assertTrue(expected.equals(found), f"{name}, no budget")
        except LeftOut as error:
            return str(error)
        except cairn.CairnError as error:
            self.assertNotIn("\n", str(error).strip().split("\n\nSet TORCHDYNAMO")[0])
            self.assertRegex(str(error), "cannot be planned|cannot capture|no plan fits")  # not the check of the first step
            return f"refused: {error}"
        if not free.plans:
            return "nothing planned"
        budgets = dict.fromkeys(limits(free))  # often both are one
        steps = MORE if free.steps.several else STEPS
        peaks = [self.limited(name, model, inputs, expected, budget, steps) for budget in budgets]
        return f"same bits, {len(free.plans)} graphs, in {' and '.join(peaks)}"

    @staticmethod
    def trained(model, inputs, backend, expected):
        try:
            return train(model, inputs, backend)[0]
        except cairn.CairnError:
            raise
        except Exception:
            expected.compile()  # if aot_eager raises too, the error is not ours
            raise

    def limited(self, name, model, inputs, expected, budget, steps):
        """Train in a budget; in the one that a refusal names, if what runs outside of several graphs needs more. Whether
        inputs that are freed during a step count is not the same in every run, so there may be two refusals."""
        for refusals in range(3):
            try:
                found, peak = train(model, inputs, cairn.backend(budget, **self.OPTIONS), steps=steps)
                break
            except cairn.BudgetError as error:
                self.assertLess(refusals, 2, str(error))
                self.assertGreater(error.smallest, budget)
                budget = error.smallest * 17 // 16  # what runs outside is measured
        self.assertTrue(expected.equals(found), f"{name}, budget {budget}")
        self.assertLessEqual(peak, budget, f"{name}: the allocator's peak")
        return f"{budget} ({100 * peak / budget:.1f}% used)"

    def check_all(self, names, make):
        trained, others = 0, []
        for name in names:
            with self.subTest(name):
                others.append(name)
                outcome = self.check(name, make)
                print(f"{name}: {outcome}", flush=True)
                if outcome.startswith("same"):
                    trained += 1
                    others.pop()
        print(f"{len(names)} models: {trained} trained with the same bits; not: {', '.join(others) or 'none'}", flush=True)
        self.assertGreaterEqual(trained, 0.9 * len(names))


@unittest.skipUnless(all(map(importlib.util.find_spec, ("timm", "transformers"))), "timm or transformers is missing")
class Ecosystem(Models):
    def test_models(self):
        self.check_all(chosen(WANTED), make)


@unittest.skipUnless(all(map(importlib.util.find_spec, ("timm", "transformers"))), "timm or transformers is missing")
class Compiled(Models):
    EXPECTED, OPTIONS = Near, Near.OPTIONS

    def test_compiled(self):
        self.check_all(chosen(COMPILED), make)


class Everyday(Models):
    def test_everyday(self):
        names = [name for name in everyday.MODELS if WANTED.isdigit() or re.search(WANTED, name)]
        self.check_all(names, everyday.make)


def with_buffers():
    names = list(buffers.MODELS)
    return names[:int(WANTED) or None] if WANTED.isdigit() else [name for name in names if re.search(WANTED, name)]


class Buffers(Models):
    EXPECTED: type[Expected] = Unrepeated

    def test_buffers(self):
        self.check_all(with_buffers(), buffers.make)

    def test_changed_outside(self):
        """What a graph recomputes must read what the forward part has read."""
        for name in buffers.REFUSED:
            model, inputs = buffers.make(name)
            free = cairn.backend()
            self.assertTrue(Unrepeated(model, inputs).equals(train(model, inputs, free)[0]), name)
            for options in (dict(budget=limits(free)[1]), dict(mode="compiled")):
                with self.subTest(name, **options), self.assertRaisesRegex(cairn.CairnError, "was changed between"):
                    train(model, inputs, cairn.backend(**options))


class CompiledBuffers(Models):
    EXPECTED, OPTIONS = Near, Near.OPTIONS

    def test_buffers(self):
        self.check_all([name for name in with_buffers() if not WANTED.isdigit() or "chain" in name], buffers.make)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    declared = declare_torchvision()
    unittest.main()
