"""Random programs under random plans: bitwise equal to eager execution, or to aot_eager where that differs. Most
programs are captured once by AOTAutograd and run under several plans (replay.py); every tenth one goes the whole way
through torch.compile, with a budget, and every 75th one is compared in mode "compiled" with and without a budget,
with an arena; without random numbers, its results are also near those of eager execution or of Inductor.

CAIRN_PROGRAMS says how many programs (300), CAIRN_FIRST_PROGRAM which is the first, CAIRN_COMPILED_SHARE which share is
compiled (75: every 75th), CAIRN_DEVICE where they run. With a GPU all of them go the whole way."""

import os
import random
import unittest
import warnings
import zlib

import torch
from torch._functorch.aot_autograd import aot_function
from torch._functorch.compilers import nop
from torch._functorch.partitioners import min_cut_rematerialization_partition

import cairn
from cairn import _backend
from common import compiled, same
from random_programs import LEARNED, function, inputs, moved, replicas, source
from replay import Captured, over, share_costs
from test_ops import is_near

PROGRAMS = int(os.environ.get("CAIRN_PROGRAMS", 300))
FIRST = int(os.environ.get("CAIRN_FIRST_PROGRAM", 0))
DEVICE = os.environ.get("CAIRN_DEVICE", "cpu")
WHOLE, COMPILED = 10, int(os.environ.get("CAIRN_COMPILED_SHARE", 75))
# Programs that failed once: a kernel that reads nothing, merged groups that depended on each other, and a buffer that is
# read, changed and read again, where aot_eager is wrong; a view of a number; a view of the gradient of a view.
KNOWN = 430537, 431887, 430156, 810112, 909261


def trained(f, given, call=None, seed=0):
    """Results, gradients and changed inputs of two steps; in the second, inputs are in other places of their memory, and
    those of every second program share it. Of every third program all results have a part in the loss, not only the first;
    of half of these as parts of one tensor, so that their gradients are parts of one, too."""
    seen, kind = [], zlib.crc32(f.text.encode()) % 12
    all_learn, share = kind % 3 == 0, kind % 4 < 2
    for step in range(2):
        torch.manual_seed(seed + step)
        mine = replicas(given)
        learned = mine[:len(LEARNED)]
        learned = moved(learned, 3 * step) if share else [moved([t], 3 * step)[0] for t in learned]
        mine[:len(LEARNED)] = [t.detach().requires_grad_() for t in learned]
        results = (call or f)(*mine)
        results = results if isinstance(results, (list, tuple)) else (results,)
        learned = [r for r in (results if all_learn else results[:1]) if r.requires_grad]
        if learned and kind % 6 == 0:
            torch.cat([r.abs().float().flatten() for r in learned]).cumsum(0).mean().backward()
        elif learned:
            (sum(r.abs().float().sum() for r in learned) if all_learn else learned[0]).backward()
        seen.append([[r.detach() for r in results], [t.grad for t in mine[:len(LEARNED)]],
                     [t.detach() for t in mine[len(LEARNED):]]])
    return seen


def by_aot_eager(f, given, backend="aot_eager"):
    """What aot_eager computes, or None if it does not."""
    try:
        return trained(f, given, compiled(f, backend))
    except Exception:
        return None


def without_recomputing(f, given, found):
    """What PyTorch computes if nothing is recomputed, where a program changes a buffer; None elsewhere. aot_eager
    recomputes in the backward part what was made of a buffer, from its new value (pytorch/pytorch, pull request
    197039), so its gradients are not those of its own joint graph."""
    if all(same(list(given[len(LEARNED):]), changed) for _, _, changed in found):
        return None
    return by_aot_eager(f, given, "aot_eager_default_partitioner")


def without_dynamo(f, given):
    """What AOTAutograd's own graphs compute, if Dynamo, which leaves out random ops that nobody reads, does not capture;
    None if it does not, as where an input is a view of another that changes."""
    try:
        return trained(f, given, aot_function(f, nop, nop, min_cut_rematerialization_partition))
    except Exception:
        return None


def are_near(found, expected):
    """Whether all tensors of two steps are near each other; `expected` may be None, then they are not."""
    def flat(steps):
        return [t for step in steps for part in step for t in part if t is None or isinstance(t, torch.Tensor)]
    return expected is not None and is_near(flat(found), flat(expected))


class NothingToCompare(Exception):
    """PyTorch itself does not compile a program, or not with the same results twice."""


def limited(rng, plan, **options):
    """A budget between the smallest one and what the plain step needs."""
    planner = _backend.planner_for(plan.joint, _backend.Options(**options))
    smallest, most = planner.smallest()[0] + planner.reserve, planner.none().peak + planner.reserve
    return rng.choice((smallest, rng.randint(smallest, most))) if smallest < most else None


class Programs(unittest.TestCase):
    counts = dict.fromkeys(("compared", "plans", "whole", "compiled", "no gradient", "not as eager", "aot_eager wrong",
                            "refused", "wrong", "nothing to compare with", "drawn again"), 0)

    def count(self, name, by=1):
        self.counts[name] += by

    def judge(self, f, given, found, others=False):
        """Compare with eager execution, or with aot_eager where the two differ, or with what is right where a buffer
        changes. `others`: or with AOTAutograd alone."""
        if same(self.eager, found):
            return
        self.count("not as eager")
        expected = by_aot_eager(f, given)
        if expected is None:
            raise NothingToCompare
        if same(expected, found) or others and same(without_dynamo(f, given), found):
            return
        if not same(expected, by_aot_eager(f, given)):
            raise NothingToCompare
        self.assertTrue(same(without_recomputing(f, given, found), found), "differs from aot_eager")
        self.count("aot_eager wrong")

    def memory(self, backend):
        return [over(meter) for meter in backend.meters if over(meter)]

    def replayed(self, rng, f, given):
        captured = Captured(f)
        found = trained(f, given, captured.call)
        self.judge(f, given, found, others=True)
        self.assertEqual(self.memory(captured.backend), [])
        if captured.joint is None:
            return self.count("no gradient")
        for plan in captured.plans(rng):
            self.assertIsNone(captured.differs(plan), str(plan))
            self.count("plans")

    def whole(self, rng, f, given):
        budget = None
        for _ in range(2):
            backend = cairn.backend(budget, check=True)
            found = trained(f, given, compiled(f, backend))
            self.judge(f, given, found)
            self.assertEqual(self.memory(backend), [])
            self.count("plans")
            budget = limited(rng, backend.plans[0]) if backend.plans and budget is None else None
            if budget is None:
                break
        self.count("whole")

    def in_kernels(self, rng, f, given):
        backend = cairn.backend(mode="compiled")
        expected = trained(f, given, compiled(f, backend))
        if not backend.plans:
            return self.count("no gradient")
        if same(self.eager, trained(f, given, seed=2)):  # it has no random numbers
            self.assertTrue(are_near(expected, self.eager) or are_near(expected, by_aot_eager(f, given, "inductor"))
                            or are_near(expected, without_recomputing(f, given, expected)), "far from eager execution")
        for arena in (False, True):
            budget = limited(rng, backend.plans[0], mode="compiled", arena=arena)
            other = cairn.backend(budget, mode="compiled", arena=arena)
            self.assertTrue(same(expected, trained(f, given, compiled(f, other))), f"budget {budget}, arena {arena}")
        self.count("compiled")

    def drawn(self, number):
        """The first program of a number that eager execution can train."""
        rng, given = random.Random(number), inputs(number)
        while True:
            text = source(rng, given)
            try:
                self.eager = trained(function(text), given)
                return rng, text, given
            except Exception:
                self.count("drawn again")

    def check(self, number):
        rng, text, given = self.drawn(number)
        f = function(text)
        with self.subTest(number=number, program=text):
            self.count("wrong")
            try:
                self.go(number, rng, f, given)
                self.count("compared")
            except NothingToCompare:
                self.count("nothing to compare with")
            except cairn.CairnError as error:
                if "cannot be planned" not in str(error):
                    print(f"failed: {number}: {error}\n{text}", flush=True)
                    raise
                self.count("refused")
                print(f"refused: {number}: {error}", flush=True)
            except Exception as error:
                print(f"failed: {number}: {type(error).__name__}: {error}\n{text}", flush=True)
                raise
            self.count("wrong", -1)

    def go(self, number, rng, f, given):
        replayed = DEVICE == "cpu" and number % WHOLE
        try:
            (self.replayed if replayed else self.whole)(rng, f, given)
        except Exception:
            if by_aot_eager(f, given) is None:
                raise NothingToCompare from None
            if not replayed or without_dynamo(f, given) is not None:
                raise
            self.whole(rng, f, given)
        if number % COMPILED == COMPILED // 2 and by_aot_eager(f, given) is not None:  # Dynamo takes it
            try:
                self.in_kernels(rng, f, given)
            except Exception:
                if by_aot_eager(f, given, "inductor") is None:  # PyTorch's own backend raises, too
                    raise NothingToCompare from None
                raise

    def test_programs(self):
        for number in (*KNOWN, *range(FIRST, FIRST + PROGRAMS)):
            self.check(number)
            if number % 20 == 19:
                print(f"so far: {number + 1 - FIRST} programs from {FIRST}: {self.counts}", flush=True)
        print(f"{PROGRAMS} programs from {FIRST}: {self.counts}", flush=True)
        self.assertGreater(self.counts["compared"], 0.8 * PROGRAMS)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_default_device(DEVICE)
    share_costs()
    unittest.main()
