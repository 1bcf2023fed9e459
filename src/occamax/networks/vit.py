"""Vision transformer: patches of 4 × 4, six layers, eight heads, a class token, learned positions."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ._parts import Feedforward, cut, per_token, split_or_none


class Attention(eqx.Module):
    """Self-attention over all tokens; query, key and value come from one linear layer."""

    project_in: eqx.nn.Linear
    project_out: eqx.nn.Linear
    dropout: eqx.nn.Dropout
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, dropout: float = 0.0, *, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.project_in = eqx.nn.Linear(width, 3 * width, key=first)
        self.project_out = eqx.nn.Linear(width, width, key=second)
        self.dropout = eqx.nn.Dropout(dropout)
        self.heads = heads

    def __call__(
        self, x: Float[Array, "tokens width"], real: int | None = None, key: PRNGKeyArray | None = None
    ) -> Float[Array, "tokens width"]:
        tokens, width = x.shape
        parts = per_token(self.project_in, x).reshape(tokens, 3, self.heads, width // self.heads)
        mixed = attend(parts[:, 0], parts[:, 1], parts[:, 2], tokens if real is None else real)
        return self.dropout(per_token(self.project_out, mixed.reshape(tokens, width)), key=key)


def has_fused_attention(dtype: jnp.dtype) -> bool:
    """Whether cuDNN's attention can be used: half precision on an NVIDIA GPU."""
    return dtype == jnp.bfloat16 and jax.default_backend() == "gpu"


def attend(
    query: Float[Array, "tokens heads depth"],
    key: Float[Array, "tokens heads depth"],
    value: Float[Array, "tokens heads depth"],
    real: int,
) -> Float[Array, "tokens heads depth"]:
    """Attention to the first `real` tokens; the others are padding."""
    if not has_fused_attention(query.dtype):
        lengths = None if real == len(key) else jnp.full(1, real, jnp.int32)
        return jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)
    lengths = jnp.full(1, real, jnp.int32)
    batched = (part[None] for part in (query, key, value))
    return jax.nn.dot_product_attention(
        *batched, query_seq_lengths=lengths, key_value_seq_lengths=lengths, implementation="cudnn"
    )[0]


class TransformerBlock(eqx.Module):
    norm_attention: eqx.nn.LayerNorm
    attention: Attention
    norm_feedforward: eqx.nn.LayerNorm
    feedforward: Feedforward

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, *, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.norm_attention = eqx.nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout, key=first)
        self.norm_feedforward = eqx.nn.LayerNorm(width)
        self.feedforward = Feedforward(width, hidden, dropout, key=second)

    def __call__(
        self, x: Float[Array, "tokens width"], real: int | None = None, key: PRNGKeyArray | None = None
    ) -> Float[Array, "tokens width"]:
        first, second = split_or_none(key, 2)
        x = x + self.attention(per_token(self.norm_attention, x), real, key=first)
        return x + self.feedforward(per_token(self.norm_feedforward, x), key=second)


class ViT(eqx.Module):
    """A vision transformer over square patches of an image (channels, height, width), with a class token.

    **input_shape** of one image, **classes** the number of outputs; **patch** pixels a side, **depth** layers of
    **heads** heads and **width** channels, **hidden** units in their MLPs, **dropout**; **key** of the first weights.

    Examples:
        >>> small = ox.ViT((3, 8, 8), 10, depth=1, heads=2, width=8, hidden=8, key=jax.random.key(0))
        >>> jax.eval_shape(small, jnp.zeros((3, 8, 8))).shape
        (10,)
    """

    tokens: eqx.nn.Embedding  # row 0 is the class token, the other rows are added to it and to the patches
    embed: eqx.nn.Linear
    norm_embed: eqx.nn.LayerNorm
    blocks: tuple[TransformerBlock, ...]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear
    patch: int = eqx.field(static=True)

    def __init__(  # one option for each size of the paper's network
        self,
        input_shape: Sequence[int],
        classes: int,
        patch: int = 4,
        depth: int = 6,
        heads: int = 8,
        width: int = 256,
        hidden: int = 512,
        dropout: float = 0.0,
        *,
        key: PRNGKeyArray,
    ):
        channels, height, columns = input_shape
        patches = (height // patch) * (columns // patch)
        first, second, last, *keys = jax.random.split(key, depth + 3)
        self.tokens = eqx.nn.Embedding(patches + 2, width, key=first)
        self.embed = eqx.nn.Linear(channels * patch * patch, width, key=second)
        self.norm_embed = eqx.nn.LayerNorm(width)
        self.blocks = tuple(TransformerBlock(width, heads, hidden, dropout, key=k) for k in keys)
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, classes, key=last)
        self.patch = patch

    def __call__(
        self, image: Float[Array, "channels height width"], key: PRNGKeyArray | None = None
    ) -> Float[Array, "classes"]:
        patches = per_token(self.norm_embed, per_token(self.embed, cut(image, self.patch)))
        class_token, positions = self.tokens.weight[:1], self.tokens.weight[1:]
        x = jnp.concatenate([class_token, patches]) + positions
        real = len(x)
        if has_fused_attention(x.dtype):  # it takes an even number of tokens; padded once, not in every layer
            x = jnp.pad(x, ((0, real % 2), (0, 0)))
        for block, k in zip(self.blocks, split_or_none(key, len(self.blocks)), strict=True):
            x = block(x, real, key=k)
        return self.head(self.norm(x[0]))
