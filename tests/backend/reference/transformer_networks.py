"""The transformers of the zoo in PyTorch, in the small sizes of networks.def; see networks.py.

Rotary embedding, attention and norms are written with torch's own functions; queries, keys and
values are one product, as in Cairn.
"""

import torch
import torch.nn.functional as F


def linear(net, name, x, features, bias=True):
    weight = net.parameter(f"{name}.weight", features, x.shape[-1])
    return F.linear(x, weight, net.parameter(f"{name}.bias", features) if bias else None)


def layer_norm(net, name, x, epsilon):
    width = x.shape[-1]
    weight, bias = net.parameter(f"{name}.weight", width), net.parameter(f"{name}.bias", width)
    return F.layer_norm(x, [width], weight, bias, epsilon)


def rms_norm(net, name, x, epsilon):
    return F.rms_norm(x, [x.shape[-1]], net.parameter(f"{name}.weight", x.shape[-1]), epsilon)


def split_heads(packed, heads, kv_heads):
    """Queries [N, H, T, d], keys and values [N, K, T, d]."""
    batch, tokens, width = packed.shape
    size = width // (heads + 2 * kv_heads)
    each = packed.view(batch, tokens, heads + 2 * kv_heads, size).transpose(1, 2)
    return each.split([heads, kv_heads, kv_heads], 1)


def attend(q, k, v, causal):
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def scaled_frequency(frequency, scaling):
    """That of Llama 3, as Hugging Face computes it."""
    length = 2 * torch.pi / frequency
    share = (8192 / length - 1) / (4 - 1)
    mixed = (1 - share) * frequency / scaling + share * frequency
    slow = torch.where(length > 8192, frequency / scaling, mixed)
    return torch.where(length < 8192 / 4, frequency, slow)


def rotate(x, theta, scaling):
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    frequency = scaled_frequency(frequency, scaling)
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def gpt2(net, tokens, classes):
    width, heads, ffn, positions, epsilon = 32, 2, 128, 1024, 1e-5
    table = net.parameter("transformer.wte.weight", classes, width)
    x = table[tokens] + net.parameter("transformer.wpe.weight", positions, width)[: tokens.shape[1]]
    for i in range(2):
        n = f"transformer.h.{i}"
        y = linear(net, f"{n}.attn.c_attn", layer_norm(net, f"{n}.ln_1", x, epsilon), 3 * width)
        x = x + linear(net, f"{n}.attn.c_proj", attend(*split_heads(y, heads, heads), True), width)
        y = linear(net, f"{n}.mlp.c_fc", layer_norm(net, f"{n}.ln_2", x, epsilon), ffn)
        x = x + linear(net, f"{n}.mlp.c_proj", F.gelu(y, approximate="tanh"), width)
    return F.linear(layer_norm(net, "transformer.ln_f", x, epsilon), table)


def llama(net, tokens, classes):
    width, heads, kv_heads, ffn, theta, scaling, epsilon = 32, 4, 2, 48, 500000.0, 32, 1e-5
    table = net.parameter("model.embed_tokens.weight", classes, width)
    x = table[tokens]
    for i in range(2):
        n = f"model.layers.{i}"
        packed = width // heads * (heads + 2 * kv_heads)
        y = rms_norm(net, f"{n}.input_layernorm", x, epsilon)
        q, k, v = split_heads(linear(net, f"{n}.self_attn.qkv_proj", y, packed, False), heads, kv_heads)
        y = attend(rotate(q, theta, scaling), rotate(k, theta, scaling), v, True)
        x = x + linear(net, f"{n}.self_attn.o_proj", y, width, False)
        y = rms_norm(net, f"{n}.post_attention_layernorm", x, epsilon)
        gate, up = linear(net, f"{n}.mlp.gate_up_proj", y, 2 * ffn, False).chunk(2, -1)
        x = x + linear(net, f"{n}.mlp.down_proj", F.silu(gate) * up, width, False)
    return F.linear(rms_norm(net, "model.norm", x, epsilon), table)


def bert_base(net, tokens, classes):
    width, heads, ffn, positions, epsilon = 32, 2, 128, 512, 1e-12
    n = "bert.embeddings"
    table = net.parameter(f"{n}.word_embeddings.weight", classes, width)
    x = table[tokens] + net.parameter(f"{n}.position_embeddings.weight", positions, width)[: tokens.shape[1]]
    x = layer_norm(net, f"{n}.LayerNorm", x + net.parameter(f"{n}.token_type_embeddings.weight", 2, width)[0], epsilon)
    for i in range(2):
        n = f"bert.encoder.layer.{i}"
        y = attend(*split_heads(linear(net, f"{n}.attention.self.qkv", x, 3 * width), heads, heads), False)
        y = linear(net, f"{n}.attention.output.dense", y, width)
        x = layer_norm(net, f"{n}.attention.output.LayerNorm", x + y, epsilon)
        y = linear(net, f"{n}.output.dense", F.gelu(linear(net, f"{n}.intermediate.dense", x, ffn)), width)
        x = layer_norm(net, f"{n}.output.LayerNorm", x + y, epsilon)
    n = "cls.predictions"
    x = F.gelu(linear(net, f"{n}.transform.dense", x, width))
    x = layer_norm(net, f"{n}.transform.LayerNorm", x, epsilon)
    return F.linear(x, table, net.parameter(f"{n}.bias", classes))


def vit_b_16(net, x, classes):
    width, heads, ffn, epsilon = 32, 2, 128, 1e-6
    x = net.conv("conv_proj", x, width, 16, 16, bias=True).flatten(2).transpose(1, 2)
    token = net.parameter("class_token", width).expand(x.shape[0], 1, width)
    x = torch.cat([token, x], 1)
    x = x + net.parameter("encoder.pos_embedding", x.shape[1], width)
    for i in range(2):
        n = f"encoder.layers.encoder_layer_{i}"
        y = layer_norm(net, f"{n}.ln_1", x, epsilon)
        weight = net.parameter(f"{n}.self_attention.in_proj_weight", 3 * width, width)
        y = F.linear(y, weight, net.parameter(f"{n}.self_attention.in_proj_bias", 3 * width))
        y = attend(*split_heads(y, heads, heads), False)
        x = x + linear(net, f"{n}.self_attention.out_proj", y, width)
        y = F.gelu(linear(net, f"{n}.mlp.0", layer_norm(net, f"{n}.ln_2", x, epsilon), ffn))
        x = x + linear(net, f"{n}.mlp.3", y, width)
    return net.linear("heads.head", layer_norm(net, "encoder.ln", x, epsilon)[:, 0], classes)
