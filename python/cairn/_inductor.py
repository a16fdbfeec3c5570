"""Graphs compiled by Inductor, through its caches. Everything that Cairn uses of Inductor's inside is here."""

import contextlib

import torch
import torch._inductor.lowering  # a decomposition needs it
from torch import fx
from torch._inductor.compile_fx import compile_fx_inner

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


def simplify(gm, fake_mode):
    """Inductor's passes over a joint graph: patterns, constants, random ops with seeds."""
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.virtualized import V
    with V.set_fake_mode(fake_mode):
        joint_graph_passes(gm)


def compile_graph(graph, given):
    """A function of a list of tensors like `given` that returns the results of an FX graph, with the strides of its fake
    tensors. The graph is copied, because Inductor changes it."""
    copy = fx.Graph()
    results = copy.graph_copy(graph, {})
    output = copy.output(results)
    output.meta["user_visible_output_idxs"] = list(range(len(results)))
    with torch.no_grad(), torch._C._DisablePythonDispatcher():
        return compile_fx_inner(fx.GraphModule({}, copy), given, cudagraphs=False, is_inference=True)


@contextlib.contextmanager
def in_parallel():
    """Compilers that are started in this context work at the same time: Inductor starts them in other processes and
    would wait for each graph's before the next graph. They are waited for at the end."""
    from torch._inductor.async_compile import AsyncCompile
    wait, begun = AsyncCompile.wait, []
    AsyncCompile.wait = lambda self, scope: begun.append((self, scope))
    try:
        yield
    finally:
        AsyncCompile.wait = wait
        for compiler, scope in begun:
            compiler.wait(scope)
