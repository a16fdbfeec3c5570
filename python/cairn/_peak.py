"""How much memory PyTorch allocates in a while: the allocator's own count."""

import atexit
import threading

import torch

from . import _torch

END, MOMENT = "cairn: end of a step", "cairn: moment"  # names of marks
_running: dict = {}  # the one that counts now, on a processor for each thread


def counter_of(device):
    """What can count one peak at a time: a GPU, or on a processor a thread."""
    return "cuda" if device.type == "cuda" else threading.get_ident()


def running(device):
    """Whether one counts on a device now, in this thread."""
    return counter_of(device) in _running


def busy(device):
    """Whether one counts that must not be interrupted."""
    return running(device) and _running[counter_of(device)].is_wanted()


def inside_backward(device):
    """Whether a backward pass runs on a processor: PyTorch takes back what is started and stopped inside of one."""
    return device.type != "cuda" and _torch.runs_backward()


def _on_gpu(device):
    """What is allocated, and the most since that counter was set back."""
    count = torch.cuda.memory_stats_as_nested_dict(device)["allocated_bytes"]["all"]
    return count["current"], count["peak"]


def _interrupt(counter):
    """End the one that counts: another one begins."""
    if counter in _running:
        other = _running[counter]
        other.stop()
        other.interrupted = True


def _give_way():
    """The user's profiler starts in this thread, and PyTorch has only one at a time."""
    _interrupt(threading.get_ident())


@atexit.register
def _end():
    """PyTorch must not end while its events are recorded."""
    _interrupt(threading.get_ident())


class Peak:
    """The most that is allocated from now on, above what is in use now. On a processor the allocator's events are
    recorded, so only one can count at a time: a second one interrupts the first one. On a GPU the counter of the most is
    set back; not if only a peak above `limit` matters and the counter is below that. stop() may be called again, and says
    what the first call found; None if that is not more than the counter was at before. `is_wanted`
    says whether it must not be interrupted at the moment."""

    def __init__(self, device, limit=None, is_wanted=lambda: True):
        self.is_wanted = is_wanted
        self.device, self._most, self.interrupted = device, 0, False  # until it counts there is nothing to stop
        self._counter = counter_of(device)
        _interrupt(self._counter)
        self._live = self._least = self._highest = 0
        self._marked, self._at_end = False, None
        self._moments, self._high = [], 0  # bytes in use then, and the most since the moment before
        if device.type == "cuda":
            self._least, self._highest = _on_gpu(device)
            if limit is None or self._highest - self._least > limit:
                torch.cuda.reset_peak_memory_stats(device)
                self._highest = 0
            self._high = self._highest
        else:
            _torch.start_memory_events(_give_way)
        _running[self._counter] = self

    def begin_step(self):
        """What was freed until now, gradients for example, was freed before the step: it counts above the least that was
        in use."""
        if not self._counting() or inside_backward(self.device):
            return
        if self.device.type == "cuda":
            self._least = min(self._least, _on_gpu(self.device)[0])
        else:
            self._read(begins=True)
            _torch.start_memory_events(_give_way)

    def note(self):
        """Note a moment, for moments()."""
        if not self._counting():
            return
        if self.device.type == "cuda":
            self._moments.append(self._moment())
        else:
            _torch.mark_memory_events(MOMENT)

    def _moment(self):
        """On a GPU, bytes in use now, and the most since the moment before."""
        live, highest = _on_gpu(self.device)
        before, self._high = self._high, highest
        return live - self._least, highest - self._least if highest > before else None

    def moments(self):
        """After stop(): for every moment that was noted, and for the end, the bytes in use and the most since the moment
        before; None if there was more before that moment, on a GPU."""
        return self._moments

    def mark_end(self):
        """What comes later does not count, unless the end is marked again."""
        if not self._counting():
            return
        if self.device.type == "cuda":
            self._marked, self._at_end = True, (self._above(), self._moment())
        else:
            _torch.mark_memory_events(END)

    def _above(self):
        """On a GPU, the most so far; None if the counter was there before. It counts when an op is queued, not when it
        runs."""
        highest = _on_gpu(self.device)[1]
        return highest - self._least if highest > self._highest else None

    def _counting(self):
        return _running.get(self._counter) is self

    def stop(self):
        if self._counting():
            del _running[self._counter]
            if self.device.type != "cuda":
                self._read()
            else:
                self._most, last = self._at_end if self._marked else (self._above(), self._moment())
                self._moments.append(last)
        return self._most

    def _read(self, begins=False):
        """Follow the recorded events. `begins`: they are from before the step."""
        live, least, most, high = self._live, self._least, self._most, self._high
        marked = at_end = None
        for events in _torch.stop_memory_events():
            for event in events:
                if event.kind() == "memory_alloc":
                    live += event.cpu_memory_usage()
                    high = max(high, live)
                    if live > least + most:
                        most = live - least
                    elif begins and live < least:
                        least = live
                elif event.name() == END:
                    marked, at_end = most, (live - least, high - least)
                elif event.name() == MOMENT:
                    self._moments.append((live - least, high - least if self._moments else most))
                    high = live
        if not begins:
            self._moments.append(at_end or (live - least, high - least))
        self._live, self._least, self._most, self._high = live, least, most if marked is None else marked, high


def peak_of(call, device):
    """The most that a call allocates."""
    peak = Peak(device)
    try:
        call()
    finally:
        most = peak.stop()
    return most
