"""Which groups that the rules merge are faster as one kernel, and which as two.

The rules of _groups.py merge what reads the same memory. That saves reading it again, but some kernels take longer than two:
with sums over slow dimensions, with concatenations, with many values at a time. So a step is divided twice:

    merged   all that the rules merge              dx, sums over rows          one kernel
    apart    without the last merge of a group     dx  |  sums over rows       two kernels

The kernels of both are compiled at the same time and measured, once per signature. A merged group is divided if its parts
are faster; these are then asked too. Memory is no price for that: what is no question stays a rule, groups that are small,
which a launch costs more than anything that they read, and values that exist in memory only if they are read by another
kernel; and no part may be faster because its ops run one by one and write down what a kernel computes inside. The outcome
depends on the costs alone, which are kept, and does not change in a process, so all plans of a step have the same bits.
"""

import math

from ._groups import SMALL, Group

GAIN = 0.95  # of the time of a merged kernel: parts that take more are not used


def grouped(divide, kernel_of, measure):
    """The groups of a graph. `divide` makes them, given pairs of sets of values that are to be made apart, `kernel_of` a
    group's kernel; `measure` sets the times of kernels, given all groups that are merged."""
    apart = []
    while True:
        merged = divide(apart)
        divided = _faster_apart(merged, divide, apart, kernel_of, measure)
        if not divided:
            return merged
        apart = apart + halves_of(divided)


def _faster_apart(merged, divide, apart, kernel_of, measure):
    """The groups of `merged` whose parts are faster."""
    asked = [unit for unit in merged.units if isinstance(unit, Group) and unit.halves]
    parts_of, questions = _by_value(divide(apart + halves_of(asked))) if asked else {}, {}
    for group in asked:
        parts = {parts_of[n]: True for n in group.made if n in parts_of}
        if len(parts) > 1 and all(part.made <= group.made for part in parts):
            questions[group] = kernel_of(group)[0], [kernel_of(part)[0] for part in parts]
    new = [kernels for kernels in questions.values() if kernels[0].divided is None]
    if new:
        measure(merged, list({kernel: True for one, parts in new for kernel in (one, *parts)}))
    for kernel, parts in new:
        kernel.divided = sum(map(_time, parts)) < GAIN * _time(kernel) < math.inf and not any(map(_writes_down, parts))
    return [group for group, (kernel, _) in questions.items() if kernel.divided]


def halves_of(groups):
    return [pair for group in groups for pair in group.halves]


def _by_value(grouping):
    return {n: unit for unit in grouping.units if isinstance(unit, Group) for n in unit.made}


def _time(kernel):
    return kernel.times.get(kernel.form.name, math.inf)


def _writes_down(kernel):
    """Whether a kernel needs much memory besides what it reads and makes."""
    largest = max((value.numel() * value.element_size() for value in kernel.given), default=0)
    return getattr(kernel.form, "inside", 0) * SMALL > largest
