"""What PyTorch's allocator on a GPU takes from the device for a sequence of allocations.

It keeps what is freed, and gives it out again: the smallest free block that is large enough, at the lowest address, but the
last block only if no other is. What is left of the block stays free. So it may hold more than is in use, in gaps that
nothing fits into. With expandable segments, as modelled here, memory that it takes is behind what it has:

    |#### a ####|  free  |## b ##|  free, and more if need be ->
"""

import bisect

SMALL = 1 << 20  # tensors up to this size are in memory of their own
UNITS = {True: 2 << 20, False: 20 << 20}  # it takes memory by so many bytes; for small ones and for others


def whole_units(size):
    """What the allocator has taken of memory for large tensors that reaches up to an address."""
    return -(-size // UNITS[False]) * UNITS[False]


class _Pool:
    def __init__(self, small):
        self._unit = UNITS[small]
        self._free = []  # (size, address), sorted
        self._end = self.most = 0  # all addresses are below that

    def take(self, size):
        """The address of a new block."""
        place = bisect.bisect_left(self._free, (size, 0))
        if place + 1 < len(self._free) and sum(self._free[place]) == self._end:
            place += 1
        have, address = self._free.pop(place) if place < len(self._free) else self._grown(size)
        if have > size:
            bisect.insort(self._free, (have - size, address + size))
        self.most = max(self.most, address + size)
        return address

    def _grown(self, size):
        """The last block, with more memory."""
        have, address = next((block for block in self._free if sum(block) == self._end), (0, self._end))
        if have:
            self._free.remove((have, address))
        self._end = -(-(address + size) // self._unit) * self._unit
        return self._end - address, address

    def taken(self):
        return self._end

    def give_back(self, address, size):
        for have, at in [block for block in self._free if block[1] + block[0] == address or block[1] == address + size]:
            self._free.remove((have, at))
            address, size = min(address, at), size + have
        bisect.insort(self._free, (size, address))


def taken(first, lifetimes, steps):
    """The bytes that the allocator takes for a block of `first` bytes that stays, and then for `lifetimes`: (bytes, first
    step, last step), in the order in which they are allocated within a step. Also returns how many bytes behind that block
    are used, of memory for large tensors."""
    pools, begin, end = {small: _Pool(small) for small in (True, False)}, {}, {}
    if first:
        pools[first <= SMALL].take(first)
    begun = pools[False].most
    for size, born, last in lifetimes:
        begin.setdefault(born, []).append((size, last))
    for step in range(steps):
        for size, last in begin.get(step, ()):
            pool = pools[size <= SMALL]
            end.setdefault(last, []).append((pool, pool.take(size), size))
        for pool, address, size in end.pop(step, ()):
            pool.give_back(address, size)
    return sum(pool.taken() for pool in pools.values()), pools[False].most - begun, pools[True].taken()
