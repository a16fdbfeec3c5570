"""What the ranks of test_processes.py do."""

import os

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce

import cairn
from small_models import GPT


def batch(rank, words=512):
    torch.manual_seed(100 + rank)
    return torch.randint(0, words, (2, 32)), torch.randint(0, words, (2, 32))


def gpt():
    torch.manual_seed(0)
    return GPT(length=32, layers=2, dropout=0.0)


def count_measured():
    """A list that gets the number of ops whenever ops are measured."""
    from cairn import _costs
    measure, counts = _costs._measure_cpu, []

    def counted(missing, table):
        counts.append(len(missing))
        measure(missing, table)
    _costs._measure_cpu = counted
    return counts


def ddp(rank, folder):
    """DDP around a compiled model; all ranks use the plan of rank 0, and only rank 0 measures."""
    from torch.nn.parallel import DistributedDataParallel as DDP
    torch._dynamo.config.optimize_ddp = False
    inputs, results = batch(rank), []
    backend = cairn.backend("80%", check=True, costs=os.path.join(folder, f"costs-{rank}.json"))
    measured = count_measured()
    for wrap in (lambda m: DDP(m), lambda m: DDP(torch.compile(m, backend=backend, fullgraph=True, dynamic=False)),
                 lambda m: torch.compile(DDP(m), backend=backend, dynamic=False)):
        torch._dynamo.reset()
        model = gpt()
        call = wrap(model)
        for _ in range(2):
            loss = call(*inputs)
            loss.backward()
        results.append([loss.detach()] + [p.grad.clone() for p in model.parameters()])
    return dict(same=[all(torch.equal(a, b) for a, b in zip(results[0], r)) for r in results[1:]],
                reruns=[p.reruns for p in backend.plans], plans=[hash_of(p) for p in backend.plans],
                differences=sum(len(m.differences) for m in backend.meters), measured=sum(measured))


def compiled(rank, folder):
    """Mode "compiled" in DDP: all ranks use the plan of rank 0, and the bits are those without a budget."""
    from torch.nn.parallel import DistributedDataParallel as DDP
    inputs, results, plans, meters, measured = batch(rank), [], [], [], count_measured()
    for budget in (None, "80%"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = GPT(length=32, width=32, layers=1, dropout=0.1)
        backend = cairn.backend(budget, mode="compiled", check=True, costs=os.path.join(folder, f"costs-{rank}.json"))
        call = DDP(torch.compile(model, backend=backend, fullgraph=True, dynamic=False))
        for _ in range(2):
            loss = call(*inputs)
            loss.backward()
        results.append([loss.detach()] + [p.grad.clone() for p in model.parameters()])
        plans, meters = backend.plans, meters + backend.meters
    return dict(same=[all(torch.equal(a, b) for a, b in zip(*results))], reruns=[p.reruns for p in plans],
                plans=[hash_of(p) for p in plans], differences=sum(len(m.differences) for m in meters),
                measured=sum(measured))


def fsdp(rank, folder):
    """FSDP2 with every block compiled by itself, and one budget for all of them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def shard(model):
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model
    inputs = batch(rank)
    backend = cairn.backend("97%")  # what runs outside differs: gloo frees buffers in a thread of its own
    results = []
    for compile_blocks in (False, True):
        model = gpt()
        if compile_blocks:
            for block in model.blocks:
                block.compile(backend=backend, fullgraph=True, dynamic=False)
        shard(model)
        for _ in range(4):
            loss = model(*inputs)
            loss.backward()
        results.append([loss.detach()] + [p.grad.to_local().clone() for p in model.parameters()])
    steps = backend.steps
    return dict(same=[all(torch.equal(a, b) for a, b in zip(*results))], reruns=[p.reruns for p in backend.plans],
                plans=[hash_of(p) for p in backend.plans], differences=0,
                blocks=len(model.blocks), calls=len(steps.calls), settled=steps.settled, outside=steps.outside)


def caches(rank, folder):
    """Two processes with two budgets and one cache: two plans, in both modes."""
    x, losses, plans = torch.randn(64, 32, generator=torch.Generator().manual_seed(0)), [], []
    for mode in ("exact", "compiled"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        backend = cairn.backend(("95%", "70%")[rank], mode=mode)
        call = torch.compile(Chain(), backend=backend, fullgraph=True, dynamic=False)
        loss = call(x)
        loss.backward()
        losses.append(float(loss.detach()))
        plans.append(backend.plans[0])
    return dict(same=losses, reruns=[p.reruns for p in plans], plans=[hash_of(p) for p in plans], differences=0)


def recipes(rank, folder):
    """The recipes of docs/pytorch.md for several processes."""
    from test_recipes import compare, plain
    found = [compare("DDP", plain), compare("FSDP2", plain, "90%")]
    steps = found[1]["backend"].steps
    assert steps.settled and len(steps.calls) == 6  # blocks, which share the budget
    return dict(same=[one["same"] and one["trained"] and not one["over"] for one in found],
                reruns=[n for one in found for n in one["reruns"]], plans=[], differences=0)


def hash_of(plan):
    import hashlib
    return hashlib.sha256(str(plan.steps).encode()).hexdigest()


class Chain(torch.nn.Module):
    def __init__(self, layers=6, width=32):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = self.gate(torch.nn.functional.gelu(layer(x)))
        return x.square().mean()

    def gate(self, x):
        return x


class Gated(Chain):
    """Outputs of layers are multiplied by gates that depend on all ranks. The backward pass reads the gates."""

    def gate(self, x):
        return x * all_reduce(x.detach(), "sum", dist.group.WORLD)


def counted(call, x):
    """The loss of one step, and how often it runs a collective."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss = call(x)
        loss.backward()
    return loss.detach(), sum(event.count for event in profile.key_averages() if "_c10d_functional::all" in event.key)


def collectives(rank, folder):
    """A collective runs once a step, also where everything around it is run again."""
    torch.manual_seed(0)
    model = Gated()
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(rank))
    backend = cairn.backend("60%", check=True)
    results = []
    for call in (model, torch.compile(model, backend=backend, fullgraph=True, dynamic=False)):
        call(x).backward()
        model.zero_grad()
        results.append(counted(call, x) + ([p.grad.clone() for p in model.parameters()],))
        model.zero_grad()
    (loss, once, gradients), (planned, again, same) = results
    return dict(same=[torch.equal(loss, planned), all(torch.equal(a, b) for a, b in zip(gradients, same)),
                      once == again == len(model.layers)],
                reruns=[p.reruns for p in backend.plans], plans=[hash_of(p) for p in backend.plans], differences=0)


def work(kind, rank, world, store):
    """What a rank finds out about a kind of step, as a dictionary of numbers."""
    torch.set_num_threads(1)
    if kind != "caches":
        dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    kinds = {"ddp": ddp, "compiled": compiled, "fsdp": fsdp, "caches": caches, "collectives": collectives,
             "recipes": recipes}
    found = kinds[kind](rank, os.path.dirname(store))
    if kind != "caches":
        dist.barrier()
        dist.destroy_process_group()
    return found
