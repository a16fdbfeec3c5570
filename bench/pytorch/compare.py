"""Training steps of Cairn and of PyTorch, or of two builds of Cairn, in turns, on one machine.

Two processes are started: `cairn-bench step --serve`, and steps.py or another build of the command.
Each does one step when told to; the other sleeps meanwhile. The order changes from pair to pair. See
README.md.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
VERSION = "2.13"


class Contender:
    """A process that does a step for every line it is sent."""

    def __init__(self, name, command, options):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
        if options.passive:
            environment["OMP_WAIT_POLICY"] = "passive"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended before it answered, see above")
        return json.loads(line)

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.read()
        return answer["step_ms"], answer["cpu_ms"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": round(low, 4), "median": round(middle, 4), "high": round(high, 4)}


def open_cairn(name, command, network, options, *more):
    return Contender(name, [command + "-bench", "step", "--serve", "--only", network, "--backend",
                            options.backend, "--batch", str(options.batch), "--size",
                            str(options.size), "--threads", str(options.threads), *more], options)


def open_torch(network, options):
    torch = Contender("pytorch", [sys.executable, os.path.join(FOLDER, "steps.py"), network,
                                  str(options.batch), str(options.size), str(options.threads)],
                      options)
    if not torch.ready["version"].startswith(VERSION + "."):
        print(f"note: this is PyTorch {torch.ready['version']}, not {VERSION}", file=sys.stderr)
    return torch


def open_contenders(network, options):
    half = ["--half"] if options.half else []
    cairn = open_cairn("cairn", options.cairn, network, options, "--math", options.math, *half)
    other = (open_cairn("other", options.against, network, options) if options.against
             else open_torch(network, options))
    if cairn.ready["parameters"] != other.ready["parameters"]:
        raise SystemExit(f"{network}: cairn has {cairn.ready['parameters']} parameters, "
                         f"{other.name} {other.ready['parameters']}")
    return cairn, other


def take_turns(contenders, pairs, pause):
    """Lists of times of steps, by the clock and of the processor, one per contender."""
    times = {contender.name: [] for contender in contenders}
    for pair in range(pairs):
        for contender in contenders if pair % 2 == 0 else reversed(contenders):
            time.sleep(pause)  # threads of the other one stop spinning
            times[contender.name].append(contender.step())
    return times


def compare(network, options):
    contenders = open_contenders(network, options)
    other = contenders[1].name
    take_turns(contenders, options.warmups, options.pause)
    times = take_turns(contenders, options.pairs, options.pause)
    ratios = [(ours[0] / theirs[0], ours[1] / theirs[1])
              for ours, theirs in zip(times["cairn"], times[other])]
    row = {"bench": other, "network": network, "batch": options.batch, "size": options.size,
           "threads": options.threads, "backend": options.backend, "math": options.math,
           "half": options.half,
           "other": contenders[1].ready.get("version", options.against),
           "machine": platform.platform(), "pairs": options.pairs,
           "cairn_ms": quartiles([clock for clock, _ in times["cairn"]]),
           other + "_ms": quartiles([clock for clock, _ in times[other]]),
           "ratio": quartiles([clock for clock, _ in ratios]),
           "cpu_ratio": quartiles([cpu for _, cpu in ratios])}
    for contender in contenders:
        contender.close()
    return row


def show(row, as_json):
    if as_json:
        print(json.dumps(row), flush=True)
        return
    print(f"{row['network']:12} {'':8} {'quartile':>10} {'median':>10} {'quartile':>10}")
    for name, unit in (("cairn_ms", "ms"), (row["bench"] + "_ms", "ms"), ("ratio", ""), ("cpu_ratio", "")):
        figures = row[name]
        digits = 1 if unit else 3
        print(f"  {name:20} " + " ".join(f"{figures[k]:10.{digits}f}" for k in
                                         ("low", "median", "high")), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cairn", default="build/cairn", help="the command")
    parser.add_argument("--against", help="another build of the command, instead of PyTorch")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224, help="side of the images, or tokens of a sequence")
    parser.add_argument("--math", default="fp32", help="of cairn: fp32 or bf16; the other is fp32")
    parser.add_argument("--half", action="store_true",
                        help="cairn runs in half of the memory, the other in all of it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passive", action="store_true",
                        help="threads sleep while they wait, also those of PyTorch: for a busy machine")
    parser.add_argument("--pairs", type=int, default=20, help="of steps that count, at least 2")
    parser.add_argument("--warmups", type=int, default=3, help="pairs before them")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between steps")
    parser.add_argument("--json", action="store_true", help="one line per network")
    parser.add_argument("networks", nargs="*", default=["resnet18", "vgg11", "densenet121"])
    options = parser.parse_args()
    if not options.against:
        try:
            import torch  # noqa: F401
        except ImportError:
            raise SystemExit(f"PyTorch is not installed in {sys.executable}: this bench needs "
                             f"torch {VERSION} and numpy; see bench/pytorch/README.md")
    for network in options.networks or ["resnet18", "vgg11", "densenet121"]:
        show(compare(network, options), options.json)


if __name__ == "__main__":
    main()
