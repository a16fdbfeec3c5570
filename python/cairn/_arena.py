"""One arena: the tensors of a step at planned addresses of one allocation.

An allocator that is asked for one tensor after the other keeps more memory than it gives out, because what is free is in
fragments. Here kernels, ops that can (_onto.py) and copies back from the host write to where the plan's layout says. Results
of other ops, workspaces and what the forward part returns are allocated by PyTorch, beside the arena, and counted.

The arena is allocated by the forward part and lives as long as any of its tensors: gradients keep it. So it suits recorded
steps, whose gradients are in the same memory every time.
"""

import itertools
import random

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from . import _check, _heap, _later, _norms, _onto, _pairs, _torch
from . import _library as lib
from . import _moves
from ._compiled import Onto, is_kernel
from ._errors import CairnError
from ._geometry import place_of
from ._plan import Planner
from ._write import Writer

TRIES = 8  # plans for less or more memory, until arena and what is beside it fit closely
CLOSES = 4  # plans of which a few copies may close the gaps
PLENTY = 1 << 60  # bytes that suffice for all recomputations beside other kernels
SLACK = 256  # one part of so many of a budget may be left
GAIN = 333  # one part of so many of a step's time is not searched for
SMALLEST = 4  # plans at most of which the one with the smallest arena counts
MOVES = 64  # of tensors out of the arena
LOST = 50  # of this many allocated bytes the allocator may lose one, in gaps
LONG = 8  # steps that a tensor is alive, above which a copy of it into the arena may be better than a gap
LAUNCH = 2000  # nanoseconds of a copy, about, besides those of its bytes
SEGMENT = 2 << 20  # the allocator's unit for large tensors on CUDA

LARGE, GRADIENTS, SOME, ALL = 1, 2, 3, 4  # which results are copied into the arena
BACKWARD, EVERYTHING = 1, 2  # which ops run in slices, of those that can
# Options of layouts, with fewer and fewer bytes and more and more work.
FORMS: tuple = ({}, dict(copies=LARGE), dict(copies=GRADIENTS), dict(copies=SOME), dict(sliced=BACKWARD),
                dict(sliced=EVERYTHING))
NONE_MOVED, SOME_MOVED, ALL_MOVED = 0, 1, 2  # of recomputations that can be moved to other kernels
FEW = {2: 24, 3: 24, 4: 24, 6: 12, 8: 12, 12: 8}  # how often so many gradients are drawn, to be the only copies


# ---- where tensors are ----

class Layout:
    """The addresses of a solution's tensors, once finish() has found them. That takes long; `bound`, which `total` cannot be
    below, mostly shows already that it is too large. `where` is by step and storage; `total` the bytes of the arena and of
    what is allocated beside it, on a GPU with the gaps that the allocator leaves there; `behind` are the bytes that are
    reserved for that, `small` those of them that are a small tensor, and `taken` what the allocator takes for all. `kept` is
    what libraries keep, by name; before the steps in `cleared` it is freed. Results of ops that insist on allocating may be
    copied into the arena; `copied` are those. `copies` says which: none, the gradients that the caller gets (large ones, or
    all), or also what is alive for long, and then nothing else is put beside the arena. `sliced`: all of them are copied,
    and ops that can run in slices (_slices.py) do: all, or those of the backward part, which need several times the memory
    of the others. `second` are their steps. Copies and slices take `slower_ns` longer than the solution says, ops that run
    again elsewhere than beside another kernel (_pairs.py) `apart_ns`. `lost` is what the allocator has lost before the
    step, less what it may. `few`: only these gradients are copied; all else is where it is in `plain`, the layout without
    copies."""

    def __init__(self, joint, solution, alignment, kept, lost=0, sliced=0, copies=0, few=frozenset(), plain=None):
        self.joint, self.solution, self.alignment, self.sliced = joint, solution, alignment, sliced
        self.copies, self._few, self._plain, self._lost = ALL if sliced else copies, few, plain, lost
        self.copied, self._kept = set(), kept
        self.second, self.slower_ns, self.apart_ns = set(solution.second), 0, 0
        self.returned = {s for n in joint.fwd_out if isinstance(n, torch.fx.Node) for s in joint.of_node[n]}
        self.total = None  # as long as addresses are not known
        self._find()
        self._choose()
        self.copied &= self.placed.keys()
        self.slower_ns += sum(self._copy_ns(self.placed[key][0]) for key in self.copied)

    def finish(self):
        """Find addresses, once."""
        if self.total is None:
            self._lay()
            self.without_gaps = self.bytes + self.beside
            self.taken, *gaps = self._taken_by_allocator() if self.joint.device.type == "cuda" else (0, 0, 0)
            self.least, self.behind, self.small, self.beside = self._with_gaps(self.taken, *gaps)
            self.total = self.bytes + self.beside

    def _rounded(self, size):
        return -(-size // self.alignment) * self.alignment

    def _find(self):
        """Lifetimes that can be in the arena, by (step, storage); those that cannot, and those of results that end with the
        step that makes them: copied ones, and what the caller has already; bytes of each step's workspace."""
        ops, storages, steps = self.joint.ops, self.joint.storages, self.solution.steps
        began = {}  # the step in which a result that the caller gets was made, before it is handed over
        self.workspace, self.passing, self.large, ran, beside, before = [0] * len(steps), [], {}, {}, set(), None
        for i, (kind, number, _) in enumerate(steps):
            if kind != lib.RUN or ops[number].kind != "node":
                continue
            op = ops[number]
            if number in ran and op.again_ns is not None and before is not op.after:
                self.apart_ns += op.time_ns - op.again_ns
            before = op
            if op.second is not None and i not in self.second and self.sliced > (not op.backward):
                self.second.add(i)
                self.slower_ns += op.second.time_ns - op.time_ns
            second = i in self.second
            self.workspace[i] = self._rounded(self._workspace(op, second))
            for s in op.beside:
                began.setdefault(s.index, i)
                if number not in ran and self._can_place(op, s, second=second):
                    continue
                if number not in ran and self._copies_gradient(s) and self._can_copy(op, s):
                    self.copied.add((i, s))
                elif number not in ran:
                    beside.add(s)
                    continue
                self.passing.append((self._rounded(s.bytes), i, i))
            ran.setdefault(number, i)
        boundary = self.joint.boundary.index
        self.workspace[next(i for i, (k, n, _) in enumerate(steps) if k == lib.RUN and n == boundary)] = self.joint.outside
        self.placed, self.others = {}, []
        for size, first, last, tensor, _ in self.solution.lifetimes():
            if tensor is None or not size:
                continue
            s, size, last = storages[tensor], self._rounded(size), min(last, len(steps) - 1)
            kind, number, inplace = steps[first]
            if kind == lib.RUN and ops[number].kind == "results":
                if s in beside:
                    self.others.append((size, began[tensor], last))
                    if size > _heap.SMALL and self._can_copy(s.op, s):
                        self.large[s] = self.others[-1]
                else:
                    self.placed[began[tensor], s] = size, began[tensor], last
            elif kind == lib.RUN and ran.get(number) == first and is_handed(ops[number]):
                self.others.append((size, first, last))
            elif kind == lib.FETCH or kind == lib.RUN \
                    and self._can_place(ops[number], s, inplace, first in self.second):
                self.placed[first, s] = size, first, last
            elif kind == lib.RUN and self._can_copy(ops[number], s) and (
                    last - first > self._waits() or s in self.joint.handed_out and self._copies_gradient(s)):
                self.placed[first, s] = size, first, last
                self.copied.add((first, s))
                self.passing.append((size, first, first))
            else:
                self.others.append((size, first, last))
                if s in self.joint.handed_out and size > _heap.SMALL and self._can_copy(ops[number], s):
                    self.large[s] = self.others[-1]

    def _workspace(self, op, second):
        if second:
            return op.second.workspace
        return op.node.target.beside(op.workspace, self.joint.table) if is_kernel(op) else op.workspace

    def _copies_gradient(self, s):
        return self.copies > LARGE or self.copies == LARGE and s.bytes > _heap.SMALL or s in self._few

    def _waits(self):
        """The number of steps above which a tensor that is alive so long is copied."""
        return {ALL: 0, SOME: LONG}.get(self.copies, len(self.solution.steps))

    def _copy_ns(self, size):
        """About the time of a copy: the bytes are moved as fast as the fastest kernel of the step does."""
        if self._rate is None:
            rates = [sum(s.bytes for s in op.reads + op.outs) / op.time_ns for op in self.joint.ops
                     if op.kind == "node" and op.time_ns > LAUNCH and is_kernel(op)]
            self._rate = max(rates, default=1.0)
        return int(LAUNCH + 2 * size / self._rate)

    _rate = None

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

    def _choose(self):
        """What is in the arena, and what beside it."""
        beside = _profile(self.others + self.passing, len(self.workspace))
        beside = [live + workspace for live, workspace in zip(beside, self.workspace)]
        self.transient = max(self._taken())
        self._inside = self._filled(beside) if self._plain is None else self._filled_as(self._plain, beside)
        self.beside = max(self.beside_by_step)
        self._fullest = self._whole(max(_profile(self._inside.values(), len(self.workspace))))
        self.bound = self._fullest + self.beside

    def _whole(self, size):
        """The bytes of an arena of at least some size."""
        unit = SEGMENT if self.joint.device.type == "cuda" and size > SEGMENT else self.alignment
        return -(-size // unit) * unit

    def _lay(self):
        size, offsets = lib.lay_out(list(self._inside.values())) if self._inside else (0, [])
        self.bytes, self.where = self._whole(size), dict(zip(self._inside, offsets))
        self.packed = self.bytes == self._fullest  # no arena of these tensors is smaller

    def _filled(self, beside):
        """What is in the arena, given the bytes beside it by step, and also decide what libraries keep."""
        self.kept, self.cleared = self._kept_by_step(beside)
        size, inside, self.beside_by_step = self._fill([a + b for a, b in zip(beside, self.kept)])
        always, _ = self._kept_by_step(beside, clear=False)
        other, others, filled = self._fill(beside, max(always))
        if other < size:  # tensors take more room beside the arena than what libraries keep
            self.kept, self.cleared = always, set()
            inside, self.beside_by_step = others, [a + b for a, b in zip(filled, always)]
        return inside

    def _filled_as(self, plain, beside):
        """The same as in another layout, with copies besides."""
        self.kept, self.cleared = plain.kept, plain.cleared
        inside = {key: life for key, life in self.placed.items() if key in plain.where or key in self.copied}
        others = _profile([life for key, life in self.placed.items() if key not in inside], len(beside))
        self.beside_by_step = [sum(there) for there in zip(beside, others, self.kept)]
        return inside

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

    def _taken_by_allocator(self, few=()):
        """The bytes that the allocator takes from the device, gaps included: for the arena, then step by step for what
        libraries keep, for results beside the arena, in the order in which an op makes them, and for workspaces. Also
        returns how many of them are behind the arena, and how many for small tensors. `few` gradients are copied besides."""
        lives, steps = [], len(self.workspace)
        begin = 0
        for i in range(1, steps + 1):  # what is kept is one block until it is freed
            if i == steps or self.kept[i] != self.kept[begin]:
                lives += [(self.kept[begin], begin, i - 1)] if self.kept[begin] else []
                begin = i
        copied = {self.large[s] for s in few}
        lives += [life for life in self.others if life not in copied]
        lives += [life for key, life in self.placed.items() if key not in self.where] + self.passing
        lives += [(size, first, first) for size, first, _ in copied]
        lives += [(size, i, i) for i, size in enumerate(self.workspace) if size]
        return _heap.taken(self.bytes, lives, steps)

    def _with_gaps(self, taken, behind, small):
        """Given these: what must be allocated at most, what is reserved behind the arena, and of that as a small tensor, and
        what is beside the arena."""
        least = least_allocated(taken + self._lost)
        behind, small = self._reserved(least, behind, small)
        return least, behind, small, max(*self.beside_by_step, behind)

    def _reserved(self, least, behind, small):
        """The bytes that are reserved behind the arena so that the allocator takes little more than what is allocated at
        most, and those of them that are a small tensor: as many as that needs of those that it takes anyway."""
        arena = self.bytes if self.bytes > _heap.SMALL else 0
        there = _heap.whole_units(arena + behind) - arena
        wanted = max(behind, self._rounded(max(least - self.bytes, 0)))
        small = min(max(wanted - there, 0), small, _heap.SMALL)
        return min(wanted, there + small), small

    def closing(self, size):
        """A few large gradients whose copies close gaps, so that the layout fits into `size`; None if none are found. Gaps
        follow no rule, so many choices are tried; which fits is known from what the allocator takes then."""
        if self.without_gaps > size:
            return None
        inside = [self.placed[key] for key in self.where]
        for few in _choices(list(self.large)):
            least, *_, beside = self._with_gaps(*self._taken_by_allocator(few))
            if max(self.bytes + beside, least) <= size \
                    and max(_profile(inside + [self.large[s] for s in few], len(self.workspace))) <= self.bytes:
                return frozenset(few)
        return None

    def _taken(self):
        """What each step allocates beside the arena at least: its workspace, and results that it cannot place."""
        taken = list(self.workspace)
        for size, first, _ in self.others + self.passing:
            taken[first] += size
        return taken

    def _fill(self, beside, extra=0):
        """Where the arena is fullest, but the memory beside it is not, take tensors out of it, the largest first, as long as
        they fit beside it. Returns about what both need together, with `extra` bytes, what is in the arena then, and the
        bytes beside it by step."""
        inside, beside, most = dict(self.placed), list(beside), max(beside)
        live = _profile(inside.values(), len(beside))
        if self.copies == SOME:
            return max(live) + most + extra, inside, beside
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


def _choices(gradients):
    """Single ones, and a few drawn at random, the same in every process."""
    draw = random.Random(len(gradients))
    yield from ([one] for one in gradients)
    for count in (count for count in FEW if count < len(gradients)):
        yield from (draw.sample(gradients, count) for _ in range(FEW[count]))


def least_allocated(taken):
    """What must be allocated at most so that the allocator, which takes `taken` bytes, has not lost too much."""
    return taken - taken // (LOST + 1)


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

    def __init__(self, bound_ns):
        Exception.__init__(self, "no plan was found whose arena fits")
        self.status, self.bound_ns = lib.INFEASIBLE, bound_ns


class Laid:
    """A solution with a layout. Its peak is that of the arena with what is beside it."""

    def __init__(self, solution, layout):
        self.solution, self._layout = solution, layout
        self.live, self.bound = solution.peak, layout.bound
        self.time_ns = solution.time_ns + layout.slower_ns + layout.apart_ns

    @property
    def layout(self):
        self._layout.finish()
        return self._layout

    @property
    def peak(self):
        return self.layout.total

    @property
    def needs(self):
        """The smallest budget: the allocator may take a little more than that, for the step and for what was there."""
        return max(self.layout.total, self.layout.least)

    @property
    def least(self):
        """What it needs, or, where its addresses were not needed yet, a little less."""
        return self.bound if self._layout.total is None else self.needs

    def fits(self, size):
        return self.bound <= size and self.needs <= size

    def __getattr__(self, name):
        return getattr(self.solution, name)


class ArenaPlanner(Planner):
    """Its solutions have layouts."""

    def __init__(self, joint, options):
        super().__init__(joint, options)
        self._too_little = 0  # bytes, for which no plan is found without an arena either
        self._plans = {}  # without regard to arenas, by the memory that they were made for
        self._present, self._lost = self._there() if options.total else (0, 0)

    def _there(self):
        """What is allocated before the step, and what the allocator has taken for it besides, also for the few bytes that
        recording needs."""
        if self.joint.device.type != "cuda":
            return 0, 0
        torch.cuda.empty_cache()
        present, recorded = self.present_bytes(), _heap.UNITS[True] if self._recorded() else 0
        return present, torch.cuda.memory_reserved(self.joint.device) + recorded - present

    def _laid(self, solution, **options):
        """A solution with the layout that takes no more time, or with another one."""
        if isinstance(solution, Laid):
            return solution
        known, key = solution.__dict__.setdefault("laid", {}), tuple(options.items())
        if key not in known:
            lost = self._lost - self._present // LOST
            known[key] = Laid(solution, Layout(self.joint, solution, self.alignment, self.kept, lost, **options))
        return known[key]

    def _formed(self, solution, size, moves, options):
        """A solution in a form: with recomputations beside other kernels, all or those for which `size` bytes suffice, and
        with a layout's options."""
        if moves:
            solution = self._moved(solution, PLENTY if moves == ALL_MOVED else max(size, solution.peak))
        return self._laid(solution, **options)

    def _moved(self, solution, size):
        """A solution with recomputations beside other kernels: all if `size` bytes suffice, else those that need no more."""
        for most in (PLENTY, size):
            if most not in solution.moved:
                solution.moved[most] = _later.beside(self.joint, self.step, self.machine, solution, most)
            if solution.moved[most].peak <= size:
                break
        return solution.moved[most]

    def needs(self, solution):
        return self._laid(solution).needs

    def _wrap(self, solution, algorithm, budget, seconds):
        laid = self._laid(solution)
        plan = super()._wrap(laid, algorithm, budget, seconds)
        plan.layout = laid.layout
        return plan

    def _make_step(self):
        """What libraries keep counts where their ops run: it can be freed before others."""
        return self.joint.planner_step(self.alignment, self.kept, arena=True)

    def kept_by(self, solution):
        """What libraries keep is beside the arena, and counted there."""
        return self._recorded()

    def most_kept(self):
        return self._recorded()

    def smallest(self):
        """As Planner.smallest; but the smallest plan's arena may need more than the plan, and a little more memory for the
        plan may make a smaller one."""
        if self._tightest is None:
            try:
                self._tightest = self._smaller(self._solved(1), None)
            except lib.Failure as failure:
                self._only_infeasible(failure)
                self._tightest_op = failure.name
                self._tightest = self._smallest_from(failure.smallest_budget)
            self.table.save()  # what was tried for it: a process with this budget may have too little memory to try
        return self._tightest.needs, self._tightest_op

    def _smallest_from(self, least):
        """Of plans for the smallest possible budget and a little more the one that needs the least memory."""
        best, more = None, max(least // (4 * SLACK), self.alignment)
        for size in range(least, least + SMALLEST * more, more):
            if best is not None and (size >= best.needs or best.layout.packed):
                break  # more memory for the plan makes no smaller one
            best = self._smaller(self._solved(size), best)
        return best

    def _smaller(self, solution, best):
        """A solution with its smallest layout, or `best` if that needs less memory, or as much and less time."""
        for one in dict.fromkeys((self._moved(solution, solution.peak), solution)):
            for options in reversed(FORMS):
                laid = self._laid(one, **options)
                if best is None or (laid.bound, laid.time_ns) < (best.needs, best.time_ns):
                    best = min(best or laid, laid, key=lambda laid: (laid.needs, laid.time_ns))
        return best

    def _solved(self, size):
        """The plan for a size without regard to its arena, which is made once."""
        if size not in self._plans:
            try:
                self._plans[size] = super()._solve(size)
            except lib.Failure as failure:
                if failure.status == lib.INFEASIBLE:
                    self._too_little = max(self._too_little, failure.smallest_budget - 1)
                raise
        return self._plans[size]

    def _solve(self, size):
        """The fastest plan found whose arena and what is beside it fit into `size`. With more copies and slices, or fewer
        recomputations moved, a plan takes longer, but may need less memory, so that a faster one fits."""
        first, best = self._solved(size), None
        for options in FORMS:
            if best is not None and not _gains(self._formed(first, size, ALL_MOVED, options), best):
                break
            for moves in (ALL_MOVED, SOME_MOVED, NONE_MOVED):
                best = self._search(size, moves, options, best)
            if not options:
                best = self._close(size, best)
        if best is None:
            raise _TooTight(first.bound_ns)
        best.bound_ns = first.bound_ns  # of all plans that may be used
        return best

    def _close(self, size, best):
        """The first plan, for less and less memory, whose gaps a few copies close, or the best one."""
        target, slack = size, max(size // SLACK, self.alignment)
        for _ in range(CLOSES):
            try:
                solution = self._solved(target)
            except lib.Failure as failure:
                self._only_infeasible(failure)
                break
            laid = self._formed(solution, size, ALL_MOVED, {})
            if best is not None and not _gains(laid, best):
                break
            least = laid.bound if laid.bound > size else laid.layout.without_gaps
            few = laid.layout.closing(size) if least <= size else None
            if few is not None:
                laid = self._laid(laid.solution, few=few, plain=laid.layout)
                return laid if best is None or laid.time_ns < best.time_ns else best
            target = solution.peak - max(least - size, slack)
        return best

    def _search(self, size, moves, options, best):
        """The fastest plan found that fits in a form, or the `best` one so far. How much of the memory the plan itself may
        use is searched for, above what a refusal has named as too little, until little memory or time is left to gain."""
        low, high, target, slack, found = self._too_little, size, size, max(size // SLACK, self.alignment), False
        for _ in range(TRIES):
            try:
                solution = self._solved(target)
            except lib.Failure as failure:
                self._only_infeasible(failure)
                low = target = self._too_little
            else:
                laid = self._formed(solution, size, moves, options)
                if best is not None and not _gains(laid, best):  # nor do plans for less memory
                    return min(best, laid, key=lambda laid: laid.time_ns) if found and laid.fits(size) else best
                if laid.fits(size):
                    best, found, low = laid, True, target
                else:
                    high = min(target, solution.peak)
                target = (solution.peak - (laid.least - size)) // slack * slack  # so that forms share plans
            if found and min(high - low, size - best.needs) <= slack or high - low <= 1:
                break
            if not found and high - low <= slack:
                target = low + 1  # what fits nowhere else fits with the smallest plan
            elif not low < target < high:
                target = low + 1 if not found and low == self._too_little > 0 else (low + high) // 2
        return best


def _gains(laid, best):
    """Whether a plan is clearly faster than the best one."""
    return laid.time_ns < best.time_ns - best.time_ns // GAIN


# ---- the written graphs ----

def allocate(size, behind, small, device):
    """The arena, with memory behind it for what will be allocated beside it, of which `small` bytes are a small tensor.
    PyTorch's allocator, if it may take only so much, refuses to extend a free block unless there is room for all of it
    again; so it takes all of this at once."""
    blocks = [torch.empty(count, dtype=torch.uint8, device=device) for count in (size + behind - small, small) if behind]
    del blocks
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
            layout = self.plan.layout
            self._arena = self.graph.call_function(allocate, (layout.bytes, layout.behind, layout.small, self.device))
            self._arena.meta["val"] = self._fake_bytes(layout.bytes, self.device)
        return self._arena

    def _emit_inputs(self):
        super()._emit_inputs()
        if self.plan.layout.total:
            self._base()  # before anything is allocated beside it

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
        for s in op.outs + op.beside:
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
