"""ResNet-18, VGG-11, DenseNet-121 and GPT-2 as published, for comparison with Cairn's own.

The sizes are those of `cairn zoo`; check_parameters() compares the number of parameters with the
published one.
"""

import torch
from torch import nn


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut around them."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x += shortcut
        return self.relu(x)


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    channels_in = 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(channels_in, channels, stride), ResidualBlock(channels, channels, 1)]
        channels_in = channels
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*layers)


def vgg11():
    layers, channels_in = [], 3
    for channels in (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"):
        if channels == "pool":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(channels_in, channels, 3, padding=1), nn.ReLU(inplace=True)]
        channels_in = channels
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten(),
               nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout(),
               nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers)


class DenseLayer(nn.Module):
    """Reads all that was made before it in its block and adds `growth` channels."""

    def __init__(self, channels_in, growth):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, features):
        x = self.conv1(self.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(self.relu(self.norm2(x)))


class DenseBlock(nn.Module):
    def __init__(self, count, channels_in, growth):
        super().__init__()
        self.layers = nn.ModuleList(
            DenseLayer(channels_in + i * growth, growth) for i in range(count))

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


def densenet121():
    growth, channels = 32, 64
    layers = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels),
              nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for i, count in enumerate((6, 12, 24, 16)):
        layers.append(DenseBlock(count, channels, growth))
        channels += count * growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        if i < 3:
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
            channels //= 2
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return nn.Sequential(*layers)


WORDS = 50257


class Block(nn.Module):
    """Attention of 12 heads to the tokens before a token, and two layers, each with a shortcut."""

    def __init__(self, width):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.c_attn(self.ln_1(x)).view(batch, tokens, 3, 12, width // 12)
        y = nn.functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4),
                                                       is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """124 million parameters, without dropout; the head is the table of the embedding."""

    def __init__(self, width=768, layers=12):
        super().__init__()
        self.wte = nn.Embedding(WORDS, width)
        self.wpe = nn.Embedding(1024, width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        return nn.functional.linear(self.ln_f(self.blocks(x)), self.wte.weight).flatten(0, 1)


NETWORKS = {"gpt2": (GPT2, 124439808), "resnet18": (resnet18, 11689512), "vgg11": (vgg11, 132863336),
            "densenet121": (densenet121, 7978856)}


def build(name):
    """The network of that name, in training mode."""
    make, parameters = NETWORKS[name]
    network = make()
    found = sum(p.numel() for p in network.parameters())
    if found != parameters:
        raise SystemExit(f"{name} has {found} parameters, not {parameters}")
    return network.train()
