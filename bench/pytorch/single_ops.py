#!/usr/bin/env python3
"""What single ops of large layers take on a GPU in other forms: single_ops.py [columns] [workspaces] [convolutions]

  columns        sums over rows, of which the gradients of norms and biases consist: Inductor's, ATen's, and as matrix
                 products; and products that are added to a matrix, against products and sums apart
  workspaces     products with the workspace that PyTorch gives to cuBLAS and with the one that mode "compiled" does; and
                 which of them have the same bits with both
  convolutions   those of ResNet-50 (batch 64, channels last, TF32) and their gradients: both at once, as PyTorch has them,
                 each apart, that of the images as a forward convolution, and as matrix products where a filter is one pixel

Microseconds, one JSON line per shape. Each form is recorded several times in one CUDA graph."""

import json
import os
import sys
import time

import torch

aten = torch.ops.aten
SETTING = "CUBLAS_WORKSPACE_CONFIG"  # PyTorch 2.11 reads it before every product


def microseconds(call, runs=20, tries=3):
    for _ in range(3):
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            call()
    graph.replay()
    found = []
    for _ in range(tries):
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        found.append(1e6 * (time.perf_counter() - start) / runs)
    return round(min(found), 1)


def say(what, shape, **figures):
    print(json.dumps(dict(what=what, shape=shape, **figures)), flush=True)


def random(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def columns():
    gradient = torch.compile(lambda dy, x: ((dy.float() * x.float()).sum(0), dy.float().sum(0)), dynamic=False)
    column = torch.compile(lambda dy: dy.float().sum(0), dynamic=False)
    for shape in ((8192, 1024), (8192, 4096), (12608, 1024)):
        dy, x, ones = random(*shape), random(*shape), random(1, shape[0]).fill_(1)
        forms = dict(inductor_two=lambda: gradient(dy, x), inductor=lambda: column(dy), aten=lambda: dy.sum(0),
                     product=lambda: ones @ dy, copy=lambda: dy.clone())
        say("columns", shape, **{name: microseconds(form) for name, form in forms.items()})
    one, sums = random(8192, 2048), random(8192, 2048).fill_(0)
    for inner in (512, 2048, 5632):  # gradients of what several layers read
        a, b = random(8192, inner), random(inner, 2048)
        forms = dict(product=lambda: torch.mm(a, b, out=one), added=lambda: sums.addmm_(a, b),
                     sum=lambda: torch.add(one, sums))
        say("columns", (8192, inner, 2048), **{name: microseconds(form) for name, form in forms.items()})


def workspaces():
    shapes = (8192, 1024, 4096), (1024, 1024, 50304), (8192, 2048, 5632), (2048, 2048, 32000), (12608, 1024, 4096)
    for rows, inner, outer in shapes:
        x, w, dy = random(rows, inner), random(outer, inner), random(rows, outer)
        products = dict(y=lambda: x @ w.t(), dx=lambda: dy @ w, dw=lambda: dy.t() @ x)
        times, bits = {}, {}
        for size in ("usual", "small"):
            use_workspace(size)
            times[size] = {name: microseconds(call) for name, call in products.items()}
            bits[size] = {name: call() for name, call in products.items()}
        say("workspaces", (rows, inner, outer), **times,
            same=[name for name in products if torch.equal(bits["usual"][name], bits["small"][name])])


def use_workspace(size):
    os.environ.pop(SETTING, None)
    if size == "small":
        os.environ[SETTING] = ":16:8"
    torch._C._cuda_clearCublasWorkspaces()


# Channels of the operand and of the result, its height and width, those of a filter, stride, and how many there are.
CONVOLUTIONS = ((64, 64, 56, 1, 1, 1), (64, 256, 56, 1, 1, 4), (256, 64, 56, 1, 1, 2), (256, 128, 56, 1, 1, 1),
                (128, 512, 28, 1, 1, 4), (512, 128, 28, 1, 1, 3), (512, 256, 28, 1, 1, 1), (256, 1024, 14, 1, 1, 6),
                (1024, 256, 14, 1, 1, 5), (1024, 512, 14, 1, 1, 1), (512, 2048, 7, 1, 1, 3), (2048, 512, 7, 1, 1, 2),
                (256, 512, 56, 1, 2, 1), (512, 1024, 28, 1, 2, 1), (1024, 2048, 14, 1, 2, 1), (64, 64, 56, 3, 1, 3),
                (128, 128, 28, 3, 1, 3), (256, 256, 14, 3, 1, 5), (512, 512, 7, 3, 1, 2), (128, 128, 56, 3, 2, 1),
                (256, 256, 28, 3, 2, 1), (512, 512, 14, 3, 2, 1))


def convolutions():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    use_workspace("small")

    def images(*shape):
        return torch.randn(shape, device="cuda").to(memory_format=torch.channels_last)

    def forward(x, w, padding, stride, out):
        return aten.cudnn_convolution.out(x, w, [padding] * 2, [stride] * 2, [1, 1], 1, False, False, True, out=out)

    def flat(images):
        return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1])
    for channels, made, size, filters, stride, count in CONVOLUTIONS:
        x, w, dy = images(64, channels, size, size), images(made, channels, filters, filters), \
            images(64, made, size // stride, size // stride)
        y, dx, padding = torch.empty_like(dy), torch.empty_like(x), filters // 2

        def backward(*wanted):
            return aten.convolution_backward(dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1,
                                             [*wanted, False])
        forms = dict(y=lambda: forward(x, w, padding, stride, y), both=lambda: backward(True, True),
                     dx=lambda: backward(True, False), dw=lambda: backward(False, True))
        if stride == 1:
            def turn():
                return w.transpose(0, 1).flip(2, 3).contiguous(memory_format=torch.channels_last)
            turned = turn()
            forms.update(turn=turn, dx_forward=lambda: forward(dy, turned, filters - 1 - padding, 1, dx))
        if filters == stride == 1:
            matrix, dw = w.reshape(made, channels), torch.empty(made, channels, device="cuda")
            forms.update(y_product=lambda: torch.mm(flat(x), matrix.t(), out=flat(y)),
                         dx_product=lambda: torch.mm(flat(dy), matrix, out=flat(dx)),
                         dw_product=lambda: torch.mm(flat(dy).t(), flat(x), out=dw))
        say("convolutions", (channels, made, size, filters, stride), count=count,
            **{name: microseconds(form, runs=6) for name, form in forms.items()})


if __name__ == "__main__":
    for job in [job for job in (columns, workspaces, convolutions) if job.__name__ in sys.argv[1:] or not sys.argv[1:]]:
        job()
