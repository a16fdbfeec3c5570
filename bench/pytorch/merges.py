"""Whether the rules pay by which mode "compiled" merges groups of ops into one kernel (python/cairn/_groups.py).

    python bench/pytorch/merges.py [--device cuda] [--only NETWORKS] [--without WHICH] [--small]

The networks of compiled.py with few layers are captured with all rules, without any, and without each, or only as WHICH says
("none,all,0"). One JSON line each:

  without     the number of the rule that is left out, in the order of Grouping._rules; "none": all are used; "all": none is
  kernels     how many kernels a step runs
  asked       how many different merged kernels were measured against those of their parts; divided: how many are not used,
              because their parts are faster
  extra       how many different kernels were compiled for that and are not used
  kernel_ms   the time of these, measured on the device; with CUDA as they are in a recorded step
  step_ms     the same of the whole step
  peak_mib    the memory of a step that recomputes nothing; smallest_mib: the smallest budget"""

import argparse
import json
import warnings

import large_models
import small_models
import torch

from cairn import _backend, _compiled, _groups

SHORT = {
    "gpt": lambda: large_models._half((small_models.GPT(50304, 1024, 1024, 2, 16, 0.0), large_models._words(8, 1024, 50304))),
    "llama": lambda: large_models._half((large_models.Llama(32000, 2048, 2, 32, 8, 5632, 2048),
                                         large_models._words(4, 2048, 32000))),
    "resnet50": lambda: large_models._channels_last((small_models.ResNet(small_models.Bottleneck, (1, 1, 1, 1), 1000),
                                                     large_models._images(64, 224))),
    "vit": lambda: large_models._half((small_models.ViT(224, 16, 1024, 2, 16, 1000), large_models._images(64, 224))),
}


def planner_without(left_out, model, inputs, cuda):
    """The planner of a step whose groups are merged by the other rules, and how many rules there are."""
    rules, counted = _groups.Grouping._rules, []

    def others(grouping):
        found = rules(grouping)
        counted.append(len(found))
        return [rule for number, rule in enumerate(found) if left_out not in ("all", number)]
    _groups.Grouping._rules = others
    try:
        options = _backend.Options(mode="compiled", arena=True, cudagraphs=cuda)
        return _backend.planner_of(model, inputs, options), counted[0]
    finally:
        _groups.Grouping._rules = rules


def compare(name, args):
    large_models.NETWORKS[name] = SHORT[name]
    model, inputs = large_models.make(name, args.device, args.small)
    todo = [int(one) if one.isdigit() else one for one in args.without.split(",")] if args.without else ["none", "all"]
    for left_out in todo:
        _compiled._kernels.clear()  # so that those of this step are counted
        planner, count = planner_without(left_out, model, inputs, args.device == "cuda")
        if left_out == "all" and not args.without:
            todo += range(count)
        ops = [op for op in planner.joint.ops if _compiled.is_kernel(op)]
        asked = [kernel.divided for kernel in _compiled._kernels.values() if kernel.divided is not None]
        print(json.dumps(dict(network=name, without=left_out, kernels=len(ops), asked=len(asked), divided=sum(asked),
                              extra=len(_compiled._kernels) - len({op.node.target for op in ops}),
                              kernel_ms=round(sum(op.time_ns for op in ops) / 1e6, 3),
                              step_ms=round(planner.none().time_ns / 1e6, 3), peak_mib=planner.none().peak >> 20,
                              smallest_mib=round(planner.smallest()[0] / 2**20, 1))), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="networks, separated by commas")
    parser.add_argument("--without", default="", help="rules to leave out: none, all or their numbers, separated by commas")
    parser.add_argument("--small", action="store_true", help="small networks, for a processor")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in SHORT:
        if not args.only or name in args.only.split(","):
            compare(name, args)


if __name__ == "__main__":
    main()
