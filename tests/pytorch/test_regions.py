"""Steps of several graphs share one budget, and every shape gets its plan: bitwise equal to aot_eager,
and the allocator stays inside the budget."""

import copy
import re
import threading
import unittest
import warnings

import torch
from torch import nn

import cairn
from cairn import _steps
from common import allocator_peak, same

warnings.simplefilter("ignore")
WIDTH, ROWS = 32, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Net(nn.Module):
    """Blocks with a graph break behind some of them."""

    def __init__(self, breaks, count=5):
        super().__init__()
        self.breaks, self.blocks = breaks, nn.ModuleList(Block() for _ in range(count))

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in self.breaks:
                torch._dynamo.graph_break()
        return x.square().mean()


class Straight(nn.Module):
    """Two graphs with a value that is read between them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block())

    def forward(self, x):
        x = self.first(x)
        if x.mean().item() > 1e9:
            x = x * 0
        return self.second(x).square().mean()


class Outside(nn.Module):
    """Two graphs with ops between them that PyTorch does not capture, and that keep tensors for their gradients."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    @torch._dynamo.disable
    def between(self, x):
        return x.repeat(1, 8).exp().sin().cos().view(x.shape[0], 8, -1).mean(1)

    def forward(self, x):
        return self.second(self.between(self.first(x))).square().mean()


class Elsewhere(nn.Module):
    """Ops between two graphs keep tensors while the second one runs. The smallest plans have their peak in the first, where
    a tensor is wide; others have it in the second."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(*(Block() for _ in range(3)))
        self.second = nn.Sequential(*(Block() for _ in range(6)))

    @torch._dynamo.disable
    def between(self, x):
        for _ in range(20):
            x = x.sin()
        return x

    def forward(self, x):
        x = self.first(x) + x.repeat(1, 48).tanh().view(x.shape[0], 48, -1).sum(1)
        return self.second(self.between(x)).square().mean()


class Growing(nn.Module):
    """What runs between two graphs takes another number of copies in every step."""

    def __init__(self, copies):
        super().__init__()
        self.first, self.second = Block(), Block()
        self.copies, self.step = copies, -1

    @torch._dynamo.disable
    def between(self, x):
        self.step += 1
        for _ in range(self.copies[self.step]):
            x = x.sin()
        return x

    def forward(self, x):
        return self.second(self.between(self.first(x))).square().mean()


def train(model, backend, rows=(ROWS,) * 4, dynamic=None):
    torch._dynamo.reset()
    torch.manual_seed(1)
    model = copy.deepcopy(model)
    call = torch.compile(model, backend=backend, dynamic=dynamic)
    x, results = torch.randn(max(rows), WIDTH), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for n in rows:
        loss = call(x[:n])
        loss.backward()
        results.append([loss.detach().clone()] + [p.grad.clone() for p in model.parameters()])
        del loss
        optimizer.step()
        optimizer.zero_grad()
    return results, lambda: call(x[:rows[-1]]).backward()


class Several(unittest.TestCase):
    def check(self, model, share):
        expected, _ = train(model, "aot_eager")
        self.assertTrue(same(expected, train(model, cairn.backend())[0]))
        backend = cairn.backend()
        train(model, backend)
        calls = backend.steps.calls
        most = _steps.needed([_steps.way_of(v, v.planner.none()) for v in calls])
        least = _steps.needed([_steps.way_of(v, v.planner.within(v.planner.smallest()[0])) for v in calls])
        budget = int(least + (most - least) * share)
        backend = cairn.backend(budget)
        found, step = train(model, backend)
        self.assertTrue(same(expected, found))
        self.assertTrue(backend.steps.settled)
        self.assertLessEqual(_steps.needed([_steps.way_of(v, v.plan) for v in calls]), most)
        self.assertLessEqual(allocator_peak(step), budget)
        with self.assertRaises(cairn.BudgetError) as refused:
            train(model, cairn.backend(least - 4096))
        self.assertIn("graphs of this step", str(refused.exception))

    def test_loop(self):
        torch.manual_seed(1)
        self.check(Net({0, 1, 2, 3, 4}), 0.5)

    def test_value_between(self):
        torch.manual_seed(1)
        self.check(Straight(), 0.3)

    def test_blocks(self):
        """Blocks that are compiled one by one share the budget of one backend."""
        torch.manual_seed(1)
        blocks, x = nn.Sequential(*(Block() for _ in range(4))), torch.randn(ROWS, WIDTH)

        def steps(backend):
            torch._dynamo.reset()
            mine, results = copy.deepcopy(blocks), []
            for block in mine:
                block.compile(backend=backend)
            for _ in range(4):
                mine(x).square().mean().backward()
                results.append([p.grad.clone() for p in mine.parameters()])
            return results, lambda: mine(x).square().mean().backward()
        expected, _ = steps("aot_eager")
        least = ROWS * WIDTH * 4 * 5
        with self.assertRaises(cairn.BudgetError):
            steps(cairn.backend(least))
        found = None
        while found is None:
            backend = cairn.backend(least)
            try:
                found, step = steps(backend)
            except cairn.BudgetError as error:  # it knows of the blocks that ran so far
                self.assertGreater(error.smallest, least)
                least = error.smallest
        self.assertTrue(same(expected, found))
        self.assertTrue(backend.steps.settled)
        self.assertEqual(len(backend.steps.calls), 4)
        self.assertLessEqual(allocator_peak(step), least)

    def test_views(self):
        """Blocks that return views of what they made are several graphs of one step, too."""
        torch.manual_seed(1)
        torch._dynamo.reset()

        class Viewing(Block):
            def forward(self, x):
                x = super().forward(x)
                return x.view(-1, WIDTH), x.view(-1)
        blocks, x, backend = nn.ModuleList(Viewing() for _ in range(3)), torch.randn(ROWS, WIDTH), cairn.backend("80%")
        for block in blocks:
            block.compile(backend=backend)
        for _ in range(3):
            h = x
            for block in blocks:
                h, _ = block(h)
            h.square().mean().backward()
        self.assertTrue(backend.steps.several)
        self.assertEqual(len(backend.steps.calls), 3)

    def test_calls_without_backward(self):
        """Calls whose results nobody keeps are no part of a step."""
        torch.manual_seed(1)
        backend, model, x = cairn.backend("60%"), Net(()), torch.randn(ROWS, WIDTH)
        torch._dynamo.reset()
        call = torch.compile(model, backend=backend)
        for _ in range(3):
            call(x)
            call(x).backward()
        self.assertFalse(backend.steps.several)

    def test_outside(self):
        torch.manual_seed(1)
        model, kept = Outside(), 3 * 8 * 4 * WIDTH * ROWS  # of exp, sin and cos
        expected, _ = train(model, "aot_eager")
        with self.assertRaises(cairn.BudgetError) as refused:
            train(model, cairn.backend(kept))
        least = refused.exception.smallest
        self.assertIn("for what runs outside the graphs", str(refused.exception))
        self.assertGreater(least, kept)
        backend = cairn.backend(least)
        found, step = train(model, backend)
        self.assertTrue(same(expected, found))
        self.assertGreaterEqual(backend.steps.outside, kept)
        self.assertLessEqual(allocator_peak(step), least)

    def test_whole(self):
        torch.manual_seed(1)
        backend = cairn.backend("60%")
        train(Net(()), backend)
        self.assertFalse(backend.steps.several)
        self.assertEqual(len(backend.plans), 1)

    def test_warns(self):
        torch.manual_seed(1)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            train(Net({1}), cairn.backend("90%"))
        self.assertTrue(any("a step is divided into" in str(w.message) for w in seen))


class Body(nn.Module):
    """Returns no loss."""

    def __init__(self, given, width, results):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(given, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
                                    nn.Linear(width, results))

    def forward(self, x):
        return self.layers(x)


def with_breaks(backend):
    model = Net({0, 1, 2, 3, 4}, 6)
    call, optimizer = torch.compile(model, backend=backend), torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        call(torch.randn(ROWS, WIDTH)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return step, model


def adversaries(backend):
    maker, critic = Body(8, WIDTH, WIDTH), Body(WIDTH, 4 * WIDTH, 1)
    make, judge = torch.compile(maker, backend=backend), torch.compile(critic, backend=backend)
    both = torch.optim.SGD(maker.parameters(), lr=0.01), torch.optim.SGD(critic.parameters(), lr=0.01)

    def step():
        noise = torch.randn(ROWS, 8)
        (judge(make(noise).detach()).mean() - judge(torch.randn(ROWS, WIDTH)).mean()).backward()
        both[1].step()
        both[1].zero_grad()
        judge(make(noise)).mean().neg().backward()
        both[0].step()
        both[0].zero_grad()
    return step, nn.ModuleList([maker, critic])


class Ahead(unittest.TestCase):
    """A step that does not fit runs on to its backward pass, so that the refusal knows all of its graphs."""

    def check(self, script, budget):
        """Two refusals at most, nothing updated and never more memory than the budget."""
        for refusals in range(4):
            torch._dynamo.reset()
            torch.manual_seed(1)
            step, model = script(cairn.backend(budget))
            before = [p.detach().clone() for p in model.parameters()]
            try:
                for _ in range(4):
                    step()
                break
            except cairn.BudgetError as error:
                self.assertGreater(error.smallest, budget)
                smallest = error.smallest
            if not refusals:
                self.assertTrue(same(before, [p.detach() for p in model.parameters()]))
                self.assertTrue(all(p.grad is None for p in model.parameters()))
                self.assertLessEqual(allocator_peak(lambda: self.assertRaises(cairn.BudgetError, step)), budget)
            budget = smallest
        self.assertLessEqual(refusals, 2)

    def test_breaks(self):
        self.check(with_breaks, 10 * ROWS * WIDTH * 4)

    def test_adversaries(self):
        self.check(adversaries, 10 * ROWS * WIDTH * 4)

    def test_without_backward(self):
        """Calls without a backward pass are not refused, and their values are right."""
        torch.manual_seed(1)
        model, x = Body(WIDTH, 4 * WIDTH, WIDTH), torch.randn(ROWS, WIDTH)
        torch._dynamo.reset()
        found = torch.compile(model, backend=cairn.backend(9 * ROWS * WIDTH * 4))(x)
        self.assertTrue(same(model(x).detach(), found.detach()))
        with self.assertRaisesRegex(cairn.BudgetError, "the smallest possible budget is"):
            found.sum().backward()

    def test_twice(self):
        """Whoever goes on after a refusal gets it again."""
        torch._dynamo.reset()
        backend, x = cairn.backend(12 * ROWS * WIDTH * 4), torch.randn(ROWS, WIDTH)
        first, second = (torch.compile(Body(WIDTH, 4 * WIDTH, WIDTH), backend=backend) for _ in range(2))
        y = first(x)
        for loss in (second(y).mean(), y.mean()):
            with self.assertRaises(cairn.BudgetError) as refused:
                loss.backward()
            self.assertIn("the 2 graphs of this step need", str(refused.exception))

    def test_at_once(self):
        """If not even the forward part fits, the refusal comes at once."""
        torch._dynamo.reset()
        call, x = torch.compile(Net({0, 1}), backend=cairn.backend(ROWS * WIDTH * 4)), torch.randn(ROWS, WIDTH)
        with self.assertRaisesRegex(cairn.BudgetError, "the graphs that follow are not known yet"):
            call(x)


class Later(unittest.TestCase):
    """Steps that take more than the first ones."""

    def steps(self, copies, budget):
        """Peaks of steps, what was said after each, and how many plans were made until then."""
        torch.manual_seed(1)
        torch._dynamo.reset()
        model, x = Growing(copies), torch.randn(ROWS, WIDTH)
        backend = cairn.backend(budget)
        call, optimizer = torch.compile(model, backend=backend), torch.optim.SGD(model.parameters(), lr=0.01)
        rows = []
        for _ in copies:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                call(x).backward()
                found = backend.steps.peak
                optimizer.step()
            optimizer.zero_grad()
            said = [str(w.message) for w in seen if "more than its budget" in str(w.message)]
            rows.append((found.stop() if found is not None else None, said, len(backend.plans)))
        return rows, backend

    def test_all_at_once(self):
        """A step that is over the budget says so, once, and the next one has room."""
        one = 4 * ROWS * WIDTH
        rows, _ = self.steps([2] * 4, "1GiB")
        budget = rows[-1][0] + one
        rows, backend = self.steps([2, 2, 2, 2, 6, 6, 2, 6], budget)
        self.assertEqual([len(said) for _, said, _ in rows], [0, 0, 0, 0, 1, 0, 0, 0])
        self.assertGreater(rows[4][0], budget)
        for peak, _, _ in rows[5:]:
            self.assertLessEqual(peak, budget)

    def test_little_by_little(self):
        """Room is made before it is needed: no step is over the budget."""
        rows, _ = self.steps([16] * 4, "1GiB")
        budget = rows[-1][0]
        copies = [16, 16, 16, 16, 17, 18, 19, 20, 21, 22]
        rows, backend = self.steps(copies, budget)
        self.assertEqual([said for _, said, _ in rows], [[]] * len(copies))
        for peak, _, _ in rows[1:]:
            self.assertLessEqual(peak, budget)
        self.assertGreater(rows[-1][2], rows[4][2])

    def test_never_enough(self):
        """Where no plan leaves room, training goes on, with a warning for every step that is worse than those before."""
        rows, _ = self.steps([2] * 4, "1GiB")
        rows, _ = self.steps([2, 2, 2, 2, 60, 60, 70, 60, 70], rows[-1][0])
        self.assertEqual([len(said) for _, said, _ in rows], [0, 0, 0, 0, 1, 0, 1, 0, 0])

    def test_profiler(self):
        """The user's profiler may start at any time."""
        torch.manual_seed(1)
        torch._dynamo.reset()
        model, x = Growing([2] * 8), torch.randn(ROWS, WIDTH)
        call, optimizer = torch.compile(model, backend=cairn.backend("80%")), torch.optim.SGD(model.parameters(), lr=0.01)
        for number in range(8):
            with torch.profiler.profile() if number % 2 else warnings.catch_warnings():
                call(x).backward()
                optimizer.step()
        self.assertTrue(all(p.grad is not None for p in model.parameters()))


class Places(unittest.TestCase):
    """What runs outside counts where it runs, also if the plans that were measured have their peak in another place."""

    def test_elsewhere(self):
        torch.manual_seed(1)
        model = Elsewhere()
        backend = cairn.backend()
        train(model, backend)
        calls = backend.steps.calls
        most = _steps.needed([_steps.way_of(v, v.planner.none()) for v in calls])
        least = _steps.needed([_steps.way_of(v, v.planner.within(v.planner.smallest()[0])) for v in calls])
        for share in (5, 7, 9):
            with self.subTest(share=share), warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                budget = least + (most - least) * share // 10
                _, step = train(model, cairn.backend(budget))
                self.assertEqual([str(w.message) for w in seen if "more than its budget" in str(w.message)], [])
                self.assertLessEqual(allocator_peak(step), budget)


class LossOutside(unittest.TestCase):
    """One graph, and a loss that is computed from what it returns: the budget holds for both."""

    def peaks(self, budget, steps=4, most=0, **options):
        torch.manual_seed(1)
        torch._dynamo.reset()
        model = nn.Sequential(*(Block() for _ in range(4)), nn.Linear(WIDTH, 32))
        x, scales = torch.randn(ROWS, WIDTH), torch.randn(4, 1)
        backend, found = cairn.backend(budget, **options), []
        call = torch.compile(model, backend=backend)

        def step():
            loss = (call(x)[:, None] * scales).sin().square().mean()
            loss.backward()
            found.append([loss.detach()] + [p.grad for p in model.parameters()])
            torch.empty(2 * most)  # what comes later is no part of the step
            model.zero_grad()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(steps):
                step()
            said = [str(w.message) for w in seen if "cairn: " in str(w.message)]
            most = 0
            return found, said, allocator_peak(step), backend

    def test_room(self):
        free, said, most, backend = self.peaks(None)
        self.assertEqual(said, [])
        planned = backend.plans[0].peak
        self.assertGreater(most, planned)
        for budget in (planned, (planned + most) // 2):
            found, said, peak, backend = self.peaks(budget)
            self.assertTrue(same(free, found))
            self.assertEqual(["outside the compiled model" in text for text in said], [True])
            self.assertLessEqual(peak, budget)
            self.assertEqual(len(backend.plans), 2)
        found, said, peak, backend = self.peaks(most, most=most)
        self.assertEqual((said, len(backend.plans)), ([], 1))

    def test_too_small(self):
        """No plan leaves enough room: that is said, and training goes on."""
        smallest = self.peaks(None)[3].planners[0].smallest()[0]
        _, said, _, _ = self.peaks(smallest)
        self.assertIn("outside the compiled model", said[0])
        self.assertIn("training continues with the smallest plan", said[1])
        self.assertEqual(len(said), 2)


class Shapes(unittest.TestCase):
    ROWS = (ROWS, ROWS, 200, 100, ROWS, 64, 33, 34, 35, 36, 37, 38, 39, 40, 200)

    def check(self, model, dynamic):
        expected, _ = train(model, "aot_eager", self.ROWS, dynamic)
        backend = cairn.backend("60%")
        found, _ = train(model, backend, self.ROWS, dynamic)
        self.assertTrue(same(expected, found))
        self.assertGreaterEqual(len(backend.plans), len(set(self.ROWS)))
        self.assertGreater(backend.plans[0].reruns, 0)
        self.assertLessEqual(max(plan.peak for plan in backend.plans), backend.plans[0].budget)

    def test_smaller_batches(self):
        torch.manual_seed(1)
        self.check(Net(()), None)

    def test_dynamic(self):
        torch.manual_seed(1)
        self.check(Net(()), True)

    def test_without_dynamic(self):
        """Dynamo's limit of captures is not reached: every shape has a plan."""
        torch.manual_seed(1)
        self.check(Net(()), False)


class Scaled(nn.Module):
    """A model with an integer argument."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.blocks = kind, nn.ModuleList(Block() for _ in range(4))

    def forward(self, x, number):
        for block in self.blocks:
            x = block(x)
            if self.kind == "factor":
                x = x * (2 * number + 1) / 7
            elif self.kind == "fill":
                x = x + torch.full_like(x, number)
            elif self.kind == "shape":
                x = torch.cat([x[:, :number], 2 * x[:, number:]], 1)
        return x.square().mean()


class Integers(unittest.TestCase):
    """An integer that changes is no shape: no plan of its own, unless a shape depends on it."""

    def check(self, kind, plans):
        torch.manual_seed(1)
        model, x, results = Scaled(kind), torch.randn(ROWS, WIDTH), []
        least = cairn.fits(model, (x, 3), 1).smallest
        backend = cairn.backend(least + 64 * WIDTH * ROWS, check=True)
        for one in ("aot_eager", backend):
            torch._dynamo.reset()
            call, found = torch.compile(model, backend=one), []
            for number in range(2, 9):
                loss = call(x, number)
                loss.backward()
                found.append([loss.detach()] + [p.grad for p in model.parameters()])
                model.zero_grad()
            results.append(found)
        self.assertTrue(same(*results))
        self.assertEqual(len(backend.plans), plans)
        self.assertEqual([m.differences for m in backend.meters], [[]] * plans)

    def test_factor(self):
        self.check("factor", 2)  # the first capture makes every integer a constant

    def test_fill(self):
        self.check("fill", 2)

    def test_shape(self):
        self.check("shape", 7)


@unittest.skipIf(torch.__version__ < "2.13", "PyTorch 2.11 crashes when several threads capture, with any backend")
class Threads(unittest.TestCase):
    """Steps of several threads at once, after the first steps of each: while one thread captures, PyTorch refuses calls
    of another. A budget is that of each step."""

    def outcomes(self, model, backend_of):
        """The gradients that each of three threads has made, and the peak of its last step; or its error."""
        found, first = {}, threading.Lock()
        torch.manual_seed(1)
        x = torch.randn(ROWS, WIDTH)

        def work(number):
            try:
                mine = copy.deepcopy(model)
                call = torch.compile(mine, backend=backend_of(number), dynamic=False)
                with first:
                    for _ in range(4):
                        call(x).backward()
                for _ in range(20):
                    mine.zero_grad()
                    peak = allocator_peak(lambda: call(x).backward())
                found[number] = [p.grad for p in mine.parameters()], peak
            except Exception as error:
                found[number] = error
        torch._dynamo.reset()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[n] for n in range(3)]

    def test_whole(self):
        torch.manual_seed(1)
        model = Net(())
        budget = cairn.fits(model, (torch.randn(ROWS, WIDTH),), 1).smallest
        expected = self.outcomes(model, lambda _: "aot_eager")[0][0]
        for shared in (cairn.backend(budget), None):
            for gradients, peak in self.outcomes(model, lambda _: shared or cairn.backend(budget)):
                self.assertTrue(same(expected, gradients))
                self.assertLessEqual(peak, budget)

    def test_several(self):
        """Each thread needs its own backend; a shared one is refused."""
        torch.manual_seed(1)
        shared, model = cairn.backend("1GiB"), Straight()
        refused = [o for o in self.outcomes(model, lambda _: shared) if isinstance(o, cairn.CairnError)]
        self.assertEqual(len(refused), 2)
        self.assertIn("give each thread its own", str(refused[0]))
        expected = self.outcomes(model, lambda _: "aot_eager")[0][0]
        for gradients, _ in self.outcomes(model, lambda _: cairn.backend("60%")):
            self.assertTrue(same(expected, gradients))


class Unplanned(unittest.TestCase):
    """Where PyTorch captures nothing, or no gradients, a warning says so."""

    def warned(self, model, call, x, backend):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(3):
                out = call(x)
                (out[0] if isinstance(out, tuple) else out).square().mean().backward()
                optimizer.step()
        return sum("has captured no graph" in str(w.message) for w in seen)

    def test_recurrent(self):
        backend, model = cairn.backend("90%"), nn.LSTM(8, 8)
        self.assertEqual(self.warned(model, torch.compile(model, backend=backend), torch.randn(4, 2, 8), backend), 1)
        self.assertEqual(backend.plans, [])

    def test_sequential(self):
        for in_place in (True, False):
            torch._dynamo.reset()
            backend, model = cairn.backend("1GiB"), nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            if in_place:
                model.compile(backend=backend)
            call = model if in_place else torch.compile(model, backend=backend)
            warned = self.warned(model, call, torch.randn(4, 8), backend)
            self.assertEqual(warned + len(backend.plans), 1)
            self.assertTrue(in_place or not warned)

    def test_without_gradients(self):
        """A gradient of torch.func is an ordinary result: the graph that computes it is not planned. The warning tells its
        memory, and comes only where that is more than the budget."""
        def loss(weight, x):
            return (torch.tanh(x @ weight) @ weight.t()).square().mean()
        weight, x = torch.randn(32, 48), torch.randn(16, 32)
        gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))
        seen = []
        for budget in (None, "1GiB", "64KiB"):
            torch._dynamo.reset()
            call = torch.compile(gradients, backend=cairn.backend(budget))
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                self.assertTrue(torch.equal(call(weight, x), gradients(weight, x)))
            seen.append([str(w.message) for w in found if "without gradients" in str(w.message)])
        self.assertEqual([len(messages) for messages in seen], [0, 0, 1])
        said = int(re.search("takes ([0-9]+) bytes", seen[2][0])[1])
        self.assertEqual(allocator_peak(lambda: call(weight, x)), said)

    def test_copy(self):
        """A copy that nobody calls gives no warning."""
        torch._dynamo.reset()
        backend, model = cairn.backend("1GiB"), nn.Linear(8, 8)
        call = torch.compile(model, backend=backend)
        copy.deepcopy(call)
        self.assertEqual(self.warned(model, call, torch.randn(4, 8), backend), 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
