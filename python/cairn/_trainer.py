"""A training step with its update inside one budget: cairn.trainer.

    model(*inputs) -> Dynamo -> joint graph -> + updates -> storages and ops -> plan -> one FX graph

The compiled model is called as usual, so Dynamo's guards hold. What it calls is not the forward part but the whole step;
it returns the loss.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from . import _check, _homes, _moves, _sizes, _updates
from . import _library as lib
from ._backend import _refuse_inputs, _Stop, capture, freeing, with_partition
from ._errors import CairnError
from ._joint import is_mutation
from ._options import File, Options, Size
from ._plan import Plan, Planner, alignment_of, has_own_memory
from ._regions import _fake
from ._torch import allow_captures, clear_cublas_workspaces, storage_key, warn_if_untried
from ._write import Writer, boxed, is_like

_captures = itertools.count(2)  # of steps of all trainers, whose function is one for Dynamo: it may capture another one


class _WholePlanner(Planner):
    """Plans whose memory is everything on the device."""

    def __init__(self, joint, options, present):
        self.present = present  # bytes on the device that the step does not know
        super().__init__(joint, options)
        self.stays = sum(self._rounded(s) for s in joint.storages if s.flags & lib.STATIONARY)

    def _rounded(self, storage):
        return -(-storage.bytes // self.alignment) * self.alignment

    def present_bytes(self):
        return self.present

    def homes(self, solution):
        """The storages that a plan has at home on the host."""
        fetched = {number for kind, number, _ in solution.steps if kind == lib.FETCH}
        return [s for s in self.joint.storages if s.index in fetched and s.flags & lib.STATIONARY]

    def _whole(self, solution):
        solution.peak += self.stays - sum(self._rounded(s) for s in self.homes(solution))
        return solution

    def _solve_none(self):
        return self._whole(super()._solve_none())

    def _solve(self, size):
        return self._whole(self.step.solve(self.options.algorithm, 0, self.machine, self.machine is not None,
                                           device=max(size, 1)))

    def _smallest_offloaded(self):
        return self.smallest()[0]


class _StepWriter(Writer):
    """One graph for forward, backward and updates. `places` are the places of storages that outlive the step."""

    def __init__(self, joint, plan, homes, places, meter=None):
        super().__init__(joint, plan, meter)
        self.homes, self.places = set(homes), places

    def whole(self):
        joint = self.joint
        self.states_needed = {op.state for op in joint.ops if op.state is not None and op.index in self.again}
        self._begin()
        self.ran, self.checked, self.hosts, self.going = set(), set(), {}, set()
        self.keep_saved, self.from_forward = False, set()
        self._emit_inputs()
        self._emit(range(len(self.plan.steps)))
        self.memo = {}
        self.graph.output((self._value(self._loss()),))
        self._finish()
        return self._module(self.graph)

    def _loss(self):
        results = [n for n, d in zip(self.joint.fwd_out, self.joint.descriptions) if not is_mutation(d)]
        if len(results) != 1 or results[0].meta["val"].numel() != 1:
            raise CairnError("the trainer needs a model that returns a scalar, its loss")
        return results[0]

    def _begin_at(self, storage, new, node):
        self.placeholder_of[storage] = node
        if storage in self.homes:
            new.meta[_check.HOLDS] = []  # it is the host's tensor or a shell; the storage of the plan is fetched
        else:
            self.env[storage] = new

    def _emit_run(self, op, inplace):
        if op is self.joint.boundary:
            return self._emit_boundary()
        super()._emit_run(op, inplace)
        if op.kind == "node" and _updates.UPDATE in op.node.meta:
            self._emit_slots(op.node)

    def _emit_boundary(self):
        """The forward part has ended: new values of buffers are copied, and the loss has a gradient of 1."""
        joint, pairs = self.joint, []
        self.memo = {}
        by_description = {p.meta.get("desc"): p for p in joint.mutated}
        for node, described in zip(joint.fwd_out, joint.descriptions):
            if is_mutation(described):
                given = by_description[described.mutated_input]
                if not is_like(given.meta["val"], node.meta["val"]):
                    raise CairnError(f"the step changes {given.name} to another type or shape, which the trainer cannot do")
                pairs.append((self._value(given), self._value(node)))
        if pairs:
            self.graph.call_function(_moves.update, tuple(map(list, zip(*pairs))))
        if joint.device.type == "cuda":  # as the plan counts them
            self.graph.call_function(clear_cublas_workspaces)
        for p in joint.tangents:
            new = self.graph.call_function(torch.ones_like, (self._value(self._loss()),))
            new.meta["val"], new.meta[_check.HOLDS] = p.meta["val"], joint.of_node[p]
            self._begin_at(joint.of_node[p][0], new, p)
        if self.meter is not None:
            self._emit_note(joint.of_node[joint.tangents[0]][0])

    def _plain_call(self, op, arguments, keywords):
        if isinstance(op.node.target, _updates.Function):
            return self.graph.call_function(op.node.target.real, arguments, keywords)
        return super()._plain_call(op, arguments, keywords)

    def _emit_slots(self, node):
        """An update returns its slots, because the first one makes them."""
        update = next(reversed([n for n in self.graph.nodes if n.target is node.target.real]))
        slots = [n for n in node.args if isinstance(n, fx.Node) and _updates.SLOT in n.meta]
        for k, slot in zip(range(len(node.target.slots)), slots):
            self.env[self.joint.of_node[slot][0]] = self.graph.call_function(operator.getitem, (update, k))

    def _emit_move(self, kind, s):
        if s not in self.homes:
            return super()._emit_move(kind, s)
        place, graph = self.places[s], self.graph
        if kind == lib.FETCH:
            self.env[s] = graph.call_function(_fetcher(place, self.joint.device), ())
            self._emit_note(s)
        elif kind == lib.OFFLOAD:
            graph.call_function(_caller(place.leave), (self.env[s],))
            self.going.add(s)
        elif s in self.going:
            graph.call_function(_caller(place.wait_out), (self.env[s],))
            self.going.discard(s)
        else:
            self.env[s] = graph.call_function(_caller(place.wait_in), (self.env[s],))
        if kind != lib.OFFLOAD and s in self.env:
            self.env[s].meta.update({"val": s.like, _check.HOLDS: [s]})
            if place.name is not None:
                self.env[s].meta[_check.MAY_BE_NONE] = True


def _fetcher(place, device):
    def fetch_home():
        return place.fetch(device)
    return fetch_home


def _caller(method):
    def move_home(value):
        return method(value)
    move_home.__name__ = method.__name__
    return move_home


class _Step:
    """A graph of Dynamo's as a whole step. It is planned when it is called first, because then the parameters are known."""

    def __init__(self, trainer, gm, mode):
        self.trainer, self.gm, self.mode, self.call = trainer, gm, mode, None

    def __call__(self, *inputs):
        if self.call is None:
            self._make(inputs)
        self.trainer.plan = self.plan
        if self.trainer.dry:
            return (torch.zeros(()),)
        self.trainer.arrange(self)
        with torch.no_grad(), torch.autocast(self.trainer.device.type, enabled=False):
            slots = [place.get() for place in self.slots]
            return freeing(self.call, inputs)([*inputs, *slots])

    def _make(self, inputs):
        trainer = self.trainer
        known = {id(p): p for p in trainer.model.parameters()}
        parameters = [known.get(id(x)) for x in inputs]
        adder = _updates.Adder(trainer, parameters, self.mode)
        fake, budget = _fake(inputs), trainer.options.budget
        with _homes.OnHost([] if budget is None else trainer.kept_tensors()) as moved:
            joint = self._capture(fake, adder)  # measures ops, which needs memory too
            places = self._places(joint, parameters, adder)
            present = trainer.present_bytes(self.mode, set(places.values()), inputs, moved)
            planner = _WholePlanner(joint, trainer.options, present)
            self.plan = planner.within(None if budget is None else planner.budget_bytes(budget))
        homes = planner.homes(self.plan)
        self.at_home = {place: s in homes for s, place in places.items()}
        _refuse_host(sum(s.bytes for s in homes if places[s].host is None))
        self.meter = _moves.Meter(joint.device.type, self.plan.alignment) if trainer.options.check else None
        self.call = boxed(_StepWriter(joint, self.plan, homes, places, self.meter).whole())
        self.slots = [trainer.place_of(*node.meta[_updates.SLOT]) for node in adder.slots]

    def _capture(self, fake, adder):
        def partition(gm, joint_inputs, *, num_fwd_outputs, **_):
            raise _Stop(capture(gm, num_fwd_outputs, self.trainer.options, extend=adder))
        try:
            with torch.enable_grad():
                with_partition(self.trainer.options, partition)(self.gm, fake)
        except _Stop as stop:
            return stop.joint
        raise CairnError("the model has no gradient to compute with these inputs")

    def _places(self, joint, parameters, adder):
        """The places of storages that may be at home on the host; the roles of all that outlive the step."""
        found, shared = {}, set()
        slots = [node.meta[_updates.SLOT] for node in adder.slots]
        for node, key in zip(joint.primals, [(p, None) for p in parameters] + slots):
            for s in joint.of_node[node]:
                value = node.meta["val"]
                whole = value.untyped_storage().nbytes() == value.numel() * value.element_size()
                if s in found or key[0] is None or not whole:
                    shared.add(s)
                found[s] = self.trainer.place_of(*key)
                s.role = lib.PARAMETER if key[1] is None else lib.SLOT
        for s in joint.storages:
            if s.flags & lib.STATIONARY and (s in shared or s not in found):
                s.role = lib.STATE
        for s in joint.boundary.outs:  # no caller keeps the gradient of the loss
            s.flags &= ~lib.RESULT
        for op in joint.ops:
            if op.kind == "node" and _updates.UPDATE in op.node.meta:
                op.flags |= lib.UPDATES
        return {s: place for s, place in found.items() if s.role != lib.STATE}


class Trainer:
    """Steps of a model and its optimiser inside one budget. cairn.trainer explains it. `plan` is the plan of the latest
    step, `norm` the norm of its gradients where they are clipped."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, options: Options,
                 loss: Callable[..., Any] | None, clip_norm: float | None) -> None:
        self.model, self.optimizer, self.options, self.clip_norm = model, optimizer, options, clip_norm
        _refuse(model, optimizer)
        _refuse_shared(model)
        self.optimizer_steps = _updates.Optimizer(optimizer)
        self.plan: Plan | None = None
        self.norm: torch.Tensor | None = None
        self.dry = False
        self.sums: dict[torch.nn.Parameter, torch.Tensor] = {}
        self.device = _device_of(model)
        options.offload = options.offload and has_own_memory(self.device)
        self._places: dict[Any, _homes.Place] = {}
        self._summed = 0
        self._call = model if loss is None else loss
        self._planned: dict[Any, Any] = {}  # by what the optimiser was like: steps and calls
        self._take_groups()

    def _take_groups(self):
        """Use the steps for the optimiser as it is now; at first there are none."""
        self._groups = self.optimizer_steps.groups()
        self._updated = {number for _, *numbers in self._groups for number, _ in numbers}
        self._steps, self._calls = self._planned.setdefault(self._groups, ({"step": [], "add": [], "last": []}, {}))
        for mode in self._steps:
            if mode not in self._calls:
                self._calls[mode] = self._compile(self._call, mode)

    def _compile(self, call, mode):
        def whole_step(*inputs, **keywords):
            return _loss_of(call(*inputs, **keywords))

        def backend(gm, example_inputs):
            allow_captures(next(_captures))
            _refuse_inputs(example_inputs)
            step = _Step(self, gm, mode)
            self._steps[mode].append(step)
            return step
        return torch.compile(whole_step, backend=backend, fullgraph=True, dynamic=False)

    # ---- what users call ----

    def step(self, *inputs: Any, **keywords: Any) -> torch.Tensor:
        """Forward, backward and update; the loss. Gradients that accumulate() added up count too."""
        loss = self._run("last" if self._summed else "step", inputs, keywords)
        self._summed = 0
        self.optimizer._opt_called = True  # what schedules of the learning rate look for
        return loss

    def accumulate(self, *inputs: Any, **keywords: Any) -> torch.Tensor:
        """Forward and backward; the gradients are added to those since the last step. Returns the loss."""
        if not self._steps["last"]:
            self._try("last", inputs, keywords)  # it needs the most memory, and decides where slots are
        loss = self._run("add", inputs, keywords)
        self._summed += 1
        return loss

    def fit(self, *inputs: Any, **keywords: Any) -> Plan:
        """The plan for a step with such inputs, without running it; BudgetError if there is none."""
        self._try("last" if self._summed else "step", inputs, keywords)
        assert self.plan is not None
        return self.plan

    @contextlib.contextmanager
    def on_device(self) -> Iterator[None]:
        """All parameters on the device, whatever the budget: to evaluate the model."""
        homes = [place for place in self._places.values() if place.at_home and place.name is None]
        for place in homes:
            place.settle(False, self.device)
        try:
            yield
        finally:
            for place in homes:
                place.settle(True, self.device)

    # ---- one step ----

    def _try(self, mode, inputs, keywords):
        self.dry = True
        try:
            self._run(mode, inputs, keywords)
        finally:
            self.dry = False

    def _run(self, mode, inputs, keywords):
        if self.optimizer_steps.groups() != self._groups:  # the user has added or frozen parameters, or set an option
            if self._summed:
                raise CairnError("the parameters or options of the optimiser changed after accumulate(), before step()")
            _refuse(self.model, self.optimizer)
            self._take_groups()
        if any(p.grad is not None for group in self.optimizer.param_groups for p in group["params"]):
            raise CairnError("parameters have gradients that were made outside the trainer; call zero_grad() first")
        if not self._summed and not self.dry and mode == "step":
            self.sums.clear()
        for place in self._places.values():  # the user may have loaded other tensors
            place.settle(place.at_home, self.device)
        try:
            for place in self._places.values():
                place.hide(self.device)
            with torch.enable_grad():
                return self._calls[mode](*inputs, **keywords)
        finally:
            for place in self._places.values():
                place.arrived()  # between steps the user may read it
                place.show()

    # ---- for its steps ----

    def updates(self, parameter):
        """Whether the optimiser has the parameter."""
        return id(parameter) in self._updated

    def has_sums(self):
        return self._summed > 0

    def note_norm(self, norm):
        self.norm = norm

    def kept_tensors(self):
        """All on the device that outlives a step."""
        slots = [v for state in self.optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
        homes = {place.host.data_ptr() for place in self._places.values() if place.at_home and place.host is not None}
        return [t for t in (*self.model.parameters(), *slots, *self.sums.values())
                if t.device == self.device and has_own_memory(t.device) and t.data_ptr() not in homes]

    def place_of(self, parameter, name):
        key = id(parameter), name
        if parameter is not None and key not in self._places:
            self._places[key] = _homes.Place(self, parameter, name)
        return self._places.get(key)

    def arrange(self, step):
        """Bring everything to where a step has it."""
        wanted = self._wanted(step.mode, step.at_home)
        for place, at_home in sorted(wanted.items(), key=lambda pair: not pair[1]):  # first to the host
            if place.at_home != at_home:
                place.settle(at_home, self.device)
                place.hide(self.device)

    def present_bytes(self, mode, places, inputs, moved):
        """What is on the device, or will be, and is unknown to a step with these places and inputs. `moved` is there too
        as soon as the step is planned."""
        unit = alignment_of(self.device)
        rounded = lambda tensor: -(-moved.bytes_of(tensor) // unit) * unit
        wanted = self._wanted(mode, {})
        others = [place for place in self._places.values() if place not in places]
        leaving = [place for place in others if wanted.get(place, place.at_home)]
        staying = [place for place in others if place not in leaving]
        later = sum(-(-place.bytes() // unit) * unit for place in staying if place.get() is None)
        if self.device.type != "cuda":
            return later + sum(rounded(place.get()) for place in staying if place.get() is not None)
        gc.collect()
        clear_cublas_workspaces()  # the plan counts them
        known = [place.get() for place in (*places, *leaving) if not place.at_home] + list(inputs)
        storages = {storage_key(t): rounded(t) for t in known if isinstance(t, torch.Tensor) and t.is_cuda}
        later += unit * self.optimizer_steps.numbers_to_come(self.device)
        return later + torch.cuda.memory_allocated(self.device) + moved.bytes(unit) - sum(storages.values())

    def _wanted(self, mode, at_home):
        """Where a step has everything. One that does not use slots leaves them where a later one wants them."""
        return {**(self._steps["last"][-1].at_home if mode == "add" else {}), **at_home}


def _refuse(model, optimizer):
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise CairnError("the trainer runs on one process; a model in DistributedDataParallel cannot be trained by it")
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise CairnError("the trainer updates one parameter at a time, so hooks of the optimiser's step cannot be called")
    mine = {id(p) for p in model.parameters()}
    for group in optimizer.param_groups:
        for p in group["params"]:
            if id(p) not in mine:
                raise CairnError("the optimiser has a parameter that is not one of the model")
            if p._backward_hooks or p._post_accumulate_grad_hooks:
                raise CairnError("a parameter has a hook on its gradient, which the trainer cannot call")


def _refuse_shared(model):
    first: dict = {}
    for name, p in model.named_parameters():
        other, before = first.setdefault(storage_key(p), (name, p))
        if before is not p and p.numel() and (p.requires_grad or before.requires_grad):
            raise CairnError(f"the parameters {other} and {name} share memory, which the trainer cannot plan, because it "
                             "moves and updates one parameter at a time; give each its own, by clone()")


def _refuse_host(size):
    free = _homes.free_host_bytes()
    if free is not None and size > free:
        raise CairnError(f"the plan puts {size} bytes ({_sizes.show(size)}) on the host, which has {free} bytes free")


def _device_of(model):
    devices = {p.device for p in model.parameters()}
    if len(devices) != 1:
        raise CairnError("the parameters of the model are on several devices, or there are none")
    return devices.pop()


def _loss_of(result):
    """The loss among what a model returns: the result, or its `loss`, or its first element."""
    if isinstance(result, torch.Tensor):
        return result
    if isinstance(result, dict):
        return result["loss"]
    return result.loss if hasattr(result, "loss") else result[0]


def trainer(model: torch.nn.Module, optimizer: torch.optim.Optimizer, budget: Size | None = None, *,
            loss: Callable[..., Any] | None = None, clip_norm: float | None = None, offload: bool = True,
            algorithm: str = "auto", report: File | None = None, costs: File | None = None, check: bool = False,
            verbose: bool = False) -> Trainer:
    """Training steps inside one budget for everything that PyTorch has on the device.

        trainer = cairn.trainer(model, optimizer, budget="8GiB")
        for x, y in loader:
            loss = trainer.step(x, y)

    A step is model(*inputs), which returns the loss, its backward part, and the update of every parameter as soon as its
    gradient is there; then the gradient is freed. Where the budget demands it, tensors are recomputed, and parameters and
    what the optimiser keeps are on the host between their uses. The numbers are those of loss.backward() and
    optimizer.step().

    budget     bytes, "8GiB", or "60%" of what the step needs with everything on the device; None: no limit
    loss       a function of the inputs that returns the loss, where model(*inputs) does not
    clip_norm  the largest norm of all gradients, as clip_grad_norm_(the optimiser's parameters, clip_norm)
    offload    whether tensors may be on the host, on a GPU
    The other options are those of backend()."""
    options = Options(budget=budget, algorithm=algorithm, offload=offload, total=True, report=report, costs=costs,
                      check=check, verbose=verbose)
    warn_if_untried()
    return Trainer(model, optimizer, options, loss, clip_norm)
