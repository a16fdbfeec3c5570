"""One arena: the tensors of a step at planned addresses of one allocation.

An allocator that is asked for one tensor after the other keeps more memory than it gives out, because what is free is in
pieces. Here kernels, matrix products and copies back from the host write to where the plan's layout says. Results of other
ops, workspaces and what the forward part returns are allocated by PyTorch, beside the arena, and counted.

The arena is allocated by the forward part and lives as long as any of its tensors: gradients keep it. So it suits recorded
steps, whose gradients are in the same memory every time.
"""

import torch

from . import _library as lib
from . import _moves
from ._compiled import Onto, is_kernel
from ._errors import CairnError
from ._plan import Planner
from ._write import Writer

aten = torch.ops.aten
# Ops that write straight to a given result.
_OUT = {aten.mm.default: aten.mm.out, aten.addmm.default: aten.addmm.out, aten.bmm.default: aten.bmm.out,
        aten.baddbmm.default: aten.baddbmm.out}
TRIES = 6  # plans for less and less memory, until arena and what is beside it fit


# ---- where tensors are ----

class Layout:
    """The addresses of a solution's tensors. `where` is by step and storage; `total` the bytes of the arena and of what
    is allocated beside it."""

    def __init__(self, joint, solution, alignment):
        self.joint, self.solution, self.alignment = joint, solution, alignment
        self.returned = {s for n in joint.fwd_out if isinstance(n, torch.fx.Node) for s in joint.of_node[n]}
        self._find()
        sizes = sorted({size for size, *_ in self.placed.values()}, reverse=True)[:3]
        best = None
        for limit in [1 << 62, *sizes]:  # the largest tensors may be better beside the arena, with ops' workspaces
            found = self._lay(limit)
            if best is None or found[0] + found[1] < best[0] + best[1]:
                best = found
        self.bytes, self.beside, self.where = best
        self.total = self.bytes + self.beside

    def _rounded(self, size):
        return -(-size // self.alignment) * self.alignment

    def _find(self):
        """Lifetimes that can be in the arena, by (step, storage); those that cannot; bytes of each step's workspace."""
        ops, storages, steps = self.joint.ops, self.joint.storages, self.solution.steps
        began = {}  # the step in which a result that the caller gets was made, before it is handed over
        self.workspace, ran = [0] * len(steps), set()
        for i, (kind, number, _) in enumerate(steps):
            if kind != lib.RUN or ops[number].kind != "node":
                continue
            op = ops[number]
            self.workspace[i] = self._rounded(op.workspace)
            for s in op.beside:
                if number not in ran and self._can_place(op, s):
                    began[s.index] = i
                else:
                    self.workspace[i] += self._rounded(s.bytes)
            ran.add(number)
        boundary = self.joint.boundary.index
        self.workspace[next(i for i, (k, n, _) in enumerate(steps) if k == lib.RUN and n == boundary)] = self.joint.outside
        self.placed, self.others = {}, []
        for size, first, last, tensor, _ in self.solution.lifetimes():
            if tensor is None or not size:
                continue
            s, size, last = storages[tensor], self._rounded(size), min(last, len(steps) - 1)
            kind, number, _ = steps[first]
            if tensor in began and kind == lib.RUN and ops[number].kind == "results":
                self.placed[began[tensor], s] = size, began[tensor], last
            elif kind == lib.FETCH or kind == lib.RUN and self._can_place(ops[number], s):
                self.placed[first, s] = size, first, last
            else:
                self.others.append((size, first, last))

    def _can_place(self, op, s):
        """Whether an op can write a result to an address of ours."""
        if s.op is None or s in self.returned or op.kind != "node":
            return False
        if is_kernel(op):
            return s.slot in op.node.target.placeable()
        return op.node.target in _OUT and s.like.is_contiguous()

    def _lay(self, limit):
        """Bytes of the arena and beside it, and the addresses, with tensors of `limit` bytes or more beside it."""
        inside = {key: life for key, life in self.placed.items() if life[0] < limit}
        outside = self.others + [life for life in self.placed.values() if life[0] >= limit]
        change = [0] * (len(self.workspace) + 1)
        for size, first, last in outside:
            change[first] += size
            change[last + 1] -= size
        live = most = 0
        for more, workspace in zip(change, self.workspace):
            live += more
            most = max(most, live + workspace)
        size, offsets = lib.lay_out(list(inside.values())) if inside else (0, [])
        return self._rounded(size), most, dict(zip(inside, offsets))


class _TooTight(lib.Failure):
    """The step fits, but not with its tensors in an arena."""

    def __init__(self, smallest):
        Exception.__init__(self, "no plan was found whose arena fits")
        self.status, self.name, self.smallest_budget = lib.INFEASIBLE, "arena", smallest


class ArenaPlanner(Planner):
    """Peaks of its solutions are those of the arena with what is beside it."""

    def _laid(self, solution):
        if not hasattr(solution, "layout"):
            solution.layout = Layout(self.joint, solution, self.alignment)
            solution.peak = solution.layout.total
        return solution

    def _wrap(self, solution, algorithm, budget, seconds):
        plan = super()._wrap(self._laid(solution), algorithm, budget, seconds)
        plan.layout = solution.layout
        return plan

    def _solve(self, size):
        target, smallest = size, None
        for _ in range(TRIES):
            try:
                solution = self._laid(super()._solve(target))
            except lib.Failure as failure:
                if smallest is None or failure.status != lib.INFEASIBLE:
                    raise
                break
            if solution.peak <= size:
                return solution
            smallest = min(smallest or solution.peak, solution.peak)
            target -= solution.peak - size
        raise _TooTight(smallest)


# ---- the written graphs ----

def allocate(size, device):
    return torch.empty(size, dtype=torch.uint8, device=device)


def once(backward):
    """A backward part that refuses to run a second time: its tensors are overwritten."""
    def run(arguments):
        if torch._C._autograd._get_current_graph_task_keep_graph():
            raise CairnError("a step in one arena has one backward pass, not several; retain_graph needs arena=False")
        return backward(arguments)
    run._boxed_call = True
    return run


def storage_of(tensor):
    """The arena in which a tensor is."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def at(arena, offset, dtype, size, stride):
    """The tensor at an address of the arena. It is not a view: nothing of autograd's is shared with others."""
    return torch.empty(0, dtype=dtype, device=arena.device).set_(arena.untyped_storage(), offset // dtype.itemsize, size, stride)


class ArenaWriter(Writer):
    """Writes graphs whose ops put their results into the arena."""

    def _begin(self):
        super()._begin()
        self._arena = None

    def _base(self):
        """The arena: in the forward part a new one; in the backward part that of what the forward part has saved."""
        if self._arena is None:
            saved = next((s for s in self.from_forward if s in self.in_arena and s in self.env), None)
            if saved is None:
                self._arena = self.graph.call_function(allocate, (self.plan.layout.bytes, self.device))
            else:
                self._arena = self.graph.call_function(storage_of, (self.env[saved],))
        return self._arena

    def _destination(self, s):
        """A node with the address of a storage that this step makes, or None if it is not in the arena."""
        offset = self.plan.layout.where.get((self.step, s))
        if offset is None:
            self.in_arena.discard(s)
            return None
        self.in_arena.add(s)
        like = s.like
        new = self.graph.call_function(at, (self._base(), offset, like.dtype, tuple(like.shape), like.stride()))
        new.meta["val"] = like
        return new

    def graphs(self):
        self.in_arena = set()
        return super().graphs()

    def _plain_call(self, op, arguments, keywords):
        if is_kernel(op):
            return self._onto(op, op.node.target, arguments)
        where = self._destination(op.outs[0]) if len(op.outs) == 1 and not op.beside else None
        if where is None:
            return super()._plain_call(op, arguments, keywords)
        return self.graph.call_function(_OUT[op.node.target], arguments, {**keywords, "out": where})

    def _onto(self, op, kernel, arguments):
        destinations = [None] * len(op.node.target.outputs())
        for s in op.outs + op.beside:
            destinations[s.slot] = self._destination(s)
        return self.graph.call_function(Onto(kernel), (destinations, *arguments))

    def _overwrite(self, op, arguments, keywords, place):
        if is_kernel(op):
            new = self._onto(op, op.node.target.into(place), arguments)
        else:
            new = super()._overwrite(op, arguments, keywords, place)
        if self.joint.of_node[op.node.args[place]][0] in self.in_arena:
            self.in_arena.add(op.outs[0])
        return new

    def _emit_move(self, kind, s):
        where = self._destination(s) if kind == lib.FETCH else None
        if where is None:
            return super()._emit_move(kind, s)
        self.env[s] = self.graph.call_function(_moves.fetch, (self.hosts[s], self.device, s.index, where))
        self.env[s].meta["val"] = s.like
        self.from_forward.discard(s)
