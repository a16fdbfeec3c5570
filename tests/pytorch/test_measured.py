"""The costs of mode "compiled": what is measured, under which load and in how much memory, and what other processes find."""

import contextlib
import os
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

import torch
from torch import nn

import cairn
from cairn import _backend, _compiled, _costs, _load, _onto, _slices
from cairn._joint import Parts
from cairn._peak import peak_of
from cairn._real import real_tensors
from common import same, with_cairn
from compiled_networks import make, planner_of, prepared


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
            with unittest.mock.patch.dict(_costs._trials, clear=True), unittest.mock.patch.dict(_costs._known, clear=True), \
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

    def test_at_once(self):
        """Two that save at the same time: the file has what both have measured and tried."""
        with tempfile.TemporaryDirectory() as folder:
            path, device = os.path.join(folder, "costs.json"), torch.device("cpu")
            first, second = (_costs.Table(path, device) for _ in range(2))
            for name, table in (("a", first), ("b", second)):
                table.trials = {name: True}
                table.set(name, 1, 64)
                table._new.add(_costs.TRIALS)
            other, read = threading.Thread(target=second.save), first._read_figures

            def meanwhile():
                read()
                other.start()
                other.join(0.5)
            first._read_figures = meanwhile
            first.save()
            other.join()
            with unittest.mock.patch.dict(_costs._known, clear=True), unittest.mock.patch.dict(_costs._trials, clear=True):
                found = _costs.Table(path, device)
            self.assertEqual((found.figures.keys(), found.trials.keys()), ({"a", "b"}, {"a", "b"}))

    def test_file_is_gone(self):
        """In one process a step has the same costs, and so the same smallest budget, although there is no file of them."""
        model, inputs = make("llama")
        with tempfile.TemporaryDirectory() as folder:
            options = dict(costs=os.path.join(folder, "costs.json"))
            first = planner_of(model, inputs, **options)
            os.remove(options["costs"])
            with unittest.mock.patch.object(_costs, "_measure_cpu", side_effect=AssertionError):
                second = planner_of(model, inputs, **options)
            self.assertEqual(second.smallest(), first.smallest())
            self.assertEqual([op.time_ns for op in second.joint.ops], [op.time_ns for op in first.joint.ops])


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
        given = gm, _costs.signature_of, lambda node: None, alone, torch.device("cpu"), False, None
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
    def test_begin(self):
        """What a graph takes to begin does not count: a short step is recorded several times."""
        ran, planner = [], prepared("resnet")[2]

        class Graph:
            def replay(self):
                time.sleep(1e-2 + 1e-3 * len(ran))

            def reset(self):
                ran.clear()
        step = types.SimpleNamespace(run=lambda: ran.append(None))
        with unittest.mock.patch.multiple(torch.cuda, CUDAGraph=Graph, graph=contextlib.nullcontext), \
                unittest.mock.patch.object(_load._torch, "clear_cublas_workspaces"), \
                unittest.mock.patch.object(_load, "SETTLE", 0):
            self.assertGreater(_load._Step.recorded_ms(step, 1), 10)
            self.assertLess(_load._Step.recorded_ms(step, 20), 4)
        gm, asked = planner.joint.gm, []

        def recorded(step, runs):
            asked.append(runs)
            return 7.0
        with real_tensors(), unittest.mock.patch.object(_load._Step, "settle", lambda step: True), \
                unittest.mock.patch.object(_load._Step, "recorded_ms", recorded):
            signatures = [op.signature for op in planner.joint.ops if op.kind == "node"]
            for each in (1, _load.RECORDED * 2 // len(signatures) // 7, _load.RECORDED):
                alone = {signature: (each, 0) for signature in signatures}
                _load.times_of(gm, _costs.signature_of, lambda node: None, alone, torch.device("cpu"), True, None)
        self.assertEqual(asked, [_load.RUNS, 4, 1])

    @unittest.mock.patch.object(torch.cuda, "synchronize", lambda: None)
    def test_slices(self):
        """Attention in slices is measured in the recorded step: what the step takes longer with it is shared out."""
        planner, ran = prepared("llama")[2], []
        gm, alone = planner.joint.gm, {s: figures[:2] for s, figures in planner.table.figures.items()}
        forms = [_slices.known_form(op.node, planner.table) for op in planner.joint.ops if op.kind == "node"]
        forms = [form for form in forms if form is not None]
        own = sum(op.time_ns for op in planner.joint.ops if op.second is not None)
        together = sum(alone[signature][0] for _, signature in forms)
        self.assertGreater(len(forms), 1)

        def recorded(step, runs):
            step.run()
            ran.append([target for target, *_ in step.calls if isinstance(target, _slices.InSlices)])
            return 7.0 + (len(ran) > 1) * more / 1e6
        for longer, share in (((0.8 * together - own), 0.8), (100 * together, 1.5), (-own, 1 / 1.5)):
            more = longer
            ran.clear()
            with real_tensors(), unittest.mock.patch.object(_load._Step, "settle", lambda step: False), \
                    unittest.mock.patch.object(_load._Step, "recorded_ms", recorded), \
                    unittest.mock.patch.object(_load, "_without_events", lambda each, total: each):
                found = _load.times_of(gm, _costs.signature_of, lambda node: _slices.known_form(node, planner.table), alone,
                                       torch.device("cpu"), True, None)
            self.assertEqual(ran, [[], [form for form, _ in forms]])
            for _, signature in forms:
                self.assertAlmostEqual(found[signature] / alone[signature][0], share, delta=0.01)

    @unittest.mock.patch.object(torch.cuda, "synchronize", lambda: None)
    @unittest.mock.patch.object(torch.cuda, "Event", Event)
    def test_room(self):
        """Ops that run in the order of a step keep to the room that they are given, or do not run."""
        planner = prepared("resnet")[2]
        gm, alone = planner.joint.gm, {s: figures[:2] for s, figures in planner.table.figures.items()}
        nodes = [op.node for op in planner.joint.ops if op.kind == "node"]
        sizes = _load.Sizes(nodes, {n: alone[_costs.signature_of(n)][1] for n in nodes})
        least = sizes.ring + sizes.others
        measured = lambda room: _load.times_of(gm, _costs.signature_of, lambda node: None, alone, torch.device("cpu"), False,
                                               room)
        with real_tensors(), unittest.mock.patch.object(_load._Step, "total_ms", lambda step: 7.0), \
                unittest.mock.patch.object(_load._Step, "settle", lambda step: step.run() is None):
            self.assertEqual(measured(least - _load.ALIGNMENT), {})
            for room in (least + _load.ALIGNMENT, 4 * least):
                found = []
                self.assertLessEqual(peak_of(lambda: found.append(measured(room)), torch.device("cpu")), room)
                self.assertTrue(found[0])
        self.assertLess(4 * least, _load.RING)

    def test_link(self):
        """A plan counts on less than the speed of copies alone."""
        small, large = _costs._copied_bytes(None)
        times = iter([small // 20 + 5000] * 2 + [large // 20 + 5000] * 2)  # 20 GB/s
        with unittest.mock.patch.object(_costs, "_time_cuda", lambda call, device: next(times)), \
                unittest.mock.patch.object(_costs.torch, "empty", lambda count, **_: None):
            rate, latency = _costs._link_of(torch.device("cpu"), None)
        self.assertAlmostEqual(rate / 20e9, _costs.IN_STEP / 100, delta=0.001)
        self.assertAlmostEqual(latency / 5000, 1, delta=0.01)

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
            self.assertTrue(0.2 * planner.enough() < limit(budget="50%") - 1000 <= 0.5 * planner.enough())
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
