"""PyTorch on the same GPU: milliseconds and MiB of a training step (TF32, SGD with momentum).

usage: torch_peers.py [--limit SECONDS] WAY:NAME:BATCH ...

WAY is eager: as most people run it; captured: channels-last, the whole step in one CUDA graph;
captured-bf16: the same with autocast to bf16; or compiled: torch.compile on channels-last, captured.
Each runs in its own process, so that its memory is its own. One line of JSON each: `mib` is the most
that was allocated during a step beside parameters, gradients and momenta, after cuDNN has tried its
algorithms. The networks are torchvision's.
"""
import json
import statistics
import subprocess
import sys


def make(torch, name, batch, last):
    import torchvision

    kwargs = {"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}
    model = getattr(torchvision.models, name)(weights=None, **kwargs).cuda().train()
    side = 299 if name == "inception_v3" else 224
    x = torch.randn(batch, 3, side, side, device="cuda")
    if last:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, foreach=True)
    return model, x, y, optimizer


def step_of(torch, model, x, y, optimizer, half):
    loss = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled=False):
            value = loss(model(x), y)
        value.backward()
        optimizer.step()

    return step


def capture(torch, step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def milliseconds(torch, step, count=30):
    for _ in range(5):
        step()
    times = []
    for _ in range(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def measure(way, name, batch):
    import torch

    batch = int(batch)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    model, x, y, optimizer = make(torch, name, batch, way != "eager")
    stationary = 3 * sum(p.numel() * p.element_size() for p in model.parameters())
    stationary += sum(b.numel() * b.element_size() for b in model.buffers())
    if way == "compiled":
        model = torch.compile(model)
    step = step_of(torch, model, x, y, optimizer, way == "captured-bf16")
    if way == "eager":
        run = step
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    else:
        run = capture(torch, step)
    time = milliseconds(torch, run)
    peak = (torch.cuda.max_memory_allocated() - stationary) / 2**20
    print(json.dumps({"network": name, "batch": batch, "way": way, "ms": round(time, 3), "mib": round(peak), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}), flush=True)


def run_each(script, entries, limit, one):
    """Each entry in its own process, which calls one(words of the entry)."""
    if entries[:1] == ["--limit"]:
        limit, entries = int(entries[1]), entries[2:]
    if entries[:1] == ["--one"]:
        return one(*entries[1].split(":"))
    for entry in entries:
        try:
            subprocess.run([sys.executable, script, "--one", entry], timeout=limit, check=True, stderr=subprocess.PIPE, text=True)
        except subprocess.TimeoutExpired:
            print(json.dumps({"entry": entry, "error": f"did not end in {limit} s"}), flush=True)
        except subprocess.CalledProcessError as error:  # one that fails does not end the rest
            print(json.dumps({"entry": entry, "error": (error.stderr or "").strip()[-200:]}), flush=True)


if __name__ == "__main__":
    run_each(__file__, sys.argv[1:], 60, measure)
