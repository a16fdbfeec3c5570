"""cairn.trainer: forward, backward and update inside one budget, with the numbers of a plain loop."""

import contextlib
import copy
import io
import tempfile
import unittest
import unittest.mock
import warnings

import numpy
import torch
import torch.nn.functional as F
from torch import nn

import cairn
from cairn import _homes, _library, _moves, _plan, _torch, _updates
from cairn._peak import peak_of
from common import same
from small_models import GPT
from test_features import small

STEPS = 4
SMALL = 128 * 64  # bytes that are not planned on a processor: counts of steps, the state of random numbers while ops are
                  # measured


class Wide(nn.Module):
    """A network whose weights are most of its memory: 2 MiB, and activations of 64 KiB."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(8))
        self.head = nn.Linear(256, 5)

    def forward(self, x, y):
        for layer in self.layers:
            x = x + F.gelu(layer(x))
        return F.cross_entropy(self.head(x), y)


def wide():
    torch.manual_seed(0)
    return Wide(), (torch.randn(16, 256), torch.randint(0, 5, (16,)))


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


KINDS = [lambda p: torch.optim.SGD(p, lr=0.1),
         lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, foreach=True),
         lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, fused=True),
         lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
         lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
         lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
         lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1, maximize=True),
         lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
         torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax, torch.optim.Adadelta]


def outcome(model, optimizer, losses):
    """All that training has changed, in an order of its own."""
    state = optimizer.state_dict()
    slots = [[state["state"][k][name] for name in sorted(state["state"][k])] for k in sorted(state["state"])]
    return losses, [v.clone() for v in model.state_dict().values()], copy.deepcopy(slots)


def plainly(model, inputs, make, steps=STEPS, micro=1, clip=None, each=lambda optimizer: lambda: None):
    """Train with PyTorch alone."""
    model = copy.deepcopy(model)
    optimizer = make(model.parameters())
    after, losses = each(optimizer), []
    torch._dynamo.reset()
    call = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=False)
    torch.manual_seed(5)
    for _ in range(steps):
        for _ in range(micro):
            loss = call(*inputs)
            loss.backward()
        losses.append(loss.detach().clone())
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        after()
    return outcome(model, optimizer, losses)


def trained(model, inputs, make, budget, steps=STEPS, micro=1, clip=None, each=lambda optimizer: lambda: None):
    """Train with a trainer; it is returned too."""
    model = copy.deepcopy(model)
    optimizer = make(model.parameters())
    torch._dynamo.reset()
    trainer = cairn.trainer(model, optimizer, budget, clip_norm=clip, check=True)
    after, losses = each(optimizer), []
    torch.manual_seed(5)
    for i in range(steps):
        for _ in range(micro - 1):
            trainer.accumulate(*inputs)
        losses.append(trainer.step(*inputs).clone())
        after()
        if i == 0:  # the first step makes the optimiser's state, so that less is there than later
            for meter in meters(trainer):
                meter.differences.clear()
    return outcome(model, optimizer, losses), trainer


def meters(trainer):
    return [step.meter for steps in trainer._steps.values() for step in steps]


def smallest(model, inputs, make, **options):
    """The smallest budget of a trainer, by its refusal."""
    model = copy.deepcopy(model)
    torch._dynamo.reset()
    try:
        cairn.trainer(model, make(model.parameters()), 1000, **options).fit(*inputs)
    except cairn.BudgetError as error:
        return error.smallest
    raise AssertionError("a step fits into 1000 bytes")


class Case(unittest.TestCase):
    def check(self, model, inputs, make, budget, **options):
        expected = plainly(model, inputs, make, **options)
        found, trainer = trained(model, inputs, make, budget, **options)
        self.assertTrue(same(expected, found))
        for meter in meters(trainer):
            self.assertEqual(meter.differences, [])
        if isinstance(budget, int):
            self.assertLessEqual(trainer.plan.peak, budget)
        return trainer


class Same(Case):
    """Bits and bytes."""

    def test_optimizers(self):
        model, inputs = small()
        for make in KINDS:
            with self.subTest(make(model.parameters())):
                self.check(model, inputs, make, "85%", steps=3)

    def test_parts(self):
        """Parts have the bits of the whole, whatever the optimiser."""
        model, inputs = small()
        for make in KINDS:
            with self.subTest(make(model.parameters())), unittest.mock.patch.object(_updates, "CHUNK", 256):
                self.check(model, inputs, make, "85%", steps=3)

    def test_tight(self):
        model, inputs = small()
        trainer = self.check(model, inputs, adamw, smallest(model, inputs, adamw))
        self.assertGreater(trainer.plan.reruns, 0)

    def test_tied_weights(self):
        torch.manual_seed(0)
        model = GPT(layers=2)
        inputs = torch.randint(0, 512, (2, 64)), torch.randint(0, 512, (2, 64))
        self.check(model, inputs, adamw, "90%", clip=0.5)

    def test_channels_last_and_autocast(self):
        model, (x, y) = small()
        model = model.to(memory_format=torch.channels_last)

        class Cast(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, x, y):
                with torch.autocast("cpu", torch.bfloat16):
                    return self.model(x, y)
        self.check(Cast(), (x.to(memory_format=torch.channels_last), y), adamw, "90%")

    def test_clip(self):
        model, inputs = small()
        trainer = self.check(model, inputs, adamw, "95%", clip=0.1)
        self.assertGreater(trainer.norm, 0.1)

    def test_accumulation(self):
        model, inputs = small()
        self.check(model, inputs, adamw, "95%", micro=3)
        self.check(model, inputs, adamw, "95%", micro=2, clip=0.1)

    def test_schedule_and_groups(self):
        """Another learning rate, for each group its own, needs no other plan."""
        model, inputs = small()

        def make(parameters):
            parameters = list(parameters)
            return torch.optim.AdamW([{"params": parameters[:3], "lr": 0.1, "weight_decay": 0.5},
                                      {"params": parameters[3:]}])

        def each(optimizer):
            return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5).step
        trainer = self.check(model, inputs, make, "90%", each=each)
        self.assertEqual(len(trainer._steps["step"]), 1)

    def test_groups_change(self):
        """Parameters that are added to the optimiser later are updated from then on, and a new option has its slots."""
        model, inputs = wide()
        results = []
        for with_trainer in (False, True):
            mine = copy.deepcopy(model)
            optimizer = torch.optim.SGD(mine.layers[0].parameters(), lr=0.1)
            torch._dynamo.reset()
            trainer, losses = cairn.trainer(mine, optimizer), []
            call = torch.compile(mine, backend="aot_eager", fullgraph=True, dynamic=False)
            for i in range(6):
                if i == 2:
                    optimizer.add_param_group({"params": mine.head.parameters(), "lr": 0.5})
                elif i == 4:
                    optimizer.param_groups[1]["momentum"] = 0.9
                if with_trainer:
                    losses.append(trainer.step(*inputs).clone())
                    continue
                losses.append(call(*inputs))
                losses[-1].backward()
                optimizer.step()
                mine.zero_grad()
            results.append(outcome(mine, optimizer, [loss.detach() for loss in losses]))
        self.assertTrue(same(*results))
        self.assertTrue(any(place.name == "momentum_buffer" for place in trainer._places.values()))

    def test_allocator(self):
        """What PyTorch's allocator gives out in a step is what was predicted."""
        model, inputs = small()
        _, trainer = trained(model, inputs, adamw, "85%")
        slots = [v for s in trainer.optimizer.state.values() for k, v in s.items() if k != "step"]
        tensors = [*trainer.model.parameters(), *trainer.model.buffers(), *inputs, *slots]
        stays = sum(-(-t.numel() * t.element_size() // 64) * 64 for t in tensors)
        trainer.options.check = False
        most = peak_of(lambda: trainer.step(*inputs), torch.device("cpu"))
        self.assertLessEqual(most + stays, trainer.plan.peak + 64 * 64)
        self.assertLess(trainer.plan.peak - stays - most, 0.05 * trainer.plan.peak)

    def test_gradients_are_freed(self):
        """Without a limit the step needs less than with all gradients."""
        model, inputs = wide()
        _, trainer = trained(model, inputs, adamw, None)
        self.assertTrue(all(p.grad is None for p in trainer.model.parameters()))
        weights = sum(p.numel() * 4 for p in trainer.model.parameters())
        self.assertLess(trainer.plan.peak, 3.5 * weights)

    def test_loss_and_outputs(self):
        """The loss is found among results, or computed by the caller's function."""
        model, inputs = wide()
        expected = plainly(model, inputs, adamw, steps=2)
        for form in (lambda loss: (loss, loss * 2), lambda loss: {"loss": loss}):
            mine = copy.deepcopy(model)
            optimizer = adamw(mine.parameters())
            trainer = cairn.trainer(mine, optimizer, loss=lambda x, y: form(mine(x, y)))
            torch.manual_seed(5)
            losses = [trainer.step(*inputs).clone() for _ in range(2)]
            self.assertTrue(same(expected, outcome(mine, optimizer, losses)))


class Homes(Case):
    """The same with a part of the processor's memory standing for that of a host. No memory is in use that the plan
    freed."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(unittest.mock.patch.object(_plan.Switches, "simulate_host", True))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("error", "cairn: the plan frees")

    def homed(self, trainer):
        return [p for p in trainer._places.values() if p.at_home]

    def test_homes(self):
        """Parameters, gradients and moments alone are over the budget."""
        model, inputs = wide()
        state = 4 * sum(p.numel() * 4 for p in model.parameters())
        for share in (0.2, 0.5):
            budget = int(share * state)
            trainer = self.check(model, inputs, adamw, budget)
            self.assertTrue(any(p.name == "exp_avg" for p in self.homed(trainer)))
        least = smallest(model, inputs, adamw)
        self.assertLess(least, 0.2 * state)
        trainer = self.check(model, inputs, adamw, least)
        self.assertTrue(any(p.name is None for p in self.homed(trainer)))

    def test_homes_parts(self):
        """An update in parts leaves the smallest budget without room for temporary tensors as large as a parameter."""
        model, inputs = wide()
        whole = smallest(model, inputs, adamw)
        with unittest.mock.patch.object(_updates, "CHUNK", 1 << 12):
            parts = smallest(model, inputs, adamw)
            self.check(model, inputs, adamw, parts)
        self.assertLessEqual(parts, whole - 256 * 256 * 4)

    def test_homes_momentum(self):
        model, inputs = wide()
        make = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)
        self.assertTrue(self.homed(self.check(model, inputs, make, smallest(model, inputs, make))))

    def test_homes_clipped_sums(self):
        """Sums of gradients are slots too; micro-batches and clipping give the bits of a step without a budget."""
        model, inputs = wide()
        trainer = self.check(model, inputs, adamw, 3 << 20, micro=3)
        self.assertTrue(any(p.name == "sum of gradients" for p in self.homed(trainer)))
        self.check(model, inputs, adamw, 4 << 20, micro=2, clip=0.1)

    def test_held(self):
        """A moment that somebody holds after it has left the device is noticed, in the first step of a resumed run too."""
        model, inputs = wide()
        optimizer = adamw(model.parameters())
        cairn.trainer(model, optimizer, 2 << 20).step(*inputs)
        cairn.trainer(model, optimizer, 2 << 20).step(*inputs)
        kept, leave = [], _homes.Place.leave

        def hold(place, value):
            if place.name is not None:
                kept.append(value)
            leave(place, value)
        with unittest.mock.patch.object(_homes.Place, "leave", hold), \
                self.assertRaisesRegex(UserWarning, "frees slot_.* still in use"):
            cairn.trainer(model, optimizer, 2 << 20).step(*inputs)

    def test_state_dicts(self):
        """Between steps both have the usual tensors. A trainer that loads them goes on with the same bits."""
        model, inputs = wide()
        expected = plainly(model, inputs, adamw, steps=6)
        mine = copy.deepcopy(model)
        optimizer = adamw(mine.parameters())
        trainer = cairn.trainer(mine, optimizer, 2 << 20)
        torch.manual_seed(5)
        losses = [trainer.step(*inputs).clone() for _ in range(3)]
        file = io.BytesIO()
        torch.save({"model": mine.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file)
        self.assertTrue(self.homed(trainer))
        self.assertTrue(all(v.untyped_storage().nbytes() > 0 for v in saved["model"].values()))
        trainer.step(*inputs)  # and back again, in the same trainer
        for again in (True, False):
            if not again:
                mine = copy.deepcopy(model)
                optimizer = adamw(mine.parameters())
                trainer = cairn.trainer(mine, optimizer, "90%")
            mine.load_state_dict(saved["model"])
            optimizer.load_state_dict(copy.deepcopy(saved["optimizer"]))
            more = [trainer.step(*inputs).clone() for _ in range(3)]
            self.assertTrue(same(expected, outcome(mine, optimizer, losses + more)))

    def test_between_steps(self):
        """What users do between steps: schedules that change betas, learning rates as tensors, weights that are frozen and
        thawed, state that is loaded, parameters that no loss reads."""
        model, inputs = wide()
        model.spare = nn.Linear(256, 256)

        def cycle(optimizer):
            return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10).step

        def freeze(optimizer):
            weight = optimizer.param_groups[0]["params"][2]
            return lambda: weight.requires_grad_(not weight.requires_grad)

        def load(optimizer):
            return lambda: optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        momentum = lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9)
        tensor = lambda parameters: torch.optim.AdamW(parameters, torch.tensor(0.01), amsgrad=True)
        for make, each in ((adamw, cycle), (momentum, cycle), (tensor, load), (momentum, freeze)):
            with self.subTest(each.__name__):
                self.check(model, inputs, make, "60%", each=each)

    def test_shapes(self):
        """A batch of another shape has another plan, and a larger one more homes."""
        model, (x, y) = wide()
        batches = [(x, y), (x[:8], y[:8]), (x.repeat(32, 1), y.repeat(32)), (x, y)]  # the large one leaves little room
        results = []
        for budget in (None, 4 << 20):
            mine = copy.deepcopy(model)
            optimizer = adamw(mine.parameters())
            trainer = cairn.trainer(mine, optimizer, budget)
            results.append(outcome(mine, optimizer, [trainer.step(*batch).clone() for batch in batches]))
        self.assertTrue(same(*results))
        self.assertEqual(len(trainer._steps["step"]), 3)
        small, large = (sum(step.at_home.values()) for step in trainer._steps["step"][1:])
        self.assertLess(small, large)

    def test_many_shapes(self):
        """More than Dynamo captures a function by itself."""
        model, (x, y) = wide()
        trainer = cairn.trainer(model, adamw(model.parameters()), 8 << 20)
        for rows in range(1, 12):
            trainer.step(x[:rows], y[:rows])
        self.assertEqual(len(trainer._steps["step"]), 11)

    def test_on_device(self):
        model, inputs = wide()
        _, trainer = trained(model, inputs, adamw, 2 << 20)
        with torch.no_grad():
            outside = trainer.model(*inputs)
            with trainer.on_device():
                self.assertTrue(same(outside, trainer.model(*inputs)))
        trainer.step(*inputs)

    def test_frozen(self):
        """Weights without gradients may be on the host too."""
        model, inputs = wide()
        for layer in model.layers[:6]:
            layer.requires_grad_(False)
        make = lambda parameters: adamw([p for p in parameters if p.requires_grad])
        trainer = self.check(model, inputs, make, smallest(model, inputs, make))
        self.assertTrue(any(not p.parameter.requires_grad for p in self.homed(trainer)))

    def test_host_is_full(self):
        model, inputs = wide()
        with unittest.mock.patch.object(_homes, "free_host_bytes", lambda: 1000), \
                self.assertRaisesRegex(cairn.CairnError, r"puts \d+ bytes .* on the host, which has 1000 bytes free"):
            cairn.trainer(model, adamw(model.parameters()), 2 << 20).step(*inputs)

    def test_pinned_memory_is_refused(self):
        model, inputs = wide()
        real = torch.empty_strided

        def refuse(*arguments, pin_memory=False, **options):
            if pin_memory is not None and "device" not in options:
                raise RuntimeError("CUDA error: out of memory\nmore")
            return real(*arguments, **options)
        with unittest.mock.patch.object(torch, "empty_strided", refuse), \
                self.assertRaisesRegex(cairn.CairnError, r"refused 262144 bytes of pinned host memory .*: CUDA error"):
            _homes.host_like(model.layers[0].weight)


class Allocated:
    """The most that PyTorch's allocator gives out in a block, above what it has given out before, although Cairn counts for
    itself in between. What stands for the host's memory is not the allocator's."""

    def __enter__(self):
        self.live = self.most = 0
        self._start, self._stop = _torch.start_memory_events, _torch.stop_memory_events
        self._stack = contextlib.ExitStack()
        for module, name, new in ((_torch, "start_memory_events", self._begin), (_torch, "stop_memory_events", self._end),
                                  (_homes, "host_like", self._host_like), (_homes, "host_bytes", self._host_bytes),
                                  (_moves, "_copy", lambda value: self._host_like(value).copy_(value))):
            self._stack.enter_context(unittest.mock.patch.object(module, name, new))
        self._start(lambda: None)
        return self

    def __exit__(self, *_):
        self._follow(self._stop())
        self._stack.close()

    def _follow(self, threads):
        for event in (event for events in threads for event in events if event.kind() == "memory_alloc"):
            self.live += event.cpu_memory_usage()
            self.most = max(self.most, self.live)
        return threads

    def _begin(self, give_way):
        self._follow(self._stop())
        self._start(give_way)

    def _end(self):
        found = self._follow(self._stop())
        self._start(lambda: None)
        return found

    @staticmethod
    def _host_like(value):
        flat = torch.from_numpy(numpy.empty(value.untyped_storage().nbytes(), numpy.uint8)).view(value.dtype)
        return flat.as_strided(value.shape, value.stride())

    @staticmethod
    def _host_bytes(storage):
        return torch.from_numpy(numpy.empty(storage.nbytes(), numpy.uint8)).untyped_storage().copy_(storage)


class FirstCall(unittest.TestCase):
    """Measuring keeps to the budget too: with nothing in the table of costs, from the trainer's construction on."""

    def setUp(self):
        patch = unittest.mock.patch.object(_plan.Switches, "simulate_host", True)
        patch.start()
        self.addCleanup(patch.stop)

    def most(self, make, budget, network=wide, **options):
        """All that is allocated at most, by a trainer that has to measure everything."""
        torch._dynamo.reset()
        with tempfile.TemporaryDirectory() as folder, Allocated() as counter:
            model, inputs = network()
            trainer = cairn.trainer(model, make(model.parameters()), budget, costs=folder + "/costs", **options)
            if options:
                trainer.accumulate(*inputs)
            trainer.step(*inputs)
        self.assertGreater(trainer.plan.joint.table.measured, 5)
        return counter.most

    def test_optimizers(self):
        """The smallest budget, if all parameters are on the device before it, and larger ones."""
        model, inputs = wide()
        weights = sum(p.nbytes for p in model.parameters())
        for make in KINDS[:7]:
            with self.subTest(make(model.parameters())):
                least = max(smallest(model, inputs, make), weights + weights // 4)
                for budget in (least, least + weights // 2):
                    self.assertLessEqual(self.most(make, budget), budget + SMALL)

    def test_parts(self):
        """The smallest budget is that of the update of the largest parameter, which makes its slots chunk by chunk."""
        class Single(nn.Linear):
            def forward(self, x, y):
                return F.cross_entropy(super().forward(x), y)

        def network():
            torch.manual_seed(0)
            return Single(512, 512), (torch.randn(4, 512), torch.randint(0, 512, (4,)))
        with unittest.mock.patch.object(_updates, "CHUNK", 1 << 17), \
                unittest.mock.patch.object(_updates, "FIRST_CHUNK", 1 << 14):
            for make in KINDS[1:7]:
                model, inputs = network()
                with self.subTest(make(model.parameters())):
                    least = smallest(model, inputs, make)
                    self.assertLess(least, 7 * model.weight.nbytes)
                    self.assertLessEqual(self.most(make, least, network), least + SMALL)

    def test_clipped_sums(self):
        self.assertLessEqual(self.most(adamw, 4 << 20, clip_norm=0.1), (4 << 20) + SMALL)


class Refused(unittest.TestCase):
    def refuse(self, words, model, optimizer, inputs=None, **options):
        with self.assertRaisesRegex(cairn.CairnError, words):
            trainer = cairn.trainer(model, optimizer, **options)
            trainer.step(*(inputs or wide()[1]))

    def test_refusals(self):
        model, inputs = wide()
        self.refuse("cannot update one parameter at a time with LBFGS", model, torch.optim.LBFGS(model.parameters()))
        self.refuse("differentiable", model, torch.optim.Adam(model.parameters(), differentiable=True))
        self.refuse("not one of the model", model, adamw(nn.Linear(2, 2).parameters()))
        self.refuse("returns a scalar", model, adamw(model.parameters()), loss=lambda x, y: model.layers[0](x))
        flat = nn.Linear(8, 8)
        flat.bias = nn.Parameter(flat.weight.detach().view(-1)[:8])
        self.refuse("weight and bias share memory", flat, adamw(flat.parameters()))
        hooked = adamw(model.parameters())
        hooked.register_step_post_hook(lambda *_: None)
        self.refuse("hooks", model, hooked)
        model.head.weight.register_hook(lambda grad: grad * 2)
        self.refuse("hook on its gradient", model, adamw(model.parameters()))

    def test_gradients_from_outside(self):
        model, inputs = wide()
        model(*inputs).backward()
        self.refuse("made outside the trainer", model, adamw(model.parameters()), inputs)

    def test_groups_change_in_a_step(self):
        model, inputs = wide()
        trainer = cairn.trainer(model, torch.optim.SGD(model.layers[0].parameters(), lr=0.1))
        trainer.accumulate(*inputs)
        trainer.optimizer.add_param_group({"params": model.head.parameters()})
        with self.assertRaisesRegex(cairn.CairnError, r"changed after accumulate\(\), before step\(\)"):
            trainer.step(*inputs)

    def test_nothing_to_update(self):
        model, inputs = wide()
        optimizer = adamw([model.layers[0].weight])
        self.refuse("no parameter of the optimiser has a gradient", model, optimizer, inputs,
                    loss=lambda x, y: F.cross_entropy(model.head(x), y))

    def test_too_small(self):
        model, inputs = wide()
        with self.assertRaisesRegex(cairn.BudgetError, "no plan fits into 1000 bytes: the smallest possible budget is"):
            cairn.trainer(model, adamw(model.parameters()), 1000).step(*inputs)

    def test_plan_names_updates(self):
        """A plan that reads a parameter after its update is refused by the planner."""
        tensors = [dict(name="w", bytes=64, role=_library.PARAMETER, flags=_library.STATIONARY),
                   dict(name="a", bytes=64, role=_library.ACTIVATION, flags=0),
                   dict(name="g", bytes=64, role=_library.GRADIENT, flags=0)]
        op = dict(inplace=[], time_ns=1, workspace=0)
        ops = [dict(op, name="f", phase=0, flags=0, inputs=[0], outputs=[1]),
               dict(op, name="b", phase=1, flags=0, inputs=[1], outputs=[2]),
               dict(op, name="u", phase=1, flags=_library.UPDATES | _library.NEVER_AGAIN | _library.ONCE, inputs=[0, 2],
                    outputs=[]),
               dict(op, name="late", phase=1, flags=_library.NEVER_AGAIN, inputs=[0], outputs=[])]
        with self.assertRaisesRegex(_library.Failure, "after its update"):
            _library.Step("late", tensors, ops).solve("none")


if __name__ == "__main__":
    unittest.main()
