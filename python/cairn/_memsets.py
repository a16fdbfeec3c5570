"""Memsets of a recorded step as kernels.

Libraries of products set small workspaces to zero before their kernels. In a CUDA graph without branches that takes less
than a microsecond. A graph with copies to and from the host has branches, and its memsets take two, and the kernels before
and after each wait some more. So in such graphs kernels take the place of the memsets."""

import ctypes as C
import functools

import torch

from . import _torch

MEMSET = 2  # the type of such a node
THREADS, EACH = 256, 4  # of a block, and words that a thread sets if there are few
BLOCKS = 4096

SOURCE = """
extern "C" __global__ void cairn_set(unsigned *words, unsigned value, unsigned long long count) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        words[i] = value;
}
"""


class _Memset(C.Structure):
    _fields_ = [("place", C.c_uint64), ("pitch", C.c_size_t), ("value", C.c_uint), ("element", C.c_uint),
                ("width", C.c_size_t), ("height", C.c_size_t)]

    def words(self):
        """How many words of four bytes are set; 0 if they are not whole words of one row."""
        count, rest = divmod(self.element * self.width, 4)
        return count if self.height <= 1 and not rest and not self.place % 4 else 0

    def word(self):
        return (self.value & (1 << 8 * self.element) - 1) * {1: 0x01010101, 2: 0x00010001, 4: 1}[self.element]


class _Kernel(C.Structure):
    _fields_ = [("function", C.c_void_p), ("grid", C.c_uint * 3), ("block", C.c_uint * 3), ("shared", C.c_uint),
                ("arguments", C.POINTER(C.c_void_p)), ("extra", C.c_void_p), ("kernel", C.c_void_p), ("context", C.c_void_p)]


@functools.lru_cache
def _driver():
    return C.CDLL("libcuda.so.1")


def _check(status):
    if status:
        raise RuntimeError(f"CUDA's driver refused to change a graph: error {status}")


def _list(query, *given):
    """The handles that a query of the driver writes."""
    count = C.c_size_t()
    _check(query(*given, None, C.byref(count)))
    found = (C.c_void_p * count.value)()
    if count.value:
        _check(query(*given, found, C.byref(count)))
    return [C.c_void_p(handle) for handle in found]


def _handles(handles):
    return (C.c_void_p * len(handles))(*(handle.value for handle in handles))


def as_kernels(graph):
    """Replace the memsets of a CUDA graph that is not instantiated yet, by its handle."""
    driver, graph = _driver(), C.c_void_p(graph)
    for node in _list(driver.cuGraphGetNodes, graph):
        kind, memset = C.c_int(), _Memset()
        _check(driver.cuGraphNodeGetType(node, C.byref(kind)))
        if kind.value != MEMSET:
            continue
        _check(driver.cuGraphMemsetNodeGetParams(node, C.byref(memset)))
        if memset.words():
            _replace(driver, graph, node, memset)


def _replace(driver, graph, node, memset):
    given = C.c_uint64(memset.place), C.c_uint(memset.word()), C.c_uint64(memset.words())
    arguments = (C.c_void_p * len(given))(*(C.addressof(value) for value in given))
    blocks = min(-(-given[2].value // (THREADS * EACH)), BLOCKS)
    kernel = _Kernel(_torch.handle_of(_compiled(torch.cuda.current_device())), (blocks, 1, 1), (THREADS, 1, 1), 0, arguments)
    before, after, new = (_list(driver.cuGraphNodeGetDependencies, node), _list(driver.cuGraphNodeGetDependentNodes, node),
                          C.c_void_p())
    _check(driver.cuGraphAddKernelNode_v2(C.byref(new), graph, _handles(before), C.c_size_t(len(before)), C.byref(kernel)))
    if after:
        _check(driver.cuGraphAddDependencies(graph, _handles([new] * len(after)), _handles(after), C.c_size_t(len(after))))
    _check(driver.cuGraphDestroyNode(node))


@functools.lru_cache
def _compiled(device):
    return _torch.compile_cuda(SOURCE, "cairn_set")
