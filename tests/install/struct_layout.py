"""struct_layout.py SOURCE LIBRARY [COMPILER]: what python/cairn/_library.py mirrors is what the C headers say.

The fields of every structure are read from the header: names and order must be the same. A C program then prints sizes
and offsets, and the values of constants. PyTorch is not needed.
"""

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import types

STRUCTS = {"Error": "cairn_error", "Text": "cairn_text", "Machine": "cairn_machine", "SolveOptions": "cairn_solve_options",
           "Inplace": "cairn_inplace", "Arrays": "cairn_arrays", "ArraysStep": "cairn_arrays_step", "PlanStep": "cairn_step",
           "Lifetime": "cairn_lifetime", "Layout": "cairn_layout", "SolutionHead": "cairn_solution",
           "ArraysSolution": "cairn_arrays_solution", "RegionWay": "cairn_region_way"}
# Fields are only added at the end of these, and what a program does not know is zero: the first fields are enough.
GROWING = {"Layout", "SolutionHead", "Machine", "SolveOptions", "Arrays"}
# Fields that another field of the library embeds as one struct: their C name is a path.
NESTED = {("Text", "resize"): "allocator.resize", ("Text", "context"): "allocator.context"}
CONSTANTS = {"NONE": "CAIRN_NONE", "INFEASIBLE": "CAIRN_INFEASIBLE", "FORWARD": "CAIRN_PHASE_FORWARD",
             "BACKWARD": "CAIRN_PHASE_BACKWARD",
             "ONCE": "CAIRN_OP_FLAG_ONCE", "RANDOM": "CAIRN_OP_FLAG_RANDOM", "NEVER_AGAIN": "CAIRN_OP_FLAG_NEVER_AGAIN",
             "UPDATES": "CAIRN_OP_FLAG_UPDATES",
             "STATIONARY": "CAIRN_TENSOR_FLAG_STATIONARY", "RESULT": "CAIRN_TENSOR_FLAG_RESULT",
             **{role: f"CAIRN_ROLE_{role}" for role in ("INPUT", "LABEL", "PARAMETER", "STATE", "ACTIVATION", "INTERNAL",
                                                  "GRADIENT", "LOSS", "SLOT")},
             **{kind: f"CAIRN_STEP_{kind}" for kind in ("RUN", "FREE", "OFFLOAD", "FETCH", "WAIT")}}


def mirror(source: str, library: str) -> types.ModuleType:
    """_library.py alone: the package itself imports torch."""
    os.environ["CAIRN_PLAN_LIBRARY"] = library
    spec = importlib.util.spec_from_file_location("mirror", os.path.join(source, "python", "cairn", "_library.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def headers(source: str) -> str:
    folder, texts = os.path.join(source, "include", "cairn"), []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h"):
            with open(os.path.join(folder, name)) as file:
                texts.append(re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S))
    return "\n".join(texts)


def declared(text: str, struct: str) -> list[str]:
    """The names of a struct's fields, in order."""
    body = re.search(rf"typedef struct {struct} {{(.*?)}} {struct};", text, re.S)
    if body is None:
        sys.exit(f"struct_layout.py: no header declares {struct}")
    declarators = [one for line in body[1].split(";") for one in line.split(",") if one.strip()]
    names = [re.search(r"(\w+)\s*(\[[^\]]*\])*\s*$", one) for one in declarators]
    return [name[1] for name in names if name is not None]


def program(structs: dict[str, type[ctypes.Structure]]) -> str:
    """A C program that prints a line for everything that is compared."""
    lines = []
    for name, kind in structs.items():
        struct = STRUCTS[name]
        lines.append(f'printf("{name} %zu\\n", sizeof({struct}));')
        for field in (field[0] for field in kind._fields_):
            place = NESTED.get((name, field), field)
            lines.append(f'printf("{name}.{field} %zu+%zu\\n", offsetof({struct}, {place}), '
                         f'sizeof((({struct} *)0)->{place}));')
    lines += [f'printf("{name} %lld\\n", (long long){value});' for name, value in CONSTANTS.items()]
    body = "\n    ".join(lines)
    headers = "".join(f"#include <{name}>\n" for name in ("cairn.h", "cairn/arrays.h", "stddef.h", "stdio.h"))
    return f"{headers}int main(void) {{\n    {body}\n    return 0;\n}}\n"


def printed(source: str, compiler: str, text: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layout")
        with open(path + ".c", "w") as file:
            file.write(text)
        subprocess.run([compiler, "-std=c11", "-I", os.path.join(source, "include"), "-o", path, path + ".c"], check=True)
        run = subprocess.run([path], capture_output=True, text=True, check=True)
    return dict(line.split() for line in run.stdout.splitlines())


def expected(module: types.ModuleType, structs: dict[str, type[ctypes.Structure]]) -> dict[str, str]:
    found = {name: str(getattr(module, name)) for name in CONSTANTS}
    for name, kind in structs.items():
        if name not in GROWING:
            found[name] = str(ctypes.sizeof(kind))
        for field in (field[0] for field in kind._fields_):
            found[f"{name}.{field}"] = f"{getattr(kind, field).offset}+{getattr(kind, field).size}"
    return found


def main(source: str, library: str, compiler: str = "cc") -> int:
    module, text = mirror(source, library), headers(source)
    structs = {name: kind for name, kind in vars(module).items()
               if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure}
    failures = [f"{name} is compared with no struct: add it to STRUCTS" for name in structs.keys() ^ STRUCTS.keys()]
    for name in structs.keys() & STRUCTS.keys():
        fields = [NESTED.get((name, field[0]), field[0]).split(".")[0] for field in structs[name]._fields_]
        fields, real = list(dict.fromkeys(fields)), declared(text, STRUCTS[name])
        if fields != (real[:len(fields)] if name in GROWING else real):
            failures.append(f"{name} has the fields {fields}, {STRUCTS[name]} has {real}")
    if not failures:
        in_c = printed(source, compiler, program(structs))
        failures = [f"{name}: {value} in Python, {in_c[name]} in C" for name, value in expected(module, structs).items()
                    if in_c[name] != value]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
