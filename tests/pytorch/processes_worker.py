"""One rank of test_processes.py: processes_worker.py KIND RANK WORLD STORE. Prints what it found as JSON."""

import json
import os
import sys

import torch
import torch.distributed as dist

import cairn
from cairn import _library
from small_models import GPT


def batch(rank, words=512):
    torch.manual_seed(100 + rank)
    return torch.randint(0, words, (2, 32)), torch.randint(0, words, (2, 32))


def gpt():
    torch.manual_seed(0)
    return GPT(length=32, layers=2, dropout=0.0)


def ddp(rank):
    """DDP around a compiled model; all ranks use the plan of rank 0."""
    from torch.nn.parallel import DistributedDataParallel as DDP
    torch._dynamo.config.optimize_ddp = False
    inputs, results = batch(rank), []
    backend = cairn.backend("80%", check=True)
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
                differences=sum(len(m.differences) for m in backend.meters))


def fsdp(rank):
    """FSDP2 with every block compiled by itself."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def shard(model):
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model
    inputs = batch(rank)
    backend = cairn.backend("85%")
    results = []
    for compile_blocks in (False, True):
        model = gpt()
        if compile_blocks:
            for block in model.blocks:
                block.compile(backend=backend, fullgraph=True, dynamic=False)
        shard(model)
        for _ in range(2):
            loss = model(*inputs)
            loss.backward()
        results.append([loss.detach()] + [p.grad.to_local().clone() for p in model.parameters()])
    return dict(same=[all(torch.equal(a, b) for a, b in zip(*results))], reruns=[p.reruns for p in backend.plans],
                plans=[hash_of(p) for p in backend.plans], differences=0)


def caches(rank):
    """Two processes with two budgets and one cache: two plans, in both modes."""
    inputs, losses, plans = batch(0), [], []
    for mode in ("exact", "inductor"):
        torch._dynamo.reset()
        backend = cairn.backend(("95%", "80%")[rank], mode=mode)
        call = torch.compile(gpt(), backend=backend, fullgraph=True, dynamic=False)
        loss = call(*inputs)
        loss.backward()
        losses.append(float(loss.detach()))
        plans.append(backend.plans[0])
    return dict(same=losses, reruns=[p.reruns for p in plans], plans=[hash_of(p) for p in plans], differences=0)


def hash_of(plan):
    import hashlib
    return hashlib.sha256(str(plan.steps).encode()).hexdigest()


def collectives():
    """Ops of collectives have the flag that forbids recomputing."""
    from cairn._joint import is_collective
    node = torch.fx.Graph().call_function(torch.ops._c10d_functional.all_reduce.default, ())
    return is_collective(node) and _library.NEVER_AGAIN


def main(kind, rank, world, store):
    torch.set_num_threads(1)
    if kind != "caches":
        dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    found = {"ddp": ddp, "fsdp": fsdp, "caches": caches}[kind](rank)
    found["collectives"] = bool(collectives())
    print("FOUND " + json.dumps(found), flush=True)
    if kind != "caches":
        dist.barrier()
        dist.destroy_process_group()
        sys.stderr.flush()
        os._exit(0)  # see run_script.py


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
