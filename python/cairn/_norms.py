"""Batch norms of a captured step on a GPU, as eager execution runs them.

AOTAutograd decomposes cuDNN's batch norm into PyTorch's own kernels. Those are slower, and their results differ from
those of eager execution in the last bits. This module restores cuDNN's batch norm wherever eager execution would use
it.

A batch norm is then split into two ops, so that a plan can recompute the cheap half:

    norm(x) -> y', mean, invstd, ...      never recomputed
    apply(x, mean, invstd) -> y           one pass over x; the first time y is y' itself

The split is made only if both give the same bits, which is tested on the device for every shape.
"""

import operator

import torch
from torch import fx

from . import _geometry, _torch
from . import _kernels
from ._real import digest, real_tensors

aten = torch.ops.aten

_FUNCTIONAL = aten._native_batch_norm_legit_functional.default
_WITHOUT = aten._native_batch_norm_legit.no_stats  # no running statistics
_BACKWARD = aten.native_batch_norm_backward.default
CUDNN = aten.cudnn_batch_norm.default
FIRST = "cairn_first"  # key of the other half

_library = torch.library.Library("cairn", "DEF")
_library.define("apply_norm(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor invstd, float eps, int formula)"
                " -> Tensor")
APPLY = torch.ops.cairn.apply_norm.default
ATEN = -1  # formula: ATen's own kernel


def apply_norm(x, weight, bias, mean, invstd, eps, formula):
    """A batch norm whose statistics are known."""
    if formula == ATEN or not x.is_contiguous():
        return aten.batch_norm_elemt(x, weight, bias, mean, invstd, eps)
    return _kernels.norm("norm", x, weight, bias, mean, invstd, torch.empty_like(x), formula)


_library.impl("apply_norm", apply_norm, "CUDA")


class Switches:
    """Which changes are made; for tests and benches."""
    cudnn = split = fuse = True


def rewrite(gm, num_fwd_outputs):
    """Restore cuDNN's norms and split norms, if the device is a GPU."""
    changed = False
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target in (_FUNCTIONAL, _WITHOUT):
            norm = _Norm(gm, node, num_fwd_outputs)
            if norm.on_device():
                changed |= norm.rewrite()
    if changed:
        gm.graph.eliminate_dead_code()
        gm.graph.lint()
        gm.recompile()


class _Norm:
    def __init__(self, gm, node, num_fwd_outputs):
        self.graph, self.node = gm.graph, node
        self.tracked = node.target is _FUNCTIONAL
        self.x, self.weight, self.bias = node.args[:3]
        self.mean, self.var = node.args[3:5] if self.tracked else (None, None)
        self.training, self.momentum, self.eps = node.args[-3:]
        self.items = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        output = next(n for n in gm.graph.nodes if n.op == "output")
        self.output, self.results = output, list(output.args[0])[:num_fwd_outputs]
        self.descriptions = list(output.meta.get("desc") or [])[:num_fwd_outputs]

    def on_device(self):
        return self.x.meta["val"].device.type == "cuda"

    def rewrite(self):
        norm = self._cudnn() if Switches.cudnn and self._may_be_cudnn() else None
        split = Switches.split and self._split(norm or self.node)
        return norm is not None or split

    # ---- cuDNN's ----

    def _may_be_cudnn(self):
        if not all(isinstance(n, fx.Node) for n in (self.weight, self.bias)) or not self.training:
            return False
        x, weight, bias = (n.meta["val"] for n in (self.x, self.weight, self.bias))
        mean, var = (n.meta["val"] if n is not None else None for n in (self.mean, self.var))
        if not chooses_cudnn(x, weight, bias, mean, var, self.eps):
            return False
        value = self.node.meta["val"]
        return (is_dense(x) and value[1].dtype == weight.dtype and self._only_moved() and
                all(user.target is _BACKWARD for i in (1, 2) if i in self.items for user in self.items[i].users))

    def _only_moved(self):
        """Whether the statistics belong to the caller, only this norm reads them, and they get their new values from
        it: cuDNN's norm writes into them."""
        if not self.tracked:
            return True
        for slot, old in ((3, self.mean), (4, self.var)):
            new = self.items.get(slot)
            if old.op != "placeholder" or new is None:
                return False
            others = {user for user in (*old.users, *new.users) if user.target is not _BACKWARD}
            if others != {self.node, self.output}:
                return False
            places = [i for i, n in enumerate(self.results) if n is new]
            if len(places) != 1 or places[0] >= len(self.descriptions):
                return False
            if getattr(self.descriptions[places[0]], "mutated_input", None) != old.meta.get("desc"):
                return False
        return True

    def _cudnn(self):
        """Make the norm and its gradient with cuDNN. The new statistics are then the old tensors."""
        value = self.node.meta["val"]
        x = self.x.meta["val"]
        with x.fake_mode:
            reserve = torch.empty(reserve_bytes(x), dtype=torch.uint8, device=x.device)
        with self.graph.inserting_before(self.node):
            norm = self.graph.call_function(CUDNN, (self.x, self.weight, self.bias, self.mean, self.var, True,
                                                    self.momentum, self.eps))
        norm.meta.update(self.node.meta)
        norm.meta["val"] = (*value[:3], reserve)
        norm.meta[_geometry.FIXED] = True
        with self.graph.inserting_after(norm):
            kept = self.graph.call_function(operator.getitem, (norm, 3))
        kept.meta["val"] = reserve
        for slot, item in self.items.items():
            if slot < 3:
                item.update_arg(0, norm)
            else:
                item.replace_all_uses_with(self.mean if slot == 3 else self.var)
                self.graph.erase_node(item)
        for backward in {user for slot in (1, 2) if slot in self.items for user in self.items[slot].users}:
            self._cudnn_backward(backward, kept)
        self.graph.erase_node(self.node)
        return norm

    def _cudnn_backward(self, node, reserve):
        grad, x, weight = node.args[:3]
        mean, invstd = node.args[5:7]
        like, value = x.meta["val"], grad.meta["val"]
        with self.graph.inserting_before(node):
            if value.stride() != like.stride():
                fmt = _torch.suggest_memory_format(like)
                grad = self.graph.call_function(aten.clone.default, (grad,), {"memory_format": fmt})
                with like.fake_mode:
                    grad.meta["val"] = torch.empty_like(like, dtype=value.dtype)
            new = self.graph.call_function(aten.cudnn_batch_norm_backward.default,
                                           (x, grad, weight, None, None, mean, invstd, self.eps, reserve))
        new.meta.update(node.meta)
        with like.fake_mode:
            new.meta["val"] = tuple(v if v is not None else torch.empty_like(like if i == 0 else weight.meta["val"])
                                    for i, v in enumerate(node.meta["val"]))
        new.meta[_geometry.FIXED] = True
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)

    # ---- two ops ----

    def _split(self, norm):
        wanted = [slot for slot in (0, 1, 2) if slot not in self.items]
        if wanted or not isinstance(self.weight, fx.Node) or not isinstance(self.bias, fx.Node):
            return False
        formula = formula_of(norm, self.eps)
        if formula is None:
            return False
        first, mean, invstd = (self.items[slot] for slot in (0, 1, 2))
        last = max((first, mean, invstd), key=self._place)
        like = first.meta["val"]
        with self.graph.inserting_after(last):
            again = self.graph.call_function(APPLY, (self.x, self.weight, self.bias, mean, invstd, self.eps, formula))
        again.meta.update({k: v for k, v in first.meta.items() if k != "val"})
        with like.fake_mode:
            again.meta["val"] = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
        again.meta[_geometry.FIXED] = True
        first.replace_all_uses_with(again)
        again.meta[FIRST] = norm
        norm.meta[FIRST] = again
        return True

    def _place(self, node):
        return next(i for i, n in enumerate(self.graph.nodes) if n is node)


def is_first(node):
    """Whether a node is the half of a norm that is never recomputed."""
    return FIRST in node.meta and node.target is not APPLY


def other_half(node):
    return node.meta.get(FIRST)


def is_dense(x):
    return x.is_contiguous(memory_format=_torch.suggest_memory_format(x))


def chooses_cudnn(x, weight, bias, mean, var, eps):
    """Whether eager execution uses cuDNN's norm. PyTorch's function takes no None for missing statistics; only whether
    both are there matters to it, and in training not even that."""
    if (mean is None) != (var is None):
        return False
    mean, var = (weight, weight) if mean is None else (mean, var)
    return _torch.eager_uses_cudnn(x, weight, bias, mean, var, eps)


def reserve_bytes(x):
    return _torch.cudnn_reserve_bytes(x)


# ---- whether both halves give the same bits ----

DRAWS = 6
_found: dict[tuple, int | None] = {}


def formula_of(norm, eps):
    """The formula with which `apply` gives the bits of the norm, or None; tested once per shape on the device."""
    value, weight = norm.args[0].meta["val"], norm.args[1].meta["val"]
    key = (norm.target, tuple(value.shape), value.stride(), value.dtype, weight.dtype, eps, str(value.device))
    if key not in _found:
        with real_tensors():
            try:
                _found[key] = _try_formulas(norm.target, value, weight, eps)
            except torch.OutOfMemoryError:
                return None
            except RuntimeError:
                _found[key] = None
    return _found[key]


def _try_formulas(target, value, weight, eps):
    """Tried on several draws whose mean is far from zero: near zero, formulas that subtract the mean in different places
    round in the same way. None if more than one is left, because then nothing tells which is right."""
    random = torch.Generator(value.device).manual_seed(1)
    ours = _kernels.takes(value) and _kernels.available()
    left = [*_kernels.FORMULAS] if ours else [ATEN]
    for draw in range(DRAWS):
        x, w, b = (torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
                   .normal_(mean, 1.0 + draw, generator=random) for like, mean in
                   ((value, 1.5 + draw), (weight, 1.0), (weight, 0.5)))
        arguments = [x, w, b, None, None] if target is CUDNN else [x, w, b]
        if target is _FUNCTIONAL:
            arguments += [torch.zeros_like(w), torch.ones_like(w)]
        y, mean, invstd = target(*arguments, True, 0.1, eps)[:3]
        expected = digest(y)[0]
        del y  # so that a trial needs no more memory than the norm
        left = [formula for formula in left if digest(APPLY(x, w, b, mean, invstd, eps, formula))[0] == expected]
        if not left:
            return None
    return left[0] if len(left) == 1 else None
