"""The networks of the tests, in plain torch.nn, small enough for a processor. Each returns its loss."""

import torch
import torch.nn.functional as F
from torch import nn


def conv_norm(i, o, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(o))


class Basic(nn.Module):
    expansion = 1

    def __init__(self, i, width, stride):
        super().__init__()
        self.a, self.b = conv_norm(i, width, 3, stride), conv_norm(width, width, 3)
        self.down = conv_norm(i, width, 1, stride) if stride != 1 or i != width else nn.Identity()

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x), True)) + self.down(x), True)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, i, width, stride):
        super().__init__()
        o = 4 * width
        self.a, self.b = conv_norm(i, width, 1), conv_norm(width, width, 3, stride)
        self.c = conv_norm(width, o, 1)
        self.down = conv_norm(i, o, 1, stride) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x), True)), True)) + self.down(x), True)


class ResNet(nn.Module):
    def __init__(self, block, counts, classes=10, width=64):
        super().__init__()
        layers, i = [conv_norm(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], width
        for stage, count in enumerate(counts):
            for k in range(count):
                layers.append(block(i, width << stage, 2 if stage > 0 and k == 0 else 1))
                i = (width << stage) * block.expansion
        self.body, self.head = nn.Sequential(*layers), nn.Linear(i, classes)

    def logits(self, x):
        return self.head(self.body(x).mean((2, 3)))

    def forward(self, x, y):
        return F.cross_entropy(self.logits(x), y)


class UNet(nn.Module):
    def __init__(self, width=8, depth=3, classes=4):
        super().__init__()
        double = lambda i, o: nn.Sequential(conv_norm(i, o, 3), nn.ReLU(), conv_norm(o, o, 3), nn.ReLU())
        widths = [width << k for k in range(depth + 1)]
        self.down = nn.ModuleList(double(i, o) for i, o in zip([3] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in zip(widths, widths[1:]))
        self.join = nn.ModuleList(double(2 * i, i) for i in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x, y):
        kept = []
        for k, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for k in reversed(range(len(self.up))):
            x = self.join[k](torch.cat((self.up[k](x), kept[k]), 1))
        # Pixels as rows: the loss of images does not repeat its bits on a GPU.
        return F.cross_entropy(self.head(x).movedim(1, -1).flatten(0, -2), y.flatten())


class DenseNet(nn.Module):
    def __init__(self, counts=(3, 4, 3), growth=8, classes=10):
        super().__init__()
        self.stem, width = nn.Conv2d(3, 16, 3, 1, 1, bias=False), 16
        stages = []
        for count in counts:
            layers = []
            for _ in range(count):
                layers.append(nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 4 * growth, 1, bias=False),
                                            nn.BatchNorm2d(4 * growth), nn.ReLU(),
                                            nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False)))
                width += growth
            half = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False),
                                 nn.AvgPool2d(2))
            stages.append(nn.ModuleList([nn.ModuleList(layers), half]))
            width //= 2
        self.stages, self.head = nn.ModuleList(stages), nn.Linear(width, classes)

    def forward(self, x, y):
        x = self.stem(x)
        for layers, half in self.stages:
            for layer in layers:
                x = torch.cat((x, layer(x)), 1)
            x = half(x)
        return F.cross_entropy(self.head(x.mean((2, 3))), y)


class Block(nn.Module):
    """A transformer block with the norm before each part."""

    def __init__(self, width, heads, dropout, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, -1).transpose(1, 2) for u in self.qkv(self.norm1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(b, t, c)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """The embedding and the head share a weight."""

    def __init__(self, words=512, length=64, width=64, layers=4, heads=4, dropout=0.1):
        super().__init__()
        self.words, self.places, self.drop = nn.Embedding(words, width), nn.Embedding(length, width), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def logits(self, x):
        x = self.drop(self.words(x) + self.places(torch.arange(x.shape[1], device=x.device)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def forward(self, x, y):
        return F.cross_entropy(self.logits(x).flatten(0, 1), y.flatten())


class ViT(nn.Module):
    def __init__(self, size=32, patch=4, width=64, layers=4, heads=4, classes=10):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, width, patch, patch), nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 1 + (size // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, 0.0, False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x, y):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return F.cross_entropy(self.head(self.norm(self.blocks(x))[:, 0]), y)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = (u * cos + torch.cat((-u.chunk(2, -1)[1], u.chunk(2, -1)[0]), -1) * sin for u in (q, k))
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """Under bf16 autocast, which is inside the model so that it is captured."""

    def __init__(self, words=256, width=64, layers=4, heads=4, length=64):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, 3 * width) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        half = width // heads // 2
        angle = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(half).float() / half)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x, y):
        with torch.autocast(x.device.type, torch.bfloat16):
            x = self.words(x)
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            z = self.head(self.norm(x))
        return F.cross_entropy(z.float().flatten(0, 1), y.flatten())


def _images(batch, size, classes=10):
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))


def _words(batch, length, words):
    return torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch, length))


NETWORKS = {
    "resnet18": lambda: (ResNet(Basic, (2, 2, 2, 2), width=8), _images(8, 96)),
    "resnet50": lambda: (ResNet(Bottleneck, (3, 4, 6, 3), width=4), _images(8, 96)),
    "unet": lambda: (UNet(), (torch.randn(4, 3, 48, 48), torch.randint(0, 4, (4, 48, 48)))),
    "densenet": lambda: (DenseNet(), _images(4, 32)),
    "gpt": lambda: (GPT(), _words(4, 64, 512)),
    "vit": lambda: (ViT(), _images(4, 32)),
    "llama": lambda: (Llama(), _words(4, 64, 256)),
}


def make(name):
    """The network `name` with its inputs; both are always the same."""
    torch.manual_seed(0)
    return NETWORKS[name]()
