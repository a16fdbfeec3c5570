"""Every name of PyTorch that Cairn uses although PyTorch does not document it. No other module uses such names,
but _inductor.py those of Inductor.

They may change with any release. So a release is tried before it is listed here (`make check-pytorch-versions`), a
release that nobody tried gives a warning, and a name that is gone gives an error that says which.

All of TRIED have all names; what differs between them:

    2.11   batch norms with `_select_batch_norm_backend`
    2.13   as 2.11; functions for the size of cuBLAS's workspace
    2.15   as 2.13; equal random ops stay apart
"""

import contextlib
import functools
import hashlib
import importlib
import os
import pickle
import re
import warnings
from collections.abc import Iterator
from typing import Any

import torch

TRIED = ("2.11", "2.13", "2.15")


def release(version: str) -> str:
    """The first two numbers of a version: "2.13" of "2.13.0+cpu"."""
    found = re.match(r"\d+\.\d+", version)
    return found[0] if found else version


def _get(module: str, *path: str) -> Any:
    """A name of PyTorch; an ImportError that names it if it is gone."""
    try:
        found = importlib.import_module(module)
        for name in path:
            found = getattr(found, name)
        return found
    except (ImportError, AttributeError) as error:
        name = ".".join((module, *path))
        raise ImportError(f"torch {torch.__version__} has no {name}, which cairn needs; cairn was tried with torch "
                          f"{', '.join(TRIED)}") from error


def warn_if_untried(version: str = torch.__version__) -> None:
    """A warning if nobody tried this release; it points to the line that called cairn.backend()."""
    if release(version) in TRIED:
        return
    warnings.warn(f"cairn was never tried with torch {version}, only with {', '.join(TRIED)}: a step may be refused or stop "
                  "with an error, and its memory may differ from the prediction; `make check-pytorch` tries this version",
                  stacklevel=3)


# ---- capturing a step ----
aot_autograd = _get("torch._dynamo.backends.common", "aot_autograd")
ShortenTraceback: Any = _get("torch._dynamo.exc", "ShortenTraceback")
tracing = _get("torch._guards", "tracing")
TracingContext: Any = _get("torch._guards", "TracingContext")
reset_dynamo = _get("torch._dynamo", "reset")
compile_lock = _get("torch._dynamo.convert_frame", "compile_lock")  # one capture at a time, of all threads
free_unbacked_symbols = _get("torch.fx.experimental.symbolic_shapes", "free_unbacked_symbols")  # that data decide
fx_graph_cse = _get("torch._functorch.compile_utils", "fx_graph_cse")
FakeTensorMode = _get("torch._subclasses.fake_tensor", "FakeTensorMode")
ShapeEnv = _get("torch.fx.experimental.symbolic_shapes", "ShapeEnv")
free_symbols = _get("torch.fx.experimental.symbolic_shapes", "free_symbols")
_DYNAMIC = _get("torch.fx.experimental.symbolic_shapes", "DimDynamic", "DYNAMIC")
_ConstantSource = _get("torch._dynamo.source", "ConstantSource")
_dynamo_config = _get("torch._dynamo.config")
is_traceable_wrapper_subclass = _get("torch.utils._python_dispatch", "is_traceable_wrapper_subclass")
pytree = _get("torch.utils._pytree")
OpOverload: Any = _get("torch._ops", "OpOverload")
FakeTensor: Any = _get("torch._subclasses.fake_tensor", "FakeTensor")
linear = _get("torch._C._nn", "linear")  # what F.linear is inside a captured graph


def allow_captures(count: int) -> None:
    """Dynamo captures a function this often or more, before it runs the function without the backend."""
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        if getattr(_dynamo_config, name) < count:
            setattr(_dynamo_config, name, count)


def symbolic(mode: Any, value: int, name: str) -> torch.SymInt:
    """An integer that a capture does not make a constant."""
    source = _ConstantSource(name)
    symbol = mode.shape_env.create_unspecified_symbol(value, source, _DYNAMIC)
    return mode.shape_env.create_symintnode(symbol, hint=value, source=source)


def number_of(value: torch.SymInt) -> int:
    """The value that an integer had when it was captured."""
    return value.node.hint


def was_specialised(gm: Any) -> bool:
    """Whether a captured graph depends on the values of its symbolic integers."""
    values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    integers = [v.node.shape_env for v in values if isinstance(v, torch.SymInt)]
    return any(env.guards or env.replacements for env in integers[:1])


def name_of_op(target: Any) -> str:
    return f"{target._schema.name}.{target._overloadname}"


def op_named(name: str) -> Any:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


# ---- PyTorch's cache of captured steps ----
_capture_cache = _get("torch._functorch._aot_autograd.autograd_cache")
_SerializableCompiler = _get("torch._functorch._aot_autograd.schemas", "SerializableAOTDispatchCompiler")
_Loadable = _get("torch._functorch._aot_autograd.aot_autograd_result", "BundledOutputCodeLoadable")
_functorch_config = _get("torch._functorch.config")
_inductor_config = _get("torch._inductor.config")
_BoxedBool = _get("torch._inductor.utils", "BoxedBool")
BypassAOTAutogradCache: Any = _get("torch._functorch._aot_autograd.autograd_cache", "BypassAOTAutogradCache")
OutputCode: Any = _get("torch._inductor.output_code", "OutputCode")
_get("torch._functorch._aot_autograd.autograd_cache", "autograd_cache_key")
_autocast = [_get("torch.amp.autocast_mode", name) for name in ("_enter_autocast", "_exit_autocast")]
# The backward part is compiled at once, as a step is kept when both parts are.
_KEPT_WHOLE = dict(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True, donated_buffer=False)
for _name in _KEPT_WHOLE:
    _get("torch._functorch.config", _name)
_get("torch._inductor.config", "unsafe_marked_cacheable_functions")


def kept_by(compiler: Any) -> Any:
    """A compiler for AOTAutograd that returns an OutputCode, which the cache may keep."""
    return _SerializableCompiler(OutputCode, compiler)


def traced(inputs: Any) -> Any:
    """A block in which something with fake inputs is captured as in Dynamo's trace, if that has ended."""
    mode = next((x.fake_mode for x in inputs if isinstance(x, FakeTensor)), None)
    outside = TracingContext.try_get() is None and mode is not None
    return tracing(TracingContext(mode)) if outside else contextlib.nullcontext()


def runtime_metadata() -> Any:
    """While a part of a step is compiled: what PyTorch will know of the step when it runs. Its backward part may run twice;
    PyTorch refuses that where saved tensors may be overwritten, and where it does not know."""
    context = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return None
    context.fw_metadata.bw_donated_idxs = []
    return context.fw_metadata


def note_saved(metadata: Any, forward: Any, results: int) -> None:
    """Tell PyTorch what a forward part saves, behind its `results`, if that is not what was kept."""
    saved = forward.graph.output_node().args[0][results:]
    metadata.num_tensors_saved_with_no_vc_check = sum("saved_tensor_with_no_vc_check" in n.meta for n in saved)
    metadata.saved_tensor_is_graph_input = [n.op == "placeholder" for n in saved]  # since 2.15


@contextlib.contextmanager
def cached_captures(words: str, function: Any, missing: Any) -> Iterator[None]:
    """In the block AOTAutograd keeps captured steps whole, under keys of which `words` are a part. Their graphs may call
    `function`, and begin and end autocast: all arguments of these calls are in the graph's code. `missing` is called
    where a step is not in the cache, before it is captured."""
    usual, functions = _capture_cache.autograd_cache_key, (function, *_autocast)

    def key_with_words(*given, **options):
        known = dict(_inductor_config.unsafe_marked_cacheable_functions)
        known.update((f"{f.__module__}.{f.__name__}", words) for f in functions)
        try:
            with _inductor_config.patch(unsafe_marked_cacheable_functions=known):
                key, lines = usual(*given, **options)
        except Exception:
            missing()
            raise
        key = key[:1] + hashlib.sha256(f"{key} {words}".encode()).hexdigest()
        if not os.path.exists(_capture_cache.AOTAutogradCache._get_tmp_dir_for_key(key)):
            missing()
        return key, lines
    _capture_cache.autograd_cache_key = key_with_words
    try:
        with _functorch_config.patch(_KEPT_WHOLE):
            yield
    finally:
        _capture_cache.autograd_cache_key = usual


def kernels_apart() -> Any:
    """A block in which Inductor keeps graphs one by one, although captured steps are kept whole."""
    return _functorch_config.patch(bundled_autograd_cache=False)


def packed(compiled: Any) -> bytes:
    """A graph that Inductor has compiled, as bytes."""
    loadable = _Loadable(compiled)
    loadable.pre_save()
    return pickle.dumps(loadable.result)


def unpacked(data: bytes, given: Any) -> Any:
    """The compiled graph again, for inputs like `given`."""
    loadable = _Loadable(pickle.loads(data))
    options = dict(cudagraphs=_BoxedBool(False), is_backward=False, is_inference=True)
    with tracing(None):
        return loadable.post_compile(loadable.load(given), options)


# ---- writing its graphs ----
CodeGen: Any = _get("torch.fx.graph", "CodeGen")
make_graph_module = _get("torch.fx._lazy_graph_module", "_make_graph_module")
SavedForBackwardsAOTOutput = _get("torch._functorch._aot_autograd.descriptors", "SavedForBackwardsAOTOutput")

# ---- running and measuring ops ----
disable_current_modes = _get("torch.utils._python_dispatch", "_disable_current_modes")
DisablePythonDispatcher = _get("torch._C", "_DisablePythonDispatcher")
_graph_task = _get("torch._C", "_current_graph_task_id")
keeps_graph = _get("torch._C", "_autograd", "_get_current_graph_task_keep_graph")
StorageWeakRef = _get("torch.multiprocessing.reductions", "StorageWeakRef")
suggest_memory_format = _get("torch._prims_common", "suggest_memory_format")
_legacy = [_get("torch.autograd", name) for name in ("ProfilerConfig", "ProfilerState", "_enable_profiler_legacy",
                                                     "_disable_profiler_legacy")]
_ExperimentalConfig = _get("torch._C._profiler", "_ExperimentalConfig")


_profiler = _get("torch.autograd.profiler")
_enable_record_function = _get("torch.autograd", "_enable_record_function")
_before_profiler: list = []  # called when the user's profiler starts


def _listen_to_profiler() -> None:
    """PyTorch refuses a second profiler, so the user's must be heard of before it starts."""
    begin = _profiler._run_on_profiler_start

    def run_on_profiler_start():
        for call in _before_profiler:
            call()
        begin()
    _profiler._run_on_profiler_start = run_on_profiler_start


def start_memory_events(give_way: Any) -> None:
    """Record the allocator's events on the processor, and nothing of ops. `give_way` is called when the user's profiler
    starts."""
    config, state, enable, _ = _legacy
    if not _before_profiler:
        _listen_to_profiler()
        _before_profiler.append(give_way)
    options = config(state.CPU, False, True, False, False, False, _ExperimentalConfig())
    try:
        enable(options)
    except RuntimeError:
        if _profiler._is_profiler_enabled:  # the user's
            raise
        _legacy[3]()  # one that was stopped inside a backward pass, after which PyTorch puts it back
        enable(options)
    _enable_record_function(False)


def mark_memory_events(name: str) -> None:
    """Record a mark among the events; possible inside a backward pass."""
    _enable_record_function(True)
    with torch.profiler.record_function(name):
        pass
    _enable_record_function(False)


def stop_memory_events() -> Any:
    """The recorded events, a list per thread."""
    _enable_record_function(True)
    return _legacy[3]()


def runs_backward() -> bool:
    """Whether this thread runs a backward pass."""
    return _graph_task() != -1


def after_backward(call: Any) -> None:
    """Call a function when the backward pass that runs has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


def pass_no_zeros(results: Any) -> None:
    """For results of a captured graph: autograd passes None to its backward part instead of zeros."""
    todo = [r.grad_fn for r in results if isinstance(r, torch.Tensor)]
    for _ in range(4):  # a result may be a view of what the graph returned, or an input that changed
        for node in todo:
            if type(node).__name__ == "CompiledFunctionBackward":
                return node.set_materialize_grads(False)
        todo = [following for node in todo if node is not None for following, _ in node.next_functions]


_UNCHECKED = "_tensors_no_vc_check"  # what AOTAutograd keeps beside the tensors that autograd looks after


class _Clearing(torch.autograd.Function):
    """Its backward pass clears what other nodes have saved: PyTorch does that only inside of one."""

    @staticmethod
    def forward(ctx: Any, _: Any, nodes: Any) -> Any:
        ctx.nodes = nodes
        return torch.zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        for node in ctx.nodes:
            node.maybe_clear_saved_tensors()
            if hasattr(node, _UNCHECKED):
                setattr(node, _UNCHECKED, [])
        return None, None


def clear_saved(nodes: Any) -> None:
    """Free what backward parts of captured graphs have saved; they cannot run any more."""
    with torch.enable_grad():
        _Clearing.apply(torch.zeros((), requires_grad=True), nodes).backward()


def schema_of(target: Any) -> Any:
    """The schema of an op; None of a function that is no op."""
    return getattr(target, "_schema", None)


def storage_key(tensor: torch.Tensor) -> int:
    """A number that tells storages apart as long as they live."""
    return tensor.untyped_storage()._cdata


def input_of(placeholder: torch.fx.Node, inputs: Any) -> Any:
    """Which of the inputs of a function that AOTAutograd has captured a placeholder of its joint graph is, or None."""
    place = getattr(placeholder.meta.get("desc"), "idx", None)
    plain = type(placeholder.meta.get("desc")).__name__ == "PlainAOTInput"
    return inputs[place] if plain and place is not None and place < len(inputs) else None


@contextlib.contextmanager
def benchmarks_within(room: int | None) -> Iterator[None]:
    """In the block Inductor, which compares ways to launch a kernel when that runs first, overwrites no more than `room`
    bytes to empty the GPU's cache; None: all of the cache."""
    from torch._inductor.runtime.benchmarking import benchmarker
    known, name = vars(benchmarker), "L2_cache_size"  # a cached property
    usual = getattr(benchmarker, name, None) if room is not None else None
    if usual is None or room is None or room >= usual:
        yield
        return
    known[name] = max(room, 1 << 12)
    try:
        yield
    finally:
        known[name] = usual


def boxed_call(run: Any) -> Any:
    """Mark a function that takes its arguments as one list, which it may empty."""
    run._boxed_call = True
    return run


def foreach_norm(tensors: list, order: float) -> Any:
    """The norm of each tensor, as PyTorch's clipping computes it."""
    return torch._foreach_norm(tensors, order)


# ---- CUDA: on a processor these are missing or do nothing ----

def clear_cublas_workspaces() -> None:
    torch._C._cuda_clearCublasWorkspaces()


_BLAS = 128 << 10  # bytes
_BLAS_VARIABLES = dict(CUBLAS_WORKSPACE_CONFIG=":16:8", CUBLASLT_WORKSPACE_SIZE="128")


@functools.cache
def make_cublas_workspaces_small() -> None:
    """Give cuBLAS and cuBLASLt 128 KiB of workspace, where PyTorch gives them 32 MiB on some GPUs, unless the user has
    chosen a size. Newer releases of PyTorch have functions for it; older ones read the environment before every product."""
    if _BLAS_VARIABLES.keys() & os.environ.keys():
        return
    cuda = torch.backends.cuda
    if hasattr(cuda, "cublas_workspace_size"):
        cuda.cublas_workspace_size(_BLAS)
        cuda.cublaslt_workspace_size(_BLAS)
    else:
        os.environ.update(_BLAS_VARIABLES)
    clear_cublas_workspaces()


def copy_all(inputs: list, values: list) -> None:
    """Copy tensors into others of the same types, many in one kernel."""
    torch._foreach_copy_(inputs, values)


def sleep_cuda(cycles: int) -> None:
    torch.cuda._sleep(cycles)


def compile_cuda(source: str, name: str) -> Any:
    return torch.cuda._compile_kernel(source, name)


def handle_of(kernel: Any) -> int:
    """The driver's handle of such a kernel."""
    return getattr(kernel.func, "value", kernel.func)


def eager_uses_cudnn(x, weight, bias, mean, var, eps) -> bool:
    """Whether eager execution of a batch norm in training uses cuDNN; never if PyTorch does not say."""
    choose = getattr(torch._C, "_select_batch_norm_backend", None)
    return choose is not None and choose(x, weight, bias, mean, var, True, eps) == torch._C._BatchNormBackend.Cudnn


def cudnn_reserve_bytes(x: torch.Tensor) -> int:
    return torch._C._get_cudnn_batch_norm_reserve_space_size(x, True)
