"""The installed package: it contains the planner, and no library that would clash with those of PyTorch."""

import importlib.metadata
import os
import re
import subprocess
import unittest

import cairn
from cairn import _library


def library():
    return os.environ.get("CAIRN_PLAN_LIBRARY") or os.path.join(os.path.dirname(cairn.__file__), "libcairn_plan.so")


def read(*options):
    return subprocess.run(["readelf", *options, library()], capture_output=True, text=True, check=True).stdout


class Package(unittest.TestCase):
    def test_library(self):
        needed = read("-d")
        for clash in ("dnnl", "gomp", "iomp", "OpenCL", "cuda"):
            self.assertNotIn(clash, needed)

    def test_version(self):
        self.assertEqual(cairn.__version__, _library.version())
        self.assertRegex(cairn.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(cairn.__version__, importlib.metadata.version("cairn"))

    def test_tag(self):
        """The wheel is for any Python and a C library from 2.36 on, and its library needs no newer one."""
        self.assertIn("Tag: py3-none-manylinux_2_36_x86_64", importlib.metadata.distribution("cairn").read_text("WHEEL"))
        needed = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", read("-V"))}
        self.assertTrue(needed)
        self.assertLessEqual(max(needed), (2, 36))

    def test_structs(self):
        """ctypes and the library agree on the structs: a struct of another size is refused or cut."""
        step = _library.Step("s", [dict(name="x", bytes=64, role=_library.INPUT, flags=_library.STATIONARY),
                                   dict(name="loss", bytes=4, role=_library.LOSS, flags=0)],
                             [dict(name="f", phase=0, flags=0, inputs=[0], outputs=[1], inplace=[], time_ns=7,
                                   workspace=100)])
        solution = step.solve("none", budget=192)
        self.assertEqual((solution.peak, solution.time_ns), (192, 7))
        self.assertEqual(solution.steps, [(_library.RUN, 0, 0)])
        self.assertEqual([life[0] for life in solution.lifetimes()], [64, 128])
        with self.assertRaises(_library.Failure) as refused:
            step.solve("none", budget=191)
        self.assertEqual(refused.exception.smallest_budget, 192)
        self.assertEqual(refused.exception.name, "f")


if __name__ == "__main__":
    unittest.main()
