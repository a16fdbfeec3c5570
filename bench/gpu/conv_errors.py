"""Errors of cuDNN's convolutions and cuBLAS's products in fp32, with shapes of ResNet-50.

python3 bench/gpu/conv_errors.py prints what conv_errors.c prints for Cairn's kernels: operands are
drawn from -1 to 1, results are compared with double precision, and the root mean square of the errors
is divided by that of the result. Convolutions are repeatable ones, without TF32, channels-last.
"""

import torch

SHAPES = [  # channels, size, filters, kernel, stride
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (128, 56, 128, 3, 2),
    (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
]
BATCH = 64


def draw(*shape: int) -> torch.Tensor:
    values = torch.rand(*shape, device="cuda") * 2 - 1
    return values.to(memory_format=torch.channels_last)


def report(name: str, got: torch.Tensor, exact: torch.Tensor) -> None:
    error = (got.double() - exact).pow(2).mean().sqrt() / exact.pow(2).mean().sqrt()
    print(f"  {name:8s} {error:.1e}", flush=True)


def compare(channels: int, size: int, filters: int, kernel: int, stride: int) -> None:
    print(f"{channels} x {size} x {size} to {filters}, {kernel}x{kernel} / {stride}")
    x, w = draw(BATCH, channels, size, size), draw(filters, channels, kernel, kernel)
    pad = kernel // 2
    y = torch.nn.functional.conv2d(x, w, stride=stride, padding=pad)
    exact = torch.nn.functional.conv2d(x.double(), w.double(), stride=stride, padding=pad)
    report("gather", y, exact)
    gy = draw(*y.shape)
    options = ([0], [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, [True, True, False])
    backward = torch.ops.aten.convolution_backward
    gx, gw, _ = backward(gy, x, w, *options)
    exact_gx, exact_gw, _ = backward(gy.double(), x.double(), w.double(), *options)
    report("scatter", gx, exact_gx)
    report("weigh", gw, exact_gw)
    if kernel == 1:  # what cuBLAS makes of it
        rows = x.permute(0, 2, 3, 1).reshape(-1, channels)
        grads = gy.permute(0, 2, 3, 1).reshape(-1, filters)
        weight = w.reshape(filters, channels)
        report("product gather", rows @ weight.T, rows.double() @ weight.double().T)
        report("product weigh", grads.T @ rows, grads.double().T @ rows.double())


def main() -> None:
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.manual_seed(1)
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for shape in SHAPES:
        compare(*shape)


if __name__ == "__main__":
    main()
