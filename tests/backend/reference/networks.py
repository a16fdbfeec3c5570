"""The networks in PyTorch, with Cairn's names for parameters and every width divided by a divisor.

A network is a function of a Layers object and its inputs. Layers creates a parameter when it is
first used, so the code of a network is only its structure. There is no dropout.
"""

import numpy as np
import torch
import torch.nn.functional as F

import fill


def leaf(array, gradient=True):
    return torch.tensor(np.asarray(array), dtype=torch.float64, requires_grad=gradient)


class TooNear(Exception):
    """The input of a ReLU is so close to its kink that rounding decides."""


def relu(x):
    if x.requires_grad and float(x.detach().abs().min()) < relu.margin:
        raise TooNear
    return F.relu(x)


relu.margin = 0


class Layers:
    def __init__(self, divisor):
        self.divisor = divisor
        self.parameters, self.states = {}, {}
        self.training = True

    def width(self, channels):
        return channels // self.divisor

    def parameter(self, name, *shape):
        if name not in self.parameters:
            self.parameters[name] = leaf(fill.parameter(name, list(shape)))
        return self.parameters[name]

    def state(self, name, *shape):
        if name not in self.states:
            self.states[name] = leaf(fill.parameter(name, list(shape)), False)
        return self.states[name]

    def conv(self, name, x, channels, kernel, stride=1, pad=0, dilation=1, groups=1, bias=False):
        """`channels` is the number of outputs, already divided."""
        kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        w = self.parameter(name + ".weight", channels, x.shape[1] // groups, kh, kw)
        b = self.parameter(name + ".bias", channels) if bias else None
        return F.conv2d(x, w, b, stride, pad, dilation, groups)

    def norm(self, name, x, epsilon=1e-5):
        c = x.shape[1]
        w, b = self.parameter(name + ".weight", c), self.parameter(name + ".bias", c)
        mean, var = self.state(name + ".running_mean", c), self.state(name + ".running_var", c)
        return F.batch_norm(x, mean, var, w, b, self.training, 0.1, epsilon)

    def linear(self, name, x, features):
        w = self.parameter(name + ".weight", features, x.shape[1])
        return F.linear(x, w, self.parameter(name + ".bias", features))


# ---- networks of layers in a row ----


def alexnet(net, x, classes):
    at = 0
    for channels, kernel, stride, pad, pool in [
        (64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False),
        (256, 3, 1, 1, False), (256, 3, 1, 1, True)]:
        x = net.conv(f"features.{at}", x, net.width(channels), kernel, stride, pad, bias=True)
        x = relu(x)
        at += 2
        if pool:
            x = F.max_pool2d(x, 3, 2)
            at += 1
    x = F.adaptive_avg_pool2d(x, 6).flatten(1)
    x = relu(net.linear("classifier.1", x, net.width(4096)))
    x = relu(net.linear("classifier.4", x, net.width(4096)))
    return net.linear("classifier.6", x, classes)


def vgg11(net, x, classes):
    at = 0
    for channels in [64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"]:
        if channels == "pool":
            x = F.max_pool2d(x, 2, 2)
            at += 1
        else:
            x = relu(net.conv(f"features.{at}", x, net.width(channels), 3, 1, 1, bias=True))
            at += 2
    x = F.adaptive_avg_pool2d(x, 7).flatten(1)
    x = relu(net.linear("classifier.0", x, net.width(4096)))
    x = relu(net.linear("classifier.3", x, net.width(4096)))
    return net.linear("classifier.6", x, classes)


# ---- residual networks ----


def resnet_frame(net, x, classes, block, blocks):
    x = relu(net.norm("bn1", net.conv("conv1", x, net.width(64), 7, 2, 3)))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            x = block(net, f"layer{stage + 1}.{i}", x, net.width(64 << stage), stride)
    return net.linear("fc", x.mean((2, 3)), classes)


def shortcut(net, name, x, channels, stride):
    if stride == 1 and x.shape[1] == channels:
        return x
    return net.norm(f"{name}.downsample.1", net.conv(f"{name}.downsample.0", x, channels, 1, stride))


def basic(net, name, x, width, stride):
    y = relu(net.norm(f"{name}.bn1", net.conv(f"{name}.conv1", x, width, 3, stride, 1)))
    y = net.norm(f"{name}.bn2", net.conv(f"{name}.conv2", y, width, 3, 1, 1))
    return relu(y + shortcut(net, name, x, width, stride))


def bottleneck(net, name, x, width, stride):
    y = relu(net.norm(f"{name}.bn1", net.conv(f"{name}.conv1", x, width, 1)))
    y = relu(net.norm(f"{name}.bn2", net.conv(f"{name}.conv2", y, width, 3, stride, 1)))
    y = net.norm(f"{name}.bn3", net.conv(f"{name}.conv3", y, 4 * width, 1))
    return relu(y + shortcut(net, name, x, 4 * width, stride))


def resnet18(net, x, classes):
    return resnet_frame(net, x, classes, basic, [2, 2, 2, 2])


def resnet50(net, x, classes):
    return resnet_frame(net, x, classes, bottleneck, [3, 4, 6, 3])


# ---- densely connected ----


def densenet121(net, x, classes):
    def norm_relu_conv(norm, conv, x, channels, kernel, pad):
        return net.conv(conv, relu(net.norm(norm, x)), channels, kernel, 1, pad)

    x = relu(net.norm("features.norm0", net.conv("features.conv0", x, net.width(64), 7, 2, 3)))
    x = F.max_pool2d(x, 3, 2, 1)
    for block, layers in enumerate([6, 12, 24, 16], 1):
        for layer in range(1, layers + 1):
            name = f"features.denseblock{block}.denselayer{layer}"
            y = norm_relu_conv(f"{name}.norm1", f"{name}.conv1", x, net.width(128), 1, 0)
            y = norm_relu_conv(f"{name}.norm2", f"{name}.conv2", y, net.width(32), 3, 1)
            x = torch.cat([x, y], 1)
        if block < 4:
            name = f"features.transition{block}"
            x = norm_relu_conv(f"{name}.norm", f"{name}.conv", x, x.shape[1] // 2, 1, 0)
            x = F.avg_pool2d(x, 2, 2)
    x = relu(net.norm("features.norm5", x))
    return net.linear("classifier", x.mean((2, 3)), classes)


# ---- Inception v3 ----


def inception_v3(net, x, classes):
    def conv(name, x, channels, kernel, stride=1, pad=0):
        x = net.conv(f"{name}.conv", x, net.width(channels), kernel, stride, pad)
        return relu(net.norm(f"{name}.bn", x, 1e-3))

    def pooled(name, x, channels):
        return conv(f"{name}.branch_pool", F.avg_pool2d(x, 3, 1, 1), channels, 1)

    def double(n, x, stride, pad):
        y = conv(f"{n}.branch3x3dbl_1", x, 64, 1)
        y = conv(f"{n}.branch3x3dbl_2", y, 96, 3, 1, 1)
        return conv(f"{n}.branch3x3dbl_3", y, 96, 3, stride, pad)

    def a(n, x, channels):
        five = conv(f"{n}.branch5x5_2", conv(f"{n}.branch5x5_1", x, 48, 1), 64, 5, 1, 2)
        return torch.cat([conv(f"{n}.branch1x1", x, 64, 1), five, double(n, x, 1, 1), pooled(n, x, channels)], 1)

    def b(n, x):
        return torch.cat([conv(f"{n}.branch3x3", x, 384, 3, 2), double(n, x, 2, 0), F.max_pool2d(x, 3, 2)], 1)

    def c(n, x, width):
        flat, tall = ((1, 7), (0, 3)), ((7, 1), (3, 0))
        y = conv(f"{n}.branch7x7_1", x, width, 1)
        y = conv(f"{n}.branch7x7_2", y, width, flat[0], 1, flat[1])
        y = conv(f"{n}.branch7x7_3", y, 192, tall[0], 1, tall[1])
        z = conv(f"{n}.branch7x7dbl_1", x, width, 1)
        z = conv(f"{n}.branch7x7dbl_2", z, width, tall[0], 1, tall[1])
        z = conv(f"{n}.branch7x7dbl_3", z, width, flat[0], 1, flat[1])
        z = conv(f"{n}.branch7x7dbl_4", z, width, tall[0], 1, tall[1])
        z = conv(f"{n}.branch7x7dbl_5", z, 192, flat[0], 1, flat[1])
        return torch.cat([conv(f"{n}.branch1x1", x, 192, 1), y, z, pooled(n, x, 192)], 1)

    def d(n, x):
        y = conv(f"{n}.branch3x3_2", conv(f"{n}.branch3x3_1", x, 192, 1), 320, 3, 2)
        z = conv(f"{n}.branch7x7x3_1", x, 192, 1)
        z = conv(f"{n}.branch7x7x3_2", z, 192, (1, 7), 1, (0, 3))
        z = conv(f"{n}.branch7x7x3_3", z, 192, (7, 1), 1, (3, 0))
        z = conv(f"{n}.branch7x7x3_4", z, 192, 3, 2)
        return torch.cat([y, z, F.max_pool2d(x, 3, 2)], 1)

    def both(n, x):
        return torch.cat([conv(n + "a", x, 384, (1, 3), 1, (0, 1)), conv(n + "b", x, 384, (3, 1), 1, (1, 0))], 1)

    def e(n, x):
        y = both(f"{n}.branch3x3_2", conv(f"{n}.branch3x3_1", x, 384, 1))
        z = conv(f"{n}.branch3x3dbl_2", conv(f"{n}.branch3x3dbl_1", x, 448, 1), 384, 3, 1, 1)
        z = both(f"{n}.branch3x3dbl_3", z)
        return torch.cat([conv(f"{n}.branch1x1", x, 320, 1), y, z, pooled(n, x, 192)], 1)

    x = conv("Conv2d_1a_3x3", x, 32, 3, 2)
    x = conv("Conv2d_2a_3x3", x, 32, 3)
    x = F.max_pool2d(conv("Conv2d_2b_3x3", x, 64, 3, 1, 1), 3, 2)
    x = conv("Conv2d_3b_1x1", x, 80, 1)
    x = F.max_pool2d(conv("Conv2d_4a_3x3", x, 192, 3), 3, 2)
    x = a("Mixed_5d", a("Mixed_5c", a("Mixed_5b", x, 32), 64), 64)
    x = b("Mixed_6a", x)
    for name, width in [("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)]:
        x = c(name, x, width)
    x = e("Mixed_7c", e("Mixed_7b", d("Mixed_7a", x)))
    return net.linear("fc", x.mean((2, 3)), classes)


# ---- networks found by search, in the frame of the DARTS code ----

NASNET = {
    "normal": [("sep5", 1), ("sep3", 0), ("sep5", 0), ("sep3", 0), ("avg", 1), ("skip", 0),
               ("avg", 0), ("avg", 0), ("sep3", 1), ("skip", 1)],
    "normal_concat": [2, 3, 4, 5, 6],
    "reduce": [("sep5", 1), ("sep7", 0), ("max", 1), ("sep7", 0), ("avg", 1), ("sep5", 0),
               ("skip", 3), ("avg", 2), ("sep3", 2), ("max", 1)],
    "reduce_concat": [4, 5, 6],
}
AMOEBANET = {
    "normal": [("avg", 0), ("max", 1), ("sep3", 0), ("sep5", 2), ("sep3", 0), ("avg", 3),
               ("sep3", 1), ("skip", 1), ("skip", 0), ("avg", 1)],
    "normal_concat": [4, 5, 6],
    "reduce": [("avg", 0), ("sep3", 1), ("max", 0), ("sep7", 2), ("sep7", 0), ("avg", 1),
               ("max", 0), ("max", 1), ("conv7", 0), ("sep3", 5)],
    "reduce_concat": [3, 4, 6],
}
DARTS = {
    "normal": [("sep3", 0), ("sep3", 1), ("sep3", 0), ("sep3", 1), ("sep3", 1), ("skip", 0),
               ("skip", 0), ("dil3", 2)],
    "normal_concat": [2, 3, 4, 5],
    "reduce": [("max", 0), ("max", 1), ("skip", 2), ("max", 1), ("max", 0), ("skip", 2),
               ("skip", 2), ("max", 1)],
    "reduce_concat": [2, 3, 4, 5],
}


def depthwise(net, n, first, x, kernel, stride, dilation=1):
    c, pad = x.shape[1], dilation * (kernel - 1) // 2
    x = net.conv(f"{n}.op.{first + 1}", relu(x), c, kernel, stride, pad, dilation, groups=c)
    return net.norm(f"{n}.op.{first + 3}", net.conv(f"{n}.op.{first + 2}", x, c, 1))


def factorised_reduction(net, n, x, channels):
    x = relu(x)
    odd = x[:, :, 1:, 1:]
    halves = [net.conv(f"{n}.conv_1", x, channels // 2, 1, 2), net.conv(f"{n}.conv_2", odd, channels // 2, 1, 2)]
    return net.norm(f"{n}.bn", torch.cat(halves, 1))


def cell_op(net, n, kind, x, stride):
    if kind.startswith("sep"):
        kernel = int(kind[3])
        return depthwise(net, n, 4, depthwise(net, n, 0, x, kernel, stride), kernel, 1)
    if kind == "dil3":
        return depthwise(net, n, 0, x, 3, stride, 2)
    if kind == "conv7":
        c = x.shape[1]
        x = net.conv(f"{n}.op.1", relu(x), c, (1, 7), (1, stride), (0, 3))
        return net.norm(f"{n}.op.3", net.conv(f"{n}.op.2", x, c, (7, 1), (stride, 1), (3, 0)))
    if kind == "avg":
        return F.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
    if kind == "max":
        return F.max_pool2d(x, 3, stride, 1)
    return x if stride == 1 else factorised_reduction(net, n, x, x.shape[1])


def search_frame(net, x, classes, genotype):
    x = net.norm("stem.1", net.conv("stem.0", x, net.width(108), 3, 1, 1))
    older = newer = x
    channels, halved = net.width(36), False
    for i in range(20):
        reduction = i in (20 // 3, 2 * 20 // 3)
        channels *= 2 if reduction else 1
        n = f"cells.{i}"

        def adapt(number, x):
            p = f"{n}.preprocess{number}"
            return net.norm(f"{p}.op.2", net.conv(f"{p}.op.1", relu(x), channels, 1))

        first = factorised_reduction(net, f"{n}.preprocess0", older, channels) if halved else adapt(0, older)
        states = [first, adapt(1, newer)]
        ops = genotype["reduce" if reduction else "normal"]
        for k in range(0, len(ops), 2):
            terms = [cell_op(net, f"{n}._ops.{k + j}", ops[k + j][0], states[ops[k + j][1]],
                             2 if reduction and ops[k + j][1] < 2 else 1) for j in range(2)]
            states.append(terms[0] + terms[1])
        concat = genotype["reduce_concat" if reduction else "normal_concat"]
        older, newer, halved = newer, torch.cat([states[s] for s in concat], 1), reduction
    return net.linear("classifier", newer.mean((2, 3)), classes)


def nasnet(net, x, classes):
    return search_frame(net, x, classes, NASNET)


def amoebanet(net, x, classes):
    return search_frame(net, x, classes, AMOEBANET)


def darts(net, x, classes):
    return search_frame(net, x, classes, DARTS)


# ---- U-Net ----


def unet(net, x, classes):
    def double_conv(n, x, channels):
        for conv, norm in [(0, 1), (3, 4)]:
            x = net.conv(f"{n}.double_conv.{conv}", x, net.width(channels), 3, 1, 1)
            x = relu(net.norm(f"{n}.double_conv.{norm}", x))
        return x

    skips = [double_conv("inc", x, 64)]
    for i in range(1, 5):
        skips.append(double_conv(f"down{i}.maxpool_conv.1", F.max_pool2d(skips[-1], 2), 64 << i))
    x = skips[4]
    for i in range(1, 5):
        channels = net.width(64 << (4 - i))
        w = net.parameter(f"up{i}.up.weight", x.shape[1], channels, 2, 2)
        x = F.conv_transpose2d(x, w, net.parameter(f"up{i}.up.bias", channels), 2)
        x = double_conv(f"up{i}.conv", torch.cat([skips[4 - i], x], 1), 64 << (4 - i))
    return net.conv("outc.conv", x, classes, 1, bias=True)


# ---- recurrent ----


def cell_parameters(net, rows, features, hidden):
    shapes = {"weight_ih": (rows, features), "weight_hh": (rows, hidden), "bias_ih": (rows,), "bias_hh": (rows,)}
    return [net.parameter(f"rnn.{name}_l0", *shape) for name, shape in shapes.items()]


def rnn(net, state, xs, classes):
    hidden = state.shape[1]
    for x in xs:
        state = torch.rnn_tanh_cell(x, state, *cell_parameters(net, hidden, x.shape[1], hidden))
    return net.linear("fc", state, classes)


def lstm(net, state, xs, classes):
    h, c = state[0], state[1]
    hidden = h.shape[1]
    for x in xs:
        h, c = torch.lstm_cell(x, (h, c), *cell_parameters(net, 4 * hidden, x.shape[1], hidden))
    return net.linear("fc", h, classes)
