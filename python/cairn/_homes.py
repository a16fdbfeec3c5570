"""Where a tensor that outlives the step is between steps: on the device, or at home on the host.

    host      [weight]----------------------------[weight]
    device         fetch [ copy, read ] free    fetch [ copy, updated ] home, free

The host's tensor is the one that the model or the optimiser holds between steps, so what they save and load is right at any
time. While a step is captured or runs, a parameter that is at home on the host stands for itself as a *shell*: a tensor of
the device without memory.
"""

import torch

from . import _moves
from . import _torch
from . import _updates
from ._errors import CairnError


def free_host_bytes():
    """What the host can still give, or None if it does not say."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def host_like(value):
    """An empty tensor on the host, pinned if `value` is on a GPU."""
    pin = value.is_cuda or (torch.cuda.is_available() and value.is_pinned())
    try:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, pin_memory=pin)
    except RuntimeError as error:
        size = value.untyped_storage().nbytes()
        raise CairnError(f"the driver refused {size} bytes of pinned host memory for one tensor: "
                         f"{str(error).splitlines()[0]}") from None


class OnHost:
    """The bytes of tensors are on the host in a block, in which nothing may read them."""

    def __init__(self, tensors):
        storages = {_torch.storage_key(t): t.untyped_storage() for t in tensors}
        self._sizes = {key: storage.nbytes() for key, storage in storages.items() if storage.nbytes()}
        self._storages = {key: storages[key] for key in self._sizes}

    def __enter__(self):
        self._hosts = {key: host_bytes(storage) for key, storage in self._storages.items()}
        for storage in self._storages.values():
            storage.resize_(0)
        return self

    def __exit__(self, *_):
        for key, host in self._hosts.items():
            self._storages[key].resize_(self._sizes[key])
            self._storages[key].copy_(host)

    def bytes_of(self, tensor):
        """Of a tensor's storage on the device, outside the block."""
        return self._sizes.get(_torch.storage_key(tensor), tensor.untyped_storage().nbytes())

    def bytes(self, unit):
        """Of all, each rounded up to a multiple of `unit`."""
        return sum(-(-size // unit) * unit for size in self._sizes.values())


def host_bytes(storage):
    """A copy of a storage on the host."""
    return torch.UntypedStorage(storage.nbytes()).copy_(storage)


class Place:
    """One parameter or slot. `at_home`: its home is the host."""

    def __init__(self, trainer, parameter, name):
        self.trainer, self.parameter, self.name = trainer, parameter, name
        self.at_home, self.host, self.shell, self.hidden = False, None, None, False
        self._out = self._in = None  # events of the latest copies

    # ---- between steps ----

    def get(self):
        """The tensor, or None if it was not made yet."""
        if self.name is None:
            return self.host if self.hidden else self.parameter.data
        if self.name == _updates.SUM:
            return self.trainer.sums.get(self.parameter)
        return self.trainer.optimizer.state.get(self.parameter, {}).get(self.name)

    def bytes(self):
        """Of a tensor that was not made yet: as large as its parameter."""
        return self.parameter.numel() * self.parameter.element_size()

    def set(self, value):
        if self.name is None:
            self.parameter.data = value
        elif self.name == _updates.SUM:
            self.trainer.sums[self.parameter] = value
        else:
            self.trainer.optimizer.state[self.parameter][self.name] = value

    def _is_host(self, value):
        return self.host is not None and value.data_ptr() == self.host.data_ptr()

    def settle(self, at_home, device):
        """Bring the tensor to its home: the user may have loaded another one, or the plan is another."""
        self.at_home = at_home
        value = self.get()
        if value is None:
            self.host = None
        elif at_home and not self._is_host(value):
            self.host = host_like(value).copy_(value)
            self.set(self.host)
        elif not at_home and (self._is_host(value) or value.device != device):
            self.set(torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device).copy_(value))
            self.host, self.hidden = None, False

    def hide(self, device):
        """Before a step: put the shell in place of a parameter on the host."""
        if self.at_home and self.name is None and not self.hidden:
            if self.shell is None:
                self.shell = torch.empty_strided(self.host.shape, self.host.stride(), dtype=self.host.dtype, device=device)
                self.shell.untyped_storage().resize_(0)
            self.parameter.data, self.hidden = self.shell, True

    def show(self):
        """After a step: the host's tensor again."""
        if self.hidden:
            self.parameter.data, self.hidden = self.host, False

    # ---- in a step ----

    def fetch(self, device):
        """Start copying the tensor to the device; None if it was not made yet."""
        if self.host is None:
            return None
        there = torch.empty_strided(self.host.shape, self.host.stride(), dtype=self.host.dtype, device=device)
        if not there.is_cuda:
            return there.copy_(self.host)
        lane = _moves.lanes_of(there.device).into
        lane.wait_stream(torch.cuda.current_stream(there.device))
        if self._out is not None:
            lane.wait_event(self._out)
        with torch.cuda.stream(lane):
            there.copy_(self.host, non_blocking=True)
            self._in = lane.record_event()
        return there

    def wait_in(self, value):
        if value is not None and value.is_cuda:
            torch.cuda.current_stream(value.device).wait_event(self._in)
        return value

    def leave(self, value):
        """Start copying the tensor home."""
        if self.host is None:
            self.host = host_like(value)
        if value.is_cuda:
            lane = _moves.lanes_of(value.device).out
            lane.wait_stream(torch.cuda.current_stream(value.device))
            with torch.cuda.stream(lane):
                self.host.copy_(value, non_blocking=True)
                self._out = lane.record_event()
        else:
            self.host.copy_(value)
        if self.name is not None:
            self.set(self.host)

    def wait_out(self, value):
        """Wait until the copy home has ended; then the device's tensor may be freed."""
        if value.is_cuda:
            torch.cuda.current_stream(value.device).wait_event(self._out)

    def arrived(self):
        """Wait on the host until the copy home has ended."""
        if self._out is not None:
            self._out.synchronize()
