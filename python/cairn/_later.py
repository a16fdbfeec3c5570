"""Recomputations that wait for the kernel that can do them besides.

A plan computes a value again right before the first op that reads it. That is mostly the gradient of a weight, and comes
before the kernel that reads the same operands (_pairs.py):

    y again    dw = gradient(d, y)    dx = product(d, w)    r(dx, x)            y is made of x

Nothing waits for dw. Where memory permits it, both are moved:

    dx = product(d, w)    r(dx, x), y again    dw = gradient(d, y)

If r overwrites x, it overwrites dx instead, and y overwrites x: so this needs no more memory. The gradients of a gate, two
results, overwrite both operands of y. Then one of them overwrites dx, and the other one has memory of its own until y has
overwritten one operand and the other one is freed.
"""

from . import _library as lib

WINDOW = 96  # steps that a recomputation may be away from the kernel


class _Move:
    """Steps `moved`, the recomputation and what reads it, to after step `to`. `gone` are their steps and others that are
    left out, `changed` the new lines of steps, `freed` storages to free after the recomputation; `ops` run meanwhile."""

    def __init__(self, moved, to, ops):
        self.moved, self.to, self.ops = moved, to, ops
        self.gone, self.changed, self.freed = set(moved), {}, []

    def touched(self):
        return self.gone | self.changed.keys() | {self.to}


def beside(joint, step, machine, solution, size):
    """A solution with as many recomputations beside other kernels as `size` bytes permit, or as many bytes as the solution
    needs anyway; or the same."""
    moves = _moves(joint, solution.steps)
    while moves:
        try:
            new = step.read(_reordered(joint, solution.text(), len(solution.steps), moves), machine)
        except lib.Failure:
            break
        over = {number for at, (kind, number, _) in enumerate(new.steps) if kind == lib.RUN and new.step_bytes[at] > size}
        left = [move for move in moves if move.ops.isdisjoint(over)]
        if len(left) == len(moves):
            if new.peak > max(size, solution.peak):
                break
            new.bound_ns = solution.bound_ns
            return new
        moves = left
    return solution


def _moves(joint, steps):
    found, ran, before, taken = [], set(), None, set()
    for at, (kind, number, _) in enumerate(steps):
        if kind != lib.RUN or joint.ops[number].kind != "node":
            continue
        op = joint.ops[number]
        if number in ran and op.again_ns is not None and before is not op.after:
            move = _move(joint, steps, at)
            if move is not None and taken.isdisjoint(move.touched()):
                taken |= move.touched()
                found.append(move)
        ran.add(number)
        before = op
    return found


def _move(joint, steps, begin):
    """The move of the recomputation in step `begin`, or None if something else than results reads it, or what the moved
    steps read is overwritten."""
    again = joint.ops[steps[begin][1]]
    moved, frees, ops, results, overwritten = [begin], [], set(), [], set()
    for at in range(begin, min(begin + WINDOW, len(steps))):
        kind, number, inplace = steps[at]
        if kind == lib.FREE:
            frees.append(at)
            continue
        if kind != lib.RUN:
            return None
        op = joint.ops[number]
        ops.add(number)
        if op is again.after:
            read = {storage for result in results for storage in result.reads}
            needed = read.union(again.reads, again.outs)
            move = _Move(moved + [i for i in frees if joint.storages[steps[i][1]] in needed], at, ops)
            return move if needed.isdisjoint(overwritten) and _overwrites(joint, steps, again, move, read) else None
        if at == begin or not set(again.outs).isdisjoint(op.reads):
            if inplace or at > begin and not (op.kind == "node" and joint.handed_out.issuperset(op.outs)):
                return None
            if at > begin:
                moved.append(at)
                results.append(op)
        else:
            overwritten.update(_over(op, permission) for permission in inplace)
    return None


def _over(op, permission):
    """The storage that a permission to work in place is about."""
    return op.reads[op.inplace[permission - 1][1]]


def _overwrites(joint, steps, again, move, read):
    """Let the kernel overwrite nothing that the recomputation reads, but what nothing reads afterwards, if it can; and the
    recomputation one of the operands for which that was the last reader. The others are freed. Returns whether all this is
    possible: `read`, by steps that follow, must stay."""
    kernel, inplace = again.after, steps[move.to][2]
    freed, kept, lost = {}, [], []
    for at in range(move.to + 1, len(steps)):
        if steps[at][0] != lib.FREE:
            break
        freed[joint.storages[steps[at][1]]] = at
    for permission in inplace:
        (lost if _over(kernel, permission) in again.reads else kept).append(permission)
    dead = {_over(kernel, permission) for permission in lost}
    if not read.isdisjoint(dead.union(_over(kernel, permission) for permission in kept)):
        return False
    for made in [kernel.inplace[permission - 1][2] for permission in lost]:
        other = next((n for n, (_, place, out) in enumerate(kernel.inplace, 1) if out == made
                      and kernel.reads[place] in freed and kernel.reads[place] not in read.union(again.reads)), None)
        if other is not None and (kernel.flags & lib.TOGETHER or not kept):
            kept.append(other)
            move.gone.add(freed.pop(_over(kernel, other)))
    if lost:
        move.changed[move.to] = _line(kernel, *sorted(kept))
    over = next((n for n in range(1, 1 + len(again.inplace)) if _over(again, n) in dead.union(freed) - read), None)
    if over is not None:
        move.changed[move.moved[0]] = _line(again, over)
        dead.discard(_over(again, over))
        move.gone.update(freed[storage] for storage in (_over(again, over),) if storage in freed)
    move.freed = [storage for storage in again.reads if storage in dead]
    return True


def _line(op, *permissions):
    words = ["run", op.name, *["inplace"][:len(permissions)], *map(str, permissions if permissions != (1,) else ())]
    return " ".join(words)


def _reordered(joint, text, count, moves):
    """The text of a plan of `count` steps with some of them moved."""
    lines = text.splitlines()
    head, steps = lines[:-count], lines[-count:]
    gone, after = set(), {}
    for move in moves:
        gone |= move.gone
        for at, line in move.changed.items():
            steps[at] = line
        first, *others = (steps[at] for at in move.moved)
        after[move.to] = [first, *(f"free {storage.name}" for storage in move.freed), *others]
    new = [line for at in range(count) for line in (*(() if at in gone else (steps[at],)), *after.get(at, ()))]
    head[-1] = f"steps {len(new)}"
    return "\n".join(head + new) + "\n"
