"""What a step returns, and what its caller does with that: results besides the loss whose gradients are used always,
sometimes or never, several losses, several backward passes, hooks. At no budget and at the smallest one the gradients are
bitwise those of aot_eager. (In eager execution a hook on a result sees more: what the loss inside adds.) In mode
"compiled" they are those of the step in which all gradients are planned."""

import unittest
import warnings
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import cairn
from cairn import _absent, _backend
from common import compiled, same
from compiled_networks import fixed_times
from everyday import Step
from replay import share_costs

CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def layers():
    return nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))


def pair(model, x):
    y = model.layers(x)
    return y.square().mean(), y


@case
def losses_in_a_dictionary():
    def loss(m, x):
        y = m.layers(x)
        return {"near": y.square().mean(), "flat": y.abs().mean()}
    return Step(loss, layers=layers()), lambda call, x, i: sum(call(x).values()).backward()


@case
def two_backward_passes():
    def loss(m, x):
        y = m.layers(x)
        return y.square().mean(), y.abs().mean()

    def use(call, x, i):
        first, second = call(x)
        first.backward(retain_graph=True)
        second.backward()
    return Step(loss, layers=layers()), use


@case
def distillation():
    def loss(m, x):
        h = m.layers(x)
        y = m.head(h)
        return y.square().mean(), y, h

    def use(call, x, i):
        loss, y, h = call(x)
        (loss + F.kl_div(y.log_softmax(-1), torch.full_like(y, 1 / 16), reduction="sum") + 0.1 * h.norm()).backward()
    return Step(loss, layers=layers(), head=nn.Linear(16, 16)), use


@case
def logits_every_second_step():
    def use(call, x, i):
        loss, y = call(x)
        (loss + y.sum() if i % 2 else loss).backward()
    return Step(pair, layers=layers()), use


@case
def only_the_logits():
    return Step(pair, layers=layers()), lambda call, x, i: call(x)[1].sum().backward()


@case
def part_of_transposed_logits():
    def loss(m, x):
        y = m.layers(x)
        return y.square().mean(), y.t()

    def use(call, x, i):
        loss, y = call(x)
        (loss + y[1:3, ::2].square().sum()).backward()
    return Step(loss, layers=layers()), use


@case
def hidden_states():
    def loss(m, x):
        states = [x]
        for layer in m.layers:
            states.append(layer(states[-1]))
        return {"loss": states[-1].square().mean(), "states": tuple(states), "last": states[-1], "none": None}

    def use(call, x, i):
        found = call(x)
        (found["loss"] + (found["states"][1].mean() if i == 2 else 0)).backward()
    return Step(loss, layers=layers()), use


@case
def keys_and_values():
    def loss(m, x):
        k, v = (layer(x).view(4, 2, 8).transpose(0, 1) for layer in (m.keys, m.values))
        y = F.scaled_dot_product_attention(k, k, v).transpose(0, 1).reshape(4, 16)
        return y.square().mean(), y, (k, v)
    return Step(loss, keys=nn.Linear(16, 16), values=nn.Linear(16, 16)), lambda call, x, i: call(x)[0].backward()


@case
def hook_on_a_result():
    def use(call, x, i):
        loss, y = call(x)
        y.register_hook(lambda gradient: gradient * 2)
        y.retain_grad()
        (loss + y.square().sum()).backward()
        return y.grad
    return Step(pair, layers=layers()), use


@case
def gradient_of_the_input():
    def use(call, x, i):
        x = x.requires_grad_()
        loss, y = call(x)
        return torch.autograd.grad(loss, x) if i % 2 else torch.autograd.grad(y.sum(), x)
    return Step(pair, layers=layers()), use


def trained(make, backend):
    torch.manual_seed(0)
    model, use = make()
    call = compiled(model, backend)
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), []
    for i in range(4):
        seen.append([use(call, torch.randn(4, 16), i)])
        seen[-1] += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    return seen


class Results(unittest.TestCase):
    def test_cases(self):
        for name, make in CASES.items():
            with self.subTest(name):
                expected, free = trained(make, "aot_eager"), cairn.backend(check=True)
                self.assertTrue(same(expected, trained(make, free)))
                planner = _backend.planner_for(free.plans[0].joint, _backend.Options())
                self.assertTrue(same(expected, trained(make, cairn.backend(planner.smallest()[0]))))


class Head(nn.Module):
    """Returns its loss and its logits, as language models do."""

    def __init__(self):
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(1000, 16), nn.Linear(16, 16), nn.Linear(16, 1000, bias=False)

    def forward(self, tokens):
        logits = self.head(F.gelu(self.layer(self.words(tokens))))
        return F.cross_entropy(logits.view(-1, 1000), tokens.view(-1)), logits


def planned():
    """All gradients of results are planned."""
    return mock.patch.object(_absent, "leave_out", lambda *_: False)


class Compiled(unittest.TestCase):
    def test_cases(self):
        for name, make in CASES.items():
            with self.subTest(name):
                with planned():
                    expected = trained(make, cairn.backend(mode="compiled"))
                free = cairn.backend(mode="compiled")
                self.assertTrue(same(expected, trained(make, free)))
                for arena in (False, True):
                    planner = _backend.planner_for(free.plans[0].joint, _backend.Options(mode="compiled", arena=arena))
                    tight = cairn.backend(planner.smallest()[0], mode="compiled", arena=arena and "two_" not in name)
                    self.assertTrue(same(expected, trained(make, tight)), f"arena {arena}")

    def least(self, **options):
        torch.manual_seed(0)
        with fixed_times():
            planner = _backend.planner_of(Head(), (torch.randint(0, 1000, (2, 32)),),
                                          _backend.Options(mode="compiled", chunks=1, **options))
        return planner.smallest()[0], len(planner.joint.absent)

    def test_memory(self):
        """A gradient that nobody uses takes no memory: no more is needed than with loss_only=True."""
        logits = 2 * 32 * 1000 * 4
        least, absent = self.least()
        self.assertEqual(absent, 1)
        self.assertEqual(least, self.least(loss_only=True)[0])
        with planned():
            self.assertGreaterEqual(self.least()[0], least + logits)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    share_costs()
    unittest.main()
