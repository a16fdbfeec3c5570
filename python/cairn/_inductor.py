"""Graphs compiled by Inductor, through its caches. Everything that Cairn uses of Inductor's inside is here."""

import contextlib
import threading

import torch
import torch._inductor.lowering  # a decomposition needs it
from torch import fx
from torch._inductor.compile_fx import compile_fx_inner

from . import _torch

# The decomposition adds with atomics, in another order in every run.
_WHOLE = (torch.ops.aten.embedding_dense_backward,)


def decompositions():
    """Inductor's decompositions, for AOTAutograd."""
    from torch._inductor.decomposition import select_decomp_table
    table = dict(select_decomp_table())
    for packet in _WHOLE:
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    return table


def simplify(gm):
    """Inductor's passes over a joint graph: patterns, constants, random ops with seeds."""
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.virtualized import V
    fake_mode = next(n.meta["val"].fake_mode for n in gm.graph.nodes if hasattr(n.meta.get("val"), "fake_mode"))
    with V.set_fake_mode(fake_mode):
        joint_graph_passes(gm)


def compile_graph(graph, given):
    """A function of a list of tensors like `given` that returns the results of an FX graph, with the strides of its fake
    tensors. The graph is copied, because Inductor changes it, and may be of another capture than the present one."""
    copy = fx.Graph()
    results = copy.graph_copy(graph, {})
    output = copy.output(results)
    output.meta["user_visible_output_idxs"] = list(range(len(results)))
    with torch.no_grad(), _torch.DisablePythonDispatcher(), _torch.tracing(None):
        return compile_fx_inner(fx.GraphModule({}, copy), given, cudagraphs=False, is_inference=True)


@contextlib.contextmanager
def in_parallel():
    """Compilers that are started in this context work at the same time: Inductor starts them in other processes and
    would wait for each graph's before the next graph. They are waited for at the end."""
    from torch._inductor.async_compile import AsyncCompile
    wait, begun, me = AsyncCompile.wait, [], threading.get_ident()

    def later(compiler, scope):
        if threading.get_ident() == me:
            begun.append((compiler, scope))
        else:
            wait(compiler, scope)
    AsyncCompile.wait = later
    try:
        yield
    finally:
        AsyncCompile.wait = wait
        for compiler, scope in begun:
            compiler.wait(scope)


# ---- results at given addresses ----

_ALLOCATORS = ("empty_strided_cpu", "empty_strided_cuda")


def _scope_of(compiled):
    """The names that the code of a compiled graph uses, or None where it is not as it is known. On CUDA the code is inside
    a function that aligns operands."""
    todo = [getattr(compiled, "current_callable", None)]
    while todo:
        call = getattr(todo[0], "__func__", todo[0])
        if all(name in getattr(call, "__globals__", {}) for name in _ALLOCATORS):
            return call.__globals__
        todo = [c.cell_contents for c in getattr(call, "__closure__", None) or () if callable(c.cell_contents)] + todo[1:]
    return None


class Allocations:
    """Runs a compiled graph with allocations of ours. Its code allocates in the same order every time; which of the
    allocations become results is learned in a first run."""

    def __init__(self, compiled):
        self.compiled, self.scope, self.result_of = compiled, _scope_of(compiled), None

    def _run(self, arguments, allocate):
        if self.scope is None:
            return self.compiled(list(arguments))
        before = {name: self.scope[name] for name in _ALLOCATORS}
        self.scope.update({name: lambda *what, plain=plain: allocate(plain, *what) for name, plain in before.items()})
        try:
            return self.compiled(list(arguments))
        finally:
            self.scope.update(before)

    def learn(self, arguments):
        """The number of every allocation that becomes a result; {} if none can be placed."""
        self.result_of = {}
        if self.scope is None:
            return
        made = []

        def allocate(plain, *what):
            made.append(plain(*what))
            return made[-1]
        results = self._run(arguments, allocate)
        numbers = {tensor.data_ptr(): number for number, tensor in enumerate(made)}
        for place, result in enumerate(results):
            number = numbers.get(result.data_ptr())
            if number is not None and result.untyped_storage().nbytes() == made[number].untyped_storage().nbytes():
                self.result_of[number] = place

    def run(self, arguments, destinations):
        """Run with tensors for some of the results: a dictionary by the result's number."""
        count = iter(range(1 << 30))

        def allocate(plain, size, stride, dtype):
            where = destinations.get(self.result_of.get(next(count)))
            if where is None:
                return plain(size, stride, dtype)
            place = where.storage_offset() * where.element_size() // dtype.itemsize
            return torch.empty(0, dtype=dtype, device=where.device).set_(where.untyped_storage(), place, size, stride)
        return self._run(arguments, allocate)
