"""Random small programs as people write them: views, broadcasts, slices, diagonals, transposes, in-place ops, repeated
expressions, mixed types and layouts. A program is the source text of a function f(x, w, v), so that a failing one can
be read and run by hand."""

import torch

UNARY = ("torch.cos({a})", "torch.sin({a})", "torch.tanh({a})", "torch.relu({a})", "torch.sigmoid({a})",
         "F.gelu({a})", "F.silu({a})", "-{a}", "{a} * 0.5", "{a} + 1", "torch.exp(-{a}.abs())", "{a}.abs().sqrt()",
         "F.leaky_relu({a})", "torch.nan_to_num({a})", "{a}.clamp(-1, 1)", "1 / (1 + {a} * {a})", "F.elu({a})")
VIEWS = ("{a}.view(-1)", "{a}.reshape(-1)", "{a}.transpose(0, -1)", "{a}.flatten(0, 1)", "{a}[:1]", "{a}[:, :1]",
         "{a}[:, 1]", "{a}[..., ::2]", "{a}[1:]", "{a}[0]", "{a}.diagonal()", "{a}.unsqueeze(1)", "{a}.squeeze()",
         "{a}.narrow(0, 0, 1)", "{a}.split(1)[0]", "{a}.chunk(2, -1)[1]", "{a}.unbind(0)[-1]", "{a}.t()",
         "{a}.expand(3, *{a}.shape)", "{a}.mT", "{a}.unfold(-1, 2, 2)", "{a}.movedim(0, -1)", "{a}.expand_as({b})",
         "{a}.detach()", "{a}.view_as({b})", "{a}[:, None]", "{a}.swapaxes(0, 1)", "{a}.ravel()")
BINARY = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (1 + {b}.abs())", "torch.maximum({a}, {b})",
          "torch.where({a} > 0, {a}, {b})", "torch.addcmul({a}, {a}, {b})", "torch.lerp({a}, {b}, 0.3)",
          "torch.hypot({a}, {b})", "torch.atan2({a}, {b})", "{a}.add({b}, alpha=2)", "torch.rsub({a}, {b})")
OTHERS = ("{a}.sum(-1, keepdim=True)", "{a}.mean(0)", "torch.softmax({a}, -1)", "torch.cumsum({a}, 0)", "{a}.amax(-1)",
          "{a} @ w", "torch.cat(({a}, {a}), -1)", "torch.stack(({a}, {b}))", "{a}.clone()", "{a}.contiguous()",
          "F.layer_norm({a}, {a}.shape[-1:])", "{a}.flip(0)", "torch.tril({a})", "{a}.roll(1, 0)",
          "{a}.to(torch.bfloat16)", "{a}.to(torch.float64)", "{a}.float()", "F.pad({a}, (1, 1))", "{a}.t() @ {a}",
          "{a}.index_select(0, torch.tensor([0, 0]))", "F.dropout({a}, 0.3)", "torch.logsumexp({a}, 0)",
          "{a}.contiguous(memory_format=torch.channels_last)", "F.interpolate({a}, scale_factor=2, mode='bilinear')",
          "F.avg_pool2d({a}, 2)", "F.conv2d({a}, v)", "F.batch_norm({a}, None, None, training=True)",
          "torch.einsum('...i,...j->...ij', {a}, {a})", "torch.linalg.vector_norm({a}, dim=-1)")
INPLACE = ("{a}.mul_(0.5)", "{a}.add_({b})", "{a}.relu_()", "{a}[:, 0] = 0", "{a}[0].copy_({b})", "{a}.sub_({a}[:1])",
           "{a}.t_()", "{a}[..., :1] += 1", "{a}.fill_diagonal_(1)", "{a}.masked_fill_({a} > 0.5, 0)", "{a}.sigmoid_()")
MOST_ELEMENTS = 5000


def inputs(seed):
    """The tensors x, w and v of a program."""
    torch.manual_seed(seed)
    shape = ((4, 6), (6, 6), (3, 4, 6), (2, 3, 6, 6), (2, 6, 1, 1))[seed % 5]
    x = torch.randn(shape)
    if len(shape) == 4 and seed % 2:
        x = x.to(memory_format=torch.channels_last)
    return x, torch.randn(6, 6), torch.randn(shape[1] if len(shape) == 4 else 3, shape[1] if len(shape) == 4 else 3, 1, 1)


class _Draft:
    """Lines so far, and the values that they make; a line that PyTorch refuses is not taken."""

    def __init__(self, rng, given):
        import torch.nn.functional as F
        self.rng, self.lines, self.expressions = rng, [], []
        x, w, v = (t.clone() for t in given)
        self.values = {"torch": torch, "F": F, "x": x, "w": w, "v": v}
        self.names = ["h"]
        self.values["h"] = x * 1.5

    def add(self, line, name=None):
        before = {n: self.values[n].clone() for n in self.names}
        try:
            with torch.no_grad():
                exec(line, self.values)
            value = self.values[name or self.names[0]]
            ok = isinstance(value, torch.Tensor) and value.is_floating_point() and 0 < value.numel() <= MOST_ELEMENTS
            ok = ok and bool(torch.isfinite(value).all()) and value.dim() <= 5
        except Exception:
            ok = False
        if not ok:
            self.values.update(before)
            return
        self.lines.append(line)
        if name and name not in self.names:
            self.names.append(name)

    def draw(self):
        kind = self.rng.random()
        if kind < 0.15 and self.expressions:  # the same expression again, perhaps of changed values
            expression = self.rng.choice(self.expressions)
        elif kind < 0.23:
            changed = self.rng.choice(INPLACE).format(a=self._name(), b=self._name())
            return self.add(changed)
        else:
            forms = self.rng.choice((UNARY, VIEWS, VIEWS, BINARY, BINARY, OTHERS))
            expression = self.rng.choice(forms).format(a=self._name(), b=self._name())
        self.expressions.append(expression)
        self.add(f"h{len(self.lines)} = {expression}", f"h{len(self.lines)}")

    def _name(self):
        return self.rng.choice(self.names[-4:])


def source(rng, given, length=12):
    """The text of a program that PyTorch takes: its result is a number that most values go into."""
    draft = _Draft(rng, given)
    for _ in range(length * 4):
        if len(draft.lines) < length:
            draft.draw()
    used = rng.sample(draft.names, min(len(draft.names), 4)) + draft.names[-1:]
    loss = " + ".join(f"({name} * {name}).float().mean()" for name in dict.fromkeys(used))
    return "\n    ".join(["def f(x, w, v):", "h = x * 1.5", *draft.lines, f"return {loss}"]) + "\n"


def function(text):
    import torch.nn.functional as F
    names = {"torch": torch, "F": F}
    exec(text, names)
    return names["f"]
