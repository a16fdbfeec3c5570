"""One plan for all processes: rank 0 makes it, the others read it.

Ranks measure different times. With different plans they would wait for each other at every collective.
"""

import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from ._errors import BudgetError, CairnError


def _alone():
    return not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1


def most(value):
    """The largest value of all ranks."""
    if _alone():
        return value
    values = [None] * dist.get_world_size()
    with _disable_current_modes():
        dist.all_gather_object(values, value)
    return max(values)


def plan(planner, size):
    """The plan of all ranks for a step of `size` bytes; None: no limit."""
    if _alone():
        return planner.within(size)
    message = [None]
    if dist.get_rank() == 0:
        try:
            made = planner.within(size)
            message = [("plan", made.algorithm, made.budget, made.text())]
        except BudgetError as error:
            message = [("budget", str(error), error.smallest, error.op)]
        except CairnError as error:
            message = [("error", str(error))]
    with _disable_current_modes():  # ops during a capture are not real ops
        dist.broadcast_object_list(message, src=0)
    kind, *rest = message[0]
    if kind == "budget":
        raise BudgetError(*rest)
    if kind == "error":
        raise CairnError(*rest)
    if dist.get_rank() == 0:
        return made
    algorithm, budget, text = rest
    read = planner.read(text, budget)
    read.algorithm = algorithm
    return read


def same(make):
    """The value that `make` returns on rank 0, on all ranks."""
    if _alone():
        return make()
    message = [make() if dist.get_rank() == 0 else None]
    with _disable_current_modes():
        dist.broadcast_object_list(message, src=0)
    return message[0]
