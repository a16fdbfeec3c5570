"""A joint graph of AOTAutograd as storages and ops.

One tensor of the planner is one storage. Nodes that only view a storage (views, getitem) are not ops: they cost
nothing and are made again wherever their value is read. A node that makes a storage is an op.

    primals   owned by the caller: neither counted nor freed
    forward   ops that the forward outputs need
    boundary  one op: the forward part ends, the caller's loss runs, the tangents arrive
    backward  the rest
"""

import operator

import torch
from torch import fx

from . import _library as lib
from . import _norms, _torch
from ._errors import CairnError
from ._geometry import is_tangent, key_of, place_of, tensors_of

aten = torch.ops.aten
BOUNDARY = "boundary"
ABSENT = "cairn_absent"  # key of a gradient that may be absent: _absent.py
INSIDE = "cairn_inside"  # key of a kernel of the backward part: operands of which it computes nodes of the forward part
EARLY = "cairn_early"  # key of nodes that belong to the forward part although only the backward part reads them

# Ops whose result may be written into an operand, because they read and write the same elements one
# by one; with the places of the arguments that may be overwritten.
_POINTWISE = {}
for _op, _places in (("relu.default", (0,)), ("add.Tensor", (0, 1)), ("sub.Tensor", (0, 1)),
                     ("mul.Tensor", (0, 1)), ("div.Tensor", (0,)), ("neg.default", (0,)),
                     ("gelu.default", (0,)), ("silu.default", (0,)), ("sigmoid.default", (0,)),
                     ("tanh.default", (0,)), ("exp.default", (0,)),
                     ("threshold_backward.default", (0,)), ("gelu_backward.default", (0, 1)),
                     ("silu_backward.default", (0, 1)), ("sigmoid_backward.default", (0, 1)),
                     ("tanh_backward.default", (0, 1))):
    _packet, _overload = _op.split(".")
    _POINTWISE[getattr(getattr(aten, _packet), _overload)] = _places

# In training mode these ops only write their running statistics; their other results do not depend
# on them.
_BATCH_NORMS = {getattr(aten, packet).default
                for packet in ("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional")
                if hasattr(aten, packet)}


# These update their running statistics in place, although their schema does not say so. They are
# recomputed without running statistics.
_SILENT_BATCH_NORMS = {getattr(aten, packet).default for packet in ("cudnn_batch_norm", "miopen_batch_norm")
                       if hasattr(aten, packet)}


class Storage:
    __slots__ = ("index", "name", "bytes", "role", "flags", "op", "slot", "like")

    def __repr__(self):
        return f"<storage {self.name} {self.bytes}>"


class Op:
    """A node that makes storages, or has an effect. Kinds besides "node":

    rng       saves the state of the random numbers for the op after it
    results   takes over the results that the op before it returns to the caller, so that the op may be recomputed;
              `beside` are their storages, which every run of the op makes besides its outputs
    boundary  between forward and backward

    `second`: None, or a slower implementation with less workspace (_slices.py). `again_ns`: None, or what a run after the
    first takes in an arena if it comes right after the op `after` (_pairs.py).
    """
    __slots__ = ("index", "name", "kind", "node", "reads", "outs", "backward", "flags", "inplace", "state",
                 "signature", "time_ns", "workspace", "library", "beside", "second", "again_ns", "after")

    def __repr__(self):
        return f"<op {self.name}>"


class Parts:
    """The nodes of a joint graph by what they are: inputs, results, forward and backward."""

    def __init__(self, gm, num_fwd_outputs):
        self.gm = gm
        nodes = gm.graph.nodes
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self.tangents = [p for p in self.placeholders if is_tangent(p)]
        self.absent = {p for p in self.tangents if ABSENT in p.meta}  # may be absent, and are not planned
        self.primals = [p for p in self.placeholders if p not in set(self.tangents)]
        self.output = next(n for n in nodes if n.op == "output")
        results = list(self.output.args[0])
        self.fwd_out, self.bwd_out = results[:num_fwd_outputs], results[num_fwd_outputs:]
        self.descriptions = list(self.output.meta.get("desc") or [None] * len(results))
        changed = [d.mutated_input for d in self.descriptions[:num_fwd_outputs] if is_mutation(d)]
        self.mutated = [p for p in self.primals if p.meta.get("desc") in changed]
        self._classify()

    def _classify(self):
        """Forward and backward by data flow: passes leave nodes without a tag. Random ops of the forward part stay there
        although nobody may need them, because the order in which random numbers are drawn must stay."""
        needed, todo = set(), [n for n in self.fwd_out if isinstance(n, fx.Node)]
        todo += [n for n in self.gm.graph.nodes if n.op == "call_function" and is_random(n)
                 and "backward" not in n.meta.get("partitioner_tag", "")]
        while todo:
            node = todo.pop()
            if node not in needed:
                needed.add(node)
                todo += node.all_input_nodes
        self.is_backward, tangents = set(), set(self.tangents)
        for node in self.gm.graph.nodes:
            if node in tangents or any(i in self.is_backward for i in node.all_input_nodes):
                self.is_backward.add(node)
            elif node.op == "call_function" and node not in needed and not is_effect(node) and EARLY not in node.meta:
                self.is_backward.add(node)


def keep_clones(gm):
    """A copy that the model itself makes of an input, other than a parameter, is never recomputed: the input may be
    changed before the backward part, by what runs outside the graph. It gets another name, because Inductor's passes
    remove clones."""
    for p in gm.graph.find_nodes(op="placeholder"):
        if not isinstance(p.meta.get("val"), torch.nn.Parameter):
            for node in p.users:
                if node.target is aten.clone.default and not node.kwargs:
                    node.target, node.meta["cairn_once"] = aten.lift_fresh_copy.default, True


def copy_mutated(gm, num_fwd_outputs):
    """Inputs that change when the forward part has ended, running statistics, are copied before it for the backward
    part."""
    parts = Parts(gm, num_fwd_outputs)
    first = next(n for n in gm.graph.nodes if n.op != "placeholder")
    for p in parts.mutated:
        late = [n for n in p.users if n in parts.is_backward and n is not parts.output]
        if not late:
            continue
        with gm.graph.inserting_before(first):
            copy = gm.graph.call_function(aten.clone.default, (p,))
        copy.meta[EARLY] = True
        with p.meta["val"].fake_mode:
            copy.meta["val"] = p.meta["val"].clone()
        for node in late:
            node.replace_input_with(p, copy)


class Joint(Parts):
    def __init__(self, gm, num_fwd_outputs, table, outside=0, random_again=True):
        super().__init__(gm, num_fwd_outputs)
        self.table, self.outside, self.random_again = table, outside, random_again
        self.ops, self.storages = [], []
        self._by_key, self.of_node, self.op_of_node = {}, {}, {}
        self.device = device_of(gm)
        self._build()

    # ---- storages and ops ----

    def _storage(self, name, tensor, role, flags, op, slot):
        s = Storage()
        s.index, s.name, s.role, s.flags = len(self.storages), name, role, flags
        s.op, s.slot, s.like = op, slot, tensor
        on_device = tensor is not None and tensor.device.type == self.device.type
        s.bytes = tensor.untyped_storage().nbytes() if on_device else 0
        self.storages.append(s)
        return s

    def _op(self, name, kind, node, backward, flags):
        op = Op()
        op.index, op.name, op.kind, op.node, op.backward, op.flags = 0, name, kind, node, backward, flags
        op.reads, op.outs, op.inplace, op.state = [], [], [], None
        op.signature, op.time_ns, op.workspace, op.library, op.beside = None, 0, 0, "aten", []
        op.second = op.again_ns = op.after = None
        return op

    def _given(self, node):
        for value in tensors_of(node.meta.get("val")):
            key = key_of(value)
            if key not in self._by_key:
                flags = lib.STATIONARY
                role = lib.PARAMETER if isinstance(value, torch.nn.Parameter) else lib.STATE
                self._by_key[key] = self._storage(node.name, value, role, flags, None, None)

    def _build(self):
        forward, backward = [], []
        for node in self.gm.graph.nodes:
            if node.op == "get_attr" or (node.op == "placeholder" and node not in self.tangents):
                self._given(node)
        boundary = self._op(BOUNDARY, "boundary", None, False, lib.NEVER_AGAIN | lib.ONCE)
        boundary.workspace = self.outside
        for p in self.tangents:
            for value in tensors_of(p.meta["val"]) if p not in self.absent else ():
                if key_of(value) in self._by_key:
                    continue
                # The caller may keep it, so it is counted.
                s = self._storage(p.name, value, lib.GRADIENT, lib.RESULT, boundary, None)
                self._by_key[key_of(value)] = s
                boundary.outs.append(s)
        for node in self.gm.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output") or node.target is operator.getitem:
                continue
            if node.op != "call_function":
                raise CairnError(f"node {node.name} of the captured step is a {node.op}, which cannot be planned")
            made = self._make(node)
            (backward if node in self.is_backward else forward).extend(made)
        for node in self.gm.graph.nodes:
            if node in self.absent:
                self.of_node[node] = []
            elif node.op != "output":
                self.of_node[node] = [self._by_key[key_of(v)] for v in tensors_of(node.meta.get("val"))]
        self.boundary = boundary
        self._changing = {s for p in self.mutated for s in self.of_node[p]}
        self.ops = self._hand_out(forward + [boundary] + backward)
        for index, op in enumerate(self.ops):
            op.index = index
            if op.kind == "node":
                self._connect(op)
        self._permit()

    def _make(self, node):
        """The ops of a node; none if it only views a storage."""
        backward = node in self.is_backward
        leaves = _torch.pytree.tree_leaves(node.meta.get("val"))
        tuple_like = isinstance(node.meta.get("val"), (tuple, list))
        fresh = [v for v in leaves if isinstance(v, torch.Tensor) and key_of(v) not in self._by_key]
        effect = is_effect(node)
        if not fresh and not effect:
            return []
        flags = 0
        if effect or is_collective(node):
            flags |= lib.ONCE | lib.NEVER_AGAIN
        elif _norms.is_first(node) or node.meta.get("cairn_once"):
            flags |= lib.NEVER_AGAIN
        op = self._op(node.name, "node", node, backward, flags)
        ops = [op]
        if is_random(node):
            if self.random_again and not flags & lib.NEVER_AGAIN:
                state = self._op(f"{node.name}.state", "rng", node, backward, lib.NEVER_AGAIN)
                op.state = self._storage(state.name, None, lib.ACTIVATION, 0, state, None)
                op.state.bytes = rng_state_bytes(self.device)
                op.state.role = lib.GRADIENT if backward else lib.ACTIVATION
                state.outs.append(op.state)
                ops.insert(0, state)
                op.flags |= lib.RANDOM
            else:
                op.flags |= lib.NEVER_AGAIN
        role = lib.GRADIENT if backward else lib.ACTIVATION
        for slot, value in enumerate(leaves):
            if isinstance(value, torch.Tensor) and key_of(value) not in self._by_key:
                name = f"{node.name}.{slot}" if tuple_like else node.name
                s = self._storage(name, value, role, 0, op, slot if tuple_like else None)
                self._by_key[key_of(value)] = s
                op.outs.append(s)
        if len(fresh) < len(tensors_of(leaves)) and not effect:
            known = {key_of(v) for v in fresh}
            for user in node.users:
                value = user.meta.get("val")
                if isinstance(value, torch.Tensor) and key_of(value) not in known:
                    raise CairnError(f"op {node.name} returns a new tensor and a view of an old one, which cannot "
                                     "be planned")
        self.op_of_node[node] = op
        return ops

    def _hand_out(self, ops):
        """Everything that the caller gets stays: outputs, and gradients from when they are made. New values of
        buffers stay until the boundary, where they are copied. None of these is recomputed."""
        outs = [s for n in self.fwd_out if isinstance(n, fx.Node) for s in self.of_node[n]]
        grads = [s for n in self.bwd_out if isinstance(n, fx.Node) for s in self.of_node[n]]
        kept = {s for n, d in zip(self.fwd_out, self.descriptions) if isinstance(n, fx.Node)
                and not is_mutation(d) for s in self.of_node[n]} | set(grads)
        self.handed_out = set(outs + grads)
        for s in self.handed_out:
            if s.op is not None and s in kept:
                s.flags |= lib.RESULT
        self.boundary.reads = list(dict.fromkeys(s for s in outs if s.op is not None))
        split = []
        for op in ops:
            split.append(op)
            mine = [s for s in op.outs if s in self.handed_out]
            if op.kind != "node" or not mine:
                continue
            if len(mine) == len(op.outs):
                op.flags |= lib.NEVER_AGAIN
                continue
            rest = self._op(f"{op.name}.results", "results", op.node, op.backward, lib.NEVER_AGAIN | lib.ONCE)
            rest.outs, op.beside = mine, mine
            op.outs = [s for s in op.outs if s not in self.handed_out]
            rest.reads = list(op.outs)  # which are still there
            split.append(rest)
        return split

    def _connect(self, op):
        reads = [s for node in op.node.all_input_nodes for s in self.of_node.get(node, ())]
        if op.state is not None:
            reads.insert(0, op.state)
        op.reads = list(dict.fromkeys(reads))
        # Recomputed, it would read the new values.
        if any(s in self._changing for s in self.reads_again(op)):
            op.flags |= lib.NEVER_AGAIN

    def reads_again(self, op):
        """What a recomputation of an op reads. A running statistic may be its weight too."""
        if not ignores_statistics(op.node):
            return op.reads
        again = {s for node in without_statistics(op.node) if isinstance(node, fx.Node) for s in self.of_node[node]}
        return [s for s in op.reads if s in again]

    # ---- in place ----

    def _permit(self):
        for op in self.ops:
            if op.kind != "node" or len(op.outs) != 1 or op.outs[0].slot is not None:
                continue
            for place in _POINTWISE.get(op.node.target, ()):
                operand = op.node.args[place] if place < len(op.node.args) else None
                if isinstance(operand, fx.Node) and self.of_node[operand] and self._may_overwrite(op, operand):
                    op.inplace.append((place, op.reads.index(self.of_node[operand][0]), 0))

    def _may_overwrite(self, op, operand):
        """Whether the result may be written over an operand: the operand fills a storage that the step made, the result
        lies as the operand does, and whatever else the op reads of that storage it reads at the same place."""
        value, out, storage = operand.meta["val"], op.node.meta["val"], self.of_node[operand][0]
        if storage.op is None or storage.op is self.boundary or storage in self.handed_out:
            return False
        size = value.untyped_storage().nbytes()
        if size != value.numel() * value.element_size() or size != out.untyped_storage().nbytes():
            return False
        others = [v for node in op.node.all_input_nodes for v in tensors_of(node.meta.get("val"))
                  if key_of(v) == key_of(value)]
        return all(place_of(v) == place_of(value) and v.dtype == value.dtype and v.device == value.device
                   for v in [out, *others])

    # ---- for the library ----

    @staticmethod
    def workspace(op, alignment):
        """What a run needs besides its outputs."""
        return op.workspace + sum(-(-s.bytes // alignment) * alignment for s in op.beside)

    def described(self, alignment, kept=None, arena=False):
        """The step as the library takes it: tensors and ops, as dictionaries. `kept`, what libraries keep, by their names,
        counts as workspace of their ops. `arena`: tensors will be in one."""
        kept = kept or {}
        tensors = [dict(name=s.name, bytes=s.bytes, role=s.role, flags=s.flags) for s in self.storages]
        ops = [dict(name=o.name, phase=lib.BACKWARD if o.backward else lib.FORWARD, flags=o.flags,
                    inputs=[s.index for s in o.reads], outputs=[s.index for s in o.outs],
                    inplace=[(out, read) for _, read, out in o.inplace],
                    time_ns=int(o.time_ns), workspace=self.workspace(o, alignment) + kept.get(o.library, 0),
                    second=o.second and (int(o.second.time_ns), o.second.workspace),
                    again=int(o.again_ns if arena and o.again_ns is not None else o.time_ns)) for o in self.ops]
        return dict(name="torch", tensors=tensors, ops=ops, alignment=alignment)

    def planner_step(self, alignment, kept=None, arena=False):
        return lib.Step(**self.described(alignment, kept, arena))


def _has_numbers(tensor):
    return tensor.layout is not torch.strided or all(isinstance(n, int) for n in (*tensor.shape, *tensor.stride()))


def is_number(value):
    """Whether a value is a number that the capture does not know."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _reads_data(node):
    return any(isinstance(v, torch.Tensor) for n in node.all_input_nodes for v in tensors_of(n.meta.get("val")))


def refuse(gm):
    """Raise an error for what cannot be planned."""
    for node in gm.graph.nodes:
        if node.target is aten._unique.default:  # 2.11 captures it as if all values were equal
            raise CairnError(f"the shape of {node.name} depends on data, so this step cannot be planned")
        for value in _torch.pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and not _has_numbers(value) or is_number(value) and _reads_data(node):
                if _torch.free_unbacked_symbols(value):
                    raise CairnError(f"the shape of {node.name} depends on data, so this step cannot be planned")
                raise CairnError(f"the shape of {node.name} is symbolic and cannot be planned; "
                                 "compile with dynamic=False, and every shape gets a plan of its own")
            if "mkldnn_rnn" in str(node.target):
                raise CairnError(f"{node.name} is a recurrent layer of oneDNN, whose gradient PyTorch cannot capture; "
                                 "leave torch._dynamo.config.allow_rnn off, and the layer runs between the graphs")
            if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
                raise CairnError(f"{node.name} is a sparse tensor, and steps with sparse tensors cannot be planned")


def device_of(gm):
    """The device of a step: a GPU if one of its inputs is there."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor) and value.device.type != "cpu":
            return value.device
    return torch.device("cpu")


def is_mutation(description):
    return type(description).__name__ == "InputMutationAOTOutput"


def is_effect(node):
    """Whether a node changes an existing tensor, or has another effect besides making tensors."""
    schema = _torch.schema_of(node.target)
    return schema is not None and (schema.is_mutable or not schema.returns)


def ignores_statistics(node):
    """Whether a node may be recomputed with its weight in place of its running statistics."""
    if node.target in _SILENT_BATCH_NORMS:
        return bool(node.args[5])
    if node.target not in _BATCH_NORMS or not isinstance(node.args[1], fx.Node) \
            or any(n.op != "placeholder" for n in node.args[3:5]):
        return False
    weight, mean = node.args[1].meta["val"], node.args[3].meta["val"]
    return weight.shape == mean.shape and weight.dtype == mean.dtype


def without_statistics(node):
    """The arguments for a recomputation; the running statistics have changed since the first run."""
    other = None if node.target in _SILENT_BATCH_NORMS else node.args[1]
    return (*node.args[:3], other, other, *node.args[5:])


def is_collective(node):
    name = getattr(node.target, "namespace", "")
    return name in ("_c10d_functional", "c10d_functional", "c10d", "_dtensor", "fsdp")


def is_random(node):
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    schema = _torch.schema_of(node.target)
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.name == "dropout_p":
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name, 0.0)
            return given != 0.0
    return True


def rng_state_bytes(device):
    """The bytes of a saved state on the device: on a processor the whole generator; elsewhere 0, because the state is
    on the host."""
    return torch.get_rng_state().numel() if device.type == "cpu" else 0
