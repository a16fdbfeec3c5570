"""Real tensors in the middle of a capture."""

import contextlib

import torch
from torch.utils._python_dispatch import _disable_current_modes


@contextlib.contextmanager
def real_tensors():
    """Ops run for real: no fake tensors, no gradients, and no decompositions. Without the last of these cuDNN's batch norm
    would be PyTorch's own."""
    with _disable_current_modes(), torch._C._DisablePythonDispatcher(), torch.no_grad():
        yield
