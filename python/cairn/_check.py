"""The first run of a written graph, checked against its plan.

A plan says which storage every value lies in, where, and when a storage is overwritten or freed. The first run of each
graph compares all of that with the tensors that the ops really return:

    each read      the memory still holds the storage that the plan means: nothing was written over it, and it was not
                   freed
    each result    its storage is new, or the one that the plan lets it overwrite or view; its bytes, offset and strides
                   are the planned ones
    each free      the memory is gone, or holds what the plan wrote over it

A difference is an error that names the op. So a step never goes on with wrong numbers. Only memory that somebody else
still holds, a hook for example, is a warning: the numbers are right, but the step needs more than planned.
"""

import operator
import warnings

import torch
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
        self.place = {}  # a storage of the plan to the key of the real one
        self.where = {}  # a node to the keys of its values' storages, with the storages of the plan
        self.freed = set()
        self.leaving, self.held, self.held_bytes = (None, ()), None, 0
        backward = any("autograd_backward" in node.meta for node in gm.graph.nodes)
        self.keeps = backward and _torch.keeps_graph()  # what the forward part saved stays
        self.extra_traceback = False

    def run(self, *_, initial_env):
        for node in list(initial_env):
            self._check_results(node, initial_env[node])
            if not node.users:
                initial_env[node] = None
        results = super().run(initial_env=initial_env, enable_io_processing=False)
        if self.held is not None:
            warnings.warn(f"cairn: the plan frees {self.held} but its memory is still in use outside the step, which "
                          f"therefore needs up to {self.held_bytes} bytes more than planned", stacklevel=2)
        return results

    def run_node(self, node):
        self._check_frees()
        if COUNTS not in node.meta and node.target is not operator.getitem:  # which reads no memory
            for read in node.all_input_nodes:
                self._check_reads(node, read)
        result = super().run_node(node)
        self._check_results(node, result)
        self.leaving = node, node.meta.get(FREES, ())
        self.freed.update(self.leaving[1])
        return result if node.users or node.op == "output" else None  # FX drops only what has a reader

    def _check_frees(self):
        """What the plan freed after the op before must be gone now: only then FX has dropped its last value."""
        node, storages = self.leaving
        for storage in storages if not self.keeps else ():
            reference, holds = self.memory.get(self.place.get(storage), (None, None))
            if holds is storage and not reference.expired():
                self.held = self.held or f"{storage.name} after op {node.name},"
                self.held_bytes += storage.bytes

    def _check_reads(self, node, read):
        for key, storage in self.where.get(read, ()):
            if storage in self.freed:
                raise CairnError(f"op {node.name} reads {storage.name} after the plan freed it")
            held = self.memory[key][1]  # its memory is alive, because the value is
            if held is not storage:
                raise CairnError(f"op {node.name} reads {storage.name}, but its memory holds {held.name}")

    def _held(self, key):
        reference, storage = self.memory.get(key, (None, None))
        return None if reference is None or reference.expired() else storage

    def _check_results(self, node, result):
        fake, holds = node.meta.get("val"), node.meta.get(HOLDS) or ()
        single = isinstance(result, torch.Tensor) and isinstance(fake, torch.Tensor)
        values = [result] if single else planned_of(result, fake)
        over, fresh, where = node.meta.get(OVER, ()), set(), []
        for value, storage in zip(values, holds) if len(values) == len(holds) else ():
            key = key_of(value)
            held = self._held(key)
            if held is not storage:
                if held is not None and held not in over and node.op != "placeholder":
                    raise CairnError(f"op {node.name} returns memory that still holds {held.name}")
                self.memory[key] = _torch.StorageWeakRef(value.untyped_storage()), storage
                self.place[storage] = key
                fresh.add(storage)
            self.freed.discard(storage)
            where.append((key, storage))
        self.where[node] = where
        if node.op == "call_function" and HOLDS in node.meta:
            self._compare(node, values, [fake] if single else tensors_of(fake), fresh)

    @staticmethod
    def _compare(node, real, fake, fresh):
        """Compare with the fake results from which the plan was made."""
        if fake and len(real) != len(fake):
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
