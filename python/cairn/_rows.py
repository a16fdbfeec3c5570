"""Groups over the rows of matrices as kernels of ours, written in Triton.

The gradient of a norm or a bias is a sum over rows of something that is computed element by element, and the gradient of a
norm's operand needs sums over each row of the same. Inductor reads the matrices once for every kind of sum. Here a program
reads a strip of rows once, makes everything that has a value for each element or each row, and adds up its strip; a second
kernel adds up the strips. The order of all sums is fixed, so the bits are the same in every run.

    full     a value for every element: rows x columns
    row      a value for every row
    column   a value for every column
    one      a number

Images whose channels are the fastest dimension are such matrices too: a row is a pixel, a column a channel. Batch norms need
sums over rows only. Their statistics are made of the sums of x - s and of its square, where s is the first row, so that
little is lost if the mean is far from 0. Kernels for images know their sizes only when they run, so that layers of all
sizes share them.

As in Inductor's kernels, numbers of half precision are float32 until they are stored. Where only such numbers are stored,
1 + erf(x), most of the arithmetic of a GELU and of its gradient, is computed by a shorter formula, 100 times as exact as the
results can be: kernels of GELUs are bound by arithmetic, not by memory.
"""

import concurrent.futures
import contextlib
import functools
import importlib.util
import math
import operator
import os

import torch

from . import _inductor
from ._geometry import packet

FULL, ROW, COLUMN, ONE = "full", "row", "column", "one"
FEW = 16  # columns that a program of the second kernel adds up
LONGEST = 8192  # columns of a row that a program can hold
TILE = 1024  # columns at a time where rows have no sums
CHANNELS = 64  # the same of images
MANY = 512  # strips that a program of the second kernel has at a time
# Elements of a matrix that a program has at a time, programs, stages of loads ahead of the arithmetic. The fastest is used.
SHAPES = ((2048, 528, 1), (4096, 264, 1), (2048, 528, 3))
BESIDE = (*SHAPES, (2048, 528, 2))  # the same for pairs that compute something again: _pairs.py
IMAGES = ((2048, 528, 1), (2048, 1056, 1))  # the same for images
# The same where nothing is summed over rows: a program has these elements and no more.
PLAIN = ((2048, 1 << 15, 1), (4096, 1 << 15, 1))
THREADS = min(os.cpu_count() or 1, 8)  # that compile kernels; most of that time Python does nothing

_BINARY = {"aten.add": "({} + {})", "aten.sub": "({} - {})", "aten.mul": "({} * {})", "aten.div": "({} / {})",
           "aten.gt": "({} > {})", "aten.ge": "({} >= {})", "aten.lt": "({} < {})", "aten.le": "({} <= {})",
           "aten.eq": "({} == {})", "aten.ne": "({} != {})"}
_UNARY = {"aten.neg": "(-{})", "aten.exp": "tl.exp({})", "aten.log": "tl.log({})", "aten.rsqrt": "tl.rsqrt({})",
          "aten.sqrt": "tl.sqrt({})", "aten.erf": "tl.erf({})", "aten.sigmoid": "tl.sigmoid({})",
          "aten.reciprocal": "(1.0 / {})", "aten.abs": "tl.abs({})", "aten.tanh": "libdevice.tanh({})",
          "aten.square": "({0} * {0})"}
_POWERS = {2: "({0} * {0})", 3: "({0} * {0} * {0})", 0.5: "tl.sqrt({0})", -0.5: "tl.rsqrt({0})", -1: "(1.0 / {0})"}
_SAME = {"aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze", "aten.clone", "aten.alias",
         "prims.convert_element_type", "aten._to_copy"}
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_TRITON = {torch.float32: "tl.float32", torch.bfloat16: "tl.bfloat16", torch.float16: "tl.float16", torch.bool: "tl.int1"}


def stored(value):
    """In a graph: a result of the same kernel as another kernel would read it, rounded as it was stored."""
    return value


class NoForm(Exception):
    """A group that these kernels do not compute."""


@functools.cache
def available(device):
    return device.type == "cuda" and torch.version.cuda is not None and importlib.util.find_spec("triton") is not None


class Rows:
    """What nodes make of values over rows: `kind` of every node, `late` those that follow sums over rows, `spreads` the
    variances with means. `images` says whether rows are pixels. Raises NoForm where there is something else among them."""

    def __init__(self, nodes, outs):
        self.nodes, self.outs, inside = nodes, outs, set(nodes)
        self.given = list(dict.fromkeys(i for n in nodes for i in n.all_input_nodes if i not in inside))
        self.spreads = [n for n in nodes if packet(n) == "aten.var_mean"]
        made = [n for n in [*self.given, *nodes] if n not in self.spreads]
        values = [n.meta.get("val") for n in made]
        _need(values and all(isinstance(value, torch.Tensor) for value in values))
        largest = max(values, key=torch.Tensor.numel)
        self.shape, self.images = largest.shape, _has_channels_last(largest)
        self.columns = largest.shape[1 if self.images else -1] if largest.dim() else 1
        self.rows = largest.numel() // max(self.columns, 1)
        self.kind = {n: self._kind(n) for n in made}
        self.late, self.sums, self.reduces = set(), [], False
        for n in self.given:
            _need(n.meta["val"].dtype in (*_TYPES, torch.bool) and self._is_dense(n))
        for n in nodes:
            self._check(n)
        self.halves = all(n.meta["val"].dtype in _TYPES[1:] for n in outs)
        self.whole = self.reduces or any(self.kind[n] == ROW for n in outs)
        _need(self.rows >= 64 and 16 <= self.columns <= (LONGEST if self.whole else 1 << 20))
        _need(largest.numel() < 1 << 31)
        _need(all(self.kind[n] != ONE and self._is_dense(n) for n in outs))

    def _is_dense(self, node):
        """Whether a value lies as the kernels expect."""
        value, kind = node.meta["val"], self.kind[node]
        if self.images and kind == FULL:
            return _has_channels_last(value)
        return kind == ONE or value.is_contiguous()

    def _kind(self, node):
        shape, count = node.meta["val"].shape, node.meta["val"].numel()
        if count == 1:
            return ONE
        if self.images:
            _need(shape == self.shape or count == self.columns == max(shape))
            return FULL if shape == self.shape else COLUMN
        if shape[-1] == 1:
            _need(count == self.rows)
            return ROW
        _need(shape[-1] == self.columns and count in (self.columns, self.columns * self.rows))
        return FULL if count == self.columns * self.rows and self.rows > 1 else COLUMN

    def _check(self, node):
        name, value = packet(node), node.meta["val"]
        late = not self.late.isdisjoint(node.all_input_nodes)
        if node in self.spreads:
            _need(node.args[0] in self.given and self.kind[node.args[0]] == FULL and _summed(node, self.images)
                  and node.args[0].meta["val"].dtype in _TYPES and node.kwargs.get("correction", 1) == 0)
            self.late.add(node)
            return
        _need(value.dtype in (*_TYPES, torch.bool))
        if node.target is operator.getitem:
            _need(node.args[0] in self.spreads and self.kind[node] == COLUMN)
            self.late.add(node)
            return
        if name in ("aten.sum", "aten.mean"):
            kind = self.kind[node]
            _need(self.kind[node.args[0]] == FULL and kind in (ROW, COLUMN) and not late and not node.kwargs)
            _need(len(node.args) > 1 and _summed(node, self.images) == (kind == COLUMN))
            self.reduces |= kind == ROW
            if kind == COLUMN:
                self.sums.append(node)
                self.late.add(node)
            return
        _need(node.target is stored or bool(_expression(node, lambda argument: "x")))
        kinds = {self.kind[i] for i in node.all_input_nodes}
        if late:
            _need(kinds <= {COLUMN, ONE})
            self.late.add(node)
        if name in _SAME or node.target is stored:
            _need(kinds == {self.kind[node]})
        elif self.images and self.kind[node] == FULL:
            _need(all(self.kind[i] != COLUMN or self._has_columns(i.meta["val"].shape) for i in node.all_input_nodes))

    def _has_columns(self, shape):
        """Whether a vector of such a shape has an element for every channel, not for every pixel of a row."""
        return len(shape) >= len(self.shape) - 1 and shape[1 - len(self.shape)] == self.columns


def _has_channels_last(value):
    """Whether the channels of images are the fastest dimension."""
    return (value.dim() in (4, 5) and not value.is_contiguous() and value.is_contiguous(
        memory_format=torch.channels_last if value.dim() == 4 else torch.channels_last_3d))


def _summed(node, images):
    """Whether a reduction is over all dimensions but that of columns, or only over this; dimensions of 1 do not count."""
    shape = node.args[0].meta["val"].shape
    columns = 1 if images else len(shape) - 1
    dims = {d % len(shape) for d in node.args[1]}
    others = {d for d in range(len(shape)) if d != columns and shape[d] > 1}
    _need(dims >= others and columns not in dims or dims.isdisjoint(others) and columns in dims)
    return columns not in dims


def _need(condition):
    if not condition:
        raise NoForm


def _expression(node, value):
    """A node in Triton; `value` is a function of its arguments. None if there is no such expression."""
    name, args = packet(node), node.args
    if name == "aten.full" and node.meta["val"].numel() == 1:
        return value(args[1])
    if name == "aten.scalar_tensor":
        return value(args[0])
    if node.kwargs and not (name == "aten._to_copy" and set(node.kwargs) <= {"dtype"}):
        return None
    if name in _SAME:
        return value(args[0])
    if name in _BINARY and len(args) == 2:
        return _BINARY[name].format(*map(value, args))
    if name in _UNARY and len(args) == 1:
        return _UNARY[name].format(value(args[0]))
    if name == "aten.pow" and not isinstance(args[1], torch.fx.Node) and args[1] in _POWERS:
        return _POWERS[args[1]].format(value(args[0]))
    if name == "aten.where" and len(args) == 3:
        return "tl.where({}, {}, {})".format(*map(value, args))
    if name == "aten.relu":
        x = value(args[0])
        return f"tl.where({x} < 0, 0.0, {x})"
    return None


def describe(nodes, outs):
    """The Rows of a group, or None."""
    try:
        return Rows(nodes, outs)
    except NoForm:
        return None


# ---- writing ----

# erfc(z) = t * exp(p(t) - z * z) with t = 1 / (1 + z / 2): p is the polynomial for which the relative error of erfc is the
# least for z from 0 to 10, 8e-6.
_HEAD = """
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def one_plus_erf(x):
    z = tl.abs(x)
    t = 1.0 / (1.0 + 0.5 * z)
    p = t * (t * (t * (t * (t * 0.22879148 - 0.70919448) + 0.47449743) + 0.25444088) + 1.01801412) - 1.26654181
    tail = t * tl.exp(p - z * z)
    return tl.where(x < 0, tail, 2.0 - tail)


"""
_INDEX = {FULL: "at", ROW: "r", COLUMN: "c", ONE: "0"}
_MASK = {FULL: "cm", ROW: None, COLUMN: "cm", ONE: None}


class Writer:
    """The source of the two kernels of a group. `strip` and `finish` are their names."""

    def __init__(self, rows, held, programs, stages):
        self.rows, self.lines, self.stages = rows, [], stages
        r = rows
        self.tile = _power(r.columns) if r.whole else min(CHANNELS if r.images else TILE, _power(r.columns))
        self.tiles = -(-r.columns // self.tile)
        steps = (64, 32, 16, 8, 4, 2, 1) if r.images else (8, 4, 2, 1)
        self.step = next(b for b in steps if r.rows % b == 0 and (b * self.tile <= held or b == 1))
        self.programs = max(min(r.rows // self.step, programs // self.tiles), 1)
        self.each = -(-r.rows // (self.programs * self.step)) * self.step
        self.warps = 8 if self.tile > 4096 or r.images and self.step * self.tile > 2048 else 4
        self.sums = len(r.sums) + 2 * len(r.spreads)
        self.masked = r.columns % self.tile != 0
        self.name = {n: f"v{i}" for i, n in enumerate([*r.given, *r.nodes])}

    def value(self, argument):
        if isinstance(argument, torch.fx.Node):
            return self.name[argument]
        if isinstance(argument, bool):
            return str(argument)
        _need(isinstance(argument, (int, float)) and math.isfinite(argument))
        return repr(float(argument))

    def _load(self, node, indent):
        kind, mask = self.rows.kind[node], _MASK[self.rows.kind[node]] if self.masked else None
        extra = f", {mask}, other=0.0" if mask else ""
        cast = ".to(tl.float32)" if node.meta["val"].dtype in _TYPES else " != 0"
        self.lines.append(f"{indent}{self.name[node]} = tl.load(in_{self.name[node]} + {_INDEX[kind]}{extra}){cast}")

    def _store(self, node, place, indent):
        kind = self.rows.kind[node]
        mask = f", {_MASK[kind]}" if self.masked and _MASK[kind] else ""
        value = self.name[node]
        if kind == FULL:
            value = f"tl.broadcast_to({value}, [STEP, TILE])"
        self.lines.append(f"{indent}tl.store(out_{place} + {_INDEX[kind]}, "
                          f"({value}).to({_TRITON[node.meta['val'].dtype]}){mask})")

    def _compute(self, node, indent):
        name, r = self.name[node], self.rows
        if node in r.sums or packet(node) in ("aten.sum", "aten.mean"):
            operand = f"tl.broadcast_to({self.name[node.args[0]]}, [STEP, TILE])"
            share = {"aten.sum": 1, "aten.mean": r.rows if node in r.sums else r.columns}[packet(node)]
            scaled = "" if share == 1 else f" * {1.0 / share!r}"
            if node in r.sums:
                self.lines.append(f"{indent}sum_{name} += {operand}{scaled}")
            else:
                operand = f"tl.where(cm, {operand}, 0.0)" if self.masked else operand
                self.lines.append(f"{indent}{name} = tl.sum({operand}, 1, keep_dims=True){scaled}")
        elif node in r.spreads:
            self.lines += [f"{indent}mean_{name} = {name}_1 / ROWS",
                           f"{indent}spread_{name} = {name}_2 / ROWS - mean_{name} * mean_{name}"]
        elif node.target is operator.getitem:
            of = self.name[node.args[0]]
            value = f"first_{of} + mean_{of}" if node.args[1] else f"tl.maximum(spread_{of}, 0.0)"
            self.lines.append(f"{indent}{name} = {value}")
        elif node.target is stored:
            self.lines.append(f"{indent}{name} = {self._stored(node)}")
        elif r.halves and _erf_operand(node) is not None:
            self.lines.append(f"{indent}{name} = one_plus_erf({self.name[_erf_operand(node)]})")
        else:
            self.lines.append(f"{indent}{name} = {_expression(node, self.value)}")

    def _stored(self, node):
        """A result as it was stored. In single precision it is loaded: otherwise the compiler could join the last product
        that made it and the first sum that reads it, and round once."""
        made, dtype = node.args[0], node.meta["val"].dtype
        if dtype != torch.float32:
            return f"{self.name[made]}.to({_TRITON[dtype]}).to(tl.float32)"
        kind = self.rows.kind[made]
        mask = f", {_MASK[kind]}, other=0.0" if self.masked and _MASK[kind] else ""
        return f"tl.load(out_{self.rows.outs.index(made)} + {_INDEX[kind]}{mask})"

    def _columns(self):
        self.lines.append("    c = tl.program_id(0) * TILE + tl.arange(0, TILE)[None, :]")
        if self.masked:
            self.lines.append("    cm = c < COLUMNS")

    def _head(self, name, *constants):
        """The first line of a kernel. Sizes of images are given when it runs."""
        sizes = ("ROWS", "COLUMNS", "EACH", "STRIPS")
        given = [*self._arguments(), "partial", *(sizes if self.rows.images else ())]
        given += [f"{constant}: tl.constexpr" for constant in (() if self.rows.images else sizes) + constants]
        self.lines += ["@triton.jit", f"def {name}({', '.join(given)}):"]

    def _partials(self):
        """The names of what is added up over rows."""
        return [self.name[n] for n in self.rows.sums] + [f"{self.name[n]}_{k}" for n in self.rows.spreads for k in (1, 2)]

    def _shifts(self):
        """The first rows of what variances are of."""
        for n in self.rows.spreads:
            mask = ", cm, other=0.0" if self.masked else ""
            self.lines.append(f"    first_{self.name[n]} = tl.load(in_{self.name[n.args[0]]} + c{mask}).to(tl.float32)")

    def sources(self):
        """Those of both kernels."""
        return self._strip(), self._finish()

    def _strip(self):
        r = self.rows
        early = [n for n in r.nodes if n not in r.late or n in r.sums]
        self.lines = [_HEAD]
        self._head("strip", "STEP", "TILE")
        self._columns()
        for n in r.given:
            if r.kind[n] in (COLUMN, ONE):
                self._load(n, "    ")
        self._shifts()
        self.lines += [f"    sum_{name} = tl.zeros([STEP, TILE], tl.float32)" for name in self._partials()]
        exact = not r.images and self.programs * self.each == r.rows
        bounds = f"first, {'first + EACH' if exact else 'min(first + EACH, ROWS)'}, STEP"
        loop = f"range({bounds})" if self.stages == 1 else f"tl.range({bounds}, num_stages={self.stages})"
        self.lines += ["    first = tl.program_id(1) * EACH", f"    for start in {loop}:",
                       "        r = start + tl.arange(0, STEP)[:, None]", "        at = r * COLUMNS + c"]
        for n in r.given:
            if r.kind[n] in (FULL, ROW):
                self._load(n, "        ")
        self._each_row(early)
        for n in r.spreads:
            name = self.name[n]
            self.lines += [f"        away = {self.name[n.args[0]]} - first_{name}",
                           f"        sum_{name}_1 += away", f"        sum_{name}_2 += away * away"]
        mask = ", cm" if self.masked else ""
        for k, name in enumerate(self._partials()):
            self.lines.append(f"    tl.store(partial + ({k} * STRIPS + tl.program_id(1)) * COLUMNS + c, "
                              f"tl.sum(sum_{name}, 0, keep_dims=True){mask})")
        return "\n".join(self.lines) + "\n"

    def _each_row(self, nodes):
        """Compute nodes, and store results when all are known, but those before that are read again."""
        r, known, done = self.rows, set(), set()

        def store():
            for place, n in enumerate(r.outs):
                if n not in r.late and n in known and n not in done:
                    _need(r.kind[n] in (FULL, ROW))
                    self._store(n, place, "        ")
                    done.add(n)
        for n in nodes:
            if n.target is stored and n.args[0] not in done:
                _need(n.args[0] in r.outs)
                store()
                self.lines.append("        tl.debug_barrier()")
            self._compute(n, "        ")
            known.add(n)
        store()

    def _finish(self):
        """The second kernel, which adds up strips and computes what follows."""
        r, self.masked = self.rows, True
        self.lines = [_HEAD]
        self._head("finish", "TILE", "MANY")
        self._columns()
        needed = {n for n in r.nodes if n in r.late and n not in r.sums}
        for n in reversed(r.nodes):
            if n in needed and n not in r.sums and n not in r.spreads:
                needed.update(n.all_input_nodes)
        for n in r.given:
            if n in needed:
                self._load(n, "    ")
        self._shifts()
        for k, name in enumerate(self._partials()):
            self.lines += [f"    all_{name} = tl.zeros([MANY, TILE], tl.float32)",
                           "    for start in range(0, STRIPS, MANY):",
                           "        p = start + tl.arange(0, MANY)[:, None]",
                           f"        all_{name} += tl.load(partial + ({k} * STRIPS + p) * COLUMNS + c, "
                           "cm & (p < STRIPS), other=0.0)",
                           f"    {name} = tl.sum(all_{name}, 0, keep_dims=True)"]
        for n in r.nodes:
            if n in needed and n not in r.sums:
                self._compute(n, "    ")
            if n in r.late and n in r.outs:  # at once: Triton 3.6 does not compile stores at the end if something reads n
                self._store(n, r.outs.index(n), "    ")
        return "\n".join(self.lines) + "\n"

    def _arguments(self):
        return [f"in_{self.name[n]}" for n in self.rows.given] + [f"out_{i}" for i in range(len(self.rows.outs))]


def _erf_operand(node):
    """The x of a node that is erf(x) + 1; None of any other."""
    if packet(node) == "aten.add" and len(node.args) == 2 and not node.kwargs:
        for one, other in (node.args, node.args[::-1]):
            if isinstance(one, torch.fx.Node) and packet(one) == "aten.erf" and other == 1:
                return one.args[0]
    return None


def has_erf(graph):
    """Whether a graph computes 1 + erf(x)."""
    return any(_erf_operand(n) is not None for n in graph.nodes if n.op == "call_function")


def _power(n):
    return 1 << max(n - 1, 0).bit_length()


# ---- running ----

class Form:
    """A group as these kernels. The same interface as _inductor.Form. `short`: whether it computes 1 + erf(x) by the shorter
    formula. Forms with the same `order` add up in the same one."""

    def __init__(self, graph, rows, shape):
        kind = "images" if rows.images else "plain" if shape in PLAIN else "rows"
        self.order = f"{kind}{shape[0]}" + (f"x{shape[1]}" if rows.images else "")
        self.name = self.order + (f"ahead{shape[2]}" if shape[2] > 1 else "")
        self._writer, self._kernels, self.short = Writer(rows, *shape), None, rows.halves
        given = [n for n in graph.nodes if n.op == "placeholder"]
        self._places = [given.index(n) for n in rows.given]
        self._kinds = {given.index(n): rows.kind[n] for n in rows.given}
        self._spread = {given.index(n.args[0]) for n in rows.spreads}
        self._likes = [n.meta["val"] for n in rows.outs]
        self._sources = self._writer.sources()

    def compile(self):
        """Both kernels. Each is a module, so that forms of other sizes can share one of them."""
        if self._kernels is None:
            strip, finish = map(_inductor.module_of, self._sources)
            self._kernels = strip.strip, finish.finish
        return self._kernels

    def __call__(self, arguments):
        return self.onto([None] * len(self._likes), arguments)

    def placeable(self):
        return set(range(len(self._likes)))

    def may_be_over(self, result, argument):
        """A program reads its elements before it writes to where they were. What a variance is of is none: every program,
        and the second kernel, reads its first row."""
        return self._kinds.get(argument) == FULL and argument not in self._spread

    def _calls(self):
        """The kernels that run, each with its grid and its constants."""
        (strip, finish), writer, rows = self.compile(), self._writer, self._writer.rows
        sizes = dict(ROWS=rows.rows, COLUMNS=rows.columns, EACH=writer.each, STRIPS=writer.programs)
        yield strip, (writer.tiles, writer.programs), dict(sizes, STEP=writer.step, TILE=writer.tile, num_warps=writer.warps)
        if writer.sums:
            yield finish, (-(-rows.columns // FEW), 1), dict(sizes, TILE=FEW, MANY=MANY, num_warps=8)

    def translate(self, device):
        """Let Triton compile the kernels, and run nothing."""
        types = [value.dtype for value in (*(n.meta["val"] for n in self._writer.rows.given), *self._likes)]
        with torch.cuda.device(device):
            for kernel, grid, constants in self._calls():
                kernel.warmup(*types, torch.float32, grid=grid, **constants)

    def onto(self, destinations, arguments):
        writer, device = self._writer, arguments[self._places[0]].device
        outs = [torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device) if where is None
                else _inductor.placed(where, like.shape, like.stride(), like.dtype)
                for like, where in zip(self._likes, destinations)]
        partial = torch.empty(writer.sums * writer.programs * writer.rows.columns, device=device)
        given = [*(arguments[place] for place in self._places), *outs, partial]
        with torch.cuda.device_of(outs[0]):
            for kernel, grid, constants in self._calls():
                kernel[grid](*given, **constants)
        return outs


@contextlib.contextmanager
def translating(forms, device):
    """While the block runs, other threads compile forms of ours. One that fails will say so when it runs."""
    forms = [form for form in forms if isinstance(form, Form)] if device.type == "cuda" else []
    for form in forms:
        form.compile()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        for form in forms:
            threads.submit(form.translate, device)
        yield


def plain_forms(graph):
    """The forms of a graph in which nothing is summed over rows, by the number of elements of a program."""
    nodes = [n for n in graph.nodes if n.op == "call_function"]
    rows = describe(nodes, list(next(n for n in reversed(graph.nodes) if n.op == "output").args[0]))
    try:
        if rows is None or rows.sums or rows.spreads or not rows.given:
            return []
        return [Form(graph, rows, shape) for shape in PLAIN]
    except NoForm:
        return []


def forms_of(graph, shapes=SHAPES):
    """The forms of the graph of a kernel; none if these kernels cannot compute it, or would not be faster: without sums over
    rows and without a GELU."""
    nodes = [n for n in graph.nodes if n.op == "call_function"]
    rows = describe(nodes, list(next(n for n in reversed(graph.nodes) if n.op == "output").args[0]))
    if rows is None or not (rows.sums or rows.spreads or rows.halves and has_erf(graph)):
        return []
    try:
        return [Form(graph, rows, shape) for shape in (IMAGES if rows.images else shapes)]
    except NoForm:
        return []
