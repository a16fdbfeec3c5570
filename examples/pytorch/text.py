"""Train a small GPT on the bytes of a file: text.py [--budget 40%] [FILE]. Its head shares the embedding's weight."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("file", nargs="?", default=__file__)
parser.add_argument("--budget", help="memory of a step, such as 4GiB or 40%%")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--length", type=int, default=128)
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
with open(args.file, "rb") as file:
    text = torch.tensor(list(file.read()))


class Block(nn.Module):
    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, -1).transpose(1, 2) for u in self.qkv(self.norm1(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width=128, layers=6):
        super().__init__()
        self.words, self.places = nn.Embedding(256, width), nn.Embedding(args.length, width)
        self.blocks, self.norm = nn.ModuleList(Block(width) for _ in range(layers)), nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x, y):
        x = self.words(x) + self.places.weight[:x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), y.flatten())


model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
if args.budget:  # the one line, and an import
    import cairn
    model = torch.compile(model, backend=cairn.backend(budget=args.budget, verbose=True))

for number in range(args.steps):
    starts = torch.randint(0, len(text) - args.length - 1, (16,)).tolist()
    x = torch.stack([text[s:s + args.length] for s in starts]).to(device)
    y = torch.stack([text[s + 1:s + 1 + args.length] for s in starts]).to(device)
    loss = model(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {number}: loss {loss.item():.6f}")
