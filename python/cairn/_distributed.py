"""One plan for all processes: rank 0 makes it, the others read it.

Ranks measure different times; with different plans they would wait for each other at every collective.
"""

import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from ._errors import BudgetError, CairnError


def plan(planner, budget):
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return planner.plan(budget)
    message = [None]
    if dist.get_rank() == 0:
        try:
            made = planner.plan(budget)
            message = [("plan", made.algorithm, made.budget, made.text())]
        except BudgetError as error:
            message = [("budget", str(error), error.smallest, error.op)]
        except CairnError as error:
            message = [("error", str(error))]
    with _disable_current_modes():  # the ops of a capture are not real ones
        dist.broadcast_object_list(message, src=0)
    kind, *rest = message[0]
    if kind == "budget":
        raise BudgetError(*rest)
    if kind == "error":
        raise CairnError(*rest)
    if dist.get_rank() == 0:
        return made
    algorithm, size, text = rest
    read = planner.read(text, size)
    read.algorithm = algorithm
    return read
