"""private_names.py SOURCE: only python/cairn/_torch.py uses names of PyTorch that PyTorch does not document, and
_inductor.py those of Inductor."""

import ast
import os
import sys
from collections.abc import Iterator

ONLY = "_torch.py"
INDUCTOR = "_inductor.py"
ATTRIBUTES = {"_boxed_call", "_schema", "_cdata"}  # of PyTorch's objects
OPS = ("torch.ops.", "aten.")  # names of ops are part of saved models, and stay
UNDOCUMENTED = ("torch.fx.passes", "torch.multiprocessing.reductions")


def private(path: str) -> bool:
    words = path.split(".")
    return any(word.startswith("_") and not word.startswith("__") for word in words) or path.startswith(UNDOCUMENTED)


def dotted(node: ast.expr) -> str:
    """a.b.c of such an expression; empty for others."""
    if isinstance(node, ast.Name):
        return node.id
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner and isinstance(node, ast.Attribute) else ""


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a module takes from PyTorch."""
    aliases = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "torch":
                    yield node.lineno, one.name
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            for one in node.names:
                aliases[one.asname or one.name] = f"{node.module}.{one.name}"
                yield node.lineno, f"{node.module}.{one.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = dotted(node).partition(".")
            if first in aliases and rest:
                yield node.lineno, f"{aliases[first]}.{rest}"
            elif node.attr in ATTRIBUTES:
                yield node.lineno, f"an object's {node.attr}"


def main(source: str) -> int:
    folder, failures = os.path.join(source, "python", "cairn"), set()
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".py"):
            continue
        with open(os.path.join(folder, file)) as text:
            used = list(names_of(ast.parse(text.read())))
        found = {f"{file}:{line}: {name}" for line, name in used if not name.startswith(OPS) and private(name.split()[-1])}
        if file == INDUCTOR:
            found = {one for one in found if ": torch._inductor" not in one}
        if file == ONLY:
            assert found, "the search finds nothing where there is something to find"
        else:
            failures |= found
    for failure in sorted(failures):
        print(f"{failure} belongs into {ONLY}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
