"""A plan written back as two FX graphs, forward and backward.

Nodes are in the order of the plan, copied as often as they run; views are made again before each use; memory is freed
by FX's own `x = None` after the last use. So the graphs do exactly what the plan says.
"""

import itertools
import operator

import torch
from torch import fx

from . import _absent, _check, _torch
from . import _fuse
from . import _library as lib
from . import _moves
from . import _norms
from ._compiled import Kernel, Onto
from ._geometry import is_tangent, place_of
from ._joint import INSIDE, ignores_statistics, is_collective, is_effect, is_mutation, is_number, without_statistics


class _Boxed(_torch.CodeGen):
    """The arguments come in a list, which is emptied, so that each is freed after its last use."""

    def gen_fn_def(self, free_vars, maybe_return_annotation, **keywords):
        names = [v.split(":")[0].split("=")[0].strip() for v in free_vars if v != "self"]
        lines = [f"def forward(self, args_list){maybe_return_annotation}:"]
        if names:
            lines += [f"    {', '.join(names)}, = args_list", "    args_list.clear()"]
        return "\n".join(lines)


def _thin_gradients(gm):
    """Places, shapes and strides of arriving gradients with dimensions of size 1. PyTorch does not guard the strides of
    those, and sometimes captures more of them than the result has; the plan depends on both."""
    values = [(place, node.meta.get("val")) for place, node in enumerate(gm.graph.find_nodes(op="placeholder"))
              if is_tangent(node)]
    return [(place, value.shape, value.stride()) for place, value in values
            if isinstance(value, torch.Tensor) and 1 in value.shape and value.layout is torch.strided]


def _wide(shape, stride):
    return [(n, step) for n, step in zip(shape, stride) if n != 1]


def _as_planned(value, shape, stride):
    """The same elements with the planned dimensions of size 1."""
    if (value.shape != shape or value.stride() != stride) and _wide(value.shape, value.stride()) == _wide(shape, stride):
        return value.as_strided(shape, stride)
    return value


def boxed(gm, *_):
    """A module that runs the graph as it is. Its first run is checked against the plan, if it was written from one."""
    gm.graph.set_codegen(_Boxed())
    gm.recompile()
    call, first, thin = gm.forward, _check.Checked.of(gm), _thin_gradients(gm)
    inputs, places = _check.Inputs.of(gm) or (None, ())
    look = inputs and (inputs.compare if first.backward else inputs.note)

    def run(arguments):
        nonlocal first
        if inputs is not None and inputs.tries > 0:
            look(places, arguments)
        for place, shape, stride in thin:
            if arguments[place] is not None:
                arguments[place] = _as_planned(arguments[place], shape, stride)
        if first is None:
            return call(arguments)
        results = first.run(arguments)
        first = None
        return results
    return _torch.boxed_call(run)


class Writer:
    """One pair of graphs."""

    def __init__(self, joint, plan, meter=None):
        self.joint, self.plan, self.meter = joint, plan, meter
        steps, ops = plan.steps, joint.ops
        boundary = next(i for i, (kind, number, _) in enumerate(steps)
                        if kind == lib.RUN and ops[number].kind == "boundary")
        self.forward_steps, self.backward_steps = range(boundary), range(boundary + 1, len(steps))
        runs = [number for kind, number, _ in steps if kind == lib.RUN]
        self.again = {number for number in set(runs) if runs.count(number) > 1} if len(runs) > len(set(runs)) else set()
        self.device = str(joint.device)
        self.saved_inplace, self.fused = False, 0

    # ---- values ----

    def _value(self, node):
        """A node of the new graph with the value of `node`; views are made again from their owner."""
        if not isinstance(node, fx.Node):
            return node
        if node in self.memo:
            return self.memo[node]
        joint = self.joint
        val = node.meta.get("val")
        if node.op != "get_attr" and isinstance(val, (int, float, bool)):
            return val
        if node in self.numbers:
            return self.numbers[node]
        storages = joint.of_node[node]
        op = joint.op_of_node.get(node)
        if node.op == "placeholder" or (node.op == "get_attr" and storages):
            new = self.env[storages[0]]
            if node.op == "placeholder" and storages[0].op is None and self.placeholder_of[storages[0]] is not node:
                new = self.extra[node]
        elif op is not None and is_effect(node):
            new = self._value(node.args[0])
        elif op is not None and isinstance(val, torch.Tensor):
            new = self.env[storages[0]]
        elif node.target is operator.getitem and node.args[0] in joint.op_of_node \
                and not is_effect(node.args[0]):
            new = self._item(node, storages[0]) if storages else None
        else:
            new = self.graph.node_copy(node, self._value)
            new.meta[_check.HOLDS] = storages
        self.memo[node] = new
        return new

    def _item(self, node, storage):
        """One of several results of an op; some ops return several views of one storage."""
        value = node.meta["val"]
        if storage.op is None or storage.slot == node.args[1] or place_of(value) == place_of(storage.like):
            return self.env[storage]
        new = self.graph.call_function(torch.ops.aten.as_strided.default, (self.env[storage], *place_of(value)))
        new.meta["val"], new.meta[_check.HOLDS] = value, [storage]
        return new

    # ---- steps ----

    def _call(self, op, inplace):
        node = op.node
        self.memo = {}
        arguments, keywords = self._stand_in(op), node.kwargs
        arguments, keywords = _torch.pytree.tree_map_only(fx.Node, self._value, (arguments, keywords))
        if op.state is not None and op.index in self.again and op.index in self.ran:
            return self._run_again(op, arguments, keywords)
        over = [op.inplace[permission - 1] for permission in inplace]
        over = [(place, op.reads[read], op.outs[out]) for place, read, out in over
                if not (self.keep_saved and op.reads[read] in self.from_forward)]
        if over:
            self.saved_inplace |= any(operand in self.from_forward for _, operand, _ in over)
            new = self._overwrite(op, arguments, keywords, over)
            new.meta[_check.OVER] = {operand for _, operand, _ in over}
            return new
        new = self._plain_call(op, arguments, keywords)
        if is_collective(node):  # waiting for one returns its operand, whatever the schema says
            new.meta[_check.OVER] = set(op.reads)
        return new

    def _stand_in(self, op):
        again = op.index in self.ran and ignores_statistics(op.node)
        return without_statistics(op.node) if again else op.node.args

    def _reads(self, op):
        return self.joint.reads_again(op) if op.index in self.again else op.reads

    def _plain_call(self, op, arguments, keywords):
        if self.step in self.plan.second:
            return self.graph.call_function(op.second.form, ([None] * len(op.node.meta["val"]), *arguments), keywords)
        return self.graph.call_function(op.node.target, arguments, keywords)

    def _onto(self, op, arguments, over):
        """A kernel that writes results over arguments."""
        destinations = [None] * len(op.node.target.outputs())
        for place, _, made in over:
            destinations[made.slot] = arguments[place]
        return self.graph.call_function(Onto(op.node.target), (destinations, *arguments))

    def _overwrite(self, op, arguments, keywords, over):
        """Call an op that writes results over operands; `over` has the place of an argument, the storage that it lies in,
        and the result. An op of ATen has one such result."""
        node = op.node
        if isinstance(node.target, Kernel):
            return self._onto(op, arguments, over)
        place = over[0][0]
        packet = node.target.overloadpacket
        inplace = getattr(getattr(torch.ops, node.target.namespace), packet.__name__ + "_", None)
        if place == 0 and inplace is not None:  # some ops with out= only copy their result to it
            return self.graph.call_function(getattr(inplace, node.target._overloadname), arguments, keywords)
        name = "grad_input" if "grad_input" in packet.overloads() else "out"
        return self.graph.call_function(getattr(packet, name), arguments, {**keywords, name: arguments[place]})

    def _run_again(self, op, arguments, keywords):
        return self.graph.call_function(_moves.run_with_rng,
                                        (self.env[op.state], self.device, op.node.target, *arguments), dict(keywords))

    def _fake_state(self):
        return self._fake_bytes(torch.get_rng_state().numel() if self.device == "cpu" else 16, "cpu")

    def _fake_bytes(self, size, device):
        mode = next(p.meta["val"].fake_mode for p in self.joint.placeholders if hasattr(p.meta["val"], "fake_mode"))
        with mode:
            return torch.empty(size, dtype=torch.uint8, device=device)

    def _also_saved(self):
        """Nodes of the forward part that the backward part needs beside tensors of the plan."""
        return []

    def _also_arrives(self, nodes):
        """They are placeholders of the backward part now."""

    def _emit_run(self, op, inplace):
        if op.kind == "results":
            return
        if op.kind == "rng":
            if self.device != "cpu" and op.outs[0] not in self.states_needed:
                return
            new = self.graph.call_function(_moves.save_rng, (self.device,))
            new.meta["val"] = self._fake_state()
            self.env[op.outs[0]] = new
            self._emit_note(op.outs[0])
            return
        new = self.given_first.pop(op.index, None)
        if new is not None:
            new.meta[_check.OVER] = {self.joint.op_of_node[_norms.other_half(op.node)].outs[0]}
        else:
            new = self._call(op, inplace)
        new.meta[_check.HOLDS] = self.joint.of_node[op.node]
        for key in ("val", "tensor_meta", "stack_trace", "nn_module_stack", "seq_nr", "original_aten"):
            if key in op.node.meta:
                new.meta[key] = op.node.meta[key]
        first = op.index not in self.ran
        self.ran.add(op.index)
        for s in op.outs + (op.beside if first else []):
            if s.slot is None:
                self.env[s] = new
            else:
                item = self.graph.call_function(operator.getitem, (new, s.slot))
                item.meta["val"], item.meta[_check.HOLDS] = s.like, [s]
                self.env[s] = item
            self.from_forward.discard(s)
        for value, tangent, views in op.node.meta.get(_absent.ADDED, ()):
            self.memo = {}
            self.graph.call_function(_absent.adder(views), (self._value(value), self.arrived[tangent]))

    def _hand_first(self, op, place):
        """If the other half of a norm runs next, its value is there already: it is the result of the norm."""
        if op.kind != "node" or not _norms.is_first(op.node):
            return
        other = self.joint.op_of_node[_norms.other_half(op.node)]
        rest = (s for s in itertools.islice(self.plan.steps, place + 1, None) if s[0] != lib.FREE)
        kind, number, _ = next(rest)
        while kind == lib.RUN and self.joint.ops[number].kind == "results":
            kind, number, _ = next(rest)
        if kind == lib.RUN and number == other.index:
            self.given_first[other.index] = self.env[op.outs[0]]

    def _emit_move(self, kind, s):
        graph = self.graph
        if kind == lib.OFFLOAD:
            host = graph.call_function(_moves.offload, (self.env[s], s.index))
            with s.like.fake_mode:
                host.meta["val"] = torch.empty_strided(s.like.shape, s.like.stride(), dtype=s.like.dtype)
            self.hosts[s] = host
            self.going.add(s)
        elif kind == lib.FETCH:
            self.env[s] = graph.call_function(_moves.fetch, (self.hosts[s], self.device, s.index))
            self.env[s].meta["val"], self.env[s].meta[_check.HOLDS] = s.like, [s]
            self.from_forward.discard(s)
            self._emit_note(s)
        elif kind == lib.WAIT and s in self.going:
            graph.call_function(_moves.wait_out, (self.hosts[s], self.env[s], s.index))
            self.going.discard(s)
        elif kind == lib.WAIT:
            self.env[s] = graph.call_function(_moves.wait_in, (self.env[s], s.index))
            self.env[s].meta["val"], self.env[s].meta[_check.HOLDS] = s.like, [s]

    def _emit(self, steps):
        for place in steps:
            kind, number, inplace = self.plan.steps[place]
            self.step = place
            if kind == lib.RUN:
                op = self.joint.ops[number]
                self._emit_run(op, inplace)
                self._hand_first(op, place)
                if self.meter is not None and op.kind == "node":
                    self._emit_check(op, place)
                if op.state is not None and op.state in self.env:
                    self.graph.call_function(_moves.hold, (self.env[op.state],))
            elif kind == lib.FREE:
                s = self.joint.storages[number]
                if s not in self.going:
                    self.freed.add(s)
                    self.env.pop(s, None)
                    next(iter(reversed(self.graph.nodes))).meta.setdefault(_check.FREES, set()).add(s)
            else:
                self._emit_move(kind, self.joint.storages[number])

    def _emit_check(self, op, place):
        """Add a check after a run and before its operands are freed: they are arguments of the check."""
        made = [self.env[s] for s in op.outs + op.beside if s in self.env]
        workspace = op.second.workspace if place in self.plan.second else op.workspace
        predicted = self.plan.step_bytes[place] - self._rounded(workspace)
        if op.index in self.checked:  # the returned results were made again and are freed already
            predicted -= sum(self._rounded(s.bytes) for s in op.beside)
        self.checked.add(op.index)
        alive = [self.memo[n] for n in op.node.all_input_nodes if n in self.memo]
        new = self.graph.call_function(_checker(self.meter, op.name, predicted), (made, alive))
        new.meta[_check.COUNTS] = True

    def _emit_note(self, s):
        if self.meter is not None and s in self.env:
            self.graph.call_function(_noter(self.meter), ([self.env[s]],))

    def _rounded(self, workspace):
        return -(-workspace // self.plan.alignment) * self.plan.alignment

    # ---- the two graphs ----

    def _begin(self):
        self.graph, self.env, self.memo = fx.Graph(), {}, {}
        self.freed, self.given_first, self.arrived = set(), {}, {}
        self.numbers = {}

    def _needed(self):
        """The inputs of the backward part: storages that it reads before it makes them, and host copies that it
        fetches."""
        joint = self.joint
        made = {s for p in joint.tangents for s in joint.of_node[p]}
        storages, hosts, states, sent = {}, {}, {}, set()
        for place in self.backward_steps:
            kind, number, _ = self.plan.steps[place]
            if kind == lib.FETCH:
                s = joint.storages[number]
                if s not in made and s not in sent:
                    hosts[s] = True
                made.add(s)
            elif kind == lib.OFFLOAD or kind == lib.WAIT:
                s = joint.storages[number]
                if kind == lib.OFFLOAD:
                    sent.add(s)
                if s not in made:
                    storages[s] = True
            elif kind == lib.RUN:
                op = joint.ops[number]
                for s in self._reads(op) if op.kind == "node" else op.reads:
                    if s not in made and s is not op.state:
                        storages[s] = True
                    elif s is op.state and s not in made and op.index in self.again:
                        states[s] = True
                made.update(op.outs)
        for node in joint.bwd_out:
            if isinstance(node, fx.Node):
                for s in joint.of_node[node]:
                    if s not in made:
                        storages[s] = True
        return list(storages), list(hosts), list(states)

    def graphs(self):
        joint = self.joint
        storages, hosts, states = self._needed()
        self.states_needed = {op.state for op in joint.ops if op.state is not None and op.index in self.again}
        self._begin()
        self.ran, self.checked, self.hosts, self.going = set(), set(), {}, set()
        self.keep_saved, self.from_forward = False, set()
        self._emit_inputs()
        self._mark_read_again()
        self._emit(self.forward_steps)
        self.memo = {}
        results = self._apart(self._updated([self._value(n) for n in joint.fwd_out]))
        going = [s for s in self.going if s in self.env]
        self.saved = storages + [s for s in going if s not in storages]
        also, views = self._also_saved(), {p: new for p, new in self.extra.items() if joint.of_node[p][0] in self.saved
                                           and p.users}  # others may be integers that the capture has made constants
        tensors = [self.env[s] for s in self.saved] + [self.hosts[s] for s in hosts] + [self.env[s] for s in states]
        tensors += [*also, *views.values(), *self.numbers.values()]
        out = self.graph.output(tuple(results + tensors))
        self._describe(out, len(results), len(tensors))
        self._finish()
        self.numbers_given = self.numbers
        forward, old, old_hosts = self.graph, self.env, self.hosts
        self.forward_graph = forward
        self.rest = (storages, hosts, states, also, views, old, old_hosts, set(self.going), set(self.ran), set(self.checked))
        return self._module(forward), self._module(self.backward(False))

    def _emit_inputs(self):
        joint = self.joint
        # Of inputs that share memory the first one is in placeholder_of, the others are in extra. None is made from another,
        # because each may lie elsewhere in the next call.
        self.placeholder_of, self.extra = {}, {}
        for p in joint.primals:
            new = self.graph.placeholder(p.name)
            new.meta = {**p.meta, _check.HOLDS: joint.of_node[p]}
            if is_number(p.meta["val"]):
                self.numbers[p] = new
            for s in joint.of_node[p][:1]:
                if s in self.placeholder_of:
                    self.extra[p] = new
                else:
                    self._begin_at(s, new, p)
        for node in joint.gm.graph.nodes:
            if node.op == "get_attr" and joint.of_node[node]:
                new = self.graph.node_copy(node)
                new.meta[_check.HOLDS] = joint.of_node[node]
                for s in joint.of_node[node][:1]:
                    self._begin_at(s, new, node)
        if self.meter is not None:
            self.graph.call_function(_beginner(self.meter), (list(self.env.values()),))

    def _mark_read_again(self):
        """Mark the inputs from which the backward part recomputes."""
        inputs, steps = _check.Inputs(), map(self.plan.steps.__getitem__, self.backward_steps)
        for op in {self.joint.ops[number] for kind, number, _ in steps if kind == lib.RUN}:
            if op.kind != "node":
                continue
            inside = {s for node in op.node.meta.get(INSIDE, ()) for s in self.joint.of_node[node]}
            for s in self._reads(op):
                if s.op is None and s in self.env and (not op.backward or s in inside):
                    self.env[s].meta[_check.AGAIN] = inputs

    def _begin_at(self, storage, new, node):
        """A storage that is there before the step is the value of `new`, and of `node` in the captured graph."""
        self.env[storage], self.placeholder_of[storage] = new, node

    def _apart(self, results):
        """No tensor twice: autograd takes what it is told of one result, that it has no gradient, for the others too."""
        seen = set()
        for place, new in enumerate(results):
            if new in seen and isinstance(new, fx.Node) and new.op == "call_function":
                results[place] = self.graph.call_function(torch.ops.aten.alias.default, (new,))
                results[place].meta = {key: value for key, value in new.meta.items() if key in ("val", _check.HOLDS)}
            seen.add(new)
        return results

    def _updated(self, results):
        """The forward part's results with inputs in place of their new values, which one call copies into them all. The
        caller would copy each alone."""
        by_description = {p.meta.get("desc"): p for p in self.joint.mutated}
        pairs = {}
        for place, (node, described) in enumerate(zip(self.joint.fwd_out, self.joint.descriptions)):
            given = by_description.get(described.mutated_input) if is_mutation(described) else None
            if given is not None and is_like(given.meta["val"], node.meta["val"]):
                pairs[place] = self._value(given), results[place]
        if len(pairs) < 2:
            return results
        self.graph.call_function(_moves.update, tuple(map(list, zip(*pairs.values()))))
        return [pairs[place][0] if place in pairs else result for place, result in enumerate(results)]

    def _finish(self):
        if self.on_gpu():
            self.fused += _fuse.fuse(self.graph)
        self.graph.lint()

    def on_gpu(self):
        return self.joint.device.type == "cuda"

    def _describe(self, out, results, saved):
        out.meta["desc"] = self.joint.descriptions[:results] + [_torch.SavedForBackwardsAOTOutput(i) for i in range(saved)]

    def backward(self, keep_saved):
        """`keep_saved`: what the forward part saved is not overwritten, because another backward may follow."""
        joint = self.joint
        storages, hosts, states, also, views, old, old_hosts, going, ran, checked = self.rest
        self._begin()
        self.ran, self.checked, self.going, self.hosts = set(ran), set(checked), set(going), {}
        self.keep_saved, self.from_forward = keep_saved, set(self.saved)
        self.placeholder_of = {s: p for s, p in self.placeholder_of.items()}

        def arrive(name, like, holds=()):
            new = self.graph.placeholder(name)
            new.meta = {**like.meta, _check.HOLDS: list(holds)}
            return new
        self.numbers = {p: arrive(new.name, new) for p, new in self.numbers_given.items()}
        for s in self.saved:
            self.env[s] = arrive(old[s].name, old[s], [s])
        for s in hosts:
            self.hosts[s] = arrive(old_hosts[s].name, old_hosts[s])
        for s in states:
            self.env[s] = arrive(old[s].name, old[s])
        self._also_arrives([arrive(node.name, node) for node in also])
        self.extra = {p: arrive(new.name, new, joint.of_node[p]) for p, new in views.items()}
        tangents = []
        for p in joint.tangents:
            new = self.arrived[p] = self.graph.placeholder(p.name)
            new.meta = {**p.meta, _check.HOLDS: joint.of_node[p]}
            if p not in joint.absent:
                tangents.append(new)
            for s in joint.of_node[p][:1]:
                self.env[s], self.placeholder_of[s] = new, p
        if self.meter is not None:
            self.graph.call_function(_noter(self.meter), (tangents,))
        self._emit(self.backward_steps)
        self.memo = {}
        out = self.graph.output(tuple(self._value(n) for n in joint.bwd_out))
        out.meta["desc"] = joint.descriptions[len(joint.fwd_out):]
        self._finish()
        for node in self.graph.nodes:
            if node.op == "call_function":
                node.meta["autograd_backward"] = True
        return self.graph

    def _module(self, graph):
        return _torch.make_graph_module(self.joint.gm, graph)

    def retaining(self):
        """The backward graph for a caller that retains the forward part's tensors, or None if it is the same."""
        return self._module(self.backward(True)) if self.saved_inplace else None


def is_like(given, new):
    return (not given.requires_grad and given.dtype == new.dtype and given.device == new.device
            and given.shape == new.shape and given.stride() == new.stride())


def _beginner(meter):
    def begin_count(given):
        meter.begin([t for t in given if isinstance(t, torch.Tensor)])
    return begin_count


def _noter(meter):
    def count_arrived(values):
        meter.note(values)
    return count_arrived


def _checker(meter, name, predicted):
    def count_live(made, alive):
        meter.note(made)
        meter.compare(name, predicted)
    return count_live
