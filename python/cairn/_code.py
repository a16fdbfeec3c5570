"""What the code that Inductor writes does with its operands and with the memory that it allocates."""

import ast
import math
import re

import torch

ALLOCATORS = "empty_strided_cpu", "empty_strided_cuda"


def _aliased(value):
    """The name of the buffer that an expression is, from its first byte on; None for anything else."""
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "reinterpret_tensor":
        offset = value.args[3] if len(value.args) > 3 else None
        value = value.args[0] if isinstance(offset, ast.Constant) and offset.value == 0 else None
    return value.id if isinstance(value, ast.Name) else None


def _is_allocation(value):
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") in ALLOCATORS


def _bytes_of(allocation):
    """The bytes of an allocation, of whose arguments the first is the shape, and the third the type."""
    shape, _, dtype = allocation.args
    return math.prod(ast.literal_eval(shape)) * getattr(torch, dtype.attr).itemsize


class Code:
    """The code of a compiled graph, as it is known. Empty where it is not.

    result_of  by the number of an allocation that it makes: the place of the result that it becomes
    first      by the number of an allocation: the number of the first call that gets it
    last       by the place of an argument: the number of the last call that gets it
    launches   the number of calls that get an allocation: about the number of kernels
    bytes      the sum of all allocations
    """

    def __init__(self, source):
        self.result_of, self.first, self.last, self.launches, self.bytes = {}, {}, {}, 0, 0
        tree = ast.parse(source)
        self._texts, self._passed = _texts_in(tree), {}  # by a call: the kernel's text, and numbers by parameter
        calls = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name == "call"]
        self._names, self._count, self._calls = {}, 0, 0  # a name stands for an allocation (>= 0) or an argument (< 0)
        if len(calls) != 1:
            return
        lines = (n for n in ast.walk(calls[0]) if isinstance(n, (ast.Assign, ast.Return, ast.Expr)))
        for line in sorted(lines, key=lambda n: n.lineno):
            self._read(line)
        if self._count != sum(map(_is_allocation, ast.walk(calls[0]))):
            self.result_of = {}

    def _read(self, line):
        value = line.value
        if isinstance(line, ast.Return):
            found = {self._names.get(_aliased(value)): place for place, value in enumerate(getattr(value, "elts", ()))}
            self.result_of = {number: place for number, place in found.items() if number is not None and number >= 0}
            return
        target = line.targets[0] if isinstance(line, ast.Assign) else None
        if isinstance(target, ast.Tuple):
            self._names.update((name.id, -1 - place) for place, name in enumerate(target.elts))
        elif isinstance(target, ast.Name) and _is_allocation(value):
            self._names[target.id] = self._count
            self._count += 1
            self.bytes += _bytes_of(value)
        elif isinstance(target, ast.Name) and _aliased(value) in self._names:
            self._names[target.id] = self._names[_aliased(value)]
        elif not getattr(getattr(value, "func", None), "id", "").startswith("assert_"):
            self._call(value)

    def _call(self, value):
        numbers = [self._names.get(name.id) for name in ast.walk(value) if isinstance(name, ast.Name)]
        self.launches += any(number is not None and number >= 0 for number in numbers)
        for number in numbers:
            if number is not None and number >= 0:
                self.first.setdefault(number, self._calls)
            elif number is not None:
                self.last[-1 - number] = self._calls
        if isinstance(value, ast.Call):
            called = getattr(value.func, "value", value.func)  # a kernel of Triton has a method that runs it
            names = [[name.id for name in ast.walk(one) if isinstance(name, ast.Name)] for one in value.args]
            passed = [set(map(self._names.get, one)) for one in names]
            self._passed[self._calls] = self._texts.get(getattr(called, "id", None), ""), passed
        self._calls += 1

    def may_be_over(self, result, argument):
        """Whether an argument is not read after the memory of a result was written: neither by a later call nor by the call
        that writes it, if its text is known."""
        numbers = [number for number, place in self.result_of.items() if place == result]
        if len(numbers) != 1:
            return False
        last, first = self.last.get(argument, -1), self.first.get(numbers[0], -1)
        return last < first or last == first and not self._reads_late(first, numbers[0], -1 - argument)

    def _reads_late(self, call, written, read):
        text, passed = self._passed.get(call, ("", ()))
        return reads_late(text, *({at for at, numbers in enumerate(passed) if one in numbers} for one in (read, written)))


# ---- the texts of kernels ----

_SIGNATURE = re.compile(r"\b(?:kernel|def \w+)\((.*?)\)\s*[{:]", re.S)


def _texts_in(tree):
    """The texts of kernels, by their names."""
    found = {}
    for line in (n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)):
        if getattr(getattr(line.value.func, "value", None), "id", "") == "async_compile" and len(line.targets) == 1:
            texts = [a.value for a in line.value.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            found[getattr(line.targets[0], "id", None)] = max(texts, key=len, default="")
    return found


def reads_late(text, read, written):
    """Whether a kernel, in C++ or for Triton, reads one of some parameters, by their places, where it may have written one
    of others before, at the same place of both. Assumed of a text that is not known.

        for (x ...) {
            if (LIKELY(whole vector)) { load in_ptr0; store out_ptr0 }      these do not meet
            if (UNLIKELY(the rest))   { load in_ptr0; store out_ptr0 }
        }
        for (x ...) { load in_ptr0 }                                        but this comes late

    An element is written in one run of a loop's body only, so what comes first in a body is done first."""
    signature = next(reversed(list(_SIGNATURE.finditer(text))), None)  # functions that a kernel calls come before it
    if signature is None:
        return True
    names = [words[-1] for one in signature[1].split(",") if (words := re.findall(r"\w+", one.split(" : ")[0]))]
    reads, writes = ({names[at] for at in places if at < len(names)} for places in (read, written))
    blocks, head, stores = [], "", []
    for number, line in enumerate(text[signature.end():].splitlines()):
        line, words = line.strip(), set(re.findall(r"\w+", line))
        if reads & words and any(not _exclude(blocks, other) for other in stores):
            return True
        if writes & words:
            stores.append(list(blocks))
        if line.startswith("}"):
            del blocks[-1:]
        head = head if line == "{" else f"{number} {line}" if line.startswith("for") else line if "LIKELY" in line else ""
        if line.endswith("{"):
            blocks.append(head)
    return False


def _exclude(blocks, others):
    """Whether two lists of blocks, each in the one before, part at two conditions of one loop: the vectors and the rest."""
    one, other = next(((a, b) for a, b in zip(blocks, others) if a != b), ("", ""))
    return "LIKELY" in one and "LIKELY" in other
