"""Mode "inductor": the plan as Inductor's partition of the step. It is compiled, measured, and made smaller if it
exceeds the budget.

Fusion changes which tensors are alive at the same time, so a plan predicts the memory of the compiled step only
roughly. Before the first step a trial is run: its forward and its gradients. Then random numbers and buffers are
restored.
"""

import hashlib

import torch

from . import _distributed, _library, _torch
from ._errors import BudgetError
from ._plan import Planner
from ._write import Writer

ROUNDS = 5
inductor_config, CustomPartitionerFn, compile_fx = _torch.inductor()


class Partitioner(CustomPartitionerFn):  # type: ignore[misc, valid-type]
    """Plans with `target` bytes for the step, or with what the backend's budget allows."""

    def __init__(self, backend, target):
        self.backend, self.target, self.plan, self.allowed = backend, target, None, None

    def __deepcopy__(self, memo):
        """Inductor copies its settings, but this object must stay the same one."""
        return self

    def uuid(self):
        """What a compiled step depends on, as the key of Inductor's caches. It is the plan, or, before there is one,
        the input of planning."""
        options = self.backend.options
        if self.plan is not None:
            made_from = [self.plan.text()]
        else:
            made_from = [_contents(options.costs), options.plan.text() if hasattr(options.plan, "text") else
                         _contents(options.plan), str((options.budget, options.total, options.outside))]
        digest = hashlib.sha256("\0".join(made_from).encode()).hexdigest()
        return ("cairn", _library.version(), str(self.target), options.algorithm, digest)

    def __call__(self, gm, joint_inputs, *, num_fwd_outputs, **_):
        from ._backend import capture, saved_text
        options = self.backend.options
        joint = capture(gm, num_fwd_outputs, options, inductor=True)
        planner = Planner(joint, options)
        if options.budget is not None:
            self.allowed = planner.budget_bytes(options.budget)
        if options.plan is not None:
            self.plan = planner.read(saved_text(options.plan))
        else:
            self.plan = _distributed.plan(planner, self.allowed if self.target is None else self.target)
        return Writer(joint, self.plan, inductor=True).graphs()


def _contents(path):
    """The text of a file; empty if there is no file."""
    try:
        with open(path) as file:
            return file.read()
    except (OSError, TypeError):
        return ""


def compile_with(backend, gm, example_inputs):
    """A callable that chooses a plan at its first call, with real inputs."""
    import copy
    settled = []

    def call(*inputs):
        if not settled:
            settled.append(_settle(backend, lambda: copy.deepcopy(gm), example_inputs, inputs))
        return settled[0](*inputs)
    return call


def _compile(backend, gm, example_inputs, target):
    partitioner = Partitioner(backend, target)
    # A plan is made again in every process; compiled kernels still come from the cache.
    with inductor_config.patch(custom_partitioner_fn=partitioner), \
            _torch.functorch_config.patch(enable_autograd_cache=False):
        return compile_fx(gm, example_inputs), partitioner


def _settle(backend, copy_gm, example_inputs, inputs):
    target = None
    for _ in range(ROUNDS):
        compiled, partitioner = _compile(backend, copy_gm(), example_inputs, target)
        peak, plan, size = _trial(compiled, inputs), partitioner.plan, partitioner.allowed
        if plan is None:  # nothing to differentiate
            return compiled
        peak = _distributed.most(peak)
        if size is None or peak <= size:
            plan.measured, plan.limit = peak, size
            backend.add(plan)
            return compiled
        target = plan.peak - (peak - size)
        if target <= 0 or backend.options.plan is not None:
            break
    raise BudgetError(f"the step that Inductor compiles takes {peak} bytes where {size} are allowed; mode 'exact' keeps "
                      "to the plan", peak, None)


def _trial(compiled, inputs):
    """The peak of forward and gradients; everything is released afterwards."""
    from ._costs import _peak_cpu, _peak_cuda
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    device = next((x.device for x in tensors if x.device.type != "cpu"), torch.device("cpu"))
    kept = [(x, x.detach().clone()) for x in tensors if not x.requires_grad]
    wanted = [x for x in tensors if x.requires_grad]

    def step():
        results = compiled(*inputs)
        results = [r for r in (results if isinstance(results, (tuple, list)) else [results])
                   if isinstance(r, torch.Tensor) and r.requires_grad]
        if results and wanted:
            torch.autograd.grad(results, wanted, [torch.ones_like(r) for r in results], allow_unused=True)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        step()  # compiles the backward part too
        peak = _peak_cuda(step, device) if device.type == "cuda" else _peak_cpu(step)
    with torch.no_grad():
        for x, old in kept:
            x.copy_(old)
    return peak
