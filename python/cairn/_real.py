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


def random_like(value, diagonal=False):
    """A tensor like `value`: integers are 0, which is a valid index; other elements are random, because a GPU multiplies
    equal numbers faster. `diagonal`: square matrices are the unit matrix, for ops that take only some matrices."""
    if not isinstance(value, torch.Tensor):
        return value
    size = (value.untyped_storage().nbytes() // value.element_size(),)
    if value.dtype in _UNSIGNED:  # few ops support these types; zeros of another type have the same bits
        flat = torch.zeros(size, dtype=_UNSIGNED[value.dtype], device=value.device).view(value.dtype)
    elif value.dtype in DRAWN:
        flat = torch.rand(size, dtype=value.dtype, device=value.device)
    else:
        flat = torch.full(size, 0.5 if value.dtype.is_floating_point else 0, dtype=value.dtype, device=value.device)
    made = torch.as_strided(flat, value.shape, value.stride(), value.storage_offset())
    if diagonal and value.is_floating_point() and value.dim() > 1 and value.shape[-1] == value.shape[-2]:
        made.copy_(torch.eye(value.shape[-1], dtype=value.dtype, device=value.device))
    return made
