"""cairn.export: a PyTorch model on Cairn's own engine has the losses that it has in PyTorch."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import torch
from torch import nn

import cairn

COMMAND = os.environ.get("CAIRN_COMMAND")
COUNT, CLASSES, SHAPE = 8, 5, (3, 16, 16)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.bn2 = nn.BatchNorm2d(outputs, eps=1e-3)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Block(8, 16, 2), Block(16, 16, 1))
        self.head = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(14)

    def forward(self, x):
        return torch.softmax(self.norm(self.act(self.conv(x))).mean((2, 3)), 1)


def write_data(folder, images, labels):
    (folder / "s").write_bytes(images.numpy().tobytes())
    (folder / "l").write_bytes(labels.to(torch.int32).numpy().tobytes())
    index = {"format": "cairn-tensors", "version": 1, "shape": SHAPE, "dtype": "f32", "classes": CLASSES}
    index["files"] = [{"split": "train", "samples": "s", "labels": "l", "count": COUNT}]
    (folder / "index.json").write_text(json.dumps(index))


def train(model, images, labels, steps):
    """All samples are one batch, so that their order does not matter."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Export(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.images = torch.randn(COUNT, *SHAPE)
        self.labels = torch.arange(COUNT) % CLASSES

    @unittest.skipUnless(COMMAND, "CAIRN_COMMAND names no command")
    def test_losses(self):
        for suffix, batch in ((".json", []), (".net", ["--batch", str(COUNT)])):
            model = Small()
            path = self.folder / ("net" + suffix)
            weights = cairn.export(model, (self.images,), str(path))
            write_data(self.folder, self.images, self.labels)
            ran = subprocess.run([COMMAND, "train", str(path), "--weights", weights, "--data", f"tensors:{self.folder}",
                                  "--validation", "0", "--normalise", "none", "--steps", "5", "--json", *batch],
                                 capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            found = [json.loads(line)["loss"] for line in ran.stdout.splitlines() if '"loss"' in line]
            wanted = train(model, self.images, self.labels, 5)
            for ours, theirs in zip(found, wanted, strict=True):
                self.assertAlmostEqual(ours, theirs, delta=2e-4 * max(1, abs(theirs)))

    def test_refused(self):
        with self.assertRaises(cairn.CairnError) as refused:
            cairn.export(Odd(), (self.images,), str(self.folder / "net.json"))
        for op in ("gelu", "layer_norm", "softmax"):
            self.assertIn(op, str(refused.exception))
        self.assertFalse((self.folder / "net.json").exists())
        with self.assertRaises(cairn.CairnError):
            cairn.export(Small(), (self.images,), str(self.folder / "net.onnx"))


if __name__ == "__main__":
    unittest.main()
