"""Reference values of single ops: reads tests/data/op_cases.json, computes each case with PyTorch
in double precision, and writes tests/data/op_reference.json.

    python3 make_op_reference.py        (PyTorch 2.13, numpy)

Per case: y, the gradients of the inputs and parameters for the gradient "gy" of y, and the running
statistics of a batch-norm. Inputs are those of fill.py. The mask of dropout is specific to Cairn;
it is computed from the definition in src/backend/dropout_mask.h.
"""

import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import fill
from transformer_networks import scaled_frequency

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
CLASSES = 3  # OP_CASE_CLASSES
TOKENS = 5  # OP_CASE_TOKENS


def tensor(array, gradient=True):
    return torch.tensor(np.asarray(array), dtype=torch.float64, requires_grad=gradient)


def conv2d(a, x, w, b=None):
    top, left, bottom, right = a["pad"]
    return F.conv2d(F.pad(x, (left, right, top, bottom)), w, b, a["stride"], 0, a["dilation"], a["groups"])


def batch_norm(a, x, w, b, mean, var):
    return F.batch_norm(x, mean, var, w, b, True, a["momentum"], a["epsilon"])


def dropout(a, x):
    """The mask for seed 1, step 0, op 0. A key is mixed from the three, and then with each
    element."""
    p, key = a["probability"], np.array([1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        key = fill.mix(key + fill.GOLDEN)
        key = fill.mix(key + np.uint64(0))
        key = fill.mix(key + np.uint64(0))
        bits = fill.mix(key + np.arange(1, x.numel() + 1, dtype=np.uint64) * fill.GOLDEN)
    keep = (bits >> np.uint64(32)) >= np.uint64(int(p * 2**32))
    return x * tensor(keep.reshape(x.shape), False) / (1 - p)


def max_pool(a, x):
    return F.max_pool2d(x, a["kernel"], a["stride"], a["pad"][:2])


def avg_pool(a, x):
    return F.avg_pool2d(x, a["kernel"], a["stride"], a["pad"][:2], False, bool(a["count_padding"]))


def rnn_cell(a, x, h, w_ih, w_hh, b_ih, b_hh):
    return torch.rnn_tanh_cell(x, h, w_ih, w_hh, b_ih, b_hh)


def lstm_cell(a, x, state, w_ih, w_hh, b_ih, b_hh):
    return torch.stack(torch.lstm_cell(x, (state[0], state[1]), w_ih, w_hh, b_ih, b_hh))


def cross_entropy(a, x):
    shape = list(x.shape)
    labels = fill.labels("labels", [shape[0]] + shape[2:], 0, CLASSES)
    smoothing = a.get("smoothing", 0.0)
    return F.cross_entropy(x, torch.tensor(labels), label_smoothing=smoothing)


def embedding(a, x, w):
    return F.embedding(x, w)


def add_positions(a, x, w):
    return x + (w[0] if a.get("same_row") else w[: x.shape[1]])


def image_tokens(a, x, w=None):
    y = x.flatten(2).transpose(1, 2)
    return y if w is None else torch.cat([w.expand(len(x), 1, -1), y], 1)


def split_heads(a, x):
    """[N, T, (H + 2K) d] as queries [N, H, T, d], keys and values [N, K, T, d]."""
    n, t, width = x.shape
    heads, kv = a["heads"], a["kv_heads"]
    return torch.split(x.view(n, t, heads + 2 * kv, -1).transpose(1, 2), [heads, kv, kv], 1)


def rotary(a, x):
    q, k, v = split_heads(a, x)
    half = q.shape[-1] // 2
    frequency = a["theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
    if "scaling" in a:
        frequency = scaled_frequency(frequency, a["scaling"])
    angles = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), frequency)
    c, s = angles.cos(), angles.sin()

    def turn(z):
        z1, z2 = z[..., :half], z[..., half:]
        return torch.cat([z1 * c - z2 * s, z2 * c + z1 * s], -1)

    return torch.cat([turn(q), turn(k), v], 1).transpose(1, 2).reshape(x.shape)


def attention(a, x):
    q, k, v = split_heads(a, x)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=bool(a.get("causal")), enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def swiglu(a, x):
    first, second = x.chunk(2, -1)
    return F.silu(first) * second


def token_cross_entropy(a, x):
    labels = fill.labels("labels", list(x.shape[:-1]), 0, CLASSES).reshape(-1)
    labels[1] = -100
    smoothing = a.get("smoothing", 0.0)
    return F.cross_entropy(x.flatten(0, -2), torch.tensor(labels), label_smoothing=smoothing)


KINDS = {
    "embedding": embedding,
    "add_positions": add_positions,
    "image_tokens": image_tokens,
    "select_token": lambda a, x: x[:, a["index"]],
    "layer_norm": lambda a, x, w, b=None: F.layer_norm(x, x.shape[-1:], w, b, a["epsilon"]),
    "rms_norm": lambda a, x, w: F.rms_norm(x, x.shape[-1:], w, a["epsilon"]),
    "rotary": rotary,
    "attention": attention,
    "gelu": lambda a, x: F.gelu(x, approximate="tanh" if a.get("tanh") else "none"),
    "silu": lambda a, x: F.silu(x),
    "multiply": lambda a, x, y: x * y,
    "swiglu": swiglu,
    "token_cross_entropy": token_cross_entropy,
    "conv2d": conv2d,
    "conv_transpose2d": lambda a, x, w, b=None: F.conv_transpose2d(x, w, b, a["stride"]),
    "linear": lambda a, x, w, b=None: F.linear(x, w, b),
    "batch_norm": batch_norm,
    "relu": lambda a, x: F.relu(x),
    "dropout": dropout,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "adaptive_avg_pool": lambda a, x: F.adaptive_avg_pool2d(x, a["size"]),
    "add": lambda a, x, y: x + y,
    "concat": lambda a, *x: torch.cat(x, 1),
    "flatten": lambda a, x: x.flatten(1),
    "select": lambda a, x: x[a["index"]],
    "rnn_cell": rnn_cell,
    "lstm_cell": lstm_cell,
    "cross_entropy": cross_entropy,
}

PLAIN = ["y.weight", "y.bias", "y.running_mean", "y.running_var"]
CELL = ["y.rnn.weight_ih", "y.rnn.weight_hh", "y.bias_ih", "y.bias_hh"]


def compute(case):
    kind = case["kind"]
    inputs = {f"x{i}": tensor(fill.inputs(f"x{i}", s, 0)) for i, s in enumerate(case["inputs"])}
    if kind == "embedding":
        inputs = {"x0": torch.tensor(fill.labels("x0", case["inputs"][0], 0, TOKENS))}
    names = CELL if kind.endswith("_cell") else PLAIN
    params = {
        name: tensor(fill.parameter(name, shape), "running" not in name)
        for name, shape in zip(names, case.get("params", []))
    }
    reads = [inputs[f"x{i}"] for i in case.get("reads", range(len(inputs)))]
    y = KINDS[kind](case.get("attributes", {}), *reads, *params.values())
    gy = torch.tensor(fill.values("gy", list(y.shape)), dtype=torch.float64)
    y.backward(torch.ones(()) if kind.endswith("cross_entropy") else gy)
    expected = {"y": y}
    for name, t in {**inputs, **params}.items():
        if not t.is_floating_point():
            continue
        expected[name if t.grad is None else name + ".grad"] = t if t.grad is None else t.grad
    return expected


def numbers(t):
    return "[" + ",".join(f"{v:.7g}" for v in t.detach().flatten().tolist()) + "]"


def main():
    cases = json.loads((DATA / "op_cases.json").read_text())
    lines = []
    for case in cases:
        expected = compute(case)
        parts = [f'"{name}": {numbers(t)}' for name, t in expected.items()]
        lines.append(f'"{case["name"]}": {{' + ", ".join(parts) + "}")
    (DATA / "op_reference.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
