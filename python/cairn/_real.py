"""Real tensors in the middle of a capture.

What is measured or tried in the first call must stay inside the budget, and a budget does not count what the caller holds:
parameters, buffers and inputs. So where an op reads one of these, the caller's own tensor is its operand (`lending`); all
else is made for the op. What a trial overwrites is always made for it. Results of two runs are compared by digests, so
that they need not exist at the same time.
"""

import contextlib
import gc

import torch

from . import _torch


@contextlib.contextmanager
def real_tensors():
    """Ops run for real: no fake tensors, no gradients, and no decompositions. Without the last of these cuDNN's batch norm
    would be PyTorch's own."""
    with _torch.disable_current_modes(), _torch.DisablePythonDispatcher(), torch.no_grad():
        yield


@contextlib.contextmanager
def no_collections():
    """Python's garbage is not collected in the block: with a graph around it that takes long, and would be measured."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


DRAWN = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_BITS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
_UNSIGNED = {torch.uint64: torch.int64, torch.uint32: torch.int32, torch.uint16: torch.int16}


_lent: dict = {}  # by the storage of a fake tensor: that tensor, and the real storage of the caller
_sparing = True  # whether trials must stay inside a budget


@contextlib.contextmanager
def lending(pairs, sparing=True):
    """In the block, operands that are the first of a pair, a fake tensor, or views of it, are the second, a real one.
    Nothing is lent whose memory is not there, or not laid out in the same way. `sparing`: there is a budget to keep."""
    global _lent, _sparing
    before, _lent, _sparing = (_lent, _sparing), {}, sparing
    try:
        for fake, real in pairs:
            if _is_alike(fake, real):
                _lent[_torch.storage_key(fake)] = fake, real.untyped_storage()
        yield
    finally:
        _lent, _sparing = before


def _is_alike(fake, real):
    return (type(real) in (torch.Tensor, torch.nn.Parameter) and isinstance(fake, torch.Tensor)
            and real.layout is torch.strided and (real.device, real.dtype) == (fake.device, fake.dtype)
            and (real.shape, real.stride()) == (fake.shape, fake.stride())
            and real.storage_offset() == fake.storage_offset()
            and real.untyped_storage().nbytes() == fake.untyped_storage().nbytes() > 0)


class Shared:
    """Storages of operands that only read: those that are lent, and one for all values of one storage."""

    def __init__(self, lends=True, wide=None):
        self._made, self._lends, self._wide = {}, lends, wide

    def flat(self, value):
        """All elements of the storage for a fake tensor."""
        key = _torch.storage_key(value), value.dtype
        if key not in self._made:
            _, storage = _lent.get(key[0], (None, None)) if self._lends else (None, None)
            self._made[key] = _flat_like(value, self._wide) if storage is None else torch.empty(
                0, dtype=value.dtype, device=value.device).set_(storage, 0, (storage.nbytes() // value.element_size(),))
        return self._made[key]


def given_like(values, overwritten=(), wide=None):
    """Operands like values; those at the places `overwritten` are no other's. `wide`: see _flat_like()."""
    shared = Shared(wide=wide)
    return [random_like(value, storages=Shared(False, wide) if place in overwritten else shared)
            for place, value in enumerate(values)]


def made_bytes(values):
    """What given_like() allocates for values."""
    return sum({_torch.storage_key(value): value.untyped_storage().nbytes() for value in values
                if _torch.storage_key(value) not in _lent}.values())


def outcomes(device, make, *calls):
    """What each call makes of equal operands, as digests. They are made for one call after the other, and freed before its
    results are read, so that a trial needs no more memory than the op that is tried."""
    state, found = _random_state(device), []
    for call in calls:
        _set_random_state(device, state)
        results = call(make())
        found.append([digest(result) for result in results])
        del results
    return found


def agree(device, values, overwritten, largest, *calls):
    """Whether all calls make the same of operands like `values`. First the operands are numbers from 0 to 1, which every op
    takes. A relu, a clamp or a mask of zeros does not change these: nobody would see that an operand is read after it was
    overwritten. So the second operands have both signs and many sizes, and integers up to `largest`."""
    for wide in (None, largest):
        first, *others = outcomes(device, lambda: given_like(values, overwritten, wide), *calls)
        if any(other != first for other in others):
            return False
    return True


def _random_state(device):
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device, state):
    torch.cuda.set_rng_state(state, device) if device.type == "cuda" else torch.set_rng_state(state)


def digest(tensor):
    """Shape, strides, type and a number that is the same for equal elements, and in all likelihood for no others. Both zeros
    are equal, and so is all that is not a number. It waits for the device only once."""
    found = tensor.detach()
    if not found.is_contiguous():
        found = found.permute(sorted(range(found.dim()), key=lambda d: (-found.stride(d), -found.shape[d])))
    found = (torch.view_as_real(found) if found.is_complex() else found).reshape(-1)
    size = min(_chunk(found), found.numel())
    places = torch.arange(size, device=found.device).mul_(2).add_(1).mul_(-7046029254386353131)
    number = torch.zeros((), dtype=torch.int64, device=found.device)
    for chunk in found.split(max(size, 1)):
        bits = _bits(chunk)
        bits ^= bits >> 29
        bits *= places[:len(bits)]
        bits ^= bits >> 32
        number.mul_(6364136223846793005).add_(bits.sum())
    return int(number), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _chunk(flat):
    """How many elements are read at a time: each needs up to 24 bytes meanwhile."""
    if not _sparing:
        return 1 << 24
    return max(1 << 16 if flat.is_cuda else 1 << 10, min(flat.numel() >> 8, 1 << 18))


def _bits(flat):
    """New integers for elements."""
    if not flat.is_floating_point():
        return flat.to(torch.int64, copy=True)
    flat = flat if flat.dtype in _BITS else flat.float()
    return flat.nan_to_num().add_(0.0).view(_BITS[flat.dtype]).long()


def random_like(value, diagonal=False, storages=None):
    """A tensor like `value`: integers are 0, which is a valid index; other elements are random, because a GPU multiplies
    equal numbers faster. `diagonal`: square matrices are the unit matrix, for ops that take only some matrices. Values of
    one storage get views of one, if they have the same `storages`, which are Shared."""
    if not isinstance(value, torch.Tensor):
        return value
    flat = _flat_like(value) if storages is None else storages.flat(value)
    made = torch.as_strided(flat, value.shape, value.stride(), value.storage_offset())
    if diagonal and value.is_floating_point() and value.dim() > 1 and value.shape[-1] == value.shape[-2]:
        made.zero_().diagonal(dim1=-2, dim2=-1).fill_(1.0)
    return made


def _flat_like(value, wide=None):
    """All elements of a storage like that of `value`. `wide`: None, or the largest integer; then other numbers have both
    signs, and most are small, but some are in the hundreds."""
    size = (value.untyped_storage().nbytes() // value.element_size(),)
    if value.dtype in _UNSIGNED:  # few ops support these types; zeros of another type have the same bits
        return torch.zeros(size, dtype=_UNSIGNED[value.dtype], device=value.device).view(value.dtype)
    if value.dtype in DRAWN:
        draw = torch.rand if wide is None else torch.randn
        made = draw(size, dtype=value.dtype, device=value.device)
        return made if wide is None else made.pow_(5)
    if wide is not None and not value.dtype.is_floating_point and not value.dtype.is_complex:
        largest = 1 if value.dtype == torch.bool else wide
        return torch.randint(largest + 1, size, dtype=value.dtype, device=value.device)
    return torch.full(size, 0.5 if value.dtype.is_floating_point else 0, dtype=value.dtype, device=value.device)
