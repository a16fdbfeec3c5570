"""The three scripts of docs/pytorch.md, as they stand: with a budget they print the losses that they print without."""

import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "examples", "pytorch")


def run(words):
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=900, cwd=SCRIPTS,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode != 0:
        raise AssertionError(done.stderr[-3000:])
    return done.stdout.splitlines()


class Scripts(unittest.TestCase):
    def check(self, script, budget, launcher=()):
        plain = run([*launcher, script])
        planned = run([*launcher, script, "--budget", budget])
        losses = [line for line in planned if line.startswith("step")]
        self.assertGreaterEqual(len(losses), 3)
        self.assertEqual(plain, losses)
        plan = next(line for line in planned if line.startswith("cairn:"))
        self.assertGreater(int(re.search(r"\((\d+) ops repeated", plan)[1]), 0)
        return plain

    def test_images(self):
        """The page shows these losses; another processor may round otherwise."""
        with open(os.path.join(SCRIPTS, "..", "..", "docs", "pytorch.md")) as file:
            shown = [float(loss) for loss in re.findall(r"^ +step \d+: loss (\S+)$", file.read(), re.M)]
        plain = [float(line.split()[-1]) for line in self.check("images.py", "55%")]
        self.assertEqual(len(shown), 2 * len(plain))
        for a, b in zip(shown, plain + plain):
            self.assertAlmostEqual(a, b, places=2)

    def test_text(self):
        self.check("text.py", "40%")

    def test_several(self):
        self.check("several.py", "80%", ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                                         os.path.join(HERE, "run_script.py")))


if __name__ == "__main__":
    unittest.main()
