"""Graphs that Dynamo hands over, and their variants for shapes.

A region is one graph. With symbolic shapes it gets one variant for each shape that it is called with, each with its own
plan, so Dynamo captures it only once. An integer that no shape depends on stays symbolic, unless the capture needs its
value. Where a step has several regions, they share one budget: _steps.py. Where it is one, _watch.py looks whether what
runs outside of it keeps the budget.
"""

import contextlib
import sys

import torch

from . import _ahead, _torch
from ._errors import CairnError


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
            self.variants[()] = Variant(self, example_inputs, example_inputs)

    def __call__(self, *inputs):
        key = self._key(inputs) if self.symbolic else ()
        variant = self.variants.get(key)
        if variant is None:
            variant = self._make(inputs)
        steps, watch = self.backend.steps, self.backend.watch
        refusal = steps.enter(variant)
        if not steps.several and refusal is None:
            watch.enter(variant)
        if refusal is not None:
            results = _ahead.run(variant.ahead()[0], inputs, self.gm, refusal)
        else:
            results = variant.call(*inputs)
            if variant.plan is not None and variant.plan.joint.absent:
                _torch.pass_no_zeros(results)
        steps.leave(variant, results)
        return results

    def _key(self, inputs):
        return tuple((tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else None if i in self.free else x
                     for i, x in enumerate(inputs))

    def _make(self, inputs):
        try:
            variant = Variant(self, _fake(inputs, self.free), inputs)
        except (Specialised, RuntimeError) as error:  # some ops of PyTorch do not take a symbolic number
            if not self.free or isinstance(error, CairnError):
                raise
            self.free = set()
            variant = Variant(self, _fake(inputs), inputs)
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


def _without_memory(inputs):
    """The inputs of a capture with fake tensors in place of those that are no parameters: to refer to an activation would
    keep its memory, and the graph of autograd that has made it."""
    if not any(type(x) is torch.Tensor for x in inputs):
        return inputs
    mode = _torch.FakeTensorMode()
    return [mode.from_tensor(x, static_shapes=True) if type(x) is torch.Tensor else x for x in inputs]


class Surroundings:
    """What else a capture depends on: which of its inputs have gradients (people freeze parameters for some calls), and
    autocast around it. A later capture of the same graph must find them as they were."""

    def __init__(self, inputs):
        self._tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        self._learned, self._cast = self._now(), autocast()

    def _now(self):
        return [x.requires_grad for x in self._tensors]

    @contextlib.contextmanager
    def restored(self):
        now = self._now()
        with contextlib.ExitStack() as stack:
            for before, cast in zip(self._cast, autocast()):
                if before != cast:
                    stack.enter_context(torch.autocast(before[0], dtype=before[2], enabled=before[1]))
            self._set(self._learned)
            try:
                yield
            finally:
                self._set(now)

    def _set(self, learned):
        for x, wanted in zip(self._tensors, learned):
            if x.requires_grad != wanted and x.is_leaf:
                x.requires_grad_(wanted)


def autocast():
    return [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]


class Variant:
    """A region for one shape. `plan` and `planner` are None if it computes no gradients. `real`: what it is called with."""

    def __init__(self, region, inputs, real):
        self.region, self.inputs = region, inputs
        self.plan = self.planner = self.text = None
        self.outside = self.beside = 0  # bytes outside the region: between its two parts, and all the time
        self.exhausted = False  # whether no plan leaves enough room for them
        self.refusal = None  # the error of a region that does not fit alone
        self.smallest = False  # whether it was given its smallest plan, as one region of several
        self._ahead = None
        self.whole = not region.backend.steps.several  # whether it was all of the model when it was captured first
        self._surroundings = Surroundings(inputs)
        self._compile(real)
        self.inputs = _without_memory(inputs)  # for later captures
        self._surroundings = Surroundings(self.inputs)

    def _compile(self, real=()):
        with self._surroundings.restored():
            self.call = self.region.backend.compile_variant(self, real)

    def ahead(self):
        """A callable that keeps nothing for the backward part, and the most bytes that it makes."""
        if self._ahead is None:
            with self._surroundings.restored():
                self._ahead = self.region.backend.compile_ahead(self)
        return self._ahead

    def replace(self, plan):
        """Use another plan from now on."""
        if plan.text() != self.plan.text():
            self.text = plan.text()
            self._compile()

    def plan_again(self, outside, beside):
        """Make another plan, which leaves room for what runs outside."""
        self.outside, self.beside, self.text = outside, beside, None
        self._compile()
