"""Steps that Dynamo cuts into several graphs, and graphs whose shapes change.

A region is one graph that Dynamo hands over. Where a step has several, they share one budget: while one runs, those
before it hold what they saved, and those after it have left their gradients.

    first step    every region has its smallest plan, and its calls are noted
    second step   the same again, and the allocator's peak is measured: what it is above the plans' is the share of
                  what runs outside the regions
    third step    one choice among plans of all regions: the fastest ones that fit together, and beside that share
    later steps   the peak is measured again. If it is over the budget, because it has moved to where more runs outside
                  the regions, that share grows by as much, and the choice is made again

A graph with symbolic shapes gets one variant for each shape that it is called with, each with its own plan, so Dynamo
captures it only once. An integer that no shape depends on stays symbolic, unless the capture needs its value.
"""

import sys
import threading
import warnings
import weakref

import torch

from . import _distributed, _optimizers, _sizes, _torch
from . import _library as lib
from ._errors import BudgetError, CairnError
from ._peak import Peak, running

POINTS = 6  # plans of a region from which one is chosen


def is_whole(gm):
    """Whether a graph is all that the user compiled: it does not end in a graph break, and the call that Dynamo
    captured is the one that the user made."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break:
        return False
    files, frame = [], sys._getframe(1)
    while frame is not None:
        files.append(frame.f_code.co_filename.replace("\\", "/"))
        frame = frame.f_back
    capture = max((i for i, file in enumerate(files) if file.endswith("/torch/_dynamo/convert_frame.py")), default=-1)
    callers = [file for file in files[capture + 1:] if not file.endswith("/torch/nn/modules/module.py")]
    return not callers or "/torch/_dynamo/" in callers[0]


class Region:
    """A graph of Dynamo's, with a variant for each shape."""

    def __init__(self, backend, gm, example_inputs):
        self.backend, self.gm, self.variants = backend, gm, {}
        self.symbolic = any(_is_symbolic(x) for x in example_inputs)
        self.free = _free_integers(gm, example_inputs) if self.symbolic and backend.options.mode == "exact" else set()
        if not self.symbolic:
            self.variants[()] = Variant(self, example_inputs)

    def __call__(self, *inputs):
        key = self._key(inputs) if self.symbolic else ()
        variant = self.variants.get(key)
        if variant is None:
            variant = self._make(inputs)
        steps = self.backend.steps
        steps.enter(variant)
        results = variant.call(*inputs)
        steps.leave(variant, results)
        return results

    def _key(self, inputs):
        return tuple((tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else None if i in self.free else x
                     for i, x in enumerate(inputs))

    def _make(self, inputs):
        try:
            variant = Variant(self, _fake(inputs, self.free))
        except (Specialised, RuntimeError) as error:  # some ops of PyTorch do not take a symbolic number
            if not self.free or isinstance(error, CairnError):
                raise
            self.free = set()
            variant = Variant(self, _fake(inputs))
        self.variants[self._key(inputs)] = variant
        return variant


class Specialised(Exception):
    """A capture depends on the value of an integer."""


def refuse_specialised(gm):
    """Raise Specialised if the value of a symbolic integer has become part of a captured graph."""
    if _torch.was_specialised(gm):
        raise Specialised


def _free_integers(gm, example_inputs):
    """The places of integers on which no shape depends."""
    values = [n.meta.get("example_value") for n in gm.graph.nodes]
    shapes = {symbol for value in _torch.pytree.tree_leaves(values) if isinstance(value, torch.Tensor)
              for n in (*value.shape, *value.stride()) for symbol in _torch.free_symbols(n)}
    return {i for i, x in enumerate(example_inputs) if isinstance(x, torch.SymInt)
            and not _torch.free_symbols(x) & shapes}


def _is_symbolic(value):
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _fake(inputs, free=()):
    """Fake inputs of the shapes that real ones have. The integers at the places `free` are symbolic."""
    mode = _torch.FakeTensorMode(shape_env=_torch.ShapeEnv() if free else None)
    return [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor)
            else _torch.symbolic(mode, x, f"integer_{i}") if i in free else x for i, x in enumerate(inputs)]


class Variant:
    """A region for one shape. `plan` and `planner` are None if it computes no gradients."""

    def __init__(self, region, inputs):
        self.region, self.inputs = region, inputs
        self.plan = self.planner = self.text = None
        self.call = region.backend.compile_variant(self)

    def replace(self, plan):
        """Use another plan from now on."""
        if plan.text() != self.plan.text():
            self.text = plan.text()
            self.call = self.region.backend.compile_variant(self)


class Steps:
    """The calls of one step, and the share of the budget of each."""

    def __init__(self, options):
        self.options, self.calls = options, []
        self.several = self.settled = False
        self.went_back = False
        self.last = {}  # by thread: the region that ran last, and what is alive as long as its backward part may run
        self.peak = None  # what counts in the second step and after a choice
        self._early = False  # whether the peak counts from the end of the step before
        self.outside = 0  # bytes of what runs outside the regions
        self._plans = self._size = None  # to choose among, by variant; what they and the rest may take
        self._thread = None  # the one whose steps they are

    def enter(self, variant):
        """A region is about to run."""
        if self.several and variant.plan is not None:
            self._refuse_threads()
        if self.peak is not None and not torch.is_grad_enabled():
            self._end_measuring()
            if self._early:
                self.peak, self._early = None, False
        if (self.settled and self.peak is None) or variant.plan is None or not torch.is_grad_enabled():
            return
        if not self.several:
            self._look_for_several()
        if not self.several:
            return
        if self.went_back and self.calls:
            self._next_step()
        elif self.peak is None:  # of the first step, or what came before was a step of another model, in one graph
            self.calls.append(variant)
            if self.options.budget is not None:
                _optimizers.after_step(self._begin_early)
            if self.options.budget is not None and not _is_share(self.options.budget):
                size = variant.planner.budget_bytes(self.options.budget)
                self._refuse_more([way_of(call, call.plan) for call in self.calls], size)
        self.went_back = False

    def _refuse_threads(self):
        """Calls of several threads cannot be told apart, so nobody knows what lives at the same time."""
        self._thread = self._thread or threading.get_ident()
        if self.options.budget is not None and self._thread != threading.get_ident():
            raise CairnError("steps that are cut into several graphs run in several threads with one backend; give each "
                             "thread its own cairn.backend")

    def leave(self, variant, results):
        """A region has run."""
        if not self.several and variant.plan is not None:
            self.went_back = False
            node = next((r.grad_fn for r in _torch.pytree.tree_leaves(results)
                         if isinstance(r, torch.Tensor) and r.grad_fn is not None), None)
            self.last[threading.get_ident()] = variant, weakref.ref(node) if node is not None else lambda: None

    def _look_for_several(self):
        """Where blocks are compiled one by one, each looks like a whole step, and has the whole budget. They are several
        if one begins while another holds tensors for its backward part."""
        variant, alive = self.last.get(threading.get_ident(), (None, lambda: None))
        if self.went_back or alive() is None:
            return
        self.several = True
        self.calls.append(variant)
        if self.options.budget is not None:
            planner = variant.planner
            variant.replace(_distributed.plan(planner, planner.smallest()[0]))

    def _next_step(self):
        if self.options.budget is None:
            self._settle()
        elif self.peak is None:
            self._measure()
            if self.peak is None:
                self._settle()
        elif self._early:
            self._early = False
        elif self.peak.cut:
            self._measure()
        else:
            self._end_measuring()
            found, self.peak = self.peak.stop(), None
            if not self.settled:
                outside = _distributed.most(max(found - needed([way_of(v, v.plan) for v in self.calls]), 0))
                self.outside = outside + outside // 32  # it is not the same in every step
                self._settle()
                self._measure()
                return
            over = _distributed.most(found - self._size)
            if over > 0:
                self.outside += over
                try:
                    self._share()
                    self._measure()
                except BudgetError as error:  # training is under way: it goes on with the smallest plans
                    warnings.warn(f"cairn: a step took {over} bytes more than its budget; {error}", stacklevel=2)

    def _measure(self):
        device = self.calls[0].planner.joint.device
        if running(device):
            return
        try:
            self.peak = Peak(device)
        except RuntimeError:  # the user's profiler runs on the processor
            return
        _optimizers.before_step(self._end_measuring)

    def _begin_early(self):
        """The first step has ended. In the next one, what comes before the first region counts too."""
        _optimizers.forget(self._begin_early)
        if self.went_back and self.peak is None and not self.settled:
            self._measure()
            self._early = self.peak is not None

    def _end_measuring(self):
        """An optimiser steps, or an evaluation begins: they are no part of what is measured."""
        _optimizers.forget(self._end_measuring)
        self.peak.stop()

    def _settle(self):
        self.settled = True
        variants = list(dict.fromkeys(self.calls))
        beside = f", beside {_sizes.show(self.outside)} for what runs outside of them" if self.outside else ""
        graphs = "1 graph" if len(variants) == 1 else f"{len(variants)} graphs"
        warnings.warn(f"cairn: a step is cut into {len(self.calls)} calls of {graphs}; they share the budget{beside}",
                      stacklevel=2)
        if self.options.budget is None:
            return
        texts = {v: _distributed.from_first(lambda v=v: _plans(v.planner)) for v in variants}
        self._plans = {v: [v.planner.read(text) for text in texts[v]] for v in variants}
        most = needed([way_of(v, self._plans[v][-1]) for v in self.calls]) + self.outside
        self._size = variants[0].planner.budget_bytes(self.options.budget, most)
        self._share()

    def _share(self):
        """Choose plans that fit together beside what runs outside."""
        ways = [[way_of(v, plan) for plan in self._plans[v]] for v in self.calls]
        self._refuse_more([way[0] for way in ways], self._size)
        chosen = _distributed.from_first(lambda: self._choose(ways, self._size - self.outside))
        for variant, plans in self._plans.items():  # one plan serves all calls of a variant
            variant.replace(plans[min(c for v, c in zip(self.calls, chosen) if v is variant)])

    @staticmethod
    def _choose(ways, size):
        later = _left_by_later(ways)
        triples = [[(peak + after, saved, time) for peak, saved, time, _ in way] for way, after in zip(ways, later)]
        try:
            return lib.choose_regions(triples, size)
        except lib.Failure:
            return [0] * len(ways)

    def _refuse_more(self, ways, size):
        least = needed(ways) + self.outside
        if least > size:
            beside = f", {self.outside} of them for what runs outside the graphs" if self.outside else ""
            raise BudgetError(f"no plan fits into {size} bytes: the {len(ways)} graphs into which this step is cut need "
                              f"{least} bytes or more together{beside}", least, None)


def _is_share(budget):
    return isinstance(budget, str) and "%" in budget


def _plans(planner):
    """The texts of plans from the smallest to the one that recomputes nothing."""
    smallest, most = planner.smallest()[0], planner.none_peak()
    sizes = sorted({smallest + (most - smallest) * i // POINTS for i in range(POINTS)})
    return [planner.within(size).text() for size in sizes] + [planner.none().text()]


def way_of(variant, plan):
    """Peak, what is held between forward and backward, time, and gradients that stay."""
    joint, alignment = variant.planner.joint, plan.alignment
    rounded = lambda size: -(-size // alignment) * alignment
    cut = next(i for i, (kind, number, _) in enumerate(plan.steps)
               if kind == lib.RUN and joint.ops[number] is joint.boundary)
    arriving = sum(rounded(s.bytes) for s in joint.boundary.outs)
    saved = plan.step_bytes[cut] - arriving - rounded(joint.boundary.workspace)
    left = sum(rounded(s.bytes) for s in joint.handed_out if s.op is not None and s.op.backward)
    return plan.peak, max(saved, 0), plan.time_ns, left


def _left_by_later(ways):
    """For each call, the gradients that later calls have left when its backward part runs."""
    after, total = [], 0
    for way in reversed(ways):
        after.insert(0, total)
        total += way[0][3]
    return after


def needed(ways):
    """The memory that calls need one after the other."""
    later, held, most = _left_by_later([[way] for way in ways]), 0, 0
    for (peak, saved, _, _), after in zip(ways, later):
        most = max(most, held + peak + after)
        held += saved
    return most
