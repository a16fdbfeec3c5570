"""Mode "compiled": the step as kernels that Inductor compiles, each one op of the plan.

The joint graph, with Inductor's decompositions, is divided into groups (_groups.py). A group becomes one node whose target
is a Kernel; equal groups share it. Its operands and results are the only tensors of the plan. A recomputation runs the same
kernel, so its bits are those of the first run.
"""

import hashlib
import operator

import torch
from torch import fx

from . import _costs, _torch
from . import _inductor
from ._geometry import FIXED, propagate
from ._groups import Group, Grouping, is_fusible, is_reduction, packet
from ._joint import Joint, copy_mutated, device_of, refuse
from ._plan import alignment_of

aten, prims = torch.ops.aten, torch.ops.prims


# ---- kernels ----

class Kernel:
    """A group as a function of the values that it reads. It returns a tuple of new tensors."""
    __module__ = "cairn_kernels"

    def __init__(self, key, graph, given):
        self.__name__ = self.__qualname__ = "kernel_" + key
        self.graph, self.given, self._compiled, self._allocations, self._variants = graph, given, None, None, {}

    def __str__(self):
        return self.__name__

    def __call__(self, *arguments):
        return self._results(arguments, self.compile()(list(arguments)))

    def _results(self, arguments, returned):
        """The results in order, from what the compiled graph returns."""
        return tuple(returned)

    def compile(self):
        if self._compiled is None:
            self._compiled = _inductor.compile_graph(self.graph, self.given)
        return self._compiled

    def outputs(self):
        """The nodes of the results."""
        return list(next(n for n in reversed(self.graph.nodes) if n.op == "output").args[0])

    def into(self, place):
        """The variant that writes its first result into the argument at `place`."""
        if place not in self._variants:
            self._variants[place] = Into(self, place)
        return self._variants[place]

    # ---- results at given addresses ----

    def placeable(self):
        """The numbers of the results that can be written to where the caller wants them."""
        if self._allocations is None:
            self._allocations = _inductor.Allocations(self.compile())
        return {slot for slot in map(self._slot, self._allocations.result_of.values()) if slot is not None}

    def _slot(self, returned):
        """The number of a result, from its place in what the compiled graph returns."""
        return returned

    def run_onto(self, destinations, *arguments):
        """Run with a tensor, or None, as the destination of every result."""
        places = {returned: destinations[self._slot(returned)] for returned in self._allocations.result_of.values()
                  if self._slot(returned) is not None}
        return self._results(arguments, self._allocations.run(arguments, places))


class Onto:
    """A kernel as a function of the destinations of its results and of its arguments."""
    __module__ = "cairn_kernels"

    def __init__(self, kernel):
        kernel.placeable()
        self.__name__ = self.__qualname__ = "onto_" + kernel.__name__
        self.kernel = kernel

    def __call__(self, destinations, *arguments):
        return self.kernel.run_onto(destinations, *arguments)


class Into(Kernel):
    """Inductor leaves out a copy at the end of a graph, and writes to where it would copy. What it returns are the other
    results, and then the operand."""

    def __init__(self, kernel, place):
        graph, env = fx.Graph(), {}
        graph.graph_copy(kernel.graph, env)
        first, *rest = (env[n] for n in kernel.outputs())
        given = [env[n] for n in kernel.graph.nodes if n.op == "placeholder"][place]
        flat = graph.call_function(aten.view.default, (first, list(given.meta["val"].shape)))
        copied = graph.call_function(aten.copy_.default, (given, flat))
        flat.meta["val"] = copied.meta["val"] = given.meta["val"]
        graph.output((*rest, copied))
        super().__init__(f"{kernel.__name__[len('kernel_'):]}_into{place}", graph, kernel.given)
        self.place, self.shape, self.rest = place, first.meta["val"].shape, len(rest)

    def _results(self, arguments, returned):
        return (arguments[self.place].view(self.shape), *returned[:-1])

    def _slot(self, returned):
        return returned + 1 if returned < self.rest else None


_kernels: dict = {}  # by their key: equal groups, of any step of the process, share one


def kernel_of(group):
    """The kernel of a group, and the nodes that are its arguments."""
    inside, arguments = set(group.cone), {}
    for node in group.cone:
        arguments.update((i, True) for i in node.all_input_nodes if i not in inside)
    graph, env, words = fx.Graph(), {}, []
    for at, node in enumerate(arguments):
        env[node] = graph.placeholder(f"a{at}")
        env[node].meta["val"] = value = node.meta["val"]
        words.append(f"{value.dtype}{tuple(value.shape)}{value.stride()}{value.device}")
    for node in group.cone:
        args, keywords = _torch.pytree.tree_map_only(fx.Node, env.get, (node.args, node.kwargs))
        env[node] = graph.create_node("call_function", node.target, args, keywords, name=f"n{len(env)}")
        env[node].meta["val"] = node.meta["val"]
    graph.output(tuple(env[n] for n in group.outs))
    key = hashlib.sha256("\n".join([str(graph), *words]).encode()).hexdigest()[:12]
    if key not in _kernels:
        _kernels[key] = Kernel(key, graph, [n.meta["val"] for n in arguments])
    return _kernels[key], list(arguments)


def compile_all(kernels):
    with _inductor.in_parallel():
        for kernel in kernels:
            kernel.compile()


def compile_variants(joint, plan):
    """Compile the variants of kernels that a plan runs in place."""
    used = {}
    for _, number, inplace in plan.steps:
        if inplace and is_kernel(joint.ops[number]):
            op = joint.ops[number]
            used[op.node.target.into(op.inplace[inplace - 1][0])] = True
    compile_all(used)


# ---- the graph of kernels ----

class _Fused:
    """Writes the graph that has one node for every group."""

    def __init__(self, gm, grouping):
        self.gm, self.grouping = gm, grouping
        self.graph, self.env = fx.Graph(), {}

    def _value(self, node):
        if node not in self.env:
            made = node.op != "get_attr" and not self.grouping.is_view(node) and node.target is not operator.getitem
            assert not made, f"{node} is read before it is made"
            self.env[node] = self.graph.node_copy(node, self._value)
        return self.env[node]

    def _add(self, group):
        kernel, arguments = kernel_of(group)
        new = self.graph.create_node("call_function", kernel, tuple(self._value(n) for n in arguments), {},
                                     name=f"fused_{group.outs[0].name}")
        new.meta["val"] = tuple(n.meta["val"] for n in group.outs)
        new.meta[FIXED] = True
        for slot, n in enumerate(group.outs):
            self.env[n] = self.graph.call_function(operator.getitem, (new, slot))
            self.env[n].meta = dict(n.meta)

    def module(self):
        for node in self.grouping.nodes:
            if node.op == "placeholder":
                self.env[node] = self.graph.node_copy(node)
        for unit in self.grouping.units:
            if isinstance(unit, Group):
                self._add(unit)
            else:
                self.env[unit] = self.graph.node_copy(unit, self._value)
        output = self.grouping.output
        new = self.graph.output(_torch.pytree.tree_map_only(fx.Node, self._value, output.args[0]))
        new.meta = dict(output.meta)
        self.graph.eliminate_dead_code()
        self.graph.lint()
        return fx.GraphModule(self.gm, self.graph)


# ---- capturing ----

def capture(gm, num_fwd_outputs, options, learn):
    """The joint graph as storages and ops, an op being a kernel or what runs as it is, with its costs, which `learn`
    measures. What runs as it is is tried first, so that kernels are compiled for results as they really are."""
    refuse(gm)
    device = device_of(gm)
    _inductor.simplify(gm)
    _name_seeds(gm.graph)
    _add_up(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.graph = _torch.fx_graph_cse(gm.graph)
    gm.recompile()
    table = _costs.Table(options.costs or _costs.default_file(device), device)
    table.recorded = options.cudagraphs
    propagate(gm, table.results, _costs.signature_of)
    learn(gm, table, device, alignment_of(device), lambda node: not is_fusible(node, device))
    fused = _Fused(gm, Grouping(gm, num_fwd_outputs, device)).module()
    compile_all(dict.fromkeys(n.target for n in fused.graph.nodes if isinstance(n.target, Kernel)))
    copy_mutated(fused, num_fwd_outputs)
    learn(fused, table, device, alignment_of(device))
    joint = Joint(fused, num_fwd_outputs, table, options.outside, random_again=not options.cudagraphs)
    _permit(joint)
    return joint


def is_kernel(op):
    return op.kind == "node" and isinstance(op.node.target, Kernel)


def _name_seeds(graph):
    """A random op finds its seed by a number in the graph; here it is a view of the tensor of all seeds, so that equal
    groups with other seeds are equal. Two seeds are left out after each, so that every view is aligned."""
    for node in list(graph.nodes):
        if node.target is prims.inductor_seeds.default:
            node.args = (2 * node.args[0], *node.args[1:])
            node.meta["cairn_once"] = True
        elif node.target is prims.inductor_lookup_seed.default:
            with graph.inserting_before(node):
                new = graph.call_function(aten.select.int, (node.args[0], 0, 2 * node.args[1]))
            new.meta["cairn_seed"] = True
            node.replace_all_uses_with(new)
            graph.erase_node(node)


def _add_up(graph):
    """Sums of matrix products, as in gradients of a weight that is used several times, are added up by the products."""
    def is_product(node, *targets):
        return isinstance(node, fx.Node) and node.target in targets and len(node.users) == 1
    for node in list(graph.nodes):
        if node.target is not aten.add.Tensor or node.kwargs:
            continue
        for one, other in (node.args, node.args[::-1]):
            if is_product(other, aten.mm.default) and is_product(one, aten.mm.default, aten.addmm.default) \
                    and one.meta["val"].shape == other.meta["val"].shape == node.meta["val"].shape \
                    and one.meta["val"].dtype == other.meta["val"].dtype == node.meta["val"].dtype:
                with graph.inserting_before(node):
                    new = graph.call_function(aten.addmm.default, (one, *other.args))
                new.meta = dict(node.meta)
                node.replace_all_uses_with(new)
                graph.erase_node(node)
                graph.erase_node(other)
                break


# ---- in place ----

def _permit_sums(joint):
    """A product may be added to what it is added to."""
    for op in joint.ops:
        if op.kind == "node" and op.node.target is aten.addmm.default and len(op.outs) == 1:
            value, storage = op.node.args[0].meta["val"], joint.of_node[op.node.args[0]][0]
            like = op.node.meta["val"]
            if is_ours(joint, storage) and value.shape == like.shape and value.stride() == like.stride() \
                    and storage.bytes == op.outs[0].bytes:
                op.inplace.append((0, op.reads.index(storage)))


def is_ours(joint, storage):
    """Whether a plan may overwrite a storage."""
    return storage.op is not None and storage.op is not joint.boundary and storage not in joint.handed_out


def _permit(joint):
    """A kernel may write its first result over an operand that it reads element by element."""
    _permit_sums(joint)
    for op in joint.ops:
        if not is_kernel(op) or not op.outs or op.outs[0].slot != 0:
            continue
        for place, operand in enumerate(op.node.args):
            storage = joint.of_node[operand][0]
            if is_ours(joint, storage) and may_overwrite(op.node.target, place):
                op.inplace.append((place, op.reads.index(storage)))


def _is_random(node):
    return node.target is prims.inductor_random.default


def may_overwrite(kernel, place):
    """Whether the first result and an argument have the same layout, and only pointwise nodes and views that keep the
    order of the elements are between the argument and any result. Random numbers that a sum and the result read are in
    memory of their own, unless it is that of the result."""
    if {_is_random, is_reduction} <= {f for n in kernel.graph.nodes for f in (_is_random, is_reduction) if f(n)}:
        return False
    given = [n for n in kernel.graph.nodes if n.op == "placeholder"][place]
    value, out = given.meta["val"], kernel.outputs()[0].meta["val"]
    size = out.numel() * out.element_size()
    if value.numel() < 2 or value.dtype != out.dtype or value.device != out.device \
            or {value.untyped_storage().nbytes(), out.untyped_storage().nbytes()} != {size}:
        return False
    flat = value.is_contiguous() and out.is_contiguous()
    if not flat and (value.shape != out.shape or value.stride() != out.stride()):
        return False
    reached = {given}
    for n in kernel.graph.nodes:
        if n.op != "call_function" or reached.isdisjoint(n.all_input_nodes):
            continue
        if not _keeps_places(n, value, flat):
            return False
        reached.add(n)
    return True


def _keeps_places(node, value, flat):
    """Whether every element of a node depends only on those at its own place in its operands."""
    made = node.meta["val"]
    if not isinstance(made, torch.Tensor) or (made.numel() != value.numel() if flat else made.shape != value.shape):
        return False
    if torch.Tag.pointwise in node.target.tags or packet(node) in ("aten.where", "prims.convert_element_type"):
        return True
    return flat and packet(node) in ("aten.view", "aten.reshape", "aten._unsafe_view")
