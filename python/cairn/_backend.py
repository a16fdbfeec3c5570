"""The backend of torch.compile, and capturing a step without training."""

import atexit
import contextlib
import dataclasses
import functools
import os
import sys
import time
import warnings

import torch

from . import _absent, _ahead, _arena, _torch
from . import _captures
from . import _chunks
from . import _compiled
from . import _costs
from . import _distributed
from . import _inductor
from . import _loss_only
from . import _moves
from . import _norms
from . import _optimizers
from . import _regions
from . import _sizes
from ._errors import BudgetError, CairnError
from ._geometry import most_at_once, propagate
from ._joint import Joint, Parts, copy_mutated, device_of, keep_clones, refuse
from ._options import Options  # noqa: F401 (for tests)
from ._plan import Planner, alignment_of
from ._real import lending
from ._steps import Steps
from ._watch import Watch
from ._write import Writer, boxed


def capture(gm, num_fwd_outputs, options, together=True, extend=None, whole=True, keep=None):
    """The joint graph as storages and ops, with its costs. `together`: all ranks capture the step now, and rank 0
    measures for them. `extend` adds nodes to the graph. `whole`: it is all that is captured of the model. `keep`: of
    mode "compiled", see there."""
    learn = _learning(options) if together else _costs.learn
    if options.mode == "compiled":
        return _compiled.capture(gm, num_fwd_outputs, options, learn, whole, keep)
    gm.graph.eliminate_dead_code()
    gm.graph = _torch.fx_graph_cse(gm.graph)
    gm.recompile()
    refuse(gm)
    keep_clones(gm)
    device = device_of(gm)
    table = _costs.Table(options.costs or _costs.default_file(device), device)
    table.recorded = options.cudagraphs
    propagate(gm, table.results, _costs.signature_of)
    _norms.rewrite(gm, num_fwd_outputs)
    copy_mutated(gm, num_fwd_outputs)
    if extend is not None:
        extend(gm, num_fwd_outputs)
    table.limit = _costs.limit_of(Parts(gm, num_fwd_outputs), options, device)
    learn(gm, table, device, alignment_of(device))
    if whole and _absent.leave_out(gm, num_fwd_outputs):  # now that it is known how results lie
        propagate(gm, table.results, _costs.signature_of)
        learn(gm, table, device, alignment_of(device))
    return Joint(gm, num_fwd_outputs, table, options.outside, random_again=not options.cudagraphs)


def _learning(options):
    return functools.partial(_distributed.learn, offload=options.offload)


def with_partition(options, partition, forward=boxed, backward=boxed, without=boxed, loss_only=False, keeper=None):
    """AOTAutograd with a partition function, for a backend. `without` compiles graphs without gradients. `loss_only`: the
    graph is the whole model, and only its loss has a gradient. `keeper`, with compilers of its own: the step may be in
    PyTorch's cache."""
    if keeper is not None:
        forward, backward, without = keeper.forward, keeper.backward, keeper.without

    def compile_module(gm, example_inputs):
        on_cpu = all(v.device.type == "cpu" for v in example_inputs if isinstance(v, torch.Tensor))
        table = _inductor.decompositions(on_cpu) if options.mode == "compiled" else None
        if options.mode == "compiled" and keeper is None:
            _inductor.start_compilers(on_cpu)
        compiled = _torch.aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=without,
                                       partition_fn=partition, decompositions=table)
        if options.mode == "compiled" and options.chunks != 1:
            _chunks.split_losses(gm, options.chunks)
        places = _loss_only.detach_others(gm) if loss_only else None
        with keeper or contextlib.nullcontext():
            call = compiled(gm, example_inputs)
        return _loss_only.refusing(call, places) if places else call
    return compile_module


PART = "cairn_part"  # key of a backward graph: its number
MANY = 24  # graphs: more are rarely different ones


class Backend:
    """The object that torch.compile calls. `plans` are the plans made so far, one per captured graph and shape."""

    def __init__(self, options):
        self.options, self.plans, self.writers, self.planners = options, [], [], []
        self.meters, self.regions = [], []
        self.__name__ = "cairn"
        self._variant, self._real, self._keeper = None, (), None  # what is compiled now, its inputs, and whether it is kept
        self._parts = []  # by number what the backward parts need to know
        self.steps, self.watch = Steps(options), Watch(options)
        self._most, self._warned = 0, False
        self._unused = Unused() if options.budget is not None else None

    def __reduce__(self):
        return _copied, (self.options,)  # a copy of a compiled model, or a saved one, is captured anew

    # ---- from Dynamo ----

    def __call__(self, gm, example_inputs, **_):
        if self._unused is not None:
            self._unused.stop()
        _refuse_inputs(example_inputs)
        _refuse_new_storages(gm)
        self.steps.several |= not _regions.is_whole(gm)
        self.regions.append(_regions.Region(self, gm, example_inputs))
        self._expect_more()
        return self.regions[-1]

    def _expect_more(self):
        """Beyond a number of captures Dynamo would run the model without a plan."""
        _torch.allow_captures(len(self.regions) + 2)
        if len(self.regions) == MANY:
            warnings.warn(f"cairn: PyTorch has captured {MANY} graphs; if they are one graph for many shapes or numbers, "
                          "leave out dynamic=False, and it is captured once", stacklevel=2)

    def compile_variant(self, variant, real=()):
        """A callable that runs a region for one shape, with the plan that the variant asks for. `real`: its inputs, with
        which ops are measured."""
        loss_only = self.options.loss_only and not self.steps.several
        self._keeper = self._make_keeper(variant)
        compiled = with_partition(self.options, self.partition, self._compile_forward, self._compile_backward,
                                  self._compile_without, loss_only, self._keeper)
        with _torch.compile_lock, _torch.traced(variant.inputs):
            self._variant, self._real, self._start = variant, real, time.perf_counter()
            try:
                return compiled(variant.region.gm, variant.inputs)
            finally:
                self._variant, self._real, self._keeper = None, (), None

    def _make_keeper(self, variant):
        """None where steps are not kept. Of several processes one might find a step and the others not."""
        if self.options.mode != "compiled" or not _distributed.alone():
            return None
        tensors = [x for x in variant.inputs if isinstance(x, torch.Tensor)]
        device = next((x.device for x in tensors if x.device.type != "cpu"), torch.device("cpu"))
        options = [getattr(self.options, name) for name in ("chunks", "loss_only", "costs")]
        options += [variant.whole, _regions.autocast(), os.environ.get("CAIRN_CACHE")]
        options += [_captures.settings(), _captures.overlap_of(tensors)]
        words = f"{_costs.origin(device)} {options}"
        return _captures.Keeper(self.write_kept, self._compile_forward, self._compile_backward, self._compile_without, words,
                                lambda: _inductor.start_compilers(device.type == "cpu"))

    def compile_ahead(self, variant):
        """A callable that runs the forward part of a region and keeps nothing, and the most bytes that it makes."""
        most = []

        def compile_forward(gm, _):
            most.append(most_at_once(gm.graph))
            return boxed(gm)
        compiled = _torch.aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=compile_forward)
        with _torch.compile_lock, torch.no_grad():
            return compiled(variant.region.gm, variant.inputs), max(most, default=0)

    # ---- from AOTAutograd ----

    def partition(self, gm, joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices=None, **_):
        keep = None
        if self._keeper is not None:
            self._keeper.refuse()
            keep = self._keeper.keep
        _regions.refuse_specialised(gm)
        whole = self._variant.whole if self._variant is not None else True
        return self._write(gm, lambda options: capture(gm, num_fwd_outputs, options, whole=whole, keep=keep))

    def write_kept(self, fused, num_fwd_outputs):
        """The two graphs of a step whose graph of kernels is known."""
        return self._write(fused, lambda options: _compiled.finish(fused, num_fwd_outputs, options, _learning(options)))

    def _write(self, gm, joint_for):
        """Plan a step and write its two graphs. `gm` has its inputs; joint_for() gives its storages and ops with costs."""
        captured = time.perf_counter() - self._start
        outside = self.options.outside + (self._variant.outside if self._variant is not None else 0)
        with lending(_inputs_of(gm, self._real), sparing=self.options.budget is not None):
            joint = joint_for(dataclasses.replace(self.options, outside=outside))
            plan = self.make_plan(joint)
        plan.seconds["capture"] = captured
        meter = _moves.Meter(joint.device.type, plan.alignment) if self.options.check else None
        writer = (_arena.ArenaWriter if self.options.arena else Writer)(joint, plan, meter)
        graphs = writer.graphs()
        self.writers.append(writer)
        self.meters.append(meter)
        graphs[1].meta[PART] = len(self._parts)  # PyTorch may compile it much later
        if self._keeper is not None:
            _captures.leave_out(graphs[1])
        self._parts.append((writer.retaining() if not self.options.arena else None, self._variant))
        self.add(plan)
        return graphs

    def add(self, plan):
        """Record a plan that will be used."""
        self.plans.append(plan)
        if self.options.report:
            plan.report(self.options.report)
        if self.options.verbose:
            print(f"cairn: {plan}")
            for signature, reason in plan.joint.table.guesses.items():
                print(f"cairn: could not measure {signature.removeprefix('torch ')}: {''.join(reason)}")

    def make_plan(self, joint):
        planner = planner_for(joint, self.options)
        self.planners.append(planner)
        variant, budget = self._variant, self.options.budget
        if variant is not None and variant.text is not None:
            plan = planner.read(variant.text, budget)
        elif self.options.plan is not None:
            plan = planner.read(saved_text(self.options.plan))
        elif budget is not None and self.steps.several:
            plan = _distributed.plan(planner, planner.smallest()[0])
        else:
            self._most = max(self._most, planner.enough())  # a share is one of the largest shape
            if self.plans:  # the largest shape may be one of this graph
                planner.offer(max(self.plans, key=lambda plan: plan.peak).text())
            size = None if budget is None else planner.budget_bytes(budget, self._most)
            plan = self._plan_beside(planner, size, variant)
        if variant is not None:
            variant.plan, variant.planner = plan, planner
        return plan

    def _plan_beside(self, planner, size, variant):
        """A plan beside what a variant was seen to need outside. Training is under way then, so it goes on with the
        smallest plan where none fits."""
        if variant is None or not (variant.outside or variant.beside):
            return self._plan_first(planner, size, variant)
        try:
            plan = _distributed.plan(planner, size - variant.beside)
        except BudgetError as error:
            warnings.warn(f"cairn: {error}; training continues with the smallest plan", stacklevel=2)
            plan, variant.exhausted = _distributed.plan(planner, planner.smallest()[0]), True
        plan.budget = size
        return plan

    def _plan_first(self, planner, size, variant):
        """The first plan of a variant. If none fits and other graphs may follow, it is refused when all are known."""
        try:
            return _distributed.plan(planner, size)
        except BudgetError as error:
            if variant is None or _sizes.is_share(self.options.budget) or _ahead.returns_loss(variant.region.gm):
                raise
            variant.refusal = error.copy()
            return _distributed.plan(planner, planner.smallest()[0])

    def _compile_forward(self, gm, inputs):
        return freeing(boxed(gm), inputs)

    def _compile_without(self, gm, inputs):
        """A graph without gradients runs as it is: a plan could save nothing but intermediate results."""
        budget = self.options.budget
        if budget is not None and not self._warned and (self._most or not _sizes.is_share(budget)):
            most = most_at_once(gm.graph)
            self._warned = most > _sizes.parse(budget, self._most)
            if self._warned:
                warnings.warn(f"cairn: a graph without gradients takes {most} bytes, more than the budget; only steps with "
                              "backward() are planned, not evaluations and not gradients of torch.func", stacklevel=2)
        return boxed(gm)

    def _compile_backward(self, gm, inputs):
        usual = _arena.once(boxed(gm)) if self.options.arena else boxed(gm)
        retaining, variant = self._parts[gm.meta[PART]]
        retaining = usual if retaining is None else boxed(retaining)
        arrivals = _absent.Arrivals(gm)

        def run(arguments):
            self.steps.go_back(variant)
            if arrivals.complete(arguments):
                self.watch.measure_all(variant)
            results = (retaining if _torch.keeps_graph() else usual)(arguments)
            self.steps.went_through(variant)
            self.watch.leave(variant)
            return results
        return freeing(_torch.boxed_call(run), inputs)


def _inputs_of(gm, inputs):
    """Fake inputs of a joint graph, each with the real one."""
    return [(n.meta.get("val"), _torch.input_of(n, inputs)) for n in gm.graph.nodes if n.op == "placeholder"]


def freeing(call, inputs):
    """A part of a step that leaves no workspaces of libraries behind. PyTorch has one for every thread, and the two parts
    run in two threads; so they use the same memory one after the other."""
    if not any(isinstance(v, torch.Tensor) and v.is_cuda for v in inputs):
        return call

    def run(arguments):
        try:
            return call(arguments)
        finally:
            _torch.clear_cublas_workspaces()
    return _torch.boxed_call(run)


def _copied(options):
    copied = Backend(options)
    if copied._unused is not None:
        copied._unused.stop()  # it may be a copy that nobody trains
    return copied


def _refuse_inputs(example_inputs):
    for value in example_inputs:
        if isinstance(value, torch.Tensor) and _torch.is_traceable_wrapper_subclass(value):
            raise CairnError(f"an input is a {type(value).__name__}, and steps with tensor subclasses cannot be planned")


def _refuse_new_storages(gm):
    """A graph of Dynamo's that gives a tensor from outside another storage, by `p.data = ...` or `p.set_(...)`."""
    for node in gm.graph.nodes:
        name = getattr(node.target, "__name__", node.target)  # shallow_copy_data_ in torch 2.15
        if name in ("set_", "shallow_copy_data_") and node.args[0].op == "placeholder":
            raise CairnError("a step that assigns to the .data of a tensor, or calls its set_, cannot be planned, because "
                             "the tensor then lies in other memory: copy into it (p.copy_, p.lerp_), or assign outside the "
                             "model")


def planner_for(joint, options):
    return (_arena.ArenaPlanner if options.arena else Planner)(joint, options)


class Unused:
    """Says that nothing is planned if PyTorch captures no graph: at the second step of an optimiser (the first may be that
    of another model), or at the end of the program."""
    MESSAGE = ("cairn: a budget was given, but PyTorch has captured no graph of the model, so nothing is planned; it "
               "captures no model with an nn.LSTM or another recurrent module unless torch._dynamo.config.allow_rnn is "
               "True, and an nn.Sequential only by torch.compile(model), not by model.compile()")

    def __init__(self):
        self._steps = 0
        _optimizers.after_step(self._count)
        atexit.register(self._end)

    def _count(self):
        self._steps += 1
        if self._steps == 2:
            self.stop()
            warnings.warn(self.MESSAGE, stacklevel=2)

    def _end(self):
        print(self.MESSAGE, file=sys.stderr)

    def stop(self):
        _optimizers.forget(self._count)
        atexit.unregister(self._end)


def saved_text(plan):
    if hasattr(plan, "text"):
        return plan.text()
    with open(plan) as file:
        return file.read()


class _Stop(CairnError):
    """Raised to end a capture when the joint graph is there."""

    def __init__(self, joint):
        super().__init__("captured")
        self.joint = joint


def planner_of(model, inputs, options):
    """Capture the step model(*inputs) and its gradients without running the model; a dict has keyword arguments."""
    positional, keywords = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    given = []

    def partition(gm, joint_inputs, *, num_fwd_outputs, **_):
        with lending(_inputs_of(gm, given)):
            raise _Stop(capture(gm, num_fwd_outputs, options, together=False))

    def backend(gm, example_inputs):
        _refuse_inputs(example_inputs)
        _refuse_new_storages(gm)
        given.extend(example_inputs)
        return with_partition(options, partition, loss_only=options.loss_only)(gm, example_inputs)

    _torch.reset_dynamo()
    try:
        compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
        with torch.enable_grad():
            compiled(*positional, **keywords)
    except _Stop as stop:
        return planner_for(stop.joint, options)
    finally:
        _torch.reset_dynamo()
    raise CairnError("the model has no gradient to compute with these inputs")
