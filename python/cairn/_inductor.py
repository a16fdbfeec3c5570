"""Mode "inductor": the plan as Inductor's partition of the step, compiled, measured, and made smaller where over.

Fusion changes what lives at a time, so that a plan says only roughly what the compiled step takes. Before the first
step a trial is run: forward and gradients of it, after which random numbers and buffers are put back.
"""

import hashlib

import torch
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from . import _distributed, _library
from ._errors import BudgetError
from ._plan import Planner
from ._write import Writer

ROUNDS = 5


class Partitioner(CustomPartitionerFn):
    """Plans with `target` bytes for the step, or with what the backend's budget allows."""

    def __init__(self, backend, target):
        self.backend, self.target, self.plan, self.allowed = backend, target, None, None

    def __deepcopy__(self, memo):
        """Inductor copies its settings; the plan must come back here."""
        return self

    def uuid(self):
        """What a compiled step depends on: caches of Inductor are keyed by it. Once there is a plan that is the plan; before,
        what it will be made from."""
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
    """The text of a file; of none, or of one that is not there yet, nothing."""
    try:
        with open(path) as file:
            return file.read()
    except (OSError, TypeError):
        return ""


def compile_with(backend, gm, example_inputs):
    """A callable that settles on a plan when it is first called, with real inputs at hand."""
    import copy
    settled = []

    def call(*inputs):
        if not settled:
            settled.append(_settle(backend, lambda: copy.deepcopy(gm), example_inputs, inputs))
        return settled[0](*inputs)
    return call


def _compile(backend, gm, example_inputs, target):
    from torch._inductor.compile_fx import compile_fx
    partitioner = Partitioner(backend, target)
    # A plan is made anew in every process; a compiled kernel is still taken from the cache.
    with inductor_config.patch(custom_partitioner_fn=partitioner), \
            torch._functorch.config.patch(enable_autograd_cache=False):
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
    """The most that forward and gradients take, with nothing left behind."""
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
