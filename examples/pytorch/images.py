"""Train a ResNet on images: images.py [--budget 60%]. Random images stand for a data set."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--budget", help="memory of a step, such as 4GiB or 60%%")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--size", type=int, default=96)
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                  nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.skip = nn.Conv2d(i, o, 1, stride, bias=False) if stride > 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


model = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                      *(Residual(i, o, s) for i, o, s in ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2),
                                                          (64, 64, 1))),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def loss_of(x, y):
    return F.cross_entropy(model(x), y)


step = loss_of
if args.budget:  # the one line, and an import
    import cairn
    step = torch.compile(loss_of, backend=cairn.backend(budget=args.budget, verbose=True))

for number in range(args.steps):
    x = torch.randn(args.batch, 3, args.size, args.size, device=device)
    y = torch.randint(0, 10, (args.batch,), device=device)
    loss = step(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {number}: loss {loss.item():.6f}")
