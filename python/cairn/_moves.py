"""Functions that the written graphs call besides ATen: random states, copies to the host, and counting live bytes."""

import torch

from . import _torch

# ---- random numbers ----


def save_rng(device):
    """The random state that the next op uses."""
    return torch.get_rng_state() if device == "cpu" else torch.cuda.get_rng_state(device)


def hold(state):
    """Keeps a state alive until its op has run, as in the plan."""


def run_with_rng(state, device, target, /, *arguments, **keywords):
    """Recompute an op with the same random numbers."""
    if device == "cpu":
        now = torch.get_rng_state()
        torch.set_rng_state(state)
        result = target(*arguments, **keywords)
        torch.set_rng_state(now)
        return result
    now = torch.cuda.get_rng_state(device)
    torch.cuda.set_rng_state(state, device)
    result = target(*arguments, **keywords)
    torch.cuda.set_rng_state(now, device)
    return result


# ---- inputs that change ----

def update(inputs, values):
    """Copy new values into inputs: those of one type at once."""
    for kind in dict.fromkeys(value.dtype for value in values):
        chosen = [(a, b) for a, b in zip(inputs, values) if b.dtype == kind]
        _torch.copy_all(*map(list, zip(*chosen)))


# ---- copies: one stream out, one in ----

class _Lanes:
    """The streams of one device, and the latest copy out. Copies of a stream end in order, so waiting for the latest
    one waits for all before it."""

    def __init__(self, device):
        self.out, self.into = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.out_done = {}
        self.in_done = {}


_lanes: dict[torch.device, _Lanes] = {}
_kept = None  # while a step is recorded: numbers of storages, and their permanent places on the host


class keep_hosts:
    """For warming up and recording a step: copies go to the same places on the host every time, as a CUDA graph
    requires, and they are allocated only once. The places live as long as `places`."""

    def __init__(self, places):
        self.places = places

    def __enter__(self):
        global _kept
        self.before, _kept = _kept, self.places

    def __exit__(self, *_):
        global _kept
        _kept = self.before


def _host_like(x, number):
    key = (number, tuple(x.shape), x.stride(), x.dtype)
    if _kept is not None and key in _kept:
        return _kept[key]
    host = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, pin_memory=True)
    if _kept is not None:
        _kept[key] = host
    return host


def lanes_of(device):
    if device not in _lanes:
        _lanes[device] = _Lanes(device)
    return _lanes[device]


def _copy(x):
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)


def offload(x, number):
    """Start copying a storage to the host. If host and device share one memory, a plain copy simulates it."""
    if x.device.type != "cuda":
        return _copy(x)
    lanes = lanes_of(x.device)
    host = _host_like(x, number)
    lanes.out.wait_stream(torch.cuda.current_stream(x.device))
    with torch.cuda.stream(lanes.out):
        host.copy_(x, non_blocking=True)
        lanes.out_done[number] = lanes.out.record_event()
    return host


def wait_out(host, x, number):
    """Wait until the copy out has ended; then the storage may be freed."""
    if x.device.type == "cuda":
        torch.cuda.current_stream(x.device).wait_event(lanes_of(x.device).out_done[number])


def fetch(host, device, number, where=None):
    """Start copying a storage back, to `where` if that is given. One that is not pinned was on the host all along."""
    if where is None:
        where = torch.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=device)
    if not where.is_cuda or not host.is_pinned():
        return where.copy_(host)
    lanes = lanes_of(where.device)
    lanes.into.wait_stream(torch.cuda.current_stream(where.device))
    lanes.into.wait_event(lanes.out_done[number])
    with torch.cuda.stream(lanes.into):
        where.copy_(host, non_blocking=True)
        lanes.in_done[number] = lanes.into.record_event()
    return where


def wait_in(x, number):
    """Wait until the copy back has ended."""
    if x.device.type == "cuda":
        torch.cuda.current_stream(x.device).wait_event(lanes_of(x.device).in_done[number])
    return x


# ---- counting ----

class Meter:
    """Compares the bytes of live storages with the prediction while the written graphs run. Only for checks: after
    every op it tests every storage."""

    def __init__(self, device_type, alignment):
        self.device_type, self.alignment = device_type, alignment
        self.known, self.live = set(), []
        self.peak = self.checked = 0
        self.differences = []

    def begin(self, given):
        """A forward part starts. Its inputs and what is left of the step before are not counted."""
        self.known = {key for key in (self._key(t) for t in given)}
        self.live = []

    @staticmethod
    def _key(tensor):
        return _torch.storage_key(tensor)

    def note(self, values):
        """Add tensors that were made or fetched."""
        self.live = [entry for entry in self.live if not entry[0].expired()]
        present = {entry[2] for entry in self.live}
        for value in values:
            if not isinstance(value, torch.Tensor) or value.device.type != self.device_type:
                continue
            key = self._key(value)
            if key in self.known or key in present:
                continue
            size = value.untyped_storage().nbytes()
            rounded = -(-size // self.alignment) * self.alignment
            self.live.append((_torch.StorageWeakRef(value.untyped_storage()), rounded, key))
            present.add(key)

    def compare(self, name, predicted):
        """After an op, before anything is freed."""
        bytes_now = sum(entry[1] for entry in self.live if not entry[0].expired())
        self.peak = max(self.peak, bytes_now)
        self.checked += 1
        if bytes_now != predicted:
            self.differences.append((name, predicted, bytes_now))
