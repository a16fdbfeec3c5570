"""Recomputations that wait for the kernel that can do them besides.

A plan computes a value again right before the first op that reads it. That is mostly the gradient of a weight, and comes
before the kernel that reads the same operands (_pairs.py):

    y again    dw = gradient(d, y)    dx = product(d, w)    r(dx, x)            y is made of x

Nothing waits for dw. Where memory permits it, both are moved:

    dx = product(d, w)    r(dx, x), y again    dw = gradient(d, y)

If r overwrites x, it overwrites dx instead, and y overwrites x: so this needs no more memory.
"""

from . import _library as lib

WINDOW = 96  # steps that a recomputation may be away from the kernel
TRIES = 3  # plans, each with fewer moves than the one before


class _Move:
    """Steps `moved`, the recomputation and what reads it, to after step `to`. `gone` are their steps and others that are
    left out, `changed` the new lines of steps; `ops` run meanwhile."""

    def __init__(self, moved, to, ops):
        self.moved, self.to, self.ops = moved, to, ops
        self.gone, self.changed = set(moved), {}


def beside(joint, step, machine, solution, size):
    """A solution with as many recomputations beside other kernels as `size` bytes permit; or the same."""
    moves = _moves(joint, solution.steps)
    for _ in range(TRIES):
        if not moves:
            break
        try:
            new = step.read(_reordered(solution.text(), len(solution.steps), moves), machine)
        except lib.Failure:
            break
        over = {number for at, (kind, number, _) in enumerate(new.steps) if kind == lib.RUN and new.step_bytes[at] > size}
        if not over and new.peak <= size:
            new.bound_ns = solution.bound_ns
            return new
        moves = [move for move in moves if move.ops.isdisjoint(over)]
    return solution


def _moves(joint, steps):
    found, ran, before, taken = [], set(), None, set()
    for at, (kind, number, _) in enumerate(steps):
        if kind != lib.RUN or joint.ops[number].kind != "node":
            continue
        op = joint.ops[number]
        if number in ran and op.again_ns is not None and before is not op.after:
            move = _move(joint, steps, at)
            if move is not None and taken.isdisjoint(move.gone | move.changed.keys()):
                taken |= move.gone | move.changed.keys()
                found.append(move)
        ran.add(number)
        before = op
    return found


def _move(joint, steps, begin):
    """The move of the recomputation in step `begin`, or None if something else than results reads it, or what the moved
    steps read is overwritten."""
    again = joint.ops[steps[begin][1]]
    moved, frees, ops, needed, overwritten = [begin], [], set(), set(again.reads + again.outs), set()
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
            moved += [i for i in frees if joint.storages[steps[i][1]] in needed]
            move = _Move(moved, at, ops)
            return move if needed.isdisjoint(overwritten) and _overwrites(joint, steps, again, move, needed) else None
        if at == begin or not set(again.outs).isdisjoint(op.reads):
            if inplace or at > begin and not (op.kind == "node" and joint.handed_out.issuperset(op.outs)):
                return None
            moved += [at] * (at > begin)
            needed.update(op.reads)
        else:
            overwritten.update(_over(op, permission) for permission in inplace)
    return None


def _over(op, permission):
    """The storage that a permission to work in place is about."""
    return op.reads[op.inplace[permission - 1][1]]


def _overwrites(joint, steps, again, move, needed):
    """Let the recomputation overwrite an operand that nothing reads afterwards, and the kernel another one, if it overwrites
    this; returns whether that is possible."""
    kernel, inplace = again.after, steps[move.to][2]
    freed = {}
    for at in range(move.to + 1, len(steps)):
        if steps[at][0] != lib.FREE:
            break
        freed[joint.storages[steps[at][1]]] = at
    lost = [storage for storage in (_over(kernel, permission) for permission in inplace) if storage in needed]
    if lost:
        made = kernel.inplace[inplace[0] - 1][2]
        other = next((n for n, (_, read, out) in enumerate(kernel.inplace, 1) if out == made and kernel.reads[read] in freed
                      and kernel.reads[read] not in needed), None)
        if len(inplace) > 1 or other is None:
            return False
        move.changed[move.to] = _line(kernel, other)
        move.gone.add(freed.pop(_over(kernel, other)))
    dead = lost or [storage for storage in again.reads if storage in freed]
    over = next((n for n in range(1, 1 + len(again.inplace)) if _over(again, n) in dead), None)
    if over is not None:
        move.changed[move.moved[0]] = _line(again, over)
        move.gone.update(freed[storage] for storage in (_over(again, over),) if storage in freed)
    return over is not None or not lost


def _line(op, permission):
    return f"run {op.name} inplace" + (f" {permission}" if permission > 1 else "")


def _reordered(text, count, moves):
    """The text of a plan of `count` steps with some of them moved."""
    lines = text.splitlines()
    head, steps = lines[:-count], lines[-count:]
    gone, after = set(), {}
    for move in moves:
        gone |= move.gone
        after[move.to] = move.moved
        for at, line in move.changed.items():
            steps[at] = line
    order = [i for at in range(count) for i in (*(() if at in gone else (at,)), *after.get(at, ()))]
    head[-1] = f"steps {len(order)}"
    return "\n".join(head + [steps[at] for at in order]) + "\n"
