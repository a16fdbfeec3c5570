"""Graphs compiled by Inductor, through its caches. Everything that Cairn uses of Inductor's inside is here."""

import ast
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


def _aliased(value):
    """The name of the buffer that an expression is, from its first byte on; None for anything else."""
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "reinterpret_tensor":
        offset = value.args[3] if len(value.args) > 3 else None
        value = value.args[0] if isinstance(offset, ast.Constant) and offset.value == 0 else None
    return value.id if isinstance(value, ast.Name) else None


def _is_allocation(value):
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") in _ALLOCATORS


def results_of_allocations(source):
    """By the number of an allocation that the code of a compiled graph makes: the place of the result that it becomes."""
    calls = [f for f in ast.walk(ast.parse(source)) if isinstance(f, ast.FunctionDef) and f.name == "call"]
    if len(calls) != 1:
        return {}
    number_of, count, found = {}, 0, {}
    for line in sorted((n for n in ast.walk(calls[0]) if isinstance(n, (ast.Assign, ast.Return))), key=lambda n: n.lineno):
        if isinstance(line, ast.Return):
            places = enumerate(getattr(line.value, "elts", ()))
            found = {number_of.get(_aliased(value)): place for place, value in places}
        elif isinstance(line.targets[0], ast.Name):
            number_of[line.targets[0].id] = count if _is_allocation(line.value) else number_of.get(_aliased(line.value))
            count += _is_allocation(line.value)
    known = count == sum(map(_is_allocation, ast.walk(calls[0])))
    return {number: place for number, place in found.items() if number is not None} if known else {}


class Allocations:
    """Runs a compiled graph with allocations of ours. Its code allocates in the same order every time."""

    def __init__(self, compiled):
        self.compiled, self.scope = compiled, _scope_of(compiled)
        self.result_of = results_of_allocations(compiled.source_code) if self.scope is not None else {}

    def run(self, arguments, destinations):
        """Run with tensors for some of the results: a dictionary by the result's number."""
        if not self.result_of:
            return self.compiled(list(arguments))
        count = iter(range(1 << 30))

        def allocate(plain, size, stride, dtype):
            where = destinations.get(self.result_of.get(next(count)))
            if where is None:
                return plain(size, stride, dtype)
            place = where.storage_offset() * where.element_size() // dtype.itemsize
            return torch.empty(0, dtype=dtype, device=where.device).set_(where.untyped_storage(), place, size, stride)
        before = {name: self.scope[name] for name in _ALLOCATORS}
        self.scope.update({name: lambda *what, plain=plain: allocate(plain, *what) for name, plain in before.items()})
        try:
            return self.compiled(list(arguments))
        finally:
            self.scope.update(before)
