"""Cairn for PyTorch: train inside a memory budget, with bitwise the same gradients.

    model = torch.compile(model, backend=cairn.backend(budget="4GiB"))

docs/pytorch.md shows how; the planner is libcairn_plan.so in this folder.
"""

from ._backend import Backend, Options, planner_of
from ._errors import BudgetError, CairnError
from ._library import choose_regions, version
from ._plan import Plan
from ._record import record

__version__ = version()
__all__ = ["backend", "fits", "sweep", "Plan", "Backend", "BudgetError", "CairnError", "choose_regions", "record",
           "version"]


def backend(budget=None, **options):
    """A backend for torch.compile that keeps every step of the model inside `budget`.

    budget     bytes, "4GiB", or "40%" of what the step needs when nothing is recomputed; None: no limit
    mode       "exact": ATen ops in the plan's order, memory as predicted, bitwise equal to eager execution;
               "compiled": kernels that Inductor compiles, each one op of the plan; memory as predicted, bitwise equal to the
               same mode without a budget
    algorithm  the planner's, "auto"
    offload    whether tensors may be offloaded to host memory
    total      whether the budget counts everything that PyTorch has allocated, not only what the step adds
    outside    bytes that the loss needs if it is computed outside the compiled model
    report     a file, .svg or .html, that shows the plan
    plan       a plan, or the file of a saved plan, to use instead of planning
    costs      the file in which measured costs are kept; by default one per device in the user's cache
    cudagraphs whether the step will be recorded as a CUDA graph (see record): then random ops are not recomputed
    arena      mode "compiled": whether the step's tensors are at planned addresses of one allocation; by default if
               cudagraphs. Gradients keep that allocation alive, so each backward pass needs a step of its own
    chunks     mode "compiled": into how many chunks of rows a linear layer with cross-entropy after it is divided, so that
               not all logits exist at once
    check      whether live bytes are compared with the prediction after every op (slow)
    verbose    whether the plan is printed
    """
    return Backend(Options(budget, **options))


class Fit:
    """Whether a step fits: True or False. `smallest` is the smallest possible budget in bytes."""

    def __init__(self, plan, smallest, reason):
        self.plan, self.smallest, self.reason = plan, smallest, reason

    def __bool__(self):
        return self.plan is not None

    def __repr__(self):
        return f"<fits: {self.plan}>" if self.plan else f"<does not fit: {self.reason}>"


def fits(model, inputs, budget, **options):
    """Whether the training step of model(*inputs) can be run in `budget`, without running it."""
    planner = planner_of(model, inputs, Options(budget, **options))
    try:
        return Fit(planner.plan(budget), None, None)
    except BudgetError as error:
        return Fit(None, error.smallest, str(error))


class Sweep(list):
    """Points (budget, plan), by falling budget; `smallest` is the smallest possible budget."""
    smallest = None

    def table(self):
        lines = [f"{'budget':>14} {'memory':>14} {'time':>10} {'repeated':>9} {'over':>7} {'bound':>7}"]
        for budget, plan in self:
            bound = "" if not plan.bound_ns else f"{100 * (plan.bound_ns / (plan.time_ns / (1 + plan.overhead)) - 1):6.2f}%"
            lines.append(f"{budget:>14} {plan.peak:>14} {plan.time_ns / 1e6:>8.2f}ms {plan.reruns:>9} "
                         f"{100 * plan.overhead:>6.2f}% {bound:>7}")
        return "\n".join(lines)


def sweep(model, inputs, points=10, **options):
    """Memory against time: plans for budgets from what the plain step needs down to the smallest."""
    planner = planner_of(model, inputs, Options(None, **options))
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
