"""The networks of compiled.py at the sizes that people train, with their inputs. Each returns its loss."""

import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "pytorch"))
import small_models  # noqa: E402


class LlamaBlock(nn.Module):
    """Attention in which several heads share keys and values, and a gated linear unit."""

    def __init__(self, width, heads, shared, hidden):
        super().__init__()
        self.heads, self.shared, size = heads, shared, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, size * shared, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, t, n, -1).transpose(1, 2)
                   for f, n in ((self.q, self.heads), (self.k, self.shared), (self.v, self.shared)))
        q, k = (u * cos + torch.cat((-u.chunk(2, -1)[1], u.chunk(2, -1)[0]), -1) * sin for u in (q, k))
        k, v = (u.repeat_interleave(self.heads // self.shared, 1) for u in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, words, width, layers, heads, shared, hidden, length):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, shared, hidden) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, words, bias=False)
        half = width // heads // 2
        angle = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(half).float() / half)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x, y):
        x = self.words(x)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), y.flatten())


def _words(batch, length, words):
    return torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch, length))


def _images(batch, size, classes=1000):
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))


def _half(made):
    model, inputs = made
    return model.to(torch.bfloat16), tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs)


def _channels_last(made):
    model, (x, y) = made
    return model.to(memory_format=torch.channels_last), (x.to(memory_format=torch.channels_last), y)


def _resnet(width, batch, size):
    return _channels_last((small_models.ResNet(small_models.Bottleneck, (3, 4, 6, 3), 1000, width), _images(batch, size)))


NETWORKS = {
    "gpt": lambda: _half((small_models.GPT(50304, 1024, 1024, 24, 16, 0.0), _words(8, 1024, 50304))),
    "llama": lambda: _half((Llama(32000, 2048, 16, 32, 8, 5632, 2048), _words(4, 2048, 32000))),
    "resnet50": lambda: _resnet(64, 64, 224),
    "vit": lambda: _half((small_models.ViT(224, 16, 1024, 24, 16, 1000), _images(64, 224))),
}
# The same networks, small, to try the bench on a processor.
SMALL = {
    "gpt": lambda: (small_models.GPT(256, 32, 32, 2, 2, 0.0), _words(2, 32, 256)),
    "llama": lambda: (Llama(256, 32, 2, 4, 2, 64, 32), _words(2, 32, 256)),
    "resnet50": lambda: _resnet(4, 2, 32),
    "vit": lambda: (small_models.ViT(16, 4, 32, 2, 2, 10), _images(2, 16, 10)),
}


def make(name, device, small=False):
    """The network `name` with its inputs; both are always the same. TF32 is allowed, as people train."""
    torch.manual_seed(0)
    model, inputs = (SMALL if small else NETWORKS)[name]()
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    return model.to(device), tuple(x.to(device) for x in inputs)


def blocks_of(model):
    """The modules that people checkpoint."""
    if hasattr(model, "blocks"):
        return list(model.blocks)
    return [m for m in model.body if isinstance(m, small_models.Bottleneck)]
