"""Cairn for PyTorch: train inside a memory budget, with bitwise the same gradients.

    model = torch.compile(model, backend=cairn.backend(budget="4GiB"))

docs/pytorch.md shows how, and docs/architecture.md what is in which module. The planner is libcairn_plan.so in this
folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

try:
    import torch
except ImportError as error:
    raise ImportError("cairn needs PyTorch 2.11 or newer, which this Python does not have: `pip install torch`, "
                      "or see https://pytorch.org/get-started for other builds of it") from error

from ._backend import Backend, planner_of
from ._errors import BudgetError, CairnError
from ._export import export
from ._library import choose_regions, version
from ._options import File, Mode, Options, Size, from_call
from ._plan import Plan
from ._record import record
from ._torch import warn_if_untried
from ._trainer import Trainer, trainer

__version__ = version()
__all__ = ["Backend", "BudgetError", "CairnError", "Fit", "Options", "Plan", "Sweep", "Trainer", "backend", "choose_regions",
           "export", "fits", "record", "sweep", "trainer", "version"]

Model: TypeAlias = torch.nn.Module | Callable[..., Any]


def backend(budget: Size | None = None, *, mode: Mode = "exact", algorithm: str = "auto", offload: bool = False,
            total: bool = False, outside: int = 0, loss_only: bool = False, report: File | None = None,
            plan: Plan | File | None = None, costs: File | None = None, cudagraphs: bool = False, arena: bool = False,
            chunks: int | None = None, check: bool = False, verbose: bool = False) -> Backend:
    """A backend for torch.compile that keeps every step of the model inside `budget`.

    budget     bytes, "4GiB", or "40%" of what the step needs when nothing is recomputed; None: no limit
    mode       "exact": ATen ops in the plan's order, memory as predicted, bitwise equal to eager execution;
               "compiled": kernels that Inductor compiles, each one op of the plan; memory as predicted, bitwise equal to the
               same mode without a budget
    algorithm  the planner's, "auto"
    offload    whether tensors may be offloaded to host memory
    total      whether the budget counts everything that PyTorch has allocated, not only what the step adds
    outside    bytes that the loss needs if it is computed outside the compiled model
    loss_only  whether only results that are numbers have gradients. For models that return logits beside the loss:
               PyTorch else makes a gradient for those too, of zeros
    report     a file, .svg or .html, that shows the plan
    plan       a plan, or the file of a saved plan, to use instead of planning
    costs      the file in which measured costs are kept; by default one per device in the user's cache
    cudagraphs whether the step will be recorded as a CUDA graph (see record): then random ops are not recomputed
    arena      mode "compiled": whether the step's tensors are at planned addresses of one allocation.
               Gradients keep that allocation alive, so each backward pass needs a step of its own
    chunks     mode "compiled": in how many chunks of rows a linear layer with cross-entropy after it runs, so that not all
               logits exist at once; 1: at once; None: in as many as its shape is worth
    check      whether live bytes are compared with the prediction after every op (slow)
    verbose    whether the plan is printed
    """
    options = from_call(locals())
    warn_if_untried()
    return Backend(options)


Inputs = Sequence[Any] | dict[str, Any]  # positional, or by name


class Fit:
    """Whether a step fits: True or False. `plans` has one plan for each shape, `plan` is that of the first; `smallest` is
    the smallest possible budget in bytes."""

    def __init__(self, plans: list[Plan], smallest: int | None, reason: str | None) -> None:
        self.plans, self.smallest, self.reason = plans, smallest, reason
        self.plan = plans[0] if plans else None

    def __bool__(self) -> bool:
        return self.plan is not None

    def __repr__(self) -> str:
        return f"<fits: {self.plan}>" if self.plan else f"<does not fit: {self.reason}>"


def fits(model: Model, inputs: Inputs, budget: Size, *, shapes: Sequence[Inputs] = (), mode: Mode = "exact",
         algorithm: str = "auto", offload: bool = False, total: bool = False, outside: int = 0,
         loss_only: bool = False, costs: File | None = None, cudagraphs: bool = False, arena: bool = False,
         chunks: int | None = None) -> Fit:
    """Whether the training step of model(*inputs) can be run in `budget`, without running it. `shapes` are inputs of
    other shapes that must fit too; a budget in percent is then one of the largest. The other options are those of
    backend()."""
    options = from_call(locals())
    planners = [planner_of(model, given, options) for given in (inputs, *shapes)]
    most = max(planner.enough() for planner in planners)
    plans, refusals = [], []
    for planner in planners:
        try:
            plans.append(planner.within(planner.budget_bytes(budget, most)))
        except BudgetError as error:
            refusals.append(error)
    if refusals:
        worst = max(refusals, key=lambda error: error.smallest)
        return Fit([], worst.smallest, str(worst))
    return Fit(plans, None, None)


class Sweep(list[tuple[int, Plan]]):
    """Points (budget, plan), by falling budget; `smallest` is the smallest possible budget."""
    smallest: int

    def table(self) -> str:
        lines = [f"{'budget':>14} {'memory':>14} {'time':>10} {'repeated':>9} {'over':>7} {'bound':>7}"]
        for budget, plan in self:
            once = plan.time_ns / (1 + plan.overhead)
            bound = f"{100 * (plan.bound_ns / once - 1):6.2f}%" if plan.bound_ns else ""
            lines.append(f"{budget:>14} {plan.peak:>14} {plan.time_ns / 1e6:>8.2f}ms {plan.reruns:>9} "
                         f"{100 * plan.overhead:>6.2f}% {bound:>7}")
        return "\n".join(lines)


def sweep(model: Model, inputs: Inputs, points: int = 10, *, mode: Mode = "exact", algorithm: str = "auto",
          offload: bool = False, outside: int = 0, loss_only: bool = False, costs: File | None = None,
          cudagraphs: bool = False, arena: bool = False, chunks: int | None = None) -> Sweep:
    """Memory against time: plans for budgets from what the plain step needs down to the smallest. The other options
    are those of backend()."""
    planner = planner_of(model, inputs, from_call(locals()))
    none = planner.none()
    curve = Sweep([(none.peak, none)])
    curve.smallest = planner.smallest()[0]
    low = min(curve.smallest, none.peak)
    for i in range(1, points + 1):
        budget = none.peak - (none.peak - low) * i // points
        try:
            curve.append((budget, planner.plan(budget)))
        except BudgetError:
            continue
    return curve
