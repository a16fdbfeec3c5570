"""Real tensors in the middle of a capture."""

import contextlib

import torch

from . import _torch


@contextlib.contextmanager
def real_tensors():
    """Ops run for real: no fake tensors, no gradients, and no decompositions. Without the last of these cuDNN's batch norm
    would be PyTorch's own."""
    with _torch.disable_current_modes(), _torch.DisablePythonDispatcher(), torch.no_grad():
        yield


DRAWN = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_UNSIGNED = {torch.uint64: torch.int64, torch.uint32: torch.int32, torch.uint16: torch.int16}


def random_like(value, diagonal=False, storages=None):
    """A tensor like `value`: integers are 0, which is a valid index; other elements are random, because a GPU multiplies
    equal numbers faster. `diagonal`: square matrices are the unit matrix, for ops that take only some matrices. Values of
    one storage get views of one, if they have the same `storages`, a dict that is filled."""
    if not isinstance(value, torch.Tensor):
        return value
    key = _torch.storage_key(value), value.dtype
    flat = (storages or {}).get(key)
    if flat is None:
        flat = _flat_like(value)
        if storages is not None:
            storages[key] = flat
    made = torch.as_strided(flat, value.shape, value.stride(), value.storage_offset())
    if diagonal and value.is_floating_point() and value.dim() > 1 and value.shape[-1] == value.shape[-2]:
        made.zero_().diagonal(dim1=-2, dim2=-1).fill_(1.0)
    return made


def _flat_like(value):
    """All elements of a storage like that of `value`."""
    size = (value.untyped_storage().nbytes() // value.element_size(),)
    if value.dtype in _UNSIGNED:  # few ops support these types; zeros of another type have the same bits
        return torch.zeros(size, dtype=_UNSIGNED[value.dtype], device=value.device).view(value.dtype)
    if value.dtype in DRAWN:
        return torch.rand(size, dtype=value.dtype, device=value.device)
    return torch.full(size, 0.5 if value.dtype.is_floating_point else 0, dtype=value.dtype, device=value.device)
