"""More than one process, over gloo: DDP and FSDP2 with one plan for all, and two budgets that share a cache."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def run(kind, world=2):
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        ranks = [subprocess.Popen([sys.executable, os.path.join(HERE, "processes_worker.py"), kind, str(rank), str(world),
                                   store], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for rank in range(world)]
        outputs = [rank.communicate(timeout=600) for rank in ranks]
    found = []
    for rank, (out, err) in zip(ranks, outputs):
        lines = [line for line in out.splitlines() if line.startswith("FOUND ")]
        if rank.returncode != 0 or not lines:
            raise AssertionError(err[-3000:])
        found.append(json.loads(lines[-1][6:]))
    return found


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
