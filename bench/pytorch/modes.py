"""Mode "compiled" against mode "exact" on the processor, one thread, without a budget: the small networks of the tests.

    python bench/pytorch/modes.py [--only NETWORKS] [--pairs 30]

Steps of the two modes alternate in one process. One JSON line for each network:

  exact_ms, compiled_ms  processor time of a step, the median of all
  ratio                  compiled / exact, the median of the ratios of neighbours
  planned_ms             what the ops and kernels of both steps take by their costs, which were measured one by one
  foreseen               the ratio if only these differ: what PyTorch does around ops is in both steps and in no cost
  kernels, one_by_one    different kernels of the step, and those whose ops are faster one by one, so that they run so"""

import argparse
import copy
import json
import os
import statistics
import sys
import time
import warnings

import torch

import cairn
from cairn import _compiled

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "pytorch"))
import small_models  # noqa: E402

MODES = ("exact", "compiled")


def prepared(model, inputs, mode):
    """A function that runs one step, and the backend of it."""
    torch._dynamo.reset()
    backend, mine = cairn.backend(mode=mode), copy.deepcopy(model)
    call = torch.compile(mine, backend=backend, fullgraph=True, dynamic=False)

    def step():
        mine.zero_grad(set_to_none=True)
        start = time.process_time()
        call(*inputs).backward()
        return 1e3 * (time.process_time() - start)
    step()
    return step, backend


def compared(name, pairs):
    model, inputs = small_models.make(name)
    steps, backends = zip(*(prepared(model, inputs, mode) for mode in MODES))
    for step in steps:
        step()
    rows = [[step() for step in steps] for _ in range(pairs)]
    kernels = {op.node.target for op in backends[1].plans[0].joint.ops if _compiled.is_kernel(op)}
    exact, compiled = (statistics.median(column) for column in zip(*rows))
    planned = [backend.plans[0].time_ns / 1e6 for backend in backends]
    return dict(network=name, exact_ms=round(exact, 2), compiled_ms=round(compiled, 2),
                ratio=round(statistics.median(b / a for a, b in rows), 3),
                planned_ms=[round(ms, 2) for ms in planned], foreseen=round(1 + (planned[1] - planned[0]) / exact, 3),
                kernels=len(kernels), one_by_one=sum(kernel.form is not kernel.forms[0] for kernel in kernels))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="networks, separated by commas")
    parser.add_argument("--pairs", type=int, default=30, help="steps of each mode")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in small_models.NETWORKS:
        if not args.only or name in args.only.split(","):
            print(json.dumps(compared(name, args.pairs)), flush=True)


if __name__ == "__main__":
    main()
