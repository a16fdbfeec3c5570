"""The first run of a written graph, checked against its plan.

A plan says which storage every value lies in, where, and when a storage is overwritten or freed. The first run of each
graph compares all of that with the tensors that the ops really return:

    each read      the memory still holds the storage that the plan means: nothing was written over it, and it was not
                   freed
    each result    its storage is new, or the one that the plan lets it overwrite or view; its bytes, offset and strides
                   are the planned ones

A difference is an error that names the op. So a step never goes on with wrong numbers.
"""

import operator

from torch import fx

from . import _torch
from ._errors import CairnError
from ._geometry import key_of, place_of, planned_of, tensors_of

HOLDS = "cairn_holds"  # key of a written node: the storages that its values lie in
OVER = "cairn_over"    # those that it overwrites
FREES = "cairn_frees"  # those that the plan frees after it
COUNTS = "cairn_counts"  # whether it only counts its operands


def is_planned(gm):
    return any(HOLDS in node.meta for node in gm.graph.nodes)


def join(new, nodes):
    """`new` takes the place of `nodes`: what they overwrote and made in between is its own business."""
    between = {s for node in nodes[:-1] for s in node.meta.get(HOLDS, ())}
    new.meta[OVER] = between.union(*(node.meta.get(OVER, ()) for node in nodes))
    new.meta[FREES] = set().union(*(node.meta.get(FREES, ()) for node in nodes))


def run(gm, arguments):
    """Run a written graph once with all checks; `arguments` is emptied."""
    return _Checked(gm).boxed_run(arguments)


class _Checked(fx.Interpreter):
    def __init__(self, gm):
        super().__init__(gm, garbage_collect_values=True)
        self.memory = {}  # the key of a real storage to a reference to it and the storage of the plan that it holds
        self.freed = set()
        self.extra_traceback = False

    def run(self, *_, initial_env):
        for node in list(initial_env):
            self._check_results(node, initial_env[node])
            if not node.users:
                initial_env[node] = None
        return super().run(initial_env=initial_env, enable_io_processing=False)

    def run_node(self, node):
        if COUNTS not in node.meta and node.target is not operator.getitem:  # which reads no memory
            for read in node.all_input_nodes:
                self._check_reads(node, read)
        result = super().run_node(node)
        self._check_results(node, result)
        self.freed |= node.meta.get(FREES, set())
        return result

    @staticmethod
    def _pairs(node, value):
        """The values of a node with the storages that they should lie in."""
        values, holds = planned_of(value, node.meta.get("val")), node.meta.get(HOLDS) or ()
        return list(zip(values, holds)) if len(values) == len(holds) else []

    def _check_reads(self, node, read):
        for value, storage in self._pairs(read, self.env[read]):
            if storage in self.freed:
                raise CairnError(f"op {node.name} reads {storage.name} after the plan freed it")
            held = self._held(value)
            if held is not storage:
                raise CairnError(f"op {node.name} reads {storage.name}, but its memory holds "
                                 f"{'nothing known' if held is None else held.name}")

    def _held(self, value):
        reference, storage = self.memory.get(key_of(value), (None, None))
        return None if reference is None or reference.expired() else storage

    def _check_results(self, node, result):
        over = node.meta.get(OVER, ())
        fresh = set()
        for value, storage in self._pairs(node, result):
            held = self._held(value)
            if held is not storage:
                if held is not None and held not in over and node.op != "placeholder":
                    raise CairnError(f"op {node.name} returns memory that still holds {held.name}")
                self.memory[key_of(value)] = _torch.StorageWeakRef(value.untyped_storage()), storage
                fresh.add(storage)
            self.freed.discard(storage)
        if node.op == "call_function":
            self._compare(node, result, fresh)

    @staticmethod
    def _compare(node, result, fresh):
        """Compare with the fake results from which the plan was made."""
        real, fake = planned_of(result, node.meta.get("val")), tensors_of(node.meta.get("val"))
        if HOLDS not in node.meta or not fake:
            return
        if len(real) != len(fake):
            raise CairnError(f"op {node.name} returns {len(real)} tensors, {len(fake)} were planned")
        for a, b, storage in zip(real, fake, node.meta[HOLDS]):
            if place_of(a) != place_of(b) or a.dtype != b.dtype:
                raise CairnError(f"op {node.name} returns {_show(a)}, {_show(b)} was planned")
            if storage in fresh and a.untyped_storage().nbytes() != b.untyped_storage().nbytes():
                raise CairnError(f"op {node.name} returns a storage of {a.untyped_storage().nbytes()} bytes, "
                                 f"{b.untyped_storage().nbytes()} were planned")


def _show(tensor):
    shape, stride, offset = place_of(tensor)
    return f"{str(tensor.dtype).replace('torch.', '')}{list(shape)} with strides {list(stride)} at {offset}"
