#!/usr/bin/env python3
"""Cairn's budget against PyTorch's: budget.py [--device cpu|cuda] [--log FILE] [--part PARTS]
[--only NETWORKS].

Three parts, one JSON line per figure, all in one run:

  front       On every network: how long capturing the step takes (Dynamo and AOTAutograd), measuring its ops where nothing
              is known of them, and planning it for 80% of its memory. Kernels that the first step would load are loaded
              while measuring; this time is counted apart.
  partition   On every network: the peak that activation_memory_budget = 0.5, 0.3, 0.1 really reaches and what it repeats,
              and Cairn's plan at that same peak; then Cairn at half of the lowest of these peaks, on a GPU with offloading
              if it does not fit without. Where no plan fits, `least` is a budget below which none can, by proof.
              Batch norms keep no running statistics here, as PyTorch's partitioner fails on steps that move them.
  step        On a CUDA device: times and peaks of whole training steps. ResNet-50 (batch 64) eager and with Cairn in half
              of eager's memory; a GPT of 24 x 1024 (batch 8, 1024 tokens, bf16) eager, with block checkpointing, and with
              Cairn in 5,132 MiB and at the memory of checkpointing. Cairn's steps are recorded as CUDA graphs, and are run again in a
              process that may take 2% more than the budget.

Peaks are the allocator's. Every measurement runs in a process of its own."""

import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MARK = "RESULT "


def emit(log, **figures):
    line = json.dumps(figures)
    print(line, flush=True)
    if log:
        with open(log, "a") as file:
            file.write(line + "\n")


def commit_of_package():
    """The commit from which the wheel was made that is measured here."""
    import cairn
    try:
        with open(os.path.join(os.path.dirname(cairn.__file__), "COMMIT")) as file:
            return file.read().strip()
    except OSError:
        return "not from a wheel"


# ---- what runs in a process of its own ----

def setup(device):
    import torch
    sys.path.insert(0, os.path.join(ROOT, "tests", "pytorch"))
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    return torch


def network(torch, name, device):
    """Networks of the tests, larger on a GPU."""
    import small_models as n
    torch.manual_seed(0)
    big = device == "cuda"
    images = lambda batch, size: (torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,)))
    words = lambda batch, length, count: tuple(torch.randint(0, count, (batch, length)) for _ in range(2))
    made = {
        "resnet18": lambda: (n.ResNet(n.Basic, (2, 2, 2, 2), width=64 if big else 16), images(64 if big else 8, 224 if big else 96)),
        "resnet50": lambda: (n.ResNet(n.Bottleneck, (3, 4, 6, 3), 1000 if big else 10, width=64 if big else 8),
                             images(64 if big else 8, 224 if big else 96)),
        "unet": lambda: (n.UNet(64 if big else 16), (torch.randn(8 if big else 4, 3, 128 if big else 64, 128 if big else 64),
                                                     torch.randint(0, 4, (8 if big else 4, 128 if big else 64, 128 if big else 64)))),
        "densenet": lambda: (n.DenseNet((6, 12, 24) if big else (3, 4, 3), 32 if big else 8), images(32 if big else 8, 64 if big else 32)),
        "gpt": lambda: (n.GPT(8192, 512, 768, 12, 12, 0.0) if big else n.GPT(1024, 128, 128, 6, 4, 0.0),
                        words(8, 512, 8192) if big else words(4, 128, 1024)),
        "vit": lambda: (n.ViT(224, 16, 768, 12, 12) if big else n.ViT(32, 4, 128, 6, 4), images(32, 224 if big else 32)),
        "llama": lambda: (n.Llama(8192, 768, 12, 12, 512) if big else n.Llama(512, 128, 6, 4, 128),
                          words(8, 512, 8192) if big else words(8, 128, 512)),
        "gpt24": lambda: (n.GPT(50304, 1024, 1024, 24, 16, 0.0), words(8, 1024, 50304)),
    }
    model, inputs = made[name]()
    return model.to(device), tuple(x.to(device) for x in inputs)


def without_statistics(torch, model):
    """Batch norms that keep no running statistics: PyTorch's partitioner fails on steps that move them."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return model


def peak_of(torch, device, call):
    from cairn._peak import peak_of
    return peak_of(call, torch.device(device))


def step_of(model, call, inputs):
    def step():
        call(*inputs).backward()
        model.zero_grad(set_to_none=True)
    return step


def milliseconds(torch, device, step, runs):
    if device == "cuda":
        torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def graph_ns(torch, graphs, table):
    """The time of all ops of FX graphs by the table of costs; views, which are not in it, take none."""
    from cairn import _costs
    total = 0
    for gm in graphs:
        for node in gm.graph.nodes:
            values = [v for v in torch.utils._pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
            if node.op == "call_function" and values:
                total += table.figures.get(_costs.signature_of(node), (0,))[0]
    return total


def rival(args):
    """PyTorch's own knob on the same graph of ATen ops, run by the same executor."""
    torch = setup(args.device)
    from cairn import _costs
    from cairn._joint import device_of
    from cairn._plan import alignment_of
    from cairn._write import boxed
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    model, inputs = network(torch, args.network, args.device)
    without_statistics(torch, model)
    times = {}

    def partition(gm, joint_inputs, *, num_fwd_outputs, **keywords):
        from torch._functorch.compile_utils import fx_graph_cse
        gm.graph.eliminate_dead_code()
        gm.graph = fx_graph_cse(gm.graph)
        device = device_of(gm)
        table = _costs.Table(_costs.default_file(device), device)
        _costs.learn(gm, table, device, alignment_of(device))
        times["once_ns"] = graph_ns(torch, [gm], table)
        graphs = min_cut_rematerialization_partition(gm, joint_inputs, num_fwd_outputs=num_fwd_outputs, **keywords)
        times["repeated_ns"] = graph_ns(torch, graphs, table) - times["once_ns"]
        return graphs
    torch._functorch.config.activation_memory_budget = args.share
    backend = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, partition_fn=partition)
    call = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
    step = step_of(model, call, inputs)
    for _ in range(2):
        step()
    peak = peak_of(torch, args.device, lambda: call(*inputs).backward())
    model.zero_grad(set_to_none=True)
    return dict(peak=peak, **times, ms=milliseconds(torch, args.device, step, 5))


def planned(args):
    """Cairn at a budget in bytes."""
    torch = setup(args.device)
    import cairn
    model, inputs = network(torch, args.network, args.device)
    without_statistics(torch, model)
    from cairn import _backend
    offload = bool(args.offload)
    planner = _backend.planner_of(model, inputs, _backend.Options(offload=offload))
    budget = args.bytes + planner.reserve  # what libraries keep is there before the step that is measured
    backend = cairn.backend(budget, offload=offload)
    try:
        call = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
        step = step_of(model, call, inputs)
        for _ in range(2):
            step()
    except cairn.BudgetError as error:
        largest = max(planner.joint.ops, key=lambda op: bytes_at(planner, op))
        least = planner.step.least_memory(planner.machine, offload)
        return dict(refused=str(error).splitlines()[0], smallest=error.smallest, least=least, largest_op=largest.name,
                    largest_op_bytes=bytes_at(planner, largest))
    plan = backend.plans[0]
    peak = peak_of(torch, args.device, lambda: call(*inputs).backward())
    model.zero_grad(set_to_none=True)
    return dict(peak=peak, predicted=plan.peak, repeated_ns=plan.rerun_ns, once_ns=sum(op.time_ns for op in plan.joint.ops),
                gap=plan.gap, offloads=plan.offloads, plan_s=plan.seconds["plan"], ms=milliseconds(torch, args.device, step, 5))


def bytes_at(planner, op):
    """What an op needs at once: operands that are not the caller's, results, workspace."""
    tensors = {s for s in (*op.reads, *op.outs) if s.op is not None}
    return sum(-(-s.bytes // planner.alignment) * planner.alignment for s in tensors) + planner.joint.workspace(op, planner.alignment)


def front(args):
    """Capture, measuring and planning, each once, with nothing known before. On a GPU the first run of an op loads its
    kernel and libraries; without Cairn the first step would do that, so it is counted apart. Seconds of the processor, as
    other work on the machine must not count."""
    torch = setup(args.device)
    import tempfile
    import types
    import cairn
    from cairn import _costs, _plan
    _plan.time = _costs.time = types.SimpleNamespace(perf_counter=time.process_time, perf_counter_ns=time.process_time_ns)
    model, inputs = network(torch, args.network, args.device)
    with tempfile.TemporaryDirectory() as folder:
        backend = cairn.backend("80%", costs=os.path.join(folder, "costs.json"))
        partition, clock = backend.partition, [time.process_time()]

        def noted(*given, **named):
            clock.append(time.process_time())
            return partition(*given, **named)
        backend.partition = noted
        torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(*inputs)
    plan = backend.plans[0]
    seconds, capture = plan.seconds, clock[1] - clock[0]
    return dict(ops=len(plan.joint.ops), capture_s=capture, load_s=seconds["load"], measure_s=seconds["measure"],
                plan_s=seconds["plan"], share=(seconds["measure"] + seconds["plan"]) / capture)


def whole_step(args):
    """On a GPU: eager, checkpointed or planned, total memory and time of a step."""
    torch = setup(args.device)
    import cairn
    from torch.utils.checkpoint import checkpoint
    model, inputs = network(torch, args.network, args.device)
    if args.network == "gpt24":
        model = model.to(torch.bfloat16)
    if args.how == "checkpoint":
        for block in model.blocks:
            inner = block.forward
            block.forward = lambda x, inner=inner: checkpoint(inner, x, use_reentrant=False)
    before = torch.cuda.memory_allocated()
    if args.cap:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(args.cap / total)
    figures = {}
    if args.how == "cairn":
        backend = cairn.backend(args.bytes, total=True, cudagraphs=True)
        call = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
        call(*inputs)  # plans, which measures ops
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step = cairn.record(model, call, inputs)
        replay = lambda: step(*inputs)
        plan = backend.plans[0]
        figures = dict(predicted=plan.peak + plan.reserve + before, repeated_ns=plan.rerun_ns, gap=plan.gap, plan_s=plan.seconds["plan"],
                       measure_s=plan.seconds["measure"], reserved=torch.cuda.max_memory_reserved())
        peak = torch.cuda.max_memory_allocated()
    else:
        replay = step_of(model, model, inputs)
        for _ in range(3):
            replay()
        torch.cuda.reset_peak_memory_stats()
        replay()
        peak = torch.cuda.max_memory_allocated()
    for _ in range(5):
        replay()
    if args.how == "cairn" and not args.cap:  # eager steps of the same process, in turns with Cairn's
        found = in_turns(torch, dict(ms=replay, eager_ms=step_of(model, model, inputs)))
    else:
        found = dict(ms=milliseconds(torch, args.device, replay, 20))
    return dict(peak=peak, before=before, **found, **figures)


def in_turns(torch, steps, rounds=5):
    """The median of several rounds of four steps each, so that a change of the clock meets all."""
    times = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name, step in steps.items():
            times[name].append(milliseconds(torch, "cuda", step, 4))
    return {name: sorted(found[1:])[rounds // 2] for name, found in times.items()}


# ---- the run ----

def measure(args, **options):
    """One measurement in a process of its own; what went wrong where it did not end well."""
    command = [sys.executable, os.path.abspath(__file__), "--device", args.device]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    environment = dict(os.environ)
    environment.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    for line in run.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK):])
    lines = [line for line in run.stderr.strip().splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return dict(failed=(errors or lines or ["?"])[-1][:300])


NETWORKS = ("resnet18", "resnet50", "unet", "densenet", "gpt", "vit", "llama")


def front_part(args, wanted):
    for name in NETWORKS:
        if not wanted or name in wanted:
            emit(args.log, part="front", network=name, **measure(args, job="front", network=name))


def partition_part(args, wanted):
    worse, impossible = [], []
    for name in NETWORKS:
        if wanted and name not in wanted:
            continue
        lowest = None
        for share in (0.5, 0.3, 0.1):
            theirs = measure(args, job="rival", network=name, share=share)
            emit(args.log, part="partition", network=name, who="torch", activation_memory_budget=share, **theirs)
            if "peak" not in theirs:
                continue
            lowest = min(lowest or theirs["peak"], theirs["peak"])
            ours = measure(args, job="planned", network=name, bytes=theirs["peak"])
            emit(args.log, part="partition", network=name, who="cairn", at=share, budget=theirs["peak"], **ours)
            if not (ours.get("peak", 1 << 62) <= theirs["peak"] and
                    (ours["repeated_ns"] < theirs["repeated_ns"] or ours["repeated_ns"] == 0)):
                worse.append(f"{name} at {share}")
        if lowest:
            half = measure(args, job="planned", network=name, bytes=lowest // 2)
            emit(args.log, part="partition", network=name, who="cairn", at="half of the lowest", budget=lowest // 2, **half)
            if "predicted" not in half and args.device == "cuda":
                half = measure(args, job="planned", network=name, bytes=lowest // 2, offload=1)
                emit(args.log, part="partition", network=name, who="cairn", at="half of the lowest, with offloading",
                     budget=lowest // 2, **half)
            if (half.get("least") or 0) > lowest // 2:
                impossible.append(f"{name} at half of {lowest}: no plan fits into less than {half['least']} bytes")
            elif "predicted" not in half:
                worse.append(f"{name} at half of {lowest}")
    emit(args.log, part="partition", not_reached=worse, impossible=impossible)


HALF_OF_RESNET = (5313 << 20) // 2  # of what a step of ResNet-50 adds in eager execution, on some machines a little more
CHECKPOINTED = 5132 << 20  # a fixed budget of the GPT, so that runs can be compared


def step_part(args):
    eager = measure(args, job="step", network="resnet50", how="eager")
    emit(args.log, part="step", network="resnet50", how="eager", **eager)
    if "peak" in eager:
        added = eager["peak"] - eager["before"]
        planned_step(args, "resnet50", eager["before"] + min(added // 2, HALF_OF_RESNET))
    for how in ("eager", "checkpoint"):
        found = measure(args, job="step", network="gpt24", how=how)
        emit(args.log, part="step", network="gpt24", how=how, **found)
    planned_step(args, "gpt24", CHECKPOINTED)
    if "peak" in found:
        planned_step(args, "gpt24", found["peak"], capped=False)


def planned_step(args, name, budget, capped=True):
    """Budgets are of everything that is allocated. In a process that may take 2% more the allocator may fail, as it needs
    room for what it cannot use in between; the step is then planned for less of the budget."""
    found = measure(args, job="step", network=name, how="cairn", bytes=budget)
    emit(args.log, part="step", network=name, how="cairn", budget=budget, **found)
    for share in (100, 96, 92, 88) if capped else ():
        found = measure(args, job="step", network=name, how="cairn", bytes=budget * share // 100, cap=int(1.02 * budget))
        emit(args.log, part="step", network=name, how="cairn, capped at the budget + 2%", budget=budget,
             planned_for=budget * share // 100, **found)
        if "peak" in found:
            break


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--log")
    parser.add_argument("--part", default="step,front,partition", help="parts, separated by commas; all")
    parser.add_argument("--only", default="", help="networks of the first two parts, separated by commas; all")
    for name, kind in (("job", str), ("network", str), ("how", str), ("share", float), ("bytes", int), ("cap", int),
                       ("offload", int)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        jobs = {"front": front, "rival": rival, "planned": planned, "step": whole_step}
        print(MARK + json.dumps(jobs[args.job](args)), flush=True)
        return
    torch = setup(args.device)
    where = torch.cuda.get_device_name(0) if args.device == "cuda" else f"{torch.get_num_threads()} threads"
    emit(args.log, part="about", torch=torch.__version__, device=args.device, name=where, commit=commit_of_package())
    parts, wanted = args.part.split(","), [w for w in args.only.split(",") if w]
    if args.device == "cuda" and "step" in parts:
        step_part(args)
    if "front" in parts:
        front_part(args, wanted)
    if "partition" in parts:
        partition_part(args, wanted)


if __name__ == "__main__":
    main()
