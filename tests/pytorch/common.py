"""Shared by the tests: training a network and comparing bits."""

import contextlib
import copy
from unittest import mock

import torch

STEPS = 10


def train(model, call, inputs, steps=STEPS, micro=1):
    """Losses, gradients of every step, and buffers at the end."""
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses, gradients = [], []
    for _ in range(steps):
        for _ in range(micro):
            loss = call(*inputs)
            loss.backward()
        losses.append(loss.detach().clone())
        gradients.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return losses, gradients, [b.clone() for b in model.buffers()], [p.detach().clone() for p in model.parameters()]


def same(a, b):
    """Whether two nested structures are bitwise equal; a NaN is equal to itself."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b) or (a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a), bits(b)))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def compiled(model, backend, **options):
    torch._dynamo.reset()
    return torch.compile(model, backend=backend, fullgraph=True, dynamic=False, **options)


def reference(model, inputs, **options):
    model = copy.deepcopy(model)
    return train(model, compiled(model, "aot_eager"), inputs, **options)


def with_cairn(model, inputs, backend, **options):
    model = copy.deepcopy(model)
    return train(model, compiled(model, backend), inputs, **options)


def allocator_peak(call):
    """The allocator's peak during a call, above what was in use before."""
    from cairn._peak import peak_of
    return peak_of(call, torch.device("cpu"))


@contextlib.contextmanager
def arenas():
    """The addresses of arenas, of steps that are written in this block, as they are allocated."""
    from cairn import _arena
    found, allocate = [], _arena.allocate

    def note(size, *others):
        made = allocate(size, *others)
        found.append(range(made.data_ptr(), made.data_ptr() + size))
        return made
    with mock.patch.object(_arena, "allocate", note):
        yield found


def matrices_in(arena, model):
    """How many gradients of matrices there are, and how many of them are in an arena."""
    gradients = [p.grad for p in model.parameters() if p.dim() == 2]
    return len(gradients), sum(g.data_ptr() in arena for g in gradients)


@contextlib.contextmanager
def whole_peak():
    """The allocator's peak during a block, above what was in use before, as the only element of a list that is there
    when the block has ended. Unlike allocator_peak() it counts while Cairn counts, too."""
    from cairn import _peak, _torch
    start, stop, live, most = _torch.start_memory_events, _torch.stop_memory_events, 0, []

    def read():
        nonlocal live
        events = stop()
        for event in (e for thread in events for e in thread if e.kind() == "memory_alloc"):
            live += event.cpu_memory_usage()
            most.append(live)
        return events

    def read_and_start(give_way=lambda: None):
        events = read()
        start(give_way)
        return events
    start(lambda: None)
    with mock.patch.multiple(_torch, start_memory_events=read_and_start, stop_memory_events=read_and_start):
        yield most
        _peak._end()  # a step may be measured until the next one begins
    read()
    most[:] = [max(most)]
