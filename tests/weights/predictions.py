"""Own data and PyTorch against `cairn predict`; predictions.sh says in which order.

    python3 predictions.py write           writes the data set ./data
    python3 predictions.py check WEIGHTS   the network in PyTorch against ./predictions.safetensors
"""

import json
import pathlib
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

SHAPE, CLASSES, COUNT = (3, 16, 16), 4, 160


def write():
    """Noise with a bright square in one of four corners, far from mean 0 and deviation 1."""
    folder = pathlib.Path("data")
    folder.mkdir()
    draw = np.random.default_rng(1)
    labels = (np.arange(COUNT) % CLASSES).astype("<i4")
    images = draw.integers(100, 140, (COUNT, *SHAPE))
    for image, label in zip(images, labels):
        row, column = 8 * (label // 2) + 2, 8 * (label % 2) + 2
        image[:, row : row + 4, column : column + 4] += 60
    images.astype(np.uint8).tofile(folder / "samples.bin")
    labels.tofile(folder / "labels.bin")
    index = {"format": "cairn-tensors", "version": 1, "shape": SHAPE, "dtype": "u8", "classes": CLASSES}
    index["files"] = [{"split": "train", "samples": "samples.bin", "labels": "labels.bin", "count": COUNT}]
    (folder / "index.json").write_text(json.dumps(index))


def stage(inputs, outputs):
    return nn.ModuleDict({
        "conv1": nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        "bn1": nn.BatchNorm2d(outputs),
        "conv2": nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        "bn2": nn.BatchNorm2d(outputs),
    })


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stage1, self.stage2, self.stage3 = stage(3, 8), stage(8, 16), stage(16, 32)
        self.fc = nn.Linear(32, CLASSES)

    def forward(self, x):
        for s in self.stage1, self.stage2, self.stage3:
            x = torch.relu(s["bn1"](s["conv1"](x)))
            x = torch.relu(s["bn2"](s["conv2"](x)))
            x = nn.functional.max_pool2d(x, 2)
        return self.fc(x.mean((2, 3)))


def check(path):
    model = ConvNet().eval()
    tensors = load_file(path)
    model.load_state_dict({k: v for k, v in tensors.items() if not k.startswith("cairn.")})
    with safe_open(path, "pt") as file:
        said = file.metadata()
    scale = float(said["cairn.normalise.scale"])
    rows = [torch.tensor([float(x) for x in said["cairn.normalise." + name].split(",")]) for name in ("mean", "deviation")]
    for name, row in zip(("mean", "deviation"), rows):
        as_tensor = tensors.get("cairn.normalise." + name)
        assert as_tensor is None or torch.equal(as_tensor, row), name
    mean, deviation = (row.reshape(-1, 1, 1) for row in rows)
    images = torch.from_numpy(np.fromfile("data/samples.bin", np.uint8).reshape(COUNT, *SHAPE).astype(np.float32))
    with torch.no_grad():
        logits = model((images * scale - mean) / deviation)
        plain = model(images * scale)
    ours = load_file("predictions.safetensors")
    assert torch.equal(ours["sample"], torch.arange(COUNT, dtype=torch.int32))
    assert torch.allclose(ours["logits"], logits, rtol=1e-3, atol=1e-3), (ours["logits"] - logits).abs().max()
    assert torch.equal(ours["predicted"].long(), logits.argmax(1))
    right = (logits.argmax(1) == ours["label"]).float().mean().item()
    wrong = (plain.argmax(1) == ours["label"]).float().mean().item()
    assert right > 0.9, f"the network has not learnt: {right}"
    assert wrong < right, "the test does not notice a missing normalisation"
    print(f"{path}: {right:.1%} in both; without the normalisation {wrong:.1%}")


write() if sys.argv[1] == "write" else check(sys.argv[2])
