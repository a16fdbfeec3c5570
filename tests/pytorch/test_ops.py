"""PyTorch's own table of ops with its samples: every differentiable op alone and between two products, at no budget and
at the smallest, bitwise equal to eager execution, or to aot_eager where that differs. An op is captured once by
AOTAutograd (replay.py); where that cannot capture it, torch.compile does.

In mode "compiled": numbers near those of eager execution or of Inductor, and the same bits in the smallest budget, with an
arena and without.

CAIRN_OP_SAMPLES says how many samples of each op are tried (1; 0: all), in both settings if it is not 1, CAIRN_OPS
which ops, as a regular expression, and CAIRN_OP_SHARE that only every n-th op is tried (1), or, as k/n, which of n.
Compilers take long: CAIRN_OP_COMPILED says which share of these ops is compiled (4: every fourth)."""

import functools
import importlib.util
import os
import re
import unittest
import warnings

import torch
from torch.utils import _pytree as pytree

import cairn
from cairn import _backend, _plan
from common import compiled, same
from replay import Captured, over, share_costs

SAMPLES = int(os.environ.get("CAIRN_OP_SAMPLES", 1))
OPS = os.environ.get("CAIRN_OPS", "")
FIRST, SHARE = map(int, ("0/" + os.environ.get("CAIRN_OP_SHARE", "1")).split("/")[-2:])
COMPILED = int(os.environ.get("CAIRN_OP_COMPILED", 4))
NEAR = 2**-8  # the distance of two results, as a share of their size: the rounding of a bfloat16


def table():
    from torch.testing._internal.common_methods_invocations import op_db
    return [op for op in op_db if op.supports_autograd and torch.float32 in op.supported_dtypes("cpu")
            and re.search(OPS, op.name)][FIRST::SHARE]


def wanted(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def setting(op, sample, between):
    """A function of tensors that returns a number, and the tensors, those with gradients first, and how many these are;
    None if the sample is empty."""
    leaves, form = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = sorted((i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)),
                    key=lambda i: not (wanted(leaves[i]) and leaves[i].requires_grad))
    tensors = [leaves[i].detach().clone() for i in places]
    learned = sum(wanted(leaves[i]) and leaves[i].requires_grad for i in places)
    if not learned or any(t.numel() == 0 for t in tensors[:learned]):
        return None
    width = tensors[0].shape[-1] if tensors[0].dim() else 0
    between_input = between and width and wanted(sample.input) and tensors[0].dtype == torch.float32

    def f(*given):
        new = list(leaves)
        for place, value in zip(places, given):
            new[place] = value * 1 if wanted(value) else value  # not a leaf: some ops work in place
        if between_input:
            new[places[0]] = new[places[0]] @ (torch.eye(width) + 0.01)
        value, args, kwargs = pytree.tree_unflatten(new, form)
        results = [r for r in pytree.tree_leaves(op.op(value, *args, **kwargs)) if wanted(r)]
        if between:
            results = [r @ torch.ones(r.shape[-1], 2, dtype=r.dtype) if r.dim() else r for r in results]
        return sum((r.abs() * r.abs()).sum().float() for r in results)
    return f, tensors, learned


def gradients(f, tensors, learned, call=None):
    """Losses and gradients of two steps."""
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        given = [t.detach().clone() for t in tensors]
        given[:learned] = [t.requires_grad_() for t in given[:learned]]
        loss = (call or f)(*given)
        loss = loss[0] if isinstance(loss, (list, tuple)) else loss
        loss.backward()
        results.append([loss.detach()] + [t.grad for t in given[:learned]])
    return results


def repeats(call):
    """What a call computes, or None if it does not, or not twice the same."""
    try:
        found = call()
        return found if same(found[0], found[1]) and torch.isfinite(found[0][0]) else None
    except Exception:
        return None


def is_near(found, expected):
    """Whether two lists of tensors are near each other, one by one."""
    def close(a, b):
        if a is None or b is None:
            return a is b
        a, b = (torch.view_as_real(t) if t.is_complex() else t for t in (a, b))
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        a, b, finite = a.double(), b.double(), torch.isfinite(b)
        return torch.equal(torch.isfinite(a), finite) and bool((a - b)[finite].norm() <= NEAR * b[finite].norm() + 1e-5)
    return len(found) == len(expected) and all(map(close, found, expected))


@unittest.skipUnless(importlib.util.find_spec("expecttest"), "PyTorch's table of ops needs the package expecttest")
class Ops(unittest.TestCase):
    EVERY = 1  # of the table
    counts = dict.fromkeys(("ops", "samples", "settings", "whole", "as aot_eager", "refused", "left out", "wrong"), 0)

    def count(self, name, by=1):
        self.counts[name] += by

    def try_one(self, op, f, tensors, learned):
        """Bits of eager execution, or of aot_eager where eager's differ or are not repeated."""
        compute = functools.partial(gradients, f, tensors, learned)
        expected = repeats(compute)
        try:
            captured = Captured(f)
            found = compute(captured.call)
            if captured.joint is None:
                raise RuntimeError("nothing was planned")
        except cairn.CairnError:
            if expected is None and repeats(lambda: compute(compiled(f, "aot_eager"))) is None:  # no valid program
                return self.count("left out")
            raise
        except Exception:  # without Dynamo some functions cannot be captured
            return self.try_whole(f, compute, expected)
        if expected is None or not same(expected, found):
            expected = repeats(lambda: compute(compiled(f, "aot_eager")))
            if expected is None:
                return self.count("left out")
            self.count("as aot_eager")
        self.assertTrue(same(expected, found), "no budget")
        self.assertEqual([over(meter) for meter in captured.backend.meters], [[]])
        planner = captured.backend.planners[0]
        self.assertIsNone(captured.differs(planner.within(planner.smallest()[0])), "smallest budget")

    def try_whole(self, f, compute, expected):
        """Through torch.compile."""
        judge = repeats(lambda: compute(compiled(f, "aot_eager")))
        if judge is None:
            return self.count("left out")
        self.count("whole")
        budget = None
        for _ in range(2):
            backend = cairn.backend(budget, check=True)
            found = compute(compiled(f, backend))
            self.assertTrue(same(judge, found) or same(expected, found), f"budget {budget}")
            self.assertEqual([over(m) for m in backend.meters], [[]] * len(backend.meters))
            if not backend.plans:
                return
            planner = _plan.Planner(backend.plans[0].joint, _backend.Options())
            budget = planner.smallest()[0] + planner.reserve

    def judge(self, op, sample, given):
        with self.subTest(op=op.name, variant=op.variant_test_name, sample=sample):
            self.count("settings")
            self.count("wrong")
            try:
                self.try_one(op, *given)
            except cairn.CairnError as error:
                if "cannot be planned" not in str(error):
                    raise
                self.count("refused")
                print(f"refused: {op.name}: {error}", flush=True)
            self.count("wrong", -1)

    def check(self, number, op):
        """Every sample that is wanted."""
        samples = iter(op.sample_inputs("cpu", torch.float32, requires_grad=True))
        done = 0
        while SAMPLES == 0 or done < SAMPLES:
            sample = next(samples, None)
            if sample is None:
                break
            settings = [setting(op, sample, between) for between in
                        ((number % 2 == 1,) if SAMPLES == 1 else (False, True))]
            if settings[0] is None:
                continue
            done += 1
            self.count("samples")
            for given in settings:
                self.judge(op, done, given)
        self.count("ops", done > 0)

    def test_table(self):
        for number, op in list(enumerate(table()))[::self.EVERY]:
            self.check(number, op)
            if number % 5 == 4:
                print(f"so far: {self.counts}", flush=True)
        print(f"table of ops: {self.counts}", flush=True)
        self.assertGreater(self.counts["settings"] - self.counts["left out"], 0)


class Kernels(Ops):
    EVERY = COMPILED
    counts = dict.fromkeys(("ops", "samples", "settings", "as inductor", "refused", "left out", "wrong"), 0)

    def try_one(self, op, f, tensors, learned):
        compute = functools.partial(gradients, f, tensors, learned)
        expected = repeats(compute)
        if expected is None:
            return self.count("left out")
        backend = cairn.backend(mode="compiled", check=True)
        try:
            found = compute(compiled(f, backend))
        except Exception:
            if repeats(lambda: compute(compiled(f, "inductor"))) is None:
                return self.count("left out")
            raise
        if not is_near(found[0], expected[0]):
            self.count("as inductor")
            self.assertTrue(is_near(found[0], compute(compiled(f, "inductor"))[0]), "no budget")
        self.assertEqual([over(meter) for meter in backend.meters], [[]] * len(backend.meters))
        for arena in (False, True) if backend.plans else ():
            planner = _backend.planner_for(backend.plans[0].joint, _backend.Options(mode="compiled", arena=arena))
            budget = planner.smallest()[0] + planner.reserve
            small = cairn.backend(budget, mode="compiled", arena=arena, check=not arena)
            self.assertTrue(same(found, compute(compiled(f, small))), f"budget {budget}, arena {arena}")
            self.assertEqual([over(meter) for meter in small.meters if meter is not None and over(meter)], [])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    share_costs()
    unittest.main()
