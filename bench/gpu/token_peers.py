"""PyTorch on the same GPU: milliseconds and MiB of a training step of a transformer.

usage: token_peers.py [--limit SECONDS] WAY:NAME:BATCH ...

WAY is eager, captured (the whole step in one CUDA graph) or compiled (torch.compile, then captured);
behind it may stand +adamw, else the step has no update, and +checkpoint, which recomputes every
block. NAME is gpt2-LAYERSxWIDTHxHEADS, llama-LAYERSxWIDTHxHEADSxKVxFFN, both with :TOKENS behind
the batch, or vit_l_16. Numbers are those of trainers: weights, moments and gradients in fp32,
autocast to bf16, attention by torch's scaled_dot_product_attention. Each entry runs in its own
process. One line of JSON each: `mib` is the most that was allocated during a step beside parameters,
gradients and moments.
"""
import json
import sys

from torch_peers import capture, milliseconds, run_each


def blocks(torch):
    """The modules of both networks."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self, width, heads, kv, bias, rotary):
            super().__init__()
            self.heads, self.kv, self.size = heads, kv, width // heads
            self.qkv = nn.Linear(width, (heads + 2 * kv) * self.size, bias=bias)
            self.out = nn.Linear(width, width, bias=bias)
            self.rotary = rotary

        def forward(self, x):
            b, t, _ = x.shape
            qkv = self.qkv(x).view(b, t, -1, self.size).transpose(1, 2)
            q, k, v = qkv.split([self.heads, self.kv, self.kv], dim=1)
            if self.rotary is not None:
                q, k = self.rotary(q, t), self.rotary(k, t)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv < self.heads)
            return self.out(y.transpose(1, 2).reshape(b, t, -1))

    class Gelu(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            return self.down(F.gelu(self.up(x), approximate="tanh"))

    class Swiglu(nn.Module):
        def __init__(self, width, ffn):
            super().__init__()
            self.up, self.down = nn.Linear(width, 2 * ffn, bias=False), nn.Linear(ffn, width, bias=False)

        def forward(self, x):
            gate, value = self.up(x).chunk(2, dim=-1)
            return self.down(F.silu(gate) * value)

    class Block(nn.Module):
        def __init__(self, norm, attention, mlp):
            super().__init__()
            self.norm1, self.attention, self.norm2, self.mlp = norm(), attention, norm(), mlp

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    return Attention, Gelu, Swiglu, Block


def rotary(torch, size, tokens):
    angle = torch.arange(tokens)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)[None]
    cos, sin = angle.cos().cuda(), angle.sin().cuda()

    def rotate(x, t):
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat([a * cos[:t] - b * sin[:t], b * cos[:t] + a * sin[:t]], dim=-1).to(x.dtype)

    return rotate


def make_tokens(torch, name, tokens, checkpoint):
    nn = torch.nn
    Attention, Gelu, Swiglu, Block = blocks(torch)
    kind, sizes = name.split("-")
    sizes = [int(n) for n in sizes.split("x")]
    layers, width, heads = sizes[:3]
    words = 50304 if kind == "gpt2" else 32000

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            if kind == "gpt2":
                self.positions = nn.Embedding(tokens, width)
                norm = lambda: nn.LayerNorm(width)
                made = [Block(norm, Attention(width, heads, heads, True, None), Gelu(width)) for _ in range(layers)]
            else:
                norm = lambda: nn.RMSNorm(width)
                turn = rotary(torch, width // heads, tokens)
                made = [Block(norm, Attention(width, heads, sizes[3], False, turn), Swiglu(width, sizes[4])) for _ in range(layers)]
            self.blocks, self.norm = nn.ModuleList(made), norm()
            self.head = nn.Linear(width, words, bias=False)
            if kind == "gpt2":
                self.head.weight = self.words.weight

        def forward(self, x, y):
            h = self.words(x)
            if kind == "gpt2":
                h = h + self.positions.weight[: x.shape[1]]
            for block in self.blocks:
                h = torch.utils.checkpoint.checkpoint(block, h, use_reentrant=False) if checkpoint else block(h)
            logits = self.head(self.norm(h))
            return nn.functional.cross_entropy(logits.view(-1, words), y.view(-1))

    return Network(), words


def make_images(torch, name):
    import torchvision

    model = getattr(torchvision.models, name)(weights=None)
    model.loss = torch.nn.CrossEntropyLoss()
    forward = model.forward
    model.forward = lambda x, y: model.loss(forward(x), y)
    return model


def measure(way, name, batch, tokens=0):
    import torch
    import torch.utils.checkpoint

    batch, tokens = int(batch), int(tokens)
    torch.backends.cuda.matmul.allow_tf32 = True
    how, *options = way.split("+")
    if tokens:
        model, words = make_tokens(torch, name, tokens, "checkpoint" in options)
        x, y = (torch.randint(0, words, (batch, tokens), device="cuda") for _ in range(2))
    else:
        model = make_images(torch, name)
        x, y = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (batch,), device="cuda")
    model = model.cuda().train()
    stationary = 2 * sum(p.numel() * p.element_size() for p in model.parameters())
    optimizer = None
    if "adamw" in options:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
        stationary *= 2
    run = torch.compile(model) if how == "compiled" else model

    def step():
        model.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = run(x, y)
        loss.backward()
        if optimizer is not None:
            optimizer.step()

    if how == "eager":
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        again = step
    else:
        again = capture(torch, step)
    time = milliseconds(torch, again)
    peak = (torch.cuda.max_memory_allocated() - stationary) / 2**20
    print(json.dumps({"network": name, "batch": batch, "tokens": tokens, "way": way, "ms": round(time, 3), "mib": round(peak), "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    run_each(__file__, sys.argv[1:], 120, measure)
