"""Which gradients repeat, on a GPU: a Llama in eager execution twice, and in both modes at three budgets, without and with
deterministic algorithms. One JSON line each: how many of loss and gradients differ in a bit.

    CUBLAS_WORKSPACE_CONFIG=:4096:8 python bench/pytorch/repeat.py"""

import json
import warnings

import large_models
import torch

import cairn
from cairn import _backend

SIZES = {"short": (512, 4, 8, 4, 1024, 512), "long": (2048, 2, 32, 8, 4096, 2048)}  # as Llama takes them
WORDS = 1024


def make(length):
    torch.manual_seed(0)
    model = large_models.Llama(WORDS, *SIZES[length]).cuda().bfloat16()
    words = torch.randint(0, WORDS, (4, SIZES[length][-1])).cuda()
    return model, (words, words.roll(1))


def gradients(model, call, inputs):
    model.zero_grad(set_to_none=True)
    loss = call(*inputs)
    loss.backward()
    return [loss.detach().clone()] + [p.grad.clone() for p in model.parameters()]


def differing(a, b):
    return sum(not torch.equal(x, y) for x, y in zip(a, b))


def compiled(model, inputs, mode, budget):
    torch._dynamo.reset()
    backend = cairn.backend(budget, mode=mode)
    call = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
    first = gradients(model, call, inputs)
    return backend, first, differing(first, gradients(model, call, inputs))


def check(length, deterministic):
    torch.use_deterministic_algorithms(deterministic)
    model, inputs = make(length)

    def say(**figures):
        print(json.dumps(dict(length=length, deterministic=deterministic, of=1 + len(list(model.parameters())),
                              **figures)), flush=True)
    say(mode="eager", twice=differing(gradients(model, model, inputs), gradients(model, model, inputs)))
    for mode in ("exact", "compiled"):
        backend, free, twice = compiled(model, inputs, mode, None)
        say(mode=mode, budget=None, twice=twice)
        planner = _backend.planner_for(backend.plans[0].joint, backend.options)
        low, high = planner.smallest()[0] + planner.reserve, planner.none().peak + planner.reserve
        for budget in (low, (low + high) // 2):
            _, found, twice = compiled(model, inputs, mode, budget)
            say(mode=mode, budget=budget, twice=twice, from_free=differing(free, found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for length in SIZES:
        for deterministic in (False, True):
            check(length, deterministic)
