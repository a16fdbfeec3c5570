#!/usr/bin/env python3
"""Mode "compiled" against torch.compile: compiled.py [--device cuda] [--only NETWORKS] [--rows ROWS] [--limit SECONDS]
                                                    [--out FOLDER] [--resume] [--peaks LOG]
       compiled.py --summary LOG
       compiled.py --kernels FILE FILE
       compiled.py --gaps FILE FILE

Rows, one JSON line each as soon as it is known, all of one run; steps are recorded as CUDA graphs:

  graph           torch.compile
  checkpoint      torch.compile with every block checkpointed
  knob SHARE      torch.compile with activation_memory_budget
  cairn none      mode "compiled" without a budget; `cairn plain none` without an arena too
  cairn smallest  in the smallest budget
  cairn half      half way between `smallest` and `none`
  cairn half parked  in the same memory, where tensors may also be parked in the host's (offload=True)
  cairn same      in the memory of `checkpoint`
  cairn knob      in the memory of each `knob`
  cairn whole     `none` again with the loss at once, of language models
  cairn bits      how many gradients differ at ten budgets from those without one, with deterministic algorithms
  cold            the first step, of torch.compile and of Cairn, in empty caches of its own; nothing else runs meanwhile
  warm            the same in a process that finds in these caches everything; at the end

Every row runs in a process of its own, but those of Cairn of one network, which follow each other. A row with a budget may
take 2% more than that from PyTorch's allocator (`cap`); where it fails so, it is run again without (`cap` is then null).
First everything is compiled, at the same time. When the last step is, those of PyTorch are timed one after the other, while
Cairn waits with what it tries and measures on the GPU; then Cairn measures and times, under the same lock. So nobody times
while another compiles a step of PyTorch's or runs one. A row that fails says why, and the others go on. Memory is of
everything that is allocated, weights included.

A run may be made in parts: --resume takes what the log in FOLDER has, and the caches there, and runs the rest. --peaks takes
the memory of `checkpoint` and `knob` from the log of another run."""

import argparse
import contextlib
import fcntl
import gc
import hashlib
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = ("gpt", "llama", "resnet50", "vit")
KNOBS = ("0.5", "0.2")
PEERS = ("graph", "checkpoint", "knob")
OURS = ("cairn", "whole", "plain")
STARTS = ("cold", "warm")
PATIENCE = 200  # seconds after which whoever has compiled goes on, at most
CAP = 1.02  # of its budget a process may take
BUDGETS = 10  # at which bits are compared
MARK = "ROW "


def say(**figures):
    print(MARK + json.dumps(figures), flush=True)


_held = 0
_waited = 0.0  # seconds in which this process has waited for the GPU


@contextlib.contextmanager
def device_lock(args):
    """The GPU for this process alone: once everything is compiled, and for Cairn once PyTorch's own steps are timed."""
    global _held, _waited
    with contextlib.ExitStack() as stack:
        if not _held:
            start = time.perf_counter()
            if args.job in OURS:
                note(args, ready_name(args.network, args.job))
            wait_for(args, "go" if args.job in PEERS else "timed")
            file = stack.enter_context(open(os.path.join(args.out, "device.lock"), "w"))
            fcntl.flock(file, fcntl.LOCK_EX)
            _waited += time.perf_counter() - start
        _held += 1
        try:
            yield
        finally:
            _held -= 1


def note(args, name, text=""):
    """A file that another process waits for."""
    path = os.path.join(args.out, name)
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def wait_for(args, name, seconds=2 * PATIENCE):
    """The text of such a file, or None if it does not come in time."""
    until = time.time() + seconds
    while True:
        try:
            with open(os.path.join(args.out, name)) as file:
                return file.read()
        except OSError:
            if time.time() > until:
                return None
            time.sleep(0.1)


def ready_name(network, job, share=None):
    """Of the file that says that a process has compiled its step."""
    return f"ready.{network}.{job}{share or ''}"


# ---- what runs in a process of its own ----

def hash_of(torch, tensor):
    """Of the bits of a tensor; None for what is none."""
    if not isinstance(tensor, torch.Tensor):
        return None
    return hashlib.sha256(tensor.detach().reshape(-1).view(torch.uint8).cpu().numpy()).hexdigest()[:12]


class Bench:
    def __init__(self, args):
        import torch
        sys.path.insert(0, HERE)
        import large_models
        self.args, self.torch, self.cuda = args, torch, args.device == "cuda"
        self.large_models = large_models
        self.model, self.inputs = large_models.make(args.network, args.device, args.small)
        self.buffers = [b.clone() for b in self.model.buffers()]
        self.sync()
        self.before = torch.cuda.memory_allocated() if self.cuda else 0

    def sync(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def restore(self):
        self.model.zero_grad(set_to_none=True)
        with self.torch.no_grad():
            for b, old in zip(self.model.buffers(), self.buffers):
                b.copy_(old)

    def step(self, call):
        loss = call(*self.inputs)
        loss.backward()
        return loss.detach()

    def clean(self):
        """Nothing of other steps in memory, and peaks from here."""
        self.restore()
        gc.collect()
        self.sync()
        if self.cuda:
            self.torch._C._cuda_clearCublasWorkspaces()
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats()

    def memory(self):
        if not self.cuda:
            return {}
        stats = self.torch.cuda.memory_stats()
        return dict(allocated=self.torch.cuda.max_memory_allocated(), reserved=self.torch.cuda.max_memory_reserved(),
                    requested=stats["requested_bytes.all.peak"])

    def milliseconds(self, run, runs=17, tries=3):
        """The median of several runs; the lowest of several medians where runs differ much, because others compile."""
        found = []
        with device_lock(self.args):
            for _ in range(tries):
                for _ in range(3):
                    run()
                self.sync()
                times = sorted(self._once(run) for _ in range(runs))
                found.append(times[runs // 2])
                if times[runs // 2] < 1.01 * times[runs // 8]:
                    break
        return round(min(found), 3)

    def queued(self, run, runs=8, tries=2):
        """Milliseconds of a step when steps follow each other and nobody waits for each, as in training."""
        with device_lock(self.args):
            return round(min(self._once(lambda: [run() for _ in range(runs)]) for _ in range(tries)) / runs, 3)

    def _once(self, run):
        start = time.perf_counter()
        run()
        self.sync()
        return 1e3 * (time.perf_counter() - start)

    def profile(self, run, name):
        """The kernels of a step with their number and microseconds, the longest first, in a file; and one step as it ran, in
        another: when each began and how long it took, in nanoseconds."""
        if not (self.args.profile and self.cuda):
            return
        runs = 3
        with self.torch.profiler.profile(activities=[self.torch.profiler.ProfilerActivity.CUDA]) as found:
            for _ in range(runs):
                run()
            self.sync()
        rows = [(e.key, e.count / runs, round(e.self_device_time_total / runs, 1)) for e in found.key_averages()]
        where = f"{self.args.network}.{name.replace(' ', '-')}.json"
        with open(os.path.join(self.args.out, "profile." + where), "w") as file:
            json.dump(sorted(rows, key=lambda row: -row[2]), file, indent=0)
        trace = sorted((e.start_ns(), e.duration_ns(), e.name()) for e in found.profiler.kineto_results.events()
                       if e.duration_ns() > 0 and "CUDA" in str(e.device_type()))
        with open(os.path.join(self.args.out, "trace." + where), "w") as file:
            json.dump([(start - trace[0][0], length, what) for start, length, what in trace[-(len(trace) // runs):]], file)

    def bits(self, call):
        """A hash of the loss and one of every gradient."""
        self.restore()
        loss = self.step(call)
        found = [hash_of(self.torch, t) for t in [loss] + [p.grad for p in self.model.parameters()]]
        self.restore()
        return found

    def first(self, call):
        """Seconds of the first step, in which everything is captured and compiled, but not of waiting for the GPU."""
        before, start = _waited, time.perf_counter()
        self.step(call)
        self.sync()
        return round(time.perf_counter() - start - (_waited - before), 2)

    def recorded(self, call):
        """torch.compile's step as a CUDA graph."""
        torch = self.torch
        if not self.cuda:
            return lambda: self.step(call)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(call)
                self.model.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(side)
        self.clean()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            self.step(call)
        return graph.replay


def peer(args):
    """torch.compile as it is, with checkpoints, or with PyTorch's knob."""
    bench = Bench(args)
    torch = bench.torch
    if args.job == "checkpoint":
        from torch.utils.checkpoint import checkpoint
        for block in bench.large_models.blocks_of(bench.model):
            inner = block.forward
            block.forward = lambda *a, inner=inner: checkpoint(inner, *a, use_reentrant=False)
    if args.job == "knob":
        import torch._functorch.config
        torch._functorch.config.activation_memory_budget = float(args.share)
    call = torch.compile(bench.model, fullgraph=True, dynamic=False)
    first = bench.first(call)
    bench.clean()
    note(args, ready_name(args.network, args.job, args.share))
    with device_lock(args):
        run = bench.recorded(call)
        bench.sync()
        memory = bench.memory()
        say(network=args.network, row=args.job, **(dict(share=args.share) if args.share else {}),
            ms=bench.milliseconds(run), queued_ms=bench.queued(run), **memory, before=bench.before, first_s=first)
        bench.profile(run, args.job)


def cairn_alone(args, row=None):
    """Cairn, which measures ops while it has the GPU alone. From its first choice of a form on, when most is compiled, it
    keeps the GPU as long as `row`, an ExitStack, is open: it also tries ops, and runs steps."""
    import cairn
    from cairn import _compiled, _costs
    learn, choose = _costs.learn, _compiled.choose_forms

    def alone(*given):
        with device_lock(args):
            return learn(*given)

    def choose_alone(*given):
        if row is not None:
            row.enter_context(device_lock(args))
        return choose(*given)
    _costs.learn, _compiled.choose_forms = alone, choose_alone
    return cairn


def cairn_rows(args):
    """Cairn's steps of one network: without a budget, what it is made of, and in its budgets, as far as they are wanted."""
    bench, row = Bench(args), contextlib.ExitStack()
    points = Points(bench, args, cairn_alone(args, row), row)
    about = json.loads(wait_for(args, f"about.{args.network}", 0) or "null")
    if about is None or args.job != "cairn":
        points.run("cairn none", None)
        if points.planner is None or args.job != "cairn":
            return
        about = points.about()
    else:
        points.expected = json.loads(wait_for(args, f"bits.{args.network}", 0) or "null")
    for name, budget in points.budgets(about["none"], about["smallest"]):
        points.run(name, budget)


class Replays:
    """One captured step of Cairn's under many plans: both graphs are written again for each, and get what they got first."""

    def __init__(self, bench, cairn):
        from cairn import _arena, _write
        self._write, self._writer = _write.boxed, _arena.ArenaWriter
        self.backend = cairn.backend(None, mode="compiled", arena=True)
        self._given, self._bench = {}, bench
        self.backend._compile_forward = self._keeping("forward", self.backend._compile_forward)
        self.backend._compile_backward = self._keeping("backward", self.backend._compile_backward)
        call = bench.torch.compile(bench.model, backend=self.backend, fullgraph=True, dynamic=False)
        bench.step(call)
        bench.restore()
        self.planner = self.backend.planners[0]

    def _keeping(self, part, compile_part):
        def compiled(gm, inputs):
            call = compile_part(gm, inputs)

            def run(arguments):
                gradients = len(self.backend.planners[0].joint.tangents)
                self._given.setdefault(part, arguments[-gradients:] if part == "backward" else list(arguments))
                return call(arguments)
            run._boxed_call = True
            return run
        return compiled

    def bits(self, plan):
        """A hash of every result of a step."""
        joint, results = self.planner.joint, len(self.planner.joint.fwd_out)
        forward, backward = map(self._write, self._writer(joint, plan).graphs())
        torch = self._bench.torch
        with torch.no_grad():
            made = list(forward(list(self._given["forward"])))
            found, arguments = [hash_of(torch, t) for t in made[:results]], made[results:] + self._given["backward"]
            del made
            found += [hash_of(torch, t) for t in backward(arguments)]
        self._bench.restore()
        return found


def bits_of_budgets(args):
    """Steps at budgets from the smallest to no limit, whose attention repeats its bits."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    bench = Bench(args)
    bench.torch.use_deterministic_algorithms(True)
    steps = Replays(bench, cairn_alone(args))
    planner = steps.planner
    expected, most, least = steps.bits(planner.none()), planner.enough(), planner.smallest()[0]
    for i in range(BUDGETS):
        plan = planner.within(least + (most - least) * i // BUDGETS)
        found = steps.bits(plan)
        say(network=args.network, row="cairn bits", point=str(i), budget=plan.budget + planner.reserve, reruns=plan.reruns,
            differing=sum(a != b for a, b in zip(found, expected)), of=sum(h is not None for h in found))


def first_step(args):
    """The first step of a process, of torch.compile or of Cairn, with as many compilers as PyTorch starts by itself. All such
    processes make their models at the same time; then they are alone one after the other."""
    folder = os.path.join(args.out, f"start.{args.network}.{args.point}")
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=os.path.join(folder, "triton"),
                      CAIRN_CACHE=os.path.join(folder, "cairn"))
    os.environ.pop("TORCHINDUCTOR_COMPILE_THREADS", None)
    bench, backend = Bench(args), "inductor"
    if args.point == "cairn":
        import cairn
        backend = cairn.backend(None, mode="compiled", cudagraphs=True, arena=True, total=bench.cuda)
    call = bench.torch.compile(bench.model, backend=backend, fullgraph=True, dynamic=False)
    note(args, ready_name(args.network, args.job, args.point))
    wait_for(args, f"all.{args.job}")
    lock = os.open(os.path.join(args.out, "device.lock"), os.O_WRONLY | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)  # until the process has ended: compilers that it has started end before that
    first = bench.first(call)
    seconds = backend.plans[0].seconds if args.point == "cairn" else {}
    say(network=args.network, row=f"{args.job} {args.point}", first_s=first,
        **(dict(seconds={k: round(v, 2) for k, v in seconds.items()}) if seconds else {}))


def largest_beside(plan):
    """What is beside the arena when most is there: the op that runs, and bytes of results and workspaces with their ops."""
    layout, steps, ops = plan.layout, plan.steps, plan.joint.ops
    name = lambda i: str(getattr(ops[steps[i][1]].node, "name", ops[steps[i][1]].kind)) if steps[i][0] == 0 else "move"
    fullest = max(range(len(steps)), key=layout.beside_by_step.__getitem__)
    found = [(layout.workspace[fullest], "workspace")]
    found += [(size, name(first)) for size, first, last in layout.others if first <= fullest <= last]
    return [name(fullest), *sorted(found, reverse=True)[:6]]


class Points:
    def __init__(self, bench, args, cairn, row):
        self.bench, self.args, self.cairn, self._row = bench, args, cairn, row
        self.planner = self.none = self.expected = None

    def run(self, name, budget):
        """With an arena and a cap; where that fails, without the cap, or without a budget without the arena."""
        name = name.replace("cairn", "cairn whole") if self.args.chunks else name
        name = name.replace("cairn", "cairn plain") if self.args.job == "plain" else name
        ways = ((True, True), (True, False)) if budget else ((self.args.job != "plain", False), (False, False))
        for arena, capped in ways:
            cap = None
            try:
                with self._row:
                    cap = self._cap(budget if capped else None)
                    self._run(name, budget, arena, cap)
                break
            except Exception as error:  # one point must not take the others with it
                import traceback
                traceback.print_exc()
                say(network=self.args.network, row=name, budget=budget, arena=arena, cap=cap,
                    failed=f"{type(error).__name__}: {error}"[:400])

    def _extra(self):
        """What is left of the points before."""
        self.bench.torch._dynamo.reset()
        self.bench.clean()
        return self.bench.torch.cuda.memory_allocated() - self.bench.before if self.bench.cuda else 0

    def _cap(self, budget):
        """Let PyTorch take 2% more than a budget from now on, or all that there is."""
        torch, cap = self.bench.torch, None if budget is None else int(CAP * (budget + self._extra()))
        if self.bench.cuda:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(1.0 if cap is None else cap / total)
        return cap

    def _run(self, name, budget, arena, cap):
        bench, torch, extra = self.bench, self.bench.torch, self._extra()
        backend = self.cairn.backend(None if budget is None else budget + extra, mode="compiled", cudagraphs=True, arena=arena,
                                     total=bench.cuda, chunks=self.args.chunks, offload=bench.cuda and "parked" in name)
        call = torch.compile(bench.model, backend=backend, fullgraph=True, dynamic=False)
        first = bench.first(call)
        bits = bench.bits(call)
        plan = backend.plans[0]
        if budget is None:
            self.expected, self.none, self.planner = bits, plan, backend.planners[0]
        with device_lock(self.args):
            bench.clean()
            replay = self.cairn.record(bench.model, call, bench.inputs)
            bench.sync()
            memory = bench.memory()
            milliseconds = bench.milliseconds(lambda: replay(*bench.inputs))
            queued = bench.queued(lambda: replay(*bench.inputs))
            bench.profile(lambda: replay(*bench.inputs), name)
        differing = None if self.expected is None else sum(a != b for a, b in zip(bits, self.expected))
        if arena:
            memory.update(arena=plan.layout.bytes, beside=plan.layout.beside, live=max(plan.step_bytes),
                          largest_beside=largest_beside(plan))
        say(network=self.args.network, row=name, budget=budget, cap=cap, ms=milliseconds, queued_ms=queued, **memory,
            predicted=plan.peak + plan.reserve + bench.before + extra, predicted_ms=round(plan.time_ns / 1e6, 3), gap=plan.gap,
            bound_ms=round((plan.bound_ns or 0) / 1e6, 3), reruns=plan.reruns,
            offloads=plan.offloads, extra=extra, differing=differing, of=len(bits),
            bits=hashlib.sha256("".join(bits).encode()).hexdigest()[:12], first_s=first,
            seconds={k: round(v, 2) for k, v in plan.seconds.items()})
        if hasattr(replay, "graph"):
            replay.graph.reset()
        del replay, call, backend
        bench.restore()

    def beside(self):
        return self.planner.reserve + self.bench.before

    def about(self):
        """What the step is made of: a row, which is returned. The step itself goes to a file, to look at without a GPU."""
        from cairn import _pairs
        ops, planner = self.planner.joint.ops, self.planner
        top = {}
        for op in ops:
            if op.kind == "node":
                entry = top.setdefault(str(op.node.target), [0, 0, 0])
                entry[0] += op.time_ns
                entry[1] += 1
                entry[2] = max(entry[2], op.workspace)
        slow = sorted(top.items(), key=lambda item: -item[1][0])[:24]
        row = dict(ops=len(ops), none=self.none.peak + self.beside(),
                   smallest=planner.smallest()[0] + self.beside(), set_by=planner.smallest()[1],
                   least=planner.step.least_memory() + self.beside(), reserve=planner.reserve, before=self.bench.before,
                   slow=[(name, round(ns / 1e6, 3), count, space >> 20) for name, (ns, count, space) in slow])
        note(self.args, f"bits.{self.args.network}", json.dumps(self.expected))
        note(self.args, f"about.{self.args.network}", json.dumps(row))
        say(network=self.args.network, row="about", **row)
        kernels = {op.node.target: True for op in ops if op.kind == "node" and hasattr(op.node.target, "forms")}
        say(network=self.args.network, row="forms",
            forms={str(k): {name: round(ns / 1e3, 1) for name, ns in k.times.items()} for k in kernels if k.times},
            again={op.name: (round(op.time_ns / 1e3, 1), round(op.again_ns / 1e3, 1)) for op in ops if op.again_ns is not None},
            pairs=[(pair.__name__, getattr(pair.form, "name", None), {f: round(t / 1e3, 1) for f, t in pair.times.items()})
                   for pair in _pairs._pairs.values() if pair.times])
        with open(os.path.join(self.args.out, f"step.{self.args.network}.json"), "w") as file:
            json.dump(planner.joint.described(planner.alignment), file)
        with open(os.path.join(self.args.out, f"kernels.{self.args.network}.txt"), "w") as file:
            for op in {op.node.target: op for op in ops if op.kind == "node" and hasattr(op.node.target, "graph")}.values():
                time, count, _ = top[str(op.node.target)]
                print(op.node.target, count, "times", time // count, "ns", op.node.target.graph, file=file)
        return row

    def budgets(self, most, least):
        """The points that are wanted, those last that wait for another process."""
        def peak_of(job):
            return int(wait_for(self.args, f"peak.{self.args.network}.{job}", PATIENCE) or 0)
        points = {**dict.fromkeys(("half", "half parked"), lambda: (most + least) // 2),
                  "same": lambda: peak_of("checkpoint") if self.bench.cuda else (most + 2 * least) // 3,
                  **{f"knob {share}": lambda share=share: peak_of(f"knob{share}") for share in KNOBS},
                  "smallest": lambda: least}
        for name in self.args.points.split(","):
            budget = points[name]() if name in points else 0
            if budget:
                yield f"cairn {name}", budget


# ---- the run ----

class Run:
    def __init__(self, args):
        self.args, self.end = args, time.time() + args.limit
        self.begun, self.log = time.time(), os.path.join(args.out, "compiled.jsonl")
        self.rows = []
        self.wanted = args.rows.split(",") if args.rows else None
        for name in os.listdir(args.out):  # of a run before
            if name in ("go", "timed") or name.startswith(("ready.", "peak.", "all.") + (() if args.resume else ("about.", "bits."))):
                os.remove(os.path.join(args.out, name))
        for path in ([args.peaks] if args.peaks else []) + [self.log] * args.resume:
            self.rows += self._read(path)
        self.todo = self.jobs()
        for network in NETWORKS:
            for name, share in [("checkpoint", None), *(("knob", share) for share in KNOBS)]:
                running = any((o["job"], o["network"], o.get("share")) == (name, network, share) for o in self.todo)
                if not running:  # nobody need wait for it
                    self.tell(self.find(network, name, share) or dict(network=network, row=name, share=share))

    def tell(self, row):
        """Tell the memory of one of PyTorch's steps to Cairn's processes; 0 if there is none."""
        note(self.args, f"peak.{row['network']}.{row['row']}{row.get('share') or ''}", str(row.get("allocated", 0)))

    def _read(self, path):
        """The rows of a log that count: of another run only those of peers, whose memory is the same."""
        if not os.path.exists(path):
            return []
        with open(path) as file:
            rows = [row for row in map(json.loads, file) if "failed" not in row]
        if path == self.log:
            return rows
        return [dict(row, other=True) for row in rows if row["row"] in ("checkpoint", "knob")]

    def hear(self, line):
        row = dict(json.loads(line[len(MARK):]), at=round(time.time() - self.begun))
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        with open(self.log, "a") as file:
            file.write(json.dumps(row) + "\n")
        if row["row"] in ("checkpoint", "knob"):
            self.tell(row)

    def start(self, options):
        name = "-".join(value for key, value in options.items() if key != "points")
        command = [sys.executable, "-u", os.path.abspath(__file__), "--device", self.args.device, "--out", self.args.out]
        command += ["--small"] * self.args.small + ["--profile"] * self.args.profile
        for key, value in options.items():
            command += [f"--{key}", value]
        errors = open(os.path.join(self.args.out, f"err.{name}.txt"), "w+")
        output = open(os.path.join(self.args.out, f"out.{name}.txt"), "w+")
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        return dict(options=options, process=process, output=output, errors=errors, seen=0)

    def listen(self, job):
        """Pass on the rows that a process has written; whether it has ended."""
        ended = job["process"].poll() is not None
        job["output"].seek(job["seen"])
        text = job["output"].read()
        whole = text.rfind("\n") + 1
        job["seen"] += len(text[:whole].encode())
        for line in text[:whole].splitlines():
            if line.startswith(MARK):
                self.hear(line)
        return ended

    def failed(self, job, why):
        options = job["options"]
        row = dict(network=options["network"], row=options["job"], failed=why, **{k: options[k] for k in ("share", "point", "chunks") if k in options})
        self.hear(MARK + json.dumps(row))

    def close(self, job):
        job["errors"].seek(0)
        lines = [line for line in job["errors"].read().splitlines() if line.strip()]
        if job["process"].returncode != 0:
            self.failed(job, ([line for line in lines if "Error" in line] or lines or ["?"])[-1][:300])

    # ---- what is to be run ----

    def jobs(self):
        names = [n for n in NETWORKS if not self.args.only or n in self.args.only.split(",")]
        todo = [dict(job="knob", network=n, share=share) for n in names for share in KNOBS]
        todo += [dict(job=job, network=n) for n in names for job in ("checkpoint", "graph")]
        todo += [dict(job="cairn", network=n, points=",".join(self.points_of(n)) or "-") for n in names]
        todo += [dict(job="whole", network=n, chunks="1") for n in names if n in ("gpt", "llama")]
        todo += [dict(job="bits", network=n) for n in names]
        todo += [dict(job="plain", network=n) for n in names]
        todo += [dict(job=job, network=n, point=point) for job in STARTS for n in names for point in ("graph", "cairn")]
        return [o for o in todo if (not self.wanted or o["job"] in self.wanted) and not self.is_done(o)]

    def find(self, network, name, share=None):
        """A row of this run, or of the log that it resumes; of PyTorch's own steps also of another log."""
        mine = [r for r in self.rows if (r["network"], r["row"], r.get("share")) == (network, name, share) and "failed" not in r]
        return mine[-1] if mine else None

    def is_done(self, options):
        """Whether the log that is resumed has the rows of a process."""
        if options["job"] == "bits":
            return len([r for r in self.rows if (r["network"], r["row"]) == (options["network"], "cairn bits")]) >= BUDGETS
        name = {"cairn": "about", "whole": "cairn whole none", "plain": "cairn plain none"}.get(options["job"], options["job"])
        if options["job"] in STARTS:
            name += " " + options["point"]
        row = self.find(options["network"], name, options.get("share"))
        return row is not None and "other" not in row and options.get("points", "-") == "-"

    def points_of(self, network):
        """The points of a network that are wanted and not in the log."""
        names = ["half", "half parked", "same", *(f"knob {share}" for share in KNOBS), "smallest"]
        return [name for name in names if name.split()[0] in (self.args.points or name.split()[0]).split(",")
                and self.find(network, f"cairn {name}") is None]

    # ---- running it ----

    @staticmethod
    def may_start(options, running, waiting):
        """Bits are compared when no step is timed any more. First steps are timed when nothing else runs, cold ones before
        warm ones."""
        others = waiting + [job["options"] for job in running]
        if options["job"] in STARTS:
            return all(other["job"] in STARTS[STARTS.index(options["job"]):] for other in others)
        return options["job"] != "bits" or not any(other["job"] in PEERS + OURS for other in others)

    def compiled(self, job):
        options = job["options"]
        name = ready_name(options["network"], options["job"], options.get("share") or options.get("point"))
        return options["job"] not in PEERS + OURS + STARTS or os.path.exists(os.path.join(self.args.out, name))

    def go(self):
        todo, running, gone, timed = self.todo, [], False, False
        while (todo or running) and time.time() < self.end:
            for options in list(todo):
                if len(running) < self.args.at_once and self.may_start(options, running, todo):
                    todo.remove(options)
                    running.append(self.start(options))
            late = any(o["job"] in PEERS for o in todo) or not all(map(self.compiled, running))
            if not gone and (not late or time.time() > self.begun + min(PATIENCE, 0.4 * self.args.limit)):
                note(self.args, "go")
                gone = True
            for kind in STARTS:
                mine = [job for job in running if job["options"]["job"] == kind]
                if mine and all(map(self.compiled, mine)) and not any(o["job"] == kind for o in todo):
                    note(self.args, f"all.{kind}")
            for job in list(running):
                if self.listen(job):
                    running.remove(job)
                    self.close(job)
            if gone and not timed and not any(o["job"] in PEERS for o in todo + [job["options"] for job in running]):
                note(self.args, "timed")
                timed = True
            time.sleep(0.1)
        for job in running:
            job["process"].kill()
            job["process"].wait()
            self.listen(job)
            self.failed(job, "not ended in time")
        for options in todo:
            self.failed(dict(options=options), "not begun in time")


def summary(path):
    """A table of a log: every step beside the memory that it needs, what the allocator keeps of it, the time that was
    predicted, and the certificate: no plan is faster than so many times the step without a budget."""
    with open(path) as file:
        rows = [row for row in map(json.loads, file) if "ms" in row]
    for network in NETWORKS:
        mine = [row for row in rows if row["network"] == network]
        none = next((row["bound_ms"] for row in mine if row["row"] == "cairn none"), 0)
        print(f"{network:28}{'ms':>8}{'queued':>8}{'MiB':>8}{'reserved':>10}{'predicted ms':>14}{'at least':>10}")
        for row in sorted(mine, key=lambda row: (-row["allocated"], row["row"])):
            text = f"  {row['row'] + ' ' + row.get('share', ''):26}{row['ms']:8.1f}{row.get('queued_ms', 0):8.1f}"
            text += f"{row['allocated'] / 2**20:8.0f}"
            text += f"{row['reserved'] / row['allocated']:10.3f}"
            if "predicted_ms" in row:
                text += f"{row['predicted_ms']:14.1f}"
            if row.get("bound_ms") and none and "whole" not in row["row"]:
                text += f"{row['bound_ms'] / none:10.3f}"
            print(text)


def gaps(paths, most=25):
    """The time of traced steps in which nothing ran, by what ran before and after."""
    for path in paths:
        with open(path) as file:
            trace = json.load(file)
        found, end, before = {}, trace[0][0], "start"
        for start, length, name in trace:
            entry = found.setdefault((before[:48], name[:48]), [0, 0])
            entry[0], entry[1] = entry[0] + 1, entry[1] + max(start - end, 0) / 1e3
            end, before = max(end, start + length), name
        busy = sum(length for _, length, _ in trace) / 1e3
        print(f"{os.path.basename(path)}: {len(trace)} launches, {(end - trace[0][0]) / 1e3:.0f} us, kernels {busy:.0f}, "
              f"between them {sum(t for _, t in found.values()):.0f}")
        for (one, other), (count, time_us) in sorted(found.items(), key=lambda item: -item[1][1])[:most]:
            print(f"  {time_us:9.1f} us {count:6} times {time_us / count:7.2f} each  {one} | {other}")


def compare_kernels(paths, most=40):
    """The longest kernels of steps that were profiled, with their number and microseconds, one step after the other."""
    for path in paths:
        with open(path) as file:
            rows = json.load(file)
        print(f"{os.path.basename(path)}: {sum(n for _, n, _ in rows):.0f} kernels, {sum(t for _, _, t in rows):.0f} us")
        for name, count, time_us in rows[:most]:
            print(f"  {time_us:9.1f} us {count:6.1f} times {time_us / max(count, 1e-9):8.1f} each  {name[:100]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", default="compiled-bench", help="the folder of the log and of what processes say")
    parser.add_argument("--summary", metavar="LOG", help="print a table of a log, and run nothing")
    parser.add_argument("--kernels", metavar="FILE", nargs="+", help="print the longest kernels of files of --profile")
    parser.add_argument("--gaps", metavar="FILE", nargs="+", help="print where nothing runs in steps of --profile")
    parser.add_argument("--only", default="", help="networks, separated by commas")
    parser.add_argument("--rows", default="", help="cairn,whole,cold,warm,bits,plain,checkpoint,graph,knob; all")
    parser.add_argument("--limit", type=float, default=560, help="seconds after which what runs is ended")
    parser.add_argument("--at-once", type=int, default=20, help="processes; all of PyTorch's own steps must be among them")
    parser.add_argument("--points", default="", help="those of smallest,same,half,knob that are wanted in rows cairn; all")
    parser.add_argument("--resume", action="store_true", help="leave out the rows that the log in --out has")
    parser.add_argument("--peaks", metavar="LOG", help="a log with the memory of rows checkpoint and knob that are not run")
    parser.add_argument("--profile", action="store_true", help="write the kernels of every step with their times to files")
    parser.add_argument("--small", action="store_true", help="small networks, to try the bench itself")
    for name, kind in (("job", str), ("network", str), ("share", str), ("point", str)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--chunks", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.summary:
        return summary(args.summary)
    if args.kernels:
        return compare_kernels(args.kernels)
    if args.gaps:
        return gaps(args.gaps)
    os.makedirs(args.out, exist_ok=True)
    args.out = os.path.abspath(args.out)
    os.environ.setdefault("CAIRN_CACHE", os.path.join(args.out, "cache"))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(args.out, "inductor"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    if args.job:
        return {"cairn": cairn_rows, "plain": cairn_rows, "whole": cairn_rows, "bits": bits_of_budgets,
                "cold": first_step, "warm": first_step}.get(args.job, peer)(args)
    return Run(args).go()


if __name__ == "__main__":
    main()
