"""The recipes of docs/pytorch.md, as they stand: the parameters that they train are those of `aot_eager`, bit for bit."""

import importlib
import os
import re
import tempfile
import types
import unittest

import torch
import torch.distributed as dist
import torch.nn.functional as F

import cairn

HERE = os.path.dirname(os.path.abspath(__file__))
BUDGET = "70%"


def text(*path):
    with open(os.path.join(HERE, *path)) as file:
        return file.read()


def recipes():
    """The code of every recipe by its title."""
    page = re.search(r"^## Recipes$(.*?)^## ", text("..", "..", "docs", "pytorch.md"), re.M | re.S)[1]
    return dict(re.findall(r"^### ([^\n]*)\n.*?^```python\n(.*?)^```$", page, re.M | re.S))


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.drop = torch.nn.Linear(width, width), torch.nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(F.gelu(self.linear(x)))


class Residual(torch.nn.Module):
    """A small model whose forward pass returns the loss."""

    def __init__(self, width=64, layers=6):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x, y):
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x), y)


def plain():
    """What a recipe finds: a model, and four batches, other ones on every rank."""
    torch.manual_seed(0)
    model = Residual()
    torch.manual_seed(dist.get_rank() if dist.is_initialized() else 0)
    data = torch.utils.data.TensorDataset(torch.randn(1024, 64), torch.randint(0, 10, (1024,)))
    return dict(model=model, loader=torch.utils.data.DataLoader(data, batch_size=256), losses=[],
                quiet=dict(logger=False, enable_checkpointing=False, enable_progress_bar=False,
                           enable_model_summary=False))


def language():
    """A model of transformers, and batches of tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=4,
                         num_attention_heads=4, use_cache=False)
    tokens = torch.randint(0, 64, (12, 32))
    return dict(model=LlamaForCausalLM(config), dataset=[dict(input_ids=t, labels=t) for t in tokens],
                batches=[dict(input_ids=t, labels=t) for t in tokens.split(4)])


def carry_out(code, names, backend, trainer=None):
    """Run a recipe; returns its losses and the trained parameters."""
    torch._dynamo.reset()
    model = names["model"]
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        stand_in = types.SimpleNamespace(backend=lambda budget: backend, trainer=trainer)
        names.update(torch=torch, cairn=stand_in, budget=BUDGET, device="cpu", folder=folder)
        exec(compile(code, "docs/pytorch.md", "exec"), names)
    return names.get("losses", []), [own(p) for p in model.parameters()]


def own(parameter):
    """A copy of what this process has of a parameter."""
    value = parameter.detach()
    return (value.to_local() if hasattr(value, "to_local") else value).clone()


def compare(title, given, budget=BUDGET):
    """A recipe without Cairn and with it."""
    code, before = recipes()[title], [own(p) for p in given()["model"].parameters()]
    losses, expected = carry_out(code, given(), "aot_eager")
    backend = cairn.backend(budget, check=True)
    found_losses, found = carry_out(code, given(), backend)
    return dict(backend=backend, trained=any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(before, expected)),
                same=losses == found_losses and all(torch.equal(a, b) for a, b in zip(expected, found)),
                reruns=[plan.reruns for plan in backend.plans],
                # Less than predicted is live where a recipe drops its loss, which the plan counts.
                over=[one for meter in backend.meters for one in meter.differences if one[2] > one[1]])


class Plain:
    """What cairn.trainer does, without it."""

    def __init__(self, model, optimizer, budget):
        self.call, self.optimizer = torch.compile(model, backend="aot_eager", dynamic=False), optimizer

    def step(self, *inputs):
        loss = self.call(*inputs)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


class Recipes(unittest.TestCase):
    def check(self, title, given=plain, needs=()):
        for module in needs:
            try:
                importlib.import_module(module)
            except Exception as error:  # whatever goes wrong in there
                self.skipTest(f"{title}: {module} cannot be imported: {error}")
        found = compare(title, given)
        self.assertTrue(found["trained"])
        self.assertTrue(found["same"])
        self.assertEqual(found["over"], [])
        self.assertTrue(found["reruns"] and all(found["reruns"]), found["reruns"])

    def test_accumulation(self):
        self.check("Gradient accumulation")

    def test_everything(self):
        code, trainers = recipes()["One budget for everything"], []

        def make(*given):
            trainers.append(cairn.trainer(*given))
            return trainers[-1]
        expected, found = carry_out(code, plain(), None, Plain), carry_out(code, plain(), None, make)
        self.assertEqual(expected[0], found[0])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(expected[1], found[1])))
        self.assertGreater(trainers[0].plan.reruns, 0)

    def test_scaler(self):
        self.check("Autocast with GradScaler")

    def test_evaluation(self):
        self.check("Evaluation between steps")

    def test_accelerate(self):
        self.check("accelerate", needs=["accelerate"])

    def test_trainer(self):
        self.check("Hugging Face Trainer", language, needs=["transformers.trainer", "accelerate"])

    def test_lora(self):
        self.check("LoRA", language, needs=["transformers.modeling_utils", "peft"])

    def test_lightning(self):
        self.check("Lightning", needs=["lightning"])

    def test_all(self):
        """Every recipe of the page has a test; those of several processes are in test_processes.py."""
        here = text("test_recipes.py") + text("processes_worker.py")
        for title, code in recipes().items():
            self.assertIn(f'"{title}"', here)
            self.assertLessEqual(len([line for line in code.splitlines() if line.strip()]), 15, title)


if __name__ == "__main__":
    unittest.main()
