"""Models that other people wrote, from timm, transformers, diffusers and torchvision: at no budget, at 60% and at the
smallest budget they train bitwise as aot_eager does, or are refused in one sentence. Models that aot_eager cannot train
are left out.

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
from cairn import _regions
from common import same
from ecosystem import MODELS, TEN, declare_torchvision, make

WANTED = os.environ.get("CAIRN_MODELS", str(TEN))
STEPS = 3


def chosen():
    names = list(MODELS)
    if WANTED.isdigit():
        return names[:int(WANTED)] if int(WANTED) else names
    return [name for name in names if re.search(WANTED, name)]


def train(model, inputs, backend):
    torch._dynamo.reset()
    torch.manual_seed(7)
    model = copy.deepcopy(model)
    call = torch.compile(model, backend=backend, dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    results = []
    for _ in range(STEPS):
        loss = call(**inputs) if isinstance(inputs, dict) else call(*inputs)
        loss.backward()
        results.append([loss.detach().clone()] + [p.grad for p in model.parameters()])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return results


def limits(backend):
    """60% of what the step needs, and the smallest budget, for one graph or several."""
    variants = backend.steps.calls or [v for region in backend.regions for v in region.variants.values() if v.plan]
    most = _regions.needed([_regions.way_of(v, v.planner.none()) for v in variants])
    least = _regions.needed([_regions.way_of(v, v.planner.within(v.planner.smallest()[0])) for v in variants])
    return max(least, most * 6 // 10), least


sys.path += filter(None, [os.environ.get("CAIRN_MODELS_PATH")])


@unittest.skipUnless(all(map(importlib.util.find_spec, ("timm", "transformers"))), "timm or transformers is missing")
class Models(unittest.TestCase):
    def check(self, name):
        try:
            model, inputs = make(name)
            expected = train(model, inputs, "aot_eager")
            if not same(expected, train(model, inputs, "aot_eager")):
                return "does not repeat itself"
        except ImportError as error:
            return f"skipped: {error}"
        except Exception as error:
            return f"left out: aot_eager raises {type(error).__name__}"
        free = cairn.backend()
        try:
            self.assertTrue(same(expected, train(model, inputs, free)), f"{name}, no budget")
        except cairn.CairnError as error:
            self.assertNotIn("\n", str(error).strip().split("\n\nSet TORCHDYNAMO")[0])
            return f"refused: {error}"
        if not free.plans:
            return "nothing planned"
        for budget in limits(free):
            backend = cairn.backend(budget)
            self.assertTrue(same(expected, train(model, inputs, backend)), f"{name}, budget {budget}")
        return f"same bits, {len(free.plans)} graphs"

    def test_models(self):
        trained = 0
        for name in chosen():
            with self.subTest(name):
                outcome = self.check(name)
                trained += outcome.startswith("same")
                print(f"{name}: {outcome}", flush=True)
        self.assertGreater(trained, 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    declared = declare_torchvision()
    unittest.main()
