"""Small models with buffers that change in the forward part, as people write them: averages, counters, codebooks, caches,
norms that are called twice, buffers that are read before and after their change, in one graph and in several.

make(name) gives a module that returns a loss, and its inputs. The first TEN are those that are tried by default.
REFUSED read inputs that are changed outside of the graphs."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from everyday import Step

MODELS, REFUSED, TEN = {}, {}, 10


def model(make):
    MODELS[make.__name__.replace("_", " ")] = make
    return make


def refused(make):
    REFUSED[make.__name__.replace("_", " ")] = make
    return make


def make(name):
    torch.manual_seed(0)
    return {**MODELS, **REFUSED}[name]()


def step(loss, buffers=None, **modules):
    """A Step with buffers by name."""
    made = Step(loss, **modules)
    for name, value in (buffers or {}).items():
        made.register_buffer(name, value)
    return made


def images(n=4, channels=3, size=8):
    return torch.randn(n, channels, size, size)


def chain(h, mean):
    for _ in range(5):
        h = ((h + mean).square().tanh() * torch.exp(mean)).sin()
    return h


@model
def chain_in_one_graph():
    def loss(m, x):
        h = chain(m.first(x), m.mean)
        with torch.no_grad():
            m.mean.lerp_(h.mean(0), 0.3)
        return m.second(chain(h, m.mean.clone())).square().mean()
    return step(loss, dict(mean=torch.randn(8)), first=nn.Linear(6, 8), second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def average_read_before_and_after():
    def loss(m, x):
        h = m.first(x)
        centred = (h - m.mean).square()
        with torch.no_grad():
            m.mean.lerp_(h.mean(0), 0.3)
        return m.second(centred * (h - m.mean).cos()).square().mean()
    return step(loss, dict(mean=torch.randn(8)), first=nn.Linear(6, 8), second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def batch_norm_with_its_statistics_as_weights():
    def loss(m, x):
        h = m.first(x)
        scaled = h * m.scale[:, None, None]
        h = F.batch_norm(h - scaled.mean(1, keepdim=True), m.scale, m.shift, m.shift, m.scale, training=True, momentum=0.3)
        return m.second(h.relu() * scaled).square().mean()
    return step(loss, dict(scale=torch.rand(4), shift=torch.rand(4)), first=nn.Conv2d(3, 4, 3),
                second=nn.Conv2d(4, 2, 1)), (images(),)


@model
def batch_norm_called_twice():
    return step(lambda m, x: m.norm(m.second(m.norm(m.first(x)).relu())).square().mean() + m.norm(m.first(x)).cos().mean(),
                first=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4), second=nn.Conv2d(4, 4, 1)), (images(),)


@model
def batch_renormalisation():
    def loss(m, x):
        h = m.first(x)
        mean, deviation = h.mean((0, 2, 3)), h.var((0, 2, 3), unbiased=False).add(1e-5).sqrt()
        r = (deviation.detach() / m.deviation).clamp(1 / 3, 3)
        d = ((mean.detach() - m.mean) / m.deviation).clamp(-5, 5)
        made = (h - mean[:, None, None]) / deviation[:, None, None] * r[:, None, None] + d[:, None, None]
        m.mean += 0.1 * (mean.detach() - m.mean)
        m.deviation += 0.1 * (deviation.detach() - m.deviation)
        return m.second(made.relu()).square().mean()
    return step(loss, dict(mean=torch.zeros(4), deviation=torch.ones(4)), first=nn.Conv2d(3, 4, 3),
                second=nn.Conv2d(4, 2, 1)), (images(),)


@model
def spectral_norm_of_convolutions():
    return step(lambda m, x, y: m.c(m.a(x).relu()).mean() - m.c(m.a(y).relu()).mean().tanh(),
                a=parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)), c=parametrizations.spectral_norm(
                    nn.ConvTranspose2d(4, 2, 3))), (images(), images())


@model
def codebook():
    def loss(m, x):
        h = m.first(x)
        nearest = torch.cdist(h, m.codes).argmin(1)
        quantised = m.codes[nearest]
        with torch.no_grad():
            hot = F.one_hot(nearest, 5).to(h.dtype)
            m.sizes.mul_(0.9).add_(hot.sum(0), alpha=0.1)
            m.sums.mul_(0.9).add_(hot.t() @ h, alpha=0.1)
            m.codes.copy_(m.sums / (m.sizes[:, None] + 1e-3))
        return m.second(h + (quantised - h).detach()).square().mean() + 0.25 * F.mse_loss(h, quantised)
    codes = torch.randn(5, 8)
    return step(loss, dict(codes=codes, sums=codes.clone(), sizes=torch.ones(5)), first=nn.Linear(6, 8),
                second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def cache_at_a_position():
    def loss(m, x):
        h = m.k(x)
        with torch.no_grad():
            m.cache.index_copy_(1, m.position, h[:, :1])
            m.position.add_(1).remainder_(6)
        return m.q(h + m.cache[:, :4] * m.position).square().mean()
    return step(loss, dict(cache=torch.zeros(2, 6, 8), position=torch.zeros(1, dtype=torch.long)), q=nn.Linear(8, 3),
                k=nn.Linear(6, 8)), (torch.randn(2, 4, 6),)


@model
def chain_of_a_clone():
    @torch.compiler.disable
    def outside(norm, h):
        return norm(h)

    def loss(m, x):
        h = chain(m.first(x), m.norm.running_mean.clone())
        return m.second(outside(m.norm, h).relu() - m.norm.running_mean).square().mean()
    return step(loss, first=nn.Linear(6, 8), norm=nn.BatchNorm1d(8), second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def norm_of_two_graphs():
    def loss(m, x):
        h = m.norm(m.first(x)).relu()
        torch._dynamo.graph_break()
        return m.norm(m.second(h)).square().mean()
    return step(loss, first=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4), second=nn.Conv2d(4, 4, 3)), (images(),)


@model
def average_of_activations():
    def loss(m, x):
        h = m.first(x).tanh()
        with torch.no_grad():
            m.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
        return m.second(h - m.mean).square().mean()
    return step(loss, dict(mean=torch.zeros(8)), first=nn.Linear(6, 8), second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def batch_norm_cumulative():
    return step(lambda m, x: m.second(m.norm(m.first(x)).relu()).square().mean(), first=nn.Conv2d(3, 4, 3),
                norm=nn.BatchNorm2d(4, momentum=None), second=nn.Conv2d(4, 2, 3)), (images(),)


@model
def batch_norm_of_two_branches():
    def loss(m, x):
        a, b = m.norm(m.first(x)), m.norm(m.second(x))
        return (a.relu() * b.tanh()).square().mean() + (a - b).abs().mean()
    return step(loss, first=nn.Conv2d(3, 4, 3), second=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4)), (images(),)


@model
def batch_norm_frozen_then_trained():
    def loss(m, x):
        h = m.first(x)
        frozen = F.batch_norm(h, m.norm.running_mean, m.norm.running_var, m.norm.weight, m.norm.bias)
        return m.second(frozen.relu() + m.norm(h)).square().mean()
    return step(loss, first=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4), second=nn.Conv2d(4, 2, 1)), (images(),)


@model
def batch_norm_trained_then_frozen():
    def loss(m, x):
        h = m.norm(m.first(x)).relu()
        h = F.batch_norm(m.second(h), m.norm.running_mean, m.norm.running_var, m.norm.weight, m.norm.bias)
        return (h * m.norm.running_var[:, None, None]).square().mean()
    return step(loss, first=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4), second=nn.Conv2d(4, 4, 1)), (images(),)


@model
def synchronised_norm_in_evaluation():
    made = step(lambda m, x: m.second(m.norm(m.first(x)).relu()).square().mean(), first=nn.Conv2d(3, 4, 3),
                norm=nn.SyncBatchNorm(4).eval(), second=nn.Conv2d(4, 2, 3))
    return made, (images(),)


@model
def instance_norm_twice():
    return step(lambda m, x: (m.norm(m.first(x)).relu() * m.norm(m.second(x)) + m.norm.running_mean[:, None, None])
                .square().mean(), first=nn.Conv2d(3, 4, 3), second=nn.Conv2d(3, 4, 3),
                norm=nn.InstanceNorm2d(4, track_running_stats=True)), (images(),)


@model
def spectral_norm():
    return step(lambda m, x: m.second(m.first(x).relu()).square().mean(),
                first=parametrizations.spectral_norm(nn.Linear(6, 8)), second=parametrizations.spectral_norm(
                    nn.Linear(8, 3), n_power_iterations=2)), (torch.randn(40, 6),)


@model
def spectral_norm_called_twice():
    return step(lambda m, x: m.layer(m.layer(x).relu()).square().mean(),
                layer=parametrizations.spectral_norm(nn.Linear(6, 6))), (torch.randn(40, 6),)


@model
def counter():
    def loss(m, x):
        m.steps += 1
        return m.second(m.first(x).relu() / m.steps).square().mean() * torch.exp(-m.steps / 10)
    return step(loss, dict(steps=torch.zeros((), dtype=torch.long)), first=nn.Linear(6, 8),
                second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def loss_to_centres():
    def loss(m, x, y):
        h = m.first(x)
        distance = (h - m.centres[y]).square().sum(1).mean()
        with torch.no_grad():
            m.centres.index_add_(0, y, h.detach() - m.centres[y], alpha=0.1)
        return F.cross_entropy(m.second(h.relu()), y) + 0.1 * distance
    return step(loss, dict(centres=torch.randn(3, 8)), first=nn.Linear(6, 8), second=nn.Linear(8, 3)), (
        torch.randn(40, 6), torch.tensor([0, 1, 2, 1, 0]).repeat(8))


@model
def queue_of_negatives():
    def loss(m, x):
        q = F.normalize(m.first(x), dim=1)
        with torch.no_grad():
            for theirs, mine in zip(m.slow.parameters(), m.first.parameters()):
                theirs.mul_(0.99).add_(mine, alpha=0.01)
            k = F.normalize(m.slow(x), dim=1)
        logits = torch.cat(((q * k).sum(1, keepdim=True), q @ m.queue.clone().t()), 1) / 0.07
        m.queue[:4] = k
        m.queue.copy_(m.queue.roll(4, 0))
        return F.cross_entropy(logits, logits.new_zeros(len(x), dtype=torch.long))
    slow = nn.Linear(6, 8).requires_grad_(False)
    return step(loss, dict(queue=F.normalize(torch.randn(12, 8), dim=1)), first=nn.Linear(6, 8), slow=slow), (
        torch.randn(4, 6),)


@model
def balanced_experts():
    def loss(m, x):
        chances = m.router(x).sigmoid()
        best = (chances + m.bias).topk(2, 1)[1]
        weights = torch.zeros_like(chances).scatter(1, best, chances.gather(1, best))
        made = torch.stack([expert(x) for expert in m.experts], 1)
        with torch.no_grad():
            load = F.one_hot(best, 4).sum((0, 1)).to(x.dtype)
            m.bias.add_(torch.sign(load.mean() - load), alpha=0.01)
        return (made * weights[..., None]).sum(1).square().mean()
    return step(loss, dict(bias=torch.zeros(4)), router=nn.Linear(6, 4),
                experts=nn.ModuleList(nn.Linear(6, 6) for _ in range(4))), (torch.randn(40, 6),)


@model
def quantisation_with_an_observer():
    def loss(m, x):
        h = m.first(x)
        with torch.no_grad():
            m.low.copy_(torch.minimum(m.low, h.amin()))
            m.high.copy_(torch.maximum(m.high, h.amax()))
        scale = (m.high - m.low) / 255
        return m.second(torch.fake_quantize_per_tensor_affine(h, scale.reshape(1), torch.zeros(1, dtype=torch.int32), -128,
                                                              127)).square().mean()
    return step(loss, dict(low=torch.tensor(-0.1), high=torch.tensor(0.1)), first=nn.Linear(6, 8),
                second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def reset_and_filled():
    def loss(m, x):
        h = m.first(x)
        old = m.sums.clone()
        m.sums.zero_()
        m.sums.index_add_(0, m.rows, h.detach())
        return m.second(h - m.sums[m.rows] / 2 + old[m.rows]).square().mean()
    return step(loss, dict(sums=torch.randn(3, 8), rows=torch.tensor([0, 1, 2, 1, 0]).repeat(8)), first=nn.Linear(6, 8),
                second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def noise_in_a_buffer():
    def loss(m, x):
        h = m.first(x)
        m.noise.normal_()
        return m.second(F.dropout(h, 0.2) + m.noise * h).square().mean()
    return step(loss, dict(noise=torch.zeros(8)), first=nn.Linear(6, 8), second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@model
def weights_that_change_between():
    def loss(m, x):
        h = (m.first(x) * m.slow.weight.mean(1)).tanh()
        torch._dynamo.graph_break()
        with torch.no_grad():
            m.slow.weight.lerp_(m.first.weight, 0.1)
        return m.second(h + m.slow(x)).square().mean()
    return step(loss, first=nn.Linear(6, 8), slow=nn.Linear(6, 8).requires_grad_(False), second=nn.Linear(8, 3)), (
        torch.randn(40, 6),)


@model
def memory_of_a_recurrence():
    def loss(m, x):
        h = m.memory.clone()
        for word in x.unbind(1):
            h = torch.tanh(m.inside(word) + m.recurrent(h))
        m.memory.copy_(h.detach())
        return m.head(h * m.memory).square().mean()
    return step(loss, dict(memory=torch.zeros(2, 8)), inside=nn.Linear(6, 8), recurrent=nn.Linear(8, 8),
                head=nn.Linear(8, 3)), (torch.randn(2, 4, 6),)


@refused
def chain_before_a_norm_outside():
    @torch.compiler.disable
    def outside(norm, h):
        return norm(h)

    def loss(m, x):
        h = chain(m.first(x), m.norm.running_mean)
        return m.second(outside(m.norm, h).relu() - m.norm.running_mean).square().mean()
    return step(loss, first=nn.Linear(6, 8), norm=nn.BatchNorm1d(8), second=nn.Linear(8, 3)), (torch.randn(40, 6),)


@refused
def chain_of_an_input_that_changes_outside():
    @torch.compiler.disable
    def note(x):
        x.data.mul_(0.5)

    def loss(m, x):
        h = chain(m.first.weight.sum(), x)
        note(x)
        return m.second(m.first(h)).square().mean()
    return step(loss, first=nn.Linear(6, 8), second=nn.Linear(8, 3)), (torch.randn(40, 6),)
