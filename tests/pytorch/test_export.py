"""cairn.export: a PyTorch model on Cairn's own engine has the losses that it has in PyTorch."""

import copy
import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import safetensors.torch
import torch
from torch import nn

import cairn

COMMAND = os.environ.get("CAIRN_COMMAND")
COUNT, CLASSES, SHAPE = 8, 5, (3, 16, 16)
SEQUENCES, TOKENS, WORDS = 4, 16, 256


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
        self.act = nn.ELU()

    def forward(self, x):
        return torch.softmax(self.act(self.conv(x)).cumsum(1).mean((2, 3)), 1)


class OwnBlock(nn.Module):
    """Attention by one layer for all heads and a reshape in five dimensions; its names are those of GPT-2's layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width, bias=False)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, t, width))
        return x + self.mlp(self.ln_2(x))


class OwnGpt(nn.Module):
    def __init__(self, words=WORDS, width=24, heads=3):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(words, width), "wpe": nn.Embedding(TOKENS, width),
            "h": nn.ModuleList(OwnBlock(width, heads) for _ in range(2)), "ln_f": nn.LayerNorm(width)})
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.transformer["wte"].weight

    def forward(self, tokens):
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](torch.arange(tokens.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return self.head(self.transformer["ln_f"](x))


class OwnVit(nn.Module):
    """As torchvision's: a class token, positions, and nn.MultiheadAttention, which turns batch and tokens around."""

    def __init__(self, width=16, heads=2, side=4):
        super().__init__()
        self.conv_proj = nn.Conv2d(SHAPE[0], width, side, side)
        self.class_token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.pos_embedding = nn.Parameter(torch.randn(1, 1 + (SHAPE[1] // side) ** 2, width) * 0.1)
        self.ln_1, self.ln_2, self.ln = (nn.LayerNorm(width) for _ in range(3))
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images):
        x = self.conv_proj(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.pos_embedding
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return self.head(self.ln(x + self.mlp(self.ln_2(x)))[:, 0])


def hugging_face(kind):
    transformers = importlib.import_module("transformers")
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
             "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    if kind == "vit":
        return transformers.ViTForImageClassification(transformers.ViTConfig(
            image_size=SHAPE[1], patch_size=4, num_labels=CLASSES, **small))
    if kind == "bert":
        return transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=WORDS, max_position_embeddings=2 * TOKENS, **small))
    sizes = {"vocab_size": WORDS, "bos_token_id": 0, "eos_token_id": 0}
    if kind == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_positions=2 * TOKENS, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **sizes))
    sizes |= {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": kind == "qwen2"}
    if kind == "qwen2":
        return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes))
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(rope_parameters=rope, **sizes))


class Turned(nn.Module):
    """A rotary embedding of neighbours, which Cairn does not have."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, 24), nn.Linear(8, WORDS)

    def forward(self, tokens):
        q, k, v = self.qkv(self.embed(tokens)).unsqueeze(1).chunk(3, -1)
        angles = torch.arange(tokens.shape[1])[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001]).repeat_interleave(2)
        turn = torch.stack([-q[..., 1::2], q[..., ::2]], -1).flatten(-2)
        q = q * angles.cos() + turn * angles.sin()
        return self.head(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1))


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
        logits = model(images)
        logits = getattr(logits, "logits", logits)
        loss = nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
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

    def check(self, model, inputs, labels, *options):
        """The first losses of both formats are PyTorch's."""
        wanted = None
        for suffix, batch in ((".json", []), (".net", ["--batch", str(len(inputs))])):
            path = self.folder / ("net" + suffix)
            weights = cairn.export(model, (inputs,), str(path))
            ran = subprocess.run([COMMAND, "train", str(path), "--weights", weights, "--validation", "0", "--steps", "5",
                                  "--json", *options, *batch], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            found = [json.loads(line)["loss"] for line in ran.stdout.splitlines() if '"loss"' in line]
            wanted = wanted or train(copy.deepcopy(model).train(), inputs, labels, 5)
            for ours, theirs in zip(found, wanted, strict=True):
                self.assertAlmostEqual(ours, theirs, delta=2e-4 * max(1, abs(theirs)))

    @unittest.skipUnless(COMMAND, "CAIRN_COMMAND names no command")
    def test_losses(self):
        write_data(self.folder, self.images, self.labels)
        self.check(Small(), self.images, self.labels, "--data", f"tensors:{self.folder}", "--normalise", "none")

    def check_images(self, model):
        """Losses, and weights that the model takes back: as they are exported, and as the command saves them."""
        write_data(self.folder, self.images, self.labels)
        saved = str(self.folder / "after.safetensors")
        self.check(model, self.images, self.labels, "--data", f"tensors:{self.folder}", "--normalise", "none",
                   "--save", saved)
        for path in (str(self.folder / "net.safetensors"), saved):
            model.load_state_dict(safetensors.torch.load_file(path))

    @unittest.skipUnless(COMMAND, "CAIRN_COMMAND names no command")
    def test_own_vit(self):
        self.check_images(OwnVit())

    def check_text(self, model):
        """Every sequence is a file, from which only one window can be cut."""
        text = torch.randint(0, WORDS, (SEQUENCES, TOKENS + 1))
        for i, sequence in enumerate(text):
            (self.folder / f"part_{i}").write_bytes(bytes(sequence.tolist()))
        self.check(model, text[:, :-1], text[:, 1:], "--data", f"text:{self.folder}/part_*")

    @unittest.skipUnless(COMMAND, "CAIRN_COMMAND names no command")
    def test_own_gpt(self):
        self.check_text(OwnGpt())

    @unittest.skipUnless(COMMAND, "CAIRN_COMMAND names no command")
    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_hugging_face(self):
        self.check_images(hugging_face("vit"))
        for kind in "gpt2", "llama", "qwen2", "bert":
            with self.subTest(kind):
                model = hugging_face(kind)
                self.check_text(model)
                saved = cairn.export(model, (torch.zeros(2, 4, dtype=torch.long),), str(self.folder / "a.net"))
                if kind == "llama":
                    self.assertIn("theta=500000.0 scaling=32.0", (self.folder / "a.net").read_text())
                names = safetensors.torch.load_file(saved)
                missing, unexpected = model.load_state_dict(names, strict=False)
                self.assertFalse(unexpected)
                tied = {"lm_head.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
                self.assertLessEqual(set(missing), tied)

    def test_refused(self):
        with self.assertRaises(cairn.CairnError) as refused:
            cairn.export(Odd(), (self.images,), str(self.folder / "net.json"))
        for op in ("elu", "cumsum", "softmax"):
            self.assertIn(op, str(refused.exception))
        self.assertFalse((self.folder / "net.json").exists())
        with self.assertRaises(cairn.CairnError):
            cairn.export(Small(), (self.images,), str(self.folder / "net.onnx"))
        with self.assertRaises(cairn.CairnError) as refused:
            cairn.export(Turned(), (torch.zeros(2, TOKENS, dtype=torch.long),), str(self.folder / "net.json"))
        self.assertIn("scaled_dot_product_attention", str(refused.exception))
        drops = OwnVit()
        drops.self_attention.dropout = 0.1
        with self.assertRaises(cairn.CairnError) as refused:
            cairn.export(drops, (self.images,), str(self.folder / "net.json"))
        self.assertIn("dropout of 0.1 inside an attention", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
