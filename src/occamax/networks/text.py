"""A transformer for short texts: word and position tables, three blocks of attention, the mean over the words.

It takes token numbers, padded with 0 at the end; padding is neither attended to nor averaged.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..errors import ArgumentError
from ._parts import Feedforward, per_token, split_or_none

PADDING = 0  # the number of the token that fills a text up
HIDDEN = -1e9  # the score of what may not be attended to: finite, so that a text without a word has no NaN


class TextAttention(eqx.Module):
    """Self-attention to the words that are there."""

    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    project_out: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray):
        first, second, third, fourth = jax.random.split(key, 4)
        self.query = eqx.nn.Linear(width, width, key=first)
        self.key = eqx.nn.Linear(width, width, key=second)
        self.value = eqx.nn.Linear(width, width, key=third)
        self.project_out = eqx.nn.Linear(width, width, key=fourth)
        self.heads = heads

    def __call__(self, x: Float[Array, "words width"], is_word: Bool[Array, "words"]) -> Float[Array, "words width"]:
        words, width = x.shape
        query, key, value = (
            per_token(layer, x).reshape(words, self.heads, width // self.heads)
            for layer in (self.query, self.key, self.value)
        )
        scores = jnp.einsum("qhd,khd->hqk", query, key) * (width // self.heads) ** -0.5
        shares = jax.nn.softmax(jnp.where(is_word, scores, HIDDEN), axis=-1)
        return per_token(self.project_out, jnp.einsum("hqk,khd->qhd", shares, value).reshape(words, width))


class TextBlock(eqx.Module):
    norm_attention: eqx.nn.LayerNorm
    attention: TextAttention
    norm_feedforward: eqx.nn.LayerNorm
    feedforward: Feedforward
    dropout: eqx.nn.Dropout

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, *, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.norm_attention = eqx.nn.LayerNorm(width)
        self.attention = TextAttention(width, heads, key=first)
        self.norm_feedforward = eqx.nn.LayerNorm(width)
        self.feedforward = Feedforward(width, hidden, dropout, key=second)
        self.dropout = eqx.nn.Dropout(dropout)

    def __call__(
        self, x: Float[Array, "words width"], is_word: Bool[Array, "words"], key: PRNGKeyArray | None = None
    ) -> Float[Array, "words width"]:
        first, second = split_or_none(key, 2)
        x = x + self.dropout(self.attention(per_token(self.norm_attention, x), is_word), key=first)
        return x + self.feedforward(per_token(self.norm_feedforward, x), key=second)


class TextTransformer(eqx.Module):
    """A transformer for short texts, given as token numbers (length,), padded with 0 at the end. A norm follows the
    tables, so that their scale does not matter.

    **input_shape** (length,), **classes** the number of outputs, **words** the rows of the word table: every token
    number lies below. **depth** layers of **heads** heads and **width** channels, **hidden** units in their MLPs,
    **dropout**; **key** of the first weights.

    Raises:
        ArgumentError: examples of more than one axis, or a width that the heads cannot share.

    Examples:
        >>> small = ox.TextTransformer((5,), 2, words=100, depth=1, heads=2, width=8, hidden=8, key=jax.random.key(0))
        >>> jax.eval_shape(small, jnp.array([17, 4, 99, 0, 0])).shape
        (2,)
    """

    words: eqx.nn.Embedding
    positions: eqx.nn.Embedding
    norm_words: eqx.nn.LayerNorm
    blocks: tuple[TextBlock, ...]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(  # one option for each size
        self,
        input_shape: Sequence[int],
        classes: int,
        words: int,
        depth: int = 3,
        heads: int = 4,
        width: int = 128,
        hidden: int = 256,
        dropout: float = 0.0,
        *,
        key: PRNGKeyArray,
    ):
        if len(input_shape) != 1:
            raise ArgumentError(
                f"input_shape: {tuple(input_shape)} given; a text transformer takes token numbers (length,). Open a "
                "set of texts, such as film_snippets"
            )
        if width % heads:
            raise ArgumentError(f"heads: {heads} given; the width, {width}, must be a multiple of it")
        first, second, last, *keys = jax.random.split(key, depth + 3)
        self.words = eqx.nn.Embedding(words, width, key=first)
        self.positions = eqx.nn.Embedding(input_shape[0], width, key=second)
        self.norm_words = eqx.nn.LayerNorm(width)
        self.blocks = tuple(TextBlock(width, heads, hidden, dropout, key=own) for own in keys)
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, classes, key=last)
        self.dropout = eqx.nn.Dropout(dropout)

    def __call__(self, tokens: Int[Array, "length"], key: PRNGKeyArray | None = None) -> Float[Array, "classes"]:
        first, *keys = split_or_none(key, len(self.blocks) + 1)
        is_word = tokens != PADDING
        x = jax.vmap(self.words)(tokens) + self.positions.weight
        x = self.dropout(per_token(self.norm_words, x), key=first)
        for block, own in zip(self.blocks, keys, strict=True):
            x = block(x, is_word, key=own)
        present = is_word.astype(x.dtype)[:, None]
        mean = jnp.sum(x * present, axis=0) / jnp.maximum(jnp.sum(present), 1.0)
        return self.head(self.norm(mean))
