"""Kernels for NVIDIA GPUs that do in one pass what ATen does in two or three, with the same bits.

Every element is rounded as ATen rounds it: products and sums are intrinsics, which the compiler does not contract. A
kernel is compiled when it is first used, by the NVRTC that comes with PyTorch.
"""

import functools
import re

import torch

from . import _torch
from ._real import real_tensors

# The ways in which a batch norm may round: d is x - m, s is the weight times invstd.
_FORMULAS = ("__fmaf_rn(__fmul_rn(w, d), i, b)", "__fmaf_rn(__fmul_rn(d, i), w, b)", "__fmaf_rn(d, s, b)",
             "__fmaf_rn(x, s, __fmaf_rn(-m, s, b))", "__fmaf_rn(x, s, __fsub_rn(b, __fmul_rn(m, s)))",
             "__fmaf_rn(__fmaf_rn(x, i, __fmul_rn(-m, i)), w, b)")
FORMULAS = range(len(_FORMULAS))
PREFIX = "cairn_"  # CUDA has a function norm of its own

_HEAD = r"""
__device__ __forceinline__ float relu(float x) { return x != x ? x : fmaxf(x, 0.0f); }
__device__ __forceinline__ float gate(float g, float y) { return y <= 0.0f ? 0.0f : g; }
__device__ __forceinline__ float scaled(float x, float w, float b, float m, float i) {
    float s = __fmul_rn(w, i), d = __fsub_rn(x, m);
    (void)s, (void)d;
    return FORMULA;
}
"""

_FLAT = r"""
extern "C" __global__ void KERNEL(INPUTS VECTOR *out, int n) {
    int step = gridDim.x * blockDim.x;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += step) {
        VECTOR r LOADS;
        EACH
        out[at] = r;
    }
}
"""

# A block works on one plane at a time: one channel of one image.
_PLANES = r"""
extern "C" __global__ void KERNEL(INPUTS const float *weight, const float *bias, const float *mean, const float *invstd,
                                  VECTOR *out, int channels, int n, int planes) {
    for (int p = blockIdx.y; p < planes; p += gridDim.y) {
        int c = p % channels, step = gridDim.x * blockDim.x;
        float w = weight[c], b = bias[c], m = mean[c], i = invstd[c];
        long long base = (long long)p * n;
        for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += step) {
            long long at = base + k;
            VECTOR r LOADS;
            EACH
            out[at] = r;
        }
    }
}
"""

# Kernel: its frame, its operands, and one element of the result.
_KERNELS = {
    "add_relu": (_FLAT, ("p", "q"), "relu(__fadd_rn(p, q))"),
    "add_gate": (_FLAT, ("p", "q", "y"), "gate(__fadd_rn(p, q), y)"),
    "norm": (_PLANES, ("x",), "scaled(x, w, b, m, i)"),
    "norm_relu": (_PLANES, ("x",), "relu(scaled(x, w, b, m, i))"),
    "norm_add": (_PLANES, ("x", "y"), "__fadd_rn(scaled(x, w, b, m, i), y)"),
    "norm_add_relu": (_PLANES, ("x", "y"), "relu(__fadd_rn(scaled(x, w, b, m, i), y))"),
}


def _element(expression, operands, lane):
    """The expression with every operand replaced by a lane of it."""
    return re.sub(rf"\b({'|'.join(operands)})\b", lambda match: f"v{match[0]}{lane}", expression)


def source_of(name, width, formula=0):
    """The CUDA source of one kernel that works on `width` elements at a time."""
    frame, operands, expression = _KERNELS[name]
    vector = "float4" if width == 4 else "float"
    lanes = [".x", ".y", ".z", ".w"] if width == 4 else [""]
    each = " ".join(f"r{lane} = {_element(expression, operands, lane)};" for lane in lanes)
    loads = "".join(f", v{operand} = in_{operand}[at]" for operand in operands)
    inputs = "".join(f"const VECTOR *in_{operand}, " for operand in operands)
    body = frame.replace("INPUTS ", inputs).replace(" LOADS", loads).replace("EACH", each)
    return _HEAD.replace("FORMULA", _FORMULAS[formula]) + body.replace("VECTOR", vector).replace("KERNEL", PREFIX + name)


@functools.lru_cache(None)
def _kernel(device, name, width, formula):
    return _torch.compile_cuda(source_of(name, width, formula), PREFIX + name)


def _launch(name, width, formula, grid, threads, given):
    with torch.cuda.device(given[0].device):
        _kernel(given[0].device, name, width, formula)(grid=grid, block=(threads, 1, 1), args=given)


def takes(x):
    """Whether the kernels support a tensor, or a fake one."""
    return (x.device.type == "cuda" and x.dtype == torch.float32 and 0 < x.numel() < 1 << 31 and x.is_contiguous()
            and x.untyped_storage().nbytes() == 4 * x.numel())


@functools.lru_cache(None)
def available():
    """Whether kernels can be compiled and run here."""
    with real_tensors():
        try:
            one = torch.ones(4, device="cuda")
            return torch.equal(add_relu(one, one, torch.empty_like(one)), one + one)
        except Exception:
            return False


def _width(n, tensors):
    return 4 if n % 4 == 0 and all(t.data_ptr() % 16 == 0 for t in tensors) else 1


def _flat(name, tensors):
    width = _width(tensors[0].numel(), tensors)
    n = tensors[0].numel() // width
    blocks = max(min(-(-n // 256), 1 << 16), 1)
    _launch(name, width, 0, (blocks, 1, 1), 256, [*tensors, n])
    return tensors[-1]


def add_relu(a, b, out):
    """relu(a + b) into `out`, which may be one of them."""
    return _flat("add_relu", [a, b, out])


def add_gate(a, b, y, out):
    """a + b where y > 0, else 0: relu's gradient of a sum, into `out`, which may be any of them."""
    return _flat("add_gate", [a, b, y, out])


def norm(name, x, weight, bias, mean, invstd, out, formula, *others):
    """A batch norm whose statistics are known, fused with the ops in `name`."""
    images, channels = x.shape[:2]
    width = _width(x.numel() // (images * channels), [x, out, *others])
    n = x.numel() // (images * channels * width)
    threads = min(-(-n // 32) * 32, 256)
    grid = (max(min(n // (4 * threads), 64), 1), min(images * channels, 65535), 1)
    _launch(name, width, formula, grid, threads, [x, *others, weight, bias, mean, invstd, out, channels, n,
                                                  images * channels])
    return out
