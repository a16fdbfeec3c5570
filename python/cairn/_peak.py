"""How much memory PyTorch allocates in a while: the allocator's own count."""

import atexit
import threading

import torch

from . import _torch

END = "cairn: end of a step"  # the name of a mark
_running: dict = {}  # the one that counts now, on a processor for each thread


def counter_of(device):
    """What can count one peak at a time: a GPU, or on a processor a thread."""
    return "cuda" if device.type == "cuda" else threading.get_ident()


def running(device):
    """Whether one counts on a device now, in this thread."""
    return counter_of(device) in _running


def busy(device):
    """Whether one counts that must not be cut short."""
    return running(device) and _running[counter_of(device)].is_wanted()


def inside_backward(device):
    """Whether a backward pass runs on a processor: PyTorch takes back what is started and stopped inside of one."""
    return device.type != "cuda" and _torch.runs_backward()


def _on_gpu(device):
    """What is allocated, and the most since that counter was set back."""
    count = torch.cuda.memory_stats_as_nested_dict(device)["allocated_bytes"]["all"]
    return count["current"], count["peak"]


def _cut(counter):
    """End the one that counts: another one begins."""
    if counter in _running:
        other = _running[counter]
        other.stop()
        other.cut = True


def _give_way():
    """The user's profiler starts in this thread, and PyTorch has only one at a time."""
    _cut(threading.get_ident())


@atexit.register
def _end():
    """PyTorch must not end while its events are recorded."""
    _cut(threading.get_ident())


class Peak:
    """The most that is allocated from now on, above what is in use now. On a processor the allocator's events are
    recorded, so only one can count at a time: a second one cuts the first one short. On a GPU the counter of the most is
    set back; not if only a peak above `limit` matters and the counter is below that. stop() may be called again, and says
    what the first call found; None if that is not more than the counter was at before. `is_wanted`
    says whether it must not be cut short at the moment."""

    def __init__(self, device, limit=None, is_wanted=lambda: True):
        self.is_wanted = is_wanted
        self.device, self._most, self.cut = device, 0, False  # until it counts there is nothing to stop
        self._counter = counter_of(device)
        _cut(self._counter)
        self._live = self._least = self._highest = 0
        self._marked, self._at_end = False, None
        if device.type == "cuda":
            self._least, self._highest = _on_gpu(device)
            if limit is None or self._highest - self._least > limit:
                torch.cuda.reset_peak_memory_stats(device)
                self._highest = 0
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

    def mark_end(self):
        """What comes later does not count, unless the end is marked again."""
        if not self._counting():
            return
        if self.device.type == "cuda":
            self._marked, self._at_end = True, self._above()
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
                self._most = self._at_end if self._marked else self._above()
        return self._most

    def _read(self, begins=False):
        """Follow the recorded events. `begins`: they are from before the step."""
        live, least, most, marked = self._live, self._least, self._most, None
        for events in _torch.stop_memory_events():
            for event in events:
                if event.kind() == "memory_alloc":
                    live += event.cpu_memory_usage()
                    if live > least + most:
                        most = live - least
                    elif begins and live < least:
                        least = live
                elif event.name() == END:
                    marked = most
        self._live, self._least, self._most = live, least, most if marked is None else marked


def peak_of(call, device):
    """The most that a call allocates."""
    peak = Peak(device)
    try:
        call()
    finally:
        most = peak.stop()
    return most
