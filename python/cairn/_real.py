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
