"""Rules of cairn.export: what an op of PyTorch is in Cairn. Those of transformers are in _export_sequences.py."""

from ._export_capture import Formula, Moved, Refused, Table, Token, aten, argument
from ._export_sequences import SEQUENCE_RULES, resolve_formula, resolve_moved, resolve_table, resolve_token


def _pair(value, otherwise=None):
    value = otherwise if value is None or value == [] else value
    return [value, value] if isinstance(value, int) else [value[0], value[-1]]


def _names(to, *nodes):
    return [to.weight(node) for node in nodes if node is not None]


def _convolution(to, node):
    weight, bias = argument(node, 1), argument(node, 2)
    pad = argument(node, 4, 0)
    if isinstance(pad, str):
        raise Refused(f"padding {pad!r}; give numbers")
    pad = _pair(pad)
    to.values[node] = to.add(node, "conv2d", [argument(node, 0)], _names(to, weight, bias),
                             kernel=list(weight.meta["val"].shape[2:]), stride=_pair(argument(node, 3, 1)),
                             pad=[*pad, *pad], dilation=_pair(argument(node, 5, 1)), groups=argument(node, 6, 1))


def _transposed(to, node):
    weight, bias = argument(node, 1), argument(node, 2)
    rest = (_pair(argument(node, 4, 0)), _pair(argument(node, 5, 0)), argument(node, 6, 1),
            _pair(argument(node, 7, 1)))
    if rest != ([0, 0], [0, 0], 1, [1, 1]):
        raise Refused("padding, output padding, groups or dilation")
    to.values[node] = to.add(node, "conv_transpose2d", [argument(node, 0)], _names(to, weight, bias),
                             kernel=list(weight.meta["val"].shape[2:]), stride=_pair(argument(node, 3, 1)))


def _batch_norm(to, node):
    params = [argument(node, place) for place in range(1, 5)]
    if any(param is None for param in params) or argument(node, 6) is None:
        raise Refused("no weight, bias or running statistics, or no momentum")
    if argument(node, 0).meta["val"].dim() != 4:
        raise Refused("an input that is no image [N, C, H, W]")
    to.values[node] = to.add(node, "batch_norm", [argument(node, 0)], _names(to, *params), epsilon=argument(node, 7),
                             momentum=argument(node, 6))


def _max_pool(to, node):
    kernel = _pair(argument(node, 1))
    if _pair(argument(node, 4, 1)) != [1, 1] or argument(node, 5, False):
        raise Refused("dilation or ceil_mode")
    pad = _pair(argument(node, 3, 0))
    to.values[node] = to.add(node, "max_pool", [argument(node, 0)], kernel=kernel,
                             stride=_pair(argument(node, 2), kernel), pad=[*pad, *pad])


def _avg_pool(to, node):
    kernel = _pair(argument(node, 1))
    if argument(node, 4, False) or argument(node, 6) is not None:
        raise Refused("ceil_mode or a divisor")
    pad = _pair(argument(node, 3, 0))
    to.values[node] = to.add(node, "avg_pool", [argument(node, 0)], kernel=kernel,
                             stride=_pair(argument(node, 2), kernel), pad=[*pad, *pad],
                             count_padding=int(argument(node, 5, True)))


def _adaptive(to, node):
    to.values[node] = to.add(node, "adaptive_avg_pool", [argument(node, 0)], size=_pair(argument(node, 1)))


def _mean(to, node):
    """The mean over height and width, as a pooling; over the features, a part of a formula."""
    x, dims, keep = argument(node, 0), argument(node, 1), argument(node, 2, False)
    shape = list(x.meta["val"].shape)
    if dims in ([-1], [len(shape) - 1]) and keep:
        SEQUENCE_RULES[aten.tanh.default](to, node)
        return
    if len(shape) != 4 or sorted(d % 4 for d in dims) != [2, 3]:
        raise Refused("a mean over other dimensions than height and width")
    pooled = to.add(node, "adaptive_avg_pool", [x], shape=[*shape[:2], 1, 1], size=[1, 1])
    to.values[node] = pooled if keep else to.add(node, "flatten", [pooled], name=node.name + "_flat")


def _dropout(to, node):
    if argument(node, 1) == 0:
        to.values[node] = to.values[argument(node, 0)]
    else:
        to.values[node] = to.add(node, "dropout", [argument(node, 0)], probability=argument(node, 1))


def _relu(to, node):
    to.values[node] = to.add(node, "relu", [argument(node, 0)])


RULES = {
    aten.conv2d.default: _convolution,
    aten.conv_transpose2d.input: _transposed,
    aten.batch_norm.default: _batch_norm,
    aten.max_pool2d.default: _max_pool,
    aten.avg_pool2d.default: _avg_pool,
    aten.adaptive_avg_pool2d.default: _adaptive,
    aten.dropout.default: _dropout,
    aten.relu.default: _relu,
    aten.relu_.default: _relu,
    **SEQUENCE_RULES,
    aten.mean.dim: _mean,
}

RESOLVERS = {Moved: resolve_moved, Formula: resolve_formula, Table: resolve_table, Token: resolve_token}
