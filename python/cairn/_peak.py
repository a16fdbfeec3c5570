"""How much memory PyTorch allocates in a while: the allocator's own count."""

import torch

from . import _torch


class Peak:
    """The most that is allocated from now on, above what is in use now. On a processor the allocator's events are
    recorded, so only one can count at a time: a second one cuts the first one short. On a GPU the counter of the most is
    set back. stop() may be called again, and says what the first call found."""
    running = None  # the one that counts now

    def __init__(self, device):
        self.device, self._most, self.cut = device, 0, False  # until it counts there is nothing to stop
        if Peak.running is not None:
            Peak.running.stop()
            Peak.running.cut, Peak.running = True, None
        if device.type == "cuda":
            self._before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
        else:
            _torch.start_memory_events()
        self._most, Peak.running = None, self

    def stop(self):
        if self._most is None:
            self._most, Peak.running = self._count(), None
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
