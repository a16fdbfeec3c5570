"""Mode "compiled": the step as kernels that Inductor compiles, each one op of the plan.

The joint graph, with Inductor's decompositions, is divided into groups (_groups.py). A group becomes one node whose target
is a Kernel; equal groups share it. Its operands and results are the only tensors of the plan. A recomputation runs the same
kernel, so its bits are those of the first run.
"""

import hashlib
import itertools
import math
import operator

import torch
from torch import fx

from . import _absent, _chunks, _costs, _embedding, _slopes, _torch
from . import _inductor, _load, _merges, _pairs, _pools, _rows, _shared, _slices
from . import _library as lib
from ._geometry import FIXED, Made, key_of, packet, propagate, tensors_of
from ._groups import Group, Grouping, is_fusible, is_reduction
from ._joint import EARLY, INSIDE, Joint, Parts, copy_mutated, device_of, keep_clones, refuse
from ._peak import peak_of
from ._plan import alignment_of
from ._real import agree, given_like, made_bytes, random_like, real_tensors

aten, prims = torch.ops.aten, torch.ops.prims
_UNITED = ("cuda",)  # where compilers are fast enough to try one more form of some kernels
_SMALL = 3  # ops of a group that may run one by one
_MUST_GAIN = {_inductor.OneByOne.name: 1.25}  # forms that need more memory: how many times as fast as another they must be
_SHAPES = ("aten.view", "aten.reshape", "aten._unsafe_view")
# Ops that read or write where integers say.
_PLACES = ("aten.embedding", "aten.gather", "aten.index", "aten._unsafe_index", "aten.max_pool2d_with_indices_backward")


# ---- kernels ----

class Kernel:
    """A group as a function of the values that it reads. It returns a tuple of new tensors. `forms` are ways to compute it,
    Inductor's first; `form` is the one that is used, always the same in a process; `times` are nanoseconds by the name of
    a form, where there are several. `divided`: whether the kernels of its parts are faster; None if that is no question."""
    __module__ = "cairn_kernels"

    def __init__(self, name, graph, given, kept=None):
        """`kept`: by the names of Inductor's forms what another process has compiled; None: nothing is known."""
        self.__name__ = self.__qualname__ = name
        self.graph, self.given, self.is_kept, kept = graph, given, kept is not None, kept or {}
        self.forms = [_inductor.Form(graph, given, kept.get(_inductor.Form.name)), *_forms_of(graph, given)]
        self.forms += [_inductor.United(graph, given, kept[name]) for name in kept.keys() & {_inductor.United.name}]
        self.form, self.chosen, self.times = self.forms[0], len(self.forms) == 1, {}
        self.used, self._plain = False, None  # by a step that was captured
        self.divided = None

    def __str__(self):
        """For signatures: each form has costs of its own."""
        return self.__name__ if self.form is self.forms[0] else f"{self.__name__}/{self.form.name}"

    def __call__(self, *arguments):
        return tuple(self.form(list(arguments)))

    def is_divided(self):
        """Whether Inductor makes several kernels of a group without sums, because it prefers to write down what is read
        more than once."""
        return (len(self.forms) == 1 and bool(self.given) and self.given[0].device.type in _UNITED
                and not any(is_reduction(n) for n in self.graph.nodes if n.op == "call_function")
                and self.forms[0].launches() > 1)

    def unite(self):
        """Add the form that is one kernel."""
        self.more_forms([_inductor.United(self.graph, self.given)])

    def kept_forms(self):
        """What Inductor has compiled, by the names of its forms, for other processes."""
        return {form.name: form.kept() for form in self.forms if isinstance(form, _inductor.Form)}

    def plain_forms(self):
        """Forms of ours, for pairs."""
        if self._plain is None:
            here = self.given and _rows.available(self.given[0].device)
            self._plain = _rows.plain_forms(self.graph) if here else []
        return self._plain

    def more_forms(self, forms):
        """Add forms, of which the fastest is to be chosen."""
        self.forms += forms
        self.chosen &= not forms

    def outputs(self):
        """The nodes of the results."""
        return list(next(n for n in reversed(self.graph.nodes) if n.op == "output").args[0])

    def largest_integer(self):
        """The largest integer that operands may have in trials: 0 where integers say which elements of others are read."""
        return int(all(packet(n) not in _PLACES for n in self.graph.nodes if n.op == "call_function"))

    # ---- results at given addresses ----

    def placeable(self):
        """The numbers of the results that can be written to where the caller wants them."""
        return self.form.placeable()

    def onto(self, destinations, *arguments):
        """Run with a tensor, or None, as the destination of every result. It may be an argument that it may overwrite."""
        return tuple(self.form.onto(destinations, list(arguments)))

    def beside(self, workspace, table):
        """What a run allocates whose results have destinations. It is more than the workspace where the code allocates a
        result only when it has freed other memory, as then the two are not alive together."""
        found = table.tried(f"beside {self}", lambda: peak_beside(self)) if workspace else 0
        return max(workspace, found or 0)

    def overwrites(self, over, table):
        """Whether results can be written over arguments; `over` has pairs of their numbers. It is the same code, so the
        bits are the same, unless an element is read after the one in its place was written."""
        words = " ".join(f"{place}" if result == 0 else f"{place}:{result}" for result, place in over)
        return all(may_overwrite(self, *pair) for pair in over) and bool(
            table.tried(f"over {self.__name__} {self.form.name} {words}", lambda: tried_over(self, over)))


def _forms_of(graph, given):
    """Forms of a graph besides Inductor's. On a processor the ops of a small group may be faster one by one: sums over rows.
    Groups that are all pointwise never are, and could not write over what they read. Gradients of max pools write to where
    offsets say: those that ops are measured with may be outside, which only Inductor's code checks."""
    if not given:
        return []
    if _rows.available(given[0].device):
        return _rows.forms_of(graph) + _pools.forms_of(graph)
    ops = [n.target for n in graph.nodes if n.op == "call_function" and not getattr(n.target, "is_view", False)]
    small = len(ops) <= _SMALL and not any(word in str(op) for op in ops for word in ("inductor", "max_pool"))
    whole = any(torch.Tag.pointwise not in getattr(op, "tags", (torch.Tag.pointwise,)) for op in ops)
    return [_inductor.OneByOne(graph)] if given[0].device.type == "cpu" and small and whole else []


class _Form:
    """One form of a kernel, to be measured."""
    __module__ = "cairn_kernels"

    def __init__(self, kernel, form):
        self.__name__ = self.__qualname__ = f"{kernel.__name__}.{form.name}"
        self.form = form

    def __str__(self):
        return self.__name__

    def __call__(self, *arguments):
        return tuple(self.form(list(arguments)))


def least_bytes(graph):
    """What every plan of a graph needs at least: all results at the end, and each op what it reads and makes. A kernel may
    write its results over what it reads."""
    def total(nodes):
        values = [v for n in nodes for v in tensors_of(n.meta.get("val"))]
        return sum({key_of(v): v.untyped_storage().nbytes() for v in values}.values())

    def is_view(node):
        shows = node.target is operator.getitem or getattr(node.target, "is_view", False)
        return node.op == "call_function" and shows and isinstance(node.args[0], fx.Node)  # not of a number

    def is_made(node):
        return is_made(node.args[0]) if is_view(node) else node.op == "call_function"
    found = [total([n for n in next(iter(graph.find_nodes(op="output"))).all_input_nodes if is_made(n)])]
    for node in (n for n in graph.nodes if n.op == "call_function" and not is_view(n)):
        both = [n for n in node.all_input_nodes if is_made(n)], [node]
        found.append((max if isinstance(node.target, Kernel) else sum)(map(total, both)))
    return max(found)


def _has_room(kernel, form, room):
    """Whether a form can be measured in `room` bytes, if it needs more than others."""
    more = getattr(form, "most_bytes", 0)
    return not more or made_bytes(kernel.given) + more <= room


def _calls(kernels, room):
    """A graph that calls every form of some kernels that has room, and the call of each form."""
    graph, made = fx.Graph(), {}
    for kernel in kernels:
        for form in (form for form in kernel.forms if _has_room(kernel, form, room)):
            arguments = []
            for value in kernel.given:
                arguments.append(graph.placeholder(f"a{len(graph.nodes)}"))
                arguments[-1].meta["val"] = value
            made[form] = graph.call_function(_Form(kernel, form), tuple(arguments))
            made[form].meta["val"] = tuple(n.meta["val"] for n in kernel.outputs())
            made[form].meta[FIXED] = True
    graph.output(())
    return graph, made


def choose_forms(kernels, table, learn, pairs=(), room=math.inf):
    """Of every kernel with several forms take the one that is measured to be the fastest, once; and pairs that pay. Forms
    that need more memory are measured in `room` bytes, which every budget has, so that they do not depend on the
    budget."""
    graph, made = _calls([*(kernel for kernel in kernels if not kernel.chosen), *pairs], room)
    if not made:
        return
    learn(fx.GraphModule({}, graph), table)

    def time_of(form):
        signature = _costs.signature_of(made[form]) if form in made else None
        return math.inf if signature is None or signature in table.guesses else table.figures[signature][0]
    for kernel in kernels:
        if not kernel.chosen:
            kernel.times = {form.name: time_of(form) for form in kernel.forms}
            weight = lambda form: kernel.times[form.name] * _MUST_GAIN.get(form.name, 1)
            kernel.form, kernel.chosen = min(kernel.forms, key=weight), True
    fixed: set = set()
    for pair in pairs:
        pair.choose(time_of, table, fixed)


class Onto:
    """A kernel as a function of the destinations of its results and of its arguments."""
    __module__ = "cairn_kernels"

    def __init__(self, kernel):
        self.__name__ = self.__qualname__ = "onto_" + kernel.__name__
        self.kernel = kernel

    def __call__(self, destinations, *arguments):
        return self.kernel.form.onto(destinations, list(arguments))


def tried_over(kernel, over):
    """Whether the compiled code reads no argument after it was overwritten, and gives the same bits."""
    if not all(kernel.form.may_be_over(*both) for both in over):
        return False
    device = kernel.given[over[0][1]].device
    with real_tensors(), torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        places, results = dict(over), range(len(kernel.outputs()))
        onto = lambda given: kernel.onto([given[places[i]] if i in places else None for i in results], *given)
        try:
            return agree(device, kernel.given, places.values(), kernel.largest_integer(), lambda given: kernel(*given), onto)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            return False


def peak_beside(kernel):
    """The most that a kernel allocates besides results, all that it can place being placed."""
    outputs = [n.meta["val"] for n in kernel.outputs()]
    placeable, device = kernel.placeable(), outputs[0].device  # it may read nothing
    with real_tensors(), torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        given = given_like(kernel.given)
        places = [random_like(value) if place in placeable else None for place, value in enumerate(outputs)]
        others = sum(-(-v.untyped_storage().nbytes() // alignment_of(device)) * alignment_of(device)
                     for v, place in zip(outputs, places) if place is None)
        kernel.onto(places, *given)  # the first run loads the code
        return max(peak_of(lambda: kernel.onto(places, *given), device) - others, 0)


_kernels: dict = {}  # by their names: equal groups, of any step of the process, share one


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
    name = "kernel_" + key
    if name not in _kernels:
        _kernels[name] = Kernel(name, graph, [n.meta["val"] for n in arguments])
    return _kernels[name], list(arguments)


def kept_kernel(name, *what):
    """A kernel that another process has made."""
    if name not in _kernels:
        _kernels[name] = Kernel(name, *what)
    return _kernels[name]


def compile_all(kernels, device):
    kernels = [kernel for kernel in kernels if not kernel.is_kept]
    forms = [form for kernel in kernels if not kernel.chosen for form in kernel.forms]
    with _rows.translating(forms, device), _inductor.in_parallel():
        for kernel in kernels:
            kernel.forms[0].compile()
    with _inductor.in_parallel():
        for kernel in kernels:
            if kernel.is_divided():
                kernel.unite()
                kernel.forms[-1].compile()


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
        if any(EARLY in n.meta for n in group.outs):
            new.meta[EARLY] = True
        if group.backward:
            again = {i for n in group.cone if n not in self.grouping.backward for i in n.all_input_nodes}
            new.meta[INSIDE] = [self._value(n) for n in arguments if n in again]
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
        with self.graph.inserting_before(new):
            self._add_gradients()
        self.graph.lint()
        return fx.GraphModule(self.gm, self.graph)

    def _add_gradients(self):
        """Gradients that may be absent are added after the kernel, or the op, that makes the value: _absent.py."""
        added, alive = {}, set(self.graph.nodes)
        self.env = {node: new for node, new in self.env.items() if new in alive}
        for node in self.grouping.nodes:
            for value, tangent, views in node.meta.get(_absent.ADDED, ()):
                maker = new = self._value(value)
                while maker.target is operator.getitem or getattr(maker.target, "is_view", False):
                    maker = maker.args[0]
                added.setdefault(maker, []).append((new, self._value(tangent), views))
        for node in self.graph.nodes:
            node.meta.pop(_absent.ADDED, None)  # of the node that it was copied from
        for maker, entries in added.items():
            maker.meta[_absent.ADDED] = entries


# ---- capturing ----

def capture(gm, num_fwd_outputs, options, learn, whole=True, keep=None):
    """The joint graph as storages and ops, an op being a kernel or what runs as it is, with its costs, which `learn`
    measures. `whole`: it is all that is captured of the model. `keep` gets the graph of kernels, with which finish() can go
    on in another process."""
    table = _table_for(gm, num_fwd_outputs, options)
    fused = _divided(gm, num_fwd_outputs, table, learn, whole)
    if keep is not None:
        keep(fused, num_fwd_outputs)
    return _finished(fused, num_fwd_outputs, options, table, learn)


def finish(fused, num_fwd_outputs, options, learn):
    """The same of a graph of kernels."""
    return _finished(fused, num_fwd_outputs, options, _table_for(fused, num_fwd_outputs, options), learn)


def _table_for(gm, num_fwd_outputs, options):
    device = device_of(gm)
    if device.type == "cuda":  # for every plan, as it may decide how products are computed
        _torch.make_cublas_workspaces_small()
    table = _costs.Table(options.costs or _costs.default_file(device), device)
    table.recorded = options.cudagraphs
    table.limit = _costs.limit_of(Parts(gm, num_fwd_outputs), options, device)
    return table


def _divided(gm, num_fwd_outputs, table, learn, whole):
    """The graph of kernels. What runs as it is is tried first, so that kernels are compiled for results as they really
    are."""
    refuse(gm)
    device, made = device_of(gm), Made(gm)
    keep_clones(gm)
    _inductor.simplify(gm)
    _name_seeds(gm.graph)
    _add_up(gm.graph)
    _join_halves(gm.graph)
    _count_together(gm.graph)
    _pools.forget_operands(gm.graph)
    _embedding.add_rows(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.graph = _torch.fx_graph_cse(gm.graph)
    _chunks.run_early(gm.graph)
    gm.recompile()

    def runs_as_it_is(node):
        return not is_fusible(node, device)
    propagate(gm, table.results, _costs.signature_of, runs_as_it_is, made)
    learn(gm, table, device, alignment_of(device), runs_as_it_is)
    shared = _shared.share(gm.graph, table, lambda gm: learn(gm, table, device, alignment_of(device), lambda node: True))
    if shared:
        propagate(gm, table.results, _costs.signature_of, runs_as_it_is, made)
        learn(gm, table, device, alignment_of(device), runs_as_it_is)
        if _shared.drop_copies(gm.graph, shared):
            propagate(gm, table.results, _costs.signature_of, runs_as_it_is, made)
    if whole and _absent.leave_out(gm, num_fwd_outputs):
        propagate(gm, table.results, _costs.signature_of, runs_as_it_is, made)
        learn(gm, table, device, alignment_of(device), runs_as_it_is)
    measure = lambda gm, table: learn(gm, table, device, alignment_of(device), lambda node: True)
    grouping = _merges.grouped(lambda apart: Grouping(gm, num_fwd_outputs, device, apart), kernel_of,
                               lambda merged, asked: _measure_both(_Fused(gm, merged).module(), asked, table, measure))
    fused = _Fused(gm, grouping).module()
    _results_early(fused.graph)
    if _rows.available(device):
        _weights_late(fused.graph)
    return fused


def _finished(fused, num_fwd_outputs, options, table, learn):
    """A graph of kernels as storages and ops, with its costs."""
    device, kernels = device_of(fused), _kernels_in(fused.graph)
    measure = lambda gm, table: learn(gm, table, device, alignment_of(device), lambda node: True)
    compile_all(kernels, device)
    pairs = _pairs.find(fused.graph, calls_kernel, Parts(fused, num_fwd_outputs).is_backward)
    new = [pair for pair in pairs if not (pair.first.is_kept and pair.second.is_kept)]
    with _rows.translating([form for pair in new for one in (pair, pair.first, pair.second) for form in one.forms], device):
        pass
    with _torch.benchmarks_within(_room_beside(kernels, table)):
        choose_forms(kernels, table, measure, pairs, least_bytes(fused.graph))
        for kernel in kernels:
            kernel.used = True
        if device.type == "cuda":
            _run_first(kernels, table)
    made = Made(fused)
    copy_mutated(fused, num_fwd_outputs)
    propagate(fused, table.results, _costs.signature_of, made=made)
    _slices.offer(fused.graph, table, lambda gm: learn(gm, table, device, alignment_of(device), lambda node: True))
    learn(fused, table, device, alignment_of(device))  # also in slices
    joint = Joint(fused, num_fwd_outputs, table, options.outside, random_again=not options.cudagraphs)
    _permit(joint)
    return joint


def _kernels_in(graph):
    return list(dict.fromkeys(n.target for n in graph.nodes if isinstance(n.target, Kernel)))


def _measure_both(fused, asked, table, learn):
    """Set the times of merged kernels and of their parts, `asked`. They are compiled with all others of a graph, unless
    nothing is left to measure."""
    for kernel in asked:
        kernel.chosen &= bool(kernel.times)
    room = least_bytes(fused.graph)
    if any(_costs.signature_of(call) not in table.figures for call in _calls(asked, room)[1].values()):
        compile_all([*_kernels_in(fused.graph), *asked], device_of(fused))
    with _torch.benchmarks_within(_room_beside(asked, table)):
        choose_forms(asked, table, learn, (), room)


def _room_beside(kernels, table):
    """The bytes that a budget on a GPU leaves beside any of some kernels that runs alone, with all that Inductor's code
    allocates; None: no limit."""
    room = table.room()
    if room is None:
        return None

    def size(kernel):
        made = made_bytes([n.meta["val"] for n in kernel.outputs()])
        return made_bytes(kernel.given) + max(made, kernel.forms[0].allocated())
    return max(room - max(map(size, kernels), default=0) - _load.SPARE, 0)


def _run_first(kernels, table):
    """Run kernels that this process has never run. Inductor chooses how to launch a kernel when that runs first, and needs
    memory to compare: in a step there may be none left. Of kernels that are kept the choice is most likely known."""
    kernels = [kernel for kernel in kernels if not (kernel.is_kept and table.limit is None)]
    for kernel in (kernel for kernel in kernels if not getattr(kernel.form, "has_run", True)):
        with real_tensors(), torch.random.fork_rng(devices=[value.device for value in kernel.given[:1]]):
            try:
                kernel(*given_like(kernel.given))
            except torch.OutOfMemoryError:
                pass  # the step may have more luck
    torch.cuda.empty_cache()


def _results_early(graph):
    """Matrix products that only the caller gets, gradients of weights, run as soon as their operands are there. Autograd
    has them after the gradient of the layer's input; but then that one and what the layer has read, which is the other
    operand, are in memory at the same time."""
    nodes = list(graph.nodes)
    place, output = {node: at for at, node in enumerate(nodes)}, nodes[-1]

    def is_view(node):
        return node.target is operator.getitem or getattr(node.target, "is_view", False)

    def views_of(node, after):
        """The views that a node reads, each before those of it, as far as they come after a place."""
        return [v for i in node.all_input_nodes if is_view(i) and place[i] > after for v in [*views_of(i, after), i]]

    def maker(node):
        return maker(node.args[0]) if is_view(node) else place[node]
    for node in [n for n in nodes if n.target is aten.mm.default and set(n.users) == {output}]:
        after = max(map(maker, node.all_input_nodes))
        last = nodes[after]
        for moved in dict.fromkeys([*views_of(node, after), node]):
            last.append(moved)
            last = moved


def _weights_late(graph):
    """The gradients of a convolution are one op, which computes them one after the other. Where a kernel of the backward
    part reads the first, and all that made the image, the second is an op apart after that kernel: if a plan computes the
    image again, the kernel can do it besides (_pairs.py). The first needs of the image only shape and strides, which an
    operand has that the kernel reads anyway."""
    backward, place = aten.convolution_backward.default, {n: at for at, n in enumerate(graph.nodes)}
    for node in [n for n in graph.nodes if n.target is backward and n.args[-1][0] and n.args[-1][1]]:
        items = {n.args[1]: n for n in node.users}
        maker = node.args[1].args[0] if node.args[1].target is operator.getitem else node.args[1]
        reader = min(items[0].users, key=place.get, default=None) if 0 in items else None
        if not (calls_kernel(maker) and calls_kernel(reader) and set(maker.args) <= set(reader.args)):
            continue
        like = next((n for n in maker.args if _alike(n, node.args[1])), None)
        if like is None:
            continue
        mask, values = node.args[-1], node.meta["val"]
        with graph.inserting_after(reader):
            later = graph.call_function(backward, (*node.args[:-1], [False, *mask[1:]]))
        later.meta = dict(node.meta, val=(None, *values[1:]))
        node.args = (node.args[0], like, *node.args[2:-1], [True, False, False])
        node.meta["val"] = (values[0], None, None)
        last = later
        for slot in (slot for slot in (1, 2) if slot in items):
            items[slot].replace_input_with(node, later)
            last.append(items[slot])
            last = items[slot]


def calls_kernel(node):
    return isinstance(getattr(node, "target", None), Kernel)


def is_kernel(op):
    return op.kind == "node" and calls_kernel(op.node)


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
    """Sums of matrix products, as in gradients of a weight that is used several times or of what several layers read, are
    added up by the products: an addition apart would read and write all of it once more."""
    for node in list(graph.nodes):
        if node.target is not aten.add.Tensor or node.kwargs:
            continue
        for one, other in (node.args, node.args[::-1]):
            product, more = _product(other, aten.mm.default), _product(one, aten.mm.default, aten.addmm.default)
            if product is not None and more is not None and _alike(product, more) and _alike(one, other, node):
                _add_to(graph, node, more, product)
                break


def _join_halves(graph):
    """The gradient of halves that changed places, as rotary embeddings make them, is captured as a sum of two
    concatenations, each with zeros; it is one concatenation, which reads half as much."""
    for node in list(graph.nodes):
        if node.target is not aten.add.Tensor or node.kwargs or not all(
                isinstance(n, fx.Node) and n.target is aten.cat.default and len(n.args[0]) == 2 for n in node.args):
            continue
        (first, *dim), (second, *other) = (n.args for n in node.args)
        for (a, zero), (another, b) in ((first, second), (second, first)):
            if dim == other and _is_zero(zero) and _is_zero(another) and _alike(*node.args, node) \
                    and a.meta["val"].shape == another.meta["val"].shape:
                with graph.inserting_before(node):
                    new = graph.call_function(aten.cat.default, ([a, b], *dim))
                new.meta = dict(node.meta)
                node.replace_all_uses_with(new)
                break


def _is_zero(node):
    return node.target is aten.full.default and node.args[1] == 0


def _count_together(graph):
    """The counters of steps that batch norms have are increased by one op: alone each would be a kernel."""
    counters = {}
    for node in graph.nodes:
        if node.target is aten.add.Tensor and not node.kwargs and not isinstance(node.args[1], fx.Node) \
                and node.args[0].op == "placeholder" and [u.op for u in node.users] == ["output"] \
                and node.meta["val"].dim() == 0 and not node.meta["val"].is_floating_point():
            counters.setdefault((node.args[1], node.meta["val"].dtype, node.meta["val"].device), []).append(node)
    for (step, _, _), nodes in counters.items():
        if len(nodes) < 2:
            continue
        with graph.inserting_before(nodes[0]):
            call = graph.call_function(aten._foreach_add.Scalar, ([node.args[0] for node in nodes], step))
            call.meta = dict(nodes[0].meta, val=[node.meta["val"] for node in nodes])
            for place, node in enumerate(nodes):
                new = graph.call_function(operator.getitem, (call, place))
                new.meta = dict(node.meta)
                node.replace_all_uses_with(new)
                graph.erase_node(node)


def _product(node, *targets):
    """The product that a node is, or shows in another shape, if nothing else reads it."""
    while isinstance(node, fx.Node) and len(node.users) == 1 and packet(node) in _SHAPES:
        node = node.args[0]
    return node if isinstance(node, fx.Node) and len(node.users) == 1 and node.target in targets else None


def _alike(*nodes):
    return len({(n.meta["val"].shape, n.meta["val"].stride(), n.meta["val"].dtype) for n in nodes}) == 1


def _add_to(graph, node, more, product):
    """Replace the sum of two products by one that adds up."""
    with graph.inserting_before(node):
        new = graph.call_function(aten.addmm.default, (more, *product.args))
        new.meta = dict(node.meta, val=product.meta["val"])
        if node.meta["val"].shape != product.meta["val"].shape:
            new = graph.call_function(aten.view.default, (new, list(node.meta["val"].shape)))
            new.meta = dict(node.meta)
    node.replace_all_uses_with(new)


# ---- in place ----

# Ops that may write their first result over their first operand.
_INPLACE = (aten.addmm.default, _embedding.ADD, _slopes.SLOPES)


def _permit_ops(joint):
    for op in joint.ops:
        if op.kind == "node" and op.node.target in _INPLACE and op.outs and not op.outs[0].slot:
            value, storage = op.node.args[0].meta["val"], joint.of_node[op.node.args[0]][0]
            like = op.outs[0].like
            if is_ours(joint, storage) and value.shape == like.shape and value.stride() == like.stride() \
                    and storage.bytes == op.outs[0].bytes:
                op.inplace.append((0, op.reads.index(storage), 0))


def is_ours(joint, storage):
    """Whether a plan may overwrite a storage."""
    return storage.op is not None and storage.op is not joint.boundary and storage not in joint.handed_out


def _permit(joint):
    """A kernel may write its results over operands that it reads element by element; two of them in one run if that was
    tried for every two."""
    _permit_ops(joint)
    for op in filter(is_kernel, joint.ops):
        kernel, found = op.node.target, []
        for out, made in enumerate(op.outs):
            for place, operand in enumerate(op.node.args):
                storage = joint.of_node[operand][0]
                if is_ours(joint, storage) and kernel.overwrites([(made.slot, place)], joint.table):
                    op.inplace.append((place, op.reads.index(storage), out))
                    found.append((made.slot, place))
        both = [(a, b) for a, b in itertools.combinations(found, 2) if a[0] != b[0] and a[1] != b[1]]
        if both and all(kernel.overwrites(pairs, joint.table) for pairs in both):
            op.flags |= lib.TOGETHER


def may_overwrite(kernel, result, place):
    """Whether a result and an argument have the same layout, and of the argument only pointwise nodes, sums and views that
    keep the order of the elements are made."""
    given = [n for n in kernel.graph.nodes if n.op == "placeholder"][place]
    value, out = given.meta["val"], kernel.outputs()[result].meta["val"]
    size = out.numel() * out.element_size()
    if value.numel() < 2 or value.dtype != out.dtype or value.device != out.device \
            or {value.untyped_storage().nbytes(), out.untyped_storage().nbytes()} != {size}:
        return False
    flat = value.is_contiguous() and out.is_contiguous()
    if not flat and (value.shape != out.shape or value.stride() != out.stride()):
        return False
    reached = {given}
    for n in kernel.graph.nodes:
        if n.op != "call_function" or reached.isdisjoint(n.all_input_nodes) or is_reduction(n):
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
    return flat and packet(node) in _SHAPES
