"""One arena: the tensors of a step at planned addresses of one allocation.

An allocator that is asked for one tensor after the other keeps more memory than it gives out, because what is free is in
fragments. Here kernels, ops that can (_onto.py) and copies back from the host write to where the plan's layout says. Results
of other ops, workspaces and what the forward part returns are allocated by PyTorch, beside the arena, and counted.

The arena is allocated by the forward part and lives as long as any of its tensors: gradients keep it. So it suits recorded
steps, whose gradients are in the same memory every time.
"""

import itertools

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from . import _check, _norms, _onto, _pairs, _torch
from . import _library as lib
from . import _moves
from ._compiled import Onto, is_kernel
from ._errors import CairnError
from ._geometry import place_of
from ._plan import Planner
from ._write import Writer

TRIES = 8  # plans for less or more memory, until arena and what is beside it fit closely
MOVES = 64  # of tensors out of the arena
PRICE = 4  # of this many bytes beside the arena the allocator may lose one, in gaps
SEGMENT = 2 << 20  # the allocator's unit for large tensors on CUDA


# ---- where tensors are ----

class Layout:
    """The addresses of a solution's tensors. `where` is by step and storage; `total` the bytes of the arena and of what
    is allocated beside it. `kept` is what libraries keep, by name; before the steps in `cleared` it is freed. `tight`:
    results of ops that insist on allocating are copied into the arena; `copied` are those. And all ops that can run in
    slices (_slices.py) do; `second` are their steps, which take `slower_ns` longer."""

    def __init__(self, joint, solution, alignment, kept, tight=False):
        self.joint, self.solution, self.alignment, self.tight = joint, solution, alignment, tight
        self.copied, self._kept = set(), kept
        self.second, self.slower_ns = set(solution.second), 0
        self.returned = {s for n in joint.fwd_out if isinstance(n, torch.fx.Node) for s in joint.of_node[n]}
        self._find()
        self._lay()
        self.total = self.bytes + self.beside

    def _rounded(self, size):
        return -(-size // self.alignment) * self.alignment

    def _find(self):
        """Lifetimes that can be in the arena, by (step, storage); those that cannot; bytes of each step's workspace."""
        ops, storages, steps = self.joint.ops, self.joint.storages, self.solution.steps
        began = {}  # the step in which a result that the caller gets was made, before it is handed over
        self.workspace, ran = [0] * len(steps), {}
        for i, (kind, number, _) in enumerate(steps):
            if kind != lib.RUN or ops[number].kind != "node":
                continue
            op = ops[number]
            if self.tight and op.second is not None and i not in self.second:
                self.second.add(i)
                self.slower_ns += op.second.time_ns - op.time_ns
            second = i in self.second
            self.workspace[i] = self._rounded(self._workspace(op, second))
            for s in op.beside:
                if number not in ran and self._can_place(op, s, second=second):
                    began[s.index] = i
                else:
                    self.workspace[i] += self._rounded(s.bytes)
            ran.setdefault(number, i)
        boundary = self.joint.boundary.index
        self.workspace[next(i for i, (k, n, _) in enumerate(steps) if k == lib.RUN and n == boundary)] = self.joint.outside
        self.placed, self.others = {}, []
        for size, first, last, tensor, _ in self.solution.lifetimes():
            if tensor is None or not size:
                continue
            s, size, last = storages[tensor], self._rounded(size), min(last, len(steps) - 1)
            kind, number, inplace = steps[first]
            if tensor in began and kind == lib.RUN and ops[number].kind == "results":
                self.placed[began[tensor], s] = size, began[tensor], last
            elif kind == lib.RUN and ran.get(number) == first and is_handed(ops[number]):
                self.others.append((size, first, last))
            elif kind == lib.FETCH or kind == lib.RUN \
                    and self._can_place(ops[number], s, inplace, first in self.second):
                self.placed[first, s] = size, first, last
            elif self.tight and kind == lib.RUN and last > first and self._can_copy(ops[number], s):
                self.placed[first, s] = size, first, last
                self.copied.add((first, s))
                self.workspace[first] += size
            else:
                self.others.append((size, first, last))

    def _workspace(self, op, second):
        if second:
            return op.second.workspace
        return op.node.target.beside(op.workspace, self.joint.table) if is_kernel(op) else op.workspace

    def _can_copy(self, op, s):
        return s.op is not None and s not in self.returned and op.kind == "node" and not is_kernel(op)

    def _can_place(self, op, s, inplace=0, second=False):
        """Whether an op can write a result to an address of ours. An op of ATen that overwrites an operand by its first
        result allocates the others. The `second` form of an op can."""
        if s.op is None or s in self.returned or op.kind != "node":
            return False
        if second:
            return s.slot in op.second.form.made
        if is_kernel(op):
            return s.slot in op.node.target.placeable()
        return not inplace and op.state is None and _onto.form_of(op, self.joint.table) is not None

    def _lay(self):
        beside = _profile(self.others, len(self.workspace))
        beside = [live + workspace for live, workspace in zip(beside, self.workspace)]
        self.transient = max(self._taken())
        kept, self.cleared = self._kept_by_step(beside)
        size, inside, self.beside_by_step = self._fill([a + b for a, b in zip(beside, kept)])
        always, _ = self._kept_by_step(beside, clear=False)
        other, others, filled = self._fill(beside, max(always))
        if other < size:  # tensors take more room beside the arena than what libraries keep
            self.cleared, inside, self.beside_by_step = set(), others, [a + b for a, b in zip(filled, always)]
        self.beside = max(self.beside_by_step)
        size, offsets = lib.lay_out(list(inside.values())) if inside else (0, [])
        unit = SEGMENT if self.joint.device.type == "cuda" and size > SEGMENT else self.alignment
        self.bytes, self.where = -(-size // unit) * unit, dict(zip(inside, offsets))

    def _kept_by_step(self, beside, clear=True):
        """What libraries keep at every step, from their first op of a part to its end, beside other bytes. Where both would
        be the most of all, it is freed before an op of another kind, and allocated again by the next op of the library.
        Also returns the steps before which it is freed."""
        runs = [self.joint.ops[number] if kind == lib.RUN else None for kind, number, _ in self.solution.steps]
        kept = [0 if op is None else self._kept[op.library] for op in runs]
        least = max(map(sum, zip(beside, kept)))
        cleared, found, now = set(), [], 0
        for i, op in enumerate(runs):
            if op is self.joint.boundary:
                now = 0
            elif clear and now and op is not None and not kept[i] and beside[i] + now > least:
                cleared.add(i)
                now = 0
            now = max(now, kept[i])
            found.append(now)
        return found, cleared

    def _taken(self):
        """What each step allocates beside the arena at least: its workspace, and results that it cannot place."""
        taken = list(self.workspace)
        for size, first, _ in self.others:
            taken[first] += size
        return taken

    def _fill(self, beside, extra=0):
        """Where the arena is fullest, but the memory beside it is not, take tensors out of it, the largest first, as long as
        they fit beside it. Returns about what both need together, with `extra` bytes, what is in the arena then, and the
        bytes beside it by step."""
        inside, beside, most = dict(self.placed), list(beside), max(beside)
        live = _profile(inside.values(), len(beside))
        movable = sorted((key for key in inside if key not in self.copied), key=lambda key: -inside[key][0])
        for _ in range(MOVES):
            fullest = max(range(len(live)), key=live.__getitem__)
            room = most - beside[fullest]
            for key in movable:
                size, first, last = inside[key]
                if size <= room and first <= fullest <= last and max(beside[first:last + 1]) + size <= most:
                    break
            else:
                break
            movable.remove(key)
            del inside[key]
            for i in range(first, last + 1):
                live[i] -= size
                beside[i] += size
        return max(live) + max(beside) + extra, inside, beside


def is_handed(op):
    """Whether the first run of an op may be the result of another one: the second half of a norm."""
    return op.kind == "node" and op.node.target is _norms.APPLY


def _profile(lives, steps):
    """The bytes of lifetimes at every step."""
    change = [0] * (steps + 1)
    for size, first, last in lives:
        change[first] += size
        change[last + 1] -= size
    return list(itertools.accumulate(change[:-1]))


class _TooTight(lib.Failure):
    """The step fits, but not with its tensors in an arena."""

    def __init__(self, smallest):
        Exception.__init__(self, "no plan was found whose arena fits")
        self.status, self.name, self.smallest_budget = lib.INFEASIBLE, "arena", smallest


class ArenaPlanner(Planner):
    """Peaks of its solutions are those of the arena with what is beside it."""

    _too_little = 0  # bytes, for which no plan is found without an arena either

    def _laid(self, solution, size=None):
        """The solution with its layout: the tight one if the other does not fit into `size`, and it does or is smaller."""
        if not hasattr(solution, "layout"):
            solution.layout = Layout(self.joint, solution, self.alignment, self.kept)
            if size is not None and solution.layout.total + solution.layout.beside // PRICE > size:
                other = Layout(self.joint, solution, self.alignment, self.kept, tight=True)
                solution.layout = min(solution.layout, other, key=lambda layout: (max(layout.total - size, 0),
                                                                                  layout.total + layout.beside // PRICE))
            solution.time_ns += solution.layout.slower_ns
            solution.live, solution.peak = solution.peak, solution.layout.total
        return solution

    def _wrap(self, solution, algorithm, budget, seconds):
        plan = super()._wrap(self._laid(solution), algorithm, budget, seconds)
        plan.layout = solution.layout
        return plan

    def _make_step(self):
        """What libraries keep counts where their ops run: it can be freed before others."""
        return self.joint.planner_step(self.alignment, self.kept)

    def kept_by(self, solution):
        """What libraries keep is beside the arena, and counted there."""
        return self._recorded()

    def most_kept(self):
        return self._recorded()

    def smallest(self):
        """As Planner.smallest; but the smallest plan's arena may need more than the plan, and a little more memory for the
        plan may make a smaller one."""
        size = 1
        while self._tightest is None:
            try:
                self._tightest = self._solve(size)
            except lib.Failure as failure:
                self._only_infeasible(failure)
                self._tightest_op = self._tightest_op or failure.name
                size = max(failure.smallest_budget, size + max(size // 256, self.alignment))
            else:
                self.table.save()  # what was tried for it: a process with this budget may have too little memory to try
        return self._tightest.peak, self._tightest_op

    def _solve(self, size):
        """The fastest plan found whose arena and what is beside it fit into `size`. How much of that the plan itself may
        use is searched for, above what a refusal has named as too little."""
        low, high, target, best, smallest = self._too_little, size, size, None, None
        for _ in range(TRIES):
            try:
                solution = self._laid(super()._solve(target), size)
            except lib.Failure as failure:
                if failure.status == lib.INFEASIBLE:
                    self._too_little = max(self._too_little, failure.smallest_budget - 1)
                if smallest is None or failure.status != lib.INFEASIBLE:
                    raise
                low = max(target, self._too_little)
            else:
                smallest = min(smallest or solution.peak, solution.peak)
                if solution.peak > size:
                    high = min(target, solution.live)
                    target = solution.live - (solution.peak - size)
                else:
                    low = target
                    best = solution if best is None or solution.time_ns < best.time_ns else best
            if high - low <= max(size // 256, self.alignment):
                break
            target = target if low < target < high else (low + high) // 2
        if best is None:
            raise _TooTight(smallest)
        return best


# ---- the written graphs ----

def allocate(size, device):
    return torch.empty(size, dtype=torch.uint8, device=device)


def once(backward):
    """A backward part that refuses to run a second time: its tensors are overwritten."""
    def run(arguments):
        if _torch.keeps_graph():
            raise CairnError("a step in one arena has one backward pass, not several; retain_graph needs arena=False")
        return backward(arguments)
    return _torch.boxed_call(run)


def at(arena, offset, size, dtype, place):
    """The tensor at an address of the arena, with a storage of its own, which keeps the arena alive. Some ops look at the
    whole storage of an operand: as_strided counts from its beginning, and some clone all of it."""
    memory = from_dlpack(to_dlpack(arena[offset:offset + size]))
    shape, stride, begin = place
    return torch.empty(0, dtype=dtype, device=arena.device).set_(memory.untyped_storage(), begin, shape, stride)


def free_workspaces():
    _torch.clear_cublas_workspaces()


def copied_to(where, made):
    return where.copy_(made)


class ArenaWriter(Writer):
    """Writes graphs whose ops put their results into the arena."""

    def _begin(self):
        super()._begin()
        self._arena = None

    def _base(self):
        """The arena: of the part that first needs it."""
        if self._arena is None:
            self._arena = self.graph.call_function(allocate, (self.plan.layout.bytes, self.device))
            self._arena.meta["val"] = self._fake_bytes(self.plan.layout.bytes, self.device)
        return self._arena

    def _also_saved(self):
        return [self._arena] if self._arena is not None else []

    def _also_arrives(self, nodes):
        self._arena = next(iter(nodes), None)

    def _destination(self, s):
        """A node with the address of a storage that this step makes, or None if it is not in the arena."""
        offset = self.plan.layout.where.get((self.step, s))
        if offset is None:
            self.in_arena.discard(s)
            return None
        self.in_arena.add(s)
        self._address[s] = offset
        like, size = s.like, s.like.untyped_storage().nbytes()
        new = self.graph.call_function(at, (self._base(), offset, size, like.dtype, place_of(like)))
        new.meta["val"] = like
        return new

    def graphs(self):
        self.in_arena, self._address = set(), {}
        return super().graphs()

    def _ranges(self, storages):
        """Where storages are in the arena, of those that are."""
        return [(self._address[s], self._address[s] + s.bytes) for s in storages if s in self.in_arena]

    def _finish(self):
        self.fused += _pairs.join(self.graph, Onto, at)
        super()._finish()

    def _emit_run(self, op, inplace):
        if self.step in self.plan.layout.cleared:
            self.graph.call_function(free_workspaces)
        self.in_arena.difference_update(op.outs)
        super()._emit_run(op, inplace)
        for s in op.outs:
            if (self.step, s) in self.plan.layout.copied:
                self.env[s] = self.graph.call_function(copied_to, (self._destination(s), self.env[s]))
                self.env[s].meta["val"], self.env[s].meta[_check.HOLDS] = s.like, [s]

    def _plain_call(self, op, arguments, keywords):
        if is_kernel(op):
            return self._onto(op, arguments)
        if self.step in self.plan.layout.second:
            return self._in_slices(op, arguments, keywords)
        form, made = _onto.form_of(op, self.joint.table), sorted(op.outs + op.beside, key=lambda s: s.slot or 0)
        places = [self._destination(s) for s in made] if form is not None else []
        if not any(places):
            return super()._plain_call(op, arguments, keywords)
        for i, s in enumerate(made):
            if places[i] is None:  # beside the arena
                places[i] = self.graph.call_function(torch.empty_strided, (tuple(s.like.shape), s.like.stride()),
                                                     dict(dtype=s.like.dtype, device=s.like.device))
        return self.graph.call_function(form.target, arguments, {**keywords, **form.keywords(places)})

    def _onto(self, op, arguments, over=()):
        destinations, overwriting = [None] * len(op.node.target.outputs()), {made: place for place, _, made in over}
        for s in op.outs + op.beside:
            destinations[s.slot] = arguments[overwriting[s]] if s in overwriting else self._destination(s)
        new = self.graph.call_function(Onto(op.node.target), (destinations, *arguments))
        new.meta[_pairs.READS], new.meta[_pairs.WRITES] = self._ranges(op.reads), self._ranges(op.outs + op.beside)
        return new

    def _in_slices(self, op, arguments, keywords):
        destinations = [None] * len(op.node.meta["val"])
        for s in op.outs + op.beside:
            destinations[s.slot] = self._destination(s)
        return self.graph.call_function(op.second.form, (destinations, *arguments), keywords)

    def _overwrite(self, op, arguments, keywords, over):
        new = super()._overwrite(op, arguments, keywords, over)
        for _, storage, made in over:
            if storage in self.in_arena:
                self.in_arena.add(made)
                self._address[made] = self._address[storage]
        if _pairs.WRITES in new.meta:
            new.meta[_pairs.WRITES] = self._ranges(op.outs + op.beside)
        return new

    def _emit_move(self, kind, s):
        where = self._destination(s) if kind == lib.FETCH else None
        if where is None:
            return super()._emit_move(kind, s)
        self.env[s] = self.graph.call_function(_moves.fetch, (self.hosts[s], self.device, s.index, where))
        self.env[s].meta["val"], self.env[s].meta[_check.HOLDS] = s.like, [s]
        self.from_forward.discard(s)
