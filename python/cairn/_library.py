"""libcairn_plan through ctypes: its input is a step as arrays, its output are plans.

The structs mirror include/cairn/base.h, cost.h, solve.h and arrays.h field by field. This file does not use PyTorch.
"""

import ctypes as C
import os

NONE = 0xFFFFFFFF

# include/cairn/graph.h
INPUT, LABEL, PARAMETER, STATE, ACTIVATION, INTERNAL, GRADIENT, LOSS, SLOT = range(9)
FORWARD, BACKWARD = 0, 1
ONCE, RANDOM, NEVER_AGAIN, UPDATES, TOGETHER = 1, 2, 4, 8, 16
STATIONARY, RESULT = 1, 2
# include/cairn/plan.h
RUN, FREE, OFFLOAD, FETCH, WAIT = range(5)

INFEASIBLE = 1


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("message", C.c_char * 640), ("file", C.c_char * 256),
                ("line", C.c_uint32), ("column", C.c_uint32), ("path", C.c_char * 128),
                ("name", C.c_char * 128), ("smallest_budget", C.c_uint64)]


class Text(C.Structure):
    _fields_ = [("data", C.c_void_p), ("length", C.c_size_t), ("capacity", C.c_size_t),
                ("resize", C.c_void_p), ("context", C.c_void_p)]


class Machine(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("name", C.c_char * 64), ("summary", C.c_char * 160),
                ("flops_per_second", C.c_uint64), ("memory_bytes_per_second", C.c_uint64),
                ("launch_ns", C.c_int64), ("link_bytes_per_second", C.c_uint64),
                ("link_latency_ns", C.c_int64), ("full_duplex", C.c_bool),
                ("memory_bytes", C.c_uint64), ("host_memory_bytes", C.c_uint64)]

    @classmethod
    def new(cls):
        return cls(struct_size=C.sizeof(cls))


class SolveOptions(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("budget_bytes", C.c_uint64),
                ("machine", C.POINTER(Machine)), ("seed", C.c_uint64), ("cost_model", C.c_int),
                ("no_offload", C.c_bool), ("live_peak", C.c_bool), ("effort", C.c_uint32),
                ("start", C.c_void_p), ("memo", C.c_void_p), ("progress", C.c_void_p),
                ("progress_context", C.c_void_p), ("device_bytes", C.c_uint64)]


class Inplace(C.Structure):
    _fields_ = [("output", C.c_uint32), ("input", C.c_uint32)]


class Arrays(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("name", C.c_char_p), ("tensor_count", C.c_uint32),
                ("op_count", C.c_uint32), ("bytes", C.POINTER(C.c_uint64)),
                ("roles", C.POINTER(C.c_uint8)), ("tensor_flags", C.POINTER(C.c_uint8)),
                ("tensor_names", C.POINTER(C.c_char_p)), ("phases", C.POINTER(C.c_uint8)),
                ("op_flags", C.POINTER(C.c_uint8)), ("op_names", C.POINTER(C.c_char_p)),
                ("time_ns", C.POINTER(C.c_int64)), ("workspace_bytes", C.POINTER(C.c_uint64)),
                ("groups", C.POINTER(C.c_uint32)), ("first_input", C.POINTER(C.c_uint32)),
                ("inputs", C.POINTER(C.c_uint32)), ("first_output", C.POINTER(C.c_uint32)),
                ("outputs", C.POINTER(C.c_uint32)), ("first_inplace", C.POINTER(C.c_uint32)),
                ("inplace", C.POINTER(Inplace)), ("alignment", C.c_uint64),
                ("second_time_ns", C.POINTER(C.c_int64)), ("second_workspace_bytes", C.POINTER(C.c_uint64)),
                ("again_time_ns", C.POINTER(C.c_int64))]


class ArraysStep(C.Structure):
    _fields_ = [("graph", C.c_void_p), ("costs", C.c_void_p),
                ("tensor_of", C.POINTER(C.c_uint32)), ("op_of", C.POINTER(C.c_uint32)),
                ("memory", C.c_void_p)]


class PlanStep(C.Structure):
    _fields_ = [("kind", C.c_uint8), ("inplace", C.c_uint8), ("implementation", C.c_uint8), ("also", C.c_uint8),
                ("id", C.c_uint32)]


class Lifetime(C.Structure):
    _fields_ = [("bytes", C.c_uint64), ("first", C.c_uint32), ("last", C.c_uint32),
                ("tensor", C.c_uint32)]


class Layout(C.Structure):
    """The first fields of cairn_layout; new fields are only added at its end."""
    _fields_ = [("arena_bytes", C.c_uint64), ("offsets", C.POINTER(C.c_uint64)), ("count", C.c_uint32)]


class SolutionHead(C.Structure):
    """The first fields of cairn_solution; new fields are only added at its end."""
    _fields_ = [("plan", C.c_void_p), ("sim", C.c_void_p), ("layout", C.c_void_p)]


class ArraysSolution(C.Structure):
    _fields_ = [("solution", C.POINTER(SolutionHead)), ("step_count", C.c_uint32),
                ("steps", C.POINTER(PlanStep)), ("step_bytes", C.POINTER(C.c_uint64)),
                ("lifetime_count", C.c_uint32), ("lifetimes", C.POINTER(Lifetime)),
                ("offsets", C.POINTER(C.c_uint64)), ("peak_bytes", C.c_uint64),
                ("arena_bytes", C.c_uint64), ("time_ns", C.c_int64),
                ("lower_bound_ns", C.c_int64), ("memory", C.c_void_p)]


class RegionWay(C.Structure):
    _fields_ = [("peak_bytes", C.c_uint64), ("saved_bytes", C.c_uint64), ("time_ns", C.c_int64)]


class Failure(Exception):
    """An error of the library, with its message. `bound_ns`: no plan for the memory takes less; 0: none is known."""
    bound_ns = 0

    def __init__(self, error):
        super().__init__(error.message.decode())
        self.status = error.status
        self.name = error.name.decode()
        self.smallest_budget = error.smallest_budget


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("CAIRN_PLAN_LIBRARY") or os.path.join(here, "libcairn_plan.so")
    return C.CDLL(path)


_lib = _load()
_lib.cairn_version.restype = C.c_char_p
_P = C.c_void_p
_signatures = {
    "cairn_arrays_step_create": [_P, C.POINTER(Arrays), C.POINTER(C.POINTER(ArraysStep)),
                                 C.POINTER(Error)],
    "cairn_arrays_step_solve": [C.POINTER(ArraysStep), C.c_char_p, C.POINTER(SolveOptions),
                                C.POINTER(C.POINTER(ArraysSolution)), C.POINTER(Error)],
    "cairn_arrays_step_read": [C.POINTER(ArraysStep), C.c_char_p, C.c_size_t, C.c_char_p,
                               C.POINTER(Machine), C.POINTER(C.POINTER(ArraysSolution)),
                               C.POINTER(Error)],
    "cairn_layout_create": [_P, C.POINTER(Lifetime), C.c_uint32, C.POINTER(C.POINTER(Layout)),
                            C.POINTER(Error)],
    "cairn_least_memory": [_P, _P, C.POINTER(SolveOptions), C.POINTER(C.c_uint64), C.POINTER(Error)],
    "cairn_plan_to_text": [_P, _P, C.POINTER(Text)],
    "cairn_graph_to_json": [_P, C.POINTER(Text)],
    "cairn_report_create": [_P, _P, _P, _P, C.c_uint32, C.POINTER(_P), C.POINTER(Error)],
    "cairn_report_memory_svg": [_P, C.POINTER(Text)],
    "cairn_page_create": [_P, _P, _P, C.POINTER(_P)],
    "cairn_page_add": [_P, _P, _P],
    "cairn_page_add_none": [_P, C.POINTER(Error)],
    "cairn_page_write": [_P, C.POINTER(Text)],
    "cairn_regions_choose": [_P, C.POINTER(C.c_uint32), C.POINTER(RegionWay), C.c_uint32,
                             C.c_uint64, C.POINTER(C.c_uint32), C.POINTER(Error)],
}
for _name, _arguments in _signatures.items():
    if not hasattr(_lib, _name):
        continue
    getattr(_lib, _name).argtypes = _arguments
    getattr(_lib, _name).restype = C.c_int
for _name in ("cairn_arrays_step_destroy", "cairn_layout_destroy", "cairn_arrays_solution_destroy", "cairn_text_release",
              "cairn_report_destroy", "cairn_page_destroy"):
    if not hasattr(_lib, _name):
        continue
    getattr(_lib, _name).argtypes = [_P]
    getattr(_lib, _name).restype = None


def version() -> str:
    return _lib.cairn_version().decode()


def _check(status, error):
    if status != 0:
        raise Failure(error)


def _take_text(call):
    """The text that `call` writes to a cairn_text."""
    text = Text()
    if call(C.byref(text)) != 0:
        raise MemoryError("out of memory")
    try:
        return C.string_at(text.data, text.length).decode()
    finally:
        _lib.cairn_text_release(C.byref(text))


def _array(kind, values):
    return (kind * max(len(values), 1))(*values)


class Step:
    """A step in the library: tensors (bytes, role, flags, name) and ops (phase, flags, inputs, outputs, in-place
    pairs, time, workspace, name), numbered by their place. `second` of an op, which may be absent, is the time and the
    workspace of another implementation; `again`, too, the time of a run after the first."""

    def __init__(self, name, tensors, ops, alignment=64):
        first_in, first_out, first_place = [0], [0], [0]
        inputs, outputs, places = [], [], []
        for op in ops:
            inputs += op["inputs"]
            outputs += op["outputs"]
            places += [Inplace(*pair) for pair in op["inplace"]]
            first_in.append(len(inputs))
            first_out.append(len(outputs))
            first_place.append(len(places))
        kept = [  # keeps the ctypes arrays alive during the call
            _array(C.c_uint64, [t["bytes"] for t in tensors]),
            _array(C.c_uint8, [t["role"] for t in tensors]),
            _array(C.c_uint8, [t["flags"] for t in tensors]),
            _array(C.c_char_p, [t["name"].encode() for t in tensors]),
            _array(C.c_uint8, [o["phase"] for o in ops]),
            _array(C.c_uint8, [o["flags"] for o in ops]),
            _array(C.c_char_p, [o["name"].encode() for o in ops]),
            _array(C.c_int64, [o["time_ns"] for o in ops]),
            _array(C.c_uint64, [o["workspace"] for o in ops]),
            None,
            _array(C.c_uint32, first_in), _array(C.c_uint32, inputs),
            _array(C.c_uint32, first_out), _array(C.c_uint32, outputs),
            _array(C.c_uint32, first_place), _array(Inplace, places)]
        second = [o.get("second") or (o["time_ns"], o["workspace"]) for o in ops]
        seconds = [_array(C.c_int64, [time for time, _ in second]), _array(C.c_uint64, [size for _, size in second])]
        again = _array(C.c_int64, [o.get("again", o["time_ns"]) for o in ops])
        arrays = Arrays(C.sizeof(Arrays), name.encode(), len(tensors), len(ops), *kept, alignment, *seconds, again)
        self._step, error = C.POINTER(ArraysStep)(), Error()
        _check(_lib.cairn_arrays_step_create(None, C.byref(arrays), C.byref(self._step),
                                             C.byref(error)), error)

    def __del__(self, destroy=_lib.cairn_arrays_step_destroy):  # at exit the module's names may be gone
        if getattr(self, "_step", None):
            destroy(self._step)
            self._step = None

    def solve(self, algorithm, budget=0, machine=None, offload=False, device=0):
        """`device`: instead of `budget`, a limit for everything on the device, of a step with updates."""
        options = SolveOptions(C.sizeof(SolveOptions), int(budget),
                               C.pointer(machine) if machine is not None else None, 0, 0,
                               not offload, True, device_bytes=int(device))
        out, error = C.POINTER(ArraysSolution)(), Error()
        name = algorithm.encode() if algorithm is not None else None
        _check(_lib.cairn_arrays_step_solve(self._step, name, C.byref(options), C.byref(out),
                                            C.byref(error)), error)
        return Solution(self, out)

    def least_memory(self, machine=None, offload=False):
        """A proved lower bound of the budget; None if the step is too large to compute it."""
        options = SolveOptions(C.sizeof(SolveOptions), 0, C.pointer(machine) if machine is not None else None, 0, 0,
                               not offload, True)
        least, error, step = C.c_uint64(), Error(), self._step.contents
        if _lib.cairn_least_memory(step.graph, step.costs, C.byref(options), C.byref(least), C.byref(error)) != 0:
            return None
        return least.value

    def read(self, text, machine=None, file="plan"):
        out, error = C.POINTER(ArraysSolution)(), Error()
        data = text.encode()
        _check(_lib.cairn_arrays_step_read(self._step, data, len(data), file.encode(),
                                           C.byref(machine) if machine is not None else None,
                                           C.byref(out), C.byref(error)), error)
        return Solution(self, out)

    def to_json(self):
        return _take_text(lambda text: _lib.cairn_graph_to_json(self._step.contents.graph, text))


class Solution:
    """A plan and its simulation. `steps` is a list of (kind, id, permissions): those to work in place that a run uses,
    counted from 1. `second` are the places of those that run an op's second implementation."""

    def __init__(self, step, pointer):
        self.step, self._pointer = step, pointer
        s = pointer.contents
        self.steps = [(x.kind, x.id, tuple(n for n in (x.inplace, x.also) if n)) for x in s.steps[:s.step_count]]
        self.second = {i for i, x in enumerate(s.steps[:s.step_count]) if x.kind == RUN and x.implementation}
        self.step_bytes = s.step_bytes[:s.step_count]
        self.peak, self.time_ns, self.bound_ns = s.peak_bytes, s.time_ns, s.lower_bound_ns
        self.moved = {}  # the same with recomputations elsewhere, by the bytes that it may need: _later.py

    def __del__(self, destroy=_lib.cairn_arrays_solution_destroy):
        if getattr(self, "_pointer", None):
            destroy(self._pointer)
            self._pointer = None

    def lifetimes(self):
        """(bytes, first step, last step, tensor or None, offset) of every storage."""
        s = self._pointer.contents
        return [(x.bytes, x.first, x.last, None if x.tensor == NONE else x.tensor, s.offsets[i])
                for i, x in enumerate(s.lifetimes[:s.lifetime_count])]

    def text(self):
        plan, graph = self._pointer.contents.solution.contents.plan, self.step._step.contents.graph
        return _take_text(lambda text: _lib.cairn_plan_to_text(plan, graph, text))

    def _svg(self, step, solution):
        report, error = _P(), Error()
        _check(_lib.cairn_report_create(step.graph, step.costs, solution, None, 0, C.byref(report), C.byref(error)),
               error)
        try:
            return _take_text(lambda text: _lib.cairn_report_memory_svg(report, text))
        finally:
            _lib.cairn_report_destroy(report)

    def _html(self, step, solution):
        page, error = _P(), Error()
        if _lib.cairn_page_create(step.graph, step.costs, None, C.byref(page)) != 0:
            raise MemoryError("out of memory")
        try:
            if _lib.cairn_page_add(page, solution, None) != 0:
                raise MemoryError("out of memory")
            _check(_lib.cairn_page_add_none(page, C.byref(error)), error)
            return _take_text(lambda text: _lib.cairn_page_write(page, text))
        finally:
            _lib.cairn_page_destroy(page)

    def picture(self, path):
        """The plan as an SVG or HTML text, by the ending of `path`."""
        draw = {".svg": self._svg, ".html": self._html}.get(os.path.splitext(path)[1])
        if draw is None:
            raise ValueError(f"{path!r} must end in .svg or .html")
        return draw(self.step._step.contents, C.cast(self._pointer.contents.solution, _P))


def lay_out(lifetimes):
    """Bytes of one arena and the offset of each of the lifetimes (bytes, first step, last step) in it."""
    given = _array(Lifetime, [Lifetime(size, first, last, NONE) for size, first, last in lifetimes])
    layout, error = C.POINTER(Layout)(), Error()
    _check(_lib.cairn_layout_create(None, given, len(lifetimes), C.byref(layout), C.byref(error)), error)
    try:
        return layout.contents.arena_bytes, layout.contents.offsets[:layout.contents.count]
    finally:
        _lib.cairn_layout_destroy(layout)


def choose_regions(ways: list[list[tuple[int, int, int]]], budget: int) -> list[int]:
    """The chosen way of each region; `ways` is a list of lists of (peak, saved, time)."""
    first, flat = [0], []
    for region in ways:
        flat += [RegionWay(*way) for way in region]
        first.append(len(flat))
    chosen, error = (C.c_uint32 * max(len(ways), 1))(), Error()
    _check(_lib.cairn_regions_choose(None, _array(C.c_uint32, first), _array(RegionWay, flat),
                                     len(ways), int(budget), chosen, C.byref(error)), error)
    return list(chosen[:len(ways)])
