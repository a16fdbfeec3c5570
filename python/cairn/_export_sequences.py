"""Rules of cairn.export for what transformers are made of.

Views and transpositions are not looked at one by one. The op is run on the places of the elements instead, and an
attention compares the places that it gets with those that Cairn's layers give. So it does not matter how a model
writes it. A rotary embedding is compared in the same way: by its places and its factors.
"""

import math
import operator

import torch

from ._export_capture import Formula, Known, Layer, Moved, Refused, Table, Token, aten, argument, is_transposed

# ---- Movement ----


def _moved(to, node):
    """The value of a node as moved elements."""
    value = to.values[node]
    if isinstance(value, Moved):
        return value
    name = to.plain(node)
    shape = list(node.meta["val"].shape)
    return Moved(name, [(torch.arange(math.prod(shape)).reshape(shape), None)])


def _squeezed(to, node):
    """The name of a parameter that is the same for every image of a batch; it loses its dimensions of length 1."""
    name, (role, tensor) = to.weight(node), to.network.tensors[to.weight(node)]
    while tensor.dim() > 1 and tensor.shape[0] == 1:
        tensor = tensor[0]
    to.network.in_file.setdefault(name, {name: to.network.tensors[name][1]})  # as files have it
    to.network.tensors[name] = (role, tensor)
    return name


def _repeated(to, node):
    """A parameter [1, 1, D] that is expanded to [N, 1, D]."""
    x = argument(node, 0)
    if x not in to.weights:
        _move(to, node)
        return
    size = list(x.meta["val"].shape)
    if size[:-1] != [1, 1] or list(node.meta["val"].shape)[1:] != size[1:]:
        raise Refused("a parameter that is expanded, and no class token [1, 1, D]")
    to.values[node] = Token(_squeezed(to, x))


def _put_before(to, node, token, rest):
    """A class token before the pixels of an image: one layer."""
    value = to.values[rest]
    source = to.shape_of[value.source] if isinstance(value, Moved) else []
    whole = torch.arange(math.prod(source)).reshape(source)
    if len(source) != 4 or len(value.terms) > 1 or value.terms[0][1] is not None or not torch.equal(
            value.terms[0][0], whole.flatten(2).transpose(1, 2)):
        raise Refused("a parameter that is put before other tokens than the pixels of an image")
    to.values[node] = to.add(node, "image_tokens", [value.source], [token.weight],
                             shape=list(node.meta["val"].shape))


def _move(to, node):
    x = argument(node, 0)
    if isinstance(to.values[x], Table):
        to.values[node] = to.values[x]  # one row a token, whatever the dimensions before it
        return
    if isinstance(to.values[x], list):  # of a split
        to.values[node] = to.values[x][node.args[1]]
        return
    value = _moved(to, x)
    if isinstance(node.meta["val"], (list, tuple)):
        split = [to.compute(node, lambda _, t=t: t) for pair in value.terms for t in pair if t is not None]
        if any(factors is not None for _, factors in value.terms):
            raise Refused("a split of a sum")
        to.values[node] = [Moved(value.source, [(place, None)]) for place in split[0]]
    else:
        to.values[node] = value.map(lambda t: to.compute(node, lambda _: t.contiguous()))  # views need that


def _cat(to, node):
    values = [to.values[x] for x in argument(node, 0)]
    if len(values) == 2 and isinstance(values[0], Token) and argument(node, 1, 0) in (1, -2):
        _put_before(to, node, values[0], argument(node, 0)[1])
        return
    if all(isinstance(v, Moved) and len(v.terms) == 1 for v in values) and len({v.source for v in values}) == 1:
        join = torch.stack if node.target is aten.stack.default else torch.cat
        places = join([v.terms[0][0] for v in values], argument(node, 1, 0))
        factors = join([torch.ones(v.terms[0][0].shape) if v.terms[0][1] is None else v.terms[0][1]
                        for v in values], argument(node, 1, 0))
        to.values[node] = Moved(values[0].source, [(places, factors)])
        return
    if node.target is aten.stack.default or argument(node, 1, 0) % 4 != 1 or node.meta["val"].dim() != 4:
        raise Refused("a concatenation that is not along the channels of images")
    to.values[node] = to.add(node, "concat", argument(node, 0))


def resolve_moved(to, node, value):
    """The tensor that moved elements are, by a layer that moves them if Cairn has one."""
    shape, source = list(node.meta["val"].shape), to.shape_of[value.source]
    places, factors = value.terms[0]
    whole = torch.arange(math.prod(source)).reshape(source)
    if len(value.terms) > 1 or factors is not None:
        raise Refused("a sum of moved elements that is no rotary embedding of an attention")
    if torch.equal(places.flatten(), whole.flatten()):
        if shape[-1] == source[-1]:
            return value.source
        if len(shape) == 2 and shape[0] == source[0]:
            return to.add(node, "flatten", [value.source], shape=shape)
    if len(source) == 3 and len(shape) == 2:
        for index in {0, source[1] - 1}:
            if torch.equal(places, whole[:, index]):
                return to.add(node, "select_token", [value.source], shape=shape, index=index)
    if len(source) == 4 and len(shape) == 3 and torch.equal(places, whole.flatten(2).transpose(1, 2)):
        return to.add(node, "image_tokens", [value.source], shape=shape)
    raise Refused(f"elements of {value.source} {source}, moved to {shape} as no layer does")


def resolve_token(to, node, value):
    raise Refused(f"{value.weight}, which is not put before the tokens of an image")


def resolve_table(to, node, value):
    raise Refused(f"rows of {value.weight} that are not added to embeddings of tokens")


def _same(to, node):
    to.values[node] = to.values[argument(node, 0)]


def _converted(to, node):
    if node.meta["val"].dtype != argument(node, 0).meta["val"].dtype:
        raise Refused(f"a conversion to {node.meta['val'].dtype}")
    _same(to, node)


# ---- Arithmetic ----


def _source(to, node):
    """The one tensor that a value is made of; None: there are several, or it is something else."""
    value = to.values[node]
    if isinstance(value, Moved):
        try:
            return to.plain(node)
        except Refused:
            return None
    return value if isinstance(value, str) else value.source if isinstance(value, Formula) else None


def _formula(to, node):
    sources = {_source(to, x) for x in node.all_input_nodes if not isinstance(to.values[x], Known)}
    if len(sources) != 1 or None in sources or any(x in to.weights for x in node.all_input_nodes):
        raise Refused("arithmetic on several tensors that is no layer of Cairn")
    to.values[node] = Formula(sources.pop(), node)


def _evaluate(to, formula, x):
    """The formula for a tensor x in place of its source."""
    known = {}

    def value_of(node):
        value = to.values[node]
        if isinstance(value, Known):
            return value.value.double() if torch.is_tensor(value.value) else value.value
        return run(value.node) if isinstance(value, Formula) else x

    def run(node):
        if node not in known:
            known[node] = to.compute(node, value_of)
        return known[node]

    return run(formula.node)


def _numbers(to, formula):
    """The numbers that are added in a formula: one of them may be an epsilon."""
    found, seen, todo = set(), set(), [formula.node]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.target is aten.add.Tensor and isinstance(argument(node, 1), float):
            found.add(argument(node, 1))
        todo += [to.values[x].node for x in node.all_input_nodes if isinstance(to.values[x], Formula)]
    return found


def _is(to, formula, function):
    shape = to.shape_of[formula.source]
    x = torch.linspace(-4, 4, math.prod(shape[:-1]) * shape[-1], dtype=torch.float64).reshape(shape)
    return torch.allclose(_evaluate(to, formula, x), function(x), rtol=1e-9, atol=1e-9)


_ACTIVATIONS: tuple = (
    ("gelu", {"tanh": 1}, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    ("gelu", {}, torch.nn.functional.gelu),
    ("silu", {}, torch.nn.functional.silu),
    ("relu", {}, torch.relu),
)


def resolve_formula(to, node, value):
    for kind, attributes, function in _ACTIVATIONS:
        if _is(to, value, function):
            return to.add(node, kind, [value.source], **attributes)
    operands = value.node.all_input_nodes
    if value.node.target in (aten.add.Tensor, aten.mul.Tensor) and len(operands) == 2:
        return to.add(node, "add" if value.node.target is aten.add.Tensor else "multiply", operands)
    names = ", ".join(sorted(_names(to, value)))
    raise Refused(f"arithmetic on {value.source} that is no layer of Cairn: {names}")


def _names(to, formula):
    """The ops of a formula."""
    inside = [to.values[x] for x in formula.node.all_input_nodes]
    return {str(formula.node.target)}.union(*(_names(to, value) for value in inside if isinstance(value, Formula)))


def _epsilon(to, formula):
    """The epsilon with which a formula is x / root mean square of x; None: it is something else."""
    for epsilon in _numbers(to, formula):
        if _is(to, formula, lambda x, e=epsilon: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + e)):
            return epsilon
    return None


def _multiply(to, node):
    a, b = argument(node, 0), argument(node, 1)
    if isinstance(a, torch.fx.Node) and isinstance(b, torch.fx.Node):
        if b in to.weights and a not in to.weights:
            a, b = b, a
        left, right = to.values[a], to.values[b]
        if a in to.weights and isinstance(right, Formula):
            epsilon = _epsilon(to, right)
            if epsilon is None:
                raise Refused("a product with a parameter that is no norm")
            to.values[node] = to.add(node, "rms_norm", [right.source], [to.weight(a)], epsilon=epsilon)
            return
        if isinstance(left, Known):
            a, b, left, right = b, a, right, left
        if isinstance(left, Moved) and isinstance(right, Known):
            table = right.value.expand(left.terms[0][0].shape)
            to.values[node] = Moved(left.source, [(i, table if f is None else f * table) for i, f in left.terms])
            return
        if a is not b and (isinstance(left, str) or isinstance(right, str)) and _source(to, a) != _source(to, b):
            _check_shapes(a, b)
            to.values[node] = to.add(node, "multiply", [a, b])
            return
    _formula(to, node)


def _check_shapes(a, b):
    if a.meta["val"].shape != b.meta["val"].shape:
        raise Refused("tensors of different shapes")


def _negative(to, node):
    value = to.values[argument(node, 0)]
    if isinstance(value, Moved):
        to.values[node] = Moved(value.source, [(i, -torch.ones(i.shape) if f is None else -f) for i, f in value.terms])
    else:
        _formula(to, node)


def _add(to, node):
    a, b = argument(node, 0), argument(node, 1)
    if argument(node, 2, 1) != 1:
        raise Refused("an addition with a factor")
    if not isinstance(b, torch.fx.Node):
        _formula(to, node)
        return
    if isinstance(to.values[a], Table) or a in to.weights:
        a, b = b, a
    if b in to.weights:  # the positions of an image's tokens
        positions, tokens = list(b.meta["val"].shape), list(a.meta["val"].shape)
        if len(tokens) != 3 or positions != [1, *tokens[1:]]:
            raise Refused("an addition of a parameter that is not one row for each token")
        to.values[node] = to.add(node, "add_positions", [a], [_squeezed(to, b)])
        return
    left, right = to.values[a], to.values[b]
    if isinstance(right, Table):
        to.values[node] = to.add(node, "add_positions", [a], [right.weight],
                                 **({"same_row": 1} if right.same_row else {}))
    elif isinstance(left, Moved) and isinstance(right, Moved) and left.source == right.source:
        to.values[node] = Moved(left.source, left.terms + right.terms)
    elif isinstance(left, Known) or isinstance(right, Known) or (
            (isinstance(left, Formula) or isinstance(right, Formula)) and _source(to, a) == _source(to, b)):
        _formula(to, node)
    else:
        _check_shapes(a, b)
        to.values[node] = to.add(node, "add", [a, b])


# ---- Layers ----


def _moved_rows(to, node):
    """The tensor whose whole rows a value has in another order, and for each of them its place there; None: it is
    something else."""
    value = to.values[node]
    if not isinstance(value, Moved) or len(value.terms) > 1 or value.terms[0][1] is not None:
        return None
    places, wide = value.terms[0][0], to.shape_of[value.source][-1]
    rows = places[..., 0] // wide
    whole = rows[..., None] * wide + torch.arange(wide)
    complete = rows.numel() * wide == math.prod(to.shape_of[value.source])
    return (value.source, rows) if complete and whole.shape == places.shape and torch.equal(places, whole) else None


def _linear(to, node):
    x, weight, bias = (argument(node, place) for place in range(3))
    params = [to.weight(param) for param in (weight, bias) if param is not None]
    features = weight.meta["val"].shape[0]
    name = params[0].removesuffix("_weight")  # in_proj_weight of nn.MultiheadAttention
    moved = _moved_rows(to, x)
    if moved is None:
        shape = [*to.shape_of[to.plain(x)][:-1], features]
        to.values[node] = to.add(node, "linear", [x], params, shape=shape, name=name)
        return
    source, rows = moved  # a layer on the rows as they lie; its result has them in the same order
    made = to.add(node, "linear", [source], params, shape=[*to.shape_of[source][:-1], features], name=name)
    to.values[node] = Moved(made, [(rows[..., None] * features + torch.arange(features), None)])


def _conv1d(to, node):
    """GPT-2's layer: its weight is [in, out], in files too."""
    bias, x, weight = argument(node, 0), argument(node, 1), argument(node, 2)
    name = to.weight(weight)
    if not is_transposed(name) or argument(node, 3, 1) != 1 or argument(node, 4, 1) != 1:
        raise Refused("a product with a weight [in, out]; use a linear layer")
    role, tensor = to.network.tensors[name]
    to.network.in_file[name] = {name: tensor}
    to.network.tensors[name] = (role, tensor.t())
    shape = [*to.shape_of[to.plain(x)][:-1], tensor.shape[1]]
    to.values[node] = to.add(node, "linear", [x], [name, to.weight(bias)], shape=shape)


def _layer_norm(to, node):
    x, sizes, weight, bias = (argument(node, place) for place in range(4))
    if weight is None or len(sizes) != 1:
        raise Refused("no weight, or several dimensions")
    params = [to.weight(param) for param in (weight, bias) if param is not None]
    to.values[node] = to.add(node, "layer_norm", [x], params, epsilon=argument(node, 4, 1e-5))


def _rms_norm(to, node):
    x, sizes, weight, epsilon = (argument(node, place) for place in range(4))
    if weight is None or len(sizes) != 1 or epsilon is None:
        raise Refused("no weight or epsilon, or several dimensions")
    to.values[node] = to.add(node, "rms_norm", [x], [to.weight(weight)], epsilon=epsilon)


def _gelu(to, node):
    kind = argument(node, 1, "none")
    to.values[node] = to.add(node, "gelu", [argument(node, 0)], **({"tanh": 1} if kind == "tanh" else {}))


def _silu(to, node):
    to.values[node] = to.add(node, "silu", [argument(node, 0)])


def _embedding(to, node):
    weight, tokens = argument(node, 0), argument(node, 1)
    name = to.weight(weight)
    if isinstance(to.values[tokens], Known):
        rows = to.values[tokens].value
        count = rows.shape[-1]
        if torch.equal(rows, torch.arange(count).expand(rows.shape)):
            to.values[node] = Table(name, False)
        elif not rows.any():
            to.values[node] = Table(name, True)
        else:
            raise Refused("rows of a table that are not 0, 1, 2, ...")
        return
    shape = [*to.shape_of[to.plain(tokens)], weight.meta["val"].shape[1]]
    to.values[node] = to.add(node, "embedding", [tokens], [name], shape=shape)


# ---- Attention ----


def _is_causal(to, mask, causal):
    """Whether a token sees itself and those before it; if not, it sees all."""
    if mask is None:
        return bool(causal)
    if not isinstance(to.values[mask], Known):
        raise Refused("a mask that is computed from the input")
    table = to.values[mask].value
    sees = table if table.dtype is torch.bool else table == 0
    if sees.all():
        return False
    if not torch.equal(sees, torch.ones_like(sees).tril()):
        raise Refused("a mask that is neither causal nor empty")
    return True


def _angles(terms, places):
    """The angle of each pair of elements, per token; None: nothing is rotated."""
    if len(terms) == 1 and terms[0][1] is None and torch.equal(terms[0][0], places):
        return None
    half = places.shape[-1] // 2
    swapped = torch.cat([places[..., half:], places[..., :half]], -1)
    if len(terms) != 2 or any(factors is None for _, factors in terms):
        raise Refused("queries, keys or values that are no whole heads of linear layers")
    (first, cosine), (second, sine) = sorted(terms, key=lambda term: not torch.equal(term[0], places))
    cosine, sine = cosine.double(), sine.double()
    even = torch.allclose(cosine[..., half:], cosine[..., :half]) and torch.allclose(sine[..., half:], -sine[..., :half])
    same = cosine.eq(cosine[:1, :1]).all() and sine.eq(sine[:1, :1]).all()
    if not (torch.equal(first, places) and torch.equal(second, swapped) and even and same):
        raise Refused("a rotary embedding of another form than Llama's")
    return torch.atan2(sine[0, 0, :, half:], cosine[0, 0, :, half:])


def _rounded(x):
    """A number that people wrote, from what was computed of it in 32 bits."""
    short = float(f"{x:.4g}")
    return short if abs(x - short) < 1e-4 * x else x


def _rotary(angles):
    """theta and scaling of the angles of a table."""
    tokens, half = angles.shape
    if tokens < 2 or half < 2:
        raise Refused("a rotary embedding of one token or of two elements, which does not show its theta")
    speed = angles[1]
    theta = _rounded(float(speed[1]) ** -half)
    plain = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    scaling = _rounded(float(plain[-1] / speed[-1]))
    if scaling != 1:  # as in Llama 3.1
        turns = 8192 * plain / (2 * math.pi)
        share = ((turns - 1) / 3).clamp(0, 1)
        plain = plain * (share + (1 - share) / scaling)
    expected = torch.arange(tokens, dtype=torch.float64)[:, None] * plain
    if not torch.allclose(torch.polar(torch.ones_like(expected), expected),
                          torch.polar(torch.ones_like(angles), angles), rtol=0, atol=1e-3):
        raise Refused("a rotary embedding of another form than Llama's")
    return {"theta": theta, **({"scaling": scaling} if scaling != 1 else {})}


def _heads(places, count, repeats, size):
    """Heads [N, count * repeats, T, size] of places [N, T, count * size]."""
    n, tokens = places.shape[:2]
    return places.reshape(n, tokens, count, size).transpose(1, 2).repeat_interleave(repeats, 1)


def _join(to, node, sources):
    """One linear layer for queries, keys and values in place of three."""
    layers = [next((layer for layer in to.network.layers if layer.name == name), None) for name in sources]
    if any(layer is None or layer.kind != "linear" for layer in layers):
        raise Refused("queries, keys and values that are no linear layers")
    readers = [layer for layer in to.network.layers if set(layer.inputs) & set(sources)]
    if readers or len({layer.inputs[0] for layer in layers}) > 1 or len({len(layer.params) for layer in layers}) > 1:
        raise Refused("queries, keys and values of different tensors, with and without bias, or that are read twice")
    outer, names = sources[0].rpartition(".")[0], [name.rpartition(".")[2] for name in sources]
    known = {("q_proj", "k_proj", "v_proj"): "qkv_proj", ("query", "key", "value"): "qkv"}
    name = ".".join(filter(None, [outer, known.get(tuple(names), "_".join(names))]))
    params = []
    for suffix, group in zip(("weight", "bias"), zip(*(layer.params for layer in layers), strict=True), strict=False):
        tensors = {param: to.network.tensors[param][1] for param in group}
        params.append(f"{name}.{suffix}")
        to.network.tensors[params[-1]] = ("parameter", torch.cat(list(tensors.values())))
        if tuple(names) in known:
            to.network.in_file[params[-1]] = tensors  # as files have it
    shape = [*layers[0].shape[:-1], sum(layer.shape[-1] for layer in layers)]
    place = min(to.network.layers.index(layer) for layer in layers)
    to.network.layers[:] = [layer for layer in to.network.layers if layer not in layers]
    to.network.layers.insert(place, Layer(name, "linear", layers[0].inputs, shape, params))
    to.shape_of[name] = shape
    to.taken.add(name)
    return name


def _packed_places(to, values, heads, size):
    """The heads of keys and values, and the places that queries, keys and values should have."""
    sources = [value.source for value in values]
    widths = [to.shape_of[name][-1] for name in sources]
    if len(set(sources)) == 1:
        kv_heads, rest = divmod(widths[0] - heads * size, 2 * size)
        shares = [heads * size, kv_heads * size, kv_heads * size]
        whole = torch.arange(math.prod(to.shape_of[sources[0]])).reshape(to.shape_of[sources[0]])
        places = whole.split(shares, -1) if rest == 0 and kv_heads > 0 and sum(shares) == widths[0] else None
    else:
        kv_heads = widths[1] // size
        places = [torch.arange(math.prod(to.shape_of[name])).reshape(to.shape_of[name]) for name in sources]
    if places is None or kv_heads == 0 or heads % kv_heads != 0 or any(place.dim() != 3 for place in places):
        raise Refused("queries, keys and values that are no whole heads of linear layers")
    return kv_heads, places


def _attention(to, node):
    operands = [argument(node, place) for place in range(3)]
    values = [_moved(to, x) for x in operands]
    _, heads, tokens, size = operands[0].meta["val"].shape
    scale = argument(node, 6)
    if argument(node, 4, 0.0):
        raise Refused(f"dropout of {argument(node, 4):g} inside an attention, which Cairn does not have; make the "
                      "model without it (attn_pdrop=0, attention_probs_dropout_prob=0, dropout=0)")
    if scale is not None and abs(scale * math.sqrt(size) - 1) > 1e-6:
        raise Refused("another scale than 1/sqrt(size of a head)")
    if operands[1].meta["val"].shape[2] != tokens or len({v.source for v in values}) == 2:
        raise Refused("queries, keys and values of different tensors")
    causal = _is_causal(to, argument(node, 3), argument(node, 5, False))
    kv_heads, places = _packed_places(to, values, heads, size)
    angles = []
    for x, value, place in zip(operands, values, places, strict=True):
        count = place.shape[-1] // size
        angles.append(_angles(value.terms, _heads(place, count, x.meta["val"].shape[1] // count, size)))
    rotated = angles[0] is not None
    if (angles[1] is not None) != rotated or angles[2] is not None or (rotated and not torch.equal(*angles[:2])):
        raise Refused("a rotary embedding that is not that of queries and keys")
    sources = [value.source for value in values]
    read = sources[0] if len(set(sources)) == 1 else _join(to, node, sources)
    outer = read.removeprefix(to.prefix).rpartition(".")[0]
    sizes = {"heads": heads, "kv_heads": kv_heads}
    if rotated:
        read = to.add(node, "rotary", [read], shape=to.shape_of[read], name=f"{outer}.rotary" if outer else "rotary",
                      **sizes, **_rotary(angles[0]))
    shape = [*to.shape_of[read][:2], heads * size]
    made = to.add(node, "attention", [read], shape=shape, name=outer or "attention", **sizes, causal=int(causal))
    to.values[node] = Moved(made, [(_heads(torch.arange(math.prod(shape)).reshape(shape), heads, 1, size), None)])


SEQUENCE_RULES = {
    **dict.fromkeys((
        aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints,
        aten.unflatten.int, aten.transpose.int, aten.permute.default, aten.unsqueeze.default, aten.squeeze.dim,
        aten.squeeze.dims, aten.slice.Tensor, aten.select.int, aten.split.Tensor,
        aten.split_with_sizes.default, aten.chunk.default, aten.unbind.int, operator.getitem), _move),
    **dict.fromkeys((aten.contiguous.default, aten.clone.default, aten.alias.default, aten.detach.default), _same),
    **dict.fromkeys((aten.to.dtype, aten.to.dtype_layout, aten._to_copy.default), _converted),
    **dict.fromkeys((
        aten.pow.Tensor_Scalar, aten.tanh.default, aten.sigmoid.default, aten.erf.default, aten.rsqrt.default,
        aten.sqrt.default, aten.div.Tensor, aten.exp.default, aten.reciprocal.default), _formula),
    aten.expand.default: _repeated,
    aten.neg.default: _negative,
    aten.mul.Tensor: _multiply,
    aten.add.Tensor: _add,
    aten.add_.Tensor: _add,
    aten.cat.default: _cat,
    aten.stack.default: _cat,
    aten.linear.default: _linear,
    aten.addmm.default: _conv1d,
    aten.layer_norm.default: _layer_norm,
    aten.rms_norm.default: _rms_norm,
    aten.gelu.default: _gelu,
    aten.silu.default: _silu,
    aten.embedding.default: _embedding,
    aten.scaled_dot_product_attention.default: _attention,
}
