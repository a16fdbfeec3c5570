"""One captured step under many plans. AOTAutograd captures a function once, without Dynamo, for a backend without a
budget; what goes into its two graphs and comes out of them is kept. Then other plans are written from the same capture,
and their graphs must give the same bits from the same arguments."""

import functools
import time

import torch
from torch._functorch.aot_autograd import aot_function

from cairn import _backend, _costs, _moves
from cairn._arena import ArenaWriter
from cairn._joint import is_mutation
from cairn._write import Writer, boxed
from common import same
from random_plans import plan_text, random_runs
from random_programs import replicas


def over(meter):
    """Where more bytes live than predicted. Fewer do where a result has no gradient: AOTAutograd drops the zeros that it
    makes for it, and a plan counts every gradient of a result as kept by the caller."""
    return [row for row in meter.differences if row[2] > row[1]]


class _SharedTable(_costs.Table):
    """One for all captures of a process: a file that grows with every program would be read and written for each."""

    def save(self):
        pass


def share_costs():
    _costs.Table = functools.lru_cache(_SharedTable)


class Part:
    """What one graph got in its first run: arguments and random state; and what it returned. `changes`: it may change
    its arguments, and they stay alive."""

    def __init__(self, changes):
        self.arguments, self.changes = None, changes

    def watch(self, call):
        def run(arguments):
            if self.arguments is not None:
                return call(arguments)
            self.arguments, self.state, given = replicas(arguments), torch.get_rng_state(), []
            if self.changes:
                given += arguments
            results = call(arguments)
            self.results, self.after = replicas(results), replicas(given)
            return results
        run._boxed_call = True
        return run


class Captured:
    """A function compiled for a backend without a budget."""

    def __init__(self, f):
        self.backend = _backend.Backend(_backend.Options(check=True))
        self.forward, self.backward = Part(True), Part(False)
        self.call = aot_function(f, self._compile_forward, self._compile_backward, self._partition,
                                 inference_compiler=boxed)

    def _partition(self, gm, joint_inputs, **options):
        self.backend._start = time.perf_counter()
        return self.backend.partition(gm, joint_inputs, **options)

    def _compile_forward(self, gm, inputs):
        return self.forward.watch(self.backend._compile_forward(gm, inputs))

    def _compile_backward(self, gm, inputs):
        return self.backward.watch(self.backend._compile_backward(gm, inputs))

    @property
    def joint(self):
        return self.backend.plans[0].joint if self.backend.plans and self.backward.arguments is not None else None

    def plans(self, rng):
        """Other plans of the step: one for a budget, in one of three cases, and a random one that no solver makes; in one
        of eight cases one in an arena."""
        planner = self.backend.planners[0]
        if rng.random() < 0.33:
            smallest, most = planner.smallest()[0], planner.enough()
            if smallest < most:
                yield planner.within(rng.choice((smallest, smallest, rng.randint(smallest, most))))
        runs, _ = random_runs(self.joint, rng, rng.choice((0.1, 0.4)))
        yield planner.read(plan_text(self.joint, planner.step, runs, rng))
        if rng.random() < 0.125:
            planner = _backend.planner_for(self.joint, _backend.Options(arena=True))
            yield rng.choice((planner.none, lambda: planner.within(planner.smallest()[0])))()

    def differs(self, plan):
        """Why a plan does not give the same bits or takes other memory than predicted; None if it does neither."""
        results, tangents = len(self.joint.fwd_out), len(self.joint.tangents)
        meter, arena = _moves.Meter("cpu", plan.alignment), hasattr(plan, "layout")
        writer = ArenaWriter(self.joint, plan) if arena else Writer(self.joint, plan, meter)
        forward, backward = map(boxed, writer.graphs())
        for run in ("first run", "second run"):  # the first one is checked
            given = replicas(self.forward.arguments)
            torch.set_rng_state(self.forward.state)
            made = list(forward(list(given)))
            if not same(self.forward.results[:results], made[:results]) or not same(self.forward.after, given):
                return f"{run}: the forward part differs"
            # The caller keeps results and gradients, but not the new values of its inputs.
            kept = [r for r, d in zip(made, self.joint.descriptions[:results]) if not is_mutation(d)]  # noqa: F841
            arguments = made[results:]
            del made
            torch.set_rng_state(self.backward.state)
            gradients = replicas(self.backward.arguments[len(self.backward.arguments) - tangents:])
            arguments += gradients
            if not same(self.backward.results, list(backward(arguments))):
                return f"{run}: the backward part differs"
        if over(meter):
            return f"live bytes: {over(meter)[0]}"
        if plan.budget is not None and meter.peak > plan.budget:
            return f"{meter.peak} live bytes in a budget of {plan.budget}"
        return None
