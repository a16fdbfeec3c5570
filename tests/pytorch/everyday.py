"""Small models of the kinds that people train, as they write them: recurrent, mixtures of experts, heads of detectors,
parametrizations, checkpoints inside the model, own autograd functions, functional transforms, unusual losses.

make(name) gives a module that returns a loss, and its inputs."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Step(nn.Module):
    """Modules by name, and a function of them and the inputs that gives the loss."""

    def __init__(self, loss, **modules):
        super().__init__()
        self.loss = loss
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        return self.loss(self, *inputs)


MODELS = {}


def model(make):
    MODELS[make.__name__.replace("_", " ")] = make
    return make


def make(name):
    torch.manual_seed(0)
    return MODELS[name]()


@model
def lstm():
    return Step(lambda m, x: m.head(m.rnn(x)[0]).square().mean(), rnn=nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True),
                head=nn.Linear(16, 3)), (torch.randn(2, 5, 6),)


@model
def gru_cell_in_a_loop():
    def loss(m, x):
        h = x.new_zeros(x.shape[0], 8)
        for word in x.unbind(1):
            h = m.cell(word, h)
        return m.head(h).square().mean()
    return Step(loss, cell=nn.GRUCell(6, 8), head=nn.Linear(8, 3)), (torch.randn(2, 5, 6),)


@model
def packed_sequence():
    def loss(m, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(m.rnn(packed)[0], batch_first=True)[0].square().mean()
    return Step(loss, rnn=nn.GRU(6, 8, batch_first=True)), (torch.randn(2, 5, 6),)


@model
def mixture_of_experts():
    """Every expert sees its own words: their number depends on data."""
    def loss(m, x):
        x = x.flatten(0, 1)
        weights, chosen = m.router(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(m.experts):
            rows, places = torch.where(chosen == number)
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows, places, None])
        return out.square().mean()
    return Step(loss, router=nn.Linear(8, 3),
                experts=nn.ModuleList(nn.Linear(8, 8) for _ in range(3))), (torch.randn(2, 5, 8),)


@model
def dense_experts():
    def loss(m, x):
        weights = m.router(x).softmax(-1)
        return torch.stack([expert(x) for expert in m.experts], -1).mul(weights[..., None, :]).sum(-1).square().mean()
    return Step(loss, router=nn.Linear(8, 3),
                experts=nn.ModuleList(nn.Linear(8, 8) for _ in range(3))), (torch.randn(2, 5, 8),)


@model
def detection_head():
    """Boxes and classes of cells, with a loss on the cells that hold something."""
    def loss(m, x, boxes, classes):
        h = F.relu(m.body(x))
        found, scores = m.boxes(h).permute(0, 2, 3, 1).flatten(1, 2), m.classes(h).permute(0, 2, 3, 1).flatten(1, 2)
        mask = (classes > 0).float()
        distance = F.smooth_l1_loss(found, boxes, reduction="none").sum(-1)
        return (distance * mask).sum() / mask.sum() + F.cross_entropy(scores.flatten(0, 1), classes.flatten())
    return Step(loss, body=nn.Conv2d(3, 8, 3, padding=1), boxes=nn.Conv2d(8, 4, 1), classes=nn.Conv2d(8, 5, 1)), (
        torch.randn(2, 3, 4, 4), torch.rand(2, 16, 4), torch.randint(0, 5, (2, 16)))


@model
def weight_norm():
    return Step(lambda m, x: m.layer(x).square().mean(), layer=nn.utils.parametrizations.weight_norm(nn.Linear(6, 8))), (
        torch.randn(4, 6),)


@model
def spectral_norm():
    """Power iterations change buffers in the forward part."""
    return Step(lambda m, x: m.layer(x).square().mean(), layer=nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8))), (
        torch.randn(4, 6),)


@model
def batch_norm_average():
    """Running statistics as an average: the factor is computed from the count."""
    return Step(lambda m, x: m.norm(m.conv(x)).square().mean() + m.norm(x.tanh()).mean(), conv=nn.Conv2d(3, 3, 3, padding=1),
                norm=nn.BatchNorm2d(3, momentum=None)), (torch.randn(4, 3, 5, 5),)


@model
def norms():
    return Step(lambda m, x: m.last(m.local(m.instance(m.group(m.conv(x)))).flatten(1)).square().mean(),
                conv=nn.Conv2d(3, 4, 3), group=nn.GroupNorm(2, 4), instance=nn.InstanceNorm2d(4, affine=True,
                                                                                              track_running_stats=True),
                local=nn.LocalResponseNorm(2), last=nn.RMSNorm(64)), (torch.randn(4, 3, 6, 6),)


@model
def checkpoint_inside():
    def loss(m, x):
        for block in m.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x.square().mean()
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.GELU()) for _ in range(3))
    return Step(loss, blocks=blocks), (torch.randn(4, 8),)


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * (x.abs() < 2)


@model
def own_autograd_function():
    return Step(lambda m, x: m.b(Clipped.apply(m.a(x))).square().mean(), a=nn.Linear(6, 8),
                b=nn.Linear(8, 3)), (torch.randn(4, 6),)


@model
def straight_through():
    def loss(m, x):
        h = m.a(x)
        return m.b(h + (h.round() - h).detach()).square().mean()
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(8, 3)), (torch.randn(4, 6),)


@model
def vector_quantized():
    def loss(m, x):
        h = m.a(x)
        near = m.codes(torch.cdist(h, m.codes.weight).argmin(-1))
        quantized = h + (near - h).detach()
        return F.mse_loss(near, h.detach()) + 0.2 * F.mse_loss(h, near.detach()) + m.b(quantized).square().mean()
    return Step(loss, a=nn.Linear(6, 8), codes=nn.Embedding(5, 8), b=nn.Linear(8, 3)), (torch.randn(4, 6),)


@model
def functional_call():
    def loss(m, x):
        weights = {name: p * 0.9 for name, p in m.a.named_parameters()}
        return torch.func.functional_call(m.a, weights, (x,)).square().mean()
    return Step(loss, a=nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))), (torch.randn(4, 6),)


@model
def vmapped():
    return Step(lambda m, x: torch.vmap(lambda row: m.a(row) * row.sum())(x).square().mean(), a=nn.Linear(6, 8)), (
        torch.randn(4, 6),)


@model
def jvp_inside():
    def loss(m, x):
        value, slope = torch.func.jvp(lambda z: m.a(z).tanh(), (x,), (torch.ones_like(x),))
        return value.square().mean() + slope.square().mean()
    return Step(loss, a=nn.Linear(6, 8)), (torch.randn(4, 6),)


@model
def fourier_layer():
    def loss(m, x):
        spectrum = torch.fft.rfft(x) * torch.view_as_complex(m.a.weight.view(4, -1, 2)[0])
        return m.b(torch.fft.irfft(spectrum, n=x.shape[-1])).square().mean()
    return Step(loss, a=nn.Linear(10, 4), b=nn.Linear(8, 3)), (torch.randn(4, 8),)


@model
def rotary_by_complex_numbers():
    def loss(m, x):
        h = torch.view_as_complex(m.a(x).unflatten(-1, (-1, 2)))
        turned = h * torch.polar(torch.ones(5, 1), torch.arange(5.0)[:, None])
        return m.b(torch.view_as_real(turned).flatten(-2)).square().mean()
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(8, 3)), (torch.randn(2, 5, 6),)


@model
def embedding_bag():
    return Step(lambda m, n, starts: m.head(m.bag(n, starts)).square().mean(), bag=nn.EmbeddingBag(9, 8, mode="mean"),
                head=nn.Linear(8, 3)), (torch.randint(0, 9, (10,)), torch.tensor([0, 4, 7]))


@model
def tied_embedding():
    def loss(m, n):
        logits = F.linear(m.body(m.words(n)), m.words.weight)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), n[:, 1:].flatten())
    return Step(loss, words=nn.Embedding(9, 8, padding_idx=0), body=nn.Linear(8, 8)), (torch.randint(0, 9, (2, 6)),)


@model
def ctc():
    def loss(m, x, labels):
        return F.ctc_loss(m.a(x).log_softmax(-1), labels, torch.tensor([6, 6]), torch.tensor([3, 2]))
    return Step(loss, a=nn.Linear(4, 5)), (torch.randn(6, 2, 4), torch.randint(1, 5, (2, 3)))


@model
def spatial_transformer():
    def loss(m, x):
        grid = F.affine_grid(m.a(x.flatten(1)).view(-1, 2, 3), x.shape, align_corners=False)
        return m.b(F.grid_sample(x, grid, align_corners=False)).square().mean()
    return Step(loss, a=nn.Linear(48, 6), b=nn.Conv2d(3, 4, 3)), (torch.randn(2, 3, 4, 4),)


@model
def pixel_shuffle():
    return Step(lambda m, x: F.l1_loss(F.pixel_shuffle(m.a(x), 2), F.interpolate(x, scale_factor=2, mode="bicubic")),
                a=nn.Conv2d(3, 12, 3, padding=1)), (torch.randn(2, 3, 4, 4),)


@model
def attention_with_masks():
    """One boolean mask, one added bias, and causal attention with dropout."""
    def loss(m, x):
        q, k, v = m.a(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        mask = torch.ones(5, 5, dtype=torch.bool).tril()
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        b = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.randn(5, 5))
        return (a + b + F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)).square().mean()
    return Step(loss, a=nn.Linear(6, 24)), (torch.randn(2, 5, 6),)


@model
def transformer_with_padding():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return Step(lambda m, x, pad: m.body(x, src_key_padding_mask=pad).square().mean(),
                body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)), (
        torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))


@model
def sequence_to_sequence():
    return Step(lambda m, a, b: m.body(a, b, tgt_mask=nn.Transformer.generate_square_subsequent_mask(4)).square().mean(),
                body=nn.Transformer(8, 2, 1, 1, 16, batch_first=True)), (torch.randn(2, 5, 8), torch.randn(2, 4, 8))


@model
def nested_autocast():
    def loss(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = m.a(x).relu()
            with torch.autocast("cpu", enabled=False):
                h = m.b(h.float())
            return m.c(h).float().square().mean()
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 3)), (torch.randn(4, 6),)


@model
def moving_average_of_activations():
    """A buffer that the model reads after it was changed."""
    def loss(m, x):
        h = m.a(x)
        with torch.no_grad():
            m.running.lerp_(h.mean(0), 0.1)
            m.count += 1
        return (h - m.running).square().mean() / (1 + m.count)
    module = Step(loss, a=nn.Linear(6, 8))
    module.register_buffer("running", torch.zeros(8))
    module.register_buffer("count", torch.zeros(()))
    return module, (torch.randn(4, 6),)


@model
def break_in_the_middle():
    def loss(m, x):
        h = m.a(x).relu()
        torch._dynamo.graph_break()
        return m.b(h).square().mean()
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(8, 3)), (torch.randn(4, 6),)


@model
def branch_on_a_value():
    def loss(m, x):
        h = m.a(x)
        return (m.b(h) if h.sum() > 0 else m.c(h)).square().mean()
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(8, 3), c=nn.Linear(8, 3)), (torch.randn(4, 6),)


@model
def diffusion_step():
    def loss(m, x, t):
        noise = torch.randn_like(x)
        level = torch.cos(t[:, None] * 0.1)
        noisy = level * x + (1 - level * level).sqrt() * noise
        return F.mse_loss(m.b(F.silu(m.a(noisy) + m.time(t[:, None]))), noise)
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(8, 6), time=nn.Linear(1, 8)), (torch.randn(4, 6), torch.rand(4))


@model
def variational_autoencoder():
    def loss(m, x):
        mean, log_variance = m.a(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        kept = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(-1).mean()
        return F.binary_cross_entropy_with_logits(m.b(z), x.sigmoid()) + 0.1 * kept
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(4, 6)), (torch.randn(4, 6),)


@model
def contrastive():
    def loss(m, a, b):
        a, b = F.normalize(m.a(a), dim=-1), F.normalize(m.b(b), dim=-1)
        logits, places = a @ b.t() * m.scale.weight.exp().mean(), torch.arange(4)
        return F.cross_entropy(logits, places) + F.cross_entropy(logits.t(), places)
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(5, 8), scale=nn.Linear(1, 1)), (torch.randn(4, 6), torch.randn(4, 5))


@model
def graph_convolution():
    def loss(m, x, edges):
        for layer in (m.a, m.b):
            sent = layer(x)[edges[0]]
            x = torch.zeros(5, sent.shape[1]).index_add_(0, edges[1], sent).relu()
        return x.scatter_reduce(0, edges[1][:5, None].expand(5, x.shape[1]), x, "amax").square().mean()
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(8, 8)), (torch.randn(5, 6), torch.randint(0, 5, (2, 9)))


@model
def state_space_scan():
    def loss(m, x):
        a, b = m.a(x).sigmoid(), m.b(x)
        states, h = [], torch.zeros_like(b[:, 0])
        for t in range(x.shape[1]):
            h = a[:, t] * h + b[:, t]
            states.append(h)
        return (torch.stack(states, 1) * F.silu(m.c(x))).square().mean()
    return Step(loss, a=nn.Linear(6, 8), b=nn.Linear(6, 8), c=nn.Linear(6, 8)), (torch.randn(2, 6, 6),)


@model
def unet_with_skips():
    def loss(m, x):
        down = F.relu(m.a(x), inplace=True)
        deep = F.relu(m.b(F.max_pool2d(down, 2)), inplace=True)
        up = F.interpolate(deep, scale_factor=2, mode="bilinear", align_corners=True)
        return m.c(torch.cat((down, up), 1)).square().mean()
    return Step(loss, a=nn.Conv2d(3, 4, 3, padding=1), b=nn.Conv2d(4, 8, 3, padding=1), c=nn.ConvTranspose2d(12, 3, 2, 2)), (
        torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),)
