"""Which groups that the rules merge are faster as one kernel, and which as several.

The rules of _groups.py merge what reads the same memory. Where one kernel then makes sums over slow dimensions and something
else, it may take longer than two. So such a step is divided twice:

    merged   all that the rules merge             dx, sums over rows          one kernel
    apart    without the merges in question       dx  |  sums over rows       two kernels

The kernels of both are compiled at the same time and measured, once per signature. A merged group is divided if its parts
are faster. Then the graph is divided for the last time. The outcome depends on the costs alone, which are kept, and does not
change in a process, so all plans of a step have the same bits.
"""

import math

from ._groups import Group

GAIN = 0.95  # of the time of a merged kernel: parts that take more are not used


def grouped(divide, kernel_of, measure):
    """The groups of a graph. `divide` makes them, given values that are to be made apart, `kernel_of` a group's kernel;
    `measure` sets the times of kernels, given all groups that are merged."""
    merged = divide(frozenset())
    asked = [unit for unit in merged.units if isinstance(unit, Group) and unit.asked]
    if not asked:
        return merged
    apart, questions = _by_value(divide(_made(asked))), {}
    for group in asked:
        parts = {apart[n]: True for n in group.made if n in apart}
        if len(parts) > 1 and all(part.made <= group.made for part in parts):
            questions[group] = kernel_of(group)[0], [kernel_of(part)[0] for part in parts]
    new = [kernels for kernels in questions.values() if kernels[0].divided is None]
    if new:
        measure(merged, list({kernel: True for one, parts in new for kernel in (one, *parts)}))
    for kernel, parts in new:
        kernel.divided = sum(map(_time, parts)) < GAIN * _time(kernel) < math.inf
    divided = [group for group, (kernel, _) in questions.items() if kernel.divided]
    return divide(_made(divided)) if divided else merged


def _made(groups):
    return frozenset(n for group in groups for n in group.made)


def _by_value(grouping):
    return {n: unit for unit in grouping.units if isinstance(unit, Group) for n in unit.made}


def _time(kernel):
    return kernel.times.get(kernel.form.name, math.inf)
