"""What is measured and tried in the first call stays inside the budget, whatever the model keeps outside of it."""

import tempfile
import unittest
import unittest.mock
import warnings

import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

import cairn
from cairn import _compiled, _costs, _real, _torch
from common import compiled, whole_peak

WIDTH, ROWS = 512, 64
STATES = 5 * 5056  # bytes: states of random numbers that PyTorch keeps while it captures


class Frozen(torch.nn.Module):
    """Large weights without gradients, and small ones with, as with LoRA; and a large buffer."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.large = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3)).requires_grad_(False)
        self.down = torch.nn.ModuleList(torch.nn.Linear(width, 4, bias=False) for _ in range(3))
        self.up = torch.nn.ModuleList(torch.nn.Linear(4, width, bias=False) for _ in range(3))
        self.norm = torch.nn.LayerNorm(width)
        self.register_buffer("table", torch.randn(8 * ROWS, width))

    def forward(self, x):
        x = x * torch.sigmoid(self.table).sum()
        for large, down, up in zip(self.large, self.down, self.up):
            x = x + F.gelu(large(self.norm(x)) + up(down(x))).view(4, len(x) // 4, -1).transpose(1, 2).reshape(len(x), -1)
        return x.square().mean()


def model_and_input():
    torch.manual_seed(0)
    return Frozen(), torch.randn(ROWS, WIDTH)


def bytes_alone(op):
    """What an op needs that overwrites nothing."""
    own = {s for s in op.reads + op.outs + op.beside if s.op is not None and s.op.kind == "node"}
    return sum(s.bytes for s in own) + op.workspace if op.kind == "node" else 0


class FirstCall(unittest.TestCase):
    def check(self, mode, arena=False):
        """A first call that measures and tries everything, and is refused, names the smallest budget; it has taken no more
        than that, or than one op alone: a plan may let it overwrite what it reads. Nor does the first step in it."""
        model, x = model_and_input()
        kept = [t.clone() for t in (*model.parameters(), *model.buffers(), x)]
        held = max(t.nbytes for t in kept)
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(_costs._trials, clear=True), \
                unittest.mock.patch.dict(_compiled._kernels, clear=True):
            options = dict(mode=mode, arena=arena, costs=folder + "/costs")
            with whole_peak() as most, self.assertRaises(cairn.BudgetError) as refused:
                compiled(model, cairn.backend(1000, **options))(x)
            smallest = refused.exception.smallest
            backend = cairn.backend(smallest, **options)
            with whole_peak() as later:
                compiled(model, backend)(x).backward()
        alone = max(map(bytes_alone, backend.plans[0].joint.ops))
        self.assertGreater(held, max(alone // 8, 2 * STATES))  # a second copy would be seen
        self.assertLessEqual(most[0], max(smallest, alone) + STATES)
        self.assertLessEqual(later[0], smallest + STATES)
        self.assertTrue(all(map(torch.equal, kept, (*model.parameters(), *model.buffers(), x))))

    def test_exact(self):
        self.check("exact")

    def test_exact_arena(self):
        self.check("exact", arena=True)

    def test_compiled(self):
        self.check("compiled")

    def test_compiled_arena(self):
        self.check("compiled", arena=True)


class Benchmarks(unittest.TestCase):
    """What Inductor allocates on a GPU to empty its cache is inside the budget too."""

    def test_room(self):
        from torch._inductor.runtime.benchmarking import benchmarker
        with unittest.mock.patch.dict(vars(benchmarker), L2_cache_size=1 << 20):
            for room, expected in ((None, 1 << 20), (1 << 21, 1 << 20), (5000, 5000), (0, 4096)):
                with _torch.benchmarks_within(room):
                    self.assertEqual(benchmarker.L2_cache_size, expected)
                self.assertEqual(benchmarker.L2_cache_size, 1 << 20)


class Digests(unittest.TestCase):
    """Digests are equal where torch.equal says so, and nowhere else."""

    def test_equal(self):
        for value in (torch.randn(5000), torch.randn(3, 40, 50).bfloat16(), torch.randn(2, 3, 4, 5, dtype=torch.complex64),
                      torch.randint(0, 9, (70, 30)), torch.randn(400).half() > 0, torch.tensor(1.5), torch.randn(0, 3)):
            self.assertEqual(_real.digest(value), _real.digest(value.clone()))
        images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
        self.assertEqual(_real.digest(images), _real.digest(images.clone()))
        self.assertEqual(_real.digest(torch.tensor([0.0, torch.nan])), _real.digest(torch.tensor([-0.0, -torch.nan])))

    def test_different(self):
        value = torch.randn(3000)
        for at in (0, 1, 1023, 1024, 2999):
            other = value.clone()
            other[at] = torch.nextafter(other[at], torch.tensor(torch.inf))
            self.assertNotEqual(_real.digest(value), _real.digest(other))
        for a, b in ((0, 1), (5, 2000), (0, 1024)):
            other = value.clone()
            other[[a, b]] = value[[b, a]]
            self.assertNotEqual(_real.digest(value), _real.digest(other))
        self.assertNotEqual(_real.digest(value), _real.digest(-value))
        self.assertNotEqual(_real.digest(torch.zeros(4)), _real.digest(torch.zeros(2, 2)))


class Lending(unittest.TestCase):
    """Operands are the caller's own tensors where these are only read."""

    def test_views(self):
        real, numbers = torch.randn(6, 4), torch.arange(3)
        with FakeTensorMode() as mode:
            fake, other = mode.from_tensor(real), mode.from_tensor(numbers)
            values = [fake.t(), fake, torch.empty(6, 4), fake, other]
        with _real.lending([(fake, real), (other, torch.arange(4))]), _real.real_tensors():
            given = _real.given_like(values, overwritten=(3,))
            apart = _real.random_like(fake, diagonal=True, storages=_real.Shared(lends=False))
        places = [t.data_ptr() == real.data_ptr() for t in (*given, apart)]
        self.assertEqual(places, [True, True, False, False, False, False])
        self.assertEqual(given[4].tolist(), [0, 0, 0])  # what is not alike is not lent
        self.assertTrue(torch.equal(given[0], real.t()))
        with _real.real_tensors():
            self.assertNotEqual(_real.given_like([fake])[0].data_ptr(), real.data_ptr())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    unittest.main()
