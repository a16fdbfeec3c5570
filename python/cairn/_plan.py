"""Planning a captured step, and the plan as an object."""

import time
import warnings

import torch

from . import _costs
from . import _library as lib
from . import _sizes
from ._errors import BudgetError, CairnError
from ._options import File


def alignment_of(device):
    """The unit to which the allocator rounds up a storage."""
    return 512 if device.type == "cuda" else 64


class Switches:
    """For tests: whether a processor's own memory stands for the host's."""
    simulate_host = False


def has_own_memory(device):
    """Whether host memory is another memory, so that offloading saves some."""
    return device.type == "cuda" or Switches.simulate_host


class Plan:
    """The plan of one captured step. Figures are those of the simulator; `peak` counts what the step needs above what
    is in use before it."""

    def __init__(self, joint, solution, algorithm, budget, alignment, reserve, seconds):
        self.joint, self._solution = joint, solution
        self.algorithm, self.budget, self.alignment = algorithm, budget, alignment
        self.steps, self.step_bytes, self.second = solution.steps, solution.step_bytes, solution.second
        self.peak, self.time_ns, self.bound_ns = solution.peak, solution.time_ns, solution.bound_ns
        self.reserve = reserve  # bytes that libraries keep while it runs, besides `peak`
        self.seconds = seconds  # by name: load (kernels, which the first step would load), measure, plan
        runs = [number for kind, number, _ in self.steps if kind == lib.RUN]
        seen = set()
        self.reruns = self.rerun_ns = 0
        for number in runs:
            if number in seen:
                self.reruns += 1
                self.rerun_ns += int(joint.ops[number].time_ns)
            seen.add(number)
        self.way = None  # what it means for a step of several graphs, once that was asked
        self.offloads = sum(kind == lib.OFFLOAD for kind, _, _ in self.steps)

    @property
    def overhead(self) -> float:
        """Extra time over running everything once, as a share."""
        once = sum(int(op.time_ns) for op in self.joint.ops)
        return self.time_ns / once - 1 if once else 0.0

    @property
    def gap(self) -> float | None:
        """An upper bound of the distance from the fastest possible plan, as a share; None if no bound is known."""
        return self.time_ns / self.bound_ns - 1 if self.bound_ns else None

    def text(self) -> str:
        """The plan's file: docs/plan-format.md."""
        return self._solution.text()

    def save(self, path: File) -> None:
        with open(path, "w") as file:
            file.write(self.text())

    def report(self, path: File) -> None:
        """A picture of the plan, by the path's ending .svg or .html."""
        picture = self._solution.picture(path)
        with open(path, "w") as file:
            file.write(picture)

    def __str__(self) -> str:
        gap = "" if self.gap is None else f", at most {100 * self.gap:.1f}% from optimal"
        return (f"{self.algorithm}: {_sizes.show(self.peak)} of memory, {100 * self.overhead:.1f}% more time "
                f"({self.reruns} ops repeated, {self.offloads} tensors offloaded{gap})")


class Planner:
    """A captured step with its costs. It makes plans for any number of budgets."""

    def __init__(self, joint, options):
        self.joint, self.options = joint, options
        self.seconds = {}
        self.alignment = alignment_of(joint.device)
        start = time.perf_counter()
        self.table = joint.table
        _costs.assign(joint, self.table)
        self.machine = self._machine() if options.offload and has_own_memory(joint.device) else None
        if options.offload and self.machine is None:
            warnings.warn("cairn: on a processor the host's memory is the same memory, so nothing is offloaded",
                          stacklevel=2)
        self.kept = self._kept()
        self.reserve = self.most_kept()
        self.seconds["load"] = self.table.loading
        self.seconds["measure"] = time.perf_counter() - start + self.table.learning - self.table.loading
        self.step = self._make_step()
        self._enough = None
        self._tightest = self._tightest_op = None
        self._found = []

    def _make_step(self):
        return self.joint.planner_step(self.alignment)

    def _machine(self):
        rate, latency = _costs.measure_link(self.table, self.joint.device)
        machine = lib.Machine.new()
        machine.name = b"torch"
        machine.flops_per_second = machine.memory_bytes_per_second = 1
        machine.link_bytes_per_second, machine.link_latency_ns = rate, latency
        machine.full_duplex = True
        machine.memory_bytes, machine.host_memory_bytes = 2**60, 2**60
        return machine

    def none(self):
        """The plan that recomputes nothing."""
        return self._wrap(self._solve_none(), "none", None, 0.0)

    def _solve_none(self):
        return self.step.solve("none")

    def enough(self):
        """The smallest budget in which nothing is recomputed."""
        if self._enough is None:
            self._enough = self.needs(self._solve_none())
        return self._enough

    def needs(self, solution):
        """The smallest budget in which a solution may be used."""
        return solution.peak

    def _wrap(self, solution, algorithm, budget, seconds):
        self.table.save()  # what was tried for the plan
        return Plan(self.joint, solution, algorithm, budget, self.alignment, self.kept_by(solution),
                    {**self.seconds, "plan": seconds})

    # ---- what libraries keep: it is freed after the forward part and after the backward part ----

    def _kept(self):
        used = any(op.library != _costs.PLAIN for op in self.joint.ops)
        return self.table.kept() if used else {_costs.PLAIN: 0}

    def kept_by(self, solution):
        """What the libraries keep that ops of a plan use, above its peak. The first op of either part that uses a library
        allocates it; what the plan needs before that may be its peak."""
        kept = most = both = 0
        for size, (kind, number, _) in zip(solution.step_bytes, solution.steps):
            if kind == lib.RUN:
                op = self.joint.ops[number]
                kept = 0 if op is self.joint.boundary else max(kept, self.kept[op.library])
            most, both = max(most, size), max(both, size + kept)
        return both - most + self._recorded()

    def _recorded(self):
        """A CUDA graph keeps two numbers on the device for its random ops."""
        return 2 * self.alignment if self.options.cudagraphs and self.joint.device.type == "cuda" else 0

    def most_kept(self):
        """The most of any plan: ops of the forward part may be recomputed in the backward part."""
        forward = [self.kept[op.library] for op in self.joint.ops if not op.backward]
        backward = [self.kept[op.library] for op in self.joint.ops if op.backward or not op.flags & lib.NEVER_AGAIN]
        return max(forward + backward) + self._recorded()

    def present_bytes(self):
        """With total=True: what PyTorch has allocated before the step."""
        device = self.joint.device
        if device.type == "cuda":
            return torch.cuda.memory_allocated(device)
        return sum(-(-s.bytes // self.alignment) * self.alignment for s in self.joint.storages if s.op is None)

    def budget_bytes(self, budget, most=None):
        """A budget in the user's form as bytes for a plan; a share is one of `most`, or of what the step needs."""
        whole = None
        if _sizes.is_share(budget):
            whole = (self.enough() if most is None else most) + self.beside()
        return _sizes.parse(budget, whole) - self.beside()

    def beside(self):
        """What counts against a budget besides the plan."""
        return self.reserve + (self.present_bytes() if self.options.total else 0)

    def _solve(self, size):
        return self.step.solve(self.options.algorithm, max(size, 1), self.machine, self.machine is not None)

    def plan(self, budget):
        """The fastest plan within a budget in the user's form; BudgetError if there is none."""
        return self.within(None if budget is None else self.budget_bytes(budget))

    def within(self, size):
        """The fastest plan that needs at most `size` bytes, without what libraries keep; None: no limit."""
        start = time.perf_counter()
        if size is None:
            return self.none()
        if self._tightest is not None and size < self.needs(self._tightest):
            raise self._refusal(size)
        try:
            solution = self._offered(size) or self._solve(size)
            bound = solution.bound_ns
        except lib.Failure as failure:
            self._only_infeasible(failure)
            if self.smallest()[0] > size:
                raise self._refusal(size) from None
            solution, bound = self._tightest, failure.bound_ns
        plan = self._wrap(self._fastest(solution, size), self.options.algorithm, size, time.perf_counter() - start)
        plan.bound_ns = bound  # that of another budget says nothing about this one
        return plan

    def _offered(self, size):
        """A plan that fits and repeats nothing, so that none is faster; None if none is known."""
        once = sum(int(op.time_ns) for op in self.joint.ops)
        return next((old for old in self._found if self.needs(old) <= size and old.time_ns <= once), None)

    def offer(self, text):
        """The plan of another shape, which may fit this one too."""
        try:
            self._found.append(self.step.read(text, self.machine))
        except lib.Failure:  # this shape has other ops
            pass

    def _fastest(self, solution, size):
        """The new solution, or one made before that fits too and is faster: a plan for less memory is a plan for more."""
        new = self.needs(solution)
        self._found = [old for old in self._found if old.time_ns < solution.time_ns or self.needs(old) < new]
        self._found.append(solution)
        return min((old for old in self._found if self.needs(old) <= size), key=lambda old: old.time_ns)

    @staticmethod
    def _only_infeasible(failure):
        if failure.status != lib.INFEASIBLE:
            raise CairnError(f"the planner refused the step: {failure}") from None

    def smallest(self):
        """The smallest budget for which a plan is found, and the op that sets it. Every refusal of the planner names
        it; the plan for it is kept, so that smaller budgets are refused without asking."""
        if self._tightest is None:
            try:
                self._tightest = self._solve(1)
            except lib.Failure as failure:
                self._only_infeasible(failure)
                self._tightest_op = failure.name
                self._tightest = self._solve(failure.smallest_budget)
        return self.needs(self._tightest), self._tightest_op

    def _refusal(self, size):
        beside = self.beside()
        smallest, op = self.smallest()
        smallest += beside
        message = (f"no plan fits into {size + beside} bytes: the smallest possible budget is {smallest} "
                   f"bytes ({_sizes.show(smallest)}), set by op {op}")
        unused = self._other_gradients()
        if unused:
            message += (f"; {_sizes.show(unused)} of it are gradients of results besides the loss, which loss_only=True "
                        "leaves out")
        offloaded = self._smallest_offloaded() + beside
        if offloaded < smallest:
            message += f"; with offload=True it is {offloaded} bytes ({_sizes.show(offloaded)})"
        return BudgetError(message, smallest, op)

    def _other_gradients(self):
        """The bytes of gradients of results that are no numbers, where another result is one."""
        values = [p.meta["val"] for p in self.joint.tangents
                  if p not in self.joint.absent and isinstance(p.meta["val"], torch.Tensor)]
        if self.options.loss_only or all(v.dim() for v in values):
            return 0
        return sum(v.untyped_storage().nbytes() for v in values if v.dim())

    def _smallest_offloaded(self):
        """The smallest budget with offloading, where only the user's options leave it out."""
        if self.machine is None and has_own_memory(self.joint.device):
            try:
                self.step.solve("auto", 1, self._machine(), True)
            except lib.Failure as failure:
                return failure.smallest_budget
        return self.smallest()[0]

    def read(self, text, budget=None):
        """A plan that was saved."""
        try:
            return self._wrap(self.step.read(text, self.machine), "file", budget, 0.0)
        except lib.Failure as failure:
            raise CairnError(f"the saved plan does not fit this step: {failure}") from None
