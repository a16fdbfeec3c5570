"""Random small programs as people write them: views, broadcasts, slices, diagonals, transposes, expands, in-place ops,
repeated expressions, mixed types and layouts, several results, inputs that alias or change. A program is the source
text of a function, so that a failing one can be read and run by hand.

Its arguments: x, w, v, y have gradients (y is a view of other memory, not contiguous); s and u are buffers, which the
program may change, and t is a view of s; n are integers and m is a mask of x's shape."""

import torch
import torch.nn.functional as F

UNARY = ("torch.cos({a})", "torch.sin({a})", "torch.tanh({a})", "torch.relu({a})", "torch.sigmoid({a})", "F.gelu({a})",
         "F.silu({a})", "-{a}", "{a} * 0.5", "{a} + 1", "torch.exp(-{a}.abs())", "{a}.abs().sqrt()",
         "F.leaky_relu({a})", "torch.nan_to_num({a})", "{a}.clamp(-1, 1)", "1 / (1 + {a} * {a})", "F.elu({a})",
         "F.softplus({a})", "F.hardtanh({a})", "{a}.masked_fill({a} > 1, 0)", "{a}.square()", "{a}.sign() * {a}",
         "F.mish({a})", "{a} * {a}", "{a} + {a}", "{a} - {a}.detach()", "torch.rsqrt(1 + {a} * {a})", "{a} * s.mean()")
VIEWS = ("{a}.view(-1)", "{a}.reshape(-1)", "{a}.transpose(0, -1)", "{a}.flatten(0, 1)", "{a}[:1]", "{a}[:, :1]",
         "{a}[:, 1]", "{a}[..., ::2]", "{a}[1:]", "{a}[0]", "{a}.diagonal()", "{a}.unsqueeze(1)", "{a}.squeeze()",
         "{a}.narrow(0, 0, 1)", "{a}.split(1)[0]", "{a}.chunk(2, -1)[1]", "{a}.unbind(0)[-1]", "{a}.t()",
         "{a}.expand(3, *{a}.shape)", "{a}.mT", "{a}.unfold(-1, 2, 2)", "{a}.movedim(0, -1)", "{a}.expand_as({b})",
         "{a}.detach()", "{a}.view_as({b})", "{a}[:, None]", "{a}.swapaxes(0, 1)", "{a}.ravel()",
         "{a}.unfold(0, 2, 1)", "{a}.as_strided((2, 3), (1, 2))", "{a}.as_strided((3, 3), (1, 1), 1)",
         "{a}.as_strided((4, 2), (0, 1))", "{a}.unflatten(-1, (2, -1))", "{a}.select(-1, -1)",
         "{a}.view(*{a}.shape[:-1], 1, -1)", "{a}.squeeze(-1)", "{a}[..., None].expand(*{a}.shape, 2)",
         "torch.broadcast_to({a}, (2, *{a}.shape))", "{a}.diagonal(1, 0, -1)", "{a}.permute(*range({a}.dim())[::-1])",
         "{a}[..., 1:-1]", "{a}[..., :1].expand_as({a})", "{a}.view(2, -1)",
         "torch.view_as_real(torch.view_as_complex({a}.unflatten(-1, (-1, 2))).conj())", "{a}.unsafe_chunk(2)[0]",
         "{a}.tensor_split(2, -1)[0]", "{a}[..., -1:]", "{a}.T", "{a}.adjoint()")
BINARY = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (1 + {b}.abs())", "torch.maximum({a}, {b})",
          "torch.where({a} > 0, {a}, {b})", "torch.addcmul({a}, {a}, {b})", "torch.lerp({a}, {b}, 0.3)",
          "torch.hypot({a}, {b})", "torch.atan2({a}, {b})", "{a}.add({b}, alpha=2)", "torch.rsub({a}, {b})",
          "{a} + {b}[:1]", "{a} * {b}[..., :1]", "{a} - {b}.mean(-1, keepdim=True)", "{b} * {a}.t()", "{a} * x",
          "{a} + y", "{a} * m", "torch.where(m, {a}, {b})", "{a} @ {b}.mT", "{a} + {b}.to({a}.dtype)", "{a} * s",
          "torch.add({a}, {b}.diagonal())", "F.mse_loss({a}, {b}, reduction='none')", "torch.outer({a}, {b})",
          "torch.cat(({a}, {b}))", "torch.addmm({a}, {b}, w)", "F.smooth_l1_loss({a}, {b})", "torch.dot({a}, {b})")
# PyTorch's median reads what lies behind a tensor that is expanded.
OTHERS = ("{a}.sum(-1, keepdim=True)", "{a}.mean(0)", "torch.softmax({a}, -1)", "torch.cumsum({a}, 0)", "{a}.amax(-1)",
          "{a} @ w", "torch.cat(({a}, {a}), -1)", "torch.stack(({a}, {b}))", "{a}.clone()", "{a}.contiguous()",
          "F.layer_norm({a}, {a}.shape[-1:])", "{a}.flip(0)", "torch.tril({a})", "{a}.roll(1, 0)",
          "{a}.to(torch.bfloat16)", "{a}.to(torch.float64)", "{a}.float()", "F.pad({a}, (1, 1))", "{a}.t() @ {a}",
          "{a}.index_select(0, n)", "F.dropout({a}, 0.3)", "torch.logsumexp({a}, 0)", "{a}.to(x.dtype)",
          "{a}.contiguous(memory_format=torch.channels_last)", "F.interpolate({a}, scale_factor=2, mode='bilinear')",
          "F.avg_pool2d({a}, 2)", "F.conv2d({a}, v)", "F.batch_norm({a}, None, None, training=True)",
          "torch.einsum('...i,...j->...ij', {a}, {a})", "torch.linalg.vector_norm({a}, dim=-1)", "F.linear({a}, w)",
          "F.batch_norm({a}, s, u, training=True)", "F.batch_norm({a}, s, u, u, s, training=True, momentum=0.3)",
          "F.batch_norm({a}, s, 1 + u * u)", "F.conv2d({a}, v, padding=1)", "F.conv_transpose2d({a}, v, stride=2)",
          "F.max_pool2d({a}, 2)", "F.adaptive_avg_pool2d({a}, 1)", "F.group_norm({a}, 1)", "F.instance_norm({a})",
          "{a}.gather(-1, {a}.argsort(-1))", "{a}[n]", "{a}[n, n]", "{a}[..., n]", "F.embedding(n, {a})",
          "F.embedding_bag(n[None], {a})", "{a}.scatter(0, n[None].expand_as({a}[:1]), {a}[:1] * 2)",
          "{a}.sort(-1)[0]", "{a}.index_put((n,), {a}[:1], accumulate=True)", "{a}.index_add(0, n, {a}[:2])",
          "{a}.topk(2, -1)[0]", "{a}.scatter_add(0, n[None].expand_as({a}[:1]), {b}[:1])", "{a}.max(-1)[0]",
          "{a}.contiguous().median(0)[0]", "{a}.prod(-1)", "torch.diag_embed({a})", "{a}.repeat(2, *[1] * ({a}.dim() - 1))",
          "{a}.repeat_interleave(2, 0)", "{a}.cummax(0)[0]", "torch.fft.rfft({a}).abs()", "torch.fft.fft({a}).real",
          "(torch.complex({a}, {a}) * 1j).imag", "{a}.var(-1)", "F.cross_entropy({a}, n[:1].expand({a}.shape[0]))",
          "F.scaled_dot_product_attention({a}, {a}, {a})", "torch.bmm({a}, {a}.mT)", "{a}.softmax(0).log()",
          "F.normalize({a}, dim=-1)", "torch.triu({a}, 1)", "{a}.std()", "F.unfold({a}, 2)",
          "F.pixel_shuffle({a}.repeat(1, 4, 1, 1), 2)", "F.grid_sample({a}, {a}[:, :1, :, :2])",
          "{a}.to(memory_format=torch.channels_last) * 2", "torch.randn_like({a}) * {a}",
          "{a}.new_zeros(3) + {a}.sum()", "torch.rand({a}.shape) + {a}", "F.alpha_dropout({a}, 0.2, True)",
          "torch.zeros_like({a}).copy_({a})", "{a}.T.contiguous()", "{a}.log_softmax(-1)", "F.prelu({a}, w[0, :1])",
          "{a}.half().float()", "{a}.int() * {a}", "torch.cdist({a}, {a})", "F.glu({a})", "{a}.tile(2)",
          "torch.kron({a}, {a}[:1])")
INPLACE = ("{a}.mul_(0.5)", "{a}.add_({b})", "{a}.relu_()", "{a}[:, 0] = 0", "{a}[0].copy_({b})", "{a}.sub_({a}[:1])",
           "{a}.t_()", "{a}[..., :1] += 1", "{a}.fill_diagonal_(1)", "{a}.masked_fill_({a} > 0.5, 0)",
           "{a}.sigmoid_()", "{a}.diagonal().add_(1)", "{a}.view(-1)[::2].mul_(2)", "{a}.index_put_((n,), {b}[:1])",
           "{a}.zero_()", "{a}[{a} > 1] = 0", "{a}.scatter_(0, n[None].expand_as({a}[:1]), 0.5)", "{a}.copy_({b})",
           "{a}.T.mul_({a})", "{a}.addcmul_({a}, {b})", "{a}.clamp_(-1, 1)", "{a}.squeeze_()", "{a}.unsqueeze_(0)",
           "{a}.lerp_({b}, 0.2)", "F.relu({a}, inplace=True)", "F.dropout({a}, 0.3, inplace=True)",
           "{a}.transpose_(0, -1)", "{a}[1:] += {a}[:-1]", "s.mul_(0.9)", "s.add_({a}.detach().mean())", "t.add_(1)",
           "u.copy_(s)", "u.lerp_(s, 0.1)", "n.add_(0)", "{a}[n] = 0", "{a}.expand(2, *{a}.shape)[0].mul_(2)",
           "{a}.flatten()[1:].tanh_()", "{a}.swapaxes_(0, 1)", "{a}.exp_()")
MOST_ELEMENTS = 5000
ARGUMENTS = ("x", "w", "v", "y", "s", "u", "t", "n", "m")
LEARNED = ("x", "w", "v", "y")  # with gradients


def inputs(seed):
    """The arguments of a program, in the order of ARGUMENTS."""
    torch.manual_seed(seed)
    shape = ((4, 6), (6, 6), (3, 4, 6), (2, 3, 6, 6), (2, 6, 1, 1), (1, 6), (2, 1, 6), (2, 4, 5, 6))[seed % 8]
    x, y = torch.randn(shape), torch.randn(2, *shape)
    if len(shape) == 4 and seed // 8 % 2:
        x = x.to(memory_format=torch.channels_last)
    y = (y[1], y.movedim(0, -1)[..., 0], torch.randn(shape[::-1]).permute(*range(len(shape))[::-1]))[seed // 16 % 3]
    channels = shape[1]
    s, u = torch.rand(channels), torch.rand(channels)
    v = torch.randn(channels, channels, 1, 1) if len(shape) == 4 else torch.randn(3, 3, 1, 1)
    t = (s[:2], s.view(1, -1), s[None], s)[seed // 8 % 4]
    return x, torch.randn(6, 6), v, y, s, u, t, torch.tensor([0, 1 % shape[0]]), x.detach() > 0


def moved(tensors, by):
    """Copies in one storage, one behind the other, all of them so many elements behind its beginning."""
    extents = [1 + sum((n - 1) * step for n, step in zip(t.shape, t.stride())) for t in tensors]
    memory = torch.zeros(by + sum(extents), dtype=tensors[0].dtype, device=tensors[0].device)
    places = [by + sum(extents[:i]) for i in range(len(tensors))]
    found = [memory.as_strided(t.shape, t.stride(), place) for t, place in zip(tensors, places)]
    for new, tensor in zip(found, tensors):
        new.copy_(tensor)
    return found


def _replica(tensor, known):
    storage = tensor.untyped_storage()
    if storage._cdata not in known:
        new = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        new.set_(storage.clone(), tensor.storage_offset(), tensor.shape, tensor.stride())
        known[storage._cdata] = new, storage
    return known[storage._cdata][0].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()) \
        if known[storage._cdata][0].dtype == tensor.dtype else tensor.clone()


def replicas(tensors):
    """Copies that lie in storages of the same sizes at the same places; shared storages are shared."""
    known = {}
    return [_replica(t.detach(), known) if isinstance(t, torch.Tensor) else t for t in tensors]


class _Draft:
    """Lines so far, and the values that they make; a line that PyTorch refuses is not taken."""

    def __init__(self, rng, given):
        self.rng, self.lines, self.expressions = rng, [], []
        self.values = {"torch": torch, "F": F, **dict(zip(ARGUMENTS, replicas(given)))}
        self.names = ["h"]
        self.values["h"] = self.values["x"] * 1.5

    def add(self, line, name=None):
        before = {n: self.values[n].clone() for n in self.names + ["s", "u", "t"]}
        try:
            with torch.no_grad():
                exec(line, self.values)
            value = self.values[name or self.names[0]]
            ok = isinstance(value, torch.Tensor) and value.is_floating_point() and 0 < value.numel() <= MOST_ELEMENTS
            ok = ok and bool(torch.isfinite(value).all()) and value.dim() <= 5 and not self._leaves_storage(line)
        except Exception:
            ok = False
        if not ok:
            self.values.update(before)
            return
        self.lines.append(line)
        if name and name not in self.names:
            self.names.append(name)

    def _leaves_storage(self, line):
        """Whether a line reads what lies behind a number, which some losses leave there, and not always the same."""
        return ".as_strided(" in line and self.values[line.split(" = ")[1].split(".as_strided(")[0]].dim() == 0

    def draw(self):
        kind = self.rng.random()
        if kind < 0.15 and self.expressions:  # the same expression again, perhaps of changed values
            expression = self.rng.choice(self.expressions)
        elif kind < 0.27:
            changed = self.rng.choice(INPLACE).format(a=self._name(), b=self._name())
            return self.add(changed)
        else:
            forms = self.rng.choice((UNARY, VIEWS, VIEWS, BINARY, BINARY, OTHERS, OTHERS))
            expression = self.rng.choice(forms).format(a=self._name(), b=self._name())
        self.expressions.append(expression)
        self.add(f"h{len(self.lines)} = {expression}", f"h{len(self.lines)}")

    def _name(self):
        return self.rng.choice(self.names[-4:])

    def results(self):
        """What is returned: a number that most values go into, and sometimes values, which may be views of each
        other or of inputs."""
        used = self.rng.sample(self.names, min(len(self.names), 4)) + self.names[-1:]
        loss = " + ".join(f"({name} * {name}).float().mean()" for name in dict.fromkeys(used))
        if self.rng.random() < 0.5:
            return loss
        beside = [self.rng.choice((self._name(), f"{self._name()}[:1]", f"{self._name()}.detach()", "x[:1]", "y.t()", "s",
                                   "t", "m", "n + 1", "h.view(-1)", "x", "w.detach()", self.names[-1]))
                  for _ in range(self.rng.randint(1, 3))]
        return ", ".join([loss, *beside])


def source(rng, given, length=12):
    """The text of a program that PyTorch takes."""
    draft = _Draft(rng, given)
    for _ in range(length * 4):
        if len(draft.lines) < length:
            draft.draw()
    head = f"def f({', '.join(ARGUMENTS)}):"
    return "\n    ".join([head, "h = x * 1.5", *draft.lines, f"return {draft.results()}"]) + "\n"


def function(text):
    names = {"torch": torch, "F": F}
    exec(text, names)
    names["f"].text = text
    return names["f"]
