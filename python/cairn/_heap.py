"""What PyTorch's allocator on a GPU takes from the device for a sequence of allocations.

It keeps what is freed, and gives it out again: the smallest free block that is large enough, at the lowest address. What is
left of the block stays free. So it may hold more than is in use, in gaps that nothing fits into. With expandable segments,
as modelled here, memory that it takes is behind what it has:

    |#### a ####|  free  |## b ##|  free, and more if need be ->
"""

import bisect

SMALL = 1 << 20  # tensors up to this size are in memory of their own
_UNITS = {True: 2 << 20, False: 20 << 20}  # it takes memory by so many bytes; for small ones and for others
_LEFT = {True: 512, False: SMALL + 1}  # the least that is split from a block


class _Pool:
    def __init__(self, small):
        self._unit, self._left = _UNITS[small], _LEFT[small]
        self._free = []  # (size, address), sorted
        self.end = 0

    def take(self, size):
        """The address and the bytes of a new block."""
        place = bisect.bisect_left(self._free, (size, 0))
        if place == len(self._free):
            self._grow(size)
            place = bisect.bisect_left(self._free, (size, 0))
        have, address = self._free.pop(place)
        if have - size < self._left:
            return address, have
        bisect.insort(self._free, (have - size, address + size))
        return address, size

    def _grow(self, size):
        last = next(((have, at) for have, at in self._free if at + have == self.end), (0, self.end))
        end = -(-(last[1] + size) // self._unit) * self._unit
        if last[0]:
            self._free.remove(last)
        bisect.insort(self._free, (end - last[1], last[1]))
        self.end = end

    def give_back(self, address, size):
        for have, at in [block for block in self._free if block[1] + block[0] == address or block[1] == address + size]:
            self._free.remove((have, at))
            address, size = min(address, at), size + have
        bisect.insort(self._free, (size, address))


def taken(first, lifetimes, steps):
    """The bytes that the allocator takes for a block of `first` bytes that stays, and then for `lifetimes`: (bytes, first
    step, last step), in the order in which they are allocated within a step."""
    pools, begin, end = {small: _Pool(small) for small in (True, False)}, {}, {}
    if first:
        pools[first <= SMALL].take(first)
    for size, born, last in lifetimes:
        begin.setdefault(born, []).append((size, last))
    for step in range(steps):
        for size, last in begin.get(step, ()):
            end.setdefault(last, []).append((size <= SMALL, *pools[size <= SMALL].take(size)))
        for small, address, size in end.pop(step, ()):
            pools[small].give_back(address, size)
    return sum(pool.end for pool in pools.values())
