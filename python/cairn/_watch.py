"""Steps of one graph: what runs outside of it counts too.

A plan knows what its graph allocates. The loss may be computed outside, from what the graph returns, and a module after
it may be uncaptured. So the allocator's peak is measured from the beginning of the forward part to the end of the
backward part: on a GPU in every step, which costs nothing; on a processor in the first, second, fourth, eighth ... step of
a shape, or in every one if gradients arrive that are not planned (_absent.py). If it is above the budget, a warning says
so, and the next step has a plan that leaves room: first where the forward part has ended, because a loss lives there,
and if that is not enough, all the time.
"""

import threading
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from . import _distributed, _optimizers
from ._peak import Peak, busy, counter_of, inside_backward
from ._plan import Switches
from ._steps import boundary_of

_calls = 0  # of all graphs of this process


@dataclass
class _Window:
    """One step that is measured. `number`: of its call."""
    variant: Any
    peak: Peak
    number: int
    whole: bool = False  # its backward part has run, and no other graph in between


class Watch:
    def __init__(self, options):
        self.options = options
        self._open = {}  # by counter: the step that is measured
        self._counts, self._worst, self._wanted = {}, {}, {}  # by variant
        self._always = set()  # variants that are measured in every step

    def enter(self, variant):
        """A graph that is a whole step is about to run."""
        global _calls
        self.close()
        _calls += 1
        if self.options.budget is None or variant.plan is None or not torch.is_grad_enabled():
            return
        if Switches.simulate_host:  # the host's memory would count
            return
        device = variant.planner.joint.device
        count = self._counts[variant] = self._counts.get(variant, 0) + 1
        self._make_room(variant, count)
        skipped = device.type == "cpu" and count & (count - 1) and variant not in self._always
        if variant.plan.budget is None or skipped or busy(device) \
                or inside_backward(device) or device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return
        try:
            self._open[counter_of(device)] = _Window(variant, Peak(device, _limit(variant), _never), _calls)
            _optimizers.before_step(self.close)
        except RuntimeError:  # the user's profiler runs on the processor
            pass

    def leave(self, variant):
        """The backward part of a variant has run."""
        if variant is None or variant.plan is None:
            return
        device = variant.planner.joint.device
        window = self._open.get(counter_of(device))
        if window is not None:
            window.whole = window.variant is variant and window.number == _calls  # no other graph ran in between
            window.peak.mark_end()
            if not inside_backward(device):
                self.close(counter_of(device))

    def measure_all(self, variant):
        """What a variant needs outside differs from step to step, so measure every one."""
        self._always.add(variant)

    def close(self, counter=None):
        """A step has ended."""
        window = self._open.pop(counter or threading.get_ident(), None)
        if window is None:
            return
        found, variant = window.peak.stop(), window.variant
        if not window.whole or window.peak.interrupted or found is None:
            return
        over = found - _limit(variant)
        if over > self._worst.get(variant, 0):
            self._worst[variant] = over
            warnings.warn(f"cairn: a step took {over} bytes more than its budget, because of what runs outside the "
                          "compiled model, such as the loss; later steps leave room for it", stacklevel=2)
        if over > 0 and not variant.exhausted:
            self._wanted[variant] = found, over

    def _make_room(self, variant, count):
        """Plan again if a step was over its budget. All ranks have one plan, so they agree on it, before the second step."""
        wanted = self._wanted.pop(variant, None)
        outside, beside = variant.outside, variant.beside
        if wanted is not None:
            found, over = wanted
            if not outside:
                joint, plan = variant.planner.joint, variant.plan
                outside = found - plan.step_bytes[boundary_of(joint, plan)] + joint.boundary.workspace
                outside = max(outside + outside // 16, over)
            else:
                beside += over + over // 8
        if not _distributed.alone():
            if count != 2:
                return
            outside, beside = _distributed.most(outside), _distributed.most(beside)
        if (outside, beside) != (variant.outside, variant.beside):
            variant.plan_again(outside, beside)


def _never():
    """Such a peak may always be interrupted: then another graph runs."""
    return False


def _limit(variant):
    """What the allocator may count: the plan's budget, and what libraries keep."""
    return variant.plan.budget + variant.plan.reserve
