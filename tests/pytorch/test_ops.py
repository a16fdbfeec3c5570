"""PyTorch's own table of ops with its samples: every differentiable op alone and between two products, at no budget and
at the smallest, bitwise equal to aot_eager.

CAIRN_OP_SAMPLES says how many samples of each op are tried (1; 0: all), in both settings if it is not 1, CAIRN_OPS
which ops, as a regular expression, and CAIRN_OP_SHARE that only every n-th op is tried (1), or, as k/n, which of n."""

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

SAMPLES = int(os.environ.get("CAIRN_OP_SAMPLES", 1))
OPS = os.environ.get("CAIRN_OPS", "")
FIRST, SHARE = map(int, ("0/" + os.environ.get("CAIRN_OP_SHARE", "1")).split("/")[-2:])


def table():
    from torch.testing._internal.common_methods_invocations import op_db
    return [op for op in op_db if op.supports_autograd and torch.float32 in op.supported_dtypes("cpu")
            and re.search(OPS, op.name)][FIRST::SHARE]


def wanted(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def setting(op, sample, between):
    """A function of tensors that returns a number, and the tensors; None if the sample is empty."""
    leaves, form = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, v in enumerate(leaves) if wanted(v) and v.requires_grad]
    tensors = [leaves[i].detach().clone() for i in places]
    if not tensors or any(t.numel() == 0 for t in tensors):
        return None
    torch.manual_seed(0)
    first = torch.eye(tensors[0].shape[-1]) + 0.01 if between and tensors[0].dim() and wanted(sample.input) else None

    def f(*given):
        new = list(leaves)
        for place, value in zip(places, given):
            new[place] = value * 1  # not a leaf: some ops work in place
        if first is not None and new[places[0]].dtype == first.dtype:
            new[places[0]] = new[places[0]] @ first
        value, args, kwargs = pytree.tree_unflatten(new, form)
        results = [r for r in pytree.tree_leaves(op.op(value, *args, **kwargs)) if wanted(r)]
        if between:
            results = [r @ torch.ones(r.shape[-1], 2, dtype=r.dtype) if r.dim() else r for r in results]
        return sum((r.abs() * r.abs()).sum().float() for r in results)
    return f, tensors


def gradients(f, tensors, backend):
    results = []
    call = compiled(f, backend) if backend is not None else f
    for _ in range(2):
        torch.manual_seed(3)
        given = [t.detach().clone().requires_grad_() for t in tensors]
        loss = call(*given)
        loss.backward()
        results.append([loss.detach()] + [t.grad for t in given])
    return results


def repeats(f, tensors):
    """What aot_eager computes, or None if it does not, or not twice the same."""
    try:
        first = gradients(f, tensors, "aot_eager")
        return first if same(first[0], first[1]) and torch.isfinite(first[0][0]) else None
    except Exception:
        return None


@unittest.skipUnless(importlib.util.find_spec("expecttest"), "PyTorch's table of ops needs the package expecttest")
class Ops(unittest.TestCase):
    tried = refused = 0

    def try_one(self, op, f, tensors):
        expected = repeats(f, tensors)
        if expected is None:
            return
        type(self).tried += 1
        budget = None
        for _ in range(2):
            backend = cairn.backend(budget, check=True)
            try:
                found = gradients(f, tensors, backend)
            except cairn.CairnError as error:
                if "cannot be planned" not in str(error):
                    raise
                type(self).refused += 1
                print(f"refused: {op.name}: {error}", flush=True)
                return
            self.assertTrue(same(expected, found), f"budget {budget}")
            self.assertEqual([m.differences for m in backend.meters], [[]] * len(backend.meters))
            if not backend.plans:
                return
            planner = _plan.Planner(backend.plans[0].joint, _backend.Options())
            budget = planner.smallest()[0] + planner.reserve

    def test_table(self):
        for number, op in enumerate(table()):
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
                for f, tensors in settings:
                    with self.subTest(op=op.name, variant=op.variant_test_name, sample=done):
                        self.try_one(op, f, tensors)
        print(f"{self.tried} tried, {self.refused} refused")
        self.assertGreater(self.tried, 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    unittest.main()
