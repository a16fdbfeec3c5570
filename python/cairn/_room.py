"""What the rest of a step needs beside its graphs, place by place.

A step of several graphs runs like this; the backward parts mirror the forward parts:

    | call 0 | gap | call 1 | gap | ... | call n | gap | call n | ... | gap | call 1 | gap | call 0 |

While a call runs, what lies outside of it stays what it was when the call began (`within`). In a gap the calls hold what
they saved, calls that are through have left their gradients, and all else is outside (`between`, noted for the last call
that holds something). One number for the whole step would not do: it is measured at the peak of the plans that are in use,
and other plans have their peak in another place, where more may lie outside.
"""

FORWARD, FORWARD_END, BACKWARD, BACKWARD_END = range(4)  # what begins or ends at a moment


class Room:
    """Bytes by the number of a call's variant and how often that has run before in the step. `alone`: where no call holds
    anything. `rest`: of a peak whose place is not known."""

    def __init__(self):
        self.within, self.between, self.alone, self.rest = {}, {}, 0, 0

    def of(self, key):
        """What is outside while a call runs, and in the gap behind it; for a call that was not seen yet the most of any."""
        return tuple(known.get(key, max(known.values(), default=0)) + self.rest for known in (self.within, self.between))

    def take(self, other, share=0):
        """Raise every number to that of another room, and 1/share of it more."""
        for mine, theirs in ((self.within, other.within), (self.between, other.between)):
            for key, value in theirs.items():
                mine[key] = max(mine.get(key, 0), _more(value, share))
        self.alone = max(self.alone, other.alone)
        self.rest = max(self.rest, _more(other.rest, share))

    def is_below(self, other, share):
        """Whether a number is so near to that of another room that 1/share more of it would exceed it."""
        return self.rest < _more(other.rest, share) or any(
            mine.get(key, 0) < _more(value, share) for mine, theirs in
            ((self.within, other.within), (self.between, other.between)) for key, value in theirs.items())

    def learn(self, keys, ways, moments):
        """Take in what was measured in a step. `moments`: (what begins or ends, number of the call, bytes then, most bytes
        since the moment before or None); the last one is the end of the step and has no call."""
        held, running = [], False
        later = left_by_later([[way] for way in ways])
        for kind, number, live, most in moments:
            saved = sum(ways[i][1] for i in held)
            if not running and most is not None and held:
                self._note(self.between, keys[held[-1]], most - saved - later[held[-1]])
            elif not running and most is not None:
                self.alone = max(self.alone, most)
            if number is None:
                continue
            running = kind in (FORWARD, BACKWARD)
            if kind == FORWARD:
                self._note(self.within, keys[number], live - saved - later[number])
            elif kind == FORWARD_END:
                held.append(number)
            elif kind == BACKWARD:
                self._note(self.within, keys[number], live - saved - later[number] - ways[number][4])
            elif number in held:
                held.remove(number)

    @staticmethod
    def _note(known, key, size):
        known[key] = max(known.get(key, 0), size)


def _more(size, share):
    return size + size // share if share else size


def keys_of(numbers):
    """The keys of calls, given the numbers of their variants."""
    seen: dict = {}
    keys = []
    for number in numbers:
        keys.append((number, seen.get(number, 0)))
        seen[number] = seen.get(number, 0) + 1
    return keys


def left_by_later(ways):
    """For each call, the gradients that later calls have left when its backward part runs."""
    after, total = [], 0
    for way in reversed(ways):
        after.insert(0, total)
        total += way[0][3]
    return after


def demands(way, after, beside):
    """The most that is in use because of one call, above what earlier calls hold: while it runs, and in the gaps behind it.
    `beside`: Room.of()."""
    return after + max(way[0] + beside[0], way[1] + beside[1])


def needed(ways, besides=None, alone=0):
    """The memory that calls need one after the other, with what is outside of each."""
    later, held, most = left_by_later([[way] for way in ways]), 0, alone
    for way, after, beside in zip(ways, later, besides or [(0, 0)] * len(ways)):
        most = max(most, held + demands(way, after, beside))
        held += way[1]
    return most
