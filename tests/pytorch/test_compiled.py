"""Mode "compiled": kernels of Inductor as ops of the plan. The bits are those of the same mode without a budget, whatever
the plan; live bytes are as predicted after every op; the allocator stays within the budget."""

import contextlib
import copy
import functools
import os
import tempfile
import time
import types
import unittest
import unittest.mock

import torch
from torch import nn
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.exc import CppCompileError

import cairn
from cairn import _arena, _backend, _chunks, _compiled, _costs, _groups, _inductor, _library, _load, _onto, _plan
from cairn import _slices, _torch
from cairn._joint import Parts
from cairn._peak import peak_of
from cairn._real import random_like, real_tensors
from common import allocator_peak, arenas, compiled, matrices_in, same, train, with_cairn
from small_models import GPT, Basic, Llama, ResNet

MODE = dict(mode="compiled")
aten = torch.ops.aten
WORDS, LAYERS = 1024, 2  # of GPT
STEPS = 2  # of training


def words(count=128):
    """Words and labels, of which some are not to be counted."""
    labels = torch.randint(0, count, (4, 32))
    labels[0, :5] = -100
    return torch.randint(0, count, (4, 32)), labels


def make(name):
    torch.manual_seed(0)
    if name == "gpt":  # tied weights and dropout
        return GPT(WORDS, 32, 32, LAYERS, 2, 0.1), words(WORDS)
    if name == "resnet":  # batch norms, whose running statistics change
        return ResNet(Basic, (1, 1), width=8), (torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)))
    return Llama(128, 32, 1, 2, 32), words()  # under autocast


def planner_of(model, inputs, **options):
    return _backend.planner_of(model, inputs, _backend.Options(**MODE, **options))


@functools.cache
def prepared(name):
    """A network with its inputs, its planner, and what training it without a budget gives. Most of the time of these tests
    is spent in compilers, so they share what they can."""
    model, inputs = make(name)
    return model, inputs, planner_of(model, inputs), with_cairn(model, inputs, cairn.backend(**MODE), steps=STEPS)


@contextlib.contextmanager
def unmeasured():
    """Steps are captured without compiling and measuring their kernels."""
    def guess(missing, table, *_):
        for signature, node in missing.items():
            table.guess(signature, _costs.estimate(node), "not tried")
    with unittest.mock.patch.object(_costs, "_measure_cpu", guess), \
            unittest.mock.patch.object(_costs, "_measure_cuda", guess), \
            unittest.mock.patch.object(_compiled, "compile_all", lambda kernels: None), \
            unittest.mock.patch.object(_compiled, "tried_over", lambda kernel, place: False), \
            unittest.mock.patch.dict(_costs._trials, clear=True), \
            unittest.mock.patch.object(_costs, "default_file", lambda device: None):
        yield


def budgets(planner, count):
    """From what the plain step needs down to the smallest."""
    most, least = planner.none().peak, planner.smallest()[0]
    return [most - (most - least) * i // (count - 1) for i in range(count)]


class Steps(unittest.TestCase):
    def check(self, name, count):
        model, inputs, planner, expected = prepared(name)
        for budget in budgets(planner, count):
            with self.subTest(budget=budget):
                backend = cairn.backend(budget, check=True, **MODE)
                found = with_cairn(model, inputs, backend, steps=STEPS)
                plan, meter = backend.plans[0], backend.meters[0]
                self.assertTrue(same(expected, found))
                self.assertEqual(meter.differences, [])
                self.assertGreater(meter.checked, len(plan.joint.ops))
                self.assertLessEqual(plan.peak, budget)
                self.assertEqual(plan.reruns > 0, budget < planner.none().peak)
        self.check_allocator(model, inputs, budgets(planner, 3)[1])
        with self.assertRaises(cairn.BudgetError):
            planner.plan(planner.smallest()[0] - 1)

    def check_allocator(self, model, inputs, budget):
        backend, mine = cairn.backend(budget, **MODE), copy.deepcopy(model)
        call = compiled(mine, backend)

        def step():
            call(*inputs).backward()
        for _ in range(2):
            step()
            mine.zero_grad(set_to_none=True)
        peak = allocator_peak(step)
        self.assertLessEqual(peak, budget)
        self.assertGreater(peak, 0.995 * backend.plans[0].peak)

    def test_gpt(self):
        self.check("gpt", 10)

    def test_resnet(self):
        self.check("resnet", 3)

    def test_llama(self):
        self.check("llama", 3)

    def test_chunks(self):
        """The loss in chunks: less memory, equal bits on any plan, and but for rounding the result of the loss at once."""
        model, inputs, whole, expected_of_whole = prepared("gpt")
        planner = planner_of(model, inputs, chunks=4)
        self.assertLess(planner.smallest()[0], 0.7 * whole.smallest()[0])
        self.assertLess(planner.none().peak, 0.8 * whole.none().peak)
        expected = with_cairn(model, inputs, cairn.backend(chunks=4, **MODE), steps=STEPS)
        for budget in budgets(planner, 3)[1:]:
            backend = cairn.backend(budget, chunks=4, check=True, **MODE)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=STEPS)))
            self.assertEqual(backend.meters[0].differences, [])
        torch.testing.assert_close(expected[:2], expected_of_whole[:2], rtol=1e-3, atol=1e-4)

    def test_gradients_of_chunks(self):
        """The gradient of what the chunks read is one tensor, made by a kernel without sums."""
        for name in "gpt", "llama":
            model, inputs = make(name)
            with unmeasured():
                joint = planner_of(model, inputs, chunks=4).joint
            kernels = [op.node.target.graph for op in joint.ops if _compiled.is_kernel(op) and op.backward]
            joining = [[n for n in graph.nodes if n.op == "call_function"] for graph in kernels
                       if any(len(n.args[0]) == 4 for n in graph.find_nodes(op="call_function", target=aten.cat.default))]
            self.assertEqual(len(joining), 1)
            self.assertFalse(any(map(_groups.is_reduction, joining[0])))

    class Head(nn.Module):
        """A layer with a bias under autocast, and a loss that is scaled, in one of several ways to write it."""

        def __init__(self, write):
            super().__init__()
            self.body, self.head, self.write = nn.Linear(8, 8), nn.Linear(8, 64), write

        def forward(self, x, y):
            with torch.autocast("cpu", torch.bfloat16):
                z = self.head(torch.relu(self.body(x))) if self.write == "layers" else None
            if z is None:
                x = torch.relu(self.body(x)).flatten(0, 1)
                return 3 * nn.functional.linear_cross_entropy(x, self.head.weight, y.flatten(), linear_bias=self.head.bias)
            return 3 * nn.functional.cross_entropy(z.float().flatten(0, 1), y.flatten())

    def test_chosen_chunks(self):
        """A loss with many rows is in chunks unless the user wants it at once; near to eager execution."""
        for write in ("layers", "linear_cross_entropy"):
            if not hasattr(nn.functional, write) and write != "layers":
                continue
            with self.subTest(write), unittest.mock.patch.object(_chunks, "ROWS", 16):
                torch.manual_seed(0)
                model, inputs = self.Head(write), (torch.randn(4, 8, 8), torch.randint(0, 64, (4, 8)))
                inputs[1][0, :3] = -100
                gradients, losses = [], []
                for backend in ("eager", cairn.backend(**MODE), cairn.backend(chunks=1, **MODE)):
                    mine = copy.deepcopy(model)
                    losses.append(compiled(mine, backend)(*inputs))
                    losses[-1].backward()
                    gradients.append([p.grad for p in mine.parameters()])
                torch.testing.assert_close(losses[0], losses[1], rtol=1e-2, atol=1e-2)
                torch.testing.assert_close(gradients[0], gradients[1], rtol=3e-2, atol=1e-2)
                self.assertFalse(same(gradients[1], gradients[2]))

    def test_near_eager(self):
        """Loss, gradients and running statistics are those of eager execution, but for rounding."""
        model, inputs, planner, _ = prepared("resnet")
        model, mine = copy.deepcopy(model), copy.deepcopy(model)
        found = compiled(mine, cairn.backend(budgets(planner, 3)[1], **MODE))(*inputs)
        expected = model(*inputs)
        found.backward()
        expected.backward()
        torch.testing.assert_close(found, expected)
        for a, b in zip(mine.parameters(), model.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)
        for a, b in zip(mine.buffers(), model.buffers()):
            torch.testing.assert_close(a, b)


class Features(unittest.TestCase):
    def setUp(self):
        self.model, self.inputs, self.planner, self.expected = prepared("gpt")
        self.middle = budgets(self.planner, 3)[1]

    def run_with(self, backend):
        return with_cairn(self.model, self.inputs, backend, steps=STEPS)

    def test_not_compiled(self):
        """What Inductor cannot express alone runs op by op."""
        x, w = torch.randn(7, 5, requires_grad=True), torch.randn(5, 7)
        lowering = _inductor.LoweringException(AssertionError(), "op", [], {})
        joining = RuntimeError("Inductor failed")
        joining.inner_exception = AssertionError()  # as InductorError has it
        for arena, error, factor in ((False, lowering, 3), (True, lowering, 3), (False, joining, 5)):
            def f(x, w):
                return ((x @ w).sin().t() * factor).cos().mean()
            with unittest.mock.patch.object(_inductor, "compile_fx_inner", side_effect=error):
                call = compiled(f, cairn.backend(arena=arena, **MODE))
                with self.assertWarnsRegex(UserWarning, "one by one") if not arena else contextlib.nullcontext():
                    found, = torch.autograd.grad(call(x, w), x)
                torch.testing.assert_close(found, torch.autograd.grad(f(x, w), x)[0])

    def test_bad_code(self):
        """Code that Inductor writes and no compiler takes: only the ops of that group run one by one."""
        def f(x, w):
            return ((x @ w).sin() @ (x @ w).cos()).tanh().mean() * 7
        x, w = torch.randn(7, 5, requires_grad=True), torch.randn(5, 7)
        wait, failed = AsyncCompile.wait, []

        def once(compiler, scope):
            if not failed:
                failed.append(scope)
                raise CppCompileError(["c++"], "error")
            wait(compiler, scope)
        with unittest.mock.patch.object(AsyncCompile, "wait", once), \
                unittest.mock.patch.dict(_compiled._kernels, clear=True), self.assertWarnsRegex(UserWarning, "one by one"):
            backend = cairn.backend(**MODE)
            found, = torch.autograd.grad(compiled(f, backend)(x, w), x)
        torch.testing.assert_close(found, torch.autograd.grad(f(x, w), x)[0])
        kernels = [op.node.target for op in backend.planners[0].joint.ops if _compiled.is_kernel(op)]
        apart = [isinstance(k.forms[0].compile(), _inductor.OneByOne) for k in kernels]
        self.assertIn(True, apart)
        self.assertIn(False, apart)

    @unittest.mock.patch.object(_plan.Switches, "simulate_host", True)
    def test_offload(self):
        backend = cairn.backend(self.middle, offload=True, algorithm="offload-best", check=True, **MODE)
        self.assertTrue(same(self.expected, self.run_with(backend)))
        self.assertGreater(backend.plans[0].offloads, 0)
        self.assertEqual(backend.meters[0].differences, [])

    @unittest.mock.patch.object(_plan.Switches, "simulate_host", True)
    def test_parked_gradients(self):
        least = planner_of(self.model, self.inputs, offload=True).smallest()[0]
        self.assertLessEqual(least, self.planner.smallest()[0])
        backend = cairn.backend(least, offload=True, check=True, **MODE)
        self.assertTrue(same(self.expected, self.run_with(backend)))
        self.assertEqual(backend.meters[0].differences, [])

    def test_save_and_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path, picture = os.path.join(folder, "step.plan"), os.path.join(folder, "step.svg")
            first = cairn.backend(self.middle, report=picture, **MODE)
            self.assertTrue(same(self.expected, self.run_with(first)))
            first.plans[0].save(path)
            second = cairn.backend(plan=path, **MODE)
            self.assertTrue(same(self.expected, self.run_with(second)))
            self.assertEqual(first.plans[0].steps, second.plans[0].steps)
            with open(picture) as file:
                self.assertIn("<svg", file.read(200))

    def test_record(self):
        """On the processor a recorded step is the step itself."""
        model = copy.deepcopy(self.model)
        step = cairn.record(model, compiled(model, cairn.backend(self.middle, cudagraphs=True, **MODE)), self.inputs)
        torch.manual_seed(7)
        self.assertTrue(same(step(*self.inputs), self.expected[0][0]))
        self.assertTrue(same([p.grad for p in model.parameters()], self.expected[1][0]))

    def test_retain_graph(self):
        """Two backward passes through one forward pass."""
        def gradients(backend):
            model = copy.deepcopy(self.model)
            torch.manual_seed(3)
            loss = compiled(model, backend)(*self.inputs)
            loss.backward(retain_graph=True)
            loss.backward()
            return [p.grad for p in model.parameters()]
        self.assertTrue(same(gradients(cairn.backend(**MODE)), gradients(cairn.backend(self.middle, **MODE))))

    def test_fits(self):
        self.assertTrue(cairn.fits(self.model, self.inputs, self.middle, **MODE))
        no = cairn.fits(self.model, self.inputs, 1000, **MODE)
        self.assertFalse(no)
        self.assertEqual(no.smallest, self.planner.smallest()[0])

    def test_kernels(self):
        """Equal layers share their kernels, also those with dropout; a step without a budget runs every group once."""
        with unmeasured():
            few, many = (planner_of(GPT(WORDS, 32, 32, layers, 2, 0.1), self.inputs).joint for layers in (3, 5))
        few, many = ([op.node.target for op in joint.ops if _compiled.is_kernel(op)] for joint in (few, many))
        self.assertGreater(len(many), 2 * len(set(many)))
        self.assertEqual(set(many) - set(few), set())

    def test_in_place(self):
        """Kernels that write over an operand: equal bits, at the operand's address, and nothing large is allocated. Among
        them are kernels with sums."""
        seen = {(op.node.target, place): op for op in self.planner.joint.ops if _compiled.is_kernel(op)
                for place, _, out in op.inplace[:1] if op.outs[out].slot == 0}
        self.assertGreater(len(seen), 0)
        for (kernel, place), op in seen.items():
            with real_tensors():
                given = [random_like(n.meta["val"]) for n in op.node.args]
                expected, mine = kernel(*given), [x.clone() for x in given]
                into = lambda given: kernel.onto([given[place]] + [None] * (len(expected) - 1), *given)
                found = into(mine)
                self.assertTrue(same(list(expected), list(found)))
                self.assertEqual(found[0].data_ptr(), mine[place].data_ptr())
                peak = allocator_peak(lambda: into(given))
            rest = sum(s.bytes for s in op.outs[1:] + op.beside)
            self.assertLessEqual(peak, rest + op.workspace + 4096)
        self.assertTrue(any(_groups.is_reduction(n) for kernel, _ in seen for n in kernel.graph.nodes))


class Strided(nn.Module):
    """The real backward of a strided view returns a larger storage than a kernel does."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        h = torch.stack((x * self.weight, x * self.weight))
        part = h.as_strided((2, 3), (1, 2))
        return (part * part).mean() + (h.sin() @ h.mT).mean()


class Frozen(nn.Module):
    """A batch norm with fixed statistics."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8, affine=False)
        self.norm.eval()

    def forward(self, x):
        return self.norm(self.linear(x)).sin().square().mean()


class Table(unittest.TestCase):
    def test_frozen_norms(self):
        torch.manual_seed(0)
        model, x = Frozen(), (torch.randn(4, 8),)
        expected = with_cairn(model, x, cairn.backend(), steps=1)
        found = with_cairn(model, x, cairn.backend(mode="compiled"), steps=1)
        for a, b in zip(expected[1][0], found[1][0]):
            torch.testing.assert_close(a, b)

    def test_shared(self):
        """What mode exact and an earlier process learnt of ops is no fact about kernels, and what they learnt of kernels
        is used."""
        torch.manual_seed(0)
        model, x = Strided(), (torch.randn(4, 6),)
        with tempfile.TemporaryDirectory() as folder:
            seen = [with_cairn(model, x, cairn.backend(mode=mode, costs=os.path.join(folder, "costs.json")), steps=1)
                    for mode in ("exact", "compiled", "compiled")]
        self.assertTrue(same(seen[1], seen[2]))

    def test_smallest(self):
        """A process that finds everything in the files, and has no memory to try anything, has the same smallest budget."""
        def no_memory(*_):
            raise torch.OutOfMemoryError
        model, inputs = make("gpt")
        with tempfile.TemporaryDirectory() as folder:
            options = dict(arena=True, costs=os.path.join(folder, "costs.json"))
            with unittest.mock.patch.dict(_costs._trials, clear=True):
                first = planner_of(model, inputs, **options)
                first.none()
            inplace = [op.inplace for op in first.joint.ops]
            self.assertTrue(any(inplace))
            with unittest.mock.patch.dict(_costs._trials, clear=True), \
                    unittest.mock.patch.object(_compiled, "tried_over", no_memory), \
                    unittest.mock.patch.object(_onto, "_is_same", no_memory), \
                    unittest.mock.patch.object(_costs, "_measure_cpu", no_memory):
                second = planner_of(model, inputs, **options)
                self.assertEqual([op.inplace for op in second.joint.ops], inplace)
                self.assertEqual(second.smallest(), first.smallest())

    def test_first_counts(self):
        """What two processes measure at the same time: the figures that were saved first count for both, but for times
        under load."""
        with tempfile.TemporaryDirectory() as folder:
            first, second = (_costs.Table(os.path.join(folder, "costs.json"), torch.device("cpu")) for _ in range(2))
            first.set("a", 1, 64)
            second.set("a", 2, 128)
            second.set("b", 3, 0)
            first.save()
            second.save()
            self.assertEqual(second.figures, {"a": (1, 64, "aten"), "b": (3, 0, "aten")})
            first.settle("a", 4)
            first.save()
            self.assertEqual(first.figures, {"a": (4, 64, "aten"), "b": (3, 0, "aten")})


class Biased(nn.Module):
    """The gradient of the bias is a sum over rows, which PyTorch makes in half of the time of Inductor's C++."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64 if k == 0 else 128, 128) for k in range(5))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


@unittest.skipIf(torch.cuda.is_available(), "forms of a processor")
class Forms(unittest.TestCase):
    def sums(self, planner):
        """The kernels of a step that are a sum alone."""
        kernels = {op.node.target: True for op in planner.joint.ops if _compiled.is_kernel(op)}
        return [k for k in kernels if len(k.forms) > 1]

    def test_fastest(self):
        """The form is taken that takes less time, but ops one by one only where they are much faster; another process with
        the same costs takes the same and measures nothing."""
        torch.manual_seed(0)
        model, x = Biased(), (torch.randn(2048, 64),)
        measure = _costs._measure_cpu

        def measured(seconds, missing, table):
            measure(missing, table)
            for signature in missing:
                if ".aten" in signature or ".inductor" in signature:
                    table.figures[signature] = (seconds[".aten" in signature], *table.figures[signature][1:])
        for seconds, name in (((1000, 500), "aten"), ((1000, 900), "inductor"), ((500, 1000), "inductor")):
            with tempfile.TemporaryDirectory() as folder:
                options = dict(costs=os.path.join(folder, "costs.json"))
                with unittest.mock.patch.dict(_compiled._kernels, clear=True), \
                        unittest.mock.patch.object(_costs, "_measure_cpu", functools.partial(measured, seconds)):
                    first = planner_of(model, x, **options)
                with unittest.mock.patch.dict(_compiled._kernels, clear=True), \
                        unittest.mock.patch.object(_costs, "_measure_cpu", side_effect=AssertionError):
                    second = planner_of(model, x, **options)
            for planner in (first, second):
                self.assertGreater(len(self.sums(planner)), 0)
                self.assertEqual({k.form.name for k in self.sums(planner)}, {name})
            self.assertEqual(first.smallest(), second.smallest())

    def test_bits(self):
        """Ops one by one are as near to eager as the others, with the same bits at every budget, in an arena too."""
        def last(kernels, *_):
            for kernel in kernels:
                kernel.form, kernel.chosen = kernel.forms[-1], True
        torch.manual_seed(0)
        model, x = Biased(), (torch.randn(2048, 64),)
        plain = copy.deepcopy(model)
        expected = train(plain, plain, x, steps=1)
        with unittest.mock.patch.object(_compiled, "choose_forms", last), \
                unittest.mock.patch.dict(_compiled._kernels, clear=True):
            backend = cairn.backend(**MODE)
            found = with_cairn(model, x, backend, steps=1)
            self.assertEqual({k.form.name for k in self.sums(backend.planners[0])}, {"aten"})
            torch.testing.assert_close(found[1][0], expected[1][0])
            for options in (dict(budget="85%"), dict(budget="85%", arena=True), dict(arena=True)):
                self.assertTrue(same(found, with_cairn(model, x, cairn.backend(**MODE, **options), steps=1)))


class Load(unittest.TestCase):
    """Times under load, with a clock in place of a GPU's events."""

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            self.at = time.perf_counter()

        def elapsed_time(self, end):
            return 1e3 * (end.at - self.at)

    @unittest.mock.patch.object(torch.cuda, "Event", Event)
    def test_queue(self):
        """Where Python is slow, the device waits until all runs are queued."""
        with unittest.mock.patch.object(_costs._torch, "sleep_cuda") as sleep:
            self.assertGreater(_costs._Runs(lambda: time.sleep(2e-4)).time_ns(), 1e5)
        self.assertGreater(sleep.call_args[0][0], 3 * 10**6)

    @unittest.mock.patch.object(torch.cuda, "synchronize", lambda: None)
    @unittest.mock.patch.object(torch.cuda, "Event", Event)
    def test_times(self):
        """Every op gets a time, and together they are the step's."""
        planner = prepared("resnet")[2]
        gm, alone = planner.joint.gm, {s: figures[:2] for s, figures in planner.table.figures.items()}
        given = gm, _costs.signature_of, alone, torch.device("cpu"), False, None
        with real_tensors(), unittest.mock.patch.object(_load._Step, "total_ms", lambda step: 7.0):
            with unittest.mock.patch.object(_load._Step, "settle", lambda step: False):
                self.assertEqual(_load.times_of(*given), {})
            with unittest.mock.patch.object(_load._Step, "settle", lambda step: True):
                found = _load.times_of(*given)
        ops = [op.signature for op in planner.joint.ops if op.kind == "node"]
        self.assertEqual(set(found), set(ops))
        self.assertAlmostEqual(sum(found[s] for s in ops) / 7e6, 1, delta=0.01)

    @unittest.mock.patch.object(torch.cuda, "synchronize", lambda: None)
    @unittest.mock.patch.object(torch.cuda, "Event", Event)
    def test_room(self):
        """Ops that run in the order of a step keep to the room that they are given, or do not run."""
        planner = prepared("resnet")[2]
        gm, alone = planner.joint.gm, {s: figures[:2] for s, figures in planner.table.figures.items()}
        nodes = [op.node for op in planner.joint.ops if op.kind == "node"]
        sizes = _load.Sizes(nodes, {n: alone[_costs.signature_of(n)][1] for n in nodes})
        least = sizes.ring + sizes.others
        measured = lambda room: _load.times_of(gm, _costs.signature_of, alone, torch.device("cpu"), False, room)
        with real_tensors(), unittest.mock.patch.object(_load._Step, "total_ms", lambda step: 7.0), \
                unittest.mock.patch.object(_load._Step, "settle", lambda step: step.run() is None):
            self.assertEqual(measured(least - _load.ALIGNMENT), {})
            for room in (least + _load.ALIGNMENT, 4 * least):
                found = []
                self.assertLessEqual(peak_of(lambda: found.append(measured(room)), torch.device("cpu")), room)
                self.assertTrue(found[0])
        self.assertLess(4 * least, _load.RING)

    def test_small_copies(self):
        """Where little may be allocated, the link is measured with smaller copies."""
        self.assertEqual(_costs._copied_bytes(None), (1 << 20, 1 << 26))
        self.assertEqual(_costs._copied_bytes(5 << 20), (1 << 16, 1 << 22))

    def test_limit(self):
        """Of a share of an unknown step at least the share of what it saves is known."""
        planner = prepared("resnet")[2]
        parts, cuda = Parts(planner.joint.gm, len(planner.joint.fwd_out)), torch.device("cuda")
        with unittest.mock.patch.object(torch.cuda, "memory_allocated", lambda device: 1000):
            limit = lambda **options: _costs.limit_of(parts, _backend.Options(**options), cuda)
            self.assertIsNone(limit())
            self.assertEqual(limit(budget="1MiB"), (1 << 20) + 1000)
            self.assertEqual(limit(budget="1MiB", total=True), 1 << 20)
            self.assertTrue(0.2 * planner.none_peak() < limit(budget="50%") - 1000 <= 0.5 * planner.none_peak())
            self.assertLess(limit(budget="50%"), limit(budget="50%", total=True))

    def test_views_of_one(self):
        """An op is measured with as much memory as it needs in a step, where its operands are views of one tensor; not if it
        returns one of them."""
        graph = torch.fx.Graph()
        whole = torch.empty(3, 64)
        given = [graph.placeholder(name) for name in "abc"]
        for node, row in zip(given, whole):
            node.meta["val"] = row
        made = graph.call_function(torch.ops.aten.addcmul.default, tuple(given))
        for value, count in ((torch.empty(64), 1), (whole[0], 3)):
            made.meta["val"] = value
            operands = _costs.operands_of(made)[0]
            self.assertEqual(len({x.untyped_storage().data_ptr() for x in operands}), count)
            self.assertEqual([x.storage_offset() for x in operands], [0, 64, 128])

    def test_added_products(self):
        """A product that is added to a matrix is measured as plans run it: it overwrites the matrix, and copies nothing."""
        add, places = torch.ops.aten.addmm.default, {}
        x, a, b = torch.ones(3, 4), torch.ones(3, 2), torch.ones(2, 4)
        target, arguments, _ = _load.as_planned(add, (x, a, b), {}, places)
        self.assertIs(target(*arguments), arguments[0])
        self.assertIs(_load.as_planned(add, (x, a, b), {}, places)[1][0], arguments[0])
        self.assertTrue(torch.equal(x, torch.ones(3, 4)))  # operands stay what they are
        self.assertIs(_load.as_planned(add, (b[0], a, b), {}, places)[0], add)  # a bias

    def test_ring(self):
        """Operands in one tensor are finite and have the shape and strides that are wanted."""
        like = [torch.empty(5, 7, dtype=kind) for kind in (torch.float64, torch.float32, torch.float16, torch.bfloat16)]
        like += [torch.empty(4, 6, dtype=torch.bfloat16).t()]
        like += [torch.zeros(3, dtype=kind) for kind in (torch.int64, torch.bool)]
        ring = _load._Ring(1 << 12, 64, torch.device("cpu"))
        for value in like:
            made = ring.operand(value)
            self.assertEqual((made.shape, made.stride(), made.dtype), (value.shape, value.stride(), value.dtype))
            self.assertTrue(made.isfinite().all())


class Groups(unittest.TestCase):
    class Chain(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.body = nn.Sequential(*(layer for _ in range(layers)
                                        for layer in (nn.Linear(16, 16), nn.Tanh(), nn.LayerNorm(16))))

        def forward(self, x):
            return self.body(x).square().mean()

    def grouped(self, layers):
        """The seconds that dividing takes, and the number of units."""
        found = []
        grouping = _groups.Grouping

        class Timed(grouping):
            def __init__(self, *given):
                start = time.process_time()
                super().__init__(*given)
                found.append((time.process_time() - start, len(self.units)))
                raise cairn.CairnError("enough")
        _compiled.Grouping = Timed
        try:
            with self.assertRaisesRegex(cairn.CairnError, "enough"):
                planner_of(self.Chain(layers), (torch.randn(64, 16),))
        finally:
            _compiled.Grouping = grouping
        return found[0]

    def test_products_of_results(self):
        """The gradient of a weight comes before that of the layer's input, which reads the same gradient."""
        ops = prepared("gpt")[2].joint.ops
        products = [op for op in ops if op.kind == "node" and op.node.target is torch.ops.aten.mm.default and op.backward]
        weights = [op for op in products if op.outs[0].flags & _library.RESULT]
        self.assertGreater(len(weights), LAYERS)
        for weight in weights:
            made = {s for s in weight.reads if s.op is not None and s.op.backward}
            for other in products:
                if other not in weights and made & set(other.reads):
                    self.assertLess(weight.index, other.index)

    def test_near_linear(self):
        self.grouped(10)
        (small, few), (large, many) = self.grouped(20), self.grouped(80)
        self.assertGreater(many, 3 * few)
        self.assertLess(large, 8 * small)

    def test_norms(self):
        """In the forward part what a norm makes is a group apart from its statistics, so that it can be recomputed from
        the sum that is kept. It may be recomputed; so may the group of the sum and its statistics."""
        with unmeasured():
            joint = planner_of(*make("gpt")).joint
        kernels = [op for op in joint.ops if _compiled.is_kernel(op) and not op.backward]
        reduces = {op for op in kernels if any(_groups.is_reduction(n) for n in op.node.target.graph.nodes)}
        made = {s: op for op in reduces for s in op.outs}
        applied = [op for op in kernels if op not in reduces and any(s in made for s in op.reads)]
        self.assertEqual(len(applied), 2 * LAYERS + 1)  # two a block, and the last one
        for op in applied:
            statistics = next(made[s] for s in op.reads if s in made)
            self.assertFalse((op.flags | statistics.flags) & _library.NEVER_AGAIN)


class Shared(nn.Module):
    """Linear layers that read the same, of which one's results several heads share."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, n, bias=False) for n in (128, 32, 32))

    def forward(self, x, turn):
        x = torch.tanh(x)
        q, k, v = (f(x).view(4, 8, -1, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
        k = k * turn + torch.cat((-k.chunk(2, -1)[1], k.chunk(2, -1)[0]), -1) * turn.cos()
        k, v = (u.repeat_interleave(4, 1) for u in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).square().sum()


class Sharing(unittest.TestCase):
    @functools.cached_property
    def planner(self):
        x = torch.randn(4, 8, 32, requires_grad=True)
        with unmeasured():
            return planner_of(Shared(), (x, torch.randn(8, 16)))

    def test_added_up(self):
        """Gradients of what several layers read are added up by the products, although views are between them."""
        nodes = [op.node for op in self.planner.joint.ops if op.kind == "node"]
        self.assertEqual(sum(n.target is torch.ops.aten.addmm.default for n in nodes), 2)
        self.assertTrue(all(op.inplace for op in self.planner.joint.ops
                            if op.kind == "node" and op.node.target is torch.ops.aten.addmm.default))

    def test_short_sums(self):
        """A sum of four is no kernel of its own: the gradients of keys and values are made of those of the heads at once."""
        kernels = [op.node.target for op in self.planner.joint.ops if _compiled.is_kernel(op) and op.backward]
        sums = [n for kernel in kernels for n in kernel.graph.nodes if n.target is torch.ops.aten.sum.dim_IntList]
        self.assertEqual(len(sums), 2)
        self.assertTrue(all(n.users and not any(u.op == "output" for u in n.users) for n in sums))

    def test_near_eager(self):
        torch.manual_seed(0)
        model, turn = Shared(), torch.randn(8, 16)
        x = torch.randn(4, 8, 32, requires_grad=True)
        torch._dynamo.reset()
        found = torch.compile(copy.deepcopy(model), backend=cairn.backend(**MODE))
        loss = found(x, turn)
        loss.backward()
        mine, x.grad = x.grad, None
        model(x, turn).backward()
        torch.testing.assert_close(mine, x.grad, rtol=1e-4, atol=1e-5)


class Gates(nn.Module):
    """Gated layers that are much wider than what they read."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(8, 256, False), nn.Linear(8, 256, False),
                                                   nn.Linear(256, 8, False)]) for _ in range(3))

    def forward(self, x):
        for gate, up, down in self.layers:
            x = x + down(nn.functional.silu(gate(x)) * up(x))
        return x.square().mean()


class TwoInPlace(unittest.TestCase):
    def test_gates(self):
        """The gradients of a gate and of what it gates are made by one kernel, both in place of operands: equal bits, and at
        the peak there are three large tensors, not four."""
        torch.manual_seed(0)
        model, inputs = Gates(), (torch.randn(64, 8),)
        expected = with_cairn(model, inputs, cairn.backend(**MODE))
        large = 64 * 256 * 4
        for arena in (False, True):
            planner = _backend.planner_of(model, inputs, _backend.Options(arena=arena, **MODE))
            twins = [op for op in planner.joint.ops if op.flags & _library.TOGETHER]
            self.assertEqual(len(twins), len(model.layers))
            self.assertLess(planner.smallest()[0], 4 * large)
            backend = cairn.backend(planner.smallest()[0], arena=arena, check=not arena, **MODE)
            self.assertTrue(same(expected, with_cairn(model, inputs, backend)))
            used = [permissions for kind, number, permissions in backend.plans[0].steps
                    if kind == _library.RUN and planner.joint.ops[number] in twins]
            self.assertTrue(used and all(len(permissions) == 2 for permissions in used), used)
            text = backend.plans[0].text()
            self.assertIn(" inplace 1 ", text)
            self.assertEqual(planner.read(text).steps, backend.plans[0].steps)
            if not arena:
                self.assertEqual(backend.meters[0].differences, [])


class Workspaces(unittest.TestCase):
    def test_small(self):
        """cuBLAS gets a small workspace in every release, but not where the user has chosen one."""
        small, sizes = _torch.make_cublas_workspaces_small.__wrapped__, []
        old = types.SimpleNamespace()
        new = types.SimpleNamespace(cublas_workspace_size=sizes.append, cublaslt_workspace_size=sizes.append)
        with unittest.mock.patch.object(_torch, "clear_cublas_workspaces"), unittest.mock.patch.dict(os.environ):
            for name in _torch._BLAS_VARIABLES:
                os.environ.pop(name, None)
            for cuda in new, old, new:  # what the old release sets is a choice
                with unittest.mock.patch.object(torch.backends, "cuda", cuda):
                    small()
                    self.assertEqual(sizes, [128 << 10] * 2)
            self.assertEqual(os.environ["CUBLAS_WORKSPACE_CONFIG"], ":16:8")


class United(unittest.TestCase):
    def test_one_kernel(self):
        """Of a group that Inductor divides, because it repeats what it reads, there is a form that is one kernel."""
        def turned(k, cos, sin):
            a, b = k.split(4, -1)
            k = k * cos + torch.cat([-b, a], -1) * sin
            return (k.unsqueeze(2).expand(2, 2, 4, 16, 8).clone(memory_format=torch.contiguous_format),)
        given = torch.randn(2, 2, 16, 8), torch.randn(16, 8), torch.randn(16, 8)
        gm = torch.fx.experimental.proxy_tensor.make_fx(turned, tracing_mode="fake")(*given)
        likes = [n.meta["val"] for n in gm.graph.find_nodes(op="placeholder")]
        kernel = _compiled.Kernel("divided", gm.graph, likes)
        kernel.forms[0].compile()
        with unittest.mock.patch.object(_compiled, "_UNITED", ("cpu",)):
            self.assertTrue(kernel.is_divided())
            kernel.unite()
            self.assertFalse(kernel.is_divided())  # it is added once
        self.assertEqual([form.name for form in kernel.forms], ["inductor", "united"])
        found = kernel.forms[1](list(given))[0]
        self.assertEqual([form.launches() for form in kernel.forms], [2, 1])
        torch.testing.assert_close(found, turned(*given)[0])
        self.assertFalse(kernel.chosen)  # the faster one is


class Arena(unittest.TestCase):
    """One allocation with every tensor at its planned address."""
    OPTIONS = dict(arena=True, **MODE)

    def check(self, name):
        model, inputs, _, expected = prepared(name)
        planner = _backend.planner_of(model, inputs, _backend.Options(**self.OPTIONS))
        for budget in budgets(planner, 3):
            with self.subTest(budget=budget):
                backend, mine = cairn.backend(budget, **self.OPTIONS), copy.deepcopy(model)
                call = compiled(mine, backend)
                with arenas() as found:
                    self.assertTrue(same(expected, train(mine, call, inputs, steps=STEPS)))
                    plan = backend.plans[0]
                    self.assertLessEqual(plan.peak, budget)
                    self.check_memory(mine, call, inputs, plan, found)

    def check_memory(self, model, call, inputs, plan, found):
        model.zero_grad(set_to_none=True)
        peak = allocator_peak(lambda: call(*inputs).backward())
        self.assertLessEqual(peak, plan.peak)
        self.assertGreater(peak, 0.995 * plan.peak)
        # Matrix products write their gradients into the arena; convolutions and batch norms insist on allocating.
        matrices, inside = matrices_in(found[-1], model)
        self.assertGreaterEqual(2 * inside, matrices)

    def test_gpt(self):
        self.check("gpt")

    def test_resnet(self):
        self.check("resnet")

    def test_copies(self):
        """Results of ops that allocate, copied into the arena: equal bits, and everything fits."""
        model, inputs, planner, expected = prepared("gpt")
        copying = functools.partial(_arena.Layout, tight=True)
        with unittest.mock.patch.object(_arena, "Layout", copying), arenas() as found, \
                unittest.mock.patch.object(_slices, "second_of", lambda op, table: None):
            backend, mine = cairn.backend(budgets(planner, 3)[1], **self.OPTIONS), copy.deepcopy(model)
            call = compiled(mine, backend)
            self.assertTrue(same(expected, train(mine, call, inputs, steps=STEPS)))
            self.assertGreater(len(backend.plans[0].layout.copied), LAYERS)
            self.check_memory(mine, call, inputs, backend.plans[0], found)

    def test_copies_of_gradients(self):
        """Convolutions allocate gradients of weights, which may be copied into the arena: equal bits, memory as planned."""
        model, inputs, _, expected = prepared("resnet")
        for copies in _arena.GRADIENTS, _arena.SOME:
            copying = functools.partial(_arena.Layout, copies=copies)
            with unittest.mock.patch.object(_arena, "Layout", copying):
                backend, mine = cairn.backend(**self.OPTIONS), copy.deepcopy(model)
                call = compiled(mine, backend)
                self.assertTrue(same(expected, train(mine, call, inputs, steps=STEPS)))
                copied, plan = {s for _, s in backend.plans[0].layout.copied}, backend.plans[0]
                gradients = {s for op in plan.joint.ops if op.kind == "node" and "convolution_backward" in op.name
                             for s in op.beside}
                self.assertGreater(len(gradients), 3)
                self.assertLessEqual(gradients, copied)
                mine.zero_grad(set_to_none=True)
                peak = allocator_peak(lambda: call(*inputs).backward())
                self.assertLessEqual(peak, plan.peak)
                self.assertGreater(peak, 0.995 * plan.peak)

    def test_temporaries(self):
        """A kernel that allocates its result when it has freed a larger temporary needs all of that beside an arena."""
        class Form:
            name = "late"

            def onto(self, destinations, arguments):
                twice = torch.cat([arguments[0], arguments[0]])
                total = twice.sum()
                del twice
                return [(torch.empty(64) if where is None else where).fill_(total) for where in destinations]
        kernel = types.SimpleNamespace(given=[torch.empty(4096)], placeable=lambda: {0}, form=Form(),
                                       outputs=lambda: [types.SimpleNamespace(meta=dict(val=torch.empty(64)))] * 2)
        kernel.onto = lambda destinations, *arguments: kernel.form.onto(destinations, arguments)
        self.assertEqual(_compiled.peak_beside(kernel), 2 * 4096 * 4 + 4 - 64 * 4)  # and the sum
        planner = _backend.planner_of(*prepared("gpt")[:2], _backend.Options(**self.OPTIONS))
        with unittest.mock.patch.object(_compiled.Kernel, "beside", lambda kernel, workspace, table: workspace + (1 << 20)):
            layout = planner.none().layout
        runs = [planner.joint.ops[number] for kind, number, _ in layout.solution.steps if kind == _library.RUN]
        self.assertGreater(layout.beside, 1 << 20)
        self.assertEqual(sum(w >= 1 << 20 for w in layout.workspace), sum(map(_compiled.is_kernel, runs)))

    def test_results_of_allocations(self):
        """Read from code as Inductor writes it."""
        code = ("def call(args):\n  a, b = args\n  buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
                "  with guard():\n    buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n    kernel(a, buf0, buf1)\n"
                "    buf2 = reinterpret_tensor(buf1, (2, 2), (2, 1), 0); del buf1  # reuse\n"
                "    buf3 = reinterpret_tensor(buf0, (2, ), (1, ), 2)\n  return (buf3, a, buf2, )\n")
        self.assertEqual(_inductor.Code(code).result_of, {1: 2})
        inside = code.replace("kernel(a, buf0", "kernel(empty_strided_cpu(), buf0")
        self.assertEqual(_inductor.Code(inside).result_of, {})
        self.assertEqual(_inductor.Code("").result_of, {})

    def test_reads_after_writes(self):
        """What a result may be written over, from code as Inductor writes it."""
        code = ("def call(args):\n  a, b, c = args\n  args.clear()\n  assert_size_stride(a, (4, ), (1, ))\n"
                "  buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
                "  buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n  first(a, buf1)\n  second(buf1, b, buf0)\n"
                "  third(reinterpret_tensor(c, (4, ), (1, ), 0), buf0)\n  return (buf0, )\n")
        found = _inductor.Code(code)
        self.assertEqual([found.may_be_over(0, place) for place in range(3)], [True, True, False])
        self.assertFalse(_inductor.Code("").may_be_over(0, 0))

    @unittest.mock.patch.object(_plan.Switches, "simulate_host", True)
    def test_offload(self):
        model, inputs, planner, expected = prepared("gpt")
        budget = budgets(planner, 3)[1]
        backend = cairn.backend(budget, offload=True, algorithm="offload-best", **self.OPTIONS)
        self.assertTrue(same(expected, with_cairn(model, inputs, backend, steps=2)))
        self.assertGreater(backend.plans[0].offloads, 0)

    def test_refused(self):
        """What would read overwritten memory."""
        model, inputs, *_ = prepared("gpt")
        loss = compiled(copy.deepcopy(model), cairn.backend(**self.OPTIONS))(*inputs)
        with self.assertRaisesRegex(cairn.CairnError, "one backward pass"):
            loss.backward(retain_graph=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
