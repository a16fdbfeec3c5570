"""Kernels of ours in Triton: groups over rows, and the gradient of a cross-entropy. Without a GPU they are run by a small
interpreter, fake_triton.py; with one, by Triton."""

import contextlib
import copy
import functools
import unittest
import unittest.mock

import torch
import torch.nn.functional as F

import cairn
from cairn import _arena, _compiled, _embedding, _inductor, _later, _library, _pairs, _pools, _rows, _slopes
from common import allocator_peak, compiled, same
from compiled_networks import fixed_times, planner_of, unmeasured, words
import fake_triton
from small_models import GPT, Bottleneck, conv_norm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setUpModule():
    if DEVICE == "cpu":
        unittest.enterModuleContext(fake_triton.installed())


def graph_of(function, given):
    """A kernel's graph of a function, with fake tensors."""
    gm = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake",
                                                    decomposition_table=_inductor.decompositions(False))(*given)
    gm.graph.eliminate_dead_code()
    return gm.graph


def norm_backward(x, variance, mean, dy, weight, more):
    """All gradients of a norm, the first one added to another gradient, with the sums of that."""
    x, dy, width = x.float(), dy.float(), x.shape[-1]
    scale = torch.rsqrt(variance + 1e-5)
    x = (x - mean) * scale
    d = dy * weight.float()
    dx = scale / width * (d * width - d.sum(-1, keepdim=True) - x * (d * x).sum(-1, keepdim=True))
    made = more + dx.to(more.dtype)
    return made, (dy * x).sum((0, 1)).to(weight.dtype), dy.sum((0, 1)).to(weight.dtype), made.flatten(0, 1).sum(0, True)


def operands(width, dtype=torch.bfloat16):
    torch.manual_seed(0)
    many = [torch.randn(3, 64, width) for _ in range(3)]
    few = [torch.rand(3, 64, 1) + 0.5 for _ in range(2)]
    x, dy, more = (t.to(DEVICE, dtype) for t in many)
    return x, few[0].to(DEVICE), few[1].to(DEVICE), dy, torch.randn(width).to(DEVICE, dtype), more


class Rows(unittest.TestCase):
    def close(self, found, expected, tolerance):
        for a, b in zip(found, expected):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            self.assertLess((a.double() - b.double()).abs().max() / b.double().abs().max(), tolerance)

    def test_norms(self):
        """Sums over rows and over columns at once: as accurate as the types permit, over an operand too, and the same
        bits every time."""
        for width, dtype in ((40, torch.float32), (64, torch.bfloat16), (1024, torch.bfloat16)):
            given = operands(width, dtype)
            expected = norm_backward(*(t.double() for t in given))
            forms = _rows.forms_of(graph_of(norm_backward, given))
            self.assertEqual(len(forms), len(_rows.SHAPES))
            for form in forms:
                found = form(list(given))
                self.close(found, [e.to(f.dtype) for e, f in zip(expected, found)], 1e-5 if dtype == torch.float32 else 1e-2)
                again = [t.clone() for t in given]
                over = form.onto([again[5], None, None, None], again)
                self.assertEqual(over[0].data_ptr(), again[5].data_ptr())
                self.assertTrue(same(found, over))

    def test_tiles(self):
        """Rows without sums of their own are divided."""
        def gelu(x, dy):
            x, dy = x.float(), dy.float()
            made = (dy * ((torch.erf(x * 0.5 ** 0.5) + 1) * 0.5 + x * torch.exp(x * x * -0.5) * 0.39894228)).bfloat16()
            return made, made.sum(0, True)
        given = [torch.randn(128, 3000).to(DEVICE, torch.bfloat16) for _ in range(2)]
        form = _rows.forms_of(graph_of(gelu, given))[0]
        self.assertGreater(form._writer.tiles, 1)
        self.close(form(given), gelu(*given), 1e-2)

    def test_gelu(self):
        """A GELU and its gradient have a form where their results are of half precision: bf16's rounding is all that is
        seen of its formula. NaN and infinity stay what they are."""
        def gelu(x):
            return (F.gelu(x),)

        def slope(x, dy):
            return (torch.ops.aten.gelu_backward(dy, x),)
        x = (4 * torch.randn(64, 128)).to(DEVICE)
        x[0, :4] = torch.tensor([torch.nan, torch.inf, -torch.inf, -5.0])
        dy = torch.randn(64, 128).to(DEVICE)
        self.assertEqual(_rows.forms_of(graph_of(gelu, [x])), [])
        for function, given, near in ((gelu, [x], 1e-8), (slope, [x, dy], 1e-5)):
            given = [t.bfloat16() for t in given]
            expected = function(*(t.double() for t in given))[0]
            forms = _rows.forms_of(graph_of(function, given))
            self.assertEqual(len(forms), len(_rows.SHAPES))
            for form in forms:
                found = form(given)[0]
                torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=near, equal_nan=True)

    def test_refused(self):
        """What looks like a sum over rows, but is another one; and what has values of another kind."""
        square = torch.randn(4, 64, 64).to(DEVICE)
        self.assertEqual(len(_rows.forms_of(graph_of(lambda x: ((2 * x).sum((0, 1)),), [square]))), len(_rows.SHAPES))
        for function in (lambda x: ((2 * x).sum((0, 2)),), lambda x: ((2 * x).transpose(1, 2).sum((0, 1)),),
                         lambda x: ((x + x[0]).sum((0, 1)),), lambda x: (x.sum((0, 1)) + x,), lambda x: (x + 1,),
                         lambda x: ((x + x[:, :, :1]).sum((0, 1)),), lambda x: (x.cumsum(2).sum((0, 1)),)):
            self.assertEqual(_rows.forms_of(graph_of(function, [square])), [])


def image_norm_backward(x, variance, mean, weight, bias, dy):
    """The gradient behind a relu after a batch norm, with its sums."""
    scale, column = torch.rsqrt(variance + 1e-5), lambda v: v.unsqueeze(-1).unsqueeze(-1)
    made = torch.where(torch.relu((x - mean) * scale * column(weight) + column(bias)) <= 0, 0.0, dy)
    return made, made.sum((0, 2, 3)), (made * (x - mean)).sum((0, 2, 3)) * scale.squeeze((0, 2, 3))


def image_statistics(x, running_mean, running_variance):
    variance, mean = torch.var_mean(x, (0, 2, 3), correction=0, keepdim=True)
    return (variance, mean, 0.1 * mean.squeeze((0, 2, 3)) + 0.9 * running_mean,
            0.1 * variance.squeeze((0, 2, 3)) + 0.9 * running_variance)


class Images(unittest.TestCase):
    """Batch norms of images whose channels are the fastest dimension."""

    def images(self, *shape):
        return torch.randn(shape).to(DEVICE).contiguous(memory_format=torch.channels_last)

    def close(self, function, given, tolerance=1e-5):
        forms = _rows.forms_of(graph_of(function, given))
        self.assertEqual(len(forms), len(_rows.IMAGES))
        expected = function(*(t.double() for t in given))
        for form in forms:
            found = form(list(given))
            for a, b in zip(found, expected):
                self.assertEqual((a.shape, a.stride()), (b.shape, b.stride()))
                self.assertLess((a.double() - b).abs().max() / b.abs().max(), tolerance)
            self.assertTrue(same(found, form(list(given))))
        return forms

    def test_norms(self):
        torch.manual_seed(0)
        for channels in (16, 64, 80, 192):
            few = [torch.rand(1, channels, 1, 1).to(DEVICE) + 0.5 for _ in range(2)]
            vectors = [torch.randn(channels).to(DEVICE) for _ in range(2)]
            x, dy = (self.images(4, channels, 8, 6) for _ in range(2))
            self.close(image_norm_backward, [x, *few, *vectors, dy])
            self.close(image_statistics, [0.1 * x + 30, *vectors])  # the mean is far from 0

    def test_first_row(self):
        """Nothing is written over what a variance is of: all programs read its first row."""
        def made(x, y):
            return torch.relu(x + y), *torch.var_mean(x, (0, 2, 3), correction=0, keepdim=True)
        given = [self.images(4, 64, 8, 6) for _ in range(2)]
        for form in self.close(made, given):
            self.assertEqual([form.may_be_over(0, place) for place in range(2)], [False, True])
            expected, over = form(given), given[1].clone()
            self.assertTrue(same(form.onto([over, None, None], [given[0], over]), expected))

    def test_refused(self):
        """Channels that are not the fastest dimension, sums over other dimensions, and vectors along another one."""
        x, column = self.images(4, 64, 8, 64), torch.randn(64).to(DEVICE)
        self.assertEqual(len(_rows.forms_of(graph_of(lambda x: ((2 * x).sum((0, 2, 3)),), [x]))), len(_rows.IMAGES))
        for function, given in ((lambda x: ((2 * x).sum((0, 2, 3)),), [x.contiguous()]),
                                (lambda x: ((2 * x).sum((0, 1, 2)),), [x]), (lambda x: ((2 * x).sum((0, 1)),), [x]),
                                (lambda x, v: ((x + v).sum((0, 2, 3)),), [x, column]),
                                (lambda x, y: ((x + y).sum((0, 2, 3)),), [x, x.contiguous()])):
            self.assertEqual(_rows.forms_of(graph_of(function, given)), [])

    def test_pools(self):
        torch.manual_seed(0)
        for kernel, stride, padding, shape in (([3, 3], [2, 2], [1, 1], (2, 70, 9, 12)),
                                               ([2, 2], [2, 2], [0, 0], (2, 64, 8, 8)),
                                               ([3, 2], [2, 1], [1, 0], (2, 20, 9, 7))):
            x = self.images(*shape).requires_grad_()
            y = F.max_pool2d(x, kernel, stride, padding)
            dy = torch.randn_like(y)
            y.backward(dy)
            with torch.no_grad():
                _, offsets = torch.ops.prims._low_memory_max_pool_with_offsets(x, kernel, stride, padding, [1, 1], False)

            def gradient(offsets, dy, x):
                indices = torch.ops.prims._low_memory_max_pool_offsets_to_indices(offsets, kernel, list(x.shape[2:]), stride,
                                                                                  padding, [1, 1])
                return (torch.ops.aten.max_pool2d_with_indices_backward(dy, x, kernel, stride, padding, [1, 1], False,
                                                                        indices),)
            given = [offsets.contiguous(memory_format=torch.channels_last), dy, x.detach()]
            form, = _pools.forms_of(graph_of(gradient, given))
            torch.testing.assert_close(form(given)[0], x.grad)
            self.assertEqual(_pools.forms_of(graph_of(gradient, [t.contiguous() for t in given])), [])

    def test_groups(self):
        """Where a relu was 0 is computed again inside a block. The gradient behind the relu that ends a block is made by one
        kernel together with the sums of it, or, if there are two norms, before one kernel makes the sums of both. Counters
        are increased by one op."""
        class Net(torch.nn.Sequential):
            def forward(self, x):
                return super().forward(x).square().mean()
        model = Net(conv_norm(3, 16, 3), Bottleneck(16, 16, 1), Bottleneck(64, 16, 1), torch.nn.Conv2d(64, 64, 1))
        with unmeasured(), unittest.mock.patch.dict(_compiled._kernels, clear=True), \
                unittest.mock.patch.object(_inductor, "_WHOLE_ON_CPU", ()):
            joint = planner_of(model.to(DEVICE, memory_format=torch.channels_last), (self.images(2, 3, 16, 16),)).joint
        kernels = [op for op in joint.ops if _compiled.is_kernel(op) and op.backward]
        masks = [s for op in kernels for s in op.outs if s.like.dtype == torch.bool]
        self.assertEqual([s.like.shape[1] for s in masks], [64])  # of the last block
        sums = [op for op in kernels if len(op.node.target.forms) > 1]
        ends = [op for op in sums if op.outs[0].like.dim() == 4]
        self.assertEqual([len(op.node.target.outputs()) for op in ends], [4])
        self.assertEqual(max(len(op.node.target.outputs()) for op in sums if op not in ends), 6)
        self.assertEqual([op.name for op in joint.ops if "foreach" in op.name], ["_foreach_add_scalar"])


class Steps(unittest.TestCase):
    def gradients(self, model, inputs, backend):
        mine = copy.deepcopy(model)
        loss = compiled(mine, backend)(*inputs)
        loss.backward()
        return [loss.detach()] + [p.grad for p in mine.parameters()]

    @unittest.skipIf(DEVICE == "cuda", "PyTorch's own attention is not repeatable on a GPU")
    def test_gpt(self):
        """A step whose kernels are all of ours where they can be: near eager's, and the same bits at every budget."""
        def last(kernels, *_):
            for kernel in kernels:
                kernel.form, kernel.chosen = kernel.forms[-1], True
        torch.manual_seed(0)
        model, inputs, options = GPT(256, 32, 32, 2, 2, 0.0), words(256), dict(mode="compiled", chunks=4)
        expected = self.gradients(model, inputs, "eager")
        with unittest.mock.patch.object(_compiled, "choose_forms", last), \
                unittest.mock.patch.dict(_compiled._kernels, clear=True):
            whole = cairn.backend(**options)
            found = self.gradients(model, inputs, whole)
            used = [op.node.target.form for op in whole.planners[0].joint.ops if _compiled.is_kernel(op)]
            self.assertGreater(sum(isinstance(form, _rows.Form) for form in used), 4)
            self.assertEqual(sum(op.name.startswith("slopes") for op in whole.planners[0].joint.ops), 4)
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
            for arena in (False, True):
                backend, mine = cairn.backend("60%", arena=arena, **options), copy.deepcopy(model)
                self.assertTrue(same(found, self.gradients(model, inputs, backend)))
                call = compiled(mine, cairn.backend("60%", arena=arena, **options))
                call(*inputs).backward()
                mine.zero_grad(set_to_none=True)
                self.assertLessEqual(allocator_peak(lambda: call(*inputs).backward()), backend.plans[0].peak)

    def test_merged(self):
        """The gradients of a norm are one kernel."""
        with unmeasured(), unittest.mock.patch.dict(_compiled._kernels, clear=True):
            ops = planner_of(GPT(256, 32, 32, 2, 2, 0.0).to(DEVICE), [t.to(DEVICE) for t in words(256)]).joint.ops
        kernels = [op.node.target for op in ops if _compiled.is_kernel(op) and op.backward]
        norms = [k for k in kernels if any("rsqrt" in str(n.target) for n in k.graph.nodes)]
        self.assertEqual(len(norms), 5)  # two a block, and the last one

    def test_fastest(self):
        """Of several forms the one is taken whose time is the shortest; one that fails never."""
        class Table:
            figures, guesses = {}, {}

        def learn(times, failing, gm, table):
            for node in gm.graph.nodes:
                if node.op == "call_function":
                    signature = _compiled._costs.signature_of(node)
                    table.figures[signature] = times[node.target.form.name], 0, "aten"
                    if node.target.form.name in failing:
                        table.guesses[signature] = ["failed"]
        graph = graph_of(norm_backward, operands(64))
        given = [n.meta["val"] for n in graph.nodes if n.op == "placeholder"]
        for times, failing, expected in ((dict(inductor=3, rows2048=2, rows4096=1), (), "rows4096"),
                                         (dict(inductor=3, rows2048=2, rows4096=1), ("rows4096",), "rows2048"),
                                         (dict(inductor=1, rows2048=2, rows4096=3), ("rows4096",), "inductor")):
            times["rows2048ahead3"] = 9
            kernel = _compiled.Kernel(f"test{expected}", graph, given)
            _compiled.choose_forms([kernel], Table, functools.partial(learn, times, failing))
            self.assertEqual(kernel.form.name, expected)
            # The costs of a form are not those of another.
            self.assertEqual(str(kernel).endswith("/" + expected), expected != "inductor")


class Normed(torch.nn.Module):
    """Layers with RMS norms of their sums."""

    def __init__(self, width=32, layers=3):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width, eps=1e-5) for _ in range(layers))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x.float().square().mean()


class Gated(torch.nn.Module):
    """Layers with gates, as in a Llama; `act` of what they let pass."""

    def __init__(self, act, width=32, hidden=96, layers=3):
        super().__init__()
        self.act = act
        self.gates, self.ups = (torch.nn.ModuleList(torch.nn.Linear(width, hidden, bias=False) for _ in range(layers))
                                for _ in range(2))
        self.downs = torch.nn.ModuleList(torch.nn.Linear(hidden, width, bias=False) for _ in range(layers))

    def forward(self, x):
        for gate, up, down in zip(self.gates, self.ups, self.downs):
            x = x + down(F.silu(gate(x)) * self.act(up(x)))
        return x.float().square().mean()


class Pairs(unittest.TestCase):
    def gradients(self, model, inputs, budget, arena):
        """Gradients of a step, and how often two kernels ran as one."""
        mine, count, run = copy.deepcopy(model), [0], _pairs.Pair.__call__

        def counted(pair, *given):
            count[0] += 1
            return run(pair, *given)
        with unittest.mock.patch.object(_pairs.Pair, "__call__", counted):
            backend = cairn.backend(budget, mode="compiled", arena=arena)
            loss = compiled(mine, backend)(*inputs)
            loss.backward()
        return [loss.detach()] + [p.grad for p in mine.parameters()], count[0]

    def test_steps(self):
        """The sum and the statistics of a norm and what is made of them are one kernel where they follow each other in an
        arena. The bits are those of the kernels apart."""
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            model, x = Normed().to(DEVICE, dtype), torch.randn(4, 32, 32).to(DEVICE, dtype)
            with unittest.mock.patch.multiple(_pairs, GAIN=1e9, LOSS=1e9), \
                    unittest.mock.patch.dict(_pairs._pairs, clear=True), \
                    unittest.mock.patch.dict(_compiled._kernels, clear=True):
                expected, none = self.gradients(model, (x,), None, False)
                self.assertEqual(none, 0)
                for budget, least in ((None, 2), ("90%", 1)):
                    found, count = self.gradients(model, (x,), budget, True)
                    self.assertGreaterEqual(count, least)
                    self.assertTrue(same(found, expected))

    @contextlib.contextmanager
    def always(self):
        """Every pair is used whose bits are those of its kernels, and times are fixed."""
        with fixed_times(), unittest.mock.patch.multiple(_pairs, GAIN=1e9, LOSS_BESIDE=1e9), \
                unittest.mock.patch.object(_inductor, "_WHOLE_ON_CPU", ()), \
                unittest.mock.patch.dict(_pairs._pairs, clear=True):
            yield

    def check_beside(self, model, inputs, least_pairs):
        """At two budgets recomputations run beside other kernels, cost less than the first run, and give the same bits."""
        expected, apart = self.gradients(model, inputs, None, False)
        found, everything = self.gradients(model, inputs, None, True)
        self.assertEqual((apart, everything), (0, 0))
        self.assertTrue(same(found, expected))
        planner = planner_of(model, inputs, arena=True)
        again = [op for op in planner.joint.ops if op.again_ns is not None]
        self.assertTrue(all(op.after.backward and op.again_ns < op.time_ns for op in again))
        most, least = planner.enough(), planner.smallest()[0]
        for budget in (least + (most - least) * share // 10 for share in (7, 4)):
            found, count = self.gradients(model, inputs, budget, True)
            self.assertTrue(same(found, expected))
            plan = planner.within(budget)
            self.assertLessEqual(plan.peak, budget)
            self.assertEqual(count, self.beside(plan, again))
            self.assertGreaterEqual(count, least_pairs)

    def beside(self, plan, again):
        """How often a plan computes something again right after a kernel that can do it besides. Elsewhere it takes longer
        than the planner has thought."""
        found, apart, before, ran = 0, 0, None, set()
        for kind, number, _ in plan.steps:
            op = plan.joint.ops[number] if kind == _library.RUN else None
            if op is not None and op.kind == "node":
                if op in again and op in ran:
                    found += before is op.after
                    apart += (before is not op.after) * (op.time_ns - op.again_ns)
                before = op
                ran.add(op)
        self.assertEqual(plan.layout.apart_ns, apart)
        return found

    def test_filters(self):
        """What is computed again for the gradient of a filter is made beside the sums of a batch norm."""
        class Net(torch.nn.Sequential):
            def forward(self, x):
                return super().forward(x).square().mean()
        torch.manual_seed(0)
        model = Net(conv_norm(3, 16, 3), torch.nn.ReLU(), Bottleneck(16, 16, 1), Bottleneck(64, 16, 1))
        x = torch.randn(2, 3, 16, 16).to(DEVICE).contiguous(memory_format=torch.channels_last)
        with self.always():
            self.check_beside(model.to(DEVICE, memory_format=torch.channels_last), (x,), 2)

    def test_weights(self):
        """What is computed again for the gradient of a matrix waits for the kernel that can make it besides, and overwrites
        what it is made of; the plan needs no more memory for that."""
        torch.manual_seed(0)
        model, inputs = GPT(128, 64, 64, 3, 4, 0.0).to(DEVICE), [torch.randint(0, 128, (8, 64)).to(DEVICE) for _ in range(2)]
        with self.always():
            self.check_beside(copy.deepcopy(model).bfloat16(), inputs, 3)
            self.check_beside(model, inputs, 3)
            planner = planner_of(model, inputs, arena=True)
            for share in (3, 5, 7):
                solution = planner.step.solve("auto", planner.enough() * share // 10)
                moved = _later.beside(planner.joint, planner.step, None, solution, solution.peak)
                self.assertIsNot(moved, solution)
                self.assertLessEqual(moved.peak, solution.peak)
                self.assertEqual(moved.time_ns, solution.time_ns)

    def test_gates(self):
        """The gradient of a gate, which would overwrite the two operands of what is computed again besides, overwrites its
        third one. One result is new, and the recomputation overwrites one of the operands; the other is freed."""
        for act in (torch.nn.Identity(), torch.nn.Tanh()):
            torch.manual_seed(0)
            model, inputs = Gated(act).to(DEVICE), (torch.randn(512, 32).to(DEVICE),)
            with self.always():
                self.check_beside(model, inputs, 1)
                planner = planner_of(model, inputs, arena=True)
                for share in (6, 7, 8):
                    solution = planner.step.solve("auto", planner.enough() * share // 10)
                    moves = _later._moves(planner.joint, solution.steps)
                    self.assertTrue(moves)
                    self.assertTrue(all(len(move.freed) == isinstance(act, torch.nn.Tanh) for move in moves))
                    moved = _later.beside(planner.joint, planner.step, None, solution, planner.enough())
                    self.assertIsNot(moved, solution)
                    self.assertEqual(moved.time_ns, solution.time_ns)
                    self.assertIs(_later.beside(planner.joint, planner.step, None, solution, 1), solution)

    def test_less_room(self):
        """Where the arena of recomputations beside other kernels gets too large, a plan for less memory is used; where that
        is no help, they stay elsewhere."""
        torch.manual_seed(0)
        model, inputs = Gated(torch.nn.Tanh()).to(DEVICE), (torch.randn(512, 32).to(DEVICE),)
        with self.always():
            planner = planner_of(model, inputs, arena=True)
        size = planner.enough() * 8 // 10

        def planned(room):
            class Larger(_arena.Layout):
                def finish(self):
                    known = self.total is not None
                    super().finish()
                    if not known and self.solution not in planner._plans.values():  # something is moved
                        self.total += room
            with unittest.mock.patch.object(_arena, "Layout", Larger):
                planner._plans.clear()
                laid = planner._solve(size)
            self.assertLessEqual(laid.needs, size)
            return laid
        whole = planned(0)
        less, apart = (planned(size - whole.needs + room) for room in (size // 100, size))
        self.assertEqual((whole.layout.apart_ns, less.layout.apart_ns), (0, 0))
        self.assertLess(less.live, whole.live)
        self.assertGreater(apart.layout.apart_ns, 0)
        self.assertTrue(whole.time_ns < less.time_ns < apart.time_ns)

    def test_stages(self):
        """A pair and its first kernel may load different numbers of stages ahead: they add up in the same order."""
        given = operands(64)
        sums = graph_of(norm_backward, given)
        first = _compiled.Kernel("a", sums, [n.meta["val"] for n in sums.nodes if n.op == "placeholder"])
        scaled = graph_of(lambda x: (2 * x,), given[:1])
        second = _compiled.Kernel("b", scaled, [given[0]])
        pair = _pairs.Pair(first, second, ((0, ~0),))
        self.assertEqual({form.order for form in pair.forms}, {form.order for form in first.forms[1:]})
        for kernel in (first, second):
            kernel.more_forms(kernel.plain_forms())
        first.form = next(form for form in first.forms if form.name == "rows2048ahead3")
        for form in pair.forms:
            ours = pair._apart(form, (first.form, second.form), lambda form: 1)
            self.assertTrue(ours and all(a.order == form.order for a, _ in ours))
            self.assertEqual(ours[0][0] is first.form, form.order == "rows2048")
            if form.order == "rows2048":
                self.assertTrue(same(form(given), first.form(given) + [2 * given[0]]))

    def test_not_faster(self):
        """A pair that takes as long as two kernels, or whose kernels would be slower apart, is not used."""
        def sums(a, b):
            x = a + b
            return x, x.square().mean(-1, True)

        def scaled(x, m):
            return (x * torch.rsqrt(m),)
        given = [torch.randn(64, 32), torch.randn(64, 32)]
        first, second = (_compiled.Kernel(name, graph, [n.meta["val"] for n in graph.nodes if n.op == "placeholder"])
                         for name, graph in (("a", graph_of(sums, given)), ("b", graph_of(scaled, list(sums(*given))))))
        pair = _pairs.Pair(first, second, ((0, 0), (1, 1)))

        class Table:
            outcome = True

            def tried(self, what, trial):
                return self.outcome and trial()
        for kernel in (first, second):
            kernel.more_forms(kernel.plain_forms())
        for both, ours, outcome, name in ((7, 4.2, True, "plain4096"), (7, 4.2, False, None), (9, 4.2, True, None),
                                          (7, 5, True, None)):
            times = dict(inductor=4, plain2048=9, plain4096=ours)
            first.form, second.form, pair.form, Table.outcome = first.forms[0], second.forms[0], None, outcome
            pair.choose(lambda form: both if form in pair.forms else times[form.name], Table(), set())
            self.assertEqual(getattr(pair.form, "name", None), name)
            self.assertEqual({first.form.name, second.form.name}, {name or "inductor"})
        made = [t.to(DEVICE) for t in given]
        torch.testing.assert_close(pair.forms[0](made), [t for t in (*sums(*made), *scaled(*sums(*made)))])


class Slopes(unittest.TestCase):
    def test_kernel(self):
        torch.manual_seed(0)
        for columns, dtype in ((300, torch.float32), (9000, torch.bfloat16)):
            logits = (20 * torch.randn(6, columns)).to(DEVICE, dtype)
            logits[3, 5] = -torch.inf
            labels = torch.randint(6, columns, (6,), device=DEVICE)
            labels[2] = -100
            exact = logits.double().requires_grad_()
            losses = F.cross_entropy(exact, labels, reduction="none")
            losses.sum().backward()
            for takes in (_slopes.takes, lambda logits: False):  # the kernel, and PyTorch's ops
                with unittest.mock.patch.object(_slopes, "takes", takes):
                    found = torch.ops.cairn.slopes(logits, labels, -100)
                    torch.testing.assert_close(found[1].double(), losses, rtol=1e-5, atol=1e-5)
                    torch.testing.assert_close(found[0].double(), exact.grad, rtol=1e-2 if dtype == torch.bfloat16 else 1e-4,
                                               atol=1e-6)
                    over = logits.clone()
                    self.assertTrue(same(list(torch.ops.cairn.slopes_(over, labels, -100)), list(found)))
                    self.assertTrue(same(over, found[0]))


class Embeddings(unittest.TestCase):
    def test_kernels(self):
        """Rows of words that occur once, often and in many pieces are added, with the same bits every time."""
        torch.manual_seed(0)
        for count, columns, dtype in ((1, 40, torch.float32), (32, 16, torch.float32), (300, 1500, torch.bfloat16)):
            words = torch.randint(0, 1000, (count,))
            words[count // 4:count // 2] = 7  # goes over several pieces
            words, a = words.view(1, -1).to(DEVICE), torch.randn(1000, columns).to(DEVICE, dtype)
            gradient = torch.randn(1, count, columns).to(DEVICE, dtype)
            expected = a.double().index_add(0, words[0], gradient[0].double())
            found = torch.ops.cairn.embedding_add(a, gradient, words)
            torch.testing.assert_close(found.double(), expected, rtol=2**-8 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
            over = a.clone()
            torch.ops.cairn.embedding_add_(over, gradient, words)
            self.assertTrue(same(over, found))
            with unittest.mock.patch.object(_embedding, "takes", lambda a: False):  # PyTorch's ops
                other = torch.ops.cairn.embedding_add(a.float(), gradient.float(), words)
            torch.testing.assert_close(other.double(), expected, rtol=1e-5, atol=1e-5)

    def test_alone(self):
        """The gradient of an embedding that no other layer uses is added to zeros, in place."""
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.head = torch.nn.Embedding(512, 16), torch.nn.Linear(16, 4)

            def forward(self, x):
                return self.head(self.words(x).tanh()).square().mean()
        torch.manual_seed(0)
        model, inputs = Net().to(DEVICE), [torch.randint(0, 512, (4, 16), device=DEVICE)]
        mine = copy.deepcopy(model)
        model(*inputs).backward()
        with unittest.mock.patch.dict(_compiled._kernels, clear=True):
            backend = cairn.backend(mode="compiled", arena=True)
            compiled(mine, backend)(*inputs).backward()
        torch.testing.assert_close([p.grad for p in mine.parameters()], [p.grad for p in model.parameters()])
        plan = backend.plans[0]
        added = [op.index for op in plan.joint.ops if op.kind == "node" and op.node.target is _embedding.ADD]
        inplace = [inplace for kind, number, inplace in plan.steps if kind == _library.RUN and number in added]
        self.assertEqual(inplace, [(1,)])
        self.assertLess(plan.layout.beside, 512 * 16 * 4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
