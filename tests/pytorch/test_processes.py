"""More than one process, over gloo: DDP and FSDP2 with one plan for all, and two budgets that share a cache."""

import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import tempfile
import traceback
import unittest

import processes_worker

LIMIT = 300  # seconds of a rank


def rank(kind, number, world, store, pipe):
    """The process of a rank, which sends what it found, or why it failed; one that hangs prints where."""
    faulthandler.dump_traceback_later(LIMIT - 10)
    try:
        pipe.send((processes_worker.work(kind, number, world, store), None))
    except BaseException:
        pipe.send((None, traceback.format_exc()[-3000:]))
    pipe.close()
    os._exit(0)  # see run_script.py


def run(kind, world=2):
    """What each rank found. Processes are forked, because importing torch takes seconds; nothing has run in this one. If one
    fails, others may wait for it: so whichever ends first is read first."""
    context, found = multiprocessing.get_context("fork"), {}
    with tempfile.TemporaryDirectory() as folder:
        pipes, ranks = [], []
        for number in range(world):
            here, there = context.Pipe(duplex=False)
            ranks.append(context.Process(target=rank, args=(kind, number, world, os.path.join(folder, "store"), there)))
            ranks[-1].start()
            there.close()
            pipes.append(here)
        try:
            while len(found) < world:
                ended = multiprocessing.connection.wait([pipe for pipe in pipes if pipe not in found], LIMIT)
                if not ended:
                    raise AssertionError(f"a rank took more than {LIMIT} s")
                for pipe in ended:
                    found[pipe], error = pipe.recv()
                    if error is not None:
                        raise AssertionError(error)
        finally:
            for process in ranks:
                if len(found) < world:
                    process.kill()
                process.join()
    return [found[pipe] for pipe in pipes]


class Processes(unittest.TestCase):
    def check(self, found):
        for rank in found:
            self.assertTrue(all(rank["same"]))
            self.assertEqual(rank["differences"], 0)
            self.assertTrue(all(n > 0 for n in rank["reruns"]))
            self.assertEqual(rank["plans"], found[0]["plans"])

    def test_ddp(self):
        found = run("ddp")
        self.check(found)
        self.assertGreaterEqual(len(found[0]["plans"]), 2)  # around DDP a plan may be made again after the first step
        self.assertGreater(found[0]["measured"], 10)
        self.assertEqual(found[1]["measured"], 0)

    def test_compiled(self):
        found = run("compiled")
        self.check(found)
        self.assertEqual(found[1]["measured"], 0)

    def test_fsdp(self):
        found = run("fsdp")
        self.check(found)
        for rank in found:
            self.assertTrue(rank["settled"])
            self.assertEqual(rank["calls"], rank["blocks"])
            self.assertGreater(rank["outside"], 0)  # gathered weights

    def test_recipes(self):
        self.check(run("recipes"))

    def test_collectives(self):
        self.check(run("collectives"))

    def test_caches(self):
        """The second pair of processes finds what the first has compiled, and still has its own plans."""
        for _ in range(2):
            one, other = run("caches")
            for a, b in zip(one["plans"], other["plans"]):
                self.assertNotEqual(a, b)
            for a, b in zip(one["reruns"], other["reruns"]):
                self.assertLess(a, b)
            for a, b in zip(one["same"], other["same"]):
                self.assertAlmostEqual(a, b, places=5)


if __name__ == "__main__":
    unittest.main()
