"""Train on several processes with DDP: torchrun --nproc-per-node 2 several.py [--budget 50%]. One plan serves all."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--budget", help="memory of a step, such as 4GiB or 50%%")
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()
cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
rank = dist.get_rank()
device = f"cuda:{rank}" if cuda else "cpu"
if cuda:
    torch.cuda.set_device(rank)
torch.manual_seed(0)

layer = nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True, norm_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(64, 64)).to(device)
if args.budget:  # the one line, and an import
    import cairn
    model = torch.compile(model, backend=cairn.backend(budget=args.budget, verbose=rank == 0))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

torch.manual_seed(rank)
for number in range(args.steps):
    x = torch.randn(16, 64, 64, device=device)
    loss = F.mse_loss(model(x), x.cumsum(1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {number}: loss {mean.item() / dist.get_world_size():.6f}")
dist.destroy_process_group()
