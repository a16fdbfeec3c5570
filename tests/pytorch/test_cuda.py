"""On a GPU: every network under budgets, with the bits of eager execution, live bytes as predicted and the allocator's
peak within 0.5% of that; copies on streams of their own; steps recorded as CUDA graphs. Skipped where there is none.

    python test_cuda.py [FILTER]    one JSON line per network and budget"""

import copy
import gc
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.nn.functional as F

import cairn
from cairn import _backend, _updates
from common import compiled, same, train
from small_models import NETWORKS, Bottleneck, ResNet, make
from test_trainer import outcome, plainly

STEPS = 3


def deterministic():
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True


def on_device(name, times=1):
    """A small network and its inputs, so many times one after the other."""
    model, inputs = make(name)
    return model.cuda(), tuple(x.cuda().repeat(times, *[1] * (x.dim() - 1)) for x in inputs)


def allocated(model, step):
    """The most that PyTorch had allocated over what was there, cuBLAS's workspaces included. The first of two steps
    allocates those, the second has them from its beginning."""
    model.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def runs_of(model, call, inputs):
    return train(model, call, inputs, steps=STEPS)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Cuda(unittest.TestCase):
    def setUp(self):
        deterministic()

    def budgets(self, model, inputs, **options):
        planner = _backend.planner_of(model, inputs, _backend.Options(**options))
        smallest, most = planner.smallest()[0] + planner.reserve, planner.enough() + planner.reserve
        return most, (most + smallest) // 2, smallest

    def expected(self, model, inputs):
        """Eager execution's results; without losses where those differ from run to run."""
        once, again = (runs_of(mine, mine, inputs) for mine in (copy.deepcopy(model), copy.deepcopy(model)))
        self.first = 0 if same(once[0], again[0]) else 1
        self.assertTrue(same(once[1:], again[1:]))
        return once[self.first:]

    def check_peak(self, model, inputs, budget, **options):
        mine, backend = copy.deepcopy(model), cairn.backend(budget, **options)
        call = compiled(mine, backend)
        found = runs_of(mine, call, inputs)
        peak, plan = allocated(mine, lambda: call(*inputs).backward()), backend.plans[0]
        return found, peak, plan.peak + plan.reserve, backend.writers[0].fused

    def check(self, name, budget, expected, **options):
        """With live bytes counted, which fuses nothing, and without."""
        model, inputs = on_device(name)
        mine, backend = copy.deepcopy(model), cairn.backend(budget, check=True, **options)
        found = runs_of(mine, compiled(mine, backend), inputs)
        plan, meter = backend.plans[0], backend.meters[0]
        again, peak, predicted, fused = self.check_peak(model, inputs, budget, **options)
        line = dict(network=name, budget=budget, predicted=predicted, reserve=plan.reserve, allocated=peak,
                    repeated=plan.reruns, offloads=plan.offloads, fused=fused, losses=self.first == 0,
                    same=[same(expected, found[self.first:]), same(expected, again[self.first:])],
                    differences=meter.differences[:2], **{k: str(v) for k, v in options.items()})
        print(json.dumps(line), flush=True)
        self.assertEqual(line["same"], [True, True])
        self.assertEqual(meter.differences, [])
        self.assertLessEqual(peak, budget)
        self.assertGreaterEqual(peak, 0.995 * predicted)
        return plan

    def check_network(self, name):
        model, inputs = on_device(name)
        expected = self.expected(model, inputs)
        for budget in self.budgets(model, inputs):
            with self.subTest(budget=budget):
                self.check(name, budget, expected)

    def test_no_statistics(self):
        """Batch norms that keep no running statistics."""
        model, inputs = on_device("resnet18")
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.track_running_stats = False
                module.running_mean = module.running_var = module.num_batches_tracked = None
        expected = self.expected(model, inputs)
        smallest = self.budgets(model, inputs)[2]
        found, peak, predicted, _ = self.check_peak(model, inputs, smallest)
        print(json.dumps(dict(no_statistics=smallest, predicted=predicted, allocated=peak,
                              same=same(expected, found[self.first:]))), flush=True)
        self.assertTrue(same(expected, found[self.first:]))
        self.assertLessEqual(peak, smallest)
        self.assertGreaterEqual(peak, 0.995 * predicted)

    def test_offload(self):
        """Copies on two streams, to pinned memory and back."""
        for name in ("gpt", "resnet18"):
            model, inputs = on_device(name)
            expected = self.expected(model, inputs)
            _, middle, smallest = self.budgets(model, inputs)
            parked = self.budgets(model, inputs, offload=True)[2]
            self.assertLess(parked, smallest)
            for budget, algorithm in ((middle, "offload-best"), (middle, "auto"), ((middle + smallest) // 2, "auto"),
                                      (parked, "auto")):
                with self.subTest(name=name, budget=budget, algorithm=algorithm):
                    plan = self.check(name, budget, expected, offload=True, algorithm=algorithm)
                    if algorithm != "auto" or budget == parked:
                        self.assertGreater(plan.offloads, 0)

    def recorded(self, name, budget, times=1, **options):
        """Losses and gradients of a recorded step and of the same step unrecorded, over the same random numbers."""
        model, inputs = on_device(name, times)
        found = []
        for record in (True, False):
            mine = copy.deepcopy(model)
            backend = cairn.backend(budget, cudagraphs=True, **options)
            call = compiled(mine, backend)
            if record:
                step = cairn.record(mine, call, inputs)
            else:
                def step(*values):
                    loss = call(*values)
                    loss.backward()
                    return loss.detach()
            torch.manual_seed(5)
            kept = []
            for _ in range(3):
                loss = step(*inputs)
                kept.append([loss.clone()] + [p.grad.clone() for p in mine.parameters()])
                mine.zero_grad(set_to_none=True)
            found.append((kept, [b.clone() for b in mine.buffers()]))
        return found, backend.plans[0]

    def test_recorded(self):
        """A CUDA graph draws new random numbers at every replay, those of the step unrecorded."""
        for name in ("gpt", "resnet18"):
            model, inputs = on_device(name)
            _, middle, _ = self.budgets(model, inputs, cudagraphs=True)
            (one, other), plan = self.recorded(name, middle)
            print(json.dumps(dict(recorded=name, repeated=plan.reruns, same=same(one, other))), flush=True)
            self.assertTrue(same(one, other))
            if name == "gpt":
                self.assertNotEqual(float(one[0][0][0]), float(one[0][1][0]))

    def test_recorded_offload(self):
        """Copies inside a CUDA graph, in both modes. An arena is large beside the allocator's unit."""
        for name, mode in itertools.product(("gpt", "resnet18"), ({}, dict(mode="compiled", arena=True))):
            times = 32 if mode else 1
            model, inputs = on_device(name, times)
            options = dict(cudagraphs=True, offload=True, **mode)
            middle = self.budgets(model, inputs, algorithm="offload-best", **options)[1]
            smallest = self.budgets(model, inputs, **options)[2]
            for budget, algorithm in ((middle, "offload-best"), (smallest, "auto")):
                (one, other), plan = self.recorded(name, budget, times, offload=True, algorithm=algorithm, **mode)
                print(json.dumps(dict(recorded_offload=name, algorithm=algorithm, offloads=plan.offloads,
                                      same=same(one, other), **mode)), flush=True)
                self.assertTrue(same(one, other))
                if not mode or algorithm == "offload-best":  # elsewhere recomputing may be faster
                    self.assertGreater(plan.offloads, 0)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Arena(unittest.TestCase):
    """The memory that the allocator takes for recorded steps in an arena."""
    OPTIONS = dict(mode="compiled", arena=True, cudagraphs=True, total=True)

    def setUp(self):
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        self.addCleanup(torch._C._accelerator_setAllocatorSettings, "expandable_segments:False")
        self.addCleanup(torch.cuda.set_per_process_memory_fraction, 1.0)

    def limit(self, size):
        torch.cuda.set_per_process_memory_fraction(size / torch.cuda.get_device_properties(0).total_memory)

    def clean(self, model):
        model.zero_grad(set_to_none=True)
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def test_limit(self):
        """A network with convolutions, whose results lie beside the arena, where PyTorch may take 2% more than the budget:
        the step runs, and the allocator gives out and takes what was computed, to the byte."""
        torch.manual_seed(0)
        model = ResNet(Bottleneck, (1, 1, 1, 1)).to(memory_format=torch.channels_last).cuda()
        inputs = torch.randn(32, 3, 128, 128).to(memory_format=torch.channels_last).cuda(), torch.arange(32).cuda() % 10
        self.clean(model)
        before = torch.cuda.memory_allocated()
        planner = _backend.planner_of(model, inputs, _backend.Options(**self.OPTIONS))
        least, most = planner.smallest()[0] + planner.beside(), planner.none().peak + planner.beside()
        for budget in least, (least + most) // 2, most:
            self.clean(model)
            self.limit(1.02 * budget)
            backend = cairn.backend(budget, **self.OPTIONS)
            call = compiled(model, backend)
            call(*inputs).backward()
            self.clean(model)
            step = cairn.record(model, call, inputs)
            plan, pool = backend.plans[0], step.graph.pool()
            peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
            taken = sum(segment["total_size"] for segment in torch.cuda.memory_snapshot()
                        if segment["segment_pool_id"] == pool)
            print(json.dumps(dict(budget=budget, peak=peak, reserved=reserved, taken=taken, computed=plan.layout.taken,
                                  gaps=plan.layout.total - plan.layout.without_gaps)), flush=True)
            self.assertEqual(peak, before + plan.peak + plan.reserve)
            self.assertLessEqual(peak, budget)
            self.assertEqual(taken, plan.layout.taken)
            step.graph.reset()
            del step, call, backend


class Large(torch.nn.Module):
    """Two matrices that are updated in chunks, and smaller ones: 320 MiB of parameters, 1.25 GiB with gradients and
    moments."""

    def __init__(self):
        super().__init__()
        shapes = [(4096, 8192), (8192, 4096), (4096, 2048), (2048, 4096)]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*shape) for shape in shapes)
        assert self.layers[0].weight.numel() > _updates.CHUNK > self.layers[2].weight.numel()

    def forward(self, x, y):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return F.cross_entropy(x, y)


def large():
    torch.manual_seed(0)
    return Large(), (torch.randn(64, 4096), torch.randint(0, 4096, (64,)))


UPDATES = {"adamw": lambda p: torch.optim.AdamW(p, lr=0.001),
           "adamw, plain": lambda p: torch.optim.AdamW(p, lr=0.001, foreach=False),
           "adamw, fused": lambda p: torch.optim.AdamW(p, lr=0.001, fused=True),
           "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True)}


def to(value, device):
    if isinstance(value, (list, tuple)):
        return [to(x, device) for x in value]
    return value.to(device)


class Most:
    """The most that PyTorch has allocated on the GPU in a block, although Cairn sets back the counter to measure."""

    def __enter__(self):
        self._found, self._reset = 0, torch.cuda.reset_peak_memory_stats
        self._reset()
        self._patch = unittest.mock.patch.object(torch.cuda, "reset_peak_memory_stats", self._set_back)
        self._patch.start()
        return self

    def __exit__(self, *_):
        self._patch.stop()

    def _set_back(self, *device):
        self._found = self.bytes()
        self._reset(*device)

    def bytes(self):
        return max(self._found, torch.cuda.max_memory_allocated())


FIRST_CALL = """
import sys, warnings
import torch
import cairn
from test_cuda import Most
from test_first_call import Frozen, bytes_alone
warnings.simplefilter("ignore")
model, x = Frozen(2048).cuda(), torch.randn(1024, 2048, device="cuda")
before = torch.cuda.memory_allocated()
with Most() as most:
    backend = cairn.backend(int(sys.argv[3]), mode=sys.argv[1], arena=sys.argv[2] == "True")
    try:
        torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(x).backward()
    except cairn.BudgetError as error:
        print(error.smallest)
    else:
        print(most.bytes() - before, max(map(bytes_alone, backend.plans[0].joint.ops)))
"""


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class FirstCall(unittest.TestCase):
    """What the first call of a model with large frozen weights takes, in which ops are measured and kernels tuned: no more
    than the budget, or than one op alone needs that overwrites nothing. Each is in a process of its own, whose caches are
    empty."""
    LEAST = 4096  # bytes that Inductor overwrites at least to empty the cache

    def start(self, mode, arena, budget):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        environment = dict(os.environ, CAIRN_CACHE=folder, TORCHINDUCTOR_CACHE_DIR=folder, TORCHINDUCTOR_COMPILE_THREADS="2")
        return subprocess.Popen([sys.executable, "-c", FIRST_CALL, mode, str(arena), str(budget)], env=environment,
                                cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.PIPE, text=True)

    def test_frozen(self):
        cases = list(itertools.product(("exact", "compiled"), (False, True)))
        refused = [self.start(*case, 1000) for case in cases]
        smallest = [int(process.communicate()[0]) for process in refused]
        processes = [self.start(*case, budget) for case, budget in zip(cases, smallest)]
        for (mode, arena), process, budget in zip(cases, processes, smallest):
            with self.subTest(mode=mode, arena=arena):
                found, alone = map(int, process.communicate()[0].split())
                print(json.dumps(dict(mode=mode, arena=arena, smallest=budget, first_call=found, alone=alone)), flush=True)
                self.assertLessEqual(found, max(budget, alone + self.LEAST))


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Trainer(unittest.TestCase):
    """cairn.trainer with everything on the device inside a budget: bits of a plain loop, and the allocator's peak."""

    def setUp(self):
        deterministic()
        self.losses = torch.zeros(4, device="cuda").unbind()  # budgets count it

    def plain(self, optimizer, **options):
        """Results of a plain loop, on the host, and the most that PyTorch had allocated."""
        model, inputs = large()
        torch.cuda.reset_peak_memory_stats()
        found = to(plainly(model.cuda(), to(inputs, "cuda"), optimizer, **options), "cpu")
        return found, torch.cuda.max_memory_allocated()

    def trainer(self, optimizer, budget, **options):
        """One that has to measure everything."""
        self.free()
        model, inputs = large()
        model, inputs = model.cuda(), to(inputs, "cuda")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return cairn.trainer(model, optimizer(model.parameters()), budget, costs=folder.name + "/costs", **options), inputs

    def free(self):
        torch._dynamo.reset()
        while gc.collect():  # what the first collection frees holds models and inputs too
            pass
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()

    def smallest(self, optimizer):
        trainer, inputs = self.trainer(optimizer, 1000)
        with self.assertRaises(cairn.BudgetError) as refused:
            trainer.fit(*inputs)
        return refused.exception.smallest

    def check(self, name, budget, expected, micro=1, **options):
        """The results are read without waiting for the GPU: between steps they must be there."""
        trainer, inputs = self.trainer(UPDATES[name], budget, **options)
        losses, peaks = self.losses, []
        with Most() as counter:
            if micro == 1:
                trainer.fit(*inputs)
            first = counter.bytes()
            for loss in losses:
                torch.cuda.reset_peak_memory_stats()
                for _ in range(micro - 1):
                    trainer.accumulate(*inputs)
                loss.copy_(trainer.step(*inputs))
                peaks.append(torch.cuda.max_memory_allocated())
            most = counter.bytes()
        found = to(outcome(trainer.model, trainer.optimizer, list(losses)), "cpu")
        homes = [place for place in trainer._places.values() if place.at_home]
        line = dict(trainer=name, budget=budget, predicted=trainer.plan.peak + trainer.plan.reserve, allocated=peaks,
                    fit=first, most=most, homes=len(homes), moments=sum(place.name is not None for place in homes),
                    micro=micro, same=same(expected, found), **{k: str(v) for k, v in options.items()})
        print(json.dumps(line), flush=True)
        self.assertTrue(line["same"])
        self.assertLessEqual(most, budget)
        self.assertGreater(line["moments"], 0)

    def test_optimizers(self):
        """A budget below parameters, gradients and moments, and the smallest."""
        for name, optimizer in UPDATES.items():
            with self.subTest(name):
                self.free()
                expected, usual = self.plain(optimizer)
                least = self.smallest(optimizer)
                state = sum(t.nbytes for t in (*expected[1], *expected[1], *sum(expected[2], [])))
                print(json.dumps(dict(trainer=name, usual=usual, state=state, smallest=least)), flush=True)
                for budget in (state * 3 // 5, least):
                    self.check(name, budget, expected)

    def test_sums(self):
        """Gradients of two micro-batches, clipped. Nothing that the plan frees is held."""
        self.free()
        expected, usual = self.plain(UPDATES["adamw"], micro=2, clip=0.1)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "cairn: the plan frees")
            self.check("adamw", usual // 2, expected, micro=2, clip_norm=0.1)


for _name in NETWORKS:
    setattr(Cuda, f"test_{_name}", lambda self, name=_name: self.check_network(name))

if __name__ == "__main__":
    unittest.main()
