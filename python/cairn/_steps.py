"""Steps of several graphs: one budget for all of them, and for what runs between them.

    first step    every region has its smallest plan, and its calls are noted. If these do not fit, it runs ahead to its
                  backward part, and is refused there, when all of its calls are known (_ahead.py)
    second step   the same again, and what the allocator has in use is measured: what the plans do not explain is what
                  runs outside the regions, which is noted for every place of the step (_room.py)
    third step    one choice among plans of all regions: the fastest ones that fit together, and beside that
    every step    is measured from then on. What runs outside may be another thing in every step: experts get other rows,
                  a module runs now and then. An eighth more than the most that was seen is set aside, so plans are
                  chosen again before it is full; a step that is over the budget all the same says so
"""

import threading
import warnings
import weakref

import torch

from . import _ahead, _distributed, _optimizers, _sizes, _torch
from . import _library as lib
from ._errors import BudgetError, CairnError
from ._peak import Peak, busy, inside_backward, running
from ._room import (BACKWARD, BACKWARD_END, FORWARD, FORWARD_END, Room, demands, keys_of, left_by_later, needed)

TRIES = 3  # steps that are measured until one was not disturbed, by the user's profiler for example
DEPTH = 8  # views between a result and the call that made it
IDLE = 4  # steps of optimisers
POINTS = 6  # plans of a region from which one is chosen


class Steps:
    """The calls of one step, and the share of the budget of each."""

    def __init__(self, options):
        self.options, self.calls = options, []  # of the step that needs the most
        self.several = self.settled = False
        self.went_back = False
        self.last = {}  # by thread: the region that ran last, and what is alive as long as its backward part may run
        self._returned = {}  # by the number of a call what it has returned, until plans are chosen
        self._refused = None  # the error of the step that was refused last
        self._noted = []  # calls of all steps until plans are chosen
        self._ahead = set()  # the numbers of calls that keep nothing for a backward part, because they do not fit
        self.now, self._alive = [], []  # the calls of the step that runs, and what is alive as long as they hold tensors
        self.peak = None  # what counts in it
        self._ids, self._count, self._moments = [], 0, []  # of these calls; what of them begins and ends, in this order
        self._seen, self._kept = Room(), Room()  # what runs outside the regions: the most that was seen; what is set aside
        self._numbers = {}  # of variants, in the order in which they ran first
        self._worst = 0  # bytes over the budget
        self._tries = self._judged = self._idle = 0
        self._sequences, self._rare = [], []  # calls of steps, which plans were chosen for; those that were seen once
        self._choose_again = self._exhausted = self._will_end = False
        self._plans, self._size = {}, None  # to choose among, by variant; what they and the rest may take
        self._thread = None  # the one whose steps they are

    @property
    def outside(self):
        """Bytes by which what runs outside the regions raises the memory of a step, with the plans that are in use."""
        return self._needs(self.calls, self._kept) - _needed_by(self.calls) if self.calls else 0

    # ---- the regions of a step ----

    def enter(self, variant):
        """A region is about to run. A function that makes an error if its step does not fit: it must run ahead."""
        if self.several and variant.plan is not None:
            self._refuse_threads()
        if not torch.is_grad_enabled():
            self._pause()
            return None
        if variant.plan is None:
            return None
        if not self.several:
            self._look_for_several()
        if not self.several:
            return self._alone(variant)
        if self.options.budget is None and self.settled:
            return None
        if not self.calls and self.options.budget is not None:
            _optimizers.before_step(self._pause)
            _optimizers.after_step(self._after_optimizer)
        if self.went_back and self.now and not _torch.runs_backward():  # it may recompute what a checkpoint left out
            self._end_step()
        self._forget_dead()
        if not self.now:
            self._begin_step()
        self._make_small(variant)
        self.now.append(variant)
        self._alive.append(_always)
        self._count += 1
        self._ids.append(self._count)
        self._note(FORWARD, self._count)
        self.went_back = False
        return self._run_ahead()

    # ---- steps that do not fit: _ahead.py ----

    def _alone(self, variant):
        """For a region that may be the first of several."""
        if variant.refusal is None:
            return None
        size = variant.planner.budget_bytes(self.options.budget)
        if variant.ahead()[1] > size:
            raise variant.refusal.copy()
        return lambda: self._refusal() if self.several else variant.refusal.copy()

    def _run_ahead(self):
        """Whether the last call must run ahead, as enter() says it: if the calls do not fit, or one before ran ahead."""
        if self.settled or self.options.budget is None or _sizes.is_share(self.options.budget):
            return None
        size = self._planner(self.now).budget_bytes(self.options.budget)
        if not self._ahead.intersection(self._ids) and _needed_by(self.now) <= size:
            return None
        self._drop()
        held = sum(returned.bytes() for returned in self._returned.values())
        if held + self.now[-1].ahead()[1] > size:
            raise self._refusal("; the graphs that follow are not known yet")
        return self._refusal

    def _drop(self):
        """From now on nothing is kept for the backward part of this step, which is refused."""
        nodes = [alive() for alive, call in zip(self._alive[:-1], self._ids) if call not in self._ahead]
        _torch.clear_saved([node for node in nodes if node is not None])
        self._ahead.update(self._ids)

    def _refusal(self, more=""):
        """The error for a step that is known so far, and that nobody goes on with; again, if another of its results is
        used."""
        if self.now:
            steps, size = [*self._noted, self.now], self._planner(self.now).budget_bytes(self.options.budget)
            errors = [self._error(calls, size, more=more) for calls in steps]
            self._refused = max(errors, key=lambda error: error.smallest)
        self.now, self._alive, self._ids, self.went_back = [], [], [], False
        self._ahead.clear()
        self._returned.clear()
        return self._refused.copy()

    def _make_small(self, variant):
        """Until plans are chosen every region has its smallest one. It may have been taken for a whole step before."""
        if self.options.budget is not None and not self.settled and not variant.smallest:
            variant.smallest = True
            variant.replace(_distributed.plan(variant.planner, variant.planner.smallest()[0]))

    def _note(self, kind, call):
        """A part of a call begins or ends."""
        if self.peak is not None:
            self.peak.note()
            self._moments.append((kind, call))

    def go_back(self, variant):
        """The backward part of a region begins. What comes after the whole backward pass is no part of the step."""
        if self._ahead.intersection(self._ids):
            raise self._refusal()
        self.went_back = True
        self._note_backward(BACKWARD, variant)
        if self.peak is not None and not self._will_end:
            self._will_end = True
            _torch.after_backward(self._mark_end)

    def went_through(self, variant):
        """The backward part of a region has run."""
        self._note_backward(BACKWARD_END, variant)

    def _note_backward(self, kind, variant):
        """Of several calls of a region the last one goes back first."""
        if self.peak is not None and variant in self.now:
            past = [call for done, call in self._moments if done == kind]
            mine = [call for v, call in zip(self.now, self._ids) if v is variant and call not in past]
            if mine:
                self._note(kind, mine[-1])

    def _mark_end(self):
        self._will_end = False
        if self.peak is not None:
            self.peak.mark_end()

    def _refuse_threads(self):
        """Calls of several threads cannot be told apart, so nobody knows what lives at the same time."""
        self._thread = self._thread or threading.get_ident()
        if self.options.budget is not None and self._thread != threading.get_ident():
            raise CairnError("steps of several graphs run in several threads with one backend; give each "
                             "thread its own cairn.backend")

    def leave(self, variant, results):
        """A region has run."""
        if variant.plan is None or not torch.is_grad_enabled():
            return
        if not self.several:
            self.went_back = False
            self.last[threading.get_ident()] = variant, _backward_of(results), _ahead.Returned(results)
        elif self._alive:
            self._alive[-1] = _backward_of(results)
            if not self.settled:
                self._returned[self._ids[-1]] = _ahead.Returned(results)
            self._note(FORWARD_END, self._ids[-1])

    def _forget_dead(self):
        """Calls whose results nobody kept hold nothing, and are no part of the step."""
        if not self.went_back and not all(alive() for alive in self._alive):
            kept = [row for row in zip(self.now, self._alive, self._ids) if row[1]()]
            self.now, self._alive, self._ids = ([row[i] for row in kept] for i in range(3))

    def _look_for_several(self):
        """Where blocks are compiled one by one, each looks like a whole step, and has the whole budget. They are several
        if one begins while another holds tensors for its backward part."""
        variant, alive, returned = self.last.get(threading.get_ident(), (None, lambda: None, None))
        if self.went_back or alive() is None:
            return
        self.several = True
        self.now.append(variant)
        self._alive.append(alive)
        self._ids.append(0)
        self._returned[0] = returned
        if variant.refusal is not None:
            self._ahead.add(0)
        self._make_small(variant)

    # ---- measuring: from one step of the optimiser to the next, which is no part of it ----

    def _measure(self):
        device = self.calls[0].planner.joint.device
        if self.options.budget is None or busy(device) or inside_backward(device):
            return
        self._moments = []
        try:
            self.peak = Peak(device, self._size, self._is_under_way)
        except RuntimeError:  # the user's profiler runs on the processor
            return

    def _is_under_way(self):
        return any(alive() for alive in self._alive)

    def _found(self, calls, ids):
        """The peak of the step that has ended; None if it was not measured. What was outside is seen."""
        peak, self.peak = self.peak, None
        found, moments = (peak.stop(), peak.moments()) if peak is not None else (None, [])
        if peak is None or peak.interrupted:
            return None
        if len(moments) == len(self._moments) + 1:
            places = {call: i for i, call in enumerate(ids)}
            rows = [(kind, places[call], *moment) for (kind, call), moment in zip(self._moments, moments) if call in places]
            ways = [way_of(v, v.plan) for v in calls]
            self._seen.learn(self._keys(calls), ways, [*rows, (None, None, *moments[-1])])
        if found is not None:
            self._seen.rest += max(found - self._needs(calls, self._seen), 0)
        return found

    def _keys(self, calls):
        return keys_of([self._numbers.setdefault(v, len(self._numbers)) for v in calls])

    def _needs(self, calls, room, ways=None):
        """The memory of a step beside what is outside; with other plans, if their `ways` are given."""
        ways = ways or [way_of(v, v.plan) for v in calls]
        return needed(ways, [room.of(key) for key in self._keys(calls)], room.alone)

    def _pause(self):
        """What comes now, the step of an optimiser or an evaluation, is no part of a step; unless it is in the middle of
        one."""
        if self.peak is not None and (self.went_back or not self.now) and not inside_backward(self.peak.device):
            self.peak.stop()
            if not self.now:
                self.peak = None

    def _after_optimizer(self):
        """What comes before the first region of the next step counts in that. There may be several optimisers; after some
        steps of theirs without one of its own nobody trains here any more."""
        if self.went_back and self.now:
            self._end_step()
            self._measure()
        elif self.calls and not self.now and self._idle < IDLE and not running(self.calls[0].planner.joint.device):
            self._idle += 1
            self._measure()

    # ---- between two steps ----

    def _begin_step(self):
        if self._choose_again:
            self._choose_again = False
            if self.peak is not None:
                self.peak.stop()
                self.peak = None
            self._replan()
        if self.peak is not None and not self.peak.interrupted:
            self.peak.begin_step()
        elif self.calls:
            self._measure()

    def _end_step(self):
        """All calls of a step are known, and its peak."""
        calls, ids, self.now, self._alive, self._ids = self.now, self._ids, [], [], []
        self._returned.clear()
        self.went_back, self._idle = False, 0
        found = self._found(calls, ids)
        if not self.settled and calls not in self._noted:
            self._noted.append(calls)
        if not self.calls:
            self.calls = calls
            self._choose_again = self.options.budget is None
        elif self.settled:
            self._judge(calls, found)
        else:
            self.calls = max(self.calls, calls, key=_needed_by)
            self._tries += 1
            self._choose_again = found is not None or self._tries == TRIES or not _distributed.alone()

    def _judge(self, calls, found):
        """Whether the plans still suit what was measured."""
        self._judged += 1
        if found is not None:
            self._warn_of(found - self._size)
        if not _distributed.alone():  # all ranks choose at the same steps
            if self._judged & (self._judged - 1) == 0:
                self._agree()
                self._choose_again = self._kept.is_below(self._seen, 16)
            return
        self._choose_again = self._is_new(calls) or self._kept.is_below(self._seen, 16)

    def _agree(self):
        """All ranks have seen what any has."""
        for room in _distributed.all_of(self._seen):
            self._seen.take(room)

    def _is_new(self, calls):
        """Whether calls are others than those that plans were chosen for, and too large or not the first of their kind."""
        if calls in self._sequences or (calls not in self._rare and self._needs(calls, self._kept) <= self._size):
            if calls not in self._sequences:
                self._rare.append(calls)
            return False
        self._sequences.append(calls)
        return True

    def _warn_of(self, over):
        """Every step that is over the budget is named; if no plan helps, only those that are worse than the ones before."""
        if over > (self._worst if self._exhausted else 0):
            warnings.warn(f"cairn: a step took {over} bytes more than its budget, because of what runs outside its graphs" +
                          ("" if self._exhausted else "; later steps leave more room for it"), stacklevel=2)
        self._worst = max(self._worst, over)

    # ---- choosing plans ----

    def _replan(self):
        if not self.settled:
            self._settle()
            return
        self._kept.take(self._seen, 8)
        try:
            self._share()
            self._exhausted = False
        except BudgetError as error:  # training is under way: it goes on with the smallest plans
            self._exhausted = True
            self._use({variant: 0 for variant in self._plans})
            warnings.warn(f"cairn: {error}; training continues with the smallest plans", stacklevel=2)

    def _settle(self):
        self.settled = True
        if self.options.budget is not None:
            self._agree()
            self._kept.take(self._seen, 8)
        count = len(set(self.calls))
        beside = f", beside {_sizes.show(self.outside)} for what runs outside of them" if self.outside else ""
        graphs = "1 graph" if count == 1 else f"{count} graphs"
        warnings.warn(f"cairn: a step is divided into {len(self.calls)} calls of {graphs}; they share the budget{beside}",
                      stacklevel=2)
        if self.options.budget is not None:
            self._sequences.append(self.calls)
            self._share()

    def _share(self):
        """Choose plans that fit together beside what runs outside, in every sequence of calls."""
        for variant in dict.fromkeys(v for calls in self._sequences for v in calls if v not in self._plans):
            texts = _distributed.from_first(lambda v=variant: _plans(v.planner))
            self._plans[variant] = [variant.planner.read(text) for text in texts]
        self._size = max(map(self._size_for, self._sequences))
        chosen = dict.fromkeys(self._plans, POINTS)
        for calls in self._sequences:
            ways = [[way_of(v, plan) for plan in self._plans[v]] for v in calls]
            self._refuse_more(calls, [way[0] for way in ways], self._size)
            numbers = _distributed.from_first(lambda calls=calls, ways=ways: self._choose(calls, ways))
            for variant, number in zip(calls, numbers):  # one plan serves all calls of a variant
                chosen[variant] = min(chosen[variant], number)
        self._use(chosen)

    def _use(self, chosen):
        for variant, number in chosen.items():
            variant.replace(self._plans[variant][number])

    def _size_for(self, calls):
        """The budget in bytes; a share is one of the largest step."""
        most = self._needs(calls, self._kept, [way_of(v, self._plans[v][-1]) for v in calls])
        return self._planner(calls).budget_bytes(self.options.budget, most)

    @staticmethod
    def _planner(calls):
        """That of the call for which libraries keep the most."""
        return max((v.planner for v in calls), key=lambda planner: planner.reserve)

    def _choose(self, calls, ways):
        rows = zip(ways, left_by_later(ways), map(self._kept.of, self._keys(calls)))
        triples = [[(demands(way, after, beside), way[1], way[2]) for way in mine] for mine, after, beside in rows]
        try:
            return lib.choose_regions(triples, self._size)
        except lib.Failure:
            return [0] * len(ways)

    def _refuse_more(self, calls, ways, size):
        if self._needs(calls, self._kept, ways) > size:
            raise self._error(calls, size, ways)

    def _error(self, calls, size, ways=None, more=""):
        """The refusal of a step."""
        ways = ways or [way_of(v, v.plan) for v in calls]
        least, beside = self._needs(calls, self._kept, ways), self._planner(calls).beside()
        outside = least - needed(ways)
        rest = f", {outside} of them for what runs outside the graphs" if outside else ""
        who = "the graph of this step needs" if len(ways) == 1 else f"the {len(ways)} graphs of this step need"
        together = " together" if len(ways) > 1 else ""
        return BudgetError(f"no plan fits into {size + beside} bytes: {who} {least + beside} bytes or more{together}{rest}"
                           f"{more}", least + beside, None)


def _always():
    return True


def _backward_of(results):
    """A reference to the backward part of a call, which lives as long as it may run. Results may be views of its own."""
    nodes = [r.grad_fn for r in _torch.pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]
    for _ in range(DEPTH):
        nodes = [n for n in nodes if n is not None]
        own = next((n for n in nodes if isinstance(n, torch.autograd.function.BackwardCFunction)), None)
        if own is not None:
            return weakref.ref(own)
        nodes = [n for node in nodes for n, _ in node.next_functions]
    return lambda: None


def _plans(planner):
    """The texts of plans from the smallest to the one that recomputes nothing."""
    smallest, most = planner.smallest()[0], planner.enough()
    sizes = sorted({smallest + (most - smallest) * i // POINTS for i in range(POINTS)})
    return [planner.within(size).text() for size in sizes] + [planner.none().text()]


def boundary_of(joint, plan):
    """The step of a plan between the forward and the backward part."""
    return next(i for i, (kind, number, _) in enumerate(plan.steps)
                if kind == lib.RUN and joint.ops[number] is joint.boundary)


def way_of(variant, plan):
    """Peak, what is held between forward and backward, time, gradients that stay, and gradients that arrive."""
    if plan.way is None:
        joint, alignment = variant.planner.joint, plan.alignment
        rounded = lambda size: -(-size // alignment) * alignment
        arriving = sum(rounded(s.bytes) for s in joint.boundary.outs)
        saved = plan.step_bytes[boundary_of(joint, plan)] - arriving - rounded(joint.boundary.workspace)
        left = sum(rounded(s.bytes) for s in joint.handed_out if s.op is not None and s.op.backward)
        plan.way = plan.peak, max(saved, 0), plan.time_ns, left, arriving
    return plan.way


def _needed_by(calls):
    return needed([way_of(v, v.plan) for v in calls])
