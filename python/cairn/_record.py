"""A whole step, forward and backward, as one CUDA graph that is replayed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _memsets, _moves, _torch


def record(model: torch.nn.Module, call: Callable[..., torch.Tensor], inputs: Sequence[Any],
           warmup: int = 3) -> Callable[..., torch.Tensor]:
    """A function step(*inputs) that runs call(*inputs) and its backward part, and returns the loss.

    `call` is the compiled model. On a CUDA device the step is recorded once, for inputs of these shapes, and
    replayed: later inputs are copied into the tensors `inputs`, the loss and the gradients are in the same memory
    every time, and the gradients are only those of the last replay. On other devices the step is run without
    recording. Create the backend with cudagraphs=True."""
    if not any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs):
        def plain(*values):
            loss = call(*values)
            loss.backward()
            return loss.detach()
        return plain
    parameters = [p for p in model.parameters() if p.requires_grad]
    buffers = [(b, b.detach().cpu()) for b in model.buffers()]  # on the host, where no budget counts them
    held = list(inputs)
    torch.cuda.synchronize()
    _torch.clear_cublas_workspaces()  # the plan counts the workspaces of one stream
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    hosts: dict = {}
    with torch.cuda.stream(side), _moves.keep_hosts(hosts):
        for _ in range(warmup):
            torch.cuda.empty_cache()  # else steps that follow each other leave gaps in the allocator's memory
            call(*held).backward()
            _forget(parameters)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    _torch.clear_cublas_workspaces()  # the workspaces of the graph must be in its own memory
    torch.cuda.empty_cache()
    parks = bool(hosts)
    graph = torch.cuda.CUDAGraph(keep_graph=parks)
    with torch.cuda.graph(graph, stream=side), _moves.keep_hosts(hosts):
        loss = call(*held)
        loss.backward()
    if parks:
        _memsets.as_kernels(graph.raw_cuda_graph())
        graph.instantiate()
    gradients = [p.grad for p in parameters]
    loss = loss.detach()
    with torch.no_grad():  # undo the changes of running statistics
        for b, old in buffers:
            b.copy_(old)

    def replay(*values):
        for place, value in zip(held, values):
            if isinstance(place, torch.Tensor) and place is not value:
                place.copy_(value, non_blocking=True)
        graph.replay()
        for p, g in zip(parameters, gradients):
            p.grad = g
        return loss
    vars(replay).update(graph=graph, hosts=hosts)  # which live as long as the function
    return replay


def _forget(parameters):
    for p in parameters:
        p.grad = None
