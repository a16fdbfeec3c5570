"""PyTorch on the same GPU: milliseconds and MiB of a training step (TF32, SGD with momentum).

usage: torch_peers.py [--compile] NAME:BATCH ...

eager: as most people run it. captured: channels-last, the whole step in one CUDA graph. compiled:
torch.compile on channels-last, captured. One line of JSON each; the networks are torchvision's.
"""
import json
import statistics
import sys

import torch
import torchvision

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True


def make(name, batch, last):
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


def step_of(model, x, y, optimizer):
    loss = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(model(x), y).backward()
        optimizer.step()

    return step


def capture(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def milliseconds(step, count=30):
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


def measure(name, batch, way):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model, x, y, optimizer = make(name, batch, way != "eager")
    if way == "compiled":
        model = torch.compile(model)
    step = step_of(model, x, y, optimizer)
    run = step if way == "eager" else capture(step)
    time = milliseconds(run)
    peak = torch.cuda.max_memory_allocated() / 2**20
    print(json.dumps({"network": name, "batch": batch, "way": way, "ms": round(time, 3), "mib": round(peak)}), flush=True)


def main():
    ways = ["eager", "captured"]
    names = sys.argv[1:]
    if "--compile" in names:
        names.remove("--compile")
        ways.append("compiled")
    print(json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name()}), flush=True)
    for entry in names:
        name, batch = entry.split(":")
        for way in ways:
            try:
                measure(name, int(batch), way)
            except Exception as error:  # one network that fails does not end the rest
                print(json.dumps({"network": name, "way": way, "error": str(error)[:200]}), flush=True)


main()
