"""How much memory PyTorch allocates in a while: the allocator's own count."""

import torch

from . import _torch


class Peak:
    """The most that is allocated from now on, above what is in use now. On a processor the allocator's events are
    recorded, so only one can count at a time; on a GPU its counter of the most is set back."""

    def __init__(self, device):
        self.device = device
        if device.type == "cuda":
            self._before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
        else:
            _torch.start_memory_events()

    def stop(self):
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
