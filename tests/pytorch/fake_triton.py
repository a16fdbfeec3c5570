"""As much of Triton as Cairn's kernels use, on tensors of the processor: install() puts it in Triton's place."""

import contextlib
import itertools
import sys
import types
import unittest.mock

import torch


class Pointer:
    def __init__(self, tensor, at=0):
        self.tensor, self.at = tensor, at
        self.dtype = types.SimpleNamespace(element_ty=tensor.dtype)

    def __add__(self, more):
        return Pointer(self.tensor, self.at + more)

    def elements(self):
        flat = torch.empty(0, dtype=self.tensor.dtype).set_(self.tensor.untyped_storage())
        return flat, torch.as_tensor(self.at) + self.tensor.storage_offset()


class Kernel:
    """A function that runs once for every program of a grid, one after the other."""
    program = (0, 0)

    def __init__(self, function):
        self.function = function
        function.__globals__["min"] = lambda a, b: torch.minimum(torch.as_tensor(a), torch.as_tensor(b))

    def __call__(self, *given):
        return self.function(*given)  # of another kernel

    def __getitem__(self, grid):
        def launch(*given, num_warps=4, **constants):
            given = [Pointer(g) if isinstance(g, torch.Tensor) else g for g in given]
            for Kernel.program in itertools.product(*map(range, grid)):
                self.function(*given, **constants)
        return launch


def load(pointer, mask=None, other=0.0):
    flat, at = pointer.elements()
    mask = torch.ones((), dtype=torch.bool) if mask is None else mask
    at, mask = torch.broadcast_tensors(at, mask)
    assert not mask.any() or 0 <= at[mask].min() <= at[mask].max() < flat.numel()
    return torch.where(mask, flat[torch.where(mask, at, 0)], torch.tensor(other, dtype=flat.dtype))


def store(pointer, value, mask=None):
    flat, at = pointer.elements()
    at, mask, value = torch.broadcast_tensors(at, torch.tensor(True) if mask is None else mask, torch.as_tensor(value))
    flat[at[mask]] = value[mask].to(flat.dtype)


def where(condition, a, b):
    return torch.where(torch.as_tensor(condition), a, b)


def language():
    tl = types.ModuleType("triton.language")
    same = ("float32", "bfloat16", "float16", "int64", "exp", "log", "rsqrt", "sqrt", "erf", "sigmoid", "abs")
    vars(tl).update({name: getattr(torch, name) for name in same})
    tl.zeros, tl.full = (lambda shape, dtype: torch.zeros(shape, dtype=dtype),
                         lambda shape, value, dtype: torch.full(shape, value, dtype=dtype))
    tl.int1, tl.constexpr, tl.arange, tl.load, tl.store, tl.where = torch.bool, int, torch.arange, load, store, where
    tl.range = lambda first, end, step, num_stages: range(first, end, step)
    tl.static_range = range
    tl.program_id = lambda axis: torch.tensor(Kernel.program[axis])
    tl.broadcast_to = lambda x, shape: torch.as_tensor(x).broadcast_to(shape)
    tl.sum = lambda x, axis, keep_dims=False: x.sum(axis, keepdim=keep_dims)
    tl.debug_barrier = lambda: None  # programs have one thread
    tl.maximum = lambda a, b: torch.maximum(torch.as_tensor(a), torch.as_tensor(b))
    tl.max = lambda x, axis: x.amax(axis)
    return tl


@contextlib.contextmanager
def installed():
    """Kernels that are loaded in this context are run by the above."""
    from cairn import _inductor, _rows
    triton, extra = types.ModuleType("triton"), types.ModuleType("triton.language.extra")
    triton.language, triton.jit, extra.libdevice = language(), Kernel, types.SimpleNamespace(tanh=torch.tanh)
    triton.backends = types.SimpleNamespace(backends={})  # Dynamo asks for one of the processor from torch 2.15 on
    modules = {"triton": triton, "triton.language": triton.language, "triton.language.extra": extra}
    _inductor.module_of.cache_clear()
    with unittest.mock.patch.dict(sys.modules, modules), unittest.mock.patch.object(_rows, "available", lambda device: True):
        yield
    _inductor.module_of.cache_clear()
