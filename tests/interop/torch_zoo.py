"""PyTorch modules, small, one for each layer that is supported: name → how it is made, one example."""

import numpy as np
import torch
from torch import nn


class Residual(nn.Module):
    """Convolution, BatchNorm, GroupNorm and pooling on a stream with a block on it."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.inner, self.inner_norm = nn.Conv2d(6, 6, 3, padding=1), nn.GroupNorm(2, 6)
        self.apart = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(6, 3)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.stem(x))))
        x = x + self.apart(nn.functional.silu(self.inner_norm(self.inner(x))))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(9, 4), kind(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, tokens):
        return self.head(self.cell(self.embed(tokens))[0][:, -1])


class Tied(nn.Module):
    """Words in, words out, by one table."""

    def __init__(self):
        super().__init__()
        self.table, self.middle, self.out = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7)
        self.out.weight = self.table.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.middle(self.table(tokens).mean(1))))


class Attention(nn.Module):
    """Both ways to have attention, LayerNorm, and positions that are a buffer."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Linear(5, 8), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.project, self.head = nn.Linear(8, 24), nn.Linear(8, 3)
        self.register_buffer("places", torch.linspace(-1, 1, 4)[:, None])

    def forward(self, x):
        x = self.embed(x) + self.places
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.head((x + mixed).mean(1))


def _sequence():
    return nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.GELU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(12, 6),
        nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 3),
    )  # fmt: skip


def _numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _tokens(*shape, count=7):
    return np.random.default_rng(0).integers(0, count, shape).astype(np.int32)


NETWORKS = {
    "linear": (lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)), _numbers(5)),
    "residual": (Residual, _numbers(2, 8, 8)),
    "sequence": (_sequence, _numbers(2, 8)),
    "attention": (Attention, _numbers(4, 5)),
    "lstm": (lambda: Recurrent(nn.LSTM), _tokens(5)),
    "gru": (lambda: Recurrent(nn.GRU), _tokens(5)),
    "tied": (Tied, _tokens(5)),
}


def make(name, seed=0):
    """The module, its running statistics moved away from their start, and an example."""
    build, example = NETWORKS[name]
    torch.manual_seed(seed)
    module = build()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for own, buffer in module.named_buffers():
            if "running" in own:
                buffer.add_(torch.rand_like(buffer))
    return module.eval(), example


def batch_like(example, count=6):
    generator = np.random.default_rng(1)
    if example.dtype.kind == "i":
        return generator.integers(0, 7, (count, *example.shape)).astype(np.int32)
    return generator.normal(size=(count, *example.shape)).astype(np.float32)
