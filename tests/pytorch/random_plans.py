"""Random legal plans: which tensors are dropped and how often they are recomputed is random.

They do not depend on the planner's lowering. So the code that writes plans back is tested with plans that no solver
makes."""

from cairn import _library as lib


def random_runs(joint, rng, drop):
    """Ops in the order in which they run: every op once, in its order. Before each op of the backward part, what it
    reads of the forward part is recomputed, with probability `drop` even if it is there."""
    present = {s for s in joint.storages if s.op is None}
    runs, again = [], 0

    def may_repeat(op):
        return op.kind == "node" and not op.flags & lib.NEVER_AGAIN

    def make(s, late, depth):
        """Make sure that `s` is there; the inputs of a recomputed op are made first."""
        nonlocal again
        redo = late and s.op is not None and not s.op.backward and may_repeat(s.op) and (
            s not in present or (depth < 6 and rng.random() < drop))
        if s in present and not redo:
            return
        for r in s.op.reads:
            make(r, late, depth + 1)
        runs.append(s.op)
        present.update(s.op.outs)
        again += 1
    for op in joint.ops:
        for s in op.reads:
            make(s, op.backward, 0)
        runs.append(op)
        present.update(op.outs)
    return runs, again


def plan_text(joint, step, runs, rng=None):
    """The runs as the text of a plan: tensors are freed after their last read. Nothing is in place, or, with `rng`, about
    half of what may be."""
    last, instance = {}, {}
    for place, op in enumerate(runs):
        for s in op.reads:
            if s in instance:
                last[instance[s]] = place
        for s in op.outs:
            instance[s] = (s, place)
            last[instance[s]] = place
    final = set(instance.values())
    lines, dying = [], {}
    for (s, born), place in last.items():
        if not (s.flags & lib.RESULT and (s, born) in final):
            dying.setdefault(place, []).append(s)
    for place, op in enumerate(runs):
        dead, line = dying.get(place, []), f"run {op.name}"
        used = []
        for number, (_, read, out) in enumerate(op.inplace, 1):
            if op.reads[read] in dead and rng is not None and rng.random() < 0.5 \
                    and (not used or op.flags & lib.TOGETHER and op.inplace[used[0] - 1][2] != out):
                used.append(number)
                dead.remove(op.reads[read])
            if len(used) == 2:
                break
        line += " inplace" * bool(used) + "".join(f" {number}" for number in used if used != [1])
        lines.append(line)
        lines += [f"free {s.name}" for s in sorted(dead, key=lambda s: s.index)]
    head = step.solve("none").text().splitlines()
    start = next(i for i, line in enumerate(head) if line.startswith("steps"))
    return "\n".join(head[:start] + [f"steps {len(lines)}"] + lines) + "\n"
