"""The installed package: it contains the planner, and no library that would clash with those of PyTorch."""

import ast
import dataclasses
import importlib.metadata
import inspect
import os
import re
import subprocess
import unittest
import warnings

import cairn
from cairn import _library, _torch


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
        self.assertEqual(cairn.__version__, importlib.metadata.version("cairn-torch"))

    def test_metadata(self):
        """Any Python will do, torch is required, and the licences of what is bundled are there."""
        installed = importlib.metadata.distribution("cairn-torch")
        self.assertIn("Tag: py3-none-", installed.read_text("WHEEL"))
        self.assertTrue(any(one.startswith("torch") for one in installed.requires))
        self.assertIn("Jansson", installed.read_text("licenses/python/licenses/jansson.txt"))
        self.assertIn("Apache License", installed.read_text("licenses/LICENSE"))

    def test_every_test(self):
        """The script of all tests runs every file of tests here, and where it names classes, all of them."""
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "..", "..", "scripts", "check-pytorch.sh")) as file:
            entries = re.findall(r"\b(test_\w+)(?::([\w,]+))?", file.read().partition("CAIRN_PYTORCH_TESTS")[2])
        files = {name[:-3] for name in os.listdir(here) if name.startswith("test_") and name.endswith(".py")}
        self.assertEqual({file for file, _ in entries}, files)
        for name in files:
            words = [word for file, named in entries if file == name for word in named.split(",")]
            with open(os.path.join(here, name + ".py")) as file:
                classes = {one.name for one in ast.parse(file.read()).body if isinstance(one, ast.ClassDef) and any(
                    isinstance(part, ast.FunctionDef) and part.name.startswith("test_") for part in one.body)}
            if any(word[:1].isupper() for word in words):
                self.assertEqual(set(words), classes, name)

    def test_signatures(self):
        """Every option is visible, annotated, explained, and has one default everywhere."""
        options = {field.name: field.default for field in dataclasses.fields(cairn.Options)}
        self.assertEqual(list(options), list(inspect.signature(cairn.backend).parameters))
        for function in (cairn.backend, cairn.fits, cairn.sweep, cairn.record, cairn.choose_regions):
            for parameter in inspect.signature(function).parameters.values():
                self.assertNotIn(parameter.kind, (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL))
                self.assertIsNot(parameter.annotation, parameter.empty, parameter.name)
                if parameter.default is not parameter.empty and parameter.name in options:
                    self.assertEqual(parameter.default, options[parameter.name], parameter.name)
        for name in options:
            self.assertRegex(cairn.backend.__doc__, rf"(?m)^    {name} ")

    def test_options_arrive(self):
        given = dict(budget="40%", algorithm="none", offload=True, total=True, outside=7, report="a.svg", plan="b",
                     costs="c", cudagraphs=True, check=True, verbose=True)
        self.assertEqual(cairn.backend(**given).options, cairn.Options(**given))
        with self.assertRaises(TypeError):
            cairn.backend(bugdet="40%")

    def test_untried(self):
        """A release of torch that nobody tried gives a warning that says so; this one gives none."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            _torch.warn_if_untried("2.11.0+cu130")
            self.assertEqual(seen, [])
            _torch.warn_if_untried("2.99.1")
        self.assertEqual(len(seen), 1)
        self.assertRegex(str(seen[0].message), r"never tried with torch 2\.99\.1, only with 2\.11, .*refused.*error")

    def test_missing_name(self):
        """A name that a release no longer has is named."""
        with self.assertRaisesRegex(ImportError, r"^torch \S+ has no torch\._C\._gone, which cairn needs"):
            _torch._get("torch._C", "_gone")

    def test_structs(self):
        """ctypes and the library agree on the structs: a struct of another size is refused or cut."""
        step = _library.Step("s", [dict(name="x", bytes=64, role=_library.INPUT, flags=_library.STATIONARY),
                                   dict(name="loss", bytes=4, role=_library.LOSS, flags=0)],
                             [dict(name="f", phase=0, flags=0, inputs=[0], outputs=[1], inplace=[], time_ns=7,
                                   workspace=100)])
        solution = step.solve("none", budget=192)
        self.assertEqual((solution.peak, solution.time_ns), (192, 7))
        self.assertEqual(solution.steps, [(_library.RUN, 0, ())])
        self.assertEqual([life[0] for life in solution.lifetimes()], [64, 128])
        with self.assertRaises(_library.Failure) as refused:
            step.solve("none", budget=191)
        self.assertEqual(refused.exception.smallest_budget, 192)
        self.assertEqual(refused.exception.name, "f")


if __name__ == "__main__":
    unittest.main()
