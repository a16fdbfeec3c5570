"""Graphs compiled by Inductor, through its caches. Everything that Cairn uses of Inductor's inside is here."""

import contextlib
import functools
import os
import threading
import warnings

import torch
import torch._inductor.lowering  # a decomposition needs it
from torch import fx
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.exc import CppCompileError, LoweringException

from . import _torch
from ._code import ALLOCATORS, Code
from ._errors import CairnError

# The decompositions add with atomics, in another order in every run.
_WHOLE = ("embedding_dense_backward",)
_WHOLE_ON_GPU = ("max_pool2d_with_indices_backward",)
# On a processor PyTorch's own norm is four times as fast as the kernels of its parts.
_WHOLE_ON_CPU = ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
                 "_batch_norm_with_update", "_batch_norm_with_update_functional", "native_batch_norm_backward",
                 "batch_norm_backward")


def decompositions(on_cpu):
    """Inductor's decompositions, for AOTAutograd."""
    from torch._inductor.decomposition import select_decomp_table
    table = dict(select_decomp_table())
    for name in _WHOLE + (_WHOLE_ON_CPU if on_cpu else _WHOLE_ON_GPU):
        packet = getattr(torch.ops.aten, name)
        for overload in (getattr(packet, overload) for overload in packet.overloads()):
            if not _torch.schema_of(overload).is_mutable:  # AOTAutograd takes no other in a graph
                table.pop(overload, None)
    return table


def simplify(gm):
    """Inductor's passes over a joint graph: patterns, constants, random ops with seeds."""
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.virtualized import V
    fake_mode = next(n.meta["val"].fake_mode for n in gm.graph.nodes if hasattr(n.meta.get("val"), "fake_mode"))
    try:
        with V.set_fake_mode(fake_mode):
            joint_graph_passes(gm)
    except Exception as error:  # in torch 2.13 an index by torch.randperm is too much for one of its patterns
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CairnError(f"a pass of PyTorch's Inductor fails, so this step works in mode exact only: {reason}") from error


def compile_graph(graph, given):
    """A function of a list of tensors like `given` that returns the results of an FX graph, with the strides of its fake
    tensors. The graph is copied, because Inductor changes it, and may be of another capture than the present one."""
    copy = fx.Graph()
    results = copy.graph_copy(graph, {})
    output = copy.output(results)
    output.meta["user_visible_output_idxs"] = list(range(len(results)))
    values = (n.meta.get("val") for n in graph.nodes)  # a graph may read nothing
    mode = next((value.fake_mode for value in values if hasattr(value, "fake_mode")), None)
    context = None if mode is None else _torch.TracingContext(mode)  # without one, Inductor does not use its cache
    with torch.no_grad(), _torch.DisablePythonDispatcher(), _torch.tracing(context), _torch.kernels_apart():
        return compile_fx_inner(fx.GraphModule({}, copy), given, cudagraphs=False, is_inference=True)


def start_compilers(on_cpu):
    """Start the processes in which Inductor compiles kernels for a GPU, as torch.compile does: they take seconds until they
    are ready, and until then kernels are compiled here, one after the other."""
    from torch._inductor.async_compile import maybe_warm_pool
    if not on_cpu:
        maybe_warm_pool()


_compiling = [None]  # the form whose graph Inductor compiles now is the last


@contextlib.contextmanager
def in_parallel():
    """Compilers that are started in this context work at the same time: Inductor starts them in other processes and
    would wait for each graph's before the next graph. They are waited for at the end."""
    from torch._inductor.async_compile import AsyncCompile
    wait, begun, me = AsyncCompile.wait, [], threading.get_ident()

    def later(compiler, scope):
        if threading.get_ident() == me:
            begun.append((compiler, scope, _compiling[-1]))
        else:
            wait(compiler, scope)
    AsyncCompile.wait = later
    try:
        yield
    finally:
        AsyncCompile.wait = wait
        for compiler, scope, form in begun:
            try:
                compiler.wait(scope)
            except CppCompileError as error:
                if form is None:
                    raise
                form.give_up(error)


@functools.cache
def module_of(source):
    """A module of Python code. It is in a file, where Triton looks for the source of kernels."""
    from torch._inductor.codecache import PyCodeCache
    _prepare_triton()
    return PyCodeCache.load(source)


@functools.cache
def _prepare_triton():
    """Let every process find kernels of ours that another one has compiled. Triton keeps them in one folder, with those of
    Inductor. The version of the assembler is a part of their keys. Inductor chooses it when it first compiles a kernel, so a
    process that finds all of Inductor's kernels would have another one."""
    from torch._inductor.runtime import compile_tasks
    from torch._inductor.runtime.cache_dir_utils import triton_cache_dir
    os.environ.setdefault("TRITON_CACHE_DIR", triton_cache_dir(0))
    for name in ("_set_triton_ptxas_path", "_set_triton_libdevice_path"):  # the latter since 2.13
        getattr(compile_tasks, name, lambda: None)()


# ---- results at given addresses ----

def placed(where, size, stride, dtype):
    """A tensor at the address of another one, which is that one itself where nothing differs."""
    if where.shape == size and where.stride() == stride and where.dtype == dtype:
        return where
    place = where.storage_offset() * where.element_size() // dtype.itemsize
    return torch.empty(0, dtype=dtype, device=where.device).set_(where.untyped_storage(), place, size, stride)


def _scope_of(compiled):
    """The names that the code of a compiled graph uses, or None where it is not as it is known. On CUDA the code is inside
    a function that aligns operands."""
    todo = [getattr(compiled, "current_callable", None)]
    while todo:
        call = getattr(todo[0], "__func__", todo[0])
        if all(name in getattr(call, "__globals__", {}) for name in ALLOCATORS):
            return call.__globals__
        todo = [c.cell_contents for c in getattr(call, "__closure__", None) or () if callable(c.cell_contents)] + todo[1:]
    return None


class Allocations:
    """Runs a compiled graph with allocations of ours. Its code allocates in the same order every time. A run prepares
    little, because on a processor that may take longer than the kernel."""

    def __init__(self, compiled, run):
        self._run, self.scope = run, _scope_of(compiled)
        self.code = Code(compiled.source_code if self.scope is not None else "")
        self.result_of = self.code.result_of
        self._results = [self.result_of.get(number) for number in range(max(self.result_of, default=-1) + 1)]
        self._plain = {name: self.scope[name] for name in ALLOCATORS} if self.scope is not None else {}
        self._ours = {name: functools.partial(self._allocate, plain) for name, plain in self._plain.items()}
        self._places = iter(())

    def _allocate(self, plain, size, stride, dtype):
        where = next(self._places, None)
        return plain(size, stride, dtype) if where is None else placed(where, size, stride, dtype)

    def run(self, arguments, destinations):
        """Run with a tensor, or None, as the destination of every result. The list of arguments is emptied."""
        if not self.result_of:
            return self._run(arguments)
        self._places = iter([None if result is None else destinations[result] for result in self._results])
        self.scope.update(self._ours)
        try:
            return self._run(arguments)
        finally:
            self.scope.update(self._plain)
            self._places = iter(())  # it would keep the last destination alive


def _is_inductors(error):
    """Whether Inductor has failed to express an op, or to join two, or has written code that no compiler takes."""
    inner = getattr(error, "inner_exception", None)
    kinds = (LoweringException, CppCompileError)
    return isinstance(error, kinds) or isinstance(inner, (*kinds, AssertionError))


class OneByOne:
    """A graph as a function of a list of tensors, whose ops run one after the other as PyTorch has them. The same interface
    as Form. Results are new memory: an op allocates its result itself. `most_bytes`: of what its
    ops make, and of its results, which may be copies. `inside`: bytes of what they make on the way to the results."""
    name = "aten"

    def __init__(self, graph):
        self._call = fx.GraphModule({}, graph)
        self._likes = [n.meta["val"] for n in next(iter(graph.find_nodes(op="output"))).args[0]]
        made = _torch.pytree.tree_leaves([n.meta["val"] for n in graph.nodes if n.op == "call_function"])
        sizes = {_torch.storage_key(v): v.untyped_storage().nbytes() for v in made if isinstance(v, torch.Tensor)}
        self.most_bytes = sum(sizes.values()) + sum(v.untyped_storage().nbytes() for v in self._likes)
        given = [n.meta["val"] for n in graph.find_nodes(op="placeholder")]
        others = {_torch.storage_key(v) for v in [*given, *self._likes]}
        self.inside = sum(size for key, size in sizes.items() if key not in others)

    def __call__(self, arguments):
        taken = {_place_of(argument) for argument in arguments}
        with torch.no_grad():
            return [self._as_planned(*both, taken) for both in zip(self._call(*arguments), self._likes)]

    @staticmethod
    def _as_planned(made, like, taken):
        """A tensor with the planned strides in memory of its own."""
        whole = made.storage_offset() == 0 and made.untyped_storage().nbytes() == like.untyped_storage().nbytes()
        if not whole or made.stride() != like.stride() or _place_of(made) in taken:
            made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=made.device).copy_(made)
        taken.add(_place_of(made))
        return made

    def compile(self):
        return self

    def placeable(self):
        return set()

    def may_be_over(self, result, argument):
        return False

    def onto(self, destinations, arguments):
        assert all(destination is None for destination in destinations)
        return self(arguments)


def _place_of(tensor):
    return tensor.untyped_storage().data_ptr()


class Form:
    """A graph as Inductor computes it."""
    name = "inductor"
    has_run = False  # in this process
    _settings: dict = {}

    def __init__(self, graph, given, kept=None):
        """`kept`: the compiled graph of another process."""
        self.graph, self.given, self._compiled, self._allocations, self._code = graph, given, None, None, None
        self._kept = kept

    def kept(self):
        """The compiled graph for other processes; None if there is none."""
        if self._compiled is None or isinstance(self._compiled, OneByOne):
            return self._kept
        return _torch.packed(self._compiled)

    def compile(self):
        """Some graphs Inductor does not compile alone, although it compiles the model that they are a part of."""
        if self._compiled is None and self._kept is not None:
            self._compiled = _torch.unpacked(self._kept, self.given)
        if self._compiled is None:
            _compiling.append(self)
            try:
                with torch._inductor.config.patch(self._settings):
                    self._compiled = compile_graph(self.graph, self.given)
            except Exception as error:
                if not _is_inductors(error):
                    raise
                self.give_up(error)
            finally:
                _compiling.pop()
        return self._compiled

    def give_up(self, error):
        """Run the ops one by one, because Inductor does not compile them."""
        warnings.warn(f"cairn: Inductor does not compile a part of the step, whose ops run one by one: {error}",
                      stacklevel=2)
        self._compiled, self._allocations, self._code = OneByOne(self.graph), None, None

    def __call__(self, arguments):
        return self._first(arguments) if self._code is None else self._code(arguments)

    def _first(self, arguments):
        """What Inductor has around the code is for the first run; on a processor it takes longer than many a kernel."""
        self.has_run, compiled = True, self.compile()
        results = compiled(arguments)
        self._code = getattr(compiled, "current_callable", None) or compiled
        return results

    def _known(self):
        if self._allocations is None:
            self._allocations = Allocations(self.compile(), self)
        return self._allocations

    def launches(self):
        """The number of kernels, as far as it is known."""
        return self._known().code.launches

    def allocated(self):
        """The bytes that a run allocates, as far as it is known, if it frees nothing; 0 if it is not compiled."""
        return self._known().code.bytes if self._compiled is not None else 0

    def placeable(self):
        """The numbers of the results that can be written to where the caller wants them."""
        return set(self._known().result_of.values())

    def may_be_over(self, result, argument):
        """Whether no argument is read after it was overwritten by a result."""
        return self._known().code.may_be_over(result, argument)

    def onto(self, destinations, arguments):
        return (self._allocations or self._known()).run(arguments, destinations)


class United(Form):
    """The same, where Inductor computes again what is read more than once instead of writing it down."""
    name = "united"
    _settings = dict(realize_reads_threshold=1 << 10, realize_opcount_threshold=1 << 10, realize_acc_reads_threshold=1 << 10,
                     force_pointwise_cat=True)
