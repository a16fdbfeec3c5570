"""How much memory PyTorch allocates in a while: the allocator's own count."""

import threading

import torch

from . import _torch

_running: dict = {}  # the one that counts now, on a processor for each thread


def _counter_of(device):
    """On a processor the events of one thread are recorded."""
    return "cuda" if device.type == "cuda" else threading.get_ident()


def running(device):
    """Whether one counts on a device now, in this thread."""
    return _counter_of(device) in _running


class Peak:
    """The most that is allocated from now on, above what is in use now. On a processor the allocator's events are
    recorded, so only one can count at a time: a second one cuts the first one short. On a GPU the counter of the most is
    set back. stop() may be called again, and says what the first call found."""

    def __init__(self, device):
        self.device, self._most, self.cut = device, 0, False  # until it counts there is nothing to stop
        self._counter = _counter_of(device)
        if self._counter in _running:
            other = _running[self._counter]
            other.stop()
            other.cut = True
        if device.type == "cuda":
            self._before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
        else:
            _torch.start_memory_events()
        self._most, _running[self._counter] = None, self

    def stop(self):
        if self._most is None:
            del _running[self._counter]
            self._most = self._count()
        return self._most

    def _count(self):
        if self.device.type == "cuda":  # it counts when an op is queued, not when it runs
            return torch.cuda.max_memory_allocated(self.device) - self._before
        live = most = 0
        for events in _torch.stop_memory_events():
            for event in events:
                if event.kind() == "memory_alloc":
                    live += event.cpu_memory_usage()
                    most = max(most, live)
        return most


def peak_of(call, device):
    """The most that a call allocates."""
    peak = Peak(device)
    try:
        call()
    finally:
        most = peak.stop()
    return most
