"""All judges on all processors for a while: random programs, PyTorch's table of ops with all samples, also in mode
"compiled", and models.

    OMP_NUM_THREADS=1 python judge.py --seconds 500 --jobs 12 --programs 60000:70000 --ops all --kernels 0/4 --models 'bert'

Each process gets one program, op or model after the other, and is started again if it dies. One line is printed for
each that fails, with what a person needs to try it alone, and the counts at the end. Exits with 1 if any failed."""

import argparse
import collections
import contextlib
import io
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import unittest
import warnings

SETTINGS = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # each process has and starts no other
LONGEST = {"program": 120, "op": 300, "kernel": 900, "model": 400}  # seconds
MOST = 300  # of a process: compilers keep memory


def judge(kind, what):
    """Counts of one program, op or model, and what is to be said of it."""
    case, counts = _case(kind, what)
    before, printed, result = dict(counts), io.StringIO(), unittest.TestResult()
    with contextlib.redirect_stdout(printed):
        case.run(result)
    failed = result.failures + result.errors
    made = {name: counts[name] - before.get(name, 0) for name in counts if counts[name] != before.get(name, 0)}
    said = printed.getvalue() if failed or kind == "model" or "refused" in printed.getvalue() else ""
    return {**made, "failed": len(failed)}, said + "\n".join(f"{test}\n{text}" for test, text in failed)


def _case(kind, what):
    """A test of one thing, and the counts that it changes."""
    if kind == "program":
        import test_programs as tests
        tested, check = tests.Programs, lambda case: case.check(what)
    elif kind in ("op", "kernel"):
        import test_ops as tests
        tests.SAMPLES = 0
        tested = tests.Ops if kind == "op" else tests.Kernels
        check = lambda case: case.check(what, tests.table()[what])
    else:
        import ecosystem
        import test_models as tests
        declared.append(ecosystem.declare_torchvision())
        tested, counts = tests.Models, collections.Counter()

        def check(case):
            outcome = case.check(what)
            counts[outcome.split(":")[0].split(",")[0]] += 1
            print(f"{what}: {outcome}")
        return type("Case", (tested,), {"runTest": check})(), counts
    return type("Case", (tested,), {"runTest": check})(), tested.counts


declared: list = []  # libraries of ops, which live as long as they are referred to


def work(pipe):
    """A process: what it judges comes through the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch
    from replay import share_costs
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    share_costs()
    for kind, what in iter(pipe.recv, None):
        try:
            pipe.send(judge(kind, what))
        except Exception:
            pipe.send(({"failed": 1}, traceback.format_exc()))


class Judges:
    """Threads that each keep one process busy until the time is over."""

    def __init__(self, tasks, seconds, jobs):
        self.tasks, self.end, self.lock = iter(tasks), time.monotonic() + seconds, threading.Lock()
        self.counts = collections.defaultdict(collections.Counter)
        self.threads = [threading.Thread(target=self._serve) for _ in range(jobs)]

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        self._report()
        return sum(counts["failed"] for counts in self.counts.values())

    def _report(self, head=""):
        for kind, counts in self.counts.items():
            print(f"{head}{kind}s: {dict(counts)}", flush=True)

    def _next(self):
        with self.lock:
            return next(self.tasks, None) if time.monotonic() < self.end else None

    def _serve(self):
        context = multiprocessing.get_context("spawn")
        task = self._next()
        while task is not None:
            here, there = context.Pipe()
            process = context.Process(target=work, args=(there,), daemon=True)
            process.start()
            there.close()
            for _ in range(MOST):
                if task is None or not self._judge(process, here, *task):
                    task = self._next()
                    break
                task = self._next()
            process.kill()
            process.join()

    def _judge(self, process, pipe, kind, what):
        """Whether the process is alive afterwards."""
        limit = time.monotonic() + LONGEST[kind]
        try:
            pipe.send((kind, what))
            while not pipe.poll(1):
                if time.monotonic() > self.end + 5:
                    self._add(kind, what, {"not finished": 1}, "")
                    return False
                if time.monotonic() > limit:
                    self._add(kind, what, {"too long": 1}, f"took more than {LONGEST[kind]} s")
                    return False
            self._add(kind, what, *pipe.recv())
            return True
        except (EOFError, OSError):
            process.join(10)
            self._add(kind, what, {"failed": 1}, f"the process died with status {process.exitcode}")
            return False

    def _add(self, kind, what, counts, said):
        with self.lock:
            mine = self.counts[kind]
            mine.update(counts)
            mine["judged"] += 1
            if said:
                print(f"{kind} {what}: {'FAILED ' if counts.get('failed') else ''}{said.strip()}", flush=True)
            if sum(c["judged"] for c in self.counts.values()) % 200 == 0:
                self._report("so far, ")


def interleaved(*lists):
    """One of each list in turn, until all are at their ends."""
    missing = object()
    return [x for row in itertools.zip_longest(*lists, fillvalue=missing) for x in row if x is not missing]


def numbers_of(share):
    """The ops of PyTorch's table that are in a share."""
    if not share:
        return []
    import test_ops
    first, every = map(int, share.split("/")) if "/" in share else (0, 1)
    return range(len(test_ops.table()))[first::every]


def main():
    parser = argparse.ArgumentParser(description="Judges on all processors for a while.")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("JUDGE_SECONDS", 500)))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--programs", default="", help="FIRST:END")
    parser.add_argument("--ops", default="", help="'all', or k/n for every n-th from the k-th on")
    parser.add_argument("--kernels", default="", help="the same in mode compiled")
    parser.add_argument("--models", default="", help="a regular expression")
    given = parser.parse_args()
    models = []
    if given.models:
        import test_models
        models = test_models.chosen(given.models)
    ops = [[(kind, number) for number in numbers_of(share)]
           for kind, share in (("op", given.ops), ("kernel", given.kernels))]
    programs = range(*map(int, given.programs.split(":"))) if given.programs else []
    os.environ.update(SETTINGS)
    slow = interleaved([("model", name) for name in models], *ops)
    size = max(1, len(programs) // max(1, len(slow)))
    blocks = [programs[i:i + size] for i in range(0, len(programs), size)]
    tasks = [t for row in itertools.zip_longest(slow, blocks)
             for t in ([row[0]] if row[0] else []) + [("program", n) for n in row[1] or ()]]
    sys.exit(Judges(tasks, given.seconds, given.jobs).run() > 0)


if __name__ == "__main__":
    main()
