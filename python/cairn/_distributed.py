"""One plan for all processes: rank 0 measures and makes it, the others read it.

Ranks measure different times. With different plans they would wait for each other at every collective.
"""

import torch.distributed as dist

from . import _costs, _geometry
from ._errors import BudgetError, CairnError
from ._real import real_tensors


def alone():
    """Whether this is the only process."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1


def all_of(value):
    """The values of all ranks."""
    if alone():
        return [value]
    values = [None] * dist.get_world_size()
    with real_tensors():
        dist.all_gather_object(values, value)
    return values


def most(value):
    """The largest value of all ranks."""
    return max(all_of(value))


def from_first(make):
    """What make() returns on rank 0."""
    if alone():
        return make()
    message = [make() if dist.get_rank() == 0 else None]
    with real_tensors():  # PyTorch's Python dispatcher would keep the interpreter's lock, which gloo's thread may wait for
        dist.broadcast_object_list(message, src=0)
    return message[0]


def learn(gm, table, device, alignment, wanted=_geometry.any_node, offload=False):
    """_costs.learn, on rank 0 only. The others take what it knows, and measure only ops that it does not have."""
    def make():
        _costs.learn(gm, table, device, alignment, wanted)
        if offload:
            _costs.measure_link(table, device)
        return table.facts()
    facts = from_first(make)
    if not alone() and dist.get_rank() != 0:
        table.take(facts)
        _geometry.propagate(gm, table.results, _costs.signature_of, wanted)
        _costs.learn(gm, table, device, alignment, wanted)


def plan(planner, size):
    """The plan of all ranks for a step of `size` bytes; None: no limit."""
    if alone():
        return planner.within(size)
    made = None

    def make():
        nonlocal made
        try:
            made = planner.within(size)
            return "plan", made.algorithm, made.budget, made.text()
        except BudgetError as error:
            return "budget", str(error), error.smallest, error.op
        except CairnError as error:
            return "error", str(error)
    kind, *rest = from_first(make)
    if kind == "budget":
        raise BudgetError(*rest)
    if kind == "error":
        raise CairnError(*rest)
    if made is not None:
        return made
    algorithm, budget, text = rest
    read = planner.read(text, budget)
    read.algorithm = algorithm
    return read
