"""ResNet-18 in PyTorch, with torchvision's names, against Cairn's.

    python3 torch_resnet18.py reference     writes tests/data/resnet18_logits.json
    python3 torch_resnet18.py export DIR    writes DIR/weights.safetensors and DIR/data.safetensors
    python3 torch_resnet18.py check DIR     reads DIR/back.safetensors, which Cairn wrote

                                            (PyTorch 2.13, numpy; safetensors for the last two)

`reference` computes the logits of a network with all widths divided, in double precision, from
weights and images that are functions of name and index (fill.py); so only the logits are stored.
`export` makes the full network with random weights, runs it in evaluation mode, and writes weights,
images and logits. `check` loads what Cairn saved after having loaded these weights: every name and
shape must be the module's (strict), every value the same, and it must still be the same function.
"""

import json
import pathlib
import sys

import torch
from torch import nn

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "backend" / "reference"))
import fill

STAGES, BLOCKS = 4, 2
STEPS = 7  # what weights_tool.c writes as num_batches_tracked


class Block(nn.Module):
    """Two 3x3 convolutions beside the identity, or beside a 1x1 where the shape changes."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + shortcut)


class ResNet18(nn.Module):
    def __init__(self, divisor, classes):
        super().__init__()
        widths = [(64 << stage) // divisor for stage in range(STAGES)]
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        before = widths[0]
        for stage, width in enumerate(widths):
            blocks = [Block(before, width, 2 if stage > 0 else 1)]
            blocks += [Block(width, width, 1) for _ in range(BLOCKS - 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            before = width
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        for stage in range(STAGES):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def formula(name, shape):
    """As fill_weight() in test_weights_logits.c. The running statistics differ from the initial
    ones, so that it matters whether they are loaded."""
    if name.endswith("running_mean"):
        return fill.values(name, shape, 0, 0.1)
    if name.endswith("running_var"):
        return fill.values(name, shape, 1, 0.5)
    return fill.parameter(name, shape)


def reference():
    divisor, batch, size, classes = 4, 2, [3, 64, 64], 10
    network = ResNet18(divisor, classes).double().eval()
    state = network.state_dict()
    for name, value in state.items():
        if not name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(formula(name, list(value.shape)), dtype=torch.float64)
    network.load_state_dict(state)
    images = torch.tensor(fill.inputs("input", [batch] + size, 0), dtype=torch.float64)
    with torch.no_grad():
        logits = network(images)
    out = {"divisor": divisor, "batch": batch, "input": size, "classes": classes, "tensors": len(state),
           "logits": logits.flatten().tolist()}
    (TESTS / "data" / "resnet18_logits.json").write_text(json.dumps(out, indent=1) + "\n")


def export(folder):
    from safetensors.torch import save_file

    torch.manual_seed(1)
    network = ResNet18(1, 1000)
    network.train()
    for _ in range(2):  # so that the running statistics are not the initial ones
        network(torch.randn(8, 3, 64, 64) * 2 + 1)
    network.eval()
    images = torch.randn(2, 3, 96, 80)
    with torch.no_grad():
        logits = network(images)
    save_file(network.state_dict(), folder / "weights.safetensors")
    save_file({"input": images, "logits": logits}, folder / "data.safetensors")


def check(folder):
    from safetensors.torch import load_file

    weights, back = load_file(folder / "weights.safetensors"), load_file(folder / "back.safetensors")
    data = load_file(folder / "data.safetensors")
    network = ResNet18(1, 1000)
    network.load_state_dict(back, strict=True)
    network.eval()
    for name, value in weights.items():
        if name.endswith("num_batches_tracked"):
            assert int(back[name]) == STEPS, name
        else:
            assert torch.equal(value, back[name]), name
        assert value.dtype == back[name].dtype and value.shape == back[name].shape, name
    with torch.no_grad():
        assert torch.allclose(network(data["input"]), data["logits"], rtol=1e-4, atol=1e-5)
    print(f"{len(back)} tensors come back as they were")


if __name__ == "__main__":
    if sys.argv[1:] == ["reference"]:
        reference()
    else:
        {"export": export, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
