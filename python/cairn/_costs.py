"""The costs of ops: measured on the device, once per signature, and kept in a file.

The file is a table of docs/cost-format.md; a signature names the op, its operands (type, shape, strides) and its other
arguments. Where a real op returns its results otherwise than a fake one, a second file, with the ending .results, says how
(_geometry.py). A third, with the ending .trials, says what else was tried on the device: which operands may be
overwritten, which ops write to given addresses. So the smallest budget, which depends on times too, is the same in every
process, also in one that has too little memory to try. A lock, .lock, is held while files are written. An op is
measured alone, on operands made for it, so that measuring needs no more memory than the op itself; what the caller holds
is lent (_real.py). Whatever else is measured on a GPU, copies and the times under load, keeps to the limit that limit_of()
derives from the user's budget.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import tempfile
import time

import torch
from torch import fx

from . import _fuse, _torch
from . import _load
from . import _norms
from . import _pairs
from . import _sizes
from . import _slices
from ._geometry import any_node, key_of, makes_storage, planned_of, propagate, record, tensors_of, values_of
from ._peak import peak_of
from ._joint import is_collective, is_effect, is_number, is_random
from ._real import Shared, no_collections, random_like, real_tensors

_SHORT = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
          torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8",
          torch.bool: "bool"}

# Which library's workspace an op leaves allocated; the name of its implementation in the file.
PLAIN, CUBLAS, CUBLASLT = "aten", "cublas", "cublaslt"

MOST_ROUNDS = 16  # of measuring and propagating
CYCLES = 2 * 10**9  # of a GPU's clock in a second, about
IN_STEP = 85  # percent of the speed of copies alone: an H200 copies 48 to 51 GB/s in steps, and 55 alone (docs/tried.md)
FIGURES, TRIALS = "figures", "trials"  # what a table has to save
_trials: dict = {}  # by origin: the outcomes of trials in this process
_known: dict = {}  # by file and origin: figures and results that this process has saved, or would have


def _dense(shape):
    """The strides of a new tensor. Others may be called contiguous too, where a dimension is 1, and ops tell them
    apart."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return tuple(strides)


def _extent(value):
    """The elements from the first one of a tensor to its last one in memory."""
    return 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride())) if value.numel() else 0


def _describe(value):
    if isinstance(value, torch.Tensor):
        kind = _SHORT.get(value.dtype, str(value.dtype).replace("torch.", ""))
        shape = ",".join(map(str, value.shape))
        strides = "" if value.stride() == _dense(value.shape) else "/" + ",".join(map(str, value.stride()))
        size = value.untyped_storage().nbytes()  # some ops copy the whole storage of a view
        storage = "" if size == _extent(value) * value.element_size() else f"<{size}+{value.storage_offset()}"
        return f"{kind}[{shape}]{strides}{storage}" + ("" if value.device.type != "cpu" else "@cpu")
    return str(value).replace(" ", "")


def _value(argument):
    return argument.meta.get("val") if isinstance(argument, fx.Node) else argument


def _leaves(arguments):
    for a in arguments:
        if isinstance(a, (list, tuple)):
            yield from _leaves(a)
        else:
            yield a


def signature_of(node):
    words = [str(node.target)] + [_describe(_value(a)) for a in _leaves(node.args)]
    words += [k + "=" + ",".join(_describe(_value(a)) for a in _leaves([v])) for k, v in sorted(node.kwargs.items())]
    return "torch " + " ".join(words)


# ---- the file ----

@functools.cache
def _own_text():
    """A hash of this package's code, which writes kernels and tries ops out: what another text measured may be wrong."""
    found, folder = hashlib.sha256(), os.path.dirname(__file__)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                found.update(file.read())
    return found.hexdigest()[:12]


def origin(device):
    """The origin of figures: they are valid only for the same origin."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    flags = ""
    if device.type == "cuda":
        cudnn = torch.backends.cudnn
        flags = f" tf32={torch.backends.cuda.matmul.allow_tf32:d}{cudnn.allow_tf32:d}"
        for word, set_ in (("cudnn-off", not cudnn.enabled), ("benchmark", cudnn.benchmark),
                           ("deterministic", cudnn.deterministic or torch.are_deterministic_algorithms_enabled())):
            flags += f" {word}" if set_ else ""
    return f"torch {torch.__version__} cairn {_own_text()} {name}{flags}", threads


def default_file(device):
    folder = os.environ.get("CAIRN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cairn")
    source, threads = origin(device)
    plain = "".join(c if c.isalnum() or c in ".-+" else "-" for c in source)
    return os.path.join(folder, f"costs-{plain}-{threads}.json")


class Table:
    """Signature to (time in ns, workspace in bytes, library). `results`: signature to the record of real results.
    `guesses`: why ops could not be measured, by signature; they are tried again next time."""

    def __init__(self, path, device):
        self.path, self.figures, self.link = path, {}, None
        self.results, self.guesses = {}, {}
        self.recorded = False  # whether the step will be a CUDA graph
        self.limit = None  # bytes that may be allocated on a GPU while times under load and copies are measured
        self.measured, self.fresh = 0, set()  # ops, by this object; those without a time under load
        self.learning = 0.0  # seconds in which ops were measured
        self.loading = 0.0  # of these, in which kernels and libraries were loaded
        self._device, self._kept = device, None
        self.source, self.threads = origin(device)
        self.backend = "torch-" + device.type
        self.trials = _trials.setdefault((self.source, self.threads), {})
        self._new, self._settled = set(), set()
        self._read()

    def _read(self):
        if self.path is None:
            return
        figures, results = self._saved()
        self.figures.update(figures)
        self.results.update(results)
        self._read_figures()
        for what, outcome in self._read_trials().items():
            self.trials.setdefault(what, outcome)

    def _saved(self):
        """What this process knows besides the file, which may be gone or may not be written: the smallest budget depends on
        times too, and what a refusal has named must be enough afterwards."""
        return _known.setdefault((self.path, self.source, self.threads), ({}, {}))

    def _read_trials(self):
        return _read_whole(self.path + ".trials").get(f"{self.source}, {self.threads} threads", {})

    def _read_figures(self):
        try:
            with open(self.path) as file:
                table = json.load(file)
            with open(self.path + ".results") as file:
                results = json.load(file)
        except (OSError, ValueError):
            return
        if table.get("format") != "cairn-costs" or table.get("source") != self.source \
                or table.get("threads") != self.threads:
            return
        self.results = {**results, **self.results}
        for op in table["ops"]:
            one = op["implementations"][0]
            if one["name"] in (PLAIN, CUBLAS, CUBLASLT):
                self.figures[op["signature"]] = (one["time_ns"], one["workspace_bytes"], one["name"])
                self.guesses.pop(op["signature"], None)
        machine = table.get("machine", {})
        if "link_bytes_per_second" in machine:
            self.link = (machine["link_bytes_per_second"], machine.get("link_latency_ns", 0))

    def set(self, signature, time_ns, workspace, library=PLAIN):
        self.guesses.pop(signature, None)
        self.figures[signature] = (int(time_ns), int(workspace), library)
        self._new.add(FIGURES)

    def settle(self, signature, time_ns):
        """Set the time under load of an op that was measured alone."""
        self.set(signature, time_ns, *self.figures[signature][1:])
        self._settled.add(signature)

    def set_results(self, signature, rows):
        self.results[signature] = rows
        self._new.add(FIGURES)

    def guess(self, signature, time_ns, error, library=PLAIN):
        self.figures[signature] = (int(time_ns), 0, library)
        self.guesses[signature] = str(error).strip().splitlines()[:1]

    def set_link(self, rate, latency):
        self.link = (int(rate), int(latency))
        self._new.add(FIGURES)

    def tried(self, what, trial):
        """The outcome of a trial, which is made once. None where the memory did not suffice for it: then it is made
        another time."""
        if what not in self.trials:
            try:
                self.trials[what] = trial()
                self._new.add(TRIALS)
            except torch.OutOfMemoryError:
                return None
            finally:
                if self._device.type == "cuda":  # they would count as memory in use
                    _torch.clear_cublas_workspaces()
        return self.trials[what]

    def room(self):
        """How many bytes may still be allocated to measure; None: no limit."""
        return None if self.limit is None else max(self.limit - torch.cuda.memory_allocated(self._device), 0)

    def kept(self):
        """What libraries keep on the device; measured once."""
        if self._kept is None:
            self._kept = library_workspaces(self._device)
        return self._kept

    def facts(self):
        """All that is known of ops and copies, for the table of another process."""
        return self.figures, self.results, self.guesses, self.link

    def take(self, facts):
        figures, results, guesses, self.link = facts
        self.figures.update(figures)
        self.results.update(results)
        self.guesses.update(guesses)

    def save(self):
        """Write the file completely or not at all, together with what other processes have measured."""
        new, self._new = self._new, set()
        if not new or self.path is None:
            return
        try:
            with _locked(self.path):
                if FIGURES in new:
                    self._save_figures()
                if TRIALS in new:
                    _write_whole(self.path + ".trials",
                                 {f"{self.source}, {self.threads} threads": {**self._read_trials(), **self.trials}})
        except OSError:
            pass  # training works without a cache
        figures, results = self._saved()
        figures.update((s, found) for s, found in self.figures.items() if s not in self.guesses)
        results.update(self.results)

    def _save_figures(self):
        settled, link = {s: self.figures[s] for s in self._settled}, self.link
        self._read_figures()  # what another process has measured first counts, so that all choose the same forms
        self.figures.update(settled)
        self.link = link or self.link
        table = {"format": "cairn-costs", "version": 1, "source": self.source, "backend": self.backend,
                 "threads": self.threads}
        if self.link:
            table["machine"] = {"link_bytes_per_second": self.link[0], "link_latency_ns": self.link[1]}
        table["ops"] = [{"signature": s, "implementations": [
            {"name": n, "time_ns": t, "workspace_bytes": w}]} for s, (t, w, n) in sorted(self.figures.items())
            if s not in self.guesses]
        _write_whole(self.path + ".results", self.results)
        _write_whole(self.path, table)


def _read_whole(path):
    """What _write_whole has written; nothing where there is no such file."""
    try:
        with open(path) as file:
            found = json.load(file)
            return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


@contextlib.contextmanager
def _locked(path):
    """Other processes wait until the block has ended: what they write between its reading and its writing would be lost.
    Where the file system has no locks, nobody waits."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".lock", "a") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file too


def _write_whole(path, content):
    folder = os.path.dirname(path) or "."
    handle, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w") as file:
        json.dump(content, file, indent=0)
    os.replace(temporary, path)


# ---- measuring ----

def _only_reads(node):
    """Whether a node leaves its operands as they are, which its schema need not tell: batch norms write to their running
    statistics, and of ops that users have added nobody knows."""
    schema = _torch.schema_of(node.target)
    if schema is None:
        return getattr(node.target, "__module__", None) == "cairn_kernels"
    return schema.name.split("::")[0] in ("aten", "prims", "cairn") and not any(
        a.name.startswith("running") for a in schema.arguments)


def operands_of(node, diagonal=False):
    """Arguments to try a node with. Views of one storage are that here too, so that they need no more memory than in the
    step, unless the node has an effect or returns one of them: then it must be seen which one."""
    given = {key_of(value) for value in values_of(node)}
    apart = is_effect(node) or any(key_of(value) in given for value in tensors_of(node.meta.get("val")))
    storages = None if apart else Shared(lends=_only_reads(node) and not diagonal)

    def make(argument):
        value = _value(argument)
        return _torch.number_of(value) if is_number(value) else random_like(value, diagonal, storages)
    return fx.node.map_aggregate(node.args, make), fx.node.map_aggregate(node.kwargs, make)


def _time_cpu(call):
    """The fastest of three runs, or of two if they take long, as others may use the processor: a run that had to wait for it
    takes milliseconds."""
    times = []
    while len(times) < 2 or len(times) < 3 and sum(times) < 500_000:
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return min(times)


class _Runs:
    """Several runs of a call that follow each other on the GPU, so that the start from Python is not measured. They are
    only queued: the time is known once the device has done them. The fastest counts, as others may use the device."""

    def __init__(self, call, runs=4):
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]
        start = time.perf_counter()
        call()
        queueing = 2 * runs * (time.perf_counter() - start)  # Python is slow where other processes use the processor
        _torch.sleep_cuda(max(500_000, min(int(CYCLES * queueing), CYCLES // 200)))  # so that the queue can fill
        self._events[0].record()
        for event in self._events[1:]:
            call()
            event.record()

    def time_ns(self):
        return max(int(min(a.elapsed_time(b) for a, b in zip(self._events, self._events[1:])) * 1e6), 1)


class _Replays:
    """The same of a call that launches many short kernels: recorded, so that they follow each other as in such a step. A
    graph takes some microseconds to begin, so several calls are one graph."""

    def __init__(self, call, runs=4):
        self._graph, self._events = torch.cuda.CUDAGraph(), [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]
        torch.cuda.synchronize()
        with torch.cuda.graph(self._graph):
            for _ in range(runs):
                call()
        self._graph.replay()
        self._events[0].record()
        for event in self._events[1:]:
            self._graph.replay()
            event.record()

    def time_ns(self):
        self._graph.reset()
        times = [a.elapsed_time(b) for a, b in zip(self._events, self._events[1:])]
        return max(int(min(times) / len(times) * 1e6), 1)


def _time_cuda(call, device):
    call()
    runs = _Runs(call)
    torch.cuda.synchronize(device)
    return runs.time_ns()


def _values(node):
    return tensors_of(node.meta.get("val")) + [v for n in node.all_input_nodes for v in tensors_of(n.meta.get("val"))]


def _bytes_of(node):
    return sum(v.numel() * v.element_size() for v in _values(node))


def estimate(node):
    """The estimate for an op that cannot be measured: its bytes at 10 GB/s, on a GPU at 1000 GB/s."""
    return 1000 + _bytes_of(node) // (1000 if any(v.device.type == "cuda" for v in _values(node)) else 10)


def limit_of(parts, options, device):
    """The bytes that may be allocated on a GPU while a step is measured. What a share is one of is not known yet; it is at
    least what the backward part reads of the forward part, and with everything counted all that is given to the step."""
    if options.budget is None or device.type != "cuda":
        return None
    present = torch.cuda.memory_allocated(device)
    saved = [v for n in parts.gm.graph.nodes if n.op == "call_function" and n not in parts.is_backward
             and any(user in parts.is_backward for user in n.users) for v in tensors_of(n.meta.get("val"))]
    if options.total:
        saved += [v for p in parts.primals for v in tensors_of(p.meta.get("val"))]
    least = sum({key_of(v): v.untyped_storage().nbytes() for v in saved}.values())
    return _sizes.parse(options.budget, least) + (0 if options.total else present)


def learn(gm, table, device, alignment, wanted=any_node):
    """Measure the ops of a captured graph that the table does not know, and make its fake results those of real ops.
    `wanted` says of which nodes. A corrected result gives its readers a new signature, so this is repeated until
    nothing is new."""
    start = time.perf_counter()
    with no_collections():
        for _ in range(MOST_ROUNDS):
            missing = _missing(gm, table, wanted)
            table.measured += len(missing)
            table.fresh.update(missing)
            _measure(missing, table, device, alignment)
            if not _surprises(gm, table, missing):
                break
            propagate(gm, table.results, signature_of, wanted)
        if device.type == "cuda" and wanted is any_node and table.fresh:
            _take_loaded(gm, table, device)
    table.save()
    table.learning += time.perf_counter() - start


def _take_loaded(gm, table, device):
    """Set the times of a step's ops to those under its load: only of ops that were measured now, so that the costs of
    other steps stay what they were."""
    alone = {signature: figures[:2] for signature, figures in table.figures.items() if signature not in table.guesses}
    room = None if table.limit is None else table.room() - max(table.kept().values())
    try:
        with real_tensors(), torch.random.fork_rng(devices=[device.index or 0]):
            times = _load.times_of(gm, signature_of, lambda node: _slices.known_form(node, table), alone, device,
                                   table.recorded, room)
    except RuntimeError:  # too little memory, or an op that cannot be recorded
        times = {}
    for signature in times.keys() & table.fresh:
        table.settle(signature, times[signature])
    table.fresh.clear()
    _free_workspaces(device)
    torch.cuda.empty_cache()


def _missing(gm, table, wanted):
    missing = {}
    for node in gm.graph.nodes:
        if node.op != "call_function" or not wanted(node) or not (makes_storage(node) or is_effect(node)):
            continue
        signature = signature_of(node)
        if signature in table.figures:
            continue
        if is_collective(node):  # one rank measures, and a collective would wait for the others
            table.set(signature, estimate(node), 0)
        else:
            missing.setdefault(signature, node)
    return missing


def _measure(missing, table, device, alignment):
    """Measure nodes, by signature."""
    if not missing:
        return
    with real_tensors(), torch.random.fork_rng(
            devices=[device.index or 0] if device.type == "cuda" else []):
        if device.type == "cuda":
            _measure_cuda(missing, table, device, alignment)
        else:
            _measure_cpu(missing, table)


def _surprises(gm, table, measured):
    """Whether the fake results of a node lie otherwise than the real ones of an op that was measured."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and makes_storage(node):
            signature = signature_of(node)
            if signature in measured and signature in table.results \
                    and table.results[signature] != record(node.meta["val"], values_of(node)):
                return True
    return False


def _compare(table, signature, node, results, given):
    """Note the real results of an op. Those that a fake one has right count too: in another graph it may be wrong."""
    if is_effect(node):
        return
    seen = record(results, tensors_of(given))
    if seen is not None:
        table.set_results(signature, seen)


def assign(joint, table):
    """Set the time and workspace of every op of a joint graph."""
    for op in joint.ops:
        if op.kind == "node":
            op.signature = signature_of(op.node)
            op.time_ns, op.workspace, op.library = table.figures[op.signature]
            op.workspace = max(op.workspace, getattr(op.node.target, "least_workspace", 0))
            op.second = _slices.second_of(op, table)
            pair, first = _pairs.beside(op.node) or (None, None)
            if pair is not None:
                op.again_ns, op.after = int(pair.share * op.time_ns), joint.op_of_node[first]
            if op.state is not None:
                op.workspace += op.state.bytes  # a recomputation keeps the present state of the random numbers too
        elif op.kind == "rng":
            op.time_ns = 10_000
    if joint.device.type == "cuda":
        with real_tensors(), torch.random.fork_rng(devices=[joint.device.index or 0]):
            _see_places(joint)
    for op in joint.ops:
        if op.kind == "node" and _norms.is_first(op.node):  # it also does the work of the other half
            op.time_ns = max(op.time_ns - table.figures[signature_of(_norms.other_half(op.node))][0], 1)
        elif op.kind == "node" and joint.device.type == "cuda" and _fuse.is_free(op.node):
            op.time_ns = 1


def _see_places(joint):
    """Attention returns the state of its random numbers. Fake tensors of it are on the GPU, real ones on the host,
    unless a CUDA graph of an attention with dropout is recorded."""
    def places_of(op):
        arguments, keywords = operands_of(op.node)
        return [v.device.type if isinstance(v, torch.Tensor) else None
                for v in _torch.pytree.tree_leaves(op.node.target(*arguments, **keywords))]
    for op in joint.ops:
        if op.kind != "node" or torch.Tag.nondeterministic_seeded not in getattr(op.node.target, "tags", ()):
            continue
        if is_random(op.node) and not joint.random_again:
            continue
        if not any(s.slot is not None and s.like.dim() < 2 and not s.like.is_floating_point() for s in op.outs):
            continue
        places = joint.table.tried("places " + op.signature, lambda: places_of(op))
        for s in op.outs:
            if places is not None and places[s.slot] == "cpu":
                s.bytes = 0


def _made_bytes(results, operands, device, alignment):
    """The bytes that an op has made on the device, rounded as the allocator does."""
    given = {t.untyped_storage().data_ptr() for t in tensors_of(operands)}
    made = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors_of(results)
            if t.device.type == device.type}
    return sum(-(-size // alignment) * alignment for place, size in made.items() if place not in given)


def _planned_call(node, given):
    target, arguments, keywords = _load.as_planned(node.target, *given, {})
    return lambda: target(*arguments, **keywords)


def _measure_cpu(missing, table):
    for signature, node in missing.items():
        for diagonal in (False, True):  # until the op takes its operands
            try:
                _measure_one(table, signature, node, operands_of(node, diagonal))
                break
            except Exception as error:
                table.guess(signature, estimate(node), error)


def _measure_one(table, signature, node, given):
    call, results, device = lambda: node.target(*given[0], **given[1]), [], torch.device("cpu")
    peak = peak_of(lambda: results.append(call()), device)
    _compare(table, signature, node, results[0], given)
    workspace = peak - _made_bytes(planned_of(results[0], node.meta["val"]), given, device, 1)
    results.clear()
    table.set(signature, max(_time_cpu(_planned_call(node, given)), 1), max(workspace, 0))


def _measure_cuda(missing, table, device, alignment):
    """All runs are queued before the device is waited for. The ops with the largest operands come first, so that the
    allocator divides their memory for the others."""
    start = time.perf_counter()
    kept, queued = table.kept() if missing else {}, {}
    table.loading += time.perf_counter() - start
    for signature, node in sorted(missing.items(), key=lambda item: -_bytes_of(item[1])):
        for diagonal in (False, True):  # until the op takes its operands
            try:
                queued[signature] = _queue(table, signature, node, operands_of(node, diagonal), kept, device, alignment)
                break
            except Exception as error:
                _free_workspaces(device)
                table.guess(signature, estimate(node), error, CUBLASLT)
    torch.cuda.synchronize(device)
    for signature, (runs, workspace, library) in queued.items():
        table.set(signature, runs.time_ns(), workspace, library)
    torch.cuda.empty_cache()


def _queue(table, signature, node, given, kept, device, alignment):
    """Queue the runs of one op; returns them with its workspace and library."""
    call = lambda: node.target(*given[0], **given[1])
    start = time.perf_counter()
    call()  # the first run loads the kernel and allocates the library's workspace
    table.loading += time.perf_counter() - start
    kind = _Replays if table.recorded and isinstance(node.target, _slices.InSlices) else _Runs
    runs, results = kind(_planned_call(node, given)), []
    peak = peak_of(lambda: results.append(call()), device)
    workspace = max(peak - _made_bytes(planned_of(results[0], node.meta["val"]), given, device, alignment), 0)
    _compare(table, signature, node, results[0], given)
    results.clear()
    left = _free_workspaces(device)
    return runs, workspace, PLAIN if left == 0 else CUBLAS if left <= kept[CUBLAS] else CUBLASLT


def _free_workspaces(device):
    """Free what the libraries of matrix products keep; returns its bytes. Ops that are queued may still use it: the
    allocator gives it only to later ops of the same stream."""
    before = torch.cuda.memory_allocated(device)
    _torch.clear_cublas_workspaces()
    return before - torch.cuda.memory_allocated(device)


def library_workspaces(device):
    """What an op of each library keeps of the allocator's memory, in each thread that runs such an op. Its first run
    allocates it. An op of cuBLASLt keeps cuBLAS's workspace too."""
    kept = {PLAIN: 0, CUBLAS: 0, CUBLASLT: 0}
    if device.type == "cuda":
        with real_tensors():
            one = torch.ones(16, 16, device=device)
            _free_workspaces(device)
            torch.mm(one, one)
            kept[CUBLAS] = _free_workspaces(device)
            torch.addmm(one[0], one, one)
            kept[CUBLASLT] = max(_free_workspaces(device), kept[CUBLAS])
    return kept


def measure_link(table, device):
    """The speed of copies to pinned memory."""
    if table.link is None:
        table.set_link(*(_link_of(device, table.room()) if device.type == "cuda" else (10 * 10**9, 10_000)))
        table.save()
    return table.link


def _copied_bytes(room):
    """The sizes of the two copies that are measured: 1 and 64 MiB, or less if there is little room."""
    large = 1 << 26
    while room is not None and large > max(room, 1 << 16):
        large >>= 1
    return large >> 6, large


def _link_of(device, room):
    """Bytes per second and latency of a copy in a step, from a small and a large copy in each direction; the slower
    direction counts."""
    times, (small, large) = {}, _copied_bytes(room)
    with real_tensors():
        there = torch.empty(large, dtype=torch.uint8, device=device)
        host = torch.empty(large, dtype=torch.uint8, pin_memory=True)
        for size in (small, large):
            times[size] = max(_time_cuda(lambda: host[:size].copy_(there[:size], non_blocking=True), device),
                              _time_cuda(lambda: there[:size].copy_(host[:size], non_blocking=True), device))
    rate = (large - small) * 10**9 // max(times[large] - times[small], 1)
    return rate * IN_STEP // 100, max(times[small] - small * 10**9 // rate, 0)
